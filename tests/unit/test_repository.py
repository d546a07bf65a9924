"""Rules about the tree as a whole that no linter here can hold: pins, imports of functions, machine
paths."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers" / "shared"
PINS = [*sorted((ROOT / "requirements").glob("*.txt")), LAYER / "requirements.txt"]
FUNCTIONS = sorted((ROOT / "functions").glob("*/*.py"))
ROOMS = LAYER / "governor"
SHIPPED = [*FUNCTIONS, *sorted(ROOMS.rglob("*.py"))]
PURE_IN_CORE = {
    "catalog",
    "documents",
    "episode_ref",
    "errors",
    "hashing",
    "managed_environments",
    "instance",
    "managers",
    "principals",
    "regions",
    "settings",
    "units",
}
"""The modules of `core` that neither read nor parse anything from outside."""
BY_ADAPTERS_ALONE = {"boto3", "botocore", "urllib3"}
"""Packages that speak with AWS; `https.py` uses urllib3 for receivers other than AWS."""
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "jwt": "pyjwt",
}  # where a package is imported by another name than it is installed by
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:root|home|Users|work)/\w+")
CONFLICT_MARK = re.compile(r"^(?:<{7}|>{7}) .*", re.MULTILINE)
NOT_OURS = {
    ".git",
    ".venv",
    ".tools",
    ".aws-sam",
    ".hypothesis",
    "build",
    "__pycache__",
    "node_modules",
}
NOT_OURS |= {".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}


def imports(source: str) -> set[str]:
    """Dotted names that a module imports, wherever in it. Not what only the type checker sees."""
    return set(_all_imports(source))


@cache
def _all_imports(source: str) -> frozenset[str]:
    return frozenset(_imports(ast.parse(source)))


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names. Only statements import, so no expression is looked into."""
    to_read = [tree]
    while to_read:
        node = to_read.pop()
        if isinstance(node, ast.If) and _is_for_the_type_checker(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from governor import aws` imports a module just as `import governor.aws` does.
            prefix = f"{'.' * node.level}{node.module or ''}"
            yield from (f"{prefix}.{alias.name}" for alias in node.names)
        for part in vars(node).values():
            if isinstance(part, list):
                to_read.extend(one for one in part if isinstance(one, _HOLD_STATEMENTS))


_HOLD_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def _is_for_the_type_checker(condition: ast.expr) -> bool:
    names = (one.id for one in ast.walk(condition) if isinstance(one, ast.Name))
    return "TYPE_CHECKING" in names


def outside(names: set[str], *allowed: str) -> set[str]:
    """The names that are neither of the standard library nor within one of the allowed packages."""
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    return foreign - within(foreign, *allowed)


def within(names: set[str], *packages: str) -> set[str]:
    """The names that are within one of the packages."""
    prefixes = tuple(f"{package}." for package in packages)
    return {name for name in names if name in packages or name.startswith(prefixes)}


@cache
def pinned(text: str) -> Mapping[str, str]:
    """Each requirement's name and everything that is said of it, its hashes included."""
    entries = re.split(r"\n(?=\S)", text.strip())
    return {re.split(r"[=\[ ]", entry)[0].lower(): entry for entry in entries}


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _text_files() -> Mapping[Path, str]:
    """Return the text of each file of the project. Environments are not even walked through."""
    texts = {}
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if name not in NOT_OURS]
        for name in names:
            path = Path(folder, name)
            if name in NOT_OURS or not path.is_file():
                continue
            try:
                texts[path] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # a picture
    return texts


@pytest.mark.parametrize("path", PINS, ids=_relative)
def test_every_requirement_is_exact_and_hashed(path: Path) -> None:
    """Packages are installed as they were pinned, byte for byte."""
    entries = pinned(path.read_text(encoding="utf-8"))
    assert entries
    loose = {
        name
        for name, entry in entries.items()
        if "==" not in entry or "--hash=sha256:" not in entry
    }
    assert set() == loose


@pytest.mark.parametrize("path", PINS, ids=_relative)
def test_pins_name_no_address(path: Path) -> None:
    """The source of packages is the machine's business."""
    found = re.findall(r"\S*://\S*|--(?:index|extra-index|find-links|trusted)\S*", path.read_text())
    assert [] == found


def test_every_pin_file_has_its_source() -> None:
    """`make lock` makes each of them anew from what was asked for."""
    assert [] == [_relative(path) for path in PINS if not path.with_suffix(".in").exists()]


def test_tests_run_on_the_versions_that_the_layer_ships() -> None:
    """The same pin in the layer, in the project's environment and in the local cloud's."""
    version = re.compile(r"==([^\s;\\]+)")
    for shipped, entry in pinned((LAYER / "requirements.txt").read_text()).items():
        for name in ("project", "cloud"):
            here = pinned((ROOT / "requirements" / f"{name}.txt").read_text())[shipped]
            assert version.findall(entry) == version.findall(here), (name, shipped)


def test_no_shipped_code_imports_boto3() -> None:
    """The layer ships botocore without boto3. Lambda's boto3 is made for another botocore."""
    assert "boto3" not in pinned((LAYER / "requirements.txt").read_text())
    for path in SHIPPED:
        assert set() == within(imports(path.read_text()), "boto3", "s3transfer"), path


def test_shipped_code_imports_only_what_is_shipped() -> None:
    """`sam build` does not notice a package that the layer lacks: Lambda does, at the first
    event."""
    shipped = pinned((LAYER / "requirements.txt").read_text()).keys()
    for path in SHIPPED:
        names = {name.split(".")[0] for name in outside(imports(path.read_text()), "governor")}
        wanted = {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in names}
        assert set() == wanted - shipped, path


def test_no_function_imports_another() -> None:
    """Each function folder is deployed alone. A relative import would find nothing there."""
    assert FUNCTIONS
    for path in FUNCTIONS:
        names = imports(path.read_text())
        assert set() == within(names, "functions") | {
            name for name in names if name.startswith(".")
        }, path


def test_functions_reach_aws_through_the_wiring_only() -> None:
    """A handler that opens a client has a permission that nobody reviewed."""
    for path in FUNCTIONS:
        assert set() == within(imports(path.read_text()), "boto3", "botocore", "governor.aws"), path


def test_records_and_rules_import_nothing_that_reads_or_acts() -> None:
    """Decisions stay pure whatever is installed: a list of what is allowed, not of what is
    forbidden."""
    paths = [path for path in ROOMS.rglob("*.py") if _is_pure(path)]
    assert len(paths) > len(PURE_IN_CORE)
    for path in paths:
        for name in outside(imports(path.read_text())):
            assert name.startswith("governor."), (path, name)
            module = _module_of(name)
            # The words of a message are rendered when the first one is made.
            assert _is_pure(module) or module == ROOMS / "alerts/render.py", (path, name)


def _is_pure(path: Path) -> bool:
    """Return whether a module holds records, decisions or words only, by its name."""
    room, *rest = path.relative_to(ROOMS).with_suffix("").parts
    if room == "core":
        return rest[0] in PURE_IN_CORE
    if path == ROOMS / "alerts/delivery.py":
        # The record of a delivery, which `alerts/model.py` has no room for.
        return True
    return bool(rest) and rest[0] in ("messages", "model", "rules", "templates")


def _module_of(name: str) -> Path:
    """Return the file of an imported name: of the module itself, or of what is imported from it."""
    path = LAYER.joinpath(*name.split("."))
    while not path.with_suffix(".py").is_file():
        path = path.parent
        assert path != LAYER, name
    return path.with_suffix(".py")


def test_no_use_case_learns_who_answers() -> None:
    """Use cases name what they need by port, and stores know the table by its protocol."""
    for path in ROOMS.rglob("*.py"):
        if path.relative_to(ROOMS).parts[0] not in ("aws", "wiring"):
            assert set() == within(imports(path.read_text()), "governor.aws"), path


def test_stores_know_no_use_case() -> None:
    """A store holds keys and conditional writes, and decides nothing."""
    stores = [*ROOMS.glob("*/store.py"), *ROOMS.glob("*/store/*.py")]
    assert stores
    for path in stores:
        for name in outside(imports(path.read_text())):
            module = _module_of(name)
            is_store = "store" in module.relative_to(ROOMS).with_suffix("").parts
            is_of_table = module.parent == ROOMS / "table"
            assert is_store or is_of_table or _is_pure(module), (path, name)


def test_only_adapters_import_botocore() -> None:
    """Foreign errors and foreign types end there; one module speaks HTTPS to others than AWS."""
    for path in SHIPPED:
        if ROOMS / "aws" not in path.parents:
            foreign = BY_ADAPTERS_ALONE - ({"urllib3"} if path.name == "https.py" else set())
            assert set() == within(imports(path.read_text()), *foreign), path


def test_no_file_names_a_path_of_one_machine() -> None:
    """No file says what works in one home only."""
    found = {_relative(path): MACHINE_PATH.findall(text) for path, text in _text_files().items()}
    assert len(found) > len(SHIPPED)
    assert {} == {path: names for path, names in found.items() if names}


def test_no_file_holds_the_mark_of_a_conflict() -> None:
    """A generated page once had one of its generator, so the two did not differ."""
    found = {_relative(path): CONFLICT_MARK.findall(text) for path, text in _text_files().items()}
    assert {} == {path: marks for path, marks in found.items() if marks}


def test_the_rules_see_what_they_forbid() -> None:
    """Each of the tests above rests on these three answers."""
    source = (
        "import boto3\ndef late():\n    from governor import aws\n    from .. import functions\n"
    )
    assert {"boto3", "governor.aws", "...functions"} == imports(source)
    assert {"boto3"} == outside({"boto3", "json", "governor.core.units"}, "governor.core")
    assert {"governor.aws.ec2"} == within(
        {"governor.aws.ec2", "governor.core.ports"}, "governor.aws"
    )
    assert ["/" + "home/somebody"] == MACHINE_PATH.findall("see /" + "home/somebody/project")


def test_what_only_the_type_checker_sees_is_no_import() -> None:
    """Stubs of boto3 are not in the layer and need not be."""
    assert {"typing.TYPE_CHECKING"} == imports(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mypy_boto3_ec2 "
        "import EC2Client\n"
    )
