"""The way into the console for IAM callers where no issuer is: a code, good once and for a
minute."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.approvals.terms import Code, SignIn
from governor.errors import NotAllowed
from governor.ports import Clock
from governor.stores.sessions import SignIns

_GOOD_FOR = timedelta(seconds=60)
SESSION = timedelta(hours=1)
_RANDOM_BYTES = 32
_USED = "This code was used already. If that was not you, ask who can read your terminal."


@dataclass(frozen=True, slots=True)
class OpenConsole:
    """Makes codes, and exchanges each for a session with its caller's rights. `issuer` is empty
    where people cannot sign in; `base_url` is needed only where codes are made."""

    state: SignIns
    clock: Clock
    issuer: str
    base_url: str = ""

    def __call__(self, arn: str) -> str:
        """Return the address to open, with the code as a fragment, which none sends. Raises:
        NotAllowed."""
        if self.issuer:
            raise NotAllowed(
                f"people sign in at the issuer here: open {self.base_url}/ in a browser"
            )
        secret = secrets.token_urlsafe(_RANDOM_BYTES)
        self.state.keep_code(secret, Code(arn, self.clock.now() + _GOOD_FOR))
        return f"{self.base_url}/console#{secret}"

    def caller(self, secret: str) -> str:
        """Return whose code it is, and use nothing up. Raises: NotAllowed."""
        if self.issuer:
            raise NotAllowed("People sign in at the issuer here: codes open nothing.")
        code = self.state.code(secret)
        if code is None:
            raise NotAllowed("This code was not made by this governor.")
        if code.used_at is not None:
            raise NotAllowed(_USED)
        if self.clock.now() >= code.ends_at:
            raise NotAllowed("This code is older than a minute.")
        return code.arn

    def enter(self, secret: str) -> tuple[str, SignIn]:
        """Use the code up; return the id of the session, and who it is. Raises: NotAllowed."""
        arn, now = self.caller(secret), self.clock.now()
        if not self.state.use_code(secret, now):
            raise NotAllowed(_USED)  # by somebody faster
        session_id, identity = secrets.token_urlsafe(_RANDOM_BYTES), f"aws:{arn}"
        who = SignIn(identity, by=identity, at=now, ends_at=now + SESSION)
        self.state.keep_session(session_id, who)
        return session_id, who
