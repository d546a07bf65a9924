"""Changes of the policy document: which are risky, who stands behind a version, and which of two
policies is stricter.

A change is risky if more may be done, sooner, on less evidence, or by other people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from operator import ne
from typing import Any, Protocol

from governor.core.settings import Risk, Section, SettingError
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.judging import IdleRule, Metrics, Vetoes
from governor.policy.model.names import TagMatch
from governor.policy.model.notices import Managed
from governor.policy.model.policy import AppliedPolicy, Mode, Override, Policy

PEOPLE_NEEDED = 2
"""The people needed behind a risky version if the policy says `two_people_for_policy`."""

_EVERYTHING = "everything (this release refuses the version in force)"


class People(Protocol):
    """Known people by their identities."""

    def person(self, identity: str) -> str | None: ...


def people_behind(writer: str, accepted: Collection[str], people: People) -> frozenset[str]:
    """Return the addresses of the known people, of the policy in force, who wrote a version or
    accept it.

    `writer` is an ARN that CloudTrail has seen, or empty; `accepted` are identities.
    """
    addresses = [people.person(identity) for identity in (f"aws:{writer}", *accepted)]
    return frozenset(address for address in addresses if address)


class Parsed(Protocol):
    """A document without mistakes. If it is not `whole`, only its people are known."""

    whole: bool
    overrides: tuple[Override, ...]

    def base(self) -> AppliedPolicy: ...


def _number(value: Any, absent: float) -> float:
    """Return the value as a number to compare; `absent` if there is none."""
    if isinstance(value, Mode):
        return list(Mode).index(value)
    return absent if value is None else float(value)


def _is_raised(before: Any, after: Any) -> bool:
    return _number(before, inf) < _number(after, inf)


def _is_lowered(before: Any, after: Any) -> bool:
    return _number(before, -inf) > _number(after, -inf)


def _has_added(before: Sequence[str], after: Sequence[str]) -> bool:
    return not set(after) <= set(before)


def _has_removed(before: Sequence[str], after: Sequence[str]) -> bool:
    return _has_added(after, before)


def _is_widened(before: Sequence[str], after: Sequence[str]) -> bool:
    # An empty list means the default, which may be wider.
    is_emptied = bool(before) and not after
    return is_emptied or _has_added(before, after)


_IS_RISKY: Mapping[Risk, Callable[[Any, Any], bool]] = {
    "any": ne,
    "none": lambda *_: False,
    "raised": _is_raised,
    "lowered": _is_lowered,
    "added": _has_added,
    "removed": _has_removed,
    "widened": _is_widened,
}


def risky(before: Parsed, after: Parsed) -> list[str]:
    """Return the paths of the risky changes. Every change of the overrides is risky, and everything
    is if the policy before is not known."""
    if not before.whole:
        return [_EVERYTHING]
    values_before = {path: value for path, _, value in settings_of(before.base().policy)}
    paths = [
        path
        for path, risk, value in settings_of(after.base().policy)
        if _IS_RISKY[risk](values_before[path], value)
    ]
    if before.overrides != after.overrides:
        paths.append("overrides")
    return paths


def settings_of(section: Any, above: str = "") -> Iterator[tuple[str, Risk, Any]]:
    """Yield every setting: its path `section.name`, its risk and its value. A section inside a
    section is one setting."""
    for setting in fields(section):
        value = getattr(section, setting.name)
        if isinstance(value, Section) and not above:
            yield from settings_of(value, f"{setting.name}.")
        else:
            risk = setting.metadata.get("risk") or section.risk
            yield above + setting.name, risk, value


def _union(lists: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return everything in these lists, each once, in order."""
    return tuple(dict.fromkeys(item for items in lists for item in items))


def _first(values: Sequence[Any]) -> Any:
    return values[0]


_STRICTEST: Mapping[Risk, Callable[[Sequence[Any]], Any]] = {
    "raised": min,
    "lowered": max,
    "removed": _union,
    "any": _first,
    "none": _first,
}
"""Choose the value with which it takes more to be idle, or to act. A limit is stricter than
none."""
_COMPARED: Mapping[str, Collection[str]] = {
    "idle": (),
    "vetoes": (),
    "metrics": (),
    "plan": ("running_snapshot_valid_minutes", "snapshot_retention_days"),
    "approval": (
        "ask_after_minutes",
        "ask_after_released_minutes",
        "released_memory_below_percent",
        "released_for_minutes",
        "notice_minutes",
        "wait_at_most_hours",
    ),
    "managed": ("tag_keys",),
}
"""The settings of each section that are compared. If none is named, all are."""


@dataclass(frozen=True, slots=True)
class AskedUnder:
    """The settings that decide whether an instance is idle and may be acted on, as they were when
    an episode was opened."""

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
        SettingError if the two do not fit together, for example if a window is no whole number of
        today's periods."""
        sections: dict[str, Any] = {}
        for name in _COMPARED:
            asked_section = getattr(self, name)
            if asked_section is not None:
                sections[name] = _stricter(name, asked_section, getattr(policy, name))
        return replace(policy, **sections)


def _stricter(section: str, then: Section, now: Any) -> Any:
    """Return the section as it is now, with the stricter value of each setting that is compared.

    Stricter is what keeps more instances. `_COMPARED` names the settings of a section, none for
    all of them; a setting of the risk `any` must stay. Raises: SettingError if it has changed.
    """
    compared = _COMPARED[section]
    values_then = {path: value for path, _, value in settings_of(then, f"{section}.")}
    stricter_values: dict[str, Any] = {}
    for path, risk, value_now in settings_of(now, f"{section}."):
        name = path.partition(".")[2]
        if compared and name not in compared:
            continue
        value_then = values_then[path]
        if risk == "any" and value_now != value_then:
            raise SettingError((((section, name), f"was {value_then}, is {value_now}"),))
        values = [value for value in (value_now, value_then) if value is not None]
        stricter_values[name] = _STRICTEST[risk](values) if values else None
    return replace(now, **stricter_values)


def asked_under(policy: Policy) -> AskedUnder:
    """Return the settings of a policy that decide about an instance from now on."""
    return AskedUnder(**{field.name: getattr(policy, field.name) for field in fields(AskedUnder)})
