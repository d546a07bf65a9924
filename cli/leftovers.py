"""Remains of a stack in an account: found by its own names and tags, with what keeping it costs.

Prices are AWS's list prices in us-east-1 (pricing pages of EBS, VPC, DynamoDB, S3, CloudWatch and
KMS, 2026). Those of EBS are the defaults of the policy, or what the question about the instance had
for its Region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import ClientError

from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable
from governor.domain.episode.episode import Episode, Outcome, Phase
from governor.domain.episode.plan import ADDRESS_USD_PER_HOUR, StoragePrices
from governor.domain.instance import (
    DELETE_AFTER_TAG,
    INSTANCE_TAG,
    MARKS,
    SELECTOR_TAG,
    Target,
    Volume,
)
from governor.domain.money.ledger import LedgerEntry
from governor.domain.policy.policy import Prices
from governor.domain.units import HOURS_PER_MONTH, in_parts, parse_iso, plural, printable
from governor.stores import StateTable
from simulation.patterns import Advice

TABLE_USD, PITR_USD, S3_USD, LOGS_USD = map(Decimal, ("0.25", "0.20", "0.023", "0.03"))
"""USD per GB and month: DynamoDB storage, its point-in-time recovery, S3 Standard, archived
logs."""
KEY_USD, ALARM_USD = Decimal(1), Decimal("0.10")
"""USD per month. A rotation of the key adds one dollar, the first two times."""
LEDGER_MONTHS = 36
"""Months of the ledger in which terminations are looked for."""
KEY_WAITS_DAYS = 30
_GB = Decimal(10**9)
_USER_DATA = "user-data/"
_FILTER_VALUES = 200
"""Source: EC2 API, values of one filter."""
_AT_ONCE = 1_000
"""Objects of one call. Source: S3 API, DeleteObjects."""
_OLD_LOCATIONS = {None: "us-east-1", "EU": "eu-west-1"}
_OF_KEY = "Encrypts the data of GPU Governor"


@dataclass(frozen=True, slots=True)
class Leftover:
    """All of one kind. `remove` says what it does, line by line; without it the kind is never
    removed."""

    text: str
    names: Sequence[str]
    usd_a_month: Decimal = Decimal()
    remove: Callable[[], Iterable[str]] | None = None


class Leftovers:
    """Remains of one stack: of EC2 in `regions` of this account, all else in the session's
    Region."""

    def __init__(
        self,
        session: boto3.Session,
        stack: str,
        regions: Sequence[str],
        selector: str,
        recorded: Iterable[str] = (),
    ) -> None:
        """`recorded`: ids of snapshots that the state tables of another account have recorded."""
        self._recorded_elsewhere = frozenset(recorded)
        self._session = session
        self._stack = stack
        self._regions = regions
        self._selector = selector

    def tags(self) -> Leftover | None:
        """Marks on instances. Tags that people set, such as an exemption, are theirs."""
        of_selector = {"Name": f"tag:{SELECTOR_TAG}", "Values": [self._selector]}
        marked = {"Name": "tag-key", "Values": list(MARKS)}
        found = [
            (region, one["InstanceId"])
            for region in self._regions
            for one in self._instances(region, [of_selector, marked])
            if one["State"]["Name"] not in ("shutting-down", "terminated")
        ]

        def remove() -> Iterator[str]:
            for region in self._regions:
                ids = [ident for where, ident in found if where == region]
                for part in in_parts(ids, _AT_ONCE):
                    keys = [{"Key": key} for key in MARKS]
                    self._client("ec2", region).delete_tags(Resources=part, Tags=keys)
                    yield (
                        f"removed {' and '.join(MARKS)} from "
                        f"{plural(len(part), 'instance')} in {region}"
                    )

        return _some(
            f"on {plural(len(found), 'instance')}: {', '.join(MARKS)}", found, remove=remove
        )

    def instances(self) -> Leftover | None:
        """Instances that the governor stopped, and that are stopped still. Only their volumes
        cost."""
        found = self._stopped
        size = sum(self._volumes_gib(region, ident) for region, ident in found)
        text = (
            f"{plural(len(found), 'instance')} that it stopped ({_names(found)}), "
            f"{size} GiB; never removed"
        )
        return _some(text, found, size * Prices().ebs_usd_per_gib_month)

    @cached_property
    def left_volumes(self) -> list[tuple[str, Volume, Decimal]]:
        """Unattached volumes of instances that the governor terminated and EC2 was to keep: with
        Region and USD a month."""
        prices = {
            (one.instance.target.region, volume.volume_id): one.price.storage or StoragePrices()
            for one in self._terminated
            for volume in one.instance.volumes
            if not volume.delete_on_termination
        }
        found = [
            (
                region,
                Volume(
                    one["VolumeId"],
                    "",
                    False,
                    *map(one.get, ("Size", "VolumeType", "Iops", "Throughput")),
                ),
            )
            for region in self._regions
            for part in in_parts(
                [ident for where, ident in prices if where == region], _FILTER_VALUES
            )
            for page in self._pages(
                "ec2",
                "describe_volumes",
                region,
                Filters=[
                    {"Name": "volume-id", "Values": part},
                    {"Name": "status", "Values": ["available"]},
                ],
            )
            for one in page["Volumes"]
        ]
        flat = Prices().ebs_usd_per_gib_month
        return [
            (region, one, (one.size_gib or 0) * flat if usd is None else usd)
            for region, one in found
            for usd in [prices[region, one.volume_id].usd_per_month(one)]
        ]

    def volumes(self) -> Leftover | None:
        """As one kind."""
        found = self.left_volumes
        size = sum(one.size_gib or 0 for _, one, _ in found)
        named = [(region, one.volume_id) for region, one, _ in found]
        text = (
            f"{plural(len(found), 'volume')} of instances that it terminated "
            f"({_names(named)}), {size} GiB"
        )
        return _some(f"{text}; never removed", named, sum((usd for *_, usd in found), Decimal()))

    @cached_property
    def left_addresses(self) -> list[tuple[str, Any]]:
        """Elastic IPs of instances that it stopped, and unassociated ones of those it terminated,
        as EC2 describes them: with the Region of each."""
        left = {(one.instance.target.region, one.instance.public_ip) for one in self._terminated}
        return [
            (region, one)
            for region in self._regions
            for one in self._client("ec2", region).describe_addresses()["Addresses"]
            if (region, one.get("InstanceId")) in self._stopped
            or ("AssociationId" not in one and (region, one["PublicIp"]) in left)
        ]

    def addresses(self) -> Leftover | None:
        """As one kind."""
        found = [(region, str(one["PublicIp"])) for region, one in self.left_addresses]
        text = (
            f"{plural(len(found), 'Elastic IP')} of instances that it stopped or "
            f"terminated ({_names(found)})"
        )
        return _some(
            f"{text}; never removed", found, len(found) * ADDRESS_USD_PER_HOUR * HOURS_PER_MONTH
        )

    @cached_property
    def recorded(self) -> frozenset[str]:
        """Ids of the snapshots that closed episodes have recorded, in every account: a tag proves
        nothing."""
        known = (one.snapshots for one in self._booked(lambda _: True) if one.phase is Phase.CLOSED)
        return self._recorded_elsewhere.union(*known)

    def snapshots(self) -> Leftover | None:
        """Snapshots of stopped and interrupted instances. Only changed blocks are billed: at most
        so much."""
        of_ours = [{"Name": "tag-key", "Values": [INSTANCE_TAG]}]
        found = [
            (region, one)
            for region in self._regions
            for page in self._pages(
                "ec2", "describe_snapshots", region, OwnerIds=["self"], Filters=of_ours
            )
            for one in page["Snapshots"]
        ]
        recorded = self.recorded
        whys = [(one["SnapshotId"], _kept(one, recorded)) for _, one in found]
        kept = {snapshot_id: why for snapshot_id, why in whys if why is not None}
        dates = sorted(
            _tag(one, DELETE_AFTER_TAG)[:10] for _, one in found if one["SnapshotId"] not in kept
        )
        size = sum(int(one["VolumeSize"]) for _, one in found)
        until = f", of which the first may go on {printable(dates[0])}" if dates else ""
        never = f"; {len(kept)} of them never removed" if kept else ""

        def remove() -> Iterator[str]:
            for region, one in found:
                snapshot_id = one["SnapshotId"]
                if (why := kept.get(snapshot_id)) is not None:
                    yield f"kept snapshot {snapshot_id} in {region}: {why}"
                    continue
                try:
                    self._client("ec2", region).delete_snapshot(SnapshotId=snapshot_id)
                except ClientError as error:
                    yield f"kept snapshot {snapshot_id} in {region}: {printable(str(error))}"
                else:
                    yield f"deleted snapshot {snapshot_id} in {region}"

        named = [(region, one["SnapshotId"]) for region, one in found]
        text = (
            f"{plural(len(found), 'snapshot')} of {size} GiB{until}{never}; only "
            "changed blocks are billed"
        )
        return _some(text, named, size * Prices().snapshot_usd_per_gib_month, remove)

    def alarms(self) -> Leftover | None:
        """Those that a removal could not delete."""
        pages = self._pages("cloudwatch", "describe_alarms", AlarmNamePrefix=f"{self._stack}-")
        names = [one["AlarmName"] for page in pages for one in page["MetricAlarms"]]
        names = [name for name in names if self._is_named(name, r"\w*Alarm\w*")]

        def remove() -> Iterator[str]:
            for part in in_parts(names, 100):
                self._client("cloudwatch").delete_alarms(AlarmNames=part)
                yield f"deleted {plural(len(part), 'alarm')}"

        return _some(plural(len(names), "alarm"), names, len(names) * ALARM_USD, remove)

    def schedules(self) -> Leftover | None:
        """Those that a removal could not delete: they would invoke nothing, for ever."""
        pages = self._pages("scheduler", "list_schedules", NamePrefix=f"{self._stack}-")
        found = [(one["GroupName"], one["Name"]) for page in pages for one in page["Schedules"]]
        found = [(group, name) for group, name in found if self._is_named(name, r"\w*Schedule")]

        def remove() -> Iterator[str]:
            for group, name in found:
                self._client("scheduler").delete_schedule(GroupName=group, Name=name)
                yield f"deleted the schedule {name}"

        return _some(plural(len(found), "schedule"), [name for _, name in found], remove=remove)

    def logs(self) -> Leftover | None:
        """Log groups. A function that ran while its stack was removed makes its own again."""
        prefixes = (
            f"/aws/lambda/{self._stack}/",
            f"/aws/vendedlogs/states/{self._stack}",
            f"/aws/vendedlogs/apis/{self._stack}",
        )
        found = [
            one
            for prefix in prefixes
            for page in self._pages("logs", "describe_log_groups", logGroupNamePrefix=prefix)
            for one in page["logGroups"]
            if prefix == prefixes[0] or one["logGroupName"] == prefix
        ]
        size = sum(int(one.get("storedBytes", 0)) for one in found)
        names = [one["logGroupName"] for one in found]

        def remove() -> Iterator[str]:
            for name in names:
                self._client("logs").delete_log_group(logGroupName=name)
                yield f"deleted the log group {name}"

        return _some(
            f"{plural(len(found), 'log group')}, {_size(size)}",
            names,
            size / _GB * LOGS_USD,
            remove,
        )

    def table(self) -> Leftover | None:
        """State tables: one of each time that the stack was deployed anew."""
        return self._tables_left(self._tables, TABLE_USD + PITR_USD)

    def copies(self) -> Leftover | None:
        """Tables that were restored from a state table, and others that the stack's key
        encrypts."""
        return self._tables_left(self._copies, TABLE_USD)

    def policy(self) -> Leftover | None:
        """Buckets with the versions of the policy."""
        return self._buckets("policybucket")

    def reports(self) -> Leftover | None:
        """Buckets with the copies of the ledger."""
        return self._buckets("reportbucket")

    def audit(self) -> Leftover | None:
        """Buckets with the audit, and with the user data of terminated instances."""
        return self._buckets("auditbucket")

    def key(self) -> Leftover | None:
        """Keys that the tables, policies, logs and kept user data are encrypted with."""
        ids = sorted(arn for arn, state in self._keys.items() if state in ("Enabled", "Disabled"))

        def remove() -> Iterator[str]:
            for arn in ids:
                kms = self._client("kms")
                kms.schedule_key_deletion(KeyId=arn, PendingWindowInDays=KEY_WAITS_DAYS)
                yield (
                    f"the key {arn} will be deleted in {KEY_WAITS_DAYS} days: until then "
                    "`aws kms cancel-key-deletion` brings it back"
                )

        text = f"{plural(len(ids), 'key')} ({', '.join(ids)}); a rotation adds $1, twice at most"
        return _some(text, ids, len(ids) * KEY_USD, remove)

    def has_user_data(self) -> bool:
        """Return whether the audit holds user data, which only the key can read."""
        return any(
            self._client("s3")
            .list_objects_v2(Bucket=name, Prefix=_USER_DATA, MaxKeys=1)
            .get("Contents")
            for name in self._bucket_names("auditbucket")
        )

    # reading

    def _client(self, service: str, region: str | None = None) -> Any:
        return self._session.client(service, region_name=region or self._session.region_name)  # type: ignore[call-overload]

    def _pages(
        self, service: str, operation: str, region: str | None = None, **asked: Any
    ) -> Iterator[Any]:
        yield from self._client(service, region).get_paginator(operation).paginate(**asked)

    def _is_named(self, name: str, logical_id: str) -> bool:
        """Return whether CloudFormation made the name up for a resource of this stack, not of
        `STACK-two`."""
        return (
            re.fullmatch(rf"{re.escape(self._stack)}-{logical_id}-[A-Za-z0-9]{{8,14}}", name)
            is not None
        )

    def _instances(self, region: str, filters: Sequence[Any]) -> Iterator[Any]:
        for page in self._pages("ec2", "describe_instances", region, Filters=filters):
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]

    def _volumes_gib(self, region: str, instance_id: str) -> int:
        of_it = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        pages = self._pages("ec2", "describe_volumes", region, Filters=of_it)
        return sum(int(one["Size"]) for page in pages for one in page["Volumes"])

    @cached_property
    def _account(self) -> str:
        return str(self._client("sts").get_caller_identity()["Account"])

    @cached_property
    def _all_tables(self) -> list[str]:
        return [
            one for page in self._pages("dynamodb", "list_tables") for one in page["TableNames"]
        ]

    @cached_property
    def _tables(self) -> list[str]:
        return [name for name in self._all_tables if self._is_named(name, "StateTable")]

    @cached_property
    def _copies(self) -> list[str]:
        """A copy has a name that somebody chose: it is known by its source, or by the key it
        keeps."""

        def is_copy(found: Any) -> bool:
            source = found.get("RestoreSummary", {}).get("SourceTableArn", "").rpartition("/")[2]
            key = found.get("SSEDescription", {}).get("KMSMasterKeyArn")
            return self._is_named(source, "StateTable") or key in self._keys

        others = [name for name in self._all_tables if name not in self._tables]
        return [name for name in others if is_copy(self._table(name))]

    def _tables_left(self, names: Sequence[str], usd_a_gb: Decimal) -> Leftover | None:
        size = sum(int(self._table(name).get("TableSizeBytes", 0)) for name in names)

        def remove() -> Iterator[str]:
            dynamodb = self._client("dynamodb")
            for name in names:
                if self._table(name).get("DeletionProtectionEnabled"):
                    dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
                    dynamodb.get_waiter("table_exists").wait(TableName=name)
                dynamodb.delete_table(TableName=name)
                backup = ": AWS keeps a backup for 35 days, as long as the key works"
                yield f"deleted the table {name}{backup if name in self._tables else ''}"

        return _some(f"{', '.join(names)}, {_size(size)}", names, size / _GB * usd_a_gb, remove)

    def _table(self, name: str) -> Any:
        return self._client("dynamodb").describe_table(TableName=name)["Table"]

    @cached_property
    def _stopped(self) -> list[tuple[str, str]]:
        """Region and id of what the governor stopped, and what is stopped still."""
        ids: dict[str, set[str]] = {}
        for table in self._tables:
            for region in self._regions:
                ids.setdefault(region, set()).update(self._stopped_by_us(table, region))
        return [
            (region, one["InstanceId"])
            for region, wanted in ids.items()
            for one in self._instances(
                region, [{"Name": "instance-state-name", "Values": ["stopped"]}]
            )
            if one["InstanceId"] in wanted
        ]

    @cached_property
    def _terminated(self) -> list[Episode]:
        """Episodes in which the governor terminated an instance of this account."""

        def is_ours(entry: LedgerEntry) -> bool:
            target, is_over = (
                entry.episode.target,
                entry.acted and entry.outcome is Outcome.TERMINATED,
            )
            return is_over and target.account == self._account and target.region in self._regions

        return list(self._booked(is_ours))

    def _booked(self, wanted: Callable[[LedgerEntry], bool]) -> Iterator[Episode]:
        """Episodes whose entries are in the ledgers of the last months, if they are `wanted`."""
        now = datetime.now(tz=UTC)
        ages = [now.year * 12 + now.month - 1 - ago for ago in range(LEDGER_MONTHS)]
        found = (
            state.episode(entry.episode)
            for state in map(self._state, self._tables)
            for age in ages
            for entry in state.entries(f"{age // 12:04}-{age % 12 + 1:02}")
            if wanted(entry)
        )
        return (one for one in found if one is not None)

    def _state(self, table: str) -> StateTable:
        return StateTable(DynamoTable(Clients(self._session.region_name), table))

    def _stopped_by_us(self, table: str, region: str) -> Iterator[str]:
        """Ids of instances whose saving goes on: they have not been started since."""
        values = {":pk": {"S": f"TARGET#{self._account}#{region}"}, ":open": {"S": "OPENLEDGER#"}}
        asked = {"KeyConditionExpression": "pk = :pk AND begins_with(sk, :open)"}
        pages = self._pages(
            "dynamodb", "query", TableName=table, ExpressionAttributeValues=values, **asked
        )
        for page in pages:
            for item in page["Items"]:
                yield item["sk"]["S"].split("#")[1]

    def _bucket_names(self, logical_id: str) -> list[str]:
        s3, here = self._client("s3"), self._session.region_name
        named = [one["Name"] for one in s3.list_buckets()["Buckets"]]
        ours = re.compile(rf"{re.escape(self._stack.lower())}-{logical_id}-[a-z0-9]{{8,14}}")
        # A stack of the same name in another Region has buckets of its own.
        return [
            name
            for name in named
            if ours.fullmatch(name)
            and _OLD_LOCATIONS.get(
                at := s3.get_bucket_location(Bucket=name)["LocationConstraint"], at
            )
            == here
        ]

    def _versions(self, bucket: str) -> Iterator[Any]:
        for page in self._pages("s3", "list_object_versions", Bucket=bucket):
            yield from (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))

    def _buckets(self, logical_id: str) -> Leftover | None:
        names = self._bucket_names(logical_id)
        sizes = [int(one.get("Size", 0)) for name in names for one in self._versions(name)]

        def remove() -> Iterator[str]:
            for name in names:
                yield self._without_bucket(name)

        text = (
            f"{', '.join(names)}: {plural(len(sizes), 'version')} of objects, {_size(sum(sizes))}"
        )
        return _some(text, names, sum(sizes) / _GB * S3_USD, remove)

    def _without_bucket(self, name: str) -> str:
        s3, locked = self._client("s3"), 0
        for part in in_parts(list(self._versions(name)), _AT_ONCE):
            objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in part]
            answer = s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
            locked += len(answer.get("Errors", ()))
        if locked:
            return (
                f"kept the bucket {name}: {plural(locked, 'version')} in it may not be "
                "deleted (Object Lock?)"
            )
        s3.delete_bucket(Bucket=name)
        return f"deleted the bucket {name} and all in it"

    @cached_property
    def _keys(self) -> dict[str, str]:
        """The state of each key of the stack by its ARN; one that waits to be deleted can be had
        back."""
        described = [
            self._client("kms").describe_key(KeyId=one)["KeyMetadata"] for one in self._key_ids()
        ]
        ours = [one for one in described if one.get("Description", "").startswith(_OF_KEY)]
        return {str(one["Arn"]): str(one["KeyState"]) for one in ours}

    def _key_ids(self) -> Iterator[str]:
        """Those of what is left, and those that CloudFormation has marked as the stack's."""
        for name in self._tables:
            if key := self._table(name).get("SSEDescription", {}).get("KMSMasterKeyArn"):
                yield key
        for name in self._bucket_names("policybucket"):
            found = self._client("s3").get_bucket_encryption(Bucket=name)[
                "ServerSideEncryptionConfiguration"
            ]
            rules = [rule["ApplyServerSideEncryptionByDefault"] for rule in found["Rules"]]
            yield from (one["KMSMasterKeyID"] for one in rules if "KMSMasterKeyID" in one)
        kms = self._client("kms")
        for page in self._pages("kms", "list_keys"):
            for one in page["Keys"]:
                if self._tagged_stack(kms, one["KeyId"]) == self._stack:
                    yield one["KeyId"]

    def _tagged_stack(self, kms: Any, key: str) -> str | None:
        try:
            tags = kms.list_resource_tags(KeyId=key)["Tags"]
        except ClientError:
            return None  # a key whose policy does not let this identity look is not the stack's
        return next(
            (one["TagValue"] for one in tags if one["TagKey"] == "aws:cloudformation:stack-name"),
            None,
        )


