"""Messages reach people through every channel, each once, with what may pass repeated and what may
not told."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError

from local.demo.receivers import Received
from local.engine.cloud import ANSWER_SECONDS
from tests.episodes import ending_of
from tests.integration.people import decide, request
from tests.integration.stage import Stage

PEOPLE = """
ownership:
  contacts:
    ml-team: {emails: [alice@example.com, bob@example.com]}
    finops: {emails: [finops@example.com]}
  default_contacts: [ml-team]
  escalation_contacts: [finops]
"""

AT_ONCE = "{digest_from: 0, digest_after_seconds: 0}"


def received(stage: Stage, channel: str, instance_id: str) -> list[Received]:
    """Return what a channel has taken about an instance."""
    every = stage.scene.receivers.received(channel)
    return [one for one in every if one.status < 300 and instance_id in str(one.payload)]


def await_received(stage: Stage, channel: str, instance_id: str, count: int = 1) -> list[Received]:
    """The same, once there are as many."""

    def arrived() -> list[Received] | None:
        found = received(stage, channel, instance_id)
        return found if len(found) >= count else None

    return stage.eventually(arrived, f"no {count} messages of {channel} about {instance_id}")


def await_mail(
    stage: Stage, instance_id: str, address: str, title: str = " keeps running unless you "
) -> dict[str, Any]:
    """The mail to one person, once SES has taken it."""

    def arrived() -> dict[str, Any] | None:
        mails = [
            mail
            for mail in stage.scene.sent_mail()
            if mail["To"] == [address]
            and instance_id in mail["BodyText"]
            and title in mail["Subject"]
        ]
        return mails[0] if mails else None

    return stage.eventually(arrived, f"no mail to {address} about {instance_id}")


def send_together(stage: Stage, ids: Sequence[str]) -> None:
    """Has the questions about these instances sent, once all wait together: however long that takes
    here."""
    cloud, table = stage.scene.cloud, stage.scene.outputs["StateTableName"]

    def waiting() -> str | None:
        found = cloud.client("dynamodb").scan(
            TableName=table,
            FilterExpression="begins_with(pk, :outbox)",
            ExpressionAttributeValues={":outbox": {"S": "OUTBOX#"}},
        )
        for group in {str(item["pk"]["S"]).partition("#")[2] for item in found["Items"]}:
            texts = [text for _, text in stage.state.outbox(group)]
            # Messages of other tests may wait as well.
            if all(any(one in text for text in texts) for one in ids):
                return group
        return None

    group = stage.eventually(waiting, f"no questions about {', '.join(ids)} wait to go together")
    queue = next(
        url for url in cloud.client("sqs").list_queues()["QueueUrls"] if "DeliveryQueue" in url
    )
    cloud.client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps({"flush": group}))


def link_in(stage: Stage, mail: dict[str, Any]) -> str:
    """The link of a mail's text."""
    found = re.search(r"^https?://\S+", mail["BodyText"], re.MULTILINE)
    assert found is not None
    return stage.scene.cloud.reachable_url(found[0])


def test_a_question_reaches_every_channel_and_each_person_by_a_link_of_their_own(
    stage: Stage,
) -> None:
    """Slack, Teams, the webhook and two mails; the decision names who decided; the outcome
    follows."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id, _ = stage.ask()

    for channel in ("slack", "teams", "webhook"):
        await_received(stage, channel, instance_id)
    bobs = link_in(stage, await_mail(stage, instance_id, "bob@example.com"))
    link = link_in(stage, await_mail(stage, instance_id, "alice@example.com"))
    assert (True, False) == (link != bobs, "alice" in link)
    assert 303 == decide(link, "approve")[0]

    assert "stopped" == stage.outcome(instance_id)
    assert "Approved by alice@example.com (mail link)" in request(link)[1]
    posted, changed = await_received(stage, "slack", instance_id, 2)
    assert ("chat.postMessage", "chat.update") == (posted.operation, changed.operation)
    assert [] == received(stage, "pagerduty", instance_id)


def test_what_a_channel_refuses_for_a_while_is_sent_later_and_once(stage: Stage) -> None:
    """429 and 503 are waited out; the other channels are not sent to twice."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id = stage.launch()
    receivers = stage.scene.receivers
    receivers.fail("teams", 429, retry_after="1", about=instance_id)
    receivers.fail("webhook", 503, about=instance_id)
    stage.scene.sweep()
    for channel in ("teams", "webhook"):
        await_received(stage, channel, instance_id)

    about = [one for one in receivers.received() if instance_id in str(one.payload)]
    assert [429, 503] == sorted(one.status for one in about if one.status >= 300)
    assert [1, 1, 1] == [
        len(received(stage, name, instance_id)) for name in ("slack", "teams", "webhook")
    ]


