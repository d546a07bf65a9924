"""Cold start of every handler beside a handler that only imports boto3 and creates one client.

Two ways: imported in a fresh interpreter, and in AWS's runtime interface emulator. The layer is compiled as
`sam build` compiles it. Compare rows of one run; machines are noisy.
"""

from __future__ import annotations

import compileall
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.runtime import LambdaRuntime, RuntimeUnavailableError

ROOT = Path(__file__).parent.parent
BARE = """\
import boto3

client = boto3.client("dynamodb", region_name="us-east-1")


def handler(event, context):
    return {}
"""
_RUNS = 7
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "POWERTOOLS_SERVICE_NAME": "bench",
    "POWERTOOLS_METRICS_NAMESPACE": "Bench",
}
_MEASURE = (
    "import time; started = time.perf_counter(); import handler; "
    "print(1000 * (time.perf_counter() - started))"
)


@dataclass(frozen=True)
class ColdStart:
    """Milliseconds of one handler; `emulator_ms` is `None` where the emulator cannot run."""

    name: str
    import_ms: float
    emulator_ms: float | None


def measure() -> list[ColdStart]:
    """The bare handler first, then every function."""
    with _compiled() as (layer, folders):
        # Round by round, so that a slow moment of the machine hits every row alike.
        times: dict[str, list[float]] = {folder.name: [] for folder in folders}
        inits: dict[str, list[float]] = {folder.name: [] for folder in folders}
        for _ in range(_RUNS):
            for folder in folders:
                times[folder.name].append(_import_ms(folder, layer))
        for _ in range(3):
            for folder in folders:
                found = _emulator_ms(folder, layer)
                if found is not None:
                    inits[folder.name].append(found)
        return [
            ColdStart(
                folder.name,
                statistics.median(times[folder.name]),
                statistics.median(inits[folder.name]) if inits[folder.name] else None,
            )
            for folder in folders
        ]


def worst_ratio(rows: list[ColdStart]) -> float:
    """The slowest handler over the bare one, in both ways of measuring."""
    bare, others = rows[0], rows[1:]
    worst = max(row.import_ms for row in others) / bare.import_ms
    inits = [row.emulator_ms for row in others if row.emulator_ms is not None]
    if bare.emulator_ms and inits:
        worst = max(worst, max(inits) / bare.emulator_ms)
    return worst


@contextmanager
def _compiled() -> Iterator[tuple[Path, list[Path]]]:
    """The layer's own package and all handlers, compiled in a scratch folder, the bare handler first."""
    with tempfile.TemporaryDirectory(prefix="gpu-governor-bench-") as scratch:
        base = Path(scratch)
        layer = base / "layer"
        shutil.copytree(
            ROOT / "layers" / "shared" / "governor",
            layer / "governor",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        functions = base / "functions"
        shutil.copytree(ROOT / "functions", functions, ignore=shutil.ignore_patterns("__pycache__"))
        bare = functions / "(bare client)"
        bare.mkdir()
        (bare / "handler.py").write_text(BARE)
        # The libraries too: in the layer and in the runtime they come compiled, beside their sources.
        sys.pycache_prefix, prefix = None, sys.pycache_prefix
        for folder in (base, Path(sys.prefix) / "lib"):
            compileall.compile_dir(folder, quiet=2)
        sys.pycache_prefix = prefix
        yield layer, [bare, *sorted(path for path in functions.iterdir() if path != bare and path.is_dir())]


def _import_ms(folder: Path, layer: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        cwd=folder,
        env={**_ENVIRONMENT, "PYTHONPATH": f"{folder}:{layer}"},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.splitlines()[-1])


def _emulator_ms(folder: Path, layer: Path) -> float | None:
    try:
        with LambdaRuntime(folder, _ENVIRONMENT, (layer,)) as runtime:
            # An event that every handler refuses at once: the init before it is what counts.
            runtime.invoke("not an event of any function")
            return runtime.init_milliseconds()
    except (RuntimeUnavailableError, ValueError) as error:
        print(f"  no emulator figure for {folder.name}: {error}", file=sys.stderr)
        return None
