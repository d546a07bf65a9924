"""One idle episode: the lock (`one workflow per idle episode`), the frozen evidence, and the record
of what came of it. And the state the sweep keeps between runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from governor.domain.alerts.alert import UNASSIGNED
from governor.domain.episode.plan import Plan, Price, Step
from governor.domain.evidence import Evidence
from governor.domain.history import History, IdleSpan, idle_span
from governor.domain.instance import Instance, Target, UserData
from governor.domain.policy.changes import AskedUnder
from governor.domain.policy.contacts import Weekday
from governor.domain.policy.policy import BY_BUDGET, ApprovalRule, Mode, Power
from governor.domain.policy.schedule import Schedule
from governor.domain.sweep.verdict import Hold
from governor.domain.units import Percent, UsdPerHour, UtcDatetime, as_utc


@dataclass(frozen=True, slots=True)
class EpisodeRef:
    """Names one idle episode. `number` counts those of the instance, from 1."""

    account: str
    region: str
    instance_id: str
    launch_time: UtcDatetime
    number: int

    @property
    def execution_name(self) -> str:
        """The Step Functions execution: at most 80 characters. Raises: ValueError for a naive
        launch time."""
        epoch = int(as_utc(self.launch_time).timestamp())
        return f"{self.account}-{self.region}-{self.instance_id}-{epoch}-{self.number}"

    @property
    def target(self) -> Target:
        return Target(self.account, self.region)


_EXECUTION_NAME = re.compile(
    r"(?P<account>\d{12})-(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)-(?P<id>i-[0-9a-f]{8,17})"
    r"-(?P<epoch>\d{1,12})-(?P<n>\d{1,9})"
)


def episode_from_execution_name(name: str) -> EpisodeRef:
    """Raises: ValueError."""
    match = _EXECUTION_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the name of a remediation execution")
    started = datetime.fromtimestamp(int(match["epoch"]), tz=UTC)
    return EpisodeRef(match["account"], match["region"], match["id"], started, int(match["n"]))


class Phase(StrEnum):
    """Only `asking` may be voided from outside. Nothing is done before `acting`, which a recheck
    begins."""

    OPENING = "opening"
    ASKING = "asking"
    ACTING = "acting"
    CLOSED = "closed"


class Outcome(StrEnum):
    STOPPED = "stopped"
    TERMINATED = "terminated"
    OBSERVED = "observed"
    """Dry run: every call was allowed, none took effect."""
    TOLD = "told"
    KEPT = "kept"
    EXEMPTED = "exempted"
    EXPIRED = "expired"
    WOKE_UP = "woke-up"
    VOID = "void"
    """Stopped, terminated or changed by others before anything was done."""
    HELD = "held"
    """Somebody held it between the approval, or the notice, and the call: no further step was
    taken."""
    REFUSED = "refused"
    """A guard or a protection flag forbade the action at the moment of acting."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"


_SAYS_WHAT_IS_NEXT = (
    *(Outcome.STOPPED, Outcome.TERMINATED, Outcome.KEPT, Outcome.EXEMPTED),
    *(Outcome.WOKE_UP, Outcome.VOID, Outcome.INTERRUPTED),
)
_FAILED_AGAIN_AFTER = (timedelta(minutes=5), timedelta(minutes=15), timedelta(minutes=60))
"""Until the next try, after the first failures in a row: the fault was ours, and nobody has
answered."""


def quiet_until(
    outcome: Outcome,
    rule: ApprovalRule,
    now: datetime,
    *,
    was_opened: bool,
    failures: int | None = None,
) -> UtcDatetime | None:
    """Return until when nobody is notified of the same idleness again; `None` when the outcome says
    what is next. `failures` is how many episodes in a row had failed, `None` for an aborted
    workflow."""
    if outcome is Outcome.FAILED and failures is not None and failures < len(_FAILED_AGAIN_AFTER):
        return as_utc(now) + _FAILED_AGAIN_AFTER[failures]
    if not was_opened:
        return as_utc(now) + timedelta(minutes=rule.retry_unopened_after_minutes)
    if outcome in _SAYS_WHAT_IS_NEXT:
        return None
    return as_utc(now) + timedelta(hours=rule.ask_again_after_hours)


