"""Two answers at once, each pair of them: nobody's protection is lost.

One answer is taken in the middle of the other: between its reads and each of its writes. Whoever
was told that their keep, exemption or hold counts is protected afterwards, whatever the other one
did.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.answers import hold_hash
from governor.approvals.show_approval import ApprovalView
from governor.core.errors import DecisionRefused
from governor.episode.model.plan import Step
from governor.table import keys
from governor.verdict.model import NO_HOLD, Hold
from tests.builders import NOW, TARGET
from tests.unit.remediation.test_undo import stopped, undo
from tests.unit.worlds.builders import decider
from tests.unit.worlds.world import APPROVAL_ID, World

ALICE, BOB = "alice@example.com", "bob@example.com"
SHORT, LONG = NOW + timedelta(days=2), NOW + timedelta(days=3)
_MOST_WRITES = 12


def asked() -> World:
    """A question waits."""
    return World(decide=False)


def approved() -> World:
    """Somebody has said yes, and nothing was done yet."""
    return World()


def kept() -> World:
    """Alice has kept it."""
    world = asked()
    _decide(world, ALICE, Answer.KEEP, keep_until=SHORT)
    return world


def exempted() -> World:
    """Alice has exempted it."""
    world = asked()
    _decide(world, ALICE, Answer.EXEMPT, reason="a license server")
    return world


def approved_and_exempt() -> World:
    """An exemption stands, of an answer before, and somebody has said yes."""
    world = approved()
    world.state.store_hold(
        TARGET, world.ref.instance_id, Hold(exempt_reason="a demo (alice)", exempt_in="vision")
    )
    return world


def kept_by_a_brake() -> World:
    """Alice has kept it after the yes."""
    world = approved()
    _decide(world, ALICE, Answer.KEEP, keep_until=SHORT)
    return world


def over() -> World:
    """A question has stopped it."""
    return stopped()


STATES: tuple[Callable[[], World], ...] = (
    asked,
    approved,
    kept,
    exempted,
    approved_and_exempt,
    kept_by_a_brake,
    over,
)


@dataclass(frozen=True)
class Given:
    """The protection of an answer that counted: until when it is kept, whether it is exempt or
    held."""

    until: datetime | None = None
    is_exempt: bool = False
    is_held: bool = False
    ends: str = ""
    """`keep` or `hold` for an answer that ends the protection of others."""


def _decide(world: World, person: str, answer: Answer, **more: Any) -> None:
    decide = decider(world)
    by = f"link:{person}"
    given = Decision(answer, by, "page", world.clock.now(), person=person, **more)
    decide(APPROVAL_ID, given, typed_instance_id=world.ref.instance_id, losses_accepted=True)


def approve(world: World, person: str) -> Given:
    _decide(world, person, Answer.APPROVE)
    return Given()


def keep(world: World, person: str) -> Given:
    _decide(world, person, Answer.KEEP, keep_until=SHORT)
    return Given(until=SHORT)


def keep_longer(world: World, person: str) -> Given:
    _decide(world, person, Answer.KEEP, keep_until=LONG)
    return Given(until=LONG)


def exempt(world: World, person: str) -> Given:
    _decide(world, person, Answer.EXEMPT, reason="a demo")
    return Given(is_exempt=True)


def hold(world: World, person: str) -> Given:
    _decide(world, person, Answer.HOLD)
    return Given(is_held=True)


def keep_elsewhere(world: World, person: str) -> Given:
    """As another question about the instance, or an undo, has it."""
    del person
    world.state.store_hold(
        TARGET, world.ref.instance_id, Hold(snoozed_until=LONG, kept_in="vision")
    )
    return Given(until=LONG)


def exempt_elsewhere(world: World, person: str) -> Given:
    world.state.store_hold(
        TARGET, world.ref.instance_id, Hold(exempt_reason=f"x ({person})", exempt_in="vision")
    )
    return Given(is_exempt=True)


def end_keep(world: World, person: str) -> Given:
    decide = decider(world)
    approval = world.state.existing(APPROVAL_ID)
    episode = world.state.episode(world.ref)
    assert episode is not None
    view = ApprovalView(approval, episode, world.clock.now())
    decide.end_keep(view, f"link:{person}", person, Role.APPROVER)
    return Given(ends="keep")


def end_hold(world: World, person: str) -> Given:
    """An admin ends what the page shows, whatever it is."""
    decide = decider(world)
    instance_id = world.ref.instance_id
    shown = hold_hash(world.state.record(TARGET, instance_id).hold)
    decide.end_hold(TARGET, instance_id, f"oidc:{person}", shown, lambda _: True)
    return Given(ends="hold")


def undo_it(world: World, person: str) -> Given:
    if not undo(world, person).done:
        raise DecisionRefused("not started")
    hours = world.policies.policy.approval.keep_after_undo_hours
    return Given(until=world.clock.now() + timedelta(hours=hours))


ANSWERS: tuple[Callable[[World, str], Given], ...] = (
    approve,
    keep,
    keep_longer,
    exempt,
    hold,
    keep_elsewhere,
    exempt_elsewhere,
    end_keep,
    end_hold,
    undo_it,
)


def _tried(answer: Callable[[World, str], Given], world: World, person: str) -> Given | None:
    """Return what an answer gave that counted; `None` for one that was refused."""
    try:
        return Context().run(answer, world, person)
    except DecisionRefused:
        return None


def _standing(world: World) -> Hold:
    return world.state.record(TARGET, world.ref.instance_id).hold


@dataclass
class Pair:
    """One answer in the middle of another, right before its n-th write."""

    world: World
    inner: Callable[[World, str], Given]
    number: int
    seen: int = 0
    was_reached: bool = False
    given: Given | None = None
    seen_by_inner: Hold = NO_HOLD
    """The hold that stood when the inner answer began."""

    def play(self, outer: Callable[[World, str], Given]) -> Given | None:
        memory = self.world.state.memory
        transact = memory.transact

        def interrupted(*writes: Any) -> None:
            self.seen += 1
            if self.seen == self.number:
                self.was_reached = True
                memory.transact = transact  # type: ignore[method-assign]
                self.seen_by_inner = Context().run(_standing, self.world)
                self.given = _tried(self.inner, self.world, BOB)
            transact(*writes)

        memory.transact = interrupted  # type: ignore[method-assign]
        try:
            return _tried(outer, self.world, ALICE)
        finally:
            memory.transact = transact  # type: ignore[method-assign]


@pytest.mark.parametrize("begin", STATES, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    ("outer", "inner"), [*product(ANSWERS, ANSWERS)], ids=lambda one: one.__name__
)
def test_no_pair_of_answers_loses_what_protects(
    begin: Callable[[], World],
    outer: Callable[[World, str], Given],
    inner: Callable[[World, str], Given],
) -> None:
    """The inner answer comes after the outer one has read, and before it writes: it ends nothing
    new."""
    for number in range(1, _MOST_WRITES):
        world = begin()
        before = _standing(world)
        pair = Pair(world, inner, number)
        given = pair.play(outer)
        if not pair.was_reached:
            return
        after = _standing(world)
        counted = [one for one in (given, pair.given) if one is not None]
        ended = {one.ends for one in counted} - {""}

        for one in counted:
            # An undo is stored before it is done: an admin may see it, and end it.
            was_seen = one.until is not None and _is_kept(pair.seen_by_inner, one.until)
            is_ended = (
                one is given and was_seen and pair.given is not None and pair.given.ends == "hold"
            )
            assert one.until is None or is_ended or _is_kept(after, one.until), number
            assert not one.is_exempt or after.exempt_reason is not None, number
            assert not one.is_held or _is_held(world), number
        if not ended:
            assert before.snoozed_until is None or _is_kept(after, before.snoozed_until), number
        if "hold" not in ended:
            assert before.exempt_reason is None or after.exempt_reason is not None, number
    raise AssertionError("it kept writing")


def _is_kept(after: Hold, until: datetime) -> bool:
    return after.snoozed_until is not None and after.snoozed_until >= until


def _is_held(world: World) -> bool:
    approval = world.state.existing(APPROVAL_ID)
    return approval.hold is not None or approval.status is not ApprovalStatus.APPROVED


def test_an_ended_hold_takes_no_keep_with_it_that_came_meanwhile() -> None:
    """As it was seen: an exemption was read, somebody added a keep, and the end took both."""
    world = approved_and_exempt()
    pair = Pair(world, keep_elsewhere, 1)
    given = pair.play(end_hold)

    after = _standing(world)
    assert (None, LONG) == (given, after.snoozed_until)
    assert after.exempt_reason is not None


def test_a_shorter_keep_that_came_meanwhile_is_another_one() -> None:
    """Somebody ended what the page showed, and another kept it for a day: that keep stays."""
    world = kept()
    seen = _standing(world)

    def ended_and_kept_anew(world: World, person: str) -> Given:
        world.clock.moment += timedelta(seconds=1)
        end_hold(world, person)
        later = replace(seen, snoozed_until=NOW + timedelta(days=1))
        world.state.store_hold(TARGET, world.ref.instance_id, later)
        return Given(until=later.snoozed_until)

    pair = Pair(world, ended_and_kept_anew, 1)

    assert pair.play(end_hold) is None
    assert NOW + timedelta(days=1) == _standing(world).snoozed_until


def keep_elsewhere_as_long(world: World, person: str) -> Given:
    """As another question has it, with the date that Alice's keep has, too."""
    del person
    bobs = Hold(snoozed_until=SHORT, kept_in="vision", kept_by="approval-of-bob")
    world.state.store_hold(TARGET, world.ref.instance_id, bobs)
    return Given(until=SHORT)


