"""Promises that hold at every call of EC2, whatever fails. Each is named in a row of
`docs/trust.md`.

`watch` has them checked while a story is played, `after` when all is quiet again. The checks of the
end are in `endings.py`. A new invariant takes a function here or there, and its name in the last
column of the table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from governor.approvals.rules.approval import acts_by_itself
from governor.core.instance import DELETE_AFTER_TAG, EPISODE_TAG, EXEMPTION_TAG
from governor.core.units import parse_iso
from governor.episode.model.episode import Phase
from governor.episode.model.plan import Step
from governor.evidence.rules.series import LONGEST_HOLE
from governor.policy.model.policy import Mode
from tests.builders import TARGET
from tests.soak import endings
from tests.soak.cloud import Cloud, Press, Sent
from tests.soak.endings import episode_of
from tests.soak.promises import HELD, When, at_call, checked, promises_of
from tests.soak.readings import MINUTE
from tests.soak.truth import NOES, Call, noes
from tests.soak.truth import approvals as approvals
from tests.soak.truth import episodes as episodes

_DESTROYS = ("stop", "terminate", "cancel")
_OF_A_PLAN = (*_DESTROYS, "snapshot")
_WEEK = timedelta(days=7)
_HOUR = timedelta(hours=1)
_SLACK = timedelta(minutes=1)
"""Between a moment of a story and the same moment as the system counts it."""
_ALIVE = timedelta(minutes=15)
"""The newest reading of an agent that is alive: two periods of five minutes, the lag, and a
delay."""
_LONGEST_HOLE_UNSEEN = LONGEST_HOLE + timedelta(minutes=11)
"""A hole may begin and end within two periods, each of which holds a reading."""
_RECHECK_HOLDS = timedelta(minutes=5)
"""Between the end of a recheck and the call that it let through."""
_REFUSALS_UNKNOWN = timedelta(minutes=10)
"""The last minutes before a call, of which nobody can know yet whether answers were refused."""
_RETRIES = timedelta(minutes=15)
"""By which the stages of a question may be earlier than planned, for retries of its tasks."""
_MANAGERS = ("aws:autoscaling:groupName", "aws:eks:cluster-name", "karpenter.sh/nodepool")


def watch(cloud: Cloud) -> None:
    """Check every call at the moment when it is sent, and every answer of a person."""
    cloud.on_sent = partial(_check_call, cloud)
    cloud.on_press = partial(_check_press, cloud)


def _check_call(cloud: Cloud, sent: Sent) -> None:
    call = Call(cloud, sent, cloud.inside[-1][0] if cloud.inside else "")
    promises = promises_of(When.CALL, sent.what)
    for wrong in checked(promises, call, cloud.checked):
        cloud.violations.append(f"{wrong} ({sent.what} of {sent.instance_id} at {sent.at})")


def _check_press(cloud: Cloud, press: Press) -> None:
    cloud.violations += checked(promises_of(When.PRESS), (cloud, press), cloud.checked)
    approval = cloud.state.approval(press.approval_id)
    if (
        press.answer not in NOES
        or press.status != 409
        or approval is None
        or approval.hold is not None
    ):
        return
    if acts_by_itself(episode_of(cloud, press), approval, cloud.moment):
        cloud.unheld.append(press)


def after(
    cloud: Cloud, *, duplicates: bool = False, counts: Counter[str] | None = None
) -> list[str]:
    """Return what is wrong when all is quiet again. `duplicates`: messages may have come twice.
    `counts`, if given, counts what was checked."""
    counted = Counter() if counts is None else counts
    return [*cloud.violations, *endings.wrong_in_the_end(cloud, counted, duplicates=duplicates)]


# every attempt


@at_call(*_OF_A_PLAN)
def an_open_episode_stands_behind_it(call: Call) -> Iterator[str]:
    if not call.is_of_a_plan:
        return
    if call.episode is None:
        yield "no episode is open"
    elif call.episode.phase is Phase.CLOSED:
        yield "its episode is closed"
    elif call.step not in call.episode.plan.steps:
        yield f"the plan has no {call.step.value}"
    else:
        yield HELD


@at_call(*_DESTROYS)
def each_attempt_is_rechecked(call: Call) -> Iterator[str]:
    """A recheck lets one attempt through, whatever became of the attempt before."""
    found = call.rechecks()
    if not found:
        yield "no recheck let this attempt through"
    elif call.at - found[-1].at > _RECHECK_HOLDS:
        yield f"its recheck ended at {found[-1].at}"
    else:
        yield HELD


@at_call("stop", "terminate")
def nothing_is_done_twice(call: Call) -> Iterator[str]:
    """A step that took effect is not sent again."""
    done = [
        deed.at
        for deed in call.cloud.deeds
        if deed.episode == call.sent.episode and deed.what == call.sent.what
    ]
    yield f"EC2 took it at {done[0]}" if done else HELD


@at_call(*_DESTROYS)
def it_is_the_same_run(call: Call) -> Iterator[str]:
    """The instance was not started since people were asked, and is no other one with its id."""
    if call.episode is None:
        return
    if call.instance is None:
        yield "there is no such instance"
    elif call.instance.launch_time != call.episode.ref.launch_time:
        yield f"it was started at {call.instance.launch_time}"
    else:
        yield HELD


@at_call(*_DESTROYS)
def it_is_the_same_machine(call: Call) -> Iterator[str]:
    """Type and volumes are those that people read of."""
    shown = call.shown
    if shown is None or shown.instance is None or call.instance is None:
        return
    before = {one.volume_id: one.delete_on_termination for one in shown.instance.volumes}
    now = {one.volume_id: one.delete_on_termination for one in call.instance.volumes}
    changed = sorted(one for one in now if now[one] != before.get(one))
    if call.instance.instance_type != shown.instance.instance_type:
        yield f"its type is {call.instance.instance_type}"
    elif changed:
        yield f"people did not read of the volume {', '.join(changed)} as it is"
    else:
        yield HELD


@at_call(*_DESTROYS)
def it_rests_on_what_people_saw(call: Call) -> Iterator[str]:
    """The evidence of the episode is the one that its first message was about."""
    if (
        call.shown is None
        or call.shown.evidence is None
        or call.episode is None
        or call.is_interfered
    ):
        return
    is_same = call.episode.measurement.evidence == call.shown.evidence
    yield HELD if is_same else "its evidence was changed since people saw it"


@at_call(*_DESTROYS)
def it_has_the_same_owner(call: Call) -> Iterator[str]:
    shown = call.shown
    if shown is None or shown.instance is None or call.instance is None:
        return
    changed = [
        key
        for key in ("Owner", "Project")
        if call.instance.tags.get(key) != shown.instance.tags.get(key)
    ]
    yield f"its tags {', '.join(changed)} were changed" if changed else HELD


@at_call(*_DESTROYS)
def the_plan_is_the_one_people_read(call: Call) -> Iterator[str]:
    """The policy still wants what it wanted when people read of it, and no more."""
    then, now = (rules.get("plan.action") for rules in call.both)
    if call.episode is not None and call.episode.stopped_by_episode is not None:
        asks = call.now.get("approval.ask_about_stopped_after_days")
        yield "nobody is asked about stopped instances" if asks is None else HELD
        return
    yield f"the policy wants {now} instead of {then}" if now != then else HELD


@at_call(*_DESTROYS)
def managed_is_left_alone(call: Call) -> Iterator[str]:
    if call.instance is None:
        return
    marks = [key for key in _MANAGERS if key in call.instance.tags]
    yield f"another service runs it ({marks[0]})" if marks else HELD


@at_call(*_DESTROYS)
def warned_is_left_alone(call: Call) -> Iterator[str]:
    """EC2 has said that it takes the instance back, and it saves its work."""
    if call.is_interfered:
        return
    record = call.cloud.state.record(TARGET, call.sent.instance_id)
    yield "EC2 takes it back, and its work is being saved" if record.is_warned(call.at) else HELD


@at_call(*_DESTROYS)
def nothing_during_a_freeze(call: Call) -> Iterator[str]:
    began_before = call.sent.seen.at
    for began, until in call.cloud.freezes:
        if began <= began_before and (until is None or until > call.at):
            yield f"everything is frozen since {began}"
            return
    lifted = call.now.get("breaker.lift_freezes_before")
    stored = [call.cloud.state.hub().freeze, call.cloud.state.breaker(TARGET)]
    for freeze in stored:
        is_over = (
            lifted is not None and freeze is not None and freeze.tripped_at < parse_iso(lifted)
        )
        if freeze is not None and freeze.tripped_at <= began_before and not is_over:
            yield f"the breaker is open since {freeze.tripped_at}"
            return
    yield HELD


@at_call(*_DESTROYS, "delete")
def nothing_during_a_pause(call: Call) -> Iterator[str]:
    """Somebody has paused everything: before a stop is sent, or before the function of another call
    began."""
    known_by = call.at if call.sent.what == "stop" else call.sent.seen.at
    paused = [at for at in call.cloud.pauses if at <= known_by]
    yield f"everything is paused since {paused[0]}" if paused else HELD


@at_call("stop", "terminate")
def within_the_caps(call: Call) -> Iterator[str]:
    """In no sixty minutes does EC2 take more than the policy lets begin."""
    owner = call.now.tags.get("Owner")
    done = {(deed.episode, deed.what) for deed in _deeds_of_an_hour(call, None)}
    of_the_owner = {(deed.episode, deed.what) for deed in _deeds_of_an_hour(call, owner)}
    mine = (call.sent.episode, call.sent.what)
    # All instances of the stories are in one account.
    for count, cap in (
        (len(done | {mine}), "organization_actions_per_hour"),
        (len(done | {mine}), "account_actions_per_hour"),
        (len(of_the_owner | {mine}), "owner_actions_per_hour"),
    ):
        most = call.now.get(f"caps.{cap}")
        if count > most:
            yield f"it is number {count} within an hour, and caps.{cap} is {most}"
            return
    yield HELD


def _deeds_of_an_hour(call: Call, owner: str | None) -> Iterator[Sent]:
    """Yield what EC2 took in the hour before, of this owner's instances if one is given."""
    taken = {(deed.episode, deed.what) for deed in call.cloud.deeds}
    for one in call.cloud.sent:
        if one.what not in ("stop", "terminate") or (one.episode, one.what) not in taken:
            continue
        instance = one.seen.instances.get(one.instance_id)
        is_theirs = owner is None or (instance is not None and instance.tags.get("Owner") == owner)
        if is_theirs and call.at - one.at < _HOUR:
            yield one


