"""Starts the snapshots of an episode's instance, or their dry run before a stop: all EBS volumes,
one crash-consistent set."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.remediation.take_snapshot import TakeSnapshot
from governor.wiring import remediation
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed
from governor.wiring.payloads import SnapshotPayload


@observed(remediation.take_snapshot(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, take_snapshot: Ready[TakeSnapshot]
) -> dict[str, Any]:
    """Start the snapshots; return their ids, and whether it was a dry run. Snapshots of an earlier
    try are found, not made twice.

    With `rehearse`, make none: return whether EC2 was asked, and would make them.
    """
    payload = parse(SnapshotPayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name)
    if payload.rehearse:
        rehearsed = take_snapshot().rehearse(ref)
        logger.info("snapshots rehearsed", extra={"rehearsed": rehearsed})
        return {"rehearsed": rehearsed}
    snapshot_ids, dry_run = take_snapshot()(ref)
    logger.info("snapshots started", extra={"snapshot_ids": list(snapshot_ids), "dry_run": dry_run})
    return {"snapshot_ids": list(snapshot_ids), "dry_run": dry_run}
