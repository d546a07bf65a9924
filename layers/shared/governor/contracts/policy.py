"""The policy document: YAML text to a policy book, with every mistake named by its path and line.
The schema is the domain's own dataclasses. An override is checked as the whole policy it leads
to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import Any, Self, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from governor.contracts.yaml_document import Document, Path, dotted, read_document, shown
from governor.domain.alerts.alert import owner_of
from governor.domain.instance import Instance
from governor.domain.policy.consent import (
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
from governor.domain.policy.contacts import Ownership, addresses
from governor.domain.policy.policy import (
    BY_BUDGET,
    LEAST_WINDOW_MINUTES,
    AppliedPolicy,
    Mode,
    Override,
    Policy,
)
from governor.domain.settings import Mistake, SettingError
from governor.errors import PolicyError, PolicyProblem

SCHEMA_VERSION = 1
ONLY_IN_BASE = (
    *(
        "two_people_for_policy",
        "selector",
        "targets",
        "breaker",
        "caps",
        "ownership",
        "console",
        "managed",
    ),
    "budget",
)
"""Settings of the sweep as a whole; an override for some instances could not mean anything."""
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
"""Settings of the release before, by section: accepted and ignored with a warning, until the next
release."""


_Made = TypeVar("_Made", Policy, Override, Ownership)


class PolicyBook:
    """A parsed policy document; answers which policy an instance is under. Fulfils the port
    `Policies`."""

    whole = True
    """False where only people are from the document, and everything else is a default."""

    def __init__(self, document: Document, *, accepted: bool = False) -> None:
        """Check all of it; of one `accepted` by an earlier release not how it acts. Raises:
        PolicyError."""
        self.document = document
        self._settings, items, retired, mistakes = _split(document.settings)
        base, in_base = _checked(Policy, self._settings)
        read = [_override(item, self._settings, frozenset(in_base)) for item in items]
        for index, (_, _, wrong) in enumerate(read):
            mistakes += [(("overrides", str(index), *path), reason) for path, reason in wrong]
        mistakes += [*in_base, *_wrong_names(items)]
        if base is None or mistakes:
            raise PolicyError(self._problems(mistakes))
        gone = "is no longer a setting and is ignored; remove it"
        self.retired = tuple(self._problems((path, gone) for path in retired))
        """Settings of the release before that the document still holds: ignored, with a warning."""
        self.overrides = tuple(override for override, _, _ in read if override)
        alone = [policy for _, policy, _ in read if policy]
        self.says_two_people = base.two_people_for_policy is not None
        """The document itself says whether two people are needed; otherwise that depends on its
        rules."""
        if not self.says_two_people and any(map(may_terminate, (base, *alone))):
            base = replace(base, two_people_for_policy=True)
        self.variants = (base, *alone)
        # Only an accepted document has a bounded size that is worth a hash.
        text = json.dumps(document.settings, sort_keys=True)
        self._base = AppliedPolicy(base, hashlib.sha256(text.encode()).hexdigest()[:12])
        self._applied: dict[tuple[int, ...], AppliedPolicy] = {(): self._base}
        self._known = (
            None if accepted else frozenset(addresses(tuple(base.ownership.contacts.values())))
        )
        """People who may vouch for an override; `None` where the document was accepted before."""
        self._over_budget: frozenset[str] = frozenset()
        self._accepted = NOBODY_ACCEPTED
        reckless = _reckless(base, (), self._known)
        for index, (override, policy, _) in enumerate(read):
            above = ("overrides", str(index), "set")
            own = _reckless(policy, (override,), self._known) if override and policy else []
            reckless += [((*above, *path), why) for path, why in own if (path, why) not in reckless]
        if reckless:
            raise PolicyError(self._problems(reckless))

    def in_accounts(self, accounts: Iterable[str]) -> Self:
        """Let the targets name these accounts, too: those of their units."""
        policy = self._base.policy
        targets = replace(policy.targets, accounts=(*policy.targets.accounts, *accounts))
        self._base = replace(self._base, policy=replace(policy, targets=targets))
        self._applied = {(): self._base}
        return self

    def over_budget(self, projects: Iterable[str]) -> Self:
        """Ask about instances of these projects where an override only observes. Where the document
        itself does, nothing changes: with that mode, people stop everything. Silence never is a yes
        here."""
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
        """Let the overrides count that these people have accepted. Acceptances of other terms are
        none."""
        same_terms = self.needs_consent and acceptances.terms == self.terms
        self._accepted = acceptances if same_terms else NOBODY_ACCEPTED
        return self

    def unaccepted(self) -> tuple[Unaccepted, ...]:
        """Return the overrides that count as `ask` because people have not accepted them."""
        return unaccepted(self.overrides, self._accepted.people)

    def base(self) -> AppliedPolicy:
        """The document without overrides."""
        return self._base

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of one instance; later overrides win. Where one lacks the acceptances
        that it names, the instance is asked about. Raises: PolicyError: they contradict."""
        indices = tuple(i for i, one in enumerate(self.overrides) if one.match.holds(instance))
        found = self._with_consent(self.applied(indices), indices)
        policy = found.policy
        if policy.mode is not Mode.OBSERVE or not self._over_budget:
            return found
        if owner_of(instance, policy.ownership).project not in self._over_budget:
            return found
        approval = replace(policy.approval, on_expiry="no-action")
        asking = replace(policy, mode=Mode.ASK, approval=approval)
        return replace(found, policy=asking, overrides=(*found.overrides, BY_BUDGET))

    def applied(self, indices: tuple[int, ...]) -> AppliedPolicy:
        """Return the policy that the document means under some `overrides`, by index, whoever has
        accepted it. Raises: PolicyError, as `applied_to`."""
        if indices not in self._applied:
            chosen = [self.overrides[index] for index in indices]
            names = tuple(one.name for one in chosen)
            merged = reduce(_merge, (one.set for one in chosen), self._settings)
            # Only what an override can change is read; people, for example, are taken from the
            # base.
            own = {name: getattr(self._base.policy, name) for name in ONLY_IN_BASE}
            policy, mistakes = _checked(Policy, _without_base_only(merged), **own)
            if policy is not None:
                mistakes = _reckless(policy, chosen, self._known)
            if policy is None or mistakes:
                above = ("overrides", "+".join(names))
                raise PolicyError(
                    PolicyProblem(dotted((*above, *path)), why) for path, why in mistakes
                )
            self._applied[indices] = AppliedPolicy(policy, self._base.version, names)
        return self._applied[indices]

    def _with_consent(self, applied: AppliedPolicy, indices: tuple[int, ...]) -> AppliedPolicy:
        chosen = [self.overrides[index] for index in indices]
        policy = under_consent(applied.policy, chosen, self._accepted.people)
        if policy is applied.policy:
            return applied
        return replace(applied, policy=policy, overrides=(*applied.overrides, NOT_ACCEPTED))

    def _problems(self, mistakes: Iterable[Mistake]) -> list[PolicyProblem]:
        found = [
            PolicyProblem(dotted(path), why, self.document.line(path)) for path, why in mistakes
        ]
        return sorted(found, key=lambda problem: problem.line or 0)


