"""Writes the example of docs/scan.md anew: the report of a scan over a made-up fleet.

The same report as a page is written to build/scan.html, to look at.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from cli.scan.page import page_html
from cli.scan.table import report_text
from governor.core.instance import Target
from governor.scan.model import Finding, Judgment, Report, Resource, Row, Strength, Unread
from governor.scan.rules import by_waste

ROOT = Path(__file__).parent.parent
PAGE, REPORT = ROOT / "docs" / "scan.md", ROOT / "build" / "scan.html"
_NOW = datetime(2026, 11, 27, 14, tzinfo=UTC)
_RESEARCH, _VISION = "123456789012", "210987654321"
_REGIONS = ("us-east-1", "us-west-2", "eu-west-1")
_CALLS = {
    "sts:GetCallerIdentity": 1,
    "sts:AssumeRole": 2,
    "ec2:DescribeRegions": 2,
    "ec2:DescribeInstances": 6,
    "cloudwatch:ListMetrics": 6,
    "cloudwatch:GetMetricData": 9,
    "sagemaker:ListEndpoints": 6,
}


def report() -> Report:
    """Return the report: two accounts in three Regions, and an account that cannot be entered."""
    targets = [Target(account, region) for account in (_RESEARCH, _VISION) for region in _REGIONS]
    unread = Unread(
        "310987654321",
        "the whole account",
        "sts:AssumeRole",
        "User: arn:aws:iam::123456789012:user/ada is not authorized to perform: sts:AssumeRole on "
        "resource: arn:aws:iam::310987654321:role/Audit",
        is_missing_right=True,
    )
    return Report(
        scanned_at=_NOW,
        rows=by_waste(_rows()),
        unread=(unread,),
        places=tuple(targets),
        calls=_CALLS,
        usd_spent=Decimal("0.0184"),
    )


def _rows() -> list[Row]:
    """Return one row of each sort."""
    east, west = Target(_RESEARCH, "us-east-1"), Target(_VISION, "eu-west-1")
    return [
        _row(
            "ec2-instance",
            Resource(east, "i-0a1b2c3d4e5f60718", "p5.48xlarge, 8 x H100", "llm-pretrain-3"),
            Judgment(Finding.IDLE, Strength.STRONG, "no GPU was over 1% in 14 days"),
            "55.04",
            "aws ec2 stop-instances --region us-east-1 --instance-ids i-0a1b2c3d4e5f60718",
            "ada@example.com",
        ),
        _row(
            "capacity-reservation",
            Resource(west, "cr-0a1b2c3d4e5f60718", "2 x p4d.24xlarge, 16 x A100"),
            Judgment(
                Finding.UNUSED, Strength.STRONG, "2 of 2 instances are free now by EC2's count"
            ),
            "43.92",
            "aws ec2 cancel-capacity-reservation --region eu-west-1 --capacity-reservation-id "
            "cr-0a1b2c3d4e5f60718",
            "vision",
        ),
        _row(
            "sagemaker-endpoint",
            Resource(west, "chat-poc", "ml.g5.12xlarge, 4 x A10G", "chat-poc"),
            Judgment(Finding.UNUSED, Strength.STRONG, "0 invocations in 14 days"),
            "7.09",
            "aws sagemaker delete-endpoint --region eu-west-1 --endpoint-name chat-poc",
            "research",
        ),
        _row(
            "ec2-instance",
            Resource(east, "i-0b2c3d4e5f6071829", "g5.12xlarge, 4 x A10G", "notebook-7"),
            Judgment(
                Finding.LIKELY_IDLE,
                Strength.WEAK,
                "CPU under 2% and network under 1 MB/s in 14 days; the GPUs were not measured",
            ),
            "5.672",
            "aws ec2 describe-instances --region us-east-1 --instance-ids i-0b2c3d4e5f6071829",
        ),
        _row(
            "sagemaker-notebook",
            Resource(west, "ada-notebook", "ml.g4dn.xlarge, 1 x T4", "ada-notebook"),
            Judgment(
                Finding.NOT_MEASURED,
                Strength.NONE,
                "running for 9 days, idle shutdown off; activity not measured",
            ),
            "0.7364",
            "",
            "ada@example.com",
        ),
        _row(
            "ec2-instance",
            Resource(
                east,
                "i-0c3d4e5f607182930",
                "p4d.24xlarge, 8 x A100",
                "vision-train",
                since=_NOW - timedelta(days=3),
                is_governed=True,
            ),
            Judgment(Finding.BUSY, Strength.STRONG, "the busiest GPU was at 97%"),
            "21.96",
            "",
            "vision",
        ),
    ]


def _row(
    kind: str,
    resource: Resource,
    judgment: Judgment,
    usd_per_hour: str,
    command: str,
    owner: str | None = None,
) -> Row:
    """Return a row with this price."""
    return Row(kind, resource, judgment, Decimal(usd_per_hour), command, owner)


def page_with(shown: str) -> str:
    """Return the page of the docs with this report under its heading."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(
        r"(## Read the report\n.*?```text\n).*?(?=```)",
        lambda found: f"{found[1]}{shown}\n",
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write both."""
    PAGE.write_text(page_with(report_text(report())), encoding="utf-8")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(page_html(report()), encoding="utf-8")


if __name__ == "__main__":
    main()
