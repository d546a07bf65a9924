"""The recipes of `CONTRIBUTING.md` are true of every channel, figure, cause, verdict and step
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
from typing import Any

import pytest

from governor.alerts.model import NOBODY
from governor.alerts.templates import template_lines
from governor.episode.model.plan import STEP_TEXT, Step
from governor.episode.rules.plan import MAIN_STEPS
from governor.events.contract import WARNINGS
from governor.events.messages import warning_alert
from governor.events.model.interruption import RESPONSES, Cause, HookAnswer, HookState, Warned
from governor.evidence.rules.figures import FIGURES, can_be_replayed
from governor.fleet.rules.kept import KeepReason
from governor.notify.registry import CHANNELS
from governor.scan.kind import Kind
from governor.scan.registry import KINDS
from governor.verdict.model import Family, VerdictKind
from tests.builders import NOW, TARGET, make_instance
from tests.unit.template.machines import ROOT, rules

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MOST_FILES = {
    "A new channel": 3,
    "A new veto": 3,
    "A new event source": 3,
    "A new verdict": 4,
    "A new cloud action": 5,
    "A new reason to leave an instance alone": 2,
    "A new kind of resource": 2,
}
"""The product files that each recipe may name."""
LAYER = "layers/shared/governor"
SENDING = [name for name, kind in CHANNELS.items() if kind.make_shared is not None]
"""Channels that send and do no more: mail also proves who somebody is, and Slack takes answers."""


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


def test_every_recipe_is_counted() -> None:
    """No recipe of the page is without a limit."""
    assert set(MOST_FILES) == set(re.findall(r"^\*\*(A new [^*]+)\*\*", PAGE, re.MULTILINE))


@pytest.mark.parametrize("title", MOST_FILES)
def test_a_recipe_is_short_and_its_files_exist(title: str) -> None:
    """Three files of the product at most; `<name>` stands for the new one."""
    files = recipe(title)

    assert 2 <= len(files) <= MOST_FILES[title]
    assert all((ROOT / name).is_file() for name in files if "<name>" not in name)


@pytest.mark.parametrize("name", SENDING)
def test_only_the_registry_knows_a_channel(name: str) -> None:
    """Beside its own module, and the record of deliveries that reach no person."""
    own = f"{LAYER}/notify/{name}.py"
    knowing = who_names(name) | who_names(f"governor.notify.{name}")

    assert {own, f"{LAYER}/notify/registry.py"} <= knowing
    assert knowing - {own} <= recipe("A new channel")


JUDGING = {
    f"{LAYER}/{name}.py"
    for name in (
        "limits/rules/breaker",
        "remediation/inspect_instance",
        "remediation/open_episode",
        "remediation/recheck_episode",
        "verdict/rules/judging",
        "verdict/rules/proof",
        "verdict/rules/utilization",
    )
}
"""These name `idle`, `partly-idle`, `no-data` and `busy`, which every verdict is told from."""


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_is_known_in_few_places(kind: VerdictKind) -> None:
    """Everything else goes by its family; a kind without one does not load."""
    common = kind.value in ("idle", "partly-idle", "no-data", "busy")
    allowed = recipe("A new verdict") | (JUDGING if common else set())

    assert who_names(f"VerdictKind.{kind.name}") <= allowed
    assert isinstance(kind.family, Family)


@pytest.mark.parametrize("figure", [name for name in FIGURES if can_be_replayed(name)])
def test_a_figure_is_known_to_its_recipe_alone(figure: str) -> None:
    """Its words and the path of its limit stand in its row, and nowhere else."""
    row = FIGURES[figure]
    table = f"{LAYER}/evidence/rules/figures.py"

    knowing = who_names(row.words) | who_names(row.limit)
    assert {table} == knowing
    assert table in recipe("A new veto")


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_has_a_response_and_words(cause: Cause) -> None:
    """Rows of two tables; the steps that follow read the row and know no cause."""
    assert cause in RESPONSES, f"give {cause!r} a row in RESPONSES"
    warned = Warned("e-1", TARGET.account, TARGET.region, "i-1", cause, NOW)
    sent = HookAnswer(HookState.SENT)
    alert = warning_alert(make_instance(), warned, None, NOBODY, NOW, sent)

    assert "notebook" in alert.subject
    assert who_names(f"Cause.{cause.name}") <= recipe("A new event source") | OWN_EVENT


OWN_EVENT = {f"{LAYER}/events/contract.py"}
"""It names the cause of an event that has other fields than EC2's warnings."""


