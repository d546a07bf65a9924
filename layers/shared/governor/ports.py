"""What the use cases need from the world, as Protocols. Adapters and in-memory twins fulfil them.

Every method may raise `CloudError` unless its docstring says otherwise, and nothing from outside the tree of
`governor.errors`. Where a method takes a `Target` with a `role_arn`, it acts as that role in that account.
This module must not know AWS's client library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # Named only: a function loads the parts of the domain that it uses.
    from governor.domain.alerts.alert import Alert
    from governor.domain.episode.episode import EpisodeRef
    from governor.domain.episode.plan import Price, Step
    from governor.domain.events.interruption import LifecycleAction, SpotPrice
    from governor.domain.evidence import Series, Window
    from governor.domain.instance import Instance, Protection, Shape, SpotRequestType, Target, Volume
    from governor.domain.policy.policy import AppliedPolicy, Policy, TagMatch
    from governor.domain.sweep.managed import BatchEnvironment
    from governor.domain.units import UtcDatetime


class Clock(Protocol):
    """The time."""

    def now(self) -> UtcDatetime:
        """Aware UTC."""


class Policies(Protocol):
    """The policy document, parsed; one snapshot for the length of an invocation."""

    def base(self) -> AppliedPolicy:
        """The document without overrides: selector, targets, metrics and breaker are taken from here."""

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """The policy for one instance, overrides applied in the document's order."""


class InstanceReader(Protocol):
    """EC2, read only."""

    def list_selected(self, target: Target, selector: TagMatch) -> Sequence[Instance]:
        """All running instances that carry the selector tag, hidden managed ones included.

        1,000 a page; volumes without sizes.
        """

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """One instance in whatever state, or `None` when EC2 does not know it (any more)."""

    def describe_all(self, target: Target, instance_ids: Sequence[str]) -> Mapping[str, Instance]:
        """As `describe`, of many in few calls; those that EC2 does not know (any more) are not in it."""

    def protection(self, target: Target, instance_id: str) -> Protection:
        """Both protection flags."""

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """Of the request that launched the instance; `None` when the request is gone."""

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """The instance's volumes with size and type."""


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """One series: an exact dimension set, one statistic (`Maximum`, `SampleCount`, `Average`, `Sum`).

    `key` is the caller's own name for the answer.
    """

    key: str
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """Series by key, each as long as the window has bins. `problems` names keys that could not be read.

    A key in `problems` may be missing from `series` or be incomplete there; a key in neither published
    nothing.
    """

    series: Mapping[str, Series]
    problems: Mapping[str, str]


class MetricReader(Protocol):
    """CloudWatch, read only."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """All queries over the window: 500 a call, several calls at a time.

        Never raises for throttling, 5xx or a part that fails: what could not be read is in `problems`.
        """

    def list_series(
        self, target: Target, namespace: str, metric: str, instance_id: str | None = None
    ) -> Mapping[str, Sequence[tuple[tuple[str, str], ...]]]:
        """Recently active dimension sets of a metric that hold an `InstanceId`, by that id. 500 a page.

        With `instance_id` only that instance's: for the one instance a workflow is about, never in a loop.
        """

    def list_published(
        self, target: Target, namespace: str, instance_id: str | None = None, *, recently: bool = True
    ) -> Mapping[str, Sequence[tuple[str, tuple[tuple[str, str], ...]]]]:
        """Metric and dimensions of every series of a namespace that holds an `InstanceId`, by that id.

        `recently`: only those that were published in the last three hours. With `instance_id` only that
        instance's.
        """


class InstanceTagger(Protocol):
    """EC2 tags, in batches. One failing instance never sinks the others."""

    def set_tags(
        self, target: Target, instance_ids: Sequence[str], tags: Mapping[str, str], *, dry_run: bool
    ) -> Mapping[str, str]:
        """Sets the tags; returns the failures as reason by instance id."""

    def remove_tags(
        self, target: Target, instance_ids: Sequence[str], keys: Collection[str], *, dry_run: bool
    ) -> Mapping[str, str]:
        """Removes the tags, whatever their value; returns the failures as reason by instance id."""


class InstanceController(Protocol):
    """The only way to stop or terminate. One instance a call. With `dry_run`, EC2 checks and does nothing."""

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """Raises: Protected, Unsupported, WrongState, NotFound, AccessDenied, Throttled, Unavailable."""

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """Raises: as `stop`."""

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> None:
        """Carries out a step that goes right before a stop or a termination. Raises: as `stop`."""


class InstanceStarter(Protocol):
    """The only way to start an instance again."""

    def start(self, target: Target, instance_id: str) -> None:
        """Raises: NoCapacity, WrongState, NotFound, AccessDenied, Unsupported, Throttled, Unavailable."""


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """Whether the instance was asked to start, and the answer to the person who asked."""

    done: bool
    text: str


class Undoer(Protocol):
    """Has a stopped instance of an episode started again, by the one function that may."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Raises: CloudError when that function could not be asked."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State is `pending`, `completed` or `error`."""

    snapshot_id: str
    volume_id: str
    state: str
    progress: str = ""


class Snapshotter(Protocol):
    """EBS snapshots."""

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot_volume: bool = True,
    ) -> Sequence[Snapshot]:
        """One crash-consistent set of all attached volumes. Raises: as `InstanceController.stop`."""

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]:
        """The account's own snapshots that carry all these tags."""


