"""Rotation of secrets.

- AWS: `RotateSecret` labels an empty version AWSPENDING and invokes the function with four steps.
  Engine: copies the value and puts it in force at once, without any function.
- AWS: a version without a value is not found. Engine: an answer without a value.
- AWS: `AWS::SecretsManager::RotationSchedule` switches rotation on, and rotates at once where it
  says so. Engine: no such resource. The schedule itself is not represented.
"""

from __future__ import annotations

import contextvars
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

_STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")
_log = logging.getLogger("secretsmanager")


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every call."""
    from ministack.services import secretsmanager as engine
    from ministack.services.cloudformation import provisioners

    engine._rotate_secret = _with_function(engine)
    engine._get_secret_value = _without_empty(engine._get_secret_value)
    provisioners._RESOURCE_HANDLERS["AWS::SecretsManager::RotationSchedule"] = {
        "create": _create_schedule,
        "delete": lambda *_: None,
    }


def _without_empty(engine: Callable[..., Any]) -> Callable[..., Any]:
    def get(data: dict[str, Any]) -> Any:
        from ministack.core.responses import error_response_json

        answer = engine(data)
        if answer[0] == 200:
            found = json.loads(answer[2])
            if "SecretString" not in found and "SecretBinary" not in found:
                return error_response_json(
                    "ResourceNotFoundException", "this version has no value", 400
                )
        return answer

    return get


def _with_function(engine: Any) -> Callable[..., Any]:
    def rotate(data: dict[str, Any]) -> Any:
        from ministack.core.responses import error_response_json, json_response, new_uuid

        _, secret = engine._resolve(data.get("SecretId"))
        function = data.get("RotationLambdaARN") or (secret or {}).get("RotationLambdaARN")
        if not secret or not function:
            return error_response_json(
                "InvalidRequestException", "no secret, or no rotation function", 400
            )
        version = data.get("ClientRequestToken") or new_uuid()
        secret["RotationLambdaARN"], secret["RotationEnabled"] = function, True
        if data.get("RotateImmediately", True):
            _begin(secret, function, version)
        return json_response({"ARN": secret["ARN"], "Name": secret["Name"], "VersionId": version})

    return rotate


def _begin(secret: dict[str, Any], function: str, version: str) -> None:
    for other in secret["Versions"].values():
        other["Stages"] = [stage for stage in other["Stages"] if stage != "AWSPENDING"]
    secret["Versions"][version] = {
        "SecretString": None,
        "SecretBinary": None,
        "CreatedDate": secret["CreatedDate"],
        "Stages": ["AWSPENDING"],
    }
    run = contextvars.copy_context().run
    threading.Thread(
        target=run, args=(_rotate, secret["ARN"], function, version), daemon=True
    ).start()


def _rotate(arn: str, function: str, version: str) -> None:
    from ministack.services import stepfunctions

    for step in _STEPS:
        event = {"Step": step, "SecretId": arn, "ClientRequestToken": version}
        try:
            stepfunctions._call_lambda(function, event)
        except stepfunctions._ExecutionError as error:
            _log.warning("rotation of %s ended in step %s: %s", arn, step, error)
            return


def _create_schedule(_name: str, props: dict[str, Any], _stack: str) -> tuple[str, dict[str, Any]]:
    from ministack.services import secretsmanager as engine

    engine._rotate_secret(
        {
            "SecretId": props["SecretId"],
            "RotationLambdaARN": props["RotationLambdaARN"],
            "RotateImmediately": props.get("RotateImmediatelyOnUpdate", True),
        }
    )
    return str(props["SecretId"]), {}
