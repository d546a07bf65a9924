"""Open questions and answers for use-case tests: what a workflow does up to its waiting task."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from governor.approvals.ask_owner import AskOwner
from governor.approvals.decide import Decide
from governor.approvals.model.approval import Answer, Approval, Decision
from governor.approvals.rules.links import LinkSigner
from governor.core.episode_ref import EpisodeRef
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Price
from governor.episode.model.start_try import StartTry
from governor.money.book_saving import BookSaving
from governor.remediation.announce_end import AnnounceEnd
from governor.remediation.follow_start import FollowStart
from governor.remediation.inspect_instance import InspectInstance
from governor.remediation.look_at_start import LookAtStart
from governor.remediation.open_episode import OpenEpisode
from governor.remediation.record_outcome import RecordOutcome
from governor.remediation.undo_episode import UndoEpisode
from tests.builders import NOW, TARGET
from tests.twins import StaticPrices
from tests.unit.worlds.fleet_world import ACCOUNTS, FleetWorld
from tests.unit.worlds.world import ALICE, World

PRICE = Price(Decimal("1.006"), "list price")
SIGNER = LinkSigner(lambda: {"current": "k1", "k1": "n" * 64}, "https://api.example.com")


def approval_id_of(instance_id: str) -> str:
    """One question an instance in these tests."""
    return f"approval-{instance_id}"


def token_of(instance_id: str) -> str:
    """The task token that waits for the answer about an instance."""
    return f"token-{instance_id}"


def ref_of(world: FleetWorld, instance_id: str, number: int = 1) -> EpisodeRef:
    """The episode of an instance as it runs now."""
    launched = world.ec2.instances[instance_id].launch_time
    return EpisodeRef(TARGET.account, TARGET.region, instance_id, launched, number)


def announce_end(world: FleetWorld | World) -> AnnounceEnd:
    """How an episode ended, as it is sent."""
    return AnnounceEnd(world.clock, world.policies, world.announcer, world.log, world.state)


def recorder(world: FleetWorld | World) -> RecordOutcome:
    """The last step of every flow."""
    book = BookSaving(world.policies, ACCOUNTS, world.ec2)
    return RecordOutcome(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        delivery_store=world.state,
        tagger=world.ec2,
        announce=announce_end(world),
        signer=SIGNER,
        book=book,
    )


def decider(world: FleetWorld | World, table: Any = None) -> Decide:
    """The use case of one answer, in this world; with `table` in place of its state table."""
    state = world.state if table is None else table
    return Decide(
        episode_store=state,
        approval_store=state,
        hold_store=state,
        instance_store=state,
        workflow=world.workflow,
        clock=world.clock,
        announcer=world.announcer,
        policies_now=lambda: world.policies,
        answer_seal=world.seals.answers,
    )


def follow_start(world: FleetWorld | World) -> FollowStart:
    """The record of how a start ended, in this world."""
    return FollowStart(world.clock, episode_store=world.state, announcer=world.announcer)


def undoer(world: World) -> UndoEpisode:
    """The use case that starts a stopped instance again, in this world."""
    return UndoEpisode(
        world.clock,
        world.policies,
        ACCOUNTS,
        world.ec2,
        world.ec2,
        episode_store=world.state,
        approval_store=world.state,
        hold_store=world.state,
        instance_store=world.state,
        follow=follow_start(world),
    )


def looker(world: World) -> LookAtStart:
    """The use case that looks at a start when EC2 says that its instance is stopped."""
    return LookAtStart(
        accounts=ACCOUNTS,
        instances=world.ec2,
        episode_store=world.state,
        instance_store=world.state,
        follow=follow_start(world),
    )


def see(world: World) -> StartTry | None:
    """The sweep looks at the instance whose start is followed."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return follow_start(world)(episode, world.ec2.instances.get(world.ref.instance_id))


def asker(world: FleetWorld | World) -> AskOwner:
    """The use case that sends messages, in this world."""
    return AskOwner(
        clock=world.clock,
        policies=world.policies,
        episode_store=world.state,
        approval_store=world.state,
        breaker_store=world.state,
        pause_store=world.state,
        workflow=world.workflow,
        announcer=world.announcer,
        signer=SIGNER,
    )


def opener(world: FleetWorld, approval_id: str = "approval-1") -> OpenEpisode:
    """The use case over the fleet."""
    inspect = InspectInstance(
        instances=world.ec2,
        gather=world.sweep_target.gather,
        prices=StaticPrices(PRICE),
        sessions=world.ec2,
        instance_store=world.state,
    )
    return OpenEpisode(
        world.clock,
        world.policies,
        ACCOUNTS,
        inspect,
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        breaker_store=world.state,
        pause_store=world.state,
        ledger_store=world.state,
        keys=world.keys,
        opening_seal=world.seals.openings,
        approval_id=lambda: approval_id,
    )


def open_question(world: FleetWorld, instance_id: str, *, hours: float = 24) -> EpisodeRef:
    """Opens the episode that a sweep has started, and asks: a task now waits for the answer."""
    ref = ref_of(world, instance_id)
    opened = opener(world, approval_id_of(instance_id))(ref)
    assert opened.episode is not None, opened.reason
    expires_at = world.clock.now() + timedelta(hours=hours)
    world.state.await_answer(approval_id_of(instance_id), token_of(instance_id), "ask", expires_at)
    world.workflow.waiting.add(token_of(instance_id))
    return ref


def asked(number: int = 1, world: FleetWorld | None = None) -> tuple[FleetWorld, str, EpisodeRef]:
    """A fleet with one idle instance about which somebody was asked."""
    world = world or FleetWorld()
    instance_id = world.add(number)
    world.sweep()
    return world, instance_id, open_question(world, instance_id)


def stored_episode(world: FleetWorld, ref: EpisodeRef) -> Episode:
    """The episode, which must exist."""
    episode = world.state.episode(ref)
    assert episode is not None
    return episode


def stored_approval(world: FleetWorld, instance_id: str) -> Approval:
    """The question about an instance, which must exist."""
    approval = world.state.approval(approval_id_of(instance_id))
    assert approval is not None
    return approval


def decision(
    answer: Answer = Answer.APPROVE, by: str = "someone", at: datetime = NOW, **more: Any
) -> Decision:
    """Return what a person of the policy said on the page."""
    return replace(Decision(answer, by, "page", at, person=ALICE), **more)


def start_acting(world: FleetWorld, ref: EpisodeRef) -> None:
    """Do what the recheck does when all is as it was."""
    world.state.clear_step(ref, stored_episode(world, ref).plan.steps[0].value, world.clock.now())
