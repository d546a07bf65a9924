"""The record, the digest and the mail in a real browser."""

from __future__ import annotations

from tests.browser.visitor import Visitor
from tests.integration.people import decide
from tests.integration.stage import Stage
from tests.integration.test_delivery import AT_ONCE, PEOPLE, await_mail, link_in, send_together


def test_undo_on_the_record(stage: Stage, visitor: Visitor) -> None:
    """Start it again, confirmed with its cost; a lack of capacity is told in words and can be tried
    again."""
    instance_id, link = stage.ask()
    decide(link, "approve")
    assert "stopped" == stage.outcome(instance_id)
    visitor.open(stage.personal(stage.question(instance_id, "outcome")))
    stage.scene.simulation.set_fault("ec2:StartInstances", "InsufficientInstanceCapacity")

    visitor.page.get_by_text("Start it again…").click()
    assert 409 == visitor.press("Start it: $24 a day")
    assert "no free capacity" in visitor.page.get_by_role("alert").inner_text()
    visitor.assert_at_ease()
    assert 200 == visitor.press("Start it: $24 a day")

    assert "EC2 accepted. This page will show when it runs" in visitor.text()
    assert [] == visitor.offered()
    stage.eventually(lambda: "Started again by" in visitor.text() or None, "nobody says so")
    assert "running" == stage.ec2_state(instance_id)
    visitor.assert_at_ease()


def test_many_questions_on_one_page(stage: Stage, visitor: Visitor) -> None:
    """Ticked questions are answered, others stay open and can be looked at alone."""
    stage.policy(
        "mode: ask\napproval: {digest_after_seconds: 900, delivery_limit_minutes: 60}" + PEOPLE
    )
    ids = [stage.launch(name=f"forgotten-{number}") for number in range(3)]
    stage.scene.sweep()
    send_together(stage, ids)
    visitor.open(
        link_in(stage, await_mail(stage, ids[0], "alice@example.com", "unless you stop them"))
    )
    assert "3 idle GPU instances" in visitor.text()
    visitor.assert_at_ease()

    assert "Select the instances" in visitor.text()
    for name in ("forgotten-0", "forgotten-2"):
        visitor.page.get_by_label(name).check()
    assert "2 selected, $" in visitor.text()
    assert 200 == visitor.press("Keep")

    assert 2 == visitor.text().count(": Recorded: ")
    visitor.assert_at_ease()
    assert ["kept", "kept"] == [stage.outcome(ids[0]), stage.outcome(ids[2])]
    assert "RUNNING" == stage.scene.executions()[ids[1]]["status"]
    assert visitor.page.get_by_role("button", name="Keep", exact=True).is_disabled()
    row = visitor.page.locator(".question").filter(has_text="forgotten-1")
    row.get_by_role("link", name="Open forgotten-1").click()
    visitor.page.get_by_text("Stop it…").wait_for()


def test_the_mail(stage: Stage, visitor: Visitor) -> None:
    """Readable in light and dark, and its button leads to the question."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id, _ = stage.ask()
    mail = await_mail(stage, instance_id, "alice@example.com")

    for scheme in ("light", "dark"):
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.page.set_content(mail["BodyHtml"])
        visitor.assert_at_ease(is_mail=True)
    link = visitor.page.get_by_role("link", name="Stop or keep it").get_attribute("href")
    assert 200 == visitor.open(stage.scene.cloud.reachable_url(str(link)))
    assert visitor.page.get_by_text("Stop it…").is_visible()
