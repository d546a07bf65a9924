"""Sends alerts over SNS, changes their queues in SQS, and sends mail through SES.

It only transports: who gets an alert and what it says is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from governor.alerts.console_pages import console_page_of
from governor.alerts.model import (
    FOR_MACHINES,
    QUESTIONS,
    REPEATS,
    SEAL,
    Alert,
    AlertKind,
    Seal,
    alert_document,
    sealed_text,
)
from governor.aws.clients import Adapter, Clients
from governor.core.catalog import list_price
from governor.core.errors import NobodyListens
from governor.core.units import daily_cost, printable, usd

_SUBJECT_CHARACTERS = 99
_MESSAGE_BYTES = 250_000
"""The longest whole message as sent, JSON in JSON. SNS takes 262,144 with the attributes."""
_TEXT_CHARACTERS = 8_000
"""The length of a text that is cut. Even if each character is escaped to twelve bytes, both copies
fit."""
_MACHINES = ("sqs", "lambda", "http", "https")
_REASON_CHARACTERS = 1000
_WHY = "You get this because this address is subscribed to GPU Governor's alert topic."
_RECORD_WITHOUT_LINK = "Its record: use the link in an earlier message about this instance."
"""In place of the link, for an alert about an episode whose sender cannot make one, such as those
that follow a start: they have no key for links."""
MAIL = ("email", "email-json")
_NO_MACHINES = {
    "kind": [{"exists": False}, {"anything-but": sorted(kind.value for kind in FOR_MACHINES)}]
}
_ONCE_A_CAUSE = {**_NO_MACHINES, REPEATS: [{"exists": False}]}
"""The filter policies of the template's subscriptions: they let every question through."""


def lets_questions_through(filter_policy: str | None) -> bool:
    """Return whether a subscription with this filter policy, JSON as SNS gives it, gets every
    question. True without a policy, and for those of the template; false for any other."""
    return json.loads(filter_policy or "{}") in ({}, _NO_MACHINES, _ONCE_A_CAUSE)


class SnsAnnouncer(Adapter):
    """The port `Announcer`: SNS has taken the message when `Publish` returns."""

    def __init__(
        self,
        clients: Clients,
        topic_arn: str,
        seal: Seal,
        *,
        console_url: str = "",
        long_timeout: bool = True,
    ) -> None:
        """Publish to the topic with this ARN, each alert with the seal that `seal` makes. With
        `console_url`, texts for people lead to the console. Without `long_timeout` a call to SNS
        gives up within seconds."""
        super().__init__(clients, topic_arn, long_timeout=long_timeout)
        self._seal = seal
        self._console_url = console_url

    def reaches(self, addresses: Collection[str]) -> bool:
        """Return whether a mail subscription of one of these addresses gets the questions.

        SNS takes a message even if nobody gets it, and anybody may subscribe, not only an owner. A
        subscription with a filter policy of its own does not count: it may leave questions out.

        Raises: NobodyListens if no subscription is confirmed; CloudError.
        """
        waiting = 0
        is_confirmed = False
        for page in self._pages("sns:ListSubscriptionsByTopic", TopicArn=self._resource):
            for subscription in page["Subscriptions"]:
                # SNS writes a word in place of the ARN until it is confirmed.
                arn = subscription["SubscriptionArn"]
                if arn == "PendingConfirmation":
                    waiting += 1
                    continue
                if not arn.startswith("arn:"):
                    continue
                is_confirmed = True
                if _is_mail_to(addresses, subscription) and self._gets_questions(arn):
                    return True
        if not is_confirmed:
            waits = f" ({waiting} wait to be confirmed)" if waiting else ""
            raise NobodyListens(
                f"no subscription of the alert topic is confirmed{waits}, so nobody would be "
                f"notified: subscribe to {self._resource} and confirm",
                operation="sns:Publish",
            )
        return False

    def _gets_questions(self, arn: str) -> bool:
        """Return whether the filter of the subscription with this ARN lets every question through.
        Raises: CloudError."""
        answer = self._call("sns:GetSubscriptionAttributes", SubscriptionArn=arn)
        return lets_questions_through(answer["Attributes"].get("FilterPolicy"))

    def announce(self, alert: Alert) -> None:
        """Seal an alert and publish it to the topic. Its kind, severity, account, Region, owner,
        project and repetition are attributes for filters of subscriptions, without those that are
        empty. Raises: CloudError, also if KMS does not seal it."""
        attributes = {
            "kind": alert.kind.value,
            "severity": alert.severity.value,
            "account": alert.account,
            "region": alert.region,
            "owner": alert.owner,
            "project": alert.project,
            REPEATS: "true" if alert.facts.get(REPEATS) else "",
        }
        message_attributes = {}
        for name, value in attributes.items():
            if value:
                message_attributes[name] = {"DataType": "String", "StringValue": value}
        self._call(
            "sns:Publish",
            TopicArn=self._resource,
            Subject=subject_of(alert),
            MessageStructure="json",
            Message=json.dumps(message_of(alert, self._seal, self._console_url)),
            MessageAttributes=message_attributes,
        )


