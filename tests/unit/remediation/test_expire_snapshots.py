"""Snapshots of closed episodes: nobody loses one that something keeps, or that they heard of too
late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.alerts.delivery import Delivery
from governor.alerts.model import AlertKind
from governor.core.errors import Protected, Unavailable
from governor.core.instance import DELETE_AFTER_TAG, EPISODE_TAG, Instance, Snapshot, Volume
from governor.core.units import iso, parse_iso
from governor.episode.model.episode import Outcome, Phase
from governor.episode.rules.expiry import Holdings
from governor.limits.model.breaker import BreakerState
from governor.limits.model.pause import Pause
from governor.money.store.ledger import booking
from governor.policy.accounts import Accounts
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import AskedUnder
from governor.remediation.expire_snapshots import Expired, ExpireSnapshots
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET, make_entry
from tests.properties import examples
from tests.unit.worlds.world import ALICE, World

DAY = timedelta(days=1)
EXPIRES = 30


class Years(World):
    """An instance that was stopped and snapshot, or terminated, and whose episode is closed since
    `NOW`."""

    def __init__(self, *, terminated: bool = False) -> None:
        super().__init__(action=Action.TERMINATE)
        self.stop_and_snapshot()
        if terminated:
            self.ec2.terminate(TARGET, self.instance.instance_id, dry_run=False)
        outcome = Outcome.TERMINATED if terminated else Outcome.STOPPED
        entry = replace(make_entry(), episode=self.ref, outcome=outcome, booked_at=NOW)
        self.state.close_episode(self.ref, outcome, "done", NOW, quiet_until=None, ledger=entry)
        self.allow()
        accounts = Accounts(TARGET.account, TARGET.region)
        self.expire = ExpireSnapshots(
            self.clock,
            self.policies,
            accounts,
            episode_store=self.state,
            instance_store=self.state,
            breaker_store=self.state,
            pause_store=self.state,
            ledger_store=self.state,
            delivery_store=self.state,
            expiry_store=self.state,
            instances=self.ec2,
            remover=self.ec2,
            announcer=self.announcer,
        )

    @property
    def policy(self) -> Policy:
        return self.policies.policy

    def allow(self, *, last: bool = False, **changes: object) -> None:
        plan = replace(
            self.policy.plan, delete_expired_snapshots=True, delete_last_of_terminated=last
        )
        self.policies.policy = replace(self.policy, plan=plan, **changes)  # type: ignore[arg-type]

    def on(self, day: float) -> Expired:
        """The run so many days after the close; what it sends is delivered at once."""
        self.clock.moment = NOW + day * DAY
        before = len(self.announcer.sent)
        run = self.expire()
        for alert in self.announcer.sent[before:]:
            sent = Delivery(alert.dedup_id, alert.dedup_id, "email", ALICE, self.clock.moment)
            self.state.note_delivery(sent)
        return run

    def retag(self, **tags: str | None) -> None:
        for snapshot_id, (one, own) in self.ec2.snapshots.items():
            now = {key: value for key, value in {**own, **tags}.items() if value is not None}
            self.ec2.snapshots[snapshot_id] = (replace(one, tags=now), now)

    @property
    def deletions(self) -> list[str]:
        return [name for call, name, _ in self.ec2.calls if call == "delete_snapshot"]


def test_a_week_after_the_owner_knows_they_are_deleted() -> None:
    world = Years()
    (snapshot_id,) = world.ec2.snapshots

    assert [] == world.on(EXPIRES - 8).noticed
    assert [snapshot_id] == world.on(EXPIRES - 7).noticed
    assert [] == world.on(EXPIRES - 1).deleted == world.deletions
    assert [snapshot_id] == world.on(EXPIRES).deleted == world.deletions
    (alert,) = world.announcer.sent
    assert AlertKind.SNAPSHOTS_EXPIRE is alert.kind
    text = "\n".join((alert.subject, *alert.lines))
    assert all(one in text for one in ("notebook", snapshot_id, "100 GiB", "$5", DELETE_AFTER_TAG))
    assert ("ml", "vision") == (alert.owner, alert.project)
    (noted,) = world.state.expiries(TARGET)
    assert "snapshot deleted" == noted.what
    assert noted.request_id is not None


def test_nothing_more_is_done_about_what_is_deleted() -> None:
    world = Years()
    for day in range(EXPIRES - 10, EXPIRES + 100, 3):
        world.on(day)

    assert (1, 1) == (len(world.announcer.sent), len(world.deletions))


def kept(
    change: Callable[[Years], object], world: Years | None = None, until: int = EXPIRES + 21
) -> list[str]:
    """Return what is deleted by daily runs where this was changed after the message was
    delivered."""
    world = world or Years()
    world.on(EXPIRES - 7)
    change(world)
    for day in range(EXPIRES, EXPIRES + 21, 5):
        world.on(day)
    return world.deletions


def _nothing(world: Years) -> None:
    """All stays as it is."""


def _retain(days: int) -> Callable[[Years], object]:
    def change(world: Years) -> None:
        plan = replace(world.policy.plan, snapshot_retention_days=days)
        world.policies.policy = replace(world.policy, plan=plan)

    return change


def _observe(world: Years) -> None:
    world.policies.policy = replace(world.policy, mode=Mode.OBSERVE)


def _off(world: Years) -> None:
    plan = replace(world.policy.plan, delete_expired_snapshots=False)
    world.policies.policy = replace(world.policy, plan=plan)


def _freeze(world: Years) -> None:
    world.state.begin_hub_freeze(BreakerState(NOW + (EXPIRES - 7) * DAY, "too many"))


def _pause(world: Years) -> None:
    world.state.begin_pause(Pause(NOW, "oidc:ada@example.com"))


def _open(world: Years) -> None:
    world.state.take_lock(replace(world.ref, number=2))


def _hold(world: Years) -> None:
    world.state.store_hold(TARGET, world.instance.instance_id, Hold(exempt_reason="mine"))


def _keep(world: Years) -> None:
    world.state.store_hold(TARGET, world.instance.instance_id, Hold(snoozed_until=NOW + 1000 * DAY))


def _warned(world: Years) -> None:
    world.state.note_warned(TARGET, {world.instance.instance_id: NOW + 1000 * DAY})


def _exempt(world: Years) -> None:
    world.change_instance(tags={**world.instance.tags, "gpugovernor": "Keep"})


def _swap(world: Years) -> None:
    """The volume was replaced: the snapshot is all there is of it."""
    world.change_instance(volumes=(Volume("vol-other", "/dev/xvda", True, 100, "gp3"),))


def _gone(world: Years) -> None:
    del world.ec2.instances[world.instance.instance_id]


def _changed(**changes: object) -> Callable[[Years], object]:
    def change(world: Years) -> None:
        for snapshot_id, (one, tags) in world.ec2.snapshots.items():
            world.ec2.snapshots[snapshot_id] = (replace(one, **changes), tags)  # type: ignore[arg-type]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _observe,
        _off,
        _freeze,
        _pause,
        _open,
        _hold,
        _keep,
        _warned,
        _exempt,
        _swap,
        _gone,
        _retain(1000),
        lambda world: world.retag(**{DELETE_AFTER_TAG: None}),
        lambda world: world.retag(**{DELETE_AFTER_TAG: "never"}),
        lambda world: world.retag(**{DELETE_AFTER_TAG: iso(NOW + 1000 * DAY)}),
        lambda world: world.retag(**{EPISODE_TAG: "another"}),
        _changed(owner_id="999999999999"),
        _changed(volume_id="vol-other"),
        _changed(state="error"),
        _changed(start_time=NOW - DAY),
    ],
)
def test_each_guard_alone_keeps_them(change: Callable[[Years], object]) -> None:
    assert 1 == len(kept(_nothing))
    assert [] == kept(change)


@pytest.mark.parametrize(
    "change",
    [
        _observe,
        _off,
        _freeze,
        _pause,
        _open,
        _hold,
        _keep,
        _warned,
        _exempt,
        _swap,
        _retain(1000),
        lambda world: world.retag(**{DELETE_AFTER_TAG: None}),
        lambda world: world.retag(**{DELETE_AFTER_TAG: iso(NOW + 1000 * DAY)}),
    ],
)
def test_what_keeps_them_counts_until_the_very_call(change: Callable[[Years], object]) -> None:
    """It is read anew: people may have answered, or tagged one, after the run had looked."""
    world = Years()
    world.on(EXPIRES - 7)
    read = world.state.deliveries

    def meanwhile(message: str) -> Sequence[Delivery]:
        Context().run(change, world)  # by others, with permissions of their own
        return read(message)

    world.state.deliveries = meanwhile  # type: ignore[method-assign, assignment]
    assert [] == world.on(EXPIRES).deleted == world.deletions


def test_notices_are_read_once_a_place_and_nothing_where_no_policy_deletes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else their number would count squared, and three years of the ledger be read for nothing."""
    world = Years()
    second = replace(world.ref, instance_id="i-00000000000000002")
    world.state.memory.transact(*booking(replace(make_entry(), episode=second, booked_at=NOW)))
    stored = world.state.episode(world.ref)
    assert stored is not None
    world.state.put(replace(stored, ref=second))
    for name in ("expiries", "entries"):
        monkeypatch.setattr(world.state, name, Mock(wraps=getattr(world.state, name)))
    expiries, entries = cast(Mock, world.state.expiries), cast(Mock, world.state.entries)

    world.on(1)
    assert (1, True) == (expiries.call_count, entries.called)
    entries.reset_mock()
    _off(world)
    world.on(2)
    assert (1, False) == (expiries.call_count, entries.called)


