"""Shows a recommendation: as text with the policy to paste, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from math import ceil
from typing import Any

import yaml

from governor.domain.units import money
from simulation.fetch import LONGEST_DAYS
from simulation.recommend import Advice, Figures, Grouping, Recommendation, Trial, Wait


def text(one: Recommendation, by: Grouping) -> str:
    """Return the table of candidates, the choice and its check, each group, and the policy to
    paste."""
    everyone = one.everyone
    delay = one.approval_delay // timedelta(minutes=1)
    lines = [
        f"{_count(everyone.instances, 'instance')}, {_days(*one.days)}.",
        "A question is wrong if work was back within an hour of it.",
        f"Hours and USD are saved if every question is approved after {delay} min."
        if one.asks
        else "Mode auto asks nobody: each question counted here is a stop after the notice period.",
    ]
    if not one.sooner:
        lines.append("Released memory brings nothing forward.")
    elif any(trial.wait.released_minutes < trial.wait.minutes for trial in everyone.trials):
        lines.append(
            f"Once every GPU has released its memory, {one.present.released_minutes} min "
            "are enough for a "
            "question."
        )
    lines += ["", *_table(everyone), "", *_choice(one)]
    if any(group.matches for group in one.groups):
        lines += ["", f"By {by.label}:"]
        lines += [f"  {group.name}: {_line(one, group)}" for group in one.groups]
    else:
        tags = " or ".join(by.keys)
        lines += [
            "",
            f"No groups: no instance has a tag {tags}. Name another tag with --by tag:KEY.",
        ]
    if one.freezes:
        times = _count(one.freezes, "time")
        lines += ["", f"The breaker froze all plans up to {times}; questions came later then."]
    if one.left_out:
        lines += [
            "",
            f"Left out: {_count(one.left_out, 'instance')} whose override sets its own wait.",
        ]
    return "\n".join([*lines, *_to_paste(one)])


def pasted(document: Mapping[str, object]) -> str:
    """Return the settings as YAML."""
    return str(
        yaml.safe_dump(
            dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False
        )
    )


def as_json(one: Recommendation, by: Grouping, notes: Sequence[str]) -> str:
    """Return everything for machines. Amounts are strings, shares 0 to 1."""
    return json.dumps(
        {
            "notes": list(notes),
            "days": one.days[1],
            "wrong_at_most": one.wrong_at_most,
            "left_out": one.left_out,
            "freezes": one.freezes,
            "everyone": _advice(one.everyone),
            "present": _minutes(one.present),
            "by": by.label,
            "groups": [_advice(group) for group in one.groups],
            "policy": one.document(),
        },
        indent=2,
    )


def _to_paste(one: Recommendation) -> list[str]:
    document = one.document()
    if not document:
        return []
    lines = [""]
    if "overrides" in document:
        if any(group.choice is None and one.wait_of(group) != one.base for group in one.groups):
            lines.append("Groups for which no wait qualifies are not asked sooner than now.")
        lines.append(
            "Put these overrides above those you have: where two set the same, the later one wins."
        )
    if one.everyone.choice and one.base != one.everyone.choice.wait:
        lines.append(
            "Without a group, instances are not asked sooner than now: no wait qualifies for them."
        )
    used = [(one.everyone, one.base), *((group, one.wait_of(group)) for group in one.groups)]
    failed = [
        part.name
        for part, wait in used
        if wait != one.present and part.choice is not None and one.failed(part.choice)
    ]
    if failed:
        lines.append(
            f"The second half contradicts the wait for {', '.join(failed)}: keep "
            f"{_wait(one, one.present)} there."
        )
    return [
        *lines,
        "To use this, merge it into the policy; settings that it does not name stay:",
        "",
        pasted(document).rstrip(),
    ]


def _table(everyone: Advice) -> list[str]:
    rows = [("ask after", "questions", "wrong", "share wrong", "hours saved", "USD saved")]
    rows += [
        (
            f"{trial.wait.minutes} min",
            str(trial.whole.questions),
            str(trial.whole.wrong),
            _share(trial.whole),
            _amount(trial.whole.hours, trial.whole.hours_interval),
            _usd(trial.whole),
        )
        for trial in everyone.trials
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    found = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    unknown = max(trial.whole.unknown for trial in everyone.trials)
    found.append("Ranges in brackets are 95% confidence intervals.")
    if unknown:
        found.append(
            f"Up to {_count(unknown, 'question')} more per row can't be judged: the "
            "instance stopped, or its "
            "record ended, within the hour."
        )
    return found


def _choice(one: Recommendation) -> list[str]:
    advice, choice, limit = one.everyone, one.everyone.choice, _limit(one)
    if choice is None:
        return [
            f"No wait qualifies. {_why_not(one, advice)}",
            f"Keep the present wait, {_wait(one, one.present)}. Stop nothing without a yes, and "
            "exempt instances that wait for requests.",
        ]
    first, now = choice.first, " This is the present wait." if choice.wait == one.present else ""
    return [
        f"Recommended: ask after {_wait(one, choice.wait)}. It is the shortest wait that keeps "
        f"wrong questions under {limit}.{now}",
        f"  Chosen on the first half of each record: {_wrong(first)}. With 90% confidence "
        "the share is under "
        f"{_percent(first.bound)}.",
        f"  Checked on the second half: {_checked(choice, one)}",
    ]


def _wait(one: Recommendation, wait: Wait) -> str:
    if one.sooner and wait.released_minutes < wait.minutes:
        return f"{wait.minutes} min, or {wait.released_minutes} min once GPU memory is released"
    if one.sooner and wait.released_minutes > one.present.released_minutes:
        return f"{wait.minutes} min, whether GPU memory is released or not"
    return f"{wait.minutes} min"


def _checked(choice: Trial, one: Recommendation) -> str:
    second = choice.second
    if not second.questions:
        return "no questions, so nothing confirms this choice."
    low, high = second.share_interval
    return (
        f"{_wrong(second)} ({_percent(second.share)}, 95% interval {_percent(low)} to "
        f"{_percent(high)})"
        f"{_failed(choice, one) or '.'} Stops saved {money(second.hours, 0)} hours and "
        f"{_usd_only(second)}."
    )


def _failed(choice: Trial, one: Recommendation) -> str:
    if not one.failed(choice):
        return ""
    return f", not under {_limit(one)}. The choice did not hold: do not rely on it."


def _line(one: Recommendation, advice: Advice) -> str:
    choice = advice.choice
    if choice is None:
        return f"no wait qualifies. {_why_not(one, advice)}"
    return (
        f"ask after {_wait(one, choice.wait)}. First half: {_wrong(choice.first)}; second half: "
        f"{_wrong(choice.second)}{_failed(choice, one) or '.'}"
    )


def _why_not(one: Recommendation, advice: Advice) -> str:
    best = advice.best
    if best is not None:
        return (
            f"The closest, {best.wait.minutes} min, had {_wrong(best.first)} in the first "
            "half of each "
            f"record: the share can be as high as {_percent(best.first.bound)} (90% "
            "confidence), and must "
            f"be under {_limit(one)}."
        )
    most = advice.most.first.questions
    if not most:
        return f"Too few questions: none in the first half, {advice.needed} needed."
    days = ceil(advice.days * advice.needed / most)
    kept = f", and CloudWatch keeps {LONGEST_DAYS}" if days > LONGEST_DAYS else ""
    return (
        f"Too few questions: {most} in the first half, {advice.needed} needed. At this "
        "rate that takes "
        f"{days} days of readings{kept}."
    )


def _limit(one: Recommendation) -> str:
    return f"{one.wrong_at_most * 100:g}%"


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
    return (
        "an unknown amount"
        if figures.unpriced and not figures.usd
        else f"{money(figures.usd, 0)} USD"
    )


def _amount(total: Decimal, bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return money(total, 0)
    low, high = (money(Decimal(round(bound)), 0) for bound in bounds)
    return f"{money(total, 0)} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}%"


def _days(shortest: float, longest: float) -> str:
    days = f"{round(longest, 1):g}"
    return f"{'' if shortest == longest else 'up to '}{days} day{'' if days == '1' else 's'} each"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _advice(one: Advice) -> dict[str, Any]:
    return {
        "name": one.name,
        "instances": one.instances,
        **_minutes(None if one.choice is None else one.choice.wait),
        "questions_needed": max(0, one.needed - one.most.first.questions),
        "windows": [_trial(trial) for trial in one.trials],
    }


def _trial(one: Trial) -> dict[str, Any]:
    parts = {"whole": one.whole, "first_half": one.first, "second_half": one.second}
    return {**_minutes(one.wait), **{name: _figures(part) for name, part in parts.items()}}


def _minutes(wait: Wait | None) -> dict[str, int | None]:
    return {
        "ask_after_minutes": None if wait is None else wait.minutes,
        "ask_after_released_minutes": None if wait is None else wait.released_minutes,
    }


def _figures(one: Figures) -> dict[str, Any]:
    return {
        "questions": one.questions,
        "wrong": one.wrong,
        "unknown": one.unknown,
        "wrong_share": round(one.share, 4),
        "wrong_share_interval": [round(bound, 4) for bound in one.share_interval],
        "wrong_share_bound": round(one.bound, 4),
        "hours_saved": str(round(one.hours, 2)),
        "hours_saved_interval": one.hours_interval
        and [round(bound, 2) for bound in one.hours_interval],
        "usd_saved": str(round(one.usd, 2)),
        "usd_saved_interval": one.usd_interval and [round(bound, 2) for bound in one.usd_interval],
        "unpriced": one.unpriced,
    }
