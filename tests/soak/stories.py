"""Stories in which readings lie, EC2 fails, and people change everything meanwhile.

Each is one instance, or a few, with one thing that goes wrong. Where somebody acts "at every call",
the story is played once for each call of the system, and everybody else acts in the middle of that
call.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from governor.core.instance import Lifecycle, SpotRequestType, Volume
from governor.core.units import as_utc
from governor.episode.model.episode import Outcome
from governor.evidence.rules.series import evidence_document
from governor.limits.model.pause import Pause
from governor.policy.document import parse_policy
from governor.policy.rules.consent import Acceptances, Consented, KnownPeople, known_people
from governor.policy.versions import StoredPolicy
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import TARGET
from tests.soak import forgers, visitors
from tests.soak.aws import Trouble
from tests.soak.cloud import START, Cloud
from tests.soak.invariants import episodes
from tests.soak.readings import Habits
from tests.soak.scenarios import (
    ALICE,
    ID,
    SCENARIOS,
    Answers,
    Scenario,
    freeze,
    instance,
    only_observe,
    policy,
    start,
    stop_by_hand,
    works,
)

BOB, DORA, ZOE, TEAM = (f"{name}@example.com" for name in ("bob", "dora", "zoe", "team"))
YES = Answers("approve", fields={"losses": "accepted", "typed_instance_id": ID})
_UNTYPED = Answers("approve", fields={"losses": "accepted"})
_ONE = {ALICE: YES}
_TWO = {ALICE: YES, BOB: YES}
_RUNS, _AWAY, _GONE = frozenset({"running"}), frozenset({"stopped"}), frozenset({"terminated"})
_ANY = _RUNS | _AWAY | _GONE
_SPOT = {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
_MINUTES = timedelta(minutes=1)
_ACTING = frozenset({"recheck_episode", "put_away", "take_snapshot"})
"""The functions that stand in front of EC2: what fails in these tells most."""
_CALLING = frozenset({"put_away"})


def _minutes(count: float) -> timedelta:
    return count * _MINUTES


# what EC2 answers


def _answers(
    call: str, troubles: tuple[Trouble, ...], then: Callable[[Cloud], None] | None, cloud: Cloud
) -> None:
    cloud.ec2.troubles[call] = list(troubles)
    if then is not None:
        cloud.ec2.on_trouble = partial(then, cloud)


def _starts_soon(cloud: Cloud) -> None:
    """Somebody finds it stopped, and starts it again."""
    cloud.later(90.0, partial(start, cloud))
    cloud.later(91.0, partial(works, cloud))


def _dora_holds(cloud: Cloud) -> None:
    """Dora holds it while EC2 has the call."""
    presses("hold", cloud)


def _launches_another(cloud: Cloud) -> None:
    """EC2 has launched another instance for the request that this one still names."""
    cloud.ec2.launched_by["sir-1"] = "i-0fedcba9876543210"


_ANSWERS_OF_EC2 = (
    Scenario(
        "work begins while EC2 is not available for the stop",
        policy(),
        _RUNS,
        Outcome.WOKE_UP,
        people=_ONE,
        before=partial(_answers, "stop", (Trouble.UNAVAILABLE,) * 8, works),
        tries_in=_ACTING,
    ),
    Scenario(
        "work begins while EC2 throttles the stop",
        policy(),
        _RUNS,
        Outcome.WOKE_UP,
        people=_ONE,
        before=partial(_answers, "stop", (Trouble.THROTTLED,) * 8, works),
        tries_in=_CALLING,
    ),
    Scenario(
        "work begins while EC2 throttles the termination",
        policy(action="terminate"),
        _RUNS,
        Outcome.WOKE_UP,
        people=_TWO,
        changes=_SPOT,
        spot=SpotRequestType.ONE_TIME,
        before=partial(_answers, "terminate", (Trouble.THROTTLED,) * 8, works),
        tries_in=_CALLING,
    ),
    Scenario(
        "the answer to the stop is lost",
        policy(),
        _AWAY,
        Outcome.STOPPED,
        people=_ONE,
        before=partial(_answers, "stop", (Trouble.LOST,), None),
        tries_in=_CALLING,
    ),
    Scenario(
        "the answer to the stop is lost, and somebody starts it again",
        policy(),
        _RUNS,
        None,
        people=_ONE,
        before=partial(_answers, "stop", (Trouble.LOST,), _starts_soon),
        tries_in=_CALLING,
    ),
    Scenario(
        "the answer to the termination is lost",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.TERMINATED,
        people=_TWO,
        before=partial(_answers, "terminate", (Trouble.LOST,), None),
        tries_in=_CALLING,
    ),
    *(
        Scenario(
            f"somebody holds the stop while EC2 {what} it",
            policy(),
            # It is asked about again hours later.
            _RUNS | _AWAY,
            Outcome.HELD,
            people=_ONE,
            before=partial(_answers, "stop", (trouble,) * 2, _dora_holds),
            tries_in=_CALLING,
        )
        for what, trouble in (
            ("throttles", Trouble.THROTTLED),
            ("is not available for", Trouble.UNAVAILABLE),
        )
    ),
    Scenario(
        "the Spot request of it has launched another instance since",
        policy(action="terminate"),
        _AWAY,
        Outcome.REFUSED,
        people=_TWO,
        changes=_SPOT,
        spot=SpotRequestType.PERSISTENT,
        before=_launches_another,
        tries_in=_CALLING,
    ),
    Scenario(
        "the role may stop nothing any more",
        policy(),
        _RUNS,
        None,
        people=_ONE,
        before=partial(_answers, "stop", (Trouble.DENIED,) * 9, None),
        tries_in=_CALLING,
    ),
)


# what is published


def _publishes(habits: Habits, cloud: Cloud) -> None:
    cloud.metrics.habits[ID] = habits


def _metrics(
    name: str,
    habits: Habits,
    *,
    work_after: float | None = None,
    mode: str = "ask",
    ends: frozenset[str] = _RUNS,
    outcome: Outcome | None = Outcome.WOKE_UP,
    answers_after: float = 300.0,
    idle: str = "",
    metrics: str = "",
    **changes: Any,
) -> Scenario:
    """A stop that is approved a while after the question, or acts after its notice. `idle` and
    `metrics` are further settings of these sections."""
    script = () if work_after is None else ((work_after, works),)
    document = policy(mode).replace("idle: {", f"idle: {{{idle}")
    document = document.replace("metrics: {", f"metrics: {{{metrics}")
    return Scenario(
        name,
        document,
        ends,
        outcome,
        people={ALICE: replace(YES, after=answers_after)} if mode == "ask" else {},
        script=script,
        before=partial(_publishes, habits),
        tries_in=_CALLING,
        **changes,
    )


_LATE = Habits(late=_minutes(10))
_READINGS = (
    _metrics(
        "readings come up to ten minutes late, out of order",
        _LATE,
        ends=_AWAY,
        outcome=Outcome.STOPPED,
    ),
    *(
        _metrics(
            f"readings come late, and work begins {seconds} seconds after the question",
            _LATE,
            work_after=seconds,
            ends=_RUNS | _AWAY,
            outcome=None,
        )
        for seconds in (60, 150, 240, 330)
    ),
    _metrics(
        "the agent dies while people are asked",
        Habits(gone=((START + _minutes(1), START + _minutes(900)),)),
        answers_after=1_500.0,
        outcome=None,
    ),
    _metrics(
        "the agent dies during the notice of mode auto",
        Habits(gone=((START + _minutes(20), START + _minutes(900)),)),
        mode="auto",
        outcome=None,
    ),
    _metrics(
        "the agent is silent for the last minutes before the stop",
        Habits(gone=((START + _minutes(1), START + _minutes(900)),)),
        answers_after=990.0,
        outcome=None,
    ),
    _metrics(
        "the agent was silent for forty minutes of the proof",
        Habits(gone=((START - _minutes(100), START - _minutes(60)),)),
        idle="minimum_coverage_percent: 50, ",
        ends=_RUNS | _AWAY,
        outcome=None,
    ),
    _metrics(
        "an agent that publishes zeros while CPU and network work",
        Habits(lies_from=START + _minutes(1)),
        answers_after=900.0,
        work_after=100,
    ),
    _metrics("each reading comes twice", Habits(twice=True), ends=_AWAY, outcome=Outcome.STOPPED),
    *(
        _metrics(
            f"a clock {text}, and work on the GPUs alone",
            Habits(ahead=ahead, on_gpu_alone=True),
            work_after=150,
            outcome=None,
        )
        for text, ahead in (
            ("an hour ahead", _minutes(60)),
            ("ten minutes ahead", _minutes(10)),
            ("ten minutes behind", -_minutes(10)),
        )
    ),
    _metrics(
        "a clock an hour ahead in mode auto, and work on the GPUs alone",
        Habits(ahead=_minutes(60), on_gpu_alone=True),
        mode="auto",
        work_after=3_000,
        outcome=None,
    ),
    _metrics(
        "every reading comes nine minutes late in mode auto",
        Habits(delay=_minutes(9)),
        mode="auto",
        idle="minimum_coverage_percent: 50, ",
        ends=_RUNS | _AWAY,
        outcome=None,
    ),
    _metrics(
        "minute by minute, every reading comes six minutes late in mode auto",
        Habits(delay=_minutes(6)),
        mode="auto",
        metrics="period_seconds: 60, ",
        ends=_RUNS | _AWAY,
        outcome=None,
    ),
    _metrics(
        "work resumes in the last minutes before the stop",
        Habits(on_gpu_alone=True),
        work_after=300,
    ),
)


# what people do in EC2, and to the policy


def _changed(cloud: Cloud, **changes: Any) -> None:
    cloud.ec2.instances[ID] = replace(cloud.ec2.instances[ID], **changes)


def _tagged(cloud: Cloud, **tags: str | None) -> None:
    found = {**cloud.ec2.instances[ID].tags, **tags}
    _changed(cloud, tags={key: value for key, value in found.items() if value is not None})


def exempts(cloud: Cloud) -> None:
    """Somebody exempts it by a tag, with a value and a case of their own."""
    _tagged(cloud, gpugovernor="no, thanks")


def exempts_in_words(cloud: Cloud) -> None:
    """Somebody spells the exemption tag as a person would."""
    found = {**cloud.ec2.instances[ID].tags, "GPU Governor": "exempt"}
    _changed(cloud, tags=found)


def takes_out(cloud: Cloud) -> None:
    """Somebody takes the tag off that has it governed."""
    _tagged(cloud, Purpose=None)


def gives_away(cloud: Cloud) -> None:
    """It has another owner now."""
    _tagged(cloud, Owner="boss")


def joins_a_group(cloud: Cloud) -> None:
    """An Auto Scaling group takes it over."""
    found = {**cloud.ec2.instances[ID].tags, "aws:autoscaling:groupName": "inference"}
    _changed(cloud, tags=found)


def resizes(cloud: Cloud) -> None:
    """Somebody gives it another type, which EC2 allows while it is stopped."""
    if cloud.ec2.instances[ID].state == "stopped":
        _changed(cloud, instance_type="g5.4xlarge")


def replaces_the_root(cloud: Cloud) -> None:
    """Somebody replaces the root volume, which EC2 allows while it runs."""
    volumes = cloud.ec2.instances[ID].volumes
    fresh = replace(volumes[0], volume_id="vol-0eeeeeeeeeeeeeeee")
    _changed(cloud, volumes=(fresh, *volumes[1:]))


def attaches(cloud: Cloud) -> None:
    """Somebody attaches a volume."""
    volumes = cloud.ec2.instances[ID].volumes
    added = Volume("vol-0ddddddddddddddd", "/dev/xvdc", False, 50, "gp3")
    _changed(cloud, volumes=(*volumes, added))


def deletes_on_termination(cloud: Cloud) -> None:
    """Somebody has the data volume deleted with the instance."""
    volumes = cloud.ec2.instances[ID].volumes
    kept = replace(volumes[1], delete_on_termination=not volumes[1].delete_on_termination)
    _changed(cloud, volumes=(volumes[0], kept))


def comes_back(cloud: Cloud) -> None:
    """It is gone, and its id comes back: another run, with the same tags. One that ends stays to be
    seen."""
    if cloud.ec2.instances[ID].state in ("shutting-down", "terminated"):
        return
    now = cloud.moment.replace(microsecond=0)
    began, until = cloud.ec2.ran[ID][-1]
    cloud.ec2.ran[ID][-1] = (began, until or cloud.moment)
    cloud.ec2.add(replace(cloud.ec2.instances[ID], state="running", launch_time=now))


def starts_and_works(cloud: Cloud) -> None:
    """Somebody starts it where it is stopped, and works on it in any case."""
    start(cloud)
    works(cloud)


def logs_in(cloud: Cloud) -> None:
    """Somebody opens a session of Session Manager."""
    cloud.logins.setdefault(ID, cloud.moment)


def deletes_copies(cloud: Cloud) -> None:
    """Somebody deletes the snapshots."""
    cloud.ec2.snapshots.clear()


def fails_copies(cloud: Cloud) -> None:
    """The snapshots fail."""
    cloud.ec2.finish_snapshots("error")


def writes_user_data(cloud: Cloud) -> None:
    """Somebody writes another script for its next start."""
    cloud.ec2.user_data_of[ID] = b"changed"


def _rewrites(old: str, new: str, cloud: Cloud) -> None:
    assert old in cloud.policy or new in cloud.policy
    cloud.policy = cloud.policy.replace(old, new, 1)


def removes_the_target(cloud: Cloud) -> None:
    """The policy names another account instead."""
    cloud.policy += 'targets: {accounts: ["999999999999"]}\n'


def loosens(cloud: Cloud) -> None:
    """An operator calls idle what works up to 20 percent."""
    _rewrites("idle: {window", "idle: {utilization_below_percent: 20, window", cloud)


def works_a_little(cloud: Cloud) -> None:
    """It works at eight percent, and then the policy is loosened."""
    cloud.metrics.habits[ID] = Habits(level=8.0, on_gpu_alone=True)
    works(cloud)
    loosens(cloud)


def warns(cloud: Cloud) -> None:
    """EC2 warns that it takes it back, and the warning is there at once."""
    cloud.interrupt(ID, at_once=True)


def tampers(cloud: Cloud) -> None:
    """Somebody writes other evidence into the table."""
    for episode in episodes(cloud):
        other = replace(episode.measurement.evidence, cpu_percent=0.5)
        item = cloud.memory.items[keys.episode(episode.ref)]
        item["evidence"] = zlib.compress(json.dumps(evidence_document(other)).encode())


def stands_exempt(cloud: Cloud) -> None:
    """It is exempt by an answer to an earlier question, which is stored only now."""
    cloud.state.store_hold(TARGET, ID, Hold(exempt_reason="a demo (dora@example.com)"))


def stands_kept(cloud: Cloud) -> None:
    """It is kept by an answer to an earlier question, which is stored only now."""
    cloud.state.store_hold(TARGET, ID, Hold(snoozed_until=as_utc(cloud.moment + timedelta(days=2))))


def page_is_down(cloud: Cloud) -> None:
    """The API refuses a request of somebody."""
    cloud.refusals.append(cloud.moment)


def pauses(cloud: Cloud) -> None:
    """Somebody pauses everything."""
    cloud.state.begin_pause(Pause(as_utc(cloud.moment), "dora@example.com"))
    cloud.pauses.append(cloud.moment)


def aborts_before_the_call(cloud: Cloud) -> None:
    """Somebody aborts the workflow, which closes its episode at once; unless EC2 was asked
    already."""
    for episode in episodes(cloud):
        run = cloud.runs.get(episode.ref.execution_name)
        is_waiting = episode.ending is None and episode.begun_at is None
        if is_waiting and run is not None and run.status == "RUNNING":
            cloud.abort(run.name, at_once=True)


def presses(answer: str, cloud: Cloud) -> None:
    """Dora answers whatever she was sent last."""
    links = [mail.link for mail in cloud.mails if mail.to == DORA and mail.link]
    if links:
        fields = {"keep_date": "2026-11-25", "reason": "a demo"}
        cloud.press(DORA, links[-1], answer, **fields)


@dataclass(frozen=True)
class _Base:
    """A story whose course is known, for somebody to act in the middle of."""

    what: str
    policy: str
    outcome: Outcome
    people: Mapping[str, Answers]
    changes: Mapping[str, Any]
    spot: SpotRequestType | None = None
    before: Callable[[Cloud], None] | None = None


_STOP = _Base("a stop", policy(), Outcome.STOPPED, _ONE, {})
_END = _Base("a termination", policy(action="terminate"), Outcome.TERMINATED, _TWO, {})
_SPOT_END = _Base(
    "a termination of what cannot be stopped",
    policy(action="terminate"),
    Outcome.TERMINATED,
    _TWO,
    _SPOT,
    SpotRequestType.ONE_TIME,
)
_AUTO = _Base("mode auto", policy("auto"), Outcome.STOPPED, {}, {})


def _at_every_call(base: _Base, name: str, act: Callable[[Cloud], None]) -> Scenario:
    return Scenario(
        f"{name} at every call of {base.what}",
        base.policy,
        _ANY,
        base.outcome,
        people=base.people,
        changes=base.changes,
        spot=base.spot,
        before=base.before,
        rivals=act,
        rivals_everywhere=True,
        hours=12.0,
    )


_MEANWHILE = (
    *(
        _at_every_call(base, name, act)
        for base in (_STOP, _END)
        for name, act in (
            ("an exemption by tag", exempts),
            ("another owner", gives_away),
            ("another root volume", replaces_the_root),
            ("an id that comes back", comes_back),
            ("a freeze", freeze),
            ("a pause", pauses),
            ("a hold", partial(presses, "hold")),
        )
    ),
    _at_every_call(_STOP, "an exemption in words", exempts_in_words),
    _at_every_call(_STOP, "the selector's tag taken off", takes_out),
    _at_every_call(_STOP, "an Auto Scaling group", joins_a_group),
    _at_every_call(_STOP, "a removed target", removes_the_target),
    _at_every_call(_STOP, "mode observe", only_observe),
    _at_every_call(
        _STOP, "a person who leaves", partial(_rewrites, "alice@example.com, bob", "bob")
    ),
    _at_every_call(
        _STOP,
        "a plan that only notifies",
        partial(_rewrites, "action: stop", "action: notify-only"),
    ),
    _at_every_call(
        _STOP,
        "two people for a stop",
        partial(_rewrites, "approval:", "approval:\n  people_to_stop: 2"),
    ),
    _at_every_call(_STOP, "work at eight percent, and a looser policy", works_a_little),
    _at_every_call(_STOP, "a session", logs_in),
    _at_every_call(_STOP, "work", works),
    _at_every_call(_STOP, "a keep", partial(presses, "keep")),
    _at_every_call(_STOP, "a stored exemption", stands_exempt),
    _at_every_call(_STOP, "a stored keep", stands_kept),
    _at_every_call(_STOP, "other evidence", tampers),
    _at_every_call(_STOP, "a warning", warns),
    _at_every_call(_STOP, "an exemption by answer", partial(presses, "exempt")),
    _at_every_call(_STOP, "a stop by hand", stop_by_hand),
    _at_every_call(_STOP, "an abort before EC2 is asked", aborts_before_the_call),
    _at_every_call(_END, "another type", resizes),
    _at_every_call(_END, "another volume", attaches),
    _at_every_call(_END, "a volume deleted with it", deletes_on_termination),
    _at_every_call(_END, "a start and work", starts_and_works),
    _at_every_call(_END, "deleted snapshots", deletes_copies),
    _at_every_call(_END, "failed snapshots", fails_copies),
    _at_every_call(_END, "other user data", writes_user_data),
    _at_every_call(_SPOT_END, "work", works),
    _at_every_call(_SPOT_END, "a warning of Spot", warns),
    _at_every_call(
        _AUTO,
        "publishers nobody trusts",
        partial(_rewrites, "publishers_are_trusted: true", "publishers_are_trusted: false"),
    ),
    _at_every_call(
        _AUTO,
        "a longer notice",
        partial(_rewrites, "approval:", "approval:\n  notice_minutes: 240"),
    ),
    _at_every_call(_AUTO, "mode ask", partial(_rewrites, "mode: auto", "mode: ask")),
    _at_every_call(_AUTO, "a hold", partial(presses, "hold")),
    _at_every_call(_AUTO, "work", works),
)


# who answers

_LIST = policy().replace("boss: {", "crowd: {lists: [team@example.com]}\n    boss: {")
_WITH_TERMINATION = policy(action="terminate")
_PEOPLE = (
    Scenario(
        "somebody of a list approves",
        _LIST,
        _RUNS,
        Outcome.EXPIRED,
        people={TEAM: _UNTYPED},
        changes={"tags": {"Purpose": "GPU-Workload", "Owner": "crowd"}},
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "an address that only a tag names approves",
        policy().replace("ownership:", "ownership:\n  email_domains: [example.com]"),
        _RUNS,
        Outcome.EXPIRED,
        people={ZOE: _UNTYPED},
        changes={"tags": {"Purpose": "GPU-Workload", "Owner": ZOE}},
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "one person alone approves a termination, twice",
        _WITH_TERMINATION,
        _RUNS,
        Outcome.EXPIRED,
        people={ALICE: replace(YES, again_after=600.0)},
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "two people approve a termination without its id",
        _WITH_TERMINATION,
        _RUNS,
        Outcome.EXPIRED,
        people={ALICE: _UNTYPED, BOB: _UNTYPED},
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "somebody holds the stop too late, and has it undone",
        policy(),
        _RUNS,
        Outcome.STOPPED,
        people={ALICE: YES, DORA: Answers("hold", after=600.0), BOB: Answers("undo", after=660.0)},
        hours=8.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "the first of two people leaves before the second approves",
        _WITH_TERMINATION,
        _ANY,
        None,
        people={ALICE: YES, BOB: replace(YES, after=600.0)},
        script=((450.0, partial(_rewrites, "alice@example.com, bob", "bob")),),
        hours=8.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "a list is notified of what mode auto does, and nobody else",
        _LIST.replace("mode: ask", "mode: auto"),
        _AWAY,
        Outcome.STOPPED,
        changes={"tags": {"Purpose": "GPU-Workload", "Owner": "crowd"}},
        hours=8.0,
        tries_in=_CALLING,
    ),
)
_SCRATCH = """
overrides:
  - name: scratch instances go at once
    match: {tags: {Lifecycle: scratch}}
    set: {mode: auto, plan: {action: terminate}}
    approved_by: [alice@example.com, bob@example.com]
