"""Joins several alerts in one message (a digest) with one subject: questions at one stage, or
failures of one cause.

This module reads nothing and sends nothing, as `compose`, which composes messages of one alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from governor.alerts.model import (
    Alert,
    AlertKind,
    Facts,
    Section,
    Severity,
)
from governor.alerts.templates import template_lines, template_words
from governor.approvals.messages import failures, questions, sentences
from governor.approvals.messages.consequence import consequence_of_several, subject_with_figures
from governor.approvals.messages.ends import LEFT_IN_SHORT
from governor.core import units
from governor.core.instance import Target
from governor.core.units import NEVER, UtcDatetime, not_none
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.notify.compose import reason_of, stated_deadline, why_line, word_fields
from governor.notify.message import Message, one_line
from governor.policy.model.policy import Mode

_NAMED = 12
"""The most instances that a shared line names."""
_NAME_CHARACTERS = 60
"""The longest name in a shared line."""


def digest_of(
    alerts: Sequence[Alert],
    episodes: Sequence[Episode],
    *,
    link: str | None,
    digest_id: str,
    now: UtcDatetime | None = None,
    to_default_contacts: bool = False,
) -> Message:
    """Return one message about several alerts, at least one: questions at the same stage, or
    workflows that failed for one cause. Its severity is the highest of theirs.

    `episodes` are those of the questions, one for each and in the same order; failures need none.
    `digest_id` stands in place of the id of an episode. Times are relative to `now`; without it, to
    the first alert. `to_default_contacts` says that the policy knows nobody else for the instance
    of the first. Raises: ValueError if questions and episodes are not as many.
    """
    first = alerts[0]
    now = now or first.at
    is_failure = first.kind is AlertKind.FAILURE
    facts = Facts(
        _common_text(alerts, "account"),
        _common_text(alerts, "region"),
        _common_text(alerts, "owner"),
        _common_text(alerts, "project"),
    )
    if is_failure:
        words = _failure_words(alerts)
        at = now
        why = why_line(alerts, to_default_contacts=to_default_contacts)
    else:
        words = _question_words(alerts, episodes, now)
        at = first.at
        why = why_line([first], to_default_contacts=to_default_contacts)
    return Message(
        kind=first.kind,
        severity=max((alert.severity for alert in alerts), key=list(Severity).index),
        facts=facts,
        episode=digest_id,
        stage=first.kind.value,
        at=at,
        why=why,
        link=link,
        **words,
    )


def _common_text(alerts: Sequence[Alert], field_name: str) -> str:
    """Return the value of this field (`account`, `owner`) if all alerts share it, else how many
    different values there are: `3 different`."""
    values = {str(getattr(alert, field_name)) for alert in alerts}
    if len(values) == 1:
        return values.pop()
    return f"{len(values)} different"


def _question_words(
    alerts: Sequence[Alert], episodes: Sequence[Episode], now: UtcDatetime
) -> dict[str, Any]:
    """Return the fields of a message of several joined questions of one stage: its words, with a
    line for each instance, the most expensive first; the text of its button; and `acts` (for one of
    them something happens by itself). `alerts` and `episodes` are in the same order, as many, and
    not empty."""
    stage = questions.STAGE_OF[alerts[0].kind]
    zone = episodes[0].asking.time_zone
    verbs = sorted({episode.plan.verb for episode in episodes})
    deadlines = [stated_deadline(alert) for alert in alerts]
    acting_deadlines = [
        stated_deadline(alert)
        for alert, episode in zip(alerts, episodes, strict=True)
        if episode.asking.acts_on_silence
    ]
    silence = consequence_of_several(
        episodes,
        min(not_none(acting_deadlines or deadlines), default=None),
        now,
        is_one_deadline=not acting_deadlines or _is_one_deadline(acting_deadlines),
    )
    figures = _cost_text(episodes)
    acting = [episode for episode in episodes if episode.asking.acts_on_silence]
    need_two_people = sum(episode.terms.people_needed > 1 for episode in episodes)
    pairs = _most_expensive_first(alerts, episodes)
    values = {
        "subject": subject_with_figures(silence.subject, questions.LABELS[stage], figures),
        "happens": silence.sentence,
        "wiped": _wiped_without_an_answer([episode for _, episode in pairs]),
        "news": questions.news_text(episodes[0], stage, now),
        "two": need_two_people,
        "need": "needs" if need_two_people == 1 else "need",
    }
    sections = (
        *_instance_sections(pairs, now, share_a_deadline=_is_one_deadline(deadlines)),
        *_shared_sections([episode for _, episode in pairs]),
    )
    words = template_words("digest", values, zone, now)
    return {
        **word_fields(words),
        "sections": sections,
        "button": f"{', '.join(verbs).capitalize()} or keep them",
        "acts": bool(acting),
    }


def _wiped_without_an_answer(episodes: Sequence[Episode]) -> str:
    """Return the names of the instances whose local disks silence wipes, in the order of the
    episodes, or that it is all of them; an empty text if there is none."""
    names = []
    for episode in episodes:
        if episode.asking.acts_on_silence and episode.plan.loses_local_disks:
            names.append(one_line(episode.instance.name, _NAME_CHARACTERS))
    if len(names) == len(episodes):
        return f"all {len(names)} instances"
    return units.listed(names, _NAMED)


def _cost_text(episodes: Sequence[Episode]) -> list[str]:
    """Return the cost of these instances as figures of a subject: `$136/day`, or `$136/day and 2 of
    unknown price`; empty if none costs anything or no price is known."""
    prices = [episode.price.usd_per_hour for episode in episodes]
    known_prices = not_none(prices)
    if not any(known_prices):
        return []
    text = f"{units.usd(units.daily_cost(sum(known_prices, Decimal(0))))}/day"
    unpriced = len(prices) - len(known_prices)
    if unpriced:
        text += f" and {unpriced} of unknown price"
    return [text]


def _most_expensive_first(
    alerts: Sequence[Alert], episodes: Sequence[Episode]
) -> list[tuple[Alert, Episode]]:
    """Return each alert with its episode, the most expensive instance first. Instances without a
    price come last. Of the same price, the one with the earliest deadline comes first. Raises:
    ValueError if there are not as many alerts as episodes."""

    def price_and_deadline(pair: tuple[Alert, Episode]) -> tuple[Decimal, datetime]:
        """Return a sort key: the most expensive first, then the earliest deadline; an alert without
        one comes last."""
        alert, episode = pair
        usd_per_hour = episode.price.usd_per_hour or Decimal(0)
        return -usd_per_hour, stated_deadline(alert) or NEVER

    return sorted(zip(alerts, episodes, strict=True), key=price_and_deadline)


def _failure_words(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return the fields of a message about failures of one cause, at least one: its words, which
    list every instance, the text of its button, and its data. The failed step, and what was and was
    not done to the instances, are said once if they are the same for all."""
    first = alerts[0]
    reason = reason_of(first)
    failed_step = _common_fact(alerts, "failed_step")
    values = {
        "number": len(alerts),
        "all_left": _common_fact(alerts, LEFT_IN_SHORT),
        "step": "" if failed_step is None else failures.step_text(failed_step),
        "readable": failures.readable_failure(reason, _zone_of(alerts), first.at),
        "several_reasons": len({reason_of(alert) for alert in alerts}) > 1,
        "tries_again": any(_may_be_tried_again(alert) for alert in alerts),
        "next_step": failures.next_step(reason),
        "listed": [_failed_instance(alert, alerts) for alert in alerts],
    }
    return {
        **word_fields(template_words("failures", values)),
        "button": "See the records",
        "data": {"incident": first.facts.get("incident")},
    }


