"""EC2's filters and pages, the same for every Describe call.

A filter that is not simulated is an error, never ignored: an ignored filter would answer too much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from local.engine.simulators.faults import AwsError

Resource = Mapping[str, Any]
Properties = Mapping[str, Callable[[Any], str | None]]
"""How to read the property that a filter of that name looks at."""

_DEFAULT_PAGE = 1000

INSTANCE: Properties = {
    "availability-zone": lambda i: i["Placement"]["AvailabilityZone"],
    "capacity-reservation-id": lambda i: i.get("CapacityReservationId"),
    "instance-id": lambda i: i["InstanceId"],
    "instance-lifecycle": lambda i: i.get("InstanceLifecycle"),
    "instance-state-name": lambda i: i["State"]["Name"],
    "instance-type": lambda i: i["InstanceType"],
    "root-device-type": lambda i: i["RootDeviceType"],
    "spot-instance-request-id": lambda i: i.get("SpotInstanceRequestId"),
}
VOLUME: Properties = {
    "attachment.instance-id": lambda v: next((a["InstanceId"] for a in v["Attachments"]), None),
    "status": lambda v: v["State"],
    "volume-id": lambda v: v["VolumeId"],
    "volume-type": lambda v: v["VolumeType"],
}
SNAPSHOT: Properties = {
    "snapshot-id": lambda s: s["SnapshotId"],
    "status": lambda s: s["State"],
    "volume-id": lambda s: s["VolumeId"],
}
SPOT_REQUEST: Properties = {
    "instance-id": lambda r: r["InstanceId"],
    "spot-instance-request-id": lambda r: r["SpotInstanceRequestId"],
    "state": lambda r: r["State"],
    "type": lambda r: r["Type"],
}
RESERVATION: Properties = {
    "instance-type": lambda r: r["InstanceType"],
    "state": lambda r: r["State"],
}
TAG: Properties = {
    "key": lambda t: t["Key"],
    "resource-id": lambda t: t["ResourceId"],
    "resource-type": lambda t: t["ResourceType"],
    "value": lambda t: t["Value"],
}


def select(found: Iterable[Any], request: Mapping[str, Any], properties: Properties) -> list[Any]:
    """Return what meets all filters of the request. Raises: AwsError for a filter that is not
    simulated."""
    filters = request.get("Filters", ())
    for one in filters:
        name = one["Name"]
        if not (name in properties or name == "tag-key" or name.startswith("tag:")):
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is not simulated")
    return [resource for resource in found if all(_meets(resource, f, properties) for f in filters)]


def page(
    name: str, found: Sequence[Any], request: Mapping[str, Any], *, ids: str | None = None
) -> dict[str, Any]:
    """One page of an answer under `name`. Raises: AwsError for a page size together with ids."""
    size = request.get("MaxResults")
    if size is not None and ids is not None and request.get(ids):
        message = "The parameter MaxResults cannot be used with a list of ids"
        raise AwsError("InvalidParameterCombination", message)
    start = _position(request.get("NextToken"))
    end = start + int(size or _DEFAULT_PAGE) if ids is None or not request.get(ids) else len(found)
    answer: dict[str, Any] = {name: list(found[start:end])}
    if end < len(found):
        answer["NextToken"] = f"page-{end}"
    return answer


def tags_of(resource: Resource) -> dict[str, str]:
    """As a mapping."""
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", ())}


def _position(token: str | None) -> int:
    if not token:
        return 0
    number = re.fullmatch(r"page-(\d+)", token)
    if number is None:
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
    return int(number[1])


def _meets(resource: Resource, one: Mapping[str, Any], properties: Properties) -> bool:
    name = one["Name"]
    patterns = [_pattern(value) for value in one.get("Values", ())]
    if name.startswith("tag:"):
        values = [tags_of(resource).get(name[4:])]
    elif name == "tag-key":
        values = list(tags_of(resource))
    else:
        values = [properties[name](resource)]
    return any(
        pattern.fullmatch(value) for pattern in patterns for value in values if value is not None
    )


def _pattern(value: str) -> re.Pattern[str]:
    """EC2 reads `*` as any text and `?` as one character, unless escaped with a backslash; case
    counts."""
    tokens = re.findall(r"\\.|.", value, re.DOTALL)
    return re.compile(
        "".join(_TOKENS.get(token, re.escape(token[-1])) for token in tokens), re.DOTALL
    )


_TOKENS = {"*": ".*", "?": "."}
