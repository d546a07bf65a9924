"""Mail scanners, link previews and prefetchers open every link of every message, again and again."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from itertools import product
from urllib.parse import parse_qs, urlsplit

from governor.domain.approval import ApprovalStatus
from tests.integration.people import request
from tests.integration.stage import Stage
from tests.integration.test_delivery import AT_ONCE, PEOPLE, await_mail, await_received

OPENED_TIMES = 20
_LINK = re.compile(r"""https?://[^\s"'<>\\|]+/approvals/[^\s"'<>\\|)]+""")


def links_in(text: str) -> set[str]:
    """Every link to a page, as a scanner finds them in a text, a page or a JSON document."""
    return {unescape(found) for found in _LINK.findall(text)}


def test_links_that_are_opened_decide_nothing(stage: Stage) -> None:
    """Each link of an episode's messages in every channel, by GET and HEAD: nobody has decided, and the
    workflow waits."""
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

    assert set() == {name for name, links in found.items() if not links}, "no link was found in these"
    urls = {stage.scene.cloud.reachable_url(link) for links in found.values() for link in links}
    recipients = {parse_qs(urlsplit(url).query)["r"][0] for url in urls}
    assert {"alice@example.com", "bob@example.com", "broadcast"} == recipients
    visits = product(sorted(urls), ("GET", "HEAD"), range(OPENED_TIMES))
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda visit: request(visit[0], visit[1])[0], visits))

    assert {200} == set(statuses)
    episode = stage.episode(instance_id)
    approval = stage.state.approval(episode.approval_id)
    assert approval is not None
    assert (ApprovalStatus.PENDING, None, None) == (approval.status, approval.decision, approval.first_yes)
    assert (None, {}) == (episode.outcome, dict(episode.steps_done))
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]
    assert "AwaitAnswer" == stage.history(instance_id)[-1]
    assert "running" == stage.ec2_state(instance_id)
