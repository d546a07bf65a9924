"""Opens the console for IAM callers (`governor open`), by a code that is good once, and for a
minute.

This module must not make or take codes where people sign in at an issuer.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta

from governor.approvals.model.terms import Code, SignIn
from governor.approvals.store.sessions import SignIns
from governor.core.errors import NotAllowed
from governor.core.ports import Clock

_GOOD_FOR = timedelta(seconds=60)
CODE_SESSION_LASTS = timedelta(hours=1)
_RANDOM_BYTES = 32
_USED = "This code was used already. If that was not you, ask who can read your terminal."


@dataclass(frozen=True, slots=True)
class OpenConsole:
    """Makes codes, and exchanges each one for a session with its caller's permissions."""

    sign_in_store: SignIns
    clock: Clock
    issuer: str
    """Where people sign in; empty if they cannot."""
    base_url: str = ""
    """The console's address. Only making a code needs it."""

    def __call__(self, arn: str) -> str:
        """Store a new code for the IAM caller with this ARN, good once and for a minute, and return
        the address to open: `<base URL>/console#<code>`.

        The code is the fragment of the address, because browsers send no fragment to a server.
        Raises: NotAllowed if people sign in at an issuer; ConflictError if the code seems to be
        stored already; CloudError.
        """
        if self.issuer:
            raise NotAllowed(
                f"people sign in at the issuer here: open {self.base_url}/ in a browser"
            )
        secret = secrets.token_urlsafe(_RANDOM_BYTES)
        self.sign_in_store.keep_code(secret, Code(arn, self.clock.now() + _GOOD_FOR))
        return f"{self.base_url}/console#{secret}"

    def caller(self, secret: str) -> str:
        """Return the ARN of the caller for whom the code `secret` was made. The code stays good.

        Raises: NotAllowed if the code is unknown, used or too old, or people sign in at an issuer;
        CloudError.
        """
        if self.issuer:
            raise NotAllowed("People sign in at the issuer here: codes open nothing.")
        code = self.sign_in_store.code(secret)
        if code is None:
            raise NotAllowed("GPU Governor did not make this code.")
        if code.used_at is not None:
            raise NotAllowed(_USED)
        if self.clock.now() >= code.ends_at:
            raise NotAllowed("This code is older than a minute.")
        return code.arn

    def open_session(self, secret: str) -> tuple[str, SignIn]:
        """Use up the code `secret`, and store a new session for its caller. Return the id of the
        session, and its sign-in. Raises: NotAllowed if the code is unknown, used (also by another
        request at this moment) or too old, or people sign in at an issuer; ConflictError if the
        session seems to be stored already; CloudError."""
        arn = self.caller(secret)
        now = self.clock.now()
        if not self.sign_in_store.use_code(secret, now):
            raise NotAllowed(_USED)  # Another request was faster.
        session_id = secrets.token_urlsafe(_RANDOM_BYTES)
        identity = f"aws:{arn}"
        sign_in = SignIn(identity, by=identity, at=now, ends_at=now + CODE_SESSION_LASTS)
        self.sign_in_store.keep_session(session_id, sign_in)
        return session_id, sign_in
