"""Reports of a made-up fleet, as small or large as a test wants it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from governor.core.instance import Target
from governor.scan.model import Finding, Judgment, Report, Resource, Row, Strength, Unread
from governor.scan.rules import most_expensive_waste_first
from tests.unit.scan.kinds import NOW

ACCOUNTS = ("123456789012", "210987654321")
REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")
_TYPES = (
    ("p5.48xlarge, 8 x H100", "55.04"),
    ("g5.12xlarge, 4 x A10G", "5.672"),
    ("g4dn.xlarge, 1 x T4", "0.526"),
    ("trn1.32xlarge, 16 x Trainium", "21.50"),
)
_JUDGMENTS = (
    Judgment(Finding.IDLE, Strength.STRONG, "No GPU was over 1% for 14 days (4,032 readings)."),
    Judgment(
        Finding.LIKELY_IDLE,
        Strength.WEAK,
        "CPU under 2% and network under 1 MB/s for 14 days. The GPUs were not measured.",
    ),
    Judgment(Finding.NOT_MEASURED, Strength.NONE, "No figure was found."),
    Judgment(Finding.BUSY, Strength.STRONG, "The busiest GPU was at 97%."),
)


def row(number: int, judgment: Judgment, usd: str | None = "5.672", **changes: object) -> Row:
    """Return a row of an EC2 instance; its id has this number. `changes` are those of the
    resource; `owner` is that of the row."""
    owner = changes.pop("owner", "ada@example.com")
    target = Target(ACCOUNTS[number % 2], REGIONS[number % 3])
    resource_id = f"i-{number:017x}"
    facts = {
        "target": target,
        "resource_id": resource_id,
        "what": "g5.12xlarge, 4 x A10G",
        "name": f"notebook-{number}",
        "since": NOW - timedelta(days=20),
        **changes,
    }
    command = ""
    if judgment.finding.is_waste:
        command = f"aws ec2 stop-instances --region {target.region} --instance-ids {resource_id}"
    price = None if usd is None else Decimal(usd)
    resource = Resource(**facts)  # type: ignore[arg-type]
    text = None if owner is None else str(owner)
    return Row("ec2-instance", resource, judgment, price, command, text)


def report(rows: Sequence[Row], unread: Sequence[Unread] = (), **changes: object) -> Report:
    """Return a complete report on two accounts and three Regions, unless `unread` has lines."""
    facts = {
        "calls": {"ec2:DescribeInstances": 6, "cloudwatch:GetMetricData": 4},
        "usd_spent": Decimal("0.0123"),
        **changes,
    }
    places = tuple(Target(account, region) for account in ACCOUNTS for region in REGIONS)
    return Report(NOW, most_expensive_waste_first(rows), tuple(unread), places, **facts)  # type: ignore[arg-type]


def fleet(size: int) -> Report:
    """Return a report with so many rows, of all findings and types."""
    chance = random.Random(size)
    rows = []
    for number in range(size):
        what, usd = chance.choice(_TYPES)
        judgment = chance.choices(_JUDGMENTS, (3, 2, 2, 3))[0]
        owner = chance.choice(("ada@example.com", "grace", None))
        rows.append(row(number, judgment, usd, what=what, owner=owner))
    return report(rows)
