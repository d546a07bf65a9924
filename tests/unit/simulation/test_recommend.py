"""The recommended wait: counted, bounded, chosen on one half, checked on the other, and fit to
paste."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
import yaml

from cli.governor import main
from evaluation.shares import upper_bound
from governor.core.errors import PolicyError
from governor.policy.document import parse_policy
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Ownership
from governor.policy.model.judging import IdleRule
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import Policies
from simulation import advice
from simulation.outcome import InstanceResult, Replay
from simulation.recommend import (
    FEWEST_QUESTIONS,
    WINDOWS,
    AskAfter,
    Figures,
    Recommendation,
    _interval,
    grouping,
    questions_needed,
    recommend,
)
from simulation.recording import Recording
from simulation.replay import ReplayError, replay
from tests.builders import make_instance
from tests.twins import StaticPolicies
from tests.unit.simulation.builders import BUSY, HOUR, IDLE, bins, make_recording, with_memory

_NUMBERS = count()
PAUSES = [
    *bins((BUSY, 0.5), (IDLE, 1.75), (BUSY, 0.5), (IDLE, 2.25)) * 3,
    *bins((BUSY, 1.5), (IDLE, 6)) * 2,
]
"""Three pauses each of 105 and of 135 minutes, too short to ask about, and two rests of 6 h."""
NEVER = Breaker(minimum_instances=100)
SHORT_WINDOWS = (60, 90, 120, 150)
"""Each candidate is a replay of all instances; few tests choose a longer wait."""


def machine(past: Sequence[float], project: str | None = None) -> Recording:
    """An instance with this past; its project's tag, if it has any."""
    tags = {"Purpose": "GPU-Workload", **({} if project is None else {"Project": project})}
    return make_recording(
        past, instance=make_instance(instance_id=f"i-{next(_NUMBERS):017x}", tags=tags)
    )


def shown(found: Recommendation) -> str:
    """Return what people read, by project."""
    return advice.text(found, grouping("project", Ownership()))


_REPLAYED_BEFORE: dict[Hashable, InstanceResult] = {}
"""By the past, the policies and the delay."""


def replayed(
    name: str, policies: Policies, recordings: Sequence[Recording], *, approval_delay: timedelta
) -> Replay:
    """Replays one of those with the same past and the same policy for all of them, and for those
    of later tests.

    Only a breaker makes one instance's end depend on another's.
    """
    base = repr(policies.base().policy)

    def key_of(one: Recording) -> Hashable:
        own = repr(policies.applied_to(one.instance).policy)
        past = tuple(bytes(values) for values in one.series.values())
        return past, base, own, approval_delay

    keys = [key_of(one) for one in recordings]
    new = {
        key: one for key, one in zip(keys, recordings, strict=True) if key not in _REPLAYED_BEFORE
    }
    found = replay(name, policies, list(new.values()), approval_delay=approval_delay)
    results = {result.recording.instance.instance_id: result for result in found.results}
    for key, one in new.items():
        _REPLAYED_BEFORE[key] = results[one.instance.instance_id]
    return replace(
        found,
        results=tuple(
            replace(_REPLAYED_BEFORE[key], recording=one)
            for key, one in zip(keys, recordings, strict=True)
        ),
    )


def chosen(
    recordings: Sequence[Recording],
    by: str = "project",
    policies: Policies | None = None,
    at_most: float = 0.05,
    windows: Sequence[int] = SHORT_WINDOWS,
) -> Recommendation:
    """A recommendation on these recordings, out of these candidates."""
    policies = policies or StaticPolicies(Policy(breaker=NEVER))
    rules = policies.base().policy
    groups, can_freeze = grouping(by, rules.ownership), rules.breaker != NEVER
    with (
        mock.patch("simulation.recommend.WINDOWS", windows),
        mock.patch("simulation.recommend.replay", replay if can_freeze else replayed),
    ):
        return recommend(
            policies,
            recordings,
            groups,
            wrong_at_most=at_most,
            approval_delay=timedelta(minutes=30),
            progress=lambda *_: None,
        )


