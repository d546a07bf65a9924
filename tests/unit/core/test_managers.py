"""Managers of an instance by its tags: every mark of `managers.json`, and what is no mark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from governor.core import managers
from governor.core.managers import managed_by, other_tools
from governor.episode.rules.plan import draw_plan, why_left_alone
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Policy
from tests.builders import make_facts, make_instance

DATA: list[dict[str, Any]] = json.loads(
    (Path(managers.__file__).parent / "managers.json").read_text(encoding="utf-8")
)
GOVERNED = {"Purpose": "GPU-Workload", "Owner": "ada", "Name": "notebook"}
TERMINATES = Policy(plan=PlanRule(action=Action.TERMINATE))


def marks_of(manager: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield one set of tags for each mark of a manager, as its own tool would write them."""
    for key in manager.get("keys", ()):
        yield {key: "any"}
    for key, patterns in manager.get("values", {}).items():
        for pattern in patterns:
            yield {key: pattern.replace("*", "gpu")}
    for prefix in manager.get("prefixes", ()):
        yield {f"{prefix}gpu": "any"}
    for word in manager.get("words", ()):
        yield {f"team-{word}-name": "any"}
    for creator in manager.get("created_by", ()):
        yield {"ManagedBy": creator}


def of_class(*classes: str) -> list[Any]:
    """Return every mark of the managers of these classes, a parameter each."""
    found = []
    for manager in DATA:
        if manager["class"] in classes:
            for number, tags in enumerate(marks_of(manager)):
                name = f"{manager['manager']} {number}"
                found.append(pytest.param(manager, tags, id=name))
    return found


def lines_of(tags: Mapping[str, str], policy: Policy) -> str:
    """Return what people read about a plan for an instance with these tags."""
    plan = draw_plan(make_facts(make_instance(tags={**GOVERNED, **tags})), policy)
    assert plan.steps
    return "; ".join(plan.stays)


def test_the_data_covers_forty_managers_each_with_its_source() -> None:
    """A row without a source is a guess that nobody can check."""
    names = [manager["manager"] for manager in DATA]

    assert 40 <= len(names)
    assert len(names) == len(set(names))
    assert all(manager["source"].strip() for manager in DATA)
    assert all(list(marks_of(manager)) for manager in DATA)


@pytest.mark.parametrize(("manager", "tags"), of_class("leave-alone"))
def test_every_mark_of_a_manager_keeps_its_instances(
    manager: Mapping[str, Any], tags: dict[str, str]
) -> None:
    """No plan has a step, in any letter case. Every row is one of these."""
    for written in (tags, {key.upper(): value.upper() for key, value in tags.items()}):
        instance = make_instance(tags={**GOVERNED, **written})
        reason = why_left_alone(instance, ())

        assert reason is not None
        assert f"{manager['manager']} runs it" in reason
        assert () == draw_plan(make_facts(instance), TERMINATES).steps


@pytest.mark.parametrize(("manager", "tags"), of_class("ask"))
def test_people_read_what_the_creator_of_an_instance_does_next(
    manager: Mapping[str, Any], tags: dict[str, str]
) -> None:
    """They are asked, and the question names the tool, its tag and what its next run does."""
    ((key, value),) = tags.items()

    for policy, effect in (
        (Policy(), manager["after_stop"]),
        (TERMINATES, manager["after_termination"]),
    ):
        assert f"{manager['manager']} ({key}={value}): {effect}" in lines_of(tags, policy)


@pytest.mark.parametrize(("manager", "tags"), of_class("schedule"))
def test_people_read_that_a_schedule_starts_it_again(
    manager: Mapping[str, Any], tags: dict[str, str]
) -> None:
    """A schedule starts what is stopped. It starts nothing that is terminated."""
    assert f"{manager['manager']} (" in lines_of(tags, Policy())
    assert "may start the instance again" in lines_of(tags, Policy())
    assert manager["manager"] not in lines_of(tags, TERMINATES)


