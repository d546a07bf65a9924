"""Asks instances to save their work, once per warning, and says so when one could not be asked.

Never waits for a hook: the instance may be gone before it answers. This module must not know documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from governor.domain.event_messages import checkpoint_failed_alert
from governor.domain.instance import Instance, Target
from governor.domain.interruption import Checkpoint, HookAnswer, HookState, Warned
from governor.domain.parts import in_parts
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, Unavailable
from governor.ports import MOST_INSTANCES_A_COMMAND, Announcer, CheckpointHook, Clock
from governor.usecases.once import Once
from governor.usecases.parallel import Budget, at_once, too_late
from governor.usecases.tell_warning import Reaction, Told

_PATIENCE_SECONDS = 5.0
"""For all hooks together. Then people are told, who may still save by hand."""
_SEND = "ssm:SendCommand"
_NOT_REACHABLE = "InvalidInstanceId"
"""One of the instances is not managed by Systems Manager, or does not run; none has got the command."""


@dataclass(frozen=True, slots=True)
class Hooking:
    """One instance that shall be asked because of one warning."""

    instance: Instance
    warned: Warned
    signal: bool

    @property
    def key(self) -> str:
        """Under which it is noted that the hook was sent."""
        return f"{self.warned.event_id}#checkpoint"


@dataclass(frozen=True, slots=True)
class SendCheckpoint:
    """`hook` is `None` in a stack that was given no document."""

    clock: Clock
    hook: CheckpointHook | None
    once: Once
    announcer: Announcer

    def __call__(
        self,
        instance: Instance,
        warned: Warned,
        checkpoint: Checkpoint | None,
        owner: str,
        project: str,
        reaction: Reaction,
    ) -> None:
        """Sends the hook unless it was sent before. A failure is told where the warning was told singly.

        Raises:
            CloudError: it could not be sent, or not be noted as sent; a repeated event tries again.
        """
        if checkpoint is None or not checkpoint.send:
            return
        results = self.send_all([Hooking(instance, warned, checkpoint.signal)])
        self.report(instance, warned, results, owner, project, reaction)

    def send_all(self, wanted: Sequence[Hooking]) -> dict[str, CloudError | None]:
        """Sends the hooks of many warnings in as few commands as there are kinds of them.

        Returns by event id: `None` where the hook was sent now, the error where it could not be sent, or not
        be noted as sent. A hook that was sent before is not in it.
        """
        hook = self.hook
        if hook is None:
            return {}
        by_key = {one.key: one for one in wanted}
        results = self.once.of_many(
            tuple(by_key), lambda keys: self._send(hook, [by_key[key] for key in keys])
        )
        return {by_key[key].warned.event_id: failed for key, failed in results.items()}

    def report(
        self,
        instance: Instance,
        warned: Warned,
        results: Mapping[str, CloudError | None],
        owner: str,
        project: str,
        reaction: Reaction,
    ) -> None:
        """Notes what became of the hook of one warning; a failure is told where the warning was told singly.

        Raises:
            CloudError: as `send_all` says for this event.
        """
        if warned.event_id not in results:
            return
        error = results[warned.event_id]
        if error is None:
            reaction.checkpoint_sent = True
            return
        hook = answer(warned, results)
        if reaction.told is Told.SINGLY and not hook.was_sent:
            self._tell_failure(instance, warned, hook, error, owner, project)
        raise error

    def _send(self, hook: CheckpointHook, wanted: Sequence[Hooking]) -> dict[str, CloudError | None]:
        """All commands at the same time, within the time that hooks have."""
        budget, results = Budget.of(_PATIENCE_SECONDS), _Results()
        commands = _commands(hook, wanted, self.clock.now())
        calls = {
            number: partial(_send_to_all, command, results, budget) for number, command in enumerate(commands)
        }
        at_once(calls, budget.left(), _SEND)
        # A copy: what answers later is nobody's result any more.
        known = dict(results)
        late = too_late(_SEND, f"{_PATIENCE_SECONDS:g} s")
        return {one.key: known.get(one.key, late) for one in wanted}

    def _tell_failure(
        self,
        instance: Instance,
        warned: Warned,
        hook: HookAnswer,
        error: CloudError,
        owner: str,
        project: str,
    ) -> None:
        alert = checkpoint_failed_alert(instance, warned, hook, owner, project, self.clock.now())
        try:
            self.once(f"{warned.event_id}#checkpoint-failed", lambda: self.announcer.announce(alert))
        except CloudError as untold:
            error.add_note(f"and this could not be told: {untold}")


def answer(warned: Warned, results: Mapping[str, CloudError | None]) -> HookAnswer:
    """What `send_all` says of the hook of one warning that shall be sent, in the words of a message."""
    if warned.event_id not in results:
        return HookAnswer(HookState.EARLIER)
    error = results[warned.event_id]
    # Where only the note of it failed, it was sent.
    if error is None or error.operation.startswith("dynamodb:"):
        return HookAnswer(HookState.SENT)
    state = HookState.UNKNOWN if isinstance(error, Unavailable) else HookState.REFUSED
    return HookAnswer(state, str(error))


_Results = dict[str, CloudError | None]
"""What became of each hook, by its key: noted as soon as it is known, whatever hangs meanwhile."""


@dataclass(frozen=True, slots=True)
class _Command:
    """What is sent in one call: the same to all of these instances of one account and Region."""

    hook: CheckpointHook
    target: Target
    reason: str
    seconds_left: int
    signal: bool
    to: Sequence[Hooking]

    @property
    def instance_ids(self) -> list[str]:
        # Of two warnings about one instance: Systems Manager refuses what is named twice.
        return list(dict.fromkeys(one.instance.instance_id for one in self.to))

    def send(self) -> CloudError | None:
        """Why it was not taken, if it was not."""
        try:
            self.hook.send(self.target, self.instance_ids, self.reason, self.seconds_left, signal=self.signal)
        except CloudError as error:
            return error
        return None


def _commands(hook: CheckpointHook, wanted: Sequence[Hooking], now: UtcDatetime) -> list[_Command]:
    """As few as there are kinds of them; the first of each account and Region before the second of any."""
    alike: dict[tuple[Target, str, int, bool], list[Hooking]] = defaultdict(list)
    for one in wanted:
        warned = one.warned
        alike[one.instance.target, warned.hook_reason, warned.seconds_left(now), one.signal].append(one)
    by_target: dict[Target, list[_Command]] = defaultdict(list)
    for (target, reason, left, signal), group in alike.items():
        by_target[target] += [
            _Command(hook, target, reason, left, signal, part)
            for part in in_parts(group, MOST_INSTANCES_A_COMMAND)
        ]
    rounds = zip_longest(*by_target.values())
    return [command for each in rounds for command in each if command is not None]


def _send_to_all(command: _Command, results: _Results, budget: Budget) -> None:
    """One command; where it is refused for some, one more to those that Systems Manager knows.

    Never halved until the culprits are found: of two hundred instances that nothing manages that would be
    four hundred calls, one after the other.
    """
    refused = _note(command, command.send(), results)
    if refused is None or budget.is_over:
        return
    try:
        managed = command.hook.managed(command.target, command.instance_ids)
    except CloudError:
        _send_to_each(command, results, budget)
        return
    known = replace(command, to=[one for one in command.to if one.instance.instance_id in managed])
    lost = [one for one in command.to if one.instance.instance_id not in managed]
    for one in lost:
        results[one.key] = _not_managed(one, refused)
    # One that it knows may not run any more: then nobody can say which.
    still_refused = not lost or (known.to and _note(known, known.send(), results) is not None)
    if still_refused:
        _send_to_each(known, results, budget)


def _send_to_each(command: _Command, results: _Results, budget: Budget) -> None:
    def send(one: Hooking) -> None:
        if not budget.is_over:
            alone = replace(command, to=[one])
            _note(alone, alone.send(), results)

    at_once({one.key: partial(send, one) for one in command.to}, budget.left(), _SEND)


def _note(command: _Command, error: CloudError | None, results: _Results) -> CloudError | None:
    """Notes what became of the command; the error, where somebody in it may still be reached."""
    if error is not None and error.code == _NOT_REACHABLE:
        if len(command.to) > 1:
            return error
        (one,) = command.to
        error = _not_managed(one, error)
    for one in command.to:
        results[one.key] = error
    return None


def _not_managed(one: Hooking, error: CloudError) -> CloudError:
    text = f"{one.instance.instance_id} is not managed by Systems Manager, or does not run ({error})"
    return CloudError(text, operation=_SEND, code=_NOT_REACHABLE)
