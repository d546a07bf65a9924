"""`governor freezes`: freezes, rate limits and steps that wait. Reads only."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cli.api import Api, api_of
from cli.references import short_ids
from cli.tables import Column, print_table, print_text
from governor.core.units import in_utc, parse_iso, printable

_RATE_COLUMNS = (Column(longest=60, gives_way=True), Column(longest=20))
"""Scope, and how many of how many."""
_WAITING_COLUMNS = (
    Column("NAME", longest=40, gives_way=True),
    Column("INSTANCE", longest=19),
    Column("PLACE", longest=28),
    Column("ID", longest=32),
)


def run(arguments: argparse.Namespace) -> None:
    _freezes(api_of(arguments), arguments)


def _freezes(api: Api, arguments: argparse.Namespace) -> None:
    answer = api.call("GET", "/api/freezes")
    if arguments.json:
        print(json.dumps(answer, indent=2))
        return
    freezes = answer["freezes"]
    pause = answer.get("pause")
    for freeze in freezes:
        _print_freeze(freeze, is_pause=_is_pause(freeze, pause))
    is_paused = pause is not None
    if is_paused:
        print_text("  end the pause: governor resume --all")
    # A pause is one of the freezes; any other one needs its cause found.
    if len(freezes) > is_paused:
        print_text("  find the cause, then end it: breaker.lift_freezes_before (docs/policy.md)")
    if not freezes:
        print_text("nothing is frozen: no pause, and no unusual share of the fleet turned idle")
    print_text("stops and terminations that began in the last 60 minutes:")
    if answer["caps"]:
        print_table(_RATE_COLUMNS, [_rate_row(rate_limit) for rate_limit in answer["caps"]])
    if answer["waiting"]:
        print_text("steps that wait, and continue once that has ended:")
        print_table(_WAITING_COLUMNS, _waiting_rows(answer["waiting"]))


def _waiting_rows(waiting: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    shorts = short_ids([step["id"] for step in waiting])
    rows: list[Sequence[str]] = []
    for step in waiting:
        place = f"{step['account']}/{step['region']}"
        rows.append((step["instance_name"], step["instance_id"], place, shorts[step["id"]]))
    return rows


def _is_pause(freeze: Mapping[str, Any], pause: Mapping[str, Any] | None) -> bool:
    """Return whether this is the entry of the pause, which holds everything back since the same
    time."""
    if pause is None:
        return False
    return (freeze["what"], freeze["since"]) == ("everything", pause["since"])


def _print_freeze(freeze: Mapping[str, Any], *, is_pause: bool) -> None:
    why = freeze["why"]
    state = "paused" if is_pause else "frozen"
    since = ""
    if freeze["since"]:
        since = f" since {in_utc(parse_iso(freeze['since']))}"
    print_text(f"{freeze['what']} is {state}{since}: {printable(why)}")


def _rate_row(rate_limit: Mapping[str, Any]) -> Sequence[str]:
    kind, _, name = rate_limit["what"].partition("#")
    scope = f"{kind.lower()} {name}" if name else "all accounts"
    return scope, f"{rate_limit['used']} of {rate_limit['most']}"