class SqsQueue(Adapter):
    """A queue of messages."""

    def retry_after(self, receipt: str, seconds: int) -> None:
        """Let the queue hand out a received message again only after this many seconds. Raises:
        CloudError."""
        self._change(
            "sqs:ChangeMessageVisibility", ReceiptHandle=receipt, VisibilityTimeout=seconds
        )

    def send_later(self, body: str, seconds: int) -> None:
        """Queue a message that is handed out after this many seconds, 900 at most, as SQS allows.
        Raises: CloudError."""
        self._change("sqs:SendMessage", MessageBody=body, DelaySeconds=seconds)

    def _change(self, operation: str, **parameters: Any) -> None:
        """Call SQS with the URL of the queue. Raises: CloudError."""
        self._call(operation, QueueUrl=self._resource, **parameters)


class SqsDeadLetters(SqsQueue):
    """Keeps a message that cannot be used, with the reason as the attribute `ErrorMessage`."""

    def keep(self, body: str, reason: str) -> None:
        """Put a body into the dead-letter queue, with the reason in 1,000 characters at most.
        Raises: CloudError."""
        attribute = {"DataType": "String", "StringValue": printable(reason)[:_REASON_CHARACTERS]}
        self._change(
            "sqs:SendMessage", MessageBody=body, MessageAttributes={"ErrorMessage": attribute}
        )

    def dead_letter(self, alert: Alert, why: str) -> None:
        """Put an alert that was given up into the dead-letter queue, with the reason. Raises:
        CloudError.

        The body is what the delivery queue takes to try the alert again. So SQS's own redrive can
        put it back, if it is given that queue as the destination.
        """
        self.keep(json.dumps({"again": alert_document(alert)}), why)


class SesMailService(Adapter):
    """Fulfils `governor.notify.email.MailService`. It sends once: if the answer is lost, the
    queue repeats the delivery."""

    def send(self, sender: str, recipient: str, document: bytes) -> str:
        """Send the mail; return the id that SES gives it. Raises: CloudError."""
        answer = self._call(
            "sesv2:SendEmail",
            repeat=False,
            FromEmailAddress=sender,
            Destination={"ToAddresses": [recipient]},
            Content={"Raw": {"Data": document}},
        )
        return str(answer["MessageId"])


def _is_mail_to(addresses: Collection[str], subscription: Mapping[str, str]) -> bool:
    """Return whether a subscription sends mail to one of these addresses (lower case)."""
    return subscription["Protocol"] in MAIL and subscription["Endpoint"].lower() in addresses


def subject_of(alert: Alert) -> str:
    """Return the alert's subject as SNS takes it: printable ASCII on one line, under 100
    characters; the alert's kind if nothing is left of it."""
    text = printable(alert.subject).encode("ascii", "replace").decode()
    return text[:_SUBJECT_CHARACTERS] or alert.kind.value


