"""Takes a policy document apart: its settings, its overrides, and settings of the release before.

This module merges and drops settings. It never decides whether one is allowed to act.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from governor.core.settings import Mistake
from governor.core.units import without
from governor.policy.model.judging import settings_of_profile
from governor.policy.model.policy import Override, Policy
from governor.policy.model.profiles import ProfileName
from governor.policy.validation import validated
from governor.policy.yaml_document import Path, shown

SCHEMA_VERSION = 1
ONLY_IN_BASE = (
    "two_people_for_policy",
    "selector",
    "targets",
    "breaker",
    "caps",
    "ownership",
    "console",
    "managed",
    "budget",
)
"""Settings of the sweep as a whole. An override is for some instances, so it may not set them."""
_RETIRED: Mapping[str, str] = {
    "detector": "",
    "survival": "ask_again_after_minutes history_days interruption_times interruption_up_to_hours "
    "longest_proof_hours minimum_evidence needed_chance_percent prior_weight similar_start_hours "
    "unproven_minutes worthwhile_hours",
    "plan": "recheck_valid_minutes",
    "approval": "retry_unopened_after_minutes",
    "prices": "refresh_hours",
    "events": "mass_interruption_window_minutes",
    "targets": "pasts_asked_per_sweep",
    "advice": "right_size_check_every_minutes unused_below_percent full_memory_above_percent "
    "cpu_works_from_percent inference_below_percent steady_from_percent burst_at_most_hours",
    "metrics": "rediscover_after_minutes",
    "breaker": "history_days history_days_needed hub_window_hours remind_after_hours",
    "health": "gone_after_minutes hot_average_seconds hot_periods window_minutes "
    "minimum_coverage_percent memory_bound_memory_above_percent "
    "memory_bound_compute_below_percent compute_bound_above_percent",
}
"""Settings of the release before, by section. Until the next release they are accepted, and ignored
with a warning. A new one that held an action back belongs into `_REMOVED_GUARDS`."""
_ASK_INSTEAD = "if that is too old for these instances, set mode: ask and on_expiry: no-action"
_REMOVED_GUARDS: Mapping[str, Mapping[str, str]] = {
    "metrics": {
        "unasked_newest_reading_minutes": "an unasked step always needs a reading of every GPU "
        f"that ended at most 5 minutes ago; {_ASK_INSTEAD}",
        "unasked_newest_5_minute_reading_minutes": "an unasked step always needs a 5-minute "
        f"reading that ended at most 10 minutes ago; {_ASK_INSTEAD}",
    },
    "approval": {
        "released_for_minutes": "GPU memory counts as released after 15 minutes; if that is too "
        "soon for these instances, set approval.ask_after_released_minutes to the value of "
        "approval.ask_after_minutes",
    },
}
"""Settings of earlier releases that held actions or questions back, with what holds now. They are
refused: if they were ignored, more could be done than the author of the policy allowed."""


class Parts(NamedTuple):
    """The parts of a document, without the settings of the release before."""

    settings: dict[str, Any]
    overrides: list[Any]
    retired: list[Path]
    """The paths of the settings that were left out."""
    removed_guards: list[Mistake]
    """The settings left out that held actions back, with what to do instead."""
    mistakes: list[Mistake]
    """Mistakes of the version, and of the list of overrides."""


class OverrideReading(NamedTuple):
    """An override as it was read; `None` for what could not be."""

    override: Override | None
    policy: Policy | None
    """The policy that the override alone makes of the base."""
    mistakes: list[Mistake]
    """Its own mistakes, by paths within it."""


def split_document(document: Mapping[str, Any]) -> Parts:
    """Return the parts of a document: its settings, its overrides, and apart from them the settings
    of earlier releases. Raises nothing: a version other than this release's, and overrides that are
    no list, are mistakes in the result. Without a version, it is this release's."""
    settings, retired = _without_retired(document)
    settings, removed_guards = _without_guards(settings)
    mistakes: list[Mistake] = []
    version = settings.pop("version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        reason = f"is {shown(version)}; this release reads version {SCHEMA_VERSION}"
        mistakes.append((("version",), reason))
    items = settings.pop("overrides", None)
    if items is None:
        return Parts(settings, [], retired, removed_guards, mistakes)
    if not isinstance(items, list):
        mistakes.append((("overrides",), "must be a list"))
        return Parts(settings, [], retired, removed_guards, mistakes)
    overrides = list(items)
    for index, item in enumerate(items):
        if isinstance(item, dict) and isinstance(item.get("set"), dict):
            above = ("overrides", str(index), "set")
            patch, retired_in_patch = _without_retired(item["set"])
            patch, guards_in_patch = _without_guards(patch)
            retired += [(*above, *path) for path in retired_in_patch]
            removed_guards += [((*above, *path), reason) for path, reason in guards_in_patch]
            overrides[index] = {**item, "set": patch}
    return Parts(settings, overrides, retired, removed_guards, mistakes)


def _without_retired(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """Return the settings without those of the release before (`_RETIRED`), and the paths of what
    was left out. A section that has nothing else is left out, too. `settings` is not changed."""
    left = dict(settings)
    retired: list[Path] = []
    for section, names in _RETIRED.items():
        if section not in left:
            continue
        if not names:
            del left[section]
            retired.append((section,))
            continue
        inside = left[section]
        retired_names = _retired_names(inside, names)
        if retired_names:
            retired += [(section, name) for name in retired_names]
            left[section] = without(inside, retired_names)
            if not left[section]:
                del left[section]
    return left, retired


def _without_guards(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """Return the settings without those that held actions back in earlier releases
    (`_REMOVED_GUARDS`), and for each of these a mistake: its path, and what to do instead. Without
    such settings there are no mistakes; a section that is no mapping stays as it is. `settings` is
    not changed."""
    left = dict(settings)
    removed_guards: list[Mistake] = []
    for section, reason_by_name in _REMOVED_GUARDS.items():
        inside = left.get(section)
        if not isinstance(inside, dict):
            continue
        for name in inside:
            if name in reason_by_name:
                reason = f"is no longer a setting; remove it: {reason_by_name[name]}"
                removed_guards.append(((section, name), reason))
        left[section] = without(inside, reason_by_name)
    return left, removed_guards


def _retired_names(section: object, names: str) -> list[str]:
    """Return those of the space-separated names that a section sets; empty if it is no mapping."""
    if not isinstance(section, dict):
        return []
    return [name for name in names.split() if name in section]


def read_overrides(parts: Parts, known_mistakes: frozenset[Mistake]) -> list[OverrideReading]:
    """Return the readings of all overrides, in the order of the document; mistakes are in them.
    `known_mistakes` are those of the settings without overrides, which are not repeated."""
    readings = []
    for override in parts.overrides:
        readings.append(_read_override(override, parts.settings, known_mistakes))
    return readings


def _read_override(
    item: object, base: Mapping[str, Any], base_mistakes: frozenset[Mistake]
) -> OverrideReading:
    """Return an override as it was read, with the policy that it alone makes of the settings in
    `base`, and its mistakes. `None` stands for an override, or a policy, that has mistakes. A
    mistake of the base itself is repeated only if the override sets the same path."""
    override, mistakes = validated(Override, item)
    patch = item.get("set") if isinstance(item, dict) else None
    if not isinstance(patch, dict):
        return OverrideReading(override, None, mistakes)
    reason = "is a setting of the whole sweep and cannot be overridden"
    for key in patch:
        if key in ONLY_IN_BASE:
            mistakes.append((("set", key), reason))
    allowed = without_base_only(patch)
    merged = merge(with_profile_names(base), with_profile_names(allowed))
    policy, policy_mistakes = validated(Policy, without_base_only(merged))
    for path, why in policy_mistakes:
        if (path, why) not in base_mistakes or _sets_path(allowed, path):
            mistakes.append((("set", *path), why))
    return OverrideReading(override, policy, mistakes)


def mistakes_of_overrides(read: Sequence[OverrideReading]) -> Iterator[Mistake]:
    """Yield the mistakes of all overrides, each with its path in the document, such as
    `overrides, 0, set, mode`. Nothing if there are none."""
    for index, reading in enumerate(read):
        for path, reason in reading.mistakes:
            yield ("overrides", str(index), *path), reason


def wrong_names(items: Sequence[Any]) -> list[Mistake]:
    """Return a mistake for each name of an override that is empty, has outer spaces, or is given
    twice; empty if there is none. A missing name is found elsewhere."""
    mistakes: list[Mistake] = []
    first_index: dict[str, int] = {}
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        path = ("overrides", str(index), "name")
        if not name or name != name.strip():
            reason = f"is {shown(name)}; it must be text with no space before or after it"
            mistakes.append((path, reason))
        if name in first_index:
            reason = f"is the name of overrides.{first_index[name]}, too; give each its own"
            mistakes.append((path, reason))
        else:
            first_index[name] = index
    return mistakes


def _sets_path(settings: object, path: Path) -> bool:
    """Return whether these settings set the value at this path, or a list that contains it."""
    for part in path:
        if not isinstance(settings, dict) or part not in settings:
            return isinstance(settings, list)
        settings = settings[part]
    return True


def without_base_only(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that only the document itself may set
    (`ONLY_IN_BASE`)."""
    return without(settings, ONLY_IN_BASE)


def with_profile_names(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the document, or of one override, with the names of the metric profile
    that they choose. Names that they give themselves stay. Settings that choose no profile, or one
    that does not exist, are returned as they are.

    Document and overrides are completed before they are merged. So the names of an override's
    profile replace those of the document.
    """
    metrics = settings.get("metrics")
    chosen = metrics.get("profile") if isinstance(metrics, Mapping) else None
    if not isinstance(metrics, Mapping) or chosen not in list(ProfileName):
        return settings
    return {**settings, "metrics": {**settings_of_profile(ProfileName(chosen)), **metrics}}


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `base` with those of `patch` in their place. Mappings are merged, at
    any depth; everything else, lists included, is replaced. Neither argument is changed."""
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged
