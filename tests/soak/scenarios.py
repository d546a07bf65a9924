"""The story of one instance from beginning to end, in each way there is.

Times are short, so that a run takes a few simulated hours; the order of things is that of the real
ones.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from governor.approvals.model.approval import Answer, Decision
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import (
    DELETE_AFTER_TAG,
    EPISODE_TAG,
    EXEMPTION_TAG,
    Instance,
    Lifecycle,
    Protection,
    Snapshot,
    SpotRequestType,
    Volume,
)
from governor.core.units import iso
from governor.episode.model.episode import Episode, Measurement, Outcome, Phase
from governor.episode.model.plan import PlanFacts, Price, Step
from governor.episode.rules.plan import draw_plan
from governor.evidence.model import Evidence
from governor.evidence.rules.series import evidence_document, evidence_hash
from governor.limits.model.breaker import BreakerState
from governor.money.model.ledger import LedgerEntry
from governor.policy.model.policy import Mode, Policy
from governor.table import keys
from tests.builders import TARGET, make_evidence, make_instance
from tests.soak import invariants
from tests.soak.aws import SECRET
from tests.soak.cloud import START, SWEEP_SECONDS, Cloud, Deed, Mail
from tests.soak.faults import Faults
from tests.unit.aws.golden import ADDED

ID = "i-0123456789abcdef0"
ALICE = "alice@example.com"
_BASE = """
metrics: {{publishers_are_trusted: true}}
idle: {{window_minutes: 60}}
plan: {{action: {action}, local_disks_may_be_lost_unasked: true, {plan}}}
approval:
  ask_after_minutes: 120
  remind_after_minutes: 30
  escalate_after_minutes: 30
  expire_after_minutes: 30
  ask_again_after_hours: 2
  {approval}
ownership:
  contacts:
    ml: {{emails: [alice@example.com, bob@example.com, dora@example.com]}}
    boss: {{emails: [carol@example.com]}}
  escalation_contacts: [boss]
