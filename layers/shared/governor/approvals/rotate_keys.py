"""Rotates the keys that sign approval links, in the steps of Secrets Manager.

One key signs. The previous one is for links of the last days, and the next one for functions that
still hold the previous document. This module must not make a document current that refuses open
links.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from governor.core.errors import ConfigurationError


class RotatingSecret(Protocol):
    """One secret while it is rotated. Raises: CloudError; ConfigurationError if a document is
    unusable."""

    def stages(self, version: str) -> frozenset[str]:
        """Return the labels of a version, such as `AWSCURRENT`; empty if it has none. Raises:
        CloudError."""

    def current(self) -> Mapping[str, str]:
        """Return the document in force. Raises: CloudError; ConfigurationError if it is
        unusable."""

    def pending(self, version: str) -> Mapping[str, str] | None:
        """Return the document of this new version; `None` if it has none yet. Raises: CloudError;
        ConfigurationError if it is unusable."""

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        """Store this document as that of a new version, which is not in force. Raises:
        CloudError."""

    def promote(self, version: str) -> None:
        """Put this version in force, in place of the current one. Raises: CloudError."""


_KEY = re.compile(r"k([1-9][0-9]{0,8})")
_KEY_BYTES = 48
"""Random bytes of a key: 64 characters."""


class RotationStep(StrEnum):
    """The steps of a rotation, as Secrets Manager names them."""

    CREATE = "createSecret"
    SET = "setSecret"
    TEST = "testSecret"
    FINISH = "finishSecret"


def rotated(document: Mapping[str, str]) -> dict[str, str]:
    """Return a new document: the key that was `next` signs, the one that signed is still accepted,
    and a new key is `next`. Other keys are left out. Without a `next` key, the old key goes on to
    sign.

    Raises: ConfigurationError if the document names no current key.
    """
    keys = {name: key for name, key in document.items() if _KEY.fullmatch(name)}
    old_name = document.get("current", "")
    next_name = document.get("next", "")
    if old_name not in keys:
        raise ConfigurationError("the secret of the approval links names no current key")
    signing_name = next_name if next_name in keys else old_name
    highest = max(int(name[1:]) for name in keys)
    new_name = f"k{highest + 1}"
    return {
        "current": signing_name,
        "next": new_name,
        old_name: keys[old_name],
        signing_name: keys[signing_name],
        new_name: secrets.token_urlsafe(_KEY_BYTES),
    }


@dataclass(frozen=True, slots=True)
class RotateKeys:
    """Carries out the steps of a rotation. Each is safe to repeat."""

    secret: RotatingSecret

    def __call__(self, step: RotationStep, version: str) -> None:
        """Carry out the step for the version that Secrets Manager named: `CREATE` stores its new
        document unless it has one, `SET` does nothing, `TEST` tests the document, and `FINISH`
        tests it again and puts it in force. Nothing is done for a version in force.

        Raises: ConfigurationError if the version is not waiting, or its document is unusable;
        CloudError.
        """
        stages = self.secret.stages(version)
        if "AWSCURRENT" in stages:
            return
        if "AWSPENDING" not in stages:
            raise ConfigurationError(
                f"version {version} of the secret is not waiting to be rotated"
            )
        # `SET` has nothing to do: only the governor uses the keys.
        if step is RotationStep.CREATE and self.secret.pending(version) is None:
            self.secret.put_pending(version, rotated(self.secret.current()))
        if step in (RotationStep.TEST, RotationStep.FINISH):
            self._test(version)
        if step is RotationStep.FINISH:
            self.secret.promote(version)

    def _test(self, version: str) -> None:
        """Require that the new document holds the keys that it names as `current` and `next`, and
        the key that signs now, so that it accepts the links that are out. Raises:
        ConfigurationError if it does not, or there is no such document; CloudError."""
        pending = self.secret.pending(version)
        current = self.secret.current()
        if pending is None:
            raise ConfigurationError(f"version {version} of the secret holds no document")
        signing = current.get("current", "")
        if pending.get("current", "") not in pending or pending.get("next", "") not in pending:
            raise ConfigurationError("the new document does not hold the keys that it names")
        if pending.get(signing) != current.get(signing):
            raise ConfigurationError("the new document would refuse the links that are out")
