"""Makes an alert from a template of `words/`: the first line is its title, which is the subject of
an email.

A message is worded where it is made: subscribers of the topic get its text, and the seal covers it.
The words are templates of Jinja2 in `governor/alerts/words`. `governor.alerts.render` renders them.
That module is imported here, when the first message is worded, and nowhere else: most invocations
send nothing, and their cold starts must not load Jinja2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from governor.alerts.model import LINE_FORMS, NOBODY, Alert, AlertKind, Owner, Severity, Words
from governor.core.documents import plain
from governor.core.instance import Instance, Target
from governor.core.units import UtcDatetime, clip

_TITLE_CHARACTERS = 98
"""The longest title. SNS takes no longer subject."""
_SHORTEST_NAME = 12
"""A name in a title keeps at least these characters."""
Values = Mapping[str, Any]
"""The values that a template may name, by name."""


def alert_from_template(
    message: str,
    about: Instance | Target,
    dedup_id: str,
    now: UtcDatetime,
    facts: Mapping[str, object],
    words: Values | None = None,
    *,
    owner: Owner = NOBODY,
    severity: Severity | None = None,
    link: str | None = None,
) -> Alert:
    """Return an alert in the words of the template `message`, such as `pause ended`. It sends
    nothing.

    The alert carries `facts`, which are exact figures for machines. The template may name them, the
    values in `words`, which are for the template alone, and `about`, `target`, `owner` and `now`.
    It sets the kind, and the severity unless `severity` is given. Without `link` the alert has
    none. Raises: LookupError if it sets no kind or severity; jinja2.UndefinedError if it names a
    value that is missing.
    """
    values = {
        **facts,
        **(words or {}),
        "about": about,
        "target": about if isinstance(about, Target) else about.target,
        "owner": owner,
        "now": now,
    }
    message_words = template_words(message, values, owner.time_zone, now)
    kind = message_words.kind
    usual_severity = message_words.severity
    if kind is None or usual_severity is None:
        raise LookupError(f"the template {message} sets no alert_kind and alert_severity")
    return alert_from_words(
        message_words,
        kind,
        severity or usual_severity,
        about,
        dedup_id,
        now,
        facts,
        owner=owner,
        link=link,
    )


def alert_from_words(
    words: Words,
    kind: AlertKind,
    severity: Severity,
    about: Instance | Target,
    dedup_id: str,
    now: UtcDatetime,
    facts: Mapping[str, object],
    *,
    owner: Owner = NOBODY,
    link: str | None = None,
) -> Alert:
    """Return an alert in these words; it sends nothing. By default it has no owner and project
    (`unassigned`), and no link.

    Times and amounts among the facts become text. The name and type of an instance, and the form of
    each line, are added to the facts. About a target, the alert names no instance.
    """
    instance_id: str | None = None
    all_facts: dict[str, object] = {}
    if isinstance(about, Target):
        target = about
    else:
        target = about.target
        instance_id = about.instance_id
        all_facts["instance_name"] = about.name
        all_facts["instance_type"] = about.instance_type
    for name, value in facts.items():
        all_facts[name] = _fact(value)
    all_facts[LINE_FORMS] = "".join(words.forms)
    return Alert(
        kind=kind,
        severity=severity,
        account=target.account,
        region=target.region,
        subject=words.title,
        lines=words.lines,
        dedup_id=dedup_id,
        at=now,
        instance_id=instance_id,
        owner=owner.name,
        project=owner.project,
        link=link,
        facts=all_facts,
    )


def _fact(value: object) -> object:
    """Return a time or an amount as the text that stands for it in JSON, and anything else as it
    is."""
    if isinstance(value, datetime | Decimal):
        return plain(value)
    return value


def template_words(
    template: str, values: Values, zone: str = "UTC", now: UtcDatetime | None = None
) -> Words:
    """Return the words of a template, with a title that is short enough for a subject of SNS.

    If the title is too long, the value `name` is shortened in it: the words after it matter more.
    Without such a value the title stays long. Times are in the zone `zone`, relative to `now`.
    Raises: jinja2.UndefinedError if the template names a value that is missing.
    """
    words = _rendered(template, values, zone, now)
    name = str(values.get("name", ""))
    excess = len(words.title) - _TITLE_CHARACTERS
    room = max(_SHORTEST_NAME, len(name) - excess)
    if excess <= 0 or len(name) <= room:
        return words
    shorter_name = clip(name, room)
    title = _rendered(template, {**values, "name": shorter_name}, zone, now).title
    return replace(words, title=title)


def template_lines(
    template: str, values: Values, zone: str = "UTC", now: UtcDatetime | None = None
) -> list[str]:
    """Return the lines that a template gives for these values, for a part of a message or a page;
    empty if the values leave no line. Times are in the zone `zone`, relative to `now`.

    `template` is its name, such as `pause ended` for `pause-ended.txt`. Raises:
    jinja2.UndefinedError if the template names a value that is missing.
    """
    return _rendered(template, values, zone, now).all_lines


def first_line_of(template: str, **values: object) -> str:
    """Return the first line of a template, with these values. Raises: jinja2.UndefinedError if the
    template names a value that is missing; IndexError if there is no line."""
    return template_lines(template, values)[0]


def _rendered(template: str, values: Values, zone: str, now: UtcDatetime | None) -> Words:
    """Return the words of a template, and load Jinja2 if this is the first. Raises:
    jinja2.UndefinedError if the template names a value that is missing."""
    from governor.alerts.render import rendered

    return rendered(template, values, zone, now)
