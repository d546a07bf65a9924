"""The only wiring: which adapter stands behind which port, built on first use and kept for the process.

Handlers ask here for their use case. Each function builds only what its use case needs, so that none reads
an environment variable or opens a client it has no right to.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from governor.adapters.clients import Clients
from governor.adapters.clock import SystemClock
from governor.contracts.settings import Settings, from_environment
from governor.domain.instance import Target
from governor.usecases.accounts import Accounts

if TYPE_CHECKING:
    # Only named here: a function imports the modules of its own use case and nothing more.
    from governor.adapters.cloudwatch import CloudWatchMetrics
    from governor.adapters.dynamodb import DynamoStateTable
    from governor.adapters.ec2 import EbsSnapshots, Ec2Instances, Ec2Tags
    from governor.adapters.links import HmacLinkSigner
    from governor.adapters.sns import SnsAnnouncer
    from governor.adapters.stepfunctions import StepFunctionsWorkflow
    from governor.contracts.policy import PolicyBook
    from governor.usecases.ask_owner import AskOwner
    from governor.usecases.check_progress import CheckProgress
    from governor.usecases.conclude_approval import ConcludeApproval
    from governor.usecases.deliver_decision import DeliverDecision
    from governor.usecases.gather_evidence import GatherEvidence
    from governor.usecases.guards import Guards
    from governor.usecases.inspect_instance import InspectInstance
    from governor.usecases.open_episode import OpenEpisode
    from governor.usecases.put_away import PutAway
    from governor.usecases.react import ReactToExecutionEnd, ReactToSpotWarning, ReactToStateChange
    from governor.usecases.recheck_episode import RecheckEpisode
    from governor.usecases.record_outcome import RecordOutcome
    from governor.usecases.sweep_target import SweepTarget
    from governor.usecases.take_snapshot import TakeSnapshot
    from governor.usecases.void_episode import VoidEpisode
    from governor.web.site import ApprovalSite


# use cases, one a handler


def sweep_targets() -> tuple[Target, ...]:
    """Every target of the policy."""
    return accounts().all_targets(policies().base().policy)


def sweep_target() -> SweepTarget:
    """For `sweep_target`."""
    from governor.usecases.sweep_target import SweepTarget

    return SweepTarget(
        clock=SystemClock(),
        policies=policies(),
        instances=_instances(),
        gather=_gather(),
        catalogue=_catalogue(),
        state=_state(),
        tagger=_tagger(),
        workflow=_workflow(),
        announcer=_announcer(),
        void=_void(),
        deliver=_deliver(),
    )


def open_episode() -> OpenEpisode:
    """For `open_episode`."""
    from governor.usecases.open_episode import OpenEpisode

    return OpenEpisode(
        clock=SystemClock(), policies=policies(), accounts=accounts(), inspect=_inspect(), state=_state()
    )


def ask_owner() -> AskOwner:
    """For `ask_owner`."""
    from governor.usecases.ask_owner import AskOwner

    return AskOwner(
        clock=SystemClock(),
        policies=policies(),
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

    return RecheckEpisode(clock=SystemClock(), guards=_guards(), inspect=_inspect(), state=_state())


def put_away() -> PutAway:
    """For `put_away`."""
    from governor.adapters.ec2 import Ec2Controller
    from governor.usecases.put_away import PutAway

    return PutAway(
        clock=SystemClock(), guards=_guards(), controller=Ec2Controller(_clients()), state=_state()
    )


def take_snapshot() -> TakeSnapshot:
    """For `take_snapshot`."""
    from governor.usecases.take_snapshot import TakeSnapshot

    return TakeSnapshot(clock=SystemClock(), guards=_guards(), snapshots=_snapshots(), state=_state())


def check_progress() -> CheckProgress:
    """For `check_progress`."""
    from governor.usecases.check_progress import CheckProgress

    return CheckProgress(
        clock=SystemClock(),
        policies=policies(),
        accounts=accounts(),
        guards=_guards(),
        instances=_instances(),
        snapshots=_snapshots(),
    )


def record_outcome() -> RecordOutcome:
    """For `record_outcome`."""
    from governor.usecases.record_outcome import RecordOutcome

    return RecordOutcome(
        clock=SystemClock(),
        policies=policies(),
        accounts=accounts(),
        state=_state(),
        tagger=_tagger(),
        announcer=_announcer(),
        signer=_signer(),
    )


def react_to_state_change() -> ReactToStateChange:
    """For `handle_state_change`."""
    from governor.usecases.react import ReactToStateChange

    return ReactToStateChange(policies=policies(), accounts=accounts(), state=_state(), void=_void())


def react_to_spot_warning() -> ReactToSpotWarning:
    """For `handle_spot_interruption`."""
    from governor.usecases.react import ReactToSpotWarning

    return ReactToSpotWarning(
        clock=SystemClock(),
        policies=policies(),
        accounts=accounts(),
        instances=_instances(),
        state=_state(),
        void=_void(),
        announcer=_announcer(),
    )


def react_to_execution_end() -> ReactToExecutionEnd:
    """For `handle_execution_end`."""
    from governor.usecases.react import ReactToExecutionEnd

    return ReactToExecutionEnd(clock=SystemClock(), state=_state(), announcer=_announcer())


def approval_site() -> ApprovalSite:
    """For `serve_approval`."""
    from governor.usecases.decide import Decide
    from governor.usecases.show_approval import ShowApproval
    from governor.web.site import ApprovalSite

    return ApprovalSite(
        show=ShowApproval(state=_state()),
        decide=Decide(state=_state(), workflow=_workflow(), clock=SystemClock()),
        signer=_signer(),
        clock=SystemClock(),
    )


# parts


@cache
def settings() -> Settings:
    """The environment of this process."""
    return from_environment()


def policies() -> PolicyBook:
    """The policy document as it is now: read at every invocation, so that a change counts at once."""
    from governor.adapters.ssm import PolicyParameter
    from governor.contracts.policy import parse_policy

    return parse_policy(PolicyParameter(_clients(), settings().policy_parameter).read())


@cache
def accounts() -> Accounts:
    """Which role reaches which account."""
    known = settings()
    return Accounts(known.hub_account, known.region, known.partition)


@cache
def _clients() -> Clients:
    return Clients()


@cache
def _state() -> DynamoStateTable:
    from governor.adapters.dynamodb import DynamoStateTable

    return DynamoStateTable(_clients(), settings().table_name)


@cache
def _instances() -> Ec2Instances:
    from governor.adapters.ec2 import Ec2Instances

    return Ec2Instances(_clients())


@cache
def _tagger() -> Ec2Tags:
    from governor.adapters.ec2 import Ec2Tags

    return Ec2Tags(_clients())


@cache
def _snapshots() -> EbsSnapshots:
    from governor.adapters.ec2 import EbsSnapshots

    return EbsSnapshots(_clients())


@cache
def _metrics() -> CloudWatchMetrics:
    from governor.adapters.cloudwatch import CloudWatchMetrics

    return CloudWatchMetrics(_clients())


@cache
def _workflow() -> StepFunctionsWorkflow:
    from governor.adapters.stepfunctions import StepFunctionsWorkflow

    return StepFunctionsWorkflow(_clients(), settings().state_machine_arn)


@cache
def _announcer() -> SnsAnnouncer:
    from governor.adapters.sns import SnsAnnouncer

    return SnsAnnouncer(_clients(), settings().alert_topic_arn)


def _gather() -> GatherEvidence:
    from governor.usecases.gather_evidence import GatherEvidence

    return GatherEvidence(metrics=_metrics(), catalogue=_catalogue())
