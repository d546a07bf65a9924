"""What the use cases need from the world, as Protocols. Adapters and in-memory twins fulfil them.

Every method raises the tree of `governor.errors` and nothing foreign. Where a method takes a `Target` with a
`role_arn`, it acts as that role in that account. This module must not know AWS's client library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from governor.domain.alert import Alert
from governor.domain.approval import Approval, Decision
from governor.domain.breaker import SweepDay
from governor.domain.cost import Meter
from governor.domain.delivery import Delivery
from governor.domain.episode import (
    BreakerState,
    Episode,
    EpisodeRef,
    InstanceRecord,
    Observation,
    Outcome,
)
from governor.domain.evidence import Series, Window
from governor.domain.instance import Instance, Protection, Shape, SpotRequestType, Target, Volume
from governor.domain.interruption import LifecycleAction, SpotPrice
from governor.domain.ledger import LedgerEntry
from governor.domain.managed import BatchEnvironment
from governor.domain.notice import Notice
from governor.domain.plan import Price, Step
from governor.domain.policy import AppliedPolicy, Policy, TagMatch
from governor.domain.units import UtcDatetime


class Clock(Protocol):
    """The time."""

    def now(self) -> UtcDatetime:
        """Aware UTC."""
        ...


class Policies(Protocol):
    """The policy document, parsed; one snapshot for the length of an invocation."""

    def base(self) -> AppliedPolicy:
        """The document without overrides: selector, targets, metrics and breaker are taken from here."""
        ...

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """The policy for one instance, overrides applied in the document's order."""
        ...


class InstanceReader(Protocol):
    """EC2, read only."""

    def list_selected(self, target: Target, selector: TagMatch) -> Sequence[Instance]:
        """All running instances that carry the selector tag, hidden managed ones included.

        1,000 a page; volumes without sizes.
        """
        ...

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """One instance in whatever state, or `None` when EC2 does not know it (any more)."""
        ...

    def describe_all(self, target: Target, instance_ids: Sequence[str]) -> Mapping[str, Instance]:
        """As `describe`, of many in few calls; those that EC2 does not know (any more) are not in it."""
        ...

    def protection(self, target: Target, instance_id: str) -> Protection:
        """Both protection flags."""
        ...

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """Of the request that launched the instance; `None` when the request is gone."""
        ...

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """The instance's volumes with size and type."""
        ...


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
        ...

    def list_series(
        self, target: Target, namespace: str, metric: str, instance_id: str | None = None
    ) -> Mapping[str, Sequence[tuple[tuple[str, str], ...]]]:
        """Recently active dimension sets of a metric that hold an `InstanceId`, by that id. 500 a page.

        With `instance_id` only that instance's: for the one instance a workflow is about, never in a loop.
        Raises: CloudError.
        """
        ...

    def list_published(
        self, target: Target, namespace: str, instance_id: str | None = None, *, recently: bool = True
    ) -> Mapping[str, Sequence[tuple[str, tuple[tuple[str, str], ...]]]]:
        """Metric and dimensions of every series of a namespace that holds an `InstanceId`, by that id.

        `recently`: only those that were published in the last three hours. With `instance_id` only that
        instance's. Raises: CloudError.
        """
        ...


class InstanceTagger(Protocol):
    """EC2 tags, in batches. One failing instance never sinks the others."""

    def set_tags(
        self, target: Target, instance_ids: Sequence[str], tags: Mapping[str, str], *, dry_run: bool
    ) -> Mapping[str, str]:
        """Sets the tags; returns the failures as reason by instance id."""
        ...

    def remove_tags(
        self, target: Target, instance_ids: Sequence[str], keys: Collection[str], *, dry_run: bool
    ) -> Mapping[str, str]:
        """Removes the tags, whatever their value; returns the failures as reason by instance id."""
        ...


class InstanceController(Protocol):
    """The only way to stop or terminate. One instance a call. With `dry_run`, EC2 checks and does nothing."""

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """Raises: Protected, Unsupported, WrongState, NotFound, AccessDenied, Throttled, Unavailable."""
        ...

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """Raises: as `stop`."""
        ...

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> None:
        """Carries out a step that goes right before a stop or a termination. Raises: as `stop`."""
        ...


class InstanceStarter(Protocol):
    """The only way to start an instance again."""

    def start(self, target: Target, instance_id: str) -> None:
        """Raises: NoCapacity, WrongState, NotFound, AccessDenied, Unsupported, Throttled, Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """Whether the instance was asked to start, and what to tell the person who asked."""

    done: bool
    text: str


class Undoer(Protocol):
    """Has a stopped instance of an episode started again, by the one function that may."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Raises: CloudError when that function could not be asked."""
        ...


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
        ...

    def find(self, target: Target, tags: Mapping[str, str]) -> Sequence[Snapshot]:
        """The account's own snapshots that carry all these tags."""
        ...