class PriceBook(Protocol):
    """What things cost, with the source of each figure."""

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Per hour; Spot instances at their Spot price. Never raises: unknown is `None`."""


@dataclass(frozen=True, slots=True)
class SpotPrices:
    """Cheapest first. `problems` names Regions that could not be read, with the reason."""

    prices: tuple[SpotPrice, ...]
    problems: Mapping[str, str]


class SpotMarket(Protocol):
    """Spot prices, read only."""

    def prices(self, target: Target, regions: Sequence[str], instance_type: str, platform: str) -> SpotPrices:
        """Of all zones of these Regions, in the target's account. Never raises."""

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """By Region, how likely a Spot request for one instance of any of these types succeeds: 1 to 10.

        Of ten Regions at most. Raises: CloudError, also where the account has asked too much today.
        """


class SiblingTypes(Protocol):
    """Instance types that do the same work."""

    def alike(self, instance_type: str) -> Sequence[str]:
        """All types with as many of the same accelerator, itself included; empty for an unknown one."""


class BatchReader(Protocol):
    """AWS Batch, read only."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        """The compute environment, or `None` when there is none of that name."""


class Catalogue(Protocol):
    """Accelerated instance types."""

    def shape(self, instance_type: str) -> Shape | None:
        """What the type carries, or `None` for an unknown one."""


MOST_INSTANCES_A_COMMAND = 50
"""Source: Systems Manager API, SendCommand, `InstanceIds`."""


class CheckpointHook(Protocol):
    """Systems Manager: asks instances to save their work. Never waits for it."""

    def send(
        self, target: Target, instance_ids: Sequence[str], reason: str, seconds_left: int, *, signal: bool
    ) -> str:
        """Sends one command to up to `MOST_INSTANCES_A_COMMAND` instances and returns its id.

        `signal`: without a hook, GPU processes get SIGTERM.

        Raises: CloudError, also when one of them is not managed by Systems Manager; then none has got it.
        """

    def managed(self, target: Target, instance_ids: Sequence[str]) -> Collection[str]:
        """Those of up to `MOST_INSTANCES_A_COMMAND` instances that Systems Manager knows."""


class LifecycleHooks(Protocol):
    """Auto Scaling: lifecycle hooks of groups."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """How long the group waits for the hook to be completed; `None` for a hook that it does not have."""

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        """Lets the group go on. An action that is over already is no error."""


class Workflow(Protocol):
    """Step Functions."""

    def start(self, ref: EpisodeRef) -> bool:
        """Starts the remediation of an episode; its name is the episode's, its input holds no time.

        True when it is running (now or already); false when an execution of that name has ended.
        """

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Whether the execution of that episode runs or has ended; `None` for one that is not known.

        A description lags behind a start by moments; long after it, `None` means forgotten: after 90 days,
        or with a state machine that was replaced.
        """

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """Hands the decision to the waiting task; false when that task no longer waits."""


class DeadLetters(Protocol):
    """Where events go that cannot be used, so that somebody can look at them."""

    def keep(self, body: str, reason: str) -> None:
        """Keeps an event as it came, with the reason."""


class Announcer(Protocol):
    """Sends alerts. Returns when a channel has taken the message. Raises: CloudError when none has."""

    def announce(self, alert: Alert) -> None:
        """Sends one alert."""

    def must_be_heard(self) -> bool:
        """Whether people get messages straight from here; else the delivery to channels says who took one.

        Raises: NobodyListens when a message would be taken and reach nobody at all.
        """


class LinkSigner(Protocol):
    """Makes and checks the signature of approval links."""

    def link(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        """The whole URL. Raises: ConfigurationError."""

    def relative(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        """The same without what stands before the id: for a page that links to its neighbours."""

    def check(self, approval_id: str, fields: Mapping[str, str], now: datetime) -> str:
        """The recipient named in the link. Raises: LinkForged, LinkExpired."""

    def csrf(self, approval_id: str, recipient: str, expires_at: datetime, session: str = "") -> str:
        """The value a form of this link must send back; of this session, where somebody is signed in."""

    def check_csrf(self, approval_id: str, fields: Mapping[str, str], token: str, session: str = "") -> None:
        """Raises: LinkForged."""


class Sealer(Protocol):
    """Seals values that a browser keeps: it can read them, and not change them."""

    def seal(self, purpose: Sequence[str], values: Mapping[str, str], expires_at: datetime) -> str:
        """As a text for a cookie: ASCII letters, digits, `-`, `_` and `.`. Raises: ConfigurationError."""

    def unseal(self, purpose: Sequence[str], sealed: str, now: datetime) -> Mapping[str, str] | None:
        """The values; `None` unless they were sealed for exactly this purpose and their time is not over."""


class IdentityProvider(Protocol):
    """An OpenID Connect issuer that people sign in at: authorization code with PKCE (RFC 7636, S256)."""

    def authorization_url(self, *, state: str, nonce: str, verifier: str, redirect_uri: str) -> str:
        """Where to send the browser. Raises: IssuerUnavailable, ConfigurationError."""

    def redeem(self, *, code: str, nonce: str, verifier: str, redirect_uri: str) -> Mapping[str, object]:
        """The claims of the ID token for a code, with signature, issuer, audience, times and nonce checked.

        Raises:
            SignInRefused: the issuer refused the code, or the token does not hold.
            IssuerUnavailable: it did not answer, or not as the standard says.
            ConfigurationError: it does not accept this client, or cannot do what is needed.
            CloudError: the client's secret could not be read.
        """


class RotatingSecret(Protocol):
    """One secret while Secrets Manager rotates it. All raise CloudError."""

    def stages(self, version: str) -> frozenset[str]:
        """The labels of a version; empty when there is no such version."""

    def current(self) -> Mapping[str, str]:
        """The document in force. Raises: ConfigurationError."""

    def pending(self, version: str) -> Mapping[str, str] | None:
        """The document of a version that waits, or `None` when it was not written yet."""

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        """Writes it."""

    def promote(self, version: str) -> None:
        """Makes the version the one in force."""
