"""Runs one handler in AWS's own runtime interface emulator, as Lambda does, without a container
engine.

The emulator ships inside aws-sam-cli; the handler runs in the project's environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import Request, urlopen

from local.engine.patience import wait_for, work_in_group

ROOT = Path(__file__).parents[2]
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


class RuntimeUnavailableError(Exception):
    """The emulator is not installed or does not run on this machine; the message says what to
    do."""


def emulator() -> Path:
    """The emulator of this machine's architecture. Raises: RuntimeUnavailableError."""
    kind = _ARCHITECTURES.get(platform.machine().lower())
    found = sorted(
        (ROOT / ".tools" / "sam").glob(f"lib/python*/site-packages/samcli/local/rapid/*-{kind}")
    )
    if not found:
        raise RuntimeUnavailableError(
            "the Lambda emulator is missing: `python3 scripts/environment.py sam`"
        )
    return found[0]


class LambdaRuntime:
    """One function in the emulator. Use as a context manager; it ends with it."""

    def __init__(
        self, code: Path, environment: Mapping[str, str], path: tuple[Path, ...] = ()
    ) -> None:
        self._code = code
        self._environment = environment
        self._path = path or (ROOT / "layers" / "shared",)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self._port, runtime_port = _free_ports()
        self._log = tempfile.NamedTemporaryFile(prefix="gpu-governor-rie-")
        command = [
            str(emulator()),
            "--runtime-interface-emulator-address",
            f"127.0.0.1:{self._port}",
            "--runtime-api-address",
            f"127.0.0.1:{runtime_port}",
            "--log-level",
            "INFO",
            sys.executable,
            "-m",
            "awslambdaric",
            "handler.handler",
        ]
        self._process = subprocess.Popen(
            command,
            cwd=self._code,
            env={
                "PATH": os.environ["PATH"],
                "HOME": tempfile.gettempdir(),
                "PYTHONPATH": ":".join(str(part) for part in (self._code, *self._path)),
                "LAMBDA_TASK_ROOT": str(self._code),
                "AWS_LAMBDA_FUNCTION_NAME": self._code.name,
                "AWS_REGION": "us-east-1",
                **self._environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def invoke(self, event: object, seconds: float = 600) -> Any:
        """The handler's answer, or Lambda's error document."""
        url = f"http://127.0.0.1:{self._port}/2015-03-31/functions/function/invocations"
        with urlopen(Request(url, data=json.dumps(event).encode()), timeout=seconds) as answer:
            return json.loads(answer.read() or b"null")

    def log(self) -> str:
        """Return what runtime and handler have printed."""
        return Path(self._log.name).read_text(errors="replace")

    def _wait(self) -> None:
        process = self._process

        def up() -> bool | None:
            if process is None or process.poll() is not None:
                return False
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), timeout=1),
            ):
                return True
            return None

        with contextlib.suppress(TimeoutError):
            if process and wait_for(
                up, lambda: work_in_group(process.pid, leader=True), lambda: ""
            ):
                return
        raise RuntimeUnavailableError(f"the Lambda emulator did not start: {self.log()[-2000:]}")


def is_error(answer: object) -> bool:
    """Return whether an answer is Lambda's error document."""
    return isinstance(answer, dict) and {"errorType", "errorMessage"} <= set(answer)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


__all__ = ["LambdaRuntime", "RuntimeUnavailableError", "emulator", "is_error"]
