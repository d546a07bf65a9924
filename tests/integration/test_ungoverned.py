"""The daily scan on the deployed stack: by its schedule's input and its own role, with IAM
enforced, to the page Ungoverned."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

import pytest

from governor.aws.dynamodb import DynamoTable
from governor.core.instance import Target
from governor.scan.model import Snapshot
from governor.scan.store import Scans
from local.demo.waste import EXPECTED, REGION, put_waste
from local.engine.cloud import ACCOUNT
from tests.console_world import without_argument_marks, without_id_marks
from tests.integration.people import Browser
from tests.integration.stage import TARGET, Stage
from tests.integration.test_console import code_of, enter, site

__all__ = ["site"]
MEMBER = Target("555566667777", REGION)
"""An account in which no test deploys a member stack."""


def kept(stage: Stage) -> dict[Target, Snapshot]:
    """Return the stored scans by target."""
    table = DynamoTable(stage.clients, stage.scene.outputs["StateTableName"])
    return {one.target: one for one in Scans(table).snapshots()}


def test_the_page_shows_what_the_scheduled_scan_found(
    stage: Stage, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An idle endpoint of SageMaker with its command; and that a member cannot be read, which
    stops no other place."""
    browser = Browser(stage.scene.receivers.certificate)
    page, code = code_of(stage, capsys)
    shown = browser.post(page, {"code": code, "answer": "show"}).body
    arn = re.findall(r"<strong>(arn:[^<]+)</strong>", without_id_marks(shown))[0]
    scope = {"identities": [arn], "role": "viewer", "everything": True}
    targets = {
        "accounts": [ACCOUNT, MEMBER.account],
        "regions": [TARGET.region, REGION],
        "without": [{"account": MEMBER.account, "region": TARGET.region}],
    }
    document = {"targets": targets, "console": {"scopes": {"all": scope}}}
    stage.policy(json.dumps(document))
    put_waste(stage.scene.cloud, datetime.now(UTC))

    stage.scene.sweep("scan")

    found = kept(stage)
    assert {TARGET, Target(ACCOUNT, REGION), MEMBER} == set(found)
    here = found[Target(ACCOUNT, REGION)]
    assert () == here.unread, [line.reason for line in here.unread]
    by_kind: dict[str, set[str]] = {}
    for scanned in here.rows:
        resource = scanned.row.resource
        names = by_kind.setdefault(scanned.row.kind, set())
        names.add(resource.name or resource.resource_id)
    assert set(EXPECTED["sagemaker-endpoint"]) == by_kind["sagemaker-endpoint"]
    (line,) = found[MEMBER].unread
    assert ("everything", "sts:AssumeRole", True) == (
        line.topic,
        line.operation,
        line.is_missing_right,
    )

    page, code = code_of(stage, capsys)
    assert 303 == enter(browser, page, code).status
    shown = browser.get(urljoin(site, "ungoverned")).body
    text = without_argument_marks(without_id_marks(shown)).replace("\N{NO-BREAK SPACE}", " ")
    assert "aws sagemaker delete-endpoint --region eu-west-1 --endpoint-name chat-poc" in text
    assert "0 invocations in 7 days" in text
    assert "missing permission sts:AssumeRole" in text
    table = browser.get(urljoin(site, "ungoverned.csv"))
    assert (200, True) == (table.status, "chat-poc" in table.body)


def test_a_second_scan_replaces_the_first(stage: Stage) -> None:
    """Each place is kept once."""
    stage.policy("mode: observe")
    stage.scene.sweep("scan")
    first = kept(stage)[TARGET]
    output: Any = stage.scene.sweep("scan")
    assert "scan" == output["plan"]["value"]["check"]
    assert first.scanned_at < kept(stage)[TARGET].scanned_at
