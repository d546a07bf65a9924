"""Sentences about an episode for messages and pages: idle time, cost a day, plan, who launched the
instance, silence.

Each says one thing about the episode. None knows where it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from governor.alerts.model import (
    UNASSIGNED,
)
from governor.alerts.templates import first_line_of, template_lines
from governor.approvals.rules.after_stop import AfterStop
from governor.core.errors import GovernorError, TooLate
from governor.core.instance import Lifecycle
from governor.core.managers import other_tools, perhaps_by
from governor.core.principals import names_in, principal_text
from governor.core.units import (
    UtcDatetime,
    all_listed,
    city_of,
    daily_cost,
    day_and_time,
    left,
    listed,
    sentence,
    span,
    time_with_zone,
    times_in_zone,
    usd,
)
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import STEP_TEXT, Plan, Step
from governor.episode.model.start_try import StartTry
from governor.episode.rules.restarts import is_about_restarts, quiet_after_restarts_until
from governor.episode.rules.start_advice import advice_on
from governor.policy.model.policy import Policy
from governor.verdict.rules.second_figure import doubt_text

_FRESH = timedelta(hours=1)
"""For this long a measurement is given without its age."""
_JUST_FOUND = timedelta(minutes=5)
"""For this long a measurement is given without its age while the question is open: a number of
hours would soon be less than the time that the console shows."""

_TWICE = 2


def price_text(episode: Episode) -> str:
    """Return the cost of the instance a day, as in `$136 a day`, or of its storage if an earlier
    episode has stopped it; `prepaid` if its capacity is paid for, used or not; `an unknown amount`
    if that is not known."""
    if episode.stopped_by_episode is not None:
        storage_usd_per_hour = episode.plan.saving.cost_before_usd_per_hour
        if storage_usd_per_hour is None:
            return "an unknown amount"
        return f"{usd(daily_cost(storage_usd_per_hour))} a day for its storage"
    price = episode.price.usd_per_hour
    if price is None:
        return f"an unknown amount ({episode.price.source})"
    if is_prepaid(episode):
        return "prepaid"
    return f"{usd(daily_cost(price))} a day"


def is_prepaid(episode: Episode) -> bool:
    """Return whether an hour of the running instance adds nothing to the bill, because its capacity
    is paid for, used or not."""
    is_running = episode.stopped_by_episode is None
    return is_running and episode.price.usd_per_hour == 0


def cost_lines(episode: Episode, now: UtcDatetime) -> tuple[str, ...]:
    """Return what the instance costs and what the plan saves; or that the price is not known, or
    adds nothing to the bill. Each line is a sentence; there are one or two. The time of a Spot
    price is in the zone of the people, relative to `now`."""
    price = episode.price.usd_per_hour
    source = times_in_zone(episode.price.source, episode.asking.time_zone, now)
    if episode.stopped_by_episode is not None:
        return _storage_cost(episode), saving_text(episode.plan)
    if price is None:
        return (f"Its price is not known ({source}).",)
    if not price:
        return (f"It is prepaid and adds nothing to the bill: {source}.",)
    return (
        f"It costs {usd(price)} an hour, {usd(daily_cost(price))} a day ({source}).",
        saving_text(episode.plan),
    )


def _storage_cost(episode: Episode) -> str:
    """Return what the storage of an instance costs that an earlier episode has stopped, as a
    sentence."""
    usd_per_hour = episode.plan.saving.cost_before_usd_per_hour
    if usd_per_hour is None:
        return "The cost of its storage is not known."
    return f"Its storage costs {usd(daily_cost(usd_per_hour))} a day."


def saving_text(plan: Plan) -> str:
    """Return what the plan saves or costs a day, as a sentence; also if that is nothing, or not
    known."""
    saved_per_day = plan.saving.saved_usd_per_day or Decimal(0)
    return first_line_of("saving", kind=_saving_kind(plan), plan=plan, usd=abs(saved_per_day))


def _saving_kind(plan: Plan) -> str:
    """Return which sentence says what the plan saves, as its template names them: `nothing`,
    `unknown`, `costs`, `saves` or `saves after snapshots`."""
    saved_per_day = plan.saving.saved_usd_per_day
    if not plan.steps:
        return "nothing"
    if saved_per_day is None:
        return "unknown"
    if saved_per_day < 0:
        return "costs"
    # Of the storage, a termination leaves only snapshots.
    is_less_snapshots = plan.destroys and Step.SNAPSHOT in plan.steps
    return "saves after snapshots" if is_less_snapshots else "saves"


def restart_text(episode: Episode, *, only_stopped: bool = False) -> str:
    """Return what may hinder a restart after the plan, as a sentence: it depends on whether the
    plan stops or terminates the instance.

    Return an empty text if the plan does neither. With `only_stopped`, a planned termination does
    not count: the sentence is about the stopped instance.
    """
    instance = episode.instance
    steps = episode.plan.steps
    if Step.TERMINATE in steps and not only_stopped:
        kind = "gone"
    elif Step.STOP not in steps:
        return ""
    elif instance.lifecycle is Lifecycle.SPOT:
        kind = "spot"
    else:
        kind = "stopped"
    zone = instance.availability_zone or "its zone"
    return first_line_of("restart", kind=kind, one=instance, zone=zone)


_CHANNEL_TEXT = {
    "page": "its record",
    "console": "the console",
    "slack": "Slack",
    "cli": "the command line",
    "command-line": "the command line",
}


def channel_text(channel: str) -> str:
    """Return the words for a channel by which somebody answers, such as `its record`; the name
    itself if it is another one."""
    return _CHANNEL_TEXT.get(channel, channel)


def start_words(start_try: StartTry) -> str:
    """Return AWS's reason against a start, with its code; an empty text if it gave none."""
    if start_try.code and start_try.words:
        return f"{start_try.code}: {start_try.words}"
    return start_try.code or start_try.words


