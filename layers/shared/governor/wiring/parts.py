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
    policy_text = cached_property(
        lambda parts: PolicyText(parts.parameter, parts.documents, parts.table)
    )
    state = cached_property(lambda parts: StateTable(parts.table))
    workflow: cached_property[Workflow] = over(
        StepFunctionsWorkflow, "remediation_state_machine_arn", opens="stepfunctions"
    )
    seal: cached_property[Seal] = over(AlertSeal, "alert_key_arn")
    """Opens its client at its first message: the page sends few, and starts faster without it."""
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
        # Imported here: only the console needs it, and every cold start would load it.
        from governor.stores.sessions import SignIns

        return SignIns(self.table)

    @cached_property
    def answer_seal(self) -> SealMaker:
        """Return the seal of answers. It gives up within seconds: a person waits, and may press
        again."""
        return KmsSealMaker(self.clients, self.settings.need("answer_key_arn"), patient=False)

    @cached_property
    def announcer(self) -> Announcer:
        self.clients.client("sns")
        return SnsAnnouncer(self.clients, self.settings.need("alert_topic_arn"), self.seal)

    @cached_property
    def hasty_announcer(self) -> Announcer:
        """Return an announcer that gives up within seconds, for callers that must not wait for a
        message and send it later."""
        seal = AlertSeal(self.clients, self.settings.need("alert_key_arn"), patient=False)
        return SnsAnnouncer(
            self.clients, self.settings.need("alert_topic_arn"), seal, patient=False
        )

    @cached_property
    def accounts(self) -> Accounts:
        settings = self.settings
        role = settings.member_role_name or None
        return Accounts(settings.hub_account_id, settings.aws_region, settings.partition, role)

    @cached_property
    def log(self) -> EventLog:
        self.clients.client("dynamodb", repeat=False, patient=False)
        return EventLog(self.table)
