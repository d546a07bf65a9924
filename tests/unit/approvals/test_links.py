"""Approval links: what was not signed by us, to the letter, is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governor.approvals.rules.links import LinkSigner, _short_mac
from governor.core.errors import ConfigurationError, LinkExpired, LinkForged
from tests.builders import NOW, earlier_link, form_token

KEYS = {"current": "k2", "k1": "o" * 64, "k2": "n" * 64}
SIGNER = LinkSigner(lambda: KEYS, "https://api.example.com")
LATER = NOW + timedelta(hours=24)
ID = "JG1Kw3bzgWbtOnVwnoF6Jg"


def fields_of(url: str) -> dict[str, str]:
    """The fields of a link."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


GENUINE = fields_of(earlier_link(SIGNER, ID, "broadcast", LATER))


def test_a_link_names_its_recipient() -> None:
    """Round trip."""
    url = earlier_link(SIGNER, ID, "someone+gpu@example.com", LATER)

    assert url.startswith(f"https://api.example.com/approvals/{ID}?")
    assert "someone+gpu@example.com" == SIGNER.check(ID, fields_of(url), NOW)


@given(st.text(max_size=60), st.integers(1, 10_000_000))
def test_any_recipient_and_expiry_survive_the_url(recipient: str, seconds: int) -> None:
    """Whatever stands in them."""
    assume(all(not 0xD800 <= ord(character) <= 0xDFFF for character in recipient))
    url = earlier_link(SIGNER, ID, recipient, NOW + timedelta(seconds=seconds + 1))

    assert recipient == SIGNER.check(ID, fields_of(url), NOW)


@given(st.sampled_from(sorted(GENUINE)), st.data())
def test_any_changed_character_is_refused(name: str, data: st.DataObject) -> None:
    """One character of one field."""
    value = GENUINE[name]
    at = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(codec="ascii", exclude_characters=value[at]))
    changed = {**GENUINE, name: value[:at] + other + value[at + 1 :]}

    with pytest.raises(LinkForged):
        SIGNER.check(ID, changed, NOW)


_EXPIRIES = st.integers(1, 100_000).map(lambda seconds: NOW + timedelta(seconds=seconds))
_RECIPIENTS = st.sampled_from(["broadcast", "alice@example.com", "bob@example.com"])


@given(
    _RECIPIENTS,
    _EXPIRIES,
    _RECIPIENTS,
    _EXPIRIES,
    st.sets(st.sampled_from(sorted(GENUINE)), min_size=1),
)
def test_any_field_of_another_genuine_link_is_refused(
    recipient: str,
    expires: datetime,
    other_recipient: str,
    other_expires: datetime,
    swapped: set[str],
) -> None:
    """Fields of two links of the same question, mixed in any way: only the two as they were are
    good."""
    one = fields_of(earlier_link(SIGNER, ID, recipient, expires))
    other = fields_of(earlier_link(SIGNER, ID, other_recipient, other_expires))
    mixed = {name: (other if name in swapped else one)[name] for name in one}
    assume(mixed not in (one, other))

    with pytest.raises(LinkForged):
        SIGNER.check(ID, mixed, NOW)


