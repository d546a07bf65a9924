"""A command that may not write into the state table says as which role it may."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import break_glass, governor, restore
from cli.errors import CommandError
from cli.status import Stack
from governor.core.errors import AccessDenied

ROLE = "arn:aws:iam::123456789012:role/break-glass"
BY_THE_TABLE = (
    "User: arn:aws:sts::123456789012:assumed-role/admin/ada is not authorized to perform: "
    "dynamodb:UpdateItem on resource: arn:aws:dynamodb:us-east-1:123456789012:table/state "
    "with an explicit deny in a resource-based policy"
)
OTHERWISE = "User: arn:aws:iam::1:user/ada is not authorized to perform: dynamodb:UpdateItem"


def reason(
    monkeypatch: pytest.MonkeyPatch, error: Exception, parameters: dict[str, str] | None
) -> str:
    """Return the reason that a person reads, in a stack with these parameters; `None`: it cannot be
    read."""

    def described(*_: object) -> tuple[dict[str, str], dict[str, str]]:
        if parameters is None:
            raise CommandError("the stack could not be read")
        return {}, parameters

    monkeypatch.setattr(break_glass, "described", described)
    session: Any = object()
    return break_glass.reason(error, session, "gpu-governor")


def denied(message: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": "AccessDeniedException", "Message": message}}, "UpdateItem"
    )


@pytest.mark.parametrize(
    "error", [denied(BY_THE_TABLE), AccessDenied(BY_THE_TABLE)], ids=["boto", "ours"]
)
def test_a_denial_of_the_table_names_the_role_that_may(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Where the stack names none, how to name one."""
    named = reason(monkeypatch, error, {"BreakGlassRoleArn": ROLE})
    assert "only roles of the stack may write into the state table" in named
    assert f", and {ROLE}: assume that role, and run this again" in named

    unnamed = reason(monkeypatch, error, {"BreakGlassRoleArn": ""})
    assert "make deploy PARAMETERS=BreakGlassRoleArn=ARN" in unnamed

    assert "its parameter BreakGlassRoleArn names: run this as that role" in reason(
        monkeypatch, error, None
    )


def test_any_other_failure_says_what_aws_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission that the caller's own policies lack is no matter of the table."""
    said = reason(monkeypatch, denied(OTHERWISE), {"BreakGlassRoleArn": ROLE})

    assert OTHERWISE in said
    assert ROLE not in said


def test_restore_writes_nothing_where_the_table_denies_the_first_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The freeze comes first; nothing is put back without it."""
    put_back: list[object] = []

    def refused(*_: object) -> None:
        raise AccessDenied(BY_THE_TABLE, operation="dynamodb:UpdateItem")

    lacking = [{"pk": {"S": "HOLD#a"}, "sk": {"S": "HOLD#i-1"}}]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(restore, "check", lambda *_: None)
    monkeypatch.setattr(restore, "_check", lambda *_: None)
    monkeypatch.setattr(Stack, "outputs", {"StateTableName": "state"})
    monkeypatch.setattr(
        restore, "_items", lambda _, table, **__: lacking if table == "copy" else []
    )
    monkeypatch.setattr(restore, "_freeze", refused)
    monkeypatch.setattr(restore, "_put", lambda *given: put_back.append(given))
    monkeypatch.setattr(break_glass, "described", lambda *_: ({}, {"BreakGlassRoleArn": ROLE}))

    assert 1 == governor.main(["restore", "--from", "copy", "--confirm", "gpu-governor"])

    assert f"and {ROLE}: assume that role" in capsys.readouterr().err
    assert [] == put_back
