"""The record of one idle episode: its lock, the evidence as it was when the episode was opened, its
progress and outcome, and when people may be asked again.

Also the state that the sweep keeps between runs. An instance has at most one open episode, and an
episode has one workflow. These records decide nothing by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from governor.alerts.model import UNASSIGNED
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Instance, Launch, Target, UserData
from governor.core.units import Percent, UsdPerHour, UtcDatetime, as_utc
from governor.episode.model.plan import Plan, Price, Step
from governor.episode.model.start_try import StartStatus, StartTry
from governor.evidence.model import Evidence
from governor.evidence.rules.history import History, IdleSpan, idle_span
from governor.policy.model.acting import ApprovalRule, Power
from governor.policy.model.contacts import Weekday, WorkingHours
from governor.policy.model.policy import BY_BUDGET, Mode
from governor.policy.rules.changes import AskedUnder
from governor.policy.rules.schedule import Schedule
from governor.verdict.model import Hold, IdleParts


class Phase(StrEnum):
    """The phase of an episode. Only `asking` may be voided from outside; nothing is done before
    `acting`, which a recheck begins."""

    OPENING = "opening"
    ASKING = "asking"
    ACTING = "acting"
    CLOSED = "closed"


class Outcome(StrEnum):
    """The end of an episode."""

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
"""Time until the next try after each of the first failures in a row: the fault was ours, and nobody
has answered."""
_UNOPENED_AGAIN_AFTER = timedelta(minutes=60)
"""Time until the next try after a workflow that ended before it could ask, as after the third
failure in a row."""


def quiet_until(
    outcome: Outcome,
    rule: ApprovalRule,
    now: datetime,
    *,
    was_opened: bool,
    failures: int | None = None,
) -> UtcDatetime | None:
    """Return when people may be asked or notified again about the same idleness: after one of the
    first three failures in a row, in 5, 15 or 60 minutes; else in an hour if the episode was not
    opened, or after `rule.ask_again_after_hours`. Return `None` if the outcome itself decides what
    is next, as a stop does.

    `was_opened` is false if the episode was closed before anybody was asked or notified. `failures`
    is how many episodes in a row had failed before this one; `None` for an aborted workflow.
    """
    if outcome is Outcome.FAILED and failures is not None and failures < len(_FAILED_AGAIN_AFTER):
        return as_utc(now) + _FAILED_AGAIN_AFTER[failures]
    if not was_opened:
        return as_utc(now) + _UNOPENED_AGAIN_AFTER
    if outcome in _SAYS_WHAT_IS_NEXT:
        return None
    return as_utc(now) + timedelta(hours=rule.ask_again_after_hours)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a question: who may decide it. They stay as they were when it was opened."""

    broadcast_may: frozenset[Power] = frozenset({"keep", "stop", "undo"})
    """The powers of somebody whose link went to a list."""
    people_needed: int = 1
    """How many different people an approval takes."""
    known_people: frozenset[str] = frozenset()
    """Addresses that the policy named as persons when the question was opened."""
    tag_owner_may: frozenset[Power] | None = None
    """The powers of an address that only a tag names. `None`, in questions of earlier releases:
    those of any person."""
    cli_may: frozenset[Power] | None = None
    """The powers of an identity of AWS that no contact has. `None`, in questions of earlier
    releases: those of any person if `tag_owner_may` is `None`, too, else none."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The readings that an episode was opened with. `evidence_hash` binds the approval to them."""

    evidence: Evidence
    evidence_hash: str
    idle_below_percent: Percent = 5.0
    """The policy's threshold of utilization when the instance was judged; a line in the picture."""
    history: History | None = None
    """The day before, for the picture; `None` if it could not be read. No verdict rests on it."""
    idle_for: timedelta | None = None
    """The time for which it had been idle when it was opened, as `reason` says it. `None` in
    episodes of earlier releases, and if the instance was stopped."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How people are asked, and what their answer or their silence means. The opening fixes it."""

    keep_at_most: timedelta = timedelta(days=30)
    schedule: Schedule | None = None
    """When people are asked; `None` if the episode asks no question."""
    time_zone: str = "UTC"
    """Time zone of the people who are asked."""
    working_days: tuple[Weekday, ...] = tuple(Weekday)
    working_from: str = "00:00"
    """The start of their working days: a keep ends when the next one begins."""
    contact_hours: tuple[WorkingHours, ...] = ()
    """The working hours of all who are asked, the escalation included, when the episode was opened.
    Empty if it asks no question, and in episodes of earlier releases. It is not under the seal,
    because the previous release would refuse the seal. A role that may write episodes can therefore
    add hours, which only lengthens the time to answer, or remove those that were recorded. Without
    them, today's working hours count alone, and these always count."""
    notice: timedelta | None = None
    """How long people may hold an action of mode auto, counted from the delivery to the owner.
    `None`: an hour."""
    asked_under: AskedUnder | None = None
    """The policy's settings when the episode was opened; `None` in episodes of earlier releases."""
    acts_on_silence: bool = False
    """True if the policy lets an expiry pass for a yes (`approval.on_expiry: act`)."""
    others_started_at: tuple[UtcDatetime, ...] = ()
    """When others started it again after our stops, if that is why the escalation contacts are
    asked, too. Such a question never acts without a yes."""
    is_owner_alone: bool = False
    """True if the policy names nobody else to ask about these starts. The question then makes
    nothing quiet: nobody exempts an instance of their own by starting it again."""
    presence: str | None = None
    """Facts about people who were logged in when the question was made, if there were any."""
    owner_note: str | None = None
    """Why not exactly those are asked whom the owner tag names, as a sentence; `None` if they are,
    or the instance has no owner tag."""
    launched_by: Launch | None = None
    """The launch of the instance, only to be shown; `None` in episodes of earlier releases, and if
    CloudTrail did not say it. It is not under the seal."""

    @property
    def notice_length(self) -> timedelta:
        """Return how long people may hold an action of mode auto: an hour if none is recorded."""
        return timedelta(hours=1) if self.notice is None else self.notice


