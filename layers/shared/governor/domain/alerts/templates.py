"""Alerts from templates.

The words are in `data/alerts.txt`, which explains the form of its templates. This module fills them
in and adds no words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from governor.domain import units
from governor.domain.alerts.alert import NOBODY, Alert, AlertKind, Owner, Severity
from governor.domain.documents import plain
from governor.domain.instance import Instance, Target
from governor.domain.units import UtcDatetime

_FILE = Path(__file__).parents[2] / "data" / "alerts.txt"
_CONDITION = re.compile(r"([?!])([\w.]+)(?:=(\S+))? (.*)")
_SUBJECT = 98
"""Characters that SNS takes as a subject."""
_FORMS: Mapping[str, Callable[[Any], str]] = {
    "capital": lambda text: f"{text[:1].upper()}{text[1:]}",
    "people": units.people,
    "sentence": units.sentence,
    "stop": units.full_stop,
    "usd": units.usd,
}
_TIMES = {"clock": units.clock, "day": units.day_and_time, "deadline": units.deadline}
Values = Mapping[str, Any]


def written(
    template: str,
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
    """Return an alert in the words of a template.

    The template may name the facts, `words`, and `about`, `target`, `owner` and `now`. Times and
    amounts among the facts become text, and an instance adds its name and type to them.
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
    all_facts.update(facts)
    values = {
        **facts,
        **(words or {}),
        "about": about,
        "target": target,
        "owner": owner,
        "now": now,
    }
    subject, *lines = said(template, values, owner.time_zone, now)
    kind, usual_severity = _templates()[template][0].split()
    return Alert(
        kind=AlertKind(kind),
        severity=severity or Severity(usual_severity),
        account=target.account,
        region=target.region,
        subject=subject,
        lines=tuple(lines),
        dedup_id=dedup_id,
        at=now,
        instance_id=instance_id,
        owner=owner.name,
        project=owner.project,
        link=link,
        facts={name: _fact(value) for name, value in all_facts.items()},
    )


def _fact(value: object) -> object:
    """Return a time or an amount as text, and anything else as it is."""
    return plain(value) if isinstance(value, datetime | Decimal) else value


def said(
    template: str, values: Values, zone: str = "UTC", now: UtcDatetime | None = None
) -> list[str]:
    """Return the lines of a template whose conditions hold for these values.

    The first line is a subject. A heading is left out if no line follows it.
    """
    filled: list[str] = []
    heading: list[str] = []
    form = _Form(zone, now)
    for line in _templates()[template][1:]:
        text = _without_conditions(form, line, values)
        if not text:
            continue
        if "{*" in text:
            lines = _line_for_each(form, text, values)
        else:
            is_subject = not filled
            room = _with_room(form, text, values) if is_subject else values
            lines = [form.vformat(text, (), room)]
        if text.startswith("## "):
            heading = ["", f"{lines[0][3:]}:"]
        elif any(lines):
            filled += [*heading, *lines]
            heading = []
    return filled


class _Form(Formatter):
    """Formats values of a template, with times in this zone."""

    def __init__(self, zone: str, now: UtcDatetime | None) -> None:
        self._zone = zone
        self._now = now

    def format_field(self, value: Any, spec: str) -> str:
        """Return a value in the form that `spec` names."""
        if spec in _TIMES:
            return _TIMES[spec](value, self._zone, self._now or value)
        if spec in _FORMS:
            return _FORMS[spec](value)
        return str(format(value, spec))


def _without_conditions(form: Formatter, line: str, values: Values) -> str:
    """Return the line without its conditions; an empty text if one of them does not hold."""
    condition = _CONDITION.fullmatch(line)
    while condition:
        sign, name, wanted, line = condition.groups()
        value, _ = form.get_field(name, (), values)
        holds = bool(value) if wanted is None else str(value) == wanted
        if holds is (sign == "!"):
            return ""
        condition = _CONDITION.fullmatch(line)
    return line


def _line_for_each(form: Formatter, text: str, values: Values) -> list[str]:
    """Return a line for each of the values that `{*values:form}` names."""
    before, _, field = text.partition("{*")
    name, _, spec = field.rstrip("}").partition(":")
    members, _ = form.get_field(name, (), values)
    return [f"{before}{form.format_field(member, spec)}" for member in members]


def _with_room(form: Formatter, text: str, values: Values) -> Values:
    """Return the values of a subject with `name` cut to the room that is left for it.

    The words after the name matter more.
    """
    name = str(values.get("name", ""))
    room = max(12, _SUBJECT - len(form.vformat(text, (), {**values, "name": ""})))
    if len(name) > room:
        name = f"{name[: room - 1]}…"
    return {**values, "name": name}


@cache
def _templates() -> Mapping[str, list[str]]:
    """Return each template by its name: kind and usual severity, if it has them, then its lines."""
    templates: dict[str, list[str]] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        is_comment = line.startswith("#") and not line.startswith("## ")
        if line.startswith("["):
            name, _, kind_and_severity = line[1:].partition("]")
            lines = templates.setdefault(name, [kind_and_severity])
        elif line.startswith("  "):
            lines[-1] += line[1:]
        elif line and not is_comment:
            lines.append(line)
    return templates
