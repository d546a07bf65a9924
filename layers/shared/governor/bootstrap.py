"""The only wiring: which adapter stands behind which port, built on first use and kept for the process.

Handlers ask here for their use case. Each function builds only what its use case needs, so that none reads
an environment variable or opens a client it has no right to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from governor.adapters.clients import Clients
from governor.adapters.clock import SystemClock
from governor.contracts.settings import Settings, from_environment
from governor.domain.instance import Target
from governor.errors import ConfigurationError, PolicyError, Throttled, Unavailable
from governor.ports import Clock, DeadLetters, Policies
from governor.usecases.accounts import Accounts

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    # Only named here: a function imports the modules of its own use case and nothing more.
    from governor.adapters.catalogue import ShippedCatalogue
    from governor.adapters.ec2 import Ec2Instances
    from governor.adapters.links import HmacLinkSigner
    from governor.adapters.oidc import OidcProvider
    from governor.adapters.pricing import AwsPriceBook
    from governor.adapters.seals import HmacSealer
    from governor.adapters.secrets import SecretDocument
    from governor.adapters.sns import SnsAnnouncer
    from governor.adapters.stepfunctions import StepFunctionsWorkflow
    from governor.adapters.table import EventStore, StateTable, Table
    from governor.channels.dispatch import Dispatch, Dispatched
    from governor.channels.slack_actions import SlackActions
    from governor.channels.worker import Worker
    from governor.contracts.policy import PolicyBook
    from governor.usecases.ask_owner import AskOwner
    from governor.usecases.book_saving import BookSaving
    from governor.usecases.check_health import CheckHealth
    from governor.usecases.check_progress import CheckProgress
    from governor.usecases.close_dead import CloseDead
    from governor.usecases.conclude_approval import ConcludeApproval
    from governor.usecases.deliver_decision import DeliverDecision
    from governor.usecases.gather_evidence import GatherEvidence
    from governor.usecases.guards import Guards
    from governor.usecases.inspect_instance import InspectInstance
    from governor.usecases.notify_dates import NotifyDates
    from governor.usecases.notify_warning import NotifyWarning
    from governor.usecases.once import Once
    from governor.usecases.open_episode import OpenEpisode
    from governor.usecases.put_away import PutAway
    from governor.usecases.react import ReactToExecutionEnd, ReactToStateChange
    from governor.usecases.recheck_episode import RecheckEpisode
    from governor.usecases.record_outcome import RecordOutcome
    from governor.usecases.respond_to_warnings import RespondToWarnings
    from governor.usecases.rotate_keys import RotateKeys
    from governor.usecases.send_checkpoint import SendCheckpoint
    from governor.usecases.sum_up_month import SumUpMonth
    from governor.usecases.sweep_target import SweepTarget
    from governor.usecases.take_snapshot import TakeSnapshot
    from governor.usecases.undo_episode import UndoEpisode
    from governor.usecases.void_episode import VoidEpisode
    from governor.web.api import ApprovalApi
    from governor.web.sessions import Sessions
    from governor.web.sign_in import SignInSite
    from governor.web.site import ApprovalSite, Gate


# use cases, one a handler


def swept_accounts() -> tuple[tuple[str, str], ...]:
    """Account and Region of every target of the policy."""
    from governor.usecases.accounts import swept

    known = _settings()
    return swept(_policies().base().policy, known.hub_account, known.region)


def target(account: str, region: str) -> Target:
    """The target, with the role this function reaches it by."""
    return _accounts().target(account, region)


def sweep_target() -> SweepTarget:
    """For `sweep_target`."""
    from governor.adapters.batch import AwsBatch
    from governor.adapters.ec2 import Ec2Tags
    from governor.usecases.count_costs import CountCosts
    from governor.usecases.notify_dates import RemindNotices
    from governor.usecases.sweep_target import SweepTarget
    from governor.usecases.tell_managed import TellManaged

    deliver, policies = _deliver(), _policies()
    return SweepTarget(
        clock=SystemClock(),
        policies=policies,
        instances=_instances(),
        gather=_gather(),
        catalogue=_catalogue(),
        state=_state(),
        tagger=Ec2Tags(_clients()),
        workflow=_workflow(),
        announcer=_announcer(),
        void=_void(deliver),
        deliver=deliver,
        close_dead=_close_dead(policies),
        remind=RemindNotices(_event_log(), _once(), _announcer()),
        costs=CountCosts(_prices(), _state()),
        tell_managed=TellManaged(AwsBatch(_clients()), _once(), _announcer()),
    )


def sum_up_month() -> SumUpMonth:
    """For `sum_up_month`."""
    from governor.usecases.sum_up_month import SumUpMonth

    known = _settings()
    return SumUpMonth(
        clock=SystemClock(),
        policies=_policies(),
        state=_state(),
        once=_once(),
        announcer=_announcer(),
        hub=Target(known.hub_account, known.region),
    )


def check_health() -> CheckHealth:
    """For `check_health`."""
    from governor.adapters.cloudwatch import CloudWatchMetrics
    from governor.usecases.check_health import CheckHealth
    from governor.usecases.read_health import ReadHealth

    return CheckHealth(
        clock=SystemClock(),
        policies=_policies(),
        instances=_instances(),
        read=ReadHealth(CloudWatchMetrics(_clients())),
        log=_event_log(),
        announcer=_announcer(),
    )


def open_episode() -> OpenEpisode:
    """For `open_episode`."""
    from governor.usecases.open_episode import OpenEpisode
    from governor.usecases.read_history import ReadHistory

    gather = _gather()
    return OpenEpisode(
        clock=SystemClock(),
        policies=_policies(),
        accounts=_accounts(),
        inspect=_inspect(),
        history=ReadHistory(gather, gather.metrics, _catalogue()),
        state=_state(),
    )


def ask_owner() -> AskOwner:
    """For `ask_owner`."""
    from governor.usecases.ask_owner import AskOwner

    return AskOwner(
        clock=SystemClock(),
        policies=_policies(),
        state=_state(),
        workflow=_workflow(),
        announcer=_announcer(),
        signer=_signer(),
    )


def conclude_approval() -> ConcludeApproval:
    """For `conclude_approval`."""
    from governor.usecases.conclude_approval import ConcludeApproval

    return ConcludeApproval(state=_state())


def recheck_episode() -> RecheckEpisode:
    """For `recheck_episode`."""
    from governor.usecases.recheck_episode import RecheckEpisode

    guards = _guards(_policies())
    return RecheckEpisode(clock=SystemClock(), guards=guards, inspect=guards.inspect, state=_state())


def put_away() -> PutAway:
    """For `put_away`."""
    from governor.adapters.ec2 import Ec2Controller
    from governor.usecases.put_away import PutAway

    controller = Ec2Controller(_clients())
    return PutAway(clock=SystemClock(), guards=_guards(_policies()), controller=controller, state=_state())


def take_snapshot() -> TakeSnapshot:
    """For `take_snapshot`."""
    from governor.usecases.take_snapshot import TakeSnapshot

    guards = _guards(_policies())
    return TakeSnapshot(clock=SystemClock(), guards=guards, snapshots=guards.snapshots, state=_state())


def check_progress() -> CheckProgress:
    """For `check_progress`."""
    from governor.usecases.check_progress import CheckProgress

    policies = _policies()
    guards = _guards(policies)
    return CheckProgress(
        clock=SystemClock(),
        policies=policies,
        accounts=_accounts(),
        guards=guards,
        state=_state(),
        instances=_instances(),
        snapshots=guards.snapshots,
    )


def record_outcome() -> RecordOutcome:
    """For `record_outcome`."""
    from governor.adapters.ec2 import Ec2Tags
    from governor.usecases.record_outcome import RecordOutcome

    policies = _policies_or_defaults()
    return RecordOutcome(
        clock=SystemClock(),
        policies=policies,
        accounts=_accounts(),
        state=_state(),
        tagger=Ec2Tags(_clients()),
        announcer=_announcer(),
        signer=_signer(),
        book=_book(policies),
    )


def react_to_state_change() -> ReactToStateChange:
    """For `handle_state_change`."""
    from governor.usecases.react import ReactToStateChange

    return ReactToStateChange(policies=_policies_or_last, state=_state(), void=_void(_deliver()))


def respond_to_interruptions() -> RespondToWarnings:
    """For `handle_spot_interruption`."""
    from governor.adapters.ec2 import EbsSnapshots
    from governor.adapters.spot_market import Ec2SpotMarket
    from governor.usecases.advise_elsewhere import AdviseElsewhere

    market = Ec2SpotMarket(_clients())
    return replace(
        respond_to_rebalance(),
        void=_void(_deliver()),
        snapshots=EbsSnapshots(_clients()),
        advise=AdviseElsewhere(SystemClock(), market, _catalogue(), _once(), _announcer()),
    )


def respond_to_lifecycle_action() -> RespondToWarnings:
    """For `handle_lifecycle_action`."""
    from governor.adapters.auto_scaling import AutoScalingHooks

    return replace(respond_to_rebalance(), void=_void(_deliver()), hooks=AutoScalingHooks(_clients()))


def respond_to_rebalance() -> RespondToWarnings:
    """For `handle_rebalance_recommendation`."""
    from governor.usecases.respond_to_warnings import RespondToWarnings

    clock, once = SystemClock(), _once()
    return RespondToWarnings(
        clock=clock,
        policies=_policies_or_last(),
        accounts=_accounts(),
        instances=_instances(),
        state=_state(),
        once=once,
        notify=_notify_warning(clock, once),
        checkpoint=_send_checkpoint(clock, once),
    )


def dead_letters() -> DeadLetters:
    """For `handle_spot_interruption`."""
    from governor.adapters.sqs import SqsDeadLetters

    return SqsDeadLetters(_clients(), _settings().dead_letter_queue_url)


def notify_dates() -> NotifyDates:
    """For `handle_notice`."""
    from governor.usecases.notify_dates import NotifyDates

    return NotifyDates(
        clock=SystemClock(),
        policies=_policies_or_last(),
        accounts=_accounts(),
        instances=_instances(),
        log=_event_log(),
        once=_once(),
        announcer=_announcer(),
    )


def react_to_execution_end() -> ReactToExecutionEnd:
    """For `handle_execution_end`."""
    from governor.usecases.react import ReactToExecutionEnd

    return ReactToExecutionEnd(clock=SystemClock(), close=_close_dead(_policies_or_defaults()))


def approval_site() -> ApprovalSite:
    """For `serve_approval`."""
    from governor.adapters.undo import LambdaUndoer
    from governor.usecases.decide import Decide
    from governor.usecases.show_approval import ShowApproval
    from governor.usecases.show_digest import ShowDigest
    from governor.web.site import ApprovalSite

    show = ShowApproval(state=_state(), clock=SystemClock())
    return ApprovalSite(
        show=show,
        show_digest=ShowDigest(_state(), show),
        decide=Decide(_state(), _workflow(), SystemClock(), _announcer()),
        undoer=LambdaUndoer(_clients(), _settings().undo_function_name),
        signer=_signer(),
        clock=SystemClock(),
        gate=_gate() if _settings().signs_in else None,
    )


def sign_in_site() -> SignInSite:
    """For `sign_in`."""
    from governor.web.sign_in import Rules, SignInSite

    known = _settings()
    return SignInSite(
        provider=_identity_provider(),
        sealer=_sealer(),
        sessions=_sessions(),
        signer=_signer(),
        rules=Rules(known.oidc_groups_claim, known.oidc_approver_group),
        base_url=known.needed_base_url,
        clock=SystemClock(),
    )


def delivery_worker(seen: Callable[[Dispatched, float], None]) -> Worker:
    """For `deliver_alert`."""
    from governor.adapters.sqs import SqsQueue
    from governor.channels.worker import Worker
    from governor.contracts.alerts import parse_queued

    queue = SqsQueue(_clients(), _settings().delivery_queue_url)
    return Worker(SystemClock(), _dispatch, _state(), queue, parse_queued, seen)


def _dispatch() -> Dispatch:
    from governor.adapters.ses import SesMailService
    from governor.adapters.sqs import SqsDeadLetters, SqsParkedAlerts
    from governor.channels.dispatch import Dispatch
    from governor.channels.registry import Registry

    known = _settings()
    mail = SesMailService(_clients()) if known.email_sender else None
    try:
        secret, problem = _channel_secret().read(), None
    except ConfigurationError as error:
        secret, problem = {}, str(error)
    registry = Registry(secret, mail, known.email_sender, SystemClock(), problem)
    park = SqsParkedAlerts(SqsDeadLetters(_clients(), known.delivery_failures_url))
    return Dispatch(SystemClock(), _policies_or_last(keep=True), _state(), _signer(), registry, park)


def slack_actions() -> SlackActions:
    """For `handle_slack_action`."""
    from governor.channels.slack import API_URL, SlackWhisper, slack_app_client
    from governor.channels.slack_actions import SlackActions
    from governor.usecases.decide import Decide
    from governor.usecases.show_approval import ShowApproval

    secret = _channel_secret().read()
    token, api_url = secret.get("slack_bot_token", ""), secret.get("slack_api_url") or API_URL
    return SlackActions(
        signing_secret=secret.get("slack_signing_secret", ""),
        show=ShowApproval(state=_state(), clock=SystemClock()),
        decide=Decide(_state(), _workflow(), SystemClock(), _announcer()),
        directory=lambda: _policies_or_last().base().policy.ownership.directory,
        whisper=SlackWhisper(lambda: slack_app_client(token, api_url)),
        clock=SystemClock(),
    )


def approval_api() -> ApprovalApi:
    """For `serve_api`."""
    from governor.usecases.accounts import swept
    from governor.usecases.decide import Decide
    from governor.usecases.list_questions import ListQuestions
    from governor.usecases.show_approval import ShowApproval
    from governor.web.api import ApprovalApi

    known, policies, clock = _settings(), _policies_or_defaults(), SystemClock()
    base = policies.base().policy
    targets = [Target(*place) for place in swept(base, known.hub_account, known.region)]
    return ApprovalApi(
        questions=ListQuestions(_state(), clock, targets),
        show=ShowApproval(state=_state(), clock=clock),
        decide=Decide(_state(), _workflow(), clock, _announcer()),
        directory=lambda: base.ownership.directory,
        clock=clock,
    )


def rotate_keys() -> RotateKeys:
    """For `rotate_link_keys`."""
    from governor.adapters.secrets import SecretVersions
    from governor.usecases.rotate_keys import RotateKeys

    return RotateKeys(SecretVersions(_clients(), _settings().link_key_secret_arn))


def undo_episode() -> UndoEpisode:
    """For `undo_episode`."""
    from governor.adapters.ec2 import Ec2Starter
    from governor.usecases.undo_episode import UndoEpisode

    return UndoEpisode(
        clock=SystemClock(),
        policies=_policies_or_defaults(),
        accounts=_accounts(),
        instances=_instances(),
        starter=Ec2Starter(_clients()),
        state=_state(),
        announcer=_announcer(),
    )


# parts


@cache
def _settings() -> Settings:
    return from_environment()


def _policies() -> PolicyBook:
    """Read once at every invocation, so that a change counts at once and one invocation sees one policy."""
    from governor.adapters.ssm import PolicyParameter
    from governor.contracts.policy import parse_policy

    return parse_policy(PolicyParameter(_clients(), _settings().policy_parameter).read())


def _policies_or_defaults() -> PolicyBook:
    """For what must come to an end whatever the document says: locks are freed, people are told."""
    from governor.contracts.policy import parse_policy

    try:
        return _policies()
    except PolicyError as error:
        _log.error("%s; its defaults are used", error)
        return parse_policy("")


def _policies_or_last(*, keep: bool = False) -> PolicyBook:
    """For what must reach people: where the document is refused, or Systems Manager does not answer, by the
    last one that was accepted.

    `keep` keeps an accepted one for that; only the function that may write it does.
    """
    from governor.adapters.ssm import PolicyParameter
    from governor.contracts.policy import parse_policy

    try:
        text = PolicyParameter(_clients(), _settings().policy_parameter, patient=False).read()
    except (Throttled, Unavailable) as error:
        kept = _state().kept_policy()
        if kept is None:
            raise
        _log.error("%s; the last accepted document is used", error)
        return parse_policy(kept)
    try:
        found = parse_policy(text)
    except PolicyError as error:
        _log.error("%s; the last accepted document is used", error)
        return _last_accepted()
    if keep and text != _state().kept_policy():
        _state().keep_policy(text, SystemClock().now())
    return found


def _last_accepted() -> PolicyBook:
    """Of a former release, maybe, which accepted what this one refuses; then the defaults."""
    from governor.contracts.policy import parse_policy

    try:
        return parse_policy(_state().kept_policy() or "")
    except PolicyError as error:
        _log.error("the last accepted document: %s; its defaults are used", error)
        return parse_policy("")


def _close_dead(policies: Policies) -> CloseDead:
    from governor.usecases.close_dead import CloseDead

    return CloseDead(policies, _state(), _announcer(), _book(policies))


def _book(policies: Policies) -> BookSaving:
    from governor.usecases.book_saving import BookSaving

    return BookSaving(policies, _accounts(), _instances())


@cache
def _accounts() -> Accounts:
    known = _settings()
    return Accounts(known.hub_account, known.region, known.partition, known.member_role_name)


@cache
def _clients() -> Clients:
    return Clients()


@cache
def _table() -> Table:
    from governor.adapters.table import Table

    return Table(_clients(), _settings().table_name)


@cache
def _state() -> StateTable:
    from governor.adapters.table import StateTable

    return StateTable(_table())


@cache
def _instances() -> Ec2Instances:
    from governor.adapters.ec2 import Ec2Instances

    return Ec2Instances(_clients())


@cache
def _catalogue() -> ShippedCatalogue:
    from governor.adapters.catalogue import ShippedCatalogue

    return ShippedCatalogue()


@cache
def _gather() -> GatherEvidence:
    from governor.adapters.cloudwatch import CloudWatchMetrics
    from governor.usecases.gather_evidence import GatherEvidence

    return GatherEvidence(metrics=CloudWatchMetrics(_clients()), catalogue=_catalogue())


@cache
def _prices() -> AwsPriceBook:
    from governor.adapters.pricing import AwsPriceBook

    return AwsPriceBook(_clients())


@cache
def _inspect() -> InspectInstance:
    from governor.usecases.inspect_instance import InspectInstance

    return InspectInstance(
        instances=_instances(),
        gather=_gather(),
        catalogue=_catalogue(),
        prices=_prices(),
        state=_state(),
    )


def _guards(policies: Policies) -> Guards:
    from governor.adapters.ec2 import EbsSnapshots
    from governor.usecases.guards import Guards

    return Guards(
        clock=SystemClock(),
        policies=policies,
        accounts=_accounts(),
        inspect=_inspect(),
        state=_state(),
        snapshots=EbsSnapshots(_clients()),
    )


@cache
def _event_log() -> EventStore:
    from governor.adapters.table import EventStore

    return EventStore(_table())


def _once() -> Once:
    from governor.usecases.once import Once

    return Once(SystemClock(), _event_log())


def _notify_warning(clock: Clock, once: Once) -> NotifyWarning:
    from governor.usecases.notify_warning import NotifyWarning

    return NotifyWarning(clock, _instances(), _event_log(), once, _announcer())


def _send_checkpoint(clock: Clock, once: Once) -> SendCheckpoint:
    from governor.adapters.checkpoint import RunCommandHook
    from governor.usecases.send_checkpoint import SendCheckpoint

    document = _settings().checkpoint_document
    hook = RunCommandHook(_clients(), document) if document else None
    return SendCheckpoint(clock, hook, once, _announcer())


@cache
def _workflow() -> StepFunctionsWorkflow:
    from governor.adapters.stepfunctions import StepFunctionsWorkflow

    return StepFunctionsWorkflow(_clients(), _settings().state_machine_arn)


@cache
def _announcer() -> SnsAnnouncer:
    from governor.adapters.sns import SnsAnnouncer

    known = _settings()
    return SnsAnnouncer(_clients(), known.alert_topic_arn)


@cache
def _channel_secret() -> SecretDocument:
    from governor.adapters.secrets import SecretDocument

    return SecretDocument(_clients(), _settings().channel_secret_arn)


@cache
def _link_keys() -> SecretDocument:
    from governor.adapters.secrets import SecretDocument

    return SecretDocument(_clients(), _settings().link_key_secret_arn)


@cache
def _signer() -> HmacLinkSigner:
    from governor.adapters.links import HmacLinkSigner

    return HmacLinkSigner(_link_keys().read, _settings().approval_base_url)


def _sealer() -> HmacSealer:
    from governor.adapters.seals import HmacSealer

    return HmacSealer(_link_keys().read)


def _sessions() -> Sessions:
    from governor.web.sessions import Sessions

    known = _settings()
    rests_on = known.oidc_issuer, known.oidc_client_id, known.oidc_groups_claim, known.oidc_approver_group
    return Sessions(_sealer(), rests_on)


def _gate() -> Gate:
    from governor.web.site import Gate

    return Gate(_sessions(), lambda: _policies_or_defaults().base().policy.ownership.directory)


@cache
def _identity_provider() -> OidcProvider:
    from governor.adapters.oidc import Client, HttpsFetch, OidcProvider, client_secret
    from governor.adapters.secrets import SecretDocument

    known = _settings()
    secret = known.oidc_client_secret_arn
    read = SecretDocument(_clients(), secret).read if secret else None
    client = Client(
        issuer=known.oidc_issuer,
        client_id=known.oidc_client_id,
        secret=(lambda: client_secret(read())) if read else None,
        wants_groups=bool(known.oidc_approver_group),
    )
    return OidcProvider(client, HttpsFetch())


def _deliver() -> DeliverDecision:
    from governor.usecases.deliver_decision import DeliverDecision

    return DeliverDecision(state=_state(), workflow=_workflow())


def _void(deliver: DeliverDecision) -> VoidEpisode:
    from governor.usecases.void_episode import VoidEpisode

    return VoidEpisode(state=_state(), deliver=deliver)
