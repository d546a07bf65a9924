"""SageMaker HyperPod clusters: their price, and never idleness."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from governor.scan.kinds.sagemaker_cluster import SageMakerClusters
from governor.scan.model import Finding
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import ApiTwin, place
from tests.unit.scan.sagemaker_answers import ARN, OLD, checked, price_list, product

PLAN = f"{ARN}:training-plan/p"
PRICES = price_list(
    product("USE1-Cluster:ml.p5.48xlarge", "66.048"),
    product("USE1-ReservedCluster:ml.p5.48xlarge", "31.464"),
)


def scan(*groups: dict[str, Any]) -> PlaceReport:
    """Return the report on a cluster with these instance groups."""
    summary = {
        "ClusterArn": f"{ARN}:cluster/c",
        "ClusterName": "llm",
        "CreationTime": OLD,
        "ClusterStatus": "InService",
    }
    api = ApiTwin(
        {
            "sagemaker:ListClusters": {"ClusterSummaries": [summary]},
            "sagemaker:DescribeCluster": {**summary, "InstanceGroups": list(groups)},
            "pricing:GetProducts": PRICES,
        }
    )
    return checked(scan_place(place(api=api), [SageMakerClusters()]))


def test_a_cluster_is_shown_and_never_idle() -> None:
    """Its nodes with accelerators have a price; the others are left out."""
    nodes = {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 4}
    (row,) = scan(nodes, {"InstanceType": "ml.m5.xlarge", "CurrentCount": 1}).rows
    assert Finding.NOT_MEASURED is row.judgment.finding
    assert "4 x ml.p5.48xlarge, 8 x NVIDIA H100 each" == row.resource.what
    assert Decimal("264.192") == row.usd_per_hour
    assert "aws sagemaker list-cluster-nodes --region us-east-1 --cluster-name llm" == row.command


def test_a_training_plan_is_paid_in_advance() -> None:
    """So the price of a node is not what an hour costs."""
    nodes = {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 4, "TrainingPlanArn": PLAN}
    (row,) = scan(nodes).rows
    assert row.usd_per_hour is None
    assert "a training plan pays in advance" in row.judgment.evidence
    assert row.resource.is_prepaid


def test_a_cluster_that_a_training_plan_pays_in_part_has_no_known_price() -> None:
    """It is not prepaid: its other nodes cost something each hour."""
    planned = {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 4, "TrainingPlanArn": PLAN}
    (row,) = scan(planned, {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 1}).rows
    assert row.usd_per_hour is None
    assert not row.resource.is_prepaid


def test_a_group_of_several_types_counts_each() -> None:
    """A flexible instance group names them in its details."""
    details = [
        {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 1},
        {"InstanceType": "ml.m5.xlarge", "CurrentCount": 9},
    ]
    (row,) = scan({"InstanceTypeDetails": details, "CurrentCount": 10}).rows
    assert Decimal("66.048") == row.usd_per_hour


def test_a_cluster_without_accelerated_nodes_is_left_out() -> None:
    """It is scaled to zero, or has none."""
    assert () == scan({"InstanceType": "ml.p5.48xlarge", "CurrentCount": 0}).rows
