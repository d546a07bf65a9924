"""What both detectors promise about any readings, and what `survival` cannot promise, shown by example.

`threshold` stands for the rule that asks for every bin: the two means are there to be compared with, and a
mean forgives work. The plain rule is monotone: more activity, wherever it lies, never makes idle. `survival`
learns from its past, and what it learns can ask for less; so its promise is narrower:

1. It never calls idle what the plain rule of an hour does not. All promises about the newest hour follow.
2. Until an idle stretch of an hour has ended, it has learnt nothing: more activity anywhere never makes idle.
3. What a stretch must show depends on its start and on the past before it, and on nothing within it.

Work that splits an earlier stretch, or the present one before its newest hour, can change what was learnt or
which time of day the stretch is compared with, and so bring a flag forward. The last tests hold such cases.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governor.domain.detection.detector import Detector
from governor.domain.detection.history import Bin, BinState
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import Statistic, ThresholdDetector
from tests.unit.domain.detection.builders import BUSY, HOLE, HOUR, IDLE, Row, bins_of, days, history_of

PLAIN = ThresholdDetector(60)
SURVIVAL = SurvivalDetector()
EAGER = SurvivalDetector(needed_chance=0.4, minimum_minutes=30, unproven_minutes=30, interruption_margin=1)
FIXED: tuple[Detector, ...] = (ThresholdDetector(30), PLAIN, ThresholdDetector(180))
LEARNING: tuple[Detector, ...] = (SURVIVAL, EAGER)

fixed = pytest.mark.parametrize("detector", FIXED, ids=lambda one: one.name)
both = pytest.mark.parametrize("detector", [*FIXED, *LEARNING], ids=lambda one: one.name)
readings = st.one_of(st.none(), st.sampled_from([0.0, 4.999, 5.0, 100.0]), st.floats(0, 100))


@st.composite
def pasts(draw: st.DrawFn, longest: int = 60) -> list[Row]:
    """Some stretches of one to three GPUs; idle ones are as frequent as all others, and the last is one."""
    gpus = draw(st.integers(1, 3))
    any_row = st.tuples(*[readings] * gpus)
    row = st.one_of(st.just((1.0,) * gpus), st.just((60.0,) * gpus), st.just((None,) * gpus), any_row)
    idle = st.one_of(st.just((1.0,) * gpus), row)
    runs = draw(st.lists(st.tuples(idle, st.integers(1, longest)), min_size=1, max_size=8))
    # Some bins are another thing, as in life: a blip of work, or nothing measured.
    rows = [one for one, count in runs for _ in range(count)] + [(1.0,) * gpus] * draw(
        st.integers(0, longest)
    )
    for at in draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)):
        rows[at] = draw(row)
    return rows


def near_the_end(draw: st.DrawFn, rows: list[Row]) -> int:
    """Any bin, the newest ones more often: there a verdict is made."""
    return draw(st.one_of(st.integers(max(0, len(rows) - 48), len(rows) - 1), st.integers(0, len(rows) - 1)))


@st.composite
def raised(draw: st.DrawFn, rows: list[Row]) -> list[Row]:
    """The same with more activity: some readings raised, or work where nothing was measured."""
    busier = list(rows)
    for _ in range(draw(st.integers(1, 4))):
        at = near_the_end(draw, busier)
        gpu = draw(st.integers(0, len(busier[at]) - 1))
        value = busier[at][gpu]
        higher = draw(st.floats(5 if value is None else value, 100))
        busier[at] = (*busier[at][:gpu], higher, *busier[at][gpu + 1 :])
    return busier


@st.composite
def thinned(draw: st.DrawFn, rows: list[Row], first: int = 0) -> list[Row]:
    """The same without some of its quiet readings, from bin `first` on."""
    fewer = list(rows)
    for _ in range(draw(st.integers(1, 6))):
        at = max(first, near_the_end(draw, fewer))
        gpu = draw(st.integers(0, len(fewer[at]) - 1))
        value = fewer[at][gpu]
        if value is not None and value < 5:
            fewer[at] = (*fewer[at][:gpu], None, *fewer[at][gpu + 1 :])
    return fewer


def is_idle(detector: Detector, rows: list[Row], first_bin: int = 0) -> bool:
    """The answer at the end of these bins."""
    return detector.judge(history_of(rows, first_bin)).is_idle


@fixed
@given(rows=pasts(), data=st.data())
def test_more_activity_anywhere_never_makes_idle(
    detector: Detector, rows: list[Row], data: st.DataObject
) -> None:
    """Raise any readings of any GPU in any bin, or let work appear where nothing was measured."""
    if is_idle(detector, data.draw(raised(rows))):
        assert is_idle(detector, rows)


@fixed
@given(rows=pasts(), data=st.data())
def test_missing_quiet_readings_never_help(detector: Detector, rows: list[Row], data: st.DataObject) -> None:
    """Take away any that lie under the limit. (A missing reading at work is a hole like any other.)"""
    if is_idle(detector, data.draw(thinned(rows))):
        assert is_idle(detector, rows)


def test_work_that_nobody_measured_is_a_hole_like_any_other() -> None:
    """The limit of that promise: with 80 % of the window measured, one lost bin may have held work."""
    for detector in (PLAIN, SURVIVAL):
        assert not is_idle(detector, [*bins_of((IDLE, 2)), BUSY, *[IDLE] * 11])
        assert is_idle(detector, [*bins_of((IDLE, 2)), HOLE, *[IDLE] * 11])


@given(rows=pasts())
def test_survival_never_flags_what_the_plain_rule_does_not(rows: list[Row]) -> None:
    """Whatever it has learnt: the past can ask for a longer proof, never for a shorter one."""
    if is_idle(SURVIVAL, rows):
        assert is_idle(PLAIN, rows)


def test_an_hour_of_holes_is_not_made_up_for_by_an_hour_without() -> None:
    """Two hours are asked and 83 % of them were measured, but 67 % of the newest hour."""
    rows = [*bins_of((BUSY, 1), (IDLE, 1)), HOLE, HOLE, IDLE, HOLE, HOLE, *[IDLE] * 7]

    assert not is_idle(PLAIN, rows)
    assert "less than 80% of 1 h measured" in SURVIVAL.judge(history_of(rows)).reason


def test_nor_is_an_hour_of_holes_by_the_newest_hour() -> None:
    """The other way round: an hour measured in full is enough for the plain rule, and two are asked."""
    rows = [*bins_of((BUSY, 1)), IDLE, *[HOLE, HOLE, IDLE] * 4, *bins_of((IDLE, 11 / 12))]

    assert is_idle(PLAIN, rows)
    assert "less than 80% of 2 h measured" in SURVIVAL.judge(history_of(rows)).reason


@given(rows=pasts(), data=st.data())
def test_activity_in_the_newest_hour_never_makes_idle(rows: list[Row], data: st.DataObject) -> None:
    """Work in the newest window is not idle, however sure the past is."""
    at = len(rows) - 1 - data.draw(st.integers(0, min(HOUR, len(rows)) - 1))
    gpu = data.draw(st.integers(0, len(rows[at]) - 1))
    rows[at] = (*rows[at][:gpu], data.draw(st.floats(5, 100)), *rows[at][gpu + 1 :])

    assert not is_idle(SURVIVAL, rows)


@given(rows=pasts(longest=30), data=st.data())
def test_before_anything_was_learnt_more_activity_anywhere_never_makes_idle(
    rows: list[Row], data: st.DataObject
) -> None:
    """While no idle stretch of an hour has ended."""
    assume(all(gap.bins < HOUR for gap in history_of(rows).gaps))

    if is_idle(SURVIVAL, data.draw(raised(rows))):
        assert is_idle(SURVIVAL, rows)


@pytest.mark.parametrize("detector", LEARNING, ids=lambda one: one.name)
@given(past=pasts(), length=st.integers(1, 150), data=st.data())
def test_missing_readings_within_a_stretch_never_help_it(
    detector: Detector, past: list[Row], length: int, data: st.DataObject
) -> None:
    """From its first bin on, however long it is out of sight: it may have begun when work was last seen."""
    gpus = len(past[0])
    rows = [*past, (60.0,) * gpus, *[(1.0,) * gpus] * length]
    fewer = data.draw(thinned(rows, first=len(past) + 1))
    hole = data.draw(st.tuples(st.integers(len(past) + 1, len(rows)), st.integers(0, 40)))
    fewer[hole[0] : sum(hole)] = [(None,) * gpus] * len(fewer[hole[0] : sum(hole)])

    if is_idle(detector, fewer):
        assert is_idle(detector, rows)


@both
@given(rows=pasts(), data=st.data())
def test_changes_that_cross_no_limit_change_nothing(
    detector: Detector, rows: list[Row], data: st.DataObject
) -> None:
    """By how much a GPU is over or under the limit is no evidence, in the past either."""
    same = [
        tuple(
            value if value is None else data.draw(st.floats(5, 100)) if value >= 5 else 4.9 - value / 2
            for value in row
        )
        for row in rows[-30:]
    ]

    assert detector.judge(history_of(rows)) == detector.judge(history_of([*rows[:-30], *same]))


@both
@given(rows=pasts(), rng=st.randoms(use_true_random=False))
def test_the_order_of_gpus_changes_nothing(detector: Detector, rows: list[Row], rng: random.Random) -> None:
    """GPU numbers are names: the sentence is the same, too."""
    order = list(range(len(rows[0])))
    rng.shuffle(order)
    shuffled = [tuple(row[gpu] for gpu in order) for row in rows]

    assert detector.judge(history_of(rows)) == detector.judge(history_of(shuffled))


@fixed
@given(rows=pasts(), shift=st.integers(-(10**6), 10**6))
def test_shifting_time_by_whole_bins_changes_nothing(detector: Detector, rows: list[Row], shift: int) -> None:
    """A fixed window does not know what time it is."""
    assert detector.judge(history_of(rows)) == detector.judge(history_of(rows, shift))


@pytest.mark.parametrize("detector", LEARNING, ids=lambda one: one.name)
@given(rows=pasts(), first=st.integers(0, 287), shift=st.integers(-3_000, 3_000))
def test_shifting_time_changes_nothing_for_survival_either(
    detector: Detector, rows: list[Row], first: int, shift: int
) -> None:
    """It compares the times of day at which stretches began, around midnight too, and reads no calendar.

    So the shift may be any number of bins, as long as its whole past moves along; not of whole days only.
    """
    assert detector.judge(history_of(rows, first)) == detector.judge(history_of(rows, first + shift))


@both
@given(rows=pasts(longest=20), later=pasts(longest=10))
def test_an_answer_depends_on_nothing_later(detector: Detector, rows: list[Row], later: list[Row]) -> None:
    """Asked at every bin on the way, asked twice, or asked once at the end: the same answers."""
    later = [(row * 3)[: len(rows[0])] for row in later]
    growing = history_of(())
    answers = []
    for row in [*rows, *later]:
        growing.append(Bin(row))
        answers.append(detector.judge(growing))
        assert answers[-1] == detector.judge(growing)

    for end in {1, len(rows) // 2, len(rows), len(rows) + len(later)} - {0}:
        assert answers[end - 1] == detector.judge(history_of([*rows, *later][:end]))


@pytest.mark.parametrize("detector", LEARNING, ids=lambda one: one.name)
@given(past=pasts(), length=st.integers(1, 200))
def test_once_proved_a_stretch_stays_proved(detector: Detector, past: list[Row], length: int) -> None:
    """More idleness completes a proof and never moves it: a stretch is flagged once, not on and off."""
    gpus = len(past[0])
    history = history_of([*past, (60.0,) * gpus])
    answers = []
    for _ in range(length):
        history.append(Bin((1.0,) * gpus))
        answers.append(detector.judge(history).is_idle)

    assert answers == sorted(answers)


# what `survival` cannot promise


def test_work_early_in_a_stretch_can_bring_the_flag_of_survival_forward() -> None:
    """Idle since 18:00 is like nothing before; idle since 22:00 is how every night begins.

    Its work is interrupted for 4 hours at noon, so a stretch that starts at 18:00 must last 6. A blip of work
    at 21:55 makes it one that starts at 22:00, and those lasted: flagged at 23:00.
    """
    past = days(7, [(8, 10), (14, 22)])
    quiet = [*past, *days(1, [(8, 10), (14, 18)])[: 23 * HOUR]]
    blip = [*quiet[: -HOUR - 1], BUSY, *quiet[-HOUR:]]

    assert not is_idle(SURVIVAL, quiet)
    assert is_idle(SURVIVAL, blip)
    assert is_idle(PLAIN, quiet)


def test_a_hole_early_in_a_stretch_brings_no_flag_forward() -> None:
    """The same evening out of sight for a quarter of an hour: it may have begun at 18:00 all the same."""
    past = days(7, [(8, 10), (14, 22)])
    quiet = [*past, *days(1, [(8, 10), (14, 18)])[: 23 * HOUR]]
    outage = [*quiet[: -HOUR - 3], *[HOLE] * 3, *quiet[-HOUR:]]

    assert not is_idle(SURVIVAL, quiet)
    assert not is_idle(SURVIVAL, outage)
    assert (
        "out of sight before and perhaps idle for 5 h, 6 h needed"
        in SURVIVAL.judge(history_of(outage)).reason
    )


def test_work_in_the_past_can_bring_the_flag_of_survival_forward() -> None:
    """A break of 4 hours last week asks for 6 now; had it been two of 2 hours, 3 would be enough."""
    rows = bins_of((BUSY, 8), (IDLE, 4), (BUSY, 24), (IDLE, 4))
    split = list(rows)
    split[10 * HOUR] = BUSY

    assert not is_idle(SURVIVAL, rows)
    assert is_idle(SURVIVAL, split)


def test_a_mean_forgives_work() -> None:
    """Why the comparison's means are no part of any promise: 50 % for five minutes is under 5 % an hour."""
    rows: list[Row] = [*[(0.0,)] * 11, (50.0,)]

    assert BinState.BUSY is Bin(rows[-1]).state
    assert is_idle(ThresholdDetector(60, Statistic.MEAN_OF_EACH_GPU), rows)
    assert not is_idle(PLAIN, rows)