@dataclass(frozen=True, slots=True)
class Clearance:
    """The last recheck that let a step through. It clears one step, not those after it."""

    step: str
    at: UtcDatetime
    is_used: bool = False
    """True once EC2 was called after this recheck; each recheck allows one call."""


class LastNo(NamedTuple):
    """Why an episode goes no further, as a recheck, a guard or a call has noted it."""

    name: str
    """The outcome, such as `woke-up`, or the name of the error, such as `Protected`. It has no
    colon."""
    why: str

    @property
    def text(self) -> str:
        """Return the note as it is stored: `Protected: stop protection is on`."""
        return f"{self.name}: {self.why}"

    @classmethod
    def of(cls, text: str) -> LastNo:
        """Return the note that is stored as this text."""
        name, _, why = text.partition(": ")
        return cls(name, why)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the plan: steps, snapshots and refusals. Empty until the first recheck."""

    first_cleared: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """The time at which a recheck first cleared each step."""
    steps_done: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """The time at which EC2 was asked for each step."""
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """Volume id by snapshot id."""
    snapshots_reserved_at: UtcDatetime | None = None
    """The start of an attempt to make the snapshots; no other attempt may begin until that one is
    long over."""
    user_data: UserData | None = None
    """Record of the copy that is kept before a termination; `None` before that."""
    last_no: str | None = None
    """The text of a `LastNo`: why the last recheck, guard or call went no further."""

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """Return the ids of the snapshots in order; empty if there are none."""
        return tuple(sorted(self.snapshots))


@dataclass(frozen=True, slots=True)
class EpisodeEnding:
    """The end of an episode: its outcome, and what people know of it."""

    outcome: Outcome
    reason: str
    at: UtcDatetime
    became: Outcome | None = None
    """The effect on the instance, as EC2 showed it at the end: `STOPPED`, `TERMINATED` or
    nothing."""
    told_at: UtcDatetime | None = None
    """Time of the outcome's notification; `None` until a channel has accepted the message."""
    asked_again_at: UtcDatetime | None = None
    """When people may be asked again about the same idleness; `None` if the outcome itself decides
    that, and in episodes of earlier releases."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Somebody had the stopped instance started again, and it was seen running."""

    by: str
    at: UtcDatetime
    """The time at which it was seen running."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The record of one idle episode: what its opening fixed, and a record of each later stage."""

    ref: EpisodeRef
    phase: Phase
    opened_at: UtcDatetime
    approval_id: str
    mode: Mode
    policy_version: str
    overrides: tuple[str, ...]
    instance: Instance
    reason: str
    measurement: Measurement
    plan: Plan
    price: Price
    owner: str
    project: str
    terms: Terms = Terms()
    asking: Asking = Asking()
    stopped_by_episode: EpisodeRef | None = None
    """The episode that stopped the instance, if this one asks whether to terminate the stopped
    instance. The evidence, and the stop in `steps_done`, are then those of that episode."""
    opening_seal: str | None = None
    """Made by `open_episode` over all that an opening fixes (`approvals/rules/sealing.py`)."""
    phase_since: UtcDatetime | None = None
    clearance: Clearance | None = None
    """`None` until the first recheck lets a step through."""
    progress: Progress = field(default_factory=Progress)
    ending: EpisodeEnding | None = None
    """`None` while the episode is open."""
    start_try: StartTry | None = None
    """The last try to start the stopped instance again; `None` if nobody has tried."""
    undo: Undo | None = None
    """`None` unless somebody undid the stop."""

    @property
    def outcome(self) -> Outcome | None:
        """Return how the episode ended; `None` while it is open."""
        if self.ending is None:
            return None
        return self.ending.outcome

    @property
    def became(self) -> Outcome | None:
        """Return what EC2 showed the instance to have become at the end; `None` while the episode
        is open, and if nothing was done to the instance."""
        if self.ending is None:
            return None
        return self.ending.became

    @property
    def is_gone_unrecorded(self) -> bool:
        """Return whether the episode ended as stopped, but the instance was already terminated when
        that was recorded. This episode did not terminate it, and nothing was booked."""
        return self.outcome is Outcome.STOPPED and self.became is None

    @property
    def is_undone(self) -> bool:
        """Return whether somebody has undone the stop of this episode."""
        return self.undo is not None

    @property
    def idle(self) -> IdleSpan | None:
        """Return since when the instance had been idle when the episode was opened, by its
        utilization of the day before; `None` if that was not read, or shows no idle stretch."""
        measured = self.measurement
        if measured.history is None:
            return None
        return idle_span(measured.history, measured.idle_below_percent, self.instance.launch_time)

    @property
    def by_budget(self) -> bool:
        """Return whether people are asked only because the project of the instance is over
        budget."""
        return BY_BUDGET in self.overrides

    @property
    def gives_notice(self) -> bool:
        """Return whether the plan is carried out without a question, once its notice is over: in
        mode auto, if it has steps."""
        return self.mode is Mode.AUTO and bool(self.plan.steps)

    @property
    def own_plan(self) -> tuple[Step, ...]:
        """Return the steps of the plan, without a stop that an earlier episode has carried out."""
        if self.stopped_by_episode is None:
            return self.plan.steps
        return tuple(step for step in self.plan.steps if step is not Step.STOP)

    @property
    def own_steps(self) -> Mapping[str, UtcDatetime]:
        """Return when EC2 was asked for each step, without the stop of an earlier episode; empty
        before the first call."""
        return {step: at for step, at in self.progress.steps_done.items() if step in self.own_plan}

    @property
    def final_step(self) -> Step:
        """Return the last step that a hold can prevent: the termination if the plan has one, else
        the stop."""
        return Step.TERMINATE if self.plan.destroys else Step.STOP

    @property
    def begun_at(self) -> UtcDatetime | None:
        """Return when EC2 was asked for the final step; `None` if it was not asked yet. From then
        on nobody can hold the step."""
        return self.progress.steps_done.get(self.final_step.value)

    @property
    def is_past_final_step(self) -> bool:
        """Return whether a step after the final one was begun, which shows that EC2 has carried out
        the final one."""
        steps_after = self.own_plan
        if self.final_step in steps_after:
            steps_after = steps_after[steps_after.index(self.final_step) + 1 :]
        return any(step in self.progress.steps_done for step in steps_after)

    @property
    def can_be_started(self) -> bool:
        """Return whether people may have the instance started again: nobody has undone the stop,
        EC2 is not starting it, and this episode ended with the instance stopped, or is open, has
        asked EC2 to stop it, and plans no termination."""
        if self.is_undone or self.is_starting:
            return False
        is_open = self.phase is not Phase.CLOSED and self.mode is not Mode.OBSERVE
        is_last = is_open and not self.plan.destroys and Step.STOP in self.progress.steps_done
        return self.became is Outcome.STOPPED or is_last

    @property
    def is_starting(self) -> bool:
        """Return whether EC2 has accepted a start whose end is not known yet."""
        return self.start_try is not None and self.start_try.status is StartStatus.ACCEPTED

    def closed(self, ending: EpisodeEnding) -> Episode:
        """Return the episode with this end."""
        return replace(self, phase=Phase.CLOSED, ending=ending)

    def has_stopped(self, later: EpisodeRef) -> bool:
        """Return whether this episode stopped the run of the instance that the `later` episode is
        about, and nobody has undone the stop. A run is the time from a launch to the next one, so
        both are of one instance and launch time."""
        is_same_run = replace(later, number=self.ref.number) == self.ref
        if not is_same_run or self.ref.number >= later.number:
            return False
        return self.became is Outcome.STOPPED and not self.is_undone


