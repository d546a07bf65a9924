"""Changes of the policy document: which are risky (more may be done, sooner, on less evidence, or
by other people), who stands behind a version, and which policy is stricter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from math import inf
from operator import itemgetter, ne
from typing import Any, Protocol

from governor.domain.policy.policy import (
    AppliedPolicy,
    ApprovalRule,
    IdleRule,
    Managed,
    Metrics,
    Mode,
    Override,
    PlanRule,
    Policy,
    TagMatch,
    Vetoes,
)
from governor.domain.settings import Risk, Section, SettingError

PEOPLE_NEEDED = 2
"""Behind a risky version, where the policy says `two_people_for_policy`."""

_EVERYTHING = "everything (this release refuses the version in force)"


class People(Protocol):
    """Known people by their identities."""

    def person(self, identity: str) -> str | None: ...


def people_behind(writer: str, accepted: Collection[str], people: People) -> frozenset[str]:
    """Return the known people, of the policy in force, who wrote a version or accept it, by
    address. `writer` is an ARN that CloudTrail has seen, or empty; `accepted` are identities."""
    persons = (people.person(identity) for identity in (f"aws:{writer}", *accepted))
    return frozenset(person for person in persons if person)


class Parsed(Protocol):
    """A document without mistakes; where it is not `whole`, only its people."""

    whole: bool
    overrides: tuple[Override, ...]

    def base(self) -> AppliedPolicy: ...


def _number(value: Any, absent: float) -> float:
    """The value as what can be compared; `absent` where there is none."""
    if isinstance(value, Mode):
        return list(Mode).index(value)
    return absent if value is None else float(value)


def _added(before: Sequence[str], after: Sequence[str]) -> bool:
    return not set(after) <= set(before)


_IS_RISKY: Mapping[Risk, Callable[[Any, Any], bool]] = {
    "any": ne,
    "none": lambda *_: False,
    "raised": lambda before, after: _number(before, inf) < _number(after, inf),
    "lowered": lambda before, after: _number(before, -inf) > _number(after, -inf),
    "added": _added,
    "removed": lambda before, after: _added(after, before),
    "widened": lambda before, after: _added(before, after) or bool(before and not after),
}


def risky(before: Parsed, after: Parsed) -> list[str]:
    """Return the paths of the risky changes: of overrides any, and any at all after an unknown
    policy."""
    if not before.whole:
        return [_EVERYTHING]
    was = {path: value for path, _, value in settings_of(before.base().policy)}
    settings = settings_of(after.base().policy)
    found = [path for path, risk, value in settings if _IS_RISKY[risk](was[path], value)]
    return [*found, "overrides"] if before.overrides != after.overrides else found


def settings_of(section: Any, above: str = "") -> Iterator[tuple[str, Risk, Any]]:
    """Yield every setting: its path `section.name`, its risk and value. A section within a section
    is one."""
    for one in fields(section):
        value = getattr(section, one.name)
        if isinstance(value, Section) and not above:
            yield from settings_of(value, f"{one.name}.")
        else:
            yield above + one.name, one.metadata.get("risk") or section.risk, value


_STRICTEST: Mapping[Risk, Callable[[Sequence[Any]], Any]] = {
    "raised": min,
    "lowered": max,
    "removed": lambda lists: tuple(dict.fromkeys(chain(*lists))),
    **dict.fromkeys(("any", "none"), itemgetter(0)),
}
"""The one of two figures with which it takes more to be idle, or to act. A limit proves more than
none."""
_COMPARED: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("idle", "vetoes", "metrics"), ()),
    "plan": ("running_snapshot_valid_minutes", "snapshot_retention_days"),
    "approval": (
        *("ask_after_minutes", "ask_after_released_minutes"),
        *("released_memory_below_percent", "released_for_minutes", "notice_minutes"),
        "wait_at_most_hours",
    ),
    "managed": ("tag_keys",),
}
"""The settings of each section that are compared. None is named: all are."""


@dataclass(frozen=True, slots=True)
class AskedUnder:
    """Settings that decide whether an instance is idle and may be acted on, as it was when an
    episode was opened."""

    idle: IdleRule
    vetoes: Vetoes
    approval: ApprovalRule
    exemption: TagMatch
    plan: PlanRule | None = None
    metrics: Metrics | None = None
    managed: Managed | None = None
    selector: TagMatch | None = None

    def stricter(self, policy: Policy) -> Policy:
        """Return the policy with each of these figures that proves more than its own. Raises:
        SettingError where the two do not go together, as a window that is no whole number of
        today's periods."""
        kept = {name: asked for name in _COMPARED if (asked := getattr(self, name)) is not None}
        found = {
            name: _stricter(name, asked, getattr(policy, name)) for name, asked in kept.items()
        }
        return replace(policy, **found)


def _stricter(section: str, asked: Section, now: Any) -> Any:
    found: dict[str, Any] = {}
    then = {path: value for path, _, value in settings_of(asked, f"{section}.")}
    for path, risk, value in settings_of(now, f"{section}."):
        name = path.partition(".")[2]
        if name in (_COMPARED[section] or (name,)):
            if risk == "any" and value != then[path]:
                raise SettingError((((section, name), f"was {then[path]}, is {value}"),))
            both = [one for one in (value, then[path]) if one is not None]
            found[name] = _STRICTEST[risk](both) if both else None
    return replace(now, **found)


def asked_under(policy: Policy) -> AskedUnder:
    return AskedUnder(**{one.name: getattr(policy, one.name) for one in fields(AskedUnder)})
