"""What must reach people is sent by the last accepted policy, when the present one cannot be had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from governor.domain.policy.policy import Mode
from governor.errors import AccessDenied, CloudError, PolicyError, Throttled, Unavailable
from governor.wiring import policies
from governor.wiring.parts import Parts
from tests.unit.adapters.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.wiring.samples import settings


def parts(answer: Any, kept: str | None) -> Parts:
    """Systems Manager gives this answer, the table has kept this document."""
    parameter = {"Parameter": {"Value": answer}} if isinstance(answer, str) else answer
    clients = FakeClients(ScriptedClient(get_parameter=[parameter]))
    return Parts(settings(), clients, state=SimpleNamespace(kept_policy=lambda: kept))


def last(found: Parts) -> Mode:
    """The mode of the policy that is used."""
    return policies.or_last(found)().base().policy.mode


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_a_systems_manager_that_does_not_answer_keeps_no_warning_back(code: str) -> None:
    """The table knows the document that was last accepted."""
    found = parts(client_error(code), "mode: auto\n")

    assert Mode.AUTO is last(found)
    # Of two minutes, none may go by with waiting for it.
    assert isinstance(found.clients, FakeClients)
    assert {False} == set(found.clients.patient)


@pytest.mark.parametrize(
    ("code", "kept", "kind"),
    [
        ("ThrottlingException", None, Throttled),
        ("InternalServerError", None, Unavailable),
        ("AccessDeniedException", "mode: auto\n", AccessDenied),
    ],
)
def test_where_nothing_is_kept_or_a_right_is_missing_that_is_the_error(
    code: str, kept: str | None, kind: type[CloudError]
) -> None:
    """Defaults would be a policy that nobody has written."""
    with pytest.raises(kind):
        last(parts(client_error(code), kept))


@pytest.mark.parametrize(
    ("text", "kept", "mode"),
    [
        ("mode: ask", "mode: auto", Mode.ASK),
        ("mode: banana", "mode: auto", Mode.AUTO),
        ("a: &a [*a]", "mode: auto", Mode.AUTO),
        ("mode: banana", None, Mode.OBSERVE),
        ("mode: banana", "mode: banana", Mode.OBSERVE),
    ],
)
def test_a_refused_document_gives_way(text: str, kept: str | None, mode: Mode) -> None:
    """To the last accepted one, also where this release refuses how that one acts; else to the defaults."""
    assert mode is last(parts(text, kept))


def test_what_must_end_ends_by_the_defaults() -> None:
    """And what acts on instances does not start: the refusal is its error."""
    assert Mode.OBSERVE is policies.or_defaults(parts("mode: banana", None))().base().policy.mode
    with pytest.raises(PolicyError, match="banana"):
        policies.present(parts("mode: banana", None))()


def test_each_invocation_reads_the_document_anew() -> None:
    """A change counts at once, though the use case was put together before."""
    answers = [{"Parameter": {"Value": f"mode: {mode}"}} for mode in ("ask", "observe")]
    found = Parts(settings(), FakeClients(ScriptedClient(get_parameter=answers)))
    mode = policies.ready(policies.present(found), lambda book: book.base().policy.mode)

    assert [Mode.ASK, Mode.OBSERVE] == [mode(), mode()]
