"""Times, dates, lengths and ids stay on one line in pages and mails."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.line_breaks import ID_TAG, steady_page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asked, 17 h left", "asked, 17~h left"),
        ("idle 6 h 40 min, 2 days", "idle 6~h~40~min, 2~days"),
        ("kept until Sun 12:02 UTC", "kept until Sun~12:02~UTC"),
        (
            "Until Sat Dec 5, 04:02 Berlin (03:02 UTC)",
            "Until Sat~Dec~5,~04:02~Berlin (03:02~UTC)",
        ),
        ("Mon 09:00 Los Angeles by hand", "Mon~09:00~Los~Angeles by hand"),
        ("Nov 3: 5 hosts, 30 minutes", "Nov~3: 5 hosts, 30 minutes"),
        ("2 of 1,200 instances, 1 instance type", "2 of 1,200~instances, 1~instance type"),
        ("", ""),
    ],
)
def test_times_dates_and_lengths_stay_whole(text: str, expected: str) -> None:
    """The other spaces still break."""
    assert expected.replace("~", "\xa0") == steady_page(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i-0123456789abcdef0 runs", "<i-0123456789abcdef0> runs"),
        # No mark is left alone at the end of a line.
        ("(vol-01234567, ami-0123456789abcdef0)", "<(vol-01234567,> <ami-0123456789abcdef0)>"),
        ("in &#39;us-east-1&#39;: yes", "in <&#39;us-east-1&#39;:> yes"),
        ("in us-gov-west-1 and", "in <us-gov-west-1> and"),
        ("of 111122223333/ap-southeast-2.", "of <111122223333/ap-southeast-2.>"),
        ("zone us-east-1a, us-west-2-lax-1a", "zone <us-east-1a,> <us-west-2-lax-1a>"),
        ("since 2026-11-20, in 2026-11", "since <2026-11-20,> in <2026-11>"),
        (
            "111122223333-us-east-1-i-0123456789abcdef0-1795075200-1 failed",
            "<111122223333-us-east-1-i-0123456789abcdef0-1795075200-1> failed",
        ),
        # An ARN may be longer than a line, and a browser finds it only as one text.
        (
            "arn:aws:iam::111122223333:role/gpu-us-east-1 may",
            "arn:aws:iam::111122223333:role/gpu-us-east-1 may",
        ),
        ("(arn:aws-cn:sts::1:role/a/b@c.d)", "(arn:aws-cn:sts::1:role/a/b@c.d)"),
        # Names may break.
        ("web-server-1, a-us-east-1, us-east-1-blue", "web-server-1, a-us-east-1, us-east-1-blue"),
        ("notebook-7", "notebook-7"),
    ],
)
def test_ids_are_tagged_and_their_text_stays(text: str, expected: str) -> None:
    """So that a copied id is the id."""
    tagged = re.sub("<([^>]*)>", rf"{ID_TAG}\1</span>", expected)
    assert tagged == steady_page(text)
    assert text == re.sub("<[^>]*>", "", tagged)


def test_a_mail_has_its_own_tag() -> None:
    assert "<b>us-east-1</span>" == steady_page("us-east-1", "<b>")


def test_pictures_and_choices_get_no_tags() -> None:
    """They may not hold any. Only the times of their text change, and nothing in a form's text."""
    page = (
        '<svg><path d="M0 10 h 5 min"/><text>us-east-1, Fri 12:02 UTC</text></svg>'
        '<option value="us-east-1">us-east-1, for 4 h</option><textarea>us-east-1, 4 h</textarea>'
    )
    expected = page.replace("Fri 12:02 UTC", "Fri\xa012:02\xa0UTC").replace("for 4 h", "for 4\xa0h")
    assert expected == steady_page(page)


def test_a_command_stays_as_people_copy_it() -> None:
    """The name of an Auto Scaling group may hold spaces."""
    page = "<code>aws autoscaling --region us-east-1 --name 'train 2 instances'</code>"
    assert page == steady_page(page)


def test_only_the_text_of_a_page_changes() -> None:
    """Tags, styles, scripts and the title stay as they are, so the hashes of the security policy
    stay true."""
    page = (
        "<title>Fri 12:02 UTC</title><style>/* 5 min */</style><script>'6 h'</script>"
        '<p title="Fri 12:02 UTC">Stopped Fri 13:02 Berlin (12:02 UTC) after 6 h 40 min</p>'
    )
    body = "Stopped Fri~13:02~Berlin (12:02~UTC) after 6~h~40~min".replace("~", "\xa0")
    expected = page[: page.index("Stopped")] + body + "</p>"
    assert expected == steady_page(page)


@given(st.text())
def test_no_page_loses_a_character(page: str) -> None:
    def plain(text: str) -> str:
        for added in ("[]", "</span>"):
            text = text.replace(added, "")
        return text.replace("\xa0", " ")

    assert plain(page) == plain(steady_page(page, "[]"))
