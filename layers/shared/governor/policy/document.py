"""The policy document: from YAML text to a policy book, with every mistake named by its path and
line.

The schema is the dataclasses of `policy.model`. An override is checked by the whole policy that it
leads to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from governor.core.errors import PolicyError, PolicyProblem
from governor.core.instance import Instance
from governor.core.settings import Mistake
from governor.policy.model.contacts import Ownership, addresses
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
from governor.policy.rules.recklessness import reckless_rules
from governor.policy.sections import (
    ONLY_IN_BASE,
    OverrideReading,
    merge,
    mistakes_of_overrides,
    read_overrides,
    split_document,
    with_profile_names,
    without_base_only,
    wrong_names,
)
from governor.policy.validation import validated
from governor.policy.yaml_document import Document, PartlyRead, Path, dotted, read_document


class PolicyBook:
    """A parsed policy document; answers which policy an instance is under. Fulfils the port
    `Policies`.

    `add_accounts`, `ask_over_budget` and `apply_acceptances` change the book, and return it.
    """

    whole = True
    """False if only people are from the document, and everything else is a default."""

    def __init__(self, document: Document, *, accepted: bool = False) -> None:
        """Check the whole document. `accepted` says that an earlier release has accepted it: rules
        about acting without people are not checked then.

        Raises: PolicyError, with every mistake.
        """
        self.document = document
        parts = split_document(document.settings)
        self._settings = parts.settings
        base, base_mistakes = validated(Policy, with_profile_names(parts.settings))
        readings = read_overrides(parts, frozenset(base_mistakes))
        # Nothing acts by a document that was accepted before: its guards may be left out.
        removed_guards = [] if accepted else parts.removed_guards
        mistakes = [
            *removed_guards,
            *parts.mistakes,
            *mistakes_of_overrides(readings),
            *base_mistakes,
            *wrong_names(parts.overrides),
        ]
        if base is None or mistakes:
            raise PolicyError(self._problems(mistakes))

        retired_reason = "is no longer a setting and is ignored; remove it"
        self.retired = tuple(self._problems((path, retired_reason) for path in parts.retired))
        """Settings of the release before that the document still holds: ignored, with a warning."""
        overrides: list[Override] = []
        override_policies: list[Policy] = []
        for reading in readings:
            if reading.override is not None:
                overrides.append(reading.override)
            if reading.policy is not None:
                override_policies.append(reading.policy)
        self.overrides = tuple(overrides)
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
        self._refuse_if(_reckless_anywhere(base, readings, self._people))

    def add_accounts(self, accounts: Iterable[str]) -> Self:
        """Add these accounts, those of the document's organizational units, to the targets of the
        policy. Policies that the book has made before are made again. Return the changed book."""
        policy = self._base.policy
        targets = replace(policy.targets, accounts=(*policy.targets.accounts, *accounts))
        self._base = replace(self._base, policy=replace(policy, targets=targets))
        self._applied = {(): self._base}
        return self

    def ask_over_budget(self, projects: Iterable[str]) -> Self:
        """From now on, ask about instances of these projects even if an override only observes
        them; an unanswered question then ends without an action. Return the changed book.

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
        """Return the hash of what people accept with this document: its overrides, and the settings
        that decide what these do, as 64 hexadecimal digits."""
        return terms_of_consent(self._settings, self.overrides)

    def apply_acceptances(self, acceptances: Acceptances) -> Self:
        """Let the overrides count from now on that these people have accepted, in place of earlier
        acceptances. Return the changed book.

        Acceptances of other terms than those of this document, and all of a document that needs
        none, count for nothing.
        """
        is_of_these_terms = self.needs_consent and acceptances.terms == self.terms
        self._accepted = acceptances if is_of_these_terms else NOBODY_ACCEPTED
        return self

    def unaccepted(self) -> tuple[Unaccepted, ...]:
        """Return the overrides that count as `ask` because people have not accepted them; empty if
        there are none."""
        return unaccepted(self.overrides, self._accepted.people)

    def base(self) -> AppliedPolicy:
        """Return the policy of the document without overrides."""
        return self._base

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of one instance: the document's, with the overrides for the instance;
        later overrides win.

        If an override lacks acceptances, mode `auto` becomes `ask`. If the project is over budget,
        `observe` does. Raises: PolicyError if the overrides contradict each other.
        """
        indices: list[int] = []
        for index, override in enumerate(self.overrides):
            if override.match.is_for(instance):
                indices.append(index)
        applied = self._with_consent(self.applied(tuple(indices)), tuple(indices))
        policy = applied.policy
        if policy.mode is not Mode.OBSERVE or not self._over_budget:
            return applied
        if owner_of(instance, policy.ownership).project not in self._over_budget:
            return applied
        approval = replace(policy.approval, on_expiry="no-action")
        asking_policy = replace(policy, mode=Mode.ASK, approval=approval)
        return replace(applied, policy=asking_policy, overrides=(*applied.overrides, BY_BUDGET))

    def applied(self, indices: tuple[int, ...]) -> AppliedPolicy:
        """Return the policy of the document under the overrides with these indices (places in
        `overrides`), as if everybody had accepted them. Each combination is made once.

        Raises: PolicyError if the overrides contradict each other.
        """
        if indices not in self._applied:
            self._applied[indices] = self._apply([self.overrides[index] for index in indices])
        return self._applied[indices]

    def _apply(self, chosen: Sequence[Override]) -> AppliedPolicy:
        """Return the policy of the document under these overrides, in their order. Raises:
        PolicyError, with every mistake, if they contradict each other, or would act with too few
        people."""
        names = tuple(override.name for override in chosen)
        settings = with_profile_names(self._settings)
        for override in chosen:
            settings = merge(settings, with_profile_names(override.set))
        # Only what an override can change is read again. People, for example, are those of the
        # base.
        from_base = {name: getattr(self._base.policy, name) for name in ONLY_IN_BASE}
        policy, mistakes = validated(Policy, without_base_only(settings), **from_base)
        if policy is not None:
            mistakes = reckless_rules(policy, chosen, self._people)
        if policy is None or mistakes:
            above = ("overrides", "+".join(names))
            problems = []
            for path, reason in mistakes:
                problems.append(PolicyProblem(dotted((*above, *path)), reason))
            raise PolicyError(problems)
        return AppliedPolicy(policy, self._base.version, names)

    def _with_consent(self, applied: AppliedPolicy, indices: tuple[int, ...]) -> AppliedPolicy:
        """Return the applied policy; with mode `ask` instead of `auto`, and no action on silence,
        if people have not consented to the overrides with these indices."""
        chosen = [self.overrides[index] for index in indices]
        policy = under_consent(applied.policy, chosen, self._accepted.people)
        if policy is applied.policy:
            return applied
        return replace(applied, policy=policy, overrides=(*applied.overrides, NOT_ACCEPTED))

    def _refuse_if(self, mistakes: Sequence[Mistake]) -> None:
        """Raise PolicyError if there are any mistakes; otherwise do nothing."""
        if mistakes:
            raise PolicyError(self._problems(mistakes))

    def _problems(self, mistakes: Iterable[Mistake]) -> list[PolicyProblem]:
        """Return the mistakes with dotted paths and their lines, in the order of the document;
        empty if there are none. A mistake without a line comes first."""
        problems = []
        for path, reason in mistakes:
            problems.append(PolicyProblem(dotted(path), reason, self.document.line(path)))
        return sorted(problems, key=lambda problem: problem.line or 0)


def parse_policy(text: str, *, accepted: bool = False) -> PolicyBook:
    """Return the policy book of a YAML document; an empty text means all defaults.

    `accepted` says that an earlier release has accepted the document: rules about acting without
    people are not checked, and nothing may act by it. Raises: PolicyError, with the path and line
    of every mistake.
    """
    try:
        document = read_document(text)
    except PartlyRead as error:
        raise PolicyError(_all_problems(error)) from None
    return PolicyBook(document, accepted=accepted)


def _all_problems(error: PartlyRead) -> list[PolicyProblem]:
    """Return the mistakes of a document that was read in part, with those of the settings that
    could be read, in the order of the document. Mistakes that follow from a setting that could not
    be read are left out."""
    problems = list(error.problems)
    try:
        PolicyBook(error.document)
    except PolicyError as mistakes:
        for problem in mistakes.problems:
            if not any(_is_within(problem.path, unread.path) for unread in error.problems):
                problems.append(problem)
    return sorted(problems, key=lambda problem: problem.line or 0)


def _is_within(path: str, outer: str) -> bool:
    """Return whether the dotted `path` is `outer`, or leads to a setting below it. An empty `outer`
    stands for the whole document."""
    return not outer or path == outer or path.startswith(f"{outer}.")


def parse_people_alone(text: str) -> PolicyBook:
    """Return a book with only the people of a document that this release refuses, and whether two
    people must stand behind a change. Everything else is a default, and `whole` is false.

    Settings of `ownership` with mistakes are left out. If `two_people_for_policy` cannot be read,
    it counts as true. A mistake in the document raises nothing.
    """
    try:
        settings = read_document(text).settings
    except (PolicyError, PartlyRead):
        settings = {"two_people_for_policy": True}
    ownership = settings.get("ownership", {})
    _, mistakes = validated(Ownership, ownership)
    while mistakes:
        ownership = _without_mistakes(ownership, mistakes)
        _, mistakes = validated(Ownership, ownership)
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
    """Delete from `settings` those that have these mistakes, and return `settings`. Return empty
    settings, a new mapping, if one of them cannot be deleted."""
    paths = {path for path, _ in mistakes}
    # The last item of a list first, so that the others keep their places.
    for path in sorted(paths, key=_sort_key, reverse=True):
        if not _dropped(settings, path):
            return {}
    return settings


def _sort_key(path: Path) -> list[str]:
    """Return a sort key for paths by which the indices of lists come in order of their number: `9`
    before `10`."""
    return [part.zfill(9) for part in path]


def _mentions_termination(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings or an override of a refused document name a termination. A `plan`
    or `approval` that is no mapping counts as if it did."""
    overrides = settings.get("overrides")
    items = overrides if isinstance(overrides, list) else []
    patches: list[object] = [settings]
    for item in items:
        if isinstance(item, dict):
            patches.append(item.get("set"))
    return any(_patch_mentions_termination(patch) for patch in patches)


