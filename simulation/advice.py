"""Shows a recommendation of how long to wait: as text with the policy to paste, or as JSON.

Nothing is chosen here: `simulation.recommend` does that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from math import ceil
from typing import Any

import yaml

from governor.core.units import money
from simulation.fetch import LONGEST_DAYS
from simulation.recommend import Advice, Figures, Grouping, Recommendation, Trial, Wait


@dataclass(frozen=True, slots=True)
class Parts:
    """A recommendation in parts: sentences above the table, its rows, sentences below it, and the
    YAML to paste, which is empty if nothing changes."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    rest: Sequence[str]
    to_paste: str


def text(recommendation: Recommendation, by: Grouping) -> str:
    """Return the table of candidates, the choice and its check, each group, and the policy to
    paste."""
    parts = parts_of(recommendation, by)
    lines = [*parts.head, "", *_aligned(parts.rows), *parts.rest]
    if parts.to_paste:
        lines += ["", parts.to_paste]
    return "\n".join(lines)


def parts_of(recommendation: Recommendation, by: Grouping) -> Parts:
    """Return the parts of the text."""
    lines = [*_below_the_table(recommendation.everyone), "", *_choice(recommendation)]
    lines += ["", *_groups(recommendation, by)]
    if recommendation.freezes:
        times = _count(recommendation.freezes, "time")
        lines += ["", f"The breaker froze all plans up to {times}; questions came later then."]
    if recommendation.left_out:
        left_out = _count(recommendation.left_out, "instance")
        lines += ["", f"Left out: {left_out} whose override sets its own wait."]
    document = recommendation.document()
    return Parts(
        head=_head(recommendation),
        rows=_rows(recommendation.everyone),
        rest=[*lines, *_about_the_paste(recommendation)],
        to_paste=pasted(document).rstrip() if document else "",
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of figures."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells))
    return lines


def _head(recommendation: Recommendation) -> list[str]:
    """Return the lines that say what was replayed, and how to read the table."""
    everyone = recommendation.everyone
    delay = recommendation.approval_delay // timedelta(minutes=1)
    lines = [
        f"{_count(everyone.instances, 'instance')}, {_days(*recommendation.days)}.",
        "A question is wrong if work was back within an hour of it.",
    ]
    if recommendation.asks:
        lines.append(f"The hours and USD assume that every question is approved after {delay} min.")
    else:
        lines.append(
            "Mode auto asks nobody: each question counted here is a stop after the notice period."
        )
    if not recommendation.sooner:
        lines.append("Released memory brings nothing forward.")
    elif any(trial.wait.released_minutes < trial.wait.minutes for trial in everyone.trials):
        lines.append(
            "Once every GPU has released its memory, the wait is "
            f"{recommendation.present.released_minutes} min."
        )
    return lines


def _groups(recommendation: Recommendation, by: Grouping) -> list[str]:
    """Return a line for each group, or one that says why there are none."""
    groups = recommendation.groups
    if not any(group.matches for group in groups):
        tags = " or ".join(by.keys)
        return [f"No groups: no instance has a tag {tags}. Name another tag with --by tag:KEY."]
    lines = [f"  {group.name}: {_line(recommendation, group)}" for group in groups]
    return [f"By {by.label}:", *lines]


def pasted(document: Mapping[str, object]) -> str:
    """Return the settings as YAML."""
    return str(
        yaml.safe_dump(
            dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False
        )
    )


def as_json(recommendation: Recommendation, by: Grouping, notes: Sequence[str]) -> str:
    """Return everything for machines. Amounts are strings, shares 0 to 1."""
    _, longest_days = recommendation.days
    document = {
        "notes": list(notes),
        "days": longest_days,
        "wrong_at_most": recommendation.wrong_at_most,
        "left_out": recommendation.left_out,
        "freezes": recommendation.freezes,
        "everyone": _advice(recommendation.everyone),
        "present": _minutes(recommendation.present),
        "by": by.label,
        "groups": [_advice(group) for group in recommendation.groups],
        "policy": recommendation.document(),
    }
    return json.dumps(document, indent=2)


def _about_the_paste(recommendation: Recommendation) -> list[str]:
    """Return what to know of the settings to paste; empty if nothing changes."""
    document = recommendation.document()
    if not document:
        return []
    base = recommendation.base
    lines = [""]
    if "overrides" in document:
        if _has_waiting_group(recommendation):
            lines.append("Groups for which no wait qualifies are not asked sooner than now.")
        lines.append(
            "Put these overrides above those you have: where two set the same, the later one wins."
        )
    choice = recommendation.everyone.choice
    if choice is not None and base != choice.wait:
        lines.append(
            "Without a group, instances are not asked sooner than now: no wait qualifies for them."
        )
    contradicted = _contradicted(recommendation)
    if contradicted:
        lines.append(
            f"The second half contradicts the wait for {', '.join(contradicted)}: keep "
            f"{_wait(recommendation, recommendation.present)} there."
        )
    return [
        *lines,
        "To use this, merge it into the policy; settings that it does not name stay:",
    ]


def _has_waiting_group(recommendation: Recommendation) -> bool:
    """Return whether a group without a choice keeps a longer wait than all others get."""
    for group in recommendation.groups:
        if group.choice is None and recommendation.wait_of(group) != recommendation.base:
            return True
    return False


def _contradicted(recommendation: Recommendation) -> list[str]:
    """Return the parts that get a new wait although the second half contradicts it."""
    waits = [(recommendation.everyone, recommendation.base)]
    waits += [(group, recommendation.wait_of(group)) for group in recommendation.groups]
    names = []
    for part, wait in waits:
        if part.choice is None or wait == recommendation.present:
            continue
        if recommendation.failed(part.choice):
            names.append(part.name)
    return names


def _rows(everyone: Advice) -> list[tuple[str, ...]]:
    """Return the rows of the candidates, below their titles."""
    rows: list[tuple[str, ...]] = [
        ("ask after", "questions", "wrong", "share wrong", "hours saved", "USD saved")
    ]
    for trial in everyone.trials:
        figures = trial.whole
        rows.append(
            (
                f"{trial.wait.minutes} min",
                str(figures.questions),
                str(figures.wrong),
                _share(figures),
                _amount(figures.hours, figures.hours_interval),
                _usd(figures),
            )
        )
    return rows


def _below_the_table(everyone: Advice) -> list[str]:
    """Return how to read the figures, and what they leave out."""
    lines = ["Ranges in brackets are 95% confidence intervals."]
    unknown = max(trial.whole.unknown for trial in everyone.trials)
    if unknown:
        lines.append(
            f"Up to {_count(unknown, 'question')} more per row can't be judged: the "
            "instance stopped, or its record ended, within the hour."
        )
    return lines


def _choice(recommendation: Recommendation) -> list[str]:
    """Return the wait that is recommended for all and its check, or why there is none."""
    everyone = recommendation.everyone
    choice = everyone.choice
    if choice is None:
        return [
            f"No wait qualifies. {_why_not(recommendation, everyone)}",
            f"Keep the present wait, {_wait(recommendation, recommendation.present)}. Stop "
            "nothing without an approval, and exempt instances that wait for requests.",
        ]
    first = choice.first
    present = " This is the present wait." if choice.wait == recommendation.present else ""
    return [
        f"Recommended: ask after {_wait(recommendation, choice.wait)}. It is the shortest wait "
        f"that keeps wrong questions under {_limit(recommendation)}.{present}",
        f"  Chosen on the first half of each record: {_wrong(first)}. With 90% confidence "
        f"the share is under {_percent(first.bound)}.",
        f"  Checked on the second half: {_checked(choice, recommendation)}",
    ]


def _wait(recommendation: Recommendation, wait: Wait) -> str:
    if recommendation.sooner and wait.released_minutes < wait.minutes:
        return f"{wait.minutes} min, or {wait.released_minutes} min once GPU memory is released"
    present = recommendation.present
    if recommendation.sooner and wait.released_minutes > present.released_minutes:
        return f"{wait.minutes} min, whether GPU memory is released or not"
    return f"{wait.minutes} min"


def _checked(choice: Trial, recommendation: Recommendation) -> str:
    second = choice.second
    if not second.questions:
        return "no questions, so nothing confirms this choice."
    low, high = second.share_interval
    interval = f"95% interval {_percent(low)} to {_percent(high)}"
    return (
        f"{_wrong(second)} ({_percent(second.share)}, {interval})"
        f"{_failed(choice, recommendation) or '.'} Stops saved {money(second.hours, 0)} hours and "
        f"{_usd_only(second)}."
    )


def _failed(choice: Trial, recommendation: Recommendation) -> str:
    """Return that the second half contradicts a choice; empty if it does not."""
    if not recommendation.failed(choice):
        return ""
    limit = _limit(recommendation)
    return f", not under {limit}. The choice did not hold: do not rely on it."


def _line(recommendation: Recommendation, advice: Advice) -> str:
    choice = advice.choice
    if choice is None:
        return f"no wait qualifies. {_why_not(recommendation, advice)}"
    return (
        f"ask after {_wait(recommendation, choice.wait)}. First half: {_wrong(choice.first)}; "
        f"second half: {_wrong(choice.second)}{_failed(choice, recommendation) or '.'}"
    )


def _why_not(recommendation: Recommendation, advice: Advice) -> str:
    """Return why no candidate qualifies."""
    best = advice.best
    if best is not None:
        return (
            f"The closest, {best.wait.minutes} min, had {_wrong(best.first)} in the first "
            f"half of each record: the share can be as high as {_percent(best.first.bound)} "
            f"(90% confidence), and must be under {_limit(recommendation)}."
        )
    most = advice.most.first.questions
    if not most:
        return f"Too few questions: none in the first half, {advice.needed} needed."
    days = ceil(advice.days * advice.needed / most)
    kept = f", and CloudWatch keeps {LONGEST_DAYS}" if days > LONGEST_DAYS else ""
    return (
        f"Too few questions: {most} in the first half, {advice.needed} needed. At this "
        f"rate that takes {days} days of readings{kept}."
    )


def _limit(recommendation: Recommendation) -> str:
    return f"{recommendation.wrong_at_most * 100:g}%"


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
    if figures.unpriced and not figures.usd:
        return "an unknown amount"
    return f"{money(figures.usd, 0)} USD"


def _amount(total: Decimal, bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return money(total, 0)
    low, high = [money(Decimal(round(bound)), 0) for bound in bounds]
    return f"{money(total, 0)} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"


def _days(shortest: float, longest: float) -> str:
    days = f"{round(longest, 1):g}"
    up_to = "" if shortest == longest else "up to "
    return f"{up_to}{days} day{'' if days == '1' else 's'} each"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _advice(advice: Advice) -> dict[str, Any]:
    chosen_wait = None
    if advice.choice is not None:
        chosen_wait = advice.choice.wait
    missing_questions = max(0, advice.needed - advice.most.first.questions)
    return {
        "name": advice.name,
        "instances": advice.instances,
        **_minutes(chosen_wait),
        "questions_needed": missing_questions,
        "windows": [_trial(trial) for trial in advice.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        **_minutes(trial.wait),
        "whole": _figures(trial.whole),
        "first_half": _figures(trial.first),
        "second_half": _figures(trial.second),
    }


def _minutes(wait: Wait | None) -> dict[str, int | None]:
    if wait is None:
        return {"ask_after_minutes": None, "ask_after_released_minutes": None}
    return {
        "ask_after_minutes": wait.minutes,
        "ask_after_released_minutes": wait.released_minutes,
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "questions": figures.questions,
        "wrong": figures.wrong,
        "unknown": figures.unknown,
        "wrong_share": round(figures.share, 4),
        "wrong_share_interval": _rounded(figures.share_interval, 4),
        "wrong_share_bound": round(figures.bound, 4),
        "hours_saved": str(round(figures.hours, 2)),
        "hours_saved_interval": _rounded(figures.hours_interval, 2),
        "usd_saved": str(round(figures.usd, 2)),
        "usd_saved_interval": _rounded(figures.usd_interval, 2),
        "unpriced": figures.unpriced,
    }


def _rounded(interval: tuple[float, float] | None, places: int) -> list[float] | None:
    if interval is None:
        return None
    return [round(bound, places) for bound in interval]
