"""The whole system on simulated time: the real state machine over the real handlers, AWS in memory.

Handlers are loaded as Lambda loads them and wired by their own wiring; only the parts that reach
AWS are replaced. Every call of such a part goes through `Cloud.port`, where faults happen.
"""

from __future__ import annotations

import heapq
import json
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from governor.aws.workflow import episode_input
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.errors import Unavailable
from governor.core.instance import Instance
from governor.core.units import as_utc, iso, parse_iso
from governor.episode.ports import UndoAnswer
from governor.evidence.model import Evidence
from governor.policy.versions import StoredPolicy
from governor.table.table import Write
from tests.builders import NOW, TARGET
from tests.soak.asl import Await, Execution, Machine, NotUnderstood, StepFailed, check
from tests.soak.audit import Audited, audited
from tests.soak.aws import SimulatedEc2
from tests.soak.faults import Died, Faults, NoFaults, nobody
from tests.soak.parts import ROOT, current, handler_of, handler_with_sign_in
from tests.soak.readings import SimulatedMetrics
from tests.twins import (
    MemoryLifecycleHooks,
    MemoryVault,
    RecordingHook,
    StaticBatch,
    StaticSpotMarket,
)
from tests.twins.stores import EveryStore
from tests.twins.table import MemoryTable
from tests.unit.wiring.samples import VARIABLES

START = NOW
SWEEP_SECONDS = 900.0
_CALL = timedelta(milliseconds=20)
"""How long a call of a port takes."""
_EVENT_RETRIES = (60.0, 120.0)
"""Seconds after which Lambda tries an event again. Source: Lambda developer guide, asynchronous."""
_VISIBILITY = 1_800.0
"""Seconds of the delivery queue."""
CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_IN_FORCE = re.compile(r'"policy-([^"]+)-in-force"')
_TOO_LATE = "Too late to hold it"
ADDRESS_OF_A_LINK = re.compile(r"https://api\.example\.com/q/(([^.]+)\.\S+)")
Result = TypeVar("Result")


class FunctionFailed(Exception):
    """An invocation failed: the error as Lambda reports it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


@dataclass
class Run:
    """One execution of the state machine."""

    name: str
    began_at: datetime
    execution: Execution
    status: str = "RUNNING"
    ended_at: datetime | None = None
    token: str | None = None
    """The token that may be answered now."""
    answer: Mapping[str, Any] | None = None
    waits: bool = False
    turn: int = 0
    """Counts its steps: a timer of an earlier one is over."""


@dataclass
class Queued:
    """A message of the delivery queue."""

    name: str
    body: str
    sent_at: datetime
    visible_at: datetime
    receives: int = 0


@dataclass(frozen=True)
class Mail:
    """A message to somebody, on one channel."""

    at: datetime
    to: str
    kind: str
    key: str
    episode: str
    link: str | None
    acts: bool


@dataclass(frozen=True)
class Deed:
    """A call that EC2 has accepted and that was no dry run."""

    at: datetime
    what: str
    instance_id: str
    """The id of a snapshot where one was deleted."""
    episode: str | None
    """The episode that was open."""


@dataclass(frozen=True)
class Seen:
    """The world when an invocation began: what it may be expected to know."""

    at: datetime
    instances: Mapping[str, Instance]
    policy: str


@dataclass(frozen=True)
class Sent:
    """A call that was sent to EC2 and was no dry run, whatever became of it."""

    at: datetime
    what: str
    instance_id: str
    episode: str | None
    seen: Seen


@dataclass(frozen=True)
class Cleared:
    """A recheck that let a step through."""

    began_at: datetime
    at: datetime
    episode: str
    step: str


@dataclass(frozen=True)
class Shown:
    """The instance and the policy when people first had a message of an episode."""

    at: datetime
    instance: Instance | None
    policy: str
    evidence: Evidence | None


@dataclass(frozen=True)
class Press:
    """An answer that somebody gave, and the status that came back; `None`: none came."""

    at: datetime
    by: str
    approval_id: str
    answer: str
    status: int | None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EndedHold:
    """An admin wanted to end all that holds an instance."""

    shown_at: datetime
    """When the page had shown it to them: what came later is not what they ended."""
    status: int


@dataclass(frozen=True)
class OpenPage:
    """A page of the console that somebody has open, and what its form holds."""

    path: str
    session_id: str
    cookie: str
    fields: Mapping[str, str]
    shown_at: datetime


@dataclass(frozen=True)
class SentForm:
    """A form of the console that was sent with the cookie of a session, and the status that came
    back."""

    at: datetime
    session_id: str
    status: int


class _Memory(MemoryTable):
    """A table that can be copied, all but its lock, with the audit of its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.audit: list[Audited] = []
        """The documents of all changes, in their order."""

    def _carry_out(self, one: Write) -> None:
        before = self.items.get(one.key, {})
        super()._carry_out(one)
        after = self.items.get(one.key, {})
        document = audited(one.key, before, after, as_utc(START))
        if document is not None:
            self.audit.append(document)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        vars(self).update(state)


