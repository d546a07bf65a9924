"""The consequence of silence: what happens to an instance if nobody answers, and by which deadline.

Subjects, first lines, pages, chat messages and the command line all take these words from
`consequence`, so that they name the same act, the same time and the same zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from governor.alerts.templates import template_lines
from governor.approvals.messages.sentences import state_text
from governor.approvals.model.approval import Approval
from governor.approvals.rules.approval import acts_soon
from governor.core.units import UtcDatetime, clip_middle, listed
from governor.episode.model.episode import Episode
from governor.policy.model.policy import Mode

_SUBJECT_CHARACTERS = 98
"""The longest subject. SNS takes no longer one."""
_LOCK_SCREEN_CHARACTERS = 40
"""The part of a subject that a phone shows while it is locked."""
_SHORTEST_NAME = 12
"""A name in a subject keeps at least these characters."""

_NAMED = 5
"""The most instances that a sentence names."""
_LISTED_NAME = 40
"""The longest name in a list."""


class Consequence(NamedTuple):
    """The effect of silence on an instance, in two forms."""

    subject: str
    """Begins with the name, as in `notebook-7 will be stopped after Sat 04:02 Berlin unless you
    answer`. `after` promises no minute, as a freeze may delay the stop. A longer form, such as
    `not before`, would push the time idle or the price out of a subject."""
    sentence: str
    """Without the name, as in `If nobody answers, GPU Governor stops it after Sat 04:02 Berlin
    (03:02 UTC, in 23 h).`"""


def consequence(
    episode: Episode,
    until: UtcDatetime | None,
    now: UtcDatetime,
    *,
    is_question: bool = True,
    is_half_approved: bool = False,
) -> Consequence:
    """Return what happens to the instance if nobody answers.

    `until` is the deadline of the question; `None` if it is not known yet. Without `is_question`
    nobody is asked: the message gives notice in mode auto, or informs or rehearses. Then `until` is
    the end of the notice; by default the notice begins `now`. With `is_half_approved`, the first of
    two people has approved; then `until` must be known.
    """
    kind = _question_kind(episode, is_half_approved=is_half_approved)
    ends_at = until
    if not is_question:
        ends_at = until or now + episode.asking.notice_length
        kind = _unasked_kind(episode, is_over=now >= ends_at)
    done = _done(episode)
    # The template writes the same words about several instances, too; these are for one.
    values = {
        "kind": kind,
        "verb": episode.plan.verb,
        "until": ends_at,
        "done": done,
        "stays": "keeps running" if episode.stopped_by_episode is None else "stays stopped",
        "it": "it",
        "them": "it",
        "is_first": False,
        "to": "",
    }
    room = _LOCK_SCREEN_CHARACTERS - len(f" will be {done}")
    return _in_words(episode.instance.name, room, values, episode.asking.time_zone, now)


def consequence_of_question(
    episode: Episode, approval: Approval, now: UtcDatetime, *, longest_name: int | None = None
) -> Consequence:
    """Return what happens to the instance if nobody answers its open question, by its record; or
    what follows because nobody answered in time, if that can still be held. The subject of the
    latter has a name of at most `longest_name` characters; `None`: as the subject of a message."""
    is_half_approved = approval.first_yes is not None
    if acts_soon(episode, approval, now):
        done = _done(episode)
        values = {
            "kind": "acts soon",
            "verb": episode.plan.verb,
            "done": done,
            "silent": "no second person approved" if is_half_approved else "nobody answered",
            "waits": approval.waits_told_at is not None,
            "terminates": episode.plan.destroys,
        }
        room = longest_name or _LOCK_SCREEN_CHARACTERS - len(f" will be {done}")
        return _in_words(episode.instance.name, room, values, episode.asking.time_zone, now)
    return consequence(episode, approval.deadline, now, is_half_approved=is_half_approved)


def consequence_of_several(
    episodes: Sequence[Episode],
    until: UtcDatetime | None,
    now: UtcDatetime,
    *,
    is_one_deadline: bool = True,
) -> Consequence:
    """Return what happens to the instances of several questions, at least two, if nobody answers.

    `until` is the earliest deadline, of those on which silence acts if there are any; `None` if
    none is known. Without `is_one_deadline`, the others have later ones. The sentence names up to
    five of the instances that silence stops, unless it stops all. The subject says less about the
    instances if it would be too long.
    """
    acting = [episode for episode in episodes if episode.asking.acts_on_silence]
    share = ""
    them = _all_of(len(episodes))
    if acting and len(acting) < len(episodes):
        share = f"{len(acting)} of "
        them = _some_of(acting, len(episodes))
    verbs = sorted({episode.plan.verb for episode in acting or episodes})
    values = {
        "kind": "acts" if acting else "waits",
        "verb": " or ".join(verbs),
        "until": until,
        "done": _done((acting or episodes)[0]),
        "stays": _stay(episodes),
        "it": "them",
        "them": them,
        "is_first": not is_one_deadline,
        "to": " to any of them",
    }
    zone = episodes[0].asking.time_zone
    about = f"{share}{len(episodes)} {state_text(episodes)} GPU instances"
    subject, sentence = _lines(about, values, zone, now)
    if len(subject) > _SUBJECT_CHARACTERS:
        subject, sentence = _lines(f"{share}{len(episodes)} instances", values, zone, now)
    return Consequence(subject, sentence)


def _all_of(count: int) -> str:
    """Return that it is all of so many instances, at least two: `both of them`."""
    return "both of them" if count == 2 else f"all {count} of them"


def _some_of(acting: Sequence[Episode], count: int) -> str:
    """Return which of so many instances silence stops, as in `2 of these 3`, with their names."""
    names = [clip_middle(episode.instance.name, _LISTED_NAME) for episode in acting]
    return f"{len(acting)} of these {count} ({listed(names, _NAMED)})"


def _stay(episodes: Sequence[Episode]) -> str:
    """Return what becomes of instances that nothing happens to: `keep running`, `stay stopped`, or
    `stay as they are` if they differ."""
    if all(episode.stopped_by_episode is None for episode in episodes):
        return "keep running"
    if all(episode.stopped_by_episode is not None for episode in episodes):
        return "stay stopped"
    return "stay as they are"


def subject_with_figures(subject: str, label: str, figures: Sequence[str]) -> str:
    """Return the subject with its label and figures: `Stop demo-7? Reminder: idle 6 h, $136/day`,
    and without a label `... Idle 6 h, $136/day`. Where there is no room, the first figures are left
    out, then all figures, then the label."""
    for first in range(len(figures)):
        text = ", ".join(figures[first:])
        ending = f"{label}: {text}" if label else f"{text[:1].upper()}{text[1:]}"
        whole = f"{subject}. {ending}"
        if len(whole) <= _SUBJECT_CHARACTERS:
            return whole
    labeled = f"{subject}. {label}"
    if label and len(labeled) <= _SUBJECT_CHARACTERS:
        return labeled
    return subject


def _question_kind(episode: Episode, *, is_half_approved: bool) -> str:
    """Return the kind of a question's consequence, as the template names the kinds."""
    if episode.asking.acts_on_silence:
        return "acts without a second" if is_half_approved else "acts"
    return "waits for a second" if is_half_approved else "waits"