@dataclass(frozen=True, slots=True)
class Restart:
    """Others started an instance again after a stop of GPU Governor."""

    stopped_in: EpisodeRef
    """The episode that stopped it. Each stop can be followed by one such start."""
    at: UtcDatetime


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """The state table's record of an instance that was ever idle or decided about."""

    target: Target
    instance_id: str
    hold: Hold = Hold()
    episodes: int = 0
    open_episode: EpisodeRef | None = None
    """The lock: no other episode opens before this one is closed."""
    last_outcome: Outcome | None = None
    quiet_until: UtcDatetime | None = None
    """Until then, or until work resumes, nobody is notified of the same idleness again."""
    failures: int = 0
    quiet_launch_time: UtcDatetime | None = None
    """The start of the instance that `quiet_until` is about; after another start people are asked
    again."""
    restarts: tuple[Restart, ...] = ()
    """The newest starts by others after our stops, oldest first."""
    restarts_quiet_until: UtcDatetime | None = None
    """Until then nobody is asked, in whatever run: the escalation contacts were asked about the
    restarts. Neither work nor another start changes it."""
    logged_in: str | None = None
    """The person whose open session ended the last episode before anybody was asked. It counts
    until `quiet_until`."""
    marked_at: UtcDatetime | None = None
    warned_until: UtcDatetime | None = None
    """The end of a warning that EC2 takes it back; nothing is asked or done about it before."""
    untold: EpisodeRef | None = None
    """The closed episode whose outcome people may not know yet."""
    starting: EpisodeRef | None = None
    """The episode whose instance EC2 was asked to start, until the end of that is known."""
    problem: str | None = None
    """Why the record cannot be read. Its holds and locks are then unknown, and nothing may be
    done."""

    def is_warned(self, now: datetime) -> bool:
        """Return whether a warning stands that EC2 takes the instance back: the instance is saving
        its work."""
        return self.warned_until is not None and now < self.warned_until

    def last_episode(self, launch_time: datetime) -> EpisodeRef:
        """Return the newest episode of the instance, as one of the run that began at
        `launch_time`; its number is 0 if the instance never had one."""
        target = self.target
        return EpisodeRef(
            target.account, target.region, self.instance_id, launch_time, self.episodes
        )

    def is_quiet(self, launch_time: datetime, now: datetime) -> bool:
        """Return whether nobody is asked yet about the run of the instance that began at
        `launch_time`: an earlier episode of this run has an outcome that lasts until `quiet_until`,
        or the escalation contacts were asked about restarts by others."""
        if self.is_quiet_after_restarts(now):
            return True
        if self.quiet_until is None or self.quiet_launch_time != launch_time:
            return False
        return now < self.quiet_until

    def is_quiet_after_restarts(self, now: datetime) -> bool:
        """Return whether nobody is asked yet about any run of the instance, because the escalation
        contacts were asked about the restarts by others."""
        return self.restarts_quiet_until is not None and now < self.restarts_quiet_until

    def holds_an_old_warning_alone(self, now: datetime) -> bool:
        """Return whether the record holds nothing but a warning that is over."""
        if self.warned_until is None or self.is_warned(now):
            return False
        return self == InstanceRecord(self.target, self.instance_id, warned_until=self.warned_until)


