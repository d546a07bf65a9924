"""Serves the engine over HTTP. It only makes the engine faster: the server that it brings parses
HTTP in Python, and took as much processor time as the engine itself."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Any

import uvicorn

KEEP_ALIVE_SECONDS = 75
"""How long a connection may rest between two requests, as with the engine's own server."""


def serve(application: Any) -> None:
    """Serves on the address that the environment names until a signal ends it."""
    _allow_many_connections()
    uvicorn.run(
        application,
        host=os.environ["BIND_HOST"],
        port=int(os.environ["GATEWAY_PORT"]),
        http="httptools",
        loop="uvloop",
        lifespan="on",
        # The engine reads these headers itself, where AWS does.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        # The engine adds the date itself, and AWS names no server.
        server_header=False,
        date_header=False,
        access_log=False,
        log_config=None,
        # Else a request that follows on a connection may begin with the account of the one before.
        reset_contextvars=True,
    )


def _allow_many_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS allows fewer than it names.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