@pytest.mark.parametrize(
    ("tags", "service"),
    [
        ({"ghr:Application": "github-action-runner"}, "GitHub Actions"),
        ({"Application": "github-action-runner", "Type": "Org"}, "GitHub Actions"),
        ({"GitHubRunner": "gpu-1"}, "GitHub Actions"),
        ({"github_runner": "true"}, "GitHub Actions"),
        ({"Name": "github-runner-gpu"}, "GitHub Actions"),
        ({"Name": "actions-runner-7f2"}, "GitHub Actions"),
        ({"GitHubRunners:Provider": "stack/gpu"}, "GitHub Actions"),
        ({"runs-on-stack-name": "runs-on"}, "RunsOn"),
        ({"wp.autoscaler/pool": "1"}, "Woodpecker CI"),
        ({"depot-connection": "c0ffee"}, "Depot"),
        ({"harness-pool-name": "gpu"}, "Harness CI"),
        ({"devpod": "devpod-gpu-5c1d"}, "DevPod"),
        ({"gitpod.dev/environment-id": "0193"}, "Gitpod"),
        ({"Valohai": "1"}, "Valohai"),
        ({"cast:cluster-id": "8b2f", "kubernetes.io/cluster/prod": "owned"}, "CAST AI"),
        ({"Machine-UID": "31c0"}, "Kubermatic"),
        ({"aws:pcs:cluster-id": "pcs_1"}, "AWS Parallel Computing Service"),
        ({"edh:ClusterId": "soca-hpc"}, "Scale-Out Computing on AWS"),
        ({"anyscale-cloud-id": "cld_1"}, "Anyscale"),
        ({"sagemaker:cluster-name": "hyperpod"}, "Amazon SageMaker"),
        ({"SlurmLabel": "node-3"}, "Slurm"),
        ({"jenkins_server_url": "https://ci.example.com/"}, "Jenkins"),
        ({"Coder_Provisioned": "true"}, "Coder"),
        ({"aws:autoscaling:groupName": "AWSBatch-gpu"}, "AWS Batch"),
        ({"aws:autoscaling:groupName": "web"}, "EC2 Auto Scaling"),
        ({"aws:autoscaling:groupName": "x", "kubernetes.io/cluster/prod": "owned"}, "Kubernetes"),
        ({"aws:ec2:fleet-id": "fleet-1", "ec2-fleet-plugin:cloud-name": "gpu"}, "Jenkins"),
        ({"Name": "Packer Builder"}, "Packer"),
        ({"ManagedBy": "circleci-vm-service"}, "CircleCI"),
        ({"dstack_project": "main", "dstack_name": "run-1"}, "dstack"),
        ({"juju-model-uuid": "5f2a", "juju-controller-uuid": "91cc"}, "Juju"),
        ({"teamcity:TeamcityData": "server:-profile:-image"}, "TeamCity"),
        ({"createdBy": "dask-cloudprovider"}, "Dask Cloud Provider"),
        ({"created-by": "test-kitchen"}, "Test Kitchen"),
        ({"Cloudera-Resource-Name": "crn:cdp:datahub:us-west-1:x"}, "Cloudera"),
    ],
)
def test_the_most_precise_mark_names_the_service(tags: dict[str, str], service: str) -> None:
    """Launchers only say how instances are started; the service above them says more."""
    manager = managed_by(make_instance(tags={**GOVERNED, **tags}), ())

    assert manager is not None
    assert service == manager.service


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"Schedule": "office-hours"},
        {"ManagedBy": "ada"},
        {"ManagedBy": "terraform"},
        {"CreatedBy": "jens.kinsky"},
        {"Name": "Packer"},
        {"Vendor": "PNY"},
        {"Application": "github"},
        {"Name": "my-github-runner"},
        {"tostop": "false"},
        {"Valohai": "0"},
        {"machine": "devpod"},
        {"aws:cloudformation:stack-name": "train"},
        # A pipeline that deployed the instance does not run it.
        {"DeployedBy": "circleci"},
        {"CreatedBy": "CircleCI pipeline 4711"},
        {"cloudstack_id": "4711", "BuildStack_Name": "vision"},
        {"juju": "no"},
    ],
)
def test_what_is_not_a_mark_leaves_nobody_in_charge(tags: dict[str, str]) -> None:
    """People are asked about it as about any other instance."""
    assert managed_by(make_instance(tags={**GOVERNED, **tags}), ()) is None


