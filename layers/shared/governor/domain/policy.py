"""The policy: every figure a decision uses, with its unit in its name and the mission's values as defaults.

These dataclasses are the document's schema too: `contracts.policy` validates YAML straight into them and
publishes their JSON Schema. They check themselves, so a policy that exists is a policy that makes sense.
This module must not know YAML, pydantic or AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from math import inf
from typing import Any, ClassVar, Literal

from governor.domain.contacts import Contact, Directory
from governor.domain.evidence import END_BIN
from governor.domain.health import HealthThresholds
from governor.domain.instance import Instance
from governor.domain.settings import (
    MOST_USD_A_MONTH,
    MOST_USD_PER_UNIT,
    Amount,
    Mistake,
    Naming,
    UsdAMonth,
    UsdPerUnit,
    between,
    check,
    named,
    one_of,
    usd_per_unit,
)
from governor.domain.tags import EXEMPTION_TAG, SELECTOR_TAG

_FORBID_UNKNOWN: dict[str, Any] = {"extra": "forbid"}
RETIRED_SETTINGS: frozenset[tuple[str, ...]] = frozenset(
    {("detector",), ("targets", "pasts_asked_per_sweep")}
    | {
        ("survival", name)
        for name in (
            "needed_chance_percent",
            "worthwhile_hours",
            "similar_start_hours",
            "minimum_evidence",
            "unproven_minutes",
            "interruption_times",
            "interruption_up_to_hours",
            "prior_weight",
            "longest_proof_hours",
            "history_days",
            "ask_again_after_minutes",
        )
    }
)
"""Settings of the release before: accepted and ignored with a warning, until the next release."""


class Mode(StrEnum):
    """How far the governor goes. `observe` withholds the effect of every EC2 write call (`DryRun`)."""

    OBSERVE = "observe"
    ASK = "ask"
    AUTO = "auto"


class Action(StrEnum):
    """What a plan ends in."""

    STOP = "stop"
    TERMINATE = "terminate"
    NOTIFY_ONLY = "notify-only"


_ACCOUNT = Naming("[0-9]{12}", "an account has 12 digits, in quotes")
_REGION = Naming(
    # No list: AWS opens Regions faster than this is released.
    "[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}",
    "no Region is named so: write each, as us-east-1",
)
_FAMILY = Naming(
    "[a-z][a-z0-9-]*", "no family is named so: write what stands before the dot of a type, as p5"
)


@dataclass(frozen=True, slots=True)
class TagMatch:
    """A tag by key and value."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    tag_key: str
    tag_value: str

    def __str__(self) -> str:
        return f"{self.tag_key}={self.tag_value}"

    def is_on(self, instance: Instance) -> bool:
        """Whether the instance carries it, key and value to the letter."""
        return instance.tags.get(self.tag_key) == self.tag_value


