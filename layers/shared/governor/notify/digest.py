"""Composes one message about several alerts: questions at one stage, or failures of one cause.

This module reads nothing and sends nothing, as `compose`, which composes messages of one alert.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from governor.core import units
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.notify.compose import deadline_of, reason_of, why_line, word_fields
from governor.notify.message import Message, one_line


def digest_of(
    alerts: Sequence[Alert],
    episodes: Sequence[Episode],
    *,
    link: str | None,
    digest_id: str,
    now: UtcDatetime | None = None,
) -> Message:
    """Return one message about several alerts, at least one: questions at the same stage, or
    workflows that failed for one cause. Its severity is the highest of theirs.

    `episodes` are those of the questions, one for each and in the same order; failures need none.
    `digest_id` stands in place of the id of an episode. Times are relative to `now`; without it, to
    the first alert. Raises: ValueError if questions and episodes are not as many.
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
        why = why_line(alerts)
    else:
        words = _question_words(alerts, episodes, now)
        at = first.at
        why = why_line([first])
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
    """Return the fields of a message about several questions of one stage: its words, with a
    section for each, the most expensive instance first; the text of its button; and `acts` (for one
    of them something happens by itself). `alerts` and `episodes` are in the same order, as many,
    and not empty."""
    stage = questions.STAGE_OF[alerts[0].kind]
    zone = episodes[0].asking.time_zone
    verbs = sorted({episode.plan.verb for episode in episodes})
    acting = [episode for episode in episodes if episode.asking.acts_on_silence]
    need_two_people = sum(episode.terms.people_needed > 1 for episode in episodes)
    has_one_deadline = len(set(map(deadline_of, alerts))) == 1
    values = {
        "prefix": questions.PREFIXES[stage],
        "number": len(episodes),
        "state": sentences.state_text(episodes),
        "verb": " or ".join(verbs),
        **_cost_values(episodes),
        **_deadline_values(alerts, zone, now),
        "plan": (acting or episodes)[0].plan,
        "acting": len(acting),
        "all": len(acting) == len(episodes),
        "news": questions.news_text(episodes[0], stage, now),
        "two": need_two_people,
        "need": "needs" if need_two_people == 1 else "need",
    }
    sections: list[Section] = []
    for alert, episode in _most_expensive_first(alerts, episodes):
        place = _place_text(alert, alerts)
        section = _question_section(alert, episode, now, at_once=has_one_deadline, place=place)
        sections.append(section)
    words = template_words("digest", values, zone, now)
    return {
        **word_fields(words),
        "sections": tuple(sections),
        "button": f"{', '.join(verbs).capitalize()} or keep them",
        "acts": bool(acting),
    }


def _cost_values(episodes: Sequence[Episode]) -> dict[str, object]:
    """Return the template's values for the cost of these instances: `cost`, such as `, $136/day`,
    and `plus`, such as ` and 2 of unknown price`. Each is empty if there is nothing to say."""
    prices = [episode.price.usd_per_hour for episode in episodes]
    known_prices = [price for price in prices if price is not None]
    unpriced = len(prices) - len(known_prices)
    cost = ""
    if any(known_prices):
        usd_per_day = sum(known_prices, Decimal(0)) * 24
        cost = f", {units.usd(usd_per_day)}/day"
    plus = f" and {unpriced} of unknown price" if unpriced else ""
    return {"cost": cost, "plus": plus}


def _deadline_values(
    alerts: Sequence[Alert], zone: str, now: UtcDatetime
) -> dict[str, UtcDatetime | str | None]:
    """Return the template's values for the deadline: `until`, the earliest one (`None` without
    any), and `by`, its text, such as `by Sat 04:02`. If the deadlines differ, or there is none, the
    text is `in time`."""
    deadlines = {deadline_of(alert) for alert in alerts}
    earliest = min(filter(None, deadlines), default=None)
    by = "in time"
    if earliest is not None and len(deadlines) == 1:
        by = f"by {units.deadline(earliest, zone, now)}"
    return {"until": earliest, "by": by}


def _most_expensive_first(
    alerts: Sequence[Alert], episodes: Sequence[Episode]
) -> list[tuple[Alert, Episode]]:
    """Return each alert with its episode, the most expensive instance first. Instances without a
    price come last. Raises: ValueError if there are not as many alerts as episodes."""

    def negative_price(pair: tuple[Alert, Episode]) -> Decimal:
        """Return the sort key that puts the most expensive first."""
        _, episode = pair
        return -(episode.price.usd_per_hour or Decimal(0))

    return sorted(zip(alerts, episodes, strict=True), key=negative_price)


def _failure_words(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return the fields of a message about failures of one cause, at least one: its words, which
    list every instance, the text of its button, and its data. The failed step is named only if it
    is the same in all."""
    first = alerts[0]
    reason = reason_of(first)
    failed_steps = {alert.facts.get("failed_step") for alert in alerts}
    is_one_step = len(failed_steps) == 1 and None not in failed_steps
    step = first.facts.get("failed_step")
    values = {
        "number": len(alerts),
        "step": failures.step_text(step) if is_one_step else "",
        "readable": failures.readable(reason),
        "next_step": failures.next_step(reason),
        "listed": [_failure_text(alert, alerts) for alert in alerts],
    }
    return {
        **word_fields(template_words("failures", values)),
        "button": "See the records",
        "data": {"incident": first.facts.get("incident")},
    }


def _failure_text(alert: Alert, alerts: Sequence[Alert]) -> str:
    """Return the line of one failure among `alerts`: what failed, and in parentheses the instance's
    type, id and cost if known, and its place and owner if the others differ."""
    about = alert.about
    usd_per_day = about.usd_per_day
    cost = ""
    if usd_per_day is not None:
        cost = f"{units.usd(usd_per_day)} a day while it runs"
    parts = (about.instance_type, _place_text(alert, alerts), cost)
    details = ", ".join(filter(None, parts))
    return f"{one_line(alert.subject, 120)} ({details})"


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


def _question_section(
    alert: Alert, episode: Episode, now: UtcDatetime, *, at_once: bool, place: str
) -> Section:
    """Return the section of a digest about one instance: a heading, what is lost (the memory of a
    running instance is not named), who must approve if more than one person, and what happens
    without an answer. With `at_once`, all questions of the digest have the same deadline. `place`
    is the text of `_place_text`."""
    plan = episode.plan
    # The first loss of a running instance is its memory. Every stop loses that, so it is not named.
    losses = plan.losses if episode.stopped_by_episode else plan.losses[1:]
    people = sentences.people_text(episode) if episode.terms.people_needed > 1 else ""
    values = {
        "one": episode.instance,
        "idle": sentences.idle_text(episode, now).title,
        "price": sentences.price_text(episode),
        "at_once": at_once,
        "acts": episode.asking.acts_on_silence,
        "silence": sentences.silence_text(episode, deadline_of(alert), now),
        "people": people,
        "owner_note": episode.asking.owner_note or "",
        "restarts": sentences.restarts_text(episode),
        "launched": sentences.launched_text(episode),
        "plan": plan,
        "lost": plan.loses_local_disks or plan.destroys,
        "losses": "; ".join(losses),
        "place": place,
    }
    heading, *lines = template_lines("one of a digest", values)
    return Section(heading, tuple(lines))
