"""Uses Systems Manager: the policy's parameter, open sessions, and Run Command for checkpoints.

Only `RunCommandHook` runs something on an instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import itemgetter

from governor.aws.clients import Adapter
from governor.core.instance import Session, Target
from governor.core.units import as_utc, iso

_SHORTEST_SECONDS = 30
"""The least `TimeoutSeconds` that SendCommand accepts. EC2 may act later than it announced."""
_LONGEST_SECONDS = 9_999
"""The `SecondsLeft` that the document accepts."""
_SESSIONS_PAGE = 200
_PAGE = 50
"""The most instances in one answer of DescribeInstanceInformation. Source: its API."""


class PolicyParameter(Adapter):
    """The parameter that may hold the policy document."""

    def read(self, *, long_timeout: bool = True) -> str:
        """Return the text of the parameter, read now. Without `long_timeout` the call gives up
        within seconds, for a caller that can use an older text. Raises: CloudError."""
        answer = self._call(
            "ssm:GetParameter", long_timeout=long_timeout, Name=self._resource, WithDecryption=True
        )
        return str(answer["Parameter"]["Value"])


class SessionManager(Adapter):
    """Fulfils `governor.evidence.ports.SessionReader`."""

    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        """Return the sessions that were opened after `since` and are still open; empty if there are
        none. Raises: CloudError."""
        pages = self._pages(
            "ssm:DescribeSessions",
            target,
            State="Active",
            Filters=[
                {"key": "Target", "value": instance_id},
                {"key": "InvokedAfter", "value": iso(since)},
            ],
            MaxResults=_SESSIONS_PAGE,
        )
        sessions: list[Session] = []
        for page in pages:
            for record in page["Sessions"]:
                sessions.append(Session(record["Owner"], as_utc(record["StartDate"])))
        return tuple(sessions)


class RunCommandHook(Adapter):
    """The port `CheckpointHook`: it starts the document of `stacks/telemetry.yaml`.

    A throttled call is repeated, because the document does not begin a hook again that runs. It
    gives up within seconds, because the instance has only two minutes.
    """

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        sigterm_if_no_hook: bool,
    ) -> str:
        """Start the checkpoint hook on these instances; return the id of the command. It does not
        wait for the end. `sigterm_if_no_hook`: an instance without a hook gets a SIGTERM, not
        nothing. A `seconds_left` under 30 or over 9,999 counts as that limit. Raises: CloudError,
        also if one of the instances is not managed."""
        seconds = min(max(_SHORTEST_SECONDS, seconds_left), _LONGEST_SECONDS)
        answer = self._call(
            "ssm:SendCommand",
            target,
            long_timeout=False,
            InstanceIds=list(instance_ids),
            DocumentName=self._resource,
            Parameters={
                "Reason": [reason],
                "WhenNoHook": ["sigterm" if sigterm_if_no_hook else "nothing"],
                "SecondsLeft": [str(seconds)],
            },
            TimeoutSeconds=seconds,
            Comment=f"GPU Governor: {reason}",
        )
        return str(answer["Command"]["CommandId"])

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these instances Systems Manager manages; empty if it manages
        none. Raises: CloudError."""
        instance_ids_managed: Iterator[str] = self._records(
            "ssm:DescribeInstanceInformation",
            target,
            ("InstanceInformationList",),
            itemgetter("InstanceId"),
            long_timeout=False,
            Filters=[{"Key": "InstanceIds", "Values": list(instance_ids)}],
            MaxResults=_PAGE,
        )
        return frozenset(instance_ids_managed)
