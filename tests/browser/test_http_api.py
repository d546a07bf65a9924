"""Schemathesis tries every operation of docs/openapi.yaml on the local cloud, with and without
genuine links.

What comes back must be described, whatever was sent; what is no answer must be refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, Phase, given, settings

from governor.approvals.model.approval import ApprovalStatus
from local.demo.scene import Scene
from local.engine.cloud import REGION
from tests.integration.conftest import cleaned_stage
from tests.integration.people import hidden_fields, request
from tests.integration.stage import Stage

if TYPE_CHECKING:
    from requests import PreparedRequest
    from schemathesis import Case

pytestmark = pytest.mark.fuzz

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.yaml"
OPERATIONS = sorted(
    operation["operationId"]
    for item in yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))["paths"].values()
    for operation in item.values()
    if "operationId" in operation
)
OF_THE_CONSOLE = {"showOverview", "probeOverview", "showConsole", "probeConsole"}
OF_THE_CONSOLE |= {"enterConsole", "showConsoleQuestions", "showConsoleQuestion"}
NO_INPUT = {"listFreezes", "listQuestions", "showPolicy", "showQuestion"} | OF_THE_CONSOLE
NO_BODY = NO_INPUT | {"showPage", "probePage"}
NO_BODY |= {"showEarlierPage", "probeEarlierPage"}
ON_PAGES = {"answerOnPage", "answerOnEarlierPage"}
DECIDING = ON_PAGES | {"answerQuestion"}
WANTED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
EXAMPLES = 20
"""Examples of each kind: right and wrong, with and without a genuine link and signature."""
REACHED = {
    "showPage": {200, 403},
    "probePage": {200, 403},
    "answerOnPage": {303, 400, 403, 409},
    "showEarlierPage": {200, 400, 403},
    "probeEarlierPage": {200, 400, 403},
    "answerOnEarlierPage": {303, 400, 403, 409},
    "beginSignIn": {
        404
    },  # no issuer here; `tests/integration/test_sign_in.py` goes on behind this door
    "finishSignIn": {404},
    "pressInSlack": {400, 403},
    "listFreezes": {200},
    "listQuestions": {200},
    "showQuestion": {200, 404},
    "showPolicy": {200},
    "acceptPolicy": {400, 404},
    "answerQuestion": {200, 400, 404, 409},
    "openConsole": {200},
    "pauseEverything": {400, 403},
    "endThePause": {400, 403},
    "showOverview": {401},
    "probeOverview": {401},
    "showConsole": {404},
    "probeConsole": {404},
    "actOnConsole": {400, 404},
    "enterConsole": {200},
    "showConsoleQuestions": {401},
    "showConsoleQuestion": {401},
}
"""How deep the trial must have got; less would be a trial of the door."""


class Sender:
    """Whoever sends: signs as AWS or Slack does, and knows a genuine form, where that is asked
    for."""

    def __init__(self, stage: Stage, link: str, operation_id: str) -> None:
        self.operation_id = operation_id
        self.slack_secret = stage.scene.receivers.slack_signing_secret.encode()
        page = request(link)[1]
        self.csrf = hidden_fields(page)["csrf"]
        self.offered = re.findall(r'<option value="([^"]+)"', page)[0]
        self.genuine = False

    def sign(self, prepared: PreparedRequest) -> PreparedRequest:
        """As API Gateway and Slack's callback ask for it."""
        if self.operation_id == "pressInSlack":
            if self.genuine:
                prepared.headers.update(self._as_slack(prepared.body))
            return prepared
        keys = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        copy = AWSRequest(prepared.method, prepared.url, data=prepared.body)
        SigV4Auth(keys, "execute-api", REGION).add_auth(copy)
        prepared.headers.update(
            {name: copy.headers[name] for name in ("Authorization", "X-Amz-Date")}
        )
        return prepared

    def _as_slack(self, body: object) -> dict[str, str]:
        now = str(int(time.time()))
        text = f"v0:{now}:".encode() + (
            body if isinstance(body, bytes) else str(body or "").encode()
        )
        mac = hmac.new(self.slack_secret, text, hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={mac}"}

    def fill_in(self, case: Case) -> None:
        """The hidden field of the page, and an end that it offers: no example would guess
        either."""
        if self.genuine and self.operation_id in ON_PAGES and isinstance(case.body, dict):
            case.body["csrf"] = self.csrf
            if case.body.get("answer") == "keep":
                case.body["keep_until"] = self.offered
                case.body.pop("keep_date", None)


def trial(strategy: Any, answered: Callable[[Case], None]) -> Callable[[], None]:
    """The same examples each time: what is found today is found tomorrow."""
    configured = settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )

    @configured
    @given(case=strategy)
    def run(case: Case) -> None:
        answered(case)

    return run


