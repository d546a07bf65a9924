"""Health findings: the product's figures by hand, and promises that hold for every series of
readings."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.evidence.model import Series, Window
from governor.health.messages import advice_text
from governor.health.model import Bottleneck, Finding, FindingKind, GpuFigures, Severity
from governor.health.rules import classify_bottleneck, health_findings
from governor.policy.model.notices import Health

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERIES = tuple(name for name in GpuFigures.__slots__ if name not in ("gpu", "xids"))
PERIOD = timedelta(minutes=5)
BINS = 12
WINDOW = Window(START, START + BINS * PERIOD, PERIOD)


def flat(value: float) -> Series:
    return (value,) * BINS


def reported(index: int, times: int = 1) -> Series:
    """So many errors in one period, and nothing of the others."""
    return (*(None,) * index, float(times))


def at(index: int) -> datetime:
    return START + index * PERIOD


def kinds(*gpus: GpuFigures) -> list[FindingKind]:
    return [finding.kind for finding in health_findings(WINDOW, gpus)]


def only(kind: FindingKind, *gpus: GpuFigures) -> Finding:
    (found,) = [finding for finding in health_findings(WINDOW, gpus) if finding.kind is kind]
    return found


def test_a_sound_busy_machine_has_no_warning() -> None:
    """Eight GPUs that work well: only what bounds them is told."""
    gpus = [
        GpuFigures(
            str(i),
            utilization=flat(97),
            memory_utilization=flat(60),
            temperature_celsius=flat(70),
            thermal_throttle=flat(0),
            hardware_slowdown=flat(0),
            ecc_uncorrected=flat(0),
            repair_pending=flat(0),
            repair_failed=flat(0),
            lost=flat(0),
        )
        for i in range(8)
    ]
    (finding,) = health_findings(WINDOW, gpus)
    assert (FindingKind.BOTTLENECK, Severity.ADVICE) == (finding.kind, finding.severity)
    assert Bottleneck.COMPUTE_BOUND is finding.bottleneck
    assert tuple("01234567") == finding.gpus


@pytest.mark.parametrize(
    ("series", "since"),
    [
        (flat(85.0), None),
        (flat(85.1), 0),
        ((*(80.0,) * 5, 86.0, *(80.0,) * 6), None),
        ((*(80.0,) * 5, 86.0, 86.0, *(80.0,) * 5), 5),
        ((86.0, None, 86.0, 80.0), None),
        ((*(80.0,) * 10, 91.0, 91.0), 10),
    ],
    ids=["the limit itself", "above", "one period", "two periods", "a hole between", "at the end"],
)
def test_heat(series: Series, since: int | None) -> None:
    """Over 85 °C in two averages running, a period of the window each; a hole breaks the run."""
    gpu = GpuFigures("3", temperature_celsius=series)
    if since is None:
        assert [] == kinds(gpu)
    else:
        finding = only(FindingKind.HOT, gpu)
        assert (("3",), at(since), Severity.WARNING) == (
            finding.gpus,
            finding.since,
            finding.severity,
        )
        assert "85 °C" in finding.seen


@pytest.mark.parametrize(
    ("thermal", "board", "told"),
    [
        (flat(10.0), flat(0.0), None),
        (flat(10.1), flat(0.0), "heat 10%"),
        (flat(0.0), flat(40.0), "the board 40%"),
        (flat(25.0), flat(50.0), "heat 25% of the time and the board 50%"),
        ((100.0,) * 9, (), None),
    ],
    ids=["the limit itself", "heat", "board", "both", "three quarters measured"],
)
def test_throttling(thermal: Series, board: Series, told: str | None) -> None:
    """Clocks lowered more than a tenth of the time; a mean over too little is not believed."""
    gpu = GpuFigures("0", thermal_throttle=thermal, hardware_slowdown=board)
    if told is None:
        assert [] == kinds(gpu)
    else:
        assert told in only(FindingKind.THROTTLED, gpu).seen


@pytest.mark.parametrize(
    ("gpu", "kind", "severity", "since", "seen"),
    [
        (
            GpuFigures("1", xids={79: reported(4)}, lost=(*(0.0,) * 5, 1.0, 1.0)),
            FindingKind.LOST,
            Severity.CRITICAL,
            at(4),
            "Xid 79 once, does not answer",
        ),
        (
            GpuFigures("1", lost=flat(1)),
            FindingKind.LOST,
            Severity.CRITICAL,
            at(0),
            "does not answer",
        ),
        (
            GpuFigures("1", xids={48: reported(7, 2)}),
            FindingKind.MEMORY_ERROR,
            Severity.CRITICAL,
            at(7),
            "Xid 48 2 times",
        ),
        (
            GpuFigures("1", ecc_uncorrected=(0.0, 0.0, 3.0)),
            FindingKind.MEMORY_ERROR,
            Severity.CRITICAL,
            at(2),
            "3 uncorrectable ECC errors",
        ),
        (
            GpuFigures("1", xids={64: reported(1)}, repair_failed=flat(1)),
            FindingKind.MEMORY_REPAIR_FAILED,
            Severity.CRITICAL,
            at(0),
            "Xid 64 once",
        ),
        (
            GpuFigures("1", xids={63: reported(9)}),
            FindingKind.MEMORY_REPAIR_PENDING,
            Severity.WARNING,
            at(9),
            "Xid 63 once",
        ),
        (
            GpuFigures("1", repair_pending=(None, 1.0)),
            FindingKind.MEMORY_REPAIR_PENDING,
            Severity.WARNING,
            at(1),
            "waits for a reset",
        ),
    ],
)
def test_faults(
    gpu: GpuFigures, kind: FindingKind, severity: Severity, since: datetime, seen: str
) -> None:
    """Each Xid, or what the driver counts, is one finding with its beginning and what to do."""
    (finding,) = health_findings(WINDOW, [gpu])
    assert (kind, severity, since, ("1",)) == (
        finding.kind,
        finding.severity,
        finding.since,
        finding.gpus,
    )
    assert seen in finding.seen
    assert advice_text(finding)
    assert finding.about.startswith("GPU 1: ")


@pytest.mark.parametrize(
    "gpu",
    [
        GpuFigures("0", lost=flat(1)),
        GpuFigures("0", xids={48: reported(0)}),
        GpuFigures("0", xids={64: reported(0)}),
        GpuFigures("0", temperature_celsius=flat(90)),
        GpuFigures("0", thermal_throttle=flat(90)),
    ],
)
def test_who_advises_a_stop_says_what_it_costs(gpu: GpuFigures) -> None:
    """A stop wipe local disks: no advice leads there without saying so."""
    (finding,) = health_findings(WINDOW, [gpu])
    assert "stop" in advice_text(finding).lower()
    assert "wipes local disks, and EC2 may not have free capacity" in advice_text(finding)


def test_application_errors_are_no_fault_of_the_gpu() -> None:
    """Xid 13 and 31 come from programs: no finding."""
    assert [] == kinds(GpuFigures("0", xids={13: reported(0, 9), 31: reported(0)}))


@pytest.mark.parametrize(
    ("last", "told"),
    [(75.0, False), (74.9, True), (7.0, True), (0.0, True), (None, False)],
    ids=["20 points", "more", "hardly works", "does nothing", "not measured"],
)
def test_straggler(last: float | None, told: bool) -> None:
    """More than 20 points under the median of its peers."""
    gpus = [GpuFigures(str(i), utilization=flat(95)) for i in range(7)]
    gpus.append(GpuFigures("7", utilization=(last,) * BINS))
    assert told is (FindingKind.STRAGGLER in kinds(*gpus))
    if told:
        finding = only(FindingKind.STRAGGLER, *gpus)
        assert ("7",) == finding.gpus
        assert "95%" in finding.seen


def test_a_straggler_is_no_word_about_how_well_the_others_are_used() -> None:
    """It has a finding of its own; advice is for those that work, by their own figures."""
    gpus = [GpuFigures(str(i), utilization=flat(72), memory_utilization=flat(5)) for i in range(3)]
    slow = GpuFigures("3", utilization=flat(40), memory_utilization=flat(5))

    assert [FindingKind.STRAGGLER, FindingKind.BOTTLENECK] == kinds(*gpus, slow)
    assert ("0", "1", "2") == only(FindingKind.BOTTLENECK, *gpus, slow).gpus


def test_one_busy_gpu_of_eight_makes_no_stragglers() -> None:
    """The others are idle, not slow: that is for the verdict to say."""
    gpus = [GpuFigures(str(i), utilization=flat(90 if i == 3 else 1)) for i in range(8)]
    assert FindingKind.STRAGGLER not in kinds(*gpus)


def test_a_lost_gpu_is_no_straggler() -> None:
    """The cause of a GPU's silence is announced once."""
    gpus = [GpuFigures(str(i), utilization=flat(95)) for i in range(7)]
    broken = GpuFigures("7", utilization=flat(1), xids={48: reported(0)})
    assert [FindingKind.MEMORY_ERROR] == kinds(*gpus, broken)


