"""Judges whether power confirms a low GPU utilization, which is needed where nobody approves an
action, and where the policy requires it.

Utilization can be low by mistake: a metric in shares from 0 to 1, a profiler that is frozen at
zero, zeros of a GPU in MIG mode. Power shows work in all these cases, and costs one more reading.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from governor.core.catalog import shape_of
from governor.core.instance import Instance
from governor.core.units import END_BIN, in_utc
from governor.evidence.model import Evidence
from governor.evidence.rules.figures import (
    FIGURES,
    confirming_figures,
    implausible_percent,
    is_share_by_name,
    limit_of,
    may_be_frozen,
)
from governor.evidence.rules.profiles import is_in_a_known_unit
from governor.evidence.rules.series import readings
from governor.policy.model.judging import Metrics, SecondFigure
from governor.policy.model.policy import Mode, Policy
from governor.policy.model.profiles import profile_of
from governor.verdict.model import Verdict
from governor.verdict.rules.proof import LATE, no_data
from governor.verdict.rules.utilization import peaks_of, utilization_series

NEWEST_FIGURE = timedelta(minutes=20)
"""A figure that must be measured needs a reading this new, or one of the newest periods that the
lag leaves."""

CONFIRMS_BELOW_PERCENT = 40.0
"""Power from this percentage of the GPU's limit on confirms no low utilization, however high
`vetoes.power_percent_of_limit` is: it is the default of that setting."""

SURELY_PERCENT = 2.0
"""A metric whose readings reach this is no share from 0 to 1. Shares pass 1 by rounding errors, and
where their two clocks differ."""


class Unconfirmed(NamedTuple):
    """Why no second figure confirms the utilization."""

    text: str
    """Such as `power: not measured since 2026-11-27 04:05 UTC`."""
    is_late: bool
    """True if the missing readings may still arrive."""


def has_power_limit(instance_type: str) -> bool:
    """Return whether the catalog knows the power limit of the type's GPUs, so that power says how
    busy they are."""
    shape = shape_of(instance_type)
    return shape is not None and shape.board_power_watts is not None


def oldest_figure(evidence: Evidence, policy: Policy) -> timedelta:
    """Return how long before the end of the window a figure that must be measured may have ended
    at most."""
    period = max(END_BIN, evidence.window.period)
    # The window ends up to a period and the lag ago; EC2 publishes every five minutes at best.
    return max(NEWEST_FIGURE - policy.lag - period, 2 * period)


def why_unconfirmed(instance_type: str, evidence: Evidence, policy: Policy) -> Unconfirmed | None:
    """Return why no second figure confirms a low utilization.

    Return `None` if one does: it was measured in enough of the window, and lately. Return `None`,
    too, for a type without a known power limit, which is not asked for one.
    """
    if not has_power_limit(instance_type):
        return None
    if is_confirmed(evidence, policy):
        return None
    highest = highest_power(evidence)
    if highest is not None and highest >= confirms_below(policy):
        return Unconfirmed(f"power: reached {highest:.0f}% of the limit", is_late=False)
    figure = _newest_figure(evidence)
    if figure is None:
        return Unconfirmed("power: not measured", is_late=False)
    if _is_implausible(instance_type, evidence, figure):
        return Unconfirmed("power: implausibly low", is_late=False)
    if not evidence.measured_percent.get(figure):
        return Unconfirmed("power: not measured for each GPU", is_late=False)
    ended = evidence.last_measured[figure]
    silent_for = evidence.window.end - ended
    if silent_for > oldest_figure(evidence, policy):
        text = f"power: not measured since {in_utc(ended)}"
        return Unconfirmed(text, is_late=silent_for < LATE)
    return _measured_too_little(evidence, policy, figure)


def _measured_too_little(evidence: Evidence, policy: Policy, figure: str) -> Unconfirmed:
    """Return that the figure was measured in too little of the window. Its readings may still
    arrive if one short hole is all that is missing."""
    percent = evidence.measured_percent.get(figure, 0.0)
    hole = timedelta(minutes=evidence.longest_hole_minutes.get(figure, 0.0))
    percent_without_hole = percent + 100 * (hole / evidence.window.length)
    is_one_hole = percent_without_hole >= policy.idle.minimum_coverage_percent
    text = f"power: measured in only {percent:.0f}% of the window"
    return Unconfirmed(text, is_late=is_one_hole and hole < LATE)


def doubt_text(instance_type: str, evidence: Evidence, policy: Policy) -> str:
    """Return why no second figure confirms a low utilization, as people read it beside the idle
    time: `power: not measured`.

    Return an empty text if one does, if the type is not asked for one, or if `evidence` was read
    without the second figures.
    """
    if not evidence.read.intersection(confirming_figures()):
        return ""
    unconfirmed = why_unconfirmed(instance_type, evidence, policy)
    return "" if unconfirmed is None else unconfirmed.text


def is_confirmed(evidence: Evidence, policy: Policy) -> bool:
    """Return whether a second figure was measured in enough of the window, and lately, and no
    second figure is too high for an idle GPU.

    Whether one reached the policy's limit is for `judge_figures` to say.
    """
    highest = highest_power(evidence)
    if highest is not None and highest >= confirms_below(policy):
        return False
    return any(_is_measured(evidence, policy, figure) for figure in confirming_figures())


def judge_second_figure(instance: Instance, evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if the policy requires a second figure always, and none confirms
    the utilization. Return `None` otherwise."""
    if policy.idle.second_figure is not SecondFigure.REQUIRED:
        return None
    unconfirmed = why_unconfirmed(instance.instance_type, evidence, policy)
    if unconfirmed is None:
        return None
    reason = f"{unconfirmed.text}, and idle.second_figure: required asks for it"
    return no_data(evidence, reason, is_late=unconfirmed.is_late)


