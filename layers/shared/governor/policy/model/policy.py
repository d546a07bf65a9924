"""The policy: every figure a decision uses, with its unit in its name and its default.

These dataclasses are also the schema of the document: `contracts.policy` validates YAML into them,
and the JSON Schema and `docs/policy-*.md` are written from their docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from math import ceil, inf
from typing import Any, Literal

from governor.core.instance import EXEMPTION_TAG, OWN_TAGS, SELECTOR_TAG, Instance
from governor.core.settings import (
    A_MONTH,
    PER_UNIT,
    PERCENT,
    Discount,
    Mistake,
    Section,
    UsdAMonth,
    UsdPerUnit,
    between,
    checked,
    named,
    one_of,
    setting,
)
from governor.core.units import END_BIN, Percent, letters_and_digits, minutes, parse_iso, printable
from governor.policy.model.contacts import ACCOUNT, Console, Ownership

LONGEST_LAG = timedelta(minutes=15)
"""With a longer lag, no figure that EC2 publishes every 5 minutes would be measured in the newest
20 minutes."""
LEAST_WINDOW_MINUTES = 10
"""The two newest bins of 5 minutes must be measured, so a shorter window is never idle. Earlier
releases accepted 5 to 9."""
HEAT_AVERAGE = timedelta(minutes=5)
"""The time over which a check of health averages a reading."""
KEY_FOR_IAM = "at most 128 letters, digits and + - = . _ : / @"
"""The characters of a tag key that a condition key of IAM surely takes, as the stacks' parameter
says."""
_KEY_FOR_IAM = r"[A-Za-z0-9+\-=._:/@]{1,128}"
_LONGEST_LAG_OF_RELEASED = 2 * END_BIN
"""With a longer lag, the newest measured memory says too little about the memory held now."""


class Mode(StrEnum):
    """How far the governor goes. `observe` withholds the effect of every EC2 write call
    (`DryRun`)."""

    OBSERVE = "observe"
    ASK = "ask"
    AUTO = "auto"


class Action(StrEnum):
    """Last step of a plan."""

    STOP = "stop"
    TERMINATE = "terminate"
    NOTIFY_ONLY = "notify-only"


# No list of Regions: AWS opens them faster than this is released.
_REGION = ("[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}", "no Region is named so: write each, as us-east-1")
_UNIT = (
    "(r|ou-[a-z0-9]{4,32})-[a-z0-9]{4,32}",
    "no unit is named so: write its ID, as ou-abcd-11111111",
)
_FAMILY = (
    "[a-z][a-z0-9-]*",
    "no family is named so: write what stands before the dot of a type, as p5",
)


def _is_time(text: str) -> bool:
    try:
        return bool(parse_iso(text))
    except ValueError:
        return False


def _is_of_jobs(namespace: str) -> bool:
    return bool(namespace) and not namespace.startswith("AWS/")


@dataclass(frozen=True, slots=True)
class TagMatch(Section):
    """A tag of an instance, compared exactly."""

    tag_key: str
    """Key of the tag."""
    tag_value: str
    """Value of the tag."""

    def __str__(self) -> str:
        return f"{self.tag_key}={self.tag_value}"

    @staticmethod
    def is_key_for_iam(key: str) -> bool:
        """Return whether IAM can deny instances with this tag key, by the parameter
        ExemptionTagKey."""
        return re.fullmatch(_KEY_FOR_IAM, key) is not None

    def is_on(self, instance: Instance) -> bool:
        return instance.tags.get(self.tag_key) == self.tag_value

    def like_it_on(self, instance: Instance) -> str | None:
        """Return the instance's tag that means this one, however its key is spelled, with any
        value.

        Keys are compared by letters and digits alone. A key that also holds the value counts, too
        (`gpugovernor:exempt`). The governor's own keys never count. The tag itself goes before
        others like it. `None`: there is none.
        """
        if self.is_on(instance):
            return str(self)
        for key, value in instance.tags.items():
            if self._is_meant_by(key):
                return printable(f"{key}={value}")
        return None

    def _is_meant_by(self, key: str) -> bool:
        if key == self.tag_key:
            return True
        wanted = letters_and_digits(self.tag_key)
        if key in OWN_TAGS or not wanted:
            return False
        return letters_and_digits(key) in (wanted, wanted + letters_and_digits(self.tag_value))


@dataclass(frozen=True, slots=True)
class Targets(Section):
    """The accounts and Regions that are swept: every account in every Region."""

    accounts: tuple[str, ...] = named(*ACCOUNT, "widened")
    """Account IDs, in quotes. Empty, as `units`: the account of the stack."""
    units: tuple[str, ...] = named(*_UNIT, "widened")
    """Organizational units, or the root: their active accounts are swept, too, those of units
    within them included (accounts.md)."""
    without_units: tuple[str, ...] = named(*_UNIT, "removed")
    """Units whose accounts `units` leaves out, with all units within them."""
    regions: tuple[str, ...] = named(*_REGION, "widened")
    """Region codes. Empty: the Region of the stack."""

    def contradictions(self) -> Iterator[Mistake]:
        if self.without_units and not self.units:
            yield ("without_units",), "leaves accounts out of units, and none is named; set units"


@dataclass(frozen=True, slots=True)
class WorkMetrics(Section):
    """Metrics that jobs publish while they work. Each must have the dimension `InstanceId`.

    A value other than 0 in the window makes the instance busy. A missing metric proves nothing.
    """

    namespace: str = checked("MLTraining", "jobs publish into one of their own", _is_of_jobs)
    """CloudWatch namespace of these metrics; not one of AWS."""
    names: tuple[str, ...] = ()
    """Names of the metrics that count. Empty: every metric of the namespace."""


@dataclass(frozen=True, slots=True)
class Metrics(Section):
    """The CloudWatch metrics of the GPUs. The defaults are the names of the CloudWatch agent on
    Linux."""

    namespace: str = "GPU/EC2"
    """CloudWatch namespace of the metrics below."""
    utilization: str = "nvidia_smi_utilization_gpu"
    """Metric of GPU utilization, in percent."""
    memory_used: str = "nvidia_smi_memory_used"
    """Metric of used GPU memory, in MiB."""
    power_draw: str = "nvidia_smi_power_draw"
    """Metric of GPU power draw, in watts."""
    temperature: str = "nvidia_smi_temperature_gpu"
    """Metric of GPU temperature, in degrees Celsius."""
    memory_utilization: str = "nvidia_smi_utilization_memory"
    """Metric of the time in which GPU memory was read or written, in percent."""
    hardware_namespace: str = "GPU/Custom"
    """CloudWatch namespace in which `agent/` publishes Xid errors, ECC errors, throttling and lost
    GPUs."""
    period_seconds: int = one_of(300, (60, 300, 3600))
    """Length of one reading in seconds. With 3600, nobody is asked and nothing is done."""
    collection_interval_seconds: int = between(60, 1, 3600, at_most="period_seconds")
    """Seconds between two samples of the agent. It counts the GPUs in an aggregated metric."""
    lag_seconds: int = between(120, 0, 3600)
    """The newest seconds are ignored, because CloudWatch may still be receiving them."""
    unasked_newest_reading_minutes: int = between(5, 3, 5, "raised")
    """Without a person's approval (`auto`, `on_expiry: act`), a step waits unless the newest
    60-second reading of every GPU ended at most so many minutes ago."""
    unasked_newest_5_minute_reading_minutes: int = between(10, 7, 10, "raised")
    """The same limit for readings of 5 minutes: EC2's own figures, and GPUs where
    `collection_interval_seconds` is above 60."""
    publishers_are_trusted: bool = setting(False, "raised")
    """Say that IAM lets nobody publish these metrics who may not stop any instance. `auto` needs
    it: CloudWatch does not show who published a metric, and forged zeros make an instance idle."""
    bound_namespaces: bool = setting(False, "lowered")
    """Call idle only what says so in a namespace of its own, too: `namespace`, a slash,
    `aws:userid`. There `agent/` publishes with `--metrics bound`, and IAM can keep others out."""
    work: WorkMetrics | None = WorkMetrics()
    """Metrics that jobs publish while they work. `null`: none are read."""


@dataclass(frozen=True, slots=True)
class IdleRule(Section):
    """Rules of idleness: every GPU stays under the threshold for the whole window."""

    utilization_below_percent: float = between(5.0, 0.1, 50, "raised")
    """A GPU is idle while its maximum utilization is under this percentage."""
    window_minutes: int = between(60, LEAST_WINDOW_MINUTES, 20_160, "lowered", once_from=5)
    """Minutes without work after which an instance is idle: it is tagged, shown and counted."""
    minimum_coverage_percent: float = between(80.0, 50, 100, "lowered")
    """Percentage of the window that must be measured on every GPU. Otherwise the verdict is
    `no-data`."""
    grace_after_launch_minutes: int = between(30, 0, 10_080, "lowered")
    """Minutes after a start during which an instance is not judged."""


@dataclass(frozen=True, slots=True)
class Vetoes(Section):
    """Limits of other figures. One reached anywhere in the window makes the instance busy.

    `null` switches a veto off.
    """

    memory_used_percent: float | None = between(None, 0.1, 100, "raised")
    """Used GPU memory, in percent of the GPU's memory."""
    power_percent_of_limit: float | None = between(40.0, 0.1, 100, "raised")
    """GPU power draw, in percent of the GPU's power limit."""
    cpu_percent: float | None = between(30.0, 0.1, 100, "raised")
    """CPU utilization, in percent."""
    network_bytes_per_second: float | None = checked(
        1_000_000.0, "it must be above 0 and finite", lambda value: 0 < value < inf, "raised", gt=0
    )
    """Network traffic in both directions, in bytes per second."""
    session_younger_than_hours: int | None = between(12, 1, 72, "lowered")
    """Hours during which an open Session Manager session makes the instance busy. Systems Manager
    counts disconnected sessions as open, so older ones do not."""
    required: tuple[Literal["memory", "power", "cpu", "network"], ...] = setting(
        ("cpu", "network"), "removed"
    )
    """Figures that must be measured. Otherwise the verdict is `no-data`."""