@dataclass(frozen=True, slots=True)
class Terms:
    """The people who may decide, frozen with the question: `broadcast_may` is what somebody may
    whose link went to a list, `people_needed` how many different people an approval takes."""

    broadcast_may: frozenset[Power] = frozenset({"keep", "stop", "undo"})
    people_needed: int = 1
    known_people: frozenset[str] = frozenset()
    """Addresses that the policy named as persons when the question was opened."""
    tag_owner_may: frozenset[Power] | None = None
    """The decisions of an address that only a tag names; `None`, of earlier releases: as any
    person."""
    cli_may: frozenset[Power] | None = None
    """The decisions of an identity of AWS that no contact has. `None`: as above."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The record of one idle episode. `evidence_hash` binds the approval to what was measured."""

    ref: EpisodeRef
    phase: Phase
    opened_at: UtcDatetime
    approval_id: str
    mode: Mode
    policy_version: str
    overrides: tuple[str, ...]
    instance: Instance
    reason: str
    evidence: Evidence
    evidence_hash: str
    plan: Plan
    price: Price
    owner: str
    project: str
    keep_at_most: timedelta = timedelta(days=30)
    idle_below_percent: Percent = 5.0
    """The policy's threshold of utilization when it was judged; the picture's line."""
    history: History | None = None
    """The day before, for the picture; `None` when it could not be read. No verdict rests on it."""
    terms: Terms = Terms()
    schedule: Schedule | None = None
    time_zone: str = "UTC"
    """Time zone of the people who are asked."""
    working_days: tuple[Weekday, ...] = tuple(Weekday)
    working_from: str = "00:00"
    """Theirs, too: a keep ends when their next working day begins."""
    notice: timedelta | None = None
    """How long people may hold what `auto` would do, from the delivery to its owner on. `None`: an
    hour."""
    asked_under: AskedUnder | None = None
    """The policy's figures when it was opened; `None` in episodes of earlier releases."""
    acts_on_silence: bool = False
    """True if the policy lets an expiry pass for a yes (`approval.on_expiry: act`)."""
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """Volume id by snapshot id."""
    user_data: UserData | None = None
    """Record of the copy that is kept before a termination; `None` before that."""
    snapshots_reserved_at: UtcDatetime | None = None
    """Begin of a try that may make them; no other one may until it is long over."""
    phase_since: UtcDatetime | None = None
    cleared_step: str | None = None
    """The step the last recheck let through; a recheck lets one step through, not those after
    it."""
    cleared_at: UtcDatetime | None = None
    is_clearance_used: bool = False
    """True once EC2 was called after the last recheck; each recheck allows one call."""
    first_cleared: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """When a recheck first let each step through, by step."""
    closed_at: UtcDatetime | None = None
    outcome: Outcome | None = None
    outcome_reason: str | None = None
    last_no: str | None = None
    """Why the last recheck, guard or call went no further, after its outcome or the name of its
    error."""
    presence: str | None = None
    """Facts about people logged in when the question was made, where there are any."""
    became: Outcome | None = None
    """The effect on the instance, as EC2 showed it at the end: `STOPPED`, `TERMINATED` or
    nothing."""
    outcome_told_at: UtcDatetime | None = None
    """Time of the outcome's notification; `None` until a channel has accepted the message."""
    steps_done: Mapping[str, UtcDatetime] = field(default_factory=dict)
    stopped_in: EpisodeRef | None = None
    """The episode that stopped the instance, where this one asks whether the stopped one may be
    terminated. Evidence and the stop in `steps_done` are that one's then."""
    undone_at: UtcDatetime | None = None
    undone_by: str | None = None
    opening_seal: str | None = None
    """Made by `open_episode` over all that an opening fixes (`domain/approvals/sealing.py`)."""

    @property
    def idle(self) -> IdleSpan | None:
        """Since when it was idle when this was opened, by the day before; `None`: that was not
        measured."""
        if self.history is None:
            return None
        return idle_span(self.history, self.idle_below_percent, self.instance.launch_time)

    @property
    def by_budget(self) -> bool:
        """Return whether it is asked about only because its project is over budget."""
        return BY_BUDGET in self.overrides

    @property
    def gives_notice(self) -> bool:
        """Return whether the plan is carried out without a question, once its notice is over."""
        return self.mode is Mode.AUTO and bool(self.plan.steps)

    @property
    def notice_length(self) -> timedelta:
        return timedelta(hours=1) if self.notice is None else self.notice

    @property
    def own_plan(self) -> tuple[Step, ...]:
        """Return the steps of its plan without the stop of an earlier episode."""
        return tuple(
            step for step in self.plan.steps if self.stopped_in is None or step is not Step.STOP
        )

    @property
    def own_steps(self) -> Mapping[str, UtcDatetime]:
        """Return `steps_done`, likewise."""
        return {step: at for step, at in self.steps_done.items() if step in self.own_plan}

    @property
    def final_step(self) -> Step:
        """Return the last step that a hold can keep from being done."""
        return Step.TERMINATE if self.plan.destroys else Step.STOP

    @property
    def begun_at(self) -> UtcDatetime | None:
        """Return when EC2 was asked for the final step; from then on nothing holds it."""
        return self.steps_done.get(self.final_step.value)

    @property
    def is_past_final_step(self) -> bool:
        """Return whether a step after the final one was begun: EC2 has carried out that one."""
        after = self.own_plan.index(self.final_step) + 1 if self.final_step in self.own_plan else 0
        return any(step in self.steps_done for step in self.own_plan[after:])

    @property
    def can_be_started(self) -> bool:
        """Return whether people may have it started again: this episode stopped it and is done."""
        is_open = self.phase is not Phase.CLOSED and self.mode is not Mode.OBSERVE
        is_last = is_open and not self.plan.destroys and Step.STOP in self.steps_done
        return self.undone_at is None and (self.became is Outcome.STOPPED or is_last)

    def has_stopped(self, later: EpisodeRef) -> bool:
        """Return whether this episode stopped the same run of the instance, and nobody has undone
        it."""
        same = replace(later, number=self.ref.number) == self.ref and self.ref.number < later.number
        return same and self.became is Outcome.STOPPED and self.undone_at is None

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        return tuple(sorted(self.snapshots))


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """The state table's record of an instance that ever was idle or decided about. `open_episode`
    is the lock; `quiet_until` keeps the same idleness from being told again, until work resumes."""

    target: Target
    instance_id: str
    hold: Hold = Hold()
    episodes: int = 0
    open_episode: EpisodeRef | None = None
    last_outcome: Outcome | None = None
    quiet_until: UtcDatetime | None = None
    failures: int = 0
    quiet_launch_time: UtcDatetime | None = None
    """The start of the instance that `quiet_until` is about; another start asks anew."""
    marked_at: UtcDatetime | None = None
    warned_until: UtcDatetime | None = None
    """Until when a warning stands that EC2 takes it back; nothing is asked or done about it
    before."""
    untold: EpisodeRef | None = None
    """The closed episode whose outcome people may not know yet."""
    problem: str | None = None
    """Why the record cannot be read. Then nothing is known of holds and locks, and nothing may
    follow."""

    def is_warned(self, now: datetime) -> bool:
        """Return whether it is saving its work, because EC2 takes it back."""
        return self.warned_until is not None and now < self.warned_until

    def last_episode(self, launch_time: datetime) -> EpisodeRef:
        place = self.target.account, self.target.region
        return EpisodeRef(*place, self.instance_id, launch_time, self.episodes)

    def is_quiet(self, launch_time: datetime, now: datetime) -> bool:
        """Return whether nobody is asked yet about this run of the instance."""
        until, same = self.quiet_until, self.quiet_launch_time == launch_time
        return until is not None and now < until and same

    def holds_an_old_warning_alone(self, now: datetime) -> bool:
        """Return whether nothing would be lost with it."""
        bare = InstanceRecord(self.target, self.instance_id, warned_until=self.warned_until)
        return self.warned_until is not None and not self.is_warned(now) and self == bare


