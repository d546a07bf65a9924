"""All exceptions of the project, as one tree: failed calls of AWS, refused answers, and the errors
that the state machines retry or catch.

    GovernorError
    ├── ConfigurationError     an environment variable is missing or unusable; it says what to set
    │   └── PolicyError        the policy document was refused; carries every path and reason
    ├── PartlyRead             some settings of a policy cannot be read (policy/yaml_document.py)
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
    ├── AlertRefused           nothing proves an alert (notify/verify_alert.py)
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
        └── ContradictionError  settings that are not allowed together (core/settings.py)

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


class GovernorError(Exception):
    """The root of all errors of GPU Governor."""


class ConfigurationError(GovernorError):
    """A setting, secret or wiring cannot be used. An operator must change it."""


class PolicyProblem(NamedTuple):
    """One mistake in a policy document. `path` is dotted, and empty for the document as a whole."""

    path: str
    reason: str
    line: int | None = None
    """Counted from 1; `None` if the mistake is in no single line."""

    def __str__(self) -> str:
        """Return the mistake as text, such as `idle.window_minutes (line 7): is 2; ...`."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.path or '(document)'}{line}: {self.reason}"


class PolicyError(ConfigurationError):
    """`problems` holds every mistake of the policy document, in its order."""

    def __init__(self, problems: Iterable[PolicyProblem]) -> None:
        """Name the first 20 mistakes in the text of the error, and count the others."""
        self.problems = tuple(problems)
        texts = [str(problem) for problem in self.problems[:_MOST_PROBLEMS]]
        if len(self.problems) > _MOST_PROBLEMS:
            texts.append(f"and {len(self.problems) - _MOST_PROBLEMS} more")
        super().__init__(f"the policy was refused: {'; '.join(texts)}")


_MOST_PROBLEMS = 20
"""The text goes into messages and records, so further mistakes are only counted."""


class InputError(GovernorError):
    """An event or request cannot be read, or holds a wrong value."""


class LinkError(GovernorError):
    """A link opens no page."""


class LinkForged(LinkError):
    """The link, or the token of a form, was not made by this stack."""


class LinkExpired(LinkError):
    """The time of the link is over."""


class SignInRefused(GovernorError):
    """The message is for the person who signs in; it holds no token, code or secret."""


class IssuerUnavailable(GovernorError):
    """The message is for the operator; it holds no token, code or secret."""


class DecisionRefused(GovernorError):
    """The approval cannot take this decision; `status` is the approval's status at that moment."""

    def __init__(self, message: str, *, status: str = "") -> None:
        """Keep the status that the approval has at that moment; empty if it is not known."""
        self.status = status
        super().__init__(message)


class NotAllowed(DecisionRefused):
    """The person may not do this."""


class SignInTooOld(NotAllowed):
    """The person must sign in again before they may do this."""


class TooLate(DecisionRefused):
    """The answer came too late to change anything."""


class Uncertain(DecisionRefused):
    """The request may have been carried out, or not."""


class SafetyError(GovernorError):
    """A guard does not let the action happen."""


class Interrupted(SafetyError):
    """EC2 is about to take the instance back."""


class MustWait(SafetyError):
    """Nothing may be done now: an earlier call may still be carried out, everything is paused or
    frozen, a cap is reached, or silence is no answer yet. The workflow waits and checks again."""


class Held(SafetyError):
    """A person holds the action back."""


class Unsealed(SafetyError):
    """A record lacks the seal of the function that must have written it."""


class TargetsNotSwept(GovernorError):
    """One or more targets of a sweep were not swept."""


class MetricsLate(GovernorError):
    """CloudWatch does not have the newest readings yet."""


class StepTimedOut(GovernorError):
    """A step did not come to its end in time."""


class SnapshotUnderWay(GovernorError):
    """Snapshots are not completed yet, or another try may be making them."""


class SnapshotFailed(GovernorError):
    """A snapshot failed, or is missing."""


class ConflictError(GovernorError):
    """The condition of a write in the state table failed."""


class CloudError(GovernorError):
    """AWS refused `operation` (`service:Operation`) with this `code`; network failures have none.

    `words` is the message of AWS itself.
    """

    def __init__(
        self, message: str, *, operation: str = "", code: str = "", words: str = ""
    ) -> None:
        """Keep the operation, the code and the words of AWS; each is empty if there is none."""
        self.operation = operation
        self.code = code
        self.words = words
        super().__init__(message)


class Throttled(CloudError):
    """AWS throttled the call: a repeat may succeed."""


class Unavailable(CloudError):
    """AWS gave no answer in time, or failed itself: the call may have had its effect."""


class AccessDenied(CloudError):
    """IAM, or a policy of the resource, denied the call."""


class NotFound(CloudError):
    """The thing that was asked for does not exist."""


class NobodyListens(CloudError):
    """A message would reach nobody, or has reached nobody."""


class WrongState(CloudError):
    """The instance or resource is in a state that does not allow the call."""


class Protected(CloudError):
    """Stop or termination protection is on."""


class NoCapacity(CloudError):
    """EC2 has no capacity for the instance."""


class Unsupported(CloudError):
    """The instance does not support the call."""
