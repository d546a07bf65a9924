"""The published description of the HTTP API says what the template routes and what the code
answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.core.instance import Launch
from governor.episode.model.episode import Outcome
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Ownership
from governor.web.api import _FIELDS, ApiRequest
from local.engine.templates import expand_template
from tests.builders import NOW
from tests.unit.web.test_api import ALICE, MAPPED, SHOW, STOP, api, policy_api, post
from tests.unit.worlds.world import APPROVAL_ID, World

ROOT = Path(__file__).parents[3]
DOCUMENT: dict[str, Any] = yaml.safe_load(
    (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8")
)
METHODS = {"get", "head", "post", "put", "patch", "delete", "options"}
OPERATIONS: dict[str, dict[str, Any]] = {
    f"{method.upper()} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in METHODS
}
ROUTES: dict[str, dict[str, Any]] = {
    resource["Properties"]["RouteKey"].replace("+}", "}"): resource["Properties"]
    for resource in expand_template(ROOT / "template.yaml")["Resources"].values()
    if resource["Type"] == "AWS::ApiGatewayV2::Route"
}


def problems(schema: str, document: object) -> list[str]:
    """Return what one of the document's schemas has against a document."""
    wanted = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    validator = Draft202012Validator(wanted, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(document)]


def test_every_route_is_described_and_nothing_else() -> None:
    """A route that nobody described is one that nobody reviewed."""
    assert set(ROUTES) == set(OPERATIONS)


def test_what_iam_authorizes_is_said() -> None:
    """The same routes ask for a signature of AWS in both."""
    routed = {key for key, route in ROUTES.items() if route["AuthorizationType"] == "AWS_IAM"}
    described = {
        key for key, operation in OPERATIONS.items() if {"iam": []} in operation["security"]
    }
    assert routed == described


def keys_of(node: Any) -> Iterator[str]:
    """Yield every key of the document, at any depth."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key)
            yield from keys_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys_of(value)


def fields_of(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of a schema with its path, those of inner objects too."""
    if not isinstance(node, dict):
        return
    for name, inner in node.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from fields_of(inner, f"{path}.{name}")
    yield from fields_of(node.get("items"), f"{path}[]")
    for part in node.get("allOf", ()):
        yield from fields_of(part, path)


def test_every_field_says_what_it_means() -> None:
    """By itself, or by the schema that it refers to."""
    schemas = DOCUMENT["components"]["schemas"]
    without_meaning = []
    for schema_name, schema in schemas.items():
        for path, field in fields_of(schema, schema_name):
            referred = schemas.get(field.get("$ref", "").rpartition("/")[2], {})
            if "description" not in {**referred, **field}:
                without_meaning.append(path)
    assert [] == without_meaning


def test_every_amount_says_its_unit() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    without_unit = []
    for schema_name, schema in schemas.items():
        for path, field in fields_of(schema, schema_name):
            is_amount = "usd" in path.rpartition(".")[2].lower()
            is_sum = field.get("$ref", "").endswith("/Usd")
            meaning = field.get("description", "")
            if is_amount and is_sum and "USD" not in meaning:
                without_unit.append(path)
    assert [] == without_unit


def test_no_description_is_cut_at_a_comma() -> None:
    """In a mapping in braces, a comma ends a text without quotes, and the rest becomes a key."""
    assert [] == [key for key in keys_of(DOCUMENT) if key.endswith(".")]


def test_every_reference_leads_somewhere() -> None:
    """And every named operation is named once."""

    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [found for value in node.values() for found in references(value)]
        return (
            [found for value in node for found in references(value)]
            if isinstance(node, list)
            else []
        )

    for reference in references(DOCUMENT):
        node: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    assert len(OPERATIONS) == len({operation["operationId"] for operation in OPERATIONS.values()})


@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_questions_and_records_are_as_described(action: Action) -> None:
    """The list, a question, an answer, a record and a refusal."""
    world = World(decide=False, action=action)
    listed = api(world).handle(ApiRequest("GET /api/approvals", ALICE)).document["questions"]
    question = api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document
    decided = post(world, **STOP, instance_id=question["instance_id"])
    record = api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document
    held = post(world, answer="hold")
    refusal = post(world, **STOP, reason="again")

    brakes = api(world).handle(ApiRequest("GET /api/freezes", ALICE)).document

    assert (1, 200, 200, 409) == (len(listed), decided.status, held.status, refusal.status)
    assert (True, False) == (record["can_hold"], held.document["can_hold"])
    found = [("Brief", listed[0]), ("Question", question), ("Decided", decided.document)]
    found += [("Decided", held.document), ("Freezes", brakes)]
    for schema, document in [*found, ("Question", record), ("Error", refusal.document)]:
        assert [] == problems(schema, document)


def test_a_question_says_who_launched_the_instance_and_that_others_started_it_again() -> None:
    """In the sentences of the page; null where nothing is known."""
    world = World(decide=False)
    before = api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document
    episode = world.state.episode(world.ref)
    assert episode is not None
    asking = replace(
        episode.asking,
        launched_by=Launch("arn:aws:iam::123456789012:user/bob", NOW - timedelta(days=9)),
        others_started_at=(NOW - timedelta(days=3), NOW - timedelta(days=1)),
    )
    world.state.put(replace(episode, asking=asking))
    after = api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document

    assert (None, None) == (before["launched_by"], before["restarts"])
    assert after["launched_by"].startswith("Launched by the user bob on ")
    assert "others started it again twice" in after["restarts"]
    assert [] == problems("Question", after)


def test_the_policy_and_an_acceptance_are_as_described() -> None:
    """Before and after a first version."""
    world = World(decide=False)
    shown = policy_api(world, "GET").document
    world.policies.policy = replace(
        world.policies.policy, ownership=Ownership(contacts={"ml": MAPPED})
    )

    assert [] == problems("Policy", shown)
    assert [] == problems("Accepted", policy_api(world, "POST", "v2").document)


def test_every_value_that_the_code_knows_is_described() -> None:
    """Answers, states, plans, ends and fields."""
    schemas = DOCUMENT["components"]["schemas"]
    question = {**schemas["BriefFields"]["properties"], **schemas["RecordFields"]["properties"]}

    assert [answer.value for answer in Answer] == schemas["Answer"]["enum"]
    assert [status.value for status in ApprovalStatus] == question["status"]["enum"]
    assert [action.value for action in Action] == question["action"]["enum"]
    assert [*(outcome.value for outcome in Outcome), None] == question["outcome"]["enum"]
    assert set(schemas["Decision"]["properties"]) == _FIELDS
