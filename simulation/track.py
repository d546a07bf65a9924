"""One instance under one policy, while a replay lets time pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from evaluation.bins import BINS_PER_HOUR, reaching, without
from governor.domain.alerts.alert import owner_of
from governor.domain.episode.plan import Plan, PlanFacts, Price, draw_plan
from governor.domain.instance import Instance
from governor.domain.policy.policy import Policy
from governor.domain.sweep.judging import Memory
from governor.domain.sweep.verdict import Verdict, VerdictKind
from governor.domain.units import UtcDatetime
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
    """Begin of the window that proves its idleness."""


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
    """The newest one that was one: not `no-data`."""
    quiet: datetime | None = None
    question: Question | None = None
    run_end: int = 0
    memory: Memory | None = None
    """Memory of the sweep before, since it was started."""
    known: Verdict | None = None
    """The last verdict, where it cannot change before the sweep of the bin `known_until`."""
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
        """It runs from this bin on, until `end` at the latest."""
        recording = self.recording
        launch = recording.time(index)
        if index == 0:
            launch = min(launch, recording.instance.launch_time)
        self.instance = replace(recording.instance, launch_time=launch)
        self.run_end = end
        self.before = self.last_known = self.quiet = self.known = self.memory = None

    def close(self, ending: Ending, at: datetime, reason: str, stop: Stop | None = None) -> None:
        """Ends the open question."""
        question = self.question
        assert question is not None
        sent = question.sent_at if question.sent_at is not None and question.sent_at <= at else None
        event = Event(question.found_at, sent, at, ending, reason, stop)
        if event.asked_at is not None:
            recording = self.recording
            asked = (event.asked_at - recording.span.start) // PERIOD
            worked = self.active.find(1, asked, self.run_end)
            event = replace(
                event,
                worked_at=None if worked < 0 else recording.time(worked),
                seen_until=recording.time(self.run_end),
            )
        self.events.append(event)
        self.question = None

    def result(self, base: Policy) -> InstanceResult:
        """The account at the end."""
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
        """Idle bins in stretches that are long enough, and those of them outside of all stops."""
        idle = bytearray(
            [rests and not active for rests, active in zip(self.at_rest, self.active, strict=True)]
        )
        total = left = 0
        stopped = bytearray(len(idle))
        for start, end in self.stops:
            stopped[start:end] = b"\x01" * (end - start)
        start = idle.find(1)
        while start >= 0:
            end = idle.find(0, start)
            end = len(idle) if end < 0 else end
            if end - start >= WORTH_COUNTING_BINS:
                total += end - start
                left += stopped.count(0, start, end)
            start = idle.find(1, end)
        return total, left
