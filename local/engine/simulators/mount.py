"""Puts the simulators behind the engine's front door: wire format in, wire format out.

EC2 speaks its query protocol, CloudWatch JSON. What a simulator does not know goes to the engine. A
private operation of EC2, `GovernorSimulation`, is the simulation's own control. A gate before
services of the engine answers with the faults planned for them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer
from moto.core.utils import get_service_model
from werkzeug.datastructures import MultiDict

from local.engine.repairs import bedrock, executions
from local.engine.simulators.cloudwatch import CloudWatchSimulator
from local.engine.simulators.ec2 import Ec2Simulator, new_event_id
from local.engine.simulators.faults import AwsError, Fault, Faults
from local.engine.simulators.invented import Invented, InventedAnswers
from local.engine.simulators.pricing import PriceListSimulator
from local.engine.simulators.sagemaker import SageMakerSimulator
from local.engine.simulators.ssm import CommandSimulator
from local.engine.simulators.weather import Weather

Handler = Callable[[str, str, Mapping[str, str], bytes, Mapping[str, Any]], Awaitable[Any]]
Response = tuple[int, dict[str, str], bytes]
CONTROL = "GovernorSimulation"
_OF_SIMULATED = re.compile(r"Instance|Snapshot|Volume|Spot|Tags")
GATED = (
    *("autoscaling", "dynamodb", "events", "organizations", "secretsmanager"),
    *("sns", "sqs", "ssm", "states", "sts"),
)
"""Services of the engine, by its names, whose calls are counted and can be given faults."""


class Simulation:
    """The simulators, and the control of them."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.ec2 = Ec2Simulator(self.faults, _emit)
        self.cloudwatch = CloudWatchSimulator(self.faults)
        self.commands = CommandSimulator(self.ec2.is_running, self.ec2.tags)
        self.weather = Weather()
        self.pricing = PriceListSimulator()
        self.sagemaker = SageMakerSimulator()
        self.invented = InventedAnswers()

    def control(self, account: str, region: str, command: Mapping[str, Any]) -> Any:
        """Answers one command of `local.engine.simulation`. Raises: AwsError for an unknown one."""
        match command["do"]:
            case "put_instance":
                return self.ec2.put_instance(account, region, command["spec"])
            case "set_state":
                return self.ec2.set_state(account, region, command["instance_id"], command["state"])
            case "put_metrics":
                return self.cloudwatch.put(account, region, command["series"])
            case "drop_metrics":
                return self.cloudwatch.drop(account, region, command["instance_id"])
            case "set_fault":
                fault = Fault(command["code"], command["message"], command["match"])
                return self.faults.plan(command["operation"], fault, int(command["times"]))
            case "partial_data":
                return self.cloudwatch.partial.update(command["metrics"])
            case "set_delays":
                self.ec2.delays.state_change = float(command["state_change"])
                self.ec2.delays.snapshot = float(command["snapshot"])
            case "finish_snapshots":
                return self.ec2.finish_snapshots()
            case "snapshots_end_as":
                self.ec2.snapshot_outcome = command["state"]
            case "starts_fall_back":
                fallen = (command["code"], command["message"])
                self.ec2.fall_backs += [fallen] * int(command["times"])
            case "set_spot_prices":
                self.ec2.spot_prices |= command["prices"]
            case "set_list_prices":
                self.pricing.usd_per_hour |= command["prices"]
            case "set_sagemaker_prices":
                self.pricing.sagemaker_usd_per_hour |= command["prices"]
            case "put_answer":
                invented = Invented(command["answer"], command["match"])
                self.invented.put(account, region, command["operation"], invented)
            case "set_sagemaker_times":
                self.sagemaker.set_times(
                    account,
                    region,
                    command["kind"],
                    command["name"],
                    command["created"],
                    command["modified"],
                )
            case "set_throughput_time":
                bedrock.set_created(account, region, command["name"], command["created"])
            case "put_volume":
                return self.ec2.put_volume(account, region, command["spec"])
            case "put_reservation":
                return self.ec2.put_reservation(account, region, command["spec"])
            case "put_spot_fleet":
                return self.ec2.put_spot_fleet(account, region, command["record"])
            case "set_placement_scores":
                self.ec2.placement_scores |= command["scores"]
            case "set_instance_types":
                self.ec2.instance_types |= command["shapes"]
            case "spot_warning":
                for instance_id in command["instance_ids"]:
                    self.ec2.spot_warning(
                        account, region, instance_id, command["action"], command["interrupt_after"]
                    )
            case "rebalance_recommendation":
                self.ec2.rebalance_recommendation(account, region, command["instance_id"])
            case "put_event":
                source, detail_type, detail = (
                    command["source"],
                    command["detail_type"],
                    command["detail"],
                )
                _emit(account, region, source, detail_type, detail, command["resources"])
            case "set_unmanaged":
                self.commands.unmanaged = set(command["instance_ids"])
            case "start_session":
                self.commands.sessions.append(command["session"])
            case "set_weather":
                return self.weather.change(int(command["seed"]), float(command["share"]))
            case "weather":
                return self.weather.counts()
            case "commands":
                return list(self.commands.sent)
            case "deeds":
                return list(self.ec2.deeds)
            case "calls":
                return dict(self.faults.calls)
            case "steps":
                return executions.steps()
            case "dump":
                return self.ec2.dump(account, region)
            case "clear":
                self.ec2.clear()
                self.cloudwatch.clear()
                self.commands.clear()
                self.sagemaker.clear()
                self.invented.clear()
                self.faults.clear()
            case unknown:
                raise AwsError("InvalidAction", f"the simulation knows no command {unknown!r}")
        return None


