"""What Secrets Manager invokes a rotation function with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from governor.contracts.parsing import Event
from governor.usecases.approvals.rotate_keys import RotationStep


class RotationPayload(Event):
    step: RotationStep = Field(alias="Step")
    secret: str = Field(alias="SecretId")
    version: Annotated[str, Field(alias="ClientRequestToken", min_length=32, max_length=64)]
