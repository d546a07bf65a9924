"""The content of a message to people: made of the alert that went out, and of the episode as it is
stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.channels.message import Message, Table, one_line
from governor.domain import units
from governor.domain.alerts.alert import (
    ESCALATED,
    QUESTIONS,
    UNASSIGNED,
    Alert,
    AlertKind,
    Facts,
    Section,
    Severity,
)
from governor.domain.alerts.templates import said
from governor.domain.approvals import messages
from governor.domain.approvals.approval import STATUS_AFTER, Answer, keep_end, keep_text
from governor.domain.approvals.terms import may
from governor.domain.episode.episode import Episode
from governor.domain.evidence import gpu_rows, is_reading
from governor.domain.history import History
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime, in_parts, minutes, parse_iso

OPEN = frozenset({*QUESTIONS, AlertKind.APPROVAL_FIRST_YES})
"""Worth a word only while the question is open."""
_BRAKES = (Answer.HOLD, Answer.KEEP, Answer.EXEMPT)
"""The buttons of a notice, by which people keep the plan from being carried out."""
_BARS = "▁▂▃▄▅▆▇█"
"""From 0 to 100%."""
_HAPPENS = frozenset(
    {AlertKind.SPOT_INTERRUPTION, AlertKind.AUTO_SCALING_TERMINATION, AlertKind.SCHEDULED_CHANGE}
)
"""AWS does something to the instance by itself."""


def message_of(
    alert: Alert,
    episode: Episode | None,
    *,
    link: str | None,
    thread: str | None = None,
    picture_png: bytes | None = None,
    now: UtcDatetime | None = None,
    expires_at: UtcDatetime | None = None,
) -> Message:
    """Return the message with this link, as it reads `now`. `thread` is what the channel said of
    the episode's first message; `expires_at` is for alerts of a release that did not say so."""
    now = now or alert.at
    asks, waits = alert.kind in QUESTIONS, alert.kind is AlertKind.APPROVED_WAITS
    shown = episode if alert.kind in messages.STAGE_OF else None
    open_one = episode if asks or waits or (shown and shown.gives_notice) else None
    return Message(
        kind=alert.kind,
        severity=alert.severity,
        facts=alert.about,
        episode=subject_of(alert),
        stage=alert.dedup_id.removesuffix(f"-{subject_of(alert)}") or alert.kind.value,
        at=alert.at,
        why=_why([alert]),
        data=alert.facts,
        chart=_chart(shown.history) if shown and shown.history else _days_chart(alert),
        evidence=_evidence(shown, now) if shown else None,
        picture_png=picture_png if shown or alert.kind is AlertKind.SAVINGS_REPORT else None,
        picture_alt=_picture_alt(shown, now) if shown else _days_chart(alert).partition(":")[0],
        link=link,
        approval_id=open_one.approval_id if open_one else None,
        answers=answers_of(open_one, STATUS_AFTER if asks else _BRAKES) if open_one else (),
        keep_until=keep_end(open_one, now) if open_one else None,
        keep_text=keep_text(open_one, now) if open_one else "",
        thread=thread,
        **_words(alert, shown, now, expires_at),
    )


def _words(
    alert: Alert, episode: Episode | None, now: UtcDatetime, until: UtcDatetime | None
) -> dict[str, Any]:
    """Return the words of a stage of the episode, or those that the alert brings, as a message has
    them."""
    asks = alert.kind in OPEN
    if episode is None:
        waits = alert.kind is AlertKind.APPROVED_WAITS
        record = "See the record" if alert.facts.get("episode") else "See the instance"
        return {
            **_read(alert.subject, *alert.lines),
            "button": "Decide" if asks else "Hold or keep it" if waits else record,
            "acts": alert.kind in _HAPPENS or (asks and alert.facts.get("acts_on_silence") is True),
        }
    stage, plan = messages.STAGE_OF[alert.kind], episode.plan
    lines, folded = messages.stage_lines(episode, stage, now, deadline_of(alert) or until)
    button = "Hold or keep it" if episode.gives_notice else "See the details"
    return {
        **_read(*lines),
        "details": _read("", *folded)["sections"],
        "button": f"{plan.verb.capitalize()} or keep it" if asks else button,
        "acts": episode.acts_on_silence if asks else episode.gives_notice,
    }


