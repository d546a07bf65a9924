"""`governor freezes`: what holds actions back."""

from __future__ import annotations

import argparse
import json

from cli.api import Api, api_of
from governor.domain.units import in_utc, parse_iso, printable


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    areas.add_parser("freezes").set_defaults(run=lambda given: _freezes(api_of(given), given))


def _freezes(api: Api, arguments: argparse.Namespace) -> None:
    found = api.call("GET", "/api/freezes")
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for one in found["freezes"]:
        state = "paused" if one["why"].startswith("paused by") else "frozen"
        since = f" since {in_utc(parse_iso(one['since']))}" if one["since"] else ""
        print(f"{one['what']} is {state}{since}: {printable(one['why'])}")
    is_paused = found.get("pause") is not None
    if is_paused:
        print("  end the pause: governor resume --all")
    if len(found["freezes"]) > is_paused:
        print("  find the cause, then lift it: breaker.lift_freezes_before (docs/brakes.md)")
    if not found["freezes"]:
        print("nothing is frozen")
    print("stops and terminations that began in the last 60 minutes:")
    for one in found["caps"]:
        kind, _, name = one["what"].partition("#")
        what = f"{kind.lower()} {printable(name)}" if name else "all accounts"
        print(f"  {what}: {one['used']} of {one['most']}")
    for one in found["waiting"]:
        place = f"{one['account']}/{one['region']}"
        print(
            f"waits: {printable(one['instance_name'])} ({one['instance_id']}, {place}), "
            f"id {one['id']}"
        )