@dataclass(frozen=True, slots=True)
class Targets:
    """Which accounts and Regions are swept. Empty lists mean: the one the stack lives in."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    accounts: tuple[str, ...] = named(_ACCOUNT)
    regions: tuple[str, ...] = named(_REGION)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class WorkMetrics:
    """Metrics by which jobs say themselves that they work. Each must carry the dimension `InstanceId`.

    One that was published in the window and is not 0 makes an instance busy; that none was proves nothing.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    namespace: str = "MLTraining"
    names: tuple[str, ...] = ()
    """Only these count. Empty: every metric of the namespace."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if not self.namespace or self.namespace.startswith("AWS/"):
            yield ("namespace",), f"namespace is {self.namespace!r}; jobs publish into one of their own"


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where GPU metrics are found. Defaults: names of the CloudWatch agent on Linux."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    namespace: str = "GPU/EC2"
    utilization: str = "nvidia_smi_utilization_gpu"
    memory_used: str = "nvidia_smi_memory_used"
    power_draw: str = "nvidia_smi_power_draw"
    temperature: str = "nvidia_smi_temperature_gpu"
    memory_utilization: str = "nvidia_smi_utilization_memory"
    hardware_namespace: str = "GPU/Custom"
    """Where `agent/` publishes Xid, ECC, throttling and lost GPUs; the CloudWatch agent has none of them."""
    period_seconds: int = one_of(300, (60, 300, 3600))
    """CloudWatch keeps these."""
    collection_interval_seconds: int = between(60, 1, 3600)
    """How often the agent publishes; by it the samples of an aggregate tell how many GPUs are in it."""
    lag_seconds: int = between(120, 0, 3600)
    """How much of the recent past is left out because it may still be on its way to CloudWatch."""
    rediscover_after_minutes: int = between(60, 5, 1440)
    """How long a silent instance's dimension sets are not looked for again."""
    work: WorkMetrics | None = WorkMetrics()
    """What jobs publish of themselves. `null`: it is not looked at."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if self.collection_interval_seconds > self.period_seconds:
            yield (
                ("collection_interval_seconds",),
                f"collection_interval_seconds ({self.collection_interval_seconds}) must be at most "
                f"period_seconds ({self.period_seconds})",
            )


@dataclass(frozen=True, slots=True)
class IdleRule:
    """When a GPU counts as idle: its maximum stays under the threshold for the whole window."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    utilization_below_percent: float = between(5.0, 0.1, 50)
    window_minutes: int = between(60, 5, 20_160)
    minimum_coverage_percent: float = between(80.0, 50, 100)
    grace_after_launch_minutes: int = between(30, 0, 10_080)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Vetoes:
    """Evidence against idleness besides utilization. `null` switches a veto off.

    A figure at or above its limit anywhere in the window makes the instance busy. `required` names figures
    whose absence makes the verdict `no-data`; EC2 publishes CPU and network for every running instance.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    memory_used_percent: float | None = between(None, 0.1, 100)
    power_percent_of_limit: float | None = between(40.0, 0.1, 100)
    cpu_percent: float | None = between(30.0, 0.1, 100)
    network_bytes_per_second: float | None = 1_000_000.0
    required: tuple[Literal["memory", "power", "cpu", "network"], ...] = ("cpu", "network")

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        limit = self.network_bytes_per_second
        if limit is not None and not (0 < limit < inf):  # NaN is neither
            reason = f"network_bytes_per_second is {limit}; it must be above 0 and finite"
            yield ("network_bytes_per_second",), reason

    def limit(self, figure: str) -> float | None:
        """The limit of `memory`, `power`, `cpu` or `network`."""
        match figure:
            case "memory":
                return self.memory_used_percent
            case "power":
                return self.power_percent_of_limit
            case "cpu":
                return self.cpu_percent
            case "network":
                return self.network_bytes_per_second
            case _:
                raise KeyError(figure)


@dataclass(frozen=True, slots=True)
class PlanRule:
    """What is done with an idle instance, and what instead where EC2 or a protection flag forbids it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    action: Action = Action.STOP
    when_stop_is_unsupported: Literal[Action.TERMINATE, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    """For one-time Spot and instance-store roots, which EC2 cannot stop."""
    when_termination_is_protected: Literal[Action.STOP, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    snapshot_retention_days: int = between(30, 1, 3_650)
    """Written into the snapshots' `DeleteAfter` tag. The governor itself deletes no snapshot."""
    stop_limit_minutes: int = between(30, 1, 240)
    """How long a stop or termination may take before the flow fails."""
    snapshot_limit_minutes: int = between(1_440, 1, 2_880)
    local_disks_may_be_lost_unasked: bool = False
    """Whether `auto`, and an expiry that acts, may stop what has local NVMe: a stop wipes it."""
    recheck_valid_minutes: int = between(15, 1, 60)
    """How long a recheck lets a stop or a termination through; retries of the step must fit in it."""
    running_snapshot_valid_minutes: int = between(240, 1, 2_880)
    """Of an instance that cannot be stopped first: how old its snapshots may be when it is terminated.
    What it writes after their start is in none of them."""

    def __post_init__(self) -> None:
        check(self)


_LONGEST_QUESTION = timedelta(days=20)
"""A key is accepted for 30 days after it has stopped to sign; nights and weekends come on top of this."""

Power = Literal["keep", "stop", "exempt", "terminate", "undo"]
"""What an answer amounts to."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """When people are asked, and the times of an approval.

    Each stage begins when the one before has passed without an answer.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    ask_after_minutes: int = between(180, 5, 20_160)
    """How long an instance must have been idle before anybody is asked, and before anything is done."""
    ask_after_released_minutes: int = between(90, 5, 20_160)
    """The same while every GPU's memory is released. Never used where something is done unasked."""
    released_memory_below_percent: float = between(10.0, 0.1, 50)
    """GPU memory is released while every GPU holds less than this. Unknown memory counts as held."""
    released_for_minutes: int = between(15, 5, 60)
    """Over how many of the newest minutes the memory is measured for that."""
    remind_after_minutes: float = between(240.0, 0.01, 43_200)
    escalate_after_minutes: float = between(240.0, 0.01, 43_200)
    expire_after_minutes: float = between(960.0, 0.01, 43_200)
    digest_from: int = between(3, 0, 100)
    """From so many questions to the same people on they come as one message. 0: each by itself, at once."""
    digest_after_seconds: int = between(60, 0, 900)
    """How long a question waits for others to come with it."""
    delivery_limit_minutes: int = between(60, 1, 1_440)
    """How long no channel may take a question before the episode fails; its time begins when one has."""
    on_expiry: Literal["no-action", "act"] = "no-action"
    keep_at_most_days: int = between(30, 1, 365)
    keep_after_undo_hours: float = between(24.0, 0, 720)
    """How long an instance that somebody had started again is left alone."""
    ask_again_after_hours: float = between(24.0, 0, 8_760)
    """After an expiry, a failure or a plain notification: how long the same idleness is not told again."""
    retry_unopened_after_minutes: float = between(60.0, 0, 10_080)
    """After a workflow that failed before it could ask: how long until the next one is started."""
    broadcast_may: tuple[Power, ...] = ("keep", "stop", "undo")
    """What a link may decide that went to a list, and so to nobody in particular."""
    two_people_above_usd_per_hour: UsdPerUnit | None = usd_per_unit(None)
    """A termination of what costs more needs two different people. `null`: one is enough."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if self.ask_after_released_minutes > self.ask_after_minutes:
            yield (
                ("ask_after_released_minutes",),
                f"ask_after_released_minutes ({self.ask_after_released_minutes}) must be at most "
                f"ask_after_minutes ({self.ask_after_minutes})",
            )
        if self.released_for_minutes > self.ask_after_released_minutes:
            yield (
                ("released_for_minutes",),
                f"released_for_minutes ({self.released_for_minutes}) must be at most "
                f"ask_after_released_minutes ({self.ask_after_released_minutes})",
            )
        if self.digest_from and self.delivery_limit_minutes * 60 < 4 * self.digest_after_seconds:
            yield (
                ("delivery_limit_minutes",),
                "delivery_limit_minutes must be at least four times digest_after_seconds: a question "
                "that waits for others would be given up before it is sent",
            )
        if self.total > _LONGEST_QUESTION:
            yield (
                ("expire_after_minutes",),
                f"a question would stay open for {self.total.days} days; its link is good for "
                f"{_LONGEST_QUESTION.days} at the most, because keys rotate",
            )
        if self.two_people_above_usd_per_hour is not None and "terminate" in self.broadcast_may:
            yield (
                ("two_people_above_usd_per_hour",),
                "two_people_above_usd_per_hour cannot go with terminate in broadcast_may: a link that "
                "went to a list does not tell two people apart",
            )

    @property
    def total(self) -> timedelta:
        """From the first question to the expiry."""
        minutes = self.remind_after_minutes + self.escalate_after_minutes + self.expire_after_minutes
        return timedelta(minutes=minutes)


@dataclass(frozen=True, slots=True)
class Breaker:
    """When destructive plans freeze: an unusual share turned idle, or fell silent, at once."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    turned_idle_percent: float = between(50.0, 1, 100)
    turned_silent_percent: float = between(50.0, 1, 100)
    minimum_instances: int = between(5, 1, 10_000)
    """Fewer instances than this turning at once never trip the breaker."""
    hold_minutes: int = between(180, 0, 10_080)
    """How long it stays open after the last sweep that would have tripped it. In mode `auto` longer, while
    most of those that turned have neither worked again nor been put away."""
    remind_after_hours: int = between(24, 1, 168)
    """How long after the last message people are told again that it still holds."""
    unusual_times_the_most: float | None = between(3.0, 1, 100)
    """More than this many times the most that ever turned in a sweep of the last days trips it as well,
    however small a share of the fleet it is; `None`: never."""
    history_days: int = between(14, 1, 60)
    history_days_needed: int = between(3, 1, 60)
    """Days of sweeps before they count as knowledge of the fleet."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if self.history_days_needed > self.history_days:
            yield (
                ("history_days_needed",),
                f"history_days_needed ({self.history_days_needed}) must be at most history_days "
                f"({self.history_days})",
            )


@dataclass(frozen=True, slots=True)
class Ownership:
    """Tags that name the person and the project an instance belongs to, first match first, and who that
    is."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    owner_tag_keys: tuple[str, ...] = ("Owner", "owner")
    project_tag_keys: tuple[str, ...] = ("Project", "project")
    default_owner: str = "unassigned"
    contacts: Mapping[str, Contact] = field(default_factory=dict)
    """By name. An `Owner` tag names one, or is an address."""
    project_owners: Mapping[str, str] = field(default_factory=dict)
    """Name of a contact by project, for instances whose owner is not known."""
    default_contacts: tuple[str, ...] = ()
    escalation_contacts: tuple[str, ...] = ()
    """Asked in addition when nobody has answered the reminder."""
    email_domains: tuple[str, ...] = ()
    """Domains of addresses in `Owner` tags that are written to. Empty: only addresses of contacts are."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        named = [(("project_owners", project), name) for project, name in self.project_owners.items()]
        for setting in ("default_contacts", "escalation_contacts"):
            named += [((setting, str(index)), name) for index, name in enumerate(getattr(self, setting))]
        for path, name in named:
            if name not in self.contacts:
                yield path, f"there is no contact {name!r}: add it under ownership.contacts"

    @property
    def directory(self) -> Directory:
        """Who is asked about what."""
        return Directory(
            contacts=self.contacts,
            project_owners=self.project_owners,
            default_contacts=self.default_contacts,
            escalation_contacts=self.escalation_contacts,
            email_domains=self.email_domains,
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """Hints that never lead to an action by themselves."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    right_size_check_every_minutes: int = between(1_440, 0, 43_200)
    """How often a busy instance with several GPUs is looked at GPU by GPU, where it costs extra reads."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Managed:
    """When the owner of an environment that another service runs is told of its idle instances."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    idle_for_minutes: int = between(60, 60, 43_200)
    """How long an instance must have done nothing, however short `idle.window_minutes` is."""
    tell_again_after_hours: int = between(24, 24, 8_760)
    """How long the same environment is not told of again."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices the governor cannot read. USD per GiB-month: AWS list prices for us-east-1."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    usd_per_hour: Mapping[str, UsdPerUnit] = field(default_factory=dict)
    """By instance type; goes before the shipped list (negotiated prices)."""
    ebs_usd_per_gib_month: UsdPerUnit = usd_per_unit(Decimal("0.08"))
    snapshot_usd_per_gib_month: UsdPerUnit = usd_per_unit(Decimal("0.05"))

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        for kind, amount in self.usd_per_hour.items():
            if not Amount(0, MOST_USD_PER_UNIT).holds(amount):
                yield (
                    ("usd_per_hour", kind),
                    f"usd_per_hour is {amount}; it must lie between 0 and {MOST_USD_PER_UNIT}",
                )


@dataclass(frozen=True, slots=True)
class Ledger:
    """How savings are booked."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    false_stop_within_minutes: int = between(60, 0, 43_200)
    """A stop undone within this time counts as false."""
    saving_counts_days: int = between(30, 1, 366)
    """For how long an action counts as saving: nothing forgotten would have run for ever."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a project may cost in a calendar month (UTC): told when it is reached, nothing acts on it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    monthly_usd: UsdAMonth | None = Decimal(10_000)
    """Of each project, and of all that carry no project's tag together. `null`: none."""
    projects: Mapping[str, UsdAMonth] = field(default_factory=dict)
    """Budgets of single projects, by the value of their tag; goes before `monthly_usd`."""
    tell_at_percent: tuple[float, ...] = (80.0, 100.0)
    """A project's owner is told once a month at each of these shares of its budget."""
    publish_at_most_projects: int = between(50, 0, 1_000)
    """So many projects, the dearest, get a metric of their own, which CloudWatch charges for."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        amounts: dict[tuple[str, ...], Decimal] = {
            ("projects", project): usd for project, usd in self.projects.items()
        }
        if self.monthly_usd is not None:
            amounts["monthly_usd",] = self.monthly_usd
        for path, usd in amounts.items():
            if usd == 0 or not Amount(0, MOST_USD_A_MONTH).holds(usd):
                said = f"a budget must be above 0 and at most {MOST_USD_A_MONTH}"
                yield path, f"{said}; monthly_usd: null is none at all"
        for index, percent in enumerate(self.tell_at_percent):
            if not 1 <= percent <= 1_000:  # NaN is in no range
                yield ("tell_at_percent", str(index)), f"is {percent}; it must lie between 1 and 1000"

    def of(self, project: str) -> Decimal | None:
        """The budget of a project; `None` where it has none."""
        return self.projects.get(project, self.monthly_usd)


@dataclass(frozen=True, slots=True)
class Events:
    """How the governor answers what EC2 and AWS Health tell."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    checkpoint_on_spot_interruption: bool = True
    """Whether an instance that is taken back is asked to run its owner's hook. It runs only what is there."""
    checkpoint_on_rebalance: bool = False
    """Whether it is asked on a rebalance recommendation, too: an interruption may never follow."""
    checkpoint_on_auto_scaling: bool = True
    """Whether it is asked when its Auto Scaling group terminates it and waits for a lifecycle hook."""
    completed_lifecycle_hooks: tuple[str, ...] = ()
    """Names of lifecycle hooks that wait for the governor alone: completed where nothing is saved."""
    signal_gpu_processes: bool = False
    """Whether, where an instance has no hook, its processes on the GPU get SIGTERM."""
    snapshot_data_volumes: bool = False
    """Whether snapshots of the data volumes are started before an interruption."""
    mass_interruption_window_minutes: int = between(10, 1, 1_440)
    """Warnings in one zone within so many minutes of the first belong together."""
    mass_interruption_told_singly: int = between(5, 1, 1_000)
    """So many of them are told one by one; the rest is one message."""
    compare_spot_prices: bool = True
    """Whether people are told, after a warning, where the same type is cheaper."""
    spot_price_regions: tuple[str, ...] = ("us-east-1", "us-west-2", "eu-west-1")
    """Regions looked at for that, besides the instance's own."""
    placement_scores: bool = False
    """Whether that advice also says how likely EC2 finds the same GPUs there: a call more at each."""
    remind_before_hours: int = between(24, 1, 336)
    """How long before a date that was announced it is told again."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if len(self.spot_price_regions) > 20:
            reason = "spot_price_regions names more than 20 Regions; each is a call at every warning"
            yield ("spot_price_regions",), reason


@dataclass(frozen=True, slots=True)
class Health(HealthThresholds):
    """When the state of GPUs is told to their owner. Nothing is ever done about it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    enabled: bool = True
    check_every_minutes: int = between(60, 5, 1_440)
    window_minutes: int = between(90, 10, 2_880)
    """What a check looks at. Longer than the time between two, so that nothing falls between them."""
    gone_after_minutes: int = between(180, 10, 43_200)
    """A finding that was not seen for so long has ended; when it comes back, it is told anew."""
    advice_every_hours: int = between(168, 1, 8_760)
    """How often an owner is told what is no fault: GPUs that are used badly, and what holds them back."""

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        if self.hot_average_seconds % 60:
            reason = f"hot_average_seconds is {self.hot_average_seconds}; it must be whole minutes"
            yield ("hot_average_seconds",), reason
        elif self.window_minutes * 60 % self.hot_average_seconds:
            yield (
                ("window_minutes",),
                f"window_minutes ({self.window_minutes}) must be a whole number of averages of "
                f"hot_average_seconds ({self.hot_average_seconds})",
            )
        if self.window_minutes * 60 < self.hot_average_seconds * self.hot_periods:
            yield (
                ("window_minutes",),
                f"window_minutes ({self.window_minutes}) cannot hold hot_periods averages",
            )
        if self.window_minutes < self.check_every_minutes:
            yield (
                ("window_minutes",),
                "window_minutes must be at least check_every_minutes: nobody saw what is between",
            )
        if self.gone_after_minutes < 2 * self.check_every_minutes:
            yield (
                ("gone_after_minutes",),
                "gone_after_minutes must be at least twice check_every_minutes, or what lasts would be "
                "told at every check",
            )

    @property
    def window(self) -> timedelta:
        """Length of the window."""
        return timedelta(minutes=self.window_minutes)

    @property
    def period(self) -> timedelta:
        """Length of one reading: that of the averages that heat is judged by."""
        return timedelta(seconds=self.hot_average_seconds)


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it, as it applies to one instance after overrides."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    mode: Mode = Mode.OBSERVE
    selector: TagMatch = field(default_factory=lambda: TagMatch(SELECTOR_TAG, "GPU-Workload"))
    exemption: TagMatch = field(default_factory=lambda: TagMatch(EXEMPTION_TAG, "exempt"))
    targets: Targets = field(default_factory=Targets)
    metrics: Metrics = field(default_factory=Metrics)
    idle: IdleRule = field(default_factory=IdleRule)
    vetoes: Vetoes = field(default_factory=Vetoes)
    plan: PlanRule = field(default_factory=PlanRule)
    approval: ApprovalRule = field(default_factory=ApprovalRule)
    breaker: Breaker = field(default_factory=Breaker)
    ownership: Ownership = field(default_factory=Ownership)
    advice: Advice = field(default_factory=Advice)
    managed: Managed = field(default_factory=Managed)
    prices: Prices = field(default_factory=Prices)
    ledger: Ledger = field(default_factory=Ledger)
    budget: Budget = field(default_factory=Budget)
    events: Events = field(default_factory=Events)
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        check(self, self._contradictions())

    def _contradictions(self) -> Iterator[Mistake]:
        terminates = Action.TERMINATE in (self.plan.action, self.plan.when_stop_is_unsupported)
        if self.approval.on_expiry == "act" and terminates:
            yield (
                ("approval", "on_expiry"),
                "approval.on_expiry: act cannot go with a plan that terminates; silence is no yes",
            )
        if (self.idle.window_minutes * 60) % self.metrics.period_seconds:
            yield (
                ("idle", "window_minutes"),
                f"idle.window_minutes ({self.idle.window_minutes}) must be a whole number of periods of "
                f"metrics.period_seconds ({self.metrics.period_seconds})",
            )

        for name in ("ask_after_minutes", "ask_after_released_minutes"):
            minutes = getattr(self.approval, name)
            # Periods of an hour start no question at all.
            if self.can_ask and (minutes * 60) % self.metrics.period_seconds:
                yield (
                    ("approval", name),
                    f"approval.{name} ({minutes}) must be a whole number of periods of "
                    f"metrics.period_seconds ({self.metrics.period_seconds})",
                )

    @property
    def window(self) -> timedelta:
        """Length of the idle window."""
        return timedelta(minutes=self.idle.window_minutes)

    @property
    def ask_window(self) -> timedelta:
        """How long an instance must have been idle before anybody is asked or anything is done."""
        return max(self.window, timedelta(minutes=self.approval.ask_after_minutes))

    @property
    def released_window(self) -> timedelta:
        """The same while its GPU memory is released."""
        return max(self.window, timedelta(minutes=self.approval.ask_after_released_minutes))

    @property
    def can_ask(self) -> bool:
        """Whether its readings are fine enough to show that idleness lasts up to now."""
        return self.period <= END_BIN

    def over(self, window: timedelta) -> Policy:
        """The same policy with another idle window."""
        minutes = int(window / timedelta(minutes=1))
        if minutes == self.idle.window_minutes:
            return self
        return replace(self, idle=replace(self.idle, window_minutes=minutes))

    @property
    def period(self) -> timedelta:
        """Length of one reading."""
        return timedelta(seconds=self.metrics.period_seconds)

    @property
    def lag(self) -> timedelta:
        """How much of the recent past is left out."""
        return timedelta(seconds=self.metrics.lag_seconds)


@dataclass(frozen=True, slots=True)
class OverrideMatch:
    """Which instances an override is for; every condition given must hold, an empty one always holds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID_UNKNOWN

    tags: Mapping[str, str] = field(default_factory=dict)
    instance_families: tuple[str, ...] = named(_FAMILY)
    accounts: tuple[str, ...] = named(_ACCOUNT)
    regions: tuple[str, ...] = named(_REGION)

    def __post_init__(self) -> None:
        check(self)

    def holds(self, *, account: str, region: str, family: str, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these properties is meant."""
        return (
            all(tags.get(key) == value for key, value in self.tags.items())
            and (not self.instance_families or family in self.instance_families)
            and (not self.accounts or account in self.accounts)
            and (not self.regions or region in self.regions)
        )

    def joined(self, other: OverrideMatch) -> OverrideMatch | None:
        """Whom both are for; `None` where no instance can be meant by both."""
        if any(other.tags.get(key, value) != value for key, value in self.tags.items()):
            return None
        families = _in_both(self.instance_families, other.instance_families)
        accounts = _in_both(self.accounts, other.accounts)
        regions = _in_both(self.regions, other.regions)
        if families is None or accounts is None or regions is None:
            return None
        return OverrideMatch({**self.tags, **other.tags}, families, accounts, regions)


def _in_both(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...] | None:
    """An empty condition holds for all; `None` where nothing is in both."""
    if not some or not others:
        return some or others
    return tuple(one for one in some if one in others) or None


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """The policy for one instance, with what it was made of. `version` is the document's hash."""

    policy: Policy
    version: str
    overrides: tuple[str, ...] = ()
