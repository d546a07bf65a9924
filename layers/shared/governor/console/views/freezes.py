"""The pause and the freezes that stand, their end by an admin, the button that pauses
everything, and what is used of the caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from governor.console.page import Asked, Caller, Page, Table
from governor.console.views import figures
from governor.domain.approvals.pausing import may_end_pause, may_pause
from governor.domain.approvals.terms import Rank
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, is_lifted
from governor.domain.units import parse_iso, people
from governor.errors import ConflictError, DecisionRefused, InputError, NotAllowed, NotFound
from governor.stores import StateTable
from governor.usecases.brakes import used_caps
from governor.usecases.pause import LONGEST_REASON, PauseAll, Presser

_COLUMNS = ("where", "since", "why", "is_ended", "ended_by", "may_end")
_EVERYTHING = "everything"
PATH = "/freezes"


def freezes(ask: Asked) -> Page:
    """Only what the caller may see. Reasons and names are for whoever sees all that is counted."""
    state, rows = ask.reader.state, []
    for target, one in _standing(ask):
        sees_all = ask.scope.everything or (
            target is not None and figures.is_whole(target, ask.scope)
        )
        by = state.freeze_ended_by(target, one)
        ended_by = people(by) if by and sees_all else None
        why = one.why if sees_all else None
        rows.append(
            (
                str(target or _EVERYTHING),
                one.tripped_at,
                why,
                bool(by),
                ended_by,
                _may_end(ask, target),
            )
        )
    table = Table("freezes", _COLUMNS, tuple(rows))
    caps = Table("caps", ("what", "used", "most"), tuple(_caps(ask)))
    pause = pause_values(ask)
    return Page(
        title="Freezes",
        template="freezes.html",
        values={
            "freezes": table.documents,
            "caps": [{**one, "what": _words(str(one["what"]))} for one in caps.documents],
            "two_people": ask.reader.policy.two_people_for_policy,
            "waiting": _waiting(ask) if pause["may_end"] else [],
            **pause,
        },
        document={
            "pause": _pause_document(ask),
            "freezes": table.documents,
            "caps": caps.documents,
        },
        tables=(table, caps),
    )


def _caps(ask: Asked) -> Iterator[tuple[str, int, int]]:
    """Yield what the last 60 minutes used of each cap that the caller may see: of whole accounts,
    and of all accounts and owners for those who see everything."""
    for what, used, most in used_caps(ask.reader.state, ask.reader.policy.caps, ask.now):
        kind, _, name = what.partition("#")
        if ask.scope.everything or (kind == "ACCOUNT" and name in ask.scope.accounts):
            yield what, used, most


def _words(what: str) -> str:
    kind, _, name = what.partition("#")
    return f"{kind.lower()} {name}" if name else "all accounts"


def pause_values(ask: Asked) -> dict[str, Any]:
    """Return what a page says of the pause, and which of its buttons are for the caller. Only
    callers who see everything get name and reason."""
    caller = ask.caller
    policy = ask.reader.policy
    is_whole = ask.reader.policy_is_whole
    pause = ask.reader.state.pause()
    may_end = may_end_pause(caller.grants, caller.person, policy, policy_is_whole=is_whole)
    shown = pause if ask.scope.everything else None
    return {
        "pause": pause,
        "paused_by": people(shown.by) if shown else None,
        "pause_reason": shown.reason if shown else None,
        "may_pause": pause is None and may_pause(caller.grants, caller.person, policy),
        "may_end": pause is not None and may_end,
        "policy_is_refused": not is_whole,
        "longest_reason": LONGEST_REASON,
    }


def _pause_document(ask: Asked) -> dict[str, object] | None:
    pause = ask.reader.state.pause()
    if pause is None:
        return None
    if not ask.scope.everything:
        return {"since": pause.at}
    return {"since": pause.at, "by": pause.by, "reason": pause.reason}


def _waiting(ask: Asked) -> list[str]:
    """Return the instances whose plan is carried out, unless somebody holds it, when the pause has
    ended."""
    asked = {
        str(row.approval_id): str(row.episode)
        for row, _ in ask.seen
        if row.approval_id and row.episode
    }
    views = ask.reader.show.several(asked)
    return sorted(view.episode.instance.name for view in views if view.can_hold)


@dataclass(frozen=True, slots=True)
class Brakes:
    """Does what the forms of the page say."""

    state: StateTable
    pause_all: PauseAll

    def take(self, ask: Asked) -> str:
        """Pause everything, end the pause or end a freeze; return where to go on. Raises:
        InputError, NotFound, NotAllowed, DecisionRefused."""
        match ask.query.get("answer"):
            case "pause":
                self.pause_all.begin(
                    _presser(ask.caller), ask.query.get("reason"), ask.reader.policy
                )
                return PATH
            case "end-pause":
                return self._end_pause(ask)
        return end_freeze(self.state, ask)

    def _end_pause(self, ask: Asked) -> str:
        ask.caller.check_fresh(ask.now)
        if ask.query.get("confirmed") != "yes":
            raise InputError("check the box that says which steps continue when the pause ends")
        try:
            since = parse_iso(ask.query.get("since", ""))
        except ValueError:
            raise InputError("choose the button of the page") from None
        reader = ask.reader
        self.pause_all.end(
            _presser(ask.caller), since, reader.policy, policy_is_whole=reader.policy_is_whole
        )
        return PATH


def _presser(caller: Caller) -> Presser:
    return Presser(caller.by, caller.person, caller.grants)


def end_freeze(state: StateTable, ask: Asked) -> str:
    """Have the next sweep end the freeze that the page showed; return where to go on. Raises:
    InputError, NotFound, NotAllowed, DecisionRefused."""
    where, since = figures.text_of(ask, "where"), figures.text_of(ask, "since")
    known = {str(target or _EVERYTHING): (target, one) for target, one in _standing(ask)}
    if where not in known:
        raise NotFound(f"nothing is frozen in {where}")
    target, freeze = known[where]
    if not _may_end(ask, target):
        raise NotAllowed(
            "only an admin of all that it holds back may end a freeze (console.scopes)"
        )
    if ask.reader.policy.two_people_for_policy:
        raise NotAllowed(
            "the policy asks for two people (two_people_for_policy): lift the freeze there"
        )
    ask.caller.check_fresh(ask.now)
    if ask.query.get("answer") != "end-freeze":
        raise InputError("choose the button of the page")
    try:
        if since != freeze.tripped_at.isoformat():
            raise ConflictError("another freeze than the page showed")
        state.end_freeze(target, freeze, ask.caller.by, ask.now)
    except ConflictError:
        why = (
            "somebody has ended this freeze, or it has begun anew, since this page was "
            "made: open it again"
        )
        raise DecisionRefused(why) from None
    return PATH


def _standing(ask: Asked) -> list[tuple[Target | None, BreakerState]]:
    """Return what is frozen, of everything first. What the policy lifts goes at the next sweep by
    itself."""
    state, rule = ask.reader.state, ask.reader.policy.breaker
    targets = [target for target, _ in figures.targets_in(ask)]
    found = [(None, state.hub().freeze), *state.breakers(targets).items()]
    return [(target, one) for target, one in found if one and not is_lifted(one, rule, ask.now)]


def _may_end(ask: Asked, target: Target | None) -> bool:
    """Return whether the caller is an admin of everything, or of the whole account."""
    grants = [one.scope for one in ask.caller.grants if one.rank is Rank.ADMIN]
    return any(one.everything or (target and target.account in one.accounts) for one in grants)
