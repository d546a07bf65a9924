"""Repairs of the engine: where it differs from AWS in something the product leans on.

Each repair says what AWS does and what the engine does. They reach into private parts of one pinned
version; `tests/local_cloud/test_repairs.py` fails when an upgrade moves them.
"""

from __future__ import annotations

from typing import Any

from local.engine.repairs import (
    alarms,
    backups,
    bedrock,
    bursts,
    buses,
    callbacks,
    callers,
    deletions,
    descriptions,
    executions,
    imitation,
    lambda_errors,
    message_moves,
    names,
    organization,
    public_images,
    request_keys,
    resource_arns,
    resources,
    rotation,
    schedules,
    secrets,
    stack_sets,
    table_keys,
    table_policies,
)
from local.engine.workers import processes


def repair_all(wait_scale: float, simulation: Any) -> None:
    """Puts all repairs in place. `wait_scale` scales the time-outs of tasks as the engine scales
    waits.

    `simulation` is what `local.engine.simulators.mount` has mounted.
    """
    processes.repair()
    callers.repair()
    lambda_errors.repair()
    executions.repair()
    callbacks.repair(wait_scale)
    rotation.repair()
    schedules.repair()
    secrets.repair()
    table_policies.repair()
    deletions.repair()
    descriptions.repair()
    backups.repair()
    bedrock.repair()
    bursts.repair()
    buses.repair()
    alarms.repair()
    names.repair()
    imitation.repair()
    organization.repair()
    resource_arns.repair()
    public_images.repair()
    stack_sets.repair()
    message_moves.repair()
    table_keys.repair()
    request_keys.repair(simulation)
    resources.repair(simulation)
