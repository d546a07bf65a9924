"""SageMaker endpoints: judged by the invocations of each variant, never by missing data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Target
from governor.scan.kinds.sagemaker_endpoint.kind import SageMakerEndpoints
from governor.scan.model import Finding, Row, Strength
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, TARGET, ApiTwin, SeriesTwin, place
from tests.unit.scan.sagemaker_answers import (
    checked,
    endpoint,
    endpoint_config,
    endpoint_summary,
    price_list,
    product,
    variant,
)

G5 = "ml.g5.12xlarge"
MEASURED: Mapping[tuple[str, str], Any] = {("CPUUtilization", "main"): 2.0}
"""The instances of the variant `main` published their CPU utilization all the time."""
PRICES = price_list(
    product("USE1-Host:ml.g5.12xlarge", "7.09"),
    product("USE1-AsyncInf:ml.g5.12xlarge", "7.10"),
    product("USE1-Studio:JupyterLab-ml.g5.12xlarge", "7.11"),
)


def answers(*described: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return SageMaker's answers about these endpoints. Their variants run on `ml.g5.12xlarge`
    unless `configs` say another type, by configuration."""
    configs = changes.pop("configs", {})
    by_name = {one["EndpointName"]: one for one in described}

    def config(EndpointConfigName: str) -> Any:
        """Return a configuration."""
        if EndpointConfigName in configs:
            return configs[EndpointConfigName]
        name = EndpointConfigName.removesuffix("-config")
        variants = by_name[name]["ProductionVariants"]
        return endpoint_config(EndpointConfigName, **{one["VariantName"]: G5 for one in variants})

    operations: dict[str, Any] = {
        "ListEndpoints": {"Endpoints": [endpoint_summary(name) for name in by_name]},
        "DescribeEndpoint": lambda EndpointName: by_name[EndpointName],
        "DescribeEndpointConfig": config,
        "ListInferenceComponents": {"InferenceComponents": []},
        "ListTags": {"Tags": []},
        **changes,
    }
    made = {f"sagemaker:{name}": answer for name, answer in operations.items()}
    return {**made, "pricing:GetProducts": changes.get("GetProducts", PRICES)}


def scan(
    api: ApiTwin, metrics: SeriesTwin | None = None, target: Target = TARGET, **changes: Any
) -> PlaceReport:
    """Return the report on the endpoints alone."""
    where = place(target, api=api, metrics=metrics or SeriesTwin(MEASURED), **changes)
    return checked(scan_place(where, [SageMakerEndpoints()]))


def row_of(described: Mapping[str, Any], metrics: SeriesTwin | None = None, **changes: Any) -> Row:
    """Return the row of a single endpoint, which must be there."""
    report = scan(ApiTwin(answers(described, **changes)), metrics)
    assert () == report.unread
    (row,) = report.rows
    return row


def test_an_endpoint_that_nobody_invoked_is_unused() -> None:
    """Its instances were measured, so silence means zero. The command ends the waste."""
    row = row_of(endpoint("chat"))
    assert Finding.UNUSED is row.judgment.finding
    assert Strength.STRONG is row.judgment.strength
    assert "0 invocations in 7 days" == row.judgment.evidence
    assert Decimal("7.09") == row.usd_per_hour
    assert "ml.g5.12xlarge, 4 x NVIDIA A10G" == row.resource.what
    assert "aws sagemaker delete-endpoint --region us-east-1 --endpoint-name chat" == row.command


def test_one_invoked_variant_keeps_the_endpoint() -> None:
    """The evidence says which."""
    described = endpoint("chat", variant("blue"), variant("green", count=2))
    values = {("Invocations", "green"): 1.0}
    row = row_of(described, SeriesTwin(values))
    assert Finding.BUSY is row.judgment.finding
    assert "169 invocations in 7 days (blue: 0, green: 169)" == row.judgment.evidence
    assert "3 x ml.g5.12xlarge, 4 x NVIDIA A10G each" == row.resource.what
    assert Decimal("21.27") == row.usd_per_hour
    assert "" == row.command


