"""Remains of a stack in an account: found by its own names and tags, with what they cost.

Prices are AWS's list prices in us-east-1 (pricing pages of EBS, VPC, DynamoDB, S3, CloudWatch and
KMS, 2026). Those of EBS are the defaults of the policy, or what the question about the instance had
for its Region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import ClientError

from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.instance import (
    DELETE_AFTER_TAG,
    INSTANCE_TAG,
    MARKS,
    SELECTOR_TAG,
    Target,
    Volume,
)
from governor.core.units import HOURS_PER_MONTH, in_parts, parse_iso, plural, printable
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.episode.model.plan import StoragePrices
from governor.episode.rules.plan_effects import ADDRESS_USD_PER_HOUR
from governor.episode.store.episodes import Episodes
from governor.money.model.ledger import LedgerEntry
from governor.money.store.ledger import Ledger
from governor.policy.model.money import Prices
from simulation.patterns import Advice

TABLE_USD = Decimal("0.25")
"""USD per GB and month of DynamoDB storage."""
PITR_USD = Decimal("0.20")
"""USD per GB and month of point-in-time recovery."""
S3_USD = Decimal("0.023")
"""USD per GB and month of S3 Standard."""
LOGS_USD = Decimal("0.03")
"""USD per GB and month of archived logs."""
KEY_USD = Decimal(1)
"""USD per month. A rotation of the key adds one dollar, the first two times."""
ALARM_USD = Decimal("0.10")
"""USD per month."""
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
    """All remains of one kind, named one by one, with what they cost.

    `remove` removes them and yields a line on each step. Without it the kind is never removed.
    """

    text: str
    names: Sequence[str]
    usd_a_month: Decimal = Decimal()
    remove: Callable[[], Iterable[str]] | None = None


class Leftovers:
    """Remains of one stack: of EC2 in `regions` of this account, all else in the session's Region.

    Each public method returns the remains of one kind, or `None` where there are none.
    """

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
        """Return the marks on instances. Tags that people set, such as an exemption, are theirs."""
        of_selector = {"Name": f"tag:{SELECTOR_TAG}", "Values": [self._selector]}
        is_marked = {"Name": "tag-key", "Values": list(MARKS)}
        marked: list[tuple[str, str]] = []
        for region in self._regions:
            for instance in self._instances(region, [of_selector, is_marked]):
                if instance["State"]["Name"] not in ("shutting-down", "terminated"):
                    marked.append((region, instance["InstanceId"]))

        def remove() -> Iterator[str]:
            for region in self._regions:
                ids = [instance_id for place, instance_id in marked if place == region]
                for part in in_parts(ids, _AT_ONCE):
                    keys = [{"Key": key} for key in MARKS]
                    self._client("ec2", region).delete_tags(Resources=part, Tags=keys)
                    count = plural(len(part), "instance")
                    yield f"removed {' and '.join(MARKS)} from {count} in {region}"

        text = f"on {plural(len(marked), 'instance')}: {', '.join(MARKS)}"
        return _leftover(text, marked, remove=remove)

    def instances(self) -> Leftover | None:
        """Return the instances that the governor stopped and that are still stopped.

        Only their volumes cost.
        """
        stopped = self._stopped
        size = sum(self._volumes_gib(region, instance_id) for region, instance_id in stopped)
        text = (
            f"{plural(len(stopped), 'instance')} that GPU Governor stopped ({_ids(stopped)}), "
            f"{size} GiB; never removed"
        )
        return _leftover(text, stopped, size * Prices().ebs_usd_per_gib_month)

    @cached_property
    def left_volumes(self) -> list[tuple[str, Volume, Decimal]]:
        """Return unattached volumes of terminated instances: with Region and USD a month.

        The governor terminated those instances, and EC2 was to keep these volumes.
        """
        prices = self._prices_of_kept_volumes()
        left = []
        for region in self._regions:
            ids = [volume_id for place, volume_id in prices if place == region]
            for volume in self._unattached_volumes(region, ids):
                usd = prices[region, volume.volume_id].usd_per_month(volume)
                if usd is None:
                    usd = (volume.size_gib or 0) * Prices().ebs_usd_per_gib_month
                left.append((region, volume, usd))
        return left

    def _prices_of_kept_volumes(self) -> dict[tuple[str, str], StoragePrices]:
        """Return the prices of each volume that EC2 was to keep, by Region and volume id."""
        prices = {}
        for episode in self._terminated:
            region = episode.instance.target.region
            for volume in episode.instance.volumes:
                if not volume.delete_on_termination:
                    prices[region, volume.volume_id] = episode.price.storage or StoragePrices()
        return prices

    def _unattached_volumes(self, region: str, volume_ids: Sequence[str]) -> Iterator[Volume]:
        for part in in_parts(volume_ids, _FILTER_VALUES):
            filters = [
                {"Name": "volume-id", "Values": part},
                {"Name": "status", "Values": ["available"]},
            ]
            for page in self._pages("ec2", "describe_volumes", region, Filters=filters):
                for described in page["Volumes"]:
                    yield Volume(
                        described["VolumeId"],
                        "",
                        False,
                        described.get("Size"),
                        described.get("VolumeType"),
                        described.get("Iops"),
                        described.get("Throughput"),
                    )

    def volumes(self) -> Leftover | None:
        """Return the unattached volumes as one kind."""
        size = 0
        monthly = Decimal()
        names = []
        for region, volume, usd in self.left_volumes:
            size += volume.size_gib or 0
            monthly += usd
            names.append((region, volume.volume_id))
        text = (
            f"{plural(len(names), 'volume')} of instances that GPU Governor terminated "
            f"({_ids(names)}), {size} GiB"
        )
        return _leftover(f"{text}; never removed", names, monthly)

    @cached_property
    def left_addresses(self) -> list[tuple[str, Any]]:
        """Return the Elastic IPs that are left, as EC2 describes them, with their Regions.

        They belong to instances that the governor stopped, or belonged to terminated ones and are
        not associated.
        """
        of_terminated = set()
        for episode in self._terminated:
            instance = episode.instance
            of_terminated.add((instance.target.region, instance.public_ip))
        left = []
        for region in self._regions:
            for address in self._client("ec2", region).describe_addresses()["Addresses"]:
                is_of_stopped = (region, address.get("InstanceId")) in self._stopped
                is_free = "AssociationId" not in address
                if is_of_stopped or (is_free and (region, address["PublicIp"]) in of_terminated):
                    left.append((region, address))
        return left

    def addresses(self) -> Leftover | None:
        """Return the Elastic IPs as one kind."""
        names = [(region, str(address["PublicIp"])) for region, address in self.left_addresses]
        text = (
            f"{plural(len(names), 'Elastic IP')} of instances that GPU Governor stopped or "
            f"terminated ({_ids(names)})"
        )
        monthly = len(names) * ADDRESS_USD_PER_HOUR * HOURS_PER_MONTH
        return _leftover(f"{text}; never removed", names, monthly)

    @cached_property
    def recorded(self) -> frozenset[str]:
        """Return the ids of the snapshots that closed episodes have recorded, in every account.

        A tag proves nothing: anybody may set it.
        """
        snapshot_ids = set(self._recorded_elsewhere)
        for episode in self._booked(lambda _: True):
            if episode.phase is Phase.CLOSED:
                snapshot_ids.update(episode.progress.snapshots)
        return frozenset(snapshot_ids)

    def snapshots(self) -> Leftover | None:
        """Return the snapshots of stopped and interrupted instances.

        Only changed blocks are billed, so the price is the most that they cost.
        """
        snapshots = list(self._own_snapshots())
        why_kept: dict[str, str] = {}
        dates = []
        for _, snapshot in snapshots:
            why = _why_kept(snapshot, self.recorded)
            if why is not None:
                why_kept[snapshot["SnapshotId"]] = why
            else:
                dates.append(_tag(snapshot, DELETE_AFTER_TAG)[:10])

        def remove() -> Iterator[str]:
            for region, snapshot in snapshots:
                yield self._without_snapshot(region, snapshot["SnapshotId"], why_kept)

        names = [(region, snapshot["SnapshotId"]) for region, snapshot in snapshots]
        size = sum(int(snapshot["VolumeSize"]) for _, snapshot in snapshots)
        until = f", the first to be deleted on {printable(min(dates))}" if dates else ""
        never = f"; {len(why_kept)} of them are never removed" if why_kept else ""
        text = (
            f"{plural(len(names), 'snapshot')} of {size} GiB{until}{never}; only "
            "changed blocks are billed"
        )
        return _leftover(text, names, size * Prices().snapshot_usd_per_gib_month, remove)

    def _own_snapshots(self) -> Iterator[tuple[str, Any]]:
        of_ours = [{"Name": "tag-key", "Values": [INSTANCE_TAG]}]
        for region in self._regions:
            pages = self._pages(
                "ec2", "describe_snapshots", region, OwnerIds=["self"], Filters=of_ours
            )
            for page in pages:
                for snapshot in page["Snapshots"]:
                    yield region, snapshot

    def _without_snapshot(self, region: str, snapshot_id: str, why_kept: Mapping[str, str]) -> str:
        """Delete a snapshot, unless there is a reason to keep it. Return the line on it."""
        why = why_kept.get(snapshot_id)
        if why is not None:
            return f"kept snapshot {snapshot_id} in {region}: {why}"
        try:
            self._client("ec2", region).delete_snapshot(SnapshotId=snapshot_id)
        except ClientError as error:
            return f"kept snapshot {snapshot_id} in {region}: {printable(str(error))}"
        return f"deleted snapshot {snapshot_id} in {region}"

    def alarms(self) -> Leftover | None:
        """Return the alarms that a removal could not delete."""
        names = []
        for page in self._pages("cloudwatch", "describe_alarms", AlarmNamePrefix=f"{self._stack}-"):
            for alarm in page["MetricAlarms"]:
                if self._is_named(alarm["AlarmName"], r"\w*Alarm\w*"):
                    names.append(alarm["AlarmName"])

        def remove() -> Iterator[str]:
            for part in in_parts(names, 100):
                self._client("cloudwatch").delete_alarms(AlarmNames=part)
                yield f"deleted {plural(len(part), 'alarm')}"

        return _leftover(plural(len(names), "alarm"), names, len(names) * ALARM_USD, remove)

    def schedules(self) -> Leftover | None:
        """Return the schedules that a removal could not delete: they would invoke nothing."""
        left: list[tuple[str, str]] = []
        for page in self._pages("scheduler", "list_schedules", NamePrefix=f"{self._stack}-"):
            for schedule in page["Schedules"]:
                if self._is_named(schedule["Name"], r"\w*Schedule"):
                    left.append((schedule["GroupName"], schedule["Name"]))

        def remove() -> Iterator[str]:
            for group, name in left:
                self._client("scheduler").delete_schedule(GroupName=group, Name=name)
                yield f"deleted the schedule {name}"

        names = [name for _, name in left]
        return _leftover(plural(len(left), "schedule"), names, remove=remove)

    def logs(self) -> Leftover | None:
        """Return the log groups. A function that ran during the removal makes its own again."""
        of_functions = f"/aws/lambda/{self._stack}/"
        others = (f"/aws/vendedlogs/states/{self._stack}", f"/aws/vendedlogs/apis/{self._stack}")
        names = []
        size = 0
        for prefix in (of_functions, *others):
            for page in self._pages("logs", "describe_log_groups", logGroupNamePrefix=prefix):
                for group in page["logGroups"]:
                    name = group["logGroupName"]
                    if prefix == of_functions or name == prefix:
                        names.append(name)
                        size += int(group.get("storedBytes", 0))

        def remove() -> Iterator[str]:
            for name in names:
                self._client("logs").delete_log_group(logGroupName=name)
                yield f"deleted the log group {name}"

        text = f"{plural(len(names), 'log group')}, {_size(size)}"
        return _leftover(text, names, size / _GB * LOGS_USD, remove)

    def table(self) -> Leftover | None:
        """Return the state tables: one for each time that the stack was deployed."""
        return self._tables_left(self._tables, TABLE_USD + PITR_USD)

    def copies(self) -> Leftover | None:
        """Return tables restored from a state table, and others that the stack's key encrypts."""
        return self._tables_left(self._copies, TABLE_USD)

    def policy(self) -> Leftover | None:
        """Return the buckets with the versions of the policy."""
        return self._buckets("policybucket")

    def reports(self) -> Leftover | None:
        """Return the buckets with the copies of the ledger."""
        return self._buckets("reportbucket")

    def audit(self) -> Leftover | None:
        """Return the buckets with the audit, and with the user data of terminated instances."""
        return self._buckets("auditbucket")

    def key(self) -> Leftover | None:
        """Return the keys that encrypt the tables, policies, logs and kept user data."""
        usable = ("Enabled", "Disabled")
        arns = sorted(arn for arn, state in self._keys.items() if state in usable)

        def remove() -> Iterator[str]:
            for arn in arns:
                kms = self._client("kms")
                kms.schedule_key_deletion(KeyId=arn, PendingWindowInDays=KEY_WAITS_DAYS)
                yield (
                    f"the key {arn} will be deleted in {KEY_WAITS_DAYS} days: until then "
                    "`aws kms cancel-key-deletion` brings it back"
                )

        text = f"{plural(len(arns), 'key')} ({', '.join(arns)}); a rotation adds $1, twice at most"
        return _leftover(text, arns, len(arns) * KEY_USD, remove)

    def has_user_data(self) -> bool:
        """Return whether the audit holds user data, which only the key can read."""
        s3 = self._client("s3")
        for name in self._bucket_names("auditbucket"):
            listed = s3.list_objects_v2(Bucket=name, Prefix=_USER_DATA, MaxKeys=1)
            if listed.get("Contents"):
                return True
        return False

    # reading

    def _client(self, service: str, region: str | None = None) -> Any:
        region_name = region or self._session.region_name
        return self._session.client(service, region_name=region_name)  # type: ignore[call-overload]

    def _pages(
        self, service: str, operation: str, region: str | None = None, **arguments: Any
    ) -> Iterator[Any]:
        yield from self._client(service, region).get_paginator(operation).paginate(**arguments)

    def _is_named(self, name: str, logical_id: str) -> bool:
        """Return whether CloudFormation made the name up for a resource of this stack.

        A stack `STACK-two` has names that begin alike.
        """
        pattern = rf"{re.escape(self._stack)}-{logical_id}-[A-Za-z0-9]{{8,14}}"
        return re.fullmatch(pattern, name) is not None

    def _instances(self, region: str, filters: Sequence[Any]) -> Iterator[Any]:
        for page in self._pages("ec2", "describe_instances", region, Filters=filters):
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]

    def _volumes_gib(self, region: str, instance_id: str) -> int:
        attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        size = 0
        for page in self._pages("ec2", "describe_volumes", region, Filters=attached):
            size += sum(int(volume["Size"]) for volume in page["Volumes"])
        return size

    @cached_property
    def _account(self) -> str:
        return str(self._client("sts").get_caller_identity()["Account"])

    @cached_property
    def _all_tables(self) -> list[str]:
        names: list[str] = []
        for page in self._pages("dynamodb", "list_tables"):
            names += page["TableNames"]
        return names

    @cached_property
    def _tables(self) -> list[str]:
        return [name for name in self._all_tables if self._is_named(name, "StateTable")]

    @cached_property
    def _copies(self) -> list[str]:
        """Return the names of copies. People chose them: the source or the key identifies one."""
        copies = []
        for name in self._all_tables:
            if name not in self._tables and self._is_copy(self._table(name)):
                copies.append(name)
        return copies

    def _is_copy(self, table: Any) -> bool:
        source = table.get("RestoreSummary", {}).get("SourceTableArn", "").rpartition("/")[2]
        key = table.get("SSEDescription", {}).get("KMSMasterKeyArn")
        return self._is_named(source, "StateTable") or key in self._keys

    def _tables_left(self, names: Sequence[str], usd_a_gb: Decimal) -> Leftover | None:
        size = sum(int(self._table(name).get("TableSizeBytes", 0)) for name in names)

        def remove() -> Iterator[str]:
            for name in names:
                yield self._without_table(name)

        return _leftover(f"{', '.join(names)}, {_size(size)}", names, size / _GB * usd_a_gb, remove)

    def _without_table(self, name: str) -> str:
        """Delete a table, its protection first. Return the line on it."""
        dynamodb = self._client("dynamodb")
        if self._table(name).get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            dynamodb.get_waiter("table_exists").wait(TableName=name)
        dynamodb.delete_table(TableName=name)
        line = f"deleted the table {name}"
        if name in self._tables:
            return f"{line}: AWS keeps a backup for 35 days, as long as the key works"
        return line

    def _table(self, name: str) -> Any:
        return self._client("dynamodb").describe_table(TableName=name)["Table"]

    @cached_property
    def _stopped(self) -> list[tuple[str, str]]:
        """Return Region and id of each instance that the governor stopped and that still is."""
        is_stopped = [{"Name": "instance-state-name", "Values": ["stopped"]}]
        stopped = []
        for region in self._regions:
            stopped_by_us: set[str] = set()
            for table in self._tables:
                stopped_by_us.update(self._stopped_by_us(table, region))
            if not stopped_by_us:
                continue
            for instance in self._instances(region, is_stopped):
                if instance["InstanceId"] in stopped_by_us:
                    stopped.append((region, instance["InstanceId"]))
        return stopped

    @cached_property
    def _terminated(self) -> list[Episode]:
        """Return the episodes in which the governor terminated an instance of this account."""
        return list(self._booked(self._is_termination_here))

    def _is_termination_here(self, entry: LedgerEntry) -> bool:
        if not entry.acted or entry.outcome is not Outcome.TERMINATED:
            return False
        target = entry.episode.target
        return target.account == self._account and target.region in self._regions

    def _booked(self, is_wanted: Callable[[LedgerEntry], bool]) -> Iterator[Episode]:
        """Yield the episodes of wanted entries in the ledgers of the last months."""
        now = datetime.now(tz=UTC)
        this_month = now.year * 12 + now.month - 1
        for table in self._tables:
            state_table = self._state_table(table)
            ledger_store = Ledger(state_table)
            episode_store = Episodes(state_table)
            for ago in range(LEDGER_MONTHS):
                year, month = divmod(this_month - ago, 12)
                for entry in ledger_store.entries(f"{year:04}-{month + 1:02}"):
                    if not is_wanted(entry):
                        continue
                    episode = episode_store.episode(entry.episode)
                    if episode is not None:
                        yield episode

    def _state_table(self, name: str) -> DynamoTable:
        return DynamoTable(Clients(self._session.region_name), name)

    def _stopped_by_us(self, table: str, region: str) -> Iterator[str]:
        """Yield the ids of instances whose saving goes on: they have not been started since."""
        pages = self._pages(
            "dynamodb",
            "query",
            TableName=table,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :open)",
            ExpressionAttributeValues={
                ":pk": {"S": f"TARGET#{self._account}#{region}"},
                ":open": {"S": "OPENLEDGER#"},
            },
        )
        for page in pages:
            for item in page["Items"]:
                yield item["sk"]["S"].split("#")[1]

    def _bucket_names(self, logical_id: str) -> list[str]:
        s3 = self._client("s3")
        pattern = re.compile(rf"{re.escape(self._stack.lower())}-{logical_id}-[a-z0-9]{{8,14}}")
        names = []
        for bucket in s3.list_buckets()["Buckets"]:
            name = bucket["Name"]
            if pattern.fullmatch(name) is None:
                continue
            # A stack of the same name in another Region has buckets of its own.
            location = s3.get_bucket_location(Bucket=name)["LocationConstraint"]
            if _OLD_LOCATIONS.get(location, location) == self._session.region_name:
                names.append(name)
        return names

    def _versions(self, bucket: str) -> Iterator[Any]:
        for page in self._pages("s3", "list_object_versions", Bucket=bucket):
            yield from page.get("Versions", ())
            yield from page.get("DeleteMarkers", ())

    def _buckets(self, logical_id: str) -> Leftover | None:
        names = self._bucket_names(logical_id)
        count = 0
        size = 0
        for name in names:
            for version in self._versions(name):
                count += 1
                size += int(version.get("Size", 0))

        def remove() -> Iterator[str]:
            for name in names:
                yield self._without_bucket(name)

        text = f"{', '.join(names)}: {plural(count, 'version')} of objects, {_size(size)}"
        return _leftover(text, names, size / _GB * S3_USD, remove)

    def _without_bucket(self, name: str) -> str:
        """Delete a bucket and all in it, unless a lock forbids it. Return the line on it."""
        s3 = self._client("s3")
        locked = 0
        for part in in_parts(list(self._versions(name)), _AT_ONCE):
            objects = []
            for version in part:
                objects.append({"Key": version["Key"], "VersionId": version["VersionId"]})
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
        """Return the state of each key of the stack by its ARN.

        A key that waits to be deleted can be had back.
        """
        states = {}
        for key_id in self._key_ids():
            key = self._client("kms").describe_key(KeyId=key_id)["KeyMetadata"]
            if key.get("Description", "").startswith(_OF_KEY):
                states[str(key["Arn"])] = str(key["KeyState"])
        return states

    def _key_ids(self) -> Iterator[str]:
        """Yield the keys of what is left, and those that CloudFormation has marked."""
        for name in self._tables:
            table_key = self._table(name).get("SSEDescription", {}).get("KMSMasterKeyArn")
            if table_key:
                yield table_key
        for name in self._bucket_names("policybucket"):
            yield from self._bucket_keys(name)
        kms = self._client("kms")
        for page in self._pages("kms", "list_keys"):
            for key in page["Keys"]:
                if self._tagged_stack(kms, key["KeyId"]) == self._stack:
                    yield key["KeyId"]

    def _bucket_keys(self, bucket: str) -> Iterator[str]:
        answer = self._client("s3").get_bucket_encryption(Bucket=bucket)
        for rule in answer["ServerSideEncryptionConfiguration"]["Rules"]:
            default = rule["ApplyServerSideEncryptionByDefault"]
            if "KMSMasterKeyID" in default:
                yield default["KMSMasterKeyID"]

    def _tagged_stack(self, kms: Any, key: str) -> str | None:
        """Return the stack that CloudFormation has marked the key with; `None` if it has not."""
        try:
            tags = kms.list_resource_tags(KeyId=key)["Tags"]
        except ClientError:
            return None  # a key whose policy does not let this identity look is not the stack's
        for tag in tags:
            if tag["TagKey"] == "aws:cloudformation:stack-name":
                return str(tag["TagValue"])
        return None


