"""The look at the GPUs' health."""

from __future__ import annotations

from functools import cached_property

from governor.usecases.health.read_health import ReadHealth
from governor.wiring.ec2 import Ec2Parts


class HealthParts(Ec2Parts):
    """As `Ec2Parts`."""

    @cached_property
    def read(self) -> ReadHealth:
        return self.fill(ReadHealth)
