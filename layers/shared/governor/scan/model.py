"""Results of a scan: accelerators, capacity and remains that cost money, each with its evidence.

A scan judges what it may read and changes nothing, so nothing here is a reason to act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from governor.core.instance import Target
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour, UtcDatetime
from governor.verdict.model import IdleParts, partly_idle_text

_CENT = Decimal("0.01")


class Strength(StrEnum):
    """How much the evidence of a finding proves."""

    STRONG = "strong"
    """Figures of the accelerators themselves, or a fact that AWS states, such as the number of
    free instances of a reservation."""
    WEAK = "weak"
    """Figures beside the accelerators: CPU, network, disk, EC2's own power. They suggest, and prove
    nothing."""
    NONE = "none"
    """Nothing was measured."""


class Finding(StrEnum):
    """The conclusion about a resource."""

    IDLE = "idle"
    """Its accelerators did nothing, by their own figures."""
    LIKELY_IDLE = "likely idle"
    """Nothing beside its accelerators worked either; they themselves were not measured."""
    UNUSED = "unused"
    """It is paid for and does nothing for anybody: capacity without instances, an endpoint without
    invocations, a volume without an instance."""
    PARTLY_IDLE = "partly idle"
    """Some of its accelerators worked, and others did not."""
    UNATTACHED = "unattached"
    """A volume or an address that leads to nothing, and nothing connects it with a GPU host. It may
    be the remainder of one, and is in no sum of waste."""
    NOT_MEASURED = "not measured"
    """Nothing is known of its work. That is never idleness."""
    TOO_YOUNG = "too young"
    """It runs too short a time to say anything."""
    KEEPS_RUNNING = "keeps running"
    """It keeps instances running whether they work or not, as a group with a minimum size does. The
    instances have rows of their own, where they are judged."""
    EXEMPT = "exempt"
    """Its tag says that it is to be left alone."""
    BUSY = "busy"

    @property
    def is_waste(self) -> bool:
        """Return whether all costs of a resource with this finding count as waste."""
        return self in (Finding.IDLE, Finding.LIKELY_IDLE, Finding.UNUSED)

    @property
    def is_priced_elsewhere(self) -> bool:
        """Return whether other rows have the same costs as a resource with this finding, so that no
        sum may add its price."""
        return self is Finding.KEEPS_RUNNING


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that costs money. A kind of resource may add fields in a subclass."""

    target: Target
    """Account and Region; a resource without a Region has the one it was asked about in."""
    resource_id: str
    """Its id or name in AWS, unique in its kind, account and Region."""
    what: str
    """The hardware in words: `p5.48xlarge, 8 x H100`."""
    name: str = ""
    """The `Name` tag, or empty."""
    tags: Mapping[str, str] = field(default_factory=dict)
    creator: str | None = None
    """The ARN or name of who created it; `None` if that is not known."""
    since: UtcDatetime | None = None
    """When it was last started or created; `None` if AWS does not say."""
    manager: str | None = None
    """The service that runs it, such as `EKS`; `None` if none does."""
    is_governed: bool = False
    """True if it carries the tag by which the policy selects instances."""
    is_prepaid: bool = False
    """True if all of it is paid in advance, used or not, so that ending it saves nothing."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """The conclusion of a kind of resource about one resource.

    Attributes:
        evidence: what was measured, over which time, as one sentence for people.
        idle_since: since when it is known to do nothing; `None` if it works, or that is not known.
        idle_parts: the idle accelerators of a partly idle resource; `None` for other findings, if
            their number is not known, and if an earlier release stored the judgment.
    """

    finding: Finding
    strength: Strength
    evidence: str
    idle_since: UtcDatetime | None = None
    idle_parts: IdleParts | None = None

    @property
    def finding_text(self) -> str:
        """Return the finding in words, with the number of idle accelerators if that is known:
        `partly idle: 7 of 8 GPUs`."""
        if self.finding is Finding.PARTLY_IDLE:
            return partly_idle_text(self.idle_parts)
        return self.finding.value


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report."""

    kind: str
    """The name of the kind of resource, such as `ec2-instance`."""
    resource: Resource
    judgment: Judgment
    usd_per_hour: UsdPerHour | None
    """Price while it exists; `None` if it is not known."""
    command: str
    """The exact command that ends the waste, or that looks closer; empty if there is none."""
    owner: str | None = None
    """The owner whom its tags name; `None` if they name nobody, and no policy has a default."""

    @property
    def usd_per_month(self) -> Usd | None:
        """Return the price of a month of 730 hours, rounded to cents, so that the rows of every
        format add up to its sum; `None` if the price is not known."""
        if self.usd_per_hour is None:
            return None
        return (self.usd_per_hour * HOURS_PER_MONTH).quantize(_CENT, rounding=ROUND_HALF_UP)

    @property
    def own_usd_per_month(self) -> Usd:
        """Return the price of a month for sums: zero if it is not known, or if other rows have the
        same costs, as the instances of a group do."""
        if self.judgment.finding.is_priced_elsewhere or self.usd_per_month is None:
            return Decimal()
        return self.usd_per_month

    @property
    def waste_usd_per_month(self) -> Usd:
        """Return what a month of it wastes; zero if it is no waste, or its price is not known."""
        if not self.judgment.finding.is_waste or self.usd_per_month is None:
            return Decimal()
        return self.usd_per_month