def left_behind(target: Target, left: Leftovers) -> Iterator[Advice]:
    """Yield advice on each thing that the governor's own actions left in a Region."""
    for region, volume, monthly in left.left_volumes:
        if region == target.region:
            yield _on_volume(target, volume, monthly)
    for region, address in left.left_addresses:
        if region == target.region:
            yield _on_address(target, address)


def _on_volume(target: Target, volume: Volume, monthly: Decimal) -> Advice:
    size = volume.size_gib or "unknown"
    return Advice(
        "left-volume",
        volume.volume_id,
        target.account,
        target.region,
        volume.volume_type or "unknown",
        monthly,
        0,
        0,
        f"{size} GiB of an instance that GPU Governor terminated; EC2 was to keep it, and "
        "nothing uses it. Its deletion cannot be undone.",
        f"aws ec2 delete-volume --region {target.region} --volume-id {volume.volume_id}",
    )


def _on_address(target: Target, address: Any) -> Advice:
    holder = address.get("InstanceId")
    if holder:
        text = (
            f"Of {holder}, which GPU Governor stopped: it keeps its address until this is released."
        )
        command = ""
    else:
        text = "Of an instance that GPU Governor terminated; nothing uses it."
        command = (
            f"aws ec2 release-address --region {target.region} "
            f"--allocation-id {address.get('AllocationId')}"
        )
    monthly = ADDRESS_USD_PER_HOUR * HOURS_PER_MONTH
    return Advice(
        "left-address",
        address["PublicIp"],
        target.account,
        target.region,
        "Elastic IP",
        monthly,
        0,
        0,
        text,
        command,
    )


