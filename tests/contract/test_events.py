"""Every sample in `events/` parses into its contract, and every malformed one is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from governor.aws.workflow import episode_input
from governor.core import parsing
from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.events import contract as events
from governor.events.table_stream import changes_of
from governor.web import requests as http
from governor.wiring import payloads

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"


def interruptions(event: dict[str, Any]) -> list[Any]:
    """The warnings of a batch, or the one that comes as EC2 sends it."""
    if "Records" not in event:
        return [event]
    return [events.queued_event(r.body) for r in parse(events.QueueBatch, event).records]


def needs_nothing(event: dict[str, Any]) -> None:
    """The sweep sends nothing; a sample has a field more, by which it is refused."""
    parse(parsing.Payload, {})
    with pytest.raises(InputError, match="sample: Extra inputs are not permitted"):
        parse(parsing.Payload, event)


CONTRACTS: dict[str, Callable[[Any], object]] = {
    "plan_sweep": lambda event: (
        events.policy_writer(event) if "detail" in event else needs_nothing(event)
    ),
    "sweep_target": lambda event: parse(payloads.TargetPayload, event),
    "check_health": lambda event: parse(payloads.TargetPayload, event),
    "scan_accelerators": lambda event: parse(payloads.TargetPayload, event),
    "sum_up_month": needs_nothing,
    "report_savings": needs_nothing,
    "refresh_prices": needs_nothing,
    "expire_snapshots": needs_nothing,
    "open_episode": lambda event: parse(payloads.EpisodePayload, event),
    "ask_owner": lambda event: parse(payloads.AskPayload, event),
    "conclude_approval": lambda event: parse(payloads.EpisodeOnlyPayload, event),
    "recheck_episode": lambda event: parse(payloads.RecheckPayload, event),
    "put_away": lambda event: parse(payloads.PutAwayPayload, event),
    "undo_episode": lambda event: parse(payloads.UndoPayload, event),
    "handle_slack_action": lambda event: parse(http.HttpRequest, event),
    "serve_console": lambda event: parse(http.HttpRequest, event),
    "serve_api": lambda event: parse(http.HttpRequest, event),
    "deliver_alert": lambda event: parse(events.QueueBatch, event),
    "rotate_link_keys": lambda event: parse(events.RotationEvent, event),
    "take_snapshot": lambda event: parse(payloads.SnapshotPayload, event),
    "check_progress": lambda event: parse(payloads.ProgressPayload, event),
    "record_outcome": lambda event: parse(payloads.OutcomePayload, event),
    "serve_approval": lambda event: parse(http.HttpRequest, event),
    "sign_in": lambda event: parse(http.HttpRequest, event),
    "handle_state_change": lambda event: parse(events.StateChangeEvent, event),
    "handle_spot_interruption": lambda event: [
        parse(events.InterruptionEvent, one).to_domain() for one in interruptions(event)
    ],
    "handle_rebalance_recommendation": lambda event: parse(
        events.InterruptionEvent, event
    ).to_domain(),
    "handle_lifecycle_action": lambda event: parse(events.LifecycleEvent, event).to_domain(),
    "handle_notice": events.notice_of,
    "write_audit": changes_of,
    "handle_execution_end": lambda event: parse(events.ExecutionEndEvent, event),
}
SAMPLES = sorted(EVENTS.rglob("*.json"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.relative_to(EVENTS).as_posix())
def test_a_sample_parses_and_a_malformed_one_is_refused(sample: Path) -> None:
    """Malformed samples are refused with a message that names what is wrong."""
    contract = CONTRACTS[sample.parent.name]
    event = json.loads(sample.read_text())
    if sample.stem.startswith("malformed-"):
        with pytest.raises(InputError, match="refused"):
            contract(event)
    else:
        contract(event)


def test_every_function_has_a_contract_and_samples() -> None:
    """A function without a sample cannot be tried with `sam local invoke`."""
    functions = {folder.name for folder in (ROOT / "functions").iterdir() if folder.is_dir()}

    assert functions == set(CONTRACTS)
    assert functions == {sample.parent.name for sample in SAMPLES}


@pytest.mark.parametrize(
    "name", ["deliver_alert/question", "write_audit/answered", "plan_sweep/seen-by-cloudtrail"]
)
def test_what_comes_from_another_account_is_refused(name: str) -> None:
    """A queue, a stream or an event: whoever may invoke a function forges none of them by
    mistake."""
    event = json.loads((EVENTS / f"{name}.json").read_text())

    events.require_account("000000000000", event)
    with pytest.raises(InputError, match="it is not one of account 123456789012"):
        events.require_account("123456789012", event)
    of_nobody: tuple[dict[str, Any], ...] = (
        {},
        {"Records": [{}]},
        {"Records": [{"eventSourceARN": ""}]},
    )
    for nobodys in of_nobody:
        with pytest.raises(InputError, match="it is not one of account"):
            events.require_account("123456789012", nobodys)


def test_the_name_of_an_episode_is_the_same_bytes_every_time() -> None:
    """Step Functions takes the same name twice only with the same input."""
    ref = payloads.EpisodePayload.model_validate_json(
        (EVENTS / "open_episode" / "first-episode.json").read_text()
    ).to_domain()

    once, again = episode_input(ref), episode_input(ref)

    assert json.dumps(once) == json.dumps(again)
    assert ref == payloads.EpisodePayload.model_validate(once).to_domain()


def test_the_cause_of_a_lambda_error_is_unwrapped() -> None:
    """People read the message, not Lambda's JSON around it."""
    event = json.loads((EVENTS / "record_outcome" / "failed-snapshot.json").read_text())

    error = parse(payloads.OutcomePayload, event).error

    assert error is not None
    assert (
        "snapshots failed: snap-0123456789abcdef0; nothing is destroyed"
        == error.as_mapping()["Cause"]
    )


OF_THE_BUS = {
    "handle_state_change": "stopped",
    "handle_spot_interruption": "terminate",
    "handle_rebalance_recommendation": "recommended",
    "handle_lifecycle_action": "scale-in",
    "handle_notice": "retirement",
    "handle_execution_end": "failed",
}


@pytest.mark.parametrize("function", OF_THE_BUS)
@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"id": None},
        {"time": "0001-01-01T00:00:00+14:00"},
        {"time": "2026-11-20T12:00:00"},
    ],
    ids=str,
)
def test_an_envelope_that_says_nothing_is_refused(function: str, change: dict[str, Any]) -> None:
    """Without an id nothing is done once; a time out of range is a refusal, never an error of
    Python's."""
    event = json.loads((EVENTS / function / f"{OF_THE_BUS[function]}.json").read_text())

    with pytest.raises(InputError, match="refused"):
        CONTRACTS[function](event | change)


@pytest.mark.parametrize("function", sorted(set(OF_THE_BUS) - {"handle_spot_interruption"}))
@pytest.mark.parametrize("event", [5, None, "text", [], {}], ids=str)
def test_what_is_no_event_is_refused(function: str, event: object) -> None:
    """Whatever JSON it is."""
    with pytest.raises(InputError, match="refused"):
        CONTRACTS[function](event)


@pytest.mark.parametrize("milliseconds", ["32503680000000", "9" * 15, "9" * 20, "9" * 400])
def test_a_message_that_no_queue_can_have_taken_is_refused(milliseconds: str) -> None:
    """A time after the year 2999 is an error of the input, not of the calendar."""
    attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": milliseconds}
    record = {"messageId": "1", "receiptHandle": "r", "body": "{}", "attributes": attributes}

    with pytest.raises(InputError, match="SentTimestamp"):
        parse(events.QueueBatch, {"Records": [record]})
