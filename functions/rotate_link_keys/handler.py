"""Rotates the keys that sign approval links; invoked by Secrets Manager alone."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.payloads import RotationPayload, parse
from governor.observability import logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """One step of a rotation. The secret is the one of the environment, whatever the event names."""
    payload = parse(RotationPayload, event)
    bootstrap.rotate_keys()(payload.step, payload.version)
    logger.info("rotation step done", extra={"step": payload.step.value, "version": payload.version})
    return {"step": payload.step.value}
