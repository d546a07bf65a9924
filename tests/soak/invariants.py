"""Promises that hold whatever fails. Each function returns what is wrong, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from governor.domain.alerts.alert import DIGEST_PREFIX, AlertKind
from governor.domain.approvals.approval import Approval, ApprovalStatus, acts_by_itself
from governor.domain.episode.episode import Episode, Outcome, Phase
from governor.domain.episode.plan import Step
from governor.domain.instance import DELETE_AFTER_TAG, EPISODE_TAG, EXEMPTION_TAG
from governor.domain.policy.policy import Mode
from governor.domain.units import parse_iso
from tests.builders import TARGET
from tests.soak.cloud import Cloud, Deed, Press
from tests.soak.parts import records_of

_ANSWERED = frozenset({200, 302, 303})
_STUCK = timedelta(hours=2, minutes=30)
"""A sweep repairs what has stood still for an hour; what is older than this is stuck."""
_OPENS = timedelta(minutes=45)
"""An episode is open after this: late readings may take half an hour."""
_NOTICE, _UNKNOWN = timedelta(hours=1), timedelta(minutes=10)
"""How long people can hold what mode auto does; the last minutes before a call, which nobody can know yet."""
_WEEK = timedelta(days=7)
_UNDER_WAY = timedelta(minutes=1)
"""How long a call may be under way."""
_HOLDS = frozenset({"keep", "exempt", "hold"})
_OUTCOMES = frozenset({"outcome", "failure"})


def watch(cloud: Cloud) -> None:
    """Check every call at the moment when EC2 accepts it."""
    cloud.on_deed = partial(_check, cloud)
    cloud.on_press = partial(_check_press, cloud)


def _check(cloud: Cloud, deed: Deed) -> None:
    cloud.violations.extend(_unsafe(cloud, deed))


def _check_press(cloud: Cloud, press: Press) -> None:
    cloud.violations.extend(_no_way_back(cloud, press))
    approval = cloud.state.approval(press.approval_id)
    if press.answer not in _HOLDS or press.status != 409 or approval is None or approval.brake is not None:
        return
    if acts_by_itself(_episode_of(cloud, press), approval, cloud.moment):
        cloud.unheld.append(press)


def after(cloud: Cloud, *, duplicates: bool = False) -> list[str]:
    """Return what is wrong when all is quiet again. `duplicates`: messages may have come twice."""
    found = [
        *cloud.violations,
        *_stuck(cloud),
        *_lost_answers(cloud),
        *_too_late(cloud),
        *_untold(cloud),
        *_ledger(cloud),
        *_deletions(cloud),
    ]
    return [*found, *([] if duplicates else _twice(cloud))]


def episodes(cloud: Cloud) -> list[Episode]:
    """All episodes that were opened."""
    items = [item for key, item in cloud.memory.items.items() if key[1] == "EPISODE"]
    return list(records_of(Episode, items))


def approvals(cloud: Cloud) -> dict[str, Approval]:
    """All questions, by id."""
    items = [item for key, item in cloud.memory.items.items() if key[1] == "REQUEST"]
    return {one.approval_id: one for one in records_of(Approval, items)}


# at the call


def _unsafe(cloud: Cloud, deed: Deed) -> Iterator[str]:
    if deed.what == "start":
        return
    name = f"{deed.what} of {deed.instance_id} at {deed.at}"
    if deed.what == "delete":
        yield from (f"{name}: {why}" for why in _wanted(cloud, deed))
        return
    if deed.what == "snapshot" and cloud.inside[-1][0] != "take_snapshot":
        return  # before an interruption; nothing is destroyed by it
    stored = [one for one in episodes(cloud) if one.ref.execution_name == deed.episode]
    if not stored:
        yield f"{name}: no episode is open"
        return
    (episode,) = stored
    if episode.phase is Phase.CLOSED:
        yield f"{name}: its episode is closed"
    if episode.mode is Mode.OBSERVE:
        yield f"{name}: the mode is observe"
    yield from (f"{name}: {why}" for why in _unheard(cloud, episode, deed))
    yield from (f"{name}: {why}" for why in _kept(cloud, episode, deed))
    record = cloud.state.record(TARGET, deed.instance_id)
    if deed.what != "snapshot" and record.is_warned(deed.at):
        yield f"{name}: EC2 takes it back, and its work is being saved"
    if deed.what == "terminate":
        yield from (f"{name}: {why}" for why in _unsaved(cloud, episode, deed))
        began, until = cloud.ec2.ran[deed.instance_id][-1]
        if Step.STOP in episode.plan.steps and until is None and began <= cloud.began[-1]:
            yield f"{name}: it runs since {began}"


def _wanted(cloud: Cloud, deed: Deed) -> Iterator[str]:
    """Yield why a snapshot had to stay: nobody knew for a week, or the only copy of what is gone."""
    owners = [one for one in episodes(cloud) if deed.instance_id in one.snapshots]
    if len(owners) != 1 or owners[0].phase is not Phase.CLOSED:
        yield f"{len(owners)} episodes have recorded it, or its own is open"
        return
    known = [mail.at for mail in cloud.mails if mail.kind == AlertKind.SNAPSHOTS_EXPIRE]
    if not known or min(known) + _WEEK > deed.at:
        yield "its owner has not known for a week"
    instance = cloud.ec2.instances[owners[0].ref.instance_id]
    if instance.state == "terminated":
        yield "it is of the last set of a terminated instance"
    if instance.tags.get(EXEMPTION_TAG) is not None:
        yield "its instance is exempt"
    if "mode: observe" in cloud.policy:
        yield "the mode is observe"
    _, tags = cloud.ec2.lost[deed.instance_id]
    if parse_iso(tags[DELETE_AFTER_TAG]) > deed.at:
        yield "its tag keeps it"


def _kept(cloud: Cloud, episode: Episode, deed: Deed) -> Iterator[str]:
    """Yield whether what is stored forbids it."""
    stopped = any(one.what == "stop" and one.episode == deed.episode for one in cloud.deeds)
    if deed.what == "snapshot" and stopped:
        return  # what came too late for the stop is stored, and what is stopped gets its copy
    hold = cloud.state.record(TARGET, deed.instance_id).hold
    # One that is refused because the call has begun is stored all the same.
    in_the_middle = len(_noes(cloud, episode)) > len(_noes(cloud, episode, deed)) or any(
        one.at >= cloud.began[-1] for one in _refused(cloud, episode)
    )
    if hold.exempt_reason is not None and not in_the_middle:
        yield "it is exempt"
    if hold.snoozed_until is not None and hold.snoozed_until > deed.at and not in_the_middle:
        yield f"it is kept until {hold.snoozed_until}"


def _unheard(cloud: Cloud, episode: Episode, deed: Deed) -> Iterator[str]:
    """Yield whether somebody said yes, or knew, as people themselves remember it."""
    mails = [mail for mail in cloud.mails if mail.episode == episode.ref.execution_name]
    if no := _noes(cloud, episode, deed):
        yield f"{no[0].by} has said {no[0].answer}"
    if episode.mode is Mode.AUTO:
        if not any(mail.kind == "idle-found" for mail in mails):
            yield "nobody was notified"
        if deed.what == "terminate":
            yield "it is terminated without an answer"
        is_first = not any(one.episode == deed.episode for one in cloud.deeds if one is not deed)
        if is_first and any(deed.at - _NOTICE < one < deed.at - _UNKNOWN for one in cloud.refusals):
            yield "the page was down in the notice, and nobody could hold it"
        return
    presses = [one for one in cloud.presses if one.approval_id == episode.approval_id]
    if len({one.by for one in presses if one.answer == "approve"}) >= (2 if deed.what == "terminate" else 1):
        return
    if not episode.acts_on_silence or deed.what == "terminate":
        yield "nobody has approved it"
    elif missing := {"approval-requested", "approval-escalation"} - {mail.kind for mail in mails}:
        yield f"silence is taken for a yes, and nobody got {', '.join(sorted(missing))}"


def _noes(cloud: Cloud, episode: Episode, deed: Deed | None = None) -> list[Press]:
    """Return who has said no and saw it accepted; in time for a deed, if one is given.

    A no in the middle of a step's own call counts from the next step on, and is refused where there is none.
    """
    is_last = deed is not None and deed.what == episode.final_step.value
    until = cloud.moment if deed is None or is_last else cloud.began[-1]
    return [
        one
        for one in cloud.presses
        if one.approval_id == episode.approval_id
        and one.answer in _HOLDS
        and one.status in _ANSWERED
        and one.at <= until
    ]


def _refused(cloud: Cloud, episode: Episode) -> list[Press]:
    """Return who has said no and was refused."""
    return [
        one
        for one in cloud.presses
        if one.approval_id == episode.approval_id and one.answer in _HOLDS and one.status == 409
    ]


def _no_way_back(cloud: Cloud, press: Press) -> Iterator[str]:
    """Yield whether somebody may not start what was stopped by an episode that does no more to it. A page
    about several has no such button."""
    if press.answer != "undo" or press.status != 409 or press.approval_id.startswith(DIGEST_PREFIX):
        return
    episode = _episode_of(cloud, press)
    instance = cloud.ec2.instances[episode.ref.instance_id]
    is_last = not episode.plan.destroys and _deeds(cloud, episode, "stop")
    is_as_it_was = instance.state == "stopped" and instance.launch_time == episode.ref.launch_time
    if is_last and is_as_it_was and episode.undone_at is None:
        yield f"{press.by} could not start {instance.instance_id} again at {press.at}"


def _episode_of(cloud: Cloud, press: Press) -> Episode:
    (episode,) = [one for one in episodes(cloud) if one.approval_id == press.approval_id]
    return episode


def _deeds(cloud: Cloud, episode: Episode, what: str) -> list[datetime]:
    name = episode.ref.execution_name
    return [one.at for one in cloud.deeds if one.episode == name and one.what == what]


def _unsaved(cloud: Cloud, episode: Episode, deed: Deed) -> Iterator[str]:
    """Yield whether every volume has a completed snapshot of this episode, begun when nothing was written any
    more, or after the yes where it cannot be stopped."""
    name = episode.ref.execution_name
    began = [
        one.at
        for one in cloud.deeds
        if one.what == "stop" and one.episode == name and Step.STOP in episode.plan.steps
    ]
    began = began or [one.at for one in cloud.presses if one.approval_id == episode.approval_id]
    saved = {
        snapshot.volume_id
        for snapshot, tags in cloud.ec2.snapshots.values()
        if tags.get(EPISODE_TAG) == name
        and snapshot.state == "completed"
        and began
        and cloud.ec2.began[snapshot.snapshot_id] >= min(began)
    }
    wanted = {volume.volume_id for volume in cloud.ec2.instances[deed.instance_id].volumes}
    if missing := sorted(wanted - saved):
        yield f"no completed snapshot of {', '.join(missing)}"
    kept = episode.user_data.kept_at if episode.user_data else ""
    if cloud.vault.copies.get(kept) != cloud.ec2.user_data(TARGET, deed.instance_id):
        yield "no copy of its user data"


# in the end


def _stuck(cloud: Cloud) -> Iterator[str]:
    yield from _dead_workflows(cloud)
    yield from _waiting_messages(cloud)


def _dead_workflows(cloud: Cloud) -> Iterator[str]:
    """An episode is open as long as its workflow runs, and no longer."""
    open_now = {record.open_episode for record in cloud.state.records(TARGET).values()}
    for ref in open_now - {None}:
        assert ref is not None
        run = cloud.runs.get(ref.execution_name)
        if run is None or (run.ended_at is not None and cloud.moment - run.ended_at > _STUCK):
            yield f"{ref.execution_name} is open, and its workflow {'ended' if run else 'never was'}"
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


def _lost_answers(cloud: Cloud) -> Iterator[str]:
    """An answer that a person saw accepted holds."""
    questions = approvals(cloud)
    for one in cloud.presses:
        if one.status not in _ANSWERED:
            continue
        question = questions[one.approval_id]
        decision = question.decision
        if one.answer in ("undo", "hold"):
            continue  # no answer to the question: what was done after it is seen at the call
        # After a yes, and during the notice of mode auto, a keep and an exemption are brakes.
        holds = question.status is ApprovalStatus.APPROVED or question.brake is not None
        is_brake = holds and one.answer != "approve"
        first = question.first_yes.answer.value if question.first_yes else None
        if not is_brake and one.answer not in (decision.answer.value if decision else None, first):
            yield f"{one.by} said {one.answer}, and the record says {question.status.value}"
            continue
        record = cloud.state.record(TARGET, question.episode.instance_id)
        if one.answer == "keep" and (record.hold.snoozed_until or one.at) <= one.at:
            yield f"{one.by} said keep, and nothing holds it"
        if one.answer == "exempt" and record.hold.exempt_reason is None:
            yield f"{one.by} exempted it, and nothing holds it"


def _too_late(cloud: Cloud) -> Iterator[str]:
    """Whoever could hold nothing any more was too late: EC2 takes the call by then, if it ever does."""
    for one in cloud.unheld:
        episode = _episode_of(cloud, one)
        done = _deeds(cloud, episode, episode.final_step.value)
        if done and min(done) > one.at + _UNDER_WAY:
            what = f"{episode.final_step.value} of {episode.ref.instance_id}"
            yield f"{one.by} could not hold the {what} at {one.at}, and EC2 took it at {min(done)}"


def _untold(cloud: Cloud) -> Iterator[str]:
    """Whoever was asked or notified learns the outcome."""
    for episode in episodes(cloud):
        name = episode.ref.execution_name
        mails = [mail for mail in cloud.mails if mail.episode == name]
        if episode.phase is not Phase.CLOSED or episode.outcome is Outcome.TOLD or not mails:
            continue
        if episode.closed_at and cloud.moment - episode.closed_at < timedelta(hours=1):
            continue
        if not any(mail.kind in _OUTCOMES for mail in mails):
            yield f"{name} ended {episode.outcome}, and nobody was told ({episode.outcome_reason})"


def _twice(cloud: Cloud) -> Iterator[str]:
    counts = Counter((mail.to, mail.key, mail.episode) for mail in cloud.mails)
    for (to, key, _), count in counts.items():
        if count > 1:
            yield f"{to} got {key} {count} times"
    ends = Counter((mail.to, mail.episode) for mail in cloud.mails if mail.kind in _OUTCOMES)
    for (to, name), count in ends.items():
        if count > 1:
            yield f"{to} was told of the end of {name} {count} times"


def _deletions(cloud: Cloud) -> Iterator[str]:
    """The record says what became of each snapshot, and no more."""
    deleted = {deed.instance_id for deed in cloud.deeds if deed.what == "delete"}
    ended = {one.snapshot_id for one in cloud.state.expiries(TARGET) if one.ended_at is not None}
    if deleted != ended:
        yield f"deleted: {sorted(deleted)}; by the record: {sorted(ended)}"


def _ledger(cloud: Cloud) -> Iterator[str]:
    """One entry for what was put away by us, none for anything else; open as long as it stays away."""
    months = {key[0].removeprefix("LEDGER#") for key in cloud.memory.items if key[0].startswith("LEDGER#")}
    entries = [entry for month in sorted(months) for entry in cloud.state.entries(month)]
    booked = Counter(entry.episode.execution_name for entry in entries)
    yield from (f"{name} is booked {count} times" for name, count in booked.items() if count > 1)
    for episode in episodes(cloud):
        if episode.phase is not Phase.CLOSED:
            continue
        name = episode.ref.execution_name
        mine = [entry for entry in entries if entry.episode.execution_name == name and entry.ours]
        done = {deed.what for deed in cloud.deeds if deed.episode == name}
        wanted = "terminated" if "terminate" in done else "stopped" if "stop" in done else None
        found = mine[0].outcome.value if mine else None
        by_others = (
            "terminate" not in done and cloud.ec2.instances[episode.ref.instance_id].state == "terminated"
        )
        if found is None and by_others:
            continue  # gone before it could be booked: it saves nothing any more
        if wanted != found:
            yield f"{name} was {wanted or 'not put away'}, and {found or 'nothing'} is booked"
    for entry in entries:
        one = cloud.ec2.instances[entry.episode.instance_id]
        runs = one.state == "running"
        if entry.outcome is Outcome.STOPPED and entry.ours and runs and entry.ended_at is None:
            yield f"{entry.episode.execution_name} saves, and its instance runs again"