def test_what_a_channel_refuses_for_good_is_recorded_and_holds_up_nobody(stage: Stage) -> None:
    """A revoked token: the record says what to do, and the others are told."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id = stage.launch()
    stage.scene.receivers.fail("teams", 410, about=instance_id)
    stage.scene.sweep()
    await_received(stage, "webhook", instance_id)
    name = stage.episode(instance_id).ref.execution_name

    def recorded() -> str | None:
        found = {d.channel: d.refused for d in stage.state.deliveries(name)}
        return found.get("teams")

    assert "make a new one" in stage.eventually(recorded, "no record of the refusal")
    assert 1 == len(received(stage, "slack", instance_id))


def test_where_no_person_is_subscribed_a_channel_starts_the_clock(stage: Stage) -> None:
    """The question waits for an answer only when one has taken it."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    with stage.nobody_subscribed():
        instance_id = stage.launch()
        stage.scene.sweep()
        await_mail(stage, instance_id, "alice@example.com")
        entered = stage.eventually(
            lambda: _entered(stage, instance_id, "AwaitAnswer"), "its clock does not start"
        )

    assert entered.index("CheckAskHeard") < entered.index("AwaitAnswer")


def _entered(stage: Stage, instance_id: str, state: str) -> list[str] | None:
    """The states that the workflow has been in, once this one is among them."""
    names = stage.history(instance_id)
    return names if state in names else None


def test_a_forged_message_reaches_nobody(stage: Stage) -> None:
    """The topic refuses it. By the queue: no mail of ours, no link; a person finds it among the
    failures."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id, _ = stage.ask()
    await_received(stage, "slack", instance_id)
    sns, sqs = stage.scene.cloud.client("sns"), stage.scene.cloud.client("sqs")
    urls = sqs.list_queues()["QueueUrls"]
    queue, failures = (
        next(url for url in urls if name in url) for name in ("DeliveryQueue", "DeliveryFailures")
    )
    (sent,) = [one for one in stage.scene.read_mail() if one.get("instance_id") == instance_id]
    document = {name: value for name, value in sent.items() if name != "_envelope"}
    for name, kind in (("no-episode", "health-finding"), ("too-early", "approval-reminder")):
        facts = {"episode": document["facts"]["episode"]} if kind.startswith("approval") else {}
        forged = {
            **document,
            "kind": kind,
            "facts": facts,
            "dedup_id": name,
            "owner": "mallory@example.com",
        }
        named = {"kind": {"DataType": "String", "StringValue": kind}}
        text, topic = json.dumps(forged), stage.scene.outputs["AlertTopicArn"]
        with pytest.raises(ClientError, match="AuthorizationError"):
            sns.publish(TopicArn=topic, Message=text, MessageAttributes=named)
        sqs.send_message(QueueUrl=queue, MessageBody=text, MessageAttributes=named)

    whys: dict[str, str] = {}

    def kept() -> bool | None:
        answer = sqs.receive_message(
            QueueUrl=failures, MessageAttributeNames=["All"], MaxNumberOfMessages=10
        )
        for one in answer.get("Messages", []):
            why = one["MessageAttributes"]["ErrorMessage"]["StringValue"]
            whys[json.loads(one["Body"]).get("dedup_id")] = why
        return {"no-episode", "too-early"} <= set(whys) or None

    stage.eventually(kept, "the forged messages were not kept")
    assert "does not bear the seal" in whys["no-episode"]
    assert "has not come to remind" in whys["too-early"]
    assert "mallory" not in str(stage.scene.sent_mail())


def test_a_refused_policy_does_not_silence_the_people_it_names(stage: Stage) -> None:
    """Found by the last document that was accepted: they must hear that something is wrong. Nothing
    is judged by the refused document; the episode ends, and its instance runs on."""
    # Failures of one cause come once an hour to the same people: these have heard of none.
    erin = "erin@example.com"
    own = PEOPLE.replace("alice@example.com, bob@example.com", erin)
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{own}")
    instance_id, link = stage.ask()
    await_mail(stage, instance_id, erin)
    stage.policy("mode: reckless")
    try:
        decide(stage.personal(link, erin), "approve")
        await_mail(stage, instance_id, erin, "Could not")
        assert "failed" == stage.outcome(instance_id)
    finally:
        stage.policy("mode: ask")

    assert stage.await_mail(instance_id, "failure")
    assert "running" == stage.ec2_state(instance_id)
    assert "PolicyError" in ending_of(stage.episode(instance_id)).reason


def test_an_escalation_reaches_the_next_group(stage: Stage) -> None:
    """In addition to those who were asked before. It wakes nobody: without an answer nothing
    happens."""
    quick = (
        "{digest_from: 0, remind_after_minutes: 0.05, escalate_after_minutes: 0.05, "
        "expire_after_minutes: 60}"
    )
    stage.policy(f"mode: ask\napproval: {quick}{PEOPLE}")
    instance_id, _ = stage.ask()

    await_mail(stage, instance_id, "finops@example.com", "Escalation")
    await_mail(stage, instance_id, "alice@example.com", "Reminder")
    assert [] == received(stage, "pagerduty", instance_id)
    to_finops = [mail for mail in stage.scene.sent_mail() if mail["To"] == ["finops@example.com"]]
    about_it = [mail for mail in to_finops if instance_id in mail["BodyText"]]
    assert [True] == ["Escalation" in mail["Subject"] for mail in about_it]
    link = link_in(stage, await_mail(stage, instance_id, "finops@example.com", "Escalation"))
    assert 303 == decide(link, "keep")[0]
    for address in ("finops@example.com", "alice@example.com", "bob@example.com"):
        await_mail(stage, instance_id, address, "is left alone until")


def test_the_first_of_two_people_is_told_to_everybody_who_was_asked(stage: Stage) -> None:
    """Each by a link of their own, and in Slack in the thread. One yes does nothing, a stranger's
    none; the second one's yes carries the plan out, and the record names both."""
    dear = "{digest_from: 0, two_people_above_usd_per_hour: 0.1}"
    stage.policy(f"mode: ask\nplan: {{action: terminate}}\napproval: {dear}{PEOPLE}")
    instance_id, _ = stage.ask()
    link = link_in(stage, await_mail(stage, instance_id, "alice@example.com"))
    assert 303 == decide(link, "approve", typed_instance_id=instance_id)[0]

    assert "A second person must approve" in request(link)[1]
    stranger = stage.personal(link, "carol@example.com")
    assert 403 == decide(stranger, "approve", typed_instance_id=instance_id)[0]

    told = await_mail(stage, instance_id, "bob@example.com", "a second person approves")
    assert "alice@example.com approved" in told["BodyText"]
    assert 2 == len(await_received(stage, "slack", instance_id, 2))
    assert 303 == decide(link_in(stage, told), "approve", typed_instance_id=instance_id)[0]
    assert "terminated" == stage.outcome(instance_id)
    assert (
        "Approved by alice@example.com (mail link) and bob@example.com (mail link)"
        in request(link)[1]
    )


