"""Repairs of the engine: where it differs from AWS in something the product leans on.

Each repair says what AWS does and what the engine does. They reach into private parts of one pinned version;
`tests/local_cloud/test_repairs.py` fails when an upgrade moves them.
"""

from __future__ import annotations

from typing import Any

from local.engine import mail, processes
from local.engine.repairs import (
    alarms,
    bursts,
    buses,
    callbacks,
    callers,
    executions,
    lambda_errors,
    request_keys,
    rotation,
    secrets,
    table_keys,
)


def repair_all(wait_scale: float, simulation: Any) -> None:
    """Puts all repairs in place. `wait_scale` scales the time-outs of tasks as the engine scales waits.

    `simulation` is what `local.engine.mount` has mounted.
    """
    processes.repair()
    callers.repair()
    lambda_errors.repair()
    executions.repair()
    callbacks.repair(wait_scale)
    rotation.repair()
    secrets.repair()
    bursts.repair()
    buses.repair()
    alarms.repair()
    mail.repair()
    table_keys.repair()
    request_keys.repair(simulation)
