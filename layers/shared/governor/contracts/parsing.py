"""Data from outside, as a pydantic model or refused."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from governor.domain.units import as_utc
from governor.errors import InputError

AccountId = Annotated[str, Field(pattern=r"^\d{12}$")]
REGION = r"^[a-z]{2}(-[a-z]+)+-\d$"
Region = Annotated[str, Field(pattern=REGION)]
InstanceId = Annotated[str, Field(pattern=r"^i-([0-9a-f]{8}|[0-9a-f]{17})$")]
Moment = Annotated[AwareDatetime, AfterValidator(as_utc)]
"""In UTC; what is out of range there is refused like what is no time at all."""

Model = TypeVar("Model", bound=BaseModel)


class Payload(BaseModel):
    """A message between parts of this project. Made ready on first use, as each function has
    one."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Event(BaseModel):
    """An AWS event: AWS may add fields at any time, so unknown ones are let through."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


def parse(model: type[Model], event: object) -> Model:
    """Return the event as the model. Raises: InputError, with the path of every field that does not
    fit."""
    try:
        return model.model_validate(event)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or '(event)'}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        # Without its cause, whose text quotes the event: that would be logged, and may open a page.
        raise InputError(f"{model.__name__} was refused: {problems}") from None