def undo_elsewhere_as_long(world: World, person: str) -> Given:
    """As an undo has it, which no question asked for."""
    del person
    world.state.store_hold(
        TARGET, world.ref.instance_id, Hold(snoozed_until=SHORT, kept_in="vision")
    )
    return Given(until=SHORT)


AS_LONG = (keep_elsewhere_as_long, undo_elsewhere_as_long)


@pytest.mark.parametrize("again", AS_LONG, ids=lambda one: one.__name__)
@pytest.mark.parametrize("begin", [kept, kept_by_a_brake], ids=lambda one: one.__name__)
@pytest.mark.parametrize("was_ended", [True, False])
def test_an_old_page_ends_no_later_keep_with_the_same_end(
    again: Callable[[World, str], Given], begin: Callable[[], World], was_ended: bool
) -> None:
    """An admin ended Alice's keep or not, another one came with its date, and she ends hers."""
    world = begin()
    if was_ended:
        end_hold(world, "admin@example.com")
    again(world, BOB)
    with pytest.raises(DecisionRefused, match="kept it again"):
        end_keep(world, ALICE)

    assert SHORT == _standing(world).snoozed_until
    assert world.state.existing(APPROVAL_ID).keep_ended_at is None


@pytest.mark.parametrize("again", AS_LONG, ids=lambda one: one.__name__)
@pytest.mark.parametrize("number", range(1, _MOST_WRITES))
def test_no_keep_with_the_same_end_that_comes_meanwhile_is_ended(
    again: Callable[[World, str], Given], number: int
) -> None:
    """Between the reads and the write of an end."""
    world = kept()
    pair = Pair(world, again, number)
    given = pair.play(end_keep)

    assert pair.was_reached == (given is None)
    assert pair.was_reached == (_standing(world).snoozed_until is not None)