def test_the_end_of_a_deletion_is_noted_once() -> None:
    """The later one of two runs at a time finds nothing to delete; the request that did it
    stays."""
    world = Years()
    world.on(EXPIRES - 7)
    (told,) = world.state.expiries(TARGET)
    world.on(EXPIRES)
    (noted,) = world.state.expiries(TARGET)
    world.state.end_deletion(TARGET, told, NOW + 99 * DAY, "snapshot gone", None)

    assert [noted] == world.state.expiries(TARGET)


def test_no_tag_causes_a_deletion() -> None:
    """Neither one that says so early, nor those of the governor on a snapshot that no episode
    recorded."""
    world = Years()
    ours = set(world.ec2.snapshots)
    tags = {EPISODE_TAG: world.ref.execution_name, DELETE_AFTER_TAG: iso(NOW)}
    (volume,) = world.instance.volumes
    forged = Snapshot("snap-forged", volume.volume_id, "completed", NOW, TARGET.account, 100, tags)
    world.ec2.snapshots["snap-forged"] = (forged, tags)
    world.retag(**{DELETE_AFTER_TAG: iso(NOW)})

    for day in range(1, EXPIRES):
        assert [] == world.on(day).deleted
    world.on(EXPIRES)
    assert ours == set(world.deletions)
    assert "snap-forged" in world.ec2.snapshots


