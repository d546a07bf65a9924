"""The console on the deployed stack, with its role enforced: in by `governor open`, an answer, and
out."""

from __future__ import annotations

import json
import re
from urllib.parse import urljoin

import pytest

from cli.governor import main
from governor.web.sessions import SESSION_COOKIE
from local.demo.scene import STACK
from tests.console_world import without_id_marks
from tests.integration.people import Answer, Browser, decide, hidden_fields
from tests.integration.stage import Stage


@pytest.fixture
def site(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> str:
    """The console's address, which the command line finds, too."""
    url = stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"] + "/")
    monkeypatch.setenv("GOVERNOR_API_URL", url)
    return url


def code_of(stage: Stage, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The page that `governor open` leads to, and the code."""
    assert 0 == main(["open", "--print"])
    page, _, code = capsys.readouterr().out.splitlines()[-1].partition("#")
    return stage.scene.cloud.reachable_url(page), code


def enter(browser: Browser, page: str, code: str) -> Answer:
    assert "governor open" in browser.get(page).body
    shown = browser.post(page, {"code": code, "answer": "show"})
    assert 200 == shown.status, shown.body
    return browser.post(page, {**hidden_fields(shown.body), "answer": "open"})


def test_a_code_leads_in_and_an_answer_is_on_record(
    stage: Stage, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named first, good once; the answer is that of the links; a copy of the cookie ends with
    it."""
    browser, other = (
        Browser(stage.scene.receivers.certificate),
        Browser(stage.scene.receivers.certificate),
    )
    page, code = code_of(stage, capsys)
    shown = browser.post(page, {"code": code, "answer": "show"}).body
    arn = re.findall(r"<strong>(arn:[^<]+)</strong>", without_id_marks(shown))[0]
    assert (401, True) == ((first := browser.get(site)).status, "governor open" in first.body)
    scope = {"identities": [arn], "role": "approver", "everything": True}
    stage.policy(json.dumps({"mode": "ask", "console": {"scopes": {"ops": scope}}}))
    instance_id, _ = stage.ask()
    stage.scene.sweep()  # which sees the question that the one before has asked

    page, code = code_of(stage, capsys)  # the first one ends while a busy machine sweeps
    assert 303 == enter(browser, page, code).status
    assert 403 == enter_again(other, page, code)
    listed = browser.get(urljoin(site, "questions"))
    assert (200, True) == (listed.status, stage.episode(instance_id).approval_id in listed.body)
    for path in (
        "",
        "fleet",
        "savings",
        "projects",
        f"instances/123456789012/us-east-1/{instance_id}",
    ):
        found = browser.get(urljoin(site, path))
        assert 200 == found.status, path
        [about] = re.findall(r'<p class="about">(.*?) · ', found.body)
        assert f"{STACK} (local cloud)" == about, path
        table = browser.get(urljoin(site, f"{path or 'overview'}.csv"))
        assert (200, False) == (table.status, "<" in table.body), path
    assert 404 == browser.get(urljoin(site, "instances/999900001111/us-east-1/i-0")).status

    own = urljoin(site, f"questions/{stage.episode(instance_id).approval_id}")
    csrf = re.findall(
        r'aria-label="Keep it for now">\s*<input type="hidden" name="csrf" value="([^"]+)"',
        browser.get(own).body,
    )
    assert 303 == browser.post(own, {"csrf": csrf[0], "answer": "keep", "keep_until": ""}).status
    assert "kept" == stage.outcome(instance_id)
    approval = stage.state.approval(stage.episode(instance_id).approval_id)
    assert approval is not None
    decision = approval.decision
    assert decision is not None
    assert (f"aws:{arn}", "console") == (decision.by, decision.channel)

    other.cookies = dict(browser.cookies)
    assert 200 == other.get(site).status
    token = re.findall(
        r'action="/sign-out"><input type="hidden" name="csrf" value="([^"]+)"',
        browser.get(site).body,
    )
    assert 200 == browser.post(urljoin(site, "sign-out"), {"csrf": token[0]}).status
    assert (False, 401) == (SESSION_COOKIE in browser.cookies, other.get(site).status)


def test_what_was_stopped_there_is_started_there(
    stage: Stage, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its role, which may ask the one function that starts instances, and by the same rules as a
    link."""
    browser = Browser(stage.scene.receivers.certificate)
    page, code = code_of(stage, capsys)
    shown = browser.post(page, {"code": code, "answer": "show"}).body
    arn = re.findall(r"<strong>(arn:[^<]+)</strong>", without_id_marks(shown))[0]
    scope = {"identities": [arn], "role": "approver", "everything": True}
    may = {"cli_may": ["keep", "undo"]}
    stage.policy(
        json.dumps({"mode": "ask", "console": {"scopes": {"ops": scope}}, "approval": may})
    )
    instance_id, link = stage.ask()
    decide(link, "approve")
    assert "stopped" == stage.outcome(instance_id)
    page, code = code_of(stage, capsys)
    assert 303 == enter(browser, page, code).status
    own = urljoin(site, f"questions/{stage.episode(instance_id).approval_id}")
    form = browser.get(own).body.split('aria-label="Still needed?"')[1].split("</form>")[0]

    assert 303 == browser.post(own, {**hidden_fields(form), "answer": "undo"}).status

    stage.eventually(lambda: "running" == stage.ec2_state(instance_id) or None, "it does not run")
    stage.eventually(
        lambda: "Started again by" in browser.get(own).body or None, "its start was not recorded"
    )


def enter_again(browser: Browser, page: str, code: str) -> int:
    return browser.post(page, {"code": code, "answer": "open"}).status
