"""The pictures of a Slack message and of a Teams card show everything that is in them, as text."""

from __future__ import annotations

import html

import pytest

from governor.notify.slack_blocks import slack_blocks
from governor.notify.teams import teams_envelope
from local.demo.slack_preview import UnknownBlockError, slack_page
from local.demo.teams_preview import UnknownElementError, teams_page
from tests.unit.notify.builders import make_message, make_outcome


def test_every_block_of_our_messages_is_shown() -> None:
    """With buttons, with the link alone, and as an outcome."""
    for message, interactive in (
        (make_message(), True),
        (make_message(), False),
        (make_outcome(), True),
    ):
        page = slack_page(slack_blocks(message, interactive=interactive))
        assert ("Open its page" if interactive and message.answers else message.button) in page
        assert "notebook (i-0123456789abcdef0) · p5.48xlarge · Owner: ann@example.com" in page


def test_a_card_is_shown_with_its_buttons_and_nothing_that_is_folded() -> None:
    """As Teams shows it at first."""
    shown = html.unescape(teams_page(teams_envelope(make_message())))
    for text in ("notebook idle 6 h 40 min", "8 local NVMe volumes", "Stop or keep it", "Details"):
        assert text in shown
    assert "A stopped instance holds no capacity." not in shown


def test_names_stay_text() -> None:
    """Escapes of Slack are shown as the characters they stand for, never as markup of the page."""
    section = {
        "type": "section",
        "text": {"type": "mrkdwn", "text": "*Name*\n&lt;b&gt; &amp; co *x<i>*"},
    }

    assert "<strong>Name</strong>\n&lt;b&gt; &amp; co <strong>x&lt;i&gt;</strong>" in slack_page(
        [section]
    )


def test_what_the_previews_do_not_know_they_refuse() -> None:
    """A picture that leaves something out would be a false one."""
    with pytest.raises(UnknownBlockError, match="knows no video"):
        slack_page([{"type": "video"}])
    for where in ("body", "actions"):
        content = {"body": [], "actions": [], where: [{"type": "FactSet"}]}
        with pytest.raises(UnknownElementError, match="FactSet"):
            teams_page({"attachments": [{"content": content}]})