class Cloud:
    """One run of the system. Times are seconds from now; nothing happens by itself but in `run`.

    All of it is plain data between two things that happen, and so `kept` can copy it: what is done
    later is a method or a function with its arguments, never a closure.
    """

    def __init__(self, policy: str, faults: Faults | None = None, seed: int = 0) -> None:
        self.moment = START
        self.policies: list[tuple[datetime, str]] = []
        """Each text of the policy, and since when it counts."""
        self.policy = policy
        self.faults: Faults = faults or NoFaults()
        self.random = random.Random(seed)
        self.inside: list[tuple[str, Any]] = []
        self.began: list[datetime] = []
        """When each of these invocations did."""
        self.seen: list[Seen] = []
        """The world at these moments."""
        self.ec2 = SimulatedEc2(instant=False, now=self.now, cloud=self)
        self.metrics = SimulatedMetrics(self.ec2)
        self.memory = _Memory()
        self.state = EveryStore(self.memory)
        """For a look at what is stored, past all faults."""
        self.batch, self.hook = StaticBatch(), RecordingHook()
        self.hooks, self.market = MemoryLifecycleHooks(), StaticSpotMarket()
        self.vault = MemoryVault()
        self.runs: dict[str, Run] = {}
        self.queue: dict[str, Queued] = {}
        self.parked: list[str] = []
        self.dead_letters: list[str] = []
        self.mails: list[Mail] = []
        self.deeds: list[Deed] = []
        self.sent: list[Sent] = []
        self.cleared: list[Cleared] = []
        self.shown: dict[str, Shown] = {}
        """By episode."""
        self.freezes: list[tuple[datetime, datetime | None]] = []
        """From when to when an operator, or the breaker, has frozen everything."""
        self.pauses: list[datetime] = []
        """Since when everything is paused; empty where it is not."""
        self.warnings: dict[str, datetime] = {}
        """When EC2 has said that it takes an instance back."""
        self.logins: dict[str, datetime] = {}
        """Since when somebody is logged in by Session Manager, by instance."""
        self.interfered_at: datetime | None = None
        """When everybody else acted in the middle of a call."""
        self.expects: str | None = None
        """The outcome of the story's first episode, where nothing fails."""
        self.documents: list[StoredPolicy] = []
        """Versions of the policy, the newest last. Before the first one counts, `policies` does."""
        self.counts_from: dict[str, datetime | None] = {}
        """When each of these versions may count, at the earliest; `None`: never."""
        self.announced: dict[str, datetime] = {}
        """When SNS first had the message that a version counts, by version."""
        self.acceptances: frozenset[str] = frozenset()
        """People who have accepted the policy in force themselves."""
        self.reviews = False
        """True where each sweep begins with the review of the policy, as in the sweep's own
        machine."""
        self.has_sign_in = False
        """True where people sign in before they decide on the page of a link."""
        self.checked: Counter[str] = Counter()
        """How often each promise was checked."""
        self.presses: list[Press] = []
        self.ended_holds: list[EndedHold] = []
        self.open_pages: dict[str, OpenPage] = {}
        """By the ARN of who has it open."""
        self.forms: list[SentForm] = []
        self.ended_sessions: dict[str, datetime] = {}
        """When an operator has ended each of these sessions."""
        self.refusals: list[datetime] = []
        """When the API answered a request with 5xx, as its access log has it."""
        self.violations: list[str] = []
        self.lost_events: list[str] = []
        self.on_mail: Callable[[Mail], object] = nobody
        self.on_sent: Callable[[Sent], object] = nobody
        self.on_press: Callable[[Press], object] = nobody
        self.unheld: list[Press] = []
        """People who wanted to hold what was about to be done, and could not."""
        self.rivals: Callable[[], object] = nobody
        """Deeds of everybody else, all at one moment."""
        self.channels = {"slack_signing_secret": "s" * 32}
        self._last_number = 0
        self._agenda: list[tuple[datetime, int, Callable[[], object]]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "faults": NoFaults()}

    @property
    def policy(self) -> str:
        """Return the text of the policy that counts now."""
        texts = {one.version: one.text for one in self.documents}
        version = self.state.version_in_force() if texts else None
        return texts.get(version or "", self.policies[-1][1])

    @policy.setter
    def policy(self, text: str) -> None:
        self.policies.append((self.moment, text))

    def kept(self) -> bytes:
        """Return a copy of all there is but the faults, for `revived`."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def revived(kept: bytes, faults: Faults) -> Cloud:
        """Return a cloud that goes on from where the copy was made."""
        cloud = cast("Cloud", pickle.loads(kept))
        cloud.faults = faults
        return cloud

    def number(self) -> int:
        """Return a number that nothing has yet."""
        self._last_number += 1
        return self._last_number

    # time

    def now(self) -> datetime:
        """The clock of all functions."""
        return self.moment

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something in so many seconds."""
        due = self.moment + timedelta(seconds=seconds)
        heapq.heappush(self._agenda, (due, self.number(), action))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        for _ in self.steps(seconds):
            pass

    def steps(self, seconds: float) -> Iterator[None]:
        """Let so much time pass, and stop before each thing that happens."""
        end = self.moment + timedelta(seconds=seconds)
        while self._agenda and self._agenda[0][0] <= end:
            yield
            self.step()
        self.moment = max(self.moment, end)

    def step(self) -> None:
        """Let the next thing happen."""
        due, _, action = heapq.heappop(self._agenda)
        self.moment = max(self.moment, due)
        with current(self):
            action()

    def sweeps(self, every: float = SWEEP_SECONDS, first: float = 0.0) -> None:
        """Sweep from now on; a sweep that fails is followed by the next one."""
        self.later(first, partial(self._sweep_and_again, every))

    def daily(self, function: str, first: float) -> None:
        """Invoke a scheduled function from then on; one that fails is tried twice more."""
        self.later(first, partial(self._daily_and_again, function))

    def _daily_and_again(self, function: str) -> None:
        self.daily(function, 86_400.0)
        self.send(function, {})

    def _sweep_and_again(self, every: float) -> None:
        self.later(every, partial(self._sweep_and_again, every))
        self.sweep()

    def sweep(self) -> bool:
        """Sweep the target once, with one more try, as the sweep's own machine has; true when it
        worked."""
        if self.reviews:
            self._review()
        for _ in range(2):
            try:
                self.invoke("sweep_target", {"account": TARGET.account, "region": TARGET.region})
            except FunctionFailed:
                continue
            return True
        return False

    def _review(self) -> None:
        try:
            self.invoke("plan_sweep", {"check": "sweep"})
        except FunctionFailed as failed:
            self.lost_events.append(f"plan_sweep: {failed}")

    # functions

    def invoke(self, function: str, event: Any) -> Any:
        """Return the result of a function. Raises: FunctionFailed."""
        self.inside.append((function, event))
        self.began.append(self.moment)
        self.seen.append(Seen(self.moment, dict(self.ec2.instances), self.policy))
        try:
            wired = handler_with_sign_in if self.has_sign_in else handler_of
            result = wired(function)(event)
        except Died:
            kind = "Sandbox.Timedout" if self.random.random() < 0.5 else "Runtime.ExitError"
            raise FunctionFailed(kind, "the function was killed") from None
        except NotUnderstood:
            raise
        except Exception as error:
            raise FunctionFailed(type(error).__name__, str(error)) from error
        finally:
            self.inside.pop()
            began_at = self.began.pop()
            self.seen.pop()
        if function == "recheck_episode" and result["proceed"]:
            self._cleared(event, began_at)
        return json.loads(json.dumps(result))

    def _cleared(self, event: Mapping[str, Any], began_at: datetime) -> None:
        """A recheck has let a step through, and its caller knows."""
        name = EpisodeRef(
            event["episode"]["account"],
            event["episode"]["region"],
            event["episode"]["instance_id"],
            parse_iso(event["episode"]["launch_time"]),
            event["episode"]["number"],
        ).execution_name
        self.cleared.append(Cleared(began_at, self.moment, name, event["before"]))

    def again(self) -> None:
        """Work on the present event a second time, in the middle of the first; its result is
        lost."""
        if not self.inside:
            return
        function, event = self.inside[-1]
        try:
            self.invoke(function, event)
        except FunctionFailed:
            pass

    def send(self, function: str, event: Any) -> None:
        """Invoke a function for an event: twice more when it fails, then the event is lost."""
        self.later(1.0, partial(self._attempt, function, event, _EVENT_RETRIES))

    def _attempt(self, function: str, event: Any, pauses: Sequence[float]) -> None:
        try:
            self.invoke(function, event)
        except FunctionFailed as failed:
            if pauses:
                self.later(pauses[0], partial(self._attempt, function, event, pauses[1:]))
            else:
                self.lost_events.append(f"{function}: {failed}")

    def port(self, name: str, call: Callable[[], Result]) -> Result:
        """Call the world outside of a function. Outside of functions nothing fails."""
        if not self.inside:
            return call()
        self.moment += _CALL
        result: Result = self.faults.around(self, name, call)
        return result

    # events

    def _event(self, kind: str, source: str, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "version": "0",
            "id": f"5f7b0a8e-1f4e-4a6c-9c1d-{self.number():012d}",
            "detail-type": kind,
            "source": source,
            "account": TARGET.account,
            "time": iso(self.moment),
            "region": TARGET.region,
            "resources": [],
            "detail": dict(detail),
        }

    def state_changed(self, instance_id: str, state: str) -> None:
        """EC2 says so."""
        detail = {"instance-id": instance_id, "state": state}
        event = self._event("EC2 Instance State-change Notification", "aws.ec2", detail)
        self.send("handle_state_change", event)

    def interrupt(self, instance_id: str, *, at_once: bool = False) -> None:
        """EC2 takes a Spot instance back in two minutes. `at_once`: its warning is there
        already."""
        detail = {"instance-id": instance_id, "instance-action": "terminate"}
        event = self._event("EC2 Spot Instance Interruption Warning", "aws.ec2", detail)
        record = {
            "messageId": event["id"],
            "receiptHandle": event["id"],
            "body": json.dumps(event),
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1795262400000"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:interruptions",
            "awsRegion": TARGET.region,
        }
        self.warnings[instance_id] = self.moment
        if at_once:
            self._warn(record, 3)
        else:
            self.later(1.0, partial(self._warn, record, 3))
        self.later(121.0, partial(self.ec2.by_hand, instance_id, "terminate"))

    def _warn(self, record: Mapping[str, Any], left: int) -> None:
        try:
            failed = self.invoke("handle_spot_interruption", {"Records": [record]})[
                "batchItemFailures"
            ]
        except FunctionFailed:
            failed = [record]
        if failed and left:
            self.later(40.0, partial(self._warn, record, left - 1))
        elif failed:
            self.lost_events.append("a warning")

    # executions

    def start(self, ref: EpisodeRef) -> bool:
        name = ref.execution_name
        if name in self.runs:
            return self.runs[name].status == "RUNNING"
        execution = self._machine().start(json.loads(json.dumps(episode_input(ref))))
        run = self.runs[name] = Run(name, self.moment, execution)
        self.later(0.1, partial(self._advance, run, run.turn))
        return True

    def is_running(self, ref: EpisodeRef) -> bool | None:
        run = self.runs.get(ref.execution_name)
        return None if run is None else run.status == "RUNNING"

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        run = next((run for run in self.runs.values() if run.token == task_token), None)
        if run is None or run.status != "RUNNING" or run.answer is not None:
            return False
        run.answer = json.loads(json.dumps(dict(decision)))
        if run.waits:
            self.later(0.1, partial(self._advance, run, run.turn, answered=True))
        return True

    def abort(self, name: str, *, at_once: bool = False) -> None:
        """Somebody aborts an execution. `at_once`: its end is handled before anything else
        happens."""
        run = self.runs[name]
        self._end(run, "ABORTED")
        if at_once:
            try:
                self.invoke("handle_execution_end", self._execution_ended(run))
            except FunctionFailed as failed:
                self.lost_events.append(f"handle_execution_end: {failed}")

    def _machine(self) -> Machine:
        return Machine(definition(), _Host(self))

    def _advance(self, run: Run, turn: int, *, answered: bool = False) -> None:
        if run.status != "RUNNING" or run.turn != turn:
            return
        run.turn += 1
        run.waits = False
        _RUNNING.append(run)
        try:
            wait = self._machine().go_on(run.execution, run.answer if answered else None)
        except StepFailed:
            self._end(run, "FAILED")
            return
        finally:
            _RUNNING.pop()
        if wait is None:
            self._end(run, "SUCCEEDED")
            return
        run.waits = isinstance(wait, Await)
        self.later(wait.seconds, partial(self._advance, run, run.turn))

    def _end(self, run: Run, status: str) -> None:
        if run.status != "RUNNING":
            return
        run.status, run.ended_at, run.token = status, self.moment, None
        if status != "SUCCEEDED":
            self.send("handle_execution_end", self._execution_ended(run))

    def _execution_ended(self, run: Run) -> dict[str, Any]:
        arn = f"arn:aws:states:us-east-1:123456789012:execution:remediation:{run.name}"
        detail = {
            "executionArn": arn,
            "stateMachineArn": VARIABLES["REMEDIATION_STATE_MACHINE_ARN"],
            "name": run.name,
            "status": run.status,
        }
        return self._event("Step Functions Execution Status Change", "aws.states", detail)

    # messages

    def put(self, body: str, seconds: float = 0.0) -> None:
        """A message comes into the delivery queue."""
        in_force = _IN_FORCE.search(body)
        if in_force is not None:
            self.announced.setdefault(in_force[1], self.moment)
        due = self.moment + timedelta(seconds=seconds)
        name = f"m-{self.number()}"
        self.queue[name] = Queued(name, body, self.moment, due)
        self.later(seconds + 0.5, partial(self._deliver, name))

    def drop(self, name: str) -> None:
        """An operator takes a message out of the queue."""
        self.queue.pop(name, None)

    def hide(self, name: str, seconds: float) -> None:
        self.queue[name].visible_at = self.moment + timedelta(seconds=seconds)

    def _deliver(self, name: str) -> None:
        one = self.queue.get(name)
        if one is None:
            return
        if one.visible_at > self.moment:
            self._deliver_when_visible(one)
            return
        one.receives += 1
        one.visible_at = self.moment + timedelta(seconds=_VISIBILITY)
        record = {
            "messageId": name,
            "receiptHandle": name,
            "body": one.body,
            "attributes": {
                "ApproximateReceiveCount": str(one.receives),
                "SentTimestamp": str(int(one.sent_at.timestamp() * 1000)),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:deliveries",
            "awsRegion": TARGET.region,
        }
        try:
            left = self.invoke("deliver_alert", {"Records": [record]})["batchItemFailures"]
        except FunctionFailed:
            left = [name]
        if left:
            self._deliver_when_visible(one)
        else:
            del self.queue[name]

    def _deliver_when_visible(self, one: Queued) -> None:
        self.later(
            (one.visible_at - self.moment).total_seconds() + 0.1, partial(self._deliver, one.name)
        )

    def mailed(self, to: str, document: Mapping[str, Any]) -> None:
        """A channel has taken a message."""
        # A digest is a message about each of its questions.
        questions = [self.state.approval(one) for one in self.state.digest(document["episode"])]
        names = [one.episode.execution_name for one in questions if one is not None]
        for name in names or [document["episode"]]:
            mail = Mail(**{**document, "episode": name, "at": self.moment, "to": to})
            self.mails.append(mail)
            self._show(name)
            self.on_mail(mail)

    def _show(self, name: str) -> None:
        """Keep what was true when people first read of an episode."""
        if name in self.shown:
            return
        try:
            ref = episode_from_execution_name(name)
        except ValueError:
            return
        instance = self.ec2.instances.get(ref.instance_id)
        episode = self.state.episode(ref)
        evidence = episode.measurement.evidence if episode is not None else None
        self.shown[name] = Shown(self.moment, instance, self.policy, evidence)

    def send_to_ec2(self, what: str, instance_id: str) -> None:
        """A call leaves for EC2; what becomes of it is not known yet."""
        seen = (
            self.seen[-1] if self.seen else Seen(self.moment, dict(self.ec2.instances), self.policy)
        )
        sent = Sent(self.moment, what, instance_id, self._open_episode(instance_id), seen)
        self.sent.append(sent)
        self.on_sent(sent)

    def did(self, what: str, instance_id: str) -> None:
        """EC2 has accepted a call."""
        self.deeds.append(Deed(self.moment, what, instance_id, self._open_episode(instance_id)))

    def _open_episode(self, instance_id: str) -> str | None:
        """Return the name of the open episode of an instance, if there is one."""
        found = self.state.record(TARGET, instance_id).open_episode
        return found.execution_name if found is not None else None

    # people

    def press(self, by: str, link: str, answer: str, **fields: str) -> Press:
        """Somebody opens the link and presses a button."""
        found = ADDRESS_OF_A_LINK.fullmatch(link)
        assert found is not None, link
        address, page_id = found.groups()
        # On the page of a digest one question is ticked.
        picked = [name.removeprefix("pick-") for name in fields if name.startswith("pick-")]
        approval_id = picked[0] if page_id.startswith("digest-") and picked else page_id
        at, status = self.moment, None
        try:
            page = self.invoke("serve_approval", request_to_a_link("GET", address))
            csrf = CSRF.search(page["body"])
            if csrf is None:
                status = 409 if page["statusCode"] == 200 else int(page["statusCode"])
            else:
                # It may count, whatever becomes of the answer.
                self.presses.append(Press(at, by, approval_id, answer, None, fields))
                form = {"csrf": csrf[1], "answer": answer, **fields}
                result = self.invoke("serve_approval", request_to_a_link("POST", address, form))
                is_refused = "Not recorded" in result["body"] or _TOO_LATE in result["body"]
                status = 409 if is_refused else int(result["statusCode"])
        except FunctionFailed:
            pass
        if status is None or status >= 500:
            self.refusals.append(self.moment)
        press = Press(at, by, approval_id, answer, status, fields)
        self.presses.append(press)
        self.on_press(press)
        return press

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        event = {"episode": episode_input(ref), "by": by, "channel": channel}
        try:
            answer = self.invoke("undo_episode", event)
        except FunctionFailed as failed:
            raise Unavailable(str(failed), operation="lambda:InvokeFunction") from failed
        return UndoAnswer(bool(answer["done"]), str(answer["text"]))


def request_to_a_link(
    method: str, link: str, form: Mapping[str, str] | None = None
) -> dict[str, Any]:
    path = f"/q/{link}"
    return {
        "version": "2.0",
        "routeKey": f"{method} /q/{{link}}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "host": "api.example.com",
            "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin",
        },
        "pathParameters": {"link": link},
        "requestContext": {"http": {"method": method, "path": path}},
        "isBase64Encoded": False,
        "body": urlencode(form or {}),
    }