@given(st.sampled_from(sorted(GENUINE)), st.data())
def test_any_flipped_bit_is_refused(name: str, data: st.DataObject) -> None:
    """A bit of any byte of any field."""
    raw = bytearray(GENUINE[name].encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(LinkForged):
        SIGNER.check(ID, {**GENUINE, name: raw.decode("latin-1")}, NOW)


@pytest.mark.parametrize("name", sorted(GENUINE))
@pytest.mark.parametrize("suffix", ["=", "A", " ", "\n", "0"])
def test_anything_appended_is_refused(name: str, suffix: str) -> None:
    """One canonical form: no padding, no white space, no leading or trailing digits."""
    with pytest.raises(LinkForged):
        SIGNER.check(ID, {**GENUINE, name: GENUINE[name] + suffix}, NOW)


@pytest.mark.parametrize("name", sorted(GENUINE))
def test_a_missing_field_is_refused(name: str) -> None:
    """All four, and no others."""
    fewer = {key: value for key, value in GENUINE.items() if key != name}

    with pytest.raises(LinkForged):
        SIGNER.check(ID, fewer, NOW)
    with pytest.raises(LinkForged):
        SIGNER.check(ID, {**GENUINE, "x": "1"}, NOW)


def test_a_link_of_another_question_is_refused() -> None:
    """The id is part of what is signed."""
    with pytest.raises(LinkForged):
        SIGNER.check(ID[:-1] + "h", GENUINE, NOW)


def test_fields_cannot_borrow_from_each_other() -> None:
    """`a` + `bc` is not `ab` + `c`."""
    one = fields_of(earlier_link(SIGNER, "ab", "c", LATER))

    with pytest.raises(LinkForged):
        SIGNER.check("a", {**one, "r": "bc"}, NOW)


def test_expiry_is_told_only_to_who_holds_a_genuine_link() -> None:
    """A forged link learns nothing about time."""
    with pytest.raises(LinkExpired):
        SIGNER.check(ID, GENUINE, LATER)
    with pytest.raises(LinkForged):
        SIGNER.check(ID, {**GENUINE, "r": "boss"}, LATER)


def test_links_of_an_older_key_are_accepted_until_it_is_removed() -> None:
    """Two accepted, one signing."""
    old = fields_of(
        earlier_link(LinkSigner(lambda: {**KEYS, "current": "k1"}, "https://a"), ID, "r", LATER)
    )
    removed = LinkSigner(lambda: {"current": "k2", "k2": KEYS["k2"]}, None)

    assert "r" == SIGNER.check(ID, old, NOW)
    with pytest.raises(LinkForged):
        removed.check(ID, old, NOW)


def test_the_name_of_the_current_key_is_no_key() -> None:
    """`k=current` does not sign with the text `k2`."""
    with pytest.raises(LinkForged):
        SIGNER.check(ID, {**GENUINE, "k": "current"}, NOW)


@pytest.mark.parametrize("keys", [{}, {"current": "k1"}, {"current": "k1", "k1": "short"}])
def test_a_weak_or_missing_key_signs_nothing(keys: dict[str, str]) -> None:
    """A configuration that would sign with nothing is an error, not a link."""
    with pytest.raises(ConfigurationError):
        earlier_link(LinkSigner(lambda: keys, "https://a"), ID, "r", LATER)


def test_a_csrf_value_is_not_a_signature_and_belongs_to_its_link() -> None:
    """Another context: neither can stand for the other."""
    token = form_token(SIGNER, ID, "broadcast", LATER)

    SIGNER.check_csrf(token, ID, "broadcast", GENUINE["e"])
    with pytest.raises(LinkForged):
        SIGNER.check_csrf(f"k2.{GENUINE['s']}", ID, "broadcast", GENUINE["e"])
    with pytest.raises(LinkForged):
        SIGNER.check_csrf(token, ID, "other", GENUINE["e"])
    with pytest.raises(LinkForged):
        SIGNER.check_csrf("", ID, "broadcast", GENUINE["e"])


@pytest.mark.parametrize("number", [0, 9, 10, 35, 36, 61, 62, 9999])
def test_sixty_recipients_have_links_of_sixty_characters(number: int) -> None:
    """And the links of every number are read, in the decimal form of releases before, too."""
    signer = LinkSigner(lambda: KEYS, "https://x")
    link = signer.relative("a" * 32, number)
    assert ("a" * 32, number) == signer.check_short(link)
    assert (len(f"/q/{link}") <= 60) == (number < 62)
    decimal = f"{'a' * 32}.{number}.{_short_mac(KEYS, KEYS['current'], 'a' * 32, str(number))}"
    assert ("a" * 32, number) == signer.check_short(decimal)
