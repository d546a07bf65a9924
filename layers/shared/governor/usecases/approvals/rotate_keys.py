"""Rotates the keys of approval links as Secrets Manager asks for it: one signs, the one before is
for links of the last days, and the next one for functions whose document is a minute old."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from governor.errors import ConfigurationError
from governor.ports import RotatingSecret

_KEY = re.compile(r"k([1-9][0-9]{0,8})")
_KEY_BYTES = 48
"""Bytes of random bits; 64 characters."""


class RotationStep(StrEnum):
    CREATE = "createSecret"
    SET = "setSecret"
    TEST = "testSecret"
    FINISH = "finishSecret"


def rotated(document: Mapping[str, str]) -> dict[str, str]:
    """Return the document after a rotation: its `next` key signs. Raises: ConfigurationError for no
    key."""
    keys = {name: value for name, value in document.items() if _KEY.fullmatch(name)}
    current, following = document.get("current", ""), document.get("next", "")
    if current not in keys:
        raise ConfigurationError("the secret of the approval links names no current key")
    signs = following if following in keys else current
    highest = max(int(name[1:]) for name in keys)
    fresh = f"k{highest + 1}"
    kept = {current: keys[current], signs: keys[signs], fresh: secrets.token_urlsafe(_KEY_BYTES)}
    return {"current": signs, "next": fresh, **kept}


@dataclass(frozen=True, slots=True)
class RotateKeys:
    secret: RotatingSecret

    def __call__(self, step: RotationStep, version: str) -> None:
        """Do the step for the version that Secrets Manager has named. Raises:
        ConfigurationError."""
        stages = self.secret.stages(version)
        if "AWSCURRENT" in stages:
            return
        if "AWSPENDING" not in stages:
            raise ConfigurationError(
                f"version {version} of the secret is not waiting to be rotated"
            )
        # Nothing is to be set elsewhere: the keys are used by the governor alone.
        if step is RotationStep.CREATE and self.secret.pending(version) is None:
            self.secret.put_pending(version, rotated(self.secret.current()))
        if step in (RotationStep.TEST, RotationStep.FINISH):
            self._test(version)
        if step is RotationStep.FINISH:
            self.secret.promote(version)

    def _test(self, version: str) -> None:
        """A document that would sign nothing, or refuse the links that are out, never becomes
        current."""
        pending, current = self.secret.pending(version), self.secret.current()
        if pending is None:
            raise ConfigurationError(f"version {version} of the secret holds no document")
        signing = current.get("current", "")
        if pending.get("current", "") not in pending or pending.get("next", "") not in pending:
            raise ConfigurationError("the new document does not hold the keys that it names")
        if pending.get(signing) != current.get(signing):
            raise ConfigurationError("the new document would refuse the links that are out")
