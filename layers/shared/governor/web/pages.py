"""The HTML pages behind the links in messages: one question, open or answered, and the digest of
several.

The style sheet and the scripts are inline, allowed by their hashes. A page shows the stored record
and decides nothing; its forms are checked again when they are sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from governor.alerts.delivery import Delivery
from governor.alerts.model import Alert, words_of
from governor.approvals.messages import ends, failures, questions, sentences
from governor.approvals.messages.consequence import consequence, consequence_of_question
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.answers import is_approved_by_silence
from governor.approvals.rules.approval import keep_end, keep_label, late_hold_text
from governor.approvals.rules.stages import stage_in, stated_notice_end
from governor.approvals.rules.terms import may, may_end_keep, may_undo, permits
from governor.approvals.show_approval import ApprovalView, by_price
from governor.core.regions import instance_page
from governor.core.units import (
    UtcDatetime,
    clip,
    clock,
    iso,
    people,
    plural,
    sentence,
    time_with_zone,
    times_in_zone,
)
from governor.episode.model.episode import Episode, Outcome
from governor.evidence.rules.freshness import unseen_minutes
from governor.evidence.rules.profiles import part_word_of_type
from governor.evidence.rules.series import gpu_rows
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Mode
from governor.web import picture
from governor.web.listed_questions import listed_questions
from governor.web.responses import SEVERAL, TEMPLATES

_NINE = 9
"""The hour at which a keep with a typed date ends."""
_LONGEST_NAME = 48
"""Longest name in a headline, for phones; the whole name stands among the facts."""
_POINTS_HERE = ("Still needed?", "Next step: see the result of each step in its record.")
"""The starts of the lines in a message that point to a button or a list of this page. The page
leaves those lines out."""
_OUTCOMES = {
    Outcome.OBSERVED: "the rehearsal is done",
    Outcome.TOLD: "notified",
    Outcome.EXPIRED: "not answered",
    Outcome.WOKE_UP: "busy again",
    Outcome.VOID: "canceled",
    Outcome.REFUSED: "refused by a safety check",
}
_ENDED_BY = {ApprovalStatus.KEPT: Outcome.KEPT, ApprovalStatus.EXEMPTED: Outcome.EXEMPTED}
_ANSWERED = {
    Answer.APPROVE: "Approved by",
    Answer.KEEP: "Kept by",
    Answer.EXEMPT: "Exempted by",
    Answer.HOLD: "Held by",
}


@dataclass(frozen=True, slots=True)
class Visitor:
    """The reader of a page. `by` is their name in the record, `person` their address if it is
    proven, `recipient` the one to whom the link was sent."""

    recipient: str
    by: str
    person: str | None
    role: Role = Role.APPROVER
    session_id: str = ""
    """Empty unless the reader is signed in."""
    sign_in: str | None = None
    """The address of the sign-in if the reader must sign in before they can decide; else `None`."""
    only_looks: bool = False
    """True if the page has no buttons for this reader, as in parts of the console: permission to
    see a question is no permission to answer it."""


@dataclass(frozen=True, slots=True)
class Form:
    """The part that all pages of links share. Forms are sent to `action`, which is the link itself.
    With the console's `header` the same question is shown in the console, with links to its other
    pages."""

    visitor: Visitor
    csrf: str
    action: str
    problem: str | None = None
    environment: str = ""
    header: Markup = Markup()
    """Empty for the holder of a link, who has no session."""
    refused: str = ""
    """The answer that was refused, as in `problem`; empty if none was."""

    @property
    def in_console(self) -> bool:
        """Return whether the page is shown in the console."""
        return bool(self.header)


def _render(template: str, form: Form, **values: object) -> str:
    """Return the HTML of a template, with the values of the form and these."""
    return TEMPLATES.get_template(template).render(
        visitor=form.visitor,
        csrf=form.csrf,
        action=form.action,
        problem=sentence(form.problem or ""),
        header=form.header,
        in_console=form.in_console,
        refused=form.refused,
        **values,
    )


def approval_page(view: ApprovalView, form: Form) -> str:
    """Return the page of one question as HTML, with the buttons that the form's visitor may
    press."""
    episode = view.episode
    target = episode.instance.target
    headline, meaning = headline_of(view)
    idle_since = episode.idle.since if episode.idle else None
    device_by_volume = {volume.volume_id: volume.device for volume in episode.instance.volumes}
    part_word = part_word_of_type(episode.instance.instance_type)
    allowed_answers = {answer.value: _may(view, form.visitor, answer) for answer in Answer}
    is_held = view.approval.hold is not None or episode.outcome is Outcome.HELD
    return _render(
        "approval.html",
        form,
        view=view,
        episode=episode,
        environment=form.environment,
        headline=headline,
        meaning=meaning,
        is_agreed=_is_agreed(view),
        prepaid=sentences.is_prepaid(episode),
        gpus=_gpus_text(episode),
        busiest=picture.busiest_svg(episode, idle_since),
        strips=picture.strips_svg(episode),
        part_word=part_word,
        rows=gpu_rows(episode.measurement.evidence, part_word),
        costs=sentences.cost_lines(episode, view.now),
        restart=sentences.restart_text(episode, only_stopped=is_held),
        start=sentences.restart_text(episode, only_stopped=True),
        start_lines=_start_lines(view),
        next_lines=sentences.comes_next_text(episode, view.now, view.after_stop),
        devices=device_by_volume,
        console=instance_page(target.region, episode.instance.instance_id),
        keep_options=_keep_options(view),
        keep_end=iso(keep_end(episode, view.now)),
        keep_label=keep_label(episode, view.now),
        zone=episode.asking.time_zone,
        latest=_latest(view),
        silence=view.silence,
        unconfirmed=sentence(sentences.unconfirmed_text(episode, view.now)),
        people_needed=sentences.people_text(episode),
        by_budget=sentences.budget_text(episode),
        restarts=sentences.restarts_text(episode),
        launched=sentences.launched_text(episode),
        tools=sentences.tools_text(episode),
        notice=_notice(view),
        late_text=late_hold_text(episode, view.now),
        may_undo=_may_undo(view, form.visitor),
        start_cost=sentences.start_cost_text(episode),
        start_button=sentences.start_button_text(episode),
        may_end_keep=_may_end_keep(view, form),
        may=allowed_answers,
        is_rehearsal=episode.mode is Mode.OBSERVE,
        unseen_minutes=_unseen_minutes(view),
    )


def _is_agreed(view: ApprovalView) -> bool:
    """Return whether people approved the plan, or their silence did."""
    approval = view.approval
    if approval.decision is not None:
        return approval.decision.answer is Answer.APPROVE
    return is_approved_by_silence(view.episode, approval)


def _start_lines(view: ApprovalView) -> list[str]:
    """Return what became of the last try to start it again; empty if nobody tried, or it runs."""
    episode = view.episode
    if episode.start_try is None or view.after_stop is not None:
        return []
    return sentences.start_text(episode.start_try, episode.asking.time_zone, view.now)


def _gpus_text(episode: Episode) -> str:
    """Return the number of GPUs as text, such as `8 GPUs`: those of the instance type, or those
    that were measured if they are more."""
    evidence = episode.measurement.evidence
    return plural(max(evidence.gpus_expected or 0, len(evidence.gpus)), "GPU")


def _may_undo(view: ApprovalView, visitor: Visitor) -> bool:
    """Return whether the visitor may start the stopped instance again: an approver who need not
    sign in first and may do more than look, if the episode's terms let them."""
    is_approver = visitor.role is Role.APPROVER and visitor.sign_in is None
    if not is_approver or visitor.only_looks:
        return False
    return may_undo(view.episode.terms, visitor.person)


