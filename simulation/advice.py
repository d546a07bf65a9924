"""Shows a recommendation: as text with the policy to paste, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import Any

import yaml

from governor.domain.units import money
from simulation.fetch import LONGEST_DAYS
from simulation.recommend import FEWEST_QUESTIONS, Advice, Figures, Recommendation, Trial


def text(one: Recommendation, by: str) -> str:
    """Return the table of candidates, the choice and its check, each group, and the policy to paste."""
    limit = f"{one.wrong_at_most * 100:g}%"
    everyone = one.everyone
    lines = [
        f"{_count(everyone.instances, 'instance')}, {_days(one.days)}. "
        "Wrong: work was back within an hour of the question.",
        *_table(everyone),
        "",
        *_choice(one, everyone, limit),
    ]
    if len(one.groups) > 1 or one.groups[0].matches:
        lines += ["", f"By {by}:"]
        lines += [f"  {group.name}: {_line(one, group, limit)}" for group in one.groups]
    if one.freezes:
        times = _count(one.freezes, "time")
        lines += ["", f"The breaker froze all plans up to {times}; questions came later then."]
    if one.left_out:
        lines += ["", f"Left out: {_count(one.left_out, 'instance')} whose override sets its own wait."]
    document = one.document()
    if document:
        lines += ["", "To use this, add it to the policy:", "", pasted(document).rstrip()]
    return "\n".join(lines)


def pasted(document: Mapping[str, object]) -> str:
    """Return the settings as YAML."""
    return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False))


def as_json(one: Recommendation, by: str, notes: Sequence[str]) -> str:
    """Return everything for machines. Amounts are strings, shares 0 to 1."""
    return json.dumps(
        {
            "notes": list(notes),
            "days": one.days,
            "wrong_at_most": one.wrong_at_most,
            "left_out": one.left_out,
            "freezes": one.freezes,
            "everyone": _advice(one.everyone),
            "by": by,
            "groups": [_advice(group) for group in one.groups],
            "policy": one.document(),
        },
        indent=2,
    )


_PATIENT = "  Released memory does not shorten the wait: with a shorter one, too many questions were wrong."


def _is_patient(one: Recommendation, choice: Trial) -> bool:
    return choice.released_minutes > one.released_minutes


def _table(everyone: Advice) -> list[str]:
    rows = [("ask after", "questions", "wrong", "share wrong", "hours saved", "USD saved")]
    rows += [
        (
            f"{trial.minutes} min",
            str(trial.whole.questions),
            str(trial.whole.wrong),
            _share(trial.whole),
            _amount(trial.whole.hours, trial.whole.hours_interval),
            _usd(trial.whole),
        )
        for trial in everyone.trials
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    found = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    unknown = max(trial.whole.unknown for trial in everyone.trials)
    found.append("In brackets: 95% intervals, by exact binomial bounds and over instances.")
    if unknown:
        found.append(f"Not counted: up to {_count(unknown, 'question')} within an hour of the record's end.")
    return found


def _choice(one: Recommendation, advice: Advice, limit: str) -> list[str]:
    if advice.choice is None:
        return [f"Recommended: none qualifies. {_why_not(one, advice, limit)}"]
    first, second = advice.choice.first, advice.choice.second
    return [
        f"Recommended: ask after {advice.choice.minutes} min, the shortest wait whose share of wrong "
        f"questions stays under {limit}.",
        f"  Chosen on the first half: {_wrong(first)}. With 90% confidence the share is under "
        f"{_percent(first.bound)}.",
        f"  Checked on the second half: {_checked(second, one.wrong_at_most, limit)}",
        *([_PATIENT] if _is_patient(one, advice.choice) else []),
    ]


def _checked(second: Figures, wrong_at_most: float, limit: str) -> str:
    if not second.questions:
        return "nobody would have been asked, so nothing checks this choice."
    held = "stayed under" if second.share < wrong_at_most else "did not stay under"
    low, high = second.share_interval
    return (
        f"{_wrong(second)} ({_percent(second.share)}, 95% interval {_percent(low)} to {_percent(high)}): it "
        f"{held} {limit}. It saved {money(second.hours, 0)} hours and {_usd_only(second)}."
    )


def _line(one: Recommendation, advice: Advice, limit: str) -> str:
    choice = advice.choice
    if choice is None:
        return f"none qualifies. {_why_not(one, advice, limit)}"
    memory = ", whether memory is released or not" if _is_patient(one, choice) else ""
    return (
        f"ask after {choice.minutes} min{memory}. First half: {_wrong(choice.first)}; second half: "
        f"{_wrong(choice.second)}."
    )


def _why_not(one: Recommendation, advice: Advice, limit: str) -> str:
    best = advice.best
    if best is not None:
        return (
            f"The best, {best.minutes} min, had {_wrong(best.first)} in the first half: with 90% confidence "
            f"the share is only known to be under {_percent(best.first.bound)}, not {limit}. "
            "Ask people before acting, or exempt what waits for requests."
        )
    most = advice.most.first.questions
    if not most:
        return f"Nobody would have been asked in the first half; {FEWEST_QUESTIONS} questions are needed."
    days = ceil(one.days * FEWEST_QUESTIONS / most)
    kept = f"; CloudWatch keeps {LONGEST_DAYS}" if days > LONGEST_DAYS else ""
    return (
        f"{_count(most, 'question')} in the first half, {FEWEST_QUESTIONS - most} too few. At this rate it "
        f"takes {days} days of readings{kept}."
    )


def _wrong(figures: Figures) -> str:
    return f"{figures.wrong} wrong of {_count(figures.questions, 'question')}"


def _share(figures: Figures) -> str:
    if not figures.questions:
        return "-"
    low, high = figures.share_interval
    return f"{_percent(figures.share)} ({_percent(low)} to {_percent(high)})"


def _usd(figures: Figures) -> str:
    if figures.unpriced and not figures.usd:
        return "unpriced"
    unpriced = f", {figures.unpriced} unpriced" if figures.unpriced else ""
    return _amount(figures.usd, figures.usd_interval) + unpriced


def _usd_only(figures: Figures) -> str:
    return "an unknown amount" if figures.unpriced and not figures.usd else f"{money(figures.usd, 0)} USD"


def _amount(total: Decimal, bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return money(total, 0)
    low, high = (money(Decimal(round(bound)), 0) for bound in bounds)
    return f"{money(total, 0)} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"


def _days(days: float) -> str:
    number = round(days, 1)
    return f"{number:g} day{'' if number == 1 else 's'}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _advice(one: Advice) -> dict[str, Any]:
    return {
        "name": one.name,
        "instances": one.instances,
        "ask_after_minutes": None if one.choice is None else one.choice.minutes,
        "questions_needed": max(0, FEWEST_QUESTIONS - one.most.first.questions),
        "windows": [_trial(trial) for trial in one.trials],
    }


def _trial(one: Trial) -> dict[str, Any]:
    parts = {"whole": one.whole, "first_half": one.first, "second_half": one.second}
    return {"ask_after_minutes": one.minutes, **{name: _figures(part) for name, part in parts.items()}}


def _figures(one: Figures) -> dict[str, Any]:
    return {
        "questions": one.questions,
        "wrong": one.wrong,
        "unknown": one.unknown,
        "wrong_share": round(one.share, 4),
        "wrong_share_interval": [round(bound, 4) for bound in one.share_interval],
        "wrong_share_bound": round(one.bound, 4),
        "hours_saved": str(round(one.hours, 2)),
        "hours_saved_interval": one.hours_interval and [round(bound, 2) for bound in one.hours_interval],
        "usd_saved": str(round(one.usd, 2)),
        "usd_saved_interval": one.usd_interval and [round(bound, 2) for bound in one.usd_interval],
        "unpriced": one.unpriced,
    }
