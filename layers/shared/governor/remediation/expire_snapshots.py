"""Deletes expired snapshots of closed episodes, once a day and a week after their owners were
notified.

This module must delete only snapshots that an episode recorded, and only while nothing keeps them.
`episode/rules/expiry.py` says which those are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial

from governor.alerts.model import Alert
from governor.alerts.ports import Announcer
from governor.alerts.store import Deliveries
from governor.alerts.templates import alert_from_template
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import GovernorError, NotFound, Protected
from governor.core.hashing import short_hash
from governor.core.instance import DELETE_AFTER_TAG, EPISODE_TAG, Snapshot, Target
from governor.core.ports import Clock
from governor.core.units import Usd, UtcDatetime, iso
from governor.episode.model.episode import Episode
from governor.episode.ports import SnapshotRemover
from governor.episode.rules.expiry import (
    NOTICE,
    Expiry,
    Holdings,
    switched_off,
    to_delete,
    to_notice,
)
from governor.episode.store.episodes import Episodes
from governor.episode.store.expiries import Expiries
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.limits.freezes import why_paused_or_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.pauses import Pauses
from governor.money.rules.cost import months
from governor.money.store.ledger import Ledger
from governor.policy.accounts import Accounts, swept_targets
from governor.policy.ports import PolicyVariants
from governor.policy.rules.owners import owner_of

_LOOKED_BACK = timedelta(days=3 * 366)
"""How far back closed episodes are read. Snapshots of older ones stay."""


_ReadNotices = Callable[[], Iterable[Expiry]]
"""Reads the notices about snapshots of one target, once for all of its instances."""


@dataclass(slots=True)
class Expired:
    """Result of one run, filled while it goes on. `problems` are tried again the next day."""

    noticed: list[str] = field(default_factory=list)
    """The ids of the snapshots of whose end an owner was notified."""
    deleted: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Why none of an instance's snapshots may go, by instance id; and why EC2 kept one, by snapshot
    id."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The closed episodes that took snapshots of one instance, and the notices about these."""

    target: Target
    instance_id: str
    episodes: Sequence[Episode]
    notices: dict[str, Expiry]
    """By snapshot id. Those that are sent in this run are added."""

    @property
    def are_all_ended(self) -> bool:
        """Return whether the end of every recorded snapshot was noted, so that none is left."""
        ended = set()
        for expiry in self.notices.values():
            if expiry.ended_at:
                ended.add(expiry.snapshot_id)
        return all(ended.issuperset(episode.progress.snapshots) for episode in self.episodes)


