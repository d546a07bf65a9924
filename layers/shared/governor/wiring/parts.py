"""The parts of functions that work with the state table, the policy or the workflow."""

from __future__ import annotations

from functools import cached_property

from governor.adapters.sns import SnsAnnouncer
from governor.adapters.ssm import PolicyParameter
from governor.adapters.stepfunctions import StepFunctionsWorkflow
from governor.adapters.table.dynamodb import DynamoTable
from governor.ports import Announcer, Workflow
from governor.stores import EventLog, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.approvals.deliver_decision import DeliverDecision
from governor.usecases.episode.void_episode import VoidEpisode
from governor.usecases.once import Once
from governor.wiring.basics import Basics


class Parts(Basics):
    """As `Basics`."""

    @cached_property
    def accounts(self) -> Accounts:
        known = self.settings
        role = known.member_role_name or None
        return Accounts(known.hub_account_id, known.aws_region, known.partition, role)

    @cached_property
    def policy_text(self) -> PolicyParameter:
        return PolicyParameter(self.clients, self.settings.need("policy_parameter"))

    @cached_property
    def table(self) -> DynamoTable:
        self.clients.client("dynamodb")
        return DynamoTable(self.clients, self.settings.need("table_name"))

    @cached_property
    def state(self) -> StateTable:
        return StateTable(self.table)

    @cached_property
    def log(self) -> EventLog:
        self.clients.client("dynamodb", repeat=False, patient=False)
        return EventLog(self.table)

    @cached_property
    def workflow(self) -> Workflow:
        self.clients.client("stepfunctions")
        return StepFunctionsWorkflow(self.clients, self.settings.need("remediation_state_machine_arn"))

    @cached_property
    def announcer(self) -> Announcer:
        self.clients.client("sns")
        return SnsAnnouncer(self.clients, self.settings.need("alert_topic_arn"))

    @cached_property
    def once(self) -> Once:
        return Once(self.clock, self.log)

    @cached_property
    def deliver(self) -> DeliverDecision:
        return self.fill(DeliverDecision)

    @cached_property
    def void(self) -> VoidEpisode:
        return self.fill(VoidEpisode)
