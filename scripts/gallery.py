"""Takes pictures of messages and pages in every mode, in light and dark, at a desk and on a phone.

`make screenshots` runs it after those of the docs: into build/gallery, to look at after words or styles have
changed. No cloud: it shows the episodes that the tests are made of.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import sync_playwright

from governor.channels.compose import message_of
from governor.channels.email import email_document
from governor.channels.slack_blocks import slack_blocks
from governor.domain.alerts.alert import Alert
from governor.domain.approvals.approval import Approval, ApprovalStatus, first_approval
from governor.domain.approvals.messages import Stage, stage_alert, waiting_alert
from governor.domain.episode.episode import Episode, Outcome, Phase
from governor.domain.policy.policy import Action, Mode
from governor.domain.sweep.breaker import BreakerState
from governor.domain.sweep.messages import breaker_alert
from local.slack_preview import slack_page
from tests.builders import NOW, TARGET
from tests.unit.channels.test_truth import DEADLINE, LINK, episode_of, queued
from tests.unit.web.test_site import BOTH, DigestWorld, World

FOLDER = Path(__file__).parent.parent / "build" / "gallery"
SIZES = {"desk": 800, "phone": 390}


def main() -> int:
    """Exit status 0 when every picture was taken."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("Chromium is not installed: on Debian, `apt-get install chromium`", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Its sandbox refuses to run as root, which is who runs this in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name, html in (*messages(), *pages()):
            for size, width in SIZES.items():
                for scheme in ("light", "dark"):
                    shown = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
                    shown.set_content(html)
                    shown.screenshot(path=FOLDER / f"{name}-{size}-{scheme}.png", full_page=True)
                    shown.close()
        browser.close()
    print(f"{len(list(FOLDER.glob('*.png')))} pictures are in {FOLDER}")
    return 0


def messages() -> Iterator[tuple[str, str]]:
    """Each as mail and in Slack."""
    found: dict[str, tuple[Alert, Episode | None]] = {}
    for mode in (Mode.OBSERVE, Mode.AUTO):
        idle = episode_of(mode)
        found[mode.value] = stage_alert(idle, Stage.TELL, NOW, LINK), idle
    asked = episode_of()
    found["ask"] = stage_alert(asked, Stage.ASK, NOW, LINK, DEADLINE), asked
    approved = Approval("a-1", asked.ref, "hash", ApprovalStatus.APPROVED, NOW, DEADLINE, timedelta(days=30))
    why = "the cap of 5 actions an hour in account 123456789012 is reached"
    found["waits"] = waiting_alert(asked, approved, why, 24, NOW, LINK), asked
    freeze = BreakerState(NOW, "40 of 60 working instances turned idle within 12 h", turned=40)
    found["frozen"] = breaker_alert("all frozen", TARGET, freeze, NOW, left=31), None
    for name, (alert, episode) in found.items():
        message = message_of(queued(alert), episode, link=alert.link, now=NOW)
        mail = email_document(message, sender="gpu@example.com", recipient="ann@example.com")
        page = mail.get_body(("html",))
        yield f"{name}-mail", str(page.get_content()) if page else ""
        yield f"{name}-slack", slack_page(slack_blocks(message, interactive=True))


def pages() -> Iterator[tuple[str, str]]:
    """A notice of mode auto and a termination, before and after a hold; several questions after a yes."""
    for mode in (Mode.OBSERVE, Mode.AUTO):
        world = _world(mode=mode)
        world.state.put(first_approval(world.episode))
        yield f"page-{mode.value}", world.get().body
    world = _world(Action.TERMINATE)
    yield "page-ask", world.get().body
    world.post("approve", typed_instance_id=world.ref.instance_id)
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW}, became=Outcome.STOPPED)
    yield "page-snapshots-run", world.get().body
    world.post("hold")
    yield "page-held", world.get().body
    yield "page-several-after-a-yes", DigestWorld().post("approve", losses="accepted", **BOTH).body


def _world(action: Action = Action.STOP, mode: Mode = Mode.ASK) -> World:
    """The world of the site's tests under names that people choose."""
    world = World(action, zone="Europe/Berlin")
    named = replace(world.episode.instance, tags={"Name": "notebook-7"})
    history = episode_of(mode).history
    world.change(mode=mode, instance=named, owner="ml-team", reason="Idle for 3 h.", history=history)
    return world


if __name__ == "__main__":
    sys.exit(main())
