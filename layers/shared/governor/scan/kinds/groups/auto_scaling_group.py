"""Auto Scaling groups with accelerated types and a minimum above zero that people run themselves.
Those of EKS and AWS Batch are shown with their node group or compute environment, which would undo
a change of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from governor.scan.kind import Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import SPOT_PRICES
from governor.scan.kinds.groups import auto_scaling
from governor.scan.kinds.groups.keeper import Keeper, Keepers
from governor.scan.kinds.tags import tags_in
from governor.scan.model import Judgment

_TOPIC = "Auto Scaling groups"


class AutoScalingGroups(Keepers):
    """Auto Scaling groups with accelerated types and a minimum size above zero."""

    name = "auto-scaling-group"
    words = _TOPIC
    operations = (*auto_scaling.OPERATIONS, SPOT_PRICES)

    def list(self, place: Place) -> Sequence[Keeper]:
        """Return the groups; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Keeper | None:
            """Return a group that keeps accelerated instances; `None` for any other, and for one
            that EKS or Batch runs. Raises: ArithmeticError, LookupError, TypeError or ValueError
            for a record in another form."""
            tags = tags_in(record)
            if auto_scaling.NODE_GROUP_TAG in tags or auto_scaling.BATCH_TAG in tags:
                return None
            return auto_scaling.read_group(place, _TOPIC, record)

        records = auto_scaling.records_here(place)
        return list(place.read_each(_TOPIC, auto_scaling.DESCRIBE, records, read))

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that lets the group shrink to nothing. It ends no instance itself: its
        scaling policies do, or a lower desired capacity."""
        return aws_command(
            resource.target,
            "autoscaling",
            "update-auto-scaling-group",
            auto_scaling_group_name=resource.resource_id,
            min_size="0",
        )
