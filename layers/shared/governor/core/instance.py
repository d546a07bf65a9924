"""An EC2 instance, its volumes, snapshots and hardware: facts only, as EC2 describes them.

Nothing here decides what is done with an instance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from shlex import join

from governor.core.units import UtcDatetime, iso, letters_and_digits, printable

SELECTOR_TAG = "Purpose"
"""Marks a governed instance, by default. IAM policies of the stack require the same key."""
EXEMPTION_TAG = "GpuGovernor"
"""With the value `exempt`, the instance is never stopped or terminated, by default."""
CHECKPOINT_TAG = "GpuGovernorCheckpoint"
"""`off`, `hook`, or `signal` (the hook, or SIGTERM if there is none). With any other value the
policy decides."""
NAME_TAG = "Name"
AUTO_SCALING_TAG = "aws:autoscaling:groupName"
"""Set by EC2 Auto Scaling on the instances of a group."""
LOW_UTILIZATION_TAG = "LowUtilization"
"""Holds the time since which it is known to be idle."""
REVIEW_TAG = "ReviewForTermination"
MARKS = (LOW_UTILIZATION_TAG, REVIEW_TAG)
"""Tags that the sweep writes on an idle instance, and removes when it works again."""
EPISODE_TAG = "GpuGovernor:Episode"
"""Set on snapshots, as are the tags after it. The check before a termination counts snapshots by
it."""
INSTANCE_TAG = "GpuGovernor:Instance"
EVENT_TAG = "GpuGovernor:Event"
"""The interruption for which the snapshot was made."""
DELETE_AFTER_TAG = "DeleteAfter"
OWN_TAGS = frozenset({EPISODE_TAG, INSTANCE_TAG, EVENT_TAG, CHECKPOINT_TAG})
"""Keys that resemble the exemption's and mean something else: none of them exempts an instance."""
LINUX = "Linux/UNIX"
PLAIN_OPERATION = "RunInstances"
"""AWS's name of plain Linux on the bill. Source: EC2 user guide, AMI billing information fields."""


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One account and Region to sweep."""

    account: str
    region: str
    role_arn: str | None = None
    """The role to assume if the account is not the hub's own."""
    session: tuple[str, str] | None = field(default=None, compare=False)
    """The episode and the person that a session with the role names, so that CloudTrail in that
    account records them."""

    def __str__(self) -> str:
        """Return account and Region, such as `123456789012/us-east-1`."""
        return f"{self.account}/{self.region}"


EVERY_KEY = "*"
"""In a list of tag keys to copy: all of the instance's."""
_OURS = "gpugovernor"
"""The beginning of the keys of GPU Governor's tags, by letters and digits alone."""
MOST_TAGS = 50
"""Tags of one resource. Source: EC2 user guide, tag restrictions."""
TAG_VALUE_CHARACTERS = 256
"""Longest value of a tag. Source: EC2 user guide, tag restrictions."""