class PriceBook(Protocol):
    """What things cost, with the source of each figure."""

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Per hour; Spot instances at their Spot price. Never raises: unknown is `None`."""
        ...


@dataclass(frozen=True, slots=True)
class SpotPrices:
    """Cheapest first. `problems` names Regions that could not be read, with the reason."""

    prices: tuple[SpotPrice, ...]
    problems: Mapping[str, str]


class SpotMarket(Protocol):
    """Spot prices, read only."""

    def prices(self, target: Target, regions: Sequence[str], instance_type: str, platform: str) -> SpotPrices:
        """Of all zones of these Regions, in the target's account. Never raises."""
        ...

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """By Region, how likely a Spot request for one instance of any of these types succeeds: 1 to 10.

        Of ten Regions at most. Raises: CloudError, also where the account has asked too much today.
        """
        ...


class SiblingTypes(Protocol):
    """Instance types that do the same work."""

    def alike(self, instance_type: str) -> Sequence[str]:
        """All types with as many of the same accelerator, itself included; empty for an unknown one."""
        ...


class BatchReader(Protocol):
    """AWS Batch, read only."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        """The compute environment, or `None` when there is none of that name. Raises: CloudError."""
        ...


class Catalogue(Protocol):
    """Accelerated instance types."""

    def shape(self, instance_type: str) -> Shape | None:
        """What the type carries, or `None` for an unknown one."""
        ...


class StateTable(Protocol):
    """The truth. Every change that matters is a conditional write, which raises `ConflictError` when lost."""

    # the sweep's memory
    def observations(self, target: Target) -> Mapping[str, Observation]:
        """What the last sweep saw, by instance id; empty at the first sweep."""
        ...

    def remember(self, target: Target, observations: Mapping[str, Observation], at: datetime) -> None:
        """Replaces the observations of a target. Last writer wins; it is a cache."""
        ...

    def records(self, target: Target) -> Mapping[str, InstanceRecord]:
        """All instance records of a target, by instance id; one that cannot be read says so in `problem`."""
        ...

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        """One record; an empty one when there is none yet."""
        ...

    def set_marked(self, target: Target, instance_id: str, at: datetime | None) -> None:
        """Notes when the instance was tagged, or that it no longer is."""
        ...

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """Notes until when warnings stand, by instance id, a hundred a call. The last one counts."""
        ...

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """Forgets a record that holds an old warning and nothing else; any other stays."""
        ...

    def snooze(self, target: Target, instance_id: str, until: datetime) -> None:
        """Leaves the instance alone until then, as a decision to keep it would."""
        ...

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """Work resumed: the next idleness is told anew."""
        ...

    def sweep_days(self, target: Target) -> Sequence[SweepDay]:
        """What the sweeps of the last days have seen turning at once, oldest day first."""
        ...

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """Replaces it. Of two sweeps at once one may be lost; the next one makes up for it."""
        ...

    def breaker(self, target: Target) -> BreakerState | None:
        """The tripped breaker of a target, if it is."""
        ...

    def set_breaker(self, target: Target, state: BreakerState | None) -> bool:
        """Trips or releases; true when this call changed it.

        One that is tripped already takes the new time and reason, which is no change.
        """
        ...

    def save_sweep(self, target: Target, at: datetime, counts: Mapping[str, int]) -> None:
        """One line of sweep history."""
        ...

    # episodes
    def take_lock(self, ref: EpisodeRef) -> bool:
        """Opens the episode on the instance record: sets `open_episode`, counts it.

        True when this call took it, or the same episode already holds it (a repeated invocation).
        False when another episode is open or this number has been used.
        """
        ...

    def save_opened(self, episode: Episode) -> Episode:
        """Writes the episode and its pending approval once; returns the one that is stored (first wins).

        Raises: ConflictError when the episode does not hold the lock (any more). Nobody can answer the
        approval before `await_answer` has set its expiry.
        """
        ...

    def episode(self, ref: EpisodeRef) -> Episode | None:
        """The episode, or `None` when it was never opened."""
        ...

    def clear_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """A recheck lets this step through: the episode acts. Raises ConflictError when it is closed."""
        ...

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> None:
        """Notes the snapshots of the episode: volume id by snapshot id."""
        ...

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """Notes when a step was first asked of EC2; later notes of the same step change nothing.

        Raises ConflictError when the episode is closed: the last barrier before EC2 is called.
        """
        ...

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """Notes that people were told of the outcome. Raises ConflictError when there is no such episode."""
        ...

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """Notes who had the instance started again; true when nobody was noted before.

        Raises ConflictError when the episode is not closed.
        """
        ...

    def close_episode(
        self,
        ref: EpisodeRef,
        outcome: Outcome,
        reason: str,
        at: datetime,
        *,
        quiet_until: datetime | None,
        ledger: LedgerEntry | None,
    ) -> bool:
        """Closes the episode, frees the lock and books the ledger entry, all or nothing.

        True when this call closed it; false when it was closed already. Works for an episode that was locked
        but never saved.
        """
        ...

    # approvals
    def approval(self, approval_id: str) -> Approval | None:
        """The approval, or `None` for an unknown id."""
        ...

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        """Opens the approval for answers until `expires_at`, and binds the task token that waits for one.

        Without a token nothing waits yet. Returns it as stored (it may already be decided).

        Raises: NotFound.
        """
        ...

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """Notes the first of two approvals, while it is pending; returns the approval as stored.

        Raises: NotFound.
        """
        ...

    def settle(self, approval_id: str, decision: Decision, hold_until: datetime | None) -> Approval:
        """PENDING to the decision's status, once; a keep or an exemption is written to the instance record
        in the same transaction. Raises: ConflictError when it is no longer pending, NotFound.
        """
        ...

    def void(self, approval_id: str, reason: str, *, expired: bool, outcome: str = "void") -> Approval:
        """PENDING to VOID (or EXPIRED), once; `outcome` is kept as `void_outcome`.

        Raises: ConflictError, NotFound.
        """
        ...

    # ledger
    def open_entries(self, target: Target, instance_id: str) -> Sequence[LedgerEntry]:
        """Booked and not settled."""
        ...

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        """Ends a ledger entry once; true when this call did."""
        ...

    def entries(self, month: str) -> Sequence[LedgerEntry]:
        """All entries booked in a month (`yyyy-mm`)."""
        ...

    # costs
    def meter(self, target: Target, month: str) -> Meter | None:
        """What a target has cost in a month (`yyyy-mm`); `None` when nothing was counted in it."""
        ...

    def bring_forward(self, meter: Meter, seen: Meter | None) -> bool:
        """Puts the meter in the place of the one that was seen; `None`: there was none.

        True when this call did; false when another one has brought it forward since.
        """
        ...

    def meters(self, month: str) -> Sequence[Meter]:
        """Those of all targets."""
        ...

    def keep_policy(self, text: str, at: datetime) -> None:
        """Keeps the text of a policy document that was accepted."""
        ...

    def kept_policy(self) -> str | None:
        """The last one that was kept."""
        ...

    # deliveries
    def deliveries(self, subject: str) -> Sequence[Delivery]:
        """What became of the messages about a subject."""
        ...

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """Keeps the claim, good until its `not_before`; true when this caller shall send the message there.

        False when it is settled (but for what was given up), or must not be tried yet: as the channel has
        said, or because another caller's claim holds.
        """
        ...

    def note_delivery(self, delivery: Delivery) -> None:
        """Keeps it, in place of an earlier record of the same message, channel and target."""
        ...

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """Keeps a message until it is sent with others of its group; once, however often it is put."""
        ...

    def outbox(self, group: str) -> Sequence[tuple[str, str]]:
        """Ids and documents of the messages that wait, in the order of their ids."""
        ...

    def drop_outbox(self, group: str, message: str) -> None:
        """Forgets one that was sent."""
        ...

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """True when nobody else holds it; it ends by itself after so many seconds."""
        ...

    def end_lease(self, name: str) -> None:
        """Lets others take it."""
        ...

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """Keeps which questions a digest is about (90 days)."""
        ...

    def digest(self, digest_id: str) -> Sequence[str]:
        """The questions of a digest; empty when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Burst:
    """Where a warning stands among those of its zone: `number` counts from 1 since `started_at`."""

    number: int
    started_at: UtcDatetime


