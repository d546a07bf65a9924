"""Asks an instance to save its work, once per warning, and says so when it could not be asked.

Never waits for the hook: the instance may be gone before it answers. This module must not know documents.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.event_messages import checkpoint_failed_alert
from governor.domain.instance import Instance
from governor.domain.interruption import Checkpoint, Warned
from governor.errors import CloudError
from governor.ports import Announcer, CheckpointHook, Clock
from governor.usecases.once import Once
from governor.usecases.tell_warning import Reaction, Told


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
        if self.hook is None or checkpoint is None or not checkpoint.send:
            return
        hook = self.hook

        def send() -> None:
            hook.send(
                instance.target,
                instance.instance_id,
                warned.hook_reason,
                warned.seconds_left(self.clock.now()),
                signal=checkpoint.signal,
            )

        try:
            reaction.checkpoint_sent = self.once(f"{warned.event_id}#checkpoint", send)
        except CloudError as error:
            if reaction.told is Told.SINGLY and error.operation.startswith("ssm:"):
                self._tell_failure(instance, warned, error, owner, project)
            raise

    def _tell_failure(
        self, instance: Instance, warned: Warned, error: CloudError, owner: str, project: str
    ) -> None:
        alert = checkpoint_failed_alert(instance, warned, str(error), owner, project, self.clock.now())
        try:
            self.once(f"{warned.event_id}#checkpoint-failed", lambda: self.announcer.announce(alert))
        except CloudError as untold:
            error.add_note(f"and this could not be told: {untold}")