def test_the_last_set_of_a_terminated_instance_stays_unless_the_policy_says_otherwise() -> None:
    assert [] == kept(_nothing, Years(terminated=True))
    world = Years(terminated=True)
    world.allow(last=True)
    assert 1 == len(kept(_nothing, world))


def test_a_message_that_reached_nobody_deletes_nothing() -> None:
    world = Years()
    for day in range(EXPIRES - 7, EXPIRES + 100):
        world.clock.moment = NOW + day * DAY
        world.expire()

    assert [] == world.deletions
    assert 4 == len(world.announcer.sent)  # once in 30 days


def test_a_webhook_or_a_refusal_is_no_delivery() -> None:
    world = Years()
    world.clock.moment = NOW + EXPIRES * DAY
    world.expire()
    (alert,) = world.announcer.sent
    name = alert.dedup_id
    world.state.note_delivery(Delivery(name, name, "webhook", "https://x", world.clock.moment))
    world.state.note_delivery(
        Delivery(name, name, "email", ALICE, world.clock.moment, refused="bounced")
    )
    world.clock.moment += 8 * DAY

    world.expire()

    assert [] == world.deletions


def test_a_late_delivery_begins_the_week() -> None:
    world = Years()
    world.clock.moment = NOW + EXPIRES * DAY
    world.expire()
    (alert,) = world.announcer.sent
    late = Delivery(alert.dedup_id, alert.dedup_id, "email", ALICE, NOW + (EXPIRES + 5) * DAY)
    world.state.note_delivery(late)

    assert [] == world.on(EXPIRES + 11).deleted
    assert 1 == len(world.on(EXPIRES + 12).deleted)


def test_an_old_message_is_sent_again_before_anything_is_deleted() -> None:
    """People were away, or it was kept meanwhile: they hear of it anew."""
    world = Years()
    world.on(EXPIRES - 7)

    assert [] == world.on(EXPIRES + 100).deleted
    assert [] == world.on(EXPIRES + 106).deleted
    assert 1 == len(world.on(EXPIRES + 107).deleted)
    assert 2 == len(world.announcer.sent)


@pytest.mark.parametrize(
    ("error", "what"),
    [(Protected("an AMI needs it", code="InvalidSnapshot.InUse"), "snapshot kept by EC2")],
)
def test_one_that_an_image_needs_is_noted_and_no_failure(error: Exception, what: str) -> None:
    world = Years()
    world.on(EXPIRES - 7)
    world.ec2.failures["delete_snapshot"] = [error]

    run = world.on(EXPIRES)

    assert ([], []) == (run.problems, run.deleted)
    assert [what] == [one.what for one in world.state.expiries(TARGET)]
    assert [] == world.on(EXPIRES + 60).noticed


