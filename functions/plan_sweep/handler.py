"""Lists the targets of a sweep: every account of the policy in every Region of the policy."""

from __future__ import annotations

from typing import Any

from governor.observability import observed
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import Places, swept_accounts


@observed(swept_accounts(Parts()))
def handler(event: dict[str, Any], context: Any, places: Ready[Places]) -> dict[str, Any]:
    """`{}` to `{"targets": [{"account", "region"}], "target_count": n}`."""
    targets = [{"account": account, "region": region} for account, region in places()]
    return {"targets": targets, "target_count": len(targets)}
