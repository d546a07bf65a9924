"""Somebody with a role that may write the table, and without the keys of the seals.

They write what would let an instance be stopped or terminated: an answer, a delivery, an expiry, or
other terms of an episode. Each writes past the product, with a seal that has the right form and
does not fit.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision, Stage
from governor.approvals.rules.sealing import VERSION
from governor.approvals.rules.stages import stage_id
from governor.core.units import as_utc
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.table import keys
from tests.soak.cloud import Cloud
from tests.soak.truth import episodes

_SEAL = f"{VERSION}.{base64.b64encode(bytes(32)).decode()}"
_ALICE, _BOB = "alice@example.com", "bob@example.com"
_HOURS_AGO = timedelta(hours=3)


def forges_a_yes(cloud: Cloud) -> None:
    """Write that Alice has said yes."""
    for _, approval in _questions(cloud):
        yes = _yes(cloud, _ALICE)
        _write_answer(cloud, replace(approval, status=ApprovalStatus.APPROVED, decision=yes))


def forges_the_second_yes(cloud: Cloud) -> None:
    """Write that Bob has said yes, too."""
    for _, approval in _questions(cloud):
        if approval.first_yes is not None:
            yes = _yes(cloud, _BOB)
            _write_answer(cloud, replace(approval, status=ApprovalStatus.APPROVED, decision=yes))


def forges_an_expiry(cloud: Cloud) -> None:
    """Write that nobody has answered in time."""
    now = as_utc(cloud.moment)
    for _, approval in _questions(cloud):
        expired = replace(approval, expires_at=now, expired_at=now, expiry_seal=_SEAL)
        _write_answer(cloud, replace(expired, status=ApprovalStatus.EXPIRED))


def forges_deliveries(cloud: Cloud) -> None:
    """Write that people have had each message for hours."""
    at = as_utc(cloud.moment - _HOURS_AGO)
    for episode in _open(cloud):
        name = episode.ref.execution_name
        for stage in (Stage.TELL, Stage.ASK, Stage.ESCALATE):
            message = stage_id(stage, episode.ref)
            delivery = Delivery(name, message, "email", "forged@example.com", at, seal=_SEAL)
            cloud.state.note_delivery(delivery)


def forges_an_expiry_and_deliveries(cloud: Cloud) -> None:
    """Write that people have had each message for hours, and that nobody has answered in time."""
    forges_deliveries(cloud)
    forges_an_expiry(cloud)


def forges_the_mode_and_the_rest(cloud: Cloud) -> None:
    """Write that the episode acts by itself, that its notice was delivered, and that Alice has said
    yes."""
    forges_deliveries(cloud)
    forges_a_yes(cloud)
    for episode in _open(cloud):
        cloud.memory.items[keys.episode(episode.ref)]["mode"] = "auto"


def forges_the_plan(cloud: Cloud) -> None:
    """Write that people were asked about a termination."""
    for episode in _open(cloud):
        plan = replace(episode.plan, steps=(Step.STOP, Step.SNAPSHOT, Step.TERMINATE))
        _write_changed(cloud, episode, replace(episode, plan=plan))


def forges_the_terms(cloud: Cloud) -> None:
    """Write that the yes of one person is enough."""
    for episode in _open(cloud):
        terms = replace(episode.terms, people_needed=1)
        _write_changed(cloud, episode, replace(episode, terms=terms))


def _open(cloud: Cloud) -> Iterator[Episode]:
    return (one for one in episodes(cloud) if one.ending is None)


def _questions(cloud: Cloud) -> Iterator[tuple[Episode, Approval]]:
    for episode in _open(cloud):
        approval = cloud.state.approval(episode.approval_id)
        if approval is not None and approval.status is ApprovalStatus.PENDING:
            yield episode, approval


def _yes(cloud: Cloud, person: str) -> Decision:
    return Decision(
        Answer.APPROVE, person, "email", as_utc(cloud.moment), person=person, seal=_SEAL
    )


def _write_changed(cloud: Cloud, before: Episode, after: Episode) -> None:
    """Write what differs, and leave the rest as it is."""
    old = cloud.memory.document(before)
    new = cloud.memory.document(after)
    item = cloud.memory.items[keys.episode(before.ref)]
    item.update({name: value for name, value in new.items() if value != old.get(name)})


def _write_answer(cloud: Cloud, approval: Approval) -> None:
    item = cloud.memory.items[keys.approval(approval.approval_id)]
    item.update(cloud.memory.document(approval))
