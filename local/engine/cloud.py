"""Starts the local cloud and deploys the real template into it, with boto3 alone.

Runs in the project's environment; the engine runs in its own (`.tools/cloud`), because it pins
another boto3. It must not know what the stack is for.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import boto3
from botocore.config import Config

from local.engine.patience import QUIET_ROUNDS, wait_for, work_in_group
from local.engine.simulation import Simulation
from local.engine.templates import load_template
from local.engine.whereabouts import whereabouts

ROOT = Path(__file__).parents[2]
ENGINE_PYTHON = ROOT / ".tools" / "cloud" / "bin" / "python"
ACCOUNT = "123456789012"
REGION = "us-east-1"
_BUCKET = "deployment"
ANSWER_SECONDS = 600
"""How long a client waits for one answer: on a busy machine a function may take minutes."""
Seen = TypeVar("Seen")


class LocalCloudError(Exception):
    """The local cloud could not do what was asked; the message says what was seen."""


class LocalCloud:
    """One engine process on a free loopback port. Use as a context manager: nothing is left behind.

    `wait_scale` scales waits, retry pauses and task time-outs of state machines (0.1: ten times as
    fast). `trust` is a certificate that functions trust beyond the public authorities, of a
    receiver on loopback. Whatever waits for this cloud gives up after `quiet_rounds` of
    `local.engine.patience`. With `weather` the calls of functions can be struck by faults
    (`Simulation.set_weather`).
    """

    def __init__(
        self,
        run_dir: Path | None = None,
        *,
        wait_scale: float = 1.0,
        enforce_iam: bool = False,
        trust: Path | None = None,
        quiet_rounds: int = QUIET_ROUNDS,
        weather: bool = False,
    ) -> None:
        self._own_dir = run_dir is None
        self.run_dir = run_dir or Path(tempfile.mkdtemp(prefix="gpu-governor-"))
        self._wait_scale = wait_scale
        self._enforce_iam = enforce_iam
        self._trust = trust
        self._quiet_rounds = quiet_rounds
        self._weather = weather
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._clients: dict[tuple[object, ...], Any] = {}

    # life

    def start(self) -> Self:
        """Starts the engine and waits until it answers.

        Raises:
            LocalCloudError: its environment is missing, or it did not answer in time; with its log.
        """
        if not ENGINE_PYTHON.exists():
            raise LocalCloudError(
                "the local cloud is not installed: run `make demo` or `make test` once"
            )
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._port = _free_port()
        log = (self.run_dir / "engine.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [str(ENGINE_PYTHON), "-m", "local.engine"],
                cwd=ROOT,
                env=self._engine_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the engine and everything it started. Safe to repeat."""
        process, self._process = self._process, None
        while self._clients:
            self._clients.popitem()[1].close()
        if process is not None:
            _end_group(process)
        if self._own_dir:
            shutil.rmtree(self.run_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # ways in

    @property
    def endpoint_url(self) -> str:
        """Return where every AWS API answers."""
        return f"http://127.0.0.1:{self._port}"

    def environment(self) -> dict[str, str]:
        """Return what any AWS program needs to talk to this cloud."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str, region: str = REGION, account: str = ACCOUNT) -> Any:
        """The boto3 client of this cloud; any twelve digits are an account.

        One of each kind: whoever waits asks for it many times a second, and making one is work.
        """
        key = self._port, service, region, account
        if key not in self._clients:
            self._clients[key] = boto3.client(
                service,  # type: ignore[call-overload]
                region_name=region,
                endpoint_url=self.endpoint_url,
                aws_access_key_id=account,
                aws_secret_access_key="local",  # noqa: S106 - the engine checks no secret
                config=Config(
                    retries={"mode": "standard", "max_attempts": 2}, read_timeout=ANSWER_SECONDS
                ),
            )
        return self._clients[key]

    def simulation(self, region: str = REGION, account: str = ACCOUNT) -> Simulation:
        """The control of the simulated EC2 and CloudWatch."""
        return Simulation(self.endpoint_url, account, region)

    def reachable_url(self, url: str) -> str:
        """An address of the stack's HTTP API as one that opens in a browser on this machine."""
        parts = urlsplit(url)
        if parts.hostname == "127.0.0.1":
            return url  # of a front before it
        api = (parts.hostname or "").partition(".")[0]
        query = f"?{parts.query}" if parts.query else ""
        return f"{self.endpoint_url}/_aws/execute-api/{api}/$default{parts.path}{query}"

    def log(self) -> str:
        """Return what the engine has printed so far."""
        return (self.run_dir / "engine.log").read_text(errors="replace")

    # deployment

    def deploy_plain(
        self,
        template: Path,
        stack_name: str,
        parameters: Mapping[str, str],
        *,
        region: str,
        account: str,
    ) -> dict[str, str]:
        """Creates a stack without functions in any account and Region, and returns its outputs.

        Raises:
            LocalCloudError: the stack failed; with the reasons of its events.
        """
        cloudformation = self.client("cloudformation", region, account)
        cloudformation.create_stack(
            StackName=stack_name,
            TemplateBody=json.dumps(load_template(template)),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        return self._await_stack(cloudformation, stack_name)

    def deploy(
        self, template: Path, stack_name: str, parameters: Mapping[str, str]
    ) -> dict[str, str]:
        """Creates the stack and returns its outputs.

        Raises:
            LocalCloudError: the stack failed; with the reasons of its events.
        """
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(
            StackName=stack_name,
            TemplateURL=self._upload_template(template, stack_name),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            Tags=[{"Key": "Environment", "Value": "local cloud"}],
        )
        return self._await_stack(cloudformation, stack_name)

    def update(
        self, template: Path, stack_name: str, parameters: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Update the stack to a template; return its outputs. Parameters without a new value keep
        the one that they have.

        Raises:
            LocalCloudError: the update failed; with the reasons of its events.
        """
        cloudformation = self.client("cloudformation")
        given = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][0]["Parameters"]
        known = load_template(template)["Parameters"]
        changed = parameters or {}
        values: list[dict[str, Any]] = [
            {"ParameterKey": name, "ParameterValue": value} for name, value in changed.items()
        ]
        for name in [one["ParameterKey"] for one in given]:
            if name in known and name not in changed:
                values.append({"ParameterKey": name, "UsePreviousValue": True})
        cloudformation.update_stack(
            StackName=stack_name,
            TemplateURL=self._upload_template(template, stack_name),
            Parameters=values,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        return self._await_stack(cloudformation, stack_name)

    def _upload_template(self, template: Path, stack_name: str) -> str:
        document = load_template(template)
        s3 = self.client("s3")
        with contextlib.suppress(
            s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists
        ):
            s3.create_bucket(Bucket=_BUCKET)
        self._upload_parts(document, template.parent)
        s3.put_object(Bucket=_BUCKET, Key=f"{stack_name}.json", Body=json.dumps(document).encode())
        return f"{self.endpoint_url}/{_BUCKET}/{stack_name}.json"

    def _upload_parts(self, document: dict[str, Any], base: Path) -> None:
        for resource in document["Resources"].values():
            if isinstance(resource, list):
                continue  # a loop, which the engine expands; none makes functions
            properties = resource.get("Properties", {})
            match resource["Type"]:
                case "AWS::Serverless::Function":
                    properties["CodeUri"] = self._upload(
                        _zip_function(base / properties["CodeUri"]), "zip"
                    )
                case "AWS::Serverless::LayerVersion":
                    properties["ContentUri"] = self._upload(
                        _zip_layer(base / properties["ContentUri"]), "zip"
                    )
                    resource.pop("Metadata", None)
                case "AWS::Serverless::StateMachine":
                    definition = (base / properties["DefinitionUri"]).read_bytes()
                    properties["DefinitionUri"] = self._upload(definition, "json")

    def _upload(self, content: bytes, ending: str) -> str:
        key = f"{hashlib.sha256(content).hexdigest()}.{ending}"
        self.client("s3").put_object(Bucket=_BUCKET, Key=key, Body=content)
        return f"s3://{_BUCKET}/{key}"

    def _await_stack(self, cloudformation: Any, stack_name: str) -> dict[str, str]:
        def ended() -> dict[str, Any] | None:
            stack: dict[str, Any] = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][
                0
            ]
            return None if stack["StackStatus"].endswith("_IN_PROGRESS") else stack

        def events() -> list[dict[str, Any]]:
            pages = cloudformation.get_paginator("describe_stack_events").paginate(
                StackName=stack_name
            )
            return [event for page in pages for event in page["StackEvents"]]

        def newest() -> str:
            found = cloudformation.describe_stack_events(StackName=stack_name)["StackEvents"]
            return str(found[0]["EventId"]) if found else ""

        stack = self.wait_for(ended, f"the stack {stack_name} is not ready", moved=newest)
        if stack["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", ())}
        reasons = [
            f"{event['LogicalResourceId']}: "
            f"{event.get('ResourceStatusReason', event['ResourceStatus'])}"
            for event in events()
            if "FAILED" in event["ResourceStatus"]
        ]
        raise LocalCloudError(
            f"the stack {stack_name} failed: {'; '.join(reasons) or 'no reason given'}"
        )

    # state machines

    def run(self, machine_arn: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Runs an execution to its end; returns its description."""
        states = self.client("stepfunctions")
        execution = states.start_execution(
            stateMachineArn=machine_arn, input=json.dumps(dict(payload))
        )
        return self.await_execution(execution["executionArn"])

    def await_execution(self, execution_arn: str) -> dict[str, Any]:
        """Waits for the end of an execution; returns its description.

        Raises:
            LocalCloudError: it still runs, and nothing moves.
        """
        return self.wait_for(
            lambda: self.ended(execution_arn),
            lambda: f"{execution_arn} still runs, {self.where_is(execution_arn)}",
        )

    def ended(self, execution_arn: str) -> dict[str, Any] | None:
        """Return the description of an execution that has ended; `None` where it still runs after a
        moment."""
        if not self.simulation().await_end(execution_arn):
            return None
        states = self.client("stepfunctions")
        found: dict[str, Any] = states.describe_execution(executionArn=execution_arn)
        return found

    def where_is(self, execution_arn: str) -> str:
        """Return the present state of an execution, its last event, and when its timer is due."""
        states = self.client("stepfunctions")
        pages = states.get_paginator("get_execution_history").paginate(executionArn=execution_arn)
        events = [event for page in pages for event in page["events"]]
        described = states.describe_state_machine_for_execution(executionArn=execution_arn)
        return whereabouts(events, json.loads(described["definition"]), self._wait_scale)

    # patience

    def wait_for(
        self,
        look: Callable[[], Seen | None],
        otherwise: str | Callable[[], str],
        *,
        moved: Callable[[], object] = lambda: None,
        quiet_rounds: int | None = None,
    ) -> Seen:
        """Looks until there is something to see, as long as any function works or what `moved` says
        changes. `quiet_rounds` are the cloud's own unless given.

        Raises:
            LocalCloudError: nothing moves any more; with what `otherwise` says.
        """
        try:
            return wait_for(
                look,
                lambda: (moved(), self.work()),
                otherwise if callable(otherwise) else lambda: str(otherwise),
                quiet_rounds=quiet_rounds or self._quiet_rounds,
            )
        except TimeoutError as error:
            raise LocalCloudError(str(error)) from None

    def work(self, *, engine: bool = False) -> object:
        """Return the processor time of each function's process, and of the engine if asked for."""
        return work_in_group(self._process.pid, leader=engine) if self._process else None

    # the process

    def _engine_environment(self) -> dict[str, str]:
        scratch = self.run_dir / "tmp"
        scratch.mkdir(exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "LC_ALL")}
        return {
            **inherited,
            **({"SSL_CERT_FILE": str(self._trust)} if self._trust else {}),
            "PYTHONPATH": str(ROOT),
            # Beside the sources nothing is written; here what has been compiled once is found
            # again.
            "PYTHONPYCACHEPREFIX": str(ROOT / ".tools" / "bytecode"),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self._port),
            "IOT_MTLS_ENABLED": "0",
            "TMPDIR": str(scratch),
            "STATE_DIR": str(self.run_dir / "state"),
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "SFN_WAIT_SCALE": str(self._wait_scale),
            "AUTH": "true" if self._enforce_iam else "false",
            "LOG_LEVEL": "WARNING",
            "LOCAL_CLOUD_WEATHER": "1" if self._weather else "",
            "LOCAL_CLOUD_SCRATCH": str(self.run_dir) if self._own_dir else "",
        }

    def _wait_until_up(self) -> None:
        def up() -> bool | None:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                with urlopen(f"{self.endpoint_url}/_ministack/health", timeout=ANSWER_SECONDS):
                    return True
            except (URLError, ConnectionError, TimeoutError):
                return None

        with contextlib.suppress(TimeoutError):
            if wait_for(up, lambda: self.work(engine=True), lambda: ""):
                return
        raise LocalCloudError(f"the engine did not start:\n{self.log()[-3000:]}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            continue
        break
    # The engine's workers are in its group; those that outlived it go now.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _zip_function(folder: Path) -> bytes:
    return _zip((path.relative_to(folder).as_posix(), path) for path in _sources(folder))


def _zip_layer(folder: Path) -> bytes:
    """The layer's own package; its libraries come from the engine's environment, with the same
    pins."""
    return _zip(
        (f"python/{path.relative_to(folder).as_posix()}", path)
        for path in _sources(folder / "governor")
    )


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _zip(files: Iterator[tuple[str, Path]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            # A fixed date, so that the same sources always give the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), path.read_bytes())
    return buffer.getvalue()
