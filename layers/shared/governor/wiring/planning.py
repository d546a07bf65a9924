"""Wiring of the steps before a sweep. It is a module of its own, because no other function starts
with the review of the policy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from governor.approvals.pause import SendPauseMessages
from governor.aws.managing import OrganizationUnits
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.money.costs import NoteOverBudget
from governor.policy.accounts import swept_targets
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.versions import ReviewPolicy
from governor.sweep.follow_hub_freeze import FollowHubFreeze
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import accepted, ready

_log = logging.getLogger(__name__)


class SweepPlan(NamedTuple):
    """The steps of `plan_sweep`; `places` returns the targets to sweep."""

    review: ReviewPolicy
    places: Ready[tuple[Target, ...]]
    record_schema: Callable[[], None]
    send_pause_messages: SendPauseMessages
    follow_hub_freeze: FollowHubFreeze


def sweep_plan(parts: Parts) -> SweepPlan:
    """Return the steps of `plan_sweep`, among them the review of the policy, and `places`, which
    returns the account and Region of every target of the policy in force when it is called.

    `places` raises PolicyError if the policy is refused; CloudError if it or its organizational
    units cannot be read: a sweep of the last known accounts, or of fewer, would be wrong. Raises:
    ConfigurationError if a setting is missing.
    """
    hub = parts.hub
    text = parts.policy_text
    parts.clients.client("s3", long_timeout=False)
    note_over_budget = NoteOverBudget(
        clock=parts.clock, ledger_store=parts.ledger_store, policy_store=parts.policy_store
    )

    def places(policies: PolicyBook) -> tuple[Target, ...]:
        """Return the targets to sweep. Also record the accounts of the organizational units, and
        the projects over budget; if those cannot be recorded, that is only logged. Raises:
        CloudError if the units cannot be read, or their accounts not be recorded."""
        for problem in policies.retired:
            _log.warning("the policy: %s", problem)
        targets = policies.base().policy.targets
        if targets.units:
            accounts = OrganizationUnits(parts.clients).accounts(
                targets.units, targets.without_units
            )
            parts.policy_store.note_accounts(targets, accounts, parts.clock.now())
            policies.add_accounts(accounts)
        try:
            note_over_budget(policies.base().policy.budget)
        except CloudError as error:
            _log.error("which projects are over budget is as before: %s", error)
        return swept_targets(policies.base().policy, hub)

    return SweepPlan(
        review=_review_policy(parts),
        places=ready(lambda: parse_policy(text.read()), places),
        record_schema=parts.policy_store.record_schema,
        send_pause_messages=_send_pause_messages(parts),
        follow_hub_freeze=_follow_hub_freeze(parts),
    )


def _review_policy(parts: Parts) -> ReviewPolicy:
    """Return the review of the policy. If its announcer gives up, the sweep goes on under the
    version before, and the next one tries again."""
    return ReviewPolicy(
        clock=parts.clock,
        documents=parts.documents,
        policy_text=parts.policy_text,
        policy_store=parts.policy_store,
        once=parts.once,
        announcer=parts.short_timeout_announcer,
        hub=parts.hub,
        parse=parse_policy,
        parse_accepted=accepted,
    )


def _send_pause_messages(parts: Parts) -> SendPauseMessages:
    """Return the step that sends the messages about a pause that were not sent yet."""
    return SendPauseMessages(
        pause_store=parts.pause_store,
        clock=parts.clock,
        announcer=parts.short_timeout_announcer,
        hub=parts.hub,
        once=parts.once,
    )


def _follow_hub_freeze(parts: Parts) -> FollowHubFreeze:
    """Return the step that reminds people of the freeze of all targets, and releases it."""
    text = parts.policy_text
    return FollowHubFreeze(
        clock=parts.clock,
        policies=lambda: parse_policy(text.read()),
        breaker_store=parts.breaker_store,
        announcer=parts.short_timeout_announcer,
        hub=parts.hub,
    )
