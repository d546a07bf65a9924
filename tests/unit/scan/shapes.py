"""Answers of AWS in tests have the shape that botocore's service model gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from shlex import split
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.model import ServiceModel
from botocore.validate import ParamValidator


def conforms(operation: str, answer: Any) -> Any:
    """Return the answer of an operation, such as `sagemaker:ListEndpoints`. Raises: AssertionError
    if a field is unknown, missing or of another type."""
    service, _, name = operation.partition(":")
    shape = _model(service).operation_model(name).output_shape
    assert shape is not None, f"{operation} answers nothing"
    errors = ParamValidator().validate(answer, shape)
    assert not errors.has_errors(), f"{operation}: {errors.generate_report()}"
    return answer


def takes(operation: str, parameters: Mapping[str, Any], following: str | None = None) -> None:
    """Check the parameters of a call, and that the field `following` has the token of the next page
    in its answer and in its request. Raises: AssertionError if AWS would refuse the call."""
    service, _, name = operation.partition(":")
    model = _model(service).operation_model(name)
    if model.input_shape is None:
        assert not parameters, f"{operation} takes no parameters"
        return
    errors = ParamValidator().validate(parameters, model.input_shape)
    assert not errors.has_errors(), f"{operation}: {errors.generate_report()}"
    if following is not None:
        assert model.output_shape is not None, f"{operation} answers nothing"
        assert following in model.input_shape.members, f"{operation} takes no {following}"
        assert following in model.output_shape.members, f"{operation} answers no {following}"


def is_command_of_aws(line: str) -> None:
    """Check that the AWS CLI knows the service, the operation and all options of a command, and
    that nothing that it needs is missing; of each command, if the line has several. Raises:
    AssertionError if it does not."""
    for command in commands_in(line):
        _is_one_command(command)


def commands_in(line: str) -> list[str]:
    """Return the commands of a line in the order in which a shell runs them."""
    commands: list[str] = []
    for part in line.split(" && "):
        commands += _SUBSTITUTION.findall(part)
        rest = _SUBSTITUTION.sub("x", part).replace('$(echo "$ids")', "x")
        if rest not in _CHECKS:
            commands.append(rest)
    return commands


_SUBSTITUTION = re.compile(r"\$\((aws [^()]*)\)")
_CHECKS = ("ids=x", 'test -n "$ids"', 'test "x" = stopped')
"""Parts in which a shell keeps an answer, or looks at it, and calls nothing by itself."""
_OPTIONS_OF_ALL = ("--region", "--query", "--output")


def _is_one_command(command: str) -> None:
    """Check one command. Raises: AssertionError."""
    program, service, name, *words = split(command)
    assert "aws" == program, command
    operation_by_name = {
        xform_name(operation, "-"): operation for operation in _model(service).operation_names
    }
    operation = operation_by_name.get(name, "")
    if name == "wait":
        waiters = botocore.session.get_session().get_waiter_model(service)
        waiter_by_name = {xform_name(one, "-"): one for one in waiters.waiter_names}
        operation = waiters.get_waiter(waiter_by_name[words.pop(0)]).operation
    shape = _model(service).operation_model(operation or operation_by_name[name]).input_shape
    assert shape is not None, command
    member_by_option = {f"--{xform_name(member, '-')}": member for member in shape.members}
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert "--region" in options, command
    given = [member_by_option[option] for option in options if option not in _OPTIONS_OF_ALL]
    assert {*shape.required_members} <= {*given}, command


@cache
def _model(service: str) -> ServiceModel:
    """Return botocore's description of a service."""
    return botocore.session.get_session().get_service_model(service)