@pytest.mark.parametrize(
    ("utilization", "told"),
    [(70.0, False), (69.9, True), (10.0, True), (9.9, False), (0.0, False)],
    ids=["enough", "under", "just at work", "not at work", "idle"],
)
def test_under_used_while_at_work(utilization: float, told: bool) -> None:
    """Under 70% on average, of GPUs that work at all."""
    assert told is (FindingKind.UNDER_USED in kinds(GpuFigures("0", utilization=flat(utilization))))


@pytest.mark.parametrize(
    ("compute", "memory", "expected"),
    [
        (49.9, 80.1, Bottleneck.MEMORY_BOUND),
        (50.0, 80.1, Bottleneck.INPUT_BOUND),
        (49.9, 80.0, Bottleneck.INPUT_BOUND),
        (90.1, 95.0, Bottleneck.COMPUTE_BOUND),
        (90.0, 10.0, Bottleneck.INPUT_BOUND),
        (35.0, 20.0, Bottleneck.INPUT_BOUND),
    ],
)
def test_bottleneck(compute: float, memory: float, expected: Bottleneck) -> None:
    """Memory over 80% with compute under 50%; compute over 90%; else something that feeds the
    GPUs."""
    assert expected is classify_bottleneck(compute, memory)
    gpu = GpuFigures("0", utilization=flat(compute), memory_utilization=flat(memory))
    assert expected is only(FindingKind.BOTTLENECK, gpu).bottleneck


