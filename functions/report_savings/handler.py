"""Each night: copies the ledger, reports weeks and months, and fails when the ledger no longer sums
up."""

from __future__ import annotations

from typing import Any

from governor.core.errors import Unavailable
from governor.core.parsing import Payload, parse
from governor.money.report_savings import ReportSavings
from governor.wiring import money
from governor.wiring.basics import Ready
from governor.wiring.observability import logger, observed
from governor.wiring.parts import Parts


@observed(money.report_savings(Parts()))
def handler(
    event: dict[str, Any], context: Any, report_savings: Ready[ReportSavings]
) -> dict[str, Any]:
    """Return the months that were copied, and the number of reports. Raises, when all was tried:
    Unavailable."""
    parse(Payload, event)
    night = report_savings()()
    logger.info("reported", extra={"months": night.copied, "reports": night.reported})
    if night.problems:
        raise Unavailable("; ".join(night.problems), operation="reports")
    return {"months": night.copied, "reports": len(night.reported)}
