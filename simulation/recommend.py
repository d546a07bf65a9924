"""Recommends how long to wait before people are asked, from what happened on the account's own
instances.

Every candidate is replayed over the same recordings. The choice is made on the first half of the
time and checked on the second, which had no part in it. This module does not know where readings
come from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from math import ceil, log, sqrt

from evaluation.shares import interval, upper_bound
from governor.alerts.model import UNASSIGNED
from governor.core.instance import Instance
from governor.core.units import printable
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import AppliedPolicy, Mode, Policy
from governor.policy.ports import Policies
from governor.verdict.rules.judging import sooner_window
from simulation.outcome import Event, InstanceResult
from simulation.recording import Recording
from simulation.replay import ReplayError, replay

WINDOWS = (60, 90, 120, 150, 180, 240, 300, 360, 480, 720)
"""Minutes of idleness before a question: the candidates."""
FEWEST_QUESTIONS = 45
"""The fewest that a choice may rest on, however loose the limit."""
CONFIDENCE = 0.9
_FEWEST_INSTANCES = 5
"""The amounts of fewer instances say nothing about others."""
_HALF_WIDTH = 1.96
"""Half of a 95% interval, in standard deviations."""

Candidates = dict["Wait", list["Asked"]]
"""Questions by the wait before them."""
Match = Mapping[str, str]
"""Tags that select a group in an override; empty if none do."""


def questions_needed(wrong_at_most: float) -> int:
    """Return how many questions prove that at most this share is wrong, if none of them is."""
    return max(FEWEST_QUESTIONS, ceil(log(1 - CONFIDENCE) / log(1 - wrong_at_most)))


@dataclass(frozen=True, slots=True)
class Wait:
    """Idle minutes before a question: in general, and once every GPU has released its memory."""

    minutes: int
    released_minutes: int

    @classmethod
    def of(cls, rule: ApprovalRule) -> Wait:
        """Return the wait that a policy sets."""
        return cls(rule.ask_after_minutes, rule.ask_after_released_minutes)

    def settings(self) -> dict[str, dict[str, int]]:
        """Return the part of a policy that sets it."""
        return {
            "approval": {
                "ask_after_minutes": self.minutes,
                "ask_after_released_minutes": self.released_minutes,
            }
        }

    def at_least(self, least: Wait) -> Wait:
        """Return the longer of the two, setting by setting."""
        return Wait(
            max(self.minutes, least.minutes), max(self.released_minutes, least.released_minutes)
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a replay, and what became of it."""

    instance_id: str
    is_early: bool
    """True if it was asked in the first half of the time."""
    is_wrong: bool | None
    """True if work was back within an hour; `None` if nobody can know."""
    hours: Decimal
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of some questions. Amounts have 95% intervals if there are enough instances."""

    questions: int
    wrong: int
    unknown: int
    """Further questions that cannot be judged: the record or the instance ended within the hour."""
    hours: Decimal
    hours_interval: tuple[float, float] | None
    usd: Decimal
    usd_interval: tuple[float, float] | None
    unpriced: int

    @property
    def share(self) -> float:
        """Return the share of wrong questions, 0 to 1; 0 if there are no questions."""
        return self.wrong / self.questions if self.questions else 0.0

    @property
    def share_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the share."""
        return interval(self.wrong, self.questions)

    @property
    def bound(self) -> float:
        """Return the share that the true one exceeds with a chance of one in ten."""
        return upper_bound(self.wrong, self.questions, CONFIDENCE)


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate over the whole time, and over its two halves."""

    wait: Wait
    whole: Figures
    first: Figures
    second: Figures


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation for some instances: `choice` is `None` if no candidate qualifies."""

    name: str
    matches: tuple[Match, ...]
    """Tags that select all its instances; empty if no tag does."""
    instances: int
    days: float
    """How long the record of an instance is, on average."""
    needed: int
    """How many questions in the first half a choice takes."""
    trials: tuple[Trial, ...]
    choice: Trial | None

    @property
    def most(self) -> Trial:
        """Return the candidate with the most questions in the first half."""
        return max(self.trials, key=lambda trial: trial.first.questions)

    @property
    def best(self) -> Trial | None:
        """Return the candidate with the lowest bound, of those with enough questions; `None` if
        there is none."""
        proven = [trial for trial in self.trials if trial.first.questions >= self.needed]
        return min(proven, key=lambda trial: trial.first.bound, default=None)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice for all instances together, and for each group. `left_out` counts instances whose
    override sets its own wait."""

    everyone: Advice
    groups: tuple[Advice, ...]
    wrong_at_most: float
    """Share of wrong questions, 0 to 1."""
    present: Wait
    """The policy's own wait."""
    approval_delay: timedelta
    days: tuple[float, float]
    """The shortest and the longest record."""
    left_out: int
    freezes: int
    """How often the breaker froze all plans under one candidate, at the most."""
    asks: bool
    """False in mode auto: what is counted as a question is a stop after the notice period."""
    sooner: bool
    """True if released memory may bring a question forward: never where silence acts, or in mode
    auto."""

    @property
    def base(self) -> Wait:
        """The wait for all instances, once the policy is changed.

        It is never shorter than the present one while untagged instances do not qualify for less:
        no override could keep theirs.
        """
        choice = self.everyone.choice
        if choice is None:
            return self.present
        for group in self.groups:
            if group.choice is None and not group.matches:
                return choice.wait.at_least(self.present)
        return choice.wait

    def wait_of(self, group: Advice) -> Wait:
        """Return a group's wait once the policy is changed: without a choice, it gets no
        shorter."""
        if group.choice is None:
            return self.base.at_least(self.present)
        return group.choice.wait

    def failed(self, choice: Trial) -> bool:
        """Return whether the second half contradicts a choice."""
        return choice.second.questions > 0 and choice.second.share >= self.wrong_at_most

    def document(self) -> dict[str, object]:
        """Return what to add to the policy; empty if nothing changes."""
        document: dict[str, object] = {}
        if self.base != self.present:
            document.update(self.base.settings())
        overrides = self._overrides()
        if overrides:
            document["overrides"] = overrides
        return document

    def _overrides(self) -> list[dict[str, object]]:
        """Return an override for each tag of the groups whose wait is not that of all."""
        overrides: list[dict[str, object]] = []
        names = set[str]()
        for group in self.groups:
            wait = self.wait_of(group)
            if wait == self.base:
                continue
            for match in group.matches:
                name = _new_name(_override_name(group, match), names)
                names.add(name)
                tags = {"tags": dict(match)}
                overrides.append({"name": name, "match": tags, "set": wait.settings()})
        return overrides


