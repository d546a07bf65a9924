"""Slack's Block Kit: within its limits, and deaf to markup in names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.alerts.model import Section
from governor.approvals.model.approval import Answer
from governor.notify.compose import message_of
from governor.notify.email import email_document
from governor.notify.message import Message, Table
from governor.notify.slack_blocks import BLOCKS, slack_blocks, slack_text
from governor.policy.messages import difference, version_alert
from local.demo.receiver_checks import slack_problems
from tests.builders import NOW, TARGET
from tests.unit.notify.builders import FACTS, LINK, make_message, make_outcome

EVIL = "<!channel> <https://evil.example|approve> & *bold*"


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON document, however deep."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from nodes(child)


def buttons(message: Message, *, interactive: bool = True) -> list[dict[str, Any]]:
    """The buttons, in order."""
    return [
        n
        for n in nodes(slack_blocks(message, interactive=interactive))
        if n.get("type") == "button"
    ]


def texts(message: Message) -> list[dict[str, Any]]:
    """Every text object."""
    found = nodes(slack_blocks(message, interactive=True))
    return [n for n in found if n.get("type") in ("mrkdwn", "plain_text", "text")]


@pytest.mark.parametrize("interactive", [True, False])
def test_slack_s_documentation_finds_nothing_wrong(interactive: bool) -> None:
    """Its limits of each block, as the local receivers check them."""
    for message in (
        make_message(),
        make_outcome(),
        make_message(evidence=None, link=None, sections=()),
    ):
        blocks = slack_blocks(message, interactive=interactive)
        assert blocks
        assert [] == slack_problems(blocks)


def test_an_app_offers_the_answers_and_the_page() -> None:
    """Each answer names its approval; approving asks once more."""
    found = buttons(make_message())
    ids = ["governor.approve", "governor.keep", "governor.exempt", "governor.open"]
    assert ids == [button["action_id"] for button in found]
    assert ["apr-1", "apr-1", "apr-1", None] == [button.get("value") for button in found]
    assert "notebook (i-0123456789abcdef0)" in found[0]["confirm"]["text"]["text"]
    assert LINK == found[-1]["url"]


def test_an_incoming_webhook_offers_the_page_only() -> None:
    """Its buttons could not be answered."""
    assert ["governor.open"] == [b["action_id"] for b in buttons(make_message(), interactive=False)]


def test_only_the_answers_of_the_message_are_offered() -> None:
    """Where a termination asks for typing, nobody approves here; without exempt, no reason is
    asked."""
    message = make_message(answers=(Answer.KEEP,))
    assert ["governor.keep", "governor.open"] == [
        button["action_id"] for button in buttons(message)
    ]
    assert "input" not in {block["type"] for block in slack_blocks(message, interactive=True)}


def test_an_outcome_offers_no_answer() -> None:
    """Also when it carries the answers of the question by mistake."""
    outcome = make_outcome(answers=(Answer.APPROVE,), approval_id="apr-1")
    assert ["governor.open"] == [button["action_id"] for button in buttons(outcome)]


def test_markup_in_names_stays_text() -> None:
    """No mention, no link: neither in blocks nor in what a notification shows."""
    message = make_message(
        title=EVIL,
        facts=replace(FACTS, instance_name=EVIL, owner=EVIL),
        sections=(Section(EVIL, (EVIL,)),),
        evidence=Table(EVIL, (EVIL,), ((EVIL,),)),
    )
    for node in texts(message):
        if node["type"] == "mrkdwn":
            assert "<" not in node["text"]
            assert node["verbatim"]
    assert "<" not in slack_text(message)
    assert "&lt;!channel&gt;" in slack_text(message)


@given(
    title=st.text(max_size=400),
    lines=st.lists(st.text(max_size=4000), max_size=40),
    sections=st.integers(0, 80),
    rows=st.integers(0, 200),
    name=st.text(max_size=3000),
)
def test_nothing_is_ever_too_long(
    title: str, lines: list[str], sections: int, rows: int, name: str
) -> None:
    """50 blocks, 3,000 characters, 10 fields: what is over is cut, and answers and link are still
    there."""
    message = make_message(
        title=title,
        sections=(Section(name, tuple(lines)),) * sections,
        facts=replace(FACTS, instance_name=name, owner=name, project=name),
        evidence=Table(name, ("a", "b"), (("&<>" * 40, name),) * rows),
    )
    blocks = slack_blocks(message, interactive=True)
    assert len(blocks) <= BLOCKS
    assert 4 == len(buttons(message))
    assert [] == slack_problems(blocks)
    for node in texts(message):
        assert 0 < len(node["text"]) <= 3000
    for node in nodes(blocks):
        for field in node.get("fields", ()):
            assert len(field["text"]) <= 2000
    assert len(slack_text(message)) <= 3000


@pytest.mark.parametrize(
    ("happens", "shown"),
    [
        ("It is stopped.", "*It is stopped.*"),
        (
            "EC2 refuses arn:aws:ec2:::snapshot/* to it.",
            "EC2 refuses arn:aws:ec2:::snapshot/* to it.",
        ),
    ],
)
def test_a_star_in_the_first_line_does_not_end_its_bold_part(happens: str, shown: str) -> None:
    """Words of AWS name resources with stars. Slack knows no escape for one."""
    texts = [
        n.get("text") for n in nodes(slack_blocks(make_message(happens=happens), interactive=True))
    ]
    assert any(isinstance(text, str) and text.startswith(shown) for text in texts)


def test_a_few_long_sections_keep_their_first_lines_above_the_buttons() -> None:
    """A heading without its line says nothing: "Starting it again", and not what is in doubt."""
    losses = Section("Stopping it loses", ("everything in RAM", *("local disks",) * 20))
    start = Section("Starting it again", ("The key of vol-1 is disabled.",))
    blocks = slack_blocks(make_message(sections=(losses, start)), interactive=True)
    (actions,) = [place for place, block in enumerate(blocks) if block["type"] == "actions"]
    shown = str(blocks[:actions])
    assert "Stopping it loses: everything in RAM (and 20 more lines below)" in shown
    assert "Starting it again: The key of vol-1 is disabled." in shown


@pytest.mark.parametrize("lead_lines", [4, 6, 20])
def test_three_sections_keep_their_first_lines_also_below_a_long_lead(lead_lines: int) -> None:
    """A key that prevents the next start decides about the answer: the button must not hide it."""
    losses = Section("What is lost", ("everything in RAM", "local disks"))
    tools = Section(
        "Other tools may undo it", ("Terraform: the next apply may start it again",) * 3
    )
    start = Section("Starting it again", ("The key of vol-1 is disabled.", "It needs capacity."))
    message = make_message(lead=("A line.",) * lead_lines, sections=(losses, tools, start))
    blocks = slack_blocks(message, interactive=True)
    (actions,) = [place for place, block in enumerate(blocks) if block["type"] == "actions"]
    shown = str(blocks[:actions])
    below = str(blocks[actions:])

    for section in (losses, tools, start):
        assert f"{section.heading}: {section.lines[0]}" in shown
        assert section.lines[-1] in below


def test_many_long_sections_stand_above_the_buttons_with_their_numbers() -> None:
    """Headings alone read as if the list were empty."""
    sections = tuple(Section(f"Part {number}", ("a line",) * 10) for number in range(5))
    blocks = slack_blocks(make_message(sections=sections), interactive=True)
    (actions,) = [place for place, block in enumerate(blocks) if block["type"] == "actions"]
    shown = str(blocks[:actions])
    assert all(f"Part {number} (10)" in shown for number in range(3))


def test_a_cut_message_says_so() -> None:
    """Nobody decides on half a list without knowing."""
    blocks = slack_blocks(make_message(sections=(Section("x", ("y",)),) * 80), interactive=True)
    assert "There is more on the page." in [node.get("text") for node in nodes(blocks)]


def test_lines_of_a_diff_are_not_joined() -> None:
    """Nobody answers a change of the policy, so nothing must stand above buttons."""
    before = "".join(f"a{number}: 1\n" for number in range(20))
    after = before.replace(": 1", ": 2")
    alert = version_alert(TARGET, "v1", "ada", "in-force", NOW, changes=difference(before, after))
    message = message_of(alert, None, link=None)
    text = json.dumps(slack_blocks(message, interactive=False))

    assert "-a19: 1" in text
    assert ": 1; " not in text


def test_lines_of_a_diff_have_neither_bullets_nor_dashes() -> None:
    """Behind a dash, a line that stays reads as one that is removed."""
    changes = difference("mode: ask\nversion: 1\n", "mode: auto\nversion: 1\n")
    alert = version_alert(TARGET, "v1", "ada", "in-force", NOW, risky=["mode"], changes=changes)
    message = message_of(alert, None, link=None)
    slack = json.dumps(slack_blocks(message, interactive=False), ensure_ascii=False)
    mail = email_document(message, sender="gpu@example.com", recipient="ada@example.com")
    text = mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]

    assert "• mode" in slack
    assert "• -mode: ask" not in slack
    assert "\n- mode\n" in text
    assert "\n-mode: ask\n+mode: auto\nversion: 1\n" in text


def test_joined_lines_can_be_told_apart() -> None:
    """A loss may contain a `;` of its own."""
    losses = tuple(f"loss {number}; for good" for number in range(30))
    message = make_message(sections=(Section("What is lost", losses),))
    text = json.dumps(slack_blocks(message, interactive=True), ensure_ascii=False)

    assert "loss 28; for good · loss 29; for good" in text
