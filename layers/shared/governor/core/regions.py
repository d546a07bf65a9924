"""AWS Regions and partitions: which partition a Region is in, and how its console is reached.

All of it comes from botocore's partition data, which the layer ships. That data ages: a Region that
it does not list may be a new one, so nothing here refuses a name. The file is read once, by the
first question that needs it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

SHAPE = "[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}"
"""The shape of every Region's code, as a regular expression without anchors."""
_DEFAULT_PARTITION = "aws"
"""The partition of a Region that fits no pattern, as in AWS's own endpoint rules."""
_WEBSITES = {
    "aws": "aws.amazon.com",
    "aws-cn": "amazonaws.cn",
    "aws-eusc": "amazonaws-eusc.eu",
    "aws-iso": "c2shome.ic.gov",
    "aws-iso-b": "sc2shome.sgov.gov",
    "aws-iso-e": "csphome.adc-e.uk",
    "aws-iso-f": "csphome.hci.ic.gov",
    "aws-us-gov": "amazonaws-us-gov.com",
}
"""The domain of AWS's web pages by partition. Source: botocore, the endpoint rules of `signin`,
whose hosts have the same domains as the console's. The layer does not ship these rules; a test
compares the table with them."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of AWS, with the Regions that botocore lists."""

    name: str
    pattern: re.Pattern[str]
    """Matches the codes of its Regions, those of later ones too."""
    regions: frozenset[str]


def is_region(code: str) -> bool:
    """Return whether the code has the shape of a Region's."""
    return re.fullmatch(SHAPE, code) is not None


def partition_of(region: str) -> str:
    """Return the name of the partition that the Region is in: `aws` if no partition's pattern fits
    its code."""
    for partition in partitions():
        if partition.pattern.fullmatch(region):
            return partition.name
    return _DEFAULT_PARTITION


def is_known(region: str) -> bool:
    """Return whether botocore lists the Region."""
    return region in known_regions()


@cache
def known_regions() -> tuple[str, ...]:
    """Return the codes of all Regions that botocore lists, in alphabetical order."""
    codes: set[str] = set()
    for partition in partitions():
        codes |= partition.regions
    return tuple(sorted(codes))


def fits_a_partition(region: str) -> bool:
    """Return whether the pattern of some partition fits the code."""
    return any(partition.pattern.fullmatch(region) for partition in partitions())


def instance_page(region: str, instance_id: str) -> str | None:
    """Return the address of the instance's page in the AWS console; `None` if the console of its
    partition is not known."""
    website = _WEBSITES.get(partition_of(region))
    if website is None:
        return None
    return (
        f"https://{region}.console.{website}/ec2/home?region={region}"
        f"#InstanceDetails:instanceId={instance_id}"
    )


_ORGANIZATIONS_REGIONS = {
    "aws": "us-east-1",
    "aws-cn": "cn-northwest-1",
    "aws-us-gov": "us-gov-west-1",
}
_COST_EXPLORER_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}


def organizations_region(region: str) -> str:
    """Return the Region in which AWS Organizations answers for the partition of this Region; the
    Region itself where that is not known."""
    return _ORGANIZATIONS_REGIONS.get(partition_of(region), region)


def cost_explorer_region(region: str) -> str | None:
    """Return the Region in which Cost Explorer answers for the partition of this Region; `None`
    where it does not answer, or that is not known."""
    return _COST_EXPLORER_REGIONS.get(partition_of(region))


@cache
def partitions() -> tuple[Partition, ...]:
    """Return all partitions that botocore knows, without their pseudo Regions such as
    `aws-global`."""
    document = json.loads(_data_file().read_bytes())
    found: list[Partition] = []
    for entry in document["partitions"]:
        pattern = re.compile(entry["regionRegex"])
        # Pseudo Regions such as `aws-global` are listed, too.
        codes = [code for code in entry["regions"] if pattern.fullmatch(code)]
        found.append(Partition(entry["id"], pattern, frozenset(codes)))
    return tuple(found)


def _data_file() -> Path:
    """Return the path of botocore's partition data. It does not import botocore.

    Raises: ModuleNotFoundError if botocore is not installed.
    """
    package = find_spec("botocore")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("botocore is not installed, so no partition of AWS is known")
    return Path(package.origin).parent / "data" / "partitions.json"