def left_behind(target: Target, left: Leftovers) -> Iterator[Advice]:
    """Advice on each thing that the governor's own actions left in a Region, with USD a month."""
    for region, volume, monthly in left.left_volumes:
        if region == target.region:
            yield _left(
                target,
                "left-volume",
                volume.volume_id,
                volume.volume_type or "unknown",
                monthly,
                f"{volume.size_gib or 'unknown'} GiB of an instance that GPU Governor "
                "terminated; EC2 was to "
                "keep it, and nothing uses it. Its deletion cannot be undone.",
                f"aws ec2 delete-volume --region {region} --volume-id {volume.volume_id}",
            )
    for region, one in left.left_addresses:
        if region == target.region:
            holder = one.get("InstanceId")
            yield _left(
                target,
                "left-address",
                one["PublicIp"],
                "Elastic IP",
                ADDRESS_USD_PER_HOUR * HOURS_PER_MONTH,
                f"Of {holder}, which GPU Governor stopped: it keeps its address until "
                "this is released."
                if holder
                else "Of an instance that GPU Governor terminated; nothing uses it.",
                ""
                if holder
                else f"aws ec2 release-address --region {region} --allocation-id "
                f"{one.get('AllocationId')}",
            )


def _left(
    target: Target, kind: str, subject: str, what: str, monthly: Decimal, text: str, command: str
) -> Advice:
    place = target.account, target.region
    return Advice(kind, subject, *place, what, monthly, 0, 0, text, command)


