"""What must reach people is told by the last accepted policy, when the present one cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from governor import bootstrap
from governor.domain.policy import Mode
from governor.errors import AccessDenied, CloudError, Throttled, Unavailable
from tests.unit.adapters.fakes import FakeClients, ScriptedClient, client_error


class Kept:
    """A state table that keeps a document, or none."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def kept_policy(self) -> str | None:
        """The document."""
        return self._text


def last(monkeypatch: pytest.MonkeyPatch, answer: Any, kept: str | None) -> Mode:
    """The mode of the policy that is found."""
    clients = FakeClients(ScriptedClient(get_parameter=[answer]))
    monkeypatch.setenv("POLICY_PARAMETER", "/gpu-governor/policy")
    monkeypatch.setattr(bootstrap, "_clients", lambda: clients)
    monkeypatch.setattr(bootstrap, "_state", lambda: Kept(kept))
    bootstrap._settings.cache_clear()
    try:
        found = bootstrap._policies_or_last().base().policy.mode
    finally:
        bootstrap._settings.cache_clear()
    assert [False] == clients.patient  # of two minutes, none may go by with waiting for it
    return found


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_a_systems_manager_that_does_not_answer_keeps_no_warning_back(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table knows the document that was last accepted."""
    assert Mode.AUTO is last(monkeypatch, client_error(code), "mode: auto\n")


@pytest.mark.parametrize(
    ("code", "kept", "kind"),
    [
        ("ThrottlingException", None, Throttled),
        ("InternalServerError", None, Unavailable),
        ("AccessDeniedException", "mode: auto\n", AccessDenied),
    ],
)
def test_where_nothing_is_kept_or_a_right_is_missing_that_is_the_error(
    code: str, kept: str | None, kind: type[CloudError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults would be a policy that nobody has written."""
    with pytest.raises(kind):
        last(monkeypatch, client_error(code), kept)
