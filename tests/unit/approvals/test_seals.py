"""Seals: what a browser keeps for us comes back as it was, in time and for its purpose, or not at
all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.rules.links import LinkSigner
from governor.core.errors import ConfigurationError
from tests.builders import NOW, form_token

KEYS = {"current": "k2", "k1": "o" * 64, "k2": "n" * 64}
SEALER = LinkSigner(lambda: KEYS, None)
LATER = NOW + timedelta(minutes=10)
PURPOSE = ("session", "https://issuer.example.com")
VALUES = {"sub": "u-1", "email": "alice@example.com"}
SEALED = SEALER.seal(PURPOSE, VALUES, LATER)


def test_what_was_sealed_comes_back_until_its_time_is_over() -> None:
    """To the second."""
    assert VALUES == SEALER.unseal(PURPOSE, SEALED, LATER - timedelta(seconds=1))
    assert SEALER.unseal(PURPOSE, SEALED, LATER) is None


@given(st.integers(0, len(SEALED) - 1), st.characters(codec="utf-8"))
def test_any_changed_character_breaks_the_seal(at: int, other: str) -> None:
    """A character of the key's name, of the values, or of the seal itself."""
    changed = SEALED[:at] + other + SEALED[at + 1 :]

    assert (changed == SEALED) == (SEALER.unseal(PURPOSE, changed, NOW) is not None)


@pytest.mark.parametrize(
    "sealed",
    ["", ".", "..", "k2", "k9.e30.AA", "current.e30.AA", "\ud800", "k2." + "A" * 5000 + ".A"],
)
def test_what_is_no_seal_is_refused(sealed: str) -> None:
    """Whatever a browser sends."""
    assert SEALER.unseal(PURPOSE, sealed, NOW) is None


def test_a_seal_is_good_for_one_purpose() -> None:
    """A sign-in that was begun is no session, nor is a session of another issuer."""
    for purpose in (
        ("sign-in",),
        ("session",),
        ("session", "https://other.example.com"),
        (*PURPOSE, ""),
    ):
        assert SEALER.unseal(purpose, SEALED, NOW) is None


def test_a_seal_is_no_link_and_no_form() -> None:
    """The same keys sign all of them, each in its own context."""
    signer = LinkSigner(lambda: KEYS, None)
    form = form_token(signer, "id", "broadcast", LATER)

    assert SEALER.unseal((), form, NOW) is None
    assert form != form_token(signer, "id", "broadcast", LATER, "session")


def test_a_seal_outlives_one_rotation_of_the_keys() -> None:
    """And no longer than its key."""
    older = LinkSigner(lambda: {**KEYS, "current": "k1"}, None).seal(PURPOSE, VALUES, LATER)

    assert VALUES == SEALER.unseal(PURPOSE, older, NOW)
    assert (
        LinkSigner(lambda: {"current": "k2", "k2": "n" * 64}, None).unseal(PURPOSE, older, NOW)
        is None
    )


def test_nothing_is_sealed_without_a_key() -> None:
    """A short one is none."""
    with pytest.raises(ConfigurationError):
        LinkSigner(lambda: {"current": "k1", "k1": "short"}, None).seal(PURPOSE, VALUES, LATER)
