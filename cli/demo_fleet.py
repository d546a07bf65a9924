"""The demo's table: every instance that was launched, grouped by what became of it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cli.tables import wrapped
from governor.aws.clients import Clients
from governor.aws.ec2 import Ec2Instances
from governor.aws.pricing import AwsPrices
from governor.core.errors import CloudError
from governor.core.instance import Instance, Target
from governor.core.managers import managed_by
from governor.core.units import UsdPerHour, day_and_time, money, parse_iso, plural
from governor.episode.model.episode import Episode, Observation
from governor.money.model.ledger import PREPAID_SOURCE
from governor.policy.model.policy import Policy
from governor.policy.rules.owners import owner_of
from governor.verdict.model import VerdictKind, known_kind, partly_idle_text
from local.demo.fleet import SELECTOR

WIDTH = 80
"""Columns of a terminal that no line of the demo exceeds, but for links and its last one."""
_TAG = "=".join(*SELECTOR.items())
_GROUPS = {
    "asked": "Idle: the owner is asked",
    "notified": "Idle, but left running: the owner is notified",
    "managed": "Idle in another service: the owner is notified",
    "at work": "At work",
    "left alone": "Left alone, because people decided so",
    "not judged": "Not judged, so nothing happens",
    "not governed": f"Not governed: no tag {_TAG}",
}
"""Headings, by what the count calls a group."""
_OF_KIND = {
    VerdictKind.BUSY: "at work",
    VerdictKind.PARTLY_IDLE: "at work",
    VerdictKind.EXEMPT: "left alone",
    VerdictKind.SNOOZED: "left alone",
    VerdictKind.MANAGED_ELSEWHERE: "managed",
}
_BRACKETS = re.compile(r" \([^)]*\)")
_WHAT_FOLLOWS = re.compile(r"; .*|, last at .*|: stopping saves .*|\.$")
_SUBJECT = re.compile(r"^(it is an? |it |the instance )")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")


@dataclass(frozen=True, slots=True)
class Row:
    """One instance. `group` is a key of the headings; `usd` is `None` without a known price."""

    instance_id: str
    name: str
    owner: str
    usd: UsdPerHour | None
    group: str
    why: str
    is_prepaid: bool = False

    def __str__(self) -> str:
        cost = "unpriced" if self.usd is None else f"${money(self.usd)}"
        if self.is_prepaid:
            cost = "prepaid"
        start = f"    {self.name:<21}  {self.owner:<11}  {cost:>8}  "
        below = " " * len(start)
        lines = textwrap.wrap(
            self.why, WIDTH, initial_indent=start, subsequent_indent=below, break_on_hyphens=False
        )
        return "\n".join(lines) if lines else start.rstrip()


def rows_of(
    launched: Sequence[str],
    target: Target,
    policy: Policy,
    observations: Mapping[str, Observation],
    episodes: Mapping[str, Episode],
) -> list[Row]:
    """Return every launched instance, the most expensive first.

    `observations` and `episodes` are by instance id.
    """
    clients = Clients()
    prices = AwsPrices(clients)
    rows = []
    for instance_id, instance in Ec2Instances(clients).describe_all(target, launched).items():
        if isinstance(instance, CloudError):
            raise instance
        group, why = _group_and_reason(
            instance, observations.get(instance_id), episodes.get(instance_id)
        )
        price = prices.price(instance, policy)
        is_prepaid = price.source == PREPAID_SOURCE
        owner = owner_of(instance, policy.ownership).name
        row = Row(instance_id, instance.name, owner, price.usd_per_hour, group, why, is_prepaid)
        rows.append(row)
    return sorted(rows, key=lambda row: (-(row.usd or 0), row.name))


def _group_and_reason(
    instance: Instance, observation: Observation | None, episode: Episode | None
) -> tuple[str, str]:
    if observation is None:
        return "not governed", "lacks the tag, so nobody is asked"
    if episode is not None:
        group = "asked" if episode.plan.steps else "notified"
        reasons = episode.plan.replaced_because or (episode.reason,)
        return group, short(reasons[0])
    manager = managed_by(instance, ())
    if manager is not None:
        mark = instance.tags.get(manager.mark, manager.mark)
        return "managed", f"{manager.service} runs it ({mark})"
    kind = known_kind(observation.verdict)
    group = "not judged"
    if kind is VerdictKind.PARTLY_IDLE:
        return _OF_KIND[kind], partly_idle_text(observation.idle_parts)
    if kind is not None:
        group = _OF_KIND.get(kind, group)
    return group, short(observation.reason)


def short(reason: str) -> str:
    """Shorten a reason: without brackets and consequences, and with times as people write them."""
    now = datetime.now(tz=UTC)

    def readable_time(time: re.Match[str]) -> str:
        return f"{day_and_time(parse_iso(time[0]), 'UTC', now)} UTC"

    text = _BRACKETS.sub("", reason)
    text = _WHAT_FOLLOWS.sub("", text)
    text = _SUBJECT.sub("", text)
    text = _TIME.sub(readable_time, text)
    return text[:1].lower() + text[1:]


def table(rows: Sequence[Row]) -> str:
    """Return the count, then each group with its rows, number and cost."""
    rows_by_group: dict[str, list[Row]] = {name: [] for name in _GROUPS}
    for row in rows:
        rows_by_group[row.group].append(row)
    counts = []
    groups = []
    for name, group_rows in rows_by_group.items():
        if group_rows:
            counts.append(f"{len(group_rows)} {name}")
            groups += _group_lines(name, group_rows)
    head = f"    {'instance':<21}  {'owner':<11}   an hour  why"
    count_lines = wrapped(f"  {len(rows)} launched: {', '.join(counts)}", WIDTH)
    lines = [*count_lines, "", head, *groups]
    return "\n".join(lines)


def _group_lines(name: str, rows: Sequence[Row]) -> list[str]:
    known_costs = []
    for row in rows:
        if row.usd is not None:
            known_costs.append(row.usd)
    cost = money(sum(known_costs, UsdPerHour(0)))
    total = f"{plural(len(rows), 'instance')}, ${cost} an hour"
    heading = _GROUPS[name]
    line = f"  {heading}  {total:>{WIDTH - 4 - len(heading)}}"
    return ["", line, *map(str, rows)]
