"""Who may decide what: the terms of a question, frozen when it is opened.

A link that went to a list proves nothing about who presses; a personal link, a sign-in, a signed chat message
or an AWS identity names a person. This module must not know how an identity is proven.
"""

from __future__ import annotations

from governor.domain.approvals.approval import Answer, Approval, Decision
from governor.domain.episode.episode import Terms
from governor.domain.episode.plan import Plan, Price
from governor.domain.policy.contacts import addresses
from governor.domain.policy.policy import Policy, Power
from governor.errors import NotAllowed

BROADCAST = "broadcast"
"""The recipient named in links of messages that go to a topic, not to a person."""


def terms_of(policy: Policy, plan: Plan, price: Price) -> Terms:
    """The terms of a question about this plan. An unknown price counts as above every limit."""
    limit, usd = policy.approval.two_people_above_usd_per_hour, price.usd_per_hour
    dear = limit is not None and (usd is None or usd > limit)
    known = addresses(tuple(policy.ownership.contacts.values()))
    return Terms(
        broadcast_may=frozenset(policy.approval.broadcast_may),
        people_needed=2 if dear and plan.destroys else 1,
        known_people=frozenset(known),
    )


def may(terms: Terms, plan: Plan, answer: Answer, person: str | None) -> bool:
    """Whether this answer may come from this person; `None` is somebody unknown."""
    if answer is Answer.APPROVE and terms.people_needed > 1:
        return is_known(terms, person)
    return person is not None or power(answer, plan) in terms.broadcast_may


def may_undo(terms: Terms, person: str | None) -> bool:
    """Whether this person may have a stopped instance started again, which costs what it cost before."""
    return person is not None or "undo" in terms.broadcast_may


def power(answer: Answer, plan: Plan) -> Power:
    """What an answer to this plan amounts to."""
    if answer is Answer.APPROVE:
        return "terminate" if plan.destroys else "stop"
    return "keep" if answer is Answer.KEEP else "exempt"


def is_known(terms: Terms, person: str | None) -> bool:
    """Whether this is a person whom the policy names by address, so that two of them can be told apart.

    An identity of AWS is not, nor an address that only a tag names: others can choose both.
    """
    return person is not None and person in terms.known_people


def check_terms(terms: Terms, plan: Plan, approval: Approval, decision: Decision) -> None:
    """Lets an answer through, or says who may give it.

    Raises:
        NotAllowed: it may not come from this person.
    """
    if may(terms, plan, decision.answer, decision.person):
        return
    status = approval.status.value
    if decision.answer is Answer.APPROVE and terms.people_needed > 1:
        raise NotAllowed(
            f"{terms.people_needed} people known to the policy by their address must approve this one: use "
            f"the link of your own mail, or {_how_to_be_known(decision)}",
            status=status,
        )
    wanted = power(decision.answer, plan)
    if decision.channel == "slack":
        why = f"the policy does not know {decision.by}, and lets nobody in particular {wanted} by a button"
    else:
        why = f"this link went to a list, and the policy lets nobody {wanted} by it"
    raise NotAllowed(f"{why}: use the link of your own mail, or the command line", status=status)


def _how_to_be_known(decision: Decision) -> str:
    if decision.channel == "page":
        return "sign in as one of them"
    return f"have somebody map {decision.by} to your address in ownership.contacts"


def was_rightly_approved(terms: Terms, plan: Plan, approval: Approval) -> bool:
    """Whether the approval that stands was given by those who may: asked again before anything is done."""
    decision = approval.decision
    if decision is None or decision.answer is not Answer.APPROVE:
        return False
    if not may(terms, plan, Answer.APPROVE, decision.person):
        return False
    if terms.people_needed == 1:
        return True
    first = approval.first_yes
    return first is not None and is_known(terms, first.person) and first.person != decision.person
