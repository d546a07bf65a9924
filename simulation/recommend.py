"""Recommends how long to wait before asking, from what happened on the account's own instances.

Every candidate is replayed over the same recordings. The choice is made on the first half of the
time and checked on the second, which had no part in it. This module must not know where readings
came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from itertools import count
from math import ceil, log, sqrt

from evaluation.shares import interval, upper_bound
from governor.domain.alerts.alert import UNASSIGNED
from governor.domain.instance import Instance
from governor.domain.policy.contacts import Ownership
from governor.domain.policy.policy import AppliedPolicy, ApprovalRule, Mode, Policy
from governor.domain.sweep.judging import sooner_window
from governor.domain.units import printable
from governor.ports import Policies
from simulation.outcome import Event, InstanceResult
from simulation.recording import Recording
from simulation.replay import ReplayError, replay

WINDOWS = (60, 90, 120, 150, 180, 240, 300, 360, 480, 720)
"""Minutes of idleness before a question: the candidates."""
FEWEST_QUESTIONS = 45
"""The fewest that a choice may rest on, however loose the limit."""
CONFIDENCE = 0.9
_FEWEST_INSTANCES = 5
"""Amounts of fewer instances say nothing about how others would do."""
_HALF_WIDTH = 1.96

Candidates = dict["Wait", list["Asked"]]
"""Questions by the wait before them."""
Match = Mapping[str, str]
"""Tags that select a group in an override; empty where none do."""


def questions_needed(wrong_at_most: float) -> int:
    """Return how many questions can bound the share of wrong ones by this, when none of them is
    wrong."""
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

    def at_least(self, other: Wait) -> Wait:
        """Return the longer of the two, setting by setting."""
        return Wait(
            max(self.minutes, other.minutes), max(self.released_minutes, other.released_minutes)
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a replay, and what became of it."""

    instance_id: str
    is_early: bool
    """True if it was asked in the first half of the time."""
    is_wrong: bool | None
    """True if work was back within an hour; `None` where nobody can know."""
    hours: Decimal
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of some questions. Amounts have 95% intervals where there are instances
    enough."""

    questions: int
    wrong: int
    unknown: int
    """Further questions whose worth nobody can know: the record, or the instance, ended within the
    hour."""
    hours: Decimal
    hours_interval: tuple[float, float] | None
    usd: Decimal
    usd_interval: tuple[float, float] | None
    unpriced: int

    @property
    def share(self) -> float:
        """Share of wrong questions, 0 to 1; 0 without questions."""
        return self.wrong / self.questions if self.questions else 0.0

    @property
    def share_interval(self) -> tuple[float, float]:
        """95% interval of the share."""
        return interval(self.wrong, self.questions)

    @property
    def bound(self) -> float:
        """Return what the share exceeds with a chance of one in ten."""
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
    """A recommendation for some instances: `choice` is `None` where no candidate qualifies."""

    name: str
    matches: tuple[Match, ...]
    """Tags that select all its instances; empty where they have none in common."""
    instances: int
    days: float
    """How long the record of an instance is, on average."""
    needed: int
    """How many questions in the first half a choice takes."""
    trials: tuple[Trial, ...]
    choice: Trial | None

    @property
    def most(self) -> Trial:
        """The candidate with the most questions in the first half."""
        return max(self.trials, key=lambda one: one.first.questions)

    @property
    def best(self) -> Trial | None:
        """The candidate with the lowest bound, of those with questions enough."""
        enough = [one for one in self.trials if one.first.questions >= self.needed]
        return min(enough, key=lambda one: one.first.bound, default=None)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """For all instances together, and for each group. `left_out` have an override with its own
    wait."""

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
        chosen = self.everyone.choice
        if chosen is None:
            return self.present
        untagged = any(one.choice is None and not one.matches for one in self.groups)
        return chosen.wait.at_least(self.present) if untagged else chosen.wait

    def wait_of(self, group: Advice) -> Wait:
        """Return a group's wait once the policy is changed: without a choice, it gets no
        shorter."""
        return self.base.at_least(self.present) if group.choice is None else group.choice.wait

    def failed(self, choice: Trial) -> bool:
        """Return whether the second half contradicts a choice."""
        return choice.second.questions > 0 and choice.second.share >= self.wrong_at_most

    def document(self) -> dict[str, object]:
        """Return what to add to the policy; empty where nothing changes."""
        found: dict[str, object] = {}
        if self.base != self.present:
            found.update(self.base.settings())
        overrides = []
        names = set[str]()
        for one in self.groups:
            wait = self.wait_of(one)
            for match in one.matches if wait != self.base else ():
                reason = "unchanged" if one.choice is None else "recommended"
                what = (
                    f"{reason} for "
                    f"{', '.join(f'{key}={printable(tag)}' for key, tag in match.items())}"
                )
                # Tags that differ in nothing but spaces look alike.
                name = next(
                    name
                    for n in count(1)
                    if (name := f"{what} ({n})" if n > 1 else what) not in names
                )
                names.add(name)
                overrides.append(
                    {"name": name, "match": {"tags": dict(match)}, "set": wait.settings()}
                )
        if overrides:
            found["overrides"] = overrides
        return found


@dataclass(frozen=True, slots=True)
class AskAfter:
    """The port `Policies`: the same policies with another wait before a question."""

    policies: Policies
    minutes: int
    sooner: bool = True
    """True if released memory may bring the question forward."""

    def base(self) -> AppliedPolicy:
        """As the port says."""
        return self._changed(self.policies.base())

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """As the port says."""
        return self._changed(self.policies.applied_to(instance))

    def _changed(self, applied: AppliedPolicy) -> AppliedPolicy:
        changed = _asking_after(applied.policy.approval, self.minutes, sooner=self.sooner)
        return replace(applied, policy=replace(applied.policy, approval=changed))


def _asking_after(rule: ApprovalRule, minutes: int, *, sooner: bool = True) -> ApprovalRule:
    released = min(rule.ask_after_released_minutes, minutes) if sooner else minutes
    return replace(rule, ask_after_minutes=minutes, ask_after_released_minutes=released)


@dataclass(frozen=True, slots=True)
class Grouping:
    """By which tags instances are grouped; the first that an instance carries counts."""

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
    kept = [
        one
        for one in recordings
        if policies.applied_to(one.instance).policy.ask_window == base.ask_window
    ]
    if not kept:
        raise ReplayError(
            "every instance has an override with a wait of its own: there is nothing to choose"
        )
    candidates = [minutes for minutes in WINDOWS if minutes >= base.idle.window_minutes]
    if not candidates:
        raise ReplayError(
            f"idle.window_minutes is {base.idle.window_minutes}, longer than the longest "
            "wait that is tried "
            f"({WINDOWS[-1]} min)"
        )
    freezes = 0

    def replayed(label: str, *, sooner: bool) -> Candidates:
        nonlocal freezes
        asked: Candidates = {}
        for number, minutes in enumerate(candidates):
            progress(label, number, len(candidates))
            changed = AskAfter(policies, minutes, sooner)
            found = replay(str(minutes), changed, kept, approval_delay=approval_delay)
            freezes = max(freezes, found.freezes)
            wait = Wait.of(changed.base().policy.approval)
            asked[wait] = [one for result in found.results for one in _asked(result)]
        progress(label, len(candidates), len(candidates))
        return asked

    members: dict[str, list[Recording]] = {}
    matches: dict[str, list[Match]] = {}
    for recording in kept:
        name, match = groups.of(recording.instance)
        members.setdefault(name, []).append(recording)
        if match and match not in matches.setdefault(name, []):
            matches[name].append(match)
    parts: list[tuple[str, tuple[Match, ...], Sequence[Recording]]] = [
        ("all instances", (), kept),
        *((name, tuple(matches.get(name, ())), found) for name, found in sorted(members.items())),
    ]
    asked = replayed("replay", sooner=True)
    advice = [_advice(*part, asked, wrong_at_most) for part in parts]
    if any(one.choice is None and one.best is not None for one in advice) and _may_be_sooner(
        kept, policies
    ):
        # Where jobs release their memory between two runs, the shorter wait asks too soon.
        later = replayed("replay without the wait for released memory", sooner=False)
        patient = [_advice(*part, later, wrong_at_most) for part in parts]
        advice = [
            b if a.choice is None and b.choice else a for a, b in zip(advice, patient, strict=True)
        ]
    days = [_days(one) for one in kept]
    return Recommendation(
        everyone=advice[0],
        groups=tuple(advice[1:]),
        wrong_at_most=wrong_at_most,
        present=Wait.of(base.approval),
        approval_delay=approval_delay,
        days=(min(days), max(days)),
        left_out=len(recordings) - len(kept),
        freezes=freezes,
        asks=base.mode is not Mode.AUTO,
        sooner=_is_sooner(base),
    )


def _days(recording: Recording) -> float:
    return (recording.span.end - recording.span.start) / timedelta(days=1)


def _may_be_sooner(recordings: Sequence[Recording], policies: Policies) -> bool:
    """Return whether memory is ever seen released, so that the shorter wait plays a part."""
    applied = [(one, policies.applied_to(one.instance).policy) for one in recordings]
    return any(_is_sooner(policy) and any(one.released(policy)) for one, policy in applied)


def _is_sooner(policy: Policy) -> bool:
    """Return whether released memory brings a question forward at the longest wait."""
    changed = replace(policy, approval=_asking_after(policy.approval, WINDOWS[-1]))
    return sooner_window(changed) is not None


def _asked(result: InstanceResult) -> Iterator[Asked]:
    span = result.recording.span
    middle = span.start + (span.end - span.start) / 2
    for event in result.events:
        if event.asked_at is not None:
            yield Asked(
                result.recording.instance.instance_id,
                event.asked_at < middle,
                event.is_wrong,
                *_saved(event),
            )


def _saved(event: Event) -> tuple[Decimal, Decimal | None]:
    if event.stop is None:
        return Decimal(0), Decimal(0)
    return Decimal(event.stop.length // timedelta(seconds=1)) / 3600, event.stop.usd


def _advice(
    name: str,
    matches: tuple[Match, ...],
    recordings: Sequence[Recording],
    asked: Candidates,
    wrong_at_most: float,
) -> Advice:
    ids = {one.instance.instance_id for one in recordings}
    needed = questions_needed(wrong_at_most)
    trials = []
    for wait, questions in asked.items():
        own = [one for one in questions if one.instance_id in ids]
        early = [one for one in own if one.is_early]
        late = [one for one in own if not one.is_early]
        trials.append(Trial(wait, *(_figures(part, len(ids)) for part in (own, early, late))))
    good = (
        one for one in trials if one.first.questions >= needed and one.first.bound < wrong_at_most
    )
    days = sum(map(_days, recordings)) / len(recordings)
    return Advice(name, matches, len(ids), days, needed, tuple(trials), next(good, None))


def _figures(asked: Sequence[Asked], instances: int) -> Figures:
    hours: dict[str, Decimal] = {}
    usd: dict[str, Decimal] = {}
    for one in asked:
        hours[one.instance_id] = hours.get(one.instance_id, Decimal(0)) + one.hours
        usd[one.instance_id] = usd.get(one.instance_id, Decimal(0)) + (one.usd or 0)
    return Figures(
        questions=sum(one.is_wrong is not None for one in asked),
        wrong=sum(one.is_wrong is True for one in asked),
        unknown=sum(one.is_wrong is None for one in asked),
        hours=sum(hours.values(), Decimal(0)),
        hours_interval=_interval(hours.values(), instances),
        usd=sum(usd.values(), Decimal(0)),
        usd_interval=_interval(usd.values(), instances),
        unpriced=sum(one.usd is None for one in asked),
    )


def _interval(amounts: Iterable[Decimal], instances: int) -> tuple[float, float] | None:
    """Return the 95% interval of the total over so many instances, by how much they differ."""
    if instances < _FEWEST_INSTANCES:
        return None
    values = [float(amount) for amount in amounts]
    values += [0.0] * (instances - len(values))
    total = sum(values)
    mean = total / instances
    spread = sum((value - mean) ** 2 for value in values) * instances / (instances - 1)
    half = _HALF_WIDTH * sqrt(spread)
    return max(0.0, total - half), total + half
