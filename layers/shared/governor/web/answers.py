"""What the API, the page and the console share: what they say of a question, and how they take an answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from governor.domain.approvals.approval import Answer, ApprovalStatus, Decision
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.errors import DecisionRefused, InputError, NotAllowed
from governor.usecases.approvals.show_approval import ApprovalView

LONGEST_REASON = 300
END_KEEP = "end-keep"
"""Not an answer to the question: it ends a keep before its date."""


def status_of(error: InputError | DecisionRefused) -> int:
    """Return the HTTP status of an answer that was not taken: wrong, not this person's, or too late."""
    if isinstance(error, NotAllowed):
        return 403
    is_wrong = isinstance(error, InputError) or error.status == ApprovalStatus.PENDING
    return 400 if is_wrong else 409


def brief(view: ApprovalView) -> dict[str, Any]:
    episode = view.episode
    return {
        "id": view.approval.approval_id,
        "instance_id": episode.ref.instance_id,
        "instance_name": episode.instance.name,
        "instance_type": episode.instance.instance_type,
        "account": episode.ref.account,
        "region": episode.ref.region,
        "owner": episode.owner,
        "project": episode.project,
        "reason": view.idle_text[1],
        "action": episode.plan.action.value,
        "usd_per_day": None if view.usd_per_day is None else str(view.usd_per_day),
        "expires_at": iso(view.approval.expires_at),
        "can_hold": view.can_hold,
    }


def posted(form: Mapping[str, str], by: str, person: str | None, channel: str, now: UtcDatetime) -> Decision:
    """Return the answer of a page's form, but for a keep's end. Raises: InputError with what to do."""
    try:
        answer = Answer(form.get("answer", ""))
    except ValueError:
        raise InputError("choose one of the buttons: stop or terminate, keep, exempt, hold") from None
    reason = form.get("reason", "").strip()
    if len(reason) > LONGEST_REASON:
        raise InputError(f"the reason is longer than {LONGEST_REASON} characters")
    return Decision(answer=answer, by=by, person=person, channel=channel, at=now, reason=reason or None)


def keep_until(form: Mapping[str, str], zone: str) -> UtcDatetime:
    """The date of one's own choice, at nine of that time zone, goes before the offered ones."""
    date, offered = form.get("keep_date", ""), form.get("keep_until", "")
    try:
        if date:
            day = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).date()
            return datetime.combine(day, time(9), tzinfo=ZoneInfo(zone)).astimezone(UTC)
        return parse_iso(offered)
    except (ValueError, OverflowError):  # the first and the last day of the calendar have no UTC elsewhere
        raise InputError("say until when it shall be kept: a date like 2026-12-01") from None