def _may_end_keep(view: ApprovalView, form: Form) -> bool:
    """Return whether the page offers the visitor to end the keep before its date; false if no keep
    lasts."""
    visitor = form.visitor
    keep = view.approval.lasting_keep(view.now)
    if keep is None or visitor.only_looks:
        return False
    # In the console, admins end the keeps of others on the page of the instance.
    role = Role.VIEWER if form.in_console else visitor.role
    return may_end_keep(view.episode.terms, role, keep, visitor.person)


def headline_of(view: ApprovalView) -> tuple[str, Sequence[str]]:
    """Return the headline of a page, which is the question or how it ended, and the lines that
    explain an end in the words of its message; no lines while the episode is open, unless an answer
    has kept the instance."""
    episode = view.episode
    approval = view.approval
    name = _short_name(view)
    # The workflow closes the episode a moment after the answer, which already counts.
    outcome = episode.outcome or _ENDED_BY.get(approval.status)
    if outcome is not None:
        return _ended_headline(view, outcome)
    if not view.can_decide and approval.hold is not None:
        return f"{name} is on hold", ()
    if not view.can_decide and approval.status is ApprovalStatus.APPROVED:
        return f"{episode.plan.doing} {name}: approved", ()
    if view.acts_soon:
        words = consequence_of_question(episode, approval, view.now, longest_name=_LONGEST_NAME)
        return words.subject, ()
    if view.was_not_answered:
        return _unanswered_headline(view), ()
    if episode.gives_notice and episode.own_steps:
        return f"{episode.plan.doing} {name}: mode auto", ()
    question = f". {episode.plan.verb.capitalize()} it?" if view.can_decide else ""
    return f"{name} {view.idle_text.predicate}{question}", ()


