"""The checks of shapes find what AWS would refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.scan.shapes import conforms, is_command_of_aws, takes


def test_an_answer_with_an_unknown_field_is_found() -> None:
    """A field that AWS does not have is a mistake of the test."""
    conforms("ec2:DescribeVolumes", {"Volumes": [{"VolumeId": "vol-1"}]})
    with pytest.raises(AssertionError, match="Volume"):
        conforms("ec2:DescribeVolumes", {"Volumes": [{"Volume": "vol-1"}]})


@pytest.mark.parametrize(
    ("operation", "parameters", "following"),
    [
        ("ec2:DescribeVolumes", {"Limit": 1}, None),
        ("ec2:DescribeVolumes", {"MaxResults": "1"}, None),
        ("ec2:DescribeVolumes", {}, "nextToken"),
        ("batch:DescribeComputeEnvironments", {}, "NextToken"),
        ("organizations:DescribeOrganization", {"x": 1}, None),
    ],
)
def test_a_call_that_aws_would_refuse_is_found(
    operation: str, parameters: Mapping[str, Any], following: str | None
) -> None:
    """Services spell the token of the next page in different ways."""
    with pytest.raises(AssertionError, match=r"takes|Unknown|Invalid"):
        takes(operation, parameters, following)


@pytest.mark.parametrize(
    "command",
    [
        "ec2 release-address --region us-east-1 --allocation-id eipalloc-1",
        "aws ec2 release-address --allocation-id eipalloc-1",
        "aws ec2 release-address --region us-east-1 --address eipalloc-1",
        "aws ec2 free-address --region us-east-1",
        "aws eks update-nodegroup-config --region us-east-1 --cluster-name ml",
    ],
)
def test_a_command_that_the_cli_does_not_know_is_found(command: str) -> None:
    """The last lacks the name of the node group."""
    with pytest.raises((AssertionError, KeyError)):
        is_command_of_aws(command)