def start_text(start_try: StartTry, zone: str, now: UtcDatetime) -> list[str]:
    """Return what became of the last try to start it again, as sentences; empty once it has been
    seen running."""
    values = {
        "status": start_try.status.value,
        "by": start_try.asked_by,
        "asked_at": start_try.asked_at,
        "said": start_words(start_try),
        "advice": advice_on(start_try.code, start_try.refused_call),
        "is_role_refused": start_try.is_role_refused,
        "is_own_shutdown": start_try.is_own_shutdown,
        "ran_at": start_try.ran_at,
    }
    return template_lines("start", values, zone, now)


def start_cost_text(episode: Episode) -> str:
    """Return what the stopped instance costs once it is started again, as a sentence."""
    usd_per_hour = episode.price.usd_per_hour
    if usd_per_hour is None:
        return "It costs money again while it runs; its price is not known."
    return f"It costs {usd(daily_cost(usd_per_hour))} a day again while it runs."


def start_button_text(episode: Episode) -> str:
    """Return the text of the button that starts the stopped instance again: `Start it: $136 a day`;
    without the cost if that is not known."""
    usd_per_hour = episode.price.usd_per_hour
    if usd_per_hour is None:
        return "Start it"
    return f"Start it: {usd(daily_cost(usd_per_hour))} a day"


_CANCELED = (Outcome.WOKE_UP, Outcome.VOID, Outcome.INTERRUPTED)


def after_stop_text(after: AfterStop, zone: str, now: UtcDatetime) -> str:
    """Return what became of an instance that was stopped, to follow its name: `was stopped Mon
    21:39, started again Tue 08:00 UTC`."""
    stopped = day_and_time(after.stopped_at, zone, now)
    done = "terminated" if after.is_terminated else "started again"
    if after.at is None:
        return f"was stopped {stopped} {city_of(zone)}, and {done} since"
    return f"was stopped {stopped}, {done} {time_with_zone(after.at, zone, now)}"


def after_stop_sentence(after: AfterStop, zone: str, now: UtcDatetime) -> str:
    """Return what became of an instance that was stopped, as a sentence: `It was stopped Mon 21:39,
    started again Tue 08:00 UTC.`"""
    return sentence(f"It {after_stop_text(after, zone, now)}")


def comes_next_text(
    episode: Episode, now: UtcDatetime, after: AfterStop | None = None
) -> list[str]:
    """Return what comes next for the instance of a closed episode, with its date, as sentences;
    empty while it is open, and for an end whose message says that already. Dates follow the policy
    that the episode was opened with. `after` is what became of the instance after a stop."""
    ending = episode.ending
    if ending is None:
        return []
    state = "other"
    if after is not None and after.is_terminated:
        state = "terminated"
    elif episode.is_undone or after is not None:
        state = "started"
    elif episode.became is Outcome.STOPPED and not episode.is_starting:
        state = "stopped"
    elif ending.outcome in _CANCELED:
        state = "canceled"
    elif ending.outcome in (Outcome.EXEMPTED, Outcome.TERMINATED):
        state = ending.outcome.value
    values = {
        "state": state,
        "kept_until": _kept_after_undo_until(episode, now),
        "asked_at": _asked_about_stopped_at(episode),
        "expires_at": _snapshots_expire_at(episode),
    }
    return template_lines("comes-next", values, episode.asking.time_zone, now)


def _kept_after_undo_until(episode: Episode, now: UtcDatetime) -> UtcDatetime | None:
    """Return until when an instance is kept because its stop was undone, as stored with the press;
    `None` if it was not undone by a press, or no longer is kept."""
    start_try = episode.start_try
    if episode.undo is None or start_try is None or start_try.kept_until is None:
        return None
    return start_try.kept_until if start_try.kept_until > now else None


