"""Which environment an instance belongs to, and the advice that fits it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.alerts.model import Owner
from governor.core.catalog import accelerated_types, shape_of
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment, environment_of
from governor.core.managers import managed_by
from governor.sweep.messages import advice_for, devices_of, managed_alert
from governor.sweep.model import BatchEnvironment, IdleMember
from tests.builders import NOW, TARGET, make_instance

ASG = "aws:autoscaling:groupName"
GROUP = "AWSBatch-train-gpu-asg-640012bd-4e90-3f19-9dd2-c09a23dc923d"


@pytest.mark.parametrize(
    ("tags", "service"),
    [
        ({"Vendor": "Databricks", "ClusterId": "0823-123"}, "Databricks"),
        ({"DatabricksInstancePoolId": "pool-1"}, "Databricks"),
        ({"ray-cluster-name": "train", "ray-node-type": "worker"}, "Ray"),
        ({"skypilot-cluster-name": "train"}, "SkyPilot"),
        ({"skypilot-user": "x", "ray-cluster-name": "train"}, "SkyPilot"),
        ({"spotinst:aws:ec2:group:id": "sig-1"}, "Spot.io"),
        ({"run.ai/node-pool": "a100"}, "Run:ai"),
        ({"run:ai/project": "x"}, "Run:ai"),
        ({"ray.io/cluster": "train"}, "Ray"),
        ({"spot:elastigroup:id": "sig-1"}, "Spot.io"),
        ({"rancher.cattle.io/node": "x"}, "Rancher"),
        ({"sagemaker:domain-arn": "x"}, "Amazon SageMaker"),
        ({"karpenter.sh/nodepool": "x", "aws:eks:cluster-name": "prod"}, "Amazon EKS"),
        ({"AmazonECSManaged": "", "aws:elasticmapreduce:job-flow-id": "j-1"}, "Amazon EMR"),
        ({"karpenter.sh/nodepool": "x", "aws:ec2:fleet-id": "fleet-1"}, "Karpenter"),
        ({"k8s.io/role/node": "1"}, "Kubernetes"),
        ({"KubernetesCluster": "prod"}, "Kubernetes"),
        ({"sigs.k8s.io/cluster-api-provider-aws/cluster/prod": "owned"}, "Cluster API"),
        ({"karpenter.sh/registered": "true"}, "Karpenter"),
        ({"api.openshift.com/id": "1"}, "OpenShift"),
        ({"aws:newservice:job": "1"}, "an AWS service (newservice)"),
        ({"skypilot-user": "x", "aws:newservice:job": "1"}, "an AWS service (newservice)"),
        ({"inhouse-scheduler": "1"}, "a service that the policy names"),
    ],
)
def test_unknown_managers_are_known_by_pattern(tags: dict[str, str], service: str) -> None:
    """Whoever runs it would replace it or lose track of it: when in doubt it is left alone."""
    found = managed_by(make_instance(tags=tags), ("Inhouse-Scheduler",))
    assert found is not None
    assert service == found.service
    assert found.mark in tags


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"Name": "ray", "Vendor": "PNY", "Project": "k8s-migration"},
        {"aws:cloudformation:stack-name": "gpu", "aws:ec2launchtemplate:id": "lt-1"},
        {"aws:createdBy": "somebody", "aws:backup:source-resource": "x"},
    ],
)
def test_what_only_says_how_it_was_made_is_nobodys(tags: dict[str, str]) -> None:
    """Such tags stand on instances that people start by hand, too."""
    assert managed_by(make_instance(tags=tags), ()) is None


def environment_with(tags: dict[str, str]) -> ManagedEnvironment:
    """Return the environment of an instance with these tags; some service must run it."""
    instance = make_instance(tags=tags)
    manager = managed_by(instance, ())
    assert manager is not None
    return environment_of(instance, manager)


@pytest.mark.parametrize(
    ("tags", "title"),
    [
        ({"AWSBatchServiceTag": "batch", ASG: GROUP}, "AWS Batch compute environment train-gpu"),
        ({ASG: GROUP}, "AWS Batch compute environment train-gpu"),
        (
            {"aws:batch:compute-environment": "train-gpu", "aws:ecs:clusterName": "train_Batch_1"},
            "AWS Batch compute environment train-gpu",
        ),
        (
            {
                "aws:batch:compute-environment": (
                    "arn:aws:batch:us-east-1:1:compute-environment/train-gpu"
                )
            },
            "AWS Batch compute environment train-gpu",
        ),
        (
            {"AWSBatchServiceTag": "batch"},
            "AWS Batch compute environment without a name in its tags",
        ),
        (
            {"karpenter.sh/nodepool": "gpu", "eks:eks-cluster-name": "prod"},
            "Karpenter node pool gpu of cluster prod",
        ),
        (
            {"eks:nodegroup-name": "gpu", "eks:cluster-name": "prod", ASG: "eks-gpu-1"},
            "EKS node group gpu of cluster prod",
        ),
        ({"eks:cluster-name": "prod"}, "Kubernetes cluster prod"),
        ({"kubernetes.io/cluster/own": "owned"}, "Kubernetes cluster own"),
        ({"AmazonECSManaged": "true", ASG: "ecs-gpu"}, "ECS cluster ecs-gpu"),
        ({"aws:ecs:clusterName": "inference"}, "ECS cluster inference"),
        ({ASG: "inference-asg"}, "Auto Scaling group inference-asg"),
        ({"aws:ec2:fleet-id": "fleet-1"}, "EC2 Fleet environment fleet-1"),
    ],
)
def test_the_environment_is_named_by_the_tags(tags: dict[str, str], title: str) -> None:
    """Batch and EKS also tag with the group beneath them: the service's own name says more."""
    assert title == environment_with(tags).title


