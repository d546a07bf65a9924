"""Finds overrides that may match the same instance, and those that contradict each other there.

The search is bounded by counted work, so that it gives the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from governor.core.errors import PolicyError, PolicyProblem
from governor.policy.document import PolicyBook
from governor.policy.model.policy import OverrideMatch, Policy
from governor.policy.yaml_document import shown

MOST_COMBINATIONS = 1_000
MOST_COMPARISONS = 500_000
"""Comparisons of two overrides each: about a second, when many overrides can meet."""


@dataclass(frozen=True, slots=True)
class Meetings:
    """The policies where several overrides are for the same instance.

    `policies` by the names of the overrides; `problems` where they contradict each other.
    `all_tried` is false if the search ended before every combination was tried.
    """

    policies: tuple[tuple[tuple[str, ...], Policy], ...]
    problems: tuple[PolicyProblem, ...]
    all_tried: bool


def policies_of(book: PolicyBook) -> list[tuple[str, Policy]]:
    """Return the base and each override by itself on top of it, with their names."""
    policies = [("base", book.base().policy)]
    for index, override in enumerate(book.overrides):
        policies.append((override.name, book.applied((index,)).policy))
    return policies


def meetings(book: PolicyBook, comparisons: int = MOST_COMPARISONS) -> Meetings:
    """Try the overrides that can be for one instance together, few at a time first.

    The search ends after `comparisons` of two overrides, or after the thousandth combination.
    """
    search = _Search(tuple(override.match for override in book.overrides), comparisons)
    policies: list[tuple[tuple[str, ...], Policy]] = []
    problems: list[PolicyProblem] = []
    refused: list[frozenset[int]] = []
    combinations = search.combinations()
    for together in islice(combinations, MOST_COMBINATIONS):
        if any(fewer <= set(together) for fewer in refused):
            continue
        names = tuple(book.overrides[index].name for index in together)
        try:
            policies.append((names, book.applied(together).policy))
        except PolicyError as error:
            refused.append(frozenset(together))
            problems += _problems(book, together, error)
    all_tried = next(combinations, None) is None and not search.ended
    return Meetings(tuple(policies), tuple(problems), all_tried)


def _problems(
    book: PolicyBook, together: Sequence[int], error: PolicyError
) -> Iterator[PolicyProblem]:
    """Yield why these overrides contradict each other, at the last one of them."""
    names = [book.overrides[index].name for index in together]
    where = f"where {', '.join(map(shown, names))} meet"
    prefix = f"overrides.{'+'.join(names)}."
    last = str(together[-1])
    line = book.document.line(("overrides", last))
    for problem in error.problems:
        setting = problem.path.removeprefix(prefix)
        reason = f"{where}: {setting}: {problem.reason}"
        yield PolicyProblem(f"overrides.{last}", reason, line)


class _Search:
    """Finds the overrides that are for some instance together, with no other."""

    def __init__(self, matches: tuple[OverrideMatch, ...], comparisons: int) -> None:
        self.ended = False
        """The search was given up."""
        self._matches = matches
        self._left = comparisons

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Yield two and more overrides by their indices, fewer first."""
        wave: list[tuple[tuple[int, ...], OverrideMatch]] = [((), OverrideMatch())]
        seen: set[tuple[int, ...]] = set()
        while wave:
            next_wave: list[tuple[tuple[int, ...], OverrideMatch]] = []
            for members, match in wave:
                for index, override_match in enumerate(self._matches):
                    if self._left <= 0:
                        self.ended = True
                        return
                    self._left -= 1
                    both = None if index in members else joined(match, override_match)
                    if both is None:
                        continue
                    together = self._all_that_hold(both)
                    if together in seen:
                        continue
                    seen.add(together)
                    next_wave.append((together, both))
                    if len(together) > 1:
                        yield together
            wave = next_wave

    def _all_that_hold(self, match: OverrideMatch) -> tuple[int, ...]:
        """Return the overrides that are for all these instances.

        An override for everyone whom two others are for is always with them.
        """
        self._left -= len(self._matches)
        indices = []
        for index, override_match in enumerate(self._matches):
            if joined(match, override_match) == match:
                indices.append(index)
        return tuple(indices)


def joined(first: OverrideMatch, second: OverrideMatch) -> OverrideMatch | None:
    """Return the instances that both are for, or `None` if there can be none."""
    if any(second.tags.get(key, value) != value for key, value in first.tags.items()):
        return None
    families = _in_both(first.instance_families, second.instance_families)
    accounts = _in_both(first.accounts, second.accounts)
    regions = _in_both(first.regions, second.regions)
    if families is None or accounts is None or regions is None:
        return None
    return OverrideMatch({**first.tags, **second.tags}, families, accounts, regions)


def _in_both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names in both, or `None`. An empty condition holds for all."""
    if not first or not second:
        return first or second
    return tuple(name for name in first if name in second) or None
