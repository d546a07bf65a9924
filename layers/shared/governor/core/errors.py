"""The one error tree of the project.

    GovernorError
    ├── ConfigurationError     an environment variable is missing or unusable; it says what to set
    │   └── PolicyError        the policy document was refused; carries every path and reason
    ├── InputError             an event or a payload lacks the agreed shape; it names the field
    ├── LinkError              an approval link was refused before anything was looked up
    │   ├── LinkForged         the signature does not belong to the fields
    │   └── LinkExpired        the signature is right, the time is over
    ├── SignInRefused          what came back at a sign-in does not prove who it is
    ├── IssuerUnavailable      the OIDC issuer did not answer, or not as the standard says
    ├── DecisionRefused        a decision came that the approval cannot take (any more)
    │   ├── NotAllowed         this person may not give this answer; others may
    │   │   └── SignInTooOld   after a new sign-in they may
    │   ├── Uncertain          whether it was done could not be found out; asking again is safe
    │   └── TooLate            EC2 has been asked for what the answer would have held
    ├── SafetyError            a guard in front of an EC2 write call refused to let it through
    │   ├── Interrupted        EC2 itself takes the instance back, and it may be saving its work
    │   ├── Held               somebody holds the episode: nothing more of its plan is done
    │   ├── Unsealed           an answer or a record lacks its seal; people are asked again
    │   └── MustWait           a pause, freeze, cap or unclear answer holds the step back; try later
    ├── AlertRefused           nothing vouches for an alert (notify/vouch.py)
    ├── TargetsNotSwept        a sweep left out some targets; the next one tries again
    ├── MetricsLate            the newest readings are missing, and may still come
    ├── StepTimedOut           EC2 did not reach the wanted state within the policy's limit
    ├── SnapshotUnderWay       another try may be making the snapshots of the episode now
    ├── SnapshotFailed         a snapshot failed or is missing; nothing may be destroyed
    ├── ConflictError          a conditional write lost: somebody else was there first
    ├── DeliveryError          a channel did not take a message (notify/message.py)
    │   ├── DeliveryRetryable  the same delivery may succeed later
    │   └── DeliveryRefused    repeating it never helps
    ├── PrivateAddress         a name leads into a private network; nothing was sent (https.py)
    ├── CallbackRefused        what claims to come from a chat was refused (notify/message.py)
    ├── LeaseTaken             another worker sends these messages now (notify/worker.py)
    └── CloudError             AWS refused a call; `operation` names it
        ├── Throttled          too many calls; the same call may succeed later
        ├── Unavailable        AWS or the network failed; the same call may succeed later
        ├── AccessDenied       the role lacks a permission
        ├── NotFound           the resource does not exist (any more)
        ├── NobodyListens      a message would be taken and reach no person
        ├── WrongState         the resource is in a state that does not allow the call
        ├── Protected          a protection flag or a manager forbids it; never worked around
        ├── NoCapacity         EC2 has no free capacity of the type at this moment
        └── Unsupported        this kind can never do this, as a one-time Spot instance stop

    ValueError
    └── SettingError           settings out of range; becomes a PolicyError (core/settings.py)

    Exception                       tools at a desk, which print the message and no traceback
    ├── CommandError           a command cannot do its work (cli/errors.py)
    ├── NothingToSee           the account lacks what a check looks at (cli/preflight/world.py)
    ├── FetchError             a recording cannot be fetched (simulation/fetch.py)
    ├── StoreError             a recording cannot be read (simulation/store.py)
    ├── ReplayError            a replay is impossible (simulation/replay.py)
    └── TraceError             a public trace cannot be read (evaluation/traces.py)
        ├── NotATraceError     the file holds something else
        └── BadRowError        a row of it cannot be understood

Class names are part of the contract with the state machines: `Retry` and `Catch` match them as
error types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class GovernorError(Exception): ...


class ConfigurationError(GovernorError): ...


class PolicyProblem(NamedTuple):
    """One mistake in a policy document. `path` is dotted, and empty for the document as a whole."""

    path: str
    reason: str
    line: int | None = None
    """Counted from 1; `None` if the mistake is in no single line."""

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.path or '(document)'}{line}: {self.reason}"


class PolicyError(ConfigurationError):
    """`problems` holds every mistake of the policy document, in its order."""

    def __init__(self, problems: Iterable[PolicyProblem]) -> None:
        self.problems = tuple(problems)
        texts = [str(problem) for problem in self.problems[:_MOST_PROBLEMS]]
        if len(self.problems) > _MOST_PROBLEMS:
            texts.append(f"and {len(self.problems) - _MOST_PROBLEMS} more")
        super().__init__(f"the policy was refused: {'; '.join(texts)}")


_MOST_PROBLEMS = 20
"""The text goes into messages and records, so further mistakes are only counted."""


class InputError(GovernorError): ...


class LinkError(GovernorError): ...


class LinkForged(LinkError): ...


class LinkExpired(LinkError): ...


class SignInRefused(GovernorError):
    """The message is for the person who signs in; it holds no token, code or secret."""


class IssuerUnavailable(GovernorError):
    """The message is for the operator; it holds no token, code or secret."""


class DecisionRefused(GovernorError):
    """The approval cannot take this decision; `status` is the approval's status at that moment."""

    def __init__(self, message: str, *, status: str = "") -> None:
        self.status = status
        super().__init__(message)


class NotAllowed(DecisionRefused): ...


class SignInTooOld(NotAllowed): ...


class TooLate(DecisionRefused): ...


class Uncertain(DecisionRefused): ...


class SafetyError(GovernorError): ...


class Interrupted(SafetyError): ...


class MustWait(SafetyError): ...


class Held(SafetyError): ...


class Unsealed(SafetyError): ...


class TargetsNotSwept(GovernorError): ...


class MetricsLate(GovernorError): ...


class StepTimedOut(GovernorError): ...


class SnapshotUnderWay(GovernorError): ...


class SnapshotFailed(GovernorError): ...


class ConflictError(GovernorError): ...


class CloudError(GovernorError):
    """AWS refused `operation` (`service:Operation`) with this `code`; network failures have
    none."""

    def __init__(self, message: str, *, operation: str = "", code: str = "") -> None:
        self.operation = operation
        self.code = code
        super().__init__(message)


class Throttled(CloudError): ...


class Unavailable(CloudError): ...


class AccessDenied(CloudError): ...


class NotFound(CloudError): ...


class NobodyListens(CloudError): ...


class WrongState(CloudError): ...


class Protected(CloudError): ...


class NoCapacity(CloudError): ...


class Unsupported(CloudError): ...