def test_instances_with_the_same_past_end_alike() -> None:
    """So that one of them is enough here."""
    fleet = [machine(past) for past in (PAUSES, bins((BUSY, 2), (IDLE, 10)), PAUSES)]
    policies, delay = StaticPolicies(Policy(mode=Mode.ASK, breaker=NEVER)), timedelta(minutes=30)
    each = replay("all", policies, fleet, approval_delay=delay)
    assert each == replayed("all", policies, fleet, approval_delay=delay)
    assert 2 == len({result.events for result in each.results})


@pytest.fixture(scope="module")
def fleet() -> Recommendation:
    """Pauses make every wait up to two hours wrong; 32 instances over two and a half days.

    Instances with the same past are replayed once, so more of them cost less than more days.
    """
    return chosen([machine(PAUSES * 2, "speech") for _ in range(32)], windows=WINDOWS)


def test_the_shortest_wait_that_is_wrong_seldom_enough_is_chosen(fleet: Recommendation) -> None:
    """Up to 120 minutes pauses are asked about, and work is back within the hour; after 150 none
    is."""
    by_minutes = {one.wait.minutes: one.whole for one in fleet.everyone.trials}
    assert tuple(by_minutes) == WINDOWS
    assert [32 * 2 * 3, 32 * 2 * 6, 32 * 2 * 3] == [by_minutes[one].wrong for one in (60, 90, 120)]
    assert (0, 32 * 2 * 2) == (by_minutes[150].wrong, by_minutes[150].questions)
    assert fleet.everyone.choice is not None
    assert 150 == fleet.everyone.choice.wait.minutes


def test_the_halves_are_the_whole_and_the_choice_rests_on_the_first(fleet: Recommendation) -> None:
    """The second half had no part in the choice."""
    for trial in fleet.everyone.trials:
        assert trial.first.questions + trial.second.questions == trial.whole.questions
        assert trial.first.hours + trial.second.hours == pytest.approx(trial.whole.hours)
    turned = chosen([machine([*PAUSES * 2, *bins((BUSY, 0.5), (IDLE, 3)) * 18]) for _ in range(32)])
    assert turned.everyone.choice is not None
    assert 150 == turned.everyone.choice.wait.minutes
    assert turned.everyone.choice.second.share > 0.5
    assert ", not under 5%. The choice did not hold: do not rely on it." in shown(turned)


def test_a_choice_needs_questions_enough() -> None:
    """44 without a wrong one do not bound the share by 5%."""
    past = bins((BUSY, 6), (IDLE, 6))
    fewer = chosen([machine(past * 2) for _ in range(FEWEST_QUESTIONS - 1)])
    assert (None, FEWEST_QUESTIONS - 1) == (
        fewer.everyone.choice,
        fewer.everyone.most.first.questions,
    )
    enough = chosen([machine(past * 2) for _ in range(FEWEST_QUESTIONS)])
    assert enough.everyone.choice is not None
    assert 60 == enough.everyone.choice.wait.minutes
    said = shown(fewer)
    assert (
        "Too few questions: 44 in the first half, 45 needed. At this rate that takes 2 "
        "days of readings." in said
    )
    assert "To use this" not in said


def test_a_looser_limit_takes_a_shorter_wait() -> None:
    """One wrong question in ten is too many for 5%, and few enough for 20%."""
    past = [*bins((BUSY, 6), (IDLE, 6)) * 9, *bins((BUSY, 6), (IDLE, 1.5))] * 2
    recordings = [machine(past) for _ in range(20)]
    strict, loose = (chosen(recordings, at_most=limit).everyone.choice for limit in (0.05, 0.2))
    assert strict is not None
    assert loose is not None
    assert (90, 60) == (strict.wait.minutes, loose.wait.minutes)


def test_each_group_gets_its_own_choice_or_what_it_lacks() -> None:
    """One project pauses for long, one does not, one is too small, and some have no project."""
    recordings = [
        *(machine(PAUSES * 2, "speech") for _ in range(32)),
        *(machine(bins((BUSY, 2), (IDLE, 10)) * 5, "vision") for _ in range(32)),
        machine(bins((BUSY, 2), (IDLE, 10)) * 20, "search"),
        machine(bins((BUSY, 240))),
    ]
    found = chosen(recordings)
    waits = {one.name: one.choice and one.choice.wait.minutes for one in found.groups}
    assert {"search": None, "speech": 150, "unassigned": None, "vision": 60} == waits
    said = shown(found)
    assert (
        "  search: no wait qualifies. Too few questions: 10 in the first half, 45 needed." in said
    )
    assert "At this rate that takes 45 days of readings." in said
    assert (
        "  unassigned: no wait qualifies. Too few questions: none in the first half, 45 needed."
        in said
    )
    assert (
        "  speech: ask after 150 min, or 90 min once GPU memory is released. First half: "
        "0 wrong of 64" in said
    )
    by_tag = chosen(recordings[:3], by="tag:Purpose")
    assert [("GPU-Workload", ({"Purpose": "GPU-Workload"},))] == [
        (o.name, o.matches) for o in by_tag.groups
    ]