"""
HOURS = 3600.0
_DAY = 24 * HOURS
_DAYS = 12.0
"""Length of the stories of snapshots that expire."""
_RETAINED = timedelta(days=30)


def policy(mode: str = "ask", action: str = "stop", approval: str = "", plan: str = "") -> str:
    """A policy with short times."""
    return f"mode: {mode}{_BASE.format(action=action, approval=approval, plan=plan)}"


def instance(instance_id: str = ID, **changes: Any) -> Instance:
    """An idle g5.xlarge of a known owner, with two volumes."""
    tags = {"Purpose": "GPU-Workload", "Name": "notebook", "Owner": "ml", "Project": "vision"}
    volumes = (
        Volume(f"vol-{instance_id[2:]}", "/dev/xvda", True, 100, "gp3"),
        Volume(f"vol-f{instance_id[3:]}", "/dev/xvdb", False, 200, "gp3"),
    )
    return make_instance(
        **{"instance_id": instance_id, "tags": tags, "volumes": volumes, **changes}
    )


@dataclass(frozen=True)
class Answers:
    """A person's answer to a question: presses after so many seconds, and again until it is
    taken."""

    answer: str
    after: float = 300.0
    fields: Mapping[str, str] = field(default_factory=dict)
    to: str = "approval-requested"
    """The kind of message that is answered."""
    tries: int = 12
    """How often they press again, two minutes later, where the page fails."""
    again_after: float | None = None
    """They press once more then, although it was taken."""


class Person:
    """Reads mail, and answers each question once. Tries again when the page fails."""

    def __init__(self, cloud: Cloud, address: str, answers: Answers) -> None:
        self._cloud, self._address, self._answers = cloud, address, answers
        self._answered: set[str] = set()

    def got(self, mail: Mail) -> None:
        """A mail has come."""
        is_question = mail.kind == self._answers.to
        if (
            mail.to != self._address
            or not is_question
            or mail.link is None
            or mail.episode in self._answered
        ):
            return
        self._answered.add(mail.episode)
        self._cloud.later(self._answers.after, partial(self._press, mail.link, self._answers.tries))
        if self._answers.again_after is not None:
            self._cloud.later(self._answers.again_after, partial(self._press, mail.link, 0))

    def _press(self, link: str, left: int) -> None:
        press = self._cloud.press(self._address, link, self._answers.answer, **self._answers.fields)
        if (press.status is None or press.status >= 500) and left:
            self._cloud.later(120.0, partial(self._press, link, left - 1))


def _interfere(act: Callable[[Cloud], None], cloud: Cloud) -> None:
    """Everybody else acts in the middle of a call."""
    cloud.interfered_at = cloud.moment
    act(cloud)


def _all_get(people: Sequence[Person], mail: Mail) -> None:
    for person in people:
        person.got(mail)


@dataclass(frozen=True)
class Scenario:
    """One story. `people` answer questions; `script` does things at seconds after the start."""

    name: str
    policy: str
    ends: frozenset[str]
    """The states in which the instance may be in the end, whatever one fault does."""
    outcome: Outcome | None
    """Outcome of the story's first episode, when nothing fails; `None`: nobody is asked."""
    people: Mapping[str, Answers] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    spot: SpotRequestType | None = None
    script: tuple[tuple[float, Callable[[Cloud], None]], ...] = ()
    hours: float = 10.0
    at_least_hours: float = 5.0
    hours_of_faults: float = 3.0
    """Where nobody is asked, calls are tried until then."""
    sweeps_every: float = SWEEP_SECONDS
    """Seconds."""
    snapshots_left: int | None = None
    """Number in the end, whatever one fault does; `None`: it is not looked at."""
    before: Callable[[Cloud], None] | None = None
    """Events before the story, about the instance that is there."""
    rivals: Callable[[Cloud], None] | None = None
    """Deeds of everybody else at one moment, in the middle of a call; only that is tried."""
    rivals_everywhere: bool = False
    """They act at every call, not only where something is about to change."""
    tries_in: frozenset[str] = frozenset()
    """Functions at whose calls faults are tried; empty: all."""

    def play(self, faults: Faults | None = None, seed: int = 0) -> Cloud:
        """Return the cloud after the story."""
        cloud = self.begin(faults, seed)
        self.finish(cloud)
        return cloud

    def begin(self, faults: Faults | None = None, seed: int = 0) -> Cloud:
        """Return the cloud before anything has happened."""
        cloud = Cloud(self.policy, faults, seed)
        invariants.watch(cloud)
        people = [Person(cloud, address, answers) for address, answers in self.people.items()]
        cloud.on_mail = partial(_all_get, people)
        if self.rivals is not None:
            cloud.rivals = partial(_interfere, self.rivals, cloud)
        cloud.ec2.add(instance(**self.changes))
        if self.spot is not None:
            cloud.ec2.spot_requests["sir-1"] = self.spot
        if self.before is not None:
            self.before(cloud)
        cloud.sweeps(self.sweeps_every)
        cloud.expects = self.outcome.value if self.outcome is not None else None
        for seconds, act in self.script:
            cloud.later(seconds, partial(act, cloud))
        return cloud

    def finish(self, cloud: Cloud) -> None:
        """Go on to the end of the story, from anywhere in its first `at_least_hours`."""
        cloud.run(self.at_least_hours * HOURS - (cloud.moment - START).total_seconds())
        for _ in range(int(self.hours - self.at_least_hours)):
            if self.is_over(cloud):
                break
            cloud.run(HOURS)

    def is_over(self, cloud: Cloud) -> bool:
        """Return whether sweeps have nothing to look at any more, and all is right."""
        ended = all(run.status != "RUNNING" for run in cloud.runs.values())
        away = cloud.ec2.instances[ID].state in ("stopped", "terminated")
        return ended and away and not self.complaints(cloud)

    def complaints(
        self, cloud: Cloud, *, duplicates: bool = False, counts: Counter[str] | None = None
    ) -> list[str]:
        """Return what is wrong with a run. `counts`, if given, counts what was checked in its
        end."""
        found = invariants.after(cloud, duplicates=duplicates, counts=counts)
        state = cloud.ec2.instances[ID].state
        if state not in self.ends:
            found.append(
                f"the instance is {state} in the end, not {' or '.join(sorted(self.ends))}"
            )
        if self.snapshots_left not in (None, len(cloud.ec2.snapshots)):
            found.append(
                f"{len(cloud.ec2.snapshots)} snapshots are left, not {self.snapshots_left}"
            )
        return found


