"""The pages as HTML. One style sheet, and one script on a record in progress, both inline by their
hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from governor.domain.approvals import messages
from governor.domain.approvals.approval import (
    Answer,
    ApprovalStatus,
    keep_end,
    keep_text,
    late_hold_text,
    notice_until,
)
from governor.domain.approvals.terms import Role, may, may_end_keep, may_undo, permits
from governor.domain.episode.episode import Outcome
from governor.domain.evidence import gpu_rows
from governor.domain.instance import console_url
from governor.domain.policy.policy import Metrics, Mode
from governor.domain.sweep.freshness import unseen_minutes
from governor.domain.units import UtcDatetime, clock, day_and_time, iso, left, plural, sentence
from governor.usecases.approvals.show_approval import ApprovalView, by_price
from governor.web import picture
from governor.web.responses import SEVERAL, TEMPLATES

_NINE = 9
_LONGEST_NAME = 48
"""Longest name in a headline on a phone; the whole name stands among the facts."""
_BUTTON_HERE = "Still needed?"
"""Begins the line of a message that leads to the button of this page."""
_OUTCOMES = {
    Outcome.OBSERVED: "the rehearsal is done",
    Outcome.TOLD: "notified",
    Outcome.EXPIRED: "not answered",
    Outcome.WOKE_UP: "working again",
    Outcome.VOID: "canceled",
    Outcome.REFUSED: "refused by a safety check",
}
_ENDED_BY = {ApprovalStatus.KEPT: Outcome.KEPT, ApprovalStatus.EXEMPTED: Outcome.EXEMPTED}
_ANSWERED = {Answer.APPROVE: "Approved by", Answer.KEEP: "Kept by", Answer.EXEMPT: "Exempted by"}


@dataclass(frozen=True, slots=True)
class Visitor:
    """The reader of a page: `by` for the record, `person` where that is proven, `recipient` of the
    link."""

    recipient: str
    by: str
    person: str | None
    role: Role = Role.APPROVER
    session_id: str = ""
    """Empty unless somebody is signed in."""
    sign_in: str | None = None
    """The place to sign in, when nothing can be decided before that."""
    only_looks: bool = False
    """True in the console, whose policy makes nobody an approver by what they may see."""


@dataclass(frozen=True, slots=True)
class Form:
    """The part that every page of a link has. `action` is where its forms go: the link itself.
    `in_console`: the same question in the console, which leads on to its other pages."""

    visitor: Visitor
    csrf: str
    action: str
    problem: str | None = None
    environment: str = ""
    in_console: bool = False


def _render(template: str, form: Form, **values: object) -> str:
    return TEMPLATES.get_template(template).render(
        visitor=form.visitor,
        csrf=form.csrf,
        action=form.action,
        problem=sentence(form.problem or ""),
        in_console=form.in_console,
        **values,
    )


def approval_page(view: ApprovalView, form: Form) -> str:
    episode, visitor = view.episode, form.visitor
    approves = visitor.role is Role.APPROVER and visitor.sign_in is None
    # There, others' keeps are ended on the page of the instance.
    keep_role = Role.VIEWER if form.in_console else visitor.role
    headline, meaning = headline_of(view)
    kept = view.approval.lasting_keep(view.now)
    morning, expires = keep_end(episode, view.now), view.approval.expires_at
    return _render(
        "approval.html",
        form,
        view=view,
        episode=episode,
        environment=form.environment,
        headline=headline,
        meaning=meaning,
        gpus=plural(max(episode.evidence.gpus_expected or 0, len(episode.evidence.gpus)), "GPU"),
        busiest=picture.busiest_svg(episode, episode.idle.since if episode.idle else None),
        strips=picture.strips_svg(episode),
        rows=gpu_rows(episode.evidence),
        costs=messages.cost_lines(episode),
        restart=messages.restart_text(episode, only_stopped=view.approval.brake is not None),
        start=messages.restart_text(episode, only_stopped=True),
        devices={volume.volume_id: volume.device for volume in episode.instance.volumes},
        console=console_url(episode.instance),
        keep_options=_keep_options(view),
        keep_end=iso(morning),
        keep_label=keep_text(episode, view.now),
        latest=_latest(view),
        silence=messages.silence_text(episode),
        deadline=f"{clock(expires, episode.time_zone, view.now)}, {left(expires - view.now)} left",
        people_needed=messages.people_text(episode),
        by_budget=messages.budget_text(episode),
        notice=_notice(view),
        late_text=late_hold_text(episode, view.now),
        may_undo=approves and not visitor.only_looks and may_undo(episode.terms, visitor.person),
        may_end_keep=kept is not None
        and not visitor.only_looks
        and may_end_keep(episode.terms, keep_role, kept, visitor.person),
        may={answer.value: _may(view, visitor, answer) for answer in Answer},
        is_rehearsal=episode.mode is Mode.OBSERVE,
        unseen_minutes=_unseen_minutes(view),
    )


def headline_of(view: ApprovalView) -> tuple[str, Sequence[str]]:
    """Return the question, or how it ended and what that means, in the words of its message."""
    episode, approval, name = view.episode, view.approval, view.episode.instance.name
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    # An answer counts at once; its workflow closes the episode a moment later.
    outcome = episode.outcome or _ENDED_BY.get(approval.status)
    if outcome is not None:
        reason, at = episode.outcome_reason or "", episode.closed_at or view.now
        told = messages.outcome_alert(episode.ref, episode, outcome, reason, at, None, approval)
        title = told.subject
        if approval.keep_ended_at is not None:
            return f"{short}: the keep was ended", [
                "It is judged again. If it is idle, its owner is asked."
            ]
        if approval.kept and approval.kept.keep_until and approval.kept.keep_until <= view.now:
            title = (
                f"{name} was kept until "
                f"{day_and_time(approval.kept.keep_until, episode.time_zone, view.now)}"
            )
        lines = takewhile(lambda line: not line.endswith(":"), filter(None, told.lines))
        return title.replace(name, short), [
            one for one in lines if not one.startswith(_BUTTON_HERE)
        ]
    if not view.can_decide and approval.brake is not None:
        return f"{short} is held", ()
    if not view.can_decide and approval.status is ApprovalStatus.APPROVED:
        return f"{episode.plan.doing} {short}: approved", ()
    idle = view.idle_text[0]
    if not idle.startswith(("idle since", "found", "stopped")):
        idle = f"idle for {idle.removeprefix('idle ')}"
    idle = f"{'was' if idle.startswith('found') else 'has been'} {idle}"
    return (
        f"{short} {idle}{f'. {episode.plan.verb.capitalize()} it?' if view.can_decide else ''}",
        (),
    )


def _may(view: ApprovalView, visitor: Visitor, answer: Answer) -> bool:
    episode, may_answer = view.episode, permits(visitor.role, answer) and not visitor.only_looks
    return may_answer and may(episode.terms, episode.plan, answer, visitor.person)


def _notice(view: ApprovalView) -> str:
    """Return what mode auto does and until when it can be held; empty where there is nothing to
    hold."""
    episode = view.episode
    if not (episode.gives_notice and view.can_hold):
        return ""
    return messages.unasked_text(episode, view.now, notice_until(episode, view.deliveries))


def digest_page(
    views: Sequence[ApprovalView],
    links: Sequence[str],
    form: Form,
    results: Sequence[tuple[str, str]] = (),
) -> str:
    """Return several questions. `links` lead to each one's own page, in the same order."""
    link_of = dict(zip((view.approval.approval_id for view in views), links, strict=True))
    is_open = [view for view in by_price(views) if view.can_decide]
    return _render(
        "digest.html",
        form,
        rows=[_digest_row(view, form.visitor) for view in views],
        state=messages.state_text(view.episode for view in views),
        links=link_of,
        open=is_open,
        stoppable=[view for view in is_open if not view.episode.plan.destroys],
        apart=[view for view in is_open if view.episode.plan.destroys],
        script=Markup(SEVERAL),  # noqa: S704 - our own file
        may_stop=any(
            view.can_decide and _may(view, form.visitor, Answer.APPROVE) for view in views
        ),
        keep_options=_keep_options(views[0]),
        results=results,
    )


