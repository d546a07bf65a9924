"""A fleet with its money, as sweeps would have stored it, for tests of the console's views.

Everything follows from a seed, so that a picture of a page can be compared with the one before.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from governor.approvals.model.terms import Grant, Rank, Scope
from governor.console import app
from governor.console.page import Caller, Page, Reader, ViewRequest
from governor.console.views.fleet import fleet
from governor.console.views.freezes import freezes
from governor.console.views.instance import instance
from governor.console.views.kept import kept
from governor.console.views.overview import overview
from governor.console.views.project import project, projects
from governor.console.views.savings import savings
from governor.console.views.ungoverned import ungoverned
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Target
from governor.episode.model.episode import Episode, Measurement, Phase
from governor.episode.rules.plan import draw_plan
from governor.evidence.rules.series import evidence_hash
from governor.fleet.model import DayCosts, FleetPage, FleetRow, Share
from governor.fleet.store import replace_day_write
from governor.money.model.ledger import LedgerEntry
from governor.money.store.ledger import booking
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import PolicyVariants
from governor.table.table import Readable
from governor.web.responses import Response
from tests.builders import NOW, make_entry, make_evidence, make_facts, make_instance
from tests.episodes import changed
from tests.twins.seals import SealedStateTable
from tests.twins.services import FakeClock, StaticPolicies
from tests.twins.table import MemoryTable

EVERYTHING = Scope(everything=True)
TARGETS = (Target("123456789012", "us-east-1"), Target("210987654321", "eu-west-1"))
PRICES = {
    "g5.xlarge": "1.006",
    "g5.12xlarge": "5.672",
    "p4d.24xlarge": "21.96",
    "p5.48xlarge": "55.04",
}
OWNERS = {"research": "llm", "ml-team": "vision", "ml-platform": "speech", "unassigned": "untagged"}
_KINDS = (
    "busy",
    "busy",
    "busy",
    "busy",
    "idle",
    "idle",
    "no-data",
    "snoozed",
    "managed-elsewhere",
    "exempt",
)


_KEPT_BECAUSE = {
    "snoozed": "keep",
    "exempt": "exemption-tag",
    "managed-elsewhere": "manager",
}
_KEPT_BY = {
    "snoozed": "link:alice@example.com",
    "exempt": "tag gpu-governor:exempt=true",
    "managed-elsewhere": "Amazon EKS",
}


def caller(scope: Scope = EVERYTHING, **changes: Any) -> Caller:
    """Somebody who has signed in five minutes ago, and may decide what they see."""
    signed_in = NOW - timedelta(minutes=5)
    plain = Caller(
        by="oidc:carol@example.com",
        person="carol@example.com",
        grants=(Grant(Rank.APPROVER, scope),),
        signed_in_at=signed_in,
        session_id="session",
        ends_at=signed_in + timedelta(hours=1),
    )
    return replace(plain, **changes)


def make_row(number: int = 1, **changes: Any) -> FleetRow:
    """An idle g5.xlarge of ml-team, found idle seven hours ago."""
    plain = FleetRow(
        instance_id=f"i-{number:017x}",
        name=f"notebook-{number}",
        account=TARGETS[0].account,
        region=TARGETS[0].region,
        instance_type="g5.xlarge",
        owner="ml-team",
        project="vision",
        verdict="idle",
        reason="Idle for 7 h (every GPU under 5%).",
        usd_per_hour=Decimal("1.006"),
        launched_at=NOW - timedelta(days=4),
        idle_since=NOW - timedelta(hours=7),
        hours=(*(80,) * 17, *(2,) * 7),
    )
    return replace(plain, **changes)


def asked(row: FleetRow, hours_ago: float = 2, left: float = 22) -> FleetRow:
    """The same with an open question."""
    ref = EpisodeRef(row.account, row.region, row.instance_id, row.launched_at, 1)
    return replace(
        row,
        episode=ref.execution_name,
        approval_id=f"approval-{row.name}",
        asked_at=NOW - timedelta(hours=hours_ago),
        expires_at=NOW + timedelta(hours=left),
        verb="stop",
    )


@dataclass
class ConsoleWorld:
    """The stored items. `reader` reads them as the console does."""

    policy: Policy = field(default_factory=Policy)
    table: MemoryTable = field(default_factory=MemoryTable)
    policy_is_whole: bool = True
    policies: PolicyVariants | None = None
    """The policy with its overrides; `None` for the `policy` without any."""

    def __post_init__(self) -> None:
        self.state = SealedStateTable(self.table)

    def keep(
        self,
        *rows: FleetRow,
        mode: str = "ask",
        problem: str | None = None,
        minutes_ago: int = 2,
    ) -> None:
        """Store the rows as the pages of their targets, swept so many minutes ago."""
        for target in sorted({Target(row.account, row.region) for row in rows}):
            own = tuple(
                row for row in rows if (row.account, row.region) == (target.account, target.region)
            )
            swept = NOW - timedelta(minutes=minutes_ago)
            page = FleetPage(target.account, target.region, swept, mode, problem, own)
            assert self.state.keep_page(page)

    def spend(
        self, day: date, shares: dict[tuple[str, str], Share], target: Target = TARGETS[0]
    ) -> None:
        """Store what was spent on a day, by owner and project."""
        self.table.write(replace_day_write(DayCosts(day, target.account, target.region, shares)))

    def book(self, *entries: LedgerEntry) -> None:
        for entry in entries:
            self.table.transact(*booking(entry))

    @property
    def reader(self) -> Reader:
        return Reader(
            Readable(self.table),
            FakeClock(NOW),
            self.policies or StaticPolicies(self.policy),
            TARGETS,
            "governor",
            self.policy_is_whole,
        )

    def asked(self, who: Caller | None = None, **query: str) -> ViewRequest:
        """Return what a view is asked by somebody now."""
        return ViewRequest(self.reader, who or caller(), query, NOW)


def make_episode(row: FleetRow, **changes: Any) -> Episode:
    """The open episode of a row, with a question of two hours ago."""
    instance = make_instance(instance_id=row.instance_id, launch_time=row.launched_at)
    evidence, facts = make_evidence(), make_facts(instance)
    plain = Episode(
        ref=EpisodeRef(row.account, row.region, row.instance_id, row.launched_at, 1),
        phase=Phase.ASKING,
        opened_at=NOW - timedelta(hours=2),
        approval_id=row.approval_id or "approval",
        mode=Mode.ASK,
        policy_version="v",
        overrides=(),
        instance=instance,
        reason=row.reason,
        measurement=Measurement(evidence=evidence, evidence_hash=evidence_hash(evidence)),
        plan=draw_plan(facts, Policy()),
        price=facts.price,
        owner=row.owner,
        project=row.project,
    )
    return changed(plain, **changes)


def many_rows(count: int, seed: int = 1) -> list[FleetRow]:
    """A fleet of all kinds, in two accounts."""
    chance = random.Random(seed)
    rows = []
    for number in range(1, count + 1):
        owner = chance.choice(list(OWNERS))
        kind, family = chance.choice(_KINDS), chance.choice(list(PRICES))
        target = TARGETS[number % 2]
        idle_for = timedelta(hours=chance.uniform(2, 60))
        is_idle = kind in ("idle", "managed-elsewhere")
        hours = [chance.randrange(20, 100) for _ in range(24)]
        if is_idle:
            still = min(23, int(idle_for / timedelta(hours=1)))
            hours[24 - still :] = [chance.randrange(4) for _ in range(still)]
        row = make_row(
            number,
            name=f"{chance.choice(('train', 'notebook', 'serve'))}-{number}",
            account=target.account,
            region=target.region,
            instance_type=family,
            owner=owner,
            project=OWNERS[owner],
            verdict=kind,
            usd_per_hour=Decimal(PRICES[family]),
            idle_since=NOW - idle_for if is_idle else None,
            managed_by="Amazon EKS" if kind == "managed-elsewhere" else None,
            kept_until=NOW + timedelta(days=2) if kind == "snoozed" else None,
            kept_because=_KEPT_BECAUSE.get(kind),
            kept_by=_KEPT_BY.get(kind, ""),
            stays_until=NOW + timedelta(days=2) if kind == "snoozed" else None,
            exempt=kind == "exempt",
            hours=(None,) * 24 if kind == "no-data" else tuple(hours),
        )
        rows.append(
            asked(row, left=chance.uniform(0.5, 23)) if kind == "idle" and number % 3 else row
        )
    return rows


def lively(count: int = 41, days: int = 75, days_a_stop: int = 1) -> ConsoleWorld:
    """A world with a fleet, the costs of these days, and stops that were booked in them."""
    world, chance = ConsoleWorld(), random.Random(7)
    world.keep(*many_rows(count))
    for back in range(days):
        day = (NOW - timedelta(days=back)).date()
        weekend = Decimal("0.4") if day.weekday() > 4 else Decimal(1)
        for target in TARGETS:
            shares = {
                (owner, project): Share(
                    *(Decimal(chance.randrange(low, high)) * weekend for low, high in _SPENT)
                )
                for owner, project in OWNERS.items()
            }
            world.spend(day, shares, target)
    world.book(*_stops(chance, days, max(1, count))[::days_a_stop])
    return world


_SPENT = ((300, 900), (20, 160), (0, 40), (0, 25))


def _stops(chance: random.Random, days: int, count: int) -> Sequence[LedgerEntry]:
    made = []
    for number in range(1, days + 1):
        owner, kind = chance.choice(list(OWNERS)), chance.choice(list(PRICES))
        price, booked = (
            Decimal(PRICES[kind]),
            NOW - timedelta(days=days - number, hours=chance.randrange(12)),
        )
        lasted = timedelta(hours=chance.choice((0.5, 9, 14, 40, 200)))
        ended = booked + lasted if booked + lasted < NOW else None
        target = TARGETS[number % 2]
        ref = EpisodeRef(
            target.account,
            target.region,
            f"i-{number % count + 1:017x}",
            booked - timedelta(days=1),
            number,
        )
        made.append(
            make_entry(
                number,
                episode=ref,
                instance_type=kind,
                owner=owner,
                project=OWNERS[owner],
                booked_at=booked,
                ended_at=ended,
                false_stop=ended is not None and lasted <= timedelta(hours=1),
                cost_before_usd_per_hour=price + Decimal("0.02"),
                cost_after_usd_per_hour=Decimal("0.05"),
                saved_usd_per_hour=price - Decimal("0.03"),
            )
        )
    return made


View = Callable[[ViewRequest], Page]

INSTANCE = f"/instances/{TARGETS[1].account}/{TARGETS[1].region}/i-{13:017x}"
VIEWS = (
    "/",
    "/fleet",
    "/freezes",
    "/kept",
    "/ungoverned",
    "/savings",
    "/projects",
    "/projects/vision",
    INSTANCE,
)
"""An address of each view."""
_ROUTES: Mapping[str, View] = {
    "": overview,
    "fleet": fleet,
    "freezes": freezes,
    "kept": kept,
    "ungoverned": ungoverned,
    "savings": savings,
    "instances": instance,
    "projects": lambda ask: (project if "name" in ask.query else projects)(ask),
}
_NAMED = {"instances": ("account", "region", "instance_id"), "projects": ("name",)}


def view_of(path: str) -> tuple[View, dict[str, str]]:
    """The view of an address, and what its path names."""
    first, *rest = [unquote(part) for part in path.strip("/").split("/")]
    return _ROUTES[first], dict(zip(_NAMED.get(first, ()), rest, strict=False))


def html(
    view: View, world: ConsoleWorld, who: Caller | None = None, path: str = "/", **query: str
) -> str:
    """A view's page, with plain spaces inside its times."""
    return _response(view, world, who, path, query).body


def sent(
    view: View, world: ConsoleWorld, who: Caller | None = None, path: str = "/", **query: str
) -> str:
    """A view's page as the console sends it."""
    return _response(view, world, who, path, query).sent


def _response(
    view: View, world: ConsoleWorld, who: Caller | None, path: str, query: dict[str, str]
) -> Response:
    ask = world.asked(who, **query)
    return app.framed(view(ask), ask, path, lambda address, _: f"token of {address}")


def without_argument_marks(page: str) -> str:
    """The page with its commands as text: each argument stands in a mark of its own."""
    return re.sub(r'<span class="argument">(.*?)</span>', r"\1", page)


def without_id_marks(page: str) -> str:
    """The page as it is sent, with its ids and ARNs as text: each stands in marks of its own."""
    return re.sub(r'<span class="id">(.*?)</span>', r"\1", page)
