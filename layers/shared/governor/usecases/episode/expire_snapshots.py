"""Each day: notifies owners of snapshots of closed episodes that expire, and deletes those of which
they have known for a week."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial

from governor.domain.alerts.alert import Alert, owner_of, short_hash
from governor.domain.alerts.templates import written
from governor.domain.episode.episode import Episode, EpisodeRef
from governor.domain.episode.expiry import (
    NOTICE,
    Expiry,
    Holdings,
    switched_off,
    to_delete,
    to_notice,
)
from governor.domain.instance import DELETE_AFTER_TAG, EPISODE_TAG, Target
from governor.domain.money.cost import months
from governor.domain.units import Usd, UtcDatetime, iso
from governor.errors import GovernorError, NotFound, Protected
from governor.ports import Announcer, Clock, InstanceReader, PolicyVariants, SnapshotRemover
from governor.stores import StateTable
from governor.usecases.accounts import Accounts, swept
from governor.usecases.brakes import frozen

_LOOKED_BACK = timedelta(days=3 * 366)
"""How far back closed episodes are looked for. What is older stays."""


_Noticed = Callable[[], Iterable[Expiry]]


@dataclass(slots=True)
class Expired:
    """Result of one run. `problems` are tried again the next day."""

    noticed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """By instance id, why none of its snapshots may go; and by snapshot id, why EC2 kept it."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExpireSnapshots:
    clock: Clock
    policies: PolicyVariants
    accounts: Accounts
    state: StateTable
    instances: InstanceReader
    remover: SnapshotRemover
    announcer: Announcer

    def __call__(self) -> Expired:
        """Go over every target of the policy. What fails holds up no other instance."""
        now, run = self.clock.now(), Expired()
        if not any(one.plan.delete_expired_snapshots for one in self.policies.variants):
            return run
        closed: dict[Target, dict[str, list[EpisodeRef]]] = defaultdict(lambda: defaultdict(list))
        for month in months(now - _LOOKED_BACK, now):
            for entry in self.state.entries(month):
                closed[entry.episode.target][entry.episode.instance_id].append(entry.episode)
        for place in swept(
            self.policies.base().policy, Target(self.accounts.hub_account, self.accounts.hub_region)
        ):
            noticed = cache(partial(self.state.expiries, place))
            for instance_id, refs in closed.get(place, {}).items():
                try:
                    self._instance(refs, noticed, now, run)
                except GovernorError as error:
                    run.problems.append(
                        f"{instance_id} in {place}: {type(error).__name__}: {error}"
                    )
        return run

    def _instance(
        self, refs: Sequence[EpisodeRef], noticed: _Noticed, now: UtcDatetime, run: Expired
    ) -> None:
        place, instance_id = refs[0].target, refs[0].instance_id
        episodes = [
            one for ref in refs if (one := self.state.episode(ref)) is not None and one.snapshots
        ]
        names = {one.ref.execution_name for one in episodes}
        known = {one.snapshot_id: one for one in noticed() if one.episode in names}
        ended = {snapshot_id for snapshot_id, one in known.items() if one.ended_at}
        if all(ended >= one.snapshots.keys() for one in episodes):
            return
        # Before EC2 is asked: the member stack may be of a release without the role.
        policies = [self.policies.applied_to(one.instance).policy for one in episodes]
        if (off := switched_off(policies)) is not None:
            run.kept[instance_id] = off
            return
        target = self.accounts.target(place.account, place.region)
        holdings = self._holdings(target, instance_id, episodes, now)
        for expiry in known.values():
            is_begun = expiry.begun_at is not None and expiry.ended_at is None
            if is_begun and expiry.snapshot_id not in holdings.snapshots:
                # A run died after EC2 had deleted it.
                self.state.end_deletion(target, expiry, now, "snapshot gone", None)
        if (why := holdings.kept_by(now)) is not None:
            run.kept[instance_id] = why
            return
        dates = holdings.dates()
        for episode in episodes:
            due = [one for one in to_notice(dates, known, now) if one in episode.snapshots]
            if due:
                told = self._tell(episode, due, holdings, now)
                known |= {one.snapshot_id: one for one in told}
                run.noticed += due
        delivered = self._delivered({one.message for one in known.values() if one.ended_at is None})
        for expiry in to_delete(dates, known.values(), delivered, now):
            # Read anew for each: people may have kept it a moment ago, by an answer or by a tag.
            latest = self._holdings(target, instance_id, episodes, now)
            if latest.kept_by(now) is None and to_delete(latest.dates(), [expiry], delivered, now):
                self._delete(target, expiry, run)

    def _holdings(
        self, target: Target, instance_id: str, episodes: Sequence[Episode], now: UtcDatetime
    ) -> Holdings:
        instance = self.instances.describe(target, instance_id)
        seen = [one.instance for one in episodes] + ([instance] if instance else [])
        base = self.policies.base().policy
        tagged = [
            snapshot
            for one in episodes
            for snapshot in self.remover.find(target, {EPISODE_TAG: one.ref.execution_name})
        ]
        return Holdings(
            instance=instance,
            # Last, as people may answer meanwhile.
            frozen=frozen(self.state, target, base.breaker, now),
            record=self.state.record(target, instance_id),
            episodes=episodes,
            snapshots={one.snapshot_id: one for one in tagged},
            policies=[self.policies.applied_to(one).policy for one in seen],
        )

    def _tell(
        self, episode: Episode, due: Sequence[str], holdings: Holdings, now: UtcDatetime
    ) -> list[Expiry]:
        """Send one message about these, and note it. A message that was sent twice counts once."""
        name = episode.ref.execution_name
        message = f"expire-{short_hash(name, *due)}-{now:%Y-%m-%d}"
        self.announcer.announce(self._alert(episode, due, holdings, message, now))
        told = [Expiry(name, one, message, now, now + NOTICE) for one in due]
        self.state.note_expiring(episode.ref.target, told)
        return told

    def _alert(
        self,
        episode: Episode,
        due: Sequence[str],
        holdings: Holdings,
        message: str,
        now: UtcDatetime,
    ) -> Alert:
        policy, day = self.policies.applied_to(episode.instance).policy, now + NOTICE
        storage = episode.price.storage
        per_gib = storage.snapshot_usd_per_gib_month if storage else None
        price = policy.prices.snapshot_usd_per_gib_month if per_gib is None else per_gib
        sizes = {one: holdings.snapshots[one].size_gib for one in due}
        known = [size for size in sizes.values() if size is not None]
        monthly: Usd | None = sum(known, 0) * price if len(known) == len(due) else None
        facts = {"snapshot_ids": list(due), "delete_at": day, "usd_per_month": monthly}
        lines = [
            f"{one}: of {episode.snapshots[one]}, "
            f"{'size not known' if size is None else f'{size} GiB'}"
            for one, size in sizes.items()
        ]
        words = {
            "number": len(due),
            "snapshots": lines,
            "tag": DELETE_AFTER_TAG,
            "later": iso(day + 12 * NOTICE),
        }
        owner = owner_of(episode.instance, policy.ownership)
        return written("expiring", episode.instance, message, now, facts, words, owner=owner)

    def _delivered(self, messages: Iterable[str]) -> dict[str, UtcDatetime]:
        """Return when people first had each message; one that nobody has is not named."""
        return {
            message: min(times)
            for message in messages
            if (times := [one.at for one in self.state.deliveries(message) if one.reached_people])
        }

    def _delete(self, target: Target, one: Expiry, run: Expired) -> None:
        """Note, ask EC2, and note what became of it: a run that dies between these is repeated the
        next day, and EC2 then knows the snapshot no more."""
        if not self.state.begin_deletion(target, one, self.clock.now()):
            return
        request_id = None
        try:
            request_id = self.remover.delete(target, one.snapshot_id)
            what = "snapshot deleted"
            run.deleted.append(one.snapshot_id)
        except NotFound:
            what = "snapshot gone"
        except Protected as error:
            what = "snapshot kept by EC2"
            run.kept[one.snapshot_id] = str(error)
        except GovernorError as error:
            run.problems.append(f"{one.snapshot_id}: {type(error).__name__}: {error}")
            return
        self.state.end_deletion(target, one, self.clock.now(), what, request_id)
