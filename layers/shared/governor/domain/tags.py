"""Names of the tags that the governor reads and writes: the one place where they stand."""

from __future__ import annotations

SELECTOR_TAG = "Purpose"
"""Marks a governed instance, by default. IAM policies of the stack ask for the same key."""
EXEMPTION_TAG = "GpuGovernor"
"""With the value `exempt`: never stopped or terminated, by default."""
CHECKPOINT_TAG = "GpuGovernorCheckpoint"
"""`off`, `hook`, or `signal` (the hook, or SIGTERM where there is none). Anything else: the policy."""
NAME_TAG = "Name"
AUTO_SCALING_TAG = "aws:autoscaling:groupName"
"""Set by EC2 Auto Scaling on the instances of a group."""

# What the sweep writes on an idle instance, and takes off it when it works again.

LOW_UTILIZATION_TAG = "LowUtilization"
"""Since when it is known to be idle."""
REVIEW_TAG = "ReviewForTermination"
MARKS = (LOW_UTILIZATION_TAG, REVIEW_TAG)

# On snapshots that the governor makes.

EPISODE_TAG = "GpuGovernor:Episode"
"""The gate before termination counts snapshots by it."""
INSTANCE_TAG = "GpuGovernor:Instance"
EVENT_TAG = "GpuGovernor:Event"
"""The interruption for which it was made."""
DELETE_AFTER_TAG = "DeleteAfter"
