"""The parts of functions that work with the state table, the policy, the workflow or a queue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from governor.adapters.messaging import SnsAnnouncer, SqsDeadLetters, SqsQueue
from governor.adapters.s3 import AuditBucket, PolicyBucket, PolicyText, ReportBucket
from governor.adapters.sealing import KmsSealCheck, KmsSealMaker
from governor.adapters.secrets import AlertSeal
from governor.adapters.ssm import PolicyParameter
from governor.adapters.table.dynamodb import DynamoTable
from governor.adapters.workflow import LambdaUndoer, StepFunctionsWorkflow
from governor.domain.alerts.alert import Seal
from governor.domain.approvals.sealing import SealMaker
from governor.ports import Announcer, ReportStore, SealCheck, Undoer, Workflow
from governor.stores import EventLog, StateTable
from governor.usecases.accounts import Accounts
from governor.wiring.basics import Basics, over

if TYPE_CHECKING:
    from governor.stores.sessions import SignIns


class Parts(Basics):
    parameter = over(PolicyParameter, "policy_parameter")
    documents = over(PolicyBucket, "policy_bucket")
    table = over(DynamoTable, "table_name", opens="dynamodb")
    policy_text = cached_property(lambda its: PolicyText(its.parameter, its.documents, its.table))
    state = cached_property(lambda its: StateTable(its.table))
    workflow: cached_property[Workflow] = over(
        StepFunctionsWorkflow, "remediation_state_machine_arn", opens="stepfunctions"
    )
    seal: cached_property[Seal] = over(AlertSeal, "alert_key_arn")
    """Opens its client at its first message: the page sends few, and would start later for it."""
    opening_seal: cached_property[SealMaker] = over(KmsSealMaker, "opening_key_arn")
    delivery_seal: cached_property[SealMaker] = over(KmsSealMaker, "delivery_key_arn")
    expiry_seal: cached_property[SealMaker] = over(KmsSealMaker, "expiry_key_arn")
    seal_check: cached_property[SealCheck] = over(
        KmsSealCheck, "opening_key_arn", "answer_key_arn", "delivery_key_arn", "expiry_key_arn"
    )
    """Opens its client at its first check: `check_progress` is made with it, and checks nothing."""
    undoer: cached_property[Undoer] = over(LambdaUndoer, "undo_function_name")
    archive = over(AuditBucket, "audit_bucket", opens="s3")
    reports: cached_property[ReportStore] = over(ReportBucket, "report_bucket", opens="s3")
    queue = over(SqsQueue, "delivery_queue_url", opens="sqs")
    failures = over(SqsDeadLetters, "delivery_failures_url")
    dead_letters = over(SqsDeadLetters, "dead_letter_queue_url")

    @cached_property
    def sign_ins(self) -> SignIns:
        # Here, or every cold start would load what the console alone needs.
        from governor.stores.sessions import SignIns

        return SignIns(self.table)

    @cached_property
    def answer_seal(self) -> SealMaker:
        """Gives up within seconds: a person waits, and may press again."""
        return KmsSealMaker(self.clients, self.settings.need("answer_key_arn"), patient=False)

    @cached_property
    def announcer(self) -> Announcer:
        self.clients.client("sns")
        return SnsAnnouncer(self.clients, self.settings.need("alert_topic_arn"), self.seal)

    @cached_property
    def hasty_announcer(self) -> Announcer:
        """Gives up within seconds: for what must not wait for a message, and sends it later."""
        seal = AlertSeal(self.clients, self.settings.need("alert_key_arn"), patient=False)
        return SnsAnnouncer(
            self.clients, self.settings.need("alert_topic_arn"), seal, patient=False
        )

    @cached_property
    def accounts(self) -> Accounts:
        known = self.settings
        role = known.member_role_name or None
        return Accounts(known.hub_account_id, known.aws_region, known.partition, role)

    @cached_property
    def log(self) -> EventLog:
        self.clients.client("dynamodb", repeat=False, patient=False)
        return EventLog(self.table)
