"""Commands for people to copy: the AWS CLI gets each value as it is."""

from __future__ import annotations

import pytest

from governor.core.instance import Target
from governor.scan.kinds.commands import aws_command

TARGET = Target("123456789012", "eu-west-1")


@pytest.mark.parametrize("scheme", ["file://", "fileb://", "http://", "https://"])
def test_no_command_lets_the_aws_cli_load_a_file_or_an_address(scheme: str) -> None:
    # The AWS CLI replaces such a value by the content. Tags of an instance may hold anything.
    name = f"{scheme}~/.aws/credentials"
    assert not aws_command(TARGET, "eks", "describe-cluster", name=name)


def test_a_value_is_quoted_for_a_shell() -> None:
    command = aws_command(TARGET, "eks", "describe-cluster", name="a'; rm -rf ~ #")
    assert command.endswith("""--name 'a'"'"'; rm -rf ~ #'""")
