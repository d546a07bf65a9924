"""Data from outside, as a pydantic model or refused."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from governor.errors import InputError

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], event: object) -> Model:
    """The event as the model.

    Raises:
        InputError: every field that does not fit, with its path.
    """
    try:
        return model.model_validate(event)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or '(event)'}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise InputError(f"{model.__name__} was refused: {problems}") from error
