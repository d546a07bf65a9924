"""Finds why an instance is left alone although it may be idle: one finder for each `KeepReason`.

The result is only shown, in the list of `fleet.rules.kept`: no decision may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from governor.core.units import UtcDatetime
from governor.episode.model.episode import Outcome
from governor.fleet.model import FleetRow
from governor.fleet.rules.kept import KeepReason
from governor.policy.model.acting import Action
from governor.policy.model.policy import BY_BUDGET, Mode, Policy
from governor.sweep.sweep_case import Case
from governor.verdict.model import HELD_BACK, WORKING, Hold


class SweptInstance(NamedTuple):
    """An instance as a sweep saw it: its case, its row so far, and the policy without overrides.

    `keep_by` is the person whose answer keeps it; empty if that is not known.
    """

    case: Case
    row: FleetRow
    base: Policy
    keep_by: str = ""

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return the names of the overrides that match the instance; empty if none does."""
        names = self.case.listed.applied.overrides
        return tuple(name for name in names if name != BY_BUDGET)

    @property
    def is_waiting(self) -> bool:
        """Return whether the instance is idle, and nobody is asked or notified of it now."""
        return self.case.is_idle and self.row.episode is None


class Keep(NamedTuple):
    """One reason: who keeps the instance, and until when; `None` if it has no end."""

    reason: KeepReason
    by: str = ""
    until: UtcDatetime | None = None


class _KeptBy(NamedTuple):
    """The keeper of an instance for one reason, and the end of that."""

    name: str = ""
    """The person, service, tag or override; empty if the reason names none."""
    until: UtcDatetime | None = None
    """`None` if it has no end."""


BY_OUTCOME: Mapping[Outcome, KeepReason | None] = {
    Outcome.STOPPED: None,
    Outcome.TERMINATED: None,
    Outcome.OBSERVED: None,
    Outcome.TOLD: KeepReason.REPORT_ONLY,
    Outcome.KEPT: None,
    Outcome.EXEMPTED: None,
    Outcome.EXPIRED: KeepReason.UNANSWERED,
    Outcome.WOKE_UP: None,
    Outcome.VOID: None,
    Outcome.HELD: KeepReason.HOLD,
    Outcome.REFUSED: KeepReason.REFUSAL,
    Outcome.INTERRUPTED: None,
    Outcome.FAILED: KeepReason.FAILURE,
}
"""The reason why nobody is asked after an episode with this outcome. `None`: the instance is not
idle then, it is asked about again at once, or another finder knows the reason."""

_OWN_SETTINGS = "its settings in EC2"
"""Named for an instance that cannot be stopped, or whose stop saves nothing."""


def why_kept(swept: SweptInstance) -> Keep | None:
    """Return the first reason, in the order of `FINDERS`, for which the instance stays; `None` if
    none is known."""
    for reason, find in FINDERS.items():
        kept_by = find(swept)
        if kept_by is not None:
            return Keep(reason, kept_by.name, kept_by.until)
    return None


def why_kept_by_people(hold: Hold, row: FleetRow, keep_by: str) -> Keep | None:
    """Return the answer or the undo that keeps an instance, by its `hold` and its `row` so far;
    `None` if none does. EC2 need not describe the instance. `keep_by` is the person of a keep or an
    undo; empty if that is not known."""
    exempter = _exempter(hold, row)
    if exempter is not None:
        return Keep(KeepReason.EXEMPTION, exempter)
    if row.kept_until is None:
        return None
    reason = KeepReason.KEEP if hold.own_keeper is None else KeepReason.UNDO
    return Keep(reason, keep_by, row.kept_until)


def _exempter(hold: Hold, row: FleetRow) -> str | None:
    """Return the person whose answer exempts the instance of this row; `None` if no answer does.
    The name is empty if the instance was in another project then: only people who could see it
    there may read the name."""
    if hold.exempt_reason is None:
        return None
    return hold.exempter if hold.exempt_in == row.project else ""


def _exemption_tag(swept: SweptInstance) -> _KeptBy | None:
    """Return the tag that exempts the instance, such as `tag gpu-governor=exempt`; `None` if none
    does."""
    case = swept.case
    if not swept.row.exempt:
        return None
    tag = case.policy.exemption.similar_tag_on(case.instance)
    if tag is None:
        return None
    return _KeptBy(f"tag {tag}")


def _by_people(reason: KeepReason) -> Callable[[SweptInstance], _KeptBy | None]:
    """Return a function that finds who keeps an instance for this reason, and until when, by an
    answer or an undo; it returns `None` if the reason does not keep the instance."""

    def find(swept: SweptInstance) -> _KeptBy | None:
        """Return the person, and until when that keeps the instance; `None` if no answer or undo
        does, or one of another reason."""
        keep = why_kept_by_people(swept.case.record.hold, swept.row, swept.keep_by)
        if keep is None or keep.reason is not reason:
            return None
        return _KeptBy(keep.by, keep.until)

    return find


def _manager(swept: SweptInstance) -> _KeptBy | None:
    """Return the service that runs the instance, if the instance is idle; `None` otherwise."""
    verdict = swept.case.verdict
    if verdict.manager is None or not verdict.is_idle:
        return None
    return _KeptBy(verdict.manager.service)


