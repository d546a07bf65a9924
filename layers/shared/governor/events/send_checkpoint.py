"""Asks instances to save their work, once per warning, and reports those that could not be asked.
It never waits for a hook: the instance may be gone before it answers."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from governor.alerts.ports import Announcer
from governor.core.errors import CloudError, Unavailable
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_parts
from governor.events.messages import checkpoint_failed_alert
from governor.events.model.interruption import HookAnswer, HookState
from governor.events.notify_warning import Case, Notified
from governor.table.once import Once, begin, too_late

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Target
    from governor.core.units import UtcDatetime


MOST_INSTANCES_A_COMMAND = 50
"""Source: Systems Manager API, SendCommand, `InstanceIds`."""


class CheckpointHook(Protocol):
    """Asks up to `MOST_INSTANCES_A_COMMAND` instances a call to save their work, by Systems
    Manager, and never waits for it. `managed` returns those that Systems Manager knows."""

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        signal: bool,
    ) -> str:
        """Return the command's id. Raises: CloudError, also if one instance is not managed; then
        none has received it."""

    def managed(self, target: Target, instance_ids: Sequence[str]) -> Collection[str]: ...


_PATIENCE_SECONDS = 5.0
"""For all hooks together. Then owners are notified, who may still save by hand."""
SEND = "ssm:SendCommand"
_NOT_REACHABLE = "InvalidInstanceId"
"""One of the instances is not managed by Systems Manager, or does not run; none has got the
command."""
_Results = dict[str, CloudError | None]
"""Results of hooks, by event id or key: `None` where one was sent, else why not."""


class _Kind(NamedTuple):
    """Content of a command. `signal`: GPU processes may get SIGTERM."""

    target: Target
    reason: str
    seconds_left: int
    signal: bool


@dataclass(frozen=True, slots=True)
class SendCheckpoint:
    """Sends checkpoint hooks. `hook` is `None` in a stack that was given no document."""

    clock: Clock
    hook: CheckpointHook | None
    once: Once
    announcer: Announcer

    def send_all(self, cases: Sequence[Case]) -> None:
        """Send the hooks of many warnings in few commands, and note with each what became of it.

        A hook that could not be noted as sent counts as failed: a repeated event tries again.
        """
        hook = self.hook
        if hook is None:
            return
        by_key: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            if case.is_hooked:
                by_key[f"{case.warned.event_id}#checkpoint"].append(case)

        def send(keys: Sequence[str]) -> _Results:
            return self._send(hook, {key: by_key[key][0] for key in keys})

        results = self.once.of_many(tuple(by_key), send)
        for key, same_event in by_key.items():
            for case in same_event:
                case.hook = _answer(results, key)
                case.hook_error = results.get(key)

    def report(self, case: Case) -> None:
        """Note what became of one hook, and notify of a failure if its warning was sent singly.

        Raises: CloudError if it could not be sent, or noted as sent; a repeated event tries again.
        """
        error = case.hook_error
        if error is None:
            case.reaction.checkpoint_sent = case.hook.state is HookState.SENT
            return
        if case.reaction.notified is Notified.SINGLY and case.is_unasked:
            try:
                self._notify_of_failure(case)
            except CloudError as unsent:
                error.add_note(f"and its owner could not be notified: {unsent}")
        raise error

    def _notify_of_failure(self, case: Case) -> None:
        alert = checkpoint_failed_alert(
            case.instance, case.warned, case.hook, case.owner, self.clock.now()
        )
        key = f"{case.warned.event_id}#checkpoint-failed"
        self.once(key, partial(self.announcer.announce, alert))

    def _send(self, hook: CheckpointHook, cases: Mapping[str, Case]) -> _Results:
        """Send all commands at the same time, within the time that hooks have. Return what became
        of each hook, by key."""
        sending = _Sending(hook, time.monotonic() + _PATIENCE_SECONDS, {})
        calls = {}
        for number, (kind, group) in enumerate(_commands(cases.values(), self.clock.now())):
            calls[number] = partial(sending.to_all, kind, group)
        begin(calls, SEND)(sending.seconds_left())
        # A copy: an answer that comes later is nobody's result any more.
        results = dict(sending.results)
        late = too_late(SEND, f"{_PATIENCE_SECONDS:g} s")
        return {key: results.get(case.warned.event_id, late) for key, case in cases.items()}


def _answer(results: Mapping[str, CloudError | None], key: str) -> HookAnswer:
    """Return what became of one hook, for its warning's message. A hook without a result was sent
    before."""
    if key not in results:
        return HookAnswer(HookState.EARLIER)
    error = results[key]
    # If only the note of it failed, it was sent.
    if error is None or error.operation.startswith("dynamodb:"):
        return HookAnswer(HookState.SENT)
    state = HookState.UNKNOWN if isinstance(error, Unavailable) else HookState.REFUSED
    return HookAnswer(state, str(error))


def _commands(cases: Iterable[Case], now: UtcDatetime) -> list[tuple[_Kind, Sequence[Case]]]:
    """Return as few commands as there are kinds of them. The first command of each account and
    Region comes before the second of any."""
    by_kind: dict[_Kind, list[Case]] = defaultdict(list)
    for case in cases:
        by_kind[_kind_of(case, now)].append(case)
    by_target: dict[Target, list[tuple[_Kind, Sequence[Case]]]] = defaultdict(list)
    for kind, group in by_kind.items():
        for part in in_parts(group, MOST_INSTANCES_A_COMMAND):
            by_target[kind.target].append((kind, part))
    rounds = zip_longest(*by_target.values())
    return [command for command in chain.from_iterable(rounds) if command is not None]


def _kind_of(case: Case, now: UtcDatetime) -> _Kind:
    return _Kind(
        target=case.instance.target,
        reason=case.warned.response.hook_reason,
        seconds_left=case.warned.seconds_left(now),
        signal=case.checkpoint is not None and case.checkpoint.signal,
    )


@dataclass(frozen=True, slots=True)
class _Sending:
    """The commands that share a time (of the monotonic clock), and what became of each hook, by
    event id."""

    hook: CheckpointHook
    ends_at: float
    results: _Results

    def seconds_left(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    def to_all(self, kind: _Kind, cases: Sequence[Case]) -> None:
        """Send one command. If it is refused for some instances, send one more to those that
        Systems Manager knows. Halving until the culprits are found would be hundreds of calls."""
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
            # One that it knows may not run any more: then nobody can say which.
            is_refused = self._send(kind, managed) is not None
        if is_refused:
            self._to_each(kind, managed)

    def _to_each(self, kind: _Kind, cases: Sequence[Case]) -> None:
        """Send a command to each instance by itself, all at the same time."""
        calls = {case.warned.event_id: partial(self._to_one, kind, case) for case in cases}
        begin(calls, SEND)(self.seconds_left())

    def _to_one(self, kind: _Kind, case: Case) -> None:
        if self.seconds_left():
            self._send(kind, [case])

    def _send(self, kind: _Kind, cases: Sequence[Case]) -> CloudError | None:
        """Send one command and note what became of it. Return the error, without a note, if some
        of many instances may still be reached; otherwise `None`."""
        error: CloudError | None = None
        try:
            self.hook.send(
                kind.target, _ids(cases), kind.reason, kind.seconds_left, signal=kind.signal
            )
        except CloudError as refused:
            error = refused
        if error is not None and error.code == _NOT_REACHABLE:
            if len(cases) > 1:
                return error
            error = _not_managed(cases[0], error)
        self.results.update({case.warned.event_id: error for case in cases})
        return None


def _ids(cases: Sequence[Case]) -> list[str]:
    # Of two warnings about one instance: Systems Manager refuses what is named twice.
    return list(dict.fromkeys(case.instance.instance_id for case in cases))


def _not_managed(case: Case, error: CloudError) -> CloudError:
    text = (
        f"{case.instance.instance_id} is not managed by Systems Manager, or does not run ({error})"
    )
    return CloudError(text, operation=SEND, code=_NOT_REACHABLE)