def _asked_about_stopped_at(episode: Episode) -> UtcDatetime | None:
    """Return from when people are asked whether to terminate the stopped instance, by the policy
    that the episode was opened with. Return `None` if that never asks or is not recorded, no stop
    was noted, or the instance ran since its stop and fell back."""
    start_try = episode.start_try
    if start_try is not None and start_try.ran_and_fell_back:
        return None
    stopped_at = episode.progress.steps_done.get(Step.STOP.value)
    asked_under = episode.asking.asked_under
    if stopped_at is None or asked_under is None:
        return None
    days = asked_under.approval.ask_about_stopped_after_days
    return None if days is None else stopped_at + timedelta(days=days)


def _snapshots_expire_at(episode: Episode) -> UtcDatetime | None:
    """Return the date with which the episode's snapshots are marked; `None` if it took none, or its
    policy is not recorded."""
    taken_at = episode.progress.steps_done.get(Step.SNAPSHOT.value)
    asked_under = episode.asking.asked_under
    if not episode.progress.snapshots or taken_at is None:
        return None
    if asked_under is None or asked_under.plan is None:
        return None
    return taken_at + timedelta(days=asked_under.plan.snapshot_retention_days)


def plan_lines(episode: Episode) -> tuple[str, ...]:
    """Return the plan as sentences: why it differs from the policy's action, its steps, what it
    loses and what is left after it."""
    steps = "; then ".join(STEP_TEXT[step] for step in episode.own_plan)
    return tuple(template_lines("plan", {"plan": episode.plan, "steps": steps}))


class IdleText(NamedTuple):
    """The time for which an instance has been idle, in the forms that messages and pages need."""

    title: str
    """`idle 6 h`"""
    sentence: str
    """`Idle for 6 h (every GPU under 5%).`"""
    predicate: str
    """`has been idle for 6 h`, to follow a name"""


def idle_text(episode: Episode, at: UtcDatetime, *, is_open: bool = True) -> IdleText:
    """Return for how long the instance has been idle, in the forms of `IdleText`. For one that an
    earlier episode has stopped, return for how long it has been stopped.

    A measurement that is an hour old or older is given with its age; while the question or its
    notice `is_open`, one of 5 minutes. No sweep has seen work since then, so the instance is called
    idle since a moment.
    """
    if episode.stopped_by_episode is not None:
        stopped_for = left(at - episode.progress.steps_done[Step.STOP.value])
        title = f"stopped for {stopped_for}"
        return IdleText(title, _reason(episode, at), f"has been {title}")
    has_no_end = is_open and episode.outcome is None
    fresh_for = _JUST_FOUND if has_no_end else _FRESH
    idle_for = episode.measurement.idle_for
    if idle_for is not None and at - episode.opened_at < fresh_for:
        return _idle_for_text(span(idle_for), _reason(episode, at))
    return _measured_text(episode, at, has_no_end=has_no_end)


def _reason(episode: Episode, at: UtcDatetime) -> str:
    """Return why the episode was opened, as a sentence with times in the zone of its people."""
    return sentence(times_in_zone(episode.reason, episode.asking.time_zone, at))


def _idle_for_text(idle_for: str, reason: str) -> IdleText:
    """Return the time idle, such as `6 h`, as a title and a predicate, with `reason` as the
    sentence."""
    return IdleText(f"idle {idle_for}", reason, f"has been idle for {idle_for}")


def _measured_text(episode: Episode, at: UtcDatetime, *, has_no_end: bool) -> IdleText:
    """Return for how long the instance was measured idle, by the window of the evidence and the
    stretch before it; `over` stands before a stretch that may be longer.

    It is given with its age: as idle since then while the question is open and the episode
    `has_no_end`, else as idle at that time. A record of an earlier release, without the time idle,
    is given without the age for an hour.
    """
    window = episode.measurement.evidence.window
    idle = episode.idle
    since = window.start
    began_earlier = False
    if idle is not None:
        since = min(idle.since, window.start)
        began_earlier = idle.at_least

    idle_for = span(window.end - since)
    if began_earlier:
        idle_for = f"over {idle_for}"
    measured = f"every GPU under {episode.measurement.idle_below_percent:g}%"
    doubt = unconfirmed_text(episode, at)
    if doubt:
        measured = f"{measured}; {doubt}"
    measured = f"Idle for {idle_for} ({measured})"
    if episode.measurement.idle_for is None and at - window.end < _FRESH:
        return _idle_for_text(idle_for, f"{measured}.")

    age = left(at - window.end)
    measured = f"{measured} when this was found {age} ago"
    if not has_no_end:
        title = f"found idle {age} ago"
        return IdleText(title, f"{measured}.", f"was {title}")
    start = day_and_time(since, episode.asking.time_zone, at)
    if began_earlier:
        start = f"before {start}"
    title = f"idle since {start}"
    predicate = f"has been {title} {city_of(episode.asking.time_zone)}"
    return IdleText(title, f"{measured}, and no work was seen since.", predicate)


