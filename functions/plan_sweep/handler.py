"""Lists the targets of a sweep: every account of the policy in every Region of the policy."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.observability import observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """`{}` to `{"targets": [{"account", "region"}], "target_count": n}`."""
    targets = [{"account": account, "region": region} for account, region in bootstrap.swept_accounts()]
    return {"targets": targets, "target_count": len(targets)}
