"""Running EC2 instances with accelerators, tagged or not, as a kind of resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import Instance
from governor.core.managers import managed_by
from governor.core.units import UsdPerHour, UtcDatetime, clip
from governor.money.rules.cost import PREPAID, marginal_price
from governor.scan.kind import Kind, Place
from governor.scan.kinds.ec2_instance import rules, words
from governor.scan.kinds.ec2_instance.measure import SPOT_REQUESTS, measure_hosts
from governor.scan.kinds.ec2_instance.model import Host, Measured
from governor.scan.kinds.ec2_types import SPOT_PRICES, hardware
from governor.scan.kinds.tags import name_in
from governor.scan.model import Finding, Judgment, Row, Strength

MOST_CREATORS = 2
"""CloudTrail's LookupEvents allows two calls a second in an account and Region, and the scan does
not wait for more: only the most expensive waste of a place has its creator."""
_LIST = "ec2:DescribeInstances"
_LONGEST_REASON = 500
_LAUNCHES = "cloudtrail:LookupEvents"


@dataclass(frozen=True, slots=True)
class InstanceJudgment(Judgment):
    """The judgment on an instance, and whether its row may propose to stop it."""

    can_stop: bool = False


class Ec2Instances(Kind[Host, Measured]):
    """Running instances with accelerators, judged by the product's own rules."""

    name = "ec2-instance"
    words = "EC2 instances with accelerators"
    operations = (
        _LIST,
        "cloudwatch:ListMetrics",
        "cloudwatch:GetMetricData",
        SPOT_PRICES,
        SPOT_REQUESTS,
        _LAUNCHES,
    )

    def list(self, place: Place) -> Sequence[Host]:
        """Return all running instances with accelerators. One whose record cannot be read is left
        out, and reported. Raises: CloudError."""
        unreadable: dict[str, str] = {}
        instances = place.instances.list_accelerated(place.target, unreadable)
        if unreadable:
            why = "; ".join(
                _in_words(instance_id, reason) for instance_id, reason in unreadable.items()
            )
            text = f"records that cannot be read are left out: {clip(why, _LONGEST_REASON)}"
            place.could_not_read(self.words, CloudError(text, operation=_LIST, words=text))
        return [_host(place, instance) for instance in instances]

    def measure(self, place: Place, resources: Sequence[Host]) -> Mapping[str, Measured]:
        """Return what was measured of each instance. Metrics that cannot be read are reported."""
        return measure_hosts(place, resources)

    def price(self, place: Place, resource: Host) -> UsdPerHour | None:
        """Return what an hour of it adds to the bill: zero where its capacity is paid for; `None`
        if its price is not known."""
        price = place.prices.price(resource.instance, place.policy)
        return marginal_price(resource.instance, price).usd_per_hour

    def judge(self, place: Place, resource: Host, measured: Measured | None) -> Judgment:
        """Return the judgment. The product's own judge, which measures go through, knows
        exemptions."""
        return self.own_judgment(place, resource, measured)

    def own_judgment(self, place: Place, resource: Host, measured: Measured | None) -> Judgment:
        """Return the judgment by its accelerators, or else by the figures beside them."""
        if measured is None:
            measured = Measured(problem="nothing was measured")
        finding = Finding.NOT_MEASURED
        strength = Strength.NONE
        idle_parts = None
        if measured.reading is not None:
            finding = rules.finding_of(measured.reading.kind)
            strength = rules.strength_of(finding)
            idle_parts = measured.reading.idle_parts
        elif measured.beside is not None:
            finding, strength = rules.judge_beside(measured.beside, place.policy)
        evidence = words.evidence_of(resource, measured, finding, place.policy)
        is_stoppable = words.why_unstoppable(resource, measured) is None
        return InstanceJudgment(
            finding=finding,
            strength=strength,
            evidence=evidence,
            idle_since=_idle_since(measured) if finding.is_waste else None,
            idle_parts=idle_parts,
            can_stop=is_stoppable and not resource.is_prepaid,
        )

    def own_command(self, resource: Host, judgment: Judgment) -> str:
        """Return the command that stops the instance, shrinks its group, or looks closer. It stops
        only if the judgment says that the instance can be stopped."""
        can_stop = isinstance(judgment, InstanceJudgment) and judgment.can_stop
        return words.command_for(resource, judgment, can_stop=can_stop)

    def completed(self, place: Place, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows with who launched the most expensive wasteful ones. After the first read
        that fails no further one is tried, and the other creators stay unknown; only a missing
        permission is reported."""
        wasteful = [row for row in rows if row.waste_usd_per_month]
        wasteful.sort(key=attrgetter("waste_usd_per_month"), reverse=True)
        creators: dict[str, str] = {}
        for row in wasteful[:MOST_CREATORS]:
            try:
                launch = place.instances.launch(place.target, row.resource.resource_id, place.now)
            except AccessDenied as error:
                place.could_not_read("who launched instances", error)
                break
            except CloudError:
                # A creator that is not known is shown as that.
                break
            if launch is not None:
                creators[row.resource.resource_id] = launch.principal
        return [_with_creator(row, creators.get(row.resource.resource_id)) for row in rows]


def _with_creator(row: Row, creator: str | None) -> Row:
    """Return the row with the creator of its resource; the same row if none is known."""
    if creator is None:
        return row
    return replace(row, resource=replace(row.resource, creator=creator))


def _idle_since(measured: Measured) -> UtcDatetime | None:
    """Return the start of the time that was looked at; `None` if no metric was read."""
    if measured.reading is not None and measured.reading.window is not None:
        return measured.reading.window.start
    if measured.beside is not None:
        return measured.beside.window.start
    return None


def _in_words(instance_id: str, reason: str) -> str:
    """Return why a record cannot be read; `instance_id` is empty if it has none."""
    return f"{instance_id}: {reason}" if instance_id else reason


def _host(place: Place, instance: Instance) -> Host:
    """Return an instance as a resource of a scan."""
    manager = managed_by(instance, place.policy.managed.tag_keys)
    return Host(
        target=instance.target,
        resource_id=instance.instance_id,
        what=hardware(instance.instance_type),
        name=name_in(instance.tags),
        tags=instance.tags,
        since=instance.launch_time,
        manager=None if manager is None else manager.service,
        is_governed=place.policy.selector.is_on(instance),
        is_prepaid=instance.lifecycle in PREPAID or instance.host_id is not None,
        instance=instance,
        part_word=words.part_word(instance.instance_type),
        known_manager=manager,
    )
