"""Promises of the telemetry stack: metrics as the governor reads them, from every instance."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from cfnlint import api as cfnlint  # type: ignore[import-untyped]

from governor.policy.model.judging import Metrics
from tests.unit.stacks.hosts import TELEMETRY, commands, content
from tests.unit.template.machines import ROOT
from tests.unit.template.test_dashboards import body, metrics

RESOURCES: dict[str, dict[str, Any]] = TELEMETRY["Resources"]
DOCUMENTS = sorted(name for name, r in RESOURCES.items() if r["Type"] == "AWS::SSM::Document")
ASSOCIATIONS = sorted(name for name, r in RESOURCES.items() if r["Type"] == "AWS::SSM::Association")
_, *_CONFIGURATIONS = RESOURCES["AgentConfiguration"]["Properties"]["Value"]["Fn::If"]
CONFIGURATION: dict[str, Any]
LEAN: dict[str, Any]
CONFIGURATION, LEAN = map(json.loads, _CONFIGURATIONS)
LEAN_MEASUREMENTS = LEAN["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"]
MEASUREMENTS = CONFIGURATION["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"]
PAGES = ("telemetry.md", "interruptions.md")
DOCUMENTATION = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)
PUBLISHED = {f"nvidia_smi_{name}" for name in MEASUREMENTS}
PER_GPU = {*CONFIGURATION["metrics"]["append_dimensions"], "arch", "index", "name"}
QUERY = re.compile(
    r'SELECT (?P<function>AVG|MAX)\((?P<metric>\w+)\) FROM SCHEMA\("GPU/EC2", (?P<keys>.+?)\) '
    r"GROUP BY (?P<groups>.+?) ORDER BY (?P=function)\(\) (?P<order>ASC|DESC)"
)


def query(text: str) -> dict[str, Any]:
    """A query over the fleet, taken apart."""
    match = QUERY.fullmatch(text.strip())
    assert match, text
    names = {key: set(re.findall(r'"(\w+)"', match[key])) for key in ("keys", "groups")}
    return match.groupdict() | names


def alarm(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """An alarm's properties, its query's properties and its query taken apart."""
    properties = RESOURCES[name]["Properties"]
    (metric,) = properties["Metrics"]
    return properties, metric, query(metric["Expression"])


@pytest.mark.parametrize("stack", ["telemetry", "gpu_fleet", "member", "forward_events"])
def test_cfn_lint_finds_nothing(stack: str) -> None:
    """Errors and warnings, as `make template` has them."""
    found = cfnlint.lint((ROOT / "stacks" / f"{stack}.yaml").read_text(encoding="utf-8"))

    assert [] == [str(match) for match in found]


@pytest.mark.parametrize("stack", ["telemetry", "gpu_fleet", "member", "forward_events"])
def test_a_stack_can_be_deployed_without_a_bucket(stack: str) -> None:
    """CloudFormation takes 51,200 bytes in the call itself."""
    assert len((ROOT / "stacks" / f"{stack}.yaml").read_bytes()) <= 51_200


def test_the_agent_is_told_exactly_this() -> None:
    """No more keys than meant: each measurement is a metric per GPU that somebody pays for."""
    assert {
        "agent": {"metrics_collection_interval": 60, "run_as_user": "cwagent"},
        "metrics": {
            "namespace": "GPU/EC2",
            "append_dimensions": {
                "InstanceId": "${aws:InstanceId}",
                "InstanceType": "${aws:InstanceType}",
            },
            "aggregation_dimensions": [["InstanceId"]],
            "metrics_collected": {
                "nvidia_gpu": {
                    "metrics_collection_interval": 60,
                    "measurement": [
                        "utilization_gpu",
                        "utilization_memory",
                        "memory_used",
                        "memory_total",
                        "memory_free",
                        "temperature_gpu",
                        "power_draw",
                    ],
                }
            },
        },
    } == CONFIGURATION


def test_the_configuration_fits_a_standard_parameter() -> None:
    """4 KiB, under the prefix that AWS's own policy for the agent may read."""
    properties = RESOURCES["AgentConfiguration"]["Properties"]

    assert all(len(text.encode()) <= 4096 for text in _CONFIGURATIONS)
    assert properties["Name"]["Fn::Sub"].startswith("AmazonCloudWatch-")


