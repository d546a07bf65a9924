"""The question in a real browser: every answer, at a desk and with a phone, is taken once and
told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.integration.stage import Stage

KEEP, MORE = "Keep until", "Keep longer, never ask again, or see every GPU and the numbers"
MORNING = re.compile(r" \w{3} 09:00 UTC \(\$[\d.]+\)")
"""The next working day, and what the instance costs until then."""


def test_approve_and_watch_the_record(stage: Stage, visitor: Visitor) -> None:
    """One press stops it; the page becomes the record and follows the steps to the end by
    itself. Question and record are dark where the device is, with contrast enough for axe-core."""
    instance_id, link = stage.ask(data_gib=50)
    link = stage.personal(link)

    assert 200 == visitor.open(link)
    visitor.assert_at_ease()
    assert [KEEP] == [MORNING.sub("", text) for text in visitor.offered()]
    busiest = "Utilization of the busiest GPU over 24"
    assert 1 == visitor.page.get_by_role("img", name=busiest).count()
    assert visitor.page.locator(".picture .gap").count()
    visitor.unfold()
    visitor.assert_at_ease()
    _assert_picture_is_whole(visitor)
    assert [KEEP, "Stop it", "Keep it", "Exempt it"] == [
        MORNING.sub("", text) for text in visitor.offered()
    ]
    visitor.page.emulate_media(color_scheme="dark")
    ground = visitor.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert "rgb(13, 17, 23)" == ground
    visitor.assert_at_ease()
    visitor.page.emulate_media(color_scheme="light")
    visitor.page.get_by_label("I accept that data on its local disks is lost for good").check()
    assert 200 == visitor.press("Stop it")

    assert "Approved by alice@example.com" in visitor.text()
    visitor.assert_at_ease()
    visitor.await_outcome("Stopped")
    assert "stopped" == stage.outcome(instance_id)
    visitor.await_text("Start it again…")
    visitor.assert_at_ease()
    visitor.page.emulate_media(color_scheme="dark")
    visitor.assert_at_ease()


def _assert_picture_is_whole(visitor: Visitor) -> None:
    """The picture is drawn, can be named by a screen reader, and a table says what was judged."""
    assert 1 == visitor.page.get_by_role("img", name="Utilization of each GPU over 24").count()
    assert 1 == visitor.page.locator(".picture .threshold").count()
    assert 1 == visitor.page.locator(".picture .judged").count()
    assert visitor.page.get_by_role("table", name="The judged window").is_visible()


def test_keep_until_one_of_the_offered_times(stage: Stage, visitor: Visitor) -> None:
    """The record says until when, in the same words as the choice was made in."""
    instance_id, link = stage.ask()
    visitor.open(link)
    visitor.unfold()

    visitor.page.get_by_label("Keep it", exact=True).select_option(label="for a week")
    assert 200 == visitor.press("Keep it")

    assert "kept" == stage.outcome(instance_id)
    now = datetime.now(tz=UTC)
    assert f"Kept by alice@example.com (mail link), {now:%a} " in visitor.text()
    until = now + timedelta(days=7)
    assert f"until {until:%a %b} {until.day}, " in visitor.text()
    visitor.await_outcome("Kept")
    visitor.assert_at_ease()


def test_keep_until_a_date_of_ones_own(stage: Stage, new_visitor: NewVisitor) -> None:
    """It goes before the offered times; the picker knows the policy's latest date."""
    instance_id, link = stage.ask()
    visitor = new_visitor()
    visitor.open(link)
    visitor.unfold()
    day = datetime.now(tz=UTC) + timedelta(days=3)
    field = visitor.page.get_by_label("on a date of your choice")

    field.fill((datetime.now(tz=UTC) + timedelta(days=3650)).date().isoformat())
    visitor.page.get_by_role("button", name="Keep it").click()
    assert visitor.page.locator("#keep-date:invalid").count()
    field.fill(day.date().isoformat())
    assert 200 == visitor.press("Keep it")

    assert f"until {day:%a} 09:00 UTC" in visitor.text()
    assert "kept" == stage.outcome(instance_id)


def test_exempt_with_a_reason(stage: Stage, visitor: Visitor) -> None:
    """The reason stands on the record, as text, whatever is in it."""
    instance_id, link = stage.ask()
    visitor.open(stage.personal(link))
    visitor.unfold()

    visitor.page.get_by_label("Why").fill("license server <b>of all</b>")
    assert 200 == visitor.press("Exempt it")

    assert "license server <b>of all</b>" in visitor.text()
    visitor.await_outcome("Exempted")
    assert "exempted" == stage.outcome(instance_id)
    visitor.assert_at_ease()