def _override_name(group: Advice, match: Match) -> str:
    reason = "unchanged" if group.choice is None else "recommended"
    tags = [f"{key}={printable(tag)}" for key, tag in match.items()]
    return f"{reason} for {', '.join(tags)}"


def _new_name(name: str, names: Container[str]) -> str:
    """Return the name, with a number if it is taken: tags that differ only in spaces look alike."""
    if name not in names:
        return name
    number = 2
    while f"{name} ({number})" in names:
        number += 1
    return f"{name} ({number})"


@dataclass(frozen=True, slots=True)
class AskAfter:
    """The port `Policies`: the same policies with another wait before a question."""

    policies: Policies
    minutes: int
    sooner: bool = True
    """True if released memory may bring the question forward."""

    def base(self) -> AppliedPolicy:
        """Return the base, with the other wait."""
        return self._changed(self.policies.base())

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of an instance, with the other wait."""
        return self._changed(self.policies.applied_to(instance))

    def _changed(self, applied: AppliedPolicy) -> AppliedPolicy:
        changed = _asking_after(applied.policy.approval, self.minutes, sooner=self.sooner)
        return replace(applied, policy=replace(applied.policy, approval=changed))


def _asking_after(rule: ApprovalRule, minutes: int, *, sooner: bool = True) -> ApprovalRule:
    released = min(rule.ask_after_released_minutes, minutes) if sooner else minutes
    return replace(rule, ask_after_minutes=minutes, ask_after_released_minutes=released)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The tags by which instances are grouped; the first that an instance carries counts."""

    label: str
    keys: tuple[str, ...]

    def of(self, instance: Instance) -> tuple[str, Match]:
        """Return the group's name and the tag that selects the instance."""
        for key in self.keys:
            value = instance.tags.get(key, "")
            if printable(value):
                return printable(value), {key: value}
        return UNASSIGNED, {}


def grouping(by: str, rule: Ownership) -> Grouping:
    """Return the grouping for `project` or `tag:KEY`.

    Raises:
        ReplayError: it is neither.
    """
    kind, _, key = by.partition(":")
    if by == "project":
        return Grouping("project", rule.project_tag_keys)
    if kind == "tag" and key:
        return Grouping(f"tag {key}", (key,))
    raise ReplayError(f"--by {by}: give project, or tag:KEY with the key of a tag")


