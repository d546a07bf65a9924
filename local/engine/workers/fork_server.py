"""Forks the processes of functions: started once per layer, with the heavy libraries already
loaded.

Each function process is a fork with the environment, folder and pipes that it was asked for, and
module state of its own. Nothing that reads the environment is loaded before the fork. One thread,
so that forking is safe. Started by `local.engine.workers.processes`, which speaks with it over a
socket: one JSON document a message.
"""

from __future__ import annotations

import array
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import time
import types
from contextlib import suppress
from pathlib import Path

from botocore import loaders

from local.engine.service_models import remember_service_models, remember_user_agents
from local.engine.workers.bytecode import keep_by_text

LIBRARIES = (
    "botocore.client",
    "botocore.httpsession",
    "botocore.paginate",
    "botocore.signers",
    "botocore.waiter",
    "concurrent.futures.thread",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "pydantic",
    "pydantic.deprecated.decorator",
    "cryptography.hazmat.primitives.asymmetric.rsa",
    "jinja2.ext",
    "jwt",
    "yaml",
)
READS_THE_ENVIRONMENT = ("bootstrap", "console", "functions", "observability", "web", "wiring")
"""Modules of the layer's package that a function process must import itself."""
SERVICES = (
    "autoscaling",
    "batch",
    "cloudwatch",
    "dynamodb",
    "ec2",
    "events",
    "kms",
    "lambda",
    "pricing",
    "s3",
    "secretsmanager",
    "sesv2",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
    "sts",
)
MESSAGE_BYTES = 1 << 18


def main(control: socket.socket, layers: list[str]) -> None:
    """Serves until the engine closes the socket. Returns in the function processes only, to run one
    each."""
    _load(layers)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    children: set[int] = set()
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _ended(children):
                _send(control, {"exited": pid, "status": status})
        if control not in ready:
            continue
        message, descriptors = _receive(control)
        if message is None:
            os._exit(0)
        if "kill" not in message:
            pid = os.fork()
            if pid == 0:
                _become(message, descriptors, {control.detach(), woken, wakes})
                return
            children.add(pid)
            for descriptor in descriptors:
                os.close(descriptor)
            _send(control, {"forked": pid})
        elif message["kill"] in children:
            os.kill(message["kill"], message["signal"])


def _load(layers: list[str]) -> None:
    """Imports what every function needs, and reads botocore's descriptions of the services they
    call."""
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    _remember_models()
    if sys.pycache_prefix is not None:
        keep_by_text(Path(tempfile.gettempdir()), Path(sys.pycache_prefix, "by-text"))
    for layer in layers:
        packages = str(Path(layer, "python"))
        sys.path[:0] = [layer, packages]
        for found in pkgutil.iter_modules([packages]):
            if found.ispkg:
                _import_below(found.name)
    # What is loaded by now is never collected: a collection would copy its pages in every process.
    gc.collect()
    gc.freeze()


def _import_below(name: str) -> None:
    """Imports a package and what is in it. What cannot be imported here is left to the function
    processes."""
    try:
        package = importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever it is, the function process meets it again
        print(f"fork server: {name} is not loaded ahead: {error!r}", file=sys.stderr, flush=True)
        return
    for found in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if found.name not in READS_THE_ENVIRONMENT:
            _import_below(f"{name}.{found.name}")


def _remember_models() -> None:
    """Parses the descriptions that functions need, before they ask."""
    remember_service_models()
    remember_user_agents()
    loader = loaders.Loader(include_default_search_paths=True)
    for name in ("endpoints", "partitions", "sdk-default-configuration", "_retry"):
        loader.load_data(name)
    for service in SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, kind)


def _ended(children: set[int]) -> list[tuple[int, int]]:
    found = []
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        children.discard(pid)
        found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


def _receive(control: socket.socket) -> tuple[dict[str, object] | None, list[int]]:
    data, ancillary, _, _ = control.recvmsg(
        MESSAGE_BYTES, socket.CMSG_SPACE(3 * array.array("i").itemsize)
    )
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return (json.loads(data) if data else None), list(descriptors)


def _send(control: socket.socket, message: dict[str, object]) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        os._exit(0)  # the engine has gone


def _become(message: dict[str, object], descriptors: list[int], unused: set[int]) -> None:
    """Turns this fork into what a fresh interpreter with that environment and those pipes would
    be."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in unused:
        os.close(descriptor)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(message["env"])
    time.tzset()
    os.chdir(message["cwd"])
    sys.argv = [message["script"]]
    sys.path.insert(0, str(Path(message["script"]).parent))
    sys.stdin = io.TextIOWrapper(io.FileIO(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(
        io.FileIO(1, "wb", closefd=False), encoding="utf-8", write_through=True
    )
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "wb", closefd=False),
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def run_script() -> None:
    """Runs the script that `sys.argv` names, as `python script` would."""
    path = Path(sys.argv[0])
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)  # noqa: S102 - the engine's own


if __name__ == "__main__":
    # This folder holds no module that a function may import.
    sys.path.pop(0)
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    run_script()
