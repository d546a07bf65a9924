"""The policy document: from YAML text to a policy book, with every mistake named by its path and
line.

The schema is the dataclasses of `policy.model`. An override is checked by the whole policy that it
leads to.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from governor.core.errors import PolicyError, PolicyProblem
from governor.core.instance import Instance
from governor.core.settings import Mistake, SettingError
from governor.policy.model.contacts import Ownership, addresses
from governor.policy.model.judging import LEAST_WINDOW_MINUTES
from governor.policy.model.policy import BY_BUDGET, AppliedPolicy, Mode, Override, Policy
from governor.policy.rules.consent import (
    NOBODY_ACCEPTED,
    NOT_ACCEPTED,
    Acceptances,
    Unaccepted,
    may_terminate,
    needs_consent,
    terms_of_consent,
    unaccepted,
    under_consent,
)
from governor.policy.rules.owners import owner_of
from governor.policy.yaml_document import Document, Path, dotted, read_document, shown

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
    "targets": "pasts_asked_per_sweep",
    "advice": "right_size_check_every_minutes",
    "metrics": "rediscover_after_minutes",
    "breaker": "history_days history_days_needed hub_window_hours remind_after_hours",
    "health": "gone_after_minutes hot_average_seconds hot_periods",
}
"""Settings of the release before, by section. Until the next release they are accepted, and ignored
with a warning."""

_Made = TypeVar("_Made", Policy, Override, Ownership)


class _Parts(NamedTuple):
    """The parts of a document, without the settings of the release before."""

    settings: dict[str, Any]
    overrides: list[Any]
    retired: list[Path]
    """The paths of the settings that were left out."""
    mistakes: list[Mistake]
    """Mistakes of the version, and of the list of overrides."""


class _ReadOverride(NamedTuple):
    """An override as it was read; `None` for what could not be."""

    override: Override | None
    policy: Policy | None
    """The policy that the override alone makes of the base."""
    mistakes: list[Mistake]
    """Its own mistakes, by paths within it."""


class PolicyBook:
    """A parsed policy document; answers which policy an instance is under. Fulfils the port
    `Policies`."""

    whole = True
    """False if only people are from the document, and everything else is a default."""

    def __init__(self, document: Document, *, accepted: bool = False) -> None:
        """Check the whole document. If an earlier release has `accepted` it, rules about acting
        without people are not checked. Raises: PolicyError."""
        self.document = document
        parts = _split(document.settings)
        self._settings = parts.settings
        base, base_mistakes = _checked(Policy, parts.settings)
        readings = _read_overrides(parts, frozenset(base_mistakes))
        mistakes = [
            *parts.mistakes,
            *_mistakes_of_overrides(readings),
            *base_mistakes,
            *_wrong_names(parts.overrides),
        ]
        if base is None or mistakes:
            raise PolicyError(self._problems(mistakes))

        retired_reason = "is no longer a setting and is ignored; remove it"
        self.retired = tuple(self._problems((path, retired_reason) for path in parts.retired))
        """Settings of the release before that the document still holds: ignored, with a warning."""
        self.overrides = tuple(reading.override for reading in readings if reading.override)
        override_policies = [reading.policy for reading in readings if reading.policy]
        self.says_two_people = base.two_people_for_policy is not None
        """True if the document itself says whether two people are needed. Otherwise that depends on
        its rules."""
        if not self.says_two_people:
            base = _needing_two_people(base, override_policies)
        self.variants = (base, *override_policies)
        # Hashed only here: the size of an accepted document is bounded.
        text = json.dumps(document.settings, sort_keys=True)
        self._base = AppliedPolicy(base, hashlib.sha256(text.encode()).hexdigest()[:12])
        self._applied: dict[tuple[int, ...], AppliedPolicy] = {(): self._base}
        self._people: frozenset[str] | None = None
        """The people who may vouch for an override; `None` if the document was accepted before."""
        if not accepted:
            self._people = frozenset(addresses(tuple(base.ownership.contacts.values())))
        self._over_budget: frozenset[str] = frozenset()
        self._accepted = NOBODY_ACCEPTED
        self._refuse(_reckless_anywhere(base, readings, self._people))

    def in_accounts(self, accounts: Iterable[str]) -> Self:
        """Add the accounts of the organizational units to the targets."""
        policy = self._base.policy
        targets = replace(policy.targets, accounts=(*policy.targets.accounts, *accounts))
        self._base = replace(self._base, policy=replace(policy, targets=targets))
        self._applied = {(): self._base}
        return self

    def over_budget(self, projects: Iterable[str]) -> Self:
        """Ask about instances of these projects even if an override only observes them; silence is
        never a yes then.

        If the document itself only observes, nothing changes: people stop everything with that
        mode.
        """
        if self._base.policy.mode is not Mode.OBSERVE:
            self._over_budget = frozenset(projects)
        return self

    @property
    def needs_consent(self) -> bool:
        """Return whether any override counts only once people have accepted it."""
        return any(map(needs_consent, self.overrides))

    @property
    def terms(self) -> str:
        """Return the hash of what people accept with this document."""
        return terms_of_consent(self._settings, self.overrides)

    def accepted_by(self, acceptances: Acceptances) -> Self:
        """Let the overrides count that these people have accepted. Acceptances of other terms do
        not count."""
        is_of_these_terms = self.needs_consent and acceptances.terms == self.terms
        self._accepted = acceptances if is_of_these_terms else NOBODY_ACCEPTED
        return self

    def unaccepted(self) -> tuple[Unaccepted, ...]:
        """Return the overrides that count as `ask` because people have not accepted them."""
        return unaccepted(self.overrides, self._accepted.people)

    def base(self) -> AppliedPolicy:
        """Return the policy of the document without overrides."""
        return self._base

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of one instance; later overrides win. If an override lacks the
        acceptances that it names, people are asked about the instance. Raises: PolicyError if the
        overrides contradict each other."""
        indices = tuple(
            index for index, override in enumerate(self.overrides) if override.match.holds(instance)
        )
        applied = self._with_consent(self.applied(indices), indices)
        policy = applied.policy
        if policy.mode is not Mode.OBSERVE or not self._over_budget:
            return applied
        if owner_of(instance, policy.ownership).project not in self._over_budget:
            return applied
        approval = replace(policy.approval, on_expiry="no-action")
        asking_policy = replace(policy, mode=Mode.ASK, approval=approval)
        return replace(applied, policy=asking_policy, overrides=(*applied.overrides, BY_BUDGET))

    def applied(self, indices: tuple[int, ...]) -> AppliedPolicy:
        """Return the policy of the document under the overrides with these indices, whoever has
        accepted it. Raises: PolicyError, as `applied_to`."""
        if indices not in self._applied:
            self._applied[indices] = self._apply([self.overrides[index] for index in indices])
        return self._applied[indices]

    def _apply(self, chosen: Sequence[Override]) -> AppliedPolicy:
        """Return the policy under these overrides. Raises: PolicyError."""
        names = tuple(override.name for override in chosen)
        settings: Mapping[str, Any] = self._settings
        for override in chosen:
            settings = _merge(settings, override.set)
        # Only what an override can change is read again. People, for example, are those of the
        # base.
        from_base = {name: getattr(self._base.policy, name) for name in ONLY_IN_BASE}
        policy, mistakes = _checked(Policy, _without_base_only(settings), **from_base)
        if policy is not None:
            mistakes = _reckless(policy, chosen, self._people)
        if policy is None or mistakes:
            above = ("overrides", "+".join(names))
            raise PolicyError(
                PolicyProblem(dotted((*above, *path)), reason) for path, reason in mistakes
            )
        return AppliedPolicy(policy, self._base.version, names)

    def _with_consent(self, applied: AppliedPolicy, indices: tuple[int, ...]) -> AppliedPolicy:
        """Return the applied policy, with mode `ask` if a consent is missing."""
        chosen = [self.overrides[index] for index in indices]
        policy = under_consent(applied.policy, chosen, self._accepted.people)
        if policy is applied.policy:
            return applied
        return replace(applied, policy=policy, overrides=(*applied.overrides, NOT_ACCEPTED))

    def _refuse(self, mistakes: Sequence[Mistake]) -> None:
        """Raises: PolicyError if there are any mistakes."""
        if mistakes:
            raise PolicyError(self._problems(mistakes))

    def _problems(self, mistakes: Iterable[Mistake]) -> list[PolicyProblem]:
        """Return the mistakes with their lines, in the order of the document."""
        problems = [
            PolicyProblem(dotted(path), reason, self.document.line(path))
            for path, reason in mistakes
        ]
        return sorted(problems, key=lambda problem: problem.line or 0)


