"""A fleet on the local cloud, a fifth of whose AWS calls meet faults: what happens to it, and what
must hold.

The real handlers, boto3 and state machines. Every instance has its story; all run at the same time.
Then the weather clears, sweeps repair, and everything is looked at.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from governor.approvals.model.approval import Answer, Approval
from governor.aws.dynamodb import DynamoTable
from governor.core.episode_ref import episode_from_execution_name
from governor.core.instance import EPISODE_TAG
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.remediation.take_snapshot import RESERVED
from governor.table import keys
from governor.table.table import present, update
from local.demo.fleet import T4
from local.engine.cloud import LocalCloudError
from tests.integration.people import decide, request
from tests.integration.stage import TARGET, WAIT_SCALE, Stage, guarded_stage

ALICE, BOB, DORA = "alice@example.com", "bob@example.com", "dora@example.com"
SHARE = 0.2
"""How fast the waits of workflows go by."""
_POLICY = """
mode: ask
metrics: {publishers_are_trusted: true}
approval: {digest_from: 0, digest_after_seconds: 0}
caps:
  organization_actions_per_hour: 1000
  account_actions_per_hour: 1000
  owner_actions_per_hour: 1000
breaker: {minimum_instances: 1000}
ownership:
  contacts: {ml: {emails: [alice@example.com, bob@example.com, dora@example.com]}}
  default_contacts: [ml]
overrides:
  - {name: terminate, match: {tags: {Kind: terminate}}, set: {plan: {action: terminate}}}
  - name: nobody answers
    match: {tags: {Kind: silent}}
    set:
      approval:
        remind_after_minutes: 0.05
        escalate_after_minutes: 0.05
        expire_after_minutes: 0.05
