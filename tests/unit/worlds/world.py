"""An approved episode of an idle instance, with everything around it in memory."""

from __future__ import annotations

import marshal
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.refused_answers import RefusedAnswers
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import SpotRequestType
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Asking, Episode, Measurement, Phase, Terms
from governor.episode.model.plan import PlanFacts, Price, Step
from governor.episode.rules.plan import acts_on_silence, draw_plan
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.rules.series import evidence_hash
from governor.policy.accounts import Accounts
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.owners import owner_of
from governor.policy.rules.schedule import schedule
from governor.remediation.answer_time import AnswerTimes
from governor.remediation.guards import Guards
from governor.remediation.inspect_instance import InspectInstance
from governor.remediation.put_away import PutAway
from governor.remediation.recheck_episode import RecheckEpisode
from governor.remediation.seals import CheckSeals
from governor.remediation.sent_call import SentCalls
from governor.remediation.take_snapshot import TakeSnapshot
from tests.builders import NOW, QUIET_BEFORE, TARGET, make_evidence, make_instance
from tests.twins import (
    FakeClock,
    MemoryEc2,
    MemoryEventLog,
    MemoryKeys,
    MemoryMetrics,
    MemorySeals,
    MemoryVault,
    MemoryWorkflow,
    RecordingAnnouncer,
    SealedStateTable,
    StaticPolicies,
    StaticPrices,
)

ALICE = "alice@example.com"
PEOPLE = Ownership(
    contacts={"people": Contact(emails=(ALICE, "bob@example.com"))}, default_contacts=("people",)
)
APPROVAL_ID = "approval-1"
READABLE = timedelta(minutes=10)
"""How long after the last minute to answer CloudWatch surely tells whether answers were refused."""
PRICE = Price(Decimal("1.006"), "list price")

IDLE_WATTS = 18.0
"""Power draw of an idle A10G, whose limit is 300 W."""

OPENED_BEFORE: dict[str, bytes] = {}
"""The items of each world that was opened before, by what opened it. The same values open the same
world, and most tests begin with one of a few."""