def mount() -> Simulation:
    """Replaces the engine's handlers of EC2 and CloudWatch, and puts a gate before the others."""
    from ministack import app
    from ministack.core import iam_actions, router

    simulation = Simulation()
    # The engine has neither.
    for service, prefixes in (("pricing", ["AWSPriceListService"]), ("savingsplans", [])):
        router.SERVICE_PATTERNS[service] = {"target_prefixes": prefixes}
        iam_actions.SERVICE_TO_IAM_NAMESPACE[service] = service
        app.SERVICE_HANDLERS[service] = _pricing_handler(service, simulation)
    for service, prefix in (("sagemaker", "SageMaker."), ("ce", "AWSInsightsIndexService.")):
        router.SERVICE_PATTERNS[service] = {"target_prefixes": [prefix]}
        iam_actions.SERVICE_TO_IAM_NAMESPACE[service] = service
        app.SERVICE_HANDLERS[service] = _invented_handler(service, simulation)
    app.SERVICE_HANDLERS["ec2"] = _ec2_handler(simulation, app.SERVICE_HANDLERS["ec2"])
    app.SERVICE_HANDLERS["monitoring"] = _cloudwatch_handler(
        simulation, app.SERVICE_HANDLERS["monitoring"]
    )
    for service in GATED:
        app.SERVICE_HANDLERS[service] = _gate(service, simulation, app.SERVICE_HANDLERS[service])
    return simulation


def _pricing_handler(service: str, simulation: Simulation) -> Handler:
    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        del method, query
        request = json.loads(body or b"{}")
        target = {key.lower(): value for key, value in headers.items()}.get("x-amz-target", path)
        try:
            simulation.faults.enter(f"{service}:{target.rpartition('.')[2].strip('/')}", request)
        except AwsError as error:
            return _json_error(error)
        answer = simulation.pricing.answer(service, request)
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    return handle


def _invented_handler(service: str, simulation: Simulation) -> Handler:
    """Return the handler of a service that the engine does not have. What was invented goes before
    moto's SageMaker."""

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        del method, path, query
        lower = {key.lower(): value for key, value in headers.items()}
        action = lower.get("x-amz-target", "").rpartition(".")[2]
        request = json.loads(body or b"{}")
        operation = f"{service}:{action}"
        account, region = _caller()
        try:
            simulation.faults.enter(operation, request)
            answer = simulation.invented.answer(account, region, operation, request)
            is_moto = service == "sagemaker" and simulation.sagemaker.knows(action)
            if answer is None and is_moto:
                return await asyncio.to_thread(
                    simulation.sagemaker.answer, account, region, lower, body
                )
            if answer is None:
                answer = simulation.invented.empty_answer(operation)
        except AwsError as error:
            return _json_error(error)
        content = {"Content-Type": "application/x-amz-json-1.1"}
        return 200, content, json.dumps(answer).encode()

    return handle


