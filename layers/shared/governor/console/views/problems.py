"""Problems that the Overview shows: what hinders the governor's work, and what to do about it.

Reasons that count instances of everybody are shown only to callers who see all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from governor.approvals.messages.failures import readable_failure, step_text
from governor.approvals.model.terms import Scope
from governor.console.page import ViewRequest
from governor.console.views import figures
from governor.core import units
from governor.core.instance import Target
from governor.core.units import full_stop, left, listed, plural, printable, sentence
from governor.episode.model.episode import Failing
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import WORDS
from governor.fleet.model import FleetRow
from governor.fleet.rules.states import State, is_in
from governor.limits.rules.breaker import why_frozen
from governor.verdict.model import HELD_BACK

_MISSED_A_SWEEP = timedelta(minutes=6)
"""More than the five minutes between two sweeps."""
_STALE = timedelta(hours=1)
"""A target that was not swept for this long is reported as a problem."""


class Problem(NamedTuple):
    """Something that keeps the governor from its work, and what to do about it."""

    text: str
    do: str
    href: str | None = None


def problems(request: ViewRequest) -> Iterator[Problem]:
    """Yield what keeps the governor from its work, as far as this caller may see it: the pause and
    freezes, standing states, sweeps, failures, questions not sent yet, and instances that cannot be
    judged. Yield nothing if all is well. Raises: CloudError."""
    yield from _pause_and_freezes(request)
    troubles = request.reader.failure_store.failing_and_standing()
    states = _standing_now(request, troubles.standing)
    yield from _states(request, states)
    yield from _sweep_problems(request, states)
    yield from _failures(request, troubles.failing)
    unsent: list[str] = []
    for row, _ in request.governed:
        if _is_unsent(row):
            unsent.append(row.name)
    if unsent:
        text = f"{plural(len(unsent), 'question')} not sent yet: {listed(unsent, 3)}."
        yield Problem(text, "Questions wait for working hours. If this stays, run governor doctor.")
    unknown = []
    for row, page in request.running:
        if is_in(row, State.NO_DATA, request.now):
            unknown.append((row, page))
    if unknown:
        usd_per_day = units.usd(figures.rate(unknown).usd_per_day)
        text = f"{plural(len(unknown), 'instance')} cannot be judged ({usd_per_day} a day)."
        yield Problem(
            text, "Check the agents that publish their GPU metrics.", "/fleet?state=no-data"
        )


def _is_unsent(row: FleetRow) -> bool:
    """Return whether the row has a question that people were not notified of yet."""
    return bool(row.approval_id) and row.asked_at is None


def _pause_and_freezes(request: ViewRequest) -> Iterator[Problem]:
    """Yield the pause; then the freeze of everything, or if there is none, one problem with the
    targets in which the last sweep held an instance of the caller back (`HELD_BACK` verdicts).
    Yield nothing if nothing is paused or frozen. Reasons count instances of everybody, so only
    callers who see everything get them. Raises: CloudError."""
    sees_everything = request.scope.everything
    pause = request.reader.pause_store.pause()
    if pause is not None:
        text = f"Everything is {pause.why}" if sees_everything else "Everything is paused"
        yield Problem(
            sentence(text), "Nothing is stopped, terminated or deleted: see the pause", "/freezes"
        )
    why = why_frozen(
        None, request.reader.breaker_store.hub(), request.now, request.reader.policy.breaker
    )
    if why is not None:
        text = f"All plans are frozen: {why}" if sees_everything else "All plans are frozen"
        yield Problem(
            sentence(text),
            "Nobody is asked and nothing is stopped meanwhile: see the freeze",
            "/freezes",
        )
        return
    frozen_targets: set[str] = set()
    for row, page in request.governed:
        if row.verdict in HELD_BACK:
            frozen_targets.add(str(page.target))
    if frozen_targets:
        names = listed(sorted(frozen_targets), 3)
        yield Problem(f"Plans are frozen in {names}.", "See the freeze", "/freezes")


def _standing_now(request: ViewRequest, states: Sequence[StandingState]) -> list[StandingState]:
    """Return those of the states that the last sweep of their target met. Others are over, even if
    the message that they are could not be sent yet, or the target fails otherwise now. Raises:
    CloudError."""
    if not states:
        return []
    swept_at = {page.target: page.swept_at for page in request.reader.pages}
    standing = []
    for state in states:
        last_swept_at = swept_at.get(state.target)
        was_swept_since = last_swept_at is not None and last_swept_at > state.seen_at
        failure = request.reader.unswept.get(state.target)
        failed_since = failure is not None and failure.at > state.seen_at
        hides_the_failure = state.is_of_target and failed_since
        if not was_swept_since and not hides_the_failure:
            standing.append(state)
    return standing


def _states(request: ViewRequest, states: Sequence[StandingState]) -> Iterator[Problem]:
    """Yield a problem for each kind of state that keeps targets of the caller from being swept, or
    their instances from being tagged, with the places where it is. States of instances that the
    caller does not see are left out. Raises: CloudError."""
    visible_ids = {row.instance_id for row, _ in request.governed}
    own_targets = {target for target, _ in figures.targets_in(request)}
    places_by_kind: dict[StateKind, list[str]] = defaultdict(list)
    for state in states:
        is_hidden = bool(state.instance_id) and state.instance_id not in visible_ids
        if state.target in own_targets and not is_hidden:
            places_by_kind[state.kind].append(state.place)
    for kind, places in places_by_kind.items():
        words = WORDS[kind]
        text = sentence(f"{words.what}: {listed(places, 3)}")
        yield Problem(f"{text} {words.not_done}", words.to_do)


def _sweep_problems(request: ViewRequest, states: Sequence[StandingState]) -> Iterator[Problem]:
    """Yield a problem for each of the caller's targets whose last sweep is missing, was incomplete,
    or is more than an hour old; nothing if all are well. Targets in one of these `states` are left
    out. Why a sweep was incomplete is shown only to callers who see the whole target. Raises:
    CloudError."""
    in_state = {state.target for state in states if state.is_of_target}
    for target, page in figures.targets_in(request):
        if target in in_state:
            continue
        failure = None
        # Where every sweep came through, the last failures are not worth one more read.
        if states or page is None or request.now - page.swept_at > _MISSED_A_SWEEP:
            failure = request.reader.unswept.get(target)
        if failure is not None and (page is None or failure.at > page.swept_at):
            error = (
                f": {printable(failure.error)}" if figures.is_whole(target, request.scope) else ""
            )
            yield Problem(f"{target}: its last sweep failed{error}.", "Run governor doctor.")
        elif page is None:
            yield Problem(f"{target} has not been swept yet.", "Run governor doctor.")
        elif page.problem is not None:
            # A problem may count instances of everybody.
            sees_all = figures.is_whole(target, request.scope)
            text = page.problem if sees_all else "its last sweep was not complete"
            yield Problem(full_stop(f"{target}: {text}"), "Run governor doctor if this stays.")
        elif request.now - page.swept_at > _STALE:
            age = left(request.now - page.swept_at)
            yield Problem(f"{target} was last swept {age} ago.", "Run governor doctor.")


def _failures(request: ViewRequest, failing: Sequence[Failing]) -> Iterator[Problem]:
    """Yield a problem for each cause for which workflows of the caller's instances fail now, an
    undelivered message included; the cause of the newest failure first."""
    row_by_place = {(page.target, row.instance_id): row for row, page in request.governed}
    failures_by_cause: dict[str, list[Failing]] = defaultdict(list)
    for failure in sorted(failing, key=attrgetter("at"), reverse=True):
        if failure.over_at is None and _is_visible(failure, row_by_place, request.scope):
            failures_by_cause[failure.cause].append(failure)
    for failures in failures_by_cause.values():
        newest = failures[0]
        names = listed([failure.name for failure in failures], 3)
        reason = readable_failure(newest.reason, request.caller.zone, request.now)
        text = f"Could not {step_text(newest.step)} {names}. {reason}"
        row = row_by_place[newest.target, newest.instance_id]
        yield Problem(text, "See what was done", figures.href(row))


def _is_visible(
    failure: Failing, row_by_place: Mapping[tuple[Target, str], FleetRow], scope: Scope
) -> bool:
    """Return whether the caller sees the instance of a failure now (a row is in `row_by_place`),
    and could see it when it failed: the name and the reason belong to its project and owner of that
    time."""
    is_seen_now = (failure.target, failure.instance_id) in row_by_place
    return is_seen_now and scope.sees(failure.target.account, failure.project, failure.owner)
