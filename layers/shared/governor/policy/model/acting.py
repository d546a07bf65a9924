"""The policy's sections `plan` and `approval`: the action, snapshot retention, and when people are
asked, reminded and escalated to, with all defaults.

Every setting has its unit in its name and its default here. A figure that nobody would set is a
constant beside its rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from governor.core.instance import (
    DELETE_AFTER_TAG,
    EVERY_KEY,
    MOST_TAGS,
    NAME_TAG,
    TAG_VALUE_CHARACTERS,
)
from governor.core.settings import (
    PER_UNIT,
    Mistake,
    Section,
    UsdPerUnit,
    between,
    checked,
    setting,
)
from governor.core.units import letters_and_digits

RELEASED_FOR = timedelta(minutes=15)
"""The newest time during which GPU memory must be released: three bins, so that one low reading
between two runs is not enough."""


_TAG_KEY_CHARACTERS = 128
"""Longest key of a tag. Source: EC2 user guide, tag restrictions."""
_KEYS_OF_OURS = (NAME_TAG, DELETE_AFTER_TAG)
_OWN_TAGS = 4
"""Tags that GPU Governor sets on each snapshot: name, instance, episode or event, and date."""
_MOST_ADDED = MOST_TAGS - _OWN_TAGS


def _is_tag_key(key: str) -> bool:
    """Return whether EC2 takes the text as the key of a tag."""
    return 0 < len(key) <= _TAG_KEY_CHARACTERS


def _is_tag_value(value: str) -> bool:
    """Return whether EC2 takes the text as the value of a tag."""
    return len(value) <= TAG_VALUE_CHARACTERS


class Action(StrEnum):
    """Last step of a plan."""

    STOP = "stop"
    TERMINATE = "terminate"
    NOTIFY_ONLY = "notify-only"


@dataclass(frozen=True, slots=True)
class PlanRule(Section):
    """The action for an idle instance, and the alternative if EC2 or a protection flag forbids
    it."""

    action: Action = Action.STOP
    """The action that is proposed, and taken after an approval."""
    when_stop_is_unsupported: Literal[Action.TERMINATE, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    """The action for instances that EC2 cannot stop: one-time Spot instances, and instances whose
    root device is an instance store."""
    when_termination_is_protected: Literal[Action.STOP, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    """The action that replaces a termination if the instance has termination protection."""
    snapshot_retention_days: int = between(30, 1, 3_650, "lowered")
    """Days until the date in the snapshots' `DeleteAfter` tag. GPU Governor deletes nothing before
    that date."""
    snapshot_tags: Mapping[str, str] = checked(
        {}, "a value has at most 256 characters", _is_tag_value, "none"
    )
    """Additional tags of the snapshots, by key, such as cost tags that your organization
    requires."""
    copied_tag_keys: tuple[str, ...] = checked(
        (EVERY_KEY,), "a key has 1 to 128 characters; `*` stands for all", _is_tag_key, "none"
    )
    """Keys of the instance's tags that are copied to its snapshots. `*`: all except those of AWS
    and of GPU Governor. EC2 allows 50 tags."""
    delete_expired_snapshots: bool = False
    """Delete the snapshots of closed episodes after the date in `DeleteAfter`, and at least 7 days
    after a message to the owner. In mode `observe`, nothing is deleted."""
    delete_last_of_terminated: bool = False
    """Also delete the last complete set of snapshots of an instance that no longer exists. The
    instance can then no longer be rebuilt."""
    stop_limit_minutes: int = between(30, 1, 240)
    """Minutes that a stop or a termination may take before it counts as failed."""
    snapshot_limit_minutes: int = between(1_440, 1, 2_880)
    """Minutes that snapshots may take before the termination is given up."""
    local_disks_may_be_lost_unasked: bool = False
    """Allow `auto` and `on_expiry: act` to stop instances with local NVMe disks, which a stop
    wipes."""
    running_snapshot_valid_minutes: int = between(240, 1, 2_880, "raised")
    """Maximum age, in minutes, of snapshots of an instance that keeps running until its
    termination. A snapshot lacks data that was written after it began."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake."""
        yield from self._mistakes_of_added_tags()
        yield from self._mistakes_of_copied_keys()

    def _mistakes_of_added_tags(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake in `snapshot_tags`: too many tags, or a key
        that is empty or too long, AWS's own, or one that GPU Governor sets itself."""
        if len(self.snapshot_tags) > _MOST_ADDED:
            reason = f"EC2 takes {MOST_TAGS} tags, and GPU Governor sets {_OWN_TAGS} of them"
            yield ("snapshot_tags",), f"{reason}: list at most {_MOST_ADDED}"
        for key in self.snapshot_tags:
            path = ("snapshot_tags", key)
            if not _is_tag_key(key):
                yield path, f"a key has 1 to {_TAG_KEY_CHARACTERS} characters"
            elif key.casefold().startswith("aws:"):
                yield path, "nobody but AWS sets a tag that begins with aws:"
            elif key in _KEYS_OF_OURS or letters_and_digits(key).startswith("gpugovernor"):
                yield path, "GPU Governor sets this tag itself"

    def _mistakes_of_copied_keys(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each entry of `copied_tag_keys` that could match no key:
        AWS's own keys, and `*` as a part of a key."""
        for index, key in enumerate(self.copied_tag_keys):
            path = ("copied_tag_keys", str(index))
            if key.casefold().startswith("aws:"):
                yield path, "nobody but AWS sets a tag that begins with aws:"
            elif EVERY_KEY in key and key != EVERY_KEY:
                yield path, "`*` stands for all keys, and not for a part of one: write whole keys"


MOST_DAYS = 20
"""Longest life of a question: its link is accepted for 30 days, and nights and weekends come on top
of this."""
Power = Literal["keep", "stop", "exempt", "terminate", "undo"]
"""Effect of an answer."""


@dataclass(frozen=True, slots=True)
class ApprovalRule(Section):
    """When people are asked, how long they have to answer, and who may answer. After a question
    come a reminder, an escalation and the expiry, unless somebody answers."""

    ask_after_minutes: int = between(180, 5, 20_160, "lowered")
    """Idle minutes after which people are asked, or `auto` acts. If `idle.window_minutes` is
    longer, that time applies instead."""
    ask_after_released_minutes: int = between(90, 5, 20_160, "lowered", at_most="ask_after_minutes")
    """Idle minutes after which people are asked if GPU memory is released. This shorter wait never
    leads to an action without an approval."""
    released_memory_below_percent: float = between(10.0, 0.1, 50, "raised")
    """Memory counts as released while every GPU uses less than this percentage. Unmeasured memory
    never does."""
    watch_every_minutes: int = between(15, 5, 60, "none")
    """Minutes between two reads of an idle instance that people were asked about, at most a quarter
    of `idle.window_minutes`. Resumed work is noticed up to this much later, but always before any
    action."""
    remind_after_minutes: float = between(240.0, 0.01, 43_200, "lowered")
    """Minutes from the question to the reminder."""
    escalate_after_minutes: float = between(240.0, 0.01, 43_200, "lowered")
    """Minutes from the reminder to the escalation."""
    expire_after_minutes: float = between(960.0, 0.01, 43_200, "lowered")
    """Minutes from the escalation to the expiry."""
    digest_from: int = between(3, 0, 100, "none")
    """Questions to the same people are sent as one message if there are at least this many. 0:
    never."""
    digest_after_seconds: int = between(60, 0, 900, "none")
    """Seconds that a question or a failure waits for others that can share its message."""
    delivery_limit_minutes: int = between(60, 1, 1_440, "none")
    """If no message is delivered within this many minutes, the episode fails. The time of each
    stage starts with its delivery."""
    notice_minutes: float = between(60.0, 0.01, 2_880, "lowered")
    """Minutes of the notice period in mode `auto`, counted from the delivery to the owner. People
    can hold the action during it."""
    on_expiry: Literal["no-action", "act"] = "no-action"
    """The outcome if nobody answers. `act` carries out the plan, unless it is a termination."""
    keep_at_most_days: int = between(30, 1, 365, "lowered")
    """Longest time in days for which an answer may keep an instance."""
    keep_after_undo_hours: float = between(24.0, 0, 720, "lowered")
    """Hours for which an instance is kept after a person has started it again."""
    ask_again_after_hours: float = between(24.0, 0, 8_760, "lowered")
    """Hours until an instance that stays idle is reported again after an expiry, a notification or
    a refusal. The first three failures in a row are tried again after 5, 15 and 60 minutes. After a
    fourth, this setting applies."""
    ask_about_stopped_after_days: int | None = between(None, 1, 365)
    """Days from a stop to a question about termination. `null`: never."""
    wait_at_most_hours: int = between(48, 1, 168, "raised")
    """Hours that an approved step may wait for the end of a freeze or for a cap. After that, the
    episode ends as refused. If nobody answered, these hours begin when silence counts or, if a
    message was not delivered, when the question expires."""
    people_to_stop: int = between(1, 0, 2, "lowered")
    """Number of people who must approve a stop. Only people whom the policy names by address
    (`emails`) count. 0: any answer that may `stop` is enough. Only an override that matches a tag
    may lower this number."""
    people_to_terminate: int = between(2, 1, 2, "lowered")
    """Number of people who must approve a termination. Only people whom the policy names by address
    (`emails`) count. Only an override that matches a tag may lower this number."""
    two_people_above_usd_per_hour: UsdPerUnit | None = PER_UNIT.setting(None, "raised")
    """If the instance costs more than this in USD per hour, a termination needs two people, even if
    `people_to_terminate` is 1. `null`: no such price."""
    broadcast_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers that an unknown person may give. Such a person uses a link from a message to a
    mailing list, or a Slack account or sign-in that belongs to no contact."""
    tag_owner_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers that people may give if only the owner tag names their address. With `stop`, one of
    them can approve a stop that needs one person."""
    cli_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers that a caller of the command line may give if no contact's `identities` names the
    caller. The session name of a role proves nothing."""

    @property
    def time_to_answer(self) -> timedelta:
        """Return the time from the question to its expiry, without quiet hours."""
        minutes = self.remind_after_minutes + self.escalate_after_minutes
        return timedelta(minutes=minutes + self.expire_after_minutes)

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake: a delivery limit that is too short, a
        question that stays open for too long, and two people whom a list cannot show."""
        if self.digest_from and self.delivery_limit_minutes * 60 < 4 * self.digest_after_seconds:
            reason = (
                "must be at least four times digest_after_seconds, for which questions wait unsent"
            )
            yield ("delivery_limit_minutes",), reason
        if self.total > timedelta(days=MOST_DAYS):
            reason = (
                f"a question would stay open for {self.total.days} days; the most is {MOST_DAYS}"
            )
            yield ("expire_after_minutes",), reason
        if self.two_people_above_usd_per_hour is not None and "terminate" in self.broadcast_may:
            reason = (
                "cannot go with terminate in broadcast_may: a list's link does not "
                "tell two people apart"
            )
            yield ("two_people_above_usd_per_hour",), reason

    @property
    def total(self) -> timedelta:
        """Return for how long a question stays open, from the question to the expiry, if no quiet
        hours delay it."""
        minutes = (
            self.remind_after_minutes + self.escalate_after_minutes + self.expire_after_minutes
        )
        return timedelta(minutes=minutes)
