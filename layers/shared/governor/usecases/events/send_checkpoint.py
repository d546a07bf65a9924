"""Asks instances to save their work, once per warning, and reports those that could not be asked.

Never waits for a hook: the instance may be gone before it answers. This module must not know documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from governor.domain.events.event_messages import checkpoint_failed_alert
from governor.domain.events.interruption import HookAnswer, HookState, Warned
from governor.domain.instance import Target
from governor.domain.parts import in_parts
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, Unavailable
from governor.ports import MOST_INSTANCES_A_COMMAND, Announcer, CheckpointHook, Clock
from governor.usecases.events.notify_warning import Case, Notified
from governor.usecases.once import Once
from governor.usecases.parallel import Budget, at_once, too_late

_PATIENCE_SECONDS = 5.0
"""For all hooks together. Then owners are notified, who may still save by hand."""
SEND = "ssm:SendCommand"
_NOT_REACHABLE = "InvalidInstanceId"
"""One of the instances is not managed by Systems Manager, or does not run; none has got the command."""


Results = dict[str, CloudError | None]
"""What became of each hook, by event id: `None` where it was sent, else why not. A hook that was sent before
is not in it."""


@dataclass(frozen=True, slots=True)
class SendCheckpoint:
    """Sends checkpoint hooks. `hook` is `None` in a stack that was given no document."""

    clock: Clock
    hook: CheckpointHook | None
    once: Once
    announcer: Announcer

    def send_all(self, cases: Sequence[Case]) -> Results:
        """Send the hooks of many warnings in as few commands as there are kinds of them.

        A hook that was sent, but could not be noted as sent, counts as failed: a repeated event tries again.
        """
        hook = self.hook
        if hook is None:
            return {}
        by_key = {f"{case.warned.event_id}#checkpoint": case for case in cases if case.is_hooked}

        def send(keys: Sequence[str]) -> Mapping[str, CloudError | None]:
            results = self._send(hook, [by_key[key] for key in keys])
            return {key: results[by_key[key].warned.event_id] for key in keys}

        results = self.once.of_many(tuple(by_key), send)
        return {by_key[key].warned.event_id: failed for key, failed in results.items()}

    def report(self, case: Case, results: Results) -> None:
        """Note what became of the hook of one warning; notify of a failure where the warning was sent singly.

        Raises:
            CloudError: the hook could not be sent, or not be noted as sent; a repeated event tries again.
        """
        if case.warned.event_id not in results:
            return
        error = results[case.warned.event_id]
        if error is None:
            case.reaction.checkpoint_sent = True
            return
        hook = answer(case.warned, results)
        if case.reaction.notified is Notified.SINGLY and not hook.was_sent:
            self._notify_failure(case, hook, error)
        raise error

    def _send(self, hook: CheckpointHook, cases: Sequence[Case]) -> Results:
        """All commands at the same time, within the time that hooks have."""
        budget, results = Budget.of(_PATIENCE_SECONDS), Results()
        commands = _commands(hook, cases, self.clock.now())
        calls = {
            number: partial(_send_to_all, command, results, budget) for number, command in enumerate(commands)
        }
        at_once(calls, budget.left(), SEND)
        # A copy: an answer that comes later is nobody's result any more.
        known = dict(results)
        late = too_late(SEND, f"{_PATIENCE_SECONDS:g} s")
        return {case.warned.event_id: known.get(case.warned.event_id, late) for case in cases}

    def _notify_failure(self, case: Case, hook: HookAnswer, error: CloudError) -> None:
        alert = checkpoint_failed_alert(case.instance, case.warned, hook, case.owner, self.clock.now())
        try:
            announce = partial(self.announcer.announce, alert)
            self.once(f"{case.warned.event_id}#checkpoint-failed", announce)
        except CloudError as unsent:
            error.add_note(f"and its owner could not be notified: {unsent}")


def answer(warned: Warned, results: Results) -> HookAnswer:
    """What `send_all` says of the hook of one warning that shall be sent, in the words of a message."""
    if warned.event_id not in results:
        return HookAnswer(HookState.EARLIER)
    error = results[warned.event_id]
    # Where only the note of it failed, it was sent.
    if error is None or error.operation.startswith("dynamodb:"):
        return HookAnswer(HookState.SENT)
    state = HookState.UNKNOWN if isinstance(error, Unavailable) else HookState.REFUSED
    return HookAnswer(state, str(error))


@dataclass(frozen=True, slots=True)
class _Command:
    """What is sent in one call: the same to all of these instances of one account and Region."""

    hook: CheckpointHook
    target: Target
    reason: str
    seconds_left: int
    signal: bool
    to: Sequence[Case]

    @property
    def instance_ids(self) -> list[str]:
        # Of two warnings about one instance: Systems Manager refuses what is named twice.
        return list(dict.fromkeys(case.instance.instance_id for case in self.to))

    def send(self, results: Results) -> CloudError | None:
        """Send it and note what became of it; the error, where somebody in it may still be reached."""
        error: CloudError | None = None
        try:
            self.hook.send(self.target, self.instance_ids, self.reason, self.seconds_left, signal=self.signal)
        except CloudError as refused:
            error = refused
        if error is not None and error.code == _NOT_REACHABLE:
            if len(self.to) > 1:
                return error
            error = _not_managed(self.to[0], error)
        for case in self.to:
            results[case.warned.event_id] = error
        return None


def _commands(hook: CheckpointHook, cases: Sequence[Case], now: UtcDatetime) -> list[_Command]:
    """As few as there are kinds of them; the first of each account and Region before the second of any."""
    alike: dict[tuple[Target, str, int, bool], list[Case]] = defaultdict(list)
    for case in cases:
        warned, signal = case.warned, case.checkpoint is not None and case.checkpoint.signal
        key = case.instance.target, warned.response.hook_reason, warned.seconds_left(now), signal
        alike[key].append(case)
    by_target: dict[Target, list[_Command]] = defaultdict(list)
    for kind, group in alike.items():
        parts = in_parts(group, MOST_INSTANCES_A_COMMAND)
        by_target[kind[0]] += [_Command(hook, *kind, part) for part in parts]
    rounds = zip_longest(*by_target.values())
    return [command for each in rounds for command in each if command is not None]


def _send_to_all(command: _Command, results: Results, budget: Budget) -> None:
    """One command; where it is refused for some, one more to those that Systems Manager knows.

    Never halved until the culprits are found: of two hundred instances that nothing manages that would be
    four hundred calls, one after the other.
    """
    refused = command.send(results)
    if refused is None or budget.is_over:
        return
    try:
        managed = command.hook.managed(command.target, command.instance_ids)
    except CloudError:
        _send_to_each(command, results, budget)
        return
    known = replace(command, to=[case for case in command.to if case.instance.instance_id in managed])
    lost = [case for case in command.to if case.instance.instance_id not in managed]
    for case in lost:
        results[case.warned.event_id] = _not_managed(case, refused)
    # One that it knows may not run any more: then nobody can say which.
    still_refused = not lost or (known.to and known.send(results) is not None)
    if still_refused:
        _send_to_each(known, results, budget)


def _send_to_each(command: _Command, results: Results, budget: Budget) -> None:
    def send(case: Case) -> None:
        if not budget.is_over:
            replace(command, to=[case]).send(results)

    calls = {case.warned.event_id: partial(send, case) for case in command.to}
    at_once(calls, budget.left(), SEND)


def _not_managed(case: Case, error: CloudError) -> CloudError:
    text = f"{case.instance.instance_id} is not managed by Systems Manager, or does not run ({error})"
    return CloudError(text, operation=SEND, code=_NOT_REACHABLE)