def test_an_invoked_inference_component_keeps_the_endpoint() -> None:
    """Its invocations come under its own name."""
    component = {
        "CreationTime": NOW,
        "LastModifiedTime": NOW,
        "InferenceComponentArn": "arn:aws:sagemaker:us-east-1:123456789012:inference-component/c",
        "InferenceComponentName": "llama",
        "EndpointArn": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat",
        "EndpointName": "chat",
        "VariantName": "main",
    }
    components = {"InferenceComponents": [component]}
    values = {**MEASURED, ("Invocations", "llama"): 2.0}
    row = row_of(endpoint("chat"), SeriesTwin(values), ListInferenceComponents=components)
    assert Finding.BUSY is row.judgment.finding


@pytest.mark.parametrize("missing", [{}, {("CPUUtilization", "blue"): 2.0}])
def test_without_the_metrics_of_every_variant_nothing_is_idle(
    missing: Mapping[tuple[str, str], float],
) -> None:
    """SageMaker publishes nothing when nobody calls: silence alone says nothing."""
    described = endpoint("chat", variant("blue"), variant("green"))
    row = row_of(described, SeriesTwin(missing))
    assert Finding.NOT_MEASURED is row.judgment.finding
    assert Decimal() == row.waste_usd_per_month
    assert row.judgment.evidence.endswith("were measured in 0% of that time; 80% is required")
    assert row.command.startswith("aws sagemaker describe-endpoint ")


@pytest.mark.parametrize(("hours", "finding"), [(135, Finding.NOT_MEASURED), (136, Finding.UNUSED)])
def test_enough_hours_must_be_measured(hours: int, finding: Finding) -> None:
    """80% of the 169 hours of the window are 135.2."""
    series = (None,) * (169 - hours) + (2.0,) * hours
    row = row_of(endpoint("chat"), SeriesTwin({("CPUUtilization", "main"): series}))
    assert finding is row.judgment.finding


@pytest.mark.parametrize(
    ("age", "finding"),
    [
        (timedelta(hours=24) - timedelta(seconds=1), Finding.TOO_YOUNG),
        (timedelta(hours=24), Finding.UNUSED),
    ],
)
def test_a_young_endpoint_is_not_judged(age: timedelta, finding: Finding) -> None:
    """After a day the time since its creation counts."""
    row = row_of(endpoint("chat", CreationTime=NOW - age))
    assert finding is row.judgment.finding


def test_a_young_endpoint_that_is_invoked_is_busy() -> None:
    """Invocations count from the first hour on."""
    created = NOW - timedelta(hours=2)
    values = {**MEASURED, ("Invocations", "main"): 5.0}
    row = row_of(endpoint("chat", CreationTime=created), SeriesTwin(values))
    assert Finding.BUSY is row.judgment.finding
    assert "15 invocations in 2 h" == row.judgment.evidence


def test_only_the_time_since_its_creation_is_measured() -> None:
    """The hours before cannot have readings."""
    created = NOW - timedelta(hours=47)
    series = (None,) * 120 + (2.0,) * 49
    metrics = SeriesTwin({("CPUUtilization", "main"): series})
    row = row_of(endpoint("chat", CreationTime=created), metrics)
    assert "0 invocations in 47 h" == row.judgment.evidence


def test_gpu_figures_are_scaled_to_one_gpu() -> None:
    """SageMaker adds up the four GPUs of the instance: 8% are 2% of one."""
    row = row_of(endpoint("chat"), SeriesTwin({**MEASURED, ("GPUUtilization", "main"): 8.0}))
    assert Finding.UNUSED is row.judgment.finding
    assert row.judgment.evidence.endswith("; utilization per GPU up to 2%")


@pytest.mark.parametrize(("sum_of_gpus", "finding"), [(19.9, "unused"), (20.0, "busy")])
def test_busy_gpus_without_invocations_are_never_called_unused(
    sum_of_gpus: float, finding: str
) -> None:
    """A container may work without being asked: the policy's 5% of a GPU decides."""
    values = {**MEASURED, ("GPUUtilization", "main"): sum_of_gpus}
    assert finding == row_of(endpoint("chat"), SeriesTwin(values)).judgment.finding


@pytest.mark.parametrize("metric", ["InvocationsProcessed", "InvocationFailures"])
def test_an_asynchronous_endpoint_is_judged_by_its_own_metrics(metric: str) -> None:
    """It publishes no `Invocations`."""
    output = {"OutputConfig": {"S3OutputPath": "s3://bucket/out"}}
    described = endpoint("ocr", AsyncInferenceConfig=output)
    row = row_of(described, SeriesTwin({**MEASURED, ("Invocations", "main"): 9.0}))
    assert Finding.UNUSED is row.judgment.finding
    assert Decimal("7.10") == row.usd_per_hour
    busy = row_of(described, SeriesTwin({**MEASURED, (metric, "main"): 1.0}))
    assert Finding.BUSY is busy.judgment.finding


