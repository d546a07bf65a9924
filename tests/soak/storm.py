"""A fleet in a storm: faults on a fifth of all AWS calls, outages, poisoned events, people who
disagree.

Then all is quiet for half a day, and every invariant must hold. Messages may have come twice.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from governor.core.episode_ref import episode_from_execution_name
from governor.core.instance import Lifecycle, Protection, SpotRequestType
from tests.builders import TARGET
from tests.soak import invariants
from tests.soak.cloud import START, Cloud, FunctionFailed, Mail
from tests.soak.faults import Storm
from tests.soak.scenarios import HOURS, instance

FLEET = 16
STORM_HOURS, CALM_HOURS = 8.0, 14.0
_POLICY = """
mode: ask
metrics: {publishers_are_trusted: true}
idle: {window_minutes: 60}
plan: {action: stop, local_disks_may_be_lost_unasked: true}
approval:
  ask_after_minutes: 120
  remind_after_minutes: 60
  escalate_after_minutes: 60
  expire_after_minutes: 60
  ask_again_after_hours: 3
  two_people_above_usd_per_hour: 1
breaker: {hold_minutes: 30, minimum_instances: 8}
ownership:
  contacts:
    ml: {emails: [alice@example.com, bob@example.com, dora@example.com]}
    boss: {emails: [carol@example.com]}
  escalation_contacts: [boss]
overrides:
  - {name: terminate, match: {tags: {Kind: terminate}}, set: {plan: {action: terminate}}}
  - {name: auto, match: {tags: {Kind: auto}}, set: {mode: auto}}
  - {name: observe, match: {tags: {Kind: observe}}, set: {mode: observe}}
  - {name: act, match: {tags: {Kind: act}}, set: {approval: {on_expiry: act}}}
