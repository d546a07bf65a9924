"""Ends the question when its last stage has passed, or reads the answer that was given."""

from __future__ import annotations

from typing import Any

from governor.approvals.deliver_decision import ConcludeApproval
from governor.core.parsing import parse
from governor.wiring import conclusion
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import ConcludePayload


@observed(conclusion.conclude_approval(Parts()))
def handler(
    event: dict[str, Any], context: Any, conclude_approval: ConcludeApproval
) -> dict[str, Any]:
    """Return the answer to an episode's question as the table has it: `expired` if nobody gave one
    in time."""
    payload = parse(ConcludePayload, event)
    ref = payload.episode.to_domain()
    logger.append_keys(episode=ref.execution_name)
    answer = dict(conclude_approval(ref, answered=payload.answered))
    logger.info("concluded", extra={"decision": answer.get("decision")})
    return answer