def _gate(service: str, simulation: Simulation, engine: Handler) -> Handler:
    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        target = {key.lower(): value for key, value in headers.items()}.get("x-amz-target", "")
        form = {} if target else _form(body)
        operation = f"{service}:{target.rpartition('.')[2] or form.get('Action', '')}"
        request = json.loads(body or b"{}") if target else form
        try:
            simulation.faults.enter(operation, request)
            answer = simulation.commands.answer(operation, *_caller(), request)
            if answer is not None:
                return (
                    200,
                    {"Content-Type": "application/x-amz-json-1.1"},
                    json.dumps(answer).encode(),
                )
        except AwsError as error:
            return _json_error(error) if target else _query_error(error)
        return await engine(method, path, headers, body, query)

    return handle


def _ec2_handler(simulation: Simulation, engine: Handler) -> Handler:
    model = get_service_model("ec2")

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        values = _form(body)
        action = values.get("Action", "")
        account, region = _caller()
        try:
            if action == CONTROL:
                command = json.loads(values["Command"])
                if command["do"] == "await_end":
                    answer = await executions.has_ended(command["execution"])
                else:
                    answer = await asyncio.to_thread(simulation.control, account, region, command)
                return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()
            if not simulation.ec2.knows(action):
                if _OF_SIMULATED.search(action):
                    # The engine would look among instances of its own, and find none.
                    raise AwsError("InvalidAction", f"The action {action} is not simulated")
                return await engine(method, path, headers, body, query)
            operation = model.operation_model(action)
            request = EC2QueryParser(operation).parse(
                {
                    "body": body,
                    "headers": headers,
                    "method": method,
                    "url_params": {},
                    "url_path": path,
                    "values": MultiDict(values),
                }
            )
            result = await asyncio.to_thread(
                simulation.ec2.operation, action, account, region, request
            )
        except AwsError as error:
            return _ec2_error(error)
        response = EC2Serializer(operation).serialize(result)
        text = response["body"]
        return 200, {"Content-Type": "text/xml"}, text if isinstance(text, bytes) else text.encode()

    return handle


def _cloudwatch_handler(simulation: Simulation, engine: Handler) -> Handler:
    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        lower = {key.lower(): value for key, value in headers.items()}
        action = lower.get("x-amz-target", "").rpartition(".")[2]
        if not simulation.cloudwatch.knows(action):
            # Over another protocol the engine would keep metrics that the simulator never sees.
            others = (path.rpartition("/")[2], _form(body).get("Action", ""))
            if any(simulation.cloudwatch.knows(name) for name in others):
                return _json_error(
                    AwsError("InvalidAction", "metrics are simulated over JSON only")
                )
            return await engine(method, path, headers, body, query)
        if lower.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        account, region = _caller()
        try:
            request = json.loads(body or b"{}")
            run = simulation.cloudwatch.operation
            result = await asyncio.to_thread(run, action, account, region, request)
        except AwsError as error:
            return _json_error(error)
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(result).encode()

    return handle


def _form(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))


def _json_error(error: AwsError) -> Response:
    document = {"__type": error.code, "message": error.message}
    return (
        error.status,
        {"Content-Type": "application/x-amz-json-1.0"},
        json.dumps(document).encode(),
    )


def _query_error(error: AwsError) -> Response:
    text = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{escape(error.code)}</Code>"
        f"<Message>{escape(error.message)}</Message></Error><RequestId>{new_event_id()}</RequestId></ErrorResponse>"
    )
    return error.status, {"Content-Type": "text/xml"}, text.encode()


def _ec2_error(error: AwsError) -> Response:
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error>'
        f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
        f"</Error></Errors><RequestID>{new_event_id()}</RequestID></Response>"
    )
    return error.status, {"Content-Type": "text/xml"}, text.encode()


def _caller() -> tuple[str, str]:
    from ministack.core.responses import get_account_id, get_region

    return get_account_id(), get_region()


def _emit(
    account: str,
    region: str,
    source: str,
    detail_type: str,
    detail: dict[str, Any],
    resources: list[str],
) -> None:
    """One event on the default bus of the account and Region, as the service itself would send
    it."""
    from ministack.core.responses import request_scope
    from ministack.services import eventbridge

    entry = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": resources,
        "EventBusName": "default",
    }
    with request_scope(account, region):
        eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)
