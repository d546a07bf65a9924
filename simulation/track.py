"""One instance under one policy, while a replay lets time pass.

It keeps what happened and counts it; `simulation.replay` decides what happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from evaluation.bins import BINS_PER_HOUR, reaching, without
from governor.core.instance import Instance
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Plan, PlanFacts, Price
from governor.episode.rules.plan import draw_plan
from governor.policy.model.policy import Policy
from governor.policy.rules.owners import owner_of
from governor.verdict.model import Verdict, VerdictKind
from governor.verdict.rules.judging import Memory
from simulation.outcome import Ending, Event, InstanceResult, Stop
from simulation.recording import PERIOD, Recording

WORTH_COUNTING_BINS = BINS_PER_HOUR
"""Idle stretches shorter than an hour are pauses of work: they are in no count of idle hours."""


@dataclass(slots=True)
class Question:
    """An open question, and when it is answered (or expires)."""

    found_at: UtcDatetime
    sent_at: UtcDatetime | None
    due_at: UtcDatetime
    acts: bool
    """True if anything follows at `due_at`: a yes, or an expiry that counts as one."""
    reason: str
    proved_from: UtcDatetime
    """The begin of the window that proves the idleness."""


@dataclass(eq=False, slots=True)
class Track:
    """One instance under one policy, as time passes. Indices count bins of its recording."""

    recording: Recording
    policy: Policy
    active: bytes = b""
    """1 for every bin with any work in it."""
    at_work: bytes = b""
    """The same by utilization alone: enough to make every window that holds it busy."""
    at_rest: bytes = b""
    """1 for every bin in which utilization was measured on every GPU and shows no work."""
    steady: bytes = b""
    """1 for every bin that leaves a proof of idleness as it is (`Recording.steady`)."""
    released: bytes = b""
    """1 for every bin at whose end GPU memory counts as released."""
    unseen: bytes = b""
    """1 for every bin in which no GPU has a reading."""
    instance: Instance = field(init=False)
    plan: Plan = field(init=False)
    before: VerdictKind | None = None
    last_known: VerdictKind | None = None
    """The newest verdict other than `no-data`."""
    quiet: datetime | None = None
    question: Question | None = None
    run_end: int = 0
    memory: Memory | None = None
    """The memory of the sweep before, if that was since the start."""
    known: Verdict | None = None
    """The last verdict, if it cannot change before the sweep of the bin `known_until`."""
    known_until: int = 0
    no_data_bins: int = 0
    events: list[Event] = field(default_factory=list)
    stops: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        recording = self.recording
        self.active = recording.activity(self.policy)
        busy = self.policy.idle.utilization_below_percent
        self.at_work = reaching(recording.figures.utilization, busy)
        self.unseen = bytes([not value >= 0 for value in recording.figures.utilization])
        self.at_rest = without(recording.measured(self.policy.metrics.utilization), self.at_work)
        self.steady = recording.steady(self.policy)
        self.released = recording.released(self.policy)
        self.instance = recording.instance
        own = self.policy.prices.usd_per_hour.get(recording.instance.instance_type)
        facts = PlanFacts(
            instance=recording.instance,
            protection=recording.protection,
            spot_request=recording.spot_request,
            shape=recording.shape,
            price=recording.price if own is None else Price(own, "price from the policy"),
        )
        self.plan = draw_plan(facts, self.policy)

    @property
    def instance_id(self) -> str:
        """Return the instance's id."""
        return self.instance.instance_id

    def start(self, index: int, end: int) -> None:
        """Begin a run at this bin that lasts until `end` at the latest."""
        recording = self.recording
        launch = recording.time(index)
        if index == 0:
            launch = min(launch, recording.instance.launch_time)
        self.instance = replace(recording.instance, launch_time=launch)
        self.run_end = end
        self.before = None
        self.last_known = None
        self.quiet = None
        self.known = None
        self.memory = None

    def close(self, ending: Ending, at: datetime, reason: str, stop: Stop | None = None) -> None:
        """End the open question."""
        question = self.question
        assert question is not None
        sent_at = question.sent_at
        if sent_at is not None and sent_at > at:
            sent_at = None
        event = Event(question.found_at, sent_at, at, ending, reason, stop)
        if event.asked_at is not None:
            event = self._with_work_after(event, event.asked_at)
        self.events.append(event)
        self.question = None

    def _with_work_after(self, event: Event, asked_at: UtcDatetime) -> Event:
        """Return the event with the work that the record shows after the question."""
        recording = self.recording
        asked_bin = (asked_at - recording.span.start) // PERIOD
        worked_bin = self.active.find(1, asked_bin, self.run_end)
        seen_until = recording.time(self.run_end)
        if worked_bin < 0:
            return replace(event, worked_at=None, seen_until=seen_until)
        return replace(event, worked_at=recording.time(worked_bin), seen_until=seen_until)

    def result(self, base: Policy) -> InstanceResult:
        """Return the result at the end of the replay."""
        idle, left = self._idle_bins()
        owner = owner_of(self.recording.instance, base.ownership).name
        return InstanceResult(
            recording=self.recording,
            owner=owner,
            events=tuple(self.events),
            idle=idle * PERIOD,
            idle_left=left * PERIOD,
            no_data=(self.no_data_bins + self.recording.unheard_bins) * PERIOD,
        )

    def _idle_bins(self) -> tuple[int, int]:
        """Return the idle bins in stretches that are long enough, and those of them in no stop."""
        bins = zip(self.at_rest, self.active, strict=True)
        idle = bytearray([rests and not is_active for rests, is_active in bins])
        total = 0
        left = 0
        stopped = bytearray(len(idle))
        for start, end in self.stops:
            stopped[start:end] = b"\x01" * (end - start)
        start = idle.find(1)
        while start >= 0:
            end = idle.find(0, start)
            if end < 0:
                end = len(idle)
            if end - start >= WORTH_COUNTING_BINS:
                total += end - start
                left += stopped.count(0, start, end)
            start = idle.find(1, end)
        return total, left