def parse_policy(text: str, *, accepted: bool = False) -> PolicyBook:
    """Return the policy book of a YAML document; empty text means all defaults. Raises:
    PolicyError, with each path and line.

    With `accepted`, read a document that an earlier release has accepted. Nothing may act by it.
    """
    return PolicyBook(read_document(text), accepted=accepted)


def people_of(text: str) -> PolicyBook:
    """Return a book with the people of a document that this release refuses, without the mistakes
    about them. It also says whether two people must stand behind a change; a demand that cannot be
    read counts as one."""
    try:
        settings = read_document(text).settings
    except PolicyError:
        settings = {"two_people_for_policy": True}
    ownership = settings.get("ownership", {})
    _, mistakes = _checked(Ownership, ownership)
    while mistakes:
        ownership = _without_mistakes(ownership, mistakes)
        _, mistakes = _checked(Ownership, ownership)
    stated = settings.get("two_people_for_policy")
    needs_two_people = stated is not False
    if stated is None:
        needs_two_people = _mentions_termination(settings)
    document = Document({"two_people_for_policy": needs_two_people, "ownership": ownership}, {})
    book = PolicyBook(document, accepted=True)
    book.whole = False
    book.says_two_people = stated is not None
    return book


def _without_mistakes(settings: Any, mistakes: Sequence[Mistake]) -> Any:
    """Return the settings without those that have these mistakes; no settings at all if one cannot
    be taken out."""
    paths = {path for path, _ in mistakes}
    # The last item of a list first, so that the others keep their places.
    for path in sorted(paths, key=_sort_key, reverse=True):
        if not _dropped(settings, path):
            return {}
    return settings


