"""The freezes that stand, and their end by an admin."""

from __future__ import annotations

from governor.console.page import Asked, Page, Table
from governor.console.views import figures
from governor.domain.approvals.terms import Rank
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, is_lifted
from governor.domain.units import people
from governor.errors import ConflictError, DecisionRefused, InputError, NotAllowed, NotFound
from governor.stores import StateTable

_COLUMNS = ("where", "since", "why", "is_ended", "ended_by", "may_end")
_EVERYTHING = "everything"
PATH = "/freezes"


def freezes(ask: Asked) -> Page:
    """Only what the caller may see. Reasons and names are for whoever sees all that is counted."""
    state, rows = ask.reader.state, []
    for target, one in _standing(ask):
        sees_all = ask.scope.everything or (target is not None and figures.is_whole(target, ask.scope))
        by = state.freeze_ended_by(target, one)
        ended_by = people(by) if by and sees_all else None
        why = one.why if sees_all else None
        rows.append(
            (str(target or _EVERYTHING), one.tripped_at, why, bool(by), ended_by, _may_end(ask, target))
        )
    table = Table("freezes", _COLUMNS, tuple(rows))
    return Page(
        title="Freezes",
        template="freezes.html",
        values={"freezes": table.documents, "two_people": ask.reader.policy.two_people_for_policy},
        document={"freezes": table.documents},
        tables=(table,),
    )


def end_freeze(state: StateTable, ask: Asked) -> str:
    """Have the next sweep end the freeze that the page showed; return where to go on. Raises: InputError,
    NotFound, NotAllowed, DecisionRefused."""
    where, since = figures.text_of(ask, "where"), figures.text_of(ask, "since")
    known = {str(target or _EVERYTHING): (target, one) for target, one in _standing(ask)}
    if where not in known:
        raise NotFound(f"nothing is frozen in {where}")
    target, freeze = known[where]
    if not _may_end(ask, target):
        raise NotAllowed("only an admin of all that it holds back may end a freeze (console.scopes)")
    if ask.reader.policy.two_people_for_policy:
        raise NotAllowed("the policy asks for two people (two_people_for_policy): lift the freeze there")
    ask.caller.check_fresh(ask.now)
    if ask.query.get("answer") != "end-freeze":
        raise InputError("choose the button of the page")
    try:
        if since != freeze.tripped_at.isoformat():
            raise ConflictError("another freeze than the page showed")
        state.end_freeze(target, freeze, ask.caller.by, ask.now)
    except ConflictError:
        why = "somebody has ended this freeze, or it has begun anew, since this page was made: open it again"
        raise DecisionRefused(why) from None
    return PATH


def _standing(ask: Asked) -> list[tuple[Target | None, BreakerState]]:
    """Return what is frozen, of everything first. What the policy lifts goes at the next sweep by itself."""
    state, rule = ask.reader.state, ask.reader.policy.breaker
    targets = [target for target, _ in figures.targets_in(ask)]
    found = [(None, state.hub().freeze), *state.breakers(targets).items()]
    return [(target, one) for target, one in found if one and not is_lifted(one, rule, ask.now)]


def _may_end(ask: Asked, target: Target | None) -> bool:
    """Return whether the caller is an admin of everything, or of the whole account."""
    grants = [one.scope for one in ask.caller.grants if one.rank is Rank.ADMIN]
    return any(one.everything or (target and target.account in one.accounts) for one in grants)