def test_where_memory_is_released_between_runs_the_shorter_wait_is_given_up() -> None:
    """Every pause would be asked about after 90 minutes, whatever the longer wait is."""
    past = [*bins((BUSY, 0.5), (IDLE, 1.75)) * 4, *bins((BUSY, 1), (IDLE, 6)) * 2] * 2
    released = [with_memory(machine(past, "speech"), [2.0] * len(past)) for _ in range(32)]
    found = chosen(released)
    assert found.everyone.choice is not None
    assert (120, 120) == (
        found.everyone.choice.wait.minutes,
        found.everyone.choice.wait.released_minutes,
    )
    assert "ask after 120 min, whether GPU memory is released or not. It is the" in shown(found)
    assert {
        "approval": {"ask_after_minutes": 120, "ask_after_released_minutes": 120}
    } == found.document()
    held = chosen([with_memory(one, [60.0] * len(past)) for one in released])
    assert held.everyone.choice is not None
    assert (120, 90) == (
        held.everyone.choice.wait.minutes,
        held.everyone.choice.wait.released_minutes,
    )


@pytest.mark.parametrize(
    ("policy", "wait", "approved"),
    [
        (
            Policy(mode=Mode.ASK, breaker=NEVER),
            "150 min, or 90 min once GPU memory is released",
            True,
        ),
        (
            Policy(mode=Mode.ASK, breaker=NEVER, approval=ApprovalRule(on_expiry="act")),
            "150 min",
            True,
        ),
        (Policy(mode=Mode.AUTO, breaker=NEVER), "150 min", False),
    ],
)
def test_released_memory_is_said_to_shorten_a_wait_only_where_it_does(
    policy: Policy, wait: str, approved: bool
) -> None:
    """It said so of policies that act without a yes, and that a stop of mode auto was approved."""
    held = [machine(PAUSES * 2, "speech") for _ in range(32)]
    fleet = [with_memory(one, [60.0] * len(PAUSES * 2)) for one in held]
    said = shown(chosen(fleet, policies=StaticPolicies(policy)))

    assert f"Recommended: ask after {wait}. It is" in said
    assert f"speech: ask after {wait}. First half" in said
    assert ("released its memory" in said) is ("released" in wait)
    assert ("Released memory brings nothing forward." in said) is ("released" not in wait)
    assert ("approved after 30 min" in said) is approved
    assert ("Mode auto asks nobody" in said) is not approved


def test_a_wait_that_the_second_half_contradicts_is_not_to_be_pasted() -> None:
    """Its rests end there: the text said so, and offered the wait all the same."""
    rests, pauses = bins((BUSY, 0.5), (IDLE, 3)) * 50, bins((BUSY, 0.5), (IDLE, 1.25)) * 100
    speech, vision = [machine([*rests, *pauses], "speech")], [machine(rests * 2, "vision")]
    many = [machine(rests * 2, "vision") for _ in range(20)]
    contradicts = (
        "The second half contradicts the wait for {}: keep 180 min, or 90 min once GPU memory is"
    )

    assert contradicts.format("all instances, speech") in shown(
        chosen([*speech, *vision], windows=(60, 120))
    )
    assert contradicts.format("speech") in shown(
        chosen([*speech, *many], at_most=0.15, windows=(60, 120))
    )
    assert "contradicts" not in shown(chosen(vision, windows=(60, 120)))


def test_freezes_are_said() -> None:
    """While plans are frozen, questions come later than their wait."""
    fleet = [machine(bins((BUSY, 6), (IDLE, 30))) for _ in range(6)]
    found = chosen(fleet, policies=StaticPolicies(Policy()))
    assert 1 == found.freezes
    assert "The breaker froze all plans up to 1 time;" in shown(found)


