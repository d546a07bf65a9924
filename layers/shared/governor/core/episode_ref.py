"""The name of one episode: the same in the table, in Step Functions and in messages.

It holds the launch time, so an instance that was restarted never shares an episode with its run
before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from governor.core.instance import Target
from governor.core.regions import SHAPE as REGION_SHAPE
from governor.core.units import UtcDatetime, as_utc


@dataclass(frozen=True, slots=True)
class EpisodeRef:
    """Names one idle episode. `number` counts those of the instance, from 1."""

    account: str
    region: str
    instance_id: str
    launch_time: UtcDatetime
    number: int

    @property
    def execution_name(self) -> str:
        """Return the name of the episode's Step Functions execution, at most 80 characters:
        `123456789012-us-east-1-i-0abc...-1764249600-1`, with the launch time in seconds and the
        number.

        Raises: ValueError for a naive launch time.
        """
        epoch = int(as_utc(self.launch_time).timestamp())
        return f"{self.account}-{self.region}-{self.instance_id}-{epoch}-{self.number}"

    @property
    def target(self) -> Target:
        """Return the account and Region of the instance."""
        return Target(self.account, self.region)


_INSTANCE_ID_SHAPE = "i-[0-9a-f]{8,17}"
_INSTANCE_ID = re.compile(_INSTANCE_ID_SHAPE)
_EXECUTION_NAME = re.compile(
    rf"(?P<account>\d{{12}})-(?P<region>{REGION_SHAPE})-(?P<id>{_INSTANCE_ID_SHAPE})"
    r"-(?P<epoch>\d{1,12})-(?P<n>\d{1,9})"
)


def episode_from_execution_name(name: str) -> EpisodeRef:
    """Return the episode that the execution of this name belongs to; the reverse of
    `execution_name`. Raises: ValueError if a remediation cannot have the name."""
    match = _EXECUTION_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the name of a remediation execution")
    launch_time = datetime.fromtimestamp(int(match["epoch"]), tz=UTC)
    return EpisodeRef(match["account"], match["region"], match["id"], launch_time, int(match["n"]))


def is_instance_id(text: str) -> bool:
    """Return whether EC2 may give an instance this ID, such as `i-0123456789abcdef0`."""
    return _INSTANCE_ID.fullmatch(text) is not None
