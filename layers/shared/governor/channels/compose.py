"""What a message to people says: made of the alert that went out, and of the episode as it is stored.

Pure. This module must not know any channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from governor.channels.message import Facts, Message, Section, Table
from governor.domain.alert import Alert, AlertKind
from governor.domain.approval import Answer
from governor.domain.episode import Episode
from governor.domain.figures import gpu_rows
from governor.domain.messages import cost_lines, restart_text, silence_text, step_text
from governor.domain.terms import may
from governor.domain.units import money

QUESTIONS = frozenset(
    {AlertKind.APPROVAL_REQUESTED, AlertKind.APPROVAL_REMINDER, AlertKind.APPROVAL_ESCALATION}
)
OPEN = frozenset({*QUESTIONS, AlertKind.APPROVAL_FIRST_YES})
"""Worth a word only while the question is open."""
_ENDS = frozenset({AlertKind.OUTCOME, AlertKind.FAILURE})
_TOLD = frozenset({*QUESTIONS, AlertKind.IDLE_FOUND})


def message_of(
    alert: Alert,
    episode: Episode | None,
    *,
    link: str | None,
    thread: str | None = None,
    picture_png: bytes | None = None,
) -> Message:
    """The message with this link; `thread` is what the channel said of the episode's first message."""
    asks = alert.kind in QUESTIONS
    return Message(
        kind=alert.kind,
        severity=alert.severity,
        title=alert.subject,
        facts=_facts(alert, episode),
        episode=subject_of(alert),
        stage=alert.dedup_id.removesuffix(f"-{subject_of(alert)}") or alert.kind.value,
        at=alert.at,
        sections=_sections(alert, episode),
        evidence=_evidence(episode) if episode is not None and alert.kind in _TOLD else None,
        picture_png=picture_png if alert.kind in _TOLD else None,
        link=link,
        approval_id=episode.approval_id if asks and episode is not None else None,
        answers=answers_of(episode) if asks and episode is not None else (),
        thread=thread,
        is_outcome=alert.kind in _ENDS,
    )


def digest_of(alerts: Sequence[Alert], episodes: Sequence[Episode], *, link: str, digest_id: str) -> Message:
    """One message about several questions of the same stage to the same people."""
    first = alerts[0]
    prices = [episode.price.usd_per_hour for episode in episodes]
    known = [price * 24 for price in prices if price is not None]
    cost = f"{money(sum(known, Decimal(0)))} USD a day" if known else "cost not known"
    plus = "" if len(known) == len(prices) else f", and {len(prices) - len(known)} of unknown price"
    return Message(
        kind=first.kind,
        severity=first.severity,
        title=f"{first.subject.split(':')[0]}: {len(episodes)} idle GPU instances, {cost}{plus}",
        facts=Facts(
            account=_one_of(episode.ref.account for episode in episodes),
            region=_one_of(episode.ref.region for episode in episodes),
            owner=_one_of(alert.owner for alert in alerts),
            project=_one_of(alert.project for alert in alerts),
        ),
        episode=digest_id,
        stage=first.kind.value,
        at=first.at,
        sections=tuple(_line_of(episode) for episode in episodes),
        link=link,
    )


def _line_of(episode: Episode) -> Section:
    instance, plan = episode.instance, episode.plan
    will = "; then ".join(step_text(step) for step in plan.steps)
    lines = [f"{episode.reason}.", *cost_lines(episode)[:1], f"What will be done: {will}"]
    if plan.losses:
        lines.append(f"What will be lost: {'; '.join(plan.losses)}")
    heading = f"{instance.name} ({instance.instance_id}, {instance.instance_type}) in {instance.target}"
    return Section(heading, tuple(lines))


def _one_of(values: Iterable[str]) -> str:
    found = dict.fromkeys(values)
    return next(iter(found)) if len(found) == 1 else f"{len(found)} different"


def subject_of(alert: Alert) -> str:
    """What deliveries of this alert are kept under: its episode, or itself."""
    name = alert.facts.get("episode")
    return name if isinstance(name, str) and name else alert.dedup_id


def answers_of(episode: Episode) -> tuple[Answer, ...]:
    """What may be answered by a button alone.

    Not what asks for the instance id to be typed or a loss to be accepted, nor what needs two people: the
    page is for that.
    """
    plan, terms = episode.plan, episode.terms
    by_button = not plan.destroys and not plan.loses_local_disks and terms.people_needed == 1
    somebody = "a person"  # whether this one may is decided when it is pressed
    offered = [answer for answer in Answer if may(terms, plan, answer, somebody)]
    return tuple(answer for answer in offered if answer is not Answer.APPROVE or by_button)


def _facts(alert: Alert, episode: Episode | None) -> Facts:
    instance = episode.instance if episode else None
    price = episode.price.usd_per_hour if episode else None
    return Facts(
        account=alert.account,
        region=alert.region,
        owner=alert.owner,
        project=alert.project,
        instance_id=alert.instance_id,
        instance_name=instance.name if instance else None,
        instance_type=instance.instance_type if instance else None,
        usd_per_day=None if price is None else price * 24,
    )


def _sections(alert: Alert, episode: Episode | None) -> tuple[Section, ...]:
    if episode is None or alert.kind not in _TOLD:
        # The link has a place of its own, and it may be a personal one.
        lines = tuple(line for line in alert.lines if alert.link is None or alert.link not in line)
        return (Section("What happened", lines),)
    plan = episode.plan
    done = [f"Not possible: {reason}" for reason in plan.replaced_because]
    done += [step_text(step) for step in plan.steps] or ["nothing, this is for your information"]
    restart = restart_text(episode)
    found = [
        ("Why", [episode.reason]),
        ("What it costs", list(cost_lines(episode))),
        ("What will be done", done),
        ("What will be lost", list(plan.losses)),
        ("What stays", list(plan.stays)),
        ("Whether it comes back", [restart] if restart else []),
        ("Without an answer", [silence_text(episode)] if alert.kind in QUESTIONS else []),
    ]
    return tuple(Section(heading, _lines(lines)) for heading, lines in found if lines)


def _lines(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(lines)


def _evidence(episode: Episode) -> Table:
    window = episode.evidence.window
    minutes = int((window.end - window.start).total_seconds() // 60)
    return Table(
        caption=f"GPU utilization over {minutes} minutes, until {window.end:%Y-%m-%d %H:%M} UTC",
        columns=("GPU", "highest", "average", "measured"),
        rows=tuple((row.label, row.highest, row.average, row.measured) for row in gpu_rows(episode.evidence)),
    )