NO = ("false", "No", "OFF", "none", " false ", "disabled", "n/a")


@pytest.mark.parametrize("value", ["", " ", *NO])
@pytest.mark.parametrize("key", ["k8s", "kubernetes", "Slurm", "rancher_node", "github-runner"])
def test_a_word_whose_value_says_no_leaves_nobody_in_charge(key: str, value: str) -> None:
    """`k8s=false` comes from a module that tags what it does not run, too. An empty value of a word
    says nothing."""
    assert managed_by(make_instance(tags={**GOVERNED, key: value}), ()) is None
    yes = managed_by(make_instance(tags={**GOVERNED, key: "yes"}), ())
    assert yes is not None


@pytest.mark.parametrize("value", NO)
@pytest.mark.parametrize(
    "key", ["Coder_Provisioned", "jenkins_slave_type", "BuildkiteQueue", "GitlabRunnerInstanceType"]
)
def test_an_exact_key_whose_value_says_no_leaves_nobody_in_charge(key: str, value: str) -> None:
    """Its tool would not write it so. An empty value is one that tools write."""
    assert managed_by(make_instance(tags={**GOVERNED, key: value}), ()) is None
    assert managed_by(make_instance(tags={**GOVERNED, key: ""}), ()) is not None


@pytest.mark.parametrize("value", NO)
@pytest.mark.parametrize("key", ["Terraform", "pulumi", "AutoStart", "Schedule", "maid_offhours"])
def test_no_tool_is_named_whose_tag_says_no(key: str, value: str) -> None:
    """`AutoStart=false` is the opposite of a schedule."""
    assert () == other_tools(make_instance(tags={**GOVERNED, key: value}))
    assert () != other_tools(make_instance(tags={**GOVERNED, key: "yes"}))


@pytest.mark.parametrize(
    "tags",
    [
        {"AmazonECSManaged": ""},
        {"AmazonECSManaged": "false"},
        {"AWSBatchServiceTag": "no"},
        {"aws:autoscaling:groupName": "none"},
        {"aws:newservice:enabled": "false"},
        {"karpenter.sh/do-not-disrupt": "false"},
        {"k8s.io/cluster-autoscaler/enabled": "no"},
        {"k8s.io/cluster-autoscaler/node-template/label/gpu": ""},
        {"kubernetes.io/cluster/prod": "off"},
        {"ghr:ephemeral": "false"},
        {"dstack_is_fleet": "false"},
        {"ray-node-index": "0"},
        {"spot.io:managed": "none"},
    ],
)
def test_a_setting_of_a_tool_that_is_off_still_shows_the_tool(tags: dict[str, str]) -> None:
    """Neither do tags of AWS depend on their value, nor those by which IAM denies."""
    assert managed_by(make_instance(tags={**GOVERNED, **tags}), ()) is not None


@pytest.mark.parametrize(
    "tags",
    [
        {"jenkins-build-url": "https://ci.example.com/job/7"},
        {"Jenkins": "true"},
        {"databricks-workspace": "https://dbc.example.com"},
    ],
)
def test_a_tag_about_a_pipeline_is_no_mark_of_its_agents(tags: dict[str, str]) -> None:
    """A job of Jenkins creates long-lived instances, too. Agents carry exact keys."""
    assert managed_by(make_instance(tags={**GOVERNED, **tags}), ()) is None


@pytest.mark.parametrize(
    "key",
    [
        "xray-node",
        "XRay-node",
        "XRAY-NODE",
        "array-node",
        "hotspot.io",
        "auto-brancher",
        "decoder_workspace",
        "high-runner",
        "tray.io/id",
        "mykubernetes",
        "größerancher",
        "2slurm",
        "runs-on-premises",
        "runs-on-weekends",
    ],
)
def test_a_word_within_another_word_leaves_nobody_in_charge(key: str) -> None:
    """A word begins the key, or follows a character that is no letter or digit, or a hump."""
    assert managed_by(make_instance(tags={**GOVERNED, key: "yes"}), ()) is None