def _unanswered_headline(view: ApprovalView) -> str:
    """Return the headline of a question that nobody answered in time, until its record is
    closed."""
    name = _short_name(view)
    is_half_approved = view.approval.first_yes is not None
    if view.episode.asking.acts_on_silence:
        silent = "no second person approved" if is_half_approved else "nobody answered"
        return f"{view.episode.plan.doing} {name}: {silent}"
    if is_half_approved:
        return f"No second person approved in time, so nothing happens to {name}"
    return f"No answer about {name} in time, so nothing happens"


def _short_name(view: ApprovalView) -> str:
    """Return the name of the instance, cut to 48 characters for a headline."""
    return clip(view.episode.instance.name, _LONGEST_NAME)


def _ended_headline(view: ApprovalView, outcome: Outcome) -> tuple[str, Sequence[str]]:
    """Return the headline of the page of a question that ended so, and lines that explain it: those
    of its message (`outcome.txt`) up to the first list. It says instead that the keep was ended,
    that the instance is starting or was started again, or until when it was kept, if that is so by
    now."""
    episode = view.episode
    approval = view.approval
    name = episode.instance.name
    short_name = _short_name(view)
    ending = episode.ending
    reason = _answer_text(approval) if ending is None else ending.reason
    ended_at = view.now if ending is None else ending.at
    again_at = None if ending is None else ending.asked_again_at
    if again_at is not None and again_at <= view.now:
        again_at = None
    after = view.after_stop
    alert = ends.outcome_alert(
        episode.ref,
        episode,
        outcome,
        reason,
        ended_at,
        None,
        approval,
        again_at,
        after=after,
    )
    if approval.keep_ended_at is not None:
        text = "The next sweep checks it again. If it is idle, GPU Governor asks its owner."
        return f"{short_name}: the keep was ended", [text]
    title = alert.subject
    if after is not None and outcome is Outcome.STOPPED:
        title = f"{name} {sentences.after_stop_text(after, episode.asking.time_zone, view.now)}"
    elif episode.is_starting:
        title = f"{name} is starting"
    kept_until = approval.kept.keep_until if approval.kept else None
    if kept_until and kept_until <= view.now:
        end = time_with_zone(kept_until, episode.asking.time_zone, view.now)
        title = f"{name} was kept until {end}"
    return title.replace(name, short_name), _lead_of(alert)


