"""A message and stand-ins for what the senders lean on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import urllib3

from governor.alerts.model import AlertKind, Facts, Section, Severity
from governor.approvals.model.approval import Answer
from governor.core.https import HttpAnswer, Https
from governor.notify.message import Message, Table

NOW = datetime(2026, 11, 20, 12, 2, 30, tzinfo=UTC)
EPISODE = "123456789012-us-east-1-i-0123456789abcdef0-20261119T080000Z-1"
LINK = "https://governor.example/approvals/a1?k=k1&r=ann&e=1795178550&s=c2lnbmF0dXJl"
FACTS = Facts(
    account="123456789012",
    region="us-east-1",
    owner="ann@example.com",
    project="vision",
    instance_id="i-0123456789abcdef0",
    instance_name="notebook",
    instance_type="p5.48xlarge",
    usd_per_day=Decimal("1320.96"),
)
EVIDENCE = Table(
    caption="GPU utilization, last 60 min",
    columns=("GPU", "Highest", "Average"),
    rows=(("0", "1.0%", "0.4%"), ("1", "0.0%", "0.0%")),
)
SECTIONS = (
    Section("Stopping it loses", ("8 local NVMe volumes of 3.8 TB",)),
    Section("If you stop it", ("stop the instance", "snapshot all its EBS volumes")),
)

STORED = {
    "slack_bot_token": "xoxb-1-abc",
    "slack_channel": "C0ALL",
    "slack_signing_secret": "f" * 32,
    "slack_webhook_url": "https://hooks.slack.example.com/services/secret",
    "slack_api_url": "https://slack.example.com/api",
    "teams_webhook_url": "https://teams.example.com/?sig=secret",
    "pagerduty_routing_key": "r" * 32,
    "pagerduty_events_url": "https://events.eu.pagerduty.example.com/v2/enqueue",
    "webhook_url": "https://hook.example.com/secret",
    "webhook_secret": "s" * 32,
    "webhook_previous_secret": "p" * 32,
}
"""A channel secret with every setting of every channel."""


def make_message(**changes: Any) -> Message:
    """The question about an idle p5.48xlarge, with all answers offered."""
    plain: dict[str, Any] = {
        "kind": AlertKind.APPROVAL_REQUESTED,
        "severity": Severity.WARNING,
        "title": "notebook idle 6 h 40 min, $1,321/day. Stop it?",
        "facts": FACTS,
        "episode": EPISODE,
        "stage": "ask",
        "at": NOW,
        "happens": "If nobody answers in time, nothing happens.",
        "lead": ("Every GPU stayed under 5% for 60 min.",),
        "sections": SECTIONS,
        "details": (Section("Restarting later", ("A stopped instance holds no capacity.",)),),
        "why": "You get this because the policy names you.",
        "button": "Stop or keep it",
        "evidence": EVIDENCE,
        "link": LINK,
        "approval_id": "apr-1",
        "answers": (Answer.APPROVE, Answer.KEEP, Answer.EXEMPT),
    }
    return Message(**{**plain, **changes})


def make_outcome(**changes: Any) -> Message:
    """How it ended: stopped."""
    plain: dict[str, Any] = {
        "kind": AlertKind.OUTCOME,
        "severity": Severity.INFO,
        "title": "notebook is stopped",
        "happens": "The instance is stopped.",
        "lead": (),
        "details": (),
        "button": "See the record",
        "stage": "stopped",
        "sections": (Section("Outcome", ("Approved by ann@example.com; stopped.",)),),
        "approval_id": None,
        "answers": (),
    }
    return make_message(**{**plain, **changes})


class FixedClock:
    """The port `Clock`; stands still."""

    def now(self) -> datetime:
        """Always the same moment."""
        return NOW


@dataclass
class FakeHttps(Https):
    """Gives the answers in turn (the last again and again), keeps what was sent."""

    answers: list[HttpAnswer] = field(default_factory=lambda: [HttpAnswer(200)])
    sent: list[tuple[str, bytes, Mapping[str, str]]] = field(default_factory=list)
    fault: urllib3.exceptions.HTTPError | None = None

    def send(
        self, method: str, url: str, body: str | bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        """A status of 0 stands for no answer."""
        assert "POST" == method
        assert isinstance(body, bytes)
        self.sent.append((url, body, headers))
        if self.fault is not None:
            raise self.fault
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.status == 0:
            raise urllib3.exceptions.TimeoutError
        return answer


def as_read(page: str) -> str:
    """The HTML of a mail as it reads: with plain spaces, and without the marks that keep an id on
    one line."""
    unmarked = re.sub(r'<span style="display:inline-block;[^"]*">(.*?)</span>', r"\1", page)
    return unmarked.replace("\xa0", " ")
