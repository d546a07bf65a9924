"""Promises that hold when all is quiet again: nobody is forgotten, and what is recorded is what
happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from governor.alerts.delivery import DIGEST_PREFIX
from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.policy.rules.consent import StandingVersion
from tests.builders import TARGET
from tests.episodes import ending_of
from tests.soak.cloud import START, Cloud, Press
from tests.soak.faults import CrashPoint, Kind, NoFaults
from tests.soak.promises import (
    HELD,
    When,
    at_end,
    at_end_without_repeats,
    at_press,
    checked,
    promises_of,
)
from tests.soak.truth import ACCEPTED, approvals, deeds, episodes

_STUCK = timedelta(hours=2, minutes=30)
"""A sweep repairs what has stood still for an hour; what is older than this is stuck."""
_OPENS = timedelta(minutes=45)
"""An episode is open after this: late readings may take half an hour."""
_UNDER_WAY = timedelta(minutes=1)
"""How long a call may be under way."""
_TWO_SWEEPS = timedelta(minutes=31)
_OUTCOMES = frozenset({"outcome", "failure"})
_AUDITED_AS = {
    "approve": ("answered", "first yes"),
    "keep": ("answered", "held"),
    "exempt": ("answered", "held"),
    "hold": ("held",),
}
"""How the audit names the document of each answer."""
_ANSWER_NO_QUESTION = frozenset({"undo", "hold", "end-keep"})
"""Calls after an undo or a hold have checks of their own. The end of a keep leaves nothing to
hold."""


def wrong_in_the_end(cloud: Cloud, counts: Counter[str], *, duplicates: bool) -> list[str]:
    """Return which promises of the end are broken, and how."""
    promises = [one for one in promises_of(When.END) if not (duplicates and one.repeats_allowed)]
    return checked(promises, cloud, counts)


def episode_of(cloud: Cloud, press: Press) -> Episode:
    """Return the episode whose question was answered."""
    (episode,) = [one for one in episodes(cloud) if one.approval_id == press.approval_id]
    return episode


@at_press
def what_was_stopped_can_be_started(answered: tuple[Cloud, Press]) -> Iterator[str]:
    """Somebody may start what was stopped by an episode that does no more to it. The page about
    several has no such button."""
    cloud, press = answered
    if press.answer != "undo" or press.approval_id.startswith(DIGEST_PREFIX):
        return
    episode = episode_of(cloud, press)
    instance = cloud.ec2.instances[episode.ref.instance_id]
    is_last = not episode.plan.destroys and bool(deeds(cloud, episode, "stop"))
    is_as_it_was = instance.state == "stopped" and instance.launch_time == episode.ref.launch_time
    may_be_undone = is_last and is_as_it_was and not episode.is_undone
    if press.status == 409 and may_be_undone:
        yield f"{press.by} could not start {instance.instance_id} again at {press.at}"
    else:
        yield HELD


@at_end
def nothing_is_stuck(cloud: Cloud) -> Iterator[str]:
    """An episode is open as long as its workflow runs, and no longer; no message waits for ever."""
    yield HELD
    yield from _dead_workflows(cloud)
    yield from _waiting_messages(cloud)


def _dead_workflows(cloud: Cloud) -> Iterator[str]:
    open_now = {record.open_episode for record in cloud.state.records(TARGET).values()}
    for ref in open_now - {None}:
        assert ref is not None
        run = cloud.runs.get(ref.execution_name)
        if run is None or (run.ended_at is not None and cloud.moment - run.ended_at > _STUCK):
            yield (
                f"{ref.execution_name} is open, and its workflow {'ended' if run else 'never was'}"
            )
    phases = {one.ref.execution_name: one.phase for one in episodes(cloud)}
    for name, run in cloud.runs.items():
        if run.status == "RUNNING" and cloud.moment - run.began_at > _OPENS:
            phase = phases.get(name)
            if phase is None or phase is Phase.CLOSED:
                yield f"the execution {name} runs, and its episode is {phase or 'not opened'}"


def _waiting_messages(cloud: Cloud) -> Iterator[str]:
    for one in cloud.queue.values():
        if cloud.moment - one.sent_at > _STUCK:
            yield f"a message waits in the queue since {one.sent_at}: {one.body[:80]}"
    for pk, sk in cloud.memory.items:
        if pk.startswith("OUTBOX#") and not any(pk[7:] in one.body for one in cloud.queue.values()):
            yield f"the message {sk} waits in the outbox, and nothing will send it"


@at_end
def accepted_answers_hold(cloud: Cloud) -> Iterator[str]:
    """An answer that a person saw accepted is recorded, and holds."""
    questions = approvals(cloud)
    for press in cloud.presses:
        if press.status in ACCEPTED and press.answer not in _ANSWER_NO_QUESTION:
            yield _recorded(cloud, press, questions[press.approval_id])


def _recorded(cloud: Cloud, press: Press, question: Approval) -> str:
    decision = question.decision
    # After a yes, and during the notice of mode auto, a keep and an exemption are brakes.
    holds = question.status is ApprovalStatus.APPROVED or question.hold is not None
    is_brake = holds and press.answer != "approve"
    first = question.first_yes.answer.value if question.first_yes else None
    if not is_brake and press.answer not in (decision.answer.value if decision else None, first):
        return f"{press.by} said {press.answer}, and the record says {question.status.value}"
    if _was_ended(cloud, press):
        return HELD
    hold = cloud.state.record(TARGET, question.episode.instance_id).hold
    if press.answer == "keep" and (hold.snoozed_until or press.at) <= press.at:
        return f"{press.by} said keep, and nothing holds it"
    if press.answer == "exempt" and hold.exempt_reason is None:
        return f"{press.by} exempted it, and nothing holds it"
    return HELD


def _was_ended(cloud: Cloud, answer: Press) -> bool:
    """Return whether somebody who saw this keep or exemption has ended it."""
    by_link = any(
        press.answer == "end-keep"
        and press.status in ACCEPTED
        and press.approval_id == answer.approval_id
        and press.at > answer.at
        for press in cloud.presses
    )
    by_an_admin = any(
        one.status in ACCEPTED and one.shown_at > answer.at for one in cloud.ended_holds
    )
    return by_link or by_an_admin


@at_end
def an_ended_session_decides_nothing(cloud: Cloud) -> Iterator[str]:
    """Whoever has a copy of its cookie and of a form of it changes nothing by them."""
    for form in cloud.forms:
        ended_at = cloud.ended_sessions.get(form.session_id)
        if ended_at is None or ended_at > form.at:
            continue
        if form.status in ACCEPTED:
            yield f"a form was taken at {form.at}, and its session had ended at {ended_at}"
        else:
            yield HELD


@at_end
def questions_answers_and_actions_are_audited(cloud: Cloud) -> Iterator[str]:
    """Each leaves a document outside the table, with who answered."""
    yield from _audited_episodes(cloud)
    yield from _audited_answers(cloud)
    for deed in cloud.deeds:
        if deed.at < START or deed.what not in ("stop", "terminate"):
            continue
        is_audited = any(
            one.what == "step begun" and one.episode == deed.episode and deed.what in one.steps
            for one in cloud.memory.audit
        )
        yield HELD if is_audited else f"the audit does not have the {deed.what} of {deed.at}"


def _audited_episodes(cloud: Cloud) -> Iterator[str]:
    documents = {(one.episode, one.what) for one in cloud.memory.audit}
    for episode in episodes(cloud):
        if episode.opened_at < START:
            continue
        name = episode.ref.execution_name
        needed = {"opened", "question made"}
        if episode.phase is Phase.CLOSED:
            needed.add("closed")
        missing = sorted(what for what in needed if (name, what) not in documents)
        yield f"the audit of {name} lacks: {', '.join(missing)}" if missing else HELD


def _audited_answers(cloud: Cloud) -> Iterator[str]:
    questions = approvals(cloud)
    for press in cloud.presses:
        question = questions.get(press.approval_id)
        words = _AUDITED_AS.get(press.answer)
        if question is None or words is None or press.status not in ACCEPTED:
            continue
        name = question.episode.execution_name
        is_audited = any(
            one.episode == name and one.what in words and press.by in one.who
            for one in cloud.memory.audit
        )
        yield HELD if is_audited else f"the audit lacks the {press.answer} of {press.by}"


@at_end
def a_spot_request_is_its_own(cloud: Cloud) -> Iterator[str]:
    """A Spot request is canceled for the instance that it belongs to, and for no other."""
    for one in cloud.ec2.cancellations:
        is_own = one.owner == one.for_instance
        yield HELD if is_own else f"{one.request_id} of {one.owner} was canceled"


@at_end
def what_was_decided_is_done(cloud: Cloud) -> Iterator[str]:
    """Where nothing fails, and nobody interferes, a story ends as people decided."""
    if cloud.expects is None or not isinstance(cloud.faults, NoFaults):
        return
    outcomes = [one.outcome for one in episodes(cloud) if one.opened_at >= START]
    is_done = bool(outcomes) and outcomes[0] == cloud.expects
    yield HELD if is_done else f"it ended as {', '.join(map(str, outcomes))}, not {cloud.expects}"


@at_end
def too_late_was_too_late(cloud: Cloud) -> Iterator[str]:
    """People who could hold nothing any more were too late: EC2 takes the call by then, if it ever
    does."""
    for press in cloud.unheld:
        episode = episode_of(cloud, press)
        done = deeds(cloud, episode, episode.final_step.value)
        if done and min(done) > press.at + _UNDER_WAY:
            what = f"{episode.final_step.value} of {episode.ref.instance_id}"
            yield (
                f"{press.by} could not hold the {what} at {press.at}, and EC2 took it "
                f"at {min(done)}"
            )
        else:
            yield HELD


@at_end
def people_learn_the_outcome(cloud: Cloud) -> Iterator[str]:
    """People who were asked or notified learn how it ended."""
    for episode in episodes(cloud):
        name = episode.ref.execution_name
        mails = [mail for mail in cloud.mails if mail.episode == name]
        if episode.phase is not Phase.CLOSED or episode.outcome is Outcome.TOLD or not mails:
            continue
        ending = ending_of(episode)
        if cloud.moment - ending.at < timedelta(hours=1):
            continue
        if any(mail.kind in _OUTCOMES for mail in mails):
            yield HELD
        else:
            yield f"{name} ended {episode.outcome}, and nobody was told ({ending.reason})"


@at_end_without_repeats
def messages_come_once(cloud: Cloud) -> Iterator[str]:
    counts = Counter((mail.to, mail.key, mail.episode) for mail in cloud.mails)
    for (to, key, _), count in counts.items():
        yield f"{to} got {key} {count} times" if count > 1 else HELD
    ends = Counter((mail.to, mail.episode) for mail in cloud.mails if mail.kind in _OUTCOMES)
    for (to, name), count in ends.items():
        yield f"{to} was told of the end of {name} {count} times" if count > 1 else HELD


@at_end
def changes_of_the_policy_are_announced(cloud: Cloud) -> Iterator[str]:
    """People get a message about each change of the parameter, within two sweeps in which all
    works."""
    if not cloud.reviews:
        return
    known = [mail.at for mail in cloud.mails if mail.kind == "policy-changed"]
    for number, (changed_at, _) in enumerate(cloud.policies[1:], start=1):
        until = _works_from(cloud, changed_at) + _TWO_SWEEPS
        later = cloud.policies[number + 1 :]
        is_replaced = bool(later) and later[0][0] < until
        if until > cloud.moment or is_replaced:
            continue
        is_known = any(changed_at <= at <= until for at in known)
        yield HELD if is_known else f"nobody was notified of the change of {changed_at}"


def _works_from(cloud: Cloud, moment: datetime) -> datetime:
    """Return the moment itself, or when an outage ends that may come after it."""
    faults = cloud.faults
    if not isinstance(faults, CrashPoint) or not faults.down:
        return moment
    return max(moment, faults.until)


def _version_of_people(cloud: Cloud) -> StandingVersion | None:
    """Return the version that counts; `None` in a story whose people store none."""
    return cloud.state.standing_version() if cloud.documents else None


@at_end
def versions_are_announced_first(cloud: Cloud) -> Iterator[str]:
    """People get a message about a version of the policy before it counts."""
    standing = _version_of_people(cloud)
    if standing is None:
        return
    announced_at = cloud.announced.get(standing.version)
    is_first = announced_at is not None and announced_at <= standing.at
    yield (
        HELD
        if is_first
        else f"{standing.version} counts since {standing.at}: announced {announced_at}"
    )


@at_end
def versions_count_when_they_may(cloud: Cloud) -> Iterator[str]:
    """One that cannot be used never does; a risky one does once two people of the policy stand
    behind it."""
    standing = _version_of_people(cloud)
    if standing is None:
        return
    earliest = cloud.counts_from.get(standing.version)
    may_count = earliest is not None and earliest <= standing.at
    yield (
        HELD
        if may_count
        else f"{standing.version} counts since {standing.at}, and may from {earliest} on"
    )


@at_end
def deletions_are_recorded(cloud: Cloud) -> Iterator[str]:
    """The record says what became of each snapshot, and no more."""
    deleted = {deed.instance_id for deed in cloud.deeds if deed.what == "delete"}
    ended = {one.snapshot_id for one in cloud.state.expiries(TARGET) if one.ended_at is not None}
    if deleted != ended:
        yield f"deleted: {sorted(deleted)}; by the record: {sorted(ended)}"
    else:
        yield HELD


@at_end
def caps_count_what_was_done(cloud: Cloud) -> Iterator[str]:
    """The caps get back each action that EC2 has not done, where nothing fails.

    A call whose answer does not say whether it was carried out stays counted.
    """
    is_quiet = isinstance(cloud.faults, NoFaults) or _only_others_act(cloud)
    if not is_quiet or cloud.ec2.was_unsure:
        return
    done = {(deed.episode, deed.what) for deed in cloud.deeds}
    for (pk, step), item in cloud.memory.items.items():
        name = pk.removeprefix("CAPS#")
        if "attempts" not in item or name == pk:
            continue
        is_done = (name, step) in done
        yield HELD if is_done else f"the {step} of {name} counts, and EC2 has not done it"


def _only_others_act(cloud: Cloud) -> bool:
    return isinstance(cloud.faults, CrashPoint) and cloud.faults.kind is Kind.RIVALS


@at_end
def the_ledger_is_right(cloud: Cloud) -> Iterator[str]:
    """There is one entry for what we put away, none for anything else; it is open while that stays
    away. After a start that fell back, a further entry goes on with it."""
    months = {
        key[0].removeprefix("LEDGER#") for key in cloud.memory.items if key[0].startswith("LEDGER#")
    }
    entries = [entry for month in sorted(months) for entry in cloud.state.entries(month)]
    actions = [entry for entry in entries if not entry.is_continuation]
    booked = Counter(entry.episode.execution_name for entry in actions)
    yield from (f"{name} is booked {count} times" for name, count in booked.items() if count > 1)
    for episode in episodes(cloud):
        if episode.phase is not Phase.CLOSED:
            continue
        mine = [
            e for e in entries if e.episode.execution_name == episode.ref.execution_name and e.ours
        ]
        yield _booked(cloud, episode, mine[0].outcome.value if mine else None)
    for entry in entries:
        instance = cloud.ec2.instances[entry.episode.instance_id]
        runs = instance.state == "running"
        if entry.outcome is Outcome.STOPPED and entry.ours and runs and entry.ended_at is None:
            yield f"{entry.episode.execution_name} saves, and its instance runs again"


def _booked(cloud: Cloud, episode: Episode, found: str | None) -> str:
    """Compare what is booked for an episode with what it did."""
    name = episode.ref.execution_name
    done = {deed.what for deed in cloud.deeds if deed.episode == name}
    wanted = "terminated" if "terminate" in done else "stopped" if "stop" in done else None
    state = cloud.ec2.instances[episode.ref.instance_id].state
    if found is None and "terminate" not in done and state == "terminated":
        return HELD  # gone before it could be booked: it saves nothing any more
    if wanted != found:
        return f"{name} was {wanted or 'not put away'}, and {found or 'nothing'} is booked"
    return HELD
