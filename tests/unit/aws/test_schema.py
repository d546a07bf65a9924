"""The shape of every stored record is recorded by the number of the schema: none changes unseen.

`python -m tests.unit.aws.test_schema` records the present shapes; `docs/state.md` says when.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import governor
from governor.aws import record_codec as codec
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.errors import CloudError
from governor.policy import store
from governor.policy.store import SCHEMA, SCHEMA_KEY
from governor.table.table import put
from tests.twins.stores import EveryStore
from tests.unit.aws.state_samples import TABLE, create_table

PATH = Path(__file__).with_name("schema.json")
ROOMS = Path(governor.__file__).parent
READS = {"read", "read_all", "records", "_readable"}
"""Names of the methods whose first argument is the kind of record that they read."""
STAGES = {"measurement", "asking", "clearance", "progress", "ending", "undo"}
"""Records whose fields are attributes of the episode that has them."""
NESTED = ("schema", "items_schema", "keys_schema", "values_schema", "choices", "steps", "fields")


def kinds() -> Mapping[str, type]:
    """Every class that a store reads from the table."""
    found: dict[str, type] = {}
    for path in [*ROOMS.glob("*/store.py"), *ROOMS.glob("*/store/*.py")]:
        names = {
            node.args[0].id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READS
            and node.args
            and isinstance(node.args[0], ast.Name)
        }
        name = ".".join(path.relative_to(ROOMS).with_suffix("").parts)
        module = importlib.import_module(f"governor.{name}")
        found |= {
            one: getattr(module, one)
            for one in names
            if isinstance(getattr(module, one, None), type)
        }
    return found


def shape(schema: Any) -> Any:
    """Return what a reader needs of a schema: types, values of enumerations, and which fields may
    be missing."""
    if isinstance(schema, (list, tuple)):
        return [shape(one) for one in schema]
    match schema["type"]:
        case "dataclass-args" if schema["dataclass_name"] == "Episode":
            return episode_shape(schema["fields"])
        case "default":
            return {"may be missing": shape(schema["schema"])}
        case "dataclass-args":
            stored = [one for one in schema["fields"] if one.get("init", True)]
            return {
                one.get("validation_alias") or one["name"]: shape(one["schema"]) for one in stored
            }
        case "enum":
            return {"enum": sorted(str(one.value) for one in schema["members"])}
        case "literal":
            return {"enum": sorted(map(str, schema["expected"]))}
        case "dataclass":
            return shape(schema["schema"])
    inner = [shape(schema[name]) for name in NESTED if schema.get(name)]
    return {schema["type"]: inner} if inner else schema["type"]


def episode_shape(fields: list[Any]) -> dict[str, Any]:
    """Return the shape of an episode: its item has the fields of each stage among its own."""
    found: dict[str, Any] = {}
    for one in fields:
        stored = shape(one["schema"])
        if one["name"] not in STAGES:
            found[one.get("validation_alias") or one["name"]] = stored
            continue
        stored = stored.get("may be missing", stored)
        if "nullable" not in stored:
            found |= stored
            continue
        # All attributes of a stage that did not begin are unset.
        for name, inner in stored["nullable"][0].items():
            inner = inner.get("may be missing", inner) if isinstance(inner, dict) else inner
            is_unset = inner if "nullable" in inner or inner == "bool" else {"nullable": [inner]}
            found[name] = {"may be missing": is_unset}
    return found


def shapes() -> dict[str, Any]:
    """By kind."""
    found = {name: shape(codec._schema(kind)) for name, kind in sorted(kinds().items())}
    return dict(json.loads(json.dumps(found)))


def breaks(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield what a reader of the `old` shape could not read of the `new` one, whose writer writes
    every field."""
    old, new = (
        one.get("may be missing", one) if isinstance(one, dict) else one for one in (old, new)
    )
    if type(old) is not type(new) or isinstance(old, str):
        if old != new:
            yield f"{where}: {old} became {new}"
    elif isinstance(old, list):
        for one, other in zip_longest(old, new, fillvalue="nothing"):
            yield from breaks(one, other, where)
    elif "enum" in old and "enum" in new:
        yield from (
            f"{where}: the new value {one}" for one in sorted(set(new["enum"]) - set(old["enum"]))
        )
    else:
        for name, part in old.items():
            if name in new:
                yield from breaks(part, new[name], f"{where}.{name}")
            elif not (isinstance(part, dict) and "may be missing" in part):
                yield f"{where}.{name} is gone"


def test_every_shape_is_recorded() -> None:
    """If this fails, a stored record has changed: docs/state.md says what to do."""
    recorded = json.loads(PATH.read_text())[str(SCHEMA)]
    message = "a stored record has changed: read docs/state.md#changing-what-is-stored"

    assert recorded.get("latest", recorded["first"]) == shapes(), message


def test_the_number_is_raised_when_a_release_before_could_not_read_on() -> None:
    """Under one number a release reads what any other wrote."""
    for recorded in json.loads(PATH.read_text()).values():
        assert [] == list(breaks(recorded["first"], recorded.get("latest", recorded["first"])))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"a": "str"}, {"a": "str", "b": "int"}, 0),
        ({"a": {"may be missing": "str"}}, {}, 0),
        ({"a": {"may be missing": "str"}}, {"a": "str"}, 0),
        ({"a": "str"}, {}, 1),
        ({"a": "str"}, {"a": {"may be missing": "str"}}, 0),
        ({"a": {"nullable": ["str"]}}, {"a": {"nullable": ["int"]}}, 1),
        ({"a": "str"}, {"a": {"nullable": ["str"]}}, 1),
        ({"a": "str"}, {"a": "int"}, 1),
        ({"a": {"enum": ["x"]}}, {"a": {"enum": ["x", "y"]}}, 1),
        ({"a": {"enum": ["x", "y"]}}, {"a": {"enum": ["x"]}}, 0),
    ],
)
def test_what_breaks_a_reader(old: Any, new: Any, said: int) -> None:
    """A field that is new, or that had a default, breaks nothing."""
    assert said == len(list(breaks(old, new)))


def test_all_kinds_are_known() -> None:
    """Those of the golden items, and more."""
    assert {"Episode", "Approval", "InstanceRecord", "Meter", "LedgerEntry"} <= kinds().keys()


def test_a_release_refuses_a_table_of_a_newer_schema(
    aws: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And notes its own where an older one is kept."""
    create_table(aws.client("dynamodb"))
    table = DynamoTable(aws, TABLE)
    state = EveryStore(table)
    state.record_schema()
    assert table.get(SCHEMA_KEY) is None

    monkeypatch.setattr(store, "SCHEMA", 3)
    state.record_schema()
    assert 3 == (table.get(SCHEMA_KEY) or {})["number"]
    state.record_schema()

    monkeypatch.setattr(store, "SCHEMA", 2)
    with pytest.raises(
        CloudError, match="items of schema 3, and this release reads up to 2: deploy the newer"
    ):
        state.record_schema()
    table.write(put(SCHEMA_KEY, {"number": 2}))
    state.record_schema()


def record() -> None:
    """Write the present shapes, and begin a number that is new with them."""
    recorded = json.loads(PATH.read_text()) if PATH.exists() else {}
    now = shapes()
    first = recorded.get(str(SCHEMA), {"first": now})["first"]
    recorded[str(SCHEMA)] = {"first": first} | ({} if now == first else {"latest": now})
    PATH.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record()