"""
_KINDS = ("ask", "terminate", "auto", "observe", "act", "ask", "terminate", "spot")
_PEOPLE = ("alice@example.com", "bob@example.com", "dora@example.com")
_POISON: tuple[tuple[str, Any], ...] = (
    ("handle_state_change", {"detail": {"state": "stopped"}}),
    ("handle_state_change", {"detail": None}),
    ("handle_execution_end", {"detail": {"name": "nobody", "status": "FAILED"}}),
    ("handle_spot_interruption", {"Records": [{"messageId": "m", "body": "{"}]}),
    ("sweep_target", {"account": "1", "region": "us-east-1"}),
    ("put_away", {"episode": {}, "action": "terminate"}),
    ("record_outcome", {"episode": {}, "outcome": "terminated"}),
)
_POISONED_MESSAGES = (
    "",
    "{",
    "[]",
    '{"flush": "x"}',
    '{"again": {}}',
    json.dumps({"AlarmName": 1}),
    "\x00" * 99,
)


@dataclass
class Weather:
    """One storm over one fleet; everything in it follows from the seed."""

    seed: int
    storm_hours: float = STORM_HOURS
    fleet: int = FLEET
    cloud: Cloud = field(init=False)
    faults: Storm = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        until = START + timedelta(hours=self.storm_hours)
        self.faults = Storm(random.Random(self.seed + 1), until)
        self.cloud = Cloud(_POLICY, self.faults, self.seed)
        self.cloud.channels = {"slack_bot_token": "xoxb-1", "slack_channel": "C0123456789"}
        invariants.watch(self.cloud)
        self.cloud.on_mail = self._got
        for number in range(self.fleet):
            self._add(number)

    def run(self) -> list[str]:
        """Return what is wrong in the end."""
        self._outages()
        cloud = self.cloud
        cloud.sweeps()
        cloud.sweeps(first=450.0, every=1_800.0)
        for _ in range(12):
            self._sometime(partial(self._poison))
            self._sometime(partial(self._by_hand))
        for _ in range(4):
            self._sometime(self._abort)
        cloud.run((self.storm_hours + CALM_HOURS) * HOURS)
        return invariants.after(cloud, duplicates=True, counts=cloud.checked)

    def _add(self, number: int) -> None:
        kind, instance_id = _KINDS[number % len(_KINDS)], f"i-{number:017x}"
        one = instance(instance_id)
        changes: dict[str, Any] = {"tags": {**one.tags, "Kind": kind, "Name": f"{kind}-{number}"}}
        if kind == "spot":
            changes |= {"lifecycle": Lifecycle.SPOT, "spot_request_id": f"sir-{number}"}
            self.cloud.ec2.spot_requests[f"sir-{number}"] = SpotRequestType.PERSISTENT
            self._sometime(lambda: self.cloud.interrupt(instance_id))
        self.cloud.ec2.add(instance(instance_id, **changes))
        # It has worked until some time before the start, or still works for a while.
        idle_since = START - timedelta(minutes=self.random.uniform(-180, 300))
        self.cloud.metrics.busy[instance_id].append((START - timedelta(days=2), idle_since))
        if self.random.random() < 0.3:
            begins = START + timedelta(hours=self.random.uniform(0, self.storm_hours))
            self.cloud.metrics.busy[instance_id].append((begins, begins + timedelta(hours=1)))

    def _sometime(self, act: Any) -> None:
        self.cloud.later(self.random.uniform(0, self.storm_hours * HOURS), act)

    def _outages(self) -> None:
        for service, minutes in (("table", 10), ("sns", 60), ("ses", 60), ("slack", 60)):
            since = START + timedelta(hours=self.random.uniform(0.2, self.storm_hours))
            self.faults.down[service] = (since, since + timedelta(minutes=minutes))

    def _poison(self) -> None:
        """An event, or a message, that no function can use."""
        self.faults.injected["poison"] += 1
        if self.random.random() < 0.5:
            body = self.random.choice(_POISONED_MESSAGES)
            self.cloud.put(body)
            name = next(reversed(self.cloud.queue))
            # An operator looks at it after an hour: it would come a thousand times.
            self.cloud.later(HOURS, lambda: self.cloud.drop(name))
            return
        function, event = self.random.choice(_POISON)
        try:
            self.cloud.invoke(function, event)
        except FunctionFailed:
            return
        if function in ("put_away", "record_outcome", "sweep_target"):
            self.cloud.violations.append(f"{function} took {event}")

    def _by_hand(self) -> None:
        """Somebody acts in EC2, now or in the middle of somebody else's call."""
        one = self.random.choice(sorted(self.cloud.ec2.instances))
        what = self.random.choice(("stop", "terminate", "start", "stop", "exempt", "protect"))
        self.faults.waiting.append(lambda: self._act(one, what))

    def _act(self, instance_id: str, what: str) -> None:
        ec2 = self.cloud.ec2
        one = ec2.instances[instance_id]
        if what == "start":
            if one.state == "stopped":
                ec2.start(TARGET, instance_id)
        elif what == "exempt":
            ec2.set_tags(TARGET, [instance_id], {"GpuGovernor": "exempt"}, dry_run=False)
        elif what == "protect":
            ec2.protections[instance_id] = Protection(stop=True, termination=True)
        else:
            ec2.by_hand(instance_id, what)

    def _abort(self) -> None:
        running = [name for name, run in self.cloud.runs.items() if run.status == "RUNNING"]
        if running:
            self.cloud.abort(self.random.choice(running))

    def _got(self, mail: Mail) -> None:
        """People answer what they get, not always, and not all the same."""
        if mail.link is None or mail.to not in _PEOPLE:
            return
        if mail.kind == "approval-requested" and self.random.random() < 0.6:
            answer = self.random.choices(("approve", "keep", "exempt"), (8, 1, 1))[0]
            press = partial(self._press, mail, answer, 6)
            if self.random.random() < 0.2:
                self.faults.waiting.append(press)
            else:
                self.cloud.later(self.random.choice((0.0, 60.0, 1_800.0, 5_000.0)), press)
            if self.random.random() < 0.15:
                self.cloud.later(
                    self.random.uniform(0.0, 4_000.0), partial(self._press, mail, "hold", 3)
                )
        elif mail.kind == "outcome" and self.random.random() < 0.1:
            self.cloud.later(600.0, partial(self._press, mail, "undo", 3))

    def _approval_of(self, name: str) -> str:
        found = [one for one in invariants.episodes(self.cloud) if one.ref.execution_name == name]
        return found[0].approval_id if found else ""

    def _press(self, mail: Mail, answer: str, left: int) -> None:
        assert mail.link is not None
        ref = episode_from_execution_name(mail.episode)
        fields = {
            "losses": "accepted",
            "typed_instance_id": ref.instance_id,
            f"pick-{self._approval_of(mail.episode)}": "yes",
            "keep_date": "2026-11-25",
            "reason": "a demo",
        }
        press = self.cloud.press(mail.to, mail.link, answer, **fields)
        if (press.status is None or press.status >= 500) and left:
            self.cloud.later(180.0, partial(self._press, mail, answer, left - 1))


def weathered(seed: int) -> tuple[int, dict[str, int], dict[str, int], list[str]]:
    """Return the seed, the faults of its storm, what was checked in it, and what they broke."""
    weather = Weather(seed)
    found = weather.run()
    return seed, dict(weather.faults.injected), dict(weather.cloud.checked), found