def _read(title: str, *lines: str) -> dict[str, Any]:
    """Take the lines of an alert apart: what happens, what else leads, and what stands under
    headings."""
    lead: list[str] = []
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("- ") and found:
            found[-1][1].append(line[2:])
        elif line.endswith(":"):
            found.append((line[:-1], []))
        elif line:
            (found[-1][1] if found else lead).append(line)
    sections = tuple(Section(heading, tuple(items)) for heading, items in found)
    return {
        "title": title,
        "happens": "".join(lead[:1]),
        "lead": tuple(lead[1:]),
        "sections": sections,
    }


def _why(alerts: Sequence[Alert]) -> str:
    first, many = alerts[0], len({alert.owner for alert in alerts}) > 1
    project = "" if first.project == UNASSIGNED else f" (project {first.project})"
    values = {
        "many": many,
        "alert": first,
        "project": project,
        "escalated": first.kind in ESCALATED,
    }
    return said("why", values)[0]


def deadline_of(alert: Alert) -> UtcDatetime | None:
    found = alert.facts.get("expires_at")
    return parse_iso(found) if isinstance(found, str) else None


def digest_of(
    alerts: Sequence[Alert],
    episodes: Sequence[Episode],
    *,
    link: str | None,
    digest_id: str,
    now: UtcDatetime | None = None,
) -> Message:
    """Return one message about several questions of a stage, or about workflows that failed for one
    cause."""
    first, now = alerts[0], now or alerts[0].at
    failed = first.kind is AlertKind.FAILURE

    def shared(name: str) -> str:
        found = {str(getattr(alert, name)) for alert in alerts}
        return found.pop() if len(found) == 1 else f"{len(found)} different"

    return Message(
        kind=first.kind,
        severity=max((alert.severity for alert in alerts), key=list(Severity).index),
        facts=Facts(shared("account"), shared("region"), shared("owner"), shared("project")),
        episode=digest_id,
        stage=first.kind.value,
        at=now if failed else first.at,
        why=_why(alerts if failed else alerts[:1]),
        link=link,
        **(_failures(alerts) if failed else _questions(alerts, episodes, now)),
    )


def _questions(
    alerts: Sequence[Alert], episodes: Sequence[Episode], now: UtcDatetime
) -> dict[str, Any]:
    """Return the words about several questions, the most expensive instance first."""
    number, stage = len(episodes), messages.STAGE_OF[alerts[0].kind]
    known = [one.price.usd_per_hour * 24 for one in episodes if one.price.usd_per_hour is not None]
    acting = [episode for episode in episodes if episode.acts_on_silence]
    verbs = sorted({episode.plan.verb for episode in episodes})
    two = sum(episode.terms.people_needed > 1 for episode in episodes)
    ends = set(map(deadline_of, alerts))
    until, zone = min(filter(None, ends), default=None), episodes[0].time_zone
    values = {
        "prefix": messages.PREFIXES[stage],
        "number": number,
        "state": messages.state_text(episodes),
        "verb": " or ".join(verbs),
        "cost": f", {units.usd(sum(known, Decimal(0)))}/day" if any(known) else "",
        "plus": "" if len(known) == number else f" and {number - len(known)} of unknown price",
        "until": until,
        "by": f"by {units.deadline(until, zone, now)}" if until and len(ends) == 1 else "in time",
        "plan": (acting or episodes)[0].plan,
        "acting": len(acting),
        "all": len(acting) == number,
        "news": messages.news_text(episodes[0], stage, now),
        "two": two,
        "need": "needs" if two == 1 else "need",
    }
    by_price = sorted(
        zip(alerts, episodes, strict=True), key=lambda pair: -(pair[1].price.usd_per_hour or 0)
    )
    return {
        **_read(*said("digest", values, zone, now)),
        "sections": tuple(
            _section_of(*pair, now, at_once=len(ends) == 1, place=_place(pair[0], alerts))
            for pair in by_price
        ),
        "button": f"{', '.join(verbs).capitalize()} or keep them",
        "acts": bool(acting),
    }


