"""Stops or terminates the instance of an episode. The only function whose role may."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.remediation.put_away import PutAway
from governor.wiring.acting import acting
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import PutAwayPayload


@observed(acting(Ec2Parts()))
def handler(event: dict[str, Any], context: Any, put_away: Ready[PutAway]) -> dict[str, Any]:
    """Episode and action to `{"dry_run"}`. Every guard is checked again before EC2 is called."""
    payload = parse(PutAwayPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name, action=payload.action.value)
    dry_run = put_away()(ref, payload.action)
    logger.info("EC2 has accepted", extra={"dry_run": dry_run})
    count("PutAway", Action=payload.action.value, DryRun=str(dry_run).lower())
    return {"dry_run": dry_run}
