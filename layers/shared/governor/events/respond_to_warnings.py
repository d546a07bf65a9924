"""Responds to warnings of AWS, such as a Spot interruption: sends the checkpoint hook, completes
the lifecycle hook, notifies owners and cancels open questions. This module must not stop or
terminate anything.

`RESPONSES` says which steps follow from which cause. The hooks of a batch go first, in a few calls.
Every step is tried, even if another one failed. A repeated event repeats only the failed steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

from governor.core.errors import CloudError, ConfigurationError, Throttled, Unavailable
from governor.core.instance import EVENT_TAG, Instance, Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, iso
from governor.episode.model.episode import Outcome
from governor.episode.ports import Snapshotter
from governor.episode.store.instances import Instances
from governor.events.model.interruption import LifecycleAction, Warned, decide_checkpoint
from governor.events.notify_warning import AdviseElsewhere, Attempt, Case, NotifyWarning, Reaction
from governor.events.send_checkpoint import SEND, SendCheckpoint
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import Policies
from governor.policy.rules.owners import owner_of
from governor.remediation.void_episode import VoidEpisode
from governor.table.once import Once, begin


class LifecycleHooks(Protocol):
    """The lifecycle hooks of Auto Scaling groups."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """Return how long the group waits for the hook to be completed; `None` if the group has no
        such hook. Raises: CloudError."""

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        """Let the group go on. An action that is over already is no error. Raises: CloudError."""


_PATIENCE_SECONDS = 10.0
"""How long to wait for an account or Region that hangs: a third of the function's time. A call that
is not done by then goes on, and counts as failed."""
_NOTE_OPERATION = "dynamodb:TransactWriteItems"
_NOTE_SECONDS = 2.0
"""How long the notes of warnings may still take once the hooks are sent. Both begin together."""
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class RespondToWarnings:
    """Responds to interruptions by EC2, rebalance recommendations, and terminations by Auto Scaling
    groups. Parts after `checkpoint` are `None` in a function that gets no cause which needs
    them."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    instance_store: Instances
    once: Once
    notify: NotifyWarning
    checkpoint: SendCheckpoint
    void: VoidEpisode | None = None
    snapshots: Snapshotter | None = None
    advise: AdviseElsewhere | None = None
    hooks: LifecycleHooks | None = None

    def one(self, warned: Warned) -> Reaction:
        """Respond to a warning that comes alone; return its effects. Raises: the error of the first
        failed step, after the other steps were done."""
        [result] = self([warned])
        if isinstance(result, Exception):
            raise result
        return result

    def __call__(self, batch: Sequence[Warned]) -> list[Reaction | Exception]:
        """Respond to a batch of warnings; return one result for each, in their order: its effects,
        or an exception.

        An exception stands for a warning whose instance could not be read, or whose response had a
        failed step. All other steps were done, and the warning should be delivered again. The
        failure of one warning raises nothing; ConfigurationError is raised if the function has no
        role in a member account that a warning is from.
        """
        base = self.policies.base().policy
        attempts = [Attempt(warned=warned) for warned in batch]
        opened = self._examine_all(attempts, base)
        cases = [attempt for attempt in opened if isinstance(attempt, Case)]
        taken_back = [case for case in cases if case.warned.response.is_taken_back]
        # Seconds count: hooks first, then notifications and canceled questions, then snapshots and
        # advice.
        self._send_hooks_and_store_warnings(cases, taken_back)
        unsent_ids = []
        for case in cases:
            if case.is_hook_unsent:
                unsent_ids.append(case.warned.instance_id)
        without_hook = frozenset(unsent_ids)
        for attempt in opened:
            attempt.run(*self._steps(attempt, base, without_hook))
        self._snapshot_all(taken_back)
        self._advise_all(cases)
        return [attempt.result() for attempt in attempts]

    def _examine_all(self, attempts: Sequence[Attempt], base: Policy) -> list[Attempt]:
        """Read the instances of all attempts, and return the attempts that have steps left to do,
        each as `_examine` returns it; empty if none has.

        Instances are described in a few calls for each account and Region. A call that hangs does
        not hold up the others. An attempt whose instance could not be read is left out, with the
        error in its `failed`. Raises: ConfigurationError if the function has no role in a member
        account that a warning is from.
        """
        by_target = self._by_target(attempts, base)
        calls = {}
        for target, attempts_there in by_target.items():
            instance_ids = dict.fromkeys(attempt.warned.instance_id for attempt in attempts_there)
            calls[target] = partial(self.instances.describe_all, target, tuple(instance_ids))
        described = begin(calls, "ec2:DescribeInstances")(_PATIENCE_SECONDS)
        opened: list[Attempt] = []
        for target, attempts_there in by_target.items():
            for attempt in attempts_there:
                examined = attempt.get(partial(self._examine, attempt, described[target], base))
                if examined is not None:
                    opened.append(examined)
        return opened

    def _by_target(self, attempts: Sequence[Attempt], base: Policy) -> dict[Target, list[Attempt]]:
        """Return the attempts by account and Region. Attempts in other targets than the policy's
        are left out, and marked in their reaction as not ours. Raises: ConfigurationError if the
        function has no role in member accounts."""
        by_target: dict[Target, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            account = attempt.warned.account
            region = attempt.warned.region
            if self.accounts.governs(base, account, region):
                by_target[self._target(attempt.warned)].append(attempt)
            else:
                attempt.reaction.ours = False
                attempt.reaction.notes.append(f"{account} in {region} is no target of the policy")
        return by_target

    def _target(self, warned: Warned) -> Target:
        """Return the account and Region of the warning, with the role to assume there. Raises:
        ConfigurationError if the function has no role in member accounts."""
        return self.accounts.target(warned.account, warned.region)

    def _examine(
        self,
        attempt: Attempt,
        described: Mapping[str, Instance | CloudError] | CloudError,
        base: Policy,
    ) -> Attempt | None:
        """Return what is left to do about a warning, by the instances that were `described`:

        - a `Case` if the instance is governed and the warning stands; without a checkpoint if the
          stack has no hook;
        - the attempt itself if only an open question may have to be canceled: the instance is gone
          or not governed;
        - `None` if nothing is: the warning came too late, which is noted in the reaction.

        Raises: CloudError if the instance could not be read; PolicyError; ConfigurationError if the
        function was made without access to hooks, or to the account.
        """
        warned = attempt.warned
        instance = _described_instance(described, warned.instance_id)
        if instance is None or not base.selector.is_on(instance):
            attempt.reaction.ours = False
            return attempt
        if warned.lifecycle_action is not None:
            if instance.is_gone:
                # The event came late: no work can be saved any more, and the group does not wait.
                return attempt
            warned = self._with_heartbeat(warned, warned.lifecycle_action, attempt.reaction)
        # After the heartbeat the group no longer waits. If somebody extended it, they finish it
        # themselves.
        if warned.is_over(instance, self.clock.now()):
            attempt.reaction.notes.append(
                f"the event of {iso(warned.at)} came too late: it is about an earlier "
                "run, or is over"
            )
            return None
        policy = self.policies.applied_to(instance).policy
        checkpoint = None
        if self.checkpoint.hook:
            checkpoint = decide_checkpoint(instance, policy, warned)
        return Case(
            warned=warned,
            reaction=attempt.reaction,
            failed=attempt.failed,
            instance=instance,
            policy=policy,
            owner=owner_of(instance, policy.ownership),
            checkpoint=checkpoint,
        )

    def _with_heartbeat(
        self, warned: Warned, action: LifecycleAction, reaction: Reaction
    ) -> Warned:
        """Return the warning with the end of its group's wait, as the group states it. Return it
        unchanged if the group has no such hook, or cannot be asked, which is noted. Raises:
        ConfigurationError if the function was made without access to hooks, or to the account."""
        hooks = _wired(self.hooks)
        try:
            wait = hooks.heartbeat(self._target(warned), action.group, action.hook)
        except CloudError as error:
            reaction.notes.append(f"how long the group waits is not known: {error}")
            return warned
        if wait is None:
            return warned
        return replace(warned, stated_end=warned.at + wait)

    def _send_hooks_and_store_warnings(
        self, cases: Sequence[Case], taken_back: Sequence[Case]
    ) -> None:
        """Send the hooks that go before any notification, and at the same time store the warnings
        of the instances that are `taken_back`. A store that fails, or is not done two seconds after
        the hooks, is an error of each of their cases."""
        store = partial(self._store_warnings, taken_back)
        wait_for_notes = begin({_NOTE_OPERATION: store}, _NOTE_OPERATION)
        self.checkpoint.send_all([case for case in cases if case.warned.response.hook_first])
        note_error = wait_for_notes(_NOTE_SECONDS)[_NOTE_OPERATION]
        if note_error is not None:
            for case in taken_back:
                case.failed.append(note_error)

    def _store_warnings(self, cases: Sequence[Case]) -> None:
        """Store until when each warning stands: until then GPU Governor may not stop or terminate
        the instance, which saves its work. Raises: CloudError."""
        now = self.clock.now()
        until: dict[Target, dict[str, UtcDatetime]] = defaultdict(dict)
        for case in cases:
            until[case.instance.target][case.warned.instance_id] = case.warned.stands_until(now)
        for target, until_by_id in until.items():
            self.instance_store.note_warned(target, until_by_id)

    def _steps(
        self, attempt: Attempt, base: Policy, without_hook: Collection[str]
    ) -> list[Callable[[], object]]:
        """Return the steps for a warning in their order, ready to be called: notification and hook
        in the order of its cause, then the cancellation of the open question, then the completion
        of a lifecycle hook. An attempt that is no `Case` gets only the cancellation."""
        void = partial(self._cancel_question, attempt.warned, attempt.reaction)
        if not isinstance(attempt, Case):
            return [void]
        notify = partial(self.notify, attempt, base, without_hook)
        report = partial(self.checkpoint.report, attempt)
        if attempt.warned.response.hook_first:
            return [notify, report, void]
        send = partial(self.checkpoint.send_all, [attempt])
        return [notify, send, report, void, partial(self._complete, attempt)]

    def _cancel_question(self, warned: Warned, reaction: Reaction) -> None:
        """Cancel the open question about the instance, and set `voided` in the reaction: false if
        there was no question to cancel. Do nothing if the warning leaves questions open, or is
        about an earlier run of the instance. Raises: ConfigurationError if the function was
        made without access to questions, or to the account; CloudError."""
        reason = warned.void_reason
        if reason is None:
            return
        record = self.instance_store.record(self._target(warned), warned.instance_id)
        episode = record.open_episode
        if episode is not None and warned.at >= episode.launch_time:
            reaction.voided = _wired(self.void)(episode, reason, Outcome.INTERRUPTED)

    def _complete(self, case: Case) -> None:
        """Complete the lifecycle hook that the group waits for, once, if the policy names it, so
        that nobody pays for the wait.

        Do nothing for a warning that no group waits for, in mode `observe`, and while a checkpoint
        runs or may come: that would terminate the instance before its work is saved. Set
        `completed` in the reaction: false if an earlier call did it. Raises: ConfigurationError if
        the function was made without access to hooks; CloudError.
        """
        action = case.warned.lifecycle_action
        if action is None or case.policy.mode is Mode.OBSERVE or _may_save_work(case):
            return
        if action.hook in case.policy.events.completed_lifecycle_hooks:
            instance = case.instance
            hooks = _wired(self.hooks)
            complete = partial(hooks.complete, instance.target, instance.instance_id, action)
            case.reaction.completed = self.once(f"{case.warned.event_id}#completed", complete)

    def _advise_all(self, cases: Sequence[Case]) -> None:
        """Send advice on other zones for each warning whose cause has any. An error is added to its
        case. Raises: ConfigurationError if the function was made without the part that advises."""
        for case in cases:
            if case.warned.response.advises:
                case.run(partial(_wired(self.advise), case))

    def _snapshot_all(self, cases: Sequence[Case]) -> None:
        """Create snapshots of data volumes, if the policy of the instance asks for them, of all
        instances at the same time: each takes EC2 most of a second. An error is added to its case.
        A call that is not done within ten seconds is such an error, and goes on."""
        calls = {}
        for number, case in enumerate(cases):
            # One volume is the root volume, which is not copied.
            has_data_volumes = len(case.instance.volumes) > 1
            if has_data_volumes and case.policy.events.snapshot_data_volumes:
                calls[number] = partial(self._snapshot, case)
        error_by_number = begin(calls, "ec2:CreateSnapshots")(_PATIENCE_SECONDS)
        for number, error in error_by_number.items():
            if error is not None:
                cases[number].failed.append(error)

    def _snapshot(self, case: Case) -> None:
        """Create the snapshots of one instance, once for its event: a repeated event creates none.
        Raises: CloudError."""
        rule = case.policy.plan
        tags = case.instance.snapshot_tags(
            "before its interruption",
            self.clock.now() + timedelta(days=rule.snapshot_retention_days),
            {EVENT_TAG: case.warned.event_id},
            added=rule.snapshot_tags,
            copied_keys=rule.copied_tag_keys,
        )
        create = partial(self._create_snapshots, case, tags)
        self.once(f"{case.warned.event_id}#snapshots", create)

    def _create_snapshots(self, case: Case, tags: Mapping[str, str]) -> None:
        """Create snapshots of all volumes but the root volume, of which a new instance has
        its own. Set their ids in the reaction; in mode `observe`, only ask for a dry run, which
        leaves it without ids. Raises: ConfigurationError if the function was made without access
        to snapshots; CloudError; SafetyError if EC2 carried out a dry run."""
        created = _wired(self.snapshots).create(
            case.instance.target,
            case.instance.instance_id,
            tags,
            dry_run=case.policy.mode is Mode.OBSERVE,
            boot=False,
        )
        case.reaction.snapshots = tuple(sorted(snapshot.snapshot_id for snapshot in created))


def _described_instance(
    described: Mapping[str, Instance | CloudError] | CloudError, instance_id: str
) -> Instance | None:
    """Return the instance with this id from the answer for its target; `None` if EC2 does not know
    it. Raises: the CloudError that stands in place of this instance, or of the whole answer."""
    if isinstance(described, CloudError):
        raise described
    instance = described.get(instance_id)
    if isinstance(instance, CloudError):
        raise instance
    return instance


def _may_save_work(case: Case) -> bool:
    """Return whether a checkpoint runs on the instance, or may run later. It is false if no hook is
    to be sent, or Systems Manager refused it for good."""
    if not case.gets_hook:
        return False
    error = case.hook_error
    is_refused = (
        error is not None
        and error.operation == SEND
        and not isinstance(error, Throttled | Unavailable)
    )
    return not is_refused


def _wired(part: _Part | None) -> _Part:
    """Return the part itself. Raises: ConfigurationError if it is `None`, because the function was
    wired without it."""
    if part is None:
        raise ConfigurationError(
            "this function was not made for warnings of this cause: see its wiring"
        )
    return part
