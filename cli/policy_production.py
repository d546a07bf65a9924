"""Name the settings that a policy lacks before it may act in production (docs/trust.md).

`UNSEEN` names what the document alone cannot show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from governor.core.units import plural
from governor.policy.model.contacts import addresses
from governor.policy.model.names import KEY_FOR_IAM
from governor.policy.model.policy import Mode, Policy

_PEOPLE = 2
"""Two, so that somebody answers while one is away."""
_MOST_ACTIONS_PER_HOUR = 100
_LONGEST_FREEZE_SHARE = 90
_SHORTEST_NOTICE_MINUTES = 30
_KEYS_WITH_A_MEANING = ("name", "owner", "project", "environment")

UNSEEN = (
    "sign-in: whether the stack sets OidcIssuer and OidcApproverGroup (docs/console.md)",
    "delivery: whether a channel reaches the people who are asked (docs/channels.md)",
    "metrics: who may publish into metrics.namespace, by IAM (docs/trust.md)",
    "metrics: whether each GPU has a series of its own; mode auto and on_expiry: act "
    "wait where several GPUs share one (docs/trust.md)",
    "owners: whether owner tags of the fleet name people of ownership.contacts; "
    "`bin/governor doctor` lists those that name nobody",
    "tags: who may change Purpose, Owner, the exemption tag and tags of overrides, by "
    "IAM or an SCP",
    "policy: who may change the policy of the stack, by IAM",
    "policy: two_people_for_policy counts only from the first `bin/governor policy put` "
    "on; `policy history` says whether a version is in force. A change of the "
    "parameter PolicyYaml waits for nobody",
)
"""Questions that no document answers; printed so that somebody looks."""


def missing(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each setting that is not fit for production, with what to do."""
    yield from _of_people(policy)
    yield from _of_acting(policy)
    yield from _of_exemption(policy)
    yield from _of_limits(policy)


def _of_people(policy: Policy) -> Iterator[tuple[str, str]]:
    ownership = policy.ownership
    known = set()
    for address in addresses(tuple(ownership.contacts.values())):
        # Many mail services deliver a+x@ to a@.
        known.add(re.sub(r"\+[^@]*@", "@", address))
    if len(known) < _PEOPLE:
        yield (
            "ownership.contacts",
            f"names {plural(len(known), 'person', 'people')} by address; name two or more",
        )
    for name in ("default_contacts", "escalation_contacts"):
        contacts = [ownership.contacts[contact] for contact in getattr(ownership, name)]
        people = addresses(tuple(contacts))
        if not people:
            yield f"ownership.{name}", "names no person by address; name a contact with emails"
    if ownership.email_domains and policy.approval.tag_owner_may != ("keep",):
        yield (
            "approval.tag_owner_may",
            "lets anybody who may tag an instance do more than keep it; set [keep], or "
            "let nobody else tag",
        )


def _of_acting(policy: Policy) -> Iterator[tuple[str, str]]:
    approval = policy.approval
    if policy.mode is Mode.OBSERVE:
        yield "mode", "is observe: nothing is asked or done; set ask when the reports look right"
    if policy.plan.local_disks_may_be_lost_unasked:
        yield "plan.local_disks_may_be_lost_unasked", "wipes data without an approval; set false"
    if policy.mode is Mode.AUTO and approval.notice_minutes < _SHORTEST_NOTICE_MINUTES:
        yield (
            "approval.notice_minutes",
            f"is too short to hold it; set {_SHORTEST_NOTICE_MINUTES} or more",
        )
    if approval.on_expiry == "act":
        yield "approval.on_expiry", "takes silence for an approval; set no-action"
    if not policy.vetoes.required:
        yield (
            "vetoes.required",
            "is empty: what is not measured counts as quiet; set [cpu, network]",
        )


def _of_exemption(policy: Policy) -> Iterator[tuple[str, str]]:
    key = policy.exemption.tag_key.strip().casefold()
    if key in (policy.selector.tag_key.casefold(), *_KEYS_WITH_A_MEANING):
        yield (
            "exemption.tag_key",
            "is a key that has another meaning, and any value of it exempts; use one alone",
        )
    if not policy.exemption.is_key_for_iam(policy.exemption.tag_key):
        yield "exemption.tag_key", f"is a key that IAM does not see; choose one of {KEY_FOR_IAM}"


def _of_limits(policy: Policy) -> Iterator[tuple[str, str]]:
    breaker = policy.breaker
    if max(breaker.turned_idle_percent, breaker.turned_silent_percent) > _LONGEST_FREEZE_SHARE:
        yield (
            "breaker",
            f"hardly ever trips; set its percentages to {_LONGEST_FREEZE_SHARE} or less",
        )
    for scope in ("organization", "account", "owner"):
        name = f"{scope}_actions_per_hour"
        number = getattr(policy.caps, name)
        if number > _MOST_ACTIONS_PER_HOUR:
            yield f"caps.{name}", f"is {number}: more than people could undo; set 100 or less"
        if number == 0:
            yield f"caps.{name}", "is 0: nothing is ever done"
