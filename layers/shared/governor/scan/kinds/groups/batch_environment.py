"""AWS Batch compute environments that keep accelerated instances between jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

from governor.core.catalog import accelerated_types, shape_of
from governor.core.instance import Lifecycle
from governor.core.units import printable
from governor.scan.kind import Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import SPOT_PRICES, is_accelerated
from governor.scan.kinds.groups.keeper import Keeper, Keepers
from governor.scan.kinds.groups.rules import Choice, has_accelerators, in_words
from governor.scan.model import Judgment

_TOPIC = "Batch compute environments"
_DESCRIBE = "batch:DescribeComputeEnvironments"
_PAGE = 100
_ENDED = ("DELETING", "DELETED")


class BatchEnvironments(Keepers):
    """Compute environments with accelerated types and a minimum of vCPUs above zero."""

    name = "batch-environment"
    words = _TOPIC
    service = "batch"
    operations = (_DESCRIBE, SPOT_PRICES)

    def list(self, place: Place) -> Sequence[Keeper]:
        """Return the environments; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Keeper | None:
            """Return an environment that keeps accelerated instances; `None` for any other."""
            return _environment(place, record)

        environments: list[Keeper] = []
        for page in place.pages(_DESCRIBE, following="nextToken", maxResults=_PAGE):
            records = page.get("computeEnvironments") or ()
            environments += place.read_each(_TOPIC, _DESCRIBE, records, read)
        return environments

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that lets the environment shrink to nothing when no job runs."""
        return aws_command(
            resource.target,
            "batch",
            "update-compute-environment",
            compute_environment=resource.resource_id,
            compute_resources="minvCpus=0",
        )


def _environment(place: Place, record: Mapping[str, Any]) -> Keeper | None:
    """Return an environment that keeps accelerated instances; `None` for any other: one that is
    deleted, has no minimum of vCPUs, or has no accelerated types. Raises: LookupError, TypeError or
    ValueError for a record in another form."""
    resources = record.get("computeResources") or {}
    minimum = resources.get("minvCpus") or 0
    if minimum <= 0 or record.get("status") in _ENDED:
        return None
    choices = _choices(resources.get("instanceTypes") or ())
    if not has_accelerators(choices):
        return None
    desired = resources.get("desiredvCpus") or 0
    is_spot = resources.get("type") == "SPOT"
    return Keeper(
        target=place.target,
        resource_id=record["computeEnvironmentName"],
        what=in_words(choices, minimum),
        name=printable(record["computeEnvironmentName"]),
        tags=record.get("tags") or {},
        manager="Batch",
        choices=choices,
        capacity=minimum,
        lifecycle=Lifecycle.SPOT if is_spot else Lifecycle.ON_DEMAND,
        evidence=f"it keeps {minimum} vCPUs whether jobs run or not; {desired} are desired now",
    )


def _choices(names: Sequence[str]) -> tuple[Choice, ...]:
    """Return the types of an environment, each with its vCPUs as weight, the smallest first. A
    family stands for all its types. A name without known vCPUs, such as `optimal`, has no known
    price, and so the environment has none."""
    choices: list[Choice] = []
    for name in names:
        types = [name]
        if "." not in name and is_accelerated(name):
            types = [known for known in accelerated_types() if known.startswith(f"{name}.")]
        for instance_type in types:
            shape = shape_of(instance_type)
            vcpus = 1 if shape is None else shape.vcpus or 1
            choices.append(Choice(instance_type, Decimal(vcpus)))
    return tuple(sorted(choices, key=attrgetter("weight")))