def test_what_is_printed_is_a_policy_that_asks_as_was_replayed() -> None:
    """Alone and together with the policy it came from."""
    recordings = [
        *(machine(PAUSES * 2, "speech: a") for _ in range(32)),
        *(machine(bins((BUSY, 2), (IDLE, 10)) * 5, "vision") for _ in range(32)),
    ]
    found = chosen(recordings, at_most=0.2)
    said = shown(found)
    printed = said.partition("settings that it does not name stay:\n\n")[2]
    book = parse_policy(printed)
    for recording, minutes in ((recordings[0], 150), (recordings[-1], 60)):
        rule = book.applied_to(recording.instance).policy.approval
        assert (minutes, min(90, minutes)) == (
            rule.ask_after_minutes,
            rule.ask_after_released_minutes,
        )
    assert book.base().policy.approval.ask_after_minutes == found.everyone.choice.wait.minutes  # type: ignore[union-attr]
    base = {"mode": "ask", "idle": {"window_minutes": 60}}
    assert parse_policy(yaml.safe_dump({**base, **yaml.safe_load(printed)}))


def test_nothing_is_printed_twice_for_a_group_that_is_like_all(fleet: Recommendation) -> None:
    """Its choice is that of everyone."""
    assert {
        "approval": {"ask_after_minutes": 150, "ask_after_released_minutes": 90}
    } == fleet.document()


RELEASING = [*bins((BUSY, 0.5), (IDLE, 1.75)) * 4, *bins((BUSY, 1), (IDLE, 6)) * 2] * 2
"""Its memory is released in every pause, so that 90 minutes are too short for it."""


def waits_after(found: Recommendation, recordings: Sequence[Recording]) -> list[tuple[int, int]]:
    """Both waits of these instances, once what is printed is pasted into an empty policy."""
    book = parse_policy(yaml.safe_dump(found.document()))
    rules = [book.applied_to(one.instance).policy.approval for one in recordings]
    return [(rule.ask_after_minutes, rule.ask_after_released_minutes) for rule in rules]


def test_a_group_that_waits_as_long_but_longer_once_released_gets_its_override() -> None:
    """Both waits are compared, or the group would be asked after the shorter one."""
    past = [*bins((BUSY, 0.5), (IDLE, 1.75)) * 5, *bins((BUSY, 0.5), (IDLE, 3.25)) * 5] * 2
    vision = [machine(past, "vision") for _ in range(28)]
    speech = [with_memory(machine(RELEASING, "speech"), [2.0] * len(RELEASING)) for _ in range(24)]
    found = chosen([*vision, *speech], at_most=0.45)
    assert [(120, 90), (120, 120)] == waits_after(found, [vision[0], speech[0]])
    assert "  speech: ask after 120 min, whether GPU memory is released or not." in shown(found)


def test_a_group_without_a_choice_is_not_asked_sooner() -> None:
    """A shorter wait for all would be one that did not qualify for it."""
    vision = [machine(bins((BUSY, 2), (IDLE, 10)) * 4, "vision") for _ in range(100)]
    speech = [machine(PAUSES, "speech")]
    found = chosen([*vision, *speech])
    assert [(60, 60), (180, 90)] == waits_after(found, [vision[0], speech[0]])
    assert "no wait qualifies are not asked sooner than now." in shown(found)


def test_all_keep_their_wait_while_untagged_instances_did_not_qualify_for_less() -> None:
    """No override can select them."""
    vision = [machine(bins((BUSY, 2), (IDLE, 10)) * 4, "vision") for _ in range(100)]
    untagged = [machine(PAUSES)]
    found = chosen([*vision, *untagged])
    assert [(60, 60), (180, 90)] == waits_after(found, [vision[0], untagged[0]])
    assert "Without a group, instances are not asked sooner than now" in shown(found)


def test_tags_that_differ_in_spaces_get_overrides_of_different_names() -> None:
    """Names have no space at their ends, and each is its own."""
    vision = bins((BUSY, 2), (IDLE, 10)) * 5
    recordings = [machine(vision, name) for name in ("vision ", "vision") for _ in range(32)]
    recordings += [machine(PAUSES * 2, "speech") for _ in range(32)]
    found = chosen(recordings)
    assert [(60, 60), (60, 60)] == waits_after(found, [recordings[0], recordings[32]])


