"""`governor doctor` over a fleet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from cli import doctor
from cli.telemetry import Health, health_of
from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.policy.document import parse_policy
from local.engine.cloud import ROOT
from local.engine.templates import load_template
from tests.builders import NOW, TARGET, make_instance
from tests.twins import MemoryEc2, MemoryMetrics
from tests.unit.worlds.metric_layouts import CONTAINER_INSIGHTS, DCGM, NEURON, Layout


def fleet() -> tuple[MemoryEc2, MemoryMetrics]:
    """One that publishes, one that does not, one that is not selected."""
    ec2, metrics = MemoryEc2(), MemoryMetrics(now=lambda: NOW)
    for number, tags in (
        (1, {"Purpose": "GPU-Workload"}),
        (2, {"Purpose": "GPU-Workload"}),
        (3, {}),
    ):
        instance = make_instance(
            instance_id=f"i-{number:017x}", tags={**tags, "Name": f"n\x1b[2J{number}"}
        )
        ec2.add(instance)
        own = {"InstanceId": instance.instance_id}
        for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            metrics.publish(metric, own, [1.0] * 12)
    metrics.publish("nvidia_smi_utilization_gpu", {"InstanceId": f"i-{1:017x}"}, [2.0] * 12)
    metrics.publish("nvidia_smi_power_draw", {"InstanceId": f"i-{1:017x}"}, [30.0] * 12)
    metrics.publish("GPULost", {"InstanceId": f"i-{1:017x}", "index": "0"}, [0.0] * 12)
    return ec2, metrics


def test_the_silent_come_first() -> None:
    """Only what is selected is looked at."""
    ec2, metrics = fleet()
    found = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)

    assert [(f"i-{2:017x}", Health.SILENT), (f"i-{1:017x}", Health.RIGHT)] == [
        (one.instance.instance_id, health_of(one.found)) for one in found
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_job_that_publishes_is_named(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """Whoever set it up sees that it is heard."""
    ec2, metrics = fleet()
    own = {"InstanceId": f"i-{1:017x}"}
    metrics.publish("Throughput", own, [512.0] * 12, namespace="MLTraining")
    found = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)
    doctor._print(found, as_json=as_json)
    out = capsys.readouterr().out

    if as_json:
        assert [None, "MLTraining Throughput"] == [one["work"] for one in json.loads(out)]
    else:
        assert 1 == out.count("a job publishes MLTraining Throughput, which keeps it")


@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_found_is_printed(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """For people, without what a name could do to a terminal, or for machines."""
    ec2, metrics = fleet()
    found = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)
    doctor._print(found, as_json=as_json)
    out = capsys.readouterr().out

    assert "\x1b" not in out
    if as_json:
        assert ["silent", "right"] == [one["health"] for one in json.loads(out)]
        assert [False, True] == [one["faults_are_seen"] for one in json.loads(out)]
    else:
        assert out.endswith("1 silent, 1 right\n")
        assert "-> deploy stacks/telemetry.yaml" in out
        assert "1 of 2 publish no Xid, ECC, throttling or lost GPUs" in out


def test_findings_of_one_cause_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    """With how many they are of; the advice once; of each what it has for itself; not hundreds of
    lines."""
    ec2, metrics = MemoryEc2(), MemoryMetrics(now=lambda: NOW)
    for number in range(1, 31):
        own = {"InstanceId": f"i-{number:017x}"}
        ec2.add(make_instance(instance_id=own["InstanceId"], tags={"Purpose": "GPU-Workload"}))
        metrics.publish(POWER, own, [30.0] * 12)
        for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            metrics.publish(metric, own, [1.0] * 12)
        if number > 20:
            few = [1.0] * (12 if number > 23 else number - 19)
            metrics.publish("nvidia_smi_utilization_gpu", own, [*few, *[None] * (12 - len(few))])
    doctor._print(doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW), as_json=False)
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith("silent  20 instances: no nvidia_smi_utilization_gpu in GPU/EC2")
    assert lines[1].startswith("        -> deploy stacks/telemetry.yaml")
    assert f"        i-{1:017x}, g5.xlarge, us-east-1" in lines[2]
    assert "        and 10 more, which --json lists" == lines[12]
    assert "wrong   3 instances: measured too little of the window" == lines[13]
    assert 1 == sum("check whether the agent restarts" in line for line in lines)
    assert [" 17%", " 25%", " 33%"] == [
        line.partition(" (")[2].partition(";")[0][-4:] for line in lines[15:18]
    ]
    assert "right   7 instances" == lines[18]
    assert "20 silent, 3 wrong, 7 right" == lines[-1]


UTILIZATION = "nvidia_smi_utilization_gpu"
POWER = "nvidia_smi_power_draw"


def examined_one(
    utilization: float, *, power: float | None = 30.0, ahead: int = 0, policy: str = ""
) -> doctor.Examined:
    """The examination of one instance with these readings, `ahead` minutes in the future too."""
    ec2, metrics = MemoryEc2(), MemoryMetrics()
    own = {"InstanceId": f"i-{1:017x}"}
    ec2.add(make_instance(instance_id=own["InstanceId"], tags={"Purpose": "GPU-Workload"}))
    metrics.now = lambda: NOW
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        metrics.publish(metric, own, [1.0] * 12)
    metrics.publish(UTILIZATION, own, [utilization] * 240)
    if power is not None:
        metrics.publish(POWER, own, [power] * 240)
    if ahead:
        metrics.now = lambda: NOW + timedelta(minutes=ahead)
    (found,) = doctor.with_fleet_findings(
        doctor.examine(TARGET, parse_policy(policy), ec2, metrics, NOW)
    )
    return found


def causes(examined: doctor.Examined) -> set[str]:
    """The causes of its findings."""
    return {finding.cause for finding in examined.found}


@pytest.mark.parametrize(
    ("utilization", "power", "found"),
    [
        (2.0, 30.0, set()),
        (1.99, 30.0, {"never reached 2"}),
        (1.5, 30.0, {"never reached 2"}),
        (1.0, 30.0, {"never reached 2"}),
        (0.98, 30.0, {"never reached 2"}),
        (0.98, None, {"never reached 2", "no power", "share"}),
        (0.0, 30.0, set()),
        (0.0, 74.9, set()),
        (0.0, 75.0, {"zeros"}),
        (0.0, 119.9, {"zeros"}),
        (0.0, 120.0, {"zeros"}),
        (2.0, None, {"no power"}),
    ],
)
def test_a_small_number_is_doubted(
    utilization: float, power: float | None, found: set[str]
) -> None:
    """A share from 0 to 1, zeros beside power, and utilization alone are named."""
    assert found == causes(examined_one(utilization, power=power))


@pytest.mark.parametrize(
    ("policy", "health"),
    [
        ("mode: ask", Health.UNSURE),
        ("mode: observe", Health.UNSURE),
        ("{mode: ask, approval: {on_expiry: act}}", Health.UNSURE),
        ("{mode: auto, metrics: {publishers_are_trusted: true}}", Health.UNSURE),
        (
            "{mode: auto, metrics: {publishers_are_trusted: true}, "
            "plan: {local_disks_may_be_lost_unasked: true}}",
            Health.WRONG,
        ),
        ("{mode: ask, idle: {second_figure: required}}", Health.WRONG),
    ],
)
def test_power_that_is_not_measured_is_wrong_where_it_is_needed(
    policy: str, health: Health
) -> None:
    """People may be asked without it; nothing is done unasked."""
    examined = examined_one(2.0, power=None, policy=policy)
    (finding,) = examined.found

    assert (health, "power: not measured") == (finding.health, finding.seen)
    assert POWER in finding.advice
    assert (health is Health.WRONG) is doctor._is_unjudged(examined)


def test_power_of_a_gpu_that_works_is_no_finding() -> None:
    """Each busy instance was unsure because "power: reached 97% of the limit", with the advice to
    publish what it publishes."""
    assert () == examined_one(90.0, power=290.0).found
    assert {"no power"} == causes(examined_one(2.0, power=290.0))


@pytest.mark.parametrize(
    ("ahead", "health"),
    [
        (0, None),
        (1, None),
        (3, Health.WRONG),
        (119, Health.WRONG),
        (-10, None),
        (-12, Health.UNSURE),
        (-25, Health.UNSURE),
    ],
)
def test_a_clock_that_is_off_is_named(ahead: int, health: Health | None) -> None:
    """Its readings are dated in the future, or are old: then the agent may be late, too."""
    found = [one.health for one in examined_one(2.0, ahead=ahead).found if one.cause == "clock"]
    assert found == ([] if health is None else [health])


@pytest.mark.parametrize(
    ("watts", "is_named"), [(0.0, True), (0.9, True), (3.0, True), (3.1, False), (30.0, False)]
)
def test_power_that_cannot_be_power_is_named(watts: float, is_named: bool) -> None:
    """It is published, so it has not stopped coming."""
    ec2, metrics = MemoryEc2(), MemoryMetrics(now=lambda: NOW)
    own = {"InstanceId": f"i-{1:017x}"}
    ec2.add(make_instance(instance_id=own["InstanceId"], tags={"Purpose": "GPU-Workload"}))
    metrics.publish(UTILIZATION, own, [2.0] * 12)
    metrics.publish(POWER, own, [watts] * 12)
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        metrics.publish(metric, own, [1.0] * 12)
    [examined] = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)

    assert ({"no power"} if is_named else set()) == causes(examined)
    assert is_named is any("implausibly low" in finding.seen for finding in examined.found)


def test_a_metric_that_one_instance_shows_in_percent_is_right_for_all() -> None:
    """The whole fleet decides, each metric by itself."""
    ec2, metrics = MemoryEc2(), MemoryMetrics(now=lambda: NOW)
    for number, utilization in ((1, 0.98), (2, 60.0)):
        own = {"InstanceId": f"i-{number:017x}"}
        ec2.add(make_instance(instance_id=own["InstanceId"], tags={"Purpose": "GPU-Workload"}))
        metrics.publish(POWER, own, [30.0] * 12)
        for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            metrics.publish(metric, own, [1.0] * 12)
        metrics.publish(UTILIZATION, own, [utilization] * 12)
    found = doctor.with_fleet_findings(doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW))

    assert [set(), set()] == [causes(examined) for examined in found]


@pytest.mark.parametrize(
    ("figure", "metric"),
    [("power", POWER), ("memory", "nvidia_smi_memory_used")],
)
def test_a_figure_that_has_stopped_coming_is_named(figure: str, metric: str) -> None:
    """CloudWatch lists its series for two weeks; the window has no reading of it."""
    ec2, metrics = fleet()
    own = {"InstanceId": f"i-{1:017x}"}
    metrics.publish(metric, own, [30.0] * 12 + [None] * 40)
    found = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)
    examined = next(one for one in found if one.instance.instance_id == own["InstanceId"])
    stopped = [finding for finding in examined.found if finding.cause == "stopped"]

    assert [True] == [metric in finding.seen for finding in stopped]
    assert ("no power" in causes(examined)) is (figure == "power")


CONTACTS = """
ownership:
  contacts:
    Ada: {emails: [ada@example.com]}
    ML Platform: {lists: [ml@example.com]}
  email_domains: [corp.example]