def test_a_run_that_died_after_ec2_deleted_it_is_made_good() -> None:
    """The next run notes that it is gone, so that it is not looked for every day."""
    world = Years()
    world.on(EXPIRES - 7)
    (told,) = world.state.expiries(TARGET)
    assert world.state.begin_deletion(TARGET, told, world.clock.now())
    world.ec2.snapshots.clear()

    world.on(EXPIRES)

    (noted,) = world.state.expiries(TARGET)
    assert ("snapshot gone", world.clock.now()) == (noted.what, noted.ended_at)
    assert [] == world.deletions


def test_a_call_that_failed_is_repeated_the_next_day() -> None:
    world = Years()
    world.on(EXPIRES - 7)
    (snapshot_id,) = world.ec2.snapshots
    world.ec2.failures["delete_snapshot"] = [Unavailable("no answer")]
    assert 1 == len(world.on(EXPIRES).problems)

    assert [snapshot_id] == world.on(EXPIRES + 1).deleted


def test_a_second_run_at_the_same_time_deletes_nothing_twice() -> None:
    """It has read the same, and finds that the first has noted the end."""
    world = Years()
    world.on(EXPIRES - 7)
    (seen,) = world.state.expiries(TARGET)
    world.on(EXPIRES)

    assert not world.state.begin_deletion(TARGET, seen, world.clock.now())


def test_a_failure_holds_up_no_other_instance() -> None:
    world = Years()
    world.ec2.failures["describe"] = [Unavailable("no answer")]

    run = world.on(EXPIRES)

    assert 1 == len(run.problems)
    assert [] == world.deletions


def test_a_place_that_the_policy_no_longer_names_is_left_alone() -> None:
    world = Years()
    world.on(EXPIRES - 7)
    targets = replace(world.policy.targets, regions=("eu-west-1",))
    world.policies.policy = replace(world.policy, targets=targets)

    assert Expired() == world.on(EXPIRES)


def test_a_member_stack_of_an_earlier_release_is_asked_for_nothing_where_it_is_off() -> None:
    world = Years()
    _off(world)
    world.ec2.failures["describe"] = [Unavailable("there is no such role")]

    assert [] == world.on(EXPIRES).problems


_TIMES: dict[str, Callable[[Years], object]] = {
    "observe": _observe,
    "ask": lambda world: world.allow(mode=Mode.ASK),
    "off": _off,
    "last": lambda world: world.allow(last=True),
    "not last": lambda world: world.allow(),
    "retain": _retain(90),
    "exempt": _exempt,
    "not exempt": lambda world: world.change_instance(tags=world.instance.tags),
    "swap": _swap,
    "whole": lambda world: world.change_instance(volumes=world.instance.volumes),
    "terminated": lambda world: world.change_instance(state="terminated"),
    "keep": lambda world: world.state.store_hold(
        TARGET, world.instance.instance_id, Hold(snoozed_until=world.clock.now() + 20 * DAY)
    ),
    "untagged": lambda world: world.retag(**{DELETE_AFTER_TAG: None}),
    "early": lambda world: world.retag(**{DELETE_AFTER_TAG: iso(NOW)}),
    "later": lambda world: world.retag(**{DELETE_AFTER_TAG: iso(world.clock.now() + 15 * DAY)}),
    "open": _open,
    "closed": lambda world: world.state.free_lock(replace(world.ref, number=2)),
}


@settings(max_examples=examples(25, 500), deadline=None)
@given(
    history=st.lists(
        st.tuples(
            st.integers(0, 12), st.sampled_from([*_TIMES, "run", "run", "run"]), st.booleans()
        ),
        max_size=40,
    )
)
def test_whatever_happens_no_guard_is_passed(history: list[tuple[int, str, bool]]) -> None:
    """Random days, changes, and messages that arrive or do not; each deletion is checked by
    itself."""
    world = Years()
    delivered: list[datetime] = []
    for days, what, arrives in history:
        world.clock.moment += days * DAY
        now = world.clock.moment
        if what != "run":
            _TIMES[what](world)
            continue
        before = dict(world.ec2.snapshots)
        messages, taken = len(world.announcer.sent), len(world.deletions)
        world.expire()
        if len(world.deletions) > taken:
            (snapshot_id,) = world.deletions[taken:]
            policy, instance = world.policy, world.ec2.instances[world.instance.instance_id]
            record = world.state.record(TARGET, instance.instance_id)
            tag = before[snapshot_id][1][DELETE_AFTER_TAG]
            assert policy.mode is not Mode.OBSERVE
            assert policy.plan.delete_expired_snapshots
            assert now >= max(parse_iso(tag), NOW + policy.plan.snapshot_retention_days * DAY)
            assert any(7 * DAY <= now - at < 30 * DAY for at in delivered)
            assert not record.hold.stands(now)
            assert record.open_episode is None
            assert "gpugovernor" not in instance.tags
            is_whole = instance.state != "terminated" and instance.volumes == world.instance.volumes
            assert is_whole or policy.plan.delete_last_of_terminated
        for alert in world.announcer.sent[messages:] if arrives else ():
            world.state.note_delivery(Delivery(alert.dedup_id, alert.dedup_id, "email", ALICE, now))
            delivered.append(now)