def test_bottleneck_needs_both_figures() -> None:
    """Without memory traffic of every GPU at work there is no class."""
    gpus = (
        GpuFigures("0", utilization=flat(95), memory_utilization=flat(10)),
        GpuFigures("1", utilization=flat(95)),
    )
    assert [] == kinds(*gpus)


def test_the_gravest_comes_first() -> None:
    """Critical, then warnings, then advice."""
    gpus = [
        GpuFigures(
            "0", utilization=flat(30), memory_utilization=flat(10), temperature_celsius=flat(90)
        ),
        GpuFigures("1", lost=flat(1)),
    ]
    assert [
        FindingKind.LOST,
        FindingKind.HOT,
        FindingKind.UNDER_USED,
        FindingKind.BOTTLENECK,
    ] == kinds(*gpus)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hot_above_celsius", 185.0),
        ("hot_above_celsius", math.nan),
        ("straggler_above_points", -1.0),
        ("under_used_below_percent", 101.0),
    ],
)
def test_thresholds_are_checked(name: str, value: float) -> None:
    """A figure out of range is refused by its name."""
    with pytest.raises(ValueError, match=name):
        Health(**{name: value})  # type: ignore[arg-type]


# Promises for every series

readings = st.one_of(st.none(), st.floats(0, 130))
series = st.lists(readings, max_size=BINS).map(tuple)
counts = st.lists(st.sampled_from([None, 0.0, 1.0, 5.0]), max_size=BINS).map(tuple)
events = st.dictionaries(st.sampled_from([13, 31, 48, 63, 64, 79]), counts, max_size=3)
figures = st.builds(
    GpuFigures,
    st.just("0"),
    series,
    series,
    series,
    series,
    series,
    series,
    series,
    series,
    series,
    events,
)