"""


def tagged(*tags_of_instances: dict[str, str], policy: str = CONTACTS) -> list[doctor.Examined]:
    """The examination of instances with these tags, under this policy."""
    ec2, metrics = MemoryEc2(), MemoryMetrics(now=lambda: NOW)
    for number, tags in enumerate(tags_of_instances, 1):
        selected = {"Purpose": "GPU-Workload", **tags}
        ec2.add(make_instance(instance_id=f"i-{number:017x}", tags=selected))
    return doctor.examine(TARGET, parse_policy(policy), ec2, metrics, NOW)


@pytest.mark.parametrize(
    "owner",
    [
        "ADA",
        "ada@example.com",
        "ada@example.com, somebody@corp.example",
        "ml platform",
        "Ada, carl",
        "somebody@corp.example",
        "unassigned",
        " ",
    ],
)
def test_an_owner_tag_that_names_a_contact_is_not_listed(
    capsys: pytest.CaptureFixture[str], owner: str
) -> None:
    """Letter case and several addresses are understood. An instance without an owner is not
    listed, either."""
    found = tagged({"Owner": owner}, {})
    doctor._print(found, as_json=False)
    assert "owner tag" not in capsys.readouterr().out

    doctor._print(found, as_json=True)
    documents = json.loads(capsys.readouterr().out)
    assert [None, None] == [document["unknown_owner"] for document in documents]


def test_owner_tags_that_name_nobody_known_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With the key that counts, the value, and the remedy."""
    found = tagged(
        {"Owner": "Ada", "owner": "zoe"}, {"owner": "carl@left.example\x1b[2J"}, {"Owner": "zoe"}
    )
    doctor._print(found, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    start = lines.index(
        "2 of 3 instances have an owner tag that names nobody whom the policy knows:"
    )

    remedy = lines[start + 1]
    assert remedy.startswith("        -> add these people to ownership.contacts")
    assert "correct the tag" in remedy
    listed = [line.strip() for line in lines[start + 2 : start + 4]]
    assert f"i-{2:017x}, g5.xlarge, us-east-1: owner=carl@left.example [2J" == listed[0]
    assert f"i-{3:017x}, g5.xlarge, us-east-1: Owner=zoe" == listed[1]

    doctor._print(found, as_json=True)
    documents = json.loads(capsys.readouterr().out)
    owner_by_id = {one["instance_id"]: one["unknown_owner"] for one in documents}
    assert {
        f"i-{1:017x}": None,
        f"i-{2:017x}": {"tag_key": "owner", "tag_value": "carl@left.example [2J"},
        f"i-{3:017x}": {"tag_key": "Owner", "tag_value": "zoe"},
    } == owner_by_id


def test_the_list_of_unknown_owners_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """Instances of one owner stand together, and --json lists all."""
    many = [{"Owner": "zoe" if number % 2 else "carl"} for number in range(30)]
    doctor._print(tagged(*many), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    start = lines.index(
        "30 of 30 instances have an owner tag that names nobody whom the policy knows:"
    )

    assert all(line.endswith(": Owner=carl") for line in lines[start + 2 : start + 12])
    assert "        and 20 more, which --json lists" == lines[start + 12]


HEAT = "nvidia_smi_temperature_gpu"
AS_THE_AGENT = {
    "InstanceId": f"i-{1:017x}",
    "InstanceType": "g5.xlarge",
    "index": "0",
    "name": "A10G",
}


@pytest.mark.parametrize(
    ("dimensions", "seen"),
    [
        ({**AS_THE_AGENT, "arch": "Ampere"}, True),
        (AS_THE_AGENT, False),
        ({"InstanceId": f"i-{1:017x}", "arch": "Ampere", "index": "0", "name": "A10G"}, False),
        ({"InstanceId": f"i-{1:017x}"}, False),
        (None, False),
    ],
)
def test_whom_the_alarm_on_heat_does_not_see_is_said(
    capsys: pytest.CaptureFixture[str], dimensions: dict[str, str] | None, seen: bool
) -> None:
    """Its query matches one set of dimensions exactly; of a silent instance nothing more is
    said."""
    ec2, metrics = fleet()
    if dimensions is not None:
        metrics.publish(HEAT, dimensions, [50.0] * 12)
    found = doctor.examine(TARGET, parse_policy(""), ec2, metrics, NOW)

    doctor._print(found, as_json=False)
    assert seen != (
        "HotGpuAlarm of stacks/telemetry.yaml does not see the heat of 1" in capsys.readouterr().out
    )
    doctor._print(found, as_json=True)
    assert [False, seen] == [one["heat_alarm_sees"] for one in json.loads(capsys.readouterr().out)]
    assert [Health.SILENT, Health.RIGHT] == [health_of(one.found) for one in found]


def test_the_alarm_on_heat_is_the_one_that_is_deployed() -> None:
    """The same metric, namespace and dimensions."""
    (metric,) = load_template(ROOT / "stacks" / "telemetry.yaml")["Resources"]["HotGpuAlarm"][
        "Properties"
    ]["Metrics"]
    keys = ", ".join(f'"{key}"' for key in sorted(doctor.HEAT_ALARM.dimensions))

    assert f"({doctor.HEAT_ALARM.metric}) " in metric["Expression"]
    assert f'SCHEMA("{doctor.HEAT_ALARM.namespace}", {keys})' in metric["Expression"]


PUBLISHERS = [
    (
        CONTAINER_INSIGHTS,
        "ContainerInsights",
        "publishes through Container Insights (node_gpu_utilization in ContainerInsights), not "
        "through metrics.profile: agent",
        "set metrics.profile: container-insights in an override for instance_families: [p5]",
    ),
    (
        DCGM,
        "OurPrometheus",
        "publishes through the DCGM exporter (DCGM_FI_DEV_GPU_UTIL in OurPrometheus)",
        "set metrics.profile: dcgm, metrics.namespace: OurPrometheus in an override for",
    ),
    (
        NEURON,
        "ContainerInsights",
        "publishes through Container Insights (node_neuroncore_utilization in ContainerInsights)",
        "set metrics.profile: neuron in an override for instance_families: [trn1]",
    ),
]


class NamedMetrics(MemoryMetrics):
    """Lists series in the namespace in which they were published, and in no other."""

    namespace = ""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        if wanted.namespace not in (None, self.namespace) or wanted.metric is None:
            return {}
        here = wanted._replace(namespace=self.namespace)
        return super().list_series(target, here, instance_id)

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        known = [one for one in queries if one.namespace in ("AWS/EC2", self.namespace)]
        return super().read(target, known, window)


def with_layout(
    layout: Layout, namespace: str, policy: str = "", tags: dict[str, str] | None = None
) -> doctor.Examined:
    """The examination of one instance that publishes by this layout into this namespace."""
    ec2, metrics = MemoryEc2(), NamedMetrics(now=lambda: NOW)
    metrics.namespace = namespace
    own_id = f"i-{1:017x}"
    all_tags = {"Purpose": "GPU-Workload", **(tags or {})}
    ec2.add(make_instance(instance_id=own_id, instance_type=layout.instance_type, tags=all_tags))
    layout.publish(metrics, own_id, [0.5] * layout.parts, bins=240)
    (found,) = doctor.examine(TARGET, parse_policy(policy), ec2, metrics, NOW)
    return found


@pytest.mark.parametrize(("layout", "namespace", "seen", "advice"), PUBLISHERS)
def test_doctor_says_which_profile_fits(
    layout: Layout, namespace: str, seen: str, advice: str
) -> None:
    """In place of silence. With that profile, and its names, the instance can be judged."""
    (finding,) = with_layout(layout, namespace).found
    assert (Health.SILENT, "other profile") == (finding.health, finding.cause)
    assert seen in finding.seen
    assert advice in finding.advice

    profile = layout.profile.name
    document = f"metrics: {{profile: {profile}, namespace: {namespace}}}"
    assert {"costly"} == {found.cause for found in with_layout(layout, namespace, document).found}


def test_doctor_names_the_node_group_in_the_override() -> None:
    """All of its hosts publish alike."""
    tags = {"eks:nodegroup-name": "gpu", "eks:cluster-name": "prod"}
    (finding,) = with_layout(CONTAINER_INSIGHTS, "ContainerInsights", tags=tags).found
    assert finding.advice.endswith('in an override for tags: {"eks:nodegroup-name": "gpu"}')


def test_doctor_names_the_profile_of_names_that_are_counted_wrongly() -> None:
    """The names of cores under the default profile, which expects devices."""
    document = "metrics: {namespace: ContainerInsights, utilization: node_neuroncore_utilization}"
    examined = with_layout(NEURON, "ContainerInsights", document)
    found = {finding.cause: finding for finding in examined.found}
    assert "other profile" in found
    assert "too many" not in found
    assert "set metrics.profile: neuron in an override" in found["other profile"].advice
