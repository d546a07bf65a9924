"""`governor env-vars` reads the stack, and says what to do where it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli import aws, governor
from tests.unit.aws.fakes import client_error


class Stack:
    """A session whose clients know one stack, and keep what they were asked."""

    region_name = "us-east-1"

    def __init__(self, *resources: tuple[str, str], denied: str = "") -> None:
        self.resources, self.denied, self.calls = resources, denied, list[str]()

    def client(self, _: str) -> Stack:
        """Is its own client."""
        return self

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.calls.append(name)
            if name == self.denied:
                raise client_error("AccessDeniedException")
            if name == "describe_stacks":
                return {
                    "Stacks": [{"Outputs": [{"OutputKey": "ApiUrl", "OutputValue": "https://api"}]}]
                }
            return {"Environment": {"Variables": {"TABLE_NAME": f"of-{given['FunctionName']}"}}}

        return call

    def get_paginator(self, name: str) -> Stack:
        """Return pages of all resources, one a page."""
        self.calls.append(name)
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        """As CloudFormation's."""
        return [
            {
                "StackResourceSummaries": [
                    {
                        "LogicalResourceId": name,
                        "PhysicalResourceId": f"stack-{name}",
                        "ResourceType": kind,
                    }
                ]
            }
            for name, kind in self.resources
        ]


OURS = (
    ("PutAway", "AWS::Lambda::Function"),
    ("Table", "AWS::DynamoDB::Table"),
    ("Ask", "AWS::Lambda::Function"),
)


def said(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of the command."""
    monkeypatch.setattr(aws, "session", lambda: stack)
    return governor.main(["env-vars"])


def test_it_only_reads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every function, on whatever page; nothing else of the stack."""
    stack = Stack(*OURS)

    assert 0 == said(stack, monkeypatch)
    assert {name: {"TABLE_NAME": f"of-stack-{name}"} for name in ("PutAway", "Ask")} == json.loads(
        capsys.readouterr().out
    )
    assert {"describe_stacks", "list_stack_resources", "get_function_configuration"} == set(
        stack.calls
    )


@pytest.mark.parametrize(
    ("stack", "why"),
    [
        (Stack(OURS[1]), "has no functions: is it a stack of GPU Governor?"),
        (Stack(*OURS, denied="get_function_configuration"), "could not be read"),
    ],
)
def test_it_says_why_not(
    stack: Stack, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == said(stack, monkeypatch)
    printed = capsys.readouterr()
    assert why in printed.err
    assert not printed.out
