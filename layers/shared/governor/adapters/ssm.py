"""Systems Manager: the policy's parameter, open sessions, and Run Command for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import itemgetter

from governor.adapters.clients import Adapter
from governor.domain.instance import Session, Target
from governor.domain.units import as_utc, iso

_SHORTEST_SECONDS = 30
"""The least `TimeoutSeconds` that SendCommand accepts; and EC2 may be later than it said."""
_LONGEST_SECONDS = 9_999
"""The `SecondsLeft` that the document accepts."""
_SESSIONS_PAGE = 200
_PAGE = 50
"""Most instances in one answer of DescribeInstanceInformation. Source: its API."""


class PolicyParameter(Adapter):
    def read(self, *, patient: bool = True) -> str:
        """Return the text as it is now; without `patient`, for a caller that can do with an older
        one."""
        answer = self._call(
            "ssm:GetParameter", patient=patient, Name=self._resource, WithDecryption=True
        )
        return str(answer["Parameter"]["Value"])


class SessionManager(Adapter):
    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        listed = self._pages(
            "ssm:DescribeSessions",
            target,
            State="Active",
            Filters=[
                {"key": "Target", "value": instance_id},
                {"key": "InvokedAfter", "value": iso(since)},
            ],
            MaxResults=_SESSIONS_PAGE,
        )
        found = (one for page in listed for one in page["Sessions"])
        return tuple(Session(one["Owner"], as_utc(one["StartDate"])) for one in found)


class RunCommandHook(Adapter):
    """The port `CheckpointHook`: starts the document of `stacks/telemetry.yaml`, and repeats when
    throttled: a hook that runs is not begun again. A late answer is of no use within the two
    minutes."""

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        signal: bool,
    ) -> str:
        left = min(max(_SHORTEST_SECONDS, seconds_left), _LONGEST_SECONDS)
        answer = self._call(
            "ssm:SendCommand",
            target,
            patient=False,
            InstanceIds=list(instance_ids),
            DocumentName=self._resource,
            Parameters={
                "Reason": [reason],
                "WhenNoHook": ["sigterm" if signal else "nothing"],
                "SecondsLeft": [str(left)],
            },
            TimeoutSeconds=left,
            Comment=f"GPU Governor: {reason}",
        )
        return str(answer["Command"]["CommandId"])

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        listed: Iterator[str] = self._records(
            "ssm:DescribeInstanceInformation",
            target,
            ("InstanceInformationList",),
            itemgetter("InstanceId"),
            patient=False,
            Filters=[{"Key": "InstanceIds", "Values": list(instance_ids)}],
            MaxResults=_PAGE,
        )
        return frozenset(listed)
