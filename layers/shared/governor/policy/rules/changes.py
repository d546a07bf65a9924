"""Risky changes of the policy document, for which a policy may require two people; and which of two
policies is stricter.

A change is risky if more may be done, sooner, on less evidence, or by other people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from math import inf
from operator import ne
from typing import Any, NamedTuple, Protocol

from governor.core.settings import Risk, Section, SettingError
from governor.core.units import not_none
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.judging import IdleRule, Metrics, Vetoes
from governor.policy.model.names import TagMatch
from governor.policy.model.notices import Managed
from governor.policy.model.policy import AppliedPolicy, Override, Policy

PEOPLE_NEEDED = 2
"""The people needed behind a risky version if the policy says `two_people_for_policy`."""

_NO_LONGER_TWO_PEOPLE = "two_people_for_policy (false by default, as no rule terminates now)"
_EVERYTHING = "everything (this release refuses the version in force)"


class People(Protocol):
    """Known people by their identities."""

    def person(self, identity: str) -> str | None:
        """Return the address of the person with this identity, such as `aws:ARN`; `None` if it is
        nobody's."""


def people_behind(writer: str, accepted: Collection[str], people: People) -> frozenset[str]:
    """Return the addresses of those of the known `people` who wrote a version or accept it; empty
    if none of them did.

    `writer` is the ARN that wrote it, or empty if it is not known; `accepted` are the identities
    (`aws:ARN`) that accept it.
    """
    addresses = [people.person(identity) for identity in (f"aws:{writer}", *accepted)]
    return frozenset(address for address in addresses if address)


class Parsed(Protocol):
    """A document without mistakes. If it is not `whole`, only its people are known, and everything
    else is a default."""

    whole: bool
    overrides: tuple[Override, ...]
    says_two_people: bool

    def base(self) -> AppliedPolicy:
        """Return the policy of the document without overrides."""


def _number(value: Any, *, if_none: float) -> float:
    """Return a setting as a number that can be compared; a member of an enum as its place among the
    members, so that `observe` < `ask` < `auto`. Return `if_none` for `None`."""
    if isinstance(value, StrEnum):
        return list(type(value)).index(value)
    return if_none if value is None else float(value)


def _lowest(values: Sequence[Any]) -> Any:
    """Return the lowest of the values, none of which is `None`."""
    return min(values, key=partial(_number, if_none=inf))


def _highest(values: Sequence[Any]) -> Any:
    """Return the highest of the values, none of which is `None`."""
    return max(values, key=partial(_number, if_none=-inf))


def _is_raised(before: Any, after: Any) -> bool:
    """Return whether a limit (a number, a mode or `None`) is higher after a change. `None` means no
    limit, and is higher than any."""
    return _number(before, if_none=inf) < _number(after, if_none=inf)


def _is_lowered(before: Any, after: Any) -> bool:
    """Return whether a minimum (a number, a mode or `None`) is lower after a change. `None` means
    no minimum, and is lower than any."""
    return _number(before, if_none=-inf) > _number(after, if_none=-inf)