def _sort_key(path: Path) -> list[str]:
    """Sort the indices of lists by their number."""
    return [part.zfill(9) for part in path]


def _mentions_termination(settings: Mapping[str, Any]) -> bool:
    """Return whether any rule of a refused document may terminate. A rule that cannot be read
    counts as one that may."""
    overrides = settings.get("overrides")
    items = overrides if isinstance(overrides, list) else []
    patches = [item.get("set") for item in items if isinstance(item, dict)]
    return any(map(_patch_mentions_termination, [settings, *patches]))


def _patch_mentions_termination(patch: object) -> bool:
    if not isinstance(patch, dict):
        return False
    plan = patch.get("plan", {})
    approval = patch.get("approval", {})
    if not isinstance(plan, dict) or not isinstance(approval, dict):
        return True
    if "terminate" in (plan.get("action"), plan.get("when_stop_is_unsupported")):
        return True
    return approval.get("ask_about_stopped_after_days") is not None


def _dropped(settings: Any, path: Path) -> bool:
    """Delete the setting at this path, or the nearest one around it. Return whether there was
    any."""
    if not path:
        return False
    key = int(path[0]) if isinstance(settings, list) and path[0].isdecimal() else path[0]
    try:
        inside = settings[key]
    except (LookupError, TypeError):
        return False
    if not _dropped(inside, path[1:]):
        del settings[key]
    return True