class Lifecycle(StrEnum):
    """The purchase option of an instance (`InstanceLifecycle`, which is absent for On-Demand)."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SCHEDULED = "scheduled"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE_RESERVATION = "interruptible-capacity-reservation"
    UNKNOWN = "unknown"
    """A value that AWS added later. The effect and saving of a stop are not known, so nothing is
    ever planned."""


@dataclass(frozen=True, slots=True)
class Volume:
    """An attached EBS volume. Its size (GiB) and the fields after it are `None` until
    DescribeVolumes is read; throughput is in MiB/s."""

    volume_id: str
    device: str
    delete_on_termination: bool
    size_gib: int | None = None
    volume_type: str | None = None
    iops: int | None = None
    throughput: int | None = None
    kms_key_id: str | None = None
    """ARN of the key that encrypts it; `None` if it is not encrypted, too."""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Parameters to launch such an instance again (`RunInstances`), as far as EC2 still shows them.

    User data may hold secrets and is kept separately (`UserData`).
    """

    image_id: str | None = None
    subnet_id: str | None = None
    security_group_ids: tuple[str, ...] = ()
    key_name: str | None = None
    instance_profile_arn: str | None = None
    private_ip: str | None = None
    placement_group: str | None = None
    network_interfaces: int | None = None
    """`None` in episodes of earlier releases."""
    efa_interfaces: int = 0
    elastic_ips: tuple[str, ...] = ()
    """Public IPv4 addresses of the account: they stay, and are charged, while it is stopped."""

    @property
    def network(self) -> str | None:
        """Return how many network interfaces the instance has, as text: `4, 2 of them with EFA`.
        Return `None` if it has none, or that is not known."""
        if not self.network_interfaces:
            return None
        if not self.efa_interfaces:
            return str(self.network_interfaces)
        return f"{self.network_interfaces}, {self.efa_interfaces} of them with EFA"


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch of an instance as CloudTrail recorded it. It is shown, and decides nothing."""

    principal: str
    """The ARN or the name of who launched it, printable."""
    launched_at: UtcDatetime


@dataclass(frozen=True, slots=True)
class UserData:
    """The record of an instance's user data, whose text is in the archive only.

    All fields are empty if the instance has none.
    """

    size: int = 0
    """In bytes."""
    sha256: str = ""
    kept_at: str = ""
    """An `s3://` address."""

    def is_of(self, data: bytes) -> bool:
        """Return whether this is the record of these user data, by their hash. Without data, return
        whether it is the record of none."""
        if not data:
            return self.sha256 == ""
        return self.sha256 == hashlib.sha256(data).hexdigest()

    def __str__(self) -> str:
        """Return the record for people: the size, the hash, and the command that reads the copy.
        Return `none` if the instance has no user data."""
        if not self.size:
            return "none"
        return (
            f"{self.size:,} bytes, SHA-256 {self.sha256}. Read it: aws s3 cp "
            f"{self.kept_at} user-data"
        )


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance as EC2 describes it. `launch_time` is the last start, as everywhere in EC2."""

    target: Target
    instance_id: str
    instance_type: str
    state: str
    launch_time: UtcDatetime
    lifecycle: Lifecycle = Lifecycle.ON_DEMAND
    root_device_type: str = "ebs"
    tags: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    availability_zone: str = ""
    platform: str = LINUX
    operation: str = PLAIN_OPERATION
    """AWS's name of its software on the bill (`UsageOperation`)."""
    tenancy: str = "Shared"
    """As the price list calls it: `Shared`, `Dedicated`, `Host`."""
    public_ip: str | None = None
    spot_request_id: str | None = None
    capacity_reservation_id: str | None = None
    host_id: str | None = None
    operator_managed: bool = False
    operator_principal: str | None = None
    launch: LaunchFacts | None = None
    """Set if the instance is described by itself; a sweep leaves it out."""
    state_transition_reason: str = ""
    """EC2's words for the last change of the state, such as `User initiated (2026-11-27 14:00:00
    GMT)`."""
    state_reason: str = ""
    """EC2's code and message for its state (`StateReason`), such as `Client.InternalError: Client
    error on launch`; empty while it runs."""

    @property
    def name(self) -> str:
        """Return the `Name` tag as one printable line; the instance id if there is no such tag, or
        it is blank."""
        return printable(self.tags.get(NAME_TAG, "")) or self.instance_id

    @property
    def is_gone(self) -> bool:
        """Return whether the instance is terminated or about to be: nothing starts it again."""
        return self.state in ("shutting-down", "terminated")

    @property
    def volume_ids(self) -> frozenset[str]:
        """Return the ids of the attached EBS volumes; empty if there are none."""
        return frozenset(volume.volume_id for volume in self.volumes)

    def snapshot_tags(
        self,
        occasion: str,
        until: UtcDatetime,
        mark: Mapping[str, str],
        *,
        added: Mapping[str, str] | None = None,
        copied_keys: Sequence[str] = (EVERY_KEY,),
    ) -> dict[str, str]:
        """Return the tags for snapshots of the instance: name, instance id, the time `until` which
        they are kept, those `added` by the policy, and the instance's own under `copied_keys`.

        `occasion` ends the name, as `before put-away`; the instance's own name is cut so that
        EC2 accepts the whole. `mark` is the tag of the episode or event that makes the snapshots.
        Without `added` there are none of those, and without `copied_keys` all of the instance's own
        tags are copied but AWS's and GPU Governor's. A key of `added` replaces the instance's in
        any letter case. Of more than 50 tags, the last of the instance's own are left out, in the
        order of their keys.
        """
        name = f"{self.name[: TAG_VALUE_CHARACTERS - len(occasion) - 1]} {occasion}"
        tags = {
            NAME_TAG: name,
            **mark,
            INSTANCE_TAG: self.instance_id,
            DELETE_AFTER_TAG: iso(until),
        }
        for key, value in (added or {}).items():
            tags.setdefault(key, value)
        # A tag policy that counts letter case refuses `costcenter` beside `CostCenter`.
        added_keys = {key.casefold() for key in added or {}}
        for key in self._keys_to_copy(copied_keys):
            is_free = key.casefold() not in added_keys
            if is_free and len(tags) < MOST_TAGS:
                tags.setdefault(key, self.tags[key])
        return tags

    def _keys_to_copy(self, copied_keys: Sequence[str]) -> list[str]:
        """Return the keys of the instance's tags that its snapshots may bear, in order: those in
        `copied_keys`, or all of them for `*`; empty if there are none.

        AWS refuses to set its own tags. The selector and GPU Governor's tags mean something on
        instances only.
        """
        wanted = {key.casefold() for key in copied_keys}
        keys: list[str] = []
        for key in sorted(self.tags):
            is_wanted = EVERY_KEY in wanted or key.casefold() in wanted
            is_ours = key in (SELECTOR_TAG, *MARKS) or letters_and_digits(key).startswith(_OURS)
            if is_wanted and not is_ours and not key.casefold().startswith("aws:"):
                keys.append(key)
        return keys

    @property
    def family(self) -> str:
        """Return the family of its type, such as `g5`."""
        return self.instance_type.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An EBS snapshot."""

    snapshot_id: str
    volume_id: str
    state: str
    """`pending`, `completed` or `error`."""
    start_time: UtcDatetime | None = None
    """The same for all snapshots of one call."""
    owner_id: str = ""
    size_gib: int | None = None
    """Size of its volume: more than what is billed."""
    tags: Mapping[str, str] = field(default_factory=dict)

    def is_of_account_since(self, account: str, since: UtcDatetime) -> bool:
        """Return whether the snapshot belongs to the account and was begun at `since` or later.
        Return false if its start is not known."""
        if self.owner_id != account or self.start_time is None:
            return False
        return self.start_time >= since


@dataclass(frozen=True, slots=True)
class Protection:
    """The two flags by which a human says no (DescribeInstanceAttribute). GPU Governor never clears
    them. `None`: EC2 does not know the flag in this Region."""

    stop: bool | None = False
    termination: bool | None = False


class SpotRequestType(StrEnum):
    """The type of a Spot request. One-time instances cannot be stopped; a persistent request
    launches a successor when an instance ends."""

    ONE_TIME = "one-time"
    PERSISTENT = "persistent"


@dataclass(frozen=True, slots=True)
class Shape:
    """Hardware of an instance type, from the shipped catalog or DescribeInstanceTypes.

    Each figure is per accelerator.
    """

    instance_type: str
    accelerator: str
    accelerator_count: int | None
    """`None` if it is not known; a fraction of a GPU counts as one."""
    memory_mib_each: int | None = None
    board_power_watts: int | None = None
    local_nvme: str | None = None
    vcpus: int | None = None
    """The number of vCPUs of the whole instance; `None` if it is not known."""

    @property
    def vendor(self) -> str:
        """Return the vendor of the accelerators: the first word of their name, such as `NVIDIA`."""
        return self.accelerator.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Session:
    """A Session Manager session. AWS does not say when somebody last used it."""

    owner: str
    """As IAM names them."""
    since: UtcDatetime


@dataclass(frozen=True, slots=True)
class Reservation:
    """An On-Demand Capacity Reservation or a Capacity Block, as EC2 describes it to its payer."""

    reservation_id: str
    target: Target
    instance_type: str
    platform: str
    total: int
    available: int
    """Instances of the `total` that are not used."""
    is_block: bool
    began_at: UtcDatetime
    ends_at: UtcDatetime | None
    account: str
    """The account that holds it. Another account may pay for unused instances."""
    tags: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return its `Name` tag; empty if it has none."""
        return printable(self.tags.get(NAME_TAG, ""))

    @property
    def ends(self) -> str:
        """Return the end for a sentence: `until 2026-12-31 23:59 UTC`, or `without an end date`."""
        if not self.ends_at:
            return "without an end date"
        return f"until {self.ends_at:%Y-%m-%d %H:%M} UTC"

    @property
    def as_instance(self) -> Instance:
        """Return a made-up instance of the reservation's type and tags, for rules that find the
        price and owner of an instance. It does not exist in EC2."""
        return Instance(
            target=self.target,
            instance_id=self.reservation_id,
            instance_type=self.instance_type,
            state="",
            launch_time=self.began_at,
            tags=self.tags,
            platform=self.platform,
        )


def tag_command(instance_id: str, region: str, key: str, value: str) -> str:
    """Return the command of the AWS CLI that sets a tag, for people to copy into a shell. Key and
    value may be any text: they are quoted."""
    where = ("--region", region, "--resources", instance_id)
    return join(("aws", "ec2", "create-tags", *where, "--tags", f"Key={key},Value={value}"))