def test_waiting_requests_keep_an_asynchronous_endpoint() -> None:
    """The backlog is the endpoint's, not a variant's."""
    output = {"OutputConfig": {"S3OutputPath": "s3://bucket/out"}}
    described = endpoint("ocr", AsyncInferenceConfig=output)
    values = {**MEASURED, ("ApproximateBacklogSize", "ocr"): 3.0}
    row = row_of(described, SeriesTwin(values))
    assert Finding.BUSY is row.judgment.finding
    assert "up to 3 requests waiting" in row.judgment.evidence


@pytest.mark.parametrize(
    "described",
    [
        endpoint("zero", variant("main", count=0)),
        endpoint(
            "serverless",
            {
                "VariantName": "main",
                "CurrentServerlessConfig": {"MemorySizeInMB": 4096, "MaxConcurrency": 5},
            },
        ),
    ],
)
def test_what_costs_nothing_while_idle_is_left_out(described: Mapping[str, Any]) -> None:
    """Serverless endpoints have no instances, and those scaled to zero have none now."""
    configs = {}
    if described["EndpointName"] == "serverless":
        config = endpoint_config("serverless-config", main=G5)
        del config["ProductionVariants"][0]["InstanceType"]
        configs = {"serverless-config": config}
    assert () == scan(ApiTwin(answers(described, configs=configs))).rows


def test_endpoints_without_accelerators_are_left_out() -> None:
    """Their tags and metrics are not read."""
    config = endpoint_config("cpu-config", main="ml.m5.xlarge")
    api = ApiTwin(answers(endpoint("cpu"), configs={"cpu-config": config}))
    metrics = SeriesTwin()
    report = scan(api, metrics)
    assert ((), ()) == (report.rows, report.unread)
    assert [] == metrics.asked
    assert 0 == api.count("sagemaker:ListTags")


def test_instance_pools_name_their_own_types() -> None:
    """A variant may run on several types; an empty pool costs nothing."""
    pools = [
        {"InstanceType": "ml.p5.48xlarge", "CurrentInstanceCount": 1},
        {"InstanceType": G5, "CurrentInstanceCount": 0},
    ]
    config = endpoint_config("chat-config", main=G5)
    del config["ProductionVariants"][0]["InstanceType"]
    described = endpoint("chat", variant("main", InstancePools=pools))
    row = row_of(described, configs={"chat-config": config})
    assert "ml.p5.48xlarge, 8 x NVIDIA H100" == row.resource.what
    assert row.usd_per_hour is None


def test_enhanced_metrics_make_silence_weak_evidence() -> None:
    """They come by instance and container, which is not read."""
    row = row_of(endpoint("chat", MetricsConfig={"EnableEnhancedMetrics": True}))
    assert Finding.LIKELY_IDLE is row.judgment.finding
    assert Strength.WEAK is row.judgment.strength
    assert "delete" not in row.command


def test_capacity_paid_in_advance_has_no_price() -> None:
    """To delete the endpoint would save nothing."""
    reserved = {"MlReservationArn": "arn:aws:sagemaker:us-east-1:123456789012:reservation/r"}
    main = variant("main", CapacityReservationConfig=reserved)
    row = row_of(endpoint("chat", main))
    assert row.usd_per_hour is None
    assert row.resource.is_prepaid
    # The other variant costs something each hour.
    row = row_of(endpoint("chat", main, variant("other")))
    assert row.usd_per_hour is None
    assert not row.resource.is_prepaid


def test_the_owner_and_the_exemption_are_tags() -> None:
    """An exempt endpoint is no waste."""
    owned = {"Tags": [{"Key": "Owner", "Value": "ada@example.com"}]}
    assert "ada@example.com" == row_of(endpoint("chat"), ListTags=owned).owner
    exempt = {"Tags": [{"Key": "gpu-governor", "Value": "exempt"}]}
    row = row_of(endpoint("chat"), ListTags=exempt)
    assert Finding.EXEMPT is row.judgment.finding
    assert "" == row.command