@pytest.mark.parametrize("begin", [kept, kept_by_a_brake], ids=lambda one: one.__name__)
@pytest.mark.parametrize("is_of_the_release_before", [True, False])
def test_a_keep_is_ended_by_its_own_question(
    begin: Callable[[], World], is_of_the_release_before: bool
) -> None:
    """The release before noted no question: the date says whose it is."""
    world = begin()
    item = world.state.memory.items[keys.holds(TARGET, world.ref.instance_id)[0]]
    assert APPROVAL_ID == item["kept_by"]
    if is_of_the_release_before:
        del item["kept_by"]
    end_keep(world, ALICE)

    assert NO_HOLD == _standing(world)


def test_a_page_of_the_console_ends_no_later_keep_with_the_same_end() -> None:
    """It shows Alice's keep, and another one stands by the time of the press."""
    world = kept()
    shown = _standing(world)
    keep_elsewhere_as_long(world, BOB)

    assert hold_hash(shown) != hold_hash(_standing(world))


DAY = NOW + timedelta(days=1)
QUESTION_OF_BOB = "approval-of-bob"


def keep_of_bob(world: World, until: datetime) -> None:
    """As the answer to another question about the instance has it."""
    world.state.store_hold(
        TARGET, world.ref.instance_id, Hold(until, kept_in="vision", kept_by=QUESTION_OF_BOB)
    )


def keep_of_an_undo(world: World, until: datetime) -> None:
    world.state.store_hold(TARGET, world.ref.instance_id, Hold(until, kept_in="vision"))


OTHERS = (keep_of_bob, keep_of_an_undo)
ENDS = (end_keep, end_hold)