@dataclass(frozen=True, slots=True)
class ExpireSnapshots:
    """Notifies owners of snapshots that expire, and deletes those they have known of for a week."""

    clock: Clock
    policies: PolicyVariants
    accounts: Accounts
    episode_store: Episodes
    instance_store: Instances
    breaker_store: Breakers
    pause_store: Pauses
    ledger_store: Ledger
    delivery_store: Deliveries
    expiry_store: Expiries
    instances: InstanceReader
    remover: SnapshotRemover
    announcer: Announcer

    def __call__(self) -> Expired:
        """Notify owners and delete snapshots in every target of the policy; return what was done,
        with a `problem` for each instance that failed and stopped no other.

        Do nothing, and return an empty result, if no policy deletes expired snapshots. Raises:
        CloudError if the ledger cannot be read.
        """
        now = self.clock.now()
        run = Expired()
        if not any(policy.plan.delete_expired_snapshots for policy in self.policies.variants):
            return run
        closed_episodes = self._closed_episodes(now)
        hub = Target(self.accounts.hub_account, self.accounts.hub_region)
        for place in swept_targets(self.policies.base().policy, hub):
            read_notices = cache(partial(self.expiry_store.expiries, place))
            for instance_id, refs in closed_episodes.get(place, {}).items():
                try:
                    self._expire(refs, read_notices, now, run)
                except GovernorError as error:
                    problem = f"{instance_id} in {place}: {type(error).__name__}: {error}"
                    run.problems.append(problem)
        return run

    def _closed_episodes(self, now: UtcDatetime) -> dict[Target, dict[str, list[EpisodeRef]]]:
        """Return the episodes that were booked in the last three years, by target and instance id;
        empty if there are none. Raises: CloudError."""
        closed: dict[Target, dict[str, list[EpisodeRef]]] = defaultdict(lambda: defaultdict(list))
        for month in months(now - _LOOKED_BACK, now):
            for entry in self.ledger_store.entries(month):
                ref = entry.episode
                refs = closed[ref.target][ref.instance_id]
                # After a start that fell back, an episode has a further entry.
                if ref not in refs:
                    refs.append(ref)
        return closed

    def _expire(
        self, refs: Sequence[EpisodeRef], read_notices: _ReadNotices, now: UtcDatetime, run: Expired
    ) -> None:
        """Notify the owner of one instance's snapshots, and delete those that are due. Do nothing
        if the end of all was noted already. If something keeps them all, only note in `run` what
        that is, and the end of deletions that an earlier run began.

        What is done is added to `run`. Raises: PolicyError; ConfigurationError; CloudError.
        """
        taken = self._taken(refs, read_notices)
        if taken.are_all_ended:
            return
        # Checked before EC2 is asked: the member stack may be of a release without the role.
        policies = []
        for episode in taken.episodes:
            policies.append(self.policies.applied_to(episode.instance).policy)
        why_off = switched_off(policies)
        if why_off is not None:
            run.kept[taken.instance_id] = why_off
            return
        place = taken.target
        taken = replace(taken, target=self.accounts.target(place.account, place.region))
        holdings = self._holdings(taken, now)
        self._end_interrupted(taken, holdings, now)
        why_kept = holdings.kept_by(now)
        if why_kept is not None:
            run.kept[taken.instance_id] = why_kept
            return
        dates = holdings.dates()
        self._notify_owner(taken, holdings, dates, run, now)
        self._delete_due(taken, dates, run, now)

    def _taken(self, refs: Sequence[EpisodeRef], read_notices: _ReadNotices) -> _Taken:
        """Return the episodes of one instance that took snapshots, with the notices about these.
        `refs` name the episodes of the instance, at least one. Raises: CloudError."""
        episodes: list[Episode] = []
        for ref in refs:
            episode = self.episode_store.episode(ref)
            if episode is not None and episode.progress.snapshots:
                episodes.append(episode)
        names = {episode.ref.execution_name for episode in episodes}
        notices: dict[str, Expiry] = {}
        for expiry in read_notices():
            if expiry.episode in names:
                notices[expiry.snapshot_id] = expiry
        return _Taken(refs[0].target, refs[0].instance_id, episodes, notices)

    def _end_interrupted(self, taken: _Taken, holdings: Holdings, now: UtcDatetime) -> None:
        """Note the end of snapshots that an earlier run began to delete and that EC2 no longer has:
        that run died before it noted their end. Raises: CloudError."""
        for expiry in taken.notices.values():
            is_begun = expiry.begun_at is not None and expiry.ended_at is None
            if is_begun and expiry.snapshot_id not in holdings.snapshots:
                self.expiry_store.end_deletion(taken.target, expiry, now, "snapshot gone", None)

    def _notify_owner(
        self,
        taken: _Taken,
        holdings: Holdings,
        dates: Mapping[str, UtcDatetime],
        run: Expired,
        now: UtcDatetime,
    ) -> None:
        """Notify the owner of snapshots that expire in a week, in one message for each episode; do
        nothing if none does. `dates` says when each snapshot expires, by snapshot id.

        The notices are added to `taken.notices` and to `run`. Raises: PolicyError; CloudError.
        """
        for episode in taken.episodes:
            expiring = to_notice(dates, taken.notices, now)
            own_ids = episode.progress.snapshots
            due = [snapshot_id for snapshot_id in expiring if snapshot_id in own_ids]
            if not due:
                continue
            for expiry in self._notify(episode, due, holdings, now):
                taken.notices[expiry.snapshot_id] = expiry
            run.noticed += due

    def _delete_due(
        self, taken: _Taken, dates: Mapping[str, UtcDatetime], run: Expired, now: UtcDatetime
    ) -> None:
        """Delete the snapshots whose date is over, and whose owner got the notice a week ago. Skip
        those that something keeps now, or whose date has changed. What is done is added to `run`.
        Raises: PolicyError; CloudError."""
        expiries = taken.notices.values()
        open_messages = set()
        for expiry in expiries:
            if expiry.ended_at is None:
                open_messages.add(expiry.message)
        delivered_at = self._delivered_at(open_messages)
        for expiry in to_delete(dates, expiries, delivered_at, now):
            # Read again for each snapshot: people may have kept the instance a moment ago, by an
            # answer or a tag.
            latest = self._holdings(taken, now)
            if latest.kept_by(now) is not None:
                continue
            if to_delete(latest.dates(), [expiry], delivered_at, now):
                self._delete(taken.target, expiry, run)

    def _holdings(self, taken: _Taken, now: UtcDatetime) -> Holdings:
        """Return the snapshots of these episodes in EC2, and everything that can keep them, as they
        are now. Raises: PolicyError; CloudError."""
        target = taken.target
        instance = self.instances.describe(target, taken.instance_id)
        instances = [episode.instance for episode in taken.episodes]
        if instance is not None:
            instances.append(instance)
        base = self.policies.base().policy
        snapshots: dict[str, Snapshot] = {}
        for episode in taken.episodes:
            for snapshot in self.remover.find(target, {EPISODE_TAG: episode.ref.execution_name}):
                snapshots[snapshot.snapshot_id] = snapshot
        return Holdings(
            instance=instance,
            # Read after the snapshots, because people may answer meanwhile.
            why_frozen=why_paused_or_frozen(
                self.breaker_store, self.pause_store, target, base.breaker, now
            ),
            record=self.instance_store.record(target, taken.instance_id),
            episodes=taken.episodes,
            snapshots=snapshots,
            policies=[self.policies.applied_to(instance).policy for instance in instances],
        )

    def _notify(
        self, episode: Episode, due: Sequence[str], holdings: Holdings, now: UtcDatetime
    ) -> list[Expiry]:
        """Send one message that the snapshots `due` expire, store a notice for each, and return the
        notices. If the store fails, the message goes out again the same day under the same id, and
        counts once. Raises: PolicyError; CloudError."""
        name = episode.ref.execution_name
        message = f"expire-{short_hash(name, *due)}-{now:%Y-%m-%d}"
        self.announcer.announce(self._alert(episode, due, holdings, message, now))
        notices = [Expiry(name, snapshot_id, message, now, now + NOTICE) for snapshot_id in due]
        self.expiry_store.note_expiring(episode.ref.target, notices)
        return notices

    def _alert(
        self,
        episode: Episode,
        due: Sequence[str],
        holdings: Holdings,
        message: str,
        now: UtcDatetime,
    ) -> Alert:
        """Return the message that the snapshots `due` expire in a week, with their sizes, and their
        price a month if all sizes are known. The price of a GiB is that of AWS's list as the
        episode has it, else the policy's. Raises: PolicyError."""
        policy = self.policies.applied_to(episode.instance).policy
        delete_at = now + NOTICE
        price = policy.prices.snapshot_usd_per_gib_month
        storage = episode.price.storage
        if storage is not None and storage.snapshot_usd_per_gib_month is not None:
            price = storage.snapshot_usd_per_gib_month
        known_sizes: list[int] = []
        lines: list[str] = []
        for snapshot_id in due:
            size_gib = holdings.snapshots[snapshot_id].size_gib
            size = "size not known"
            if size_gib is not None:
                size = f"{size_gib} GiB"
                known_sizes.append(size_gib)
            lines.append(f"{snapshot_id}: of {episode.progress.snapshots[snapshot_id]}, {size}")
        monthly: Usd | None = None
        if len(known_sizes) == len(due):
            monthly = sum(known_sizes) * price
        facts = {"snapshot_ids": list(due), "delete_at": delete_at, "usd_per_month": monthly}
        words = {
            "number": len(due),
            "name": episode.instance.name,
            "snapshots": lines,
            "tag": DELETE_AFTER_TAG,
            "later": iso(delete_at + 12 * NOTICE),
        }
        owner = owner_of(episode.instance, policy.ownership)
        return alert_from_template(
            "expiring", episode.instance, message, now, facts, words, owner=owner
        )

    def _delivered_at(self, messages: Iterable[str]) -> dict[str, UtcDatetime]:
        """Return when people first got each message, by its id. A message that nobody got is left
        out. Raises: CloudError."""
        delivered_at: dict[str, UtcDatetime] = {}
        for message in messages:
            deliveries = self.delivery_store.deliveries(message)
            times = []
            for delivery in deliveries:
                if delivery.reached_people:
                    times.append(delivery.at)
            if times:
                delivered_at[message] = min(times)
        return delivered_at

    def _delete(self, target: Target, expiry: Expiry, run: Expired) -> None:
        """Note that the deletion begins, ask EC2 for it, and note its end. Do nothing while
        everything is paused, or if the notice has changed since it was read.

        A snapshot that is gone already ends, too; so does one that EC2 protects, with the reason in
        `run.kept`. Any other error of EC2 becomes a problem of `run`, and no end is noted: the next
        day's run tries again, or notes the end. Raises: CloudError if a note cannot be written.
        """
        if not self.expiry_store.begin_deletion(target, expiry, self.clock.now()):
            return
        snapshot_id = expiry.snapshot_id
        request_id = None
        try:
            request_id = self.remover.delete(target, snapshot_id)
            what = "snapshot deleted"
            run.deleted.append(snapshot_id)
        except NotFound:
            what = "snapshot gone"
        except Protected as error:
            what = "snapshot kept by EC2"
            run.kept[snapshot_id] = str(error)
        except GovernorError as error:
            run.problems.append(f"{snapshot_id}: {type(error).__name__}: {error}")
            return
        self.expiry_store.end_deletion(target, expiry, self.clock.now(), what, request_id)
