"""Links that no longer count, and pages of others that would like to decide: each says so, none
decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape

from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.integration.people import hidden_fields
from tests.integration.stage import Stage


def test_a_used_link(stage: Stage, new_visitor: NewVisitor) -> None:
    """People who still have the question open are told who was faster; the link then shows the
    record."""
    instance_id, link = stage.ask()
    alice, bob = new_visitor(), new_visitor("phone")
    alice.open(stage.personal(link))
    bob.open(stage.personal(link, "bob@example.com"))

    alice.unfold()
    bob.unfold()
    assert 200 == alice.press("Keep it")
    bob.page.get_by_label("Why").fill("ours")
    assert 409 == bob.press("Exempt it")

    assert bob.page.get_by_role("alert").is_visible()
    assert "Kept by alice@example.com" in bob.text()
    bob.assert_at_ease()
    assert "kept" == stage.outcome(instance_id)
    assert 200 == bob.open(stage.personal(link, "bob@example.com"))
    assert ["End this keep"] == bob.offered()


def test_an_expired_and_an_altered_link(stage: Stage, visitor: Visitor) -> None:
    """Each has a page of its own, readable, without a word about the instance."""
    instance_id, link = stage.ask()
    expired = stage.personal(link, expires_at=datetime.now(tz=UTC) - timedelta(seconds=1))
    altered = link[:-1] + ("A" if link[-1] != "A" else "B")

    for url, status, heading in (
        (expired, 410, "This link has expired"),
        (altered, 403, "This link is not valid"),
    ):
        assert status == visitor.open(url)
        assert heading == visitor.page.get_by_role("heading").inner_text()
        assert instance_id not in visitor.page.content()
        visitor.assert_at_ease()


def test_the_gpu_woke_up(stage: Stage, visitor: Visitor) -> None:
    """Pressed after the question was taken back: refused, with when and why, and nothing was
    done."""
    instance_id, link = stage.ask()
    visitor.open(stage.personal(link))
    stage.wake(instance_id)
    stage.policy("mode: ask\nhealth: {enabled: false}")  # or it is read within a quarter of an hour
    stage.scene.sweep()
    assert "woke-up" == stage.outcome(instance_id)

    visitor.unfold()
    visitor.page.get_by_label("I accept that data on its local disks is lost for good").check()
    assert 409 == visitor.press("Stop it")

    assert "Nothing was changed" in visitor.text()
    assert [] == visitor.offered()
    assert "running" == stage.ec2_state(instance_id)
    visitor.assert_at_ease()


def test_the_gpu_woke_up_after_the_approval(stage: Stage, new_visitor: NewVisitor) -> None:
    """The record says that the approval counted for nothing."""
    instance_id, link = stage.ask()
    visitor = new_visitor()
    visitor.open(stage.personal(link))
    stage.wake(instance_id)

    visitor.unfold()
    visitor.page.get_by_label("I accept that data on its local disks is lost for good").check()
    visitor.press("Stop it")

    visitor.await_outcome("Busy again")
    assert "running" == stage.ec2_state(instance_id)
    visitor.assert_at_ease()


def test_no_other_page_frames_it_and_no_other_site_posts_its_form(
    stage: Stage, new_visitor: NewVisitor
) -> None:
    """Clickjacking: the browser shows nothing of the question inside another page. A form of
    another site is refused, even if it has all the fields: the browser says where it comes from."""
    instance_id, link = stage.ask()
    # Settings of no other test: in a window that has shown other pages, Chromium does not say why.
    visitor = new_visitor(locale="en-GB")

    with visitor.page.expect_console_message(lambda said: "frame-ancestors" in said.text):
        visitor.page.set_content(f'<iframe src="{escape(link)}"></iframe>')
    assert 0 == visitor.page.frame_locator("iframe").get_by_role("button").count()

    visitor.open(link)
    fields = {**hidden_fields(visitor.page.content()), "answer": "keep"}
    inputs = "".join(f'<input name="{escape(k)}" value="{escape(v)}">' for k, v in fields.items())
    visitor.page.goto("about:blank")
    visitor.page.set_content(
        f'<form method="post" action="{escape(link)}">{inputs}<button>Win</button></form>'
    )
    assert 403 == visitor.press("Win")

    assert "came from another site" in visitor.text()
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]
