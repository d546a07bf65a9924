"""EC2 takes instances back in two minutes: asked to save their work, told, their data volumes snapshot.

Warnings come in crowds, so they are taken in batches: the hooks of all of them go first, in a handful of
calls, and what takes a call for each instance comes after. Then questions are taken back, and people are
advised where else to run. Each step of each warning is tried whatever became of the others: of two minutes,
none may be lost to a table or a channel that is busy. What failed is told to the caller, and a repeated event
does it again, and only it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from governor.domain.episode import Outcome
from governor.domain.event_messages import interruption_alert
from governor.domain.instance import Instance, Target
from governor.domain.interruption import Checkpoint, Warned, decide_checkpoint
from governor.domain.owner import owner_of
from governor.domain.policy import Mode, Policy
from governor.domain.units import UtcDatetime, iso
from governor.errors import CloudError
from governor.ports import Clock, InstanceReader, Policies, Snapshotter, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.advise_elsewhere import AdviseElsewhere
from governor.usecases.once import Once, joined, run_all
from governor.usecases.parallel import at_once, begin
from governor.usecases.send_checkpoint import Hooking, SendCheckpoint, answer
from governor.usecases.take_snapshot import DELETE_AFTER_TAG, INSTANCE_TAG
from governor.usecases.tell_warning import Reaction, TellWarning
from governor.usecases.void_episode import VoidEpisode

EVENT_TAG = "GpuGovernor:Event"
_PATIENCE_SECONDS = 10.0
"""With an account or Region that hangs: a third of the function's time."""
_NOTE, _NOTE_SECONDS = "dynamodb:TransactWriteItems", 2.0
"""How long the notes of warnings may take after the hooks, beside which they are begun."""
_Hooks = Mapping[str, CloudError | None]
"""What became of the hook, by event id."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A warning of an instance that is ours. `decided` is `None` in a stack without a document."""

    warned: Warned
    instance: Instance
    policy: Policy
    decided: Checkpoint | None
    owner: str
    project: str


@dataclass(slots=True)
class _Progress:
    """How far one warning has come. `case` is `None` where the instance is not ours, or not to be looked at.

    `is_settled`: nothing more is to be done.
    """

    warned: Warned
    case: _Case | None = None
    is_settled: bool = False
    reaction: Reaction = field(default_factory=Reaction)
    failed: list[Exception] = field(default_factory=list)

    def run(self, *steps: Callable[[], object]) -> None:
        """Tries every step, whatever becomes of those before it."""
        try:
            run_all(steps)
        except Exception as error:  # noqa: BLE001 - it is this warning's result; the others have their turn
            self.failed.append(error)

    def result(self) -> Reaction | Exception:
        """What was done, or what failed."""
        return joined(self.failed) if self.failed else self.reaction