"""
_TAKEN = frozenset({200, 303})
_NOES = frozenset({"keep", "exempt", "hold"})
_TRIES = 12
_PAUSE_SECONDS = 0.3
_TRY_AGAIN = "please try again"
"""The page says so when an answer was not recorded and the question is still open."""
_SWEEPS = 3
"""How many sweeps a workflow gets in which nothing moves. The schedule's would come anyway: a
recorded answer that could not be handed over is handed over by the next one."""
_QUIET_BEFORE_A_SWEEP = 10
"""Rounds of looks in which nothing has moved."""


@dataclass(frozen=True)
class Press:
    """A button that somebody pressed, what the page said, and when it had said so."""

    instance_id: str
    by: str
    answer: str
    status: int
    at: float


@dataclass(frozen=True)
class Story:
    """The story of one instance: its launch, the deeds of people, and the ends that its episode may
    have."""

    name: str
    act: Callable[[Fleet, str], None]
    ends: frozenset[Outcome]
    state: frozenset[str]
    launched: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Fleet:
    """The instances of some stories, and the people who are asked about them."""

    stage: Stage
    seed: int
    presses: list[Press] = field(default_factory=list)
    stories: dict[str, Story] = field(default_factory=dict)

    def play(self, stories: Sequence[Story]) -> list[str]:
        """Return what is wrong when all is over and the weather has been good for two sweeps."""
        scene = self.stage.scene
        self.stage.policy(_POLICY, as_it_is=True)
        for number, story in enumerate(stories):
            self.stories[self.stage.launch(name=f"{story.name}-{number}", **story.launched)] = story
        scene.simulation.set_weather(self.seed, SHARE)
        try:
            self.sweep()
            with ThreadPoolExecutor(len(self.stories)) as pool:
                acts = [pool.submit(story.act, self, one) for one, story in self.stories.items()]
                while wait(acts, _PAUSE_SECONDS).not_done:
                    self._let_pass()
            for act in acts:
                act.result()
            for one in self.stories:
                self.ended(one)
        finally:
            scene.simulation.set_weather(self.seed, 0.0)
        self.sweep()
        self.sweep()
        self.stage.eventually(
            lambda: None if self._untold() else True, "people are not notified of an end"
        )
        return self.complaints()

    # what happens

    def sweep(self) -> None:
        """As the schedule would, until one comes through."""
        for _ in range(_TRIES):
            try:
                self.stage.scene.sweep()
            except RuntimeError:
                continue
            return
        raise AssertionError(f"no sweep comes through: {self.stage.scene.errors()}")

    def ended(self, instance_id: str) -> None:
        """Waits for the end of a workflow. Where nothing moves, a sweep comes, as it would by the
        schedule."""

        def over() -> bool | None:
            self._let_pass()
            execution = self.stage.scene.executions().get(instance_id)
            return (execution is not None and execution["status"] != "RUNNING") or None

        def stuck() -> str:
            return f"the workflow of {instance_id} does not end: {self._where(instance_id)}"

        for _ in range(_SWEEPS):
            with suppress(LocalCloudError):
                self.stage.eventually(over, stuck, quiet_rounds=_QUIET_BEFORE_A_SWEEP)
                return
            self.sweep()
        self.stage.eventually(over, stuck)

    def _where(self, instance_id: str) -> str:
        """Return the questions about an instance, as the table has them, and what was pressed."""
        questions = [
            f"{question.status.value} in stage {question.stage} until {question.expires_at}"
            for _, question in self._episodes(instance_id)
        ]
        presses = [
            f"{press.by} pressed {press.answer}: {press.status}"
            for press in self.presses
            if press.instance_id == instance_id
        ]
        return f"questions {questions}, presses {presses}"

    def _let_pass(self) -> None:
        """Has minutes of the table pass as fast as those of the workflows, for all of them: a try
        to make snapshots that got no answer keeps others away for minutes."""
        table = DynamoTable(self.stage.clients, self.stage.scene.outputs["StateTableName"])
        for name in self._running():
            key = keys.episode(episode_from_execution_name(name))
            since = (table.get(key) or {}).get("snapshots_reserved_at")
            now = datetime.now(UTC)
            if since and datetime.fromisoformat(since) < now - RESERVED * WAIT_SCALE:
                table.try_write(
                    update(key, {"snapshots_reserved_at": now - RESERVED * 2}, present())
                )

    def _running(self) -> list[str]:
        states = self.stage.scene.cloud.client("stepfunctions")
        machine = self.stage.scene.outputs["RemediationStateMachineArn"]
        found = states.list_executions(stateMachineArn=machine, statusFilter="RUNNING")[
            "executions"
        ]
        return [one["name"] for one in found if any(mine in one["name"] for mine in self.stories)]

    def answer(self, instance_id: str, person: str, answer: str, **fields: str) -> int:
        """Somebody opens a link and presses a button, and again, as long as the page is out of
        order, or asks for it."""
        link = self.stage.personal(self.stage.question(instance_id), person)
        if answer == "keep":
            fields["keep_until"] = self._soon(link)
        fields = {
            "typed_instance_id": instance_id,
            "losses": "accepted",
            "reason": "a demo",
            **fields,
        }
        status = 0
        for _ in range(_TRIES):
            status, page = request(link)
            if status == 200:
                status, page = decide_once(link, answer, **fields)
            is_asked_again = status == 400 and _TRY_AGAIN in page
            if status < 500 and not is_asked_again:
                break
        self.presses.append(Press(instance_id, person, answer, status, time.time()))
        return status

    def by_hand(self, instance_id: str, state: str) -> None:
        """Somebody does it in EC2, a moment later."""
        time.sleep(random.Random(self.seed).uniform(0, 4))
        self.stage.scene.simulation.set_state(instance_id, state)

    def _soon(self, link: str) -> str:
        """The first date that the page offers."""

        def offered() -> str | None:
            status, page = request(link)
            return page.split('<option value="')[1].split('"')[0] if status == 200 else None

        return self.stage.eventually(offered, "the page does not open")

    # what must hold

    def complaints(self) -> list[str]:
        """Return what is wrong."""
        found = [what for deed in self._deeds() for what in self._unsafe(deed)]
        for instance_id, story in self.stories.items():
            found += [
                f"{story.name} {instance_id}: {what}"
                for what in self._ended_wrong(instance_id, story)
            ]
        return [*found, *self._ledger(), *self._twice()]

    def _deeds(self) -> list[dict[str, Any]]:
        return [
            one for one in self.stage.scene.simulation.deeds() if one["instance_id"] in self.stories
        ]

    def _unsafe(self, deed: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with one call that EC2 has accepted."""
        one, final = deed["instance_id"], deed["final"]
        if final == "running":
            return
        name = f"{one} was {final}"
        approved = [
            question
            for episode, question in self._episodes(one)
            if question.decision
            and question.decision.answer is Answer.APPROVE
            and question.decision.at.timestamp() <= deed["at"] + 1
        ]
        if not approved:
            yield f"{name}, and nobody has approved it"
        elif final == "terminated" and {ALICE, BOB} != set(approved[-1].approvers.split(",")):
            yield f"{name}, and {approved[-1].approvers} have approved it"
        for press in self.presses:
            is_no = press.answer in _NOES and press.status in _TAKEN
            if press.instance_id == one and is_no and press.at < deed["at"]:
                yield f"{name} after {press.by} had said {press.answer}"
        if final == "terminated":
            begun = [
                other["at"]
                for other in self._deeds()
                if other["instance_id"] == one and other["final"] == "stopped"
            ]
            saved = {
                snapshot["volume_id"]
                for snapshot in deed["completed"]
                if snapshot["tags"].get(EPISODE_TAG)
                and begun
                and snapshot["begun"] >= int(begun[-1])
            }
            if missing := set(deed["volumes"]) - saved:
                yield f"{name} without a completed snapshot of {', '.join(sorted(missing))}"

    def _episodes(self, instance_id: str) -> list[tuple[Episode, Approval]]:
        states = self.stage.scene.cloud.client("stepfunctions")
        machine = self.stage.scene.outputs["RemediationStateMachineArn"]
        names = [
            one["name"] for one in states.list_executions(stateMachineArn=machine)["executions"]
        ]
        found = []
        for name in sorted(name for name in names if instance_id in name):
            episode = self.stage.state.episode(episode_from_execution_name(name))
            question = self.stage.state.approval(episode.approval_id) if episode else None
            if episode and question:
                found.append((episode, question))
        return found

    def _ended_wrong(self, instance_id: str, story: Story) -> Iterator[str]:
        episodes = self._episodes(instance_id)
        if not episodes:
            yield "nobody was ever asked"
            return
        episode, question = episodes[0]
        if episode.phase is not Phase.CLOSED or episode.outcome not in story.ends:
            why = "" if episode.ending is None else episode.ending.reason
            yield f"ended as {episode.outcome}: {why}"
        if len(episodes) > 1:
            yield f"was asked about {len(episodes)} times"
        if self.stage.state.record(TARGET, instance_id).open_episode is not None:
            yield "is still locked"
        if (state := self.stage.ec2_state(instance_id)) not in story.state:
            yield f"is {state}"
        accepted = [press for press in self.presses if press.instance_id == instance_id]
        for press in accepted:
            if press.status not in _TAKEN or press.answer == "undo":
                continue
            first = question.first_yes
            said = {one.answer.value for one in (first, question.decision) if one}
            if press.answer not in said and question.hold is None:
                yield f"{press.by} said {press.answer}, and the record says {question.status.value}"

    def _ledger(self) -> Iterator[str]:
        entries = self.stage.state.entries(f"{datetime.now().astimezone():%Y-%m}")
        for instance_id, story in self.stories.items():
            booked = [one for one in entries if one.episode.instance_id == instance_id and one.ours]
            done = {deed["final"] for deed in self._deeds() if deed["instance_id"] == instance_id}
            wanted = (
                "terminated" if "terminated" in done else "stopped" if "stopped" in done else None
            )
            found = [one.outcome.value for one in booked]
            if found != ([wanted] if wanted else []):
                yield (
                    f"{story.name} {instance_id} was {wanted or 'not put away'}, and "
                    f"{found} is booked"
                )
            if "running" in done and any(one.ended_at is None for one in booked):
                yield f"{story.name} {instance_id} runs again, and still saves"

    def _untold(self) -> list[str]:
        """People who have not got the end of an episode."""
        found = []
        for instance_id in self.stories:
            for episode, _ in self._episodes(instance_id):
                name = episode.ref.execution_name
                ends = {
                    mail["dedup_id"]
                    for mail in self.stage.scene.read_mail()
                    if mail["facts"].get("episode") == name
                    and mail["kind"] in ("outcome", "failure")
                }
                told = {
                    one.target
                    for one in self.stage.state.deliveries(name)
                    if one.delivery_id and one.message in ends
                }
                found += [f"{person} {name}" for person in (ALICE, BOB, DORA) if person not in told]
        return found

    def _is_mine(self, text: object) -> bool:
        return any(one in str(text) for one in self.stories)

    def _twice(self) -> Iterator[str]:
        """Messages that came more often than once, beyond what lost answers explain."""
        scene = self.stage.scene
        receivers = scene.receivers
        struck: Counter[str] = Counter()
        for operation, kind, count in scene.simulation.weather()[1]:
            struck[operation.partition(":")[0]] += count * (kind in ("lost answer", "arrived late"))
        taken = [
            one for one in receivers.received() if one.status < 300 and self._is_mine(one.payload)
        ]
        posts = Counter(
            f"{one.channel}: {one.payload}"
            for one in taken
            if one.operation in ("chat.postMessage", "post")
        )
        yield from (f"{count} times to {text[:300]}" for text, count in posts.items() if count > 1)
        again = [one for one in taken if one.problem == "known already"]
        yield from (f"again to the webhook: {str(one.payload)[:300]}" for one in again)
        mails = Counter(
            (mail["To"][0], mail["Subject"], mail["BodyText"])
            for mail in scene.sent_mail()
            if self._is_mine(mail["BodyText"])
        )
        more = sum(mails.values()) - len(mails)
        if more > struck["ses"]:
            yield f"{more} mails came twice, and SES lost {struck['ses']} answers"
        plain = Counter(
            mail["dedup_id"]
            for mail in scene.read_mail()
            if mail.get("instance_id") in self.stories
        )
        more = sum(plain.values()) - len(plain)
        if more > struck["sns"]:
            yield f"{more} messages of the topic came twice, and SNS lost {struck['sns']} answers"