def _patch_mentions_termination(patch: object) -> bool:
    """Return whether these settings, of the document or of one override, name a termination, or a
    question about one. Return false if `patch` is no mapping, and true if its `plan` or `approval`
    is none."""
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
    """Delete from `settings` the setting at this path; if it is not there, delete the nearest one
    around it. Return false, with nothing deleted, if there is none of these."""
    if not path:
        return False
    key: str | int = path[0]
    if isinstance(settings, list) and path[0].isdecimal():
        key = int(path[0])
    try:
        inside = settings[key]
    except (LookupError, TypeError):
        return False
    if not _dropped(inside, path[1:]):
        del settings[key]
    return True


def _needing_two_people(base: Policy, override_policies: Sequence[Policy]) -> Policy:
    """Return the base, with `two_people_for_policy: true` if the base or an override may lead to a
    termination. Call it only if the document does not set that itself."""
    if any(map(may_terminate, (base, *override_policies))):
        return replace(base, two_people_for_policy=True)
    return base


def _reckless_anywhere(
    base: Policy, read: Sequence[OverrideReading], people: frozenset[str] | None
) -> list[Mistake]:
    """Return the rules of the base and of each override that would act without people, or with too
    few; empty if there are none, or `people` is `None`. Rules of the base are not repeated."""
    reckless = reckless_rules(base, (), people)
    for index, reading in enumerate(read):
        if reading.override is None or reading.policy is None:
            continue
        above = ("overrides", str(index), "set")
        for path, reason in reckless_rules(reading.policy, (reading.override,), people):
            if (path, reason) not in reckless:
                reckless.append(((*above, *path), reason))
    return reckless
