"""The demo's table: every instance that was launched, grouped by what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from governor.adapters.clients import Clients
from governor.adapters.ec2 import Ec2Instances
from governor.adapters.pricing import AwsPrices
from governor.domain.alerts.alert import owner_of
from governor.domain.episode.episode import Episode, Observation
from governor.domain.instance import Instance, Target, managed_by
from governor.domain.policy.policy import Policy
from governor.domain.sweep.verdict import VerdictKind, known_kind
from governor.domain.units import UsdPerHour, day_and_time, money, parse_iso, plural
from governor.errors import CloudError
from local.fleet import SELECTOR

WIDTH = 100
"""Columns of a terminal that no line of the demo exceeds, its last one aside."""
_TAG = "=".join(*SELECTOR.items())
_GROUPS = {
    "asked": "Idle: the owner is asked",
    "notified": "Idle, but the plan is to do nothing: the owner is notified",
    "managed": "Idle, but another service runs it: the owner is notified",
    "at work": "At work",
    "kept": "Kept by people",
    "not judged": "Not judged, so nothing happens",
    "not governed": f"Not governed: no tag {_TAG}",
}
"""Headings, by what the count calls a group."""
_OF_KIND = {
    VerdictKind.BUSY: "at work",
    VerdictKind.PARTLY_IDLE: "at work",
    VerdictKind.EXEMPT: "kept",
    VerdictKind.SNOOZED: "kept",
    VerdictKind.MANAGED_ELSEWHERE: "managed",
}
_BRACKETS = re.compile(r" \([^)]*\)")
_WHAT_FOLLOWS = re.compile(r"; .*|, last at .*|: stopping saves .*|\.$")
_SUBJECT = re.compile(r"^(it is an? |it |the instance )")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")


@dataclass(frozen=True, slots=True)
class Row:
    """One instance. `group` is a key of the headings; `usd` is `None` where the price is not
    known."""

    instance_id: str
    name: str
    owner: str
    usd: UsdPerHour | None
    group: str
    why: str

    def __str__(self) -> str:
        cost = "unpriced" if self.usd is None else f"${money(self.usd)}"
        return f"    {self.name:<21}  {self.owner:<11}  {cost:>7}  {self.why}".rstrip()


def rows_of(
    launched: Sequence[str],
    target: Target,
    policy: Policy,
    seen: Mapping[str, Observation],
    episodes: Mapping[str, Episode],
) -> list[Row]:
    """Every launched instance, the most expensive first; `seen` and `episodes` are by its id."""
    clients = Clients()
    prices = AwsPrices(clients)
    rows = []
    for instance_id, instance in Ec2Instances(clients).describe_all(target, launched).items():
        if isinstance(instance, CloudError):
            raise instance
        group, why = _told(instance, seen.get(instance_id), episodes.get(instance_id))
        usd = prices.price(instance, policy).usd_per_hour
        owner = owner_of(instance, policy.ownership).name
        rows.append(Row(instance_id, instance.name, owner, usd, group, why))
    return sorted(rows, key=lambda row: (-(row.usd or 0), row.name))


def _told(instance: Instance, seen: Observation | None, episode: Episode | None) -> tuple[str, str]:
    if seen is None:
        return "not governed", "lacks the tag, so nobody is asked"
    if episode is not None:
        replaced = episode.plan.replaced_because
        return "asked" if episode.plan.steps else "notified", short(
            replaced[0] if replaced else episode.reason
        )
    manager = managed_by(instance, ())
    if manager is not None:
        return (
            "managed",
            f"{manager.service} runs it ({instance.tags.get(manager.mark, manager.mark)})",
        )
    kind = known_kind(seen.verdict)
    return "not judged" if kind is None else _OF_KIND.get(kind, "not judged"), short(seen.reason)


def short(reason: str) -> str:
    """A reason without what stands in brackets or follows from it, with times as people write
    them."""
    now = datetime.now(tz=UTC)
    text = _SUBJECT.sub("", _WHAT_FOLLOWS.sub("", _BRACKETS.sub("", reason)))
    text = _TIME.sub(lambda found: f"{day_and_time(parse_iso(found[0]), 'UTC', now)} UTC", text)
    return text[:1].lower() + text[1:]


def table(rows: Sequence[Row]) -> str:
    """The count, then each group with its rows, number and cost."""
    groups = {name: [row for row in rows if row.group == name] for name in _GROUPS}
    counts = ", ".join(f"{len(found)} {name}" for name, found in groups.items() if found)
    heads = f"    {'instance':<21}  {'owner':<11}  an hour  why"
    lines = [f"  {len(rows)} launched: {counts}", "", heads]
    for name, found in groups.items():
        if found:
            cost = money(sum((row.usd for row in found if row.usd is not None), UsdPerHour(0)))
            total = f"{plural(len(found), 'instance')}, ${cost} an hour"
            lines += [
                "",
                f"  {_GROUPS[name]}{total:>{WIDTH - 2 - len(_GROUPS[name])}}",
                *map(str, found),
            ]
    return "\n".join(lines)
