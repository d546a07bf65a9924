"""The other services that the product's template leans on, as the engine has them.

Nothing of this is repaired; an upgrade of the engine that loses one of these fails here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from local.engine.cloud import ANSWER_SECONDS, LocalCloud, LocalCloudError

pytestmark = pytest.mark.integration

Refusal = Callable[[Callable[[], object]], str]
TEMPLATE = Path(__file__).parent / "stack" / "template.yaml"


@pytest.fixture(scope="module")
def outputs(bare_cloud: LocalCloud) -> dict[str, str]:
    """The stack of this folder, once more."""
    return bare_cloud.deploy(TEMPLATE, "services", {})


def mail(cloud: LocalCloud, outputs: dict[str, str]) -> list[Any]:
    """The messages in the mailbox; waits for the first, as long as anything moves."""
    sqs, url = cloud.client("sqs"), outputs["MailboxUrl"]

    def arrived() -> list[Any] | None:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        found = []
        for message in answer.get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.append(json.loads(message["Body"]))
        return found or None

    return cloud.wait_for(arrived, "no mail")


def http(
    cloud: LocalCloud,
    outputs: dict[str, str],
    method: str,
    path: str,
    body: bytes | None = None,
    **headers: str,
) -> tuple[int, Any, bytes]:
    """Status, headers and body."""
    url = cloud.reachable_url(outputs["ApiUrl"] + path)
    with urlopen(
        Request(url, data=body, method=method, headers=headers), timeout=ANSWER_SECONDS
    ) as answer:
        return answer.status, answer.headers, answer.read()


def test_a_get_reaches_the_function_as_payload_2(
    bare_cloud: LocalCloud, outputs: dict[str, str]
) -> None:
    """Route, path, raw query and method; status, headers and cookies come back."""
    status, headers, body = http(bare_cloud, outputs, "GET", "/things/a%20b?s=1%2B2&e=3&e=4")
    event = json.loads(body)

    assert (202, "yes") == (status, headers["x-probe"])
    assert ["a=1; HttpOnly", "b=2"] == headers.get_all("set-cookie")
    assert ("2.0", "GET /things/{id}") == (event["version"], event["routeKey"])
    assert ("GET", "s=1%2B2&e=3&e=4") == (
        event["requestContext"]["http"]["method"],
        event["rawQueryString"],
    )
    assert {"s": "1+2", "e": "3,4"} == event["queryStringParameters"]
    assert "a b" == event["pathParameters"]["id"]


def test_a_head_reaches_the_function_and_brings_no_body(
    bare_cloud: LocalCloud, outputs: dict[str, str]
) -> None:
    """Mail scanners ask so; it must be seen as what it is."""
    status, headers, body = http(bare_cloud, outputs, "HEAD", "/things/a")

    assert (202, "yes", b"") == (status, headers["x-probe"], body)


def test_a_posted_form_arrives_whole(bare_cloud: LocalCloud, outputs: dict[str, str]) -> None:
    """In base64 or not, as its flag says."""
    form = b"answer=approve&reason=%C3%A4"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    event = json.loads(http(bare_cloud, outputs, "POST", "/things/a", form, **kind)[2])

    body = event["body"].encode()
    assert form == (base64.b64decode(body) if event["isBase64Encoded"] else body)


def test_a_failed_asynchronous_call_goes_to_its_queue(
    bare_cloud: LocalCloud, outputs: dict[str, str]
) -> None:
    """With the event that failed."""
    event = {"do": "fail", "error": "Broken"}
    bare_cloud.client("lambda").invoke(
        FunctionName=outputs["ProbeArn"], InvocationType="Event", Payload=json.dumps(event)
    )

    assert [event] == [message["requestPayload"] for message in mail(bare_cloud, outputs)]


def test_a_subscription_takes_what_its_filter_lets_through(
    bare_cloud: LocalCloud, outputs: dict[str, str]
) -> None:
    """By attribute; with the text for its protocol, the default's otherwise."""
    sns = bare_cloud.client("sns")
    sqs = bare_cloud.client("sqs")
    arn = sqs.get_queue_attributes(QueueUrl=outputs["MailboxUrl"], AttributeNames=["QueueArn"])
    assert outputs["MailboxUrl"].rpartition("/")[2] in arn["Attributes"]["QueueArn"]
    for kind, text in (("other", "no"), ("wanted", "yes")):
        sns.publish(
            TopicArn=outputs["TopicArn"],
            MessageStructure="json",
            Message=json.dumps({"default": "plain", "sqs": text}),
            MessageAttributes={"kind": {"DataType": "String", "StringValue": kind}},
        )

    messages = mail(bare_cloud, outputs)
    assert ["yes"] == [message["Message"] for message in messages]
    assert "wanted" == messages[0]["MessageAttributes"]["kind"]["Value"]


def test_the_table_refuses_what_its_conditions_refuse(
    bare_cloud: LocalCloud, outputs: dict[str, str], refusal: Refusal
) -> None:
    """Alone and in a transaction, of which nothing is done if one part fails."""
    table = bare_cloud.client("dynamodb")
    name = outputs["TableName"]
    new = {"TableName": name, "ConditionExpression": "attribute_not_exists(pk)"}
    table.put_item(**new, Item={"pk": {"S": "a"}})

    twice = {**new, "Item": {"pk": {"S": "a"}}}
    assert "ConditionalCheckFailedException" == refusal(lambda: table.put_item(**twice))
    both = [{"Put": {**new, "Item": {"pk": {"S": key}}}} for key in ("b", "a")]
    assert "TransactionCanceledException" == refusal(
        lambda: table.transact_write_items(TransactItems=both)
    )
    assert "Item" not in table.get_item(TableName=name, Key={"pk": {"S": "b"}}, ConsistentRead=True)


def test_secrets_are_made_and_settings_are_read(
    bare_cloud: LocalCloud, outputs: dict[str, str]
) -> None:
    """A generated secret is as long as asked for, inside its template."""
    secret = bare_cloud.client("secretsmanager").get_secret_value(SecretId=outputs["SecretArn"])
    setting = bare_cloud.client("ssm").get_parameter(Name=outputs["SettingName"])

    made = json.loads(secret["SecretString"])
    assert ("k1", 64) == (made["current"], len(made["k1"]))
    assert "mode: observe" == setting["Parameter"]["Value"]


def test_a_stack_that_fails_says_why(bare_cloud: LocalCloud, tmp_path: Path) -> None:
    """With the resource at fault and the service's reason."""
    template = tmp_path / "template.yaml"
    template.write_text(
        "Resources: {Thing: {Type: AWS::SQS::Queue, Properties: {QueueName: !ImportValue nowhere}}}"
    )

    with pytest.raises(LocalCloudError, match="Thing: "):
        bare_cloud.deploy(template, "broken", {})