class EventLog(Protocol):
    """What was done about which event. Calls are sent once and fail fast: a warning leaves two minutes."""

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """True when this caller shall do what `key` names: nobody has, and nobody is at it.

        A claim that is not followed by `done` lapses after `lease`, so that a repeated event makes up for a
        caller that failed.
        """
        ...

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """As `claim`, of many different keys in few calls: those that this caller shall do."""
        ...

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        """It is done, and not to be done again within `keep`."""
        ...

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        """As `done`, of many different keys in few calls."""
        ...

    def count(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        """Counts one more of `name` (a kind and a zone); a count begins anew `window` after its first.

        Raises: CloudError, or ConflictError when too many counted at the same moment.
        """
        ...

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """Keeps an announced date; false, and nothing is changed, when something newer is known about it.

        A new date of the same thing replaces the old one. The same date again, or none, leaves the one that
        is kept, and whether to remind of it. What was dropped is opened by a newer word only.
        """
        ...

    def drop_notice(self, notice: Notice) -> None:
        """It is over, which is kept for a while; unless something newer is known."""
        ...

    def notices(self, target: Target) -> Sequence[Notice]:
        """The announced dates to remind of."""
        ...

    def told(self, target: Target, now: datetime) -> Collection[str]:
        """Everything of the target that `keep_told` has kept and whose time is not over."""
        ...

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """Keeps that people were told what the keys name, a hundred a call; a later one sets another end."""
        ...


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
        ...

    def managed(self, target: Target, instance_ids: Sequence[str]) -> Collection[str]:
        """Those of up to `MOST_INSTANCES_A_COMMAND` instances that Systems Manager knows.

        Raises: CloudError.
        """
        ...


class LifecycleHooks(Protocol):
    """Auto Scaling: lifecycle hooks of groups."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """How long the group waits for the hook to be completed; `None` for a hook that it does not have.

        Raises: CloudError.
        """
        ...

    def complete(self, target: Target, action: LifecycleAction) -> None:
        """Lets the group go on. An action that is over already is no error.

        Raises: CloudError.
        """
        ...


class Workflow(Protocol):
    """Step Functions."""

    def start(self, ref: EpisodeRef) -> bool:
        """Starts the remediation of an episode; its name is the episode's, its input holds no time.

        True when it is running (now or already); false when an execution of that name has ended.
        """
        ...

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Whether the execution of that episode runs or has ended; `None` for one that is not known.

        A description lags behind a start by moments; long after it, `None` means forgotten: after 90 days,
        or with a state machine that was replaced.
        """
        ...

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """Hands the decision to the waiting task; false when that task no longer waits."""
        ...


class DeadLetters(Protocol):
    """Where events go that cannot be used, so that somebody can look at them."""

    def keep(self, body: str, reason: str) -> None:
        """Keeps an event as it came, with the reason. Raises: CloudError."""
        ...


class Announcer(Protocol):
    """Sends alerts. Returns when a channel has taken the message. Raises: CloudError when none has."""

    def announce(self, alert: Alert) -> None:
        """Sends one alert."""
        ...

    def must_be_heard(self) -> bool:
        """Whether people get messages straight from here; else the delivery to channels tells who took one.

        Raises: NobodyListens when a message would be taken and reach nobody at all.
        """
        ...


class LinkSigner(Protocol):
    """Makes and checks the signature of approval links."""

    def link(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        """The whole URL. Raises: ConfigurationError."""
        ...

    def relative(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        """The same without what stands before the id: for a page that links to its neighbours."""
        ...

    def check(self, approval_id: str, fields: Mapping[str, str], now: datetime) -> str:
        """The recipient named in the link. Raises: LinkForged, LinkExpired."""
        ...

    def csrf(self, approval_id: str, recipient: str, expires_at: datetime, session: str = "") -> str:
        """The value a form of this link must send back; of this session, where somebody is signed in."""
        ...

    def check_csrf(self, approval_id: str, fields: Mapping[str, str], token: str, session: str = "") -> None:
        """Raises: LinkForged."""
        ...


class Sealer(Protocol):
    """Seals values that a browser keeps: it can read them, and not change them."""

    def seal(self, purpose: Sequence[str], values: Mapping[str, str], expires_at: datetime) -> str:
        """As a text for a cookie: ASCII letters, digits, `-`, `_` and `.`. Raises: ConfigurationError."""
        ...

    def unseal(self, purpose: Sequence[str], sealed: str, now: datetime) -> Mapping[str, str] | None:
        """The values; `None` unless they were sealed for exactly this purpose and their time is not over."""
        ...


class IdentityProvider(Protocol):
    """An OpenID Connect issuer that people sign in at: authorization code with PKCE (RFC 7636, S256)."""

    def authorization_url(self, *, state: str, nonce: str, verifier: str, redirect_uri: str) -> str:
        """Where to send the browser. Raises: IssuerUnavailable, ConfigurationError."""
        ...

    def redeem(self, *, code: str, nonce: str, verifier: str, redirect_uri: str) -> Mapping[str, object]:
        """The claims of the ID token for a code, with signature, issuer, audience, times and nonce checked.

        Raises:
            SignInRefused: the issuer refused the code, or the token does not hold.
            IssuerUnavailable: it did not answer, or not as the standard says.
            ConfigurationError: it does not accept this client, or cannot do what is needed.
            CloudError: the client's secret could not be read.
        """
        ...


class RotatingSecret(Protocol):
    """One secret while Secrets Manager rotates it. All raise CloudError."""

    def stages(self, version: str) -> frozenset[str]:
        """The labels of a version; empty when there is no such version."""
        ...

    def current(self) -> Mapping[str, str]:
        """The document in force. Raises: ConfigurationError."""
        ...

    def pending(self, version: str) -> Mapping[str, str] | None:
        """The document of a version that waits, or `None` when it was not written yet."""
        ...

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        """Writes it."""
        ...

    def promote(self, version: str) -> None:
        """Makes the version the one in force."""
        ...
