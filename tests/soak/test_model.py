"""A model-based test: sweeps, answers, events, people in EC2 and faults in any order, under the
invariants.

The model is what people themselves remember: `invariants.watch` compares each call that EC2 accepts
with it.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from governor.core.episode_ref import episode_from_execution_name
from governor.core.instance import Lifecycle, SpotRequestType
from tests.properties import examples
from tests.soak import invariants
from tests.soak.cloud import Cloud, FunctionFailed, Mail
from tests.soak.faults import CrashPoint, Kind, NoFaults
from tests.soak.parts import simulated
from tests.soak.scenarios import HOURS, instance, policy

_IDS = tuple(f"i-{number:017x}" for number in range(3))
_INSTANCES = st.sampled_from(_IDS)
_ANSWERS = st.sampled_from(("approve", "approve", "keep", "exempt"))
_OVERRIDES = """
overrides:
  - {name: terminate, match: {tags: {Kind: terminate}}, set: {plan: {action: terminate}}}
  - {name: auto, match: {tags: {Kind: auto}}, set: {mode: auto}}
"""
_KINDS = st.sampled_from(("ask", "terminate", "auto", "spot"))
_CALM_HOURS = 6.0


class System(RuleBasedStateMachine):
    """Three instances, the people who are asked about them, and everything that may happen."""

    def __init__(self) -> None:
        super().__init__()
        self._simulated = ExitStack()
        self._simulated.enter_context(simulated())
        self.cloud = Cloud(policy(approval="digest_from: 0") + _OVERRIDES)
        self.inbox: list[Mail] = []
        self.cloud.on_mail = self.inbox.append
        self.duplicates = False
        invariants.watch(self.cloud)

    @initialize(kinds=st.tuples(_KINDS, _KINDS, _KINDS))
    def begin(self, kinds: tuple[str, str, str]) -> None:
        """Instances of each kind."""
        for one, kind in zip(_IDS, kinds, strict=True):
            plain = instance(one)
            spot = (
                {"lifecycle": Lifecycle.SPOT, "spot_request_id": f"sir-{one}"}
                if kind == "spot"
                else {}
            )
            self.cloud.ec2.spot_requests[f"sir-{one}"] = SpotRequestType.PERSISTENT
            self.cloud.ec2.add(instance(one, tags={**plain.tags, "Kind": kind}, **spot))
        self.sweep()
        self.time_passes(1)

    @rule(minutes=st.sampled_from((1, 5, 40)))
    def time_passes(self, minutes: int) -> None:
        """Workflows, messages and events go on."""
        self.cloud.run(minutes * 60.0)

    @rule()
    def sweep(self) -> None:
        """As the schedule starts it."""
        self._now(self.cloud.sweep)

    @rule(
        number=st.integers(1, 60), kind=st.sampled_from(Kind), minutes=st.sampled_from((0, 5, 20))
    )
    def fault(self, number: int, kind: Kind, minutes: int) -> None:
        """One at some call of a sweep, or of what follows it."""
        point = CrashPoint(number, kind)
        self.cloud.faults = point
        self._now(self.cloud.sweep)
        self.cloud.run(minutes * 60.0)
        self.cloud.faults = NoFaults()
        self.duplicates |= point.at.startswith("deliver_alert")

    @precondition(lambda self: self.inbox)
    @rule(data=st.data(), answer=_ANSWERS)
    def answer(self, data: st.DataObject, answer: str) -> None:
        """Somebody answers a question, or answers it once more."""
        self._press(data.draw(st.sampled_from(self.inbox)), answer)

    @precondition(lambda self: self.inbox)
    @rule(data=st.data(), answers=st.tuples(_ANSWERS, _ANSWERS), number=st.integers(1, 40))
    def two_answers_at_once(
        self, data: st.DataObject, answers: tuple[str, str], number: int
    ) -> None:
        """One in the middle of the other."""
        mail = data.draw(st.sampled_from(self.inbox))
        self.cloud.faults = _Meanwhile(number, partial(self._press, mail, answers[1]))
        self._press(mail, answers[0])
        self.cloud.faults = NoFaults()

    @precondition(lambda self: self.inbox)
    @rule(data=st.data(), what=st.sampled_from(("hold", "undo")))
    def brake(self, data: st.DataObject, what: str) -> None:
        """Somebody holds what was approved, or wants it back."""
        self._press(data.draw(st.sampled_from(self.inbox)), what)

    @rule(one=_INSTANCES)
    def work(self, one: str) -> None:
        """Somebody works on it for half an hour."""
        now = self.cloud.moment
        self.cloud.metrics.busy[one].append((now, now + timedelta(minutes=30)))

    @rule(one=_INSTANCES, what=st.sampled_from(("stop", "terminate")))
    def by_hand(self, one: str, what: str) -> None:
        """A person acts in EC2."""
        self._now(lambda: self.cloud.ec2.by_hand(one, what))

    @rule(one=_INSTANCES)
    def spot_warning(self, one: str) -> None:
        """EC2 takes it back, where it is a Spot instance that runs."""
        known = self.cloud.ec2.instances[one]
        if known.lifecycle is Lifecycle.SPOT and known.state == "running":
            self._now(lambda: self.cloud.interrupt(one))

    @precondition(lambda self: any(run.status == "RUNNING" for run in self.cloud.runs.values()))
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        """Somebody aborts a workflow."""
        running = sorted(name for name, run in self.cloud.runs.items() if run.status == "RUNNING")
        name = data.draw(st.sampled_from(running))
        self._now(lambda: self.cloud.abort(name))

    @precondition(lambda self: self.cloud.runs)
    @rule(data=st.data(), step=st.sampled_from(("stop", "terminate")))
    def call_out_of_turn(self, data: st.DataObject, step: str) -> None:
        """The function that acts is called for some episode, as no workflow would."""
        ref = episode_from_execution_name(data.draw(st.sampled_from(sorted(self.cloud.runs))))
        name = {
            "account": ref.account,
            "region": ref.region,
            "instance_id": ref.instance_id,
            "launch_time": ref.launch_time.isoformat(),
            "number": ref.number,
        }
        self._now(lambda: self._quietly("put_away", {"episode": name, "action": step}))

    @invariant()
    def nothing_unsafe_was_done(self) -> None:
        """At any time."""
        assert [] == self.cloud.violations

    def teardown(self) -> None:
        """When all is quiet again, everything is right."""
        try:
            self.cloud.sweeps()
            self.cloud.run(_CALM_HOURS * HOURS)
            assert [] == invariants.after(self.cloud, duplicates=self.duplicates)
        finally:
            self._simulated.close()

    def _press(self, mail: Mail, answer: str) -> None:
        if mail.link is None:
            return
        fields = {
            "losses": "accepted",
            "typed_instance_id": episode_from_execution_name(mail.episode).instance_id,
            "keep_date": "2026-11-25",
            "reason": "a demo",
        }
        self._now(lambda: self.cloud.press(mail.to, str(mail.link), answer, **fields))

    def _quietly(self, function: str, event: object) -> None:
        try:
            self.cloud.invoke(function, event)
        except FunctionFailed:
            return

    def _now(self, act: object) -> None:
        assert callable(act)
        self.cloud.later(0.0, act)
        self.cloud.run(0.5)


class _Meanwhile:
    """Somebody else acts at the n-th call."""

    def __init__(self, number: int, act: object) -> None:
        self._left, self._act = number, act

    def around(self, world: object, name: str, call: object) -> object:
        assert callable(call)
        assert callable(self._act)
        self._left -= 1
        if self._left == 0:
            self._act()
        return call()


@pytest.mark.repeats
@pytest.mark.parametrize("machine", [System])
def test_whatever_happens_in_whatever_order(machine: type[System]) -> None:
    """Random stories; one that breaks an invariant is shrunk to its shortest form."""
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples(5, 100),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
