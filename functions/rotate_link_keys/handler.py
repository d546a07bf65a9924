"""Rotates the keys that sign approval links; invoked by Secrets Manager alone."""

from __future__ import annotations

from typing import Any

from governor.approvals.rotate_keys import RotateKeys
from governor.core.parsing import parse
from governor.events.contract import RotationEvent
from governor.wiring.basics import Basics
from governor.wiring.observability import logger, observed


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