# what the instance does


@at_call(*_DESTROYS)
def work_keeps_it(call: Call) -> Iterator[str]:
    """No GPU works, as far as anybody could know: a reading that shows work had come."""
    if not call.runs:
        return
    threshold = call.now.get("idle.utilization_below_percent")
    yield _work(call, threshold)


@at_call(*_DESTROYS)
def loosening_changes_nothing(call: Call) -> Iterator[str]:
    """Work by the policy of the question is work now, whatever the policy has become."""
    if not call.runs or call.then.text == call.now.text:
        return
    yield _work(call, min(rules.get("idle.utilization_below_percent") for rules in call.both))


def _work(call: Call, threshold: float) -> str:
    worked = call.cloud.metrics.known_work(
        call.sent.instance_id, call.looked_at_since, call.known_by, threshold
    )
    return HELD if worked is None else f"it worked at {worked}, and that was known"


@at_call(*_DESTROYS)
def silence_is_not_idleness(call: Call) -> Iterator[str]:
    """The agent is alive, and was: no reading, no idleness."""
    if not call.runs:
        return
    metrics, since = call.cloud.metrics, call.looked_at_since
    newest = metrics.newest_reading(call.sent.instance_id, since, call.known_by)
    if newest is None or newest < call.at - _ALIVE:
        yield f"its agent has published nothing since {newest}"
        return
    hole = metrics.longest_hole(call.sent.instance_id, since, newest)
    yield f"nothing was published for {hole}" if hole > _LONGEST_HOLE_UNSEEN else HELD