def recommend(
    policies: Policies,
    recordings: Sequence[Recording],
    groups: Grouping,
    *,
    wrong_at_most: float,
    approval_delay: timedelta,
    progress: Callable[[str, int, int], None],
) -> Recommendation:
    """Replay all candidates and choose.

    Args:
        policies: all but the wait before a question stays as they say.
        recordings: of any number of targets; each is halved at the middle of its own time.
        groups: for which parts a choice of their own is made.
        wrong_at_most: share of wrong questions, 0 to 1.
        approval_delay: as for `replay`.
        progress: is told of every candidate.

    Raises:
        ReplayError: the policy cannot be replayed, or sets a wait of its own for every instance.
    """
    base = policies.base().policy
    kept = []
    for recording in recordings:
        applied = policies.applied_to(recording.instance)
        if applied.policy.ask_window == base.ask_window:
            kept.append(recording)
    if not kept:
        raise ReplayError(
            "every instance has an override with a wait of its own: there is nothing to choose"
        )
    trials = _Replays(policies, kept, approval_delay, progress, _candidates(base))
    parts = _parts(kept, groups)
    questions = trials.run("replay", sooner=True)
    advice = [_advice(part, questions, wrong_at_most) for part in parts]
    lacks_proof = any(map(_lacks_proof, advice))
    if lacks_proof and _may_be_sooner(kept, policies):
        # Where jobs release their memory between two runs, the shorter wait asks too soon.
        later = trials.run("replay without the wait for released memory", sooner=False)
        for number, part in enumerate(parts):
            if advice[number].choice is None:
                patient = _advice(part, later, wrong_at_most)
                advice[number] = patient if patient.choice else advice[number]
    days = [_days(recording) for recording in kept]
    everyone, *advice_of_groups = advice
    return Recommendation(
        everyone=everyone,
        groups=tuple(advice_of_groups),
        wrong_at_most=wrong_at_most,
        present=Wait.of(base.approval),
        approval_delay=approval_delay,
        days=(min(days), max(days)),
        left_out=len(recordings) - len(kept),
        freezes=trials.freezes,
        asks=base.mode is not Mode.AUTO,
        sooner=_is_sooner(base),
    )


def _candidates(base: Policy) -> list[int]:
    """Return the waits to try, in minutes. Raises: ReplayError if there is none."""
    candidates = [minutes for minutes in WINDOWS if minutes >= base.idle.window_minutes]
    if not candidates:
        raise ReplayError(
            f"idle.window_minutes is {base.idle.window_minutes}, longer than the longest "
            f"wait that is tried ({WINDOWS[-1]} min)"
        )
    return candidates


@dataclass(slots=True)
class _Replays:
    """Replays of all candidates. `freezes` is how often the breaker froze all plans under one of
    them, at the most."""

    policies: Policies
    recordings: Sequence[Recording]
    approval_delay: timedelta
    progress: Callable[[str, int, int], None]
    candidates: Sequence[int]
    freezes: int = 0

    def run(self, label: str, *, sooner: bool) -> Candidates:
        """Return the questions of every candidate by its wait."""
        count = len(self.candidates)
        questions_by_wait: Candidates = {}
        for number, minutes in enumerate(self.candidates):
            self.progress(label, number, count)
            changed = AskAfter(self.policies, minutes, sooner)
            replayed = replay(
                str(minutes), changed, self.recordings, approval_delay=self.approval_delay
            )
            self.freezes = max(self.freezes, replayed.freezes)
            questions: list[Asked] = []
            for result in replayed.results:
                questions += _asked(result)
            questions_by_wait[Wait.of(changed.base().policy.approval)] = questions
        self.progress(label, count, count)
        return questions_by_wait


@dataclass(frozen=True, slots=True)
class _Part:
    """All instances, or a group of them, for which a wait is chosen."""

    name: str
    matches: tuple[Match, ...]
    recordings: Sequence[Recording]


def _parts(recordings: Sequence[Recording], groups: Grouping) -> list[_Part]:
    """Return all instances, then each group by its name."""
    members: dict[str, list[Recording]] = {}
    matches: dict[str, list[Match]] = {}
    for recording in recordings:
        name, match = groups.of(recording.instance)
        members.setdefault(name, []).append(recording)
        matches_of_group = matches.setdefault(name, [])
        if match and match not in matches_of_group:
            matches_of_group.append(match)
    parts = [_Part(name, tuple(matches[name]), members[name]) for name in sorted(members)]
    return [_Part("all instances", (), recordings), *parts]


