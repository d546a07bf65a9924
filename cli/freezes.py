"""`governor freezes`: freezes, rate limits and steps that wait. Reads only."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from cli.api import Api, api_of
from governor.core.units import in_utc, parse_iso, printable


def run(arguments: argparse.Namespace) -> None:
    _freezes(api_of(arguments), arguments)


def _freezes(api: Api, arguments: argparse.Namespace) -> None:
    answer = api.call("GET", "/api/freezes")
    if arguments.json:
        print(json.dumps(answer, indent=2))
        return
    freezes = answer["freezes"]
    for freeze in freezes:
        _print_freeze(freeze)
    is_paused = answer.get("pause") is not None
    if is_paused:
        print("  end the pause: governor resume --all")
    # A pause is one of the freezes; any other one needs its cause found.
    if len(freezes) > is_paused:
        print("  find the cause, then lift it: breaker.lift_freezes_before (docs/brakes.md)")
    if not freezes:
        print("nothing is frozen")
    print("stops and terminations that began in the last 60 minutes:")
    for rate_limit in answer["caps"]:
        _print_rate_limit(rate_limit)
    for step in answer["waiting"]:
        name = printable(step["instance_name"])
        place = f"{step['account']}/{step['region']}"
        print(f"waits: {name} ({step['instance_id']}, {place}), id {step['id']}")


def _print_freeze(freeze: Mapping[str, Any]) -> None:
    why = freeze["why"]
    state = "paused" if why.startswith("paused by") else "frozen"
    since = ""
    if freeze["since"]:
        since = f" since {in_utc(parse_iso(freeze['since']))}"
    print(f"{freeze['what']} is {state}{since}: {printable(why)}")


def _print_rate_limit(rate_limit: Mapping[str, Any]) -> None:
    kind, _, name = rate_limit["what"].partition("#")
    scope = f"{kind.lower()} {printable(name)}" if name else "all accounts"
    print(f"  {scope}: {rate_limit['used']} of {rate_limit['most']}")
