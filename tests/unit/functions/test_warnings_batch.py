"""A batch of warnings: what cannot be read is its own matter, and comes after what can be saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from governor.core.errors import InputError, Throttled
from governor.events.model.interruption import Warned
from governor.events.notify_warning import Reaction
from governor.events.respond_to_warnings import RespondToWarnings
from governor.wiring.events import ToInterruptions
from local.demo.samples import of_this_account
from tests.unit.functions.handlers import call

ROOT = Path(__file__).parents[3]
GOOD: dict[str, Any] = of_this_account(
    json.loads((ROOT / "events/handle_spot_interruption/terminate.json").read_text())
)
UNREADABLE = [
    "no JSON",
    "5",
    "null",
    "[]",
    "[" * 100_000,
    json.dumps({**GOOD, "detail": {}}),
    json.dumps({**GOOD, "id": ""}),
    json.dumps({**GOOD, "time": "0001-01-01T00:00:00+14:00"}),
]


class Stack:
    """The world of the handler: a reaction, and a queue for what cannot be read."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.kept: list[tuple[str, str]] = []
        self.is_busy = False

    def __call__(self, batch: Sequence[Warned]) -> list[Reaction | Exception]:
        """Takes each warning."""
        self.done += [f"reacted to {warned.event_id}" for warned in batch]
        return [Reaction() for _ in batch]

    def keep(self, body: str, reason: str) -> None:
        """Keeps it, unless the queue is busy."""
        self.done.append("kept")
        if self.is_busy:
            raise Throttled("busy", operation="sqs:SendMessage")
        self.kept.append((body, reason))

    def handle(self, *bodies: str) -> list[str]:
        """The messages that must stay in the queue, by their number."""
        records = [
            {
                "messageId": str(number),
                "receiptHandle": "receipt",
                "body": body,
                "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1"},
            }
            for number, body in enumerate(bodies)
        ]
        answer = self.handle_event({"Records": records})
        return [one["itemIdentifier"] for one in answer["batchItemFailures"]]

    def handle_event(self, event: Any) -> dict[str, Any]:
        """Return what the handler returns."""
        wired = ToInterruptions(lambda: cast(RespondToWarnings, self), self.keep)
        return call("handle_spot_interruption", event, wired)


@pytest.mark.parametrize("body", UNREADABLE, ids=[str(number) for number in range(len(UNREADABLE))])
def test_a_warning_that_cannot_be_read_keeps_back_no_other(body: str) -> None:
    """Whatever is wrong with it: kept with its reason, after the others were answered."""
    stack = Stack()

    left = stack.handle(body, json.dumps(GOOD))

    assert [f"reacted to {GOOD['id']}", "kept"] == stack.done
    assert [] == left
    ((kept, reason),) = stack.kept
    assert body == kept
    assert reason


@pytest.mark.parametrize(
    "event", [5, None, "text", [], {}, {"Records": []}, {"Records": 5}], ids=str
)
def test_what_is_no_event_at_all_is_refused(event: Any) -> None:
    """With a message that names what is wrong, and nothing is done."""
    stack = Stack()

    with pytest.raises(InputError, match="refused"):
        stack.handle_event(event)
    assert [] == stack.done


def test_what_could_not_be_kept_stays_in_the_queue() -> None:
    """It alone: the others are answered and go."""
    stack = Stack()
    stack.is_busy = True

    left = stack.handle(json.dumps(GOOD), "5", "null")

    assert [f"reacted to {GOOD['id']}", "kept", "kept"] == stack.done
    assert ["1", "2"] == left