def test_what_an_operator_manages_is_its_own_environment() -> None:
    """No tag tells more of it."""
    instance = make_instance(operator_managed=True, operator_principal="eks.amazonaws.com")
    manager = managed_by(instance, ())
    assert manager is not None

    found = environment_of(instance, manager)

    assert (EnvironmentKind.OTHER, "eks.amazonaws.com", "") == (
        found.kind,
        found.service,
        found.name,
    )


def batch(minimum: int, waiting: int = 0, running: int = 0) -> BatchEnvironment:
    """A compute environment."""
    return BatchEnvironment("train-gpu", minimum, 16, waiting, running, {})


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        (
            None,
            "no job has run for an hour, release the instances: aws batch "
            "update-compute-environment",
        ),
        (batch(16), "minvCpus keeps these instances, although there is no job"),
        (batch(0), "With minvCpus 0, Batch releases them by itself"),
        (batch(16, running=1), "1 job is running"),
        (batch(0, waiting=2), "2 jobs are waiting"),
        (batch(96, waiting=5), "Jobs could run, but none does"),
    ],
)
def test_the_advice_for_batch_follows_what_batch_says(
    environment: BatchEnvironment | None, wanted: str
) -> None:
    """Without its answer it names both causes."""
    assert wanted in " ".join(
        advice_for(ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), environment)
    )


def test_a_minimum_is_not_said_to_hold_instances_without_a_job_while_jobs_wait() -> None:
    """All of them wait for other jobs: Batch has not let them run yet."""
    environment = BatchEnvironment("train-gpu", 96, 96, 5, 0, {}, jobs_pending=5)

    text = " ".join(
        advice_for(ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), environment)
    )

    assert "5 jobs are waiting" in text
    assert "cannot run yet" in text
    assert "without any job" not in text


def test_nobody_is_told_to_empty_an_environment_that_works() -> None:
    """A job that runs and does nothing with its GPUs is a matter of the job."""
    text = " ".join(
        advice_for(
            ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"),
            batch(16, running=3),
        )
    )

    assert "Check the jobs" in text
    assert "minvCpus=0" not in text


