"""Mail scanners, link previews and prefetchers open every link of every message, again and
again."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import product

from governor.approvals.model.approval import ApprovalStatus
from tests.integration.people import decide, request
from tests.integration.stage import Stage
from tests.integration.test_delivery import (
    AT_ONCE,
    PEOPLE,
    await_mail,
    await_received,
    send_together,
)

OPENED_TIMES = 20
_LINK = re.compile(r"""https?://[^\s"'<>\\|]+/q/[^\s"'<>\\|)]+""")


def links_in(text: str) -> set[str]:
    """Every link to a page, as a scanner finds them in a text, a page or a JSON document."""
    return {unescape(found) for found in _LINK.findall(text)}


def test_links_that_are_opened_decide_nothing(stage: Stage) -> None:
    """Each link of an episode's messages in every channel, by GET and HEAD: nobody has decided, and
    the workflow waits."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id, _ = stage.ask()
    alice = await_mail(stage, instance_id, "alice@example.com")
    messages = {
        "topic": stage.await_mail(instance_id, "approval-requested")["_envelope"]["Message"],
        "mail as text": alice["BodyText"],
        "mail as HTML": alice["BodyHtml"],
        "mail to somebody else": await_mail(stage, instance_id, "bob@example.com")["BodyText"],
    }
    for channel in ("slack", "teams", "webhook"):
        sent = await_received(stage, channel, instance_id)
        messages[channel] = json.dumps([one.payload for one in sent], ensure_ascii=False)
    found = {name: links_in(message) for name, message in messages.items()}

    assert set() == {name for name, links in found.items() if not links}, (
        "no link was found in these"
    )
    urls = {stage.scene.cloud.reachable_url(link) for links in found.values() for link in links}
    recipients = {stage.whose(url) for url in urls}
    assert {"alice@example.com", "bob@example.com", "broadcast"} == recipients
    open_all(urls, OPENED_TIMES)

    assert_undecided(stage, instance_id)


def test_links_of_every_stage_decide_nothing_and_those_of_the_end_undo_nothing(
    stage: Stage,
) -> None:
    """Question, reminder, escalation, first yes, outcome; whoever got them."""
    quick = "remind_after_minutes: 0.05, escalate_after_minutes: 0.05, expire_after_minutes: 60"
    stage.policy(
        f"mode: ask\nplan: {{action: terminate}}\n"
        f"approval: {{digest_from: 0, two_people_above_usd_per_hour: 0.1, {quick}}}{PEOPLE}"
    )
    instance_id, _ = stage.ask()
    await_mail(stage, instance_id, "finops@example.com", "Escalation")
    before = every_link(stage, instance_id)
    people = {stage.whose(url) for url in before}
    assert {"alice@example.com", "bob@example.com", "finops@example.com", "broadcast"} == people
    open_all(before)
    assert_undecided(stage, instance_id, "Escalate")

    of = {stage.whose(url): url for url in sorted(before)}
    assert 303 == decide(of["alice@example.com"], "approve", typed_instance_id=instance_id)[0]
    await_mail(stage, instance_id, "bob@example.com", "a second person approves")
    open_all(every_link(stage, instance_id))
    approval = stage.state.approval(stage.episode(instance_id).approval_id)
    assert approval is not None
    assert (ApprovalStatus.PENDING, None) == (approval.status, approval.decision)

    until = f"{datetime.now(tz=UTC) + timedelta(hours=4):%Y-%m-%dT%H:%M:%SZ}"
    assert 303 == decide(of["bob@example.com"], "keep", keep_until=until)[0]
    assert "kept" == stage.outcome(instance_id)
    await_mail(stage, instance_id, "finops@example.com", "is left alone until")
    open_all(every_link(stage, instance_id))
    assert ("kept", "running") == (stage.outcome(instance_id), stage.ec2_state(instance_id))


def test_links_of_a_digest_decide_nothing(stage: Stage) -> None:
    """One page with the questions of several."""
    stage.policy(
        "mode: ask\napproval: {digest_from: 2, digest_after_seconds: 900, "
        "delivery_limit_minutes: 60}" + PEOPLE
    )
    ids = [stage.launch() for _ in range(2)]
    stage.scene.sweep()
    send_together(stage, ids)
    mail = await_mail(stage, ids[0], "alice@example.com", "unless you stop them")
    assert mail["Subject"].startswith("2 idle GPU instances")
    for instance_id in ids:
        open_all(every_link(stage, instance_id))
        assert_undecided(stage, instance_id)


def every_link(stage: Stage, instance_id: str) -> set[str]:
    """All links of all messages about an instance so far: the topic, mail to everybody, and every
    channel."""
    texts = [
        m["_envelope"]["Message"]
        for m in stage.scene.read_mail()
        if m["instance_id"] == instance_id
    ]
    for mail in stage.scene.sent_mail():
        if instance_id in mail["BodyText"]:
            texts += [mail["BodyText"], mail["BodyHtml"]]
    for one in stage.scene.receivers.received():
        if instance_id in (text := json.dumps(one.payload, ensure_ascii=False)):
            texts.append(text)
    links = {stage.scene.cloud.reachable_url(link) for text in texts for link in links_in(text)}
    assert links
    return links


def open_all(urls: set[str], times: int = 2) -> None:
    """Each by GET and HEAD, again and again, by several at once; every answer is a page."""
    visits = product(sorted(urls), ("GET", "HEAD"), range(times))
    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(lambda visit: request(visit[0], visit[1])[0], visits))
    assert {200} == statuses


def assert_undecided(stage: Stage, instance_id: str, waits_in: str = "AwaitAnswer") -> None:
    """Nobody has said anything, nothing was done, and the workflow waits."""
    episode = stage.episode(instance_id)
    approval = stage.state.approval(episode.approval_id)
    assert approval is not None
    assert (ApprovalStatus.PENDING, None, None) == (
        approval.status,
        approval.decision,
        approval.first_yes,
    )
    assert (None, {}) == (episode.outcome, dict(episode.progress.steps_done))
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]
    assert waits_in == stage.history(instance_id)[-1]
    assert "running" == stage.ec2_state(instance_id)