def _answer_text(approval: Approval) -> str:
    """Return the reason with which the workflow is about to close an answered question's episode;
    empty if nobody answered."""
    decision = approval.decision
    if decision is None:
        return ""
    if decision.answer is Answer.EXEMPT:
        return f"exempted by {decision.by}: {decision.reason or 'no reason given'}"
    return f"kept by {decision.by}"


def _lead_of(alert: Alert) -> list[str]:
    """Return the lines of an alert's message up to its first list, without those that point to
    this page."""
    return [line for line in words_of(alert).lead if not line.startswith(_POINTS_HERE)]


def _may(view: ApprovalView, visitor: Visitor, answer: Answer) -> bool:
    """Return whether the page offers the visitor this answer: their role and the question's terms
    allow it. The state of the question is not looked at."""
    episode = view.episode
    if visitor.only_looks or not permits(visitor.role, answer):
        return False
    return may(episode.terms, episode.plan, answer, visitor.person)


def _notice(view: ApprovalView) -> str:
    """Return the text on what mode auto will do to the instance, and until when that can be held,
    or on what happens because nobody answered; empty if it is neither, or nothing can be held any
    more."""
    episode = view.episode
    if view.acts_soon:
        return view.silence
    if not (episode.gives_notice and view.can_hold):
        return ""
    until = stated_notice_end(episode, view.deliveries)
    return consequence(episode, until, view.now, is_question=False).sentence


def digest_page(
    views: Sequence[ApprovalView],
    links: Sequence[str],
    form: Form,
    results: Sequence[tuple[str, str]] = (),
    ticked: Collection[str] = (),
) -> str:
    """Return the page of several questions as HTML. `links` lead to the page of each, in the same
    order. `results` are the name of the instance and what became of each answer just given.
    `ticked` are the ids of those whose answer was refused. Call it only with at least one
    question."""
    approval_ids = [view.approval.approval_id for view in views]
    visitor = form.visitor
    open_views = [view for view in by_price(views) if view.can_decide]
    listed = listed_questions(
        open_views,
        visitor.person,
        may=lambda view, answer: _may(view, visitor, answer),
    )
    rows = [_digest_row(view, visitor) for view in views]
    return _render(
        "digest.html",
        form,
        rows=rows,
        state=sentences.state_text(view.episode for view in views),
        links=dict(zip(approval_ids, links, strict=True)),
        open=open_views,
        listed=listed,
        script=Markup(SEVERAL),  # noqa: S704 - our own file
        keep_options=_keep_options(views[0]),
        results=results,
        ticked=ticked,
    )


def _digest_row(view: ApprovalView, visitor: Visitor) -> Mapping[str, object]:
    """Return the template's values for the row of one question."""
    episode = view.episode
    takes_hold = view.takes_hold and not visitor.sign_in
    return {
        "view": view,
        "silence": view.silence,
        "cost": sentences.cost_lines(episode, view.now)[0],
        "progress": _progress(view),
        "may_hold": takes_hold and _may(view, visitor, Answer.HOLD),
    }


def _progress(view: ApprovalView) -> str:
    """Return a sentence on how far the plan of a question is carried out, held or ended; empty if
    EC2 was not asked for the final step and nobody can hold it. If EC2 was asked, it says so, and
    what a hold still does if one may count."""
    episode = view.episode
    hold_decision = view.approval.hold
    if episode.outcome is not None:
        return _ended_text(view, episode.outcome)
    if hold_decision is not None:
        return f"{sentence(hold_decision.words)} Nothing more is done."
    if view.acts_soon:
        return view.silence
    if view.can_hold_late:
        return late_hold_text(episode, view.now)
    if not view.can_hold:
        if episode.begun_at is None:
            return ""
        return f"EC2 was asked to {episode.plan.verb} it."
    done = sum(step.value in episode.progress.steps_done for step in episode.plan.steps)
    return f"In progress: {done} of {len(episode.plan.steps)} steps are done. It can still be held."


