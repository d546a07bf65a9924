"""Overrides that can be for the same instance, and whether they contradict each other there.

The search is bounded by counted work, so that it gives the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from governor.contracts.policy import PolicyBook
from governor.contracts.yaml_document import shown
from governor.domain.policy.policy import OverrideMatch, Policy
from governor.errors import PolicyError, PolicyProblem

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
    alone = [(one.name, book.applied((index,)).policy) for index, one in enumerate(book.overrides)]
    return [("base", book.base().policy), *alone]


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
        if any(one <= set(together) for one in refused):
            continue
        names = tuple(book.overrides[index].name for index in together)
        try:
            policies.append((names, book.applied(together).policy))
        except PolicyError as error:
            refused.append(frozenset(together))
            where = f"where {', '.join(map(shown, names))} meet"
            above, path = f"overrides.{'+'.join(names)}.", f"overrides.{together[-1]}"
            line = book.document.line(("overrides", str(together[-1])))
            problems += [
                PolicyProblem(path, f"{where}: {one.path.removeprefix(above)}: {one.reason}", line)
                for one in error.problems
            ]
    all_tried = next(combinations, None) is None and not search.ended
    return Meetings(tuple(policies), tuple(problems), all_tried)


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
            following: list[tuple[tuple[int, ...], OverrideMatch]] = []
            for members, match in wave:
                for index, other in enumerate(self._matches):
                    if self._left <= 0:
                        self.ended = True
                        return
                    self._left -= 1
                    both = None if index in members else joined(match, other)
                    if both is None:
                        continue
                    # An override for everyone whom these are for is always with them.
                    self._left -= len(self._matches)
                    together = tuple(
                        i for i, one in enumerate(self._matches) if joined(both, one) == both
                    )
                    if together in seen:
                        continue
                    seen.add(together)
                    following.append((together, both))
                    if len(together) > 1:
                        yield together
            wave = following


def joined(one: OverrideMatch, other: OverrideMatch) -> OverrideMatch | None:
    """Return the instances that both are for, or `None` if there can be none."""
    if any(other.tags.get(key, value) != value for key, value in one.tags.items()):
        return None
    families = _in_both(one.instance_families, other.instance_families)
    accounts = _in_both(one.accounts, other.accounts)
    regions = _in_both(one.regions, other.regions)
    if families is None or accounts is None or regions is None:
        return None
    return OverrideMatch({**one.tags, **other.tags}, families, accounts, regions)


def _in_both(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names in both, or `None`. An empty condition holds for all."""
    if not some or not others:
        return some or others
    return tuple(one for one in some if one in others) or None