@pytest.mark.parametrize(
    ("waiting", "pending", "running", "elsewhere", "is_doubted"),
    [
        (5, 0, 3, 3, True),
        (1, 0, 1, 1, True),
        (5, 4, 100, 100, True),
        (5, 0, 3, 2, False),
        (5, 0, 3, 0, False),
        (5, 5, 3, 3, False),
        (0, 0, 3, 3, False),
    ],
)
def test_jobs_that_may_run_elsewhere_do_not_hide_stuck_ones(
    waiting: int, pending: int, running: int, elsewhere: int, is_doubted: bool
) -> None:
    """The queue uses another environment, too. Batch does not say where a job runs."""
    environment = BatchEnvironment(
        "train-gpu",
        96,
        96,
        waiting,
        running,
        {},
        pending,
        "arn:ecs/train",
        jobs_perhaps_elsewhere=elsewhere,
    )
    lines = advice_for(
        ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), environment
    )
    text = " ".join(lines)

    assert is_doubted == ("may run in another compute environment" in text)
    assert is_doubted == ("describe-jobs" in text)
    assert is_doubted == ("list-container-instances" in text)
    assert not is_doubted or "minvCpus=0" not in text
    if is_doubted:
        assert ["1.", "2.", "3.", "4."] == [line[:2] for line in lines[-4:]]


def test_jobs_on_eks_that_may_run_elsewhere_are_found_by_their_pods() -> None:
    """On EKS, a pod names its node."""
    environment = BatchEnvironment(
        "train-gpu",
        0,
        96,
        5,
        3,
        {},
        eks_cluster="arn:aws:eks:us-east-1:123456789012:cluster/ml",
        eks_namespace="jobs",
        jobs_perhaps_elsewhere=3,
    )
    text = " ".join(
        advice_for(ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), environment)
    )

    assert "kubectl get pods -n jobs -o wide" in text
    assert "describe-jobs" not in text
    assert "Ready?" in text


@pytest.mark.parametrize(
    ("minimum", "waiting", "pending", "running", "is_stuck"),
    [
        (96, 5, 0, 0, True),
        (0, 5, 0, 0, True),
        (96, 1, 0, 0, True),
        (96, 5, 4, 0, True),
        (96, 5, 5, 0, False),
        (96, 5, 0, 1, False),
        (96, 0, 0, 0, False),
        (0, 0, 0, 0, False),
    ],
)
def test_jobs_that_could_run_and_do_not_are_stuck(
    minimum: int, waiting: int, pending: int, running: int, is_stuck: bool
) -> None:
    """To empty the environment would hide the fault: its owner is told what to check."""
    environment = BatchEnvironment(
        "train-gpu", minimum, 96, waiting, running, {}, pending, "arn:ecs/train"
    )
    lines = advice_for(
        ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), environment
    )
    text = " ".join(lines)

    checks = [
        "aws ecs list-container-instances --status ACTIVE --cluster arn:ecs/train",
        "resourceRequirements need an entry of type GPU",
        "NVIDIA driver and container runtime",
        "user data start the ECS agent? It must not",
    ]
    for check in checks:
        assert is_stuck == (check in text), check
    assert is_stuck == ("none does, although these instances are idle" in text)
    if is_stuck:
        assert "minvCpus=0" not in text
        assert ["1.", "2.", "3.", "4."] == [line[:2] for line in lines[-4:]]


@pytest.mark.parametrize(
    ("types", "resource"),
    [(["p5.48xlarge"], "nvidia.com/gpu"), (["trn1.2xlarge"], "aws.amazon.com/neuron")],
)
def test_stuck_jobs_on_eks_get_checks_of_eks(types: list[str], resource: str) -> None:
    """Its nodes register with no cluster of ECS, and its jobs are pods."""
    environment = replace(
        batch(96, waiting=5),
        eks_cluster="arn:aws:eks:us-east-1:111122223333:cluster/prod",
        eks_namespace="train",
    )
    lines = advice_for(
        ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"),
        environment,
        devices_of(types),
    )
    text = " ".join(lines)

    assert "nodes of the cluster prod" in text
    assert f"Do the nodes offer {resource}?" in text
    assert "kubectl get events -n train" in text
    assert "Find out why before you change minvCpus" in text
    assert "ecs" not in text.lower()
    assert "CLUSTER" not in text
    assert ["1.", "2.", "3.", "4."] == [line[:2] for line in lines[-4:]]


