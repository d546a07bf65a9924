"""Checks one answer by itself: the typed instance ID or checked box that confirms it, and repeats
of it.

`approval.py` says which answers a question still takes, `terms.py` who may give them.
"""

from __future__ import annotations

from dataclasses import replace

from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.core.errors import DecisionRefused
from governor.core.hashing import short_hash
from governor.episode.model.episode import Episode
from governor.verdict.model import Hold

_ON_ITS_PAGE = "no button can say so; open its page"
_HOW_TO_CONFIRM = {
    "cli": ("name it with --instance-id", "repeat it with --accept-losses"),
    "slack": (_ON_ITS_PAGE, _ON_ITS_PAGE),
    "page": ("type its ID into the field", "check the box that says so"),
}
"""By the channel of the answer: how to name the instance, and how to accept that data is lost. For
any other channel, as on the `page`."""


def with_trimmed_reason(decision: Decision) -> Decision:
    """Return the decision with its reason trimmed, and `None` in place of an empty reason."""
    reason = (decision.reason or "").strip()
    return replace(decision, reason=reason or None)


def check_confirmed(
    episode: Episode,
    decision: Decision,
    *,
    typed_instance_id: str | None,
    losses_accepted: bool,
) -> None:
    """Require of an approval what no link scanner does: to type the instance id if the plan
    terminates, and to accept the loss of data if it wipes local disks. Any other answer passes.

    Raises: DecisionRefused, with what to do, if one of the two is missing; for another instance id
    than that of the question, even if none was needed; and if the episode is over.
    """
    if decision.answer is not Answer.APPROVE:
        return
    if episode.outcome is not None:
        # The workflow ended the episode while the person's request was on its way.
        why = f"it is over ({episode.outcome.value}): there is nothing left to approve"
        raise DecisionRefused(why, status=ApprovalStatus.VOID.value)
    plan = episode.plan
    status = ApprovalStatus.PENDING.value
    to_type, to_accept = _HOW_TO_CONFIRM.get(decision.channel, _HOW_TO_CONFIRM["page"])
    typed_id = (typed_instance_id or "").strip()
    is_right_id = typed_id == episode.ref.instance_id
    if plan.destroys and not is_right_id:
        raise DecisionRefused(
            f"this plan terminates the instance: {to_type} to approve", status=status
        )
    if typed_id and not is_right_id:
        why = f"this question is about {episode.ref.instance_id}, not about the instance ID given"
        raise DecisionRefused(why, status=status)
    if plan.loses_local_disks and not losses_accepted:
        lost = "the data on its local disks would be lost for good"
        raise DecisionRefused(f"{lost}: {to_accept} to approve", status=status)


def repeats(stored: Decision | None, new: Decision) -> bool:
    """Return whether the `new` decision repeats the one that is `stored`, as when a person presses
    twice; false if none is stored.

    Everything but the time and the seal must agree: another date or reason is another decision,
    which came too late.
    """
    return stored is not None and stored == replace(new, at=stored.at, seal=stored.seal)


def is_approved_by_silence(episode: Episode, approval: Approval) -> bool:
    """Return whether the question has expired without an answer, and the policy that it was asked
    under takes that for a yes."""
    return approval.status is ApprovalStatus.EXPIRED and episode.asking.acts_on_silence


def hold_hash(hold: Hold) -> str:
    """Return a short hash of the keep and the exemption of an instance. A page sends it back, so
    that a press ends only the hold that the page showed."""
    return short_hash(str(hold.snoozed_until), str(hold.exempt_reason), str(hold.kept_by))
