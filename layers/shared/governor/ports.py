"""Ports: the use cases' needs, as Protocols. Adapters and in-memory twins fulfil them.

Every method may raise `CloudError` unless its docstring says otherwise, and nothing else from
outside `governor.errors`. With a `Target` that has a `role_arn` it acts as that role in that
account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from governor.errors import CloudError, PolicyError

if TYPE_CHECKING:
    # Named only: a function loads the parts of the domain that it uses.
    from governor.domain.alerts.alert import Alert
    from governor.domain.approvals.sealing import Duty
    from governor.domain.episode.episode import EpisodeRef
    from governor.domain.episode.plan import Price, Step, StoragePrices
    from governor.domain.events.interruption import LifecycleAction, SpotPrice
    from governor.domain.evidence import Series, Window
    from governor.domain.instance import (
        Instance,
        Protection,
        Reservation,
        Session,
        Snapshot,
        SpotRequestType,
        Target,
        UserData,
        Volume,
    )
    from governor.domain.money.prices import Commitment
    from governor.domain.policy.policy import AppliedPolicy, Policy, TagMatch
    from governor.domain.sweep.managed import BatchEnvironment
    from governor.domain.units import UsdPerHour, UtcDatetime


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Clock(Protocol):
    """The time, aware, in UTC."""

    def now(self) -> UtcDatetime: ...


class SealCheck(Protocol):
    """The signatures of seals, by the key of each duty. It makes none."""

    def __call__(self, duty: Duty, text: bytes, signature: str) -> bool:
        """Return whether the function of this duty has signed the text."""


class Policies(Protocol):
    """The policy document, parsed; one snapshot for the length of an invocation. `base` has no
    overrides: selector, targets, metrics and breaker are taken from there."""

    def base(self) -> AppliedPolicy: ...
    def applied_to(self, instance: Instance) -> AppliedPolicy: ...


class PolicyVariants(Policies, Protocol):
    """With the base and each override applied alone: every setting of an instance is in one of
    them."""

    @property
    def variants(self) -> Sequence[Policy]: ...


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A version of the policy document; "null" is none. `author` is what the writer says, perhaps
    nothing."""

    version: str
    text: str
    author: str = ""


class PolicyDocuments(Protocol):
    def newest(self) -> StoredPolicy | None: ...
    def read(self, version: str, *, patient: bool = True) -> str: ...


def policy_or_base(policies: Policies, instance: Instance | None) -> Policy:
    """Return the instance's policy; the base where its overrides contradict each other, which the
    sweep reports, or it is not known: for what must go on all the same."""
    try:
        return (policies.applied_to(instance) if instance else policies.base()).policy
    except PolicyError:
        return policies.base().policy


class InstanceReader(Protocol):
    """EC2, read only. An instance that EC2 does not know (any more) is `None`, or not found. Lists
    leave out a record that lacks what EC2 always sends; to describe such an instance fails, among
    others by itself."""

    def list_selected(
        self, target: Target, selector: TagMatch, odd: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return all running ones once, hidden ones too, volumes without sizes; `odd` gets what is
        wrong by id: by "" of what may be any that is missing."""

    def list_ungoverned(self, target: Target, selector: TagMatch) -> Sequence[Instance]:
        """Running ones of an accelerated type without the tag: up to 500, to be shown and nothing
        else."""

    def creator(self, target: Target, instance_id: str) -> str | None:
        """Return who launched it, by CloudTrail's last 90 days, mostly as an ARN; `None`: not in
        them."""

    def describe(self, target: Target, instance_id: str) -> Instance | None: ...
    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> Mapping[str, Instance | CloudError]: ...
    def protection(self, target: Target, instance_id: str) -> Protection: ...
    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None: ...
    def knows_reservation(self, target: Target, reservation_id: str) -> bool: ...
    def reservations(self, target: Target) -> Sequence[Reservation]:
        """Those of accelerated types that are charged to the target's account."""

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]: ...


class MetricQuery(NamedTuple):
    """One series, by its exact dimensions and a statistic of CloudWatch. `key` names its answer."""

    key: str
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """Series by key, each as long as the window has bins; a key without one published nothing.
    `problems` names keys that could not be read: their series may be missing or incomplete."""

    series: Mapping[str, Series]
    problems: Mapping[str, str]


class SeriesFilter(NamedTuple):
    """Which series to list; `None` is any. `recently`: those with readings in the last three hours
    alone."""

    namespace: str | None
    metric: str | None
    recently: bool = True


class Listed(NamedTuple):
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]


class MetricReader(Protocol):
    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """All queries over the window. Never raises: what could not be read is in `problems`."""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> Mapping[str, Sequence[Listed]]:
        """Series by their `InstanceId`; with an `instance_id`, never in a loop."""


class InstanceTagger(Protocol):
    """EC2 tags, in batches; one of value `None` is removed. Failures by instance id sink no
    others."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> Mapping[str, str]: ...


class InstanceController(Protocol):
    """The only way to stop or terminate. One instance a call; with `dry_run`, EC2 checks and does
    nothing. `prepare` carries out a step that goes right before. Each returns the id of the
    request, by which CloudTrail finds it; `None` for a dry run. Raises: Protected, Unsupported,
    WrongState, NotFound, AccessDenied, Throttled, Unavailable."""

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None: ...
    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None: ...
    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None: ...


class InstanceStarter(Protocol):
    """The only way to start an instance again. Raises: NoCapacity, or as `InstanceController`."""

    def start(self, target: Target, instance_id: str) -> str | None: ...


class UndoAnswer(NamedTuple):
    """Result of an undo: whether the instance was asked to start, and the answer to the person who
    asked."""

    done: bool
    text: str


class Undoer(Protocol):
    """Has a stopped instance of an episode started again, by the one function that may."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer: ...


