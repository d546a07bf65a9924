"""The one error tree of the project.

    GovernorError
    ├── ConfigurationError          an environment variable is missing or unusable
    │   └── PolicyError             the policy document was refused; carries every path and reason
    ├── InputError                  an event or a payload does not have the agreed shape
    ├── LinkError                   an approval link was refused before anything was looked up
    │   ├── LinkForged              the signature does not belong to the fields
    │   └── LinkExpired             the signature is right, the time is over
    ├── SignInError                 somebody could not be signed in
    │   ├── SignInRefused           what came back does not prove who it is
    │   └── IssuerUnavailable       the OIDC issuer did not answer, or not as the standard says
    ├── DecisionRefused             a decision came that the approval cannot take (any more)
    │   └── NotAllowed              this person may not give this answer; others may
    ├── SafetyError                 a guard in front of an EC2 write call refused to let it through
    │   ├── Interrupted             EC2 itself takes the instance back, and it may be saving its work
    │   ├── Held                    somebody holds the episode
    │   └── MustWait                plans are frozen, or a cap is reached; the same step may be done later
    ├── AlertRefused                nothing vouches for an alert (channels/vouch.py)
    ├── MetricsLate                 the newest readings are missing, and may still come
    ├── StepTimedOut                EC2 did not reach the wanted state within the policy's limit
    ├── SnapshotUnderWay            another try may be making the snapshots of the episode now
    ├── SnapshotFailed              a snapshot of the episode ended in `error`; nothing may be destroyed
    ├── ConflictError               a conditional write lost: somebody else was there first
    ├── DeliveryError               a channel did not take a message (channels/message.py)
    │   ├── DeliveryRetryable       the same delivery may succeed later
    │   └── DeliveryRefused         repeating it never helps
    ├── CallbackRefused             what claims to come from a chat was refused (channels/message.py)
    ├── LeaseTaken                  another worker sends these messages now (channels/worker.py)
    └── CloudError                  AWS refused a call; `operation` names it
        ├── Throttled               too many calls; the same call may succeed later
        ├── Unavailable             AWS or the network failed; the same call may succeed later
        ├── AccessDenied            the role lacks a permission
        ├── NotFound                the resource does not exist (any more)
        ├── NobodyListens           a message would be taken and reach no person
        ├── WrongState              the resource is in a state that does not allow the call
        ├── Protected               a protection flag or a managing service forbids the call
        ├── NoCapacity              EC2 has no free capacity of the type at this moment
        └── Unsupported             this kind of resource can never do this

    ValueError
    └── SettingError                settings out of range; becomes a PolicyError (domain/settings.py)

    Exception                       tools at a desk, which print the message and no traceback
    ├── CommandError                a command cannot do its work (cli/errors.py)
    ├── FetchError                  a recording cannot be fetched (simulation/fetch.py)
    ├── StoreError                  a recording cannot be read (simulation/store.py)
    ├── ReplayError                 a replay is impossible (simulation/replay.py)
    └── TraceError                  a public trace cannot be read (evaluation/traces.py)
        ├── NotATraceError          the file holds something else
        └── BadRowError             a row of it cannot be understood

Class names are part of the contract with the state machines: `Retry` and `Catch` match them as error types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class GovernorError(Exception):
    """Root of everything this project raises on purpose."""


class ConfigurationError(GovernorError):
    """An environment variable is missing or unusable; the message names it and says what to set."""


class PolicyProblem(NamedTuple):
    """One mistake of a policy document. `path` is dotted, and empty for the document as a whole."""

    path: str
    reason: str
    line: int | None = None
    """Counted from 1; `None` where the mistake stands in no one line."""

    def __str__(self) -> str:
        where = self.path or "(document)"
        return (
            f"{where}: {self.reason}" if self.line is None else f"{where} (line {self.line}): {self.reason}"
        )


class PolicyError(ConfigurationError):
    """The policy document was refused. `problems` holds every mistake, in document order."""

    def __init__(self, problems: Iterable[PolicyProblem]) -> None:
        self.problems = tuple(problems)
        said = [str(problem) for problem in self.problems[:_SAID]]
        if len(self.problems) > _SAID:
            said.append(f"and {len(self.problems) - _SAID} more")
        super().__init__(f"the policy was refused: {'; '.join(said)}")


_SAID = 20
"""More mistakes than this are counted: the text goes into messages and records."""


class InputError(GovernorError):
    """An event or payload does not have the agreed shape; the message names the field."""


class LinkError(GovernorError):
    """An approval link was refused before anything was looked up."""


class LinkForged(LinkError):
    """The signature does not belong to the fields of the link."""


class LinkExpired(LinkError):
    """The link is genuine, but its time is over."""


class SignInError(GovernorError):
    """Somebody could not be signed in. The message is for that person; it holds no token, code or secret."""


class SignInRefused(SignInError):
    """What came back from the issuer does not prove who it is; a new sign-in may."""


class IssuerUnavailable(SignInError):
    """The OIDC issuer did not answer, or not as the standard says; the message is for the operator."""


class DecisionRefused(GovernorError):
    """A decision came that the approval cannot take; `status` is the approval's status at that moment."""

    def __init__(self, message: str, *, status: str = "") -> None:
        self.status = status
        super().__init__(message)


class NotAllowed(DecisionRefused):
    """Whoever answered may not give this answer; others may."""


class SafetyError(GovernorError):
    """A guard in front of an EC2 write call refused to let it through; the message says which and why."""


class Interrupted(SafetyError):
    """EC2 has announced that it takes the instance back: it may be saving its work."""


class MustWait(SafetyError):
    """Plans are frozen, or a cap is reached. Nothing was done; the same step may be done later."""


class Held(SafetyError):
    """Somebody holds the episode: nothing more of its plan is done."""


class MetricsLate(GovernorError):
    """The newest readings of an instance are missing, but not for long; it is tried again."""


class StepTimedOut(GovernorError):
    """EC2 did not reach the wanted state within the policy's limit."""


class SnapshotUnderWay(GovernorError):
    """Another try may be making the snapshots of the episode at this moment; it is tried again."""


class SnapshotFailed(GovernorError):
    """A snapshot of the episode ended in `error`, or one is missing; nothing may be destroyed."""


class ConflictError(GovernorError):
    """A conditional write lost: somebody else was there first."""


class CloudError(GovernorError):
    """AWS refused `operation` (`service:Operation`) with this `code`; network failures have none."""

    def __init__(self, message: str, *, operation: str = "", code: str = "") -> None:
        self.operation = operation
        self.code = code
        super().__init__(message)


class Throttled(CloudError):
    """Too many calls, or a concurrency limit of AWS was hit; the same call may succeed later."""


class Unavailable(CloudError):
    """AWS or the network failed; the same call may succeed later."""


class AccessDenied(CloudError):
    """The role lacks a permission."""


class NotFound(CloudError):
    """The resource does not exist (any more)."""


class NobodyListens(CloudError):
    """The channel takes messages and passes them on to nobody: no subscription is confirmed."""


class WrongState(CloudError):
    """The resource is in a state that does not allow the call; read it again."""


class Protected(CloudError):
    """A protection flag or the service that manages the resource forbids the call. Never worked around."""


class NoCapacity(CloudError):
    """EC2 has no free capacity of the type at this moment; it may have some later, or elsewhere."""


class Unsupported(CloudError):
    """This kind of resource can never do this (a one-time Spot instance cannot be stopped)."""
