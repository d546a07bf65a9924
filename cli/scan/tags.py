"""The tag commands that put what a scan found under GPU Governor. They are printed, never run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from governor.core.instance import Target
from governor.core.units import in_parts, printable
from governor.policy.model.names import TagMatch
from governor.scan.model import Report

INSTANCES = "ec2-instance"
"""The kind of resource that the loop of question, hold, recheck and action knows."""
_IDS_A_COMMAND = 100


def tag_commands(report: Report, selector: TagMatch) -> list[str]:
    """Return the lines of a shell script that tags all instances which are not governed yet, with
    the account of each command in a comment."""
    instances_by_place: dict[Target, list[str]] = {}
    for row in report.rows:
        if row.kind == INSTANCES and not row.resource.is_governed:
            place = row.resource.target
            instances_by_place.setdefault(place, []).append(row.resource.resource_id)
    if not instances_by_place:
        return [f"# every instance that was found has the tag {selector} already"]
    lines: list[str] = []
    for place in sorted(instances_by_place, key=str):
        for part in in_parts(sorted(instances_by_place[place]), _IDS_A_COMMAND):
            lines += _command(place, part, selector)
    return lines


def _command(place: Target, instance_ids: Sequence[str], selector: TagMatch) -> list[str]:
    """Return the comment and the command for instances of one account and Region."""
    words = ["aws", "ec2", "create-tags", "--region", place.region, "--resources", *instance_ids]
    words += ["--tags", f"Key={selector.tag_key},Value={selector.tag_value}"]
    return [f"# in account {printable(place.account)}:", shlex.join(words)]