class Snapshotter(Protocol):
    """A crash-consistent set of all volumes (perhaps without `boot`). Raises: as
    `InstanceController`."""

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot: bool = True,
    ) -> Sequence[Snapshot]: ...

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]: ...

    def user_data(self, target: Target, instance_id: str) -> bytes:
        """As the instance gets it; empty where it has none."""


class SnapshotRemover(Protocol):
    """The only way to delete a snapshot. Raises: Protected where an image needs it, or it is
    locked; else as `InstanceController`."""

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]: ...
    def delete(self, target: Target, snapshot_id: str) -> str | None: ...


class PriceBook(Protocol):
    """Prices per hour with their sources; of Spot instances the Spot price. Never raises: unknown
    is None."""

    def price(self, instance: Instance, policy: Policy) -> Price: ...


class PriceReader(Protocol):
    """AWS's prices of a Region, and the commitments of the hub's account. Raises: CloudError."""

    def on_demand(self, region: str, instance_type: str) -> Mapping[str, UsdPerHour]: ...
    def storage(self, region: str) -> StoragePrices: ...
    def savings_plans(self) -> Sequence[Commitment]: ...
    def reserved(self, region: str) -> Sequence[Commitment]: ...


class ReportStore(Protocol):
    """Copies of reports for other tools; the newest of a name counts. Raises: CloudError."""

    def keep(self, name: str, text: str) -> None: ...


class SpotPrices(NamedTuple):
    """Cheapest first. `problems` names Regions that could not be read, with the reason."""

    prices: tuple[SpotPrice, ...]
    problems: Mapping[str, str]


class SpotMarket(Protocol):
    """Spot prices and placement scores of Regions, in the target's account, read only."""

    def prices(
        self, target: Target, regions: Sequence[str], instance_type: str, platform: str
    ) -> SpotPrices:
        """Never raises."""

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """By Region, how likely a request for one of these types succeeds: 1 to 10. Ten Regions at
        most."""


class BatchReader(Protocol):
    """The compute environments of AWS Batch by name, read only."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None: ...


class SessionReader(Protocol):
    """Session Manager, read only."""

    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        """Those begun after `since`. Raises: AccessDenied where the member role is older."""


MOST_INSTANCES_A_COMMAND = 50
"""Source: Systems Manager API, SendCommand, `InstanceIds`."""


class CheckpointHook(Protocol):
    """Systems Manager: asks up to `MOST_INSTANCES_A_COMMAND` instances a call to save their work,
    and never waits for it. `managed` are those that Systems Manager knows."""

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        signal: bool,
    ) -> str:
        """The command's id. Raises: CloudError, also when one is not managed; then none has got
        it."""

    def managed(self, target: Target, instance_ids: Sequence[str]) -> Collection[str]: ...


class LifecycleHooks(Protocol):
    """Auto Scaling: lifecycle hooks of groups."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """How long the group waits for the hook to be completed; `None` for a hook that it does not
        have."""

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        """Lets the group go on. An action that is over already is no error."""


class Spread(Protocol):
    """Calls a function with each item, some at a time; the answers are in the order of the
    items."""

    def __call__(
        self, function: Callable[[Item], Answer], items: Sequence[Item], /
    ) -> Iterable[Answer]: ...


class Workflow(Protocol):
    """Step Functions."""

    def start(self, ref: EpisodeRef) -> bool:
        """Start the remediation; true when it runs, false when an execution of that name has
        ended."""

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Return whether the execution runs or has ended; `None` for one not known: started moments
        ago, or forgotten, after 90 days or with a state machine that was replaced."""

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """Hands the decision to the waiting task; false when that task no longer waits."""


class Vault(Protocol):
    """Keeps user data, which may hold secrets. People may read it; no function can."""

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        """Keep a copy, once, and say where."""


class Announcer(Protocol):
    """Sends alerts. Returns when a channel has taken the message. Raises: CloudError when none
    has."""

    def announce(self, alert: Alert) -> None: ...

    def reaches(self, addresses: Collection[str]) -> bool:
        """Return whether one of these addresses (lower case) gets every question straight from
        here; else deliveries say who has it. Raises: NobodyListens when a message would reach
        nobody at all."""


class IdentityProvider(Protocol):
    """An OpenID Connect issuer that people sign in at: authorization code with PKCE (RFC 7636,
    S256)."""

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        """Return where to send the browser. Raises: IssuerUnavailable, ConfigurationError."""

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        """Return the claims of the ID token for a code; signature, issuer, audience, times and
        nonce hold. Raises: SignInRefused; IssuerUnavailable; ConfigurationError; CloudError."""


class RotatingSecret(Protocol):
    """One secret while it is rotated: the `stages` of a version, the `pending` document, and
    `promote` to put that in force. Raises: CloudError; ConfigurationError for an unusable
    document."""

    def stages(self, version: str) -> frozenset[str]: ...
    def current(self) -> Mapping[str, str]: ...
    def pending(self, version: str) -> Mapping[str, str] | None: ...
    def put_pending(self, version: str, document: Mapping[str, str]) -> None: ...
    def promote(self, version: str) -> None: ...