@dataclass(frozen=True, slots=True)
class Failing:
    """An instance whose last workflow failed; `over_at` is when it failed no more. `cause` names
    the incident that all of one cause share; `step` is the one that failed, `ask` for all before
    the first."""

    target: Target
    instance_id: str
    name: str
    cause: str
    reason: str
    step: str
    at: UtcDatetime
    over_at: UtcDatetime | None = None
    owner: str = ""
    """With `project`: whose the instance was when it failed; empty: an earlier release noted it."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Observations of the last sweep; a cache. Losing it costs reads, and a comparison with the
    sweep before. `source` says by which series utilization was last seen (`aggregate`, `per-gpu`);
    `dimensions` are the per-GPU sets of `(name, value)` pairs, `None` when never listed."""

    launch_time: UtcDatetime
    verdict: str
    at: UtcDatetime
    reason: str = ""
    policy_version: str = ""
    """Version of the policy that judged it: under another one `last_busy` may mean something
    else."""
    last_busy: UtcDatetime | None = None
    source: str | None = None
    dimensions: tuple[tuple[tuple[str, str], ...], ...] | None = None
    searched_at: UtcDatetime | None = None
    told_silent: bool = False
    """True if people were notified of the silence that has lasted since."""
    next_gpu_check_at: UtcDatetime | None = None
    """Time of the next read, GPU by GPU, of a busy instance known by its aggregate."""
    advice: tuple[str, ...] = ()
    idle_since: UtcDatetime | None = None
    idle_told_at: UtcDatetime | None = None
    managed_told_at: UtcDatetime | None = None
    """Time of the last notification of its environment's owner."""
    is_late: bool = False
    """True if it is `no-data` only because its newest readings are missing, and not for long."""
    late_since: UtcDatetime | None = None
    """Time at which that began; kept as long as it has no data."""
    last_known: str | None = None
    """The newest verdict by its metrics, or `too-young`: a keep does not hide what it turns from
    after it."""
    project: str | None = None
    """Whom its hours are counted for; `None` where a sweep that counted nothing has seen it."""
    counted_for: str = UNASSIGNED
    usd_per_hour: UsdPerHour | None = None