def test_missing_days_are_those_of_the_group() -> None:
    """However long another group's records are."""
    short = [machine(bins((BUSY, 6), (IDLE, 6)) * 2, "short") for _ in range(9)]
    found = chosen([*short, machine(PAUSES * 8, "long")])
    assert "short: no wait qualifies. Too few questions: 9 in the first half, 45 needed." in shown(
        found
    )
    assert "that takes 5 days of readings." in shown(found)
    assert shown(found).startswith("10 instances, up to ")


def test_a_strict_limit_needs_more_questions() -> None:
    """100 without a wrong one bound the share by 2.3%, not by 1%."""
    assert (45, 45, 230) == tuple(map(questions_needed, (0.2, 0.05, 0.01)))
    for needed in (questions_needed(limit) for limit in (0.05, 0.01)):
        assert upper_bound(0, needed, 0.9) < (0.05 if needed == 45 else 0.01)
        assert upper_bound(0, needed - 1, 0.9) >= (0.05 if needed == 45 else 0.01)
    found = chosen([machine(bins((BUSY, 6), (IDLE, 6)) * 4) for _ in range(50)], at_most=0.01)
    assert "Too few questions: 100 in the first half, 230 needed." in shown(found)


def test_json_holds_both_waits(fleet: Recommendation) -> None:
    """Waits of each candidate, of the choice and of the policy as it is."""
    told = json.loads(advice.as_json(fleet, grouping("project", Ownership()), ()))
    both = ("ask_after_minutes", "ask_after_released_minutes")
    for part, minutes in (
        (told["everyone"], (150, 90)),
        (told["present"], (180, 90)),
        (told["everyone"]["windows"][0], (60, 60)),
    ):
        assert minutes == tuple(part[name] for name in both)


def test_the_page_shows_how_to_lower_the_wait() -> None:
    """The shorter wait goes with it, or the policy is refused."""
    page = (Path(__file__).parents[3] / "docs/policy.md").read_text(encoding="utf-8")
    after = page.partition("below 90, set both:\n\n```yaml\n")[2]
    printed = after.partition("```")[0]
    rule = parse_policy(printed).base().policy.approval
    assert (60, 60) == (rule.ask_after_minutes, rule.ask_after_released_minutes)
    with pytest.raises(PolicyError, match="ask_after_released_minutes"):
        parse_policy("approval: {ask_after_minutes: 60}")


def test_instances_whose_override_sets_its_own_wait_are_left_out() -> None:
    """It is a decision already; where all have one, there is nothing to choose."""
    text = """
overrides:
  - name: inference waits longer
    match: {tags: {Project: serving}}
    set: {idle: {window_minutes: 720}}
"""
    recordings = [machine(PAUSES, "serving"), machine(PAUSES, "speech")]
    found = chosen(recordings, policies=parse_policy(text))
    assert (1, ["speech"]) == (found.left_out, [one.name for one in found.groups])
    assert "Left out: 1 instance whose override sets its own wait." in shown(found)
    with pytest.raises(ReplayError, match="every instance has an override"):
        chosen(recordings[:1], policies=parse_policy(text))


def test_only_waits_that_the_idle_window_allows_are_tried() -> None:
    """A question never comes before the window is idle."""
    policy = Policy(idle=IdleRule(window_minutes=240), approval=ApprovalRule(ask_after_minutes=240))
    found = chosen([machine(PAUSES)], policies=StaticPolicies(policy), windows=WINDOWS)
    assert [one for one in WINDOWS if one >= 240] == [
        one.wait.minutes for one in found.everyone.trials
    ]
    with pytest.raises(ReplayError, match="longer than the longest wait"):
        chosen(
            [machine(PAUSES)],
            policies=StaticPolicies(replace(policy, idle=IdleRule(window_minutes=1440))),
        )


def test_the_shorter_wait_never_exceeds_the_one_that_is_tried() -> None:
    """Or the policy would contradict itself."""
    for minutes in WINDOWS:
        rule = AskAfter(StaticPolicies(Policy()), minutes).base().policy.approval
        assert (minutes, min(90, minutes)) == (
            rule.ask_after_minutes,
            rule.ask_after_released_minutes,
        )


