"""From memory and evidence to a verdict, a question and the next memory: each limit at its very
edge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.evidence.model import Evidence, MetricSource
from governor.evidence.rules.figures import FIGURES, limit_of
from governor.evidence.rules.series import window_before
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule, Metrics, Vetoes
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import Hold, Verdict, VerdictKind
from governor.verdict.rules.judge import idle_sentence
from governor.verdict.rules.judging import Memory, Subject, sooner_window, wanted_figures
from governor.verdict.rules.proof import LATE
from tests.builders import NOW, POLICY, QUIET, ago, make_evidence, make_instance

RARE = {figure for figure, row in FIGURES.items() if not row.at_every_sweep}
"""Figures that hardly any instance publishes."""
BUSY, IDLE, NO_DATA = VerdictKind.BUSY, VerdictKind.IDLE, VerdictKind.NO_DATA
INSTANCE = make_instance()
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
END = make_evidence().window.end
START = END - HOUR
SOONER = timedelta(minutes=90)
AUTO = Policy(mode=Mode.AUTO)
SILENCE_ACTS = Policy(mode=Mode.ASK, approval=ApprovalRule(on_expiry="act"))
SLOW = Policy(metrics=Metrics(period_seconds=3600))
"""Its readings cannot show that idleness lasts up to now."""
ENDED = (1.0,) * 10 + (None,) * 2
"""The newest readings are missing."""
THIN = (*QUIET[:4], None, None, None, *QUIET[7:])
"""Too little is measured, for one short hole."""
TORN = (None, 1.0) * 4 + QUIET[8:]
FREED: Any = {"memory_newest_percent": 9.9}
TWO_HOURS = Policy(idle=IdleRule(window_minutes=120))


def memory(at: Any = NOW - 5 * MINUTE, verdict: VerdictKind = IDLE, **changes: Any) -> Memory:
    """Return the memory of the sweep before."""
    return Memory(at, verdict, **changes)


def seen_for(length: timedelta, series: tuple[float | None, ...] = (), **changes: Any) -> Evidence:
    """Quiet over this window, but for its newest periods where they are given."""
    window = window_before(NOW, length, POLICY.period, POLICY.lag)
    return make_evidence((1.0,) * (window.bins - len(series)) + series, window=window, **changes)


def subject(known: Memory | None = None, policy: Policy = POLICY, **changes: Any) -> Subject:
    """The instance after a sweep that knew this."""
    return replace(Subject(INSTANCE, policy, NOW, memory=known), **changes)


def read(
    evidence: Evidence, known: Memory | None = None, policy: Policy = POLICY, **people: bool
) -> Verdict:
    """The verdict of a sweep."""
    return subject(known, policy, **people).after_reading(evidence)


def question(evidence: Evidence, window: timedelta, policy: Policy = POLICY) -> Verdict:
    """Return what may be asked."""
    return subject(policy=policy).judge_question(evidence, window)


@pytest.mark.parametrize(
    ("known", "saved"),
    [
        (None, False),
        (memory(verdict=BUSY), False),
        (memory(verdict=BUSY, last_busy=START), False),
        (memory(verdict=BUSY, last_busy=START + SECOND), True),
        (memory(verdict=BUSY, last_busy=NOW, advice=("slow",)), True),
        (memory(verdict=BUSY, last_busy=NOW + SECOND), False),
        (memory(last_busy=END), False),
    ],
)
def test_a_read_is_saved_only_while_every_window_holds_the_last_work(
    known: Memory | None, saved: bool
) -> None:
    """Work in the future is that of a clock that was wrong."""
    verdict = subject(known).before_reading()
    assert (BUSY if saved else None) == (verdict and verdict.kind)
    if verdict is not None and known is not None and known.last_busy is not None:
        worked = known.last_busy
        assert (worked, worked + HOUR) == (verdict.last_busy, verdict.not_before)
        assert known.advice == verdict.advice
    exempt = subject(known, hold=Hold(exempt_reason="mine")).before_reading()
    assert exempt is not None
    assert VerdictKind.EXEMPT is exempt.kind


def test_what_people_know_is_repeated_as_it_was_read_until_the_next_read() -> None:
    """The Fleet page shows its reason and its advice, however many sweeps do not read it."""
    known = memory(NOW, idle_since=START, advice=("check its power",), reason="Idle for 1 h.")
    case = subject(known, people_know=True)
    repeated = case.before_reading()

    assert Verdict(IDLE, "Idle for 1 h.", advice=("check its power",)) == repeated
    assert repeated is not None
    assert known == case.remembered(repeated, None)


def test_released_memory_hides_no_doubt_about_utilization() -> None:
    """People decide by it before memory is read again."""
    reason = idle_sentence(SOONER, POLICY, released=True, doubt="power: not measured")

    assert "Idle for 1 h 30 min and GPU memory is released (power: not measured)." == reason


def test_what_was_looked_at_goes_with_the_verdict_that_asks_nothing() -> None:
    """The sweep remembers idleness by it."""
    slow, held = seen_for(POLICY.ask_window), seen_for(SOONER, memory_newest_percent=90.0)

    assert slow is question(slow, POLICY.ask_window, SLOW).evidence
    assert held is question(held, SOONER).evidence


def test_a_sweep_says_why() -> None:
    """By utilization alone where people know; only what is idle is told for how long."""
    assert "Idle for 1 h (every GPU under 5%)." == read(make_evidence()).reason
    assert "utilization reached 90.0%" in read(make_evidence((90.0,) * 12)).reason
    unmeasured = make_evidence(cpu_percent=None)
    assert (NO_DATA, IDLE) == (read(unmeasured).kind, read(unmeasured, people_know=True).kind)


@pytest.mark.parametrize(
    ("at", "since", "hours"),
    [
        # The window before began where this one does not yet: nothing lies between them.
        # It may have been read a quarter of an hour before that sweep.
        (START + 22 * MINUTE, START - HOUR, "2 h"),
        (START + 22 * MINUTE - SECOND, START - HOUR, "1 h"),
        (NOW, None, "1 h"),
    ],
)
def test_idleness_goes_on_only_without_a_gap(at: Any, since: Any, hours: str) -> None:
    """An instance that was idle before and after a gap is idle since the gap."""
    known = memory(at, idle_since=since)
    assert f"Idle for {hours} (every GPU under 5%)." == read(make_evidence(), known).reason
    worked = memory(at, BUSY, idle_since=START - HOUR)
    assert "Idle for 1 h (every GPU under 5%)." == read(make_evidence(), worked).reason


@pytest.mark.parametrize(
    ("since", "idle"),
    [
        (None, "1 h 15 min"),
        (END - 3 * HOUR, "1 h 15 min"),
        (END - HOUR, "1 h"),
    ],
)
def test_idleness_begins_after_a_long_hole(since: Any, idle: str) -> None:
    """A hole of 20 minutes of twice an hour, which leaves enough of the window."""
    evidence = seen_for(2 * HOUR, (None,) * 4 + (1.0,) * 15)
    known = memory(idle_since=since) if since else None
    assert f"Idle for {idle} (every GPU under 5%)." == read(evidence, known, TWO_HOURS).reason


@pytest.mark.parametrize(
    ("series", "waits"),
    [(ENDED, LATE), (THIN, LATE + POLICY.window), (TORN, timedelta(0))],
    ids=["late", "thin", "torn"],
)
def test_readings_that_stay_late_are_silence(
    series: tuple[float | None, ...], waits: timedelta
) -> None:
    """Half an hour for the newest; until the hole has left the window for one in it."""

    def is_late(since: Any, **changes: Any) -> bool:
        known = memory(verdict=NO_DATA, late_since=since)
        verdict = read(make_evidence(series, **changes), known)
        assert NO_DATA is verdict.kind
        return verdict.is_late

    assert (bool(waits), False) == (is_late(NOW - waits + SECOND), is_late(NOW - waits))
    assert bool(waits) is is_late(None)
    assert not is_late(None, read_problem="Throttling")


@pytest.mark.parametrize(("before", "kept"), [(LATE - SECOND, True), (LATE, False)])
def test_lateness_is_counted_from_its_first_sweep(before: timedelta, kept: bool) -> None:
    """After a pause of the sweeps nothing is known of it, nor where readings came in between."""
    late, silent = Verdict(NO_DATA, "", is_late=True), Verdict(NO_DATA, "")
    known = memory(NOW - before, NO_DATA, late_since=ago(minutes=40))
    since = ago(minutes=40) if kept else None

    assert (since or NOW) == subject(known).remembered(late, None).late_since
    assert since == subject(known).remembered(silent, None).late_since
    assert NOW == subject().remembered(late, None).late_since
    assert subject(known).remembered(read(make_evidence()), None).late_since is None


def test_the_next_sweep_knows_the_last_work_and_the_advice() -> None:
    """Both save it a read."""
    worked = Verdict(BUSY, "", last_busy=END, advice=("slow",))
    assert Memory(NOW, BUSY, last_busy=END, advice=("slow",)) == subject().remembered(worked, None)


def idle_since(known: Memory | None, verdict: Verdict, proof: Verdict | None = None) -> Any:
    """Return what the next sweep knows."""
    return subject(known).remembered(verdict, proof).idle_since


def test_what_the_next_sweep_knows_of_idleness() -> None:
    """Readings that may still come break nothing off; without a proof it is what both sweeps
    saw."""
    known, idle = memory(idle_since=END - 2 * HOUR), read(make_evidence())
    late = Verdict(NO_DATA, "", is_late=True, evidence=make_evidence())

    assert (END - 2 * HOUR, None) == (idle_since(known, late), idle_since(None, late))
    assert idle_since(known, read(make_evidence((90.0,) * 12))) is None
    assert idle_since(known, Verdict(NO_DATA, "", evidence=make_evidence())) is None
    assert idle_since(known, Verdict(VerdictKind.FROZEN, "")) is None
    assert (END - 2 * HOUR, START) == (idle_since(known, idle), idle_since(None, idle))


def test_what_a_proof_adds_to_it() -> None:
    """Longer sight; the end of the last work, or of the last hole, where that was found."""
    known, idle = memory(idle_since=END - 2 * HOUR), read(make_evidence())
    three = 3 * HOUR
    proved = question(seen_for(three), three)
    busy = question(seen_for(three, (90.0,) + (1.0,) * 18), three)
    holed = question(seen_for(three, (None,) * 4 + (1.0,) * 13), three)
    unmeasured = question(seen_for(three, cpu_percent=None), three)
    unread = question(seen_for(three, read_problem="Throttling"), three)
    late = replace(busy, is_late=True)

    assert (END - three, END - 4 * HOUR) == (
        idle_since(known, idle, proved),
        idle_since(memory(idle_since=END - 4 * HOUR), idle, proved),
    )
    assert END - SOONER == idle_since(known, idle, busy)
    assert END - 65 * MINUTE == idle_since(known, idle, holed)
    for proof in (unmeasured, unread, late):
        assert END - 2 * HOUR == idle_since(known, idle, proof)
        assert idle_since(None, idle, proof) is None
    assert START == idle_since(None, idle, Verdict(VerdictKind.EXEMPT, ""))


@pytest.mark.parametrize(
    ("idle_for", "freed", "policy", "window"),
    [
        (3 * HOUR, False, POLICY, 3 * HOUR),
        (3 * HOUR - SECOND, False, POLICY, None),
        (3 * HOUR - SECOND, True, POLICY, SOONER),
        (SOONER, True, POLICY, SOONER),
        (SOONER, False, POLICY, None),
        (SOONER - SECOND, True, POLICY, None),
        (3 * HOUR - SECOND, True, AUTO, None),
        (3 * HOUR, True, SLOW, None),
    ],
)
def test_how_far_is_looked_back(
    idle_for: timedelta, freed: bool, policy: Policy, window: Any
) -> None:
    """As long as a question needs, and only when it can be as long; from its start where nothing is
    known."""
    evidence = make_evidence(**FREED if freed else {})
    verdict = Verdict(IDLE, "", evidence=evidence)

    known, fresh = memory(idle_since=END - idle_for), make_instance(launch_time=END - idle_for)
    assert window == subject(known, policy).window_to_prove(verdict)
    assert window == subject(None, policy, instance=fresh).window_to_prove(verdict)
    assert subject(known, policy, people_know=True).window_to_prove(verdict) is None
    managed = replace(verdict, kind=VerdictKind.MANAGED_ELSEWHERE)
    assert subject(None, policy).window_to_prove(managed) is None
    assert subject(None, policy).window_to_prove(Verdict(IDLE, "")) is None


@pytest.mark.parametrize(
    ("idle_for", "policy", "helps"),
    [
        (None, POLICY, True),
        (SOONER, POLICY, True),
        (SOONER - SECOND, POLICY, False),
        (None, AUTO, False),
        (None, SLOW, False),
    ],
)
def test_memory_is_read_where_a_question_could_start_sooner(
    idle_for: Any, policy: Policy, helps: bool
) -> None:
    """Besides the figures that have a limit; none where people know."""
    known = memory(idle_since=NOW - idle_for) if idle_for else None
    figures = subject(known, policy).figures_to_read()
    limited = {figure for figure in FIGURES if limit_of(policy, figure) is not None}
    wanted = limited | ({"memory"} if helps else set())

    assert "memory" not in limited
    assert wanted - RARE == figures - RARE
    assert set() == subject(known, policy, people_know=True).figures_to_read()


@pytest.mark.parametrize(
    ("before", "is_read"), [(None, True), (BUSY, True), (NO_DATA, True), (IDLE, False)]
)
def test_figures_that_hardly_any_instance_publishes_are_read_when_it_turns_idle(
    before: VerdictKind | None, is_read: bool
) -> None:
    """Each is a query for every GPU. A question and a recheck read them in any case."""
    known = None if before is None else memory(verdict=before)
    figures = subject(known, POLICY).figures_to_read()

    assert {"encoder", "decoder", "encoder-sessions", "encoder-frames"} <= RARE
    assert (RARE if is_read else set()) == RARE & figures
    assert RARE <= wanted_figures(POLICY)


@pytest.mark.parametrize(
    ("policy", "window"),
    [
        (POLICY, SOONER),
        (AUTO, None),
        (SILENCE_ACTS, None),
        (Policy(approval=ApprovalRule(ask_after_minutes=90)), None),
    ],
)
def test_a_shorter_proof_never_acts_unasked(policy: Policy, window: Any) -> None:
    """Nor is it one where it is no shorter."""
    assert window == sooner_window(policy)


@pytest.mark.parametrize(
    ("evidence", "window", "policy", "kind", "reason"),
    [
        (seen_for(3 * HOUR), 3 * HOUR, POLICY, IDLE, "Idle for 3 h (every GPU under 5%)."),
        (seen_for(3 * HOUR, (90.0, 1.0)), 3 * HOUR, POLICY, BUSY, "90.0% in the last 3 h, "),
        (
            seen_for(SOONER, (90.0, 1.0), **FREED),
            SOONER,
            POLICY,
            BUSY,
            "90.0% in the last 1 h 30 min, ",
        ),
        (seen_for(3 * HOUR), 3 * HOUR, SLOW, NO_DATA, "metrics.period_seconds is 3600"),
        (
            seen_for(SOONER, **FREED),
            SOONER,
            POLICY,
            IDLE,
            "Idle for 1 h 30 min and GPU memory is released.",
        ),
        (seen_for(SOONER), SOONER, POLICY, NO_DATA, "GPU memory is not released"),
        (seen_for(SOONER, memory_newest_percent=10.0), SOONER, POLICY, NO_DATA, "is not released"),
        (seen_for(HOUR, **FREED), HOUR, POLICY, NO_DATA, "so 3 h of idle time is required"),
        (seen_for(SOONER, **FREED), SOONER, AUTO, NO_DATA, "so 3 h of idle time is required"),
        (
            seen_for(3 * HOUR, last_measured={"cpu": ago(minutes=21)}),
            *(3 * HOUR, POLICY, NO_DATA, "CPU is required by the policy and was last measured"),
        ),
        (
            seen_for(3 * HOUR, (None,) * 4 + (1.0,) * 9),
            3 * HOUR,
            POLICY,
            NO_DATA,
            "missing for more than 15",
        ),
    ],
)
def test_what_may_be_asked(
    evidence: Evidence, window: timedelta, policy: Policy, kind: VerdictKind, reason: str
) -> None:
    """Idle for as long as the policy says, over all of it and up to now."""
    verdict = question(evidence, window, policy)
    assert (kind, True) == (verdict.kind, reason in verdict.reason)


@pytest.mark.parametrize("longer", [seen_for(3 * HOUR, (90.0,) + (1.0,) * 18), seen_for(3 * HOUR)])
@pytest.mark.parametrize("freed", [False, True])
@pytest.mark.parametrize("policy", [POLICY, AUTO])
def test_the_shorter_window_is_judged_only_where_it_could_help(
    longer: Evidence, freed: bool, policy: Policy
) -> None:
    """Memory is released, a person has to say yes, and the longer one is not idle."""
    longer = replace(longer, **FREED if freed else {})
    is_idle = question(longer, 3 * HOUR).is_idle
    helps = freed and policy is POLICY and not is_idle

    verdict, shorter = subject(policy=policy).judge_again(longer)
    assert (IDLE if is_idle else BUSY, SOONER if helps else None) == (verdict.kind, shorter)


@pytest.mark.parametrize(("newest", "kind"), [(1.0, NO_DATA), (90.0, BUSY)])
def test_what_is_unknown_of_a_gpu_is_not_known_of_the_shorter_window_either(
    newest: float, kind: VerdictKind
) -> None:
    """Memory that one series has for all GPUs. Work is work all the same."""
    policy = Policy(vetoes=Vetoes(memory_used_percent=90.0, required=("memory",)))
    longer = seen_for(
        3 * HOUR,
        (newest,) * 3,
        source=MetricSource.AGGREGATE,
        gpus_expected=8,
        gpus_reporting=8,
        samples=(40.0,) * int(3 * HOUR / POLICY.period),
        memory_used_percent=1.0,
        **FREED,
    )
    verdict, shorter = subject(policy=policy).judge_again(longer)

    assert (kind, None) == (verdict.kind, shorter)
    assert (kind is NO_DATA) is ("only one series for all GPUs has it" in verdict.reason)
