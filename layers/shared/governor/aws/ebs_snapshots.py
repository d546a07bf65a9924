"""Makes, finds and deletes EBS snapshots, and reads the user data that belongs to them.

`CreateSnapshots` has no token, so it is sent once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from governor.aws.ec2_records import literal, read_snapshot, tag_pairs
from governor.aws.ec2_writes import Ec2Writer
from governor.core.errors import (
    CloudError,
)
from governor.core.instance import (
    Snapshot,
    Target,
)


class EbsSnapshots(Ec2Writer):
    """Makes, finds and deletes snapshots."""

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> list[Snapshot]:
        """Start snapshots of all volumes of an instance, without `boot` of all but the boot volume;
        return them, or an empty list for a dry run.

        It is sent once: CreateSnapshots has no token, so that a repeat would make a second set.
        Look with `find` before you call it again. Raises: CloudError, also if none of the snapshots
        in the answer can be read; SafetyError if EC2 carried out a dry run.
        """
        answer = self._write(
            "ec2:CreateSnapshots",
            target,
            dry_run=dry_run,
            repeat=False,
            InstanceSpecification={"InstanceId": instance_id, "ExcludeBootVolume": not boot},
            Description=f"GPU Governor: {instance_id} before it goes",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": tag_pairs(tags)}],
        )
        answers = [] if answer is None else [answer]
        read = self._records(
            "ec2:CreateSnapshots", target, ("Snapshots",), read_snapshot, answers=answers
        )
        return list(read)

    def find(self, target: Target, tags: Mapping[str, str]) -> list[Snapshot]:
        """Return the account's own snapshots that bear all these tags; empty if there are none.
        Raises: CloudError, also if one of them cannot be read."""
        filters = []
        for key, value in tags.items():
            filters.append({"Name": f"tag:{key}", "Values": [literal(value)]})
        operation = "ec2:DescribeSnapshots"
        unreadable: dict[str, str] = {}
        parameters: Any = {"unreadable": unreadable, "OwnerIds": ["self"], "Filters": filters}
        snapshots = list(
            self._records(operation, target, ("Snapshots",), read_snapshot, **parameters)
        )
        if unreadable:  # One that is missing would count as deleted.
            raise CloudError("; ".join(unreadable.values()), operation=operation)
        return snapshots

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        """Delete a snapshot; return the id of the request, `None` if AWS gave none. Raises:
        NotFound if it is gone; Protected if it is locked or an image uses it; CloudError."""
        return self._request("ec2:DeleteSnapshot", target, dry_run=False, SnapshotId=snapshot_id)

    def user_data(self, target: Target, instance_id: str) -> bytes:
        """Return the instance's user data as it was given, not in base64; empty if it has none.
        Raises: CloudError."""
        parameters: Any = {"InstanceId": instance_id, "Attribute": "userData"}
        answer = self._call("ec2:DescribeInstanceAttribute", target, **parameters)
        return base64.b64decode(answer.get("UserData", {}).get("Value", ""))