def _common_fact(alerts: Sequence[Alert], name: str) -> object | None:
    """Return this fact of the alerts, at least one; `None` if it differs, or no alert has it."""
    values = {alert.facts.get(name) for alert in alerts}
    return values.pop() if len(values) == 1 else None


def _may_be_tried_again(alert: Alert) -> bool:
    """Return whether GPU Governor may try again by itself after this failure. It does not if the
    workflow had asked EC2 to stop the instance. In mode observe it never has."""
    steps_done = alert.facts.get("steps_done", ())
    was_stopped = isinstance(steps_done, list | tuple) and Step.STOP.value in steps_done
    return not was_stopped or alert.facts.get("mode") == Mode.OBSERVE.value


def _zone_of(alerts: Sequence[Alert]) -> str:
    """Return the time zone of the people whom all these alerts are about; UTC if they differ, or it
    is not known."""
    zones = {alert.facts.get("time_zone") for alert in alerts}
    zone = zones.pop()
    return zone if isinstance(zone, str) and not zones else "UTC"


def _failed_instance(alert: Alert, alerts: Sequence[Alert]) -> dict[str, object]:
    """Return the values for the line of one failure among `alerts`. `left`, the steps that were and
    were not done, is `None` for an alert of an earlier release, whose `subject` says it.
    `details` are the instance's type, id and cost if known, and its place and owner if the others
    differ, in parentheses."""
    about = alert.about
    cost = ""
    if about.usd_per_day is not None:
        cost = f"{units.usd(about.usd_per_day)} a day while it runs"
    details = ", ".join(filter(None, (about.instance_type, _place_text(alert, alerts), cost)))
    return {
        "step": failures.step_text(alert.facts.get("failed_step")),
        "name": one_line(about.instance_name or "GPU instance", _NAME_CHARACTERS),
        "details": f" ({details})",
        "left": alert.facts.get(LEFT_IN_SHORT),
        "subject": one_line(alert.subject, 120),
    }