def _leftover(
    text: str,
    remains: Sequence[str] | Sequence[tuple[str, str]],
    usd_a_month: Decimal = Decimal(),
    remove: Callable[[], Iterable[str]] | None = None,
) -> Leftover | None:
    """Return the kind, or `None` where nothing remains of it."""
    if not remains:
        return None
    names = [name if isinstance(name, str) else " ".join(name) for name in remains]
    return Leftover(text, names, usd_a_month, remove)


def _why_kept(snapshot: Any, recorded: Collection[str]) -> str | None:
    """Return why a snapshot with our tags is not removed.

    `None`: a closed episode has recorded it, and its tag still holds a date.
    """
    if snapshot["SnapshotId"] not in recorded:
        return "it is in no state table; delete it yourself if nobody needs it"
    try:
        parse_iso(_tag(snapshot, DELETE_AFTER_TAG))
    except ValueError:
        return f"its tag {DELETE_AFTER_TAG} is not a date, so somebody wants to keep it"
    return None


def _tag(snapshot: Any, key: str) -> str:
    """Return the value of a tag; an empty text where it is not there."""
    for tag in snapshot["Tags"]:
        if tag["Key"] == key:
            return str(tag["Value"])
    return ""


def _ids(remains: Sequence[tuple[str, str]]) -> str:
    return ", ".join(name for _, name in remains)


def _size(count: int) -> str:
    if count >= 10**8:
        return f"{count / 10**9:.1f} GB"
    return f"{count / 10**6:.1f} MB"
