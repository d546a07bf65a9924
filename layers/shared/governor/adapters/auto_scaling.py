"""Lifecycle hooks of Auto Scaling groups: how long they wait, and that they need not any longer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from governor.adapters.clients import Adapter
from governor.domain.events.interruption import LifecycleAction
from governor.domain.instance import Target
from governor.errors import CloudError

_OVER = "No active Lifecycle Action found"
"""How the message of the error begins when an action was completed or has timed out; its code is any
validation's. Source: AWS's own answers, in spacelift-io/terraform-aws-spacelift-workerpool-on-ec2 #197.
"""


class AutoScalingHooks(Adapter):
    """The port `LifecycleHooks`."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        # Sent once: what is read is a comfort, and of a Spot instance two minutes are all there is.
        names: Any = {"AutoScalingGroupName": group, "LifecycleHookNames": [hook]}
        found = self._call("autoscaling:DescribeLifecycleHooks", target, repeat=False, **names)
        for one in found["LifecycleHooks"]:
            if one["LifecycleHookName"] == hook and "HeartbeatTimeout" in one:
                return timedelta(seconds=one["HeartbeatTimeout"])
        return None

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        try:
            self._call(
                "autoscaling:CompleteLifecycleAction",
                target,
                AutoScalingGroupName=action.group,
                LifecycleHookName=action.hook,
                LifecycleActionToken=action.token,
                InstanceId=instance_id,
                LifecycleActionResult="CONTINUE",
            )
        except CloudError as error:
            if _OVER not in str(error):
                raise