def _days(recording: Recording) -> float:
    return (recording.span.end - recording.span.start) / timedelta(days=1)


def _lacks_proof(advice: Advice) -> bool:
    """Return whether there are enough questions, and too many of them are wrong."""
    return advice.choice is None and advice.best is not None


def _may_be_sooner(recordings: Sequence[Recording], policies: Policies) -> bool:
    """Return whether memory is ever seen released, so that the shorter wait plays a part."""
    for recording in recordings:
        policy = policies.applied_to(recording.instance).policy
        if _is_sooner(policy) and any(recording.released(policy)):
            return True
    return False


def _is_sooner(policy: Policy) -> bool:
    """Return whether released memory brings a question forward at the longest wait."""
    changed = replace(policy, approval=_asking_after(policy.approval, WINDOWS[-1]))
    return sooner_window(changed) is not None


def _asked(result: InstanceResult) -> Iterator[Asked]:
    """Yield the questions about one instance, each with what a yes saved."""
    span = result.recording.span
    middle = span.start + (span.end - span.start) / 2
    for event in result.events:
        if event.asked_at is None:
            continue
        hours, usd = _saved(event)
        yield Asked(
            instance_id=result.recording.instance.instance_id,
            is_early=event.asked_at < middle,
            is_wrong=event.is_wrong,
            hours=hours,
            usd=usd,
        )


def _saved(event: Event) -> tuple[Decimal, Decimal | None]:
    """Return the hours and the amount that a stop saved; zeros if nothing was stopped."""
    if event.stop is None:
        return Decimal(0), Decimal(0)
    hours = Decimal(event.stop.length // timedelta(seconds=1)) / 3600
    return hours, event.stop.usd


def _advice(part: _Part, questions_by_wait: Candidates, wrong_at_most: float) -> Advice:
    """Return the advice for a part: the first candidate, the shortest wait, that qualifies."""
    instance_ids = {recording.instance.instance_id for recording in part.recordings}
    needed = questions_needed(wrong_at_most)
    trials = []
    choice = None
    for wait, questions in questions_by_wait.items():
        own = [question for question in questions if question.instance_id in instance_ids]
        trial = _trial(wait, own, len(instance_ids))
        trials.append(trial)
        is_proven = trial.first.questions >= needed and trial.first.bound < wrong_at_most
        if choice is None and is_proven:
            choice = trial
    days = sum(map(_days, part.recordings)) / len(part.recordings)
    return Advice(
        name=part.name,
        matches=part.matches,
        instances=len(instance_ids),
        days=days,
        needed=needed,
        trials=tuple(trials),
        choice=choice,
    )


def _trial(wait: Wait, questions: Sequence[Asked], instances: int) -> Trial:
    early = [question for question in questions if question.is_early]
    late = [question for question in questions if not question.is_early]
    return Trial(
        wait=wait,
        whole=_figures(questions, instances),
        first=_figures(early, instances),
        second=_figures(late, instances),
    )


def _figures(questions: Sequence[Asked], instances: int) -> Figures:
    hours: dict[str, Decimal] = defaultdict(Decimal)
    usd: dict[str, Decimal] = defaultdict(Decimal)
    verdicts: Counter[bool | None] = Counter()
    for question in questions:
        hours[question.instance_id] += question.hours
        usd[question.instance_id] += question.usd or 0
        verdicts[question.is_wrong] += 1
    return Figures(
        questions=verdicts[True] + verdicts[False],
        wrong=verdicts[True],
        unknown=verdicts[None],
        hours=sum(hours.values(), Decimal(0)),
        hours_interval=_interval(hours.values(), instances),
        usd=sum(usd.values(), Decimal(0)),
        usd_interval=_interval(usd.values(), instances),
        unpriced=sum(question.usd is None for question in questions),
    )


def _interval(amounts: Iterable[Decimal], instances: int) -> tuple[float, float] | None:
    """Return the 95% interval of the total over so many instances, by how much they differ; `None`
    if there are too few."""
    if instances < _FEWEST_INSTANCES:
        return None
    values = [float(amount) for amount in amounts]
    values += [0.0] * (instances - len(values))
    total = sum(values)
    mean = total / instances
    spread = sum((value - mean) ** 2 for value in values) * instances / (instances - 1)
    half = _HALF_WIDTH * sqrt(spread)
    return max(0.0, total - half), total + half