def test_more_jobs_than_were_counted_read_as_a_minimum() -> None:
    """Batch's answer is read up to one page for each queue and state."""
    busy = replace(batch(16, waiting=120, running=100), has_more_waiting=True)
    text = " ".join(
        advice_for(ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), busy)
    )
    assert "100 jobs are running, and 120 or more jobs are waiting" in text

    full = replace(busy, has_more_running=True)
    text = " ".join(
        advice_for(ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), full)
    )
    assert "100 or more jobs are running" in text


def test_an_environment_without_a_named_cluster_leaves_its_place_open() -> None:
    lines = advice_for(
        ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu"), batch(96, waiting=5)
    )
    assert any(line.endswith("--cluster CLUSTER") for line in lines)


NOT_IN_THE_CATALOG = ("f2.6xlarge", "vt1.3xlarge")
ENVIRONMENTS = (None, batch(0), batch(96), batch(96, waiting=5), batch(96, running=1))


@pytest.mark.parametrize("kind", EnvironmentKind)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_vendor_of_the_catalog_decides_the_words(
    kind: EnvironmentKind, environment: BatchEnvironment | None
) -> None:
    """NVIDIA's runtime is no matter of a host with other accelerators, or with unknown ones."""
    managed = ManagedEnvironment(kind, "the service", "gpu", "prod")
    by_vendor: dict[str, set[str]] = {}
    for instance_type in (*accelerated_types(), *NOT_IN_THE_CATALOG):
        devices = devices_of([instance_type])
        text = " ".join(advice_for(managed, environment, devices))
        by_vendor.setdefault(devices.vendor, set()).add(text)
        shape = shape_of(instance_type)
        assert devices.vendor == (shape.vendor if shape else ""), instance_type
        if devices.vendor != "NVIDIA":
            assert "nvidia" not in text.lower(), instance_type
    assert {"NVIDIA", "AMD", "AWS", "Habana", "Qualcomm", ""} == set(by_vendor)
    assert all(len(texts) == 1 for texts in by_vendor.values())


@pytest.mark.parametrize("types", [["zz9.large"], ["g5.xlarge", "g4ad.xlarge"], ["f2.6xlarge"]])
def test_stuck_jobs_on_unknown_hosts_may_need_a_gpu_in_their_resources(types: list[str]) -> None:
    """A type that is newer than the catalog may be NVIDIA's: its jobs then need that entry."""
    managed = ManagedEnvironment(EnvironmentKind.BATCH, "AWS Batch", "train-gpu")
    text = " ".join(advice_for(managed, batch(96, waiting=5), devices_of(types)))

    assert "must be absent" not in text
    assert "its accelerators must be those of the instance" in text


@pytest.mark.parametrize(
    ("types", "resource"),
    [
        (["g5.xlarge", "p5.48xlarge"], "nvidia.com/gpu"),
        (["g4ad.xlarge"], "amd.com/gpu"),
        (["trn1.2xlarge", "inf2.xlarge"], "aws.amazon.com/neuron"),
        (["dl1.24xlarge"], "habana.ai/gaudi"),
        (["g5.xlarge", "g4ad.xlarge"], "accelerators"),
        (["g5.xlarge", "zz9.large"], "accelerators"),
    ],
)
def test_hosts_of_several_vendors_get_words_of_none(types: list[str], resource: str) -> None:
    devices = devices_of(types)
    text = " ".join(
        advice_for(
            ManagedEnvironment(EnvironmentKind.KUBERNETES, "Kubernetes", "prod"), None, devices
        )
    )
    assert f"requests {resource} and does" in text


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (EnvironmentKind.KARPENTER, "kubectl get nodepool gpu"),
        (
            EnvironmentKind.NODE_GROUP,
            "--cluster-name prod --nodegroup-name gpu --scaling-config minSize=0",
        ),
        (EnvironmentKind.KUBERNETES, "nvidia.com/gpu"),
        (EnvironmentKind.ECS, "targetCapacity 100"),
        (EnvironmentKind.GROUP, "--auto-scaling-group-name gpu --min-size 0"),
        (EnvironmentKind.OTHER, "Only the service can release them"),
    ],
)
def test_every_kind_has_an_advice_of_its_own(kind: EnvironmentKind, wanted: str) -> None:
    """With the names filled in, so that it can be run."""
    assert wanted in " ".join(
        advice_for(ManagedEnvironment(kind, "the service", "gpu", "prod"), None)
    )