def judge_unasked(instance: Instance, evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if the policy acts on this instance in mode `auto`, and no second
    figure confirms the utilization.

    Return `None` otherwise. Where mode `auto` asks, and with `approval.on_expiry: act`, people are
    asked all the same, and only their silence is no answer (`why_not_unasked`), unless the readings
    may still arrive.
    """
    unconfirmed = why_not_unasked(instance.instance_type, evidence, policy)
    if unconfirmed is None:
        return None
    if are_people_asked(instance, policy) and not unconfirmed.is_late:
        return None
    return no_data(evidence, unconfirmed.text, is_late=unconfirmed.is_late)


def are_people_asked(instance: Instance, policy: Policy) -> bool:
    """Return whether people are asked before anything is done to this instance."""
    return policy.mode is not Mode.AUTO or asks_in_auto(instance, policy)


def asks_in_auto(instance: Instance, policy: Policy) -> bool:
    """Return whether mode `auto` asks people about this instance, because a stop would wipe its
    local disks and the policy does not allow that unasked. Disks that are not known count."""
    if policy.plan.local_disks_may_be_lost_unasked:
        return False
    if instance.root_device_type != "ebs":
        return True
    shape = shape_of(instance.instance_type)
    return shape is None or bool(shape.local_nvme)


def why_not_unasked(instance_type: str, evidence: Evidence, policy: Policy) -> Unconfirmed | None:
    """Return why nothing may be done without a person's approval although the policy says so: no
    second figure confirms the utilization.

    Return `None` if one does, if the type is not asked for one, or if the policy does nothing
    unasked.
    """
    setting = policy.acts_unasked_by
    if setting is None or not has_power_limit(instance_type):
        return None
    why_needed = f"{setting} does not act on utilization alone"
    if limit_of(policy, "power") is None:
        not_compared = "power: not compared (vetoes.power_percent_of_limit is null)"
        return Unconfirmed(f"{not_compared}, and {why_needed}", is_late=False)
    unconfirmed = why_unconfirmed(instance_type, evidence, policy)
    if unconfirmed is None:
        return None
    return Unconfirmed(f"{unconfirmed.text}, and {why_needed}", unconfirmed.is_late)


def judge_scale(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if utilization may be a share from 0 to 1, in which a busy GPU looks
    idle. Return `None` otherwise.

    A reading of 2 or more distinguishes percent from a share; for a publisher of percent, one
    above 1 does. Below the threshold in both units, the GPU is idle in both.
    """
    reason = why_scale_is_unknown(evidence, policy)
    return None if reason is None else no_data(evidence, reason)


def why_scale_is_unknown(evidence: Evidence, policy: Policy) -> str | None:
    """Return why utilization may be a share from 0 to 1, in which a busy GPU looks idle, or frozen
    at 0. Return `None` if it was not read, is percent, is idle in both units, or is confirmed by
    power as far as the rule for its metric allows that.

    A reading that is too high for a share settles it. Else there is one rule for a metric whose
    unit the policy's profile knows, one for a share by its name, and one for any other name.
    """
    peaks = peaks_of(evidence)
    if not peaks or _is_above_shares(max(peaks), policy.metrics):
        return None
    if is_in_a_known_unit(policy.metrics):
        return _why_perhaps_frozen(evidence, policy)
    if is_share_by_name(policy.metrics.utilization):
        return _why_share_is_refused(evidence, policy, max(peaks))
    return _why_perhaps_share(evidence, policy, max(peaks))


def _why_perhaps_frozen(evidence: Evidence, policy: Policy) -> str | None:
    """Return why a metric of a known unit may be frozen at 0; `None` if such metrics do not freeze,
    or power confirms it."""
    metric = policy.metrics.utilization
    if not may_be_frozen(metric) or is_confirmed(evidence, policy):
        return None
    return f"{metric} may be frozen at 0, and power is not measured beside it"


def _why_share_is_refused(evidence: Evidence, policy: Policy, highest: float) -> str | None:
    """Return why a metric that is a share by its name shows no idleness: power does not confirm it,
    or its `highest` reading is work in that unit. Return `None` if neither is so."""
    metric = policy.metrics.utilization
    if not is_confirmed(evidence, policy):
        return (
            f"{metric} is a share from 0 to 1, may be frozen at 0, and power is not measured "
            "beside it: set metrics.utilization to a metric in percent"
        )
    if highest < busy_share_of(policy):
        return None
    return (
        f"{metric} is a share from 0 to 1 and reached {highest:g}: set metrics.utilization to "
        "a metric in percent"
    )


def _why_perhaps_share(evidence: Evidence, policy: Policy, highest: float) -> str | None:
    """Return why a metric whose name does not say its unit may be a share from 0 to 1; `None` if it
    is idle in both units, or power confirms it. `highest` is its highest reading.

    Power does not settle fractions under a name of a team's own, nor readings of exactly 1 for half
    of the time: a GPU may work and draw little.
    """
    metric = policy.metrics.utilization
    is_own_name = profile_of(metric) is None
    has_fraction = _has_a_busy_fraction(evidence, busy_share_of(policy))
    if is_own_name and (has_fraction or _is_1_half_of_the_time(evidence)):
        return (
            f"{metric} reached only {highest:g}, below {SURELY_PERCENT:g}: it may be a share "
            "from 0 to 1, which low power does not rule out"
        )
    if not has_fraction or is_confirmed(evidence, policy):
        return None
    return (
        f"{metric} never passed 1 and reached {highest:g}: it may be a share from 0 to 1, and "
        "power is not measured beside it"
    )


def _is_above_shares(highest: float, names: Metrics) -> bool:
    """Return whether the highest reading of utilization is too high for a share from 0 to 1.

    Above 1 is enough for a publisher that is known to send percent. A share by its name, or a name
    of a team's own, may pass 1 by an error.
    """
    return highest > 1 and highest >= shares_end_at(names)


def shares_end_at(names: Metrics) -> float:
    """Return the reading from which on utilization is no share from 0 to 1: `SURELY_PERCENT` for a
    share by its name and for a name of a team's own, else 1."""
    if is_in_a_known_unit(names):
        return 1.0
    is_own_name = profile_of(names.utilization) is None
    if is_own_name or is_share_by_name(names.utilization):
        return SURELY_PERCENT
    return 1.0


def busy_share_of(policy: Policy) -> float:
    """Return the reading from which on a GPU is busy if utilization is a share from 0 to 1."""
    return policy.idle.utilization_below_percent / 100


def needs_power_for_scale(names: Metrics) -> bool:
    """Return whether only power shows that a low utilization is one: its metric may be frozen at 0,
    or is a share by its name."""
    if is_in_a_known_unit(names):
        return may_be_frozen(names.utilization)
    return is_share_by_name(names.utilization)


def _has_a_busy_fraction(evidence: Evidence, busy_share: float) -> bool:
    """Return whether a reading is no whole number 1, and would be work if it were a share."""
    for series in utilization_series(evidence):
        if any(value >= busy_share and value != 1 for value in readings(series)):
            return True
    return False


def _is_1_half_of_the_time(evidence: Evidence) -> bool:
    """Return whether half of the readings of a GPU are exactly 1, as of a GPU that works all the
    time if they are shares. Publishers with a profile send whole percents, such as 1."""
    for series in utilization_series(evidence):
        values = list(readings(series))
        ones = values.count(1.0)
        if ones > 0 and 2 * ones >= len(values):
            return True
    return False


def _is_measured(evidence: Evidence, policy: Policy, figure: str) -> bool:
    """Return whether a figure was measured in enough of the window, and lately."""
    if _power_percent(evidence, figure) is None:
        return False
    ended = evidence.last_measured.get(figure, evidence.window.start)
    if evidence.window.end - ended > oldest_figure(evidence, policy):
        return False
    percent = evidence.measured_percent.get(figure, 0.0)
    return percent >= policy.idle.minimum_coverage_percent


def confirms_below(policy: Policy) -> float:
    """Return the percentage of the power limit from which on power confirms nothing: the smaller of
    the policy's limit and `CONFIRMS_BELOW_PERCENT`."""
    limit = limit_of(policy, "power")
    return CONFIRMS_BELOW_PERCENT if limit is None else min(limit, CONFIRMS_BELOW_PERCENT)


def highest_power(evidence: Evidence) -> float | None:
    """Return the highest of the second figures, in percent of the power limit; `None` if none was
    measured."""
    values: list[float] = []
    for figure in confirming_figures():
        percent = _power_percent(evidence, figure)
        if percent is not None:
            values.append(percent)
    return max(values, default=None)


def _power_percent(evidence: Evidence, figure: str) -> float | None:
    """Return the highest reading of this second figure, in percent of the power limit; `None` if it
    was not measured."""
    percent: float | None = getattr(evidence, FIGURES[figure].field)
    return percent


def _is_implausible(instance_type: str, evidence: Evidence, figure: str) -> bool:
    """Return whether no reading of power was as high as that of a GPU that runs. EC2's own figure
    may be near 0, but not 0."""
    highest = _power_percent(evidence, figure)
    if highest is None:
        return False
    return highest <= implausible_percent(figure, shape_of(instance_type))


def _newest_figure(evidence: Evidence) -> str | None:
    """Return the second figure that was measured last; `None` if none was measured at all."""
    measured: list[str] = []
    for figure in confirming_figures():
        if figure in evidence.last_measured and _power_percent(evidence, figure) is not None:
            measured.append(figure)
    return max(measured, key=lambda figure: evidence.last_measured[figure], default=None)
