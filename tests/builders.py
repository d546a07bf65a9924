"""Builders of records for tests: a plain idle instance, changed by keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from governor.approvals.rules.links import LinkSigner
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Instance, Protection, Reservation, Shape, Target, Volume
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import PlanFacts, Price
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series
from governor.evidence.rules.series import window_before
from governor.money.model.ledger import LedgerEntry
from governor.policy.model.policy import Policy

NOW = datetime(2026, 11, 20, 12, 2, 30, tzinfo=UTC)
TARGET = Target("123456789012", "us-east-1")
POLICY = Policy()
QUIET: Series = (1.0,) * 12
QUIET_BEFORE: Series = (1.0,) * 36
"""Together with the window it is longer than a question asks."""


def make_instance(**changes: Any) -> Instance:
    """A g5.xlarge that has run since yesterday, with a root volume of 100 GiB."""
    plain = Instance(
        target=TARGET,
        instance_id="i-0123456789abcdef0",
        instance_type="g5.xlarge",
        state="running",
        launch_time=datetime(2026, 11, 19, 8, 0, tzinfo=UTC),
        tags={"Purpose": "GPU-Workload", "Name": "notebook"},
        volumes=(Volume("vol-0123456789abcdef0", "/dev/xvda", True, 100, "gp3"),),
        availability_zone="us-east-1a",
    )
    return replace(plain, **changes)


def make_reservation(**changes: Any) -> Reservation:
    """Four p5.48xlarge until the end of the year, of which one is used."""
    plain = Reservation(
        reservation_id="cr-0123456789abcdef0",
        target=TARGET,
        instance_type="p5.48xlarge",
        platform="Linux/UNIX",
        total=4,
        available=3,
        is_block=False,
        began_at=datetime(2026, 1, 1, tzinfo=UTC),
        ends_at=datetime(2026, 12, 31, 18, tzinfo=UTC),
        account=TARGET.account,
        tags={"Name": "training", "Owner": "ada"},
    )
    return replace(plain, **changes)


def make_evidence(*gpus: Sequence[float | None], **changes: Any) -> Evidence:
    """Evidence of GPUs with these utilizations over the default window; everything else is
    quiet."""
    window = window_before(NOW, POLICY.window, POLICY.period, POLICY.lag)
    series = gpus or (QUIET,)
    plain = Evidence(
        window=window,
        source=MetricSource.PER_GPU,
        gpus=tuple(GpuReadings(str(index), tuple(values)) for index, values in enumerate(series)),
        gpus_expected=len(series),
        gpus_reporting=sum(any(value is not None for value in values) for values in series),
        power_percent_of_limit=10.0,
        cpu_percent=2.0,
        network_bytes_per_second=5_000.0,
        measured_percent={"power": 100.0, "cpu": 100.0, "network": 100.0, "memory": 100.0},
        read=frozenset({"power", "cpu", "network"}),
        last_measured=dict.fromkeys(("power", "cpu", "network", "memory"), window.end),
    )
    return replace(plain, **changes)


def make_facts(instance: Instance | None = None, **changes: Any) -> PlanFacts:
    """Facts of an unprotected on-demand instance at 1.006 USD an hour."""
    plain = PlanFacts(
        instance=instance or make_instance(),
        protection=Protection(),
        spot_request=None,
        shape=Shape("g5.xlarge", "NVIDIA A10G", 1, 22888, 300, "1x250"),
        price=Price(Decimal("1.006"), "list price"),
    )
    return replace(plain, **changes)


def make_entry(number: int = 1, **changes: Any) -> LedgerEntry:
    """A stop of three days ago that still counts."""
    started = NOW - timedelta(days=9)
    plain = LedgerEntry(
        episode=EpisodeRef(TARGET.account, TARGET.region, f"i-{number:017x}", started, number),
        outcome=Outcome.STOPPED,
        instance_type="g5.12xlarge",
        owner="ml-team",
        project="vision",
        price_source="list price",
        booked_at=NOW - timedelta(days=3),
        cost_before_usd_per_hour=Decimal("5.70"),
        cost_after_usd_per_hour=Decimal("0.03"),
        saved_usd_per_hour=Decimal("5.67"),
    )
    return replace(plain, **changes)


def ago(**span: float) -> datetime:
    """That long before now."""
    return NOW - timedelta(**span)


def earlier_link(signer: LinkSigner, page_id: str, recipient: str, expires_at: datetime) -> str:
    """The address in a message of an earlier release, with the recipient and the end in it."""
    return f"https://api.example.com/approvals/{signer.earlier(page_id, recipient, expires_at)}"


def form_token(
    signer: LinkSigner, page_id: str, recipient: str, expires_at: datetime, session: str = ""
) -> str:
    """Return what the form of a page that was opened by such a link sends back."""
    return signer.csrf(
        page_id, recipient, str(int(expires_at.timestamp())), *filter(None, [session])
    )
