"""Alerts from templates: their words are in `data/alerts.txt`, which says how they are written."""

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
    """Make any alert. Its template may name the facts, `words`, and what else is given here. Times
    and amounts among the facts become text, and an instance adds its name and type to them."""
    one, target = (None, about) if isinstance(about, Target) else (about, about.target)
    values = {
        **facts,
        **(words or {}),
        "about": about,
        "target": target,
        "owner": owner,
        "now": now,
    }
    subject, *lines = said(template, values, owner.time_zone, now)
    kind, usual = _templates()[template][0].split()
    known = {"instance_name": one.name, "instance_type": one.instance_type} if one else {}
    return Alert(
        kind=AlertKind(kind),
        severity=severity or Severity(usual),
        account=target.account,
        region=target.region,
        subject=subject,
        lines=tuple(lines),
        dedup_id=dedup_id,
        at=now,
        instance_id=one.instance_id if one else None,
        owner=owner.name,
        project=owner.project,
        link=link,
        facts={
            n: plain(v) if isinstance(v, datetime | Decimal) else v
            for n, v in {**known, **facts}.items()
        },
    )


def said(
    template: str, values: Values, zone: str = "UTC", now: UtcDatetime | None = None
) -> list[str]:
    """Return the lines of a template that these values call for; the first one is a subject."""
    found: list[str] = []
    heading: list[str] = []
    form = _Form(zone, now)
    for line in _templates()[template][1:]:
        text = _chosen(form, line, values)
        before, several, field = text.partition("{*")
        if several:
            name, _, spec = field.rstrip("}").partition(":")
            items, _ = form.get_field(name, (), values)
            lines = [f"{before}{form.format_field(one, spec)}" for one in items]
        else:
            lines = [form.vformat(text, (), values if found else _with_room(form, text, values))]
        if text.startswith("## "):
            heading = ["", f"{lines[0][3:]}:"]
        elif any(lines):
            found += [*heading, *lines]
            heading = []
    return found


class _Form(Formatter):
    def __init__(self, zone: str, now: UtcDatetime | None) -> None:
        self._zone, self._now = zone, now

    def format_field(self, value: Any, spec: str) -> str:
        if spec in _TIMES:
            return _TIMES[spec](value, self._zone, self._now or value)
        return _FORMS[spec](value) if spec in _FORMS else str(format(value, spec))


def _chosen(form: Formatter, line: str, values: Values) -> str:
    """Return the line without its conditions; empty where one of them does not hold."""
    while found := _CONDITION.fullmatch(line):
        sign, name, wanted, line = found.groups()
        value, _ = form.get_field(name, (), values)
        holds = bool(value) if wanted is None else str(value) == wanted
        if holds is (sign == "!"):
            return ""
    return line


def _with_room(form: Formatter, text: str, values: Values) -> Values:
    """Cut the value `name` of a subject to the room it has: what follows it matters more."""
    name = str(values.get("name", ""))
    room = max(12, _SUBJECT - len(form.vformat(text, (), {**values, "name": ""})))
    return {**values, "name": name if len(name) <= room else f"{name[: room - 1]}…"}


@cache
def _templates() -> Mapping[str, list[str]]:
    """Each template by its name: kind and usual severity, if it has them, then its lines."""
    found: dict[str, list[str]] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, _, head = line[1:].partition("]")
            lines = found.setdefault(name, [head])
        elif line.startswith("  "):
            lines[-1] += line[1:]
        elif line and (line[0] != "#" or line.startswith("## ")):
            lines.append(line)
    return found