def _refuses_snapshots(cloud: Cloud) -> None:
    """A policy of the organization refuses snapshots with these tags."""
    cloud.ec2.refuses_snapshots = True


def _stopped(cloud: Cloud) -> None:
    """A question has stopped it two days ago, and nobody has started it since."""
    _put_away(cloud, timedelta(days=2), Outcome.STOPPED)


def _expiring(outcome: Outcome, cloud: Cloud) -> None:
    """A question has put it away forty days ago, after a snapshot of each volume."""
    _put_away(cloud, timedelta(days=40), outcome)
    cloud.daily("expire_snapshots", 600.0)


def _put_away(cloud: Cloud, ago: timedelta, outcome: Outcome) -> None:
    at, was = START - ago, cloud.ec2.instances[ID]
    one = replace(was, launch_time=min(was.launch_time, at - timedelta(days=1)))
    one = replace(one, state=outcome.value, public_ip=None)
    cloud.ec2.instances[ID] = one
    cloud.ec2.ran[ID] = [(one.launch_time, at)]
    ref = EpisodeRef(TARGET.account, TARGET.region, ID, one.launch_time, 1)
    price, evidence = Price(Decimal("1.006"), "list price"), make_evidence()
    plan = draw_plan(PlanFacts(one, Protection(), None, None, price), Policy())
    asked = Episode(
        ref=ref,
        phase=Phase.ASKING,
        opened_at=at,
        approval_id="approval-0",
        mode=Mode.ASK,
        policy_version="test",
        overrides=(),
        instance=one,
        reason="quiet",
        measurement=Measurement(evidence=evidence, evidence_hash=evidence_hash(evidence)),
        plan=plan,
        price=price,
        owner="ml",
        project="vision",
    )
    saved = plan.saving.saved_usd_per_hour
    costs = plan.saving.cost_before_usd_per_hour, plan.saving.cost_after_usd_per_hour
    entry = LedgerEntry(
        ref,
        outcome,
        one.instance_type,
        "ml",
        "vision",
        price.source,
        at,
        *costs,
        saved,
        recorded_at=at,
    )
    cloud.state.take_lock(ref)
    cloud.state.save_opened(asked)
    cloud.state.note_step(ref, Step.STOP.value, at)
    if ago > _RETAINED:
        _copied(cloud, asked, at)
    cloud.state.settle(
        "approval-0", Decision(Answer.APPROVE, f"link:{ALICE}", "page", at, person=ALICE)
    )
    cloud.state.close_episode(ref, outcome, "it is put away", at, quiet_until=None, ledger=entry)
    cloud.state.note_told(ref, at)
    done = ["stop", "terminate"][: 2 if outcome is Outcome.TERMINATED else 1]
    cloud.deeds += [Deed(at, what, ID, ref.execution_name) for what in done]


def _copied(cloud: Cloud, episode: Episode, at: datetime) -> None:
    """Its volumes were copied, and the copies may go by now."""
    tags = {EPISODE_TAG: episode.ref.execution_name, DELETE_AFTER_TAG: iso(at + _RETAINED)}
    for number, volume in enumerate(episode.instance.volumes):
        copy = Snapshot(
            f"snap-{number:017x}", volume.volume_id, "completed", at, TARGET.account, 100, tags
        )
        cloud.ec2.snapshots[copy.snapshot_id] = (copy, tags)
        cloud.ec2.began[copy.snapshot_id] = at
    volumes = {name: one.volume_id for name, (one, _) in cloud.ec2.snapshots.items()}
    cloud.state.note_step(episode.ref, Step.SNAPSHOT.value, at)
    cloud.state.set_snapshots(episode.ref, volumes)


def _tag_as_exempt(cloud: Cloud) -> None:
    """Somebody tags it as exempt in EC2."""
    one = cloud.ec2.instances[ID]
    cloud.ec2.instances[ID] = replace(one, tags={**one.tags, EXEMPTION_TAG: "exempt"})


def _keep_copies(cloud: Cloud) -> None:
    """Somebody tags the copies: they are to stay for a year."""
    for name, (one, tags) in cloud.ec2.snapshots.items():
        later = {**tags, DELETE_AFTER_TAG: iso(cloud.moment + timedelta(days=365))}
        cloud.ec2.snapshots[name] = (replace(one, tags=later), later)