def parse_policy(text: str, *, accepted: bool = False) -> PolicyBook:
    """Return the policy book of a YAML document; empty text means all defaults. `accepted` reads
    what an earlier release has accepted, and nothing may act by. Raises: PolicyError, with each
    path and line."""
    return PolicyBook(read_document(text), accepted=accepted)


def people_of(text: str) -> PolicyBook:
    """Return the people of a document that this release refuses, without what is wrong about them,
    and whether two must stand behind a change: a demand that cannot be read is one."""
    try:
        settings = read_document(text).settings
    except PolicyError:
        settings = {"two_people_for_policy": True}
    owners = settings.get("ownership", {})
    while mistakes := _checked(Ownership, owners)[1]:
        # The last item of a list first: the others keep their places.
        paths = sorted(
            {path for path, _ in mistakes}, key=lambda path: [one.zfill(9) for one in path]
        )
        if not all(_dropped(owners, path) for path in reversed(paths)):
            owners = {}
    stated = settings.get("two_people_for_policy")
    asked = _mentions_termination(settings) if stated is None else stated is not False
    book = PolicyBook(
        Document({"two_people_for_policy": asked, "ownership": owners}, {}), accepted=True
    )
    book.whole = False
    book.says_two_people = stated is not None
    return book


def _mentions_termination(settings: Mapping[str, Any]) -> bool:
    """Return whether any rule of a document that is refused may terminate; a rule that cannot be
    read may."""
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
    """Take out what has this path, or else what it would stand in; return whether there was any."""
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


