"""Ports: what use cases need from outside, as Protocols. Adapters and in-memory twins fulfil them.

Every method may raise `CloudError` unless its docstring says otherwise, and no other error of
`governor.errors` that it does not name. With a `Target` that has a `role_arn`, it acts as that role
in that account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from governor.errors import CloudError, PolicyError

if TYPE_CHECKING:
    # For types alone: a function loads only the parts of the domain that it uses.
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
    """The time in UTC, with its time zone."""

    def now(self) -> UtcDatetime: ...


class SealCheck(Protocol):
    """Checks the signatures of seals, by the key of each duty. It makes none."""

    def __call__(self, duty: Duty, text: bytes, signature: str) -> bool:
        """Return whether the function of this duty has signed the text."""


class Policies(Protocol):
    """The parsed policy document: one snapshot for an invocation. `base` has no overrides;
    selector, targets, metrics and breaker are taken from there."""

    def base(self) -> AppliedPolicy: ...
    def applied_to(self, instance: Instance) -> AppliedPolicy: ...


class PolicyVariants(Policies, Protocol):
    """Policies that can also list the base and each override applied alone. Every setting of an
    instance is in one of these `variants`."""

    @property
    def variants(self) -> Sequence[Policy]: ...


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A version of the policy document. The version "null" means that there is none. `author` is
    the writer's own statement, and may be empty."""

    version: str
    text: str
    author: str = ""


class PolicyDocuments(Protocol):
    def newest(self) -> StoredPolicy | None: ...
    def read(self, version: str, *, patient: bool = True) -> str: ...


def policy_or_base(policies: Policies, instance: Instance | None) -> Policy:
    """Return the policy of an instance, for work that must go on in any case. Return the base if
    the instance is not known, or if its overrides contradict each other, which the sweep
    reports."""
    if instance is None:
        return policies.base().policy
    try:
        return policies.applied_to(instance).policy
    except PolicyError:
        return policies.base().policy


class InstanceReader(Protocol):
    """EC2, read only. An instance that EC2 does not know (any more) is `None`, or left out.

    Lists leave out a record without the fields that EC2 always sends. Describing such an instance
    fails; among others, only that one fails.
    """

    def list_selected(
        self, target: Target, selector: TagMatch, odd: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return all running instances once, hidden ones too, with volumes without sizes. `odd`
        receives what is wrong, by instance id: by "" if it may be about any missing instance."""

    def list_ungoverned(self, target: Target, selector: TagMatch) -> Sequence[Instance]:
        """Return running instances of an accelerated type without the tag: up to 500, only to be
        shown."""

    def creator(self, target: Target, instance_id: str) -> str | None:
        """Return who launched it, mostly as an ARN; `None` if CloudTrail's last 90 days do not
        say."""

    def describe(self, target: Target, instance_id: str) -> Instance | None: ...
    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> Mapping[str, Instance | CloudError]: ...
    def protection(self, target: Target, instance_id: str) -> Protection: ...
    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None: ...
    def knows_reservation(self, target: Target, reservation_id: str) -> bool: ...
    def reservations(self, target: Target) -> Sequence[Reservation]:
        """Return those of accelerated types that are charged to the target's account."""

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
    """Series by key, each with a value for every bin of the window. A key without a series
    published nothing. `problems` names keys that could not be read: their series may be missing or
    incomplete."""

    series: Mapping[str, Series]
    problems: Mapping[str, str]


class SeriesFilter(NamedTuple):
    """The series to list; `None` means any. `recently` leaves out those without readings in the
    last three hours."""

    namespace: str | None
    metric: str | None
    recently: bool = True


class Listed(NamedTuple):
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]


class MetricReader(Protocol):
    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Return the series of all queries over the window. Never raises: `problems` names what
        could not be read."""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> Mapping[str, Sequence[Listed]]:
        """Return the series by their `InstanceId`. Never call this with an `instance_id` in a
        loop."""


class InstanceTagger(Protocol):
    """Sets EC2 tags in batches; a tag with the value `None` is removed. It returns failures by
    instance id, which do not affect the others."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> Mapping[str, str]: ...


class InstanceController(Protocol):
    """The only way to stop or terminate an instance, one a call. With `dry_run`, EC2 checks and
    does nothing. `prepare` carries out a step that goes right before.

    Each returns the id of the request, by which CloudTrail finds it; `None` for a dry run. Raises:
    Protected, Unsupported, WrongState, NotFound, AccessDenied, Throttled, Unavailable.
    """

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None: ...
    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None: ...
    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None: ...


