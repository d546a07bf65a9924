"""The four recipes of `docs/architecture.md` are true of every channel, verdict, cause and step
there is.

Each of them is named in the files of its recipe and in no other file of the product, so that the
next one needs no more than those.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from governor.alerts.model import NOBODY
from governor.approvals.messages.sentences import STEP_TEXT
from governor.episode.model.plan import Step
from governor.episode.rules.plan import MAIN_STEPS
from governor.events.contract import WARNINGS
from governor.events.messages import warning_alert
from governor.events.model.interruption import RESPONSES, Cause, HookAnswer, HookState, Warned
from governor.notify.registry import Registry
from governor.verdict.model import Family, VerdictKind
from tests.builders import NOW, TARGET, make_instance
from tests.unit.notify.builders import FixedClock
from tests.unit.template.machines import ROOT, rules

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
MOST_FILES = 5
LAYER = "layers/shared/governor"
CHANNELS = ("teams", "pagerduty", "webhook")
"""Those that send and do no more: mail also proves who somebody is, and Slack takes answers."""


def recipe(title: str) -> set[str]:
    """The files that a recipe names."""
    part = PAGE.split(f"**{title}**", 1)[1].split("\n**", 1)[0]
    return set(re.findall(r"^- `([^`]+)`", part, re.MULTILINE))


@cache
def mentions() -> dict[str, frozenset[str]]:
    """By module of the product, what its code names: `Enum.MEMBER`, imported modules, texts as a
    whole."""
    found = {}
    for path in [*(ROOT / LAYER).rglob("*.py"), *(ROOT / "functions").rglob("*.py")]:
        found[str(path.relative_to(ROOT))] = frozenset(_named(path))
    return found


def _named(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                yield f"{owner}.{name}"
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Constant(value=str(text)):
                yield text


def who_names(name: str) -> set[str]:
    """The modules of the product that name it."""
    return {module for module, names in mentions().items() if name in names}


@pytest.mark.parametrize(
    "title", ["A new channel", "A new verdict", "A new event source", "A new cloud action"]
)
def test_a_recipe_is_short_and_its_files_exist(title: str) -> None:
    """Five files of the product at most; `<name>` stands for the new one."""
    files = recipe(title)

    assert 2 <= len(files) <= MOST_FILES
    assert all((ROOT / name).is_file() for name in files if "<name>" not in name)


@pytest.mark.parametrize("name", CHANNELS)
def test_only_the_registry_knows_a_channel(name: str) -> None:
    """Beside its own module, and the two lists for channels that differ from the rest."""
    own = f"{LAYER}/notify/{name}.py"
    knowing = who_names(name) | who_names(f"governor.notify.{name}")

    assert {own, f"{LAYER}/notify/registry.py"} <= knowing
    assert knowing - {own} <= recipe("A new channel")


def test_the_registry_makes_every_channel_from_the_secret() -> None:
    """Nothing else has to be set up."""
    secret = {
        "teams_webhook_url": "https://example.com/teams",
        "pagerduty_routing_key": "0" * 32,
        "webhook_url": "https://example.com/hook",
        "webhook_secret": "s" * 32,
    }
    routes = Registry(secret, None, None, FixedClock()).routes([], {})

    assert set(CHANNELS) == {route.channel.name for route in routes}


JUDGING = {
    f"{LAYER}/{name}.py"
    for name in (
        "limits/rules/breaker",
        "remediation/inspect_instance",
        "remediation/open_episode",
        "remediation/recheck_episode",
        "verdict/rules/judging",
        "verdict/rules/proof",
    )
}
"""These name `idle`, `no-data` and `busy`, which every verdict is told from."""


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_is_known_in_few_places(kind: VerdictKind) -> None:
    """Everything else goes by its family; a kind without one does not load."""
    common = kind in (VerdictKind.IDLE, VerdictKind.NO_DATA, VerdictKind.BUSY)
    allowed = recipe("A new verdict") | (JUDGING if common else set())

    assert who_names(f"VerdictKind.{kind.name}") <= allowed
    assert isinstance(kind.family, Family)


def test_every_cause_has_a_response_and_words() -> None:
    """Rows of two tables; the steps that follow read the row and know no cause."""
    assert set(Cause) == set(RESPONSES)
    for cause in Cause:
        warned = Warned("e-1", TARGET.account, TARGET.region, "i-1", cause, NOW)
        sent = HookAnswer(HookState.SENT)
        assert "notebook" in warning_alert(make_instance(), warned, None, NOBODY, NOW, sent).subject
        assert who_names(f"Cause.{cause.name}") <= recipe("A new event source")


def test_the_queue_of_warnings_brings_only_what_is_read() -> None:
    """Here and in the stack of other accounts, which has the same patterns."""
    brought = {
        kind
        for rule in rules()
        if rule.folder == "handle_spot_interruption"
        for kind in rule.pattern["detail-type"]
    }
    forwarded = (ROOT / "stacks/forward_events.yaml").read_text(encoding="utf-8")

    assert brought
    assert brought <= set(WARNINGS)
    assert all(kind in forwarded for kind in brought)


def test_a_step_that_accompanies_another_is_known_to_its_recipe_alone() -> None:
    """No guard, no workflow and no ledger has to learn of it."""
    steps = [step for step in Step if step not in MAIN_STEPS]

    assert steps
    for step in steps:
        assert who_names(f"Step.{step.name}") <= recipe("A new cloud action")
    assert all(STEP_TEXT[step] for step in Step)