def test_many_questions_to_the_same_people_come_as_one_message(stage: Stage) -> None:
    """One mail a person, one message in Slack; all are answered on one page; a machine gets each by
    itself."""
    stage.policy(
        "mode: ask\napproval: {digest_after_seconds: 900, delivery_limit_minutes: 60}" + PEOPLE
    )
    ids = [stage.launch() for _ in range(3)]
    stage.scene.sweep()
    send_together(stage, ids)

    mail = await_mail(stage, ids[0], "alice@example.com", "unless you stop them")
    assert all(instance_id in mail["BodyText"] for instance_id in ids)
    assert mail["Subject"].startswith("3 idle GPU instances")
    for instance_id in ids:
        await_received(stage, "webhook", instance_id)
        assert 1 == len(received(stage, "slack", instance_id))
    link = link_in(stage, mail)
    page = request(link)[1]
    until = next(value for value in re.findall(r'<option value="([^"]+)"', page))
    status, page = decide(link, "keep", keep_until=until)

    assert (200, 3) == (status, page.count(": Recorded: "))
    assert ["kept"] * 3 == [stage.outcome(instance_id) for instance_id in ids]
    to_alice = [m for m in stage.scene.sent_mail() if m["To"] == ["alice@example.com"]]
    assert 1 == sum("unless you stop" in m["Subject"] and ids[0] in m["BodyText"] for m in to_alice)


def test_an_answer_in_slack_decides_and_changes_the_message(stage: Stage) -> None:
    """Pressed as Slack sends it, signed by Slack; what was not signed is refused."""
    stage.policy(f"mode: ask\napproval: {AT_ONCE}{PEOPLE}")
    instance_id, link = stage.ask()
    await_received(stage, "slack", instance_id)
    name = stage.episode(instance_id).ref.execution_name
    receivers = stage.scene.receivers

    def recorded() -> str | None:
        return next((d.thread for d in stage.state.deliveries(name) if d.channel == "slack"), None)

    thread = stage.eventually(recorded, "no thread is on record")
    pressed = receivers.press(thread, "governor.keep")
    url = link.split("/q/")[0] + "/slack/actions"

    assert 403 == post_to_slack_actions(url, pressed.body, pressed.timestamp, "v0=" + "0" * 64)
    assert 200 == post_to_slack_actions(url, pressed.body, pressed.timestamp, pressed.signature)

    assert "kept" == stage.outcome(instance_id)
    private = [one for one in receivers.received("slack") if one.operation == "chat.postEphemeral"]
    assert "Recorded: kept until" in private[-1].payload["text"]
    await_received(stage, "slack", instance_id, 2)
    assert "kept" in str(receivers.slack_message(thread))


def post_to_slack_actions(url: str, body: bytes, timestamp: str, signature: str) -> int:
    """As Slack posts; the status."""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature,
    }
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=ANSWER_SECONDS) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