@at_call(*_DESTROYS)
def acts_unasked_on_fresh_readings_only(call: Call) -> Iterator[str]:
    """Where nobody has said yes, the newest reading is at most one period of five minutes older."""
    if not call.runs or call.yes:
        return
    period = timedelta(seconds=call.now.get("metrics.period_seconds"))
    oldest = timedelta(minutes=5) if period <= MINUTE else timedelta(minutes=10)
    newest = call.cloud.metrics.newest_reading(call.sent.instance_id, call.looked_at_since, call.at)
    is_fresh = newest is not None and newest >= call.at - oldest - _SLACK
    yield HELD if is_fresh else f"its newest reading is of {newest}"


@at_call(*_DESTROYS)
def somebody_logged_in_keeps_it(call: Call) -> Iterator[str]:
    since = call.cloud.logins.get(call.sent.instance_id)
    if not call.runs:
        return
    hours = call.now.get("vetoes.session_younger_than_hours")
    is_known = since is not None and call.at - timedelta(hours=hours) < since <= call.known_by
    yield f"somebody is logged in since {since}" if is_known else HELD


@at_call("terminate")
def what_runs_again_is_not_ended(call: Call) -> Iterator[str]:
    """An instance that is stopped first does not run when it is terminated."""
    if call.episode is None or Step.STOP not in call.episode.plan.steps:
        return
    yield "it runs again" if call.runs else HELD


