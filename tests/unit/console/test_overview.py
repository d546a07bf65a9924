"""The Overview sums up what its reader may see, and says what to do where there is nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.terms import Scope
from governor.console.page import Page
from governor.console.views.figures import Rate
from governor.console.views.overview import overview
from governor.episode.model.episode import Failing
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import WORDS
from governor.fleet.model import FleetRow, Share
from governor.limits.model.breaker import BreakerState
from governor.table.keys import place
from tests.builders import NOW, make_entry
from tests.console_world import (
    TARGETS,
    ConsoleWorld,
    asked,
    caller,
    html,
    lively,
    make_row,
    without_argument_marks,
)
from tests.rights import only_what_the_role_allows

__all__ = ["only_what_the_role_allows"]
VISION = Scope(projects=frozenset({"vision"}))
TODAY = NOW.date()


def show(world: ConsoleWorld, scope: Scope | None = None) -> Page:
    return overview(world.asked(caller(scope) if scope else None))


def tile(world: ConsoleWorld, heading: str) -> tuple[str, str]:
    """The figure of a tile, and what stands below it."""
    page = re.sub(r"<a href=\"/fleet\?state=running\">(.*?)</a>", r"\1", html(overview, world))
    found = re.search(rf"<dt>{heading}</dt><dd.*?>([^<]+)</a></dd>\s*<dd>(.*?)</dd>", page, re.S)
    assert found
    return found[1], found[2]


def test_what_is_idle_now_is_said_with_its_share() -> None:
    """Two of three instances, by price; busy ones count in the whole."""
    world = ConsoleWorld()
    busy = make_row(3, verdict="busy", usd_per_hour=Decimal("18"), idle_since=None)
    world.keep(
        make_row(1, usd_per_hour=Decimal("5.67")), make_row(2, usd_per_hour=Decimal("0.33")), busy
    )

    assert ("$144 a day", "2 of 3 instances · 25% of $576 a day") == tile(world, "Idle right now")


def test_open_questions_say_the_oldest_and_the_next_to_expire() -> None:
    """One whose time is over is no longer open."""
    world = ConsoleWorld()
    over = asked(make_row(3), hours_ago=30, left=-1)
    world.keep(asked(make_row(1), hours_ago=9, left=15), asked(make_row(2), left=0.7), over)
    figure, text = tile(world, "Waiting for an answer")

    assert "2 questions" == figure
    assert "oldest 9 h · $48 a day · next expires in 42 min" == text


def test_a_question_that_stops_in_silence_says_so_beside_its_time() -> None:
    """One minute to a stop is not one minute to nothing."""
    world = ConsoleWorld()
    acting = replace(asked(make_row(1), left=0.5), acts_on_silence=True)
    world.keep(acting, asked(make_row(2), left=15))
    _, text = tile(world, "Waiting for an answer")
    page = html(overview, world)

    assert text.endswith("next is stopped in 30 min")
    assert '<td class="number">stopped in 30 min</td>' in page
    assert '<td class="number left">15 h</td>' in page


def test_an_open_question_says_how_long_its_instance_is_idle_as_the_fleet_does() -> None:
    """To the minute below 24 hours."""
    world = ConsoleWorld()
    world.keep(asked(make_row(1, idle_since=NOW - timedelta(hours=6, minutes=52))))

    page = html(overview, world)
    assert '<span class="phone">idle </span>6 h 52 min</td>' in page
    assert "idle 6 h 52 min</span>" in page


@pytest.mark.parametrize(
    ("price", "cell"),
    [
        (None, '<span class="phone">price </span>unknown'),
        (Decimal(0), "prepaid"),
        (Decimal(1), "<b class=rate>$24</b>"),
    ],
)
def test_an_open_question_says_the_price_as_the_fleet_does(price: Any, cell: str) -> None:
    """On a phone, `a day` follows an amount alone, and no word."""
    world = ConsoleWorld()
    world.keep(asked(make_row(1, usd_per_hour=price)))

    assert f'<td class="number">{cell}</td>' in html(overview, world)


def test_of_one_price_the_question_with_the_least_time_left_comes_first() -> None:
    """The price comes before it; a question that is not sent yet has no end, and comes last."""
    world = ConsoleWorld()
    not_sent = replace(asked(make_row(1)), asked_at=None, expires_at=None)
    dear = asked(make_row(2, usd_per_hour=Decimal(9)), left=20)
    world.keep(not_sent, asked(make_row(3), left=15), asked(make_row(4), left=3), dear)
    open_questions: Any = show(world).values["open"]

    expected = ["notebook-2", "notebook-4", "notebook-3", "notebook-1"]
    assert expected == [line.row.name for line in open_questions]


def test_a_price_that_is_not_known_is_in_no_amount() -> None:
    """And is said."""
    world = ConsoleWorld()
    world.keep(make_row(1), make_row(2, usd_per_hour=None))
    text = "2 of 2 instances · 100% of $24 a day · 1 of unknown price"

    assert ("$24 a day", text) == tile(world, "Idle right now")


def test_the_month_is_compared_with_as_much_of_the_month_before() -> None:
    """Not with the whole of it, which would make every month begin with a loss."""
    world = ConsoleWorld()
    last = NOW - timedelta(days=34)
    world.book(make_entry(1), make_entry(2, booked_at=last, ended_at=last + timedelta(hours=36)))
    figure, text = tile(world, "Saved this month, net")

    assert "$408" == figure
    assert "1 stop or termination · 0 undone · +100% compared with the same days of October" == text


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((), "No sweep has been stored yet"),
        (
            (make_row(1, verdict="busy"), make_row(2, verdict="no-data")),
            "Nothing is idle. 2 instances, 50% measured.",
        ),
    ],
)
def test_an_empty_page_says_why_and_what_is_next(rows: tuple[FleetRow, ...], expected: str) -> None:
    """Nothing idle is good news; nothing stored is not."""
    world = ConsoleWorld()
    world.keep(*rows)

    assert expected in html(overview, world)


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        (None, ["The first sweep", "An instance", "Metrics of the GPUs", "The first counted day"]),
        (
            (make_row(1, verdict="ungoverned"),),
            ["An instance", "Metrics of the GPUs", "The first counted day"],
        ),
        ((make_row(1, verdict="no-data"),), ["Metrics of the GPUs", "The first counted day"]),
        ((make_row(1), make_row(2, verdict="no-data")), ["The first counted day"]),
    ],
)
def test_before_the_first_day_the_missing_steps_stand_with_their_commands(
    rows: tuple[FleetRow, ...] | None, missing: list[str]
) -> None:
    """In place of a chart of $0.00; for those who see the whole fleet, as they set it up."""
    world = ConsoleWorld()
    if rows is not None:
        world.keep(*rows)
    text = without_argument_marks(html(overview, world))
    section = text.partition('aria-labelledby="days"')[2].partition("</section>")[0]
    steps = re.findall(r"<li>([^.<]+)\b[^<]*<code class=\"command\">([^<]+)</code>", section)

    assert "<svg" not in section
    assert len(missing) == len(steps)
    for words, (step, command) in zip(missing, steps, strict=True):
        assert step.startswith(words)
        assert command.startswith(("governor ", "aws ec2 create-tags --region REGION"))
    assert (rows is not None) == ('<dl class="tiles">' in text)
    mine = html(overview, world, caller(Scope(projects=frozenset({"vision"}))))
    assert "What is missing" not in mine
    assert "No costs are counted yet. Each sweep adds" in mine


def test_the_first_counted_day_ends_the_list_of_steps() -> None:
    text = html(overview, lively())
    assert "What is missing" not in text
    assert "<svg" in text.partition('aria-labelledby="days"')[2].partition("</section>")[0]


def test_who_sees_nothing_is_shown_where_that_is_set() -> None:
    """And not a word of what others have."""
    world = lively()
    found = html(overview, world, caller(Scope(projects=frozenset({"nothing"}))))

    assert "what you may see is set in console.scopes" in found
    assert "notebook" not in found


def test_problems_are_on_top() -> None:
    """Frozen plans, targets that could not be read, questions that nobody has, silent agents."""
    world = ConsoleWorld()
    world.state.begin_hub_freeze(
        BreakerState(NOW, "17 of 20 working instances turned idle in one sweep")
    )
    waiting = replace(asked(make_row(1)), asked_at=None, expires_at=None)
    world.keep(waiting, make_row(2, verdict="no-data"), problem="2 steps of the last sweep failed")
    found = [one.text for one in show(world).values["problems"]]  # type: ignore[attr-defined]

    assert [
        "All plans are frozen: 17 of 20 working instances turned idle in one sweep.",
        "123456789012/us-east-1: 2 steps of the last sweep failed.",
        "210987654321/eu-west-1 has not been swept yet.",
        "1 question not sent yet: notebook-1.",
        "1 instance cannot be judged ($24 a day).",
    ] == found


def test_states_are_shown_until_they_are_over_to_those_who_see_the_place() -> None:
    """With what is not done and what to do; the target is not reported a second time."""
    world = ConsoleWorld()
    mine, others = make_row(1), make_row(2, project="llm")
    world.keep(mine, others)
    hour_ago = NOW - timedelta(hours=1)
    away = StandingState(TARGETS[1], StateKind.NOT_ENABLED, "no", hour_ago, NOW)
    full = StandingState(TARGETS[0], StateKind.CANNOT_TAG, "50", hour_ago, NOW, mine.instance_id)
    world.state.note_standing(away)
    world.state.note_standing(full)
    world.state.note_standing(replace(full, instance_id=others.instance_id))

    found: Any = show(world).values["problems"]
    assert [
        ("Tags cannot be set: "
         f"{mine.instance_id} in {TARGETS[0]}, {others.instance_id} in {TARGETS[0]}. "
         f"{WORDS[StateKind.CANNOT_TAG].not_done}", WORDS[StateKind.CANNOT_TAG].to_do),
        (f"AWS refuses every call: {TARGETS[1]}. "
         f"{WORDS[StateKind.NOT_ENABLED].not_done}", WORDS[StateKind.NOT_ENABLED].to_do),
    ] == [(one.text, one.do) for one in found]  # fmt: skip
    seen: Any = show(world, VISION).values["problems"]
    assert [mine.instance_id in one.text for one in seen] == [True]
    assert others.instance_id not in seen[0].text
    world.state.drop_standing(world.state.standing_states())
    missing: Any = show(world).values["problems"]
    assert [f"{TARGETS[1]} has not been swept yet."] == [one.text for one in missing]


def test_a_state_hides_no_later_failure_of_its_target() -> None:
    """The sweep fails for another reason now, and that is shown."""
    world = ConsoleWorld()
    world.keep(make_row(1), minutes_ago=12)
    page = world.state.page(TARGETS[0])
    assert page is not None
    met_at = page.swept_at + timedelta(minutes=5)
    state = StandingState(TARGETS[0], StateKind.DENIED, "no", met_at, met_at)
    world.state.note_standing(state)

    def texts(failed_at: datetime) -> list[str]:
        key = ("UNSWEPT", place(TARGETS[0]))
        why = json.dumps({"Error": "Throttled", "Cause": "{}"})
        item = {"pk": key[0], "sk": key[1], "failed_at": failed_at.isoformat(), "why": why}
        world.state.items[key] = item
        found: Any = show(world).values["problems"]
        return [one.text for one in found]

    failed = f"{TARGETS[0]}: its last sweep failed: Throttled."
    assert failed not in texts(met_at - timedelta(minutes=1))
    later = texts(met_at + timedelta(minutes=5))
    assert failed in later
    assert not any(WORDS[StateKind.DENIED].what in text for text in later)


def test_a_state_that_the_last_sweep_did_not_meet_hides_nothing() -> None:
    """It stays in the table until the message that it is over was sent; the target's own problem
    is shown meanwhile."""
    world = ConsoleWorld()
    world.keep(make_row(1))
    before = NOW - timedelta(hours=1)
    world.state.note_standing(StandingState(TARGETS[0], StateKind.DENIED, "no", before, before))
    page = world.state.page(TARGETS[0])
    assert page is not None
    assert page.swept_at > before
    world.state.keep_page(replace(page, problem="3 tags were not set"))

    found: Any = show(world).values["problems"]
    texts = [one.text for one in found]
    assert f"{TARGETS[0]}: 3 tags were not set." in texts
    assert not any("may not list instances" in text for text in texts)


def failing(number: int = 1, **changes: Any) -> Failing:
    """A workflow of an instance that failed an hour ago."""
    row = make_row(number)
    reason, at = "AccessDenied: ec2:StopInstances", NOW - timedelta(hours=1)
    plain = Failing(TARGETS[0], row.instance_id, row.name, "denied", reason, "stop", at)
    plain = replace(plain, owner=row.owner, project=row.project)
    return replace(plain, **changes)


@pytest.mark.parametrize("before", [{"project": "llm"}, {"project": "", "owner": ""}])
def test_what_failed_for_the_former_owner_is_theirs(before: dict[str, str]) -> None:
    """Its name and the reason; also where an earlier release did not note whose it was."""
    world = ConsoleWorld()
    world.keep(make_row(1))
    world.state.note_failing(failing(1, name="secret", **before))
    assert "secret" not in html(overview, world, caller(VISION))
    assert "secret" in html(overview, world)


def test_failed_workflows_are_one_problem_for_each_cause() -> None:
    """Failed steps, instances, the cause, and where to look; not what works again or others
    have."""
    world = ConsoleWorld()
    world.keep(make_row(1), make_row(2), make_row(3), make_row(4, project="llm"))
    nobody = "NobodyListens: no channel has delivered the message: 410 Gone"
    for one in (
        *(failing(number, at=NOW - timedelta(hours=number)) for number in (1, 2)),
        failing(3, cause="unheard", step="ask", reason=nobody),
        failing(4, cause="of others"),
        failing(1, cause="over", over_at=NOW),
        failing(9, cause="gone"),
    ):
        world.state.note_failing(one)
    found: Any = [one for one in show(world, VISION).values["problems"] if "not" in one.text[:9]]  # type: ignore[attr-defined]

    assert [
        ("Could not stop notebook-1, notebook-2. A permission is missing: ec2:StopInstances.", 1),
        (
            "Could not ask about notebook-3. The message would have reached nobody: no "
            "channel has delivered the "
            "message: 410 Gone.",
            3,
        ),
    ] == [(one.text, int(one.href[-2:], 16)) for one in found]
    assert "See what was done</a>" in html(overview, world)


def test_the_navigation_counts_the_open_questions() -> None:
    """Those of the tile and of the Questions page, also one that is not sent yet; none is no
    number."""
    world = ConsoleWorld()
    world.keep(make_row(1))
    assert ">Questions</a>" in html(overview, world)
    waiting = replace(asked(make_row(2)), asked_at=None, expires_at=None)
    world.keep(
        asked(make_row(1)), waiting, asked(make_row(3), left=-1), asked(make_row(4, project="llm"))
    )

    page = html(overview, world, caller(VISION))
    for words in (">Questions (2)</a>", "2 questions</a>", "not sent yet</td>"):
        assert words in page


def test_a_freeze_does_not_count_the_instances_of_others() -> None:
    """Its reason is a sum over everybody."""
    world = ConsoleWorld()
    world.state.begin_hub_freeze(
        BreakerState(NOW, "17 of 20 working instances turned idle in one sweep")
    )
    world.keep(make_row(1))

    assert "17 of 20" in html(overview, world)
    assert "17 of 20" not in html(overview, world, caller(VISION))


owners = st.sampled_from(["ml-team", "research", "unassigned"])
projects = st.sampled_from(["vision", "llm"])
verdicts = st.sampled_from(
    ["busy", "idle", "no-data", "exempt", "frozen", "managed-elsewhere", "unheard-of"]
)


@st.composite
def rows(draw: st.DrawFn) -> list[FleetRow]:
    """Draw rows of several owners, projects and accounts, with a price or without, some with a
    question."""
    made = []
    for number in range(draw(st.integers(0, 12))):
        target = draw(st.sampled_from(TARGETS))
        price = draw(st.none() | st.decimals(0, 100, places=3))
        row = make_row(number, verdict=draw(verdicts), owner=draw(owners), project=draw(projects))
        row = replace(row, account=target.account, region=target.region, usd_per_hour=price)
        made.append(asked(row) if draw(st.booleans()) else row)
    return made


@given(
    rows(),
    st.sampled_from([None, VISION, Scope(owners=frozenset({"research"}), accounts=frozenset())]),
)
def test_sums_are_those_of_the_rows_that_the_reader_sees(
    found: list[FleetRow], scope: Scope | None
) -> None:
    """Idle, silent, asked and all: instances and USD an hour, to the last digit."""
    world = ConsoleWorld()
    world.keep(*found)
    scope = scope or Scope(everything=True)
    mine = [row for row in found if scope.sees(row.account, row.project, row.owner)]
    kinds = {
        "fleet": mine,
        "idle": [row for row in mine if row.verdict in ("idle", "frozen", "managed-elsewhere")],
        "cannot_be_judged": [row for row in mine if row.verdict in ("no-data", "unheard-of")],
        "questions": [row for row in mine if row.asked_at],
    }
    page = show(world, scope)

    for name, kind in kinds.items():
        whole = sum((row.usd_per_hour or Decimal(0) for row in kind), Decimal(0))
        unpriced = sum(row.usd_per_hour is None for row in kind)
        assert Rate(len(kind), whole, unpriced) == page.document[name]
    listed = {row[0] for table in page.tables if table.name != "days" for row in table.rows}
    assert listed <= {row.instance_id for row in mine}


def test_days_are_those_of_the_costs_that_the_reader_sees() -> None:
    """Days of one project, in both accounts; the avoided cost is that project's alone."""
    world = ConsoleWorld()
    mine, others = ("ml-team", "vision"), ("research", "llm")
    share = Share(Decimal(10), Decimal(2), Decimal(1), Decimal("0.5"))
    for target in TARGETS:
        world.spend(TODAY, {mine: share, others: Share(Decimal(1000))}, target)
    world.book(make_entry(1), make_entry(2, owner="research", project="llm"))
    days: Any = show(world, VISION).document["days"]
    last = days[-1]
    avoided = Decimal("5.67") * (12 * 3600 + 150) / 3600

    assert (TODAY, 20, 4, 2, 1) == tuple(
        last[name] for name in ("day", "used_usd", "idle_usd", "kept_usd", "not_measured_usd")
    )
    assert abs(avoided - last["avoided_usd"]) < Decimal("1e-9")
