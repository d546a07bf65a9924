"""The picture of a Slack message shows everything that is in it, as text."""

from __future__ import annotations

import pytest

from governor.channels.slack import slack_blocks
from local.slack_preview import UnknownBlockError, slack_page
from tests.unit.channels.builders import make_message, make_outcome


def test_every_block_of_our_messages_is_shown() -> None:
    """With buttons, with the link alone, and as an outcome."""
    for message, interactive in ((make_message(), True), (make_message(), False), (make_outcome(), True)):
        page = slack_page(slack_blocks(message, interactive=interactive))
        assert ("Open its page" if interactive and message.answers else message.button) in page
        assert "notebook (i-0123456789abcdef0) · p5.48xlarge · Owner: ann@example.com" in page


def test_names_stay_text() -> None:
    """What Slack escapes is shown as the characters it stands for, never as markup of the page."""
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "*Name*\n&lt;b&gt; &amp; co *x<i>*"}}

    assert "<strong>Name</strong>\n&lt;b&gt; &amp; co <strong>x&lt;i&gt;</strong>" in slack_page([section])


def test_what_the_preview_does_not_know_it_refuses() -> None:
    """A picture that leaves something out would be a false one."""
    with pytest.raises(UnknownBlockError, match="knows no video"):
        slack_page([{"type": "video"}])