def message_of(alert: Alert, seal: Seal, console_url: str = "") -> dict[str, str]:
    """Return the text of an alert by protocol (`email`, `sqs`, and `default` for others), with the
    alert's seal in those for machines. With `console_url`, the text of an alert without a link
    leads to the page of the console that shows what it is about.

    A message too long for SNS loses its facts but the episode, then the end of its text, then its
    lines; JSON that lost anything says `"cut": true`. The seal is that of the alert as it is sent.
    Raises: CloudError if KMS does not seal it.
    """
    text = readable(alert, console_url)
    brief_facts = {}
    if "episode" in alert.facts:
        brief_facts["episode"] = alert.facts["episode"]
    brief = replace(alert, facts=brief_facts)
    briefest = replace(brief, lines=(), subject=subject_of(alert))
    # From the whole message to the shortest. The facts go first, and the lines last.
    versions = ((text, alert), (text, brief), (_cut(text), brief), (_cut(text), briefest))
    for shown, sent in versions:
        if len(json.dumps(_by_protocol(shown, alert_document(sent)))) <= _MESSAGE_BYTES:
            break
    sealed = replace(sent, facts={**sent.facts, SEAL: seal(sealed_text(sent))})
    document = alert_document(sealed)
    if sent is not alert:
        document = {**document, "cut": True}
    return _by_protocol(shown, document)


def readable(alert: Alert, console_url: str = "") -> str:
    """Return the text for people: the alert's lines (its subject if it has none), for a failure who
    gets others like it, its link unless a line has it, where to find one if an alert about an
    episode has none, the facts about the instance, and why the mail came.

    An alert about no episode has the address of its page in the console at `console_url`, if that
    is known and a page shows what it is about.
    """
    lines = list(alert.lines) or [subject_of(alert)]
    if alert.kind is AlertKind.FAILURE:
        lines.append(
            "Within the hour, other failures for the same reason go only to the contacts of their "
            "owners."
        )
    if alert.link is not None and not any(alert.link in line for line in lines):
        lines += ["", f"{_link_text(alert)}: {alert.link}"]
    if alert.link is None and "episode" in alert.facts:
        lines += ["", _RECORD_WITHOUT_LINK]
    elif alert.link is None:
        lines += _console_lines(alert, console_url)
    about = alert.about
    rows = about.rows(_unpriced(about.instance_type))
    if rows:
        lines += ["", *(f"{label}: {value}" for label, value in rows)]
    lines += ["", _WHY]
    return "\n".join(lines)


def _console_lines(alert: Alert, console_url: str) -> list[str]:
    """Return an empty line and the address of the alert's page in the console; empty if the address
    of the console is not known, or no page shows what the alert is about."""
    page = console_page_of(alert)
    if not console_url or page is None:
        return []
    return ["", f"{page.button}: {page.url(console_url)}"]


def _link_text(alert: Alert) -> str:
    """Return the words before the link in a message: `Stop or keep it` or `Terminate or keep it`
    for a question, `See the record` for any other alert."""
    if alert.kind not in QUESTIONS:
        return "See the record"
    verb = "Terminate" if "terminate" in str(alert.facts.get("steps")) else "Stop"
    return f"{verb} or keep it"


def _unpriced(instance_type: str | None) -> str:
    """Return the text for a cost that is not known, with the list price of the type if there is
    one; without a price if the type is not known (`None`) either.

    A function that responds to events has no time to read the price.
    """
    price = list_price(instance_type or "")
    if price is None:
        return "not known"
    listed = f"{usd(price)} an hour, {usd(daily_cost(price))} a day"
    return f"not known; the list price (On-Demand, us-east-1) is {listed}"


def _by_protocol(text: str, data: Mapping[str, object]) -> dict[str, str]:
    """Return the message for each protocol of SNS: text for people, JSON for machines."""
    return {"default": text, "email": text, **dict.fromkeys(_MACHINES, json.dumps(data))}


def _cut(text: str) -> str:
    """Return the text; if it is longer than `_TEXT_CHARACTERS`, cut there, with a last line that
    says so."""
    if len(text) <= _TEXT_CHARACTERS:
        return text
    return text[:_TEXT_CHARACTERS] + "\n(cut)"
