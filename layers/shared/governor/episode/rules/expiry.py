"""Decides which snapshots of closed episodes may be deleted, and when.

Only a snapshot that an episode has recorded may be deleted. A tag can keep a snapshot longer and
never causes its deletion. This module deletes nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.core.instance import DELETE_AFTER_TAG, Instance, Snapshot
from governor.core.units import UtcDatetime, parse_iso
from governor.episode.model.episode import Episode, InstanceRecord, Phase
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode, Policy

NOTICE = timedelta(days=7)
"""The shortest time from the delivery of the message to the owner until the deletion."""
STANDS = timedelta(days=30)
"""A message counts for this long; after that the owner is notified again."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The notice to the owner about one snapshot, and the snapshot's end. `message` is the alert's
    id."""

    episode: str
    """The execution name."""
    snapshot_id: str
    message: str
    noticed_at: UtcDatetime
    delete_at: UtcDatetime
    what: str = "snapshot expires"
    begun_at: UtcDatetime | None = None
    ended_at: UtcDatetime | None = None
    request_id: str | None = None


def switched_off(policies: Sequence[Policy]) -> str | None:
    """Return why these policies let no snapshot be deleted: one of them is in mode observe, or does
    not set `plan.delete_expired_snapshots`. Return `None` if each of them allows it. Without a
    policy, nothing is allowed."""
    if not policies or any(policy.mode is Mode.OBSERVE for policy in policies):
        return "mode observe changes nothing"
    if not all(policy.plan.delete_expired_snapshots for policy in policies):
        return "plan.delete_expired_snapshots is off"
    return None


@dataclass(frozen=True, slots=True)
class Holdings:
    """The snapshots that closed episodes took of one instance, with everything that can keep them.

    `instance` is as EC2 describes it now; `snapshots` have the tag of one of the episodes.
    """

    instance: Instance | None
    record: InstanceRecord
    episodes: Sequence[Episode]
    snapshots: Mapping[str, Snapshot]
    policies: Sequence[Policy]
    """The policies of the instance as it is, and as it was in each episode; each of them can keep
    every snapshot."""
    why_frozen: str | None = None
    """Why plans of the target may not be carried out; `None` if nothing is frozen or paused."""

    def kept_by(self, now: UtcDatetime) -> str | None:
        """Return why no snapshot of the instance may be deleted now: deletion is off, or paused or
        frozen; its record cannot be read; it has an open episode, a keep, an exemption, or a
        warning of EC2. Return `None` if the date of each snapshot decides."""
        why_off = switched_off(self.policies)
        if why_off is not None:
            return why_off
        if self.why_frozen is not None:
            return self.why_frozen
        if self.record.problem is not None:
            return f"its record cannot be read: {self.record.problem}"
        if self._has_open_episode:
            return "an episode of it is open"
        if self.record.hold.stands(now):
            return "it is kept or exempt"
        if self.record.is_warned(now):
            return "EC2 takes it back"
        return self._why_exempt()

    @property
    def _has_open_episode(self) -> bool:
        """Return whether an episode of the instance is not closed."""
        if self.record.open_episode is not None:
            return True
        return any(episode.phase is not Phase.CLOSED for episode in self.episodes)

    def _why_exempt(self) -> str | None:
        """Return the reason that a tag exempts the instance by one of the policies; `None` if none
        does.

        Once EC2 no longer lists the instance, the tags that it had in its episodes count.
        """
        instances = [episode.instance for episode in self.episodes]
        if self.instance is not None:
            instances = [self.instance]
        for policy in self.policies:
            for instance in instances:
                tag = policy.exemption.similar_tag_on(instance)
                if tag is not None:
                    return f"it is exempt: {tag}"
        return None

    def dates(self) -> dict[str, UtcDatetime]:
        """Return by snapshot id the time from which each snapshot may be deleted. A snapshot that
        is left out is kept: it is still needed, has no date, or is not in EC2 as it was
        recorded."""
        needed = self._needed()
        dates: dict[str, UtcDatetime] = {}
        for episode in self.episodes:
            for snapshot_id in self._recorded_by(episode):
                if snapshot_id in needed:
                    continue
                date = self._date(episode, self.snapshots[snapshot_id])
                if date is not None:
                    dates[snapshot_id] = date
        return dates

    def _needed(self) -> set[str]:
        """Return the ids of the snapshots that hold the last copy of a volume; empty if the
        instance still has its volumes, or each policy lets these snapshots go."""
        may_lose_all = all(policy.plan.delete_last_of_terminated for policy in self.policies)
        if self._has_all_volumes or (self.policies and may_lose_all):
            return set()
        return set(self._last_set())

    @property
    def _has_all_volumes(self) -> bool:
        """Return whether the instance still has every volume of which a snapshot was taken."""
        if self.instance is None or self.instance.is_gone:
            return False
        copied_volumes: set[str] = set()
        for episode in self.episodes:
            copied_volumes.update(episode.progress.snapshots.values())
        return copied_volumes <= self.instance.volume_ids

    def _recorded_by(self, episode: Episode) -> Iterator[str]:
        """Yield the ids of the snapshots that the episode has recorded and that EC2 shows as
        recorded: completed, of the same volume, taken by the episode."""
        since = episode.progress.steps_done.get(Step.SNAPSHOT.value)
        if since is None:
            return
        for snapshot_id, volume_id in episode.progress.snapshots.items():
            snapshot = self.snapshots.get(snapshot_id)
            if snapshot is None or not snapshot.is_of_account_since(episode.ref.account, since):
                continue
            if snapshot.volume_id == volume_id and snapshot.state == "completed":
                yield snapshot_id

    def _last_set(self) -> Iterator[str]:
        """Yield the ids of the newest set of snapshots that has every volume, and of all newer
        snapshots.

        Yield every snapshot if no set is complete.
        """
        newest_first = sorted(self.episodes, key=lambda episode: episode.ref.number, reverse=True)
        for episode in newest_first:
            snapshot_ids = set(self._recorded_by(episode))
            yield from snapshot_ids
            copied = {episode.progress.snapshots[snapshot_id] for snapshot_id in snapshot_ids}
            volumes = episode.instance.volume_ids | set(episode.progress.snapshots.values())
            if copied and copied >= volumes:
                return

    def _date(self, episode: Episode, snapshot: Snapshot) -> UtcDatetime | None:
        """Return the end of the snapshot's retention, by the longest of the policies and of the
        question; or the date in its tag if that is later.

        Return `None`, so that the snapshot is kept, if the episode is open, or the tag has no date:
        somebody who removed or changed the tag wants the snapshot kept.
        """
        days = [policy.plan.snapshot_retention_days for policy in self.policies]
        if episode.asking.asked_under is not None and episode.asking.asked_under.plan is not None:
            days.append(episode.asking.asked_under.plan.snapshot_retention_days)
        try:
            tagged = parse_iso(snapshot.tags[DELETE_AFTER_TAG])
        except (KeyError, ValueError):
            return None
        if episode.ending is None:
            return None
        return max(tagged, episode.ending.at + timedelta(days=max(days)))


def to_notice(
    dates: Mapping[str, UtcDatetime], known: Mapping[str, Expiry], now: UtcDatetime
) -> list[str]:
    """Return the ids of the snapshots about which the owner must be notified now, sorted: their
    date is at most 7 days ahead, and they have no notice, or one that is 30 days old. Return an
    empty list if there are none.

    `dates` are those of `Holdings.dates`. `known` holds the notice about each snapshot, by its id.
    """
    snapshot_ids = []
    for snapshot_id, date in dates.items():
        expiry = known.get(snapshot_id)
        must_notify = expiry is None or _is_outdated(expiry, now)
        if must_notify and date - NOTICE <= now:
            snapshot_ids.append(snapshot_id)
    return sorted(snapshot_ids)


def _is_outdated(expiry: Expiry, now: UtcDatetime) -> bool:
    """Return whether the notice was sent so long ago that it no longer counts. It is false for a
    snapshot that was deleted."""
    return expiry.ended_at is None and expiry.noticed_at + STANDS <= now


def to_delete(
    dates: Mapping[str, UtcDatetime],
    known: Iterable[Expiry],
    delivered_at: Mapping[str, UtcDatetime],
    now: UtcDatetime,
) -> list[Expiry]:
    """Return the notices of the snapshots to delete now: their date and notice period are both
    over, and their end is not noted yet. Empty if there are none. It deletes nothing.

    `dates` are those of `Holdings.dates`, by snapshot id. `delivered_at` says when people got each
    message, by its id. A snapshot that is in neither is kept.
    """
    due: list[Expiry] = []
    for expiry in known:
        if expiry.ended_at is not None:
            continue
        if expiry.snapshot_id not in dates or expiry.message not in delivered_at:
            continue
        is_notice_over = delivered_at[expiry.message] + NOTICE <= now
        if is_notice_over and dates[expiry.snapshot_id] <= now:
            due.append(expiry)
    return due
