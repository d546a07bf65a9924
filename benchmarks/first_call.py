"""One cold start in a process of its own: `first_call.py EVENT OUT`, with the handler's folder on
the path.

Measures processor time from before the handler is imported until the first request to AWS would
leave the process, and writes to OUT what was called and which clients were there by then.
"""

import json
import os
import sys
import time
from types import SimpleNamespace

_CONTEXT = SimpleNamespace(
    function_name="function",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:function",
    aws_request_id="request",
    get_remaining_time_in_millis=lambda: 60_000,
)


def main(event_path: str, out_path: str) -> None:
    """Writes `init_ms` and `total_ms`, and of the first call service, operation and parameters."""
    with open(event_path, "rb") as file:  # noqa: PTH123 - nothing is loaded that a handler might load
        event = json.loads(file.read())
    # What is said of a sample to its reader is no part of it.
    event.pop("sample", None)
    began = time.process_time()
    import handler  # type: ignore[import-not-found]

    initialized = time.process_time()

    def stop(*_: object, **__: object) -> None:
        total = time.process_time()
        _write(out_path, began, initialized, total)
        os._exit(0)

    # Before this moment no request can have been made: handlers call AWS in invocations only.
    sys.modules["botocore.httpsession"].URLLib3Session.send = stop  # type: ignore[attr-defined]
    handler.handler(event, _CONTEXT)


def _write(out_path: str, began: float, initialized: float, total: float) -> None:
    import gc
    import pickle

    from botocore.client import BaseClient

    frame = sys._getframe()
    while frame.f_code.co_name != "_make_api_call":
        assert frame.f_back is not None
        frame = frame.f_back
    called = frame.f_locals
    # What a cold start has made and keeps, clients too, it may have put out of the collector's
    # sight.
    gc.unfreeze()
    clients = [one for one in gc.get_objects() if isinstance(one, BaseClient)]
    found = {
        "init_ms": 1000 * (initialized - began),
        "total_ms": 1000 * (total - began),
        "service": called["self"].meta.service_model.service_name,
        "operation": called["operation_name"],
        "parameters": called["api_params"],
        "clients": sorted(client.meta.service_model.service_name for client in clients),
    }
    with open(out_path, "wb") as file:  # noqa: PTH123
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