def _failures(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return the words about failures of one cause, with every instance and owner."""
    first, reason = alerts[0], reason_of(alerts[0])
    steps = {alert.facts.get("failed_step") for alert in alerts}
    values = {
        "number": len(alerts),
        "step": messages.step_text(*steps) if len(steps) == 1 and None not in steps else "",
        "readable": messages.readable(reason),
        "next_step": messages.next_step(reason),
        "listed": [_failed(alert, alerts) for alert in alerts],
    }
    data = {"incident": first.facts.get("incident")}
    return {**_read(*said("failures", values)), "button": "See the records", "data": data}


def _failed(alert: Alert, alerts: Sequence[Alert]) -> str:
    about, price = alert.about, alert.about.usd_per_day
    cost = None if price is None else f"{units.usd(price)} a day while it runs"
    said = ", ".join(filter(None, (about.instance_type, _place(alert, alerts), cost)))
    return f"{one_line(alert.subject, 120)} ({said})"


def _place(alert: Alert, alerts: Sequence[Alert]) -> str:
    """Return id, place and owner: what is the same for all of them stands at the end of the
    message."""
    place = f"{alert.instance_id} in {Target(alert.account, alert.region)}"
    whose = f"owner {one_line(alert.owner, 80)}, project {one_line(alert.project, 80)}"
    is_one_place = len({(one.account, one.region) for one in alerts}) == 1
    is_one_owner = len({(one.owner, one.project) for one in alerts}) == 1
    return f"{alert.instance_id if is_one_place else place}{'' if is_one_owner else f', {whose}'}"


def reason_of(alert: Alert) -> str:
    return str(alert.facts.get("outcome_reason") or alert.subject)


def _section_of(
    alert: Alert, episode: Episode, now: UtcDatetime, *, at_once: bool, place: str
) -> Section:
    plan = episode.plan
    values = {
        "one": episode.instance,
        "idle": messages.idle_text(episode, now)[0],
        "price": messages.price_text(episode),
        "at_once": at_once,
        "acts": episode.acts_on_silence,
        "silence": messages.silence_text(episode, deadline_of(alert), now),
        "people": messages.people_text(episode) if episode.terms.people_needed > 1 else "",
        "plan": plan,
        "lost": plan.loses_local_disks or plan.destroys,
        # But for what is in memory, as at every stop.
        "losses": "; ".join(plan.losses[0 if episode.stopped_in else 1 :]),
        "place": place,
    }
    heading, *lines = said("one of a digest", values)
    return Section(heading, tuple(lines))


def subject_of(alert: Alert) -> str:
    """Return what deliveries of this alert are kept under: its episode, or itself."""
    name = alert.facts.get("episode")
    return name if isinstance(name, str) and name else alert.dedup_id


def answers_of(episode: Episode, offered: Iterable[Answer] = STATUS_AFTER) -> tuple[Answer, ...]:
    """Return what of it a button alone may answer: nothing that wants a text, a tick or two
    people."""
    plan, terms = episode.plan, episode.terms
    by_button = not plan.destroys and not plan.loses_local_disks and terms.people_needed == 1
    somebody = "a person"  # whether this one may is decided when it is pressed
    allowed = [answer for answer in offered if may(terms, plan, answer, somebody)]
    return tuple(answer for answer in allowed if answer is not Answer.APPROVE or by_button)


def _chart(history: History) -> str:
    bins = list(zip(*(gpu.utilization for gpu in history.gpus), strict=True))
    hours = in_parts(bins, max(1, timedelta(hours=1) // history.window.period))
    seen = [
        [one for gpus in hour for one in gpus if one is not None and is_reading(one)]
        for hour in hours
    ]
    tops = [max(hour, default=None) for hour in seen]
    bars = "".join("·" if top is None else _BARS[min(7, int(top / 12.5))] for top in tops)
    return f"Busiest GPU by hour, last {len(tops)} h: {bars}{' (· no data)' if '·' in bars else ''}"


def saved_by_day(alert: Alert) -> list[Decimal]:
    found = alert.facts.get("saved_by_day")
    return [Decimal(str(one)) for one in found] if isinstance(found, list) else []


def _days_chart(alert: Alert) -> str:
    days = saved_by_day(alert)
    highest = max(days, default=Decimal(0))
    if highest <= 0:
        return ""
    bars = "".join(_BARS[min(7, int(max(Decimal(0), 8 * one / highest)))] for one in days)
    return f"Saved by day (UTC), up to {units.usd(highest)}: {bars}"


def _picture_alt(episode: Episode, now: UtcDatetime) -> str:
    window, zone = (episode.history or episode.evidence).window, episode.time_zone
    since, until = units.day_and_time(window.start, zone, now), units.clock(window.end, zone, now)
    return (
        f"Busiest GPU in percent, {since} to {until}. Green: at work; gray: idle; light "
        "red: no data; "
        f"dashed: {episode.idle_below_percent:g}%."
    )


def _evidence(episode: Episode, now: UtcDatetime) -> Table:
    window = episode.evidence.window
    until = units.clock(window.end, episode.time_zone, now)
    return Table(
        caption=f"GPU utilization over {minutes(window.length)} min, until {until}",
        columns=("GPU", "highest", "average", "measured"),
        rows=gpu_rows(episode.evidence),
    )