@pytest.mark.parametrize(
    ("tags", "title", "wanted"),
    [
        ({"ghr:Application": ""}, "the runners of GitHub Actions", "the scale-down function"),
        ({"runs-on-stack-name": "x"}, "the runners of RunsOn (x)", "how many it keeps ready"),
        (
            {"jenkins_slave_type": "x"},
            "the runners of Jenkins (x)",
            "the idle timeout of the agents",
        ),
        ({"gitlab-runner-parent-id": "x"}, "the runners of GitLab Runner (x)", "did not shut down"),
        ({"BuildkiteQueue": "gpu"}, "the runners of Buildkite (gpu)", "did not shut down"),
        ({"teamcity:TeamcityData": "x"}, "the runners of TeamCity (x)", "did not shut down"),
        ({"Name": "Packer Builder"}, "the build instances of Packer", "End the build in Packer"),
        (
            {"Ec2ImageBuilderArn": "arn:x"},
            "the build instances of EC2 Image Builder",
            "End the build in EC2 Image Builder",
        ),
        ({"Coder_Provisioned": "true"}, "the workspaces of Coder", "can stop it in Coder"),
        ({"skypilot-user": "x"}, "SkyPilot environment x", "minimum or target capacity"),
    ],
)
def test_runners_builds_and_workspaces_get_an_advice_of_their_own(
    tags: dict[str, str], title: str, wanted: str
) -> None:
    """None of them has a minimum capacity, and no tag names an environment."""
    found = environment_with(tags)
    text = " ".join(advice_for(found, None))

    assert title == found.title
    assert wanted in text
    assert title.startswith("SkyPilot") == ("target capacity" in text)


def test_the_message_says_how_many_how_long_and_what_they_cost() -> None:
    """It names twenty of thirty; the facts hold all."""
    members = [
        IdleMember(
            make_instance(instance_id=f"i-{n:08x}"),
            NOW - timedelta(hours=n + 1),
            Decimal(1) if n else None,
        )
        for n in range(30)
    ]
    alert = managed_alert(
        ManagedEnvironment(EnvironmentKind.ECS, "Amazon ECS", "gpu"),
        members,
        40,
        TARGET,
        NOW,
        owner=Owner("ada", "llm"),
        advice=(),
    )

    text = " ".join(alert.lines)
    assert "30 of 40 governed instances in ECS cluster gpu" in text
    assert "the longest for at least 30 h" in text
    assert "They cost $696 a day, not counting 1 of unknown price" in text
    assert "and 10 more" in text
    assert 30 == len(alert.facts["instance_ids"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ({"Name": "node-7"}, "node-7 (i-0123456789abcdef0, g5.xlarge): idle for at least 1 h"),
        ({}, "i-0123456789abcdef0 (g5.xlarge): idle for at least 1 h"),
    ],
)
def test_an_instance_without_a_name_is_named_by_its_id_once(
    tags: dict[str, str], line: str
) -> None:
    """Nodes of a group have no name."""
    member = IdleMember(make_instance(tags=tags), NOW - timedelta(hours=1), None)
    alert = managed_alert(
        ManagedEnvironment(EnvironmentKind.ECS, "Amazon ECS", "gpu"),
        [member],
        1,
        TARGET,
        NOW,
        owner=Owner("ada", "llm"),
        advice=(),
    )

    assert [line] == [text.partition(line)[1] for text in alert.lines if "g5.xlarge): " in text]