@pytest.fixture(scope="module")
def waiting(scene: Scene) -> Iterator[tuple[Stage, str, str]]:
    """A stage, an instance, and the link of its question, which nobody answers."""
    with cleaned_stage(scene) as stage:
        yield stage, *stage.ask()


@pytest.mark.parametrize("operation_id", [one for one in OPERATIONS if one not in DECIDING])
def test_every_answer_is_as_described(waiting: tuple[Stage, str, str], operation_id: str) -> None:
    """No request, well formed or not, about this question or none, gets what the document does not
    name."""
    stage, instance_id, link = waiting
    try_operation(stage, instance_id, link, operation_id)

    approval = stage.state.approval(stage.episode(instance_id).approval_id)
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status


@pytest.mark.parametrize("operation_id", sorted(DECIDING))
def test_every_answer_that_decides_is_as_described(stage: Stage, operation_id: str) -> None:
    """Each decides a question of its own. The tests that share one come before these."""
    if operation_id == "answerQuestion":  # by an identity of AWS that no contact has
        stage.policy("mode: ask\napproval: {cli_may: [keep, exempt]}")
    try_operation(stage, *stage.ask(), operation_id)


def try_operation(stage: Stage, instance_id: str, link: str, operation_id: str) -> None:
    """Try an operation with right and wrong requests, and check each answer."""
    from schemathesis import GenerationMode, openapi
    from schemathesis.checks import CHECKS

    schema = openapi.from_path(DOCUMENT)
    schema.config.generation.update(with_security_parameters=False)  # `sign` adds them
    operation = schema.find_operation_by_id(operation_id)
    base_url, checks = link.split("/q/")[0], CHECKS.get_by_names(WANTED)
    if operation_id == "answerQuestion":
        checks += CHECKS.get_by_names(["negative_data_rejection"])
    known: dict[str, Any] = {
        "path_parameters": {"approval_id": stage.episode(instance_id).approval_id}
    }
    if operation_id.endswith("EarlierPage"):
        link = stage.personal(link, expires_at=datetime.now(tz=UTC) + timedelta(days=1))
        known["query"] = dict(parse_qsl(urlsplit(link).query))
    elif operation_id.endswith("Page"):
        known = {"path_parameters": {"link": link.rpartition("/")[2]}}
    sender, statuses = Sender(stage, link, operation_id), set()

    def answered(case: Case) -> None:
        sender.fill_in(case)
        # A redirect is the answer itself.
        response = case.call(base_url=base_url, auth=sender.sign, allow_redirects=False)
        statuses.add(response.status_code)
        case.validate_response(response, checks=checks)

    # What is wrong comes first: once the question is answered, every other answer is only late.
    for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE):
        for sender.genuine in (False, True):
            if mode is GenerationMode.NEGATIVE and operation_id in (
                NO_BODY if sender.genuine else NO_INPUT
            ):
                continue
            trial(operation.as_strategy(mode, **(known if sender.genuine else {})), answered)()

    assert REACHED[operation_id] <= statuses
