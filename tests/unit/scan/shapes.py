"""Answers of AWS in tests have the shape that botocore's service model gives them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
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


@cache
def _model(service: str) -> ServiceModel:
    """Return botocore's description of a service."""
    return botocore.session.get_session().get_service_model(service)