def unconfirmed_text(episode: Episode, at: UtcDatetime) -> str:
    """Return why no second figure confirms the utilization, such as `power: not measured`, by the
    settings that the question was asked under (the defaults for one of an earlier release). Its
    time is in the zone of the people, relative to `at`. Empty if one does, or if the type is not
    asked for one."""
    policy = Policy()
    asked_under = episode.asking.asked_under
    if asked_under is not None:
        metrics = asked_under.metrics or policy.metrics
        policy = replace(policy, idle=asked_under.idle, metrics=metrics)
    doubt = doubt_text(episode.instance.instance_type, episode.measurement.evidence, policy)
    return times_in_zone(doubt, episode.asking.time_zone, at)


def state_text(episodes: Iterable[Episode]) -> str:
    """Return the state of the instances in several questions: `idle`, `stopped`, or `idle or
    stopped`. Without questions it is `idle`."""
    states = {"idle" if episode.stopped_by_episode is None else "stopped" for episode in episodes}
    if len(states) > 1:
        return "idle or stopped"
    return "stopped" if "stopped" in states else "idle"


def refused_text(error: GovernorError) -> str:
    """Return the line of a list that says why an answer was refused or too late, in whole
    sentences. Refused ones begin with `Not recorded:`."""
    if isinstance(error, TooLate):
        return sentence(str(error))
    return f"Not recorded: {error}."


def people_text(episode: Episode) -> str:
    """Return how many people must approve the plan, as a sentence."""
    if episode.terms.people_needed > 1:
        return (
            "Two different people must approve, each through the link in their own email or "
            "after signing in."
        )
    return "One approval is enough."


def restarts_text(episode: Episode) -> str:
    """Return that others started the instance again after our stops, when, by which tool perhaps,
    and until when nobody is asked after this question, or that people are asked again. Return an
    empty text if that is not the reason for asking."""
    if not is_about_restarts(episode):
        return ""
    until = quiet_after_restarts_until(episode)
    zone = episode.asking.time_zone
    times = episode.asking.others_started_at
    days = list(dict.fromkeys(_day(started_at, zone) for started_at in times))
    tools = [tool.name for tool in other_tools(episode.instance)]
    return first_line_of(
        "restarts",
        often="twice" if len(times) == _TWICE else f"{len(times)} times",
        days=all_listed(days),
        tools=listed(tools, 3),
        until=None if until is None else _day(until, zone),
    )


class ToolsText(NamedTuple):
    """The things that a plan keeps, and the tools that may undo the plan, as lines of lists."""

    kept: tuple[str, ...]
    """Without the tools."""
    next_acts: tuple[str, ...]
    """The next act of each tool, such as `Terraform (ManagedBy=terraform): the next apply creates
    it again`."""


def tools_text(episode: Episode) -> ToolsText:
    """Return what the plan of the episode keeps, and what tools do next that may undo it. The plan
    records both in one list."""
    kept = list(episode.plan.stays)
    next_acts: list[str] = []
    for tool in other_tools(episode.instance):
        next_act = tool.next_act(terminates=episode.plan.destroys)
        line = tool.effect(terminates=episode.plan.destroys)
        # A plan of a release that did not know the tool lacks it.
        if next_act is not None and line in kept:
            kept.remove(line)
            next_acts.append(next_act)
    return ToolsText(tuple(kept), tuple(next_acts))


def launched_text(episode: Episode) -> str:
    """Return who launched the instance and on which day, with the manager that this may be, as a
    sentence; an empty text if that is not known."""
    launch = episode.asking.launched_by
    if launch is None:
        return ""
    who = principal_text(launch.principal)
    day = _day(launch.launched_at, episode.asking.time_zone)
    manager = perhaps_by(names_in(launch.principal))
    if manager is None:
        return f"Launched by {who} on {day}."
    return f"Launched by {who} on {day}, perhaps on behalf of {manager}."


def _day(moment: UtcDatetime, zone: str) -> str:
    """Return the day of a moment in a time zone, such as `Thu Nov 12`."""
    local = moment.astimezone(ZoneInfo(zone))
    return f"{local:%a %b} {local.day}"


def budget_text(episode: Episode) -> str:
    """Return the sentence that only the budget is the reason for asking; an empty text if it is not
    the reason."""
    if not episode.by_budget:
        return ""
    whose = "its project" if episode.project == UNASSIGNED else f"project {episode.project}"
    return f"You are asked because {whose} is over its budget for this month."
