"""Ports for acting on an instance: EC2, Step Functions and S3.

Every method may raise `CloudError` unless its docstring says otherwise, and no other error of
`governor.core.errors` that it does not name. With a `Target` that has a `role_arn`, it acts as that
role in that account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.episode_ref import EpisodeRef
    from governor.core.instance import Instance, Snapshot, Target, UserData
    from governor.episode.model.plan import Step
    from governor.episode.rules.restart_doubts import VolumeKey


class InstanceController(Protocol):
    """The only way to stop or terminate an instance, one a call. With `dry_run`, EC2 only checks
    the call.

    Each method returns the id of the request, by which CloudTrail finds the call; `None` for a dry
    run, or if the answer names none. Every method may raise SafetyError if the id could mean more
    than one resource, or EC2 carried out a dry run; ConfigurationError without a role that acts;
    and CloudError, among them the kinds that the methods name.
    """

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        """Stop the instance, and return the id of the request. With `dry_run`, EC2 only checks that
        the call is allowed, and `None` comes back. Raises: Protected, Unsupported, WrongState,
        NotFound, AccessDenied, Throttled, Unavailable."""

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        """Terminate the instance, and return the id of the request. With `dry_run`, EC2 only checks
        that the call is allowed, and `None` comes back. Raises: Protected, Unsupported, WrongState,
        NotFound, AccessDenied, Throttled, Unavailable."""

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None:
        """Carry out a companion step, such as the cancellation of a Spot request, and return the id
        of the request. With `dry_run`, EC2 only checks that the call is allowed, and `None` comes
        back. Raises: Protected, Unsupported, WrongState, NotFound, AccessDenied, Throttled,
        Unavailable."""


class InstanceStarter(Protocol):
    """The only way to start an instance again. Raises: CloudError, among them NoCapacity."""

    def start(self, target: Target, instance_id: str) -> str | None:
        """Start the instance, and return the id of the request; `None` if EC2's answer names none.
        Raises: NoCapacity if EC2 has none; Protected, Unsupported, WrongState, NotFound,
        AccessDenied, Throttled, Unavailable."""


class KeyReader(Protocol):
    """Looks at KMS keys. It raises nothing: a key that cannot be read is a doubt."""

    def describe(self, target: Target, key_id: str) -> VolumeKey:
        """Return the key with its state. If it could not be read, its `state` is `None`, and its
        `problem` says why. Raises nothing."""


class UndoAnswer(NamedTuple):
    """The result of an undo."""

    done: bool
    """True if EC2 was asked to start the instance."""
    text: str
    """The answer to the person who asked for the undo."""


class Undoer(Protocol):
    """Has the stopped instance of an episode started again, by the only function that may."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Have the instance started, and return the answer to the person. `by` is the person who
        asked, `channel` the way they asked. Raises: CloudError if the function cannot be called."""


class Snapshotter(Protocol):
    """Makes and finds snapshots, and reads user data. Raises: CloudError; SafetyError if EC2
    carried out a dry run."""

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> Sequence[Snapshot]:
        """Make a crash-consistent set of snapshots of all volumes, or of all but the root volume if
        `boot` is false, and return it. With `dry_run`, EC2 only checks that the call is allowed,
        and an empty sequence comes back. Raises: Protected, Unsupported, WrongState, NotFound,
        AccessDenied, Throttled, Unavailable."""

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]:
        """Return the snapshots with all of these tags; empty if there are none. Raises:
        CloudError."""

    def user_data(self, target: Target, instance_id: str) -> bytes:
        """Return the user data as the instance receives it; empty if it has none. Raises:
        CloudError."""


class SnapshotRemover(Protocol):
    """The only way to delete a snapshot. Raises: CloudError, among them Protected if an image needs
    it, or it is locked."""

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]:
        """Return the snapshots with all of these tags; empty if there are none. Raises:
        CloudError."""

    def delete(self, target: Target, snapshot_id: str) -> str | None:
        """Delete the snapshot, and return the id of the request; `None` if EC2's answer names
        none. Raises: Protected if an image needs it, or it is locked; Unsupported, WrongState,
        NotFound, AccessDenied, Throttled, Unavailable."""


class Workflow(Protocol):
    """Step Functions."""

    def start(self, ref: EpisodeRef) -> bool:
        """Start the remediation of the episode. Return true if it runs, also if it ran before;
        false if an execution of that name has ended. Raises: CloudError."""

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Return whether the execution still runs; `None` if Step Functions does not know it. It
        may then have started moments ago, or be forgotten: after 90 days, or with a state machine
        that was replaced. Raises: CloudError."""

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """Hand the decision to the waiting task, and return true; return false if that task no
        longer waits. Raises: CloudError."""


class Vault(Protocol):
    """Keeps user data, which may hold secrets. People may read it; no function can."""

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        """Store one copy of the user data, and return the record of that copy. Raises:
        CloudError."""
