"""The picture of a card leaves nothing out."""

from __future__ import annotations

import html

import pytest

from governor.channels.teams import teams_envelope
from local.teams_preview import UnknownElementError, teams_page
from tests.unit.channels.builders import make_message


def test_it_shows_what_the_card_shows_and_nothing_that_is_folded() -> None:
    """With its buttons."""
    shown = html.unescape(teams_page(teams_envelope(make_message())))
    for text in ("notebook idle 6 h 40 min", "8 local NVMe volumes", "Stop or keep it", "Details"):
        assert text in shown
    assert "A stopped instance holds no capacity." not in shown


@pytest.mark.parametrize("where", ["body", "actions"])
def test_what_it_does_not_know_it_refuses(where: str) -> None:
    """Else a picture would lack it, and nobody would see that."""
    content = {"body": [], "actions": [], where: [{"type": "FactSet"}]}
    with pytest.raises(UnknownElementError, match="FactSet"):
        teams_page({"attachments": [{"content": content}]})
