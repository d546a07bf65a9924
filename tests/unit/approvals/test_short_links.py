"""Links of today: short, without an address, and refused to the letter where they were not made by
us."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.core.errors import ConfigurationError, LinkForged
from tests.unit.approvals.test_links import ID, KEYS, SIGNER

DIGEST = "digest-JG1Kw3bzgWbtOnVwnoF6Jg"
GENUINE = SIGNER.relative(ID, 7)


@pytest.mark.parametrize(("page_id", "number"), [(ID, EVERYBODY), (ID, 9999), (DIGEST, 999)])
def test_a_link_is_short_and_names_page_and_number(page_id: str, number: int) -> None:
    """A path of at most 60 characters, none of which a mail program takes for the end of a link."""
    url = SIGNER.link(page_id, number)
    path = url.removeprefix("https://api.example.com")

    assert len(path) <= 60
    assert re.fullmatch(r"/q/[\w-]+\.\d+\.[\w-]{22}", path)
    assert (page_id, number) == SIGNER.check_short(path.removeprefix("/q/"))


@given(st.data())
def test_any_changed_character_is_refused(data: st.DataObject) -> None:
    """A character of id, number and signature."""
    at = data.draw(st.integers(0, len(GENUINE) - 1))
    other = data.draw(st.characters(exclude_characters=GENUINE[at]))

    with pytest.raises(LinkForged):
        SIGNER.check_short(GENUINE[:at] + other + GENUINE[at + 1 :])


@given(st.text(max_size=80))
def test_nothing_else_is_a_link(text: str) -> None:
    """Whatever somebody types."""
    assume(text != GENUINE)
    with pytest.raises(LinkForged):
        SIGNER.check_short(text)


@pytest.mark.parametrize(
    "moved",
    [
        GENUINE.replace(".7.", ".8."),
        GENUINE.replace(".7.", ".07."),
        GENUINE.replace(".7.", ".0."),
        GENUINE.replace(ID, DIGEST),
        GENUINE.replace(ID, f"{ID}.7"),
        GENUINE + "A",
        GENUINE + "\n",
        GENUINE[:-1],
        f" {GENUINE}",
    ],
)
def test_a_link_is_good_for_its_page_and_recipient_alone(moved: str) -> None:
    """Neither can be exchanged; one canonical form is accepted."""
    with pytest.raises(LinkForged):
        SIGNER.check_short(moved)


def test_no_signature_of_another_purpose_is_one_of_a_link() -> None:
    """Signatures of links of earlier releases, of forms, of sessions."""
    for signed in (SIGNER._sign("link", ID, "7", "1"), SIGNER._sign("csrf", ID, "7", "1")):
        with pytest.raises(LinkForged):
            SIGNER.check_short(f"{ID}.7.{signed[1][:22]}")


def test_a_link_of_an_older_key_is_accepted_until_that_is_removed() -> None:
    """Whatever key signs now."""
    old = LinkSigner(lambda: {**KEYS, "current": "k1"}, "https://a").relative(ID, 1)

    assert (ID, 1) == SIGNER.check_short(old)
    with pytest.raises(LinkForged):
        LinkSigner(lambda: {"current": "k2", "k2": KEYS["k2"]}, None).check_short(old)


@pytest.mark.parametrize("keys", [{}, {"current": "k1"}, {"current": "k1", "k1": "short"}])
def test_a_weak_or_missing_key_makes_no_link(keys: dict[str, str]) -> None:
    """Nor accepts one."""
    signer = LinkSigner(lambda: keys, "https://a")

    with pytest.raises(ConfigurationError):
        signer.link(ID, 1)
    with pytest.raises((ConfigurationError, LinkForged)):
        signer.check_short(GENUINE)
    with pytest.raises(ConfigurationError, match="APPROVAL_BASE_URL"):
        LinkSigner(lambda: KEYS, None).link(ID, 1)
