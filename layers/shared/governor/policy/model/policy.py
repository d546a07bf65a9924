"""The policy as a whole: its mode (observe, ask or auto), its sections, and its overrides for some
instances.

These dataclasses are also the schema of the document: `policy.document` validates YAML into them,
and the JSON Schema and `docs/policy-*.md` are written from their docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from governor.core.instance import EXEMPTION_TAG, SELECTOR_TAG, Instance
from governor.core.settings import (
    Mistake,
    Section,
    named,
    setting,
)
from governor.core.units import END_BIN, minutes
from governor.policy.model.acting import RELEASED_FOR, Action, ApprovalRule, PlanRule
from governor.policy.model.contacts import ACCOUNT, Console, Ownership
from governor.policy.model.judging import LONGEST_LAG, IdleRule, Metrics, Targets, Vetoes
from governor.policy.model.limits import Breaker, Caps
from governor.policy.model.money import Advice, Budget, Ledger, Money, Prices
from governor.policy.model.names import FAMILY, REGION, TagMatch
from governor.policy.model.notices import Events, Health, Managed

_LONGEST_LAG_OF_RELEASED = 2 * END_BIN
"""With a longer lag, the newest measured memory says too little about the memory held now."""


class Mode(StrEnum):
    """How far the governor goes. In `observe`, every EC2 write call is a dry run."""

    OBSERVE = "observe"
    ASK = "ask"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Policy(Section):
    """A policy as it applies to one instance after overrides. Besides its sections, it has these
    settings."""

    mode: Mode = setting(Mode.OBSERVE, "raised")
    """`observe` changes nothing in EC2, `ask` acts after an approval, and `auto` acts without one.
    Until a version of the policy is stored, the template's parameter `Mode` sets it."""
    selector: TagMatch = TagMatch(SELECTOR_TAG, "GPU-Workload")
    """The tag of the instances that are governed."""
    exemption: TagMatch = TagMatch(EXEMPTION_TAG, "exempt")
    """The tag of instances that are left alone. Another value of this tag exempts an instance, too,
    and so do keys that differ only in letter case or punctuation, and the key followed by the
    value, such as `gpugovernor:exempt`. IAM compares the exact key. Set the
    parameter `ExemptionTagKey` of the stacks to the same key, and use only letters, digits and
    + - = . _ : / @ in it."""
    two_people_for_policy: bool | None = setting(None, "lowered")
    """A risky change of the policy waits until two people of `ownership.contacts` have written or
    accepted it. `null` means `true` once any rule or override of the policy terminates, and
    otherwise `false`."""
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
    money: Money = Money()
    ledger: Ledger = Ledger()
    budget: Budget = field(default_factory=Budget)
    events: Events = Events()
    health: Health = Health()
    advice: Advice = Advice()

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake: silence that would terminate, and windows
        that are no whole number of periods."""
        terminates = Action.TERMINATE in (self.plan.action, self.plan.when_stop_is_unsupported)
        if self.approval.on_expiry == "act" and terminates:
            yield (
                ("approval", "on_expiry"),
                "act cannot go with a plan that terminates: silence cannot approve a termination",
            )
        yield from self._uneven_windows()

    def _uneven_windows(self) -> Iterator[Mistake]:
        """Yield a mistake, with its path and reason, for each window that is not a whole number of
        metric periods."""
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
        """Return the idle window: how long an instance must be without work to be idle."""
        return timedelta(minutes=self.idle.window_minutes)

    @property
    def watch_every(self) -> timedelta:
        """Return the time between two reads of an idle instance that people know of: at most a
        quarter of the idle window, so that the windows of the reads overlap."""
        return min(timedelta(minutes=self.approval.watch_every_minutes), self.window / 4)

    @property
    def ask_window(self) -> timedelta:
        """Return the idle time after which people are asked, or `auto` acts: at least the idle
        window."""
        return max(self.window, timedelta(minutes=self.approval.ask_after_minutes))

    @property
    def released_window(self) -> timedelta:
        """Return the idle time after which people are asked while GPU memory is released: at least
        the idle window and 15 minutes. That is `ask_window` if the lag is above 10 minutes, too
        long to see released memory."""
        if self.lag > _LONGEST_LAG_OF_RELEASED:
            return self.ask_window
        asked_after = timedelta(minutes=self.approval.ask_after_released_minutes)
        return max(self.window, asked_after, RELEASED_FOR)

    @property
    def why_never_asks(self) -> str | None:
        """Return the setting because of which readings never show that idleness lasts up to now, so
        that nobody is ever asked, and what to set: `metrics.lag_seconds is 1200; set 120`. It is a
        period above 5 minutes, or a lag above 15. Return `None` if there is no such setting."""
        if self.period > END_BIN:
            return f"metrics.period_seconds is {self.metrics.period_seconds}; set 300"
        if self.lag > LONGEST_LAG:
            return f"metrics.lag_seconds is {self.metrics.lag_seconds}; set 120"
        return None

    @property
    def acts_unasked_by(self) -> str | None:
        """Return the setting by which the policy may act without a person's approval, such as
        `mode: auto`; `None` if it may not. A rehearsal counts as what it rehearses."""
        if self.mode is Mode.AUTO:
            return "mode: auto"
        if self.approval.on_expiry == "act":
            return "approval.on_expiry: act"
        return None

    def with_window(self, window: timedelta) -> Policy:
        """Return this policy with an idle window of this length, in whole minutes. Raises:
        SettingError if the policy refuses that length."""
        if window == self.window:
            return self
        return replace(self, idle=replace(self.idle, window_minutes=minutes(window)))

    @property
    def period(self) -> timedelta:
        """Return the period of the metrics: the time that one reading covers."""
        return timedelta(seconds=self.metrics.period_seconds)

    @property
    def lag(self) -> timedelta:
        """Return how much of the newest time is ignored, as its readings may still arrive."""
        return timedelta(seconds=self.metrics.lag_seconds)


@dataclass(frozen=True, slots=True)
class OverrideMatch(Section):
    """The instances that an override applies to. They must meet all conditions. An empty condition
    is always met."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags that the instance must have, each with this value."""
    instance_families: tuple[str, ...] = named(*FAMILY)
    """Instance families: the part of the type before the dot, such as `p5`. The instance must
    belong to one of them."""
    accounts: tuple[str, ...] = named(*ACCOUNT)
    """Account IDs. The instance must be in one of them."""
    regions: tuple[str, ...] = named(*REGION)
    """Region codes. The instance must be in one of them."""

    def is_for(self, instance: Instance) -> bool:
        """Return whether the override is for this instance: all conditions hold. An empty condition
        always holds."""
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
