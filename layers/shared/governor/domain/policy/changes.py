"""Changes of the policy document: which are risky, and who stands behind a version.

A change is risky if with it more may be done, sooner, on less evidence, or by other people. This module must
not know where documents are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any, Protocol

from governor.domain.policy.contacts import Ownership
from governor.domain.policy.policy import AppliedPolicy, Mode, Override

PEOPLE_NEEDED = 2
"""Behind a risky version, where the policy says `two_people_for_policy`."""

_EVERYTHING = "everything (this release refuses the version in force)"


def people_behind(writer: str, accepted: Collection[str], people: Ownership) -> frozenset[str]:
    """Return the known people who wrote a version or accept it, by address.

    `writer` is an ARN that CloudTrail has seen, or empty; `accepted` are identities. `people` are those of
    the policy in force: a version cannot bring its own.
    """
    return frozenset(known for one in (f"aws:{writer}", *accepted) if (known := people.person(one)))


class Parsed(Protocol):
    """A document without mistakes; where it is not `whole`, only its people."""

    whole: bool
    overrides: tuple[Override, ...]

    def base(self) -> AppliedPolicy: ...


Rule = Callable[[Any, Any], bool]
"""Whether the change from one value to another is risky."""


def _changed(before: Any, after: Any) -> bool:
    return bool(before != after)


def _never(*_: Any) -> bool:
    return False


def _raised(before: Any, after: Any) -> bool:
    return _number(before, inf) < _number(after, inf)


def _lowered(before: Any, after: Any) -> bool:
    return _number(before, -inf) > _number(after, -inf)


def _added(before: Sequence[str], after: Sequence[str]) -> bool:
    return not set(after) <= set(before)


def _removed(before: Sequence[str], after: Sequence[str]) -> bool:
    return _added(after, before)


def _widened(before: Sequence[str], after: Sequence[str]) -> bool:
    return _added(before, after) or bool(before and not after)


def _number(value: Any, absent: float) -> float:
    """The value as what can be compared; `absent` where there is none."""
    if isinstance(value, Mode):
        return list(Mode).index(value)
    return absent if value is None else float(value)


_RULES: Mapping[Rule, str] = {
    _raised: """mode caps.organization_actions_per_hour caps.account_actions_per_hour
        caps.owner_actions_per_hour idle.utilization_below_percent vetoes.memory_used_percent
        vetoes.power_percent_of_limit vetoes.cpu_percent vetoes.network_bytes_per_second
        approval.released_memory_below_percent approval.wait_at_most_hours
        approval.two_people_above_usd_per_hour""",
    _lowered: """two_people_for_policy idle.window_minutes idle.minimum_coverage_percent
        idle.grace_after_launch_minutes vetoes.session_younger_than_hours approval.ask_after_minutes
        approval.ask_after_released_minutes approval.released_for_minutes approval.remind_after_minutes
        approval.escalate_after_minutes approval.expire_after_minutes approval.notice_minutes
        approval.keep_at_most_days approval.keep_after_undo_hours approval.people_to_stop
        approval.people_to_terminate""",
    _added: "approval.broadcast_may approval.tag_owner_may approval.cli_may",
    _widened: "targets.accounts targets.regions",
    _removed: "vetoes.required managed.tag_keys",
    # Messages, hints and figures: nothing is ever done because of them.
    _never: """advice budget health ledger managed.idle_for_minutes managed.tell_again_after_hours
        prices.ebs_usd_per_gib_month prices.snapshot_usd_per_gib_month approval.digest_from
        approval.digest_after_seconds approval.delivery_limit_minutes approval.ask_again_after_hours
        approval.retry_unopened_after_minutes events.mass_interruption_window_minutes
        events.mass_interruption_told_singly events.compare_spot_prices events.spot_price_regions
        events.placement_scores events.remind_before_hours""",
}
"""By section or setting. Any change of what stands nowhere here is risky."""
_RULE_OF = {path: rule for rule, paths in _RULES.items() for path in paths.split()}


def rule_of(path: str) -> Rule:
    """Return when a change of the setting `section.name` is risky."""
    return _RULE_OF.get(path) or _RULE_OF.get(path.partition(".")[0], _changed)


def risky(before: Parsed, after: Parsed) -> list[str]:
    """Return the paths of the risky changes. Any change of the overrides is one; and any change at all where
    it is not known what was before."""
    if not before.whole:
        return [_EVERYTHING]
    was, now = dict(settings_of(before.base().policy)), settings_of(after.base().policy)
    found = [path for path, value in now if rule_of(path)(was[path], value)]
    return [*found, "overrides"] if before.overrides != after.overrides else found


def settings_of(policy: object, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting by its path `section.name`; a section within a section counts as one."""
    for one in fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, one.name)
        if is_dataclass(value) and not above:
            yield from settings_of(value, f"{one.name}.")
        else:
            yield above + one.name, value