@dataclass(frozen=True, slots=True)
class ReactToInterruption:
    """Warnings that instances are taken back."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    state: StateTable
    void: VoidEpisode
    once: Once
    tell: TellWarning
    checkpoint: SendCheckpoint
    snapshots: Snapshotter
    advise: AdviseElsewhere

    def __call__(self, batch: Sequence[Warned]) -> list[Reaction | Exception]:
        """What was done about each warning, in their order.

        An exception means that the instance could not be read, or that a step failed; all others were done
        all the same, and the warning should come again.
        """
        base = self.policies.base().policy
        progresses = [_Progress(warned) for warned in batch]
        governed = [one for one in progresses if self._is_governed(one, base)]
        known = self._describe([one.warned for one in governed])
        for one in governed:
            self._look(one, known, base)
        noted = begin(partial(self._note_all, governed), _NOTE)
        hooks = self.checkpoint.send_all(
            [
                Hooking(case.instance, case.warned, case.decided.signal)
                for one in governed
                if (case := one.case) is not None and case.decided is not None and case.decided.send
            ]
        )
        unasked = frozenset(
            one.warned.instance_id
            for one in governed
            if one.warned.event_id in hooks and not answer(one.warned, hooks).was_sent
        )
        unnoted = noted(_NOTE_SECONDS)
        for one in governed:
            if unnoted is not None and one.case is not None:
                one.failed.append(unnoted)
            if not one.is_settled:
                self._tell(one, base, hooks, unasked)
        self._snapshot_all(governed)
        for one in governed:
            if one.case is not None:
                one.run(partial(self._advise, one.case, one.reaction))
        return [one.result() for one in progresses]

    def _is_governed(self, progress: _Progress, base: Policy) -> bool:
        warned = progress.warned
        if self.accounts.governs(base, warned.account, warned.region):
            return True
        progress.reaction.elsewhere(warned.account, warned.region)
        return False

    def _describe(self, batch: Sequence[Warned]) -> dict[Target, Mapping[str, Instance] | CloudError]:
        """All instances, a few calls for each account and Region; one that hangs holds up no other."""
        wanted: dict[Target, list[str]] = defaultdict(list)
        for warned in batch:
            wanted[self.accounts.target(warned.account, warned.region)].append(warned.instance_id)
        calls = {
            target: partial(self.instances.describe_all, target, tuple(dict.fromkeys(ids)))
            for target, ids in wanted.items()
        }
        return at_once(calls, _PATIENCE_SECONDS, "ec2:DescribeInstances")

    def _look(
        self, progress: _Progress, known: Mapping[Target, Mapping[str, Instance] | CloudError], base: Policy
    ) -> None:
        """Finds out what the warning is about, once for everything that follows."""
        warned = progress.warned
        described = known[self.accounts.target(warned.account, warned.region)]
        try:
            if isinstance(described, CloudError):
                raise described
            case = self._case(warned, described, base)
            is_over = case is not None and warned.is_over(case.instance, self.clock.now())
        except Exception as error:  # noqa: BLE001 - it is this warning's result; the others have their turn
            progress.failed.append(error)
            progress.is_settled = True
            return
        if is_over:
            progress.reaction.too_late(warned)
            progress.is_settled = True
            return
        progress.case, progress.reaction.ours = case, case is not None

    def _case(self, warned: Warned, described: Mapping[str, Instance], base: Policy) -> _Case | None:
        """`None` for an instance that is not ours."""
        instance = described.get(warned.instance_id)
        if instance is None or not base.selector.is_on(instance):
            return None
        policy = self.policies.applied_to(instance).policy
        owner, project = owner_of(instance, policy.ownership)
        decided = decide_checkpoint(instance, policy, warned) if self.checkpoint.hook else None
        return _Case(warned, instance, policy, decided, owner, project)

    def _note_all(self, progresses: Sequence[_Progress]) -> None:
        """Beside the hooks: nothing of ours may stop or terminate an instance under its checkpoint.

        Raises:
            CloudError: not all could be noted; a repeated event does it.
        """
        now = self.clock.now()
        until: dict[Target, dict[str, UtcDatetime]] = defaultdict(dict)
        for one in progresses:
            if one.case is not None:
                until[one.case.instance.target][one.warned.instance_id] = one.warned.stands_until(now)
        for target, theirs in until.items():
            self.state.note_warned(target, theirs)

    def _tell(self, progress: _Progress, base: Policy, hooks: _Hooks, unasked: Collection[str]) -> None:
        """Told, and its question taken back."""
        warned, case, reaction = progress.warned, progress.case, progress.reaction
        target = self.accounts.target(warned.account, warned.region)
        telling = [] if case is None else self._telling(case, base, hooks, unasked, reaction)
        progress.run(*telling, lambda: self._void(target, warned, reaction))

    def _telling(
        self, case: _Case, base: Policy, hooks: _Hooks, unasked: Collection[str], reaction: Reaction
    ) -> list[Callable[[], object]]:
        instance, warned, owner, project = case.instance, case.warned, case.owner, case.project
        hook = answer(warned, hooks)
        return [
            lambda: self.tell(
                instance,
                warned,
                base,
                lambda: interruption_alert(
                    instance, warned, case.decided, owner, project, self.clock.now(), hook
                ),
                reaction,
                unasked,
            ),
            lambda: self.checkpoint.report(instance, warned, hooks, owner, project, reaction),
        ]

    def _snapshot_all(self, progresses: Sequence[_Progress]) -> None:
        """At the same time: each takes EC2 most of a second. After the telling, which needs none of them."""
        calls = {
            number: partial(self._snapshot, case, one.reaction)
            for number, one in enumerate(progresses)
            if (case := one.case) is not None
            and case.policy.events.snapshot_data_volumes
            and len(case.instance.volumes) > 1
        }
        for number, failed in at_once(calls, _PATIENCE_SECONDS, "ec2:CreateSnapshots").items():
            if failed is not None:
                progresses[number].failed.append(failed)

    def _advise(self, case: _Case, reaction: Reaction) -> None:
        self.advise(case.instance, case.policy, case.owner, case.project, reaction)

    def _snapshot(self, case: _Case, reaction: Reaction) -> None:
        """Data volumes only: the boot volume holds nothing that a new instance does not bring."""
        instance, warned, policy = case.instance, case.warned, case.policy
        tags = {
            "Name": instance.snapshot_name("before its interruption"),
            EVENT_TAG: warned.event_id,
            INSTANCE_TAG: instance.instance_id,
            DELETE_AFTER_TAG: iso(self.clock.now() + timedelta(days=policy.plan.snapshot_retention_days)),
        }

        def create() -> None:
            created = self.snapshots.create(
                instance.target,
                instance.instance_id,
                tags,
                dry_run=policy.mode is Mode.OBSERVE,
                boot_volume=False,
            )
            reaction.snapshots = tuple(sorted(snapshot.snapshot_id for snapshot in created))

        self.once(f"{warned.event_id}#snapshots", create)

    def _void(self, target: Target, warned: Warned, reaction: Reaction) -> None:
        record = self.state.record(target, warned.instance_id)
        if record.open_episode is not None and warned.at >= record.open_episode.launch_time:
            reason = f"{warned.cause.value} interruption: {warned.plan}"
            reaction.voided = self.void(record.open_episode, reason, Outcome.INTERRUPTED)
