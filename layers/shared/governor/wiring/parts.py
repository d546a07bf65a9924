"""The parts of functions that work with the state table, the policy, the workflow or a queue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from governor.wiring.basics import Basics

if TYPE_CHECKING:
    from governor.alerts.model import Seal
    from governor.alerts.ports import Announcer
    from governor.alerts.store import Deliveries
    from governor.approvals.rules.sealing import SealMaker
    from governor.approvals.store.approvals import Approvals
    from governor.approvals.store.sessions import SignIns
    from governor.aws.dynamodb import DynamoTable
    from governor.aws.messaging import SqsDeadLetters, SqsQueue
    from governor.aws.s3 import AuditBucket, PolicyBucket, PolicyText
    from governor.aws.sealing import KmsSealMaker
    from governor.episode.ports import Undoer, Workflow
    from governor.episode.store.episodes import Episodes
    from governor.episode.store.expiries import Expiries
    from governor.episode.store.holds import Holds
    from governor.episode.store.instances import Failures, Instances
    from governor.events.store.bursts import Bursts
    from governor.events.store.notices import Notices
    from governor.fleet.store import Fleet
    from governor.health.store import Findings
    from governor.limits.store.breaker import Breakers
    from governor.limits.store.caps import ActionCaps
    from governor.limits.store.pauses import Pauses
    from governor.money.report_savings import ReportStore
    from governor.money.store.ledger import Ledger
    from governor.money.store.prices import Prices
    from governor.policy.accounts import Accounts
    from governor.policy.store import PolicyVersions
    from governor.remediation.seals import SealCheck
    from governor.remediation.store import Calls
    from governor.scan.scan_target import Places
    from governor.scan.store import Scans
    from governor.sweep.store import Sweeps
    from governor.table.claims import Claims
    from governor.table.once import Once


class Parts(Basics):
    """The parts of functions of the hub's own account."""

    @cached_property
    def table(self) -> DynamoTable:
        """Return the state table, with its client opened. Raises: ConfigurationError if its setting
        is missing."""
        from governor.aws.dynamodb import DynamoTable

        table_name = self.settings.need("table_name")
        self.clients.client("dynamodb")
        return DynamoTable(self.clients, table_name)

    @cached_property
    def episode_store(self) -> Episodes:
        """Return the store of episodes."""
        from governor.episode.store.episodes import Episodes

        return Episodes(self.table)

    @cached_property
    def approval_store(self) -> Approvals:
        """Return the store of questions and their answers."""
        from governor.approvals.store.approvals import Approvals

        return Approvals(self.table)

    @cached_property
    def hold_store(self) -> Holds:
        """Return the store of holds, and their ends."""
        from governor.episode.store.holds import Holds

        return Holds(self.table)

    @cached_property
    def call_store(self) -> Calls:
        """Return the store of calls that were sent to EC2."""
        from governor.remediation.store import Calls

        return Calls(self.table)

    @cached_property
    def instance_store(self) -> Instances:
        """Return the store of records of instances."""
        from governor.episode.store.instances import Instances

        return Instances(self.table)

    @cached_property
    def failure_store(self) -> Failures:
        """Return the store of workflows that fail."""
        from governor.episode.store.instances import Failures

        return Failures(self.table)

    @cached_property
    def breaker_store(self) -> Breakers:
        """Return the store of freezes."""
        from governor.limits.store.breaker import Breakers

        return Breakers(self.table)

    @cached_property
    def pause_store(self) -> Pauses:
        """Return the store of the pause of all actions."""
        from governor.limits.store.pauses import Pauses

        return Pauses(self.table)

    @cached_property
    def cap_store(self) -> ActionCaps:
        """Return the store of caps and what was used of them."""
        from governor.limits.store.caps import ActionCaps

        return ActionCaps(self.table)

    @cached_property
    def ledger_store(self) -> Ledger:
        """Return the store of booked actions and the sums of a month."""
        from governor.money.store.ledger import Ledger

        return Ledger(self.table)

    @cached_property
    def price_store(self) -> Prices:
        """Return the store of price lists and commitments."""
        from governor.money.store.prices import Prices

        return Prices(self.table)

    @cached_property
    def fleet_store(self) -> Fleet:
        """Return the store of pages of the fleet, and costs by day."""
        from governor.fleet.store import Fleet

        return Fleet(self.table)

    @cached_property
    def scan_store(self) -> Scans:
        """Return the store of the last scan of each target."""
        from governor.scan.store import Scans

        return Scans(self.table)

    @cached_property
    def scan_places(self) -> Places:
        """Return the part that opens accounts and Regions for a scan, by clients that read and
        nothing else. They are opened at the first scan."""
        from governor.aws.read_only import ReadOnlyClients
        from governor.aws.scan_places import AwsPlaces
        from governor.scan.registry import KINDS
        from governor.scan.rights import operations_of_the_stack, policy_of_the_stack

        operations = (*operations_of_the_stack(KINDS), "sts:AssumeRole")
        policy = policy_of_the_stack(KINDS)
        clients = ReadOnlyClients(operations, policy, self.settings.aws_region)
        return AwsPlaces(clients, self.hub)

    @cached_property
    def delivery_store(self) -> Deliveries:
        """Return the store of deliveries of alerts, the outbox and leases."""
        from governor.alerts.store import Deliveries

        return Deliveries(self.table)

    @cached_property
    def policy_store(self) -> PolicyVersions:
        """Return the store of versions of the policy and their acceptances."""
        from governor.policy.store import PolicyVersions

        return PolicyVersions(self.table)

    @cached_property
    def sweep_store(self) -> Sweeps:
        """Return the store of what sweeps observed."""
        from governor.sweep.store import Sweeps

        return Sweeps(self.table)

    @cached_property
    def expiry_store(self) -> Expiries:
        """Return the store of notices that snapshots expire, and of their deletions."""
        from governor.episode.store.expiries import Expiries

        return Expiries(self.table)

    @cached_property
    def notice_store(self) -> Notices:
        """Return the store of dates that AWS has announced."""
        from governor.events.store.notices import Notices

        return Notices(self.table)

    @cached_property
    def finding_store(self) -> Findings:
        """Return the store of health findings that were sent."""
        from governor.health.store import Findings

        return Findings(self.table)

    @cached_property
    def sign_in_store(self) -> SignIns:
        """Return the store of sessions and codes."""
        from governor.approvals.store.sessions import SignIns

        return SignIns(self.table)

    @cached_property
    def claim_store(self) -> Claims:
        """Return the store of claims, with a client for calls that are sent once."""
        from governor.table.claims import Claims

        self._open_short_timeout_client()
        return Claims(self.table)

    @cached_property
    def burst_store(self) -> Bursts:
        """Return the store of bursts of warnings, with a client for calls that are sent once."""
        from governor.events.store.bursts import Bursts

        self._open_short_timeout_client()
        return Bursts(self.table)

    def _open_short_timeout_client(self) -> None:
        """Make the client of calls that are sent once, with a short timeout, so that this happens
        at cold start and not at the first call."""
        self.clients.client("dynamodb", repeat=False, long_timeout=False)

    @cached_property
    def once(self) -> Once:
        """Return the part that lets a thing be done once, by a claim in the table."""
        from governor.table.once import Once

        return Once(clock=self.clock, claim_store=self.claim_store)

    @cached_property
    def accounts(self) -> Accounts:
        """Return the part that names the targets: an account, a Region, and the role there, which
        is `None` in a function that needs no role in member accounts."""
        from governor.policy.accounts import Accounts

        return Accounts(
            hub_account=self.settings.hub_account_id,
            hub_region=self.settings.aws_region,
            member_role_name=self.settings.member_role_name or None,
        )

    @cached_property
    def documents(self) -> PolicyBucket:
        """Return the bucket with the versions of the policy. Raises: ConfigurationError if its
        setting is missing."""
        from governor.aws.s3 import PolicyBucket

        return PolicyBucket(self.clients, self.settings.need("policy_bucket"))

    @cached_property
    def policy_text(self) -> PolicyText:
        """Return the reader of the policy's text in force. Raises: ConfigurationError if its
        setting is missing."""
        from governor.aws.s3 import PolicyText
        from governor.aws.ssm import PolicyParameter

        parameter = PolicyParameter(self.clients, self.settings.need("policy_parameter"))
        return PolicyText(parameter, self.documents, self.table)

    @cached_property
    def workflow(self) -> Workflow:
        """Return the remediation workflow in Step Functions, with its client opened. Raises:
        ConfigurationError if its setting is missing."""
        from governor.aws.workflow import StepFunctionsWorkflow

        state_machine_arn = self.settings.need("remediation_state_machine_arn")
        self.clients.client("stepfunctions")
        return StepFunctionsWorkflow(self.clients, state_machine_arn)

    @cached_property
    def undoer(self) -> Undoer:
        """Return the part that invokes the one function that may start instances again. Raises:
        ConfigurationError if its setting is missing."""
        from governor.aws.workflow import LambdaUndoer

        return LambdaUndoer(self.clients, self.settings.need("undo_function_name"))

    @cached_property
    def announcer(self) -> Announcer:
        """Return the part that publishes alerts to the topic, with its client opened. Raises:
        ConfigurationError if its setting is missing."""
        from governor.aws.messaging import SnsAnnouncer

        self.clients.client("sns")
        return SnsAnnouncer(
            self.clients,
            self.settings.need("alert_topic_arn"),
            self.seal,
            console_url=self.settings.approval_base_url,
        )

    @cached_property
    def short_timeout_announcer(self) -> Announcer:
        """Return an announcer that gives up within seconds, for callers that must not wait for a
        message and send it later. Raises: ConfigurationError if a setting is missing."""
        from governor.aws.messaging import SnsAnnouncer
        from governor.aws.secrets import AlertSeal

        seal = AlertSeal(self.clients, self.settings.need("alert_key_arn"), long_timeout=False)
        topic_arn = self.settings.need("alert_topic_arn")
        return SnsAnnouncer(
            self.clients,
            topic_arn,
            seal,
            console_url=self.settings.approval_base_url,
            long_timeout=False,
        )

    @cached_property
    def seal(self) -> Seal:
        """Return the seal of alerts. It opens its client at its first message: the page sends few,
        and starts faster without it. Raises: ConfigurationError if its setting is missing."""
        from governor.aws.secrets import AlertSeal

        return AlertSeal(self.clients, self.settings.need("alert_key_arn"))

    @cached_property
    def opening_seal(self) -> SealMaker:
        """Return the seal of what opens an episode. Raises: ConfigurationError if its setting is
        missing."""
        return self._seal_maker("opening_key_arn")

    @cached_property
    def answer_seal(self) -> SealMaker:
        """Return the seal of answers. It gives up within seconds: a person waits, and may press
        again. Raises: ConfigurationError if its setting is missing."""
        return self._seal_maker("answer_key_arn", long_timeout=False)

    @cached_property
    def delivery_seal(self) -> SealMaker:
        """Return the seal of records of deliveries. Raises: ConfigurationError if its setting is
        missing."""
        return self._seal_maker("delivery_key_arn")

    @cached_property
    def expiry_seal(self) -> SealMaker:
        """Return the seal of questions that nobody answered in time. Raises: ConfigurationError if
        its setting is missing."""
        return self._seal_maker("expiry_key_arn")

    def _seal_maker(self, setting: str, *, long_timeout: bool = True) -> KmsSealMaker:
        """Return the maker of seals with the key in this setting; without `long_timeout` it gives
        up within seconds. Raises: ConfigurationError if the setting is missing."""
        from governor.aws.sealing import KmsSealMaker

        return KmsSealMaker(self.clients, self.settings.need(setting), long_timeout=long_timeout)

    @cached_property
    def seal_check(self) -> SealCheck:
        """Return the check of seals. It opens its client at its first check. Raises:
        ConfigurationError if a setting is missing."""
        from governor.aws.sealing import KmsSealCheck

        return KmsSealCheck(
            self.clients,
            openings=self.settings.need("opening_key_arn"),
            answers=self.settings.need("answer_key_arn"),
            deliveries=self.settings.need("delivery_key_arn"),
            expiries=self.settings.need("expiry_key_arn"),
        )

    @cached_property
    def archive(self) -> AuditBucket:
        """Return the bucket of the audit, with its client opened. Raises: ConfigurationError if its
        setting is missing."""
        from governor.aws.s3 import AuditBucket

        bucket = self.settings.need("audit_bucket")
        self.clients.client("s3")
        return AuditBucket(self.clients, bucket)

    @cached_property
    def reports(self) -> ReportStore:
        """Return the bucket of reports, with its client opened. Raises: ConfigurationError if its
        setting is missing."""
        from governor.aws.s3 import ReportBucket

        bucket = self.settings.need("report_bucket")
        self.clients.client("s3")
        return ReportBucket(self.clients, bucket)

    @cached_property
    def queue(self) -> SqsQueue:
        """Return the queue of alerts to deliver, with its client opened. Raises: ConfigurationError
        if its setting is missing."""
        from governor.aws.messaging import SqsQueue

        queue_url = self.settings.need("delivery_queue_url")
        self.clients.client("sqs")
        return SqsQueue(self.clients, queue_url)

    @cached_property
    def failures(self) -> SqsDeadLetters:
        """Return the dead-letter queue of alerts that could not be delivered. Raises:
        ConfigurationError if its setting is missing."""
        return self._dead_letters("delivery_failures_url")

    @cached_property
    def dead_letters(self) -> SqsDeadLetters:
        """Return the dead-letter queue of warnings of AWS that cannot be read. Raises:
        ConfigurationError if its setting is missing."""
        return self._dead_letters("dead_letter_queue_url")

    def _dead_letters(self, setting: str) -> SqsDeadLetters:
        """Return the dead-letter queue whose URL is in this setting. Raises: ConfigurationError if
        the setting is missing."""
        from governor.aws.messaging import SqsDeadLetters

        return SqsDeadLetters(self.clients, self.settings.need(setting))
