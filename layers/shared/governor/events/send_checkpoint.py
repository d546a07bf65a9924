"""Sends the checkpoint hook to instances, once per warning, so that they save their work, and
reports those that could not be reached.

It never waits for a hook to end: the instance may be gone before that.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple, Protocol

from governor.alerts.ports import Announcer
from governor.core.errors import CloudError, Unavailable
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_parts, not_none
from governor.events.messages import checkpoint_failed_alert
from governor.events.model.interruption import HookAnswer, HookState
from governor.events.notify_warning import Case, Notified
from governor.table.once import Once, begin, timeout_error

MOST_INSTANCES_A_COMMAND = 50
"""Source: Systems Manager API, SendCommand, `InstanceIds`."""


class CheckpointHook(Protocol):
    """Asks instances to save their work through Systems Manager, and never waits for them to do so.
    A call takes at most `MOST_INSTANCES_A_COMMAND` instances."""

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        sigterm_if_no_hook: bool,
    ) -> str:
        """Send the command to these instances, and return its id. With `sigterm_if_no_hook`, GPU
        processes get a SIGTERM on an instance that has no hook. Raises: CloudError, also if one
        instance is not managed; then no instance has received it."""

    def managed(self, target: Target, instance_ids: Sequence[str]) -> Collection[str]:
        """Return those of these ids that Systems Manager manages; empty if there are none. Raises:
        CloudError."""


_PATIENCE_SECONDS = 5.0
"""Time for all hooks together. After it owners are notified, who may still save work by hand."""
SEND = "ssm:SendCommand"
_NOT_REACHABLE = "InvalidInstanceId"
"""One of the instances is not managed by Systems Manager, or is not running; none has got the
command."""
_Results = dict[str, CloudError | None]
"""Results of hooks, by event id or key: `None` if the hook was sent, else the error."""


class _Kind(NamedTuple):
    """The content of a command. Warnings with an equal content can share one command."""

    target: Target
    reason: str
    seconds_left: int
    sigterm_if_no_hook: bool
    """True if GPU processes get a SIGTERM where the instance has no hook to run."""


@dataclass(frozen=True, slots=True)
class SendCheckpoint:
    """Sends checkpoint hooks. `hook` is `None` in a stack that was given no document."""

    clock: Clock
    hook: CheckpointHook | None
    once: Once
    announcer: Announcer

    def send_all(self, cases: Sequence[Case]) -> None:
        """Send the hooks of those cases that get one, in few commands and once for each event.

        Set their `hook` to sent, sent earlier, refused or unknown, and their `hook_error` to the
        error, or to `None`. A failure is set, not raised.

        A hook that could not be noted as sent counts as failed: a repeated event tries again. Do
        nothing in a stack without a checkpoint hook.
        """
        hook = self.hook
        if hook is None:
            return
        by_key: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            if case.gets_hook:
                by_key[f"{case.warned.event_id}#checkpoint"].append(case)

        def send(keys: Sequence[str]) -> _Results:
            """Send the hooks of these keys; return the result of each by key."""
            # Deliveries of one event want the same hook, so the first stands for all.
            return self._send_commands(hook, {key: by_key[key][0] for key in keys})

        results = self.once.of_many(tuple(by_key), send)
        for key, same_event in by_key.items():
            for case in same_event:
                case.hook = _answer(results, key)
                case.hook_error = results.get(key)

    def report(self, case: Case) -> None:
        """Set in the reaction whether this call sent the hook, or raise why it failed. Call it only
        after `send_all`.

        Before it raises, the owner is notified of the failure if the warning was sent singly; a
        message about many warnings names the failed hooks itself. Raises: CloudError if the hook
        could not be sent, or not noted as sent; a repeated event tries again.
        """
        error = case.hook_error
        if error is None:
            case.reaction.checkpoint_sent = case.hook.state is HookState.SENT
            return
        if case.reaction.notified is Notified.SINGLY and case.is_hook_unsent:
            try:
                self._notify_of_failure(case)
            except CloudError as unsent:
                error.add_note(f"and its owner could not be notified: {unsent}")
        raise error

    def _notify_of_failure(self, case: Case) -> None:
        """Notify the owner, once for an event, that the hook was not sent, or perhaps not. Raises:
        CloudError."""
        alert = checkpoint_failed_alert(
            case.instance, case.warned, case.hook, case.owner, self.clock.now()
        )
        key = f"{case.warned.event_id}#checkpoint-failed"
        self.once(key, partial(self.announcer.announce, alert))

    def _send_commands(self, hook: CheckpointHook, cases: Mapping[str, Case]) -> _Results:
        """Send the commands for these cases at the same time, within `_PATIENCE_SECONDS`. Return
        the result of each hook by the key of its case: `None` if it was sent, else the error. A
        hook without an answer by then has the error Unavailable, and may still run."""
        sending = _Sending(hook, time.monotonic() + _PATIENCE_SECONDS, {})
        calls = {}
        for number, (kind, group) in enumerate(_commands(cases.values(), self.clock.now())):
            calls[number] = partial(sending.to_all, kind, group)
        begin(calls, SEND)(sending.seconds_left())
        # A copy: an answer that comes later must not change these results.
        results = dict(sending.results)
        late = timeout_error(SEND, f"{_PATIENCE_SECONDS:g} s")
        return {key: results.get(case.warned.event_id, late) for key, case in cases.items()}


def _answer(results: Mapping[str, CloudError | None], key: str) -> HookAnswer:
    """Return the state of the hook of this key, for its warning's message. `results` are those of
    this call: a hook that is missing there was sent by another delivery of the event."""
    if key not in results:
        return HookAnswer(HookState.EARLIER)
    error = results[key]
    # The hook was sent, and only its note in the table failed.
    if error is None or error.operation.startswith("dynamodb:"):
        return HookAnswer(HookState.SENT)
    state = HookState.UNKNOWN if isinstance(error, Unavailable) else HookState.REFUSED
    return HookAnswer(state, str(error))


def _commands(cases: Iterable[Case], now: UtcDatetime) -> list[tuple[_Kind, Sequence[Case]]]:
    """Return the commands that ask all these instances, each as its content and its cases; empty
    without cases.

    Cases of equal content share a command, up to the limit of Systems Manager. The first command of
    each account and Region comes before any second one.
    """
    by_kind: dict[_Kind, list[Case]] = defaultdict(list)
    for case in cases:
        by_kind[_kind_of(case, now)].append(case)
    by_target: dict[Target, list[tuple[_Kind, Sequence[Case]]]] = defaultdict(list)
    for kind, group in by_kind.items():
        for part in in_parts(group, MOST_INSTANCES_A_COMMAND):
            by_target[kind.target].append((kind, part))
    rounds = zip_longest(*by_target.values())
    return not_none(chain.from_iterable(rounds))


def _kind_of(case: Case, now: UtcDatetime) -> _Kind:
    """Return the content of the command that this warning leads to now."""
    return _Kind(
        target=case.instance.target,
        reason=case.warned.response.hook_reason,
        seconds_left=case.warned.seconds_left(now),
        sigterm_if_no_hook=case.checkpoint is not None and case.checkpoint.sigterm_if_no_hook,
    )


@dataclass(frozen=True, slots=True)
class _Sending:
    """Commands that must be sent until `ends_at` (monotonic clock), and the result of each hook so
    far, by event id."""

    hook: CheckpointHook
    ends_at: float
    results: _Results

    def seconds_left(self) -> float:
        """Return the seconds until `ends_at`; 0 after it."""
        return max(0.0, self.ends_at - time.monotonic())

    def to_all(self, kind: _Kind, cases: Sequence[Case]) -> None:
        """Send one command to all cases. If Systems Manager refuses it because of some instances,
        send one to those that it manages; if that is refused, too, send one to each.

        Results are set by event id; a case for which no time was left has none. Raise nothing.
        Halving until the culprits are found would take hundreds of calls.
        """
        refused = self._send(kind, cases)
        if refused is None or not self.seconds_left():
            return
        try:
            managed_ids = self.hook.managed(kind.target, _ids(cases))
        except CloudError:
            self._to_each(kind, cases)
            return
        managed = []
        for case in cases:
            if case.instance.instance_id in managed_ids:
                managed.append(case)
            else:
                self.results[case.warned.event_id] = _not_managed(case, refused)
        is_refused = len(managed) == len(cases)
        if managed and not is_refused:
            # An instance that Systems Manager knows may not run any more. Then the answer does not
            # say which, so each gets a command of its own.
            is_refused = self._send(kind, managed) is not None
        if is_refused:
            self._to_each(kind, managed)

    def _to_each(self, kind: _Kind, cases: Sequence[Case]) -> None:
        """Send a command to each instance by itself, all at the same time, and set the results. An
        instance for which no time is left gets none, and has no result."""
        calls = {case.warned.event_id: partial(self._to_one, kind, case) for case in cases}
        begin(calls, SEND)(self.seconds_left())

    def _to_one(self, kind: _Kind, case: Case) -> None:
        """Send a command to one instance if time is left, and set its result; else do nothing."""
        if self.seconds_left():
            self._send(kind, [case])

    def _send(self, kind: _Kind, cases: Sequence[Case]) -> CloudError | None:
        """Send one command and return `None`. Its CloudError, or `None`, is set as the result of
        every case, not raised.

        If several instances were asked and one of them is not reachable, set nothing and return the
        error: the others may still be reached.
        """
        error: CloudError | None = None
        try:
            self.hook.send(
                kind.target,
                _ids(cases),
                kind.reason,
                kind.seconds_left,
                sigterm_if_no_hook=kind.sigterm_if_no_hook,
            )
        except CloudError as refused:
            error = refused
        if error is not None and error.code == _NOT_REACHABLE:
            if len(cases) > 1:
                return error
            error = _not_managed(cases[0], error)
        for case in cases:
            self.results[case.warned.event_id] = error
        return None


def _ids(cases: Sequence[Case]) -> list[str]:
    """Return the instance ids of these cases, each once: Systems Manager refuses an id that is
    named twice, and there may be two warnings about one instance."""
    return list(dict.fromkeys(case.instance.instance_id for case in cases))


def _not_managed(case: Case, error: CloudError) -> CloudError:
    """Return an error that names the instance of this case as the one that could not be reached.
    `error` is the answer of Systems Manager, which names none."""
    instance_id = case.instance.instance_id
    text = f"{instance_id} is not managed by Systems Manager, or is not running ({error})"
    return CloudError(text, operation=SEND, code=_NOT_REACHABLE)
