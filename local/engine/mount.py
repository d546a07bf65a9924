"""Puts the simulators behind the engine's front door: wire format in, wire format out.

EC2 speaks its query protocol, CloudWatch JSON. What a simulator does not know goes to the engine. A private
operation of EC2, `GovernorSimulation`, is the simulation's own control.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer
from moto.core.utils import get_service_model
from werkzeug.datastructures import MultiDict

from local.engine.cloudwatch import CloudWatchSimulator
from local.engine.ec2 import AwsError, Ec2Simulator, Faults, new_event_id

Handler = Callable[[str, str, Mapping[str, str], bytes, Mapping[str, Any]], Awaitable[Any]]
CONTROL = "GovernorSimulation"


class Simulation:
    """Both simulators, and the control of them."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.ec2 = Ec2Simulator(self.faults, _emit)
        self.cloudwatch = CloudWatchSimulator(self.faults)

    def control(self, account: str, region: str, command: Mapping[str, Any]) -> Any:
        """Answers one command of `local.simulation`. Raises: AwsError for an unknown one."""
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
                errors = [(command["code"], command["message"])] * int(command["times"])
                return self.faults.planned.setdefault(command["operation"], []).extend(errors)
            case "partial_data":
                return self.cloudwatch.partial.update(command["metrics"])
            case "set_delays":
                self.ec2.delays.state_change = float(command["state_change"])
                self.ec2.delays.snapshot = float(command["snapshot"])
            case "snapshots_end_as":
                self.ec2.snapshot_outcome = command["state"]
            case "set_spot_prices":
                self.ec2.spot_prices |= command["prices"]
            case "spot_warning":
                self.ec2.spot_warning(account, region, command["instance_id"], command["action"])
            case "calls":
                return dict(self.faults.calls)
            case "dump":
                return self.ec2.dump(account, region)
            case "clear":
                self.ec2.clear()
                self.cloudwatch.clear()
                self.faults.planned.clear()
                self.faults.calls.clear()
            case unknown:
                raise AwsError("InvalidAction", f"the simulation knows no command {unknown!r}")
        return None


def mount() -> Simulation:
    """Replaces the engine's handlers of EC2 and CloudWatch."""
    from ministack import app

    simulation = Simulation()
    app.SERVICE_HANDLERS["ec2"] = _ec2_handler(simulation, app.SERVICE_HANDLERS["ec2"])
    app.SERVICE_HANDLERS["monitoring"] = _cloudwatch_handler(simulation, app.SERVICE_HANDLERS["monitoring"])
    return simulation


def _ec2_handler(simulation: Simulation, engine: Handler) -> Handler:
    model = get_service_model("ec2")

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
    ) -> Any:
        values = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = values.get("Action", "")
        account, region = _caller()
        try:
            if action == CONTROL:
                command = json.loads(values["Command"])
                answer = await asyncio.to_thread(simulation.control, account, region, command)
                return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()
            if not simulation.ec2.knows(action):
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
            result = await asyncio.to_thread(simulation.ec2.operation, action, account, region, request)
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
            return await engine(method, path, headers, body, query)
        if lower.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        account, region = _caller()
        kind = {"Content-Type": "application/x-amz-json-1.0"}
        try:
            request = json.loads(body or b"{}")
            run = simulation.cloudwatch.operation
            result = await asyncio.to_thread(run, action, account, region, request)
        except AwsError as error:
            document = {"__type": error.code, "message": error.message}
            return error.status, kind, json.dumps(document).encode()
        return 200, kind, json.dumps(result).encode()

    return handle


def _ec2_error(error: AwsError) -> tuple[int, dict[str, str], bytes]:
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
    account: str, region: str, source: str, detail_type: str, detail: dict[str, Any], resources: list[str]
) -> None:
    """One event on the default bus of the account and Region, as the service itself would send it."""
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
