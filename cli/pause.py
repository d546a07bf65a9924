"""`governor pause --all` and `governor resume --all`: hold back everything that destroys, and end
that.

One call pauses. To resume takes two: the first shows what goes on, and names the pause for the
second.
"""

from __future__ import annotations

import argparse
from typing import Any

from cli.api import api_of
from cli.errors import CommandError
from cli.output import Output
from governor.domain.units import in_utc, parse_iso, people, printable


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    command = areas.add_parser("pause")
    command.add_argument(
        "--all", action="store_true", required=True, help="every account and Region"
    )
    command.add_argument("--reason", help="why, for the message and the audit")
    command.set_defaults(run=_pause)


def _pause(arguments: argparse.Namespace) -> None:
    given = {} if arguments.reason is None else {"reason": arguments.reason}
    pause = api_of(arguments).call("POST", "/api/pause", given)
    with Output(arguments) as out:
        out.say(f"Everything is paused. {_begun(pause)}.", pause=pause)
        out.say(
            "Nothing is stopped, terminated or deleted until an admin ends it: governor "
            "resume --all"
        )


def resume(arguments: argparse.Namespace) -> None:
    """End the pause that `--since` names; without it, say what would go on.

    Raises: CommandError: nothing is paused, it was refused, or the pause was not named yet.
    """
    api = api_of(arguments)
    found = api.call("GET", "/api/freezes")
    pause = found.get("pause")
    if pause is None:
        raise CommandError("nothing is paused")
    if arguments.since is None:
        raise CommandError(_what_goes_on(pause, found["waiting"]))
    ended = api.call("POST", "/api/resume", {"since": arguments.since})
    with Output(arguments) as out:
        out.say(f"The pause has ended. {_begun(ended)}.", ended=ended)


def _what_goes_on(pause: dict[str, Any], waiting: list[dict[str, Any]]) -> str:
    lines = [
        f"nothing was changed yet. Everything is paused. {_begun(pause)}. "
        "When the pause ends, these steps continue:"
    ]
    for one in waiting:
        place = f"{one['account']}/{one['region']}"
        lines.append(
            f"  {printable(one['instance_name'])} ({one['instance_id']}, {place}): {one['action']}"
        )
    if not waiting:
        lines.append("  none is waiting")
    lines.append("Each step is checked again first. The next sweep asks people again.")
    lines.append(f"To end the pause: governor resume --all --since {pause['since']}")
    return "\n".join(lines)


def _begun(pause: dict[str, Any]) -> str:
    reason = f": {printable(pause['reason'])}" if pause["reason"] else ""
    return f"{people(pause['by'])} began the pause at {in_utc(parse_iso(pause['since']))}{reason}"