@dataclass(frozen=True, slots=True)
class Failing:
    """A failure of the last workflow of an instance, with its cause."""

    target: Target
    instance_id: str
    name: str
    cause: str
    """A hash that all failures of one cause share. It names their incident."""
    reason: str
    step: str
    """The step that failed; `ask` before the first one."""
    at: UtcDatetime
    over_at: UtcDatetime | None = None
    """The time from which the workflow no longer failed; `None` if it still does."""
    owner: str = ""
    """Owner of the instance when it failed, as is `project`; empty in records of earlier
    releases."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """The last sweep's observations of an instance.

    The record is a cache: losing it costs reads, and one comparison with the sweep before.
    """

    launch_time: UtcDatetime
    verdict: str
    at: UtcDatetime
    reason: str = ""
    policy_version: str = ""
    """Version of the policy that judged it: under another one `last_busy` may mean something
    else."""
    last_busy: UtcDatetime | None = None
    source: str | None = None
    """The series in which utilization was last seen: `aggregate` or `per-gpu`."""
    dimensions: tuple[tuple[tuple[str, str], ...], ...] | None = None
    """The sets of `(name, value)` pairs, one a GPU; `None` if they were never listed."""
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
    """Time at which that began; it stays while there is no data."""
    last_known: str | None = None
    """The newest verdict by its metrics, or `too-young`, so that a change is seen even after a
    keep."""
    project: str | None = None
    """The project for which its hours are counted; `None` if the last sweep counted nothing."""
    counted_for: str = UNASSIGNED
    usd_per_hour: UsdPerHour | None = None
    job: str | None = None
    """The job for which its hours are counted; `None` if no job is named, or the release that
    stored this did not count jobs."""
    idle_parts: IdleParts | None = None
    """The idle GPUs of a partly idle instance; `None` for other verdicts, if their number is not
    known, or if the release that stored this did not count them."""