EVERYTHING = "everything"
"""The topic of a line about a place that was not read at all."""


@dataclass(frozen=True, slots=True, order=True)
class Unread:
    """Something that could not be read, so that the report is incomplete."""

    place: str
    """Account, or account and Region: `123456789012/us-east-1`."""
    topic: str
    """The missing part of the report, such as `SageMaker endpoints`."""
    operation: str
    """The call that failed, such as `sagemaker:ListEndpoints`; empty if it was none."""
    reason: str
    """AWS's words, or why an answer could not be read."""
    is_missing_right: bool = False
    """True if permission for `operation` would fix it."""
    last_read_at: UtcDatetime | None = field(default=None, compare=False)
    """When the place was last read, if the report shows what was found then; `None` if it shows
    nothing in its stead."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that a scan found, the most expensive waste first."""

    scanned_at: UtcDatetime
    rows: tuple[Row, ...]
    unread: tuple[Unread, ...]
    places: tuple[Target, ...]
    """The accounts and Regions that were looked at."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """How often each operation was called."""
    usd_spent: Usd = Decimal()
    """AWS's charge for the calls of this scan."""

    @property
    def is_complete(self) -> bool:
        """Return whether everything could be read: no line of the report says otherwise."""
        return not self.unread

    @property
    def waste_usd_per_month(self) -> Usd:
        """Return the waste of all rows together; zero if there are none."""
        return sum((row.waste_usd_per_month for row in self.rows), Decimal())

    @property
    def unpriced_waste(self) -> int:
        """Return how many wasted rows the sum lacks, because their price is not known. To end what
        is prepaid saves nothing, so no sum lacks its price."""
        return sum(
            row.judgment.finding.is_waste
            and row.usd_per_hour is None
            and not row.resource.is_prepaid
            for row in self.rows
        )

    @property
    def weak_waste_usd_per_month(self) -> Usd:
        """Return the part of the waste that only weak evidence shows; zero if there is none."""
        weak = (row for row in self.rows if row.judgment.strength is not Strength.STRONG)
        return sum((row.waste_usd_per_month for row in weak), Decimal())


@dataclass(frozen=True, slots=True)
class ScannedRow:
    """One row of a scan, and the people who may see it."""

    row: Row
    owner: str
    """The owner that the row shows: the policy's `default_owner` if no tag names one."""
    project: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of the last scan of an account and Region."""

    account: str
    region: str
    scanned_at: UtcDatetime
    rows: tuple[ScannedRow, ...] = ()
    """The resources that GPU Governor does not govern, the most expensive waste first."""
    unread: tuple[Unread, ...] = ()
    left_out: int = 0
    """How many more rows there were, which are not kept."""
    left_out_waste_usd_per_month: Usd = Decimal()
    calls: int = 0
    usd_spent: Usd = Decimal()
    """AWS's charge for the calls of this scan."""

    @property
    def target(self) -> Target:
        """Return the account and Region, without a role."""
        return Target(self.account, self.region)


@dataclass(frozen=True, slots=True)
class RefusedScan:
    """A scan of an account and Region that AWS refused as a whole, so that the last one stays."""

    account: str
    region: str
    at: UtcDatetime
    cause: str
    """The call and AWS's code, such as `sts:AssumeRole AccessDenied`: the same while nothing
    changes there."""
    line: Unread

    @property
    def target(self) -> Target:
        """Return the account and Region, without a role."""
        return Target(self.account, self.region)