# what people and the policy say


@at_call(*_OF_A_PLAN)
def only_governed_places(call: Call) -> Iterator[str]:
    if not call.is_of_a_plan:
        return
    accounts = call.now.get("targets.accounts")
    key, value = call.now.get("selector.tag_key"), call.now.get("selector.tag_value")
    if accounts and TARGET.account not in accounts:
        yield f"the policy names {', '.join(accounts)} alone"
    elif call.now.tags.get(key) != value:
        yield f"it does not carry {key}={value}"
    else:
        yield HELD


@at_call(*_OF_A_PLAN)
def exempt_is_left_alone(call: Call) -> Iterator[str]:
    """Any value of the exemption tag keeps it, however its key is spelled."""
    if not call.is_of_a_plan or _is_after_the_stop(call):
        return
    wanted = _letters(call.now.get("exemption.tag_key"))
    found = [key for key in call.now.tags if _letters(key) == wanted]
    yield f"it carries {found[0]}={call.now.tags[found[0]]}" if found else HELD


def _letters(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _is_after_the_stop(call: Call) -> bool:
    """Return whether it only keeps a copy of what is stopped already, which destroys nothing."""
    return call.sent.what == "snapshot" and call.stopped_at() is not None


@at_call(*_OF_A_PLAN)
def observe_changes_nothing(call: Call) -> Iterator[str]:
    if not call.is_of_a_plan:
        return
    is_observed = call.episode is not None and call.episode.mode is Mode.OBSERVE
    modes = [rules.get("mode") for rules in call.both]
    yield "the mode is observe" if is_observed or "observe" in modes else HELD


@at_call(*_OF_A_PLAN)
def a_no_holds(call: Call) -> Iterator[str]:
    """Nobody has said no and saw it accepted, not even while this invocation ran before its final
    call."""
    if not call.is_of_a_plan or call.episode is None:
        return
    is_last = call.sent.what == call.episode.final_step.value
    refusals = noes(call.cloud, call.episode, call.at if is_last else call.sent.seen.at)
    yield f"{refusals[0].by} has said {refusals[0].answer}" if refusals else HELD


@at_call(*_OF_A_PLAN)
def stored_holds_are_obeyed(call: Call) -> Iterator[str]:
    """No keep and no exemption of this instance is stored."""
    if (
        not call.is_of_a_plan
        or call.episode is None
        or _is_after_the_stop(call)
        or call.is_interfered
    ):
        return
    # One that came while this invocation ran may be stored, and too late.
    if any(press.answer in NOES and press.at >= call.sent.seen.at for press in _presses(call)):
        return
    exempt, kept_until = call.record_of_holds()
    if exempt is not None:
        yield f"it is exempt: {exempt}"
    elif kept_until is not None and kept_until > call.at:
        yield f"it is kept until {kept_until}"
    else:
        yield HELD


def _presses(call: Call) -> list[Press]:
    approval_id = call.episode.approval_id if call.episode else ""
    return [press for press in call.cloud.presses if press.approval_id == approval_id]


@at_call(*_OF_A_PLAN)
def enough_people_said_yes(call: Call) -> Iterator[str]:
    """One for a stop, two for a termination, each of them somebody else."""
    if not call.is_of_a_plan or not call.asks or _acts_on_silence(call):
        return
    said = {press.by for press in call.yes}
    yield (
        HELD
        if len(said) >= call.people_needed
        else f"{len(said)} of {call.people_needed} have approved it"
    )


@at_call(*_OF_A_PLAN)
def only_people_of_the_policy_decide(call: Call) -> Iterator[str]:
    """Enough people of the policy that it was asked under have said yes."""
    if not call.is_of_a_plan or not call.asks or _acts_on_silence(call):
        return
    known = {press.by for press in call.yes} & call.then.people()
    yield (
        HELD if len(known) >= call.people_needed else f"{len(known)} known people have approved it"
    )


@at_call(*_OF_A_PLAN)
def people_who_left_decide_nothing(call: Call) -> Iterator[str]:
    """Enough of those who said yes are people of the policy still."""
    if not call.is_of_a_plan or not call.asks or _acts_on_silence(call):
        return
    left = {press.by for press in call.yes} & call.then.people() & call.now.people()
    yield HELD if len(left) >= call.people_needed else f"{len(left)} people of today approved it"


@at_call("terminate")
def a_termination_is_typed(call: Call) -> Iterator[str]:
    """People who said yes to it have typed the id of the instance."""
    if not call.asks:
        return
    typed = {
        press.by
        for press in call.yes
        if press.fields.get("typed_instance_id") == call.sent.instance_id
    }
    yield HELD if len(typed) >= call.people_needed else f"{len(typed)} people typed its id"


def _acts_on_silence(call: Call) -> bool:
    """Return whether nobody's answer may pass for a yes, then and now."""
    if call.yes or call.episode is None or call.episode.plan.destroys:
        return False
    return all(rules.get("approval.on_expiry") == "act" for rules in call.both)


@at_call("terminate", "cancel")
def silence_never_terminates(call: Call) -> Iterator[str]:
    if not call.asks:
        return
    yield "nobody has said yes" if call.is_silent else HELD


@at_call("stop", "snapshot")
def silence_needs_its_messages(call: Call) -> Iterator[str]:
    """Both the question and the escalation were delivered, and people had the time of both to
    answer."""
    if not call.is_of_a_plan or not call.is_silent or call.is_begun or not _acts_on_silence(call):
        return
    asked = min(call.mails("approval-requested"), default=None)
    escalated = min(call.mails("approval-escalation"), default=None)
    if asked is None or escalated is None:
        yield "nobody got " + ("the question" if asked is None else "the escalation")
        return
    minutes = ("remind_after_minutes", "escalate_after_minutes", "expire_after_minutes")
    given = sum(call.then.get(f"approval.{one}") for one in minutes)
    is_over = call.at - asked >= timedelta(minutes=given) - _RETRIES
    yield HELD if is_over else f"they had {call.at - asked} to answer, not {given} minutes"


@at_call("stop")
def snapshots_are_rehearsed_before_a_stop(call: Call) -> Iterator[str]:
    """Nothing is stopped while EC2 refuses the snapshots that follow."""
    if call.is_of_a_plan:
        yield "EC2 refuses its snapshots" if call.cloud.ec2.refuses_snapshots else HELD


@at_call("stop", "terminate", "snapshot")
def nobody_was_refused_meanwhile(call: Call) -> Iterator[str]:
    """Where nobody has said yes, the page was there for people for the whole time that they had."""
    if not call.is_of_a_plan or call.yes or call.is_begun:
        return
    if call.asks:
        since = min(call.mails("approval-requested"), default=call.at)
    else:
        minutes = max(rules.get("approval.notice_minutes") for rules in call.both)
        since = call.at - timedelta(minutes=minutes)
    refused = [one for one in call.cloud.refusals if since < one < call.at - _REFUSALS_UNKNOWN]
    yield f"the page was down at {refused[0]}, and nobody could hold it" if refused else HELD


def _acts_by_notice(call: Call) -> bool:
    """Return whether it is done without a question."""
    return call.is_of_a_plan and not call.asks


@at_call(*_OF_A_PLAN)
def auto_gives_notice(call: Call) -> Iterator[str]:
    """Its people have had the message for the whole notice period."""
    if not _acts_by_notice(call) or call.is_begun:
        return
    told = min(call.mails("idle-found"), default=None)
    minutes = max(rules.get("approval.notice_minutes") for rules in call.both)
    if told is None:
        yield "nobody was notified"
    elif call.at - told < timedelta(minutes=minutes) - _SLACK:
        yield f"its owner was notified at {told}"
    else:
        yield HELD


@at_call(*_OF_A_PLAN)
def auto_needs_trusted_publishers(call: Call) -> Iterator[str]:
    if not _acts_by_notice(call):
        return
    is_trusted = call.now.get("metrics.publishers_are_trusted")
    yield HELD if is_trusted else "anybody may publish metrics for it"


@at_call("terminate", "cancel")
def auto_terminates_by_two_people(call: Call) -> Iterator[str]:
    """An override for a tag of it allows that, and two people of the policy have accepted it
    themselves."""
    if not _acts_by_notice(call):
        return
    behind: set[str] = set()
    for override in call.now.overrides():
        if override["set"].get("mode") == "auto" and override.get("match", {}).get("tags"):
            named = set(override.get("approved_by", ())) & call.now.people()
            behind |= named & call.cloud.acceptances
    yield HELD if len(behind) >= 2 else f"{len(behind)} people stand behind it"


# what is lost


@at_call("terminate")
def nothing_ends_unsaved(call: Call) -> Iterator[str]:
    """Every volume has a completed snapshot of this episode, begun when nothing was written any
    more; where the instance cannot be stopped, after the yes, and not long ago."""
    if call.episode is None or call.instance is None or call.is_interfered:
        return
    since = _saved_since(call)
    saved = {
        snapshot.volume_id
        for snapshot, tags in call.cloud.ec2.snapshots.values()
        if tags.get(EPISODE_TAG) == call.sent.episode
        and snapshot.state == "completed"
        and since is not None
        and call.cloud.ec2.began[snapshot.snapshot_id] >= since
    }
    missing = sorted({volume.volume_id for volume in call.instance.volumes} - saved)
    yield f"no completed snapshot of {', '.join(missing)}" if missing else HELD


def _saved_since(call: Call) -> datetime | None:
    """Return from when on a snapshot counts."""
    if call.episode is not None and Step.STOP in call.episode.plan.steps:
        return call.stopped_at()
    minutes = min(rules.get("plan.running_snapshot_valid_minutes") for rules in call.both)
    oldest = call.at - timedelta(minutes=minutes) - _SLACK
    first_yes = min((press.at for press in call.yes), default=None)
    return oldest if first_yes is None else max(oldest, first_yes)


@at_call("terminate")
def nothing_ends_without_its_user_data(call: Call) -> Iterator[str]:
    if call.episode is None or call.is_interfered:
        return
    kept = call.episode.progress.user_data.kept_at if call.episode.progress.user_data else ""
    copy = call.cloud.vault.copies.get(kept)
    is_kept = copy == call.cloud.ec2.user_data(TARGET, call.sent.instance_id)
    yield HELD if is_kept else "no copy of its user data"


@at_call("delete")
def snapshots_stay_while_needed(call: Call) -> Iterator[str]:
    """Nobody needs it any more, its owner has known for a week, and nothing keeps it."""
    cloud, snapshot_id = call.cloud, call.sent.instance_id
    owners = [one for one in episodes(cloud) if snapshot_id in one.progress.snapshots]
    if len(owners) != 1 or owners[0].phase is not Phase.CLOSED:
        yield f"{len(owners)} episodes have recorded it, or its own is open"
        return
    instance = cloud.ec2.instances[owners[0].ref.instance_id]
    known = [mail.at for mail in cloud.mails if mail.kind == "snapshots-expire"]
    stored = cloud.ec2.snapshots.get(snapshot_id)
    if not known or min(known) + _WEEK > call.at:
        yield "its owner has not known for a week"
    elif instance.state == "terminated":
        yield "it is of the last set of a terminated instance"
    elif instance.tags.get(EXEMPTION_TAG) is not None:
        yield "its instance is exempt"
    elif "mode: observe" in call.sent.seen.policy:
        yield "the mode is observe"
    elif stored is not None and parse_iso(stored[1][DELETE_AFTER_TAG]) > call.at:
        yield "its tag keeps it"
    else:
        yield HELD
