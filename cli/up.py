"""Serve the console at one URL (`make up`), over a simulated fleet with six weeks of history, until
Ctrl-C.

Ends with everything it started. This module must not know how anything is decided.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import boto3

from cli.api import Api
from cli.demo import (
    OWNER,
    TARGET,
    VISITORS_POLICY,
    Demo,
    environment_file,
    note,
    print_log,
    say,
    visitors_key,
)
from cli.errors import CommandError
from governor.approvals.store.approvals import Approvals
from governor.core.errors import GovernorError
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.money.store.ledger import Ledger
from governor.table.table import Table
from local.demo.fleet import demo_fleet
from local.demo.past import past_metrics, write_past
from local.demo.receivers import Receivers
from local.demo.scene import Scene, deploy_scene
from local.demo.site.export import export
from local.demo.site.front import Front
from local.demo.site.messages import Messages
from local.demo.site.pages import Pages
from local.demo.site.pulse import Pulse
from local.demo.site.story import LOOKED, SAVED, Story
from local.demo.waste import put_sagemaker, put_waste
from local.engine.cloud import REGION, ROOT, LocalCloud, LocalCloudError

ENVIRONMENT = ROOT / "build" / "up.env"
_BEAT_SECONDS = 2.0
_NOTICE_SECONDS = 120.0
"""Between EC2's warning and the end of a Spot instance."""


def now() -> datetime:
    """Return the time. Only this module asks for it."""
    return datetime.now(tz=UTC)


def begin(cloud: LocalCloud, receivers: Receivers, front: Front) -> tuple[Demo, Pulse, Story]:
    """Launch the fleet with its history, sweep it and have people asked; the front shows it."""
    say("deploying template.yaml into the local cloud")
    parameters = {
        "ApprovalBaseUrl": front.url,
        "SweepRateMinutes": "1",
        "DeletionProtection": "true",
    }
    scene = deploy_scene(cloud, receivers, mode="ask", policy=VISITORS_POLICY, more=parameters)
    demo = Demo(scene)
    fleet = demo_fleet()
    launched = now()
    ids = scene.launch(fleet, launched)
    members = {ids[member.name]: member for member in fleet}
    stops = write_past(demo.table, TARGET, members, launched, OWNER)
    scene.simulation.put_metrics(past_metrics(members, launched))
    say(
        f"launched {len(fleet)} instances with six weeks of history: what they cost, and "
        f"{stops} stops"
    )
    put_waste(cloud, launched)
    # In the Region of the stack, too, so that its daily scan finds some of it.
    put_sagemaker(cloud, launched, REGION)
    demo.warn("train-a", _NOTICE_SECONDS)
    scene.sweep("scan")
    scene.sweep()
    questions = demo.await_questions()
    say(f"{len(questions)} questions are in email and Slack; somebody is paged about train-a")
    pulse = Pulse(scene, launched)
    # The console shows what a sweep has seen: the questions of one are in the next.
    pulse.beat(now())
    return demo, pulse, show(scene, demo.table, front)


def show(scene: Scene, table: Table, front: Front) -> Story:
    """Let the front show this stack from now on, and let its visitors into the console."""
    names = {instance_id: member.name for instance_id, member in scene.members.items()}
    story = Story(
        Episodes(table), Approvals(table), Instances(table), Ledger(table), TARGET, names, now
    )
    api = scene.cloud.reachable_url(scene.outputs["ApiUrl"])
    front.site = Pages(api, _codes(scene, api), Messages(scene), story)
    return story


def _codes(scene: Scene, api: str) -> Callable[[], str]:
    """Return a function that makes codes as `governor open` does, for the person here."""
    key = visitors_key(scene.cloud)
    session = boto3.Session(
        key["AWS_ACCESS_KEY_ID"], key["AWS_SECRET_ACCESS_KEY"], region_name=REGION
    )
    person = Api(api, session)

    def code() -> str:
        """Return a code that opens the console. Raises: RuntimeError if the API gives none."""
        try:
            answer = person.call("POST", "/api/console", {})
        except CommandError as error:
            raise RuntimeError(str(error)) from None
        return str(answer["url"]).partition("#")[2]

    return code


def go_on(demo: Demo, pulse: Pulse) -> Iterator[None]:
    """Keep the fleet going and print what happens, as long as the caller asks for more."""
    while True:
        try:
            pulse.beat(now())
            demo.print_news()
        except (LocalCloudError, TimeoutError, RuntimeError, GovernorError) as error:
            print(f"  a sweep failed: {error}", file=sys.stderr, flush=True)
        yield
        time.sleep(_BEAT_SECONDS)


def copy(demo: Demo, pulse: Pulse, story: Story, front: Front, folder: Path) -> None:
    """Answer yes to the most expensive question, as its mail asks, and copy the site after that."""
    questions = demo.await_questions()
    most_expensive = max(questions, key=lambda question: Decimal(question["facts"]["usd_per_hour"]))
    demo.approve(most_expensive)
    for _ in go_on(demo, pulse):
        if story.is_told:
            break
    # A copy shows one moment, in which the stopped instance is no longer idle.
    demo.scene.sweep()
    for page in (LOOKED, SAVED):
        story.visit(page)
    say(f"{export(front, folder)} pages are in {folder}: begin with index.html")


def _run(cloud: LocalCloud, receivers: Receivers, front: Front, folder: Path | None) -> None:
    """Copy the site into the folder; without one, go on until Ctrl-C."""
    demo, pulse, story = begin(cloud, receivers, front)
    if folder is not None:
        copy(demo, pulse, story, front, folder)
        return
    with environment_file(demo.scene.exports(visitors_key(cloud)), ENVIRONMENT) as path:
        say(f"open {front.url}/ in a browser; Ctrl-C ends it")
        note("on the command line, in another terminal in this folder:")
        print(f"    . {path}; bin/governor approvals list")
        note("all waste of the account, with what nobody governs: `bin/governor scan`")
        for _ in go_on(demo, pulse):
            pass


def main() -> int:
    """Run it. Return 0 when it was ended by Ctrl-C, or the copy is made."""
    parser = argparse.ArgumentParser(prog="make up", description=__doc__)
    parser.add_argument(
        "--copy", type=Path, metavar="FOLDER", help="copy the site to files, and end"
    )
    folder = parser.parse_args().copy
    # A terminated one must clean up as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with (
            Receivers() as receivers,
            LocalCloud(trust=receivers.certificate) as cloud,
            Front() as front,
        ):
            os.environ.update(cloud.environment())
            try:
                _run(cloud, receivers, front, folder)
            except (LocalCloudError, TimeoutError, RuntimeError, OSError) as error:
                print(f"\nit failed: {error}", file=sys.stderr)
                print_log(cloud)
                return 1
    except LocalCloudError as error:
        print(f"it failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