def _freeze(swept: SweptInstance) -> _KeptBy | None:
    """Return a keeper without a name if a freeze or a pause holds the instance; `None` if none
    does. It has no end until people release it."""
    return _KeptBy() if swept.case.verdict.kind in HELD_BACK else None


def _session(swept: SweptInstance) -> _KeptBy | None:
    """Return the person whose session ended the last question, and when people may be asked again;
    `None` if no session ended it, or that time is over."""
    record = swept.case.record
    is_quiet = swept.is_waiting and swept.row.quiet_until is not None
    if not is_quiet or not record.logged_in or record.last_outcome is not Outcome.WOKE_UP:
        return None
    return _KeptBy(record.logged_in, swept.row.quiet_until)


def _restarts(swept: SweptInstance) -> _KeptBy | None:
    """Return until when nobody is asked because others start the instance again after each stop;
    `None` if that is not so."""
    until = swept.row.restarts_quiet_until
    if not swept.is_waiting or until is None:
        return None
    return _KeptBy(until=until)


def _outcome(reason: KeepReason) -> Callable[[SweptInstance], _KeptBy | None]:
    """Return a function that tells until when this reason keeps an instance, because of the outcome
    of its last episode; it returns `None` if the reason does not keep the instance."""

    def find(swept: SweptInstance) -> _KeptBy | None:
        """Return until when nobody is asked; `None` if the last outcome is another one, or its time
        is over."""
        outcome = swept.case.record.last_outcome
        until = swept.row.quiet_until
        if outcome is None or until is None or not swept.is_waiting:
            return None
        if BY_OUTCOME[outcome] is not reason:
            return None
        return _KeptBy(until=until)

    return find


def _report_only(swept: SweptInstance) -> _KeptBy | None:
    """Return the overrides because of which an idle instance is only reported, or `the policy` if
    there are none; the instance's own settings if the policy would do more, as for one with stop
    protection. Return `None` if it is not idle, or people are asked about it."""
    case = swept.case
    if not case.is_idle:
        return None
    by = ", ".join(swept.overrides)
    if swept.row.is_reported and case.policy.plan.action is not Action.NOTIFY_ONLY:
        return _KeptBy(_OWN_SETTINGS)
    if swept.row.is_reported:
        return _KeptBy(by or "the policy")
    is_observed = case.policy.mode is Mode.OBSERVE and swept.base.mode is not Mode.OBSERVE
    if is_observed and by:
        return _KeptBy(by)
    return None


def _override(swept: SweptInstance) -> _KeptBy | None:
    """Return the overrides with a longer window, and the end of that window, once the window of the
    policy without them is over; `None` otherwise."""
    case = swept.case
    if not swept.overrides:
        return None
    if swept.is_waiting:
        until = _asked_later(swept)
    elif case.verdict.kind in WORKING and case.gathered is None:
        until = _read_later(swept)
    else:
        return None
    if until is None:
        return None
    return _KeptBy(", ".join(swept.overrides), until)


def _asked_later(swept: SweptInstance) -> UtcDatetime | None:
    """Return when people are asked about an idle instance, if the policy without overrides would
    have asked by now; `None` otherwise."""
    policy = swept.case.policy
    base = swept.base
    now = swept.case.listed.now
    idle_since = swept.row.idle_since
    if idle_since is None or policy.ask_window <= base.ask_window:
        return None
    if now < idle_since + base.ask_window + policy.lag:
        return None
    # The proof may come a few readings later than the window ends.
    return max(idle_since + policy.ask_window + policy.lag, now + policy.period)


def _read_later(swept: SweptInstance) -> UtcDatetime | None:
    """Return when the metrics of an instance that worked are read again, if the policy without
    overrides would have read them by now; `None` otherwise."""
    verdict = swept.case.verdict
    policy = swept.case.policy
    base = swept.base
    if verdict.last_busy is None or policy.window <= base.window:
        return None
    if swept.case.listed.now < verdict.last_busy + base.window + policy.lag:
        return None
    return verdict.not_before


FINDERS: Mapping[KeepReason, Callable[[SweptInstance], _KeptBy | None]] = {
    KeepReason.EXEMPTION_TAG: _exemption_tag,
    KeepReason.EXEMPTION: _by_people(KeepReason.EXEMPTION),
    KeepReason.UNDO: _by_people(KeepReason.UNDO),
    KeepReason.KEEP: _by_people(KeepReason.KEEP),
    KeepReason.MANAGER: _manager,
    KeepReason.FREEZE: _freeze,
    KeepReason.SESSION: _session,
    KeepReason.RESTARTS: _restarts,
    KeepReason.HOLD: _outcome(KeepReason.HOLD),
    KeepReason.UNANSWERED: _outcome(KeepReason.UNANSWERED),
    KeepReason.REFUSAL: _outcome(KeepReason.REFUSAL),
    KeepReason.FAILURE: _outcome(KeepReason.FAILURE),
    KeepReason.REPORT_ONLY: _report_only,
    KeepReason.OVERRIDE: _override,
}
"""A finder for each reason, in the order in which they are tried: an instance has one reason, so
that no amount counts twice."""