@dataclass
class World:
    """Opened, approved, rechecked, and ready for its first step; a test then changes one thing."""

    action: Action = Action.STOP
    mode: Mode = Mode.ASK
    changes: dict[str, Any] = field(default_factory=dict)
    decide: bool = True
    phase: Phase = Phase.ACTING
    on_expiry: Literal["no-action", "act"] = "no-action"
    approval: Decision = Decision(
        Answer.APPROVE, "link:alice@example.com", "page", NOW, person=ALICE
    )
    terms: Terms = Terms(known_people=frozenset({ALICE, "bob@example.com"}))
    evidence: Evidence = field(default_factory=make_evidence)
    noticed_at: UtcDatetime | None = NOW - timedelta(hours=1) - READABLE
    """When its owner got the notice of mode auto."""
    local_disks_may_be_lost_unasked: bool = True
    """A g5.xlarge has local NVMe; what that changes has tests of its own."""
    people_to_terminate: int = 1
    """As an override may say; that two are needed has tests of its own."""
    delivered: tuple[str, ...] = ("ask", "escalate")
    """Stages that those who are asked have got in time, where silence acts."""
    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)

    def __post_init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.metrics.now = self.metrics.now or self.clock.now
        self.policies = StaticPolicies(
            Policy(
                mode=self.mode,
                plan=PlanRule(
                    action=self.action,
                    local_disks_may_be_lost_unasked=self.local_disks_may_be_lost_unasked,
                ),
                approval=ApprovalRule(
                    on_expiry=self.on_expiry, people_to_terminate=self.people_to_terminate
                ),
                ownership=PEOPLE,
            )
        )
        self.ec2 = MemoryEc2(now=self.clock.now)
        self.keys = MemoryKeys()
        self.vault = MemoryVault()
        self.pauses: list[float] = []
        self.seals = MemorySeals()
        self.state = SealedStateTable(seals=self.seals)
        self.workflow = MemoryWorkflow()
        self.announcer = RecordingAnnouncer()
        self.log = MemoryEventLog()
        tags = {"Purpose": "GPU-Workload", "Name": "notebook", "Owner": "ml", "Project": "vision"}
        self.instance = make_instance(**{"tags": tags, **self.changes})
        self.ec2.add(self.instance)
        if self.instance.spot_request_id:
            self.ec2.spot_requests[self.instance.spot_request_id] = SpotRequestType.PERSISTENT
        accounts = Accounts(TARGET.account, TARGET.region)
        self.inspect = InspectInstance(
            instances=self.ec2,
            gather=GatherEvidence(self.metrics),
            prices=StaticPrices(PRICE),
            sessions=self.ec2,
            instance_store=self.state,
        )
        refused = RefusedAnswers(self.metrics, TARGET, "api-1", "gpu-governor")
        seals = CheckSeals(self.state, self.seals)
        self.guards = Guards(
            self.clock,
            self.policies,
            accounts,
            self.inspect,
            episode_store=self.state,
            approval_store=self.state,
            instance_store=self.state,
            breaker_store=self.state,
            pause_store=self.state,
            snapshots=self.ec2,
            seals=seals,
            answer_times=AnswerTimes(self.clock, seals, refused),
        )
        calls = SentCalls(accounts, self.inspect)
        self.put_away = PutAway(
            self.clock,
            self.guards,
            self.ec2,
            episode_store=self.state,
            call_store=self.state,
            cap_store=self.state,
            sent_calls=calls,
        )
        self.take_snapshot = TakeSnapshot(
            self.clock,
            self.guards,
            self.ec2,
            self.vault,
            episode_store=self.state,
            call_store=self.state,
            pause=self.pauses.append,
        )
        self.recheck = RecheckEpisode(
            self.clock,
            accounts,
            self.guards,
            self.inspect,
            episode_store=self.state,
            approval_store=self.state,
            cap_store=self.state,
            sent_calls=calls,
        )
        self.publish_quiet()
        self.ref = EpisodeRef(
            TARGET.account, TARGET.region, self.instance.instance_id, self.instance.launch_time, 1
        )
        self._open_as_before()

    def publish_quiet(self, utilization: float = 1.0) -> None:
        """An hour of readings, quiet before them."""
        own = {"InstanceId": self.instance.instance_id}
        self.metrics.publish(
            "nvidia_smi_utilization_gpu", own, (*QUIET_BEFORE, *[utilization] * 12)
        )
        self.metrics.publish("nvidia_smi_power_draw", own, [IDLE_WATTS] * 48)
        self.metrics.publish("CPUUtilization", own, [1.0] * 48)
        self.metrics.publish("NetworkIn", own, [1000.0] * 48)
        self.metrics.publish("NetworkOut", own, [1000.0] * 48)

    def _open_as_before(self) -> None:
        """Open the episode, or copy what opening it with the same values has stored before."""
        given = [getattr(self, one.name) for one in fields(self) if one.name != "metrics"]
        key = repr(given)
        if key in OPENED_BEFORE:
            self.state.items.update(marshal.loads(OPENED_BEFORE[key]))
            return
        self._open()
        OPENED_BEFORE[key] = marshal.dumps(self.state.items)

    def _open(self) -> None:
        instance = self.instance
        request = self.ec2.spot_requests.get(instance.spot_request_id or "")
        facts = PlanFacts(
            instance, self.ec2.protection(TARGET, instance.instance_id), request, None, PRICE
        )
        evidence = self.evidence
        plan = draw_plan(facts, self.policies.policy)
        owner, project, _ = owner_of(instance, PEOPLE)
        self.state.take_lock(self.ref)
        self.state.save_opened(
            Episode(
                ref=self.ref,
                phase=Phase.ASKING if self.phase is Phase.ACTING else self.phase,
                opened_at=NOW,
                approval_id=APPROVAL_ID,
                mode=self.mode,
                policy_version="test",
                overrides=(),
                instance=instance,
                reason="quiet",
                measurement=Measurement(evidence=evidence, evidence_hash=evidence_hash(evidence)),
                plan=plan,
                terms=self.terms,
                asking=Asking(
                    schedule=schedule(NOW, self.policies.policy.approval, (), ())
                    if self.mode is Mode.ASK
                    else None,
                    acts_on_silence=acts_on_silence(self.policies.policy, plan),
                ),
                price=PRICE,
                owner=owner,
                project=project,
            )
        )
        if self.mode is Mode.AUTO and self.noticed_at is not None:
            self.deliver("tell", self.noticed_at)
        planned = self._stored().asking.schedule
        if self.on_expiry == "act" and planned is not None:
            early = planned.expire_at - NOW + READABLE
            for stage, at in (
                ("ask", planned.ask_at - early),
                ("escalate", planned.escalate_at - early),
            ):
                if stage in self.delivered:
                    self.deliver(stage, at)
        # Where silence acts, the time to answer is over.
        open_for = -READABLE if self.on_expiry == "act" else timedelta(hours=1)
        self.state.await_answer(APPROVAL_ID, "token", "ask", NOW + open_for)
        if self.decide:
            self.state.settle(APPROVAL_ID, self.approval)
        steps = self._stored().plan.steps
        if self.phase is Phase.ACTING and steps:
            self.let_through(steps[0])

    def _stored(self) -> Episode:
        stored = self.state.episode(self.ref)
        assert stored is not None
        return stored

    def deliver(self, stage: str, at: UtcDatetime, channel: str = "email", **more: Any) -> None:
        """The message of a stage by a channel."""
        name = self.ref.execution_name
        self.state.note_delivery(Delivery(name, f"{stage}-{name}", channel, ALICE, at, **more))

    def let_through(self, step: Step) -> None:
        """Do what the recheck before a step does when all is as it was."""
        self.state.clear_step(self.ref, step.value, self.clock.now())

    def change_instance(self, **changes: Any) -> None:
        """EC2 describes it otherwise from now on."""
        current = self.ec2.instances[self.instance.instance_id]
        self.ec2.instances[self.instance.instance_id] = replace(current, **changes)

    def stop_and_snapshot(self, state: str = "completed") -> None:
        """The steps before a termination, its recheck included, with snapshots that end as said."""
        self.put_away(self.ref, Step.STOP)
        self.take_snapshot(self.ref)
        self.ec2.finish_snapshots(state)
        self.let_through(Step.TERMINATE)

    def writes(self) -> list[str]:
        """EC2 calls that stop or terminate for real."""
        return [
            name for name, _, dry in self.ec2.calls if name in ("stop", "terminate") and not dry
        ]
