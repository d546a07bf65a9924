"""The processes that functions run in.

- AWS: an execution environment of its own starts in about a second. Engine: starts an interpreter
  for each, which imports everything anew, more than a second of CPU. Here a fork server that has
  loaded the libraries and the layer forks each of them (on Linux; elsewhere the engine's own way
  stays).
- AWS: a layer lies unpacked in every environment. Engine: unpacks it anew for each, hundreds of
  files. Here all environments share one folder.
- AWS: a function gets its time on processors of its own. Engine: ends it by the wall clock. Here it
  gets several times as long, because other programs may keep this machine busy; it is told its own
  time.
- AWS: an operator may give a deployment a display name. Here each one that has none is called as
  people know this cloud, so that nobody takes its pages for those of an account.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from local.engine.repairs.imitation import NAME
from local.engine.workers.fork_server import MESSAGE_BYTES

PATIENCE = 10
"""How many times its own time-out a function may take."""
_LAYERS = "_LAMBDA_LAYERS_DIRS"
_log = logging.getLogger("lambda")


def repair() -> None:
    """Replaces how the engine starts and ends processes; it looks both up by name."""
    from ministack.core import lambda_runtime

    servers, layers = _Servers(), _Layers()

    def start(command: list[str], **options: Any) -> Any:
        environment = dict(options["env"])
        patient = float(environment.get("_LAMBDA_TIMEOUT", "3"))
        environment["_LAMBDA_TIMEOUT"] = f"{patient / PATIENCE:g}"
        options["env"] = environment
        if sys.platform == "linux" and len(command) == 2 and command[0] == sys.executable:
            forked = servers.fork(command[1], options["cwd"], environment)
            if forked is not None:
                return forked
        return subprocess.Popen(command, **options)

    lambda_runtime.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": start})
    lambda_runtime.Worker.__init__ = _ours(lambda_runtime.Worker.__init__, layers)


def _ours(engine: Any, layers: _Layers) -> Any:
    def init(self: Any, func_name: str, config: dict[str, Any], code_zip: bytes) -> None:
        patient = PATIENCE * config.get("Timeout", 3)
        own = layers.shared(config)
        engine(
            self,
            func_name,
            {**own, "Environment": _named(own), "Timeout": patient},
            code_zip,
        )

    return init


def _named(config: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a function with the name of this cloud, unless it has another."""
    environment = config.get("Environment") or {}
    variables = dict(environment.get("Variables") or {})
    if not variables.get("DISPLAY_NAME"):
        variables["DISPLAY_NAME"] = NAME.decode()
    return {**environment, "Variables": variables}


class _Layers:
    """Contents of layers, unpacked once for all environments."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, str] = {}

    def shared(self, config: dict[str, Any]) -> dict[str, Any]:
        """A function's configuration that names folders instead of layers."""
        with self._lock:
            folders = [self._folder(one) for one in config.get("Layers") or ()]
        if not folders:
            return config
        variables = (config.get("Environment") or {}).get("Variables", {})
        given = {"Variables": {**variables, _LAYERS: os.pathsep.join(folders)}}
        return {**config, "Layers": [], "Environment": given}

    def _folder(self, layer: Any) -> str:
        from ministack.services import lambda_svc

        arn = layer if isinstance(layer, str) else layer["Arn"]
        if arn not in self._folders:
            content = lambda_svc._resolve_layer_zip(layer)
            folder = Path(tempfile.gettempdir()) / "layers" / hashlib.sha256(content).hexdigest()
            if not folder.exists():
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    archive.extractall(folder)
            self._folders[arn] = str(folder)
        return self._folders[arn]


class _Servers:
    """One fork server for each set of layers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Server] = {}

    def fork(self, script: str, folder: str, environment: dict[str, str]) -> Any:
        """The process, or `None` when no server can start it."""
        layers = environment.get(_LAYERS, "")
        with self._lock:
            server = self._known.get(layers)
            if server is None or server.gone:
                server = self._known[layers] = _Server([*filter(None, layers.split(os.pathsep))])
        try:
            return server.fork(script, folder, environment)
        except OSError as error:
            _log.warning("no fork for %s: %s", script, error)
            return None


class _Server:
    """One fork server, and what it says of the processes that it has started."""

    def __init__(self, layers: list[str]) -> None:
        self.gone = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = str(Path(__file__).with_name("fork_server.py"))
        with theirs:
            subprocess.Popen(
                [sys.executable, script, str(theirs.fileno()), *layers],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._forked: queue.SimpleQueue[_Process | None] = queue.SimpleQueue()
        self._processes: dict[int, _Process] = {}
        threading.Thread(target=self._listen, daemon=True, name="fork-server").start()

    def fork(self, script: str, folder: str, environment: dict[str, str]) -> _Process:
        """A process that runs a script. Raises: OSError when the server has gone."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        try:
            with self._lock:
                request = {"script": script, "cwd": folder, "env": environment}
                socket.send_fds(self._control, [json.dumps(request).encode()], theirs)
                process = self._forked.get()
        except OSError:
            process = None
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        if process is None:
            for descriptor in ours:
                os.close(descriptor)
            raise OSError("the fork server has gone")
        process.open(ours)
        return process

    def signal(self, pid: int, number: int) -> None:
        """Has the server send a signal: it alone knows that the number is still this process's."""
        try:
            self._control.send(json.dumps({"kill": pid, "signal": number}).encode())
        except OSError:
            pass  # it has gone, and with its group all that it started

    def _listen(self) -> None:
        while True:
            try:
                data = self._control.recv(MESSAGE_BYTES)
            except OSError:
                data = b""
            if not data:
                break
            message = json.loads(data)
            if "forked" in message:
                process = _Process(self, message["forked"])
                self._processes[process.pid] = process
                self._forked.put(process)
            else:
                process = self._processes.pop(message["exited"], None)
                if process is not None:
                    process.exited(message["status"])
        self.gone = True
        self._forked.put(None)
        for process in self._processes.values():
            process.exited(-signal.SIGKILL)


class _Process:
    """The part of `subprocess.Popen` that the engine uses."""

    def __init__(self, server: _Server, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._over = threading.Event()

    def open(self, descriptors: list[int]) -> None:
        """Opens this side of its pipes, as text, line by line."""
        stdin, stdout, stderr = descriptors
        self.stdin = os.fdopen(stdin, "w", buffering=1, encoding="utf-8")
        self.stdout = os.fdopen(stdout, encoding="utf-8", errors="replace")
        self.stderr = os.fdopen(stderr, encoding="utf-8", errors="replace")

    def exited(self, status: int) -> None:
        """The server has seen its end."""
        self.returncode = status
        self._over.set()

    def poll(self) -> int | None:
        """Its exit status, or `None` while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits for its end. Raises: TimeoutExpired."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("function", timeout or 0)
        return self.returncode

    def terminate(self) -> None:
        """Asks it to end."""
        self._server.signal(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self._server.signal(self.pid, signal.SIGKILL)
