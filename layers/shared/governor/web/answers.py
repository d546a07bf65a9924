"""Parts of the API, the page and the console alike: words about a question, and how an answer is
taken.

The callers prove who somebody is; this module trusts the person that it is given.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any, Final
from zoneinfo import ZoneInfo

from governor.approvals.decide import Decide
from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.approvals.rules.terms import may_undo, why_not
from governor.approvals.show_approval import ApprovalView
from governor.core.documents import plain
from governor.core.errors import CloudError, DecisionRefused, InputError, NotAllowed, Uncertain
from governor.core.units import UtcDatetime, iso, parse_iso
from governor.episode.model.episode import Episode
from governor.episode.ports import Undoer

_log = logging.getLogger(__name__)
LONGEST_REASON = 300
_PICK = "pick-"
"""Begins the name of the check box of a question in a list; its id follows."""
END_KEEP = "end-keep"
"""The value of a button that answers no question: it ends a keep before its date."""
UNDO: Final = "undo"
"""The value of a button that answers no question: it starts a stopped instance again."""


def status_of(error: InputError | DecisionRefused) -> int:
    """Return the HTTP status for an answer that was not taken: 400 if it was wrong, or may be sent
    again as the question is still open; 403 if this person may not give it, 409 if it came too late
    or is refused for good, 503 if its outcome is not certain."""
    if isinstance(error, NotAllowed):
        return 403
    if isinstance(error, Uncertain):
        return 503
    if isinstance(error, InputError) or error.status == ApprovalStatus.PENDING:
        return 400
    return 409


def brief(view: ApprovalView) -> dict[str, Any]:
    """Return a question in brief, as the API and the console's tables give it. `usd_per_day` is
    `None` if the price is not known."""
    episode = view.episode
    usd_per_day = None
    if view.usd_per_day is not None:
        usd_per_day = plain(view.usd_per_day)
    return {
        "id": view.approval.approval_id,
        "instance_id": episode.ref.instance_id,
        "instance_name": episode.instance.name,
        "instance_type": episode.instance.instance_type,
        "account": episode.ref.account,
        "region": episode.ref.region,
        "owner": episode.owner,
        "project": episode.project,
        "reason": view.idle_text.sentence,
        "action": episode.plan.action.value,
        "usd_per_day": usd_per_day,
        "expires_at": iso(view.approval.deadline),
        "acts_on_silence": episode.asking.acts_on_silence,
        "can_hold": view.can_hold,
        "can_hold_late": view.can_hold_late,
        "acts_soon": view.acts_soon,
    }


def posted(
    form: Mapping[str, str], by: str, person: str | None, channel: str, now: UtcDatetime
) -> Decision:
    """Return the answer in a page's form as a decision of this identity (`by`) and person, without
    the end of a keep; nothing is recorded. `channel` is the way it came: `page` or `console`.
    `person` is `None` if they are not proven. Raises: InputError, which says what to do, without a
    known answer, or for a reason that is too long."""
    try:
        answer = Answer(form.get("answer", ""))
    except ValueError:
        raise InputError(
            "choose one of the buttons: stop or terminate, keep, exempt, hold"
        ) from None
    reason = form.get("reason", "").strip()
    if len(reason) > LONGEST_REASON:
        raise InputError(f"the reason is longer than {LONGEST_REASON} characters")
    return Decision(
        answer=answer, by=by, person=person, channel=channel, at=now, reason=reason or None
    )


def ticked_ids(form: Mapping[str, str]) -> list[str]:
    """Return the ids of the questions that the form of a list ticks, in their order; empty if it
    ticks none."""
    ticked: list[str] = []
    for name, value in form.items():
        if name.startswith(_PICK) and value == "yes":
            ticked.append(name.removeprefix(_PICK))
    return ticked


def keep_until(form: Mapping[str, str], zone: str) -> UtcDatetime:
    """Return until when a form asks to keep the instance: nine o'clock in that time zone on the
    typed date (`keep_date`); without a date, the chosen end (`keep_until`, ISO text). Raises:
    InputError if the form has neither, or it cannot be read."""
    date = form.get("keep_date", "")
    offered_end = form.get("keep_until", "")
    try:
        if not date:
            return parse_iso(offered_end)
        day = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).date()
        return datetime.combine(day, time(9), tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        # The first and the last day of the calendar overflow in UTC.
        raise InputError("choose the date until which to keep it, such as 2026-12-01") from None


def start_again(
    decide: Decide, undoer: Undoer, episode: Episode, by: str, person: str | None, channel: str
) -> None:
    """Have EC2 start the instance that the episode has stopped. Raises: NotAllowed if this person
    may not; DecisionRefused if it was not started; Uncertain if that is not known; CloudError or
    PolicyError if today's policy cannot be read."""
    if not may_undo(decide.terms_now(episode), person):
        raise NotAllowed(why_not(person, by, UNDO))
    try:
        answer = undoer.undo(episode.ref, by, channel)
    except CloudError:
        _log.exception("an undo failed")
        raise Uncertain(
            "the function that starts instances has not answered. If it asked EC2, this page says "
            "so, and within minutes whether the instance runs. You may try again"
        ) from None
    if not answer.done:
        raise DecisionRefused(f"not started: {answer.text}")
