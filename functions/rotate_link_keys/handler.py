"""Rotates the keys that sign approval links; invoked by Secrets Manager alone."""

from __future__ import annotations

from typing import Any

from governor.contracts.events import RotationEvent
from governor.contracts.parsing import parse
from governor.observability import logger, observed
from governor.usecases.approvals.rotate_keys import RotateKeys
from governor.wiring.basics import Basics


@observed(RotateKeys(Basics().link_keys))
def handler(event: dict[str, Any], context: Any, rotate_keys: RotateKeys) -> dict[str, Any]:
    """Do one step of a rotation. The secret is that of the environment, whatever the event
    names."""
    payload = parse(RotationEvent, event)
    rotate_keys(payload.step, payload.version)
    logger.info(
        "rotation step done", extra={"step": payload.step.value, "version": payload.version}
    )
    return {"step": payload.step.value}
