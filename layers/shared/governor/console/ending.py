"""What only admins do: they end a keep or an exemption of an instance before its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from governor.console.page import Caller
from governor.console.reader import Reader
from governor.domain.approvals.scope import Rank
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime
from governor.errors import InputError, NotAllowed, NotFound
from governor.usecases.approvals.end_hold import EndHold


@dataclass(frozen=True, slots=True)
class Ending:
    """Takes the form of an instance's page."""

    end: EndHold

    def __call__(self, reader: Reader, caller: Caller, form: Mapping[str, str], now: UtcDatetime) -> str:
        """Return the page to go on to. Raises: InputError, NotFound, NotAllowed, DecisionRefused."""
        account, region, instance_id = place = form["account"], form["region"], form["instance_id"]
        rows = (row for page in reader.pages for row in page.rows)
        row = next((row for row in rows if (row.account, row.region, row.instance_id) == place), None)
        rank = caller.rank(account, row.project, row.owner) if row else None
        if rank is None:
            raise NotFound(f"there is no instance {instance_id}")
        if rank < Rank.ADMIN:
            raise NotAllowed("only an admin of it may end a keep or an exemption (console.scopes)")
        if not caller.is_fresh(now):
            raise NotAllowed("you signed in 15 minutes ago or more: sign out and in again, then do it")
        if form.get("answer") != "end-hold":
            raise InputError("choose the button of the page")
        self.end(Target(account, region), instance_id, caller.by)
        return f"/instances/{account}/{region}/{instance_id}"
