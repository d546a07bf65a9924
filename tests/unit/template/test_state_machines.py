"""Promises of the definitions, proved on their graphs."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from governor.core import errors
from governor.remediation.take_snapshot import RESERVED
from scripts.state_machines import FOLDER, rendered
from tests.unit.template.machines import MACHINES, definition, reachable, scopes, targets, template

REMEDIATION = definition("remediation")
STATES: dict[str, dict[str, Any]] = REMEDIATION["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}


@pytest.mark.parametrize("name", MACHINES)
def test_a_definition_is_what_its_source_says(name: str) -> None:
    """The JSON is deployed and the YAML is edited: `make machines` brings the one in line with the
    other."""
    assert rendered(FOLDER / f"{name}.yaml") == (FOLDER / f"{name}.asl.json").read_text(
        encoding="utf-8"
    )
    assert {f"{one}.yaml" for one in MACHINES} == {path.name for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", MACHINES)
def test_every_target_exists_and_every_state_is_reachable(name: str) -> None:
    """No transition leads nowhere, no state is dead."""
    for scope in scopes(definition(name)):
        known = set(scope["States"])
        assert scope["StartAt"] in known
        for state in scope["States"].values():
            assert targets(state) <= known
        assert known == reachable(scope, scope["StartAt"])


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_can_end(name: str) -> None:
    """From every state some path leads to an end."""
    for scope in scopes(definition(name)):
        ends = {
            key
            for key, state in scope["States"].items()
            if state.get("End") or state["Type"] in ("Succeed", "Fail")
        }
        for key in scope["States"]:
            assert ends & reachable(scope, key), key


@pytest.mark.parametrize("name", MACHINES)
def test_substitutions_of_file_and_template_are_the_same(name: str) -> None:
    """An undeclared substitution would reach Step Functions as text; a superfluous one is a
    mistake."""
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(definition(name))))
    resources = template()["Resources"].values()
    declared = next(
        set(resource["Properties"]["DefinitionSubstitutions"])
        for resource in resources
        if resource["Type"] == "AWS::Serverless::StateMachine"
        and name in resource["Properties"]["DefinitionUri"]
    )

    assert declared == used


@pytest.mark.parametrize("name", MACHINES)
def test_no_definition_holds_an_arn_of_a_resource(name: str) -> None:
    """Accounts and names come by substitution."""
    text = json.dumps(definition(name))

    assert re.search(r"\d{12}", text) is None
    assert "arn:aws" not in text


DESTRUCTIVE = {
    "RehearseSnapshot": "WaitToAct",
    "Stop": "WaitToAct",
    "Terminate": "WaitToTerminate",
}
"""The states that stop or terminate, or rehearse right before it, and where each waits before its
next recheck."""
REPEATED = sorted(set(TASKS) - set(DESTRUCTIVE))


@pytest.mark.parametrize("name", sorted(DESTRUCTIVE))
def test_no_stop_or_termination_is_repeated_without_a_recheck(name: str) -> None:
    """Work may have begun since: what is unclear goes to the wait, and from there to a recheck."""
    task = TASKS[name]
    *_, unclear = task["Catch"]

    assert "Retry" not in task
    assert "TimeoutSeconds" in task
    assert (["States.ALL"], DESTRUCTIVE[name]) == (unclear["ErrorEquals"], unclear["Next"])


def _kinds(of: type[errors.GovernorError]) -> set[str]:
    """An error and all that are one."""
    return {of.__name__}.union(*(_kinds(kind) for kind in of.__subclasses__()))


@pytest.mark.parametrize("name", sorted(DESTRUCTIVE))
def test_what_a_guard_or_ec2_refused_ends_the_episode(name: str) -> None:
    """A clear no is final. Every error of our tree that says neither yes nor no is checked
    again."""
    waits, refused, _ = TASKS[name]["Catch"]
    clear = (
        _kinds(errors.SafetyError) | _kinds(errors.CloudError) | _kinds(errors.ConfigurationError)
    )
    unclear = {"MustWait", "Throttled", "Unavailable"}

    assert ["MustWait"] == waits["ErrorEquals"]
    assert clear - unclear | {"ConflictError", "InputError"} == set(refused["ErrorEquals"])
    assert "RecordFailure" == refused["Next"]


@pytest.mark.parametrize("name", REPEATED)
def test_every_task_is_bounded_retried_and_caught(name: str) -> None:
    """A time-out, retries for what may pass, and RecordFailure for everything else."""
    task = TASKS[name]
    caught = task["Catch"][-1]
    wanted = "Failed" if name == "RecordFailure" else "RecordFailure"

    assert ("TimeoutSeconds" in task) != ("TimeoutSecondsPath" in task)
    assert {"Throttled", "Unavailable", "Lambda.TooManyRequestsException"} <= set(
        task["Retry"][0]["ErrorEquals"]
    )
    assert (["States.ALL"], wanted) == (caught["ErrorEquals"], caught["Next"])


@pytest.mark.parametrize("name", REPEATED)
def test_a_function_that_was_cut_short_is_called_again(name: str) -> None:
    """It may have died after its write. The time-out of a question is the end of its stage, not a
    fault."""
    retried = {error for retry in TASKS[name]["Retry"] for error in retry["ErrorEquals"]}
    asks = TASKS[name]["Resource"].endswith(".waitForTaskToken")

    assert {"Sandbox.Timedout", "Runtime.ExitError", "Lambda.Unknown"} <= retried
    assert asks is ("States.Timeout" not in retried)


def test_no_try_at_snapshots_outlives_its_reservation() -> None:
    """Only then may another one make a second set; and the workflow tries for longer than that."""
    function = template()["Resources"]["TakeSnapshotFunction"]["Properties"]
    limit = function.get("Timeout", template()["Globals"]["Function"]["Timeout"])
    again = next(
        r for r in STATES["TakeSnapshot"]["Retry"] if r["ErrorEquals"] == ["SnapshotUnderWay"]
    )

    assert limit + 60 <= RESERVED.total_seconds()
    assert RESERVED.total_seconds() < again["IntervalSeconds"] * again["MaxAttempts"]


def test_termination_is_only_reached_through_completed_snapshots_and_a_second_recheck() -> None:
    """Cut either state out, or the dry run's way around the wait, and Terminate cannot be
    reached."""
    start = REMEDIATION["StartAt"]

    assert "Terminate" in reachable(REMEDIATION, start)
    assert "Terminate" not in reachable(REMEDIATION, start, frozenset({"RecheckBeforeTerminate"}))
    assert "Terminate" not in reachable(REMEDIATION, start, frozenset({"TakeSnapshot"}))
    gate = frozenset({"AreSnapshotsCompleted?"})
    around = {name for name in STATES if "TerminatePlanned?" in targets(STATES[name])}
    assert {"AreSnapshotsCompleted?", "SnapshotWasDryRun?"} == around
    assert "Terminate" not in reachable(REMEDIATION, "CheckSnapshots", gate)


def _first_choice(name: str, **values: dict[str, Any]) -> str:
    """Return where a choice leads with these values of functions, by their field in the input."""

    def holds(rule: dict[str, Any]) -> bool:
        if "And" in rule:
            return all(holds(part) for part in rule["And"])
        _, top, *rest = rule["Variable"].split(".")
        if "IsPresent" in rule:
            is_there = top in values and (not rest or rest[-1] in values[top])
            return is_there is rule["IsPresent"]
        return values[top].get(rest[-1]) is rule["BooleanEquals"]

    for choice in STATES[name]["Choices"]:
        if holds(choice):
            return str(choice["Next"])
    return str(STATES[name]["Default"])


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_snapshots_that_follow_a_stop_are_rehearsed_right_before_it(
    snapshot: bool, dry_run: bool
) -> None:
    """Mode observe asks for its one dry run after that of the stop."""
    opened = {"snapshot": snapshot, "dry_run": dry_run}
    wanted = "RehearseSnapshot" if snapshot and not dry_run else "Stop"

    assert wanted == _first_choice("StopAllowed?", recheck={"proceed": True}, opened=opened)
    assert "Stop" == STATES["RehearseSnapshot"]["Next"]
    assert {"StopAllowed?", "RehearseSnapshot"} == {
        name for name in STATES if "Stop" in targets(STATES[name])
    }
    assert {"StopAllowed?"} == {
        name for name in STATES if "RehearseSnapshot" in targets(STATES[name])
    }


def test_nothing_is_rehearsed_after_the_stop_was_answered() -> None:
    """A freeze held the snapshots back, and the workflow comes through the stop again."""
    opened = {"snapshot": True, "dry_run": False}
    done = {"dry_run": False}

    found = _first_choice("StopAllowed?", recheck={"proceed": True}, opened=opened, stopped=done)
    assert "Stop" == found
    assert "$.stopped" == STATES["Stop"]["ResultPath"]
    assert not [
        name for name in STATES if name != "Stop" and STATES[name].get("ResultPath") == "$.stopped"
    ]


@pytest.mark.parametrize("proceed", [True, False])
def test_nothing_is_rehearsed_that_the_recheck_holds_back(proceed: bool) -> None:
    """A wait and an end go their own ways, whatever the plan has."""
    recheck = {"proceed": proceed, "wait": False}
    found = _first_choice(
        "StopAllowed?", recheck=recheck, opened={"snapshot": True, "dry_run": False}
    )

    assert found == ("RehearseSnapshot" if proceed else "RecordRefused")


@pytest.mark.parametrize(
    ("choice", "then", "tells"),
    [
        ("StopAllowed?", "WaitToAct", "TellWaiting"),
        ("SnapshotAllowed?", "WaitToAct", "TellWaiting"),
        ("TerminateAllowed?", "WaitToTerminate", "TellWaitingToTerminate"),
    ],
)
def test_nobody_is_notified_of_a_wait_that_notifies_nobody(
    choice: str, then: str, tells: str
) -> None:
    """A plan that begins with snapshots did: of another recheck that came first, and by a call of
    AskOwner at each check."""
    waits = {"proceed": False, "wait": True}

    assert then == _first_choice(choice, recheck={**waits, "notify": False}, opened={})
    assert tells == _first_choice(choice, recheck={**waits, "notify": True}, opened={})
    # Functions of earlier releases do not say.
    assert tells == _first_choice(choice, recheck=waits, opened={})


def test_what_comes_with_a_task_token_is_dropped() -> None:
    """A read token says that there may be an answer; which one is read from the table."""
    for stage in ("AwaitAnswer", "Remind", "Escalate"):
        assert (None, "ReadAnswer") == (STATES[stage]["ResultPath"], STATES[stage]["Next"])
    before = {name for name in STATES if "Decision?" in targets(STATES[name])}
    assert {"UseConclusion"} == before
    assert "$.concluded.value" == STATES["UseConclusion"]["InputPath"]


def test_nothing_destructive_follows_an_error() -> None:
    """After RecordFailure there is no way back to an action."""
    after = reachable(REMEDIATION, "RecordFailure")

    assert {"RecordFailure", "WasRefused?", "Failed", "Done"} == after


def test_in_mode_ask_only_an_approval_or_a_chosen_expiry_leads_to_an_action() -> None:
    """Two of all answers lead to the recheck, and one of them only under `on_expiry: act`."""
    leading = [choice for choice in STATES["Decision?"]["Choices"] if choice["Next"] == "Recheck"]

    assert [
        {"Variable": "$.answer.decision", "StringEquals": "approve", "Next": "Recheck"}
    ] == leading[:1]
    assert 2 == len(leading)
    assert {"Variable": "$.opened.value.on_expiry", "StringEquals": "act"} in leading[1]["And"]
    assert "Recheck" not in reachable(REMEDIATION, "AskOwner", frozenset({"Decision?"}))


def test_every_stage_of_the_question_goes_on_when_time_is_over_and_ends_in_the_conclusion() -> None:
    """Ask, remind, escalate, conclude: by States.Timeout, and by nothing else."""
    order = ["AwaitAnswer", "Remind", "Escalate", "ConcludeApproval"]

    for stage, following in pairwise(order):
        assert (["States.Timeout"], following) == (
            STATES[stage]["Catch"][0]["ErrorEquals"],
            STATES[stage]["Catch"][0]["Next"],
        )
        assert STATES[stage]["Resource"].endswith(":lambda:invoke.waitForTaskToken")


@pytest.mark.parametrize(
    ("said", "then"), [("TellHeard?", "Recheck"), ("AskHeard?", "AwaitAnswer")]
)
def test_nothing_goes_on_before_somebody_was_told(said: str, then: str) -> None:
    """Straight from the topic, or when a channel has taken it; no other state leads there."""
    waiting = {f"Is{said}", f"Check{said}".rstrip("?")}
    leading = {name for name in STATES if then in targets(STATES[name])}

    assert {said, f"Is{said}"} <= leading
    assert then not in reachable(REMEDIATION, f"Check{said}".rstrip("?"), frozenset({f"Is{said}"}))
    assert waiting <= set(STATES)
    if then == "AwaitAnswer":
        assert {said, f"Is{said}"} == leading


def test_only_the_name_of_the_episode_travels_to_the_functions() -> None:
    """Whoever starts an execution by hand can name an episode, and nothing else."""
    for name, task in TASKS.items():
        payload = task["Parameters"]["Payload"]
        own = {
            "stage",
            "task_token.$",
            "before",
            "action",
            "until",
            "rehearse",
            "answered",
            "outcome",
            "outcome.$",
            "reason",
            "reason.$",
        }
        named = {"account.$", "region.$", "instance_id.$", "launch_time.$", "number.$"}
        allowed = named if name == "OpenEpisode" else {"episode.$", "error.$", *own}
        assert set(payload) <= allowed, name


# the sweep


def test_a_plan_that_was_cut_short_costs_no_sweep() -> None:
    """Something that it waited for hung: the next try finds that under way, or has the time for
    it."""
    retried = {
        error
        for retry in definition("sweep")["States"]["PlanSweep"]["Retry"]
        for error in retry["ErrorEquals"]
    }
    assert {"Sandbox.Timedout", "Runtime.ExitError", "Lambda.Unknown", "States.Timeout"} <= retried
    assert {"Throttled", "Unavailable", "Lambda.TooManyRequestsException"} <= retried


@pytest.mark.parametrize(
    ("few", "many"),
    [("SweepTargets", "SweepManyTargets"), ("CheckHealthOfEach", "CheckHealthOfMany")],
)
def test_few_targets_and_many_are_treated_alike(few: str, many: str) -> None:
    """Both maps hold the same states; of many only the outcomes are kept, and fewer tries fit."""
    one, other = (
        definition("sweep")["States"][name]["ItemProcessor"]["States"] for name in (few, many)
    )
    for states in (one, other):
        states[next(iter(states))].pop("ResultSelector")
        states[next(iter(states))].pop("Retry")

    assert one == other


def test_health_is_apart_and_never_fails() -> None:
    """An alarm on the function says so; a sweep neither waits for it nor ends by it."""
    machine = definition("sweep")["States"]
    swept = {name for name in machine if "Sweep" in name}
    assert {"PlanSweep", "SweepTargets", "SweepManyTargets"} == swept
    for name in ("CheckHealthOfEach", "CheckHealthOfMany"):
        states = machine[name]["ItemProcessor"]["States"]
        (caught,) = states["CheckHealth"]["Catch"]
        assert (["States.ALL"], "NotChecked") == (caught["ErrorEquals"], caught["Next"])
        assert machine[name]["End"]


def test_a_child_ends_within_four_minutes_whatever_is_tried_again() -> None:
    """Step Functions ends an express execution after five, and nobody would know why."""
    for scope in (
        definition("sweep")["States"][name]["ItemProcessor"]
        for name in ("SweepManyTargets", "CheckHealthOfMany")
    ):
        seconds = 0.0
        for task in (one for one in scope["States"].values() if one["Type"] == "Task"):
            (again,) = task["Retry"]
            # Lambda rejects at once; what may have run is tried again by the next sweep.
            runs = (
                1
                if again["ErrorEquals"] == ["Lambda.TooManyRequestsException"]
                else 1 + again["MaxAttempts"]
            )
            waits = (
                again["IntervalSeconds"] * again["BackoffRate"] ** n
                for n in range(again["MaxAttempts"])
            )
            seconds += runs * task["TimeoutSeconds"] + sum(waits)
        assert seconds <= 240
        assert "EXPRESS" == scope["ProcessorConfig"]["ExecutionType"]


def test_a_sweep_has_the_time_that_its_targets_may_take() -> None:
    """3,000 targets of four minutes each, the plan and the sum of the month, each with all its
    tries."""
    machine = definition("sweep")
    seconds = 240.0 * 3_000 / machine["States"]["SweepManyTargets"]["MaxConcurrency"]
    for task in (machine["States"][name] for name in ("PlanSweep", "SumUpMonth")):
        for again in task["Retry"]:
            waits = (
                again["IntervalSeconds"] * again["BackoffRate"] ** n
                for n in range(again["MaxAttempts"])
            )
            seconds += sum(min(wait, again.get("MaxDelaySeconds", wait)) for wait in waits)
        tries = 1 + sum(again["MaxAttempts"] for again in task["Retry"])
        seconds += tries * task["TimeoutSeconds"]
    assert seconds <= machine["TimeoutSeconds"]


def test_a_scan_has_the_time_that_its_targets_may_take() -> None:
    """3,000 targets, the most of a stack, at 100 seconds on average. An empty place takes 17 calls,
    about 5 seconds; that leaves room for those with thousands of instances, which take minutes."""
    machine = definition("sweep")
    seconds = 100.0 * 3_000 / machine["States"]["ScanMany"]["MaxConcurrency"]
    plan = machine["States"]["PlanSweep"]
    tries = 1 + sum(again["MaxAttempts"] for again in plan["Retry"])
    assert seconds + tries * plan["TimeoutSeconds"] <= machine["TimeoutSeconds"]


def test_functions_of_a_child_are_not_cut_by_the_machine() -> None:
    """Each has its own time-out, with its log."""
    for name in ("SweepTargetFunction", "CheckHealthFunction"):
        assert 225 > template()["Resources"][name]["Properties"]["Timeout"]


def test_every_map_of_a_sweep_leads_to_the_sum_of_the_month() -> None:
    """Which fails the execution when a target was not swept."""
    sweep = definition("sweep")["States"]
    assert ["SumUpMonth"] * 2 == [
        sweep[name]["Next"] for name in ("SweepTargets", "SweepManyTargets")
    ]
    assert "Catch" not in sweep["SumUpMonth"]


def test_what_a_guard_refuses_is_no_failed_execution() -> None:
    """Nor is what EC2 takes back under it, or somebody holds: all are results, and told as such."""
    choice = STATES["WasRefused?"]

    assert {"refused", "interrupted", "held"} == {one["StringEquals"] for one in choice["Choices"]}
    assert {"Done"} == {one["Next"] for one in choice["Choices"]}
