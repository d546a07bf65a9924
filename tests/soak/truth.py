"""The truth at the moment of a call, by the simulated world: EC2, metrics, people, the policy's
text.

`Call` answers the questions of the invariants. It reads what the system has stored only where that
is the question itself: which episode is open, what it plans, which snapshots belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from governor.approvals.model.approval import Approval
from governor.core.instance import Instance
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode
from tests.builders import TARGET
from tests.soak.cloud import Cleared, Cloud, Press, Sent, Shown
from tests.soak.parts import records_of
from tests.soak.rules import Rules

NOES = frozenset({"keep", "exempt", "hold"})
ACCEPTED = frozenset({200, 302, 303})
READ_BEFORE = timedelta(seconds=30)
"""A reading that came so shortly before a call may have come after its recheck had read."""


def episodes(cloud: Cloud) -> list[Episode]:
    """Return all episodes that were opened."""
    items = [item for key, item in cloud.memory.items.items() if key[1] == "EPISODE"]
    return list(records_of(Episode, items))


def approvals(cloud: Cloud) -> dict[str, Approval]:
    """Return all questions, by id."""
    items = [item for key, item in cloud.memory.items.items() if key[1] == "REQUEST"]
    return {one.approval_id: one for one in records_of(Approval, items)}


def noes(cloud: Cloud, episode: Episode, until: datetime) -> list[Press]:
    """Return the refusals of an episode that people saw accepted until then."""
    return [
        press
        for press in cloud.presses
        if press.approval_id == episode.approval_id
        and press.answer in NOES
        and press.status in ACCEPTED
        and press.at <= until
    ]


def deeds(cloud: Cloud, episode: Episode, what: str) -> list[datetime]:
    """Return when EC2 accepted this call for the episode."""
    name = episode.ref.execution_name
    return [deed.at for deed in cloud.deeds if deed.episode == name and deed.what == what]


@dataclass(frozen=True)
class Call:
    """A call to EC2 at the moment when it is sent."""

    cloud: Cloud
    sent: Sent
    function: str
    """The function that sends it; empty for somebody outside of all functions."""

    @property
    def at(self) -> datetime:
        return self.sent.at

    @property
    def step(self) -> Step:
        """Return the step of the plan that it belongs to."""
        return {"stop": Step.STOP, "snapshot": Step.SNAPSHOT}.get(self.sent.what, Step.TERMINATE)

    @property
    def is_of_a_plan(self) -> bool:
        """Return whether it carries out a step. Snapshots before an interruption destroy
        nothing."""
        return self.sent.what != "snapshot" or self.function == "take_snapshot"

    @cached_property
    def episode(self) -> Episode | None:
        """Return the open episode behind it."""
        names = {one.ref.execution_name: one for one in episodes(self.cloud)}
        return names.get(self.sent.episode or "")

    @property
    def instance(self) -> Instance | None:
        """Return the instance when the invocation began."""
        return self.sent.seen.instances.get(self.sent.instance_id)

    @property
    def runs(self) -> bool:
        """Return whether its GPUs could work."""
        return self.instance is not None and self.instance.state == "running"

    @property
    def is_interfered(self) -> bool:
        """Return whether somebody acted while this invocation ran: it may have read what was
        before."""
        at = self.cloud.interfered_at
        return at is not None and at >= self.sent.seen.at

    @property
    def shown(self) -> Shown | None:
        """Return the instance and the policy as they were when people first read of the episode."""
        return self.cloud.shown.get(self.sent.episode or "")

    @property
    def now(self) -> Rules:
        """Return the policy when the invocation began."""
        return Rules(self.sent.seen.policy, self.instance.tags if self.instance else {})

    @property
    def then(self) -> Rules:
        """Return the policy when people first read of it; the present one where nobody has."""
        shown = self.shown
        if shown is None or shown.instance is None:
            return self.now
        return Rules(shown.policy, shown.instance.tags)

    @property
    def both(self) -> tuple[Rules, Rules]:
        """Return the policy of then and of now: the stricter of the two counts."""
        return self.then, self.now

    @property
    def known_by(self) -> datetime:
        """Return until when what was known must have been read."""
        return self.at - READ_BEFORE

    @property
    def looked_at_since(self) -> datetime:
        """Return since when work keeps the instance, whatever the ends of the readings' periods
        are."""
        minutes = max(rules.get("approval.ask_after_minutes") for rules in self.both)
        since = self.at - timedelta(minutes=minutes - 10)
        return max(since, self.instance.launch_time) if self.instance else since

    @property
    def asks(self) -> bool:
        """Return whether it takes people: by the policy of then or of now, or by the episode."""
        modes = {rules.get("mode") for rules in self.both}
        is_ask = self.episode is not None and self.episode.mode is Mode.ASK
        return is_ask or "ask" in modes

    @property
    def yes(self) -> list[Press]:
        """Return who has said yes to this question, whatever became of the answer to them."""
        if self.episode is None:
            return []
        return [
            press
            for press in self.cloud.presses
            if press.approval_id == self.episode.approval_id and press.answer == "approve"
        ]

    @property
    def people_needed(self) -> int:
        """Return how many different people must have said yes."""
        destroys = self.episode is not None and self.episode.plan.destroys
        setting = "people_to_terminate" if destroys else "people_to_stop"
        return max(int(rules.get(f"approval.{setting}")) for rules in self.both)

    @property
    def is_silent(self) -> bool:
        """Return whether nobody's yes stands behind a call that takes one."""
        return self.asks and not self.yes

    @property
    def is_begun(self) -> bool:
        """Return whether the episode has sent a call before this one: what was begun is gone on
        with."""
        return any(
            one.episode == self.sent.episode and one is not self.sent and one.what != "start"
            for one in self.cloud.sent
        )

    def mails(self, kind: str) -> Iterator[datetime]:
        """Yield when people who count for this instance got such a message about the episode."""
        people = self.then.owners() | self.then.people()
        for mail in self.cloud.mails:
            if mail.episode == self.sent.episode and mail.kind == kind and mail.to in people:
                yield mail.at

    def rechecks(self) -> list[Cleared]:
        """Return the rechecks that let this step through since it was sent last."""
        before = [
            one.at
            for one in self.cloud.sent
            if one.episode == self.sent.episode
            and one.what == self.sent.what
            and one is not self.sent
        ]
        since = max(before, default=None)
        return [
            one
            for one in self.cloud.cleared
            if one.episode == self.sent.episode
            and one.step == self.step.value
            and (since is None or one.at > since)
        ]

    def stopped_at(self) -> datetime | None:
        """Return when EC2 accepted the stop of this episode, or of the one that it goes on from."""
        if self.episode is None:
            return None
        behind = self.episode.stopped_by_episode or self.episode.ref
        found = [
            deed.at
            for deed in self.cloud.deeds
            if deed.what == "stop" and deed.episode == behind.execution_name
        ]
        return min(found, default=None)

    def record_of_holds(self) -> tuple[str | None, datetime | None]:
        """Return the exemption and the keep that are stored for the instance."""
        hold = self.cloud.state.record(TARGET, self.sent.instance_id).hold
        return hold.exempt_reason, hold.snoozed_until