@pytest.mark.parametrize(
    ("key", "service"),
    [
        ("ray-node", "Ray"),
        ("team_ray-node", "Ray"),
        ("team.spot.io", "Spot.io"),
        ("myRancherNode", "Rancher"),
        ("EKSKubernetesVersion", "Kubernetes"),
        ("MY_RANCHER", "Rancher"),
        ("team:gh-runner", "GitHub Actions"),
        ("team/coder_workspace", "Coder"),
        ("v2K8sCluster", "Kubernetes"),
        ("runs-on-stack-name", "RunsOn"),
    ],
)
def test_a_word_at_the_start_of_a_word_names_the_service(key: str, service: str) -> None:
    manager = managed_by(make_instance(tags={**GOVERNED, key: "yes"}), ())
    assert manager is not None
    assert service == manager.service


@pytest.mark.parametrize("key", ["CreatedBy", "managed-by", "Provisioner"])
@pytest.mark.parametrize(
    ("value", "tool"),
    [
        ("dev-env01", None),
        ("dev-env0", None),
        ("ada-tofu", None),
        ("tofurkey", None),
        ("atlantiscorp", None),
        ("terraformer", None),
        ("ansibles", None),
        ("env0", "Terraform"),
        ("OpenTofu", "Terraform"),
        ("tofu", "Terraform"),
        ("hashicorp/terraform", "Terraform"),
        ("terraform-prod", "Terraform"),
        ("Terraform Cloud", "Terraform"),
        ("infra_terraform", "Terraform"),
        ("by terraform, with ada", "Terraform"),
        ("(pulumi)", "Pulumi"),
        ("ansible:site.yml", "Ansible"),
    ],
)
def test_a_creator_is_named_by_a_whole_word(key: str, value: str, tool: str | None) -> None:
    """People's names and environments hold the names of tools, too."""
    tools = other_tools(make_instance(tags={**GOVERNED, key: value}))
    assert ([tool] if tool else []) == [found.name for found in tools]


@pytest.mark.parametrize(
    "tags",
    [{}, {"Scheduled": "yes"}, {"ManagedBy": "ada"}, {"project": "terra", "tool": "terraform"}],
)
def test_without_a_mark_no_tool_is_named(tags: dict[str, str]) -> None:
    """A tag that looks like one is no mark."""
    assert () == other_tools(make_instance(tags={**GOVERNED, **tags}))


def test_several_tools_are_all_named() -> None:
    """A stack may create an instance that a schedule starts."""
    tags = {"aws:cloudformation:stack-name": "train", "Schedule": "office-hours"}
    text = lines_of(tags, Policy())

    assert "CloudFormation (aws:cloudformation:stack-name=train)" in text
    assert "Instance Scheduler on AWS (Schedule=office-hours)" in text


def test_a_tag_value_of_many_lines_stays_one_line() -> None:
    """Anybody who may tag can write any text."""
    assert "\n" not in lines_of({"Schedule": "a\n\nPress here: https://example.com"}, Policy())


@pytest.mark.parametrize(
    "key",
    ["Managed By", "managed by", "MANAGED  BY", "Created By", "Deployed by", "Provisioned By",
     "IaC Tool", "Managed.By"],
)  # fmt: skip
def test_the_key_of_the_creator_may_have_blanks(key: str) -> None:
    """People write it as two words."""
    (tool,) = other_tools(make_instance(tags={**GOVERNED, key: "Terraform"}))
    assert (key, "Terraform") == (tool.tag_key, tool.name)


@pytest.mark.parametrize("key", ["Managed By Team", "Not Managed By", "team:managed by"])
def test_a_key_with_more_words_names_no_creator(key: str) -> None:
    assert () == other_tools(make_instance(tags={**GOVERNED, key: "Terraform"}))