def test_terminate_with_the_id_typed(stage: Stage, visitor: Visitor) -> None:
    """Nothing is sent without the id, another id is refused with words, the right one
    terminates."""
    stage.policy("mode: ask\nplan: {action: terminate}")
    instance_id, link = stage.ask()
    visitor.open(stage.personal(link))
    visitor.unfold()
    visitor.assert_at_ease()
    typed = visitor.page.get_by_label("Type the instance ID to terminate it")
    losses = visitor.page.get_by_label("I accept that data on its local disks is lost for good")

    losses.check()
    visitor.page.get_by_role("button", name="Terminate it").click()
    assert visitor.page.locator("#typed:invalid").count()
    typed.fill("i-0123456789abcdef0")
    assert 400 == visitor.press("Terminate it")
    assert "type its ID" in visitor.page.get_by_role("alert").inner_text()
    visitor.assert_at_ease()
    losses.check()
    typed.fill(instance_id)
    assert 200 == visitor.press("Terminate it")

    visitor.await_outcome("Terminated")
    assert "terminated" == stage.outcome(instance_id)
    assert "To rebuild it" in visitor.text()
    visitor.assert_at_ease()


def test_a_second_person_sees_the_first_one(stage: Stage, new_visitor: NewVisitor) -> None:
    """Whoever has said yes has no button left; the other's page names them."""
    stage.policy(
        "mode: ask\nplan: {action: terminate}\napproval: {two_people_above_usd_per_hour: 0.5}\n"
        "ownership: {contacts: {team: {emails: [alice@example.com, bob@example.com]}}}"
    )
    instance_id, link = stage.ask()
    alice, bob = new_visitor(), new_visitor("phone")

    for person, address in ((alice, "alice@example.com"), (bob, "bob@example.com")):
        person.open(stage.personal(link, address))
        if person is bob:
            assert "alice@example.com (mail link) approved " in bob.text()
        person.unfold()
        person.page.get_by_label("I accept that data on its local disks is lost for good").check()
        person.page.get_by_label("Type the instance ID to terminate it").fill(instance_id)
        assert 200 == person.press("Terminate it")
        person.assert_at_ease()
        if person is alice:
            alice.unfold()
            assert [KEEP, "Keep it", "Exempt it"] == [
                MORNING.sub("", text) for text in alice.offered()
            ]

    bob.await_outcome("Terminated")


def test_a_broadcast_link_offers_only_what_it_may(stage: Stage, new_visitor: NewVisitor) -> None:
    """No button for what would be refused; the page says what to use instead."""
    stage.policy("mode: ask\nplan: {action: terminate}")
    instance_id, _ = stage.ask()
    visitor = new_visitor()

    assert 200 == visitor.open(stage.question(instance_id))

    assert [KEEP] == [MORNING.sub("", text) for text in visitor.offered()]
    assert "It cannot be used to terminate or exempt" in visitor.text()
    visitor.assert_at_ease()


def test_without_javascript(stage: Stage, new_visitor: NewVisitor) -> None:
    """The whole way from the question to the end of the record. The browser itself sends nothing
    before the box is ticked that names what is lost."""
    instance_id, link = stage.ask()
    visitor = new_visitor("phone", java_script_enabled=False)
    visitor.open(link)
    visitor.unfold()

    visitor.page.get_by_role("button", name="Stop it").click()
    assert visitor.page.locator("input:invalid").count()
    assert "Stop it" in visitor.offered()
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]

    visitor.page.get_by_label("I accept that data on its local disks is lost for good").check()
    assert 200 == visitor.press("Stop it")
    assert "stopped" == stage.outcome(instance_id)
    visitor.page.get_by_role("link", name="refresh").click()

    visitor.await_outcome("Stopped")


def test_with_the_keyboard_alone(stage: Stage, new_visitor: NewVisitor) -> None:
    """Tab reaches every control in the order of the page, where the focus is can be seen, keys
    decide."""
    instance_id, link = stage.ask()
    # The page lists the messages sent once there are any.
    stage.await_recorded_delivery(instance_id)
    visitor = new_visitor()
    visitor.open(stage.personal(link))
    keyboard, reached = visitor.page.keyboard, list[str]()

    for _ in range(20):
        keyboard.press("Tab")
        focused = visitor.focused("node => node.id || node.innerText")
        name = MORNING.sub("", " ".join(focused.split()))
        if visitor.focused("node => node.tagName") == "BODY":
            break
        reached.append(name)
        outline = visitor.focused("node => getComputedStyle(node).outlineStyle")
        assert "none" != outline, f"the focus on {name} is not to be seen"
    folded = [
        "Choose how long to keep it",
        "Never ask about it",
        "If you stop it",
        "Every GPU, and the numbers",
    ]
    rest = ["The instance and its volumes", "Messages sent"]
    first = ["Skip to the content", KEEP, "Stop it…", MORE]
    assert [*first, *folded, *rest] == reached

    visitor.open(stage.personal(link))
    visitor.page.get_by_text("Stop it…").focus()
    for key in ("Enter", "Tab", "Space", "Tab", "Enter"):
        keyboard.press(key)

    visitor.await_outcome("Stopped")
    assert "stopped" == stage.outcome(instance_id)
