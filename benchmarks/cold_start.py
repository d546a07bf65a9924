"""Cold start of every function: init plus first invocation, up to the first call of AWS.

Processor time, so that other programs on the machine do not count. Beside each run of a function
runs a handler that imports boto3, Powertools and pydantic, makes the same clients and the same
first call; once a round, one that imports boto3 alone and makes one client. Beside the console,
which Powertools' event handler routes, runs a handler that is routed by it. Ratios are medians of
such pairs. The layer is compiled as `sam build` compiles it.
"""

from __future__ import annotations

import compileall
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from local.demo.samples import NO_ACCOUNT
from local.engine.templates import load_template

ROOT = Path(__file__).parent.parent
PROBE = Path(__file__).with_name("first_call.py")
_RUNS = 7
_SAME = """\
import pickle

import boto3
from aws_lambda_powertools import Logger, Metrics
from pydantic import BaseModel, ConfigDict

logger = Logger()
metrics = Metrics()
with open({known!r}, "rb") as file:
    known = pickle.load(file)
clients = [(name, boto3.client(name)) for name in known["clients"]]


class Event(BaseModel):
    model_config = ConfigDict(extra="allow")


@metrics.log_metrics(raise_on_empty_metrics=False)
@logger.inject_lambda_context
def handler(event, context):
    if isinstance(event, dict):
        Event.model_validate(event)
    client = next(client for name, client in clients if name == known["service"])
    client._make_api_call(known["operation"], known["parameters"])
"""
_ROUTED = """\

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

routes, called = APIGatewayHttpResolver(), handler
routes.not_found(lambda _: called(routes.current_event.raw_event, routes.lambda_context))


def handler(event, context):
    routes.resolve(event, context)
"""
_BARE = """\
import boto3

client = boto3.client("dynamodb")


def handler(event, context):
    client.get_item(TableName="state", Key={"pk": {"S": "a"}, "sk": {"S": "b"}})
"""
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "POWERTOOLS_SERVICE_NAME": "bench",
    "POWERTOOLS_METRICS_NAMESPACE": "Bench",
    "LOG_LEVEL": "INFO",
}
_SIGNING_IN = "sign_in"
_CONSOLE = "serve_console"


@dataclass(frozen=True)
class ColdStart:
    """Milliseconds of processor time of one function, and its ratios to the two others."""

    name: str
    init_ms: float
    total_ms: float
    over_same_clients: float
    over_bare_client: float
    first_call: str


def measure(runs: int = _RUNS) -> list[ColdStart]:
    """Every function, by name."""
    with _compiled() as (layer, functions, scratch):
        bare = _handler(scratch / "bare", _BARE)
        nothing = scratch / "nothing.json"
        nothing.write_text("{}")
        events = {folder.name: _event(folder, layer) for folder in functions}
        same = {
            folder.name: _handler(
                scratch / f"same-{folder.name}",
                _same(folder.name).format(
                    known=str(_known(folder, layer, events[folder.name], scratch))
                ),
            )
            for folder in functions
        }
        pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
            one.name: [] for one in functions
        }
        bares: list[float] = []
        for _ in range(runs):
            bares.append(_run(bare, layer, nothing)["total_ms"])
            for folder in functions:
                event = events[folder.name]
                pairs[folder.name].append(
                    (_run(folder, layer, event), _run(same[folder.name], layer, event))
                )
    return [_row(name, found, statistics.median(bares)) for name, found in pairs.items()]


def worst(rows: list[ColdStart]) -> tuple[float, float]:
    """The highest ratios to the same clients and to the bare one."""
    return max(row.over_same_clients for row in rows), max(row.over_bare_client for row in rows)


def _row(name: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]], bare: float) -> ColdStart:
    total = statistics.median(own["total_ms"] for own, _ in pairs)
    first = pairs[0][0]
    return ColdStart(
        name,
        statistics.median(own["init_ms"] for own, _ in pairs),
        total,
        statistics.median(own["total_ms"] / other["total_ms"] for own, other in pairs),
        total / bare,
        f"{first['service']}:{first['operation']}",
    )


