"""The parts of functions that work with the state table, the policy, the workflow or a queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from governor.alerts.model import Seal
from governor.alerts.ports import Announcer
from governor.alerts.store import Deliveries
from governor.approvals.rules.sealing import SealMaker
from governor.approvals.store.approvals import Approvals
from governor.aws.dynamodb import DynamoTable
from governor.aws.messaging import SnsAnnouncer, SqsDeadLetters, SqsQueue
from governor.aws.s3 import AuditBucket, PolicyBucket, PolicyText, ReportBucket
from governor.aws.sealing import KmsSealCheck, KmsSealMaker
from governor.aws.secrets import AlertSeal
from governor.aws.ssm import PolicyParameter
from governor.aws.workflow import LambdaUndoer, StepFunctionsWorkflow
from governor.episode.ports import Undoer, Workflow
from governor.episode.store.episodes import Episodes
from governor.episode.store.expiries import Expiries
from governor.episode.store.holds import Holds
from governor.episode.store.instances import Failures, Instances
from governor.events.store.bursts import Bursts
from governor.events.store.notices import Notices
from governor.fleet.store import Fleet
from governor.health.store import Findings
from governor.limits.store.breaker import Brakes
from governor.limits.store.caps import ActionCaps
from governor.limits.store.pauses import Pauses
from governor.money.report_savings import ReportStore
from governor.money.store.ledger import Ledger
from governor.money.store.prices import Prices
from governor.policy.accounts import Accounts
from governor.policy.store import PolicyVersions
from governor.remediation.seals import SealCheck
from governor.remediation.store import Calls
from governor.sweep.store import Sweeps
from governor.table.claims import Claims
from governor.table.table import Store, Table
from governor.wiring.basics import Basics, over

if TYPE_CHECKING:
    from governor.approvals.store.sessions import SignIns

StoreOfAggregate = TypeVar("StoreOfAggregate", bound=Store)


def over_table(store: Callable[[Table], StoreOfAggregate]) -> cached_property[StoreOfAggregate]:
    """Declare a part: the store of one aggregate, over the state table."""

    def make(parts: Parts) -> StoreOfAggregate:
        return store(parts.table)

    return cached_property(make)


class Parts(Basics):
    parameter = over(PolicyParameter, "policy_parameter")
    documents = over(PolicyBucket, "policy_bucket")
    table = over(DynamoTable, "table_name", opens="dynamodb")
    policy_text = cached_property(
        lambda parts: PolicyText(parts.parameter, parts.documents, parts.table)
    )
    episode_store = over_table(Episodes)
    approval_store = over_table(Approvals)
    hold_store = over_table(Holds)
    call_store = over_table(Calls)
    instance_store = over_table(Instances)
    brake_store = over_table(Brakes)
    pause_store = over_table(Pauses)
    cap_store = over_table(ActionCaps)
    ledger_store = over_table(Ledger)
    delivery_store = over_table(Deliveries)
    policy_store = over_table(PolicyVersions)
    sweep_store = over_table(Sweeps)
    fleet_store = over_table(Fleet)
    price_store = over_table(Prices)
    failure_store = over_table(Failures)
    expiry_store = over_table(Expiries)
    notice_store = over_table(Notices)
    finding_store = over_table(Findings)
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
    def sign_in_store(self) -> SignIns:
        # Imported here: only the console needs it, and every cold start would load it.
        from governor.approvals.store.sessions import SignIns

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
    def claim_store(self) -> Claims:
        self._open_hasty_client()
        return Claims(self.table)

    @cached_property
    def burst_store(self) -> Bursts:
        self._open_hasty_client()
        return Bursts(self.table)

    def _open_hasty_client(self) -> None:
        """Open the client of calls that are sent once, with a short timeout, at cold start."""
        self.clients.client("dynamodb", repeat=False, patient=False)