def _has_added(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether `after` has a member that `before` lacks."""
    return not set(after) <= set(before)


def _has_removed(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether `after` lacks a member of `before`."""
    return not set(before) <= set(after)


def _is_widened(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether the list may name more than before: it has a new member, or is empty now."""
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


def risky_changes(before: Parsed, after: Parsed) -> list[str]:
    """Return the paths of the settings whose change from `before` to `after` is risky, such as
    `idle.window_minutes`; an empty list if none is.

    Any change of the overrides is risky, as `overrides`. If the document before is not `whole`, the
    only entry is a sentence that everything is risky.
    """
    if not before.whole:
        return [_EVERYTHING]
    values_before = {setting.path: setting.value for setting in settings_of(before.base().policy)}
    paths = []
    for setting in settings_of(after.base().policy):
        is_risky = _IS_RISKY[setting.risk]
        if is_risky(values_before[setting.path], setting.value):
            paths.append(setting.path)
    is_two_people_stated = before.says_two_people or after.says_two_people
    if "two_people_for_policy" in paths and not is_two_people_stated:
        # No line of either document has this setting, so its path alone would explain nothing.
        paths[paths.index("two_people_for_policy")] = _NO_LONGER_TWO_PEOPLE
    if before.overrides != after.overrides:
        paths.append("overrides")
    return paths


class SettingValue(NamedTuple):
    """A setting with its value. `path` is the name of its section, a dot, and its own name:
    `idle.window_minutes`."""

    path: str
    risk: Risk
    value: Any


def settings_of(section: Any, above: str = "") -> Iterator[SettingValue]:
    """Yield every setting of a policy, or of one section.

    `above` is the beginning of each path, such as `idle.`, for a section; empty for a policy. A
    section inside a section is one setting.
    """
    for setting in fields(section):
        value = getattr(section, setting.name)
        is_section_of_policy = isinstance(value, Section) and not above
        if is_section_of_policy:
            yield from settings_of(value, f"{setting.name}.")
        else:
            risk = setting.metadata.get("risk") or section.risk
            yield SettingValue(above + setting.name, risk, value)


def _union(lists: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the members of all these lists, each once, in their order; empty if all are empty."""
    members: dict[Any, None] = {}
    for items in lists:
        members |= dict.fromkeys(items)
    return tuple(members)


def _current_value(values: Sequence[Any]) -> Any:
    """Return the first of these values, which must not be empty: that of today's policy, or if it
    is not set, the one when the episode was opened."""
    return values[0]


_STRICTEST: Mapping[Risk, Callable[[Sequence[Any]], Any]] = {
    "raised": _lowest,
    "lowered": _highest,
    "removed": _union,
    "any": _current_value,
    "none": _current_value,
}
"""By the risk of a setting, the function that chooses the stricter of its values: today's first,
then the one when the episode was opened, without values that are not set. The stricter value takes
more to be idle, or to act."""
_COMPARED: Mapping[str, Collection[str]] = {
    "idle": (),
    "vetoes": (),
    "metrics": (),
    "plan": ("running_snapshot_valid_minutes", "snapshot_retention_days"),
    "approval": (
        "ask_after_minutes",
        "ask_after_released_minutes",
        "released_memory_below_percent",
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
        """Return today's `policy` with the stricter value of each setting that is compared: its
        own, or the one recorded here when the episode was opened. A section that an earlier release
        did not record stays today's.

        Raises: SettingError if the values do not fit together, for example if a window is no whole
        number of today's periods, or if a setting has changed that must be the same.
        """
        sections: dict[str, Any] = {}
        for name in _COMPARED:
            asked_section = getattr(self, name)
            if asked_section is not None:
                sections[name] = _stricter(name, asked_section, getattr(policy, name))
        return replace(policy, **sections)


def _stricter(section: str, then: Section, now: Any) -> Any:
    """Return the section as it is `now`, with the stricter value of each setting that is compared:
    the one by which fewer instances are idle or acted on.

    `then` is the section when the episode was opened, and `section` its name. `_COMPARED` names the
    settings that are compared; the others, and those that neither section sets, stay as they are
    `now`. Raises: SettingError if a setting of the risk `any` has changed, or the values do not fit
    together.
    """
    compared_names = _COMPARED[section]
    values_then = {setting.path: setting.value for setting in settings_of(then, f"{section}.")}
    stricter_values: dict[str, Any] = {}
    for setting in settings_of(now, f"{section}."):
        name = setting.path.partition(".")[2]
        is_compared = not compared_names or name in compared_names
        if not is_compared:
            continue
        value_then = values_then[setting.path]
        if setting.risk == "any" and setting.value != value_then:
            mistake = ((section, name), f"was {value_then}, is {setting.value}")
            raise SettingError((mistake,))
        values = not_none((setting.value, value_then))
        stricter_values[name] = _STRICTEST[setting.risk](values) if values else None
    return replace(now, **stricter_values)


def asked_under(policy: Policy) -> AskedUnder:
    """Return those settings of a policy that an episode records when it is opened, to compare a
    later policy with them."""
    return AskedUnder(**{field.name: getattr(policy, field.name) for field in fields(AskedUnder)})