class InstanceStarter(Protocol):
    """The only way to start an instance again. Raises: NoCapacity, or as `InstanceController`."""

    def start(self, target: Target, instance_id: str) -> str | None: ...


class UndoAnswer(NamedTuple):
    """The result of an undo: whether the instance was asked to start, and the answer to the person
    who asked."""

    done: bool
    text: str


class Undoer(Protocol):
    """Has the stopped instance of an episode started again, by the only function that may."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer: ...


class Snapshotter(Protocol):
    """Makes a crash-consistent set of snapshots of all volumes, or of all but the root volume if
    `boot` is false. Raises: as `InstanceController`."""

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
        """Return the user data as the instance receives it; empty if it has none."""


class SnapshotRemover(Protocol):
    """The only way to delete a snapshot. Raises: Protected if an image needs it, or if it is
    locked; else as `InstanceController`."""

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]: ...
    def delete(self, target: Target, snapshot_id: str) -> str | None: ...


class PriceBook(Protocol):
    """Prices per hour with their sources; for a Spot instance the Spot price. Never raises: an
    unknown price is `None`."""

    def price(self, instance: Instance, policy: Policy) -> Price: ...


class PriceReader(Protocol):
    """AWS's prices of a Region, and the commitments of the hub's account. Raises: CloudError."""

    def on_demand(self, region: str, instance_type: str) -> Mapping[str, UsdPerHour]: ...
    def storage(self, region: str) -> StoragePrices: ...
    def savings_plans(self) -> Sequence[Commitment]: ...
    def reserved(self, region: str) -> Sequence[Commitment]: ...


class ReportStore(Protocol):
    """Keeps copies of reports for other tools. The newest copy of a name counts. Raises:
    CloudError."""

    def keep(self, name: str, text: str) -> None: ...


class SpotPrices(NamedTuple):
    """Spot prices, cheapest first. `problems` gives the reason for each Region that could not be
    read."""

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
        """Return by Region how likely a request for one of these types succeeds, from 1 to 10. Give
        at most ten Regions."""


class BatchReader(Protocol):
    """The compute environments of AWS Batch by name, read only."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None: ...


class SessionReader(Protocol):
    """Session Manager, read only."""

    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        """Return the sessions begun after `since`. Raises: AccessDenied if the member role is of an
        earlier release."""


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


class LifecycleHooks(Protocol):
    """The lifecycle hooks of Auto Scaling groups."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """Return how long the group waits for the hook to be completed; `None` if it has no such
        hook."""

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        """Let the group go on. An action that is over already is no error."""


class Spread(Protocol):
    """Calls a function with each item, several at a time. The answers are in the order of the
    items."""

    def __call__(
        self, function: Callable[[Item], Answer], items: Sequence[Item], /
    ) -> Iterable[Answer]: ...


class Workflow(Protocol):
    """Step Functions."""

    def start(self, ref: EpisodeRef) -> bool:
        """Start the remediation. Return true if it runs, false if an execution of that name has
        ended."""

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Return whether the execution still runs; `None` if it is not known. It may have started
        moments ago, or be forgotten: after 90 days, or with a state machine that was replaced."""

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """Hand the decision to the waiting task; return false if that task no longer waits."""


class Vault(Protocol):
    """Keeps user data, which may hold secrets. People may read it; no function can."""

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        """Keep one copy, and return where it is."""


class Announcer(Protocol):
    """Sends alerts. It returns once a channel has accepted the message. Raises: CloudError if none
    has."""

    def announce(self, alert: Alert) -> None: ...

    def reaches(self, addresses: Collection[str]) -> bool:
        """Return whether one of these addresses (lower case) gets every question directly from
        here. Otherwise the deliveries say who has it. Raises: NobodyListens if a message would
        reach nobody at all."""


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
        """Return the claims of the ID token for a code, after its signature, issuer, audience,
        times and nonce were checked. Raises: SignInRefused; IssuerUnavailable; ConfigurationError;
        CloudError."""


class RotatingSecret(Protocol):
    """One secret while it is rotated. `stages` are those of a version, `pending` is the new
    document, and `promote` puts it in force. Raises: CloudError; ConfigurationError if a document
    is unusable."""

    def stages(self, version: str) -> frozenset[str]: ...
    def current(self) -> Mapping[str, str]: ...
    def pending(self, version: str) -> Mapping[str, str] | None: ...
    def put_pending(self, version: str, document: Mapping[str, str]) -> None: ...
    def promote(self, version: str) -> None: ...