def _ended_text(view: ApprovalView, outcome: Outcome) -> str:
    """Return how a question ended, and what became of the instance after a stop, as sentences."""
    episode = view.episode
    ended = sentence(_outcome_text(outcome))
    is_stopped = outcome is Outcome.STOPPED
    if view.after_stop is None:
        return "It is starting." if is_stopped and episode.is_starting else ended
    after = sentences.after_stop_sentence(view.after_stop, episode.asking.time_zone, view.now)
    return after if is_stopped else f"{ended} {after}"


def _unseen_minutes(view: ApprovalView) -> int | None:
    """Return for how many minutes before the stop work may go on unseen, by the metrics that the
    question was asked under. Return `None` if the episode is over, somebody keeps or holds the
    instance, or it is already stopped: no measurement decides then."""
    episode = view.episode
    approval = view.approval
    if episode.stopped_by_episode is not None or episode.outcome is not None:
        return None
    decision = approval.decision
    is_left_alone = decision is not None and decision.answer is not Answer.APPROVE
    if approval.hold is not None or is_left_alone:
        return None
    asked_under = episode.asking.asked_under
    metrics = asked_under.metrics if asked_under else None
    return unseen_minutes(metrics or Metrics(), unasked=episode.mode is Mode.AUTO)


def _keep_options(view: ApprovalView) -> Mapping[str, str]:
    """Return the label of each end of a keep that the page offers, by the end as ISO text: those
    within the policy's maximum."""
    now = view.now
    zone = view.episode.asking.time_zone
    morning = keep_end(view.episode, now)
    offered = {
        f"until {time_with_zone(morning, zone, now)}": morning,
        "for 4 hours": now + timedelta(hours=4),
        "for a week": now + timedelta(days=7),
    }
    latest = now + view.approval.keep_at_most
    return {iso(end): label for label, end in offered.items() if end <= latest}


def _latest(view: ApprovalView) -> str:
    """Return the last date that may be typed as the end of a keep, such as `2026-12-01`. A typed
    date means nine o'clock, which must lie within the policy's maximum."""
    end = (view.now + view.approval.keep_at_most).astimezone(
        ZoneInfo(view.episode.asking.time_zone)
    )
    day = end.date()
    if end.hour < _NINE:
        day -= timedelta(days=1)
    return day.isoformat()


@pass_context
def _when(context: Context, moment: UtcDatetime | None) -> str:
    """Return a moment as text, in the time zone of the people who were asked about the page's
    episode; empty for `None`."""
    if not moment:
        return ""
    return clock(moment, context["episode"].asking.time_zone, context["view"].now)


@pass_context
def _given(context: Context, decision: Decision) -> str:
    """Return an answer as text, without a full stop: who gave it and when, until when it keeps the
    instance, and the reason if there is one."""
    text = f"{_ANSWERED[decision.answer]} {people(decision.by)}, {_when(context, decision.at)}"
    if decision.keep_until is not None:
        text = f"{text}, until {_when(context, decision.keep_until)}"
    return f"{text}: {decision.reason}" if decision.reason else text


def _outcome_text(outcome: Outcome) -> str:
    """Return an outcome in words, such as `busy again`; its own name, such as `stopped`, if that
    says it."""
    return _OUTCOMES.get(outcome, outcome.value)


def _stage_text(delivery: Delivery) -> str:
    """Return the name for people of the stage to which a delivered message belongs, such as a
    reminder."""
    return questions.stage_name(stage_in(delivery.message, delivery.subject))


TEMPLATES.filters.update(
    when=_when,
    readable=failures.readable,
    why_ended=failures.why_ended,
    sentence=sentence,
    times=times_in_zone,
    outcome=_outcome_text,
    answered=_ANSWERED.__getitem__,
    given=_given,
    stage=_stage_text,
)