@st.composite
def machines(draw: st.DrawFn) -> list[GpuFigures]:
    """Up to four GPUs, each by its own name: the median and the others of one are in four as in
    eight."""
    found = draw(st.lists(figures, max_size=4))
    return [_changed(gpu, name=str(number)) for number, gpu in enumerate(found)]


def _changed(gpu: GpuFigures, name: str | None = None, hole: float | None = None) -> GpuFigures:
    """The same GPU under another name, with something else where there is no reading."""

    def filled(values: Series) -> Series:
        return tuple(hole if value is None else value for value in values)

    changed = {field: filled(getattr(gpu, field)) for field in SERIES}
    xids = {number: filled(values) for number, values in gpu.xids.items()}
    return replace(gpu, gpu=name or gpu.gpu, xids=xids, **changed)  # type: ignore[arg-type]


@given(machines())
def test_every_finding_names_who_when_and_what_to_do(gpus: list[GpuFigures]) -> None:
    """GPUs of this machine, a moment inside the window, and an advice; one finding per kind and
    GPU."""
    found = health_findings(WINDOW, gpus)
    names = {gpu.gpu for gpu in gpus}
    for finding in found:
        assert finding.gpus
        assert set(finding.gpus) <= names
        assert WINDOW.start <= finding.since < WINDOW.end
        assert finding.seen
        assert advice_text(finding)
    told = [(finding.kind, name) for finding in found for name in finding.gpus]
    assert len(told) == len(set(told))


@given(machines(), st.sampled_from([-1.0, math.nan]))
def test_what_is_no_reading_is_a_hole(gpus: list[GpuFigures], hole: float) -> None:
    """Publishers that write -1 or NaN where nothing was measured change no finding."""
    assert health_findings(WINDOW, gpus) == health_findings(
        WINDOW, [_changed(gpu, hole=hole) for gpu in gpus]
    )


@given(machines())
def test_a_silent_gpu_changes_nothing(gpus: list[GpuFigures]) -> None:
    """A GPU that told nothing neither has findings nor makes any."""
    assert health_findings(WINDOW, gpus) == health_findings(WINDOW, [*gpus, GpuFigures("silent")])


@given(machines())
def test_order_does_not_matter(gpus: list[GpuFigures]) -> None:
    """The same GPUs in another order give the same findings."""

    def told(order: list[GpuFigures]) -> set[tuple[FindingKind, frozenset[str], datetime]]:
        return {(f.kind, frozenset(f.gpus), f.since) for f in health_findings(WINDOW, order)}

    assert told(gpus) == told(gpus[::-1])


@given(machines())
def test_faults_are_never_hidden(gpus: list[GpuFigures]) -> None:
    """Whatever else is measured, each reported Xid 48, 63, 64 and 79 has its finding."""
    kinds_of = {
        79: FindingKind.LOST,
        48: FindingKind.MEMORY_ERROR,
        64: FindingKind.MEMORY_REPAIR_FAILED,
        63: FindingKind.MEMORY_REPAIR_PENDING,
    }
    told = {
        (finding.kind, name) for finding in health_findings(WINDOW, gpus) for name in finding.gpus
    }
    for gpu in gpus:
        for number, times in gpu.xids.items():
            if number in kinds_of and any(times):
                assert (kinds_of[number], gpu.gpu) in told