def test_groups_follow_the_policys_project_tags() -> None:
    """The first key that is set counts, and an override can name it."""
    rule = Ownership(project_tag_keys=("Team", "Project"))
    groups = grouping("project", rule)
    assert ("b", {"Project": "b"}) == groups.of(make_instance(tags={"Project": "b"}))
    assert ("a", {"Team": "a"}) == groups.of(make_instance(tags={"Project": "b", "Team": "a"}))
    assert ("unassigned", {}) == groups.of(make_instance(tags={"Team": " "}))
    with pytest.raises(ReplayError, match="give project, or tag:KEY"):
        grouping("owner", rule)
    with pytest.raises(ReplayError, match="give project, or tag:KEY"):
        grouping("tag:", rule)


def test_amounts_have_intervals_where_there_are_instances_enough() -> None:
    """Equal instances differ in nothing; the wider they differ, the wider it is; four are too
    few."""
    ten = [Decimal(10)] * 10
    assert (100.0, 100.0) == pytest.approx(_interval(ten, 10))
    assert _interval(ten[:4], 4) is None
    half = _interval(ten, 20)
    assert half is not None
    # Twenty draws of 10 or 0 with even chance: a standard deviation of about 5 each.
    assert (100 - 1.96 * 5.13 * 20**0.5, 100 + 1.96 * 5.13 * 20**0.5) == pytest.approx(
        half, rel=0.01
    )


def test_unpriced_hours_are_said() -> None:
    """Unknown is never counted as zero."""
    one = Figures(2, 0, 0, Decimal(5), None, Decimal(0), None, 2)
    assert "unpriced" == advice._usd(one)
    assert "1,234, 1 unpriced" == advice._usd(replace(one, usd=Decimal("1234.4"), unpriced=1))


TRACE = "instance_id,gpu_index,timestamp_s,utilization_gpu\n"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Fifty instances that work for an hour and rest for five, over a day."""
    rows = [
        f"s{number},0,{minute * 300},{90 if minute % 72 < 12 else 0}\n"
        for number in range(50)
        for minute in range(24 * HOUR)
    ]
    file = tmp_path / "trace.csv"
    file.write_text(TRACE + "".join(rows))
    return file


@mock.patch("simulation.recommend.replay", replayed)
def test_the_command_prints_the_choice_and_the_policy(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On traces; the same as JSON. All fifty have the same past, and are too few for a freeze."""
    policy = traces.with_name("mine.yaml")
    policy.write_text("breaker: {minimum_instances: 100}\n")
    asked = ["simulate", "--traces", str(traces), "--policy", str(policy), "--recommend"]
    assert 0 == main(asked)
    out = capsys.readouterr().out
    assert out.startswith(
        "50 instances, 1 day each.\nA question is wrong if work was back within an hour"
    )
    assert (
        "Recommended: ask after 60 min. It is the shortest wait that keeps wrong "
        "questions under 5%." in out
    )
    assert (
        "Checked on the second half: 0 wrong of 100 questions (0.0%, 95% interval 0.0% to 3.6%)"
        in out
    )
    assert "approval:\n  ask_after_minutes: 60\n  ask_after_released_minutes: 60\n" in out
    assert 0 == main([*asked, "--by", "tag:Owner", "--format", "json", "--wrong-at-most", "1"])
    found = json.loads(capsys.readouterr().out)
    assert (None, 0.01, "tag Owner") == (
        found["everyone"]["ask_after_minutes"],
        found["wrong_at_most"],
        found["by"],
    )
    assert {} == found["policy"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "project"], "--by and --wrong-at-most need --recommend"),
        (["--wrong-at-most", "5"], "--by and --wrong-at-most need --recommend"),
        (["--recommend", "--format", "html"], "leave out --format html"),
        (["--recommend", "--by", "owner"], "give project, or tag:KEY"),
        (["--recommend", "--policy", "-", "--policy", "-"], "give --policy once"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    traces: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """With what to do."""
    assert 1 == main(["simulate", "--traces", str(traces), *arguments])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("percent", ["0", "100", "five", "-1", "nan"])
def test_a_percentage_is_one(traces: Path, percent: str) -> None:
    """Between 0 and 100."""
    with pytest.raises(SystemExit):
        main(["simulate", "--traces", str(traces), "--recommend", "--wrong-at-most", percent])
