"""A governed Spot instance with an open question, and the use cases that answer warnings about
it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from governor.alerts.model import Alert, AlertKind
from governor.core.instance import Lifecycle, Volume
from governor.core.parsing import parse
from governor.episode.model.episode import Phase
from governor.events.contract import LifecycleEvent
from governor.events.model.interruption import Cause, LifecycleAction, Warned
from governor.events.notify_warning import AdviseElsewhere, NotifyWarning, Reaction
from governor.events.respond_to_warnings import RespondToWarnings
from governor.events.send_checkpoint import SendCheckpoint
from governor.policy.model.notices import Events
from governor.policy.model.policy import Mode
from governor.remediation.void_episode import VoidEpisode
from governor.table.once import Once
from tests.builders import NOW, TARGET, make_instance
from tests.twins import MemoryEventLog, MemoryLifecycleHooks, RecordingHook, StaticSpotMarket
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import World

BOOT = Volume("vol-0123456789abcdef0", "/dev/xvda", True, 100, "gp3")
DATA = Volume("vol-0123456789abcdef1", "/dev/sdb", False, 500, "gp3")

GROUP, HOOK = "trainers", "save-work"
SAMPLES = Path(__file__).parents[3] / "events/handle_lifecycle_action"


@dataclass
class WarnedWorld:
    """The world of an asked question, and a warning that was sent twenty seconds ago."""

    events: Events = field(default_factory=Events)
    mode: Mode = Mode.ASK
    tags: dict[str, str] = field(default_factory=dict)
    has_document: bool = True
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tags = {"Purpose": "GPU-Workload", "Name": "trainer", "Owner": "ada", **self.tags}
        spot = {"tags": tags, "lifecycle": Lifecycle.SPOT, "volumes": (BOOT, DATA), **self.changes}
        self.world = World(mode=self.mode, decide=False, phase=Phase.ASKING, changes=spot)
        self.world.policies.policy = replace(self.world.policies.policy, events=self.events)
        self.instance = self.world.instance
        self.log, self.hook, self.market = MemoryEventLog(), RecordingHook(), StaticSpotMarket()
        clock, announcer, ec2 = self.world.clock, self.world.announcer, self.world.ec2
        once = Once(clock, self.log)
        self.hooks = MemoryLifecycleHooks({(GROUP, HOOK): timedelta(seconds=600)})
        self.react = RespondToWarnings(
            clock=clock,
            policies=self.world.policies,
            accounts=ACCOUNTS,
            instances=ec2,
            instance_store=self.world.state,
            void=VoidEpisode(
                episode_store=self.world.state,
                approval_store=self.world.state,
                workflow=self.world.workflow,
            ),
            once=once,
            notify=NotifyWarning(clock, ec2, self.log, once, announcer),
            checkpoint=SendCheckpoint(
                clock, self.hook if self.has_document else None, once, announcer
            ),
            snapshots=ec2,
            advise=AdviseElsewhere(clock, self.market, once, announcer),
            hooks=self.hooks,
        )

    def interruption(self, warned: Warned) -> Reaction:
        """Return what is done about one warning that comes alone. Raises: what kept it from being
        done."""
        return self.react.one(warned)

    rebalance = lifecycle = interruption

    def warned(self, **changes: Any) -> Warned:
        """A Spot interruption warning about the instance, twenty seconds old."""
        plain = Warned(
            event_id="event-1",
            account=TARGET.account,
            region=TARGET.region,
            instance_id=self.instance.instance_id,
            cause=Cause.SPOT,
            at=NOW - timedelta(seconds=20),
            action="terminate",
        )
        return replace(plain, **changes)

    def recommended(self, **changes: Any) -> Warned:
        """A rebalance recommendation about the instance."""
        return self.warned(cause=Cause.REBALANCE, action=None, **changes)

    def root_volume_replaced(self, **changes: Any) -> Warned:
        """The group of the instance replaces its root volume, and has waited for twenty seconds."""
        event = json.loads((SAMPLES / "root-volume.json").read_text())
        warned = parse(LifecycleEvent, event).to_domain()
        own = self.warned(
            cause=warned.cause, action=warned.action, lifecycle_action=warned.lifecycle_action
        )
        return replace(own, **changes)

    def let_go(self, *, to_warm_pool: bool = False, **changes: Any) -> Warned:
        """The group of the instance terminates it, and has waited for twenty seconds."""
        waits = LifecycleAction(GROUP, HOOK, "87654321-4321-4321-4321-210987654321", to_warm_pool)
        action = "put into the warm pool" if to_warm_pool else "terminate"
        return self.warned(
            cause=Cause.AUTO_SCALING, action=action, lifecycle_action=waits, **changes
        )

    def add(self, number: int, **changes: Any) -> str:
        """Another Spot instance in the same zone."""
        instance_id = f"i-{number:017x}"
        like = replace(self.instance, instance_id=instance_id, **changes)
        self.world.ec2.add(
            replace(make_instance(), **{name: getattr(like, name) for name in _FIELDS})
        )
        return instance_id

    @property
    def sent(self) -> list[Alert]:
        """Return what people were told."""
        return self.world.announcer.sent

    @property
    def kinds(self) -> list[AlertKind]:
        """The kinds of it."""
        return [alert.kind for alert in self.sent]


_FIELDS = ("instance_id", "tags", "lifecycle", "volumes", "availability_zone", "instance_type")
