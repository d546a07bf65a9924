"""The console over a real sweep on the local cloud: a code of `governor open`, a session, and every view.

The stack's IAM is enforced, so each view shows that its function's role suffices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest

from cli.governor import main
from local.cloud import ANSWER_SECONDS
from tests.integration.stage import Stage

READER = "arn:aws:iam::123456789012:user/reader"


class Still(HTTPRedirectHandler):
    """Follows nothing: the cookie is in the answer itself."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Visit:
    """Somebody whom `governor open` has let in."""

    def __init__(self, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"])
        assert 0 == main(["open", "--print"])
        code = capsys.readouterr().out.strip().rpartition("#")[2]
        assert READER in self.ask("/console", {"code": code})[2]
        status, headers, _ = self.ask("/console", {"code": code, "answer": "open"})
        assert 303 == status
        self.cookie = headers["Set-Cookie"].partition(";")[0]

    cookie = ""

    def ask(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, Any, str]:
        """Status, headers and body."""
        sent = {"Cookie": self.cookie, **headers}
        request = Request(self.url + path, urlencode(form).encode() if form else None, sent)
        try:
            with build_opener(Still).open(request, timeout=ANSWER_SECONDS) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()


@pytest.fixture
def visit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Visit]:
    """By an IAM user whom the policy lets see everything."""
    url = stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"] + "/")
    monkeypatch.setenv("GOVERNOR_API_URL", url)
    scope = {"identities": [READER], "role": "viewer", "everything": True}
    stage.policy(json.dumps({"mode": "ask", "console": {"scopes": {"all": scope}}}))
    iam, name = stage.scene.cloud.client("iam"), READER.rpartition("/")[2]
    iam.create_user(UserName=name)
    allowed = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName=name, PolicyName="open", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    with monkeypatch.context() as as_reader:
        as_reader.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        as_reader.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        visit = Visit(stage, capsys)
    yield visit
    iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
    iam.delete_user_policy(UserName=name, PolicyName="open")
    iam.delete_user(UserName=name)


def test_every_view_shows_what_a_sweep_has_seen(stage: Stage, visit: Visit) -> None:
    """The instance with its open question, by name; as data, too; and nothing without a session."""
    instance_id, _ = stage.ask()
    question = stage.episode(instance_id).approval_id
    stage.scene.sweep()

    def asked() -> str | None:
        found = visit.ask("/fleet", accept="application/json")[2]
        [row] = [one for one in json.loads(found)["instances"] if one["instance_id"] == instance_id]
        return found if row["approval_id"] == question else None

    stage.eventually(asked, "the page of the target does not show the question")
    status, headers, overview = visit.ask("/")
    assert (200, "no-store") == (status, headers["Cache-Control"])
    assert f'href="/questions/{question}"' in overview
    [place] = re.findall(rf'href="(/instances/[^"]*/{instance_id})"', visit.ask("/fleet?size=500")[2])
    status, _, page = visit.ask(place)
    assert (200, True) == (status, "Open the question" in page)
    for path in ("/savings", "/projects", f"/questions/{question}", "/fleet.csv", "/savings.csv"):
        assert 200 == visit.ask(path)[0], path
    assert 404 == visit.ask("/instances/123456789012/us-east-1/i-00000000000000000")[0]
    visit.cookie = ""
    assert 401 == visit.ask("/")[0]
