"""Validates input from outside, such as events and payloads, with pydantic models, or refuses it.

An error names the fields that do not fit, and never quotes the data.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from governor.core.errors import InputError
from governor.core.regions import SHAPE as REGION_SHAPE
from governor.core.units import as_utc

AccountId = Annotated[str, Field(pattern=r"^\d{12}$")]
Region = Annotated[str, Field(pattern=f"^{REGION_SHAPE}$")]
InstanceId = Annotated[str, Field(pattern=r"^i-([0-9a-f]{8}|[0-9a-f]{17})$")]
Moment = Annotated[AwareDatetime, AfterValidator(as_utc)]
"""A moment in UTC. A time out of its range is refused, like a text that is no time."""

Model = TypeVar("Model", bound=BaseModel)


class Payload(BaseModel):
    """A message between parts of this project."""

    # Built on first use: each function needs only one of them.

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Event(BaseModel):
    """An AWS event. Unknown fields are ignored, because AWS may add some at any time."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


def parse(model: type[Model], event: object) -> Model:
    """Return the event, a JSON value, as this model. Raises: InputError, with the path of every
    field that does not fit; it does not quote the event."""
    try:
        return model.model_validate(event)
    except ValidationError as error:
        problems = [_problem(details) for details in error.errors(include_url=False)]
        # Without its cause: the text of that quotes the event, it would be logged, and a link in it
        # may open a page.
        raise InputError(f"{model.__name__} was refused: {'; '.join(problems)}") from None


def _problem(details: ErrorDetails) -> str:
    """Return one mistake as text, `detail.state: Field required`: the path of the field, or
    `(event)`, and what is wrong."""
    path = ".".join(str(part) for part in details["loc"])
    return f"{path or '(event)'}: {details['msg']}"
