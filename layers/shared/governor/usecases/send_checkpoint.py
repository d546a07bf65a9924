"""Asks instances to save their work, once per warning, and says so when one could not be asked.

Never waits for a hook: the instance may be gone before it answers. This module must not know documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from governor.domain.event_messages import checkpoint_failed_alert
from governor.domain.instance import Instance, Target
from governor.domain.interruption import Checkpoint, Warned
from governor.domain.parts import in_parts
from governor.domain.units import UtcDatetime
from governor.errors import CloudError
from governor.ports import MOST_INSTANCES_A_COMMAND, Announcer, CheckpointHook, Clock
from governor.usecases.once import Once
from governor.usecases.parallel import at_once
from governor.usecases.tell_warning import Reaction, Told

_PATIENCE_SECONDS = 10.0
"""With an account or Region that hangs."""
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
        if reaction.told is Told.SINGLY and error.operation.startswith("ssm:"):
            self._tell_failure(instance, warned, error, owner, project)
        raise error

    def _send(self, hook: CheckpointHook, wanted: Sequence[Hooking]) -> dict[str, CloudError | None]:
        by_target: dict[Target, list[Hooking]] = defaultdict(list)
        for one in wanted:
            by_target[one.instance.target].append(one)
        now = self.clock.now()
        calls = {
            target: partial(_send_to_target, hook, target, theirs, now)
            for target, theirs in by_target.items()
        }
        results: dict[str, CloudError | None] = {}
        for target, answer in at_once(calls, _PATIENCE_SECONDS, "ssm:SendCommand").items():
            if isinstance(answer, CloudError):
                results |= dict.fromkeys([one.key for one in by_target[target]], answer)
            else:
                results |= answer
        return results

    def _tell_failure(
        self, instance: Instance, warned: Warned, error: CloudError, owner: str, project: str
    ) -> None:
        alert = checkpoint_failed_alert(instance, warned, str(error), owner, project, self.clock.now())
        try:
            self.once(f"{warned.event_id}#checkpoint-failed", lambda: self.announcer.announce(alert))
        except CloudError as untold:
            error.add_note(f"and this could not be told: {untold}")


def _send_to_target(
    hook: CheckpointHook, target: Target, wanted: Sequence[Hooking], now: UtcDatetime
) -> dict[str, CloudError | None]:
    """As few commands as there are kinds of them."""
    alike: dict[tuple[str, int, bool], list[Hooking]] = defaultdict(list)
    for one in wanted:
        alike[one.warned.hook_reason, one.warned.seconds_left(now), one.signal].append(one)
    results: dict[str, CloudError | None] = {}
    for (reason, left, signal), group in alike.items():
        for part in in_parts(group, MOST_INSTANCES_A_COMMAND):
            results |= _send_part(hook, target, reason, left, signal, part)
    return results


def _send_part(
    hook: CheckpointHook, target: Target, reason: str, left: int, signal: bool, part: Sequence[Hooking]
) -> dict[str, CloudError | None]:
    """One command; halved where an instance cannot be reached, so that it keeps back no other."""
    try:
        hook.send(target, [one.instance.instance_id for one in part], reason, left, signal=signal)
    except CloudError as error:
        if error.code != _NOT_REACHABLE or len(part) == 1:
            return dict.fromkeys([one.key for one in part], error)
        results: dict[str, CloudError | None] = {}
        for half in in_parts(part, (len(part) + 1) // 2):
            results |= _send_part(hook, target, reason, left, signal, half)
        return results
    return dict.fromkeys([one.key for one in part])