"""
_SCRATCH_TAGS = {"Purpose": "GPU-Workload", "Owner": "ml", "Lifecycle": "scratch"}


def accepts(cloud: Cloud, *people: str) -> None:
    """These people accept the policy, each by themselves."""
    cloud.acceptances = frozenset(people)
    accepted = Acceptances(parse_policy(cloud.policy).terms, cloud.acceptances)
    known = KnownPeople({f"aws:arn:aws:iam::123456789012:user/{one}": one for one in people})
    cloud.state.put_in_force("v1", None, START, Consented(accepted, known))


def _two_accept(cloud: Cloud) -> None:
    accepts(cloud, ALICE, BOB)


def _one_accepts(cloud: Cloud) -> None:
    accepts(cloud, ALICE)


def _widens_the_override(cloud: Cloud) -> None:
    """Somebody has the override match all GPU instances: nobody has accepted that."""
    _rewrites("{tags: {Lifecycle: scratch}}", "{tags: {Purpose: GPU-Workload}}", cloud)
    cloud.acceptances = frozenset()


_UNASKED = (
    Scenario(
        "one of two people accepts an override that terminates",
        policy() + _SCRATCH,
        _RUNS,
        Outcome.EXPIRED,
        changes={"tags": _SCRATCH_TAGS},
        before=_one_accepts,
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "the page is down in the notice of mode auto",
        policy("auto"),
        _AWAY,
        Outcome.STOPPED,
        script=((1_800.0, page_is_down),),
        hours=8.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "one person stands behind an override that terminates",
        policy() + _SCRATCH.replace(", bob@example.com", ""),
        _RUNS,
        None,
        changes={"tags": _SCRATCH_TAGS},
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "mode auto where anybody may publish",
        policy("auto").replace("publishers_are_trusted: true", "publishers_are_trusted: false"),
        _RUNS,
        None,
        hours=6.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "mode auto terminates what an override names",
        policy() + _SCRATCH,
        _GONE | _AWAY,
        Outcome.TERMINATED,
        changes={"tags": _SCRATCH_TAGS},
        before=_two_accept,
        hours=10.0,
        tries_in=_CALLING,
    ),
    Scenario(
        "an override that terminates is widened after two people have accepted it",
        policy() + _SCRATCH,
        _RUNS,
        None,
        changes={"tags": _SCRATCH_TAGS},
        before=_two_accept,
        script=((600.0, _widens_the_override),),
        hours=8.0,
        tries_in=_ACTING,
    ),
    replace(
        _at_every_call(
            _Base(
                "an override that terminates",
                policy() + _SCRATCH,
                Outcome.TERMINATED,
                {},
                {"tags": _SCRATCH_TAGS},
                before=_two_accept,
            ),
            "the override's tag taken off",
            partial(_tagged, Lifecycle=None),
        ),
        hours=10.0,
    ),
    _at_every_call(
        _Base(
            "silence that acts",
            policy(approval="on_expiry: act\n  wait_at_most_hours: 1"),
            Outcome.STOPPED,
            {},
            {},
        ),
        "no act on silence",
        partial(_rewrites, "on_expiry: act", "on_expiry: no-action"),
    ),
)


# several at once


def _neighbors(count: int, cloud: Cloud) -> None:
    """There are more idle instances of the same owner."""
    for number in range(count):
        cloud.ec2.add(instance(f"i-{number:017x}"))


def _approves(instance_id: str, cloud: Cloud) -> None:
    """Bob approves what he was asked about this instance."""
    for mail in cloud.mails:
        is_question = mail.kind == "approval-requested" and mail.to == BOB
        if is_question and mail.link is not None and instance_id in mail.episode:
            cloud.press(BOB, mail.link, "approve", losses="accepted")


def _approved_at(*minutes: float) -> tuple[tuple[float, Callable[[Cloud], None]], ...]:
    """Bob approves the first of the neighbors then, the second one then, and so on."""
    return tuple(
        (60.0 * at, partial(_approves, f"i-{number:017x}")) for number, at in enumerate(minutes)
    )


_CAP = "caps: {owner_actions_per_hour: 2}\n"
_FLEETS = (
    Scenario(
        "a cap at the turn of the hour",
        policy(approval="digest_from: 0") + _CAP,
        _AWAY,
        Outcome.STOPPED,
        # At five to one: two are stopped at once, and two wait.
        people={ALICE: Answers("approve", after=3_100.0, fields={"losses": "accepted"})},
        before=partial(_neighbors, 3),
        hours=10.0,
        tries_in=frozenset({"put_away"}),
    ),
    Scenario(
        "approvals of a whole hour under a cap",
        policy(approval="digest_from: 0") + _CAP,
        # They approve once: if an outage has ended their workflow, it runs on.
        _AWAY | {"running"},
        Outcome.STOPPED,
        # Two are stopped at once; those of 10, 30 and 59 minutes later wait for the window to move
        # on.
        before=partial(_neighbors, 4),
        script=((400.0, partial(_approves, ID)), *_approved_at(7, 17, 37, 66)),
        hours=10.0,
        tries_in=frozenset({"put_away"}),
    ),
)


# somebody writes into the table what no function has said


def _forged(
    name: str,
    document: str,
    forge: Callable[[Cloud], None],
    at: float,
    outcome: Outcome | None,
    *more: tuple[float, Callable[[Cloud], None]],
    people: Mapping[str, Answers] | None = None,
    ends: frozenset[str] = _RUNS,
    tries_in: frozenset[str] = _ACTING,
) -> Scenario:
    """Nothing may rest on what was forged at this second of the story."""
    return Scenario(
        name,
        document,
        ends,
        outcome,
        people=people or {},
        script=((at, forge), *more),
        hours=8.0,
        tries_in=tries_in,
    )


_SILENT = policy(approval="on_expiry: act\n  wait_at_most_hours: 1")
_TWO_TO_STOP = policy(approval="people_to_stop: 2")
_FORGED = (
    _forged("a forged yes", policy(), forgers.forges_a_yes, 400.0, Outcome.REFUSED),
    _forged(
        "a forged second yes",
        policy(action="terminate"),
        forgers.forges_the_second_yes,
        700.0,
        Outcome.REFUSED,
        people=_ONE,
    ),
    _forged(
        "a forged delivery in the notice of mode auto",
        policy("auto"),
        forgers.forges_deliveries,
        600.0,
        Outcome.REFUSED,
        ends=_RUNS | _AWAY,
        tries_in=frozenset({"deliver_alert"}),
    ),
    _forged(
        "forged deliveries of a question",
        _SILENT,
        forgers.forges_deliveries,
        600.0,
        Outcome.STOPPED,
        ends=_RUNS | _AWAY,
        tries_in=frozenset({"deliver_alert"}),
    ),
    _forged(
        "a forged expiry and forged deliveries",
        _SILENT,
        forgers.forges_an_expiry_and_deliveries,
        600.0,
        Outcome.REFUSED,
        ends=_RUNS | _AWAY,
    ),
    _forged(
        "a forged expiry",
        _SILENT,
        forgers.forges_an_expiry,
        600.0,
        Outcome.REFUSED,
        ends=_RUNS | _AWAY,
    ),
    _forged(
        "a forged mode, notice and yes, and a policy of that mode",
        policy(),
        forgers.forges_the_mode_and_the_rest,
        600.0,
        Outcome.REFUSED,
        (610.0, partial(_rewrites, "mode: ask", "mode: auto")),
        ends=_RUNS | _AWAY,
    ),
    _forged(
        "a forged plan, and a policy that wants it",
        _TWO_TO_STOP,
        forgers.forges_the_plan,
        250.0,
        Outcome.REFUSED,
        (260.0, partial(_rewrites, "action: stop", "action: terminate")),
        people=_TWO,
        ends=_ANY,
    ),
    _forged(
        "forged terms, and a looser policy",
        _TWO_TO_STOP,
        forgers.forges_the_terms,
        250.0,
        Outcome.REFUSED,
        (260.0, partial(_rewrites, "people_to_stop: 2", "people_to_stop: 1")),
        people=_ONE,
        ends=_RUNS | _AWAY,
    ),
)


# somebody ends what holds it, in the console


def _presses_on_the_first_page(answer: str, cloud: Cloud) -> None:
    """Alice answers on the page of the first question that she got. Her keep ends when Dora's
    does."""
    links = [mail.link for mail in cloud.mails if mail.to == ALICE and mail.link]
    cloud.press(ALICE, links[0], answer, keep_date="2026-11-25")


def _people_sign_in(cloud: Cloud) -> None:
    """The stack has a sign-in: a link alone decides nothing."""
    cloud.has_sign_in = True


_ENDS = (
    Scenario(
        "an admin ends an exemption, and somebody keeps it at every call of that",
        policy() + visitors.HAS_AN_ADMIN,
        _RUNS,
        Outcome.EXPIRED,
        script=((400.0, stands_exempt), (500.0, visitors.ends_the_hold)),
        hours=6.0,
        rivals=partial(presses, "keep"),
        rivals_everywhere=True,
        tries_in=frozenset({"serve_console"}),
    ),
    Scenario(
        "an admin ends a keep, and its page ends it again while somebody keeps it anew",
        policy() + visitors.HAS_AN_ADMIN,
        _RUNS,
        Outcome.KEPT,
        script=(
            (400.0, partial(_presses_on_the_first_page, "keep")),
            (700.0, visitors.ends_the_hold),
            # By now there is another question.
            (1_500.0, partial(_presses_on_the_first_page, "end-keep")),
        ),
        hours=6.0,
        rivals=partial(presses, "keep"),
        rivals_everywhere=True,
        tries_in=frozenset({"serve_approval"}),
    ),
    Scenario(
        "somebody has a copy of an admin's cookie, and her session is ended",
        policy() + visitors.HAS_AN_ADMIN,
        _RUNS,
        Outcome.VOID,
        script=(
            (400.0, stands_exempt),
            (420.0, visitors.opens_the_instance),
            (450.0, visitors.ends_adas_session),
            (500.0, visitors.somebody_uses_adas_cookie),
        ),
        hours=6.0,
        tries_in=frozenset({"serve_console"}),
    ),
    Scenario(
        "somebody has a copy of an approver's cookie, and her session is ended",
        policy(),
        _RUNS,
        Outcome.EXPIRED,
        before=_people_sign_in,
        script=(
            (400.0, visitors.alice_opens_her_link),
            (450.0, visitors.ends_alices_session),
            (500.0, visitors.somebody_uses_alices_cookie),
        ),
        hours=6.0,
        tries_in=frozenset({"serve_approval"}),
    ),
    Scenario(
        "somebody who may pause ends the pause, and later an admin does",
        policy().replace("ml: {", f"ml: {{{visitors.BOBS_IDENTITY}") + visitors.HAS_AN_ADMIN,
        _RUNS | _AWAY,
        Outcome.STOPPED,
        people=_ONE,
        script=(
            (200.0, visitors.bob_pauses),
            (1_000.0, visitors.bob_ends_the_pause),
            (5_000.0, visitors.ada_ends_the_pause),
        ),
        hours=8.0,
        tries_in=frozenset({"serve_console"}),
    ),
)


# the policy is announced


def _announced(cloud: Cloud) -> None:
    cloud.reviews = True


_IDENTITIES = {name: f"arn:aws:iam::123456789012:user/{name}" for name in ("alice", "bob")}
_BY_TWO = (
    policy().replace(
        "ml: {",
        f'ml: {{identities: {{"aws:{_IDENTITIES["alice"]}": alice@example.com, '
        f'"aws:{_IDENTITIES["bob"]}": bob@example.com}}, ',
    )
    + "  default_contacts: [boss]\ntwo_people_for_policy: true\n"
)


def _bob_writes(version: str, old: str, new: str, is_ready: bool, cloud: Cloud) -> None:
    """Bob puts a version into the bucket. `is_ready`: it may count as soon as people were
    notified."""
    assert old in cloud.policy
    cloud.documents.append(StoredPolicy(version, cloud.policy.replace(old, new, 1)))
    cloud.state.note_writer(version, _IDENTITIES["bob"])
    cloud.counts_from[version] = cloud.moment if is_ready else None


def _alice_accepts(version: str, cloud: Cloud) -> None:
    """Alice accepts a version that Bob has written."""
    cloud.state.accept_version(version, f"aws:{_IDENTITIES['alice']}", as_utc(cloud.moment))
    cloud.counts_from[version] = cloud.moment


def _is_versioned(*script: tuple[float, Callable[[Cloud], None]]) -> dict[str, Any]:
    """Return what stories of versions have in common; nobody answers in them."""
    return {
        "policy": _BY_TWO,
        "ends": _RUNS,
        "outcome": Outcome.EXPIRED,
        "before": _announced,
        "script": script,
        "hours": 6.0,
        "tries_in": frozenset({"plan_sweep"}),
    }


def _eve_brings_people(cloud: Cloud) -> None:
    """Eve alone writes a version in which both people have identities of hers, and accepts its
    override by both."""
    cloud.reviews = True
    text = cloud.policy
    book = parse_policy(text)
    people = known_people(book.base().policy.ownership)
    cloud.documents.append(StoredPolicy("v1", text))
    cloud.state.put_in_force("v1", None, START, Consented(Acceptances(book.terms), people))
    brought = text.replace("user/alice", "user/eve-1").replace("user/bob", "user/eve-2")
    cloud.documents.append(StoredPolicy("v2", brought + _SCRATCH))
    cloud.counts_from["v2"] = cloud.moment
    cloud.state.note_writer("v2", "arn:aws:iam::123456789012:user/eve-1")
    for name in ("eve-1", "eve-2"):
        identity = f"aws:arn:aws:iam::123456789012:user/{name}"
        cloud.state.accept_version("v2", identity, as_utc(cloud.moment))


_LOOSER = ("idle: {window", "idle: {utilization_below_percent: 20, window")
_POLICY = (
    Scenario(
        name="a version of the policy that cannot be used comes after one that can",
        **_is_versioned(
            (
                1_000.0,
                partial(
                    _bob_writes, "v1", "remind_after_minutes: 30", "remind_after_minutes: 45", True
                ),
            ),
            (1_900.0, partial(_bob_writes, "v2", "mode: ask", "mode: anything", False)),
        ),
    ),
    Scenario(
        name="a risky version of the policy waits for a second person",
        **_is_versioned(
            (1_000.0, partial(_bob_writes, "v1", *_LOOSER, False)),
            (2_800.0, partial(_alice_accepts, "v1")),
        ),
    ),
    Scenario(
        "a writer alone brings two people, and accepts an override by both",
        _BY_TWO.replace("two_people_for_policy: true\n", ""),
        _RUNS,
        Outcome.EXPIRED,
        changes={"tags": _SCRATCH_TAGS},
        before=_eve_brings_people,
        hours=8.0,
        tries_in=frozenset({"plan_sweep"}),
    ),
    Scenario(
        "the policy's parameter is changed",
        policy() + "  default_contacts: [boss]\n",
        _AWAY,
        Outcome.STOPPED,
        people=_ONE,
        before=_announced,
        script=((1_200.0, loosens), (4_000.0, partial(_rewrites, "percent: 20", "percent: 10"))),
        tries_in=frozenset({"plan_sweep"}),
    ),
)

STORIES = (
    *_ANSWERS_OF_EC2,
    *_READINGS,
    *_MEANWHILE,
    *_PEOPLE,
    *_UNASKED,
    *_FLEETS,
    *_FORGED,
    *_ENDS,
    *_POLICY,
)
ALL_STORIES: tuple[Scenario, ...] = (*SCENARIOS, *STORIES)
"""All that `make soak` plays."""