def _place_text(alert: Alert, alerts: Sequence[Alert]) -> str:
    """Return the alert's instance id, with its account and Region, and its owner and project, if
    these differ between the alerts. What all share stands at the end of the message."""
    accounts_and_regions = {(listed.account, listed.region) for listed in alerts}
    owners_and_projects = {(listed.owner, listed.project) for listed in alerts}
    text = str(alert.instance_id)
    if len(accounts_and_regions) > 1:
        text += f" in {Target(alert.account, alert.region)}"
    if len(owners_and_projects) > 1:
        text += f", owner {one_line(alert.owner, 80)}, project {one_line(alert.project, 80)}"
    return text


def _is_one_deadline(deadlines: Sequence[UtcDatetime | None]) -> bool:
    """Return whether one time stands for all deadlines: each reads the same in the other messages
    of its question and on its page. It also stands for none at all."""
    known = not_none(deadlines)
    if len(known) < len(deadlines):
        return not known
    return len({units.whole_minute(deadline) for deadline in known}) == 1


def _instance_sections(
    pairs: Sequence[tuple[Alert, Episode]], now: UtcDatetime, *, share_a_deadline: bool
) -> list[Section]:
    """Return a section for each thing that silence does to the instances, first those on which it
    acts, with one line for each instance. The lines name no deadline if all questions
    `share_a_deadline`."""
    alerts = [alert for alert, _ in pairs]
    lines_by_heading: dict[str, list[str]] = {}
    for alert, episode in sorted(pairs, key=lambda pair: not pair[1].asking.acts_on_silence):
        values = {
            "acts": episode.asking.acts_on_silence,
            "done": "terminated" if episode.plan.destroys else "stopped",
            "one": episode.instance,
            "idle": sentences.idle_text(episode, now).title,
            "price": sentences.price_text(episode),
            "place": _place_text(alert, alerts),
            "until": None if share_a_deadline else stated_deadline(alert),
        }
        zone = episode.asking.time_zone
        heading, line = template_lines("one of a digest", values, zone, now)
        lines_by_heading.setdefault(heading, []).append(line)
    return [Section(heading, tuple(lines)) for heading, lines in lines_by_heading.items()]


def _shared_sections(episodes: Sequence[Episode]) -> list[Section]:
    """Return the sections of what is lost, and of what else people should know, each text once,
    with the names of its instances unless it holds for all."""
    losses: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for episode in episodes:
        name = one_line(episode.instance.name, _NAME_CHARACTERS)
        for loss in episode.plan.losses:
            losses.setdefault(loss, []).append(name)
        for note in _notes(episode):
            notes.setdefault(note, []).append(name)
    sections = []
    for heading, names_by_text in (("What is lost", losses), ("Also", notes)):
        lines = [_for_whom(text, names, episodes) for text, names in names_by_text.items()]
        if lines:
            sections.append(Section(heading, tuple(lines)))
    return sections


def _notes(episode: Episode) -> list[str]:
    """Return the sentences about one instance that its readers need beside its line: who must
    approve if more than one person, why others are asked, who started it again, who launched it,
    and what other tools do next."""
    notes = [
        sentences.people_text(episode) if episode.terms.people_needed > 1 else "",
        episode.asking.owner_note or "",
        sentences.restarts_text(episode),
        sentences.launched_text(episode),
        *sentences.tools_text(episode).next_acts,
    ]
    return [note for note in notes if note]


def _for_whom(text: str, names: Sequence[str], episodes: Sequence[Episode]) -> str:
    """Return a text with the names of the instances that it holds for, unless it holds for all."""
    if len(names) == len(episodes):
        return text
    return f"{units.listed(names, _NAMED)}: {text}"
