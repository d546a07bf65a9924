"""The plain Lambda before the same stub: one GetMetricStatistics an instance, one after the
other."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import boto3

from benchmarks.contest import ACCOUNT_SETTINGS, Contest, Ran, contest_of
from benchmarks.fleet import REGION, UTILIZATION

MARK = "LowUtilization"


def run(contest: Contest) -> list[Ran]:
    """A first run, and one that finds its marks."""
    with patch.dict(os.environ, ACCOUNT_SETTINGS):
        ec2, cloudwatch = (boto3.client(one, region_name=REGION) for one in ("ec2", "cloudwatch"))
        return [
            contest.measured(lambda: _sweep(contest, ec2, cloudwatch), lambda tags: MARK in tags)
            for _ in range(2)
        ]


def _sweep(contest: Contest, ec2: Any, cloudwatch: Any) -> None:
    wanted = [
        {"Name": "tag:Purpose", "Values": ["GPU-Workload"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    now = contest.fleet.now
    for page in ec2.get_paginator("describe_instances").paginate(Filters=wanted):
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                name = instance["InstanceId"]
                found = cloudwatch.get_metric_statistics(
                    Namespace="GPU/EC2",
                    MetricName=UTILIZATION,
                    Dimensions=[{"Name": "InstanceId", "Value": name}],
                    StartTime=now - timedelta(hours=3),
                    EndTime=now,
                    Period=300,
                    Statistics=["Average"],
                )
                points = [one["Average"] for one in found["Datapoints"]]
                if points and sum(points) / len(points) < 5:
                    ec2.create_tags(
                        Resources=[name], Tags=[{"Key": MARK, "Value": f"{now:%Y-%m-%d}"}]
                    )


if __name__ == "__main__":
    contest = contest_of(sys.argv)
    contest.print(run(contest))