def _digest_row(view: ApprovalView, visitor: Visitor) -> Mapping[str, object]:
    episode = view.episode
    return {
        "view": view,
        "silence": messages.silence_text(episode, view.approval.expires_at, view.now),
        "cost": messages.cost_lines(episode)[0],
        "progress": _progress(view),
        "may_hold": view.takes_hold and not visitor.sign_in and _may(view, visitor, Answer.HOLD),
    }


def _progress(view: ApprovalView) -> str:
    episode, brake = view.episode, view.approval.brake
    if episode.outcome is not None:
        return sentence(_OUTCOMES.get(episode.outcome, episode.outcome.value))
    if brake is not None:
        return f"{messages.readable(brake.why)} Nothing more is done."
    if view.can_hold_late:
        return late_hold_text(episode, view.now)
    if not view.can_hold:
        return "" if episode.begun_at is None else f"EC2 was asked to {episode.plan.verb} it."
    done = sum(step.value in episode.steps_done for step in episode.plan.steps)
    return f"In progress: {done} of {len(episode.plan.steps)} steps are done. It can still be held."


def _unseen_minutes(view: ApprovalView) -> int | None:
    """Return for how long work may have gone on unseen; `None` where nothing is decided on
    measurements."""
    episode = view.episode
    if episode.stopped_in is not None or episode.outcome is not None:
        return None
    metrics = (episode.asked_under and episode.asked_under.metrics) or Metrics()
    return unseen_minutes(metrics, unasked=episode.mode is Mode.AUTO)


def _keep_options(view: ApprovalView) -> Mapping[str, str]:
    """Return value and label of the offered ends of a snooze, within the policy's maximum."""
    now, zone = view.now, view.episode.time_zone
    morning = keep_end(view.episode, now)
    offered = {
        f"until {day_and_time(morning, zone, now)} {zone}": morning,
        "for 4 hours": now + timedelta(hours=4),
        "for a week": now + timedelta(days=7),
    }
    latest = now + view.approval.keep_at_most
    return {iso(end): label for label, end in offered.items() if end <= latest}


def _latest(view: ApprovalView) -> str:
    """Return the last date whose nine o'clock, where a date is read as, lies within the policy's
    maximum."""
    end = (view.now + view.approval.keep_at_most).astimezone(ZoneInfo(view.episode.time_zone))
    day = end.date() if end.hour >= _NINE else end.date() - timedelta(days=1)
    return day.isoformat()


@pass_context
def _when(context: Context, moment: UtcDatetime | None) -> str:
    """Return a moment of a record as the rest of the page does, in the zone of those who were
    asked."""
    return clock(moment, context["episode"].time_zone, context["view"].now) if moment else ""


TEMPLATES.filters.update(
    when=_when,
    readable=messages.readable,
    outcome=lambda outcome: _OUTCOMES.get(outcome, outcome.value),
    answered=lambda answer: _ANSWERED[answer],
    stage=lambda one: messages.stage_name(one.message.removesuffix(f"-{one.subject}")),
)