@pytest.mark.parametrize("until", [DAY, SHORT])
@pytest.mark.parametrize("comes_first", [True, False])
@pytest.mark.parametrize("end", ENDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("begin", [asked, approved], ids=lambda one: one.__name__)
def test_a_shorter_keep_holds_again_when_the_longer_one_ends(
    begin: Callable[[], World],
    other: Callable[[World, datetime], None],
    end: Callable[[World, str], Given],
    comes_first: bool,
    until: datetime,
) -> None:
    """A keep of any other question, or of an undo: it was promised, and nobody has ended it."""
    world = begin()
    if comes_first:
        other(world, until)
    keep_longer(world, ALICE)
    if not comes_first:
        other(world, until)
    assert LONG == _standing(world).snoozed_until
    end(world, ALICE)
    standing = _standing(world)
    assert (until, "vision") == (standing.snoozed_until, standing.kept_in)

    world.clock.moment += timedelta(seconds=1)
    end_hold(world, "admin@example.com")
    assert NO_HOLD == _standing(world)


@pytest.mark.parametrize("end", ENDS, ids=lambda one: one.__name__)
def test_a_shorter_keep_that_is_over_holds_nothing_again(
    end: Callable[[World, str], Given],
) -> None:
    world = asked()
    keep_of_bob(world, DAY)
    keep_longer(world, ALICE)
    world.clock.moment = DAY
    end(world, ALICE)

    assert NO_HOLD == _standing(world)


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("end", ENDS, ids=lambda one: one.__name__)
def test_a_shorter_keep_that_comes_while_the_longer_one_ends_holds(
    end: Callable[[World, str], Given], other: Callable[[World, datetime], None]
) -> None:
    """Between the reads and each write of the end."""

    def keeps_for_a_day(world: World, person: str) -> Given:
        del person
        other(world, DAY)
        return Given(until=DAY)

    for number in range(1, _MOST_WRITES):
        world = kept()
        pair = Pair(world, keeps_for_a_day, number)
        pair.play(end)
        if not pair.was_reached:
            return
        assert _is_kept(_standing(world), DAY), number
    raise AssertionError("it kept writing")


def test_keeps_that_are_over_are_forgotten() -> None:
    """Or an instance that is kept every day would have an item that grows for good."""
    world = asked()
    keep_of_bob(world, NOW - timedelta(days=1))
    keep_of_an_undo(world, NOW + timedelta(minutes=5))
    world.clock.moment = NOW + timedelta(minutes=6)
    keep_longer(world, ALICE)
    item = world.state.memory.items[keys.holds(TARGET, world.ref.instance_id)[0]]

    [name] = [name for name in item if name.startswith("keep_")]
    assert name.startswith(f"keep_{APPROVAL_ID}_")


@pytest.mark.parametrize("end", ENDS, ids=lambda one: one.__name__)
def test_a_keep_of_the_same_question_holds_again_when_a_longer_one_ends(
    end: Callable[[World, str], Given],
) -> None:
    """Alice keeps it after the yes, and Bob for longer. The end of Bob's keep leaves Alice's."""
    world = kept_by_a_brake()
    keep_longer(world, BOB)
    assert LONG == _standing(world).snoozed_until
    end(world, BOB)

    assert SHORT == _standing(world).snoozed_until


def test_a_late_keep_replaces_no_longer_one_of_the_same_question() -> None:
    """Both came during a call, and both givers read that their answers are stored."""
    world = approved()
    world.state.note_step(world.ref, Step.STOP.value, NOW)
    for person, until in ((ALICE, LONG), (BOB, DAY)):
        with pytest.raises(DecisionRefused, match="your answer is stored"):
            _decide(world, person, Answer.KEEP, keep_until=until)
    keep_of_an_undo(world, LONG + timedelta(days=1))
    end_hold(world, "admin@example.com")

    assert LONG == _standing(world).snoozed_until


def test_a_keep_is_stored_when_the_longer_one_ends_between_its_writes() -> None:
    """It is written again, as the only one."""
    world = asked()
    keep_of_bob(world, LONG)
    try_write = world.state._table.try_write
    ends_now = iter([False, False, True])

    def end_before_the_third(change: Any) -> bool:
        if next(ends_now, False):
            Context().run(end_hold, world, "admin@example.com")
        return bool(try_write(change))

    world.state._table.try_write = end_before_the_third  # type: ignore[method-assign]
    keep_of_an_undo(world, DAY)

    assert DAY == _standing(world).snoozed_until