def played(seed: int) -> tuple[dict[str, int], list[str]]:
    """Return the faults that all stories have met on a cloud of their own, and what is wrong after
    them."""
    with guarded_stage(weather=True) as stage:
        try:
            found = Fleet(stage, seed).play(STORIES)
        except (AssertionError, LocalCloudError) as error:
            found = [str(error)]
        struck: Counter[str] = Counter()
        for _, kind, count in stage.scene.simulation.weather()[1]:
            struck[kind] += count
    return dict(struck), found


def decide_once(link: str, answer: str, **fields: str) -> tuple[int, str]:
    """Status and body of one press; the page may be out of order when it is opened."""
    try:
        return decide(link, answer, **fields)
    except AssertionError as error:
        return 500, str(error)


# stories


def _stop(fleet: Fleet, one: str) -> None:
    fleet.answer(one, ALICE, "approve")


def _stop_and_undo(fleet: Fleet, one: str) -> None:
    fleet.answer(one, ALICE, "approve")
    fleet.ended(one)
    fleet.answer(one, BOB, "undo")


def _both(fleet: Fleet, one: str) -> None:
    fleet.answer(one, ALICE, "approve")
    fleet.answer(one, BOB, "approve")


def _said(answer: str, fleet: Fleet, one: str) -> None:
    fleet.answer(one, ALICE, answer)