@dataclass(frozen=True, slots=True)
class PlanRule(Section):
    """The action for an idle instance, and the alternative if EC2 or a protection flag forbids
    it."""

    action: Action = Action.STOP
    """The action that is proposed, and taken after a yes."""
    when_stop_is_unsupported: Literal[Action.TERMINATE, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    """The action for instances that EC2 cannot stop: one-time Spot and instance-store roots."""
    when_termination_is_protected: Literal[Action.STOP, Action.NOTIFY_ONLY] = Action.NOTIFY_ONLY
    """The action instead of a termination for instances with termination protection."""
    snapshot_retention_days: int = between(30, 1, 3_650, "lowered")
    """Days until the date in the snapshots' `DeleteAfter` tag. Until then nothing deletes them."""
    delete_expired_snapshots: bool = False
    """Delete the snapshots of closed episodes after that date, 7 days after a message to the owner.
    Never in mode `observe`."""
    delete_last_of_terminated: bool = False
    """Delete the last whole set of snapshots of an instance that is gone, too: it then cannot be
    rebuilt."""
    stop_limit_minutes: int = between(30, 1, 240)
    """Minutes that a stop or a termination may take before it counts as failed."""
    snapshot_limit_minutes: int = between(1_440, 1, 2_880)
    """Minutes that snapshots may take before the termination is given up."""
    local_disks_may_be_lost_unasked: bool = False
    """Allow `auto` and `on_expiry: act` to stop instances with local NVMe disks, which a stop
    wipes."""
    running_snapshot_valid_minutes: int = between(240, 1, 2_880, "raised")
    """Greatest age in minutes of the snapshots of an instance that runs until its termination.
    Data written after a snapshot began is not in it."""


_MOST_DAYS = 20
"""Longest life of a question: its link is accepted for 30 days, and nights and weekends come on top
of this."""

Power = Literal["keep", "stop", "exempt", "terminate", "undo"]
"""Effect of an answer."""


@dataclass(frozen=True, slots=True)
class ApprovalRule(Section):
    """Times of a question and of each of its stages.

    A question is followed by a reminder, an escalation and the expiry. An answer ends it.
    """

    ask_after_minutes: int = between(180, 5, 20_160, "lowered")
    """Idle minutes after which people are asked, or `auto` acts. At least `idle.window_minutes`
    count."""
    ask_after_released_minutes: int = between(90, 5, 20_160, "lowered", at_most="ask_after_minutes")
    """Idle minutes after which people are asked if GPU memory is released. Never used to act
    unasked."""
    released_memory_below_percent: float = between(10.0, 0.1, 50, "raised")
    """Memory is released while every GPU uses less than this percentage. Unknown memory is not
    released."""
    released_for_minutes: int = between(15, 5, 60, "lowered", at_most="ask_after_released_minutes")
    """The newest minutes during which GPU memory must be released."""
    watch_every_minutes: int = between(15, 5, 60, "none")
    """Minutes between two reads of an idle instance that people were asked about; at most a quarter
    of `idle.window_minutes`. Work that resumes is noticed so much later, but always before anything
    is done."""
    remind_after_minutes: float = between(240.0, 0.01, 43_200, "lowered")
    """Minutes from the question to the reminder."""
    escalate_after_minutes: float = between(240.0, 0.01, 43_200, "lowered")
    """Minutes from the reminder to the escalation."""
    expire_after_minutes: float = between(960.0, 0.01, 43_200, "lowered")
    """Minutes from the escalation to the expiry."""
    digest_from: int = between(3, 0, 100, "none")
    """Number of questions to the same people from which they are sent as one message. 0: never."""
    digest_after_seconds: int = between(60, 0, 900, "none")
    """Seconds that a question, or a failure, waits for others, to be sent as one message."""
    delivery_limit_minutes: int = between(60, 1, 1_440, "none")
    """Minutes without any delivery after which the episode fails. The stages begin with the
    delivery."""
    notice_minutes: float = between(60.0, 0.01, 2_880, "lowered")
    """Minutes of the notice period in mode `auto`, from the delivery to the owner on. People may
    hold it."""
    on_expiry: Literal["no-action", "act"] = "no-action"
    """The outcome if nobody answers. `act` carries out the plan, but never a termination."""
    keep_at_most_days: int = between(30, 1, 365, "lowered")
    """Longest time in days for which an answer may keep an instance."""
    keep_after_undo_hours: float = between(24.0, 0, 720, "lowered")
    """Hours for which an instance is kept after a person has started it again."""
    ask_again_after_hours: float = between(24.0, 0, 8_760, "lowered")
    """Hours until the same idle time is reported again after an expiry, a notification or a
    refusal, and after a fourth failure in a row. After the first three it is tried again in 5, 15
    and 60 minutes."""
    ask_about_stopped_after_days: int | None = between(None, 1, 365)
    """Days from a stop to a question about termination. `null`: never."""
    retry_unopened_after_minutes: float = between(60.0, 0, 10_080, "none")
    """Minutes until the next attempt after a workflow that ended before it could ask. After the
    first three failures in a row: 5, 15 and 60 minutes."""
    wait_at_most_hours: int = between(48, 1, 168, "raised")
    """Hours after the answer for which a step waits: for a freeze, for a cap, or until silence is
    an answer. Then the episode ends as refused."""
    people_to_stop: int = between(1, 0, 2, "lowered")
    """Number of people known by address (`emails`) who must approve a stop. 0: any proof that may
    `stop`. Only an override for a tag may lower it."""
    people_to_terminate: int = between(2, 1, 2, "lowered")
    """Number of people known by address who must approve a termination. Only an override for a tag
    may lower it."""
    two_people_above_usd_per_hour: UsdPerUnit | None = PER_UNIT.setting(None, "raised")
    """A termination needs two people if the instance costs more USD per hour, whatever
    `people_to_terminate` says. `null`: at no price."""
    broadcast_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers of somebody unknown: a link in a message to a list, a Slack user or sign-in of no
    contact."""
    tag_owner_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers of an address that only the owner tag of the instance names. `stop` suffices where
    one person must approve."""
    cli_may: tuple[Power, ...] = setting(("keep",), "added")
    """Answers of a command line's caller whom no contact's `identities` name. Session names prove
    nobody."""

    def contradictions(self) -> Iterator[Mistake]:
        if self.digest_from and self.delivery_limit_minutes * 60 < 4 * self.digest_after_seconds:
            reason = (
                "must be at least four times digest_after_seconds, for which questions wait unsent"
            )
            yield ("delivery_limit_minutes",), reason
        if self.total > timedelta(days=_MOST_DAYS):
            reason = (
                f"a question would stay open for {self.total.days} days; the most is {_MOST_DAYS}"
            )
            yield ("expire_after_minutes",), reason
        if self.two_people_above_usd_per_hour is not None and "terminate" in self.broadcast_may:
            reason = (
                "cannot go with terminate in broadcast_may: a list's link does not "
                "tell two people apart"
            )
            yield ("two_people_above_usd_per_hour",), reason

    @property
    def total(self) -> timedelta:
        """Return for how long a question stays open, without quiet hours."""
        minutes = (
            self.remind_after_minutes + self.escalate_after_minutes + self.expire_after_minutes
        )
        return timedelta(minutes=minutes)


@dataclass(frozen=True, slots=True)
class Breaker(Section):
    """Limits that freeze all plans of an account and Region: too many instances changed in one
    sweep."""

    turned_idle_percent: float = between(50.0, 1, 100)
    """Percentage of the working instances that turn idle in one sweep."""
    turned_silent_percent: float = between(50.0, 1, 100)
    """Percentage of the publishing instances that stop to publish metrics in one sweep."""
    minimum_instances: int = between(5, 1, 10_000)
    """Number of instances that must change at once. Fewer never freeze anything."""
    hold_minutes: int = between(180, 0, 10_080)
    """Minutes a freeze lasts after the last sweep that would have caused it. If the governor acts
    unasked, it also lasts until most of those instances have worked again, or are stopped."""
    unusual_times_the_most: float | None = between(3.0, 1, 100)
    """Freeze if this many times more instances change than in any sweep of two weeks. `null`:
    never."""
    hub_minimum_instances: int = between(10, 2, 10_000)
    """Instances of all accounts that must have turned and not worked since, before everything
    freezes."""
    hub_times_the_usual: float = between(2.0, 1, 100)
    """Freeze everything if more than this many times as many turned as in the same hours of 14
    days."""
    lift_freezes_before: str | None = checked(
        None, "it must be a time such as 2026-12-24T09:00:00Z", _is_time
    )
    """A time in quotes, as "2026-12-24T09:00:00Z". Freezes that began before it end, and what
    turned before it no longer counts. `null`: no freeze is lifted."""


@dataclass(frozen=True, slots=True)
class Caps(Section):
    """How many stops and terminations may begin in any 60 minutes. Approved ones above it wait.

    They bound what a mistake can do before people see it.
    """

    organization_actions_per_hour: int = between(20, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes in all accounts. Low: people can start that many
    again."""
    account_actions_per_hour: int = between(5, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes in one account. Low: a mistake affects few instances of
    one team."""
    owner_actions_per_hour: int = between(5, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes of one owner's instances. Low: nobody loses everything
    at once."""


@dataclass(frozen=True, slots=True)
class Managed(Section):
    """Messages to the owner of an environment that another service runs, about its idle
    instances."""

    idle_for_minutes: int = between(60, 60, 43_200, "none")
    """Idle minutes after which an instance is reported. At least `idle.window_minutes` count."""
    tell_again_after_hours: int = between(24, 24, 8_760, "none")
    """Hours between two messages about the same environment."""
    tag_keys: tuple[str, ...] = setting((), "removed")
    """Further tag keys that mark an instance as run by another service, in any letter case. GPU
    Governor notifies the owner and leaves the instance alone."""


@dataclass(frozen=True, slots=True)
class Prices(Section):
    """Prices that the governor cannot read from AWS (prices.md). The defaults are those of
    us-east-1."""

    usd_per_hour: Mapping[str, UsdPerUnit] = PER_UNIT.setting({})
    """USD per hour by instance type, such as negotiated prices. They replace AWS's price list."""
    discount_percent: Mapping[str, Discount] = PERCENT.setting({}, "none")
    """Percent off On-Demand list prices by instance family, such as `p5`; `all`: of all other
    families."""
    refresh_hours: int = between(24, 1, 720, "none")
    """Hours after which AWS's list price of a type that runs is read again."""
    commitments_elsewhere: bool = setting(True, "none")
    """Savings Plans or Reserved Instances of other accounts than the stack's may pay for instances.
    Then savings in cash begin at 0."""
    ebs_usd_per_gib_month: UsdPerUnit = PER_UNIT.setting(Decimal("0.08"), "none")
    """USD per GiB and month of EBS volumes, where AWS's price list was not read."""
    snapshot_usd_per_gib_month: UsdPerUnit = PER_UNIT.setting(Decimal("0.05"), "none")
    """USD per GiB and month of EBS snapshots, where AWS's price list was not read."""

    def contradictions(self) -> Iterator[Mistake]:
        for name in self.discount_percent:
            if not re.fullmatch(_FAMILY[0], name):
                yield ("discount_percent", name), _FAMILY[1]

    def discount(self, family: str) -> Decimal:
        """Return the percentage off the list prices of a family; 0 if there is none."""
        return self.discount_percent.get(family, self.discount_percent.get("all", Decimal(0)))


@dataclass(frozen=True, slots=True)
class Ledger(Section):
    """How savings are booked."""

    risk = "none"
    false_stop_within_minutes: int = between(60, 0, 43_200)
    """A stop counts as wrong if the instance is started again within these minutes."""
    saving_counts_days: int = between(30, 1, 366)
    """Days for which an action counts as saving. No forgotten instance would have run forever."""
    weekly_report: bool = True
    """Report costs and savings of the week before to owners on Mondays."""
    monthly_report: bool = True
    """Report those of the month before on the 1st, and again on the 15th, when its bill is
    final."""


@dataclass(frozen=True, slots=True)
class Budget(Section):
    """The budget of each project for a calendar month (UTC). It leads to messages and questions,
    never to an action."""

    risk = "none"
    monthly_usd: UsdAMonth | None = A_MONTH.setting(Decimal(10_000))
    """USD a month of each project, and of all instances without a project together. `null`: no
    budget."""
    projects: Mapping[str, UsdAMonth] = A_MONTH.setting({})
    """USD a month by project. It replaces `monthly_usd` for that project."""
    tell_at_percent: tuple[float, ...] = between((80.0, 100.0), 1, 1_000)
    """Percentages of the budget at which the project's owner is notified, once a month each."""
    act: Literal["notify", "ask"] = setting("notify", "any")
    """The effect above 100%. `ask`: people are asked about idle instances that an override with
    `mode: observe` leaves alone. Never while the document's own `mode` is `observe`."""
    publish_at_most_projects: int = between(0, 0, 1_000)
    """Number of projects, the most expensive first, that get metrics of their own (0.30 USD a month
    each)."""

    def of(self, project: str) -> Decimal | None:
        """Return the budget of a project; `None` if it has none."""
        return self.projects.get(project, self.monthly_usd)


@dataclass(frozen=True, slots=True)
class Events(Section):
    """How the governor answers events of EC2 and AWS Health."""

    checkpoint_on_spot_interruption: bool = True
    """Run the instance's own checkpoint hook when Spot takes the instance back."""
    checkpoint_on_rebalance: bool = False
    """Run the hook on a rebalance recommendation, too. An interruption may never follow."""
    checkpoint_on_auto_scaling: bool = True
    """Run the hook when the Auto Scaling group terminates the instance and waits for a lifecycle
    hook."""
    completed_lifecycle_hooks: tuple[str, ...] = ()
    """Lifecycle hooks that wait only for the governor: it completes them if there is nothing to
    save."""
    signal_gpu_processes: bool = False
    """Send SIGTERM to the processes on the GPU if an instance has no hook."""
    snapshot_data_volumes: bool = False
    """Start snapshots of the data volumes before an interruption."""
    mass_interruption_window_minutes: int = between(10, 1, 1_440, "none")
    """Warnings in one zone belong together within these minutes of the first."""
    mass_interruption_told_singly: int = between(5, 1, 1_000, "none")
    """Number of such warnings that get a message each. The others share one."""
    compare_spot_prices: bool = setting(True, "none")
    """Show after a warning where the same type is cheaper."""
    spot_price_regions: tuple[str, ...] = setting(("us-east-1", "us-west-2", "eu-west-1"), "none")
    """Regions to compare, besides the instance's own; at most 20."""
    placement_scores: bool = setting(False, "none")
    """Show how likely EC2 has the same GPUs there. This costs one call more for each warning."""
    remind_before_hours: int = between(24, 1, 336, "none")
    """Hours before an announced date at which its message is repeated."""

    def contradictions(self) -> Iterator[Mistake]:
        if len(self.spot_price_regions) > 20:
            yield (
                ("spot_price_regions",),
                "names more than 20 Regions; each is a call at every warning",
            )


@dataclass(frozen=True, slots=True)
class Health(Section):
    """Messages to the owner about the state of GPUs. Nothing is ever done about it."""

    risk = "none"
    # Defaults are the product's figures, but for `throttled_above_percent` and `busy_from_percent`:
    # a tenth of the time is more than a peak, and 10% is where the low-utilization alarm ends.
    hot_above_celsius: float = between(85.0, 30, 120)
    """A GPU is hot if two averages of 5 minutes in a row are above this, in degrees Celsius."""
    throttled_above_percent: Percent = between(10.0, 0, 100)
    """A GPU is throttled if its clocks are lowered for more than this percentage of the time."""
    busy_from_percent: Percent = between(10.0, 0, 100)
    """Mean utilization from which a GPU is at work. The limits below are only for GPUs at work."""
    under_used_below_percent: Percent = between(70.0, 0, 100)
    """A GPU at work is under-used below this mean utilization."""
    straggler_above_points: float = between(20.0, 0, 100)
    """A GPU is a straggler more than these percentage points below the median of the other GPUs."""
    memory_bound_memory_above_percent: Percent = between(80.0, 0, 100)
    """Work is memory-bound if memory utilization is above this and GPU utilization below the
    next."""
    memory_bound_compute_below_percent: Percent = between(50.0, 0, 100)
    """GPU utilization under which work can be memory-bound."""
    compute_bound_above_percent: Percent = between(90.0, 0, 100)
    """Work is compute-bound above this GPU utilization."""
    minimum_coverage_percent: Percent = between(80.0, 0, 100)
    """Percentage of the window that must be measured before a mean is used."""
    enabled: bool = True
    """Check the health of GPUs."""
    check_every_minutes: int = between(240, 5, 1_440)
    """Minutes between two checks of an account and Region; at most `window_minutes`, so none are
    missed."""
    window_minutes: int = between(270, 10, 2_880)
    """Minutes that a check reads."""
    advice_every_hours: int = between(168, 1, 8_760)
    """Hours between two messages of advice to an owner. Faults are sent at once."""

    @property
    def check_every(self) -> timedelta:
        return timedelta(minutes=min(self.check_every_minutes, self.window_minutes))

    @property
    def window(self) -> timedelta:
        """Return the time that a check reads, rounded up to whole averages of heat."""
        return HEAT_AVERAGE * ceil(timedelta(minutes=self.window_minutes) / HEAT_AVERAGE)


@dataclass(frozen=True, slots=True)
class Advice(Section):
    """Limits of `governor advice`, which proposes how to save money. Nothing is ever done about
    it."""

    risk = "none"
    weeks: int = between(6, 1, 12)
    """Weeks of utilization that are read, by the hour."""
    minimum_weeks: int = between(4, 1, 12, at_most="weeks")
    """Weeks between the first and the last reading, below which nothing is advised."""
    minimum_measured_percent: Percent = between(80.0, 0, 100)
    """Percentage of an instance's running hours that must be measured on every GPU."""
    minimum_usd_per_month: UsdPerUnit = PER_UNIT.setting(Decimal(50))
    """USD a month. Advice known to save less is left out."""
    dismissed_for_days: int = between(90, 1, 366)
    """Days for which dismissed advice is left out."""
    unused_below_percent: Percent = between(5.0, 0.1, 50)
    """A GPU is unused in an hour whose maximum utilization is under this percentage."""
    target_percent: Percent = between(85.0, 10, 100)
    """The most that a smaller type may be filled by the measured peak of GPU memory and vCPUs; also
    the utilization that GPUs at work are measured against."""
    full_memory_above_percent: Percent = between(90.0, 10, 100)
    """GPU memory is short above this percentage."""
    cpu_works_from_percent: Percent = between(20.0, 1, 100)
    """CPU utilization from which an instance without GPU work still works."""
    cpu_family: str = checked("m7i", _FAMILY[1], partial(re.fullmatch, _FAMILY[0]))
    """Family of the CPU types that are proposed."""
    cpu_usd_per_vcpu_hour: UsdPerUnit = PER_UNIT.setting(Decimal("0.0504"))
    """USD per vCPU and hour of that family."""
    office_day_at_most_hours: int = between(12, 1, 20)
    """Longest working day, on weekdays, for which a schedule is proposed."""
    schedule_tag_key: str = "Schedule"
    """Tag key that Instance Scheduler on AWS looks for."""
    schedule_name: str = "office-hours"
    """Name of the schedule there."""
    inference_below_percent: Percent = between(30.0, 1, 100)
    """Mean utilization at work under which a P type may serve inference that a smaller type could
    serve."""
    old_families: tuple[str, ...] = named(*_FAMILY, default=("p2", "p3", "g3", "g3s", "g4dn"))
    """Families for which newer ones are proposed."""
    newer_families: tuple[str, ...] = named(*_FAMILY, default=("g5", "g6", "gr6", "g6e", "g7e"))
    """Families that are proposed in their place."""
    steady_from_percent: Percent = between(60.0, 1, 100)
    """Percentage of an instance's hours with GPU work from which the work is steady."""
    port_pays_within_months: int = between(12, 1, 60)
    """Months in which a port to Trainium or Inferentia must pay for itself."""
    burst_at_most_hours: int = between(24, 1, 168)
    """Longest stretch of GPU work that Spot is proposed for."""
    empty_reservation_after_hours: int = between(24, 1, 720)
    """Hours for which a Capacity Reservation or Capacity Block is never full before its owner is
    notified, and again every `health.advice_every_hours`."""
    scale_in_below_percent: Percent = between(20.0, 1, 100)
    """Mean utilization of a group, over 10 minutes, under which it needs fewer instances."""


@dataclass(frozen=True, slots=True)
class Policy(Section):
    """All settings, as they apply to one instance after overrides."""

    mode: Mode = setting(Mode.OBSERVE, "raised")
    """`observe` changes nothing in EC2, `ask` acts after a yes, `auto` acts unasked.
    The template's parameter `Mode` sets it."""
    selector: TagMatch = TagMatch(SELECTOR_TAG, "GPU-Workload")
    """The tag of the instances that are governed."""
    exemption: TagMatch = TagMatch(EXEMPTION_TAG, "exempt")
    """The tag of instances that are left alone. Any value counts. Its key is compared by letters
    and digits alone, and a key that also holds the value counts (`gpugovernor:exempt`). IAM sees
    the exact key only, by the parameter `ExemptionTagKey` of the stacks, and only if it has no
    other characters than letters, digits and + - = . _ : / @."""
    two_people_for_policy: bool | None = setting(None, "lowered")
    """Let a risky change of the policy wait until two people of `ownership.contacts` stand behind
    it. `null`: `true` once any rule or override of the policy terminates, else `false`."""
    # From here on, what a setting means is said by its section.
    targets: Targets = Targets()
    metrics: Metrics = Metrics()
    idle: IdleRule = IdleRule()
    vetoes: Vetoes = Vetoes()
    plan: PlanRule = PlanRule()
    approval: ApprovalRule = ApprovalRule()
    breaker: Breaker = Breaker()
    caps: Caps = Caps()
    ownership: Ownership = field(default_factory=Ownership)
    console: Console = field(default_factory=Console)
    managed: Managed = Managed()
    prices: Prices = field(default_factory=Prices)
    ledger: Ledger = Ledger()
    budget: Budget = field(default_factory=Budget)
    events: Events = Events()
    health: Health = Health()
    advice: Advice = Advice()

    def contradictions(self) -> Iterator[Mistake]:
        terminates = Action.TERMINATE in (self.plan.action, self.plan.when_stop_is_unsupported)
        if self.approval.on_expiry == "act" and terminates:
            yield (
                ("approval", "on_expiry"),
                "act cannot go with a plan that terminates; silence is no yes",
            )
        yield from self._uneven_windows()

    def _uneven_windows(self) -> Iterator[Mistake]:
        """Yield each window that is not a whole number of periods."""
        period_seconds = self.metrics.period_seconds
        windows = {("idle", "window_minutes"): self.idle.window_minutes}
        if self.period <= END_BIN:  # Periods of an hour start no question at all.
            approval = self.approval
            windows["approval", "ask_after_minutes"] = approval.ask_after_minutes
            windows["approval", "ask_after_released_minutes"] = approval.ask_after_released_minutes
        for path, window_minutes in windows.items():
            if window_minutes * 60 % period_seconds:
                reason = (
                    f"{window_minutes} is not a whole number of periods of "
                    f"metrics.period_seconds ({period_seconds})"
                )
                yield path, reason

    @property
    def window(self) -> timedelta:
        return timedelta(minutes=self.idle.window_minutes)

    @property
    def watch_every(self) -> timedelta:
        """Return the time between two reads of an idle instance that people know of. It is so short
        that their windows overlap."""
        return min(timedelta(minutes=self.approval.watch_every_minutes), self.window / 4)

    @property
    def ask_window(self) -> timedelta:
        """Return the idle time before anybody is asked or anything is done."""
        return max(self.window, timedelta(minutes=self.approval.ask_after_minutes))

    @property
    def released_window(self) -> timedelta:
        """Return the idle time before anybody is asked while GPU memory is released. With a long
        lag that cannot be seen, so the usual time counts."""
        if self.lag > _LONGEST_LAG_OF_RELEASED:
            return self.ask_window
        return max(self.window, timedelta(minutes=self.approval.ask_after_released_minutes))

    @property
    def never_asks(self) -> str | None:
        """Return the setting with which readings cannot show that idleness lasts up to now, and
        what to set; `None` if they can."""
        if self.period > END_BIN:
            return f"metrics.period_seconds is {self.metrics.period_seconds}; set 300"
        if self.lag > LONGEST_LAG:
            return f"metrics.lag_seconds is {self.metrics.lag_seconds}; set 120"
        return None

    def over(self, window: timedelta) -> Policy:
        """Return this policy with an idle window of this length."""
        if window == self.window:
            return self
        return replace(self, idle=replace(self.idle, window_minutes=minutes(window)))

    @property
    def period(self) -> timedelta:
        return timedelta(seconds=self.metrics.period_seconds)

    @property
    def lag(self) -> timedelta:
        """Return how much of the newest time is ignored."""
        return timedelta(seconds=self.metrics.lag_seconds)


@dataclass(frozen=True, slots=True)
class OverrideMatch(Section):
    """The instances that an override is for. All conditions must hold; an empty one always
    holds."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that the instance must have, each with this value."""
    instance_families: tuple[str, ...] = named(*_FAMILY)
    """Instance families, one of which the type belongs to: the part before the dot, such as
    `p5`."""
    accounts: tuple[str, ...] = named(*ACCOUNT)
    """Account IDs, one of which the instance is in."""
    regions: tuple[str, ...] = named(*_REGION)
    """Region codes, one of which the instance is in."""

    def holds(self, instance: Instance) -> bool:
        """Return whether all conditions hold for this instance."""
        for key, value in self.tags.items():
            if instance.tags.get(key) != value:
                return False
        if self.instance_families and instance.family not in self.instance_families:
            return False
        if self.accounts and instance.target.account not in self.accounts:
            return False
        return not self.regions or instance.target.region in self.regions


@dataclass(frozen=True, slots=True)
class Override(Section):
    """Settings for some instances."""

    name: str
    """A name that no other override has."""
    match: OverrideMatch
    """The instances that it is for."""
    set: Mapping[str, Any]
    """The settings that it changes."""
    approved_by: tuple[str, ...] = ()
    """Two or more people of `ownership.contacts`, by address, who must accept `mode: auto` with
    `terminate`: until each has run `governor policy accept VERSION`, the override counts as
    `ask`."""


BY_BUDGET = "budget.act"


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """The policy for one instance, and its sources. `version` is the document's hash."""

    policy: Policy
    version: str
    overrides: tuple[str, ...] = ()
    """Names, and `BY_BUDGET` if people are asked about the instance because of the budget."""