def _unasked_kind(episode: Episode, *, is_over: bool) -> str:
    """Return the kind of a consequence that nobody is asked about, as the template names the
    kinds. `is_over` says that the notice of mode auto is over."""
    if not episode.plan.steps:
        return "informs"
    if episode.mode is Mode.OBSERVE:
        return "rehearses"
    if episode.mode is Mode.ASK:
        return "asks nobody"
    return "too late to hold" if is_over else "acts unasked"


def _done(episode: Episode) -> str:
    """Return what the plan has done to the instance in the end: `stopped` or `terminated`."""
    return "terminated" if episode.plan.destroys else "stopped"


def _in_words(
    name: str, room: int, values: Mapping[str, object], zone: str, now: UtcDatetime
) -> Consequence:
    """Return the words of the template for these values. The name gets at most `room` characters,
    and fewer if the subject would be too long."""
    short_name = clip_middle(name, room)
    subject, sentence = _lines(short_name, values, zone, now)
    excess = len(subject) - _SUBJECT_CHARACTERS
    if excess > 0:
        shorter_name = clip_middle(name, max(_SHORTEST_NAME, len(short_name) - excess))
        subject, sentence = _lines(shorter_name, values, zone, now)
    return Consequence(subject, sentence)


def _lines(name: str, values: Mapping[str, object], zone: str, now: UtcDatetime) -> Sequence[str]:
    """Return the subject and the sentence of the template."""
    return template_lines("consequence", {**values, "name": name}, zone, now)
