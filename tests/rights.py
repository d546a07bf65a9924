"""Holds use cases to the table permissions of their functions, as the template gives them.

While a use case runs, every request to the table in memory is evaluated against the role of its
function. Folders of tests take part by importing `only_what_the_role_allows` in a `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

import pytest

from governor.approvals.ask_owner import AskOwner
from governor.approvals.deliver_decision import ConcludeApproval
from governor.approvals.pause import SendPauseMessages
from governor.console.app import Console
from governor.events.notify_dates import NotifyDates
from governor.events.react_to_state_change import ReactToStateChange
from governor.events.respond_to_warnings import RespondToWarnings
from governor.health.check_health import CheckHealth
from governor.money.costs import NoteOverBudget, SumUpMonth
from governor.money.refresh_prices import RefreshPrices
from governor.money.report_savings import ReportSavings
from governor.notify.dispatch import Dispatch
from governor.notify.slack_actions import SlackActions
from governor.notify.worker import Worker
from governor.policy.versions import ReviewPolicy
from governor.remediation.check_progress import CheckProgress
from governor.remediation.close_dead import CloseDead
from governor.remediation.expire_snapshots import ExpireSnapshots
from governor.remediation.look_at_start import LookAtStart
from governor.remediation.open_episode import OpenEpisode
from governor.remediation.put_away import PutAway
from governor.remediation.recheck_episode import RecheckEpisode
from governor.remediation.record_outcome import RecordOutcome
from governor.remediation.take_snapshot import TakeSnapshot
from governor.remediation.undo_episode import UndoEpisode
from governor.scan.scan_target import ScanTarget
from governor.sweep.close_sweep import CloseSweep
from governor.sweep.follow_hub_freeze import FollowHubFreeze
from governor.sweep.sweep_target import SweepTarget
from governor.web.api import ApprovalApi
from governor.web.sign_in import SignInSite
from governor.web.site import ApprovalSite
from tests.iam import Request, allows, own_statements
from tests.twins.table import ASKED, WRITTEN

TABLE = "arn:of:StateTable"
KEYS = frozenset({"pk", "sk"})
USED: set[tuple[str, str, str]] = set()
"""Function, action and kind of partition of every request so far."""
NAMED: dict[tuple[str, str], set[str]] = {}
"""The attributes that writes have named so far, by function and kind of partition."""
_refused: list[str] = []
_acting: ContextVar[str | None] = ContextVar("acting", default=None)


def _answering(respond: RespondToWarnings) -> str:
    """Return the one of the three functions that answer warnings which is wired so."""
    if respond.snapshots is not None:
        return "HandleSpotInterruption"
    return "HandleLifecycleAction" if respond.hooks is not None else "HandleRebalanceRecommendation"


_USE_CASES: tuple[tuple[type, str | Callable[[Any], str]], ...] = (
    (ReviewPolicy, "PlanSweep"),
    (SendPauseMessages, "PlanSweep"),
    (SweepTarget, "SweepTarget"),
    (SumUpMonth, "SumUpMonth"),
    (CloseSweep, "SumUpMonth"),
    (NoteOverBudget, "PlanSweep"),
    (FollowHubFreeze, "PlanSweep"),
    (ReportSavings, "ReportSavings"),
    (RefreshPrices, "RefreshPrices"),
    (CheckHealth, "CheckHealth"),
    (ScanTarget, "ScanAccelerators"),
    (OpenEpisode, "OpenEpisode"),
    (AskOwner, "AskOwner"),
    (ConcludeApproval, "ConcludeApproval"),
    (RecheckEpisode, "RecheckEpisode"),
    (PutAway, "PutAway"),
    (TakeSnapshot, "TakeSnapshot"),
    (ExpireSnapshots, "ExpireSnapshots"),
    (CheckProgress, "CheckProgress"),
    (RecordOutcome, "RecordOutcome"),
    (UndoEpisode, "UndoEpisode"),
    (LookAtStart, "UndoEpisode"),
    (Worker, "DeliverAlert"),
    (Dispatch, "DeliverAlert"),
    (SlackActions, "HandleSlackAction"),
    (ApprovalApi, "ServeApi"),
    (ApprovalSite, "ServeApproval"),
    (Console, "ServeConsole"),
    (SignInSite, "SignIn"),
    (ReactToStateChange, "HandleStateChange"),
    (CloseDead, "HandleExecutionEnd"),
    (RespondToWarnings, _answering),
    (NotifyDates, "HandleNotice"),
)


@lru_cache(100_000)
def may(function: str, action: str, pk: str | None, attributes: frozenset[str] = KEYS) -> bool:
    """Return whether the role of the function allows the call on this partition and these
    attributes.

    `None` is a call that names no key, as Scan.
    """
    context: dict[str, list[str]] = {}
    if pk is not None:
        context = {"dynamodb:LeadingKeys": [pk], "dynamodb:Attributes": sorted(attributes)}
    return allows(own_statements()[function], Request(action, TABLE, context))


def _ask(action: str, pk: str) -> None:
    function = _acting.get()
    if function is None:
        return
    USED.add((function, action, pk.partition("#")[0]))
    if not may(function, action, pk):
        _refuse(function, f"{action} on {pk}")


def _write(action: str, pk: str, attributes: frozenset[str]) -> None:
    function = _acting.get()
    if function is None:
        return
    NAMED.setdefault((function, pk.partition("#")[0]), set()).update(attributes)
    if not may(function, action, pk, attributes):
        _refuse(function, f"{action} on {pk} with {', '.join(sorted(attributes))}")


def _refuse(function: str, call: str) -> None:
    _refused.append(f"{function}: {call}; template.yaml says what its role may do with the table")


def _as(function: str | Callable[[Any], str], call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def acting(self: Any, *args: Any, **more: Any) -> Any:
        own = _acting.get() or (function if isinstance(function, str) else function(self))
        before = _acting.set(own)
        try:
            return call(self, *args, **more)
        finally:
            _acting.reset(before)

    return acting


_METHODS_OF_USE_CASES = ("__call__", "handle", "finish", "one", "notify_scheduled", "notify_block")
"""By which functions call their use cases."""


def _hold() -> None:
    for kind, function in _USE_CASES:
        names = [name for name in _METHODS_OF_USE_CASES if name in vars(kind)]
        assert names, f"name the public method of {kind.__name__} in _METHODS_OF_USE_CASES"
        for name in names:
            setattr(kind, name, _as(function, vars(kind)[name]))
    ASKED.append(_ask)
    WRITTEN.append(_write)


_hold()


@pytest.fixture(autouse=True)
def only_what_the_role_allows() -> Iterator[None]:
    """Fails a test in which a use case asked for more of the table than its function may."""
    _refused.clear()
    yield
    assert [] == _refused