def test_metrics_that_cannot_be_read_are_reported() -> None:
    """The row stands as not measured, and the scan is incomplete."""
    problem = "cloudwatch:GetMetricData failed: AccessDenied: no right"
    api = ApiTwin(answers(endpoint("chat"), endpoint("search")))
    report = scan(api, SeriesTwin(MEASURED, problem=problem))
    assert {Finding.NOT_MEASURED} == {row.judgment.finding for row in report.rows}
    (line,) = report.unread
    assert ("cloudwatch:GetMetricData", True) == (line.operation, line.is_missing_right)


def test_an_endpoint_that_is_gone_stops_no_other() -> None:
    """It was deleted since it was listed."""
    listed = {"Endpoints": [endpoint_summary("gone"), endpoint_summary("chat")]}

    def describe(EndpointName: str) -> Any:
        """Return the one that is left."""
        if EndpointName == "chat":
            return endpoint("chat")
        words = 'Could not find endpoint "gone".'
        return CloudError("x", operation="sagemaker:DescribeEndpoint", words=words)

    api = ApiTwin(answers(endpoint("chat"), ListEndpoints=listed, DescribeEndpoint=describe))
    report = scan(api)
    assert ["chat"] == [row.resource.name for row in report.rows]
    assert () == report.unread


def test_an_endpoint_whose_configuration_was_deleted_is_reported() -> None:
    """It goes on costing money, and only its configuration names its instances."""

    def config(EndpointConfigName: str) -> Any:
        """Return the configuration that is left."""
        if EndpointConfigName == "chat-config":
            return endpoint_config(EndpointConfigName, main=G5)
        words = f'Could not find endpoint configuration "{EndpointConfigName}".'
        return CloudError("x", operation="sagemaker:DescribeEndpointConfig", words=words)

    nameless = endpoint("lost-too")
    del nameless["EndpointConfigName"]
    described = [endpoint("lost"), endpoint("chat"), nameless]
    report = scan(ApiTwin(answers(*described, DescribeEndpointConfig=config)))
    assert ["chat"] == [row.resource.name for row in report.rows]
    (line,) = report.unread
    assert "sagemaker:DescribeEndpointConfig" == line.operation
    assert "lost, lost-too" in line.reason
    assert not line.is_missing_right


def test_instance_pools_are_known_without_a_configuration() -> None:
    """DescribeEndpoint names the types of pools itself."""
    pools = [{"InstanceType": "ml.g5.12xlarge", "CurrentInstanceCount": 2}]
    described = endpoint("chat", variant("main", InstancePools=pools))
    gone = CloudError("x", operation="sagemaker:DescribeEndpointConfig", words="Could not find it")
    row = row_of(described, DescribeEndpointConfig=gone)
    assert "2 x ml.g5.12xlarge, 4 x NVIDIA A10G each" == row.resource.what


@pytest.mark.parametrize(
    ("status", "rows"),
    [
        ("UpdateRollbackFailed", 1),
        ("Updating", 1),
        ("SystemUpdating", 1),
        ("RollingBack", 1),
        ("Creating", 0),
        ("Deleting", 0),
        ("Failed", 0),
        ("OutOfService", 0),
    ],
)
def test_every_endpoint_with_running_instances_is_listed(status: str, rows: int) -> None:
    """An endpoint whose update and roll-back failed stays in service, for months if nobody acts."""
    summary = {**endpoint_summary("chat"), "EndpointStatus": status}
    described = endpoint("chat", EndpointStatus=status)

    def listed(StatusEquals: str | None = None, **_: Any) -> Any:
        """Return the endpoint if it has the status that is asked for."""
        return {"Endpoints": [summary] if StatusEquals in (None, status) else []}

    report = scan(ApiTwin(answers(described, ListEndpoints=listed)))
    assert (rows, ()) == (len(report.rows), report.unread)


@pytest.mark.parametrize(
    "error",
    [
        Throttled("x", operation="sagemaker:DescribeEndpoint", words="too many"),
        AccessDenied("x", operation="sagemaker:DescribeEndpoint", words="no right"),
    ],
)
def test_an_endpoint_that_cannot_be_read_is_reported(error: CloudError) -> None:
    """The others have their rows. One line stands for all of the same kind."""
    listed = {"Endpoints": [endpoint_summary(name) for name in ("a", "b", "chat")]}

    def describe(EndpointName: str) -> Any:
        """Return one of three."""
        return endpoint("chat") if EndpointName == "chat" else error

    api = ApiTwin(answers(endpoint("chat"), ListEndpoints=listed, DescribeEndpoint=describe))
    report = scan(api)
    assert ["chat"] == [row.resource.name for row in report.rows]
    (line,) = report.unread
    assert (error.words, isinstance(error, AccessDenied)) == (line.reason, line.is_missing_right)


