"""`governor pause --all` and `governor resume --all`: hold back all that destroys, or go on.

Pausing takes one call. Resuming takes two: the first shows which steps continue, and names the
pause for the second.
"""

from __future__ import annotations

import argparse
from typing import Any

from cli.api import api_of
from cli.errors import CommandError
from cli.output import Output
from governor.core.units import in_utc, parse_iso, people, printable


def pause(arguments: argparse.Namespace) -> None:
    document = {}
    if arguments.reason is not None:
        document["reason"] = arguments.reason
    pause = api_of(arguments).call("POST", "/api/pause", document)
    with Output(arguments) as out:
        out.say(f"Everything is paused. {_begun(pause)}.", pause=pause)
        out.say(
            "Nothing is stopped, terminated or deleted until an admin ends it: governor "
            "resume --all"
        )


def resume(arguments: argparse.Namespace) -> None:
    """End the pause that `--since` names; without it, say which steps would continue.

    Raises:
        CommandError: nothing is paused, it was refused, or the pause was not named yet.
    """
    api = api_of(arguments)
    freezes = api.call("GET", "/api/freezes")
    pause = freezes.get("pause")
    if pause is None:
        raise CommandError("nothing is paused")
    if arguments.since is None:
        raise CommandError(_text_before_resume(pause, freezes["waiting"]))
    ended = api.call("POST", "/api/resume", {"since": arguments.since})
    with Output(arguments) as out:
        out.say(f"The pause has ended. {_begun(ended)}.", ended=ended)


def _text_before_resume(pause: dict[str, Any], waiting: list[dict[str, Any]]) -> str:
    lines = [
        f"nothing was changed yet. Everything is paused. {_begun(pause)}. "
        "When the pause ends, these steps continue:"
    ]
    for step in waiting:
        name = printable(step["instance_name"])
        place = f"{step['account']}/{step['region']}"
        lines.append(f"  {name} ({step['instance_id']}, {place}): {step['action']}")
    if not waiting:
        lines.append("  none is waiting")
    lines.append("Each step is checked again first. The next sweep asks people again.")
    lines.append(f"To end the pause: governor resume --all --since {pause['since']}")
    return "\n".join(lines)


def _begun(pause: dict[str, Any]) -> str:
    since = in_utc(parse_iso(pause["since"]))
    reason = f": {printable(pause['reason'])}" if pause["reason"] else ""
    return f"{people(pause['by'])} began the pause at {since}{reason}"
