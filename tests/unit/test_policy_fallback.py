"""What must reach people reaches them, whatever the policy document says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from governor import bootstrap
from governor.adapters.ssm import PolicyParameter
from governor.domain.policy import Mode


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
def test_a_refused_document_gives_way(
    monkeypatch: pytest.MonkeyPatch, text: str, kept: str | None, mode: Mode
) -> None:
    """To the last accepted one; and where a new release refuses that one too, to the defaults."""
    monkeypatch.setattr(bootstrap, "_clients", lambda: None)
    monkeypatch.setattr(bootstrap, "_settings", lambda: SimpleNamespace(policy_parameter="policy"))
    monkeypatch.setattr(bootstrap, "_state", lambda: SimpleNamespace(kept_policy=lambda: kept))
    monkeypatch.setattr(PolicyParameter, "read", lambda _: text)

    assert mode is bootstrap._policies_or_last().base().policy.mode