def holdings(world: Years, *sets: set[str], instance: Instance | None = None) -> Holdings:
    """An instance of two volumes that is gone, unless it is given, and of which each episode has
    snapshot these volumes, the oldest first."""
    stored = world.state.episode(world.ref)
    assert stored is not None
    volumes = tuple(Volume(f"vol-{name}", f"/dev/{name}", True, 100, "gp3") for name in "ab")
    episodes, found = [], {}
    for number, names in enumerate(sets, 1):
        ref = replace(world.ref, number=number)
        taken = {f"snap-{number}{name}": f"vol-{name}" for name in sorted(names)}
        its = replace(stored.instance, volumes=volumes)
        episodes.append(
            replace(
                stored, ref=ref, instance=its, progress=replace(stored.progress, snapshots=taken)
            )
        )
        tags = {DELETE_AFTER_TAG: iso(NOW), EPISODE_TAG: ref.execution_name}
        for snapshot_id, volume in taken.items():
            one = Snapshot(snapshot_id, volume, "completed", NOW, TARGET.account, 100, tags)
            found[snapshot_id] = one
    record = world.state.record(TARGET, stored.instance.instance_id)
    return Holdings(instance, record, episodes, found, [world.policy])


@pytest.mark.parametrize(
    ("sets", "goes"),
    [
        ([{"a", "b"}], set()),
        ([{"a", "b"}, {"a", "b"}], {"snap-1a", "snap-1b"}),
        ([{"a", "b"}, {"a", "b"}, {"a"}], {"snap-1a", "snap-1b"}),
        ([{"a"}, {"b"}], set()),
    ],
)
def test_the_last_set_is_the_newest_that_has_every_volume(
    sets: list[set[str]], goes: set[str]
) -> None:
    """With all that is newer; where none has every volume, all stay."""
    assert goes == set(holdings(Years(), *sets).dates())


def test_one_that_is_missing_makes_its_set_no_whole_one() -> None:
    case = holdings(Years(), {"a", "b"}, {"a", "b"})
    rest = {name: one for name, one in case.snapshots.items() if name != "snap-2b"}

    assert {} == replace(case, snapshots=rest).dates()


def test_the_longer_retention_counts() -> None:
    world = Years()
    case = holdings(world, {"a"}, {"a", "b"})
    (episode, newer) = case.episodes
    policy = world.policy
    longer = replace(policy.plan, snapshot_retention_days=90)
    asked = AskedUnder(policy.idle, policy.vetoes, policy.approval, policy.exemption, plan=longer)

    assert {"snap-1a": NOW + 30 * DAY} == case.dates()
    older = replace(
        case, episodes=(replace(episode, asking=replace(episode.asking, asked_under=asked)), newer)
    )
    assert {"snap-1a": NOW + 90 * DAY} == older.dates()


def test_what_is_open_or_unreadable_keeps_all() -> None:
    case = holdings(Years(), {"a"})

    assert case.kept_by(NOW) is None
    assert replace(case, record=replace(case.record, problem="damaged")).kept_by(NOW) is not None
    still = [replace(one, phase=Phase.ACTING) for one in case.episodes]
    assert replace(case, episodes=still).kept_by(NOW) is not None


def test_each_policy_of_the_instance_may_keep_them() -> None:
    """As its tags are now, and as they were in the episode."""
    world = Years()
    case, policy = holdings(world, {"a"}), world.policy

    for other in (replace(policy, mode=Mode.OBSERVE), Policy(mode=Mode.ASK)):
        assert replace(case, policies=[policy, other]).kept_by(NOW) is not None
    assert replace(case, policies=[]).kept_by(NOW) is not None
