"""Many events for one function at once.

- AWS: each has an execution environment, and processors, of its own. Engine: starts a process for
  each, all on the cores of this machine, so that 200 events start 200 interpreters and none answers
  for minutes. Here events wait for one of a few environments, as asynchronous invocations do in
  Lambda's own queue.
- AWS: an event source that has a batching window waits for it, and hands over up to its batch size.
  Engine: hands over at once, ten messages at most.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

ENVIRONMENTS = max(2, os.cpu_count() or 2)
"""Most environments of one function that work on events at the same time."""
_log = logging.getLogger("events")


def repair() -> None:
    """Replaces the engine's way from a rule to a function; it is looked up by name at every
    event."""
    from ministack.services import eventbridge, lambda_svc, sqs

    eventbridge._dispatch_to_lambda = _Queues().dispatch
    sqs._receive_messages_for_esm = _gathering(sqs, lambda_svc, sqs._receive_messages_for_esm)


def _gathering(
    sqs: Any, lambda_svc: Any, engine: Callable[[str, int], list[Any]]
) -> Callable[..., list[Any]]:
    def receive(queue_url: str, batch_size: int) -> list[Any]:
        wait = _window_left(sqs, lambda_svc, queue_url, int(batch_size))
        if wait > 0:
            threading.Timer(wait, lambda_svc._esm_wake.set).start()
            return []
        found: list[Any] = []
        while len(found) < int(batch_size):
            more = engine(queue_url, int(batch_size) - len(found))
            found += more
            if not more:
                break
        return found

    return receive


def _window_left(sqs: Any, lambda_svc: Any, queue_url: str, batch_size: int) -> float:
    """Seconds that the oldest message still waits for others; 0 when a batch is full or its window
    over."""
    with sqs._queues_lock:
        queue = sqs._get_q(queue_url)
        now = time.time()
        sent = [m["sent_at"] for m in queue["messages"] if m.get("visible_at", 0) <= now]
    if not sent or len(sent) >= batch_size:
        return 0.0
    arn = queue["attributes"].get("QueueArn")
    windows = [
        float(source.get("MaximumBatchingWindowInSeconds") or 0)
        for _, _, source in lambda_svc._iter_all_esms()
        if source.get("EventSourceArn") == arn
    ]
    return max(0.0, min(sent) + max(windows, default=0.0) - now)


class _Queues:
    """One queue a function. A rule never waits for what its target does."""

    def __init__(self) -> None:
        self._free: dict[str, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(ENVIRONMENTS)
        )

    def dispatch(self, arn: str, payload: str) -> None:
        """Hands one event to a function, as soon as one of its environments is free."""
        from ministack.services import lambda_svc

        function, config, name = lambda_svc._get_func_record_for_ref(arn)
        if not function or not config:
            _log.warning("rule: its function %s does not exist", name)
            return
        record = lambda_svc._execution_record_for_config(function, config)
        arguments = (self._free[arn], record, json.loads(payload))
        threading.Thread(target=_invoke, args=arguments, daemon=True).start()


def _invoke(free: threading.Semaphore, record: dict[str, object], event: object) -> None:
    from ministack.services import lambda_svc

    with free:
        lambda_svc._execute_function_with_config_scope(record, event)