def only_observe(cloud: Cloud) -> None:
    """An operator goes back to mode observe."""
    cloud.policy = cloud.policy.replace("mode: ask", "mode: observe", 1)


def start(cloud: Cloud) -> None:
    """Somebody starts it in EC2."""
    if cloud.ec2.instances[ID].state == "stopped":
        cloud.ec2.start(TARGET, ID)


def works(cloud: Cloud) -> None:
    """Somebody works on it from now on."""
    cloud.metrics.busy[ID].append((cloud.moment, cloud.moment + timedelta(days=1)))


def interrupt(cloud: Cloud) -> None:
    """EC2 takes it back."""
    cloud.interrupt(ID)


def stop_by_hand(cloud: Cloud) -> None:
    """Somebody stops it in EC2."""
    cloud.ec2.by_hand(ID, "stop")


def _change_user_data(cloud: Cloud) -> None:
    """Somebody writes another script for its next start, which EC2 lets them do while it is
    stopped."""
    cloud.ec2.user_data_of[ID] = f"{SECRET}-changed".encode()


def _abort(cloud: Cloud) -> None:
    """Somebody aborts the workflow."""
    for name, run in list(cloud.runs.items()):
        if run.status == "RUNNING":
            cloud.abort(name)


def freeze(cloud: Cloud) -> None:
    """Far more instances of all accounts turn idle than usual."""
    cloud.state.begin_hub_freeze(BreakerState(cloud.moment, "many turned idle", turned=12))
    cloud.freezes.append((cloud.moment, None))


def lift(cloud: Cloud) -> None:
    """An operator lifts all freezes by the policy."""
    began, _ = cloud.freezes.pop()
    cloud.freezes.append((began, cloud.moment))
    cloud.policy += f'breaker: {{lift_freezes_before: "{cloud.moment:%Y-%m-%dT%H:%M:%SZ}"}}\n'


_FULL = "caps: {owner_actions_per_hour: 0}\n"


def _make_room(cloud: Cloud) -> None:
    """There is room under the cap again."""
    cloud.policy = cloud.policy.replace(_FULL, "")


def _update(cloud: Cloud) -> None:
    """The stack is updated from release 2428e04, which has stored what there is of the question."""
    cloud.shown.clear()
    digests = {}
    for episode in invariants.episodes(cloud):
        before = _evidence_of_2428e04(episode.measurement.evidence)
        key, digests[episode.measurement.evidence_hash] = (
            keys.episode(episode.ref),
            evidence_hash(before),
        )
        cloud.memory.items[key]["evidence"] = zlib.compress(
            json.dumps(evidence_document(before)).encode()
        )
    for item in cloud.memory.items.values():
        if "evidence_hash" in item:
            item["evidence_hash"] = digests[item["evidence_hash"]]
            for added in ADDED & item.keys():
                del item[added]


def _evidence_of_2428e04(evidence: Evidence) -> Evidence:
    """An hour of it, without what later releases look at."""
    window = replace(evidence.window, start=evidence.window.end - timedelta(hours=1))
    gpus = [replace(gpu, utilization=gpu.utilization[-window.bins :]) for gpu in evidence.gpus]
    return replace(
        evidence,
        window=window,
        gpus=tuple(gpus),
        samples=(),
        memory_newest_percent=None,
        last_measured={},
        longest_hole_minutes={},
    )


def _starts_and_answers(cloud: Cloud) -> None:
    """Somebody starts it while others answer."""
    start(cloud)
    _everybody(cloud)


def _everybody(cloud: Cloud) -> None:
    """Two sweeps, three people who do not agree, and somebody in EC2."""
    cloud.sweep()
    links = {
        mail.to: mail.link
        for mail in cloud.mails
        if mail.kind == "approval-requested" and mail.link
    }
    for person, answer in (
        (ALICE, "approve"),
        ("bob@example.com", "keep"),
        ("dora@example.com", "hold"),
    ):
        if person in links:
            fields = {"losses": "accepted", "typed_instance_id": ID, "keep_date": "2026-11-25"}
            cloud.press(person, links[person], answer, **fields)
    cloud.ec2.by_hand(ID, "stop")
    cloud.sweep()