@pytest.mark.parametrize("cause", Cause)
def test_only_an_event_with_other_fields_has_a_model(cause: Cause) -> None:
    """The other causes need none."""
    has_model = bool(who_names(f"Cause.{cause.name}") & OWN_EVENT)

    assert has_model is RESPONSES[cause].has_own_fields


@pytest.mark.parametrize("cause", Cause)
def test_a_response_is_complete(cause: Cause) -> None:
    """A question is canceled with a reason, the checkpoint document accepts the reason of the hook,
    a burst of warnings has words, and the docs name the event."""
    response = RESPONSES[cause]
    says_what_is_lost = response.is_certain and not response.has_own_fields
    document = (ROOT / "stacks/telemetry.yaml").read_text(encoding="utf-8")

    assert bool(response.lost_capacity) is says_what_is_lost, "set lost_capacity in its row"
    reason = response.hook_reason
    assert f"              - {reason}\n" in document, f"allow {reason} in stacks/telemetry.yaml"
    assert f"`{reason}`" in page("interruptions"), f"explain {reason} in docs/interruptions.md"
    words = template_lines("many", {"kind": response.kind})
    assert 1 == len(words), f"word the kind {response.kind} in alerts/words/events/many.txt"
    name = response.detail_type
    assert f"`{name}`" in page("events"), f"describe {name} in scripts/events.yaml: make fix"


def test_each_warning_has_a_sample() -> None:
    """`make up` and the integration tests send the samples."""
    samples = [path.read_text(encoding="utf-8") for path in (ROOT / "events").rglob("*.json")]
    unsent = []
    for response in RESPONSES.values():
        if not any(f'"{response.detail_type}"' in sample for sample in samples):
            unsent.append(response.detail_type)

    assert [] == unsent, "add a sample of each of these events to the folder of its function"


def page(name: str) -> str:
    """A page of the docs."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_each_warning_is_brought_and_each_that_is_brought_is_read() -> None:
    """By a rule of the hub to the function that reads it. The rules of the queue bring what
    `WARNINGS` names."""
    brought: dict[str, set[str]] = {}
    for rule in rules():
        kinds = [kind for kind in rule.pattern["detail-type"] if isinstance(kind, str)]
        brought.setdefault(rule.folder, set()).update(kinds)
    answered = set().union(*brought.values())
    unbrought = {response.detail_type for response in RESPONSES.values()} - answered

    assert set() == unbrought, "add these detail types to the rules of template.yaml"
    assert brought["handle_spot_interruption"]
    assert brought["handle_spot_interruption"] <= set(WARNINGS)


def test_a_reason_to_keep_an_instance_is_known_to_its_recipe_alone() -> None:
    """Its words, and the finder that says who and until when."""
    for reason in KeepReason:
        known_to = who_names(f"KeepReason.{reason.name}")
        assert known_to == recipe("A new reason to leave an instance alone")


def test_a_step_that_accompanies_another_is_known_to_its_recipe_alone() -> None:
    """No guard, no workflow and no ledger has to learn of it."""
    steps = [step for step in Step if step not in MAIN_STEPS]

    assert steps
    for step in steps:
        assert who_names(f"Step.{step.name}") <= recipe("A new cloud action")
    assert all(STEP_TEXT[step] for step in Step)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_the_registry_knows_a_kind_of_resource(kind: Kind[Any, Any]) -> None:
    """Beside the kinds themselves, of which some share code."""
    module = type(kind).__module__
    registry = f"{LAYER}/scan/registry.py"
    knowing = {name for name in who_names(module) if not name.startswith(f"{LAYER}/scan/kinds/")}

    assert {registry} == knowing
    assert registry in recipe("A new kind of resource")