class _Host:
    """The cloud, as executions see it."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def call(self, function: str, payload: Mapping[str, Any]) -> Any:
        if _RUNNING[-1].status != "RUNNING":
            # It was aborted in the middle of a task: no other task begins.
            raise StepFailed("States.Aborted", "the execution was aborted")
        name = re.fullmatch(r"\$\{(\w+)Arn\}", function)
        assert name is not None, function
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name[1]).lower()
        try:
            return self._cloud.invoke(snake, json.loads(json.dumps(payload)))
        except FunctionFailed as failed:
            cause = json.dumps({"errorMessage": failed.message, "errorType": failed.kind})
            raise StepFailed(failed.kind, cause) from failed

    def new_token(self) -> str:
        run = _RUNNING[-1]
        run.token, run.answer = f"token-{self._cloud.number()}", None
        return run.token

    def close(self, token: str) -> None:
        run = _RUNNING[-1]
        if run.token == token:
            run.token = None

    def answered(self, token: str) -> Mapping[str, Any] | None:
        run = _RUNNING[-1]
        return run.answer if run.token == token else None

    def jitter(self) -> float:
        return self._cloud.random.random()


_RUNNING: list[Run] = []


@cache
def definition() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / "statemachines" / "remediation.asl.json").read_text()
    )
    check(found)
    return found