def test_lean_telemetry_is_all_that_the_idle_rule_reads() -> None:
    """The full configuration with fewer measurements, GPU by GPU and as an aggregate; no alarm
    waits for a temperature that nobody publishes."""
    full = deepcopy(CONFIGURATION)
    full["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"] = LEAN_MEASUREMENTS
    assert full == LEAN
    metrics = Metrics()
    assert {f"nvidia_smi_{name}" for name in LEAN_MEASUREMENTS} == {
        metrics.utilization,
        metrics.memory_used,
        metrics.power_draw,
    }

    condition = TELEMETRY["Conditions"]["PublishesHeat"]
    assert {"Fn::Equals": [{"Ref": "AgentMetrics"}, "full"]} == condition
    assert "full" == TELEMETRY["Parameters"]["AgentMetrics"]["Default"]
    assert "PublishesHeat" == RESOURCES["HotGpuAlarm"]["Condition"]
    _, parts = RESOURCES["FleetDashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    assert ["PublishesHeat", ""] == parts["HeatAlarm"]["Fn::If"][::2]


def test_the_governor_reads_what_the_agent_publishes() -> None:
    """By the defaults of the policy."""
    metrics = Metrics()

    assert CONFIGURATION["metrics"]["namespace"] == metrics.namespace
    assert {metrics.utilization, metrics.memory_used, metrics.power_draw} <= PUBLISHED
    assert (
        CONFIGURATION["agent"]["metrics_collection_interval"] == metrics.collection_interval_seconds
    )


def test_four_pictures_show_the_fleet_by_one_query_each() -> None:
    """Utilization, memory, temperature, power, by instance, from what is published."""
    widgets = body("stacks/telemetry.yaml")["widgets"]
    pictures = [
        one["properties"] for one in widgets if one["properties"].get("view") == "timeSeries"
    ]
    queries = []
    for picture in pictures:
        ((line,),) = picture["metrics"]
        queries.append(query(line["expression"]))

    assert [
        ("AVG", "nvidia_smi_utilization_gpu"),
        ("AVG", "nvidia_smi_utilization_memory"),
        ("MAX", "nvidia_smi_temperature_gpu"),
        ("AVG", "nvidia_smi_power_draw"),
    ] == [(found["function"], found["metric"]) for found in queries]
    for found in queries:
        assert found["metric"] in PUBLISHED
        assert [found["keys"]] == [
            set(keys) for keys in CONFIGURATION["metrics"]["aggregation_dimensions"]
        ]
        assert {"InstanceId"} == found["groups"]


def test_numbers_are_over_the_metrics_that_are_published() -> None:
    """Metrics of the aggregates: one series an instance."""
    expressions = [
        line["expression"] for *names, line in metrics("stacks/telemetry.yaml") if not names
    ]
    shown = {
        found
        for text in expressions
        for found in re.findall(r'\((\w+)\) FROM SCHEMA\("GPU/EC2", "InstanceId"\)', text)
    }

    assert len(expressions) == 6
    assert {"nvidia_smi_utilization_gpu", "nvidia_smi_temperature_gpu"} < shown <= PUBLISHED


def test_a_hot_gpu_is_told() -> None:
    """Above 85 C on the average of 300 s, twice: of each GPU, the hottest 500 of the Region."""
    properties, metric, found = alarm("HotGpuAlarm")

    assert 85 == TELEMETRY["Parameters"]["HotGpuAboveCelsius"]["Default"]
    assert ({"Ref": "HotGpuAboveCelsius"}, "GreaterThanThreshold") == (
        properties["Threshold"],
        properties["ComparisonOperator"],
    )
    assert (300, 2, 2) == (
        metric["Period"],
        properties["EvaluationPeriods"],
        properties["DatapointsToAlarm"],
    )
    assert ("AVG", "nvidia_smi_temperature_gpu", "DESC") == (
        found["function"],
        found["metric"],
        found["order"],
    )
    assert (PER_GPU, {"InstanceId", "index"}) == (found["keys"], found["groups"])


def test_low_utilization_is_told() -> None:
    """Under 10% on the average of 1,800 s, three times: of each instance, the least used 500."""
    properties, metric, found = alarm("LowUtilizationAlarm")

    assert 10 == TELEMETRY["Parameters"]["LowUtilizationBelowPercent"]["Default"]
    assert ({"Ref": "LowUtilizationBelowPercent"}, "LessThanThreshold") == (
        properties["Threshold"],
        properties["ComparisonOperator"],
    )
    assert (1800, 3, 3) == (
        metric["Period"],
        properties["EvaluationPeriods"],
        properties["DatapointsToAlarm"],
    )
    assert ("AVG", "nvidia_smi_utilization_gpu", "ASC") == (
        found["function"],
        found["metric"],
        found["order"],
    )
    assert ({"InstanceId"}, {"InstanceId"}) == (found["keys"], found["groups"])


@pytest.mark.parametrize("name", ["HotGpuAlarm", "LowUtilizationAlarm"])
def test_an_alarm_speaks_and_takes_silence_for_nothing(name: str) -> None:
    """It looks back three hours at most, as CloudWatch does for queries; missing data is no
    breach."""
    properties, metric, found = alarm(name)

    assert metric["Period"] * properties["EvaluationPeriods"] <= 3 * 3600
    assert "notBreaching" == properties["TreatMissingData"]
    assert [
        {"Fn::If": ["OwnTopic", {"Ref": "AlertTopic"}, {"Ref": "AlertTopicArn"}]}
    ] == properties["AlarmActions"]
    assert found["metric"] in PUBLISHED


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_but_checked_values_reaches_a_shell(name: str) -> None:
    """Parameters become text of a script that root runs: each is one of a list, or of a pattern."""
    document = content(name)
    text = json.dumps(document["mainSteps"])
    parameters = document.get("parameters", {})

    assert set(re.findall(r"\{\{(.*?)\}\}", text)) == {f" {parameter} " for parameter in parameters}
    for parameter in parameters.values():
        if "allowedValues" in parameter:
            assert parameter["default"] in parameter["allowedValues"]
            assert all(re.fullmatch(r"[a-z-]+", value) for value in parameter["allowedValues"])
            continue
        pattern = parameter["allowedPattern"]
        assert (pattern[0], pattern[-1]) == ("^", "$")
        for attack in ("'; reboot; '", "$(reboot)", "a b", "a\nb", "`reboot`", '"', ""):
            assert not re.fullmatch(
                pattern, f"AmazonCloudWatch-{attack}" if "Amazon" in pattern and attack else attack
            )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_can_be_updated_and_sent(name: str) -> None:
    """By name, in place, to instances, within the 64 KiB that Systems Manager takes."""
    properties = RESOURCES[name]["Properties"]

    assert ("Command", "NewVersion", "/AWS::EC2::Instance") == (
        properties["DocumentType"],
        properties["UpdateMethod"],
        properties["TargetType"],
    )
    assert properties["Name"]["Fn::Sub"].startswith("${NamePrefix}-")
    assert len(json.dumps(properties["Content"]).encode()) <= 65_536
    for step in properties["Content"]["mainSteps"]:
        assert {"StringEquals": ["platformType", "Linux"]} == step["precondition"]


def test_the_hook_has_a_bound() -> None:
    """It is sent with two minutes left."""
    (step,) = content("OnInterruptionDocument")["mainSteps"]

    assert int(step["inputs"]["timeoutSeconds"]) <= 30


@pytest.mark.parametrize("name", ASSOCIATIONS)
def test_an_association_reaches_all_instances_and_one_failure_stops_none(name: str) -> None:
    """By the selector's tag, so that it holds for instances to come."""
    properties = RESOURCES[name]["Properties"]

    (target,) = properties["Targets"]
    assert {"Key": "tag:Purpose", "Values": [{"Ref": "SelectorTagValue"}]} == (
        target["Fn::If"][2] if "Fn::If" in target else target
    )
    assert "100%" == properties["MaxErrors"]


def test_no_instance_gets_both_agent_and_publisher() -> None:
    """By a choice of the stack, or by a tag, which has one value."""
    chosen: dict[str, set[str]] = {"agent": set(), "publisher": set(), "tag": set()}
    for name in ASSOCIATIONS:
        resource = RESOURCES[name]
        condition = resource.get("Condition")
        if condition not in ("ByAgent", "ByPublisher"):
            continue
        (other,) = [p for p in ("agent", "publisher") if p.capitalize() not in condition]
        assert {"Fn::Not": [{"Fn::Equals": [{"Ref": "TelemetryBy"}, other]}]} == TELEMETRY[
            "Conditions"
        ][condition]
        by_tag, what, everyone = resource["Properties"]["Targets"][0]["Fn::If"]
        assert ("ByTag", "tag:GpuGovernorTelemetry", "tag:Purpose") == (
            by_tag,
            what["Key"],
            everyone["Key"],
        )
        mine = condition.removeprefix("By").lower()
        assert [mine] == what["Values"]
        chosen[mine].add(name)

    assert (
        {"InstallAgentAssociation", "ConfigureAgentAssociation"},
        {"InstallPublisherAssociation"},
    ) == (
        chosen["agent"],
        chosen["publisher"],
    )
    assert {"Fn::Equals": [{"Ref": "TelemetryBy"}, "tag"]} == TELEMETRY["Conditions"]["ByTag"]


def test_an_instance_may_fetch_the_pinned_bundle_and_no_other_object() -> None:
    """And only where the publisher is chosen."""
    *_, fetch = RESOURCES["AgentPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    condition, statement, nothing = fetch["Fn::If"]

    assert ("ByPublisher", {"Ref": "AWS::NoValue"}) == (condition, nothing)
    assert ("s3:GetObject", "arn:${AWS::Partition}:s3:::${PublisherBucket}/${PublisherKey}") == (
        statement["Action"],
        statement["Resource"]["Fn::Sub"],
    )


def test_the_agent_is_updated_only_when_somebody_says_so() -> None:
    """The association that installs has no schedule; the one that configures has, and installs
    nothing."""
    assert "ScheduleExpression" not in RESOURCES["InstallAgentAssociation"]["Properties"]
    assert (
        "rate(30 minutes)"
        == RESOURCES["ConfigureAgentAssociation"]["Properties"]["ScheduleExpression"]
    )
    assert ["aws:runShellScript"] == [
        step["action"] for step in content("ConfigureAgentDocument")["mainSteps"]
    ]


def test_the_agent_is_configured_right_after_it_is_installed() -> None:
    """And not configured where it could not be installed."""
    install, configure = content("InstallAgentDocument")["mainSteps"]

    assert ("aws:configurePackage", "AmazonCloudWatchAgent", "exit") == (
        install["action"],
        install["inputs"]["name"],
        install["onFailure"],
    )
    assert ("aws:runDocument", {"Ref": "ConfigureAgentDocument"}) == (
        configure["action"],
        configure["inputs"]["documentPath"],
    )


def test_an_instance_may_publish_gpu_metrics_and_read_its_configuration() -> None:
    """Nothing else, beyond what Systems Manager needs."""
    publish, read, _ = RESOURCES["AgentPolicy"]["Properties"]["PolicyDocument"]["Statement"]

    assert "cloudwatch:PutMetricData" == publish["Action"]
    # The last one belongs to one role on one instance: IAM fills in who calls.
    namespaces = ["GPU/EC2", "GPU/Custom", "GPU/EC2/${aws:userid}"]
    assert {"StringEquals": {"cloudwatch:namespace": namespaces}} == publish["Condition"]
    assert "ssm:GetParameter" == read["Action"]
    assert read["Resource"]["Fn::Sub"].endswith(":parameter/${AgentConfiguration}")
    managed = RESOURCES["InstanceRole"]["Properties"]["ManagedPolicyArns"]
    assert ["arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"] == [
        arn["Fn::Sub"] for arn in managed if "Fn::Sub" in arn
    ]


@pytest.mark.parametrize(
    ("sample", "document"),
    [("on-interruption", "OnInterruptionDocument"), ("verify-node", "VerifyNodeDocument")],
)
def test_a_sample_command_is_one_that_systems_manager_takes(sample: str, document: str) -> None:
    """By the API's own model, and by the document's own parameters."""
    call = json.loads(
        (ROOT / "stacks" / "samples" / f"send-{sample}.json").read_text(encoding="utf-8")
    )
    model = ServiceModel(Loader().load_service_model("ssm", "service-2"))
    parameters = content(document)["parameters"]

    shape = model.operation_model("SendCommand").input_shape
    assert shape is not None
    assert not ParamValidator().validate(call, shape).has_errors()
    prefix = TELEMETRY["Parameters"]["NamePrefix"]["Default"]
    assert (
        RESOURCES[document]["Properties"]["Name"]["Fn::Sub"].replace("${NamePrefix}", prefix)
        == call["DocumentName"]
    )
    assert parameters.keys() == call["Parameters"].keys()
    for name, (value,) in call["Parameters"].items():
        allowed = parameters[name].get("allowedValues")
        assert value in allowed if allowed else re.match(parameters[name]["allowedPattern"], value)


def test_parameters_stand_where_the_script_looks_for_them() -> None:
    """As its positional arguments, quoted."""
    text = commands("OnInterruptionDocument", Reason="test", WhenNoHook="sigterm", SecondsLeft="90")

    assert text.startswith("#!/bin/sh\nset -- 'test' 'sigterm' '90'\n")


@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_the_documented_costs_are_those_of_the_configuration(gpus: int) -> None:
    """0.30 USD for a measurement and dimension set; 0.10 USD for a series that an alarm
    analyses."""
    row = re.search(
        rf"^\| {gpus} GPUs? \| (\d+) \| \$([\d.]+) \| \$([\d.]+) \|$", DOCUMENTATION, re.MULTILINE
    )
    assert row is not None
    metrics = len(MEASUREMENTS) * (gpus + len(CONFIGURATION["metrics"]["aggregation_dimensions"]))

    assert (metrics, metrics * Decimal("0.30")) == (int(row[1]), Decimal(row[2]))
    assert (gpus + 1) * Decimal("0.10") == Decimal(row[3])

    lean_row = re.search(
        rf"^\| {gpus} GPUs?, lean \| (\d+) \| \$([\d.]+) \| \$([\d.]+) \|$",
        DOCUMENTATION,
        re.MULTILINE,
    )
    assert lean_row is not None
    lean_metrics = len(LEAN_MEASUREMENTS) * (gpus + 1)
    assert (lean_metrics, lean_metrics * Decimal("0.30")) == (
        int(lean_row[1]),
        Decimal(lean_row[2]),
    )
    assert Decimal("0.10") == Decimal(lean_row[3])


def test_what_the_documentation_names_is_there() -> None:
    """Documents, parameters and paths."""
    names = {RESOURCES[name]["Properties"]["Name"]["Fn::Sub"] for name in DOCUMENTS}
    assert [] == [
        n for n in names if n.replace("${NamePrefix}", "gpu-governor") not in DOCUMENTATION
    ]
    for value in content("OnInterruptionDocument")["parameters"]["Reason"]["allowedValues"]:
        assert f"`{value}`" in DOCUMENTATION
    for path in re.findall(r"`?(?:file://)?((?:stacks|scripts)/[\w./-]+\w)", DOCUMENTATION):
        assert (ROOT / path).exists(), path