_YES = {ALICE: Answers("approve", fields={"losses": "accepted"})}
_YES_TO_END = dict.fromkeys(
    (ALICE, "bob@example.com"),
    Answers("approve", fields={"losses": "accepted", "typed_instance_id": ID}),
)
_UNTIL_IT_WORKS = 40
"""More than an hour long, the longest outage."""
_ASKS_ABOUT_STOPPED = "ask_about_stopped_after_days: 1"
_SPOT = {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
_AWAY = frozenset({"stopped"})
_GONE = frozenset({"terminated"})
_STAYS = frozenset({"running"})

SCENARIOS = (
    Scenario("stop", policy(), _AWAY, Outcome.STOPPED, people=_YES),
    Scenario(
        "stop, snapshot, terminate",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.TERMINATED,
        people=_YES_TO_END,
    ),
    Scenario(
        "snapshots are refused",
        policy(action="terminate"),
        _STAYS,
        Outcome.REFUSED,
        people=_YES_TO_END,
        before=_refuses_snapshots,
        hours=6.0,
    ),
    Scenario(
        "terminate what cannot be stopped",
        policy(action="terminate"),
        _GONE,
        Outcome.TERMINATED,
        people=_YES_TO_END,
        changes=_SPOT,
        spot=SpotRequestType.ONE_TIME,
    ),
    Scenario(
        "terminate a persistent Spot instance",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.TERMINATED,
        people=_YES_TO_END,
        changes=_SPOT,
        spot=SpotRequestType.PERSISTENT,
    ),
    Scenario("observe", policy("observe"), _STAYS, Outcome.OBSERVED, hours=6.0),
    Scenario("auto", policy("auto"), _AWAY, Outcome.STOPPED, hours=8.0),
    # An escalation that comes too late makes no silence: it is refused, and asked again.
    Scenario(
        "silence acts",
        policy(approval="on_expiry: act\n  wait_at_most_hours: 1"),
        _AWAY,
        Outcome.STOPPED,
        hours=14.0,
    ),
    Scenario(
        "keep",
        policy(),
        _STAYS,
        Outcome.KEPT,
        people={ALICE: Answers("keep", fields={"keep_date": "2026-11-25"})},
        hours=6.0,
    ),
    Scenario(
        "exempt",
        policy(),
        _STAYS,
        Outcome.EXEMPTED,
        people={ALICE: Answers("exempt", fields={"reason": "a demo"})},
        hours=6.0,
    ),
    Scenario("expired", policy(), _STAYS, Outcome.EXPIRED, hours=6.0),
    Scenario("notify only", policy(action="notify-only"), _STAYS, Outcome.TOLD, hours=5.0),
    Scenario("woke up", policy(), _STAYS, Outcome.WOKE_UP, script=((1500.0, works),), hours=5.0),
    Scenario(
        "woke up after the yes",
        policy(),
        _STAYS | _AWAY,
        Outcome.WOKE_UP,
        people={ALICE: Answers("approve", after=900.0, fields={"losses": "accepted"})},
        script=((600.0, works),),
        hours=5.0,
    ),
    Scenario(
        "interrupted by a Spot warning",
        policy(),
        _GONE,
        Outcome.INTERRUPTED,
        changes=_SPOT,
        spot=SpotRequestType.PERSISTENT,
        script=((900.0, interrupt),),
        hours=5.0,
    ),
    Scenario(
        "stopped by somebody else",
        policy(),
        _AWAY,
        Outcome.VOID,
        script=((900.0, stop_by_hand),),
        hours=5.0,
    ),
    Scenario(
        "held while its snapshots are taken",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.HELD,
        people={**_YES_TO_END, "dora@example.com": Answers("hold", after=900.0)},
        hours=8.0,
    ),
    Scenario(
        "user data changed while its snapshots are taken",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.REFUSED,
        people=_YES_TO_END,
        script=((900.0, _change_user_data),),
        hours=8.0,
    ),
    Scenario(
        "frozen while an approved step waits",
        policy(),
        _AWAY,
        Outcome.STOPPED,
        people=_YES,
        script=((200.0, freeze), (3_600.0, lift)),
    ),
    Scenario(
        "a cap is reached while an approved step waits",
        policy() + _FULL,
        _AWAY,
        Outcome.STOPPED,
        people=_YES,
        script=((3_600.0, _make_room),),
    ),
    Scenario(
        "held during the notice of mode auto",
        policy("auto"),
        _STAYS,
        Outcome.HELD,
        people={ALICE: Answers("hold", to="idle-found", tries=_UNTIL_IT_WORKS)},
        hours=5.0,
    ),
    Scenario(
        "kept during the notice of mode auto",
        policy("auto"),
        _STAYS,
        Outcome.HELD,
        people={
            ALICE: Answers(
                "keep", 300.0, {"keep_date": "2026-11-25"}, "idle-found", _UNTIL_IT_WORKS
            )
        },
        hours=5.0,
    ),
    Scenario(
        "asked by release 2428e04, asked and answered again after the update",
        policy(),
        _AWAY,
        Outcome.VOID,
        people=_YES,
        script=((250.0, _update),),
    ),
    Scenario(
        "two sweeps, three deciders and somebody in EC2 at once",
        policy(action="terminate"),
        _GONE | _AWAY | _STAYS,
        Outcome.TERMINATED,
        people=_YES_TO_END,
        rivals=_everybody,
    ),
    Scenario(
        "stopped long ago, then terminated",
        policy(approval=_ASKS_ABOUT_STOPPED),
        _GONE | _AWAY,
        Outcome.TERMINATED,
        people=_YES_TO_END,
        before=_stopped,
    ),
    Scenario(
        "stopped long ago, kept",
        policy("auto", approval=_ASKS_ABOUT_STOPPED),
        _AWAY,
        Outcome.KEPT,
        people={ALICE: Answers("keep", fields={"keep_date": "2026-11-25"})},
        before=_stopped,
        hours=6.0,
    ),
    Scenario(
        "stopped long ago, and silence acts on questions",
        policy(approval=f"{_ASKS_ABOUT_STOPPED}\n  on_expiry: act"),
        _AWAY,
        Outcome.EXPIRED,
        before=_stopped,
        hours=6.0,
    ),
    Scenario(
        "stopped long ago, started before the second yes",
        policy(approval=_ASKS_ABOUT_STOPPED),
        _STAYS,
        Outcome.VOID,
        people={ALICE: Answers("approve", fields={"losses": "accepted", "typed_instance_id": ID})},
        before=_stopped,
        script=((1500.0, start), (1600.0, works)),
        hours=5.0,
    ),
    Scenario(
        "stopped long ago; somebody starts it and three decide at once",
        policy(approval=_ASKS_ABOUT_STOPPED),
        _GONE | _AWAY | _STAYS,
        Outcome.TERMINATED,
        people=_YES_TO_END,
        before=_stopped,
        rivals=_starts_and_answers,
    ),
    *(
        Scenario(
            name,
            policy(plan="delete_expired_snapshots: true"),
            frozenset({outcome.value}),
            None,
            before=partial(_expiring, outcome),
            script=script,
            hours=24 * _DAYS,
            at_least_hours=24 * _DAYS,
            hours_of_faults=24 * (_DAYS - 3),
            sweeps_every=2 * _DAY,
            snapshots_left=left,
        )
        for name, outcome, left, script in (
            ("snapshots expire", Outcome.STOPPED, 0, ()),
            ("snapshots of a terminated instance stay", Outcome.TERMINATED, 2, ()),
            ("snapshots expire, exempt since", Outcome.STOPPED, 2, ((5 * _DAY, _tag_as_exempt),)),
            ("snapshots expire, to be kept", Outcome.STOPPED, 2, ((5 * _DAY, _keep_copies),)),
            (
                "snapshots expire, only observed since",
                Outcome.STOPPED,
                2,
                ((5 * _DAY, only_observe),),
            ),
        )
    ),
    Scenario("aborted", policy(), _AWAY, Outcome.FAILED, people=_YES, script=((200.0, _abort),)),
    Scenario(
        "aborted while it acts",
        policy(action="terminate"),
        _GONE | _AWAY,
        Outcome.FAILED,
        people=_YES_TO_END,
        script=((700.0, _abort),),
    ),
)
