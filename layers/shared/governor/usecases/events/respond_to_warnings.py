"""Responds to warnings that instances are taken back: work is saved, owners are notified, questions
void.

`RESPONSES` says which steps follow from which cause. The hooks of a batch go first, in a few calls.
Each step is tried whatever became of the others, and a repeated event repeats only what failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from governor.domain.alerts.alert import owner_of
from governor.domain.episode.episode import Outcome
from governor.domain.events.interruption import LifecycleAction, Warned, decide_checkpoint
from governor.domain.instance import EVENT_TAG, Instance, Target
from governor.domain.policy.policy import Mode, Policy
from governor.domain.units import UtcDatetime, iso
from governor.errors import CloudError, ConfigurationError, Throttled, Unavailable
from governor.ports import Clock, InstanceReader, LifecycleHooks, Policies, Snapshotter
from governor.stores import Instances
from governor.usecases.accounts import Accounts
from governor.usecases.episode.end_episode import VoidEpisode
from governor.usecases.events.notify_warning import (
    AdviseElsewhere,
    Attempt,
    Case,
    NotifyWarning,
    Reaction,
)
from governor.usecases.events.send_checkpoint import SEND, SendCheckpoint
from governor.usecases.once import Once, begin

_PATIENCE_SECONDS = 10.0
"""With an account or Region that hangs: a third of the function's time."""
_NOTE, _NOTE_SECONDS = "dynamodb:TransactWriteItems", 2.0
"""How long the notes of warnings may take after the hooks, beside which they are begun."""
_GONE = ("shutting-down", "terminated")
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class RespondToWarnings:
    """Interruptions by EC2, rebalance recommendations, and terminations by Auto Scaling groups. The
    parts after `checkpoint` are `None` in a function that gets no cause which needs them."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    state: Instances
    once: Once
    notify: NotifyWarning
    checkpoint: SendCheckpoint
    void: VoidEpisode | None = None
    snapshots: Snapshotter | None = None
    advise: AdviseElsewhere | None = None
    hooks: LifecycleHooks | None = None

    def one(self, warned: Warned) -> Reaction:
        """Respond to a warning that comes alone. Raises what kept a step of it from being done."""
        (result,) = self([warned])
        if isinstance(result, Exception):
            raise result
        return result

    def __call__(self, batch: Sequence[Warned]) -> list[Reaction | Exception]:
        """Return what was done about each warning, in their order; an exception where the instance
        could not be read, or a step failed. All others were done, and the warning should come
        again."""
        base = self.policies.base().policy
        attempts = [Attempt(warned=warned) for warned in batch]
        opened = self._open(attempts, base)
        cases = [one for one in opened if isinstance(one, Case)]
        taken_back = [case for case in cases if case.warned.response.is_taken_back]
        noted = begin({_NOTE: partial(self._note_all, taken_back)}, _NOTE)
        self.checkpoint.send_all([case for case in cases if case.warned.response.hook_first])
        unasked = frozenset(case.warned.instance_id for case in cases if case.is_unasked)
        if (unnoted := noted(_NOTE_SECONDS)[_NOTE]) is not None:
            for case in taken_back:
                case.failed.append(unnoted)
        for one in opened:
            one.run(*self._steps(one, base, unasked))
        self._snapshot_all(taken_back)
        for case in cases:
            if case.warned.response.advises:
                case.run(partial(_wired(self.advise), case))
        return [one.result() for one in attempts]

    def _open(self, attempts: Sequence[Attempt], base: Policy) -> list[Attempt]:
        """Return those with anything left to do, as `_look` says. Instances are described in a few
        calls for each account and Region; one that hangs holds up no other."""
        wanted: dict[Target, list[Attempt]] = defaultdict(list)
        for one in attempts:
            account, region = one.warned.account, one.warned.region
            if self.accounts.governs(base, account, region):
                wanted[self._target(one.warned)].append(one)
            else:
                one.reaction.ours = False
                one.reaction.notes.append(f"{account} in {region} is no target of the policy")
        calls = {}
        for target, theirs in wanted.items():
            ids = tuple(dict.fromkeys(one.warned.instance_id for one in theirs))
            calls[target] = partial(self.instances.describe_all, target, ids)
        known = begin(calls, "ec2:DescribeInstances")(_PATIENCE_SECONDS)
        opened: list[Attempt] = []
        for target, theirs in wanted.items():
            for one in theirs:
                one.run(partial(self._look, one, known[target], base, opened))
        return opened

    def _target(self, warned: Warned) -> Target:
        return self.accounts.target(warned.account, warned.region)

    def _look(
        self,
        attempt: Attempt,
        described: Mapping[str, Instance | CloudError] | CloudError,
        base: Policy,
        opened: list[Attempt],
    ) -> None:
        """Open a `Case` of a governed instance; of any other, the attempt: its question is taken
        back."""
        warned, reaction = attempt.warned, attempt.reaction
        instance = (
            described if isinstance(described, CloudError) else described.get(warned.instance_id)
        )
        if isinstance(instance, CloudError):
            raise instance
        if instance is None or not base.selector.is_on(instance):
            reaction.ours = False
            opened.append(attempt)
            return
        if (action := warned.waits) is not None:
            if instance.state in _GONE:
                # The event came late: nobody can save anything any more, and nothing waits.
                opened.append(attempt)
                return
            warned = self._until(warned, action, reaction)
        # Past its heartbeat no group waits, unless somebody prolonged it: then it is left to them.
        if warned.is_over(instance, self.clock.now()):
            reaction.notes.append(
                f"the event of {iso(warned.at)} came too late: it is about an earlier "
                "run, or is over"
            )
            return
        policy = self.policies.applied_to(instance).policy
        opened.append(
            Case(
                warned=warned,
                reaction=reaction,
                failed=attempt.failed,
                instance=instance,
                policy=policy,
                owner=owner_of(instance, policy.ownership),
                checkpoint=decide_checkpoint(instance, policy, warned)
                if self.checkpoint.hook
                else None,
            )
        )

    def _until(self, warned: Warned, action: LifecycleAction, reaction: Reaction) -> Warned:
        try:
            wait = _wired(self.hooks).heartbeat(self._target(warned), action.group, action.hook)
        except CloudError as error:
            reaction.notes.append(f"how long the group waits is not known: {error}")
            return warned
        return warned if wait is None else replace(warned, stated_end=warned.at + wait)

    def _note_all(self, cases: Sequence[Case]) -> None:
        """Beside the hooks: nothing of ours may stop or terminate an instance under its
        checkpoint."""
        now = self.clock.now()
        until: dict[Target, dict[str, UtcDatetime]] = defaultdict(dict)
        for case in cases:
            until[case.instance.target][case.warned.instance_id] = case.warned.stands_until(now)
        for target, theirs in until.items():
            self.state.note_warned(target, theirs)

    def _steps(
        self, attempt: Attempt, base: Policy, unasked: Collection[str]
    ) -> list[Callable[[], object]]:
        """Notification and hook in the order of the cause; then the question is taken back."""
        void = partial(self._void, attempt.warned, attempt.reaction)
        if not isinstance(attempt, Case):
            return [void]
        notify = partial(self.notify, attempt, base, unasked)
        report = partial(self.checkpoint.report, attempt)
        if attempt.warned.response.hook_first:
            return [notify, report, void]
        send = partial(self.checkpoint.send_all, [attempt])
        return [notify, send, report, void, partial(self._complete, attempt)]

    def _void(self, warned: Warned, reaction: Reaction) -> None:
        if (reason := warned.void_reason) is None:
            return
        record = self.state.record(self._target(warned), warned.instance_id)
        if record.open_episode is not None and warned.at >= record.open_episode.launch_time:
            reaction.voided = _wired(self.void)(record.open_episode, reason, Outcome.INTERRUPTED)

    def _complete(self, case: Case) -> None:
        """Complete a hook that the policy names, so that nobody pays for the wait; but not where a
        checkpoint runs or may come, as that would end the instance under it."""
        action, failed = case.warned.waits, case.hook_error
        may_come = isinstance(failed, Throttled | Unavailable)
        is_refused = failed is not None and failed.operation == SEND and not may_come
        if (
            action is None
            or case.policy.mode is Mode.OBSERVE
            or (case.is_hooked and not is_refused)
        ):
            return
        if action.hook in case.policy.events.completed_lifecycle_hooks:
            instance = case.instance
            complete = partial(
                _wired(self.hooks).complete, instance.target, instance.instance_id, action
            )
            case.reaction.completed = self.once(f"{case.warned.event_id}#completed", complete)

    def _snapshot_all(self, cases: Sequence[Case]) -> None:
        """At the same time: each takes EC2 most of a second. After the messages, which need none of
        them."""
        calls = {
            number: partial(self._snapshot, case)
            for number, case in enumerate(cases)
            if case.policy.events.snapshot_data_volumes and len(case.instance.volumes) > 1
        }
        for number, failed in begin(calls, "ec2:CreateSnapshots")(_PATIENCE_SECONDS).items():
            if failed is not None:
                cases[number].failed.append(failed)

    def _snapshot(self, case: Case) -> None:
        """Data volumes only: the boot volume holds nothing that a new instance does not bring."""
        instance, warned, policy = case.instance, case.warned, case.policy
        until = self.clock.now() + timedelta(days=policy.plan.snapshot_retention_days)
        tags = instance.snapshot_tags(
            "before its interruption", until, {EVENT_TAG: warned.event_id}
        )

        def create() -> None:
            created = _wired(self.snapshots).create(
                instance.target,
                instance.instance_id,
                tags,
                dry_run=policy.mode is Mode.OBSERVE,
                boot=False,
            )
            case.reaction.snapshots = tuple(sorted(snapshot.snapshot_id for snapshot in created))

        self.once(f"{warned.event_id}#snapshots", create)


def _wired(part: _Part | None) -> _Part:
    if part is None:
        raise ConfigurationError(
            "this function was not made for warnings of this cause: see its wiring"
        )
    return part
