"""Bedrock's provisioned throughputs: silence is weak evidence, as nothing proves a measurement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governor.scan.kinds.bedrock_throughput import BedrockThroughputs
from governor.scan.model import Finding, Strength
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, ApiTwin, SeriesTwin, place
from tests.unit.scan.sagemaker_answers import OLD, checked

ARN = "arn:aws:bedrock:us-east-1:123456789012:provisioned-model/abc123"
MODEL = "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-text-express-v1"


def throughput(**changes: Any) -> dict[str, Any]:
    """Return a provisioned throughput as ListProvisionedModelThroughputs gives it."""
    record = {
        "provisionedModelName": "titan",
        "provisionedModelArn": ARN,
        "modelArn": MODEL,
        "desiredModelArn": MODEL,
        "foundationModelArn": MODEL,
        "modelUnits": 2,
        "desiredModelUnits": 2,
        "status": "InService",
        "creationTime": OLD,
        "lastModifiedTime": OLD,
    }
    return {**record, **changes}


def scan(*records: Any, metrics: SeriesTwin | None = None) -> PlaceReport:
    """Return the report on these provisioned throughputs."""
    answer = {"provisionedModelSummaries": list(records)}
    api = ApiTwin({"bedrock:ListProvisionedModelThroughputs": answer})
    where = place(api=api, metrics=metrics or SeriesTwin())
    return checked(scan_place(where, [BedrockThroughputs()]))


def test_a_throughput_without_calls_is_likely_idle() -> None:
    """Bedrock publishes nothing without calls, so the command only looks closer."""
    (row,) = scan(throughput()).rows
    assert Finding.LIKELY_IDLE is row.judgment.finding
    assert Strength.WEAK is row.judgment.strength
    words = "no call was published in 7 days; Bedrock publishes nothing without calls"
    assert words == row.judgment.evidence
    assert "2 model units of amazon.titan-text-express-v1" == row.resource.what
    assert row.usd_per_hour is None
    expected = (
        "aws bedrock get-provisioned-model-throughput --region us-east-1 "
        f"--provisioned-model-id {ARN}"
    )
    assert expected == row.command


@pytest.mark.parametrize(
    "metric",
    [
        "Invocations",
        "InvocationClientErrors",
        "InvocationServerErrors",
        "InvocationThrottles",
    ],
)
def test_any_call_of_its_model_keeps_it(metric: str) -> None:
    """Those that failed, too: somebody uses it."""
    (row,) = scan(throughput(), metrics=SeriesTwin({(metric, ARN): 1.0})).rows
    assert Finding.BUSY is row.judgment.finding
    assert "169 calls in 7 days" == row.judgment.evidence
    assert "" == row.command


@pytest.mark.parametrize(
    ("until", "is_said"), [(NOW + timedelta(days=20), True), (NOW - timedelta(days=1), False)]
)
def test_a_commitment_is_said(until: Any, is_said: bool) -> None:
    """It cannot be deleted before its end."""
    record = throughput(commitmentDuration="OneMonth", commitmentExpirationTime=until)
    (row,) = scan(record).rows
    assert is_said == (f"it cannot be deleted before {until:%Y-%m-%d}" in row.judgment.evidence)


def test_a_young_throughput_is_not_judged() -> None:
    """A day must be over."""
    (row,) = scan(throughput(creationTime=NOW - timedelta(hours=23))).rows
    assert (Finding.TOO_YOUNG, "") == (row.judgment.finding, row.command)


def test_calls_that_cannot_be_read_are_not_measured_and_reported() -> None:
    """The scan is incomplete."""
    report = scan(throughput(), metrics=SeriesTwin(problem="InternalError: none"))
    assert Finding.NOT_MEASURED is report.rows[0].judgment.finding
    assert ["cloudwatch:GetMetricData"] == [line.operation for line in report.unread]


def test_a_region_without_bedrock_is_not_asked() -> None:
    """It has no host to ask."""
    api = ApiTwin({}, absent=["bedrock"])
    assert () == scan_place(place(api=api), [BedrockThroughputs()]).rows
    assert [] == api.calls