def _some(
    text: str,
    found: Sequence[Any],
    usd_a_month: Decimal = Decimal(),
    remove: Callable[[], Iterable[str]] | None = None,
) -> Leftover | None:
    """Nothing where nothing was found."""
    names = [one if isinstance(one, str) else " ".join(one) for one in found]
    return Leftover(text, names, usd_a_month, remove) if found else None


def _kept(snapshot: Any, recorded: Collection[str]) -> str | None:
    """Return why a snapshot with our tags is not removed; `None`: a closed episode has recorded it,
    and it has a date still."""
    if snapshot["SnapshotId"] not in recorded:
        return "no state table has recorded it; delete it yourself if nobody needs it"
    try:
        parse_iso(_tag(snapshot, DELETE_AFTER_TAG))
    except ValueError:
        return f"its tag {DELETE_AFTER_TAG} is no date: somebody wants it"
    return None


def _tag(snapshot: Any, key: str) -> str:
    return next((str(tag["Value"]) for tag in snapshot["Tags"] if tag["Key"] == key), "")


def _names(found: Sequence[tuple[str, str]]) -> str:
    return ", ".join(ident for _, ident in found)


def _size(count: int) -> str:
    return f"{count / 10**9:.1f} GB" if count >= 10**8 else f"{count / 10**6:.1f} MB"
