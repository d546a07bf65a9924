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

    def person(self, identity: str) -> str | None:
        """Return the address of the person with this identity; `None` if it is nobody's."""


def people_behind(writer: str, accepted: Collection[str], people: People) -> frozenset[str]:
    """Return the addresses of those of the known people who wrote a version or accept it; empty if
    none of them did.

    `writer` is an ARN that CloudTrail has seen, or empty; `accepted` are identities.
    """
    addresses = [people.person(identity) for identity in (f"aws:{writer}", *accepted)]
    return frozenset(address for address in addresses if address)


class Parsed(Protocol):
    """A document without mistakes. If it is not `whole`, only its people are known, and everything
    else is a default."""

    whole: bool
    overrides: tuple[Override, ...]

    def base(self) -> AppliedPolicy:
        """Return the policy of the document without overrides."""


def _number(value: Any, *, if_none: float) -> float:
    """Return the value as a number to compare: of a mode, its place among the modes. Return
    `if_none` for `None`."""
    if isinstance(value, Mode):
        return list(Mode).index(value)
    return if_none if value is None else float(value)


def _is_raised(before: Any, after: Any) -> bool:
    """Return whether a number is higher, or no longer set: no limit is above every limit."""
    return _number(before, if_none=inf) < _number(after, if_none=inf)


def _is_lowered(before: Any, after: Any) -> bool:
    """Return whether a number is lower, or no longer set: no minimum is below every minimum."""
    return _number(before, if_none=-inf) > _number(after, if_none=-inf)


def _has_added(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether `after` has a member that `before` has not."""
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
    """Return the paths of the risky changes; an empty list if none is risky.

    Every change of the overrides is risky. If the document before is not `whole`, the one entry
    says that everything is risky.
    """
    if not before.whole:
        return [_EVERYTHING]
    values_before = {path: value for path, _, value in settings_of(before.base().policy)}
    paths = []
    for path, risk, value in settings_of(after.base().policy):
        if _IS_RISKY[risk](values_before[path], value):
            paths.append(path)
    if before.overrides != after.overrides:
        paths.append("overrides")
    return paths


def settings_of(section: Any, above: str = "") -> Iterator[tuple[str, Risk, Any]]:
    """Yield every setting: its path `section.name`, its risk and its value. A section inside a
    section is one setting.

    `above` is the beginning of each path, `section.`; empty for the whole policy.
    """
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


def _current_value(values: Sequence[Any]) -> Any:
    """Return the first of the values: today's, if it is set."""
    return values[0]


_STRICTEST: Mapping[Risk, Callable[[Sequence[Any]], Any]] = {
    "raised": min,
    "lowered": max,
    "removed": _union,
    "any": _current_value,
    "none": _current_value,
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
        """Return the policy with the stricter of each setting that is compared: its own, or the one
        when the episode was opened.

        Raises: SettingError if the two do not fit together, for example if a window is no whole
        number of today's periods.
        """
        sections: dict[str, Any] = {}
        for name in _COMPARED:
            asked_section = getattr(self, name)
            if asked_section is not None:
                sections[name] = _stricter(name, asked_section, getattr(policy, name))
        return replace(policy, **sections)


def _stricter(section: str, then: Section, now: Any) -> Any:
    """Return the section as it is now, with the stricter value of each setting that is compared.

    The stricter value keeps more instances. `_COMPARED` names the settings that are compared; an
    empty entry means all of them. A setting of the risk `any` must be the same in both. Raises:
    SettingError if it has changed.
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
            mistake = ((section, name), f"was {value_then}, is {value_now}")
            raise SettingError((mistake,))
        values = [value for value in (value_now, value_then) if value is not None]
        stricter_values[name] = _STRICTEST[risk](values) if values else None
    return replace(now, **stricter_values)


def asked_under(policy: Policy) -> AskedUnder:
    """Return the settings of a policy that an episode records when it is opened."""
    return AskedUnder(**{field.name: getattr(policy, field.name) for field in fields(AskedUnder)})
