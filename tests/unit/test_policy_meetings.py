"""Overrides that can be for the same instance are tried together, up to a counted limit."""

from __future__ import annotations

import pytest

from cli import policy_meetings
from cli.policy_meetings import joined, meetings
from governor.core.errors import PolicyError
from governor.policy.document import parse_policy
from governor.policy.model.policy import OverrideMatch
from tests.builders import make_instance

CONTRADICTION = """metrics: {period_seconds: 60}
overrides:
  - {name: a, match: {tags: {A: a}}, set: {idle: {window_minutes: 61}}}
  - name: b
    match: {%s}
    set: {metrics: {period_seconds: 300}}
"""


@pytest.mark.parametrize(
    ("match", "can_meet"),
    [
        ("tags: {B: b}", True),
        ("instance_families: [p5]", True),
        ("", True),
        ("tags: {A: b}", False),
    ],
)
def test_overrides_that_contradict_each_other_where_they_meet_are_found(
    match: str, can_meet: bool
) -> None:
    """Each is fine alone, and an instance of both could never be judged."""
    book = parse_policy(CONTRADICTION % match)
    found = [(one.line, one.path, one.reason.partition(":")[0]) for one in meetings(book).problems]

    assert ([(4, "overrides.1", "where 'a', 'b' meet")] if can_meet else []) == found
    if "B" in match:
        with pytest.raises(PolicyError, match=r"overrides.a\+b.idle.window_minutes"):
            book.applied_to(make_instance(tags={"A": "a", "B": "b"}))


def test_three_that_contradict_only_together_are_found() -> None:
    """And not once more for each that may come along."""
    book = parse_policy(
        """overrides:
  - {name: a, match: {tags: {A: a}}, set: {approval: {remind_after_minutes: 10000}}}
  - {name: b, match: {tags: {B: b}}, set: {approval: {escalate_after_minutes: 10000}}}
  - {name: c, match: {tags: {C: c}}, set: {approval: {expire_after_minutes: 10000}}}
  - {name: d, match: {tags: {D: d}}, set: {mode: ask}}
"""
    )
    (problem,) = meetings(book).problems
    reason = (
        "where 'a', 'b', 'c' meet: approval.expire_after_minutes: a question would "
        "stay open for 20 days"
    )
    assert problem.reason.startswith(reason)


def test_an_override_for_all_is_always_with_the_others() -> None:
    """A contradiction that it mends is none."""
    mended = (
        CONTRADICTION % "tags: {B: b}"
        + "  - {name: all, match: {}, set: {metrics: {period_seconds: 60}}}\n"
    )
    met = meetings(parse_policy(mended))

    assert () == met.problems
    assert {("a", "all"), ("b", "all"), ("a", "b", "all")} == {names for names, _ in met.policies}


def many(number_of: int) -> str:
    """Overrides that can all meet."""
    return "overrides:\n" + "".join(
        f"  - {{name: o{number}, match: {{tags: {{T{number}: x}}}}, set: {{}}}}\n"
        for number in range(number_of)
    )


def test_so_many_combinations_are_not_all_tried() -> None:
    """And the result says so."""
    met = meetings(parse_policy(many(40)))
    assert (False, 1_000) == (met.all_tried, len(met.policies))


def test_people_are_not_read_anew_for_every_combination() -> None:
    """Many people and many overrides: no override can change the people."""
    contacts = "".join(f"    c{number}: {{emails: [c{number}@a.io]}}\n" for number in range(1_200))
    book = parse_policy(f"ownership:\n  contacts:\n{contacts}{many(300)}")
    met = meetings(book)

    assert not met.all_tried
    assert met.policies
    assert all(policy.ownership is book.base().policy.ownership for _, policy in met.policies)


@pytest.mark.parametrize("comparisons", [0, 500, 50_000])
def test_the_search_ends_by_counted_work(monkeypatch: pytest.MonkeyPatch, comparisons: int) -> None:
    """On every machine at the same combination, however slow it is."""
    made: list[OverrideMatch] = []

    def counted(one: OverrideMatch, other: OverrideMatch) -> OverrideMatch | None:
        made.append(one)
        return joined(one, other)

    monkeypatch.setattr(policy_meetings, "joined", counted)
    met = meetings(parse_policy(many(100)), comparisons)

    assert not met.all_tried
    assert comparisons + 100 >= len(made)
    assert (comparisons > 500) == bool(met.policies)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (OverrideMatch(), OverrideMatch(), OverrideMatch()),
        (
            OverrideMatch(tags={"A": "a"}),
            OverrideMatch(tags={"B": "b"}),
            OverrideMatch(tags={"A": "a", "B": "b"}),
        ),
        (OverrideMatch(tags={"A": "a"}), OverrideMatch(tags={"A": "b"}), None),
        (
            OverrideMatch(instance_families=("p4d", "p5")),
            OverrideMatch(instance_families=("p5", "g5"), regions=("us-east-1",)),
            OverrideMatch(instance_families=("p5",), regions=("us-east-1",)),
        ),
        (OverrideMatch(accounts=("1" * 12,)), OverrideMatch(accounts=("2" * 12,)), None),
        (OverrideMatch(regions=("us-east-1",)), OverrideMatch(regions=("us-west-2",)), None),
    ],
)
def test_overrides_meet_where_both_hold(
    one: OverrideMatch, other: OverrideMatch, both: OverrideMatch | None
) -> None:
    """Whichever is asked."""
    assert both == joined(one, other) == joined(other, one)
