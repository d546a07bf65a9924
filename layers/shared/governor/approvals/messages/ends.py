"""Messages about the end of an episode, and about the end of a cause that made episodes fail.

Channels place these words and add none of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from governor.alerts.model import (
    EVERYWHERE,
    REPEATS,
    Alert,
    Incident,
    Severity,
)
from governor.alerts.templates import alert_from_template, template_lines
from governor.approvals.messages.failures import (
    cause_of,
    failed_step_of,
    next_step,
    readable_end,
    readable_failure,
    step_text,
)
from governor.approvals.messages.questions import episode_alert
from governor.approvals.messages.sentences import restart_text
from governor.approvals.model.approval import Answer, Approval
from governor.approvals.rules.after_stop import AfterStop, after_stop, can_be_started
from governor.approvals.rules.answers import is_approved_by_silence
from governor.approvals.rules.stages import stage_id
from governor.core.episode_ref import EpisodeRef
from governor.core.hashing import short_hash
from governor.core.instance import Target
from governor.core.units import (
    UtcDatetime,
    clock,
    iso,
    people,
    usd,
)
from governor.episode.model.episode import Episode, Failing, Outcome
from governor.episode.model.plan import Step
from governor.policy.model.policy import Mode

_NAMED = 40
"""Instances named in one message; the facts hold all."""
LEFT_IN_SHORT = "left_in_short"
"""The fact of a failure that says which steps were and were not done: `It is stopped; nothing was
deleted`. A list of failures shows it."""
_GOOD = (
    Outcome.STOPPED,
    Outcome.TERMINATED,
    Outcome.OBSERVED,
    Outcome.KEPT,
    Outcome.EXEMPTED,
    Outcome.TOLD,
)
_ASKED_AGAIN = (Outcome.OBSERVED, Outcome.EXPIRED, Outcome.REFUSED, Outcome.HELD, Outcome.FAILED)


class LeftBehind(NamedTuple):
    """The steps that the workflow of an episode has and has not done, as texts."""

    in_short: str
    """Without a full stop, as in `It was stopped; nothing was deleted`."""
    sentences: str


def outcome_alert(
    ref: EpisodeRef,
    episode: Episode | None,
    outcome: Outcome,
    reason: str,
    at: UtcDatetime,
    link: str | None,
    approval: Approval | None = None,
    again_at: UtcDatetime | None = None,
    *,
    after: AfterStop | None = None,
) -> Alert:
    """Return the message of how an episode ended. It sends nothing. `episode` is `None` for one
    that ended before it was stored; the message then says that its workflow failed.

    `link` leads to the record. `approval` is the question; `None` without one. Nobody is asked
    about the instance again before `again_at`; `None` if the next sweep may ask. `after` is what
    ended the stop of the episode, for pages; `None` if nothing has, or only the episode says it.
    """
    has_failed = outcome is Outcome.FAILED
    facts: dict[str, object] = {"outcome": outcome.value, "outcome_reason": reason}
    zone = "UTC" if episode is None else episode.asking.time_zone
    words: dict[str, object] = {
        "readable": readable_end(outcome, reason, zone, at),
        "again": _again_text(outcome, episode, again_at, at),
        "startable": False,
    }
    if has_failed or episode is None:
        failed_step = failed_step_of(episode, reason)
        facts["incident"] = f"failure-{cause_of(reason)}"
        facts["failed_step"] = failed_step
        words["step"] = step_text(failed_step)
        words["next_step"] = next_step(reason)
    if episode is None:
        return _unstored_failure(ref, outcome, at, link, facts, words)

    after = after or after_stop(episode, None)
    what_is_left = left_behind(episode, after)
    words["left_behind"] = what_is_left.sentences
    words["startable"] = can_be_started(episode, after)
    facts["steps_done"] = _steps_done(episode)
    if has_failed:
        facts[LEFT_IN_SHORT] = what_is_left.in_short
        return episode_alert("failure", episode, outcome.value, at, facts, words, link=link)
    words |= _end_words(episode, outcome, approval)
    if outcome is Outcome.STOPPED and _is_stop_over(episode, after):
        words |= _past_stop_words(episode, after, at)
    severity = Severity.INFO if outcome in _GOOD else None
    return episode_alert(
        "outcome", episode, outcome.value, at, facts, words, link=link, severity=severity
    )


def _unstored_failure(
    ref: EpisodeRef,
    outcome: Outcome,
    at: UtcDatetime,
    link: str | None,
    facts: dict[str, object],
    words: dict[str, object],
) -> Alert:
    """Return the message of an episode that failed before it was stored, of which only the
    reference is known. `facts` and `words` are those of any failure, and are completed here."""
    facts[LEFT_IN_SHORT] = "Nothing was changed"
    words["name"] = ref.instance_id
    words["left_behind"] = "Nothing was changed."
    dedup_id = stage_id(outcome.value, ref)
    alert = alert_from_template("failure", ref.target, dedup_id, at, facts, words, link=link)
    return replace(alert, instance_id=ref.instance_id)


def _steps_done(episode: Episode) -> list[str]:
    """Return the names of the steps of the plan that were noted, in order; empty if none was."""
    steps_done = []
    for step in episode.plan.steps:
        if step in episode.progress.steps_done:
            steps_done.append(step.value)
    return steps_done


def _again_text(
    outcome: Outcome, episode: Episode | None, again_at: UtcDatetime | None, at: UtcDatetime
) -> str:
    """Return when people are asked or, but in mode `ask`, notified again, as a sentence, relative
    to `at`.

    Return an empty text if the episode has stopped the instance, or nobody is asked again after
    this outcome. `again_at` is `None`, or not after `at`, if the next sweep may ask. Without
    `episode` people are asked, and times are in UTC.
    """
    if outcome not in _ASKED_AGAIN:
        return ""
    asks = True
    zone = "UTC"
    if episode is not None:
        if episode.mode is not Mode.OBSERVE and Step.STOP in episode.progress.steps_done:
            return ""
        asks = episode.mode is Mode.ASK
        zone = episode.asking.time_zone
    is_ahead = again_at is not None and again_at > at
    values = {"asks": asks, "after": again_at if is_ahead else None}
    return template_lines("again", values, zone, at)[0]


def _end_words(episode: Episode, outcome: Outcome, approval: Approval | None) -> dict[str, object]:
    """Return the values that the template of an end names, for an end that is no failure.

    What it saves and how to restart are given only after a stop or termination that nobody undid.
    An undone stop is described as restarted. What is left behind becomes empty where the plan was
    carried out, nothing is ever changed, or the reason already says that the stop was undone.
    """
    undo = episode.undo
    is_stopped = Step.STOP in episode.progress.steps_done
    has_acted = outcome in (Outcome.STOPPED, Outcome.TERMINATED) and undo is None
    words: dict[str, object] = {
        "done": "terminated" if episode.plan.destroys else "stopped",
        "saved": None,
        "decided": _decided_by(episode, outcome, approval),
        "is_stopped": is_stopped,
        "was_stopped_before": episode.stopped_by_episode is not None,
        "snapshots": ", ".join(episode.progress.snapshot_ids),
        "snapshots_may_have_begun": _may_have_begun_snapshots(episode),
        "is_unbooked": False,
        "restart": [],
        **_answer_words(approval, outcome),
    }
    if has_acted:
        words["saved"] = _saved_a_day(episode)
        words["restart"] = [*episode.plan.restart_doubts, restart_text(episode)]
    if undo is not None and outcome is Outcome.STOPPED:
        words["outcome"] = "restarted"
        words["left_behind"] = ""
    # After an answer that keeps the instance, that nothing was changed would sound as if the answer
    # did not count.
    is_kept = outcome in (Outcome.KEPT, Outcome.EXEMPTED) and not episode.progress.steps_done
    if has_acted or is_kept or outcome in (Outcome.OBSERVED, Outcome.TOLD):
        words["left_behind"] = ""
    return words


def _may_have_begun_snapshots(episode: Episode) -> bool:
    """Return whether EC2 was asked for snapshots, and none is known."""
    progress = episode.progress
    # The attempt is over, and its reservation stays if EC2's answer was lost or was no whole set.
    return progress.snapshots_reserved_at is not None and not progress.snapshots


def _past_stop_words(
    episode: Episode, after: AfterStop | None, at: UtcDatetime
) -> dict[str, object]:
    """Return the values that the template of an end names otherwise if the instance is no longer
    stopped: the reason was recorded before that, and says that it is. `after` is what ended the
    stop; `None` if it is only starting."""
    words: dict[str, object] = {"saved": None, "readable": _past_stop(episode, at)}
    if after is not None and after.is_terminated:
        words["outcome"] = "stopped, then terminated"
        words["restart"] = []
        words["is_unbooked"] = episode.is_gone_unrecorded
    return words


def _past_stop(episode: Episode, at: UtcDatetime) -> str:
    """Return when the instance was stopped that is no longer stopped, as a sentence relative to
    `at`; the person who started it again, if that is known."""
    if episode.undo is not None:
        return f"It was stopped, and {people(episode.undo.by)} started it again."
    stopped_at = episode.progress.steps_done.get(Step.STOP.value, at)
    return f"It was stopped {clock(stopped_at, episode.asking.time_zone, at)}."


def _is_stop_over(episode: Episode, after: AfterStop | None) -> bool:
    """Return whether the instance is no longer stopped, or is starting."""
    return after is not None or episode.is_undone or episode.is_starting


def _saved_a_day(episode: Episode) -> str | None:
    """Return the amount saved a day, as in `$136`; `None` if the plan saves nothing, or that is not
    known."""
    saved_per_day = episode.plan.saving.saved_usd_per_day or Decimal(0)
    if saved_per_day <= 0:
        return None
    return usd(saved_per_day)


def _answer_words(approval: Approval | None, outcome: Outcome) -> dict[str, object]:
    """Return what people answered, as values for the template of an end; `held` is `exempt` or true
    if a hold keeps the instance. A hold that came late counts for the outcome `HELD` alone. Without
    an approval all of them say that nobody answered."""
    if approval is None:
        return {"until": None, "decision": None, "first_yes": None, "held": False, "hold": None}
    decision = approval.decision
    hold = approval.counted_hold if outcome is Outcome.HELD else approval.hold
    held: str | bool = hold is not None and hold.keep_until is not None
    if hold is not None and hold.answer is Answer.EXEMPT:
        held = "exempt"
    return {
        "until": decision.keep_until if decision else None,
        "decision": decision,
        "first_yes": approval.first_yes,
        "held": held,
        "hold": hold,
    }


def _decided_by(episode: Episode, outcome: Outcome, approval: Approval | None) -> str:
    """Return what let the plan of this episode act: `approved`, `auto` (the mode) or `silence`.

    Return an empty text if none of these did, and for all outcomes but `STOPPED`, `TERMINATED`,
    `HELD` and `REFUSED`: nothing acted then, or the reason of the outcome says why. `approval` is
    the question; `None` without one.
    """
    if outcome not in (Outcome.STOPPED, Outcome.TERMINATED, Outcome.HELD, Outcome.REFUSED):
        return ""
    if approval and approval.decision and approval.decision.answer is Answer.APPROVE:
        return "approved"
    if episode.mode is Mode.AUTO:
        return "auto"
    if approval is not None and is_approved_by_silence(episode, approval):
        return "silence"
    return ""


def left_behind(episode: Episode, after: AfterStop | None) -> LeftBehind:
    """Return what the episode's workflow has done to the instance, and what it has not done. In
    mode observe it has done nothing. `after` is what ended its stop; `None` if nothing has, as far
    as is known."""
    steps_done = {} if episode.mode is Mode.OBSERVE else episode.progress.steps_done
    values: dict[str, object] = {step.name.lower(): step in steps_done for step in Step}
    # The step of snapshots is noted before EC2 is asked, which may refuse them.
    values["snapshots_began"] = bool(episode.progress.snapshots)
    values["snapshots_may_have_begun"] = _may_have_begun_snapshots(episode)
    was_started = after is not None and not after.is_terminated
    is_undone = episode.is_undone or was_started
    values["is_past"] = _is_stop_over(episode, after)
    values["undone"] = is_undone
    values["earlier"] = episode.stopped_by_episode is not None
    clauses = template_lines("steps done", values)
    values["first"] = _title_clause(clauses, is_undone=is_undone)
    values["all"] = _joined(clauses)
    short, sentences = template_lines("left behind", values)
    return LeftBehind(short, sentences)


def _title_clause(clauses: Sequence[str], *, is_undone: bool) -> str:
    """Return the clause for a title: the first, or the last if the stop was undone. Return an empty
    text without clauses."""
    if not clauses:
        return ""
    return clauses[-1] if is_undone else clauses[0]


def _joined(clauses: Sequence[str]) -> str:
    """Return the clauses as one: `it is stopped, and its snapshots began`. Return an empty text
    without clauses."""
    if not clauses:
        return ""
    *all_but_last, last = clauses
    if not all_but_last:
        return last
    return f"{', '.join(all_but_last)}, and {last}"


def recovered_alert(failures: Sequence[Failing], about: Target, now: UtcDatetime) -> Alert:
    """Return the message that no workflow fails any longer for the cause that these failures share.
    `failures` must not be empty. `about` is the place that the message names. Its text lists up to
    40 of the instances; its facts have the ids of all."""
    first = min(failures, key=lambda failing: failing.at)
    names = [f"{failing.name} ({failing.instance_id}) in {failing.target}" for failing in failures]
    facts = {
        EVERYWHERE: True,
        "incident": f"failure-{first.cause}",
        "outcome_reason": first.reason,
        "instance_ids": [failing.instance_id for failing in failures],
    }
    words = {
        "name": failures[0].name if len(failures) == 1 else f"{len(failures)} GPU instances",
        "step": step_text(first.step),
        "since": first.at,
        "readable": readable_failure(first.reason, "UTC", now),
        "listed": names[:_NAMED],
    }
    last_failed_at = max(failing.at for failing in failures)
    dedup_id = f"recovered-{first.cause}-{iso(last_failed_at)}"
    return alert_from_template("recovered", about, dedup_id, now, facts, words)


def over_alert(incident: Incident, now: UtcDatetime) -> Alert:
    """Return the message that the cause of an incident is gone. Machines close the incident by it.
    The fact `REPEATS` keeps it from plain subscribers of the topic."""
    facts = {"incident": incident.key, "opened_at": incident.opened_at, REPEATS: True}
    dedup_id = f"over-{short_hash(incident.key, iso(incident.opened_at), iso(incident.ends_at))}"
    return alert_from_template(
        "incident over", incident.target, dedup_id, now, facts, {"name": incident.subject}
    )