def _split(document: Mapping[str, Any]) -> _Parts:
    """Take a document apart, without the settings of the release before."""
    settings, retired = _without_retired(document)
    mistakes: list[Mistake] = []
    version = settings.pop("version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        reason = f"is {shown(version)}; this release reads version {SCHEMA_VERSION}"
        mistakes.append((("version",), reason))
    items = settings.pop("overrides", None)
    if items is None:
        return _Parts(settings, [], retired, mistakes)
    if not isinstance(items, list):
        mistakes.append((("overrides",), "must be a list"))
        return _Parts(settings, [], retired, mistakes)
    overrides = list(items)
    for index, item in enumerate(items):
        if isinstance(item, dict) and isinstance(item.get("set"), dict):
            patch, retired_in_patch = _without_retired(item["set"])
            retired += [("overrides", str(index), "set", *path) for path in retired_in_patch]
            overrides[index] = {**item, "set": patch}
    return _Parts(settings, overrides, retired, mistakes)


def _without_retired(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """Return the settings without those of the release before, and the paths of these."""
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
            left[section] = {name: inside[name] for name in inside if name not in retired_names}
            if not left[section]:
                del left[section]
    return left, retired


def _retired_names(section: object, names: str) -> list[str]:
    """Return which of these names a section sets; none if it is no mapping."""
    if not isinstance(section, dict):
        return []
    return [name for name in names.split() if name in section]


def _read_overrides(parts: _Parts, known_mistakes: frozenset[Mistake]) -> list[_ReadOverride]:
    """Return the readings of all overrides, in the order of the document."""
    readings = []
    for override in parts.overrides:
        readings.append(_read_override(override, parts.settings, known_mistakes))
    return readings


def _read_override(
    item: object, base: Mapping[str, Any], base_mistakes: frozenset[Mistake]
) -> _ReadOverride:
    """Read an override, and check the policy that it makes of the base. Mistakes of the base itself
    are not repeated."""
    override, mistakes = _checked(Override, item)
    patch = item.get("set") if isinstance(item, dict) else None
    if not isinstance(patch, dict):
        return _ReadOverride(override, None, mistakes)
    reason = "is a setting of the whole sweep and cannot be overridden"
    mistakes += [(("set", key), reason) for key in patch if key in ONLY_IN_BASE]
    allowed = _without_base_only(patch)
    policy, policy_mistakes = _checked(Policy, _without_base_only(_merge(base, allowed)))
    for path, why in policy_mistakes:
        if (path, why) not in base_mistakes or _holds(allowed, path):
            mistakes.append((("set", *path), why))
    return _ReadOverride(override, policy, mistakes)


def _mistakes_of_overrides(read: Sequence[_ReadOverride]) -> Iterator[Mistake]:
    """Yield the mistakes of all overrides, by their paths in the document."""
    for index, reading in enumerate(read):
        for path, reason in reading.mistakes:
            yield ("overrides", str(index), *path), reason


def _needing_two_people(base: Policy, override_policies: Sequence[Policy]) -> Policy:
    """Return the base. If any rule may terminate, it needs two people for changes of the policy."""
    if any(map(may_terminate, (base, *override_policies))):
        return replace(base, two_people_for_policy=True)
    return base


def _reckless_anywhere(
    base: Policy, read: Sequence[_ReadOverride], people: frozenset[str] | None
) -> list[Mistake]:
    """Return what `_reckless` finds in the base, and in each override. What the base has already is
    not repeated."""
    reckless = _reckless(base, (), people)
    for index, reading in enumerate(read):
        if reading.override is None or reading.policy is None:
            continue
        above = ("overrides", str(index), "set")
        for path, reason in _reckless(reading.policy, (reading.override,), people):
            if (path, reason) not in reckless:
                reckless.append(((*above, *path), reason))
    return reckless


def _reckless(
    policy: Policy, chosen: Sequence[Override], known: frozenset[str] | None
) -> list[Mistake]:
    """Return the rules that would act without people, or with too few, and a window that only
    earlier releases accepted."""
    if known is None:
        return []
    mistakes = [*_window_too_short(policy), *_too_few_people(policy, chosen)]
    if policy.mode is not Mode.AUTO:
        return mistakes
    if not policy.metrics.publishers_are_trusted:
        reason = (
            "auto is refused while metrics.publishers_are_trusted is false: anybody who "
            "may publish metrics "
            "could have any instance stopped. Restrict who may (docs/trust.md) and set "
            "it, or set mode: ask"
        )
        mistakes.append((("mode",), reason))
    mistakes += _terminations_without_people(policy, chosen, known)
    return mistakes


def _window_too_short(policy: Policy) -> Iterator[Mistake]:
    window_minutes = policy.idle.window_minutes
    if window_minutes < LEAST_WINDOW_MINUTES:
        reason = (
            f"is {window_minutes}; it must be at least {LEAST_WINDOW_MINUTES}, or nothing "
            "would ever be idle"
        )
        yield ("idle", "window_minutes"), reason


def _too_few_people(policy: Policy, chosen: Sequence[Override]) -> Iterator[Mistake]:
    """Yield the numbers of people that are lower than usual without an override for a tag."""
    for name, usual in (("people_to_stop", 1), ("people_to_terminate", 2)):
        number = getattr(policy.approval, name)
        is_set_by_tag = any(_sets_people(override, name) for override in chosen)
        if number < usual and not is_set_by_tag:
            reason = f"is {number}; only an override that matches a tag may set less than {usual}"
            yield ("approval", name), reason


def _sets_people(override: Override, name: str) -> bool:
    return bool(override.match.tags) and name in override.set.get("approval", {})


def _terminations_without_people(
    policy: Policy, chosen: Sequence[Override], known: frozenset[str]
) -> Iterator[Mistake]:
    """Yield the terminations in mode `auto` for which no two people vouch."""
    for name in ("action", "when_stop_is_unsupported"):
        if getattr(policy.plan, name) != "terminate":
            continue
        if any(_vouches(override, name, known) for override in chosen):
            continue
        reason = (
            "mode: auto does not terminate, unless an override matches a tag, sets "
            "mode: auto and this, "
            "and names two people of ownership.contacts by address (approved_by), "
            "who then accept it; a "
            "team of one sets mode: ask, or action: stop"
        )
        yield ("plan", name), reason


def _vouches(override: Override, name: str, known: frozenset[str]) -> bool:
    """Return whether two people vouch for a termination that nobody is asked about, and the
    override says for which instances."""
    plan = override.set.get("plan", {})
    terminates_unasked = override.set.get("mode") == Mode.AUTO and plan.get(name) == "terminate"
    has_two_people = len({address.lower() for address in override.approved_by} & known) > 1
    return bool(override.match.tags) and terminates_unasked and has_two_people


def _wrong_names(items: Sequence[Any]) -> list[Mistake]:
    """Return the mistakes in the names of overrides. Each needs a name of its own: episodes record
    it, and messages show it."""
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


def _holds(settings: object, path: Path) -> bool:
    """Return whether these settings set what is at this path, or a list around it."""
    for part in path:
        if not isinstance(settings, dict) or part not in settings:
            return isinstance(settings, list)
        settings = settings[part]
    return True


def _without_base_only(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in ONLY_IN_BASE}


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a dataclass."""
    # Made on first use: not every function reads a policy, nor does every policy have overrides.
    return TypeAdapter(kind)


def _checked(
    kind: type[_Made], settings: object, **given: Any
) -> tuple[_Made | None, list[Mistake]]:
    """Return the section of these settings, with those in `given` set as they are; or `None` and
    the mistakes."""
    reader: TypeAdapter[_Made] = _reader(cast(Any, kind))
    try:
        # Read as JSON: a list may be a tuple there, and text may be a choice, but no text is a
        # number or a flag.
        section = reader.validate_json(json.dumps(settings), strict=True)
        return replace(section, **given), []
    except ValidationError as error:
        return None, _mistakes(error)
    except SettingError as error:
        return None, list(error.mistakes)


def _mistakes(error: ValidationError) -> list[Mistake]:
    """Return the mistakes that the validator has found, each with its path."""
    mistakes: list[Mistake] = []
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, SettingError):
            mistakes += [((*path, *inner_path), reason) for inner_path, reason in cause.mistakes]
        else:
            mistakes.append((path, _reason(details)))
    return mistakes


_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text; put it in quotes",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping of settings",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "greater_than": "more than {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "less_than_equal": "at most {le:.15g}",
}
"""The expected value, by the validator's name of the error."""


def _reason(details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "unexpected_keyword_argument":
        return "unknown setting"
    if kind == "missing":
        return "is missing"
    if kind not in _WANTED:
        return details["msg"].removeprefix("Value error, ")
    wanted = _WANTED[kind].format(**details.get("ctx", {}))
    # The validator shows members of an enum as Python writes them: <Action.STOP: 'stop'>.
    wanted = re.sub(r"<[^:>]*: ([^>]*)>", r"\1", wanted)
    return f"is {shown(details.get('input'))}; it must be {wanted}"


def _merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base with the patch on top: mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
