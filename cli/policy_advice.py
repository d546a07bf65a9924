"""What of a policy is allowed and dangerous: said to whoever checks it, never refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from governor.domain.policy.contacts import addresses
from governor.domain.policy.policy import Action, Mode, Policy

_PEOPLE_OF_A_DEAR_TERMINATION = 2
_SHORT_WINDOW_MINUTES = 30
_WORKING_DAY_SECONDS = 8 * 3600
_NEARLY_ALL_PERCENT = 90


def warnings(policy: Policy) -> tuple[str, ...]:
    """One sentence for each combination that has burnt people, with the setting that would mend it."""
    return (*_of_acting(policy), *_of_judging(policy), *_of_measuring(policy))


def _of_acting(policy: Policy) -> Iterator[str]:
    plan, approval = policy.plan, policy.approval
    terminates = Action.TERMINATE in (plan.action, plan.when_stop_is_unsupported)
    is_auto = policy.mode is Mode.AUTO
    if is_auto and terminates:
        yield "mode auto terminates instances nobody was asked about; choose ask, or plan.action: stop"
    if plan.local_disks_may_be_lost_unasked and (is_auto or approval.on_expiry == "act"):
        yield (
            "what lies on local NVMe is wiped without anybody's yes; leave "
            "plan.local_disks_may_be_lost_unasked off"
        )
    if approval.on_expiry == "act" and approval.total.total_seconds() < _WORKING_DAY_SECONDS:
        yield "approval.on_expiry: act leaves people less than 8 hours to answer; give them a working day"
    if "terminate" in approval.broadcast_may and terminates:
        yield "whoever reads a list may terminate by its link; take terminate out of approval.broadcast_may"
    if policy.mode is not Mode.OBSERVE and not policy.ownership.contacts:
        yield "ownership.contacts is empty: links go to lists alone, and prove nobody"
    if approval.two_people_above_usd_per_hour is not None and terminates:
        named = addresses(tuple(policy.ownership.contacts.values()))
        if len(named) < _PEOPLE_OF_A_DEAR_TERMINATION:
            yield (
                "approval.two_people_above_usd_per_hour can be met by nobody: ownership.contacts names "
                f"{len(named)} people by address (emails); name two or more"
            )
        yield from _of_one_with_two_addresses(policy)


def _of_one_with_two_addresses(policy: Policy) -> Iterator[str]:
    """Known only where both stand for one identity; that two addresses are one human's is not to be seen."""
    found: dict[str, dict[str, None]] = {}
    for contact in policy.ownership.contacts.values():
        for identity, address in contact.identities.items():
            found.setdefault(identity, {})[address.lower()] = None
    for identity, several in found.items():
        if len(several) > 1:
            yield (
                f"{identity} has the addresses {' and '.join(several)}, and so counts as two people under "
                "approval.two_people_above_usd_per_hour; list one of them in ownership.contacts"
            )


def _of_judging(policy: Policy) -> Iterator[str]:
    vetoes, breaker = policy.vetoes, policy.breaker
    if policy.idle.window_minutes < _SHORT_WINDOW_MINUTES:
        yield f"idle.window_minutes under {_SHORT_WINDOW_MINUTES} calls a coffee break idle; use 60"
    if policy.ask_window.total_seconds() < _SHORT_WINDOW_MINUTES * 60:
        yield f"approval.ask_after_minutes under {_SHORT_WINDOW_MINUTES} asks during coffee breaks; use 180"
    limits = (vetoes.memory_used_percent, vetoes.power_percent_of_limit, vetoes.cpu_percent)
    if all(limit is None for limit in (*limits, vetoes.network_bytes_per_second)):
        yield "no veto is on: utilization alone makes an instance idle; switch on vetoes.cpu_percent at least"
    if policy.mode is not Mode.OBSERVE and not vetoes.required:
        yield "vetoes.required is empty: an instance whose CPU and network are not measured counts as quiet"
    if max(breaker.turned_idle_percent, breaker.turned_silent_percent) > _NEARLY_ALL_PERCENT:
        yield "the breaker hardly ever trips; a metrics outage would look like an idle fleet"
    if policy.ledger.false_stop_within_minutes == 0:
        yield "ledger.false_stop_within_minutes: 0 counts no stop as false, whatever happens after it"


def _of_measuring(policy: Policy) -> Iterator[str]:
    """What can never be measured as the policy wants it."""
    metrics, approval = policy.metrics, policy.approval
    if policy.never_asks is not None:
        yield f"the last minutes cannot be shown, so nobody is ever asked: {policy.never_asks}"
    elif policy.released_window > max(policy.window, timedelta(minutes=approval.ask_after_released_minutes)):
        yield (
            f"metrics.lag_seconds: {metrics.lag_seconds} hides the memory that is held now, so "
            "approval.ask_after_released_minutes is never used; set 120"
        )
    if metrics.period_seconds % metrics.collection_interval_seconds:
        yield (
            f"metrics.collection_interval_seconds: {metrics.collection_interval_seconds} does not divide "
            f"metrics.period_seconds ({metrics.period_seconds}), so GPUs in an aggregated metric may be "
            "miscounted, and their instances are no-data; set 60"
        )
    for figure in policy.vetoes.required:
        if policy.vetoes.limit(figure) is None:
            yield f"vetoes.required names {figure}, whose limit is null: it need not be measured; set a limit"