def _both_and_hold(fleet: Fleet, one: str) -> None:
    _both(fleet, one)
    fleet.answer(one, DORA, "hold")


def _nothing(fleet: Fleet, one: str) -> None:
    del fleet, one


def _everybody(fleet: Fleet, one: str) -> None:
    """Two sweeps, three people who do not agree, and somebody in EC2, all at once."""
    fleet.stage.question(one)
    acts: list[Callable[[], object]] = [
        fleet.sweep,
        fleet.sweep,
        partial(fleet.answer, one, ALICE, "approve"),
        partial(fleet.answer, one, BOB, "approve"),
        partial(fleet.answer, one, DORA, "exempt"),
        partial(fleet.by_hand, one, "stopped"),
    ]
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()


def _kind(name: str, **more: Any) -> dict[str, Any]:
    return {"tags": {"Kind": name}, **more}


_PERSISTENT = {
    "instance_type": "g4dn.2xlarge",
    "gpu": T4,
    "lifecycle": "spot",
    "spot_request_type": "persistent",
}
_RUNS, _AWAY, _GONE = frozenset({"running"}), frozenset({"stopped"}), frozenset({"terminated"})

STOP_AND_UNDO = Story("undone", _stop_and_undo, frozenset({Outcome.STOPPED}), _RUNS)
TERMINATE = Story(
    "terminated", _both, frozenset({Outcome.TERMINATED}), _GONE, _kind("terminate", data_gib=50)
)
KEEP = Story("kept", partial(_said, "keep"), frozenset({Outcome.KEPT}), _RUNS)
STORIES = (
    STOP_AND_UNDO,
    TERMINATE,
    KEEP,
    Story("stopped", _stop, frozenset({Outcome.STOPPED}), _AWAY),
    Story("exempted", partial(_said, "exempt"), frozenset({Outcome.EXEMPTED}), _RUNS),
    Story("expired", _nothing, frozenset({Outcome.EXPIRED}), _RUNS, _kind("silent")),
    Story("spot", _both, frozenset({Outcome.TERMINATED}), _GONE, _kind("terminate", **_PERSISTENT)),
    Story(
        "held",
        _both_and_hold,
        frozenset({Outcome.HELD, Outcome.TERMINATED}),
        _AWAY | _GONE | _RUNS,
        _kind("terminate"),
    ),
    Story(
        "disputed",
        _everybody,
        frozenset(
            {Outcome.EXEMPTED, Outcome.HELD, Outcome.VOID, Outcome.TERMINATED, Outcome.REFUSED}
        ),
        _AWAY | _GONE,
        _kind("terminate"),
    ),
)
