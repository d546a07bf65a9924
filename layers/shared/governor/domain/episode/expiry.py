"""Which snapshots of closed episodes may be deleted, and from when on. Only what an episode has
recorded may be; a tag can keep a snapshot longer, and never causes its deletion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import Episode, InstanceRecord, Phase
from governor.domain.episode.plan import Step
from governor.domain.instance import DELETE_AFTER_TAG, Instance, Snapshot
from governor.domain.policy.policy import Mode, Policy
from governor.domain.units import UtcDatetime, parse_iso

NOTICE = timedelta(days=7)
"""From the delivery of the message to its owner to the deletion, at least."""
STANDS = timedelta(days=30)
"""A message that is older no longer counts."""
_GONE = ("shutting-down", "terminated")


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
    """Return why none of these policies lets a snapshot be deleted; `None` when each of them
    does."""
    if not policies or any(one.mode is Mode.OBSERVE for one in policies):
        return "mode observe changes nothing"
    if not all(one.plan.delete_expired_snapshots for one in policies):
        return "plan.delete_expired_snapshots is off"
    return None


@dataclass(frozen=True, slots=True)
class Holdings:
    """The snapshots that closed episodes took of one instance, with all that can keep them.
    `instance` is as EC2 describes it now, `snapshots` are those that carry the tag of one of the
    episodes."""

    instance: Instance | None
    record: InstanceRecord
    episodes: Sequence[Episode]
    snapshots: Mapping[str, Snapshot]
    policies: Sequence[Policy]
    """Those of the instance as it is, and as it was in each episode; each of them can keep all."""
    frozen: str | None = None

    def kept_by(self, now: UtcDatetime) -> str | None:
        """Return why none may be deleted now; `None` when that is up to each one's date."""
        record = self.record
        if (why := switched_off(self.policies)) is not None:
            return why
        if self.frozen is not None:
            return self.frozen
        if record.problem is not None:
            return f"its record cannot be read: {record.problem}"
        if record.open_episode is not None or any(
            one.phase is not Phase.CLOSED for one in self.episodes
        ):
            return "an episode of it is open"
        if record.hold.stands(now):
            return "it is kept or exempt"
        if record.is_warned(now):
            return "EC2 takes it back"
        seen = [one.instance for one in self.episodes] if self.instance is None else [self.instance]
        tags = (one.exemption.like_it_on(instance) for one in self.policies for instance in seen)
        return next((f"it is exempt: {tag}" for tag in tags if tag is not None), None)

    def dates(self) -> dict[str, UtcDatetime]:
        """Return from when on which snapshots may be deleted. One that is not named is kept."""
        may_lose_all = self.policies and all(
            one.plan.delete_last_of_terminated for one in self.policies
        )
        kept = set() if self._is_whole or may_lose_all else set(self._last_set())
        return {
            snapshot_id: date
            for episode in self.episodes
            for snapshot_id in self._its(episode)
            if snapshot_id not in kept
            if (date := self._date(episode, self.snapshots[snapshot_id])) is not None
        }

    @property
    def _is_whole(self) -> bool:
        """Return whether the instance still has every volume that a snapshot is of."""
        if self.instance is None or self.instance.state in _GONE:
            return False
        taken = {volume for episode in self.episodes for volume in episode.snapshots.values()}
        return taken <= self.instance.volume_ids

    def _its(self, episode: Episode) -> Iterator[str]:
        """Yield those that the episode has recorded, and that are what it recorded."""
        since = episode.steps_done.get(Step.SNAPSHOT.value)
        for snapshot_id, volume_id in episode.snapshots.items():
            found = self.snapshots.get(snapshot_id)
            if (
                found is not None
                and since is not None
                and found.counts(episode.ref.account, since)
                and found.volume_id == volume_id
                and found.state == "completed"
            ):
                yield snapshot_id

    def _last_set(self) -> Iterator[str]:
        """Yield the newest set that has every volume, and all that are newer; every one where none
        has."""
        for episode in sorted(self.episodes, key=lambda one: one.ref.number, reverse=True):
            its = set(self._its(episode))
            yield from its
            covered = {episode.snapshots[one] for one in its}
            if covered and covered >= episode.instance.volume_ids | set(episode.snapshots.values()):
                return

    def _date(self, episode: Episode, snapshot: Snapshot) -> UtcDatetime | None:
        """Return the end of its retention, or the later date in its tag. `None` without such a date
        there: whoever took it off, or wrote something else, wants it kept."""
        asked = episode.asked_under.plan if episode.asked_under else None
        days = [one.plan.snapshot_retention_days for one in self.policies]
        days += [asked.snapshot_retention_days] if asked else []
        try:
            tagged = parse_iso(snapshot.tags[DELETE_AFTER_TAG])
        except (KeyError, ValueError):
            return None
        if episode.closed_at is None:
            return None
        return max(tagged, episode.closed_at + timedelta(days=max(days)))


def to_notice(
    dates: Mapping[str, UtcDatetime], known: Mapping[str, Expiry], now: UtcDatetime
) -> list[str]:
    """Return the snapshots of which the owner must hear now, in order."""
    return sorted(
        one
        for one, date in dates.items()
        if date - NOTICE <= now
        if (told := known.get(one)) is None
        or (told.ended_at is None and told.noticed_at + STANDS <= now)
    )


def to_delete(
    dates: Mapping[str, UtcDatetime],
    known: Iterable[Expiry],
    delivered_at: Mapping[str, UtcDatetime],
    now: UtcDatetime,
) -> list[Expiry]:
    """Return those whose time has come. `delivered_at`: when people got which message; one that no
    longer counts was replaced by `to_notice`."""
    return [
        one
        for one in known
        if one.ended_at is None
        if one.snapshot_id in dates and dates[one.snapshot_id] <= now
        if one.message in delivered_at and delivered_at[one.message] + NOTICE <= now
    ]