def _split(
    document: Mapping[str, Any],
) -> tuple[dict[str, Any], list[Any], list[Path], list[Mistake]]:
    """Settings and overrides, both without retired settings; the paths of these; mistakes of the
    frame."""
    settings, retired = _without_retired(document)
    mistakes: list[Mistake] = []
    version = settings.pop("version", SCHEMA_VERSION)
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        reason = f"is {shown(version)}; this release reads version {SCHEMA_VERSION}"
        mistakes.append((("version",), reason))
    overrides = settings.pop("overrides", None)
    if overrides is not None and not isinstance(overrides, list):
        mistakes.append((("overrides",), "must be a list"))
    items = list(overrides) if isinstance(overrides, list) else []
    for index, item in enumerate(items):
        if isinstance(item, dict) and isinstance(item.get("set"), dict):
            patch, old = _without_retired(item["set"])
            retired += [("overrides", str(index), "set", *path) for path in old]
            items[index] = {**item, "set": patch}
    return settings, items, retired, mistakes


def _without_retired(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """The settings without those of the release before, and the paths of these."""
    left, retired = dict(settings), list[Path]()
    for section, names in _RETIRED.items():
        inside = left.get(section)
        if not names and section in left:
            del left[section]
            retired.append((section,))
        elif isinstance(inside, dict) and (
            old := [name for name in names.split() if name in inside]
        ):
            retired += [(section, name) for name in old]
            left[section] = {name: value for name, value in inside.items() if name not in old}
            if not left[section]:
                del left[section]
    return left, retired


def _override(
    item: object, base: Mapping[str, Any], in_base: frozenset[Mistake]
) -> tuple[Override | None, Policy | None, list[Mistake]]:
    """Return the override, what it makes of the base, and its own mistakes, by paths within it."""
    override, mistakes = _checked(Override, item)
    policy: Policy | None = None
    patch = item.get("set") if isinstance(item, dict) else None
    if isinstance(patch, dict):
        reason = "is a setting of the whole sweep and cannot be overridden"
        mistakes += [(("set", key), reason) for key in patch if key in ONLY_IN_BASE]
        allowed = _without_base_only(patch)
        policy, found = _checked(Policy, _without_base_only(_merge(base, allowed)))
        mistakes += [
            (("set", *path), reason)
            for path, reason in found
            if (path, reason) not in in_base or _holds(allowed, path)
        ]
    return override, policy, mistakes


def _reckless(
    policy: Policy, chosen: Sequence[Override], known: frozenset[str] | None
) -> list[Mistake]:
    """Return what would act without people, or with too few, and a window that only earlier
    releases took."""
    if known is None:
        return []
    found: list[Mistake] = []
    if (minutes := policy.idle.window_minutes) < LEAST_WINDOW_MINUTES:
        why = (
            f"is {minutes}; it must be at least {LEAST_WINDOW_MINUTES}, or nothing "
            "would ever be idle"
        )
        found.append((("idle", "window_minutes"), why))
    for name, usual in (("people_to_stop", 1), ("people_to_terminate", 2)):
        says = any(one.match.tags and name in one.set.get("approval", {}) for one in chosen)
        if (number := getattr(policy.approval, name)) < usual and not says:
            why = f"is {number}; only an override that matches a tag may set less than {usual}"
            found.append((("approval", name), why))
    if policy.mode is not Mode.AUTO:
        return found
    if not policy.metrics.publishers_are_trusted:
        why = (
            "auto is refused while metrics.publishers_are_trusted is false: anybody who "
            "may publish metrics "
            "could have any instance stopped. Restrict who may (docs/trust.md) and set "
            "it, or set mode: ask"
        )
        found.append((("mode",), why))
    for name in ("action", "when_stop_is_unsupported"):
        ends = getattr(policy.plan, name) == "terminate"
        if ends and not any(_vouches(one, name, known) for one in chosen):
            why = (
                "mode: auto does not terminate, unless an override matches a tag, sets "
                "mode: auto and this, "
                "and names two people of ownership.contacts by address (approved_by), "
                "who then accept it; a "
                "team of one sets mode: ask, or action: stop"
            )
            found.append((("plan", name), why))
    return found


def _vouches(one: Override, name: str, known: frozenset[str]) -> bool:
    """Return whether two people vouch for a termination that nobody is asked about, and for which
    ones."""
    says = one.set.get("mode") == Mode.AUTO and one.set.get("plan", {}).get(name) == "terminate"
    return (
        bool(one.match.tags) and says and len({who.lower() for who in one.approved_by} & known) > 1
    )


def _wrong_names(items: Sequence[Any]) -> list[Mistake]:
    """Episodes record overrides by name, and messages show it: each needs one that is its own."""
    mistakes: list[Mistake] = []
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        path = ("overrides", str(index), "name")
        if not name or name != name.strip():
            mistakes.append(
                (path, f"is {shown(name)}; it must be text with no space before or after it")
            )
        if first.setdefault(name, index) != index:
            mistakes.append(
                (path, f"is the name of overrides.{first[name]}, too; give each its own")
            )
    return mistakes


def _holds(settings: object, path: Path) -> bool:
    for part in path:
        if not isinstance(settings, dict) or part not in settings:
            return isinstance(settings, list)
        settings = settings[part]
    return True


def _without_base_only(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in ONLY_IN_BASE}


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    """Made on first use: not every function reads a policy, nor every policy has overrides."""
    return TypeAdapter(kind)


def _checked(
    kind: type[_Made], settings: object, **given: Any
) -> tuple[_Made | None, list[Mistake]]:
    """A section of these settings, and of those that are `given` as they are; or what is wrong with
    them."""
    reader: TypeAdapter[_Made] = _reader(cast(Any, kind))
    try:
        # As JSON, in which a list may be a tuple and a text a choice, but no text is a number or a
        # flag.
        return replace(reader.validate_json(json.dumps(settings), strict=True), **given), []
    except ValidationError as error:
        return None, _mistakes(error)
    except SettingError as error:
        return None, list(error.mistakes)


def _mistakes(error: ValidationError) -> list[Mistake]:
    found: list[Mistake] = []
    for item in error.errors(include_url=False):
        path = tuple(str(part) for part in item["loc"])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, SettingError):
            found += [((*path, *inner), reason) for inner, reason in cause.mistakes]
        else:
            found.append((path, _reason(item)))
    return found


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


def _reason(item: ErrorDetails) -> str:
    kind = item["type"]
    if kind == "unexpected_keyword_argument":
        return "unknown setting"
    if kind == "missing":
        return "is missing"
    if kind not in _WANTED:
        return item["msg"].removeprefix("Value error, ")
    wanted = _WANTED[kind].format(**item.get("ctx", {}))
    # The validator shows members of an enum as Python writes them: <Action.STOP: 'stop'>.
    wanted = re.sub(r"<[^:>]*: ([^>]*)>", r"\1", wanted)
    return f"is {shown(item.get('input'))}; it must be {wanted}"


def _merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the patch on top; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        merged[key] = (
            _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged
