"""Answers of AWS in tests have the shape that botocore's service model gives them."""

from __future__ import annotations

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


@cache
def _model(service: str) -> ServiceModel:
    """Return botocore's description of a service."""
    return botocore.session.get_session().get_service_model(service)
