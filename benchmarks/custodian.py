"""Cloud Custodian before the same stub, with a policy that asks for what ours asks for.

Runs in an environment of its own (`make bench-peer`), which has neither this project nor its
libraries. Custodian's threads are those that it makes itself: three for metrics, two for tags.
"""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread
import contextlib
import os
import sys
import tempfile
from typing import Any
from unittest.mock import patch

from benchmarks.contest import ACCOUNT_SETTINGS, Contest, Ran, contest_of
from benchmarks.fleet import ACCOUNT, POWER, REGION, UTILIZATION
from benchmarks.timeline import SimulatedThreads

MARK = "gpu-idle"
_DAYS = 180 / (24 * 60)
_OF_OTHER_SERVICES = ("aws:autoscaling:groupName", "eks:nodegroup-name", "karpenter.sh/nodepool")


def _metric(
    name: str, below: float, statistic: str = "Maximum", namespace: str = "GPU/EC2"
) -> dict[str, Any]:
    return {
        "type": "metrics",
        "name": name,
        "namespace": namespace,
        "statistics": statistic,
        "days": _DAYS,
        "period": 300,
        "op": "less-than",
        "value": below,
    }


POLICY = {
    "name": "gpu-idle",
    "resource": "aws.ec2",
    "query": [{"instance-state-name": "running"}, {"tag:Purpose": "GPU-Workload"}],
    # The cheap ones first, and each metric only of what the ones before have left.
    "filters": [
        {f"tag:{MARK}": "absent"},
        {"tag:GpuGovernor": "absent"},
        *({f"tag:{key}": "absent"} for key in _OF_OTHER_SERVICES),
        {
            "or": [
                {"tag:keep-until": "absent"},
                {
                    "type": "value",
                    "key": "tag:keep-until",
                    "value_type": "expiration",
                    "op": "lt",
                    "value": 0,
                },
            ]
        },
        {"type": "instance-uptime", "op": "gte", "days": 0.03},
        _metric(UTILIZATION, 5),
        # 40 % of what an A10G may draw.
        _metric(POWER, 120),
        _metric("CPUUtilization", 30, "Average", "AWS/EC2"),
        _metric("NetworkIn", 3e8, "Sum", "AWS/EC2"),
        _metric("NetworkOut", 3e8, "Sum", "AWS/EC2"),
    ],
    "actions": [{"type": "mark-for-op", "tag": MARK, "op": "stop", "hours": 24}],
}


def run(contest: Contest) -> list[Ran]:
    """A first run, and one that finds its marks."""
    # Before Custodian takes the name.
    concurrent.futures.thread.ThreadPoolExecutor = SimulatedThreads  # type: ignore[misc, assignment]
    concurrent.futures.ThreadPoolExecutor = SimulatedThreads  # type: ignore[misc, assignment]
    from c7n.config import Config
    from c7n.loader import PolicyLoader
    from c7n.resources import load_resources

    load_resources(("aws.ec2",))
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ACCOUNT_SETTINGS):
        options = Config.empty(
            region=REGION,
            regions=[REGION],
            account_id=ACCOUNT,
            output_dir=folder,
            cache=None,
            cache_period=0,
        )
        [policy] = PolicyLoader(options).load_data({"policies": [POLICY]}, "memory://policy")
        policy.validate()
        return [contest.measured(policy.run, lambda tags: MARK in tags) for _ in range(2)]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        contest = contest_of(sys.argv)
        found = run(contest)
    contest.print(found)
