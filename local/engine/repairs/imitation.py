"""The engine says in each answer that it imitates AWS, and by which name people know it. AWS's own
answers have no such header."""

from __future__ import annotations

from typing import Any

HEADER = b"x-imitates-aws"
NAME = b"local cloud"


def repair() -> None:
    """Adds the header where the engine adds the date to each answer."""
    from ministack import app

    with_date = app._with_date_header

    def with_name(send: Any) -> Any:
        async def send_named(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (HEADER, NAME)]
                message = {**message, "headers": headers}
            await send(message)

        return with_date(send_named)

    app._with_date_header = with_name
