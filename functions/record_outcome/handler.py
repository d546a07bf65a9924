"""Ends an episode: books its saving in the ledger, frees its lock and sends the message about its
outcome."""

from __future__ import annotations

from typing import Any

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.remediation.outcome import outcome_of_error
from governor.remediation.record_outcome import RecordOutcome
from governor.wiring import endings
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import count, logger, observed
from governor.wiring.payloads import OutcomePayload


@observed(endings.record_outcome(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, record_outcome: Ready[RecordOutcome]
) -> dict[str, Any]:
    """Record an outcome, or the error that a step ended in; return the outcome that stands, and its
    reason. Raises: InputError for an event with neither; what `RecordOutcome` raises."""
    payload = parse(OutcomePayload, event)
    ref = payload.episode.to_domain()
    outcome = payload.outcome
    reason = payload.reason
    error_name = ""
    if payload.error is not None:
        error_name = payload.error.error
        outcome, reason = outcome_of_error(payload.error.as_mapping())
    if outcome is None:
        raise InputError("OutcomePayload was refused: either outcome or error must be given")
    logger.append_keys(episode=ref.execution_name)
    stands = record_outcome()(ref, outcome, error_name)
    logger.info("recorded", extra={"outcome": stands.value, "reason": reason})
    count("Outcomes", Outcome=stands.value)
    return {"outcome": stands.value, "reason": reason}