@contextmanager
def _compiled() -> Iterator[tuple[Path, list[Path], Path]]:
    """The layer's own package and all functions, compiled in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="gpu-governor-bench-") as scratch:
        base, skipped = Path(scratch), shutil.ignore_patterns("__pycache__")
        shutil.copytree(
            ROOT / "layers/shared/governor", base / "layer" / "governor", ignore=skipped
        )
        shutil.copytree(ROOT / "functions", base / "functions", ignore=skipped)
        # The libraries too: in the layer and in the runtime they come compiled, beside their
        # sources.
        sys.pycache_prefix, prefix = None, sys.pycache_prefix
        for folder in (base, Path(sys.prefix) / "lib"):
            compileall.compile_dir(folder, quiet=2)
        sys.pycache_prefix = prefix
        functions = sorted(path.parent for path in (base / "functions").glob("*/handler.py"))
        yield base / "layer", functions, base


def _same(function: str) -> str:
    return _SAME + _ROUTED if function == _CONSOLE else _SAME


def _handler(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "handler.py").write_text(text)
    compileall.compile_dir(folder, quiet=2)
    return folder


def _event(folder: Path, layer: Path) -> Path:
    """The first sample of a function that leads to a call of AWS."""
    samples = sorted(
        (ROOT / "events" / folder.name).glob("*.json"), key=lambda path: ("mal" in path.stem, path)
    )
    for sample in samples:
        if _tried(folder, layer, sample):
            return sample
    raise AssertionError(
        f"no sample of {folder.name} leads to a call: {_said(folder, layer, samples[0])}"
    )


def _known(folder: Path, layer: Path, event: Path, scratch: Path) -> Path:
    path = scratch / f"{folder.name}.pickle"
    path.write_bytes(pickle.dumps(_run(folder, layer, event)))
    return path


def _variables(function: str) -> dict[str, str]:
    """A value for every variable of the template; those of a sign-in for the function that needs
    them."""
    given = {"HUB_ACCOUNT_ID": NO_ACCOUNT}
    for name in sorted(_names()):
        if name.startswith("OIDC_") and function != _SIGNING_IN:
            continue
        given.setdefault(name, _value(name))
    return {**given, **_ENVIRONMENT}


@cache
def _names() -> frozenset[str]:
    template = load_template(ROOT / "template.yaml")
    parts = [
        one.get("Properties", {}) for one in template["Resources"].values() if isinstance(one, dict)
    ]
    variables = [one["Environment"]["Variables"] for one in parts if "Environment" in one]
    return frozenset().union(
        template["Globals"]["Function"]["Environment"]["Variables"], *variables
    )


def _value(name: str) -> str:
    if name.endswith("_ARN"):
        return "arn:aws:secretsmanager:us-east-1:123456789012:secret:bench-abcdef"
    return "https://example.com/bench" if name.endswith(("_URL", "_ISSUER")) else "bench"


def _start(folder: Path, layer: Path, event: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROBE), str(event), str(out)],
        cwd=folder,
        env={**_variables(folder.name), "PYTHONPATH": f"{folder}:{layer}"},
        check=False,
        capture_output=True,
        text=True,
    )


def _tried(folder: Path, layer: Path, event: Path) -> dict[str, Any] | None:
    with tempfile.NamedTemporaryFile(prefix="gpu-governor-bench-") as out:
        _start(folder, layer, event, Path(out.name))
        content = Path(out.name).read_bytes()
        # Written a moment ago by the probe.
        return dict(pickle.loads(content)) if content else None  # noqa: S301 - our own child's


def _run(folder: Path, layer: Path, event: Path) -> dict[str, Any]:
    found = _tried(folder, layer, event)
    if found is None:
        raise AssertionError(f"{folder.name} calls nothing: {_said(folder, layer, event)}")
    return found


def _said(folder: Path, layer: Path, event: Path) -> str:
    with tempfile.NamedTemporaryFile(prefix="gpu-governor-bench-") as out:
        done = _start(folder, layer, event, Path(out.name))
    return (done.stdout + done.stderr)[-2000:]


def main() -> None:
    """Prints the table by itself."""
    for row in measure():
        print(text_of(row))


def text_of(row: ColdStart) -> str:
    """One line of the table."""
    return (
        f"  {row.name:<30} init {row.init_ms:>5.0f}   to first call {row.total_ms:>5.0f}   "
        f"over same clients {row.over_same_clients:>5.2f}   over bare boto3 "
        f"{row.over_bare_client:>5.2f}   "
        f"{row.first_call}"
    )


if __name__ == "__main__":
    main()