def test_a_record_in_another_form_costs_its_own_row() -> None:
    """And is reported."""
    odd = endpoint("odd")
    api = ApiTwin(answers(odd, endpoint("chat")))
    twin = api.call

    def call(target: Target, operation: str, **parameters: Any) -> Any:
        """Return an endpoint without a name of its variant."""
        if parameters.get("EndpointName") == "odd":
            return {**odd, "ProductionVariants": [{}]}
        return twin(target, operation, **parameters)

    api.call = call  # type: ignore[method-assign]
    report = scan(api)
    assert ["chat"] == [row.resource.name for row in report.rows]
    (line,) = report.unread
    assert "sagemaker:DescribeEndpoint" == line.operation


def test_a_price_is_asked_for_once_a_scan_and_region() -> None:
    """In the Region of the Price List that is nearest."""
    asked: list[str] = []

    class PricesTwin(ApiTwin):
        """Remembers where prices were asked for."""

        def call(self, target: Target, operation: str, **parameters: Any) -> Any:
            """Return the answer."""
            if operation == "pricing:GetProducts":
                asked.append(target.region)
            return super().call(target, operation, **parameters)

    api = PricesTwin(answers(endpoint("chat"), endpoint("search")))
    where = place(api=api, metrics=SeriesTwin(MEASURED))
    scan_place(where, [SageMakerEndpoints()])
    other_account = replace(where, target=Target("210987654321", "us-east-1"), unread=[])
    report = scan_place(other_account, [SageMakerEndpoints()])
    assert [Decimal("7.09")] * 2 == [row.usd_per_hour for row in report.rows]
    assert ["us-east-1"] == asked
    paris = replace(where, target=Target("123456789012", "eu-west-3"))
    assert [None] * 2 == [
        row.usd_per_hour for row in scan_place(paris, [SageMakerEndpoints()]).rows
    ]
    assert ["us-east-1", "eu-central-1"] == asked


def test_an_unreadable_price_is_unknown_and_reported() -> None:
    """The rows stand without a price."""
    denied = AccessDenied("x", operation="pricing:GetProducts", words="no right")
    report = scan(ApiTwin(answers(endpoint("chat"), GetProducts=denied)))
    (row,) = report.rows
    assert row.usd_per_hour is None
    assert Finding.UNUSED is row.judgment.finding
    (line,) = report.unread
    assert "pricing:GetProducts" == line.operation


def test_the_price_of_ec2_never_stands_in_for_that_of_sagemaker() -> None:
    """Only a product for endpoints counts: not Studio's, nor that of another Region."""
    others = price_list(
        product("USE1-Studio:JupyterLab-ml.g5.12xlarge", "7.11"),
        product("EUW1-Host:ml.g5.12xlarge", "7.99", region="eu-west-1"),
    )
    assert row_of(endpoint("chat"), GetProducts=others).usd_per_hour is None


def test_a_region_without_sagemaker_is_not_asked() -> None:
    """It has no host to ask."""
    api = ApiTwin({}, absent=["sagemaker"])
    report = scan(api)
    assert ((), (), []) == (report.rows, report.unread, api.calls)


def test_an_empty_region_costs_one_call() -> None:
    """50 ms."""
    api = ApiTwin(answers())
    scan(api)
    assert ["sagemaker:ListEndpoints"] == [operation for operation, _ in api.calls]


def test_all_calls_are_on_the_list_of_the_kind() -> None:
    """The client refuses the others."""
    api = ApiTwin(answers(endpoint("chat")))
    scan(api)
    called = {operation for operation, _ in api.calls}
    assert called <= set(SageMakerEndpoints.operations)


def test_gpus_that_worked_in_a_few_hours_are_never_called_unused() -> None:
    # Four GPUs at full load for three hours of a week are 2% on average.
    hours = (0.0,) * 165 + (400.0,) * 3
    values = {**MEASURED, ("GPUUtilization", "main"): hours}
    row = row_of(endpoint("chat"), SeriesTwin(values))
    assert (row.judgment.finding, row.judgment.strength) == (Finding.BUSY, Strength.STRONG)
    assert "delete" not in row.command
