"""Over budget, people are asked where an override only observes; nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from governor.alerts.model import UNASSIGNED
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.core.errors import SafetyError, Throttled
from governor.episode.model.plan import Step
from governor.money.costs import NoteOverBudget
from governor.money.rules.cost import UNTAGGED, Meter
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.model.money import Budget
from governor.policy.model.policy import Mode
from governor.wiring import policies
from governor.wiring.parts import Parts
from governor.wiring.planning import sweep_plan
from tests.builders import NOW, TARGET, make_instance
from tests.twins import FakeClock, MemoryStateTable
from tests.twins.stores import store_parts
from tests.unit.aws.fakes import FakeClients, ScriptedClient
from tests.unit.wiring.samples import settings
from tests.unit.worlds.builders import opener, ref_of
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World

TEXT = """
mode: {mode}
budget: {{act: ask, monthly_usd: 100}}
approval: {{on_expiry: act}}
plan: {{action: stop}}
ownership:
  contacts: {{people: {{emails: [alice@example.com, bob@example.com]}}}}
  default_contacts: [people]
overrides: [{{name: quiet, match: {{tags: {{Team: lab}}}}, set: {{mode: observe}}}}]
"""
QUIET = {"Purpose": "GPU-Workload", "Team": "lab", "Project": "vision", "Name": "notebook"}


def book(mode: str = "ask", *over: str) -> PolicyBook:
    """Instances of the team lab are only observed; these projects are over budget."""
    return parse_policy(TEXT.format(mode=mode)).ask_over_budget(over)


def test_over_budget_an_observed_instance_is_asked_about_and_silence_is_no_yes() -> None:
    """Whatever the document says of silence for the others."""
    applied = book("ask", "vision").applied_to(make_instance(tags=QUIET))

    assert (Mode.ASK, "no-action") == (applied.policy.mode, applied.policy.approval.on_expiry)
    assert ("quiet", "budget.act") == applied.overrides
    plain = book("ask").applied_to(make_instance(tags=QUIET))
    same = replace(plain.policy, mode=Mode.ASK, approval=applied.policy.approval)
    assert (same, plain.version) == (applied.policy, applied.version)


@pytest.mark.parametrize(
    ("mode", "over", "tags"),
    [
        ("ask", (), QUIET),
        ("ask", ("llm",), QUIET),
        ("ask", ("vision",), {**QUIET, "Team": "other"}),
        ("observe", ("vision",), QUIET),
        ("observe", ("vision",), {**QUIET, "Team": "other"}),
    ],
)
def test_nothing_else_is_asked_about_because_of_it(
    mode: str, over: tuple[str, ...], tags: dict[str, str]
) -> None:
    """Least of all where the document observes: with that mode, people stop everything."""
    instance = make_instance(tags=tags)

    assert book(mode).applied_to(instance) == book(mode, *over).applied_to(instance)


def test_the_question_says_that_the_budget_is_the_reason() -> None:
    """And it is an ordinary one: mode ask, with a schedule, by the same plan."""
    world = FleetWorld()
    instance_id = world.add(1, tags=QUIET)
    world.policies = found = book("ask", UNASSIGNED, "vision")  # type: ignore[assignment]
    opened = opener(world)(ref_of(world, instance_id)).episode

    assert opened is not None
    assert (Mode.ASK, True, False) == (opened.mode, opened.by_budget, opened.asking.acts_on_silence)
    assert opened.asking.schedule is not None
    reason = "You are asked because project vision is over its budget for this month."
    assert reason in stage_alert(opened, Stage.ASK, NOW, None).lines
    assert found.base().policy.approval.on_expiry == "act"
    usual = replace(opened, overrides=())
    assert reason not in stage_alert(usual, Stage.ASK, NOW, None).lines


def test_an_answer_counts_no_longer_once_the_budget_does_not_ask() -> None:
    """As where people change the mode: every guard reads the policy anew. In the next month,
    say."""
    world = World(changes={"tags": {**QUIET, "Owner": "ml"}})

    over = replace(world.guards, policies=book("ask", "vision"))
    assert not over.check(world.ref, Step.STOP).dry_run
    for no_longer in (book("ask", "llm"), book("observe", "vision")):
        with pytest.raises(SafetyError, match="mode has changed from ask to observe"):
            replace(world.guards, policies=no_longer).check(world.ref, Step.STOP)


def state_with(now: datetime, **usd: str) -> MemoryStateTable:
    """Projects have cost so much this month."""
    state = MemoryStateTable()
    spent = {name: Decimal(amount) for name, amount in usd.items()}
    state.bring_forward(Meter(TARGET, f"{now:%Y-%m}", now, spent), None)
    return state


def test_who_is_over_budget_is_known_for_its_month() -> None:
    """Over, not at it; instances without a project as their tags name them; none in the next
    month."""
    state = state_with(NOW, vision="100.01", llm="100", big="500", **{UNTAGGED: "101"})
    budget = Budget(monthly_usd=Decimal(100), projects={"big": Decimal(500)}, act="ask")
    clock = FakeClock(NOW)
    NoteOverBudget(clock, ledger_store=state, policy_store=state)(budget)

    assert (UNASSIGNED, "vision") == state.over_budget("2026-11")
    assert () == state.over_budget("2026-12")
    NoteOverBudget(clock, ledger_store=state, policy_store=state)(replace(budget, monthly_usd=None))
    assert () == state.over_budget("2026-11")
    NoteOverBudget(clock, ledger_store=state, policy_store=state)(replace(budget, act="notify"))
    assert () == state.over_budget("2026-11")


def parts_of(state: Any, act: str = "ask") -> Parts:
    """Return the parts of a function, with this policy in force."""
    text = TEXT.format(mode="ask").replace("act: ask", f"act: {act}")
    read = SimpleNamespace(read=lambda **_: text)
    clients = FakeClients(ScriptedClient())
    return Parts(settings(), clients, **store_parts(state), policy_text=read, clock=FakeClock(NOW))


def test_only_functions_that_ask_or_act_on_the_answer_know_it() -> None:
    """Those that answer warnings go by the document: they act unasked."""
    state, instance = state_with(NOW, vision="101"), make_instance(tags=QUIET)
    assert 1 == len(sweep_plan(parts_of(state)).places())

    modes = [ready(parts_of(state))().applied_to(instance).policy.mode for ready in READY]
    assert [Mode.ASK, Mode.OBSERVE, Mode.OBSERVE, Mode.OBSERVE] == modes
    assert (
        Mode.OBSERVE
        is policies.asking(parts_of(state, "notify"))().applied_to(instance).policy.mode
    )


READY = (policies.asking, policies.present, policies.or_last, policies.or_defaults)


def test_costs_that_cannot_be_read_cost_no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project over budget stays so until the month ends."""
    state = state_with(NOW, vision="101")
    sweep_plan(parts_of(state)).places()

    def away(_: str) -> Any:
        raise Throttled("slow down", operation="dynamodb:Query")

    monkeypatch.setattr(state, "meters", away)
    assert 1 == len(sweep_plan(parts_of(state)).places())
    assert ("vision",) == state.over_budget("2026-11")
