"""Takes pictures of messages and pages in every mode, in light and dark, at a desk and on a phone.

`make screenshots` runs it after those of the docs: into build/gallery, to look at after words or
styles have changed. No cloud: it shows the episodes that the tests are made of.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

from playwright.sync_api import ViewportSize, sync_playwright

from governor.alerts.console_pages import console_page_of
from governor.alerts.model import Alert
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import (
    first_yes_alert,
    stage_alert,
    start_failed_alert,
    undo_alert,
    waiting_alert,
)
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.approvals.rules.approval import first_approval
from governor.episode.model.episode import Episode, EpisodeEnding, Outcome, Phase, Terms
from governor.episode.model.start_try import StartStatus, StartTry
from governor.limits.messages import breaker_alert
from governor.limits.model.breaker import BreakerState
from governor.notify.compose import message_of
from governor.notify.digest import digest_of
from governor.notify.email import email_document
from governor.notify.message import Message
from governor.notify.slack_blocks import slack_blocks
from governor.notify.teams import teams_envelope
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from local.demo.slack_preview import slack_page
from local.demo.teams_preview import teams_page
from tests.builders import NOW, TARGET
from tests.unit.notify.test_truth import (
    APPROVED,
    DEADLINE,
    ENDS,
    EVENTS,
    LINK,
    SUMMARIES,
    asked_about_stopped,
    episode_of,
    queued,
)
from tests.unit.web.test_site import BOTH, DigestWorld, World

FOLDER = Path(__file__).parent.parent / "build" / "gallery"
SIZES = {"desk": 800, "phone": 390}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


REFUSED_START = StartTry(
    asked_at=NOW,
    asked_by="link:alice@example.com",
    channel="page",
    launched_before=NOW - timedelta(days=2),
    reason_before="",
    status=StartStatus.REFUSED,
    ended_at=NOW,
    code="VcpuLimitExceeded",
    words="You have requested more vCPU capacity than your current vCPU limit of 64 allows for "
    "the instance bucket that the specified instance type belongs to.",
)
FALLEN_START = replace(
    REFUSED_START,
    status=StartStatus.FELL_BACK,
    code="Client.InternalError",
    words="Client error on launch",
)


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
        shown = [*messages(), *pages()]
        for size, width in SIZES.items():
            for scheme in SCHEMES:
                # One window for all: opening one takes longer than a picture.
                viewport: ViewportSize = {"width": width, "height": 844}
                window = browser.new_page(viewport=viewport, color_scheme=scheme)
                for name, html in shown:
                    window.set_content(html)
                    window.screenshot(path=FOLDER / f"{name}-{size}-{scheme}.png", full_page=True)
                window.close()
                print(f"{len(shown)} pictures: {size}, {scheme}", flush=True)
        browser.close()
    print(f"{len(list(FOLDER.glob('*.png')))} pictures are in {FOLDER}")
    return 0


def messages() -> Iterator[tuple[str, str]]:
    """Each stage, mode and kind of message: as mail, in Slack and in Teams."""
    for name, message in rendered():
        mail = email_document(message, sender="gpu@example.com", recipient="ann@example.com")
        page = mail.get_body(("html",))
        html = str(page.get_content()) if page else ""
        yield f"{name}-mail", html
        yield f"{name}-slack", slack_page(slack_blocks(message, interactive=True))
        yield f"{name}-teams", teams_page(teams_envelope(message))


def rendered() -> Iterator[tuple[str, Message]]:
    """The messages as the channels get them."""
    asked, acting = episode_of(), episode_of(Mode.ASK, "act")
    lost = episode_of(action=Action.TERMINATE, terms=Terms(people_needed=2))
    for name, episode, stage in (
        ("observe", episode_of(Mode.OBSERVE), Stage.TELL),
        ("auto", episode_of(Mode.AUTO), Stage.TELL),
        ("ask", asked, Stage.ASK),
        ("ask-acting", acting, Stage.ASK),
        ("ask-terminate", lost, Stage.ASK),
        ("ask-stopped", asked_about_stopped(), Stage.ASK),
        ("remind", asked, Stage.REMIND),
        ("escalate", acting, Stage.ESCALATE),
    ):
        until = DEADLINE if stage is not Stage.TELL else None
        alert = queued(stage_alert(episode, stage, NOW, LINK, until))
        yield name, message_of(alert, episode, link=LINK, now=NOW)
    several = [asked, acting, lost, *[asked] * 9]
    alerts = [queued(stage_alert(one, Stage.ASK, NOW, LINK, DEADLINE)) for one in several]
    yield "several", digest_of(alerts, several, link=LINK, digest_id="digest-1", now=NOW)
    approved = Approval(
        "a-1", asked.ref, "hash", ApprovalStatus.APPROVED, NOW, DEADLINE, timedelta(days=30)
    )
    why = "the cap of 5 actions an hour in account 123456789012 is reached"
    freeze = BreakerState(NOW, "40 of 60 working instances turned idle within 12 h", turned=40)
    failing = replace(
        lost,
        phase=Phase.ACTING,
        progress=replace(lost.progress, steps_done={"stop": NOW, "snapshot": NOW}),
    )
    failed = _failed(failing, 0)
    others: dict[str, tuple[Alert, Episode | None]] = {
        "waits": (waiting_alert(asked, approved, why, 24, NOW, LINK), asked),
        "first-yes": (first_yes_alert(lost, APPROVED, DEADLINE), lost),
        "undone": (
            undo_alert(asked, "link:alice@example.com", "page", NOW, NOW + timedelta(hours=24)),
            asked,
        ),
        "start-refused": (start_failed_alert(asked, REFUSED_START, NOW), asked),
        "start-fell-back": (start_failed_alert(asked, FALLEN_START, NOW), asked),
        "failed": (failed, failing),
        "frozen": (breaker_alert("all frozen", TARGET, freeze, NOW, left=31), None),
    }
    for end, (reason, *_) in ENDS.items():
        by_end = {Outcome.TERMINATED: lost, Outcome.OBSERVED: episode_of(Mode.OBSERVE)}
        others[f"end-{end.value}"] = _end(by_end.get(end, asked), end, reason)
    others |= {
        f"event-{name}": (_priced(alert), None)
        for name, (alert, _) in {**EVENTS, **SUMMARIES}.items()
    }
    for name, (alert, about) in others.items():
        page = console_page_of(alert)
        link = LINK if about or page else None
        yield name, message_of(queued(alert), about, link=link, now=NOW)
    alerts = [_failed(_numbered(failing, number), number) for number in range(1, 16)]
    yield "failed-15", digest_of(alerts, [], link=LINK, digest_id="digest-1", now=NOW)


def _numbered(episode: Episode, number: int) -> Episode:
    """Return the episode as one of another instance."""
    instance_id = f"i-0123456789abcde{number:02x}"
    instance = replace(
        episode.instance, instance_id=instance_id, tags={"Name": f"notebook-{number}"}
    )
    return replace(episode, ref=replace(episode.ref, instance_id=instance_id), instance=instance)


def _failed(episode: Episode, number: int) -> Alert:
    """Return the message that a snapshot of the instance failed; the instance is stopped."""
    reason = f"SnapshotFailed: snap-0123456789abcde{number:02x} ended in error"
    ending = EpisodeEnding(Outcome.FAILED, reason, NOW, became=Outcome.STOPPED)
    ended = episode.closed(ending)
    return queued(outcome_alert(ended.ref, ended, Outcome.FAILED, reason, NOW, LINK))


def _end(episode: Episode, outcome: Outcome, reason: str) -> tuple[Alert, Episode]:
    became = outcome if outcome in (Outcome.STOPPED, Outcome.TERMINATED) else None
    ended = episode.closed(EpisodeEnding(outcome, reason, NOW, became))
    return outcome_alert(ended.ref, ended, outcome, reason, NOW, LINK, None, DEADLINE), ended


def _priced(alert: Alert) -> Alert:
    return (
        replace(alert, facts={**alert.facts, "usd_per_hour": "5.672"})
        if alert.instance_id
        else alert
    )


def pages() -> Iterator[tuple[str, str]]:
    """A notice of mode auto and a termination, before and after a hold; several questions after a
    yes."""
    for mode in (Mode.OBSERVE, Mode.AUTO):
        world = _world(mode=mode)
        world.state.put(first_approval(world.episode))
        yield f"page-{mode.value}", world.get().sent
    world = _world(Action.TERMINATE)
    yield "page-ask", world.get().sent
    stopped, told = _world(Action.TERMINATE), asked_about_stopped()
    ref = replace(stopped.ref, number=0)
    kept = {name: getattr(told, name) for name in ("price", "plan", "reason", "measurement")}
    instance = replace(told.instance, instance_id=ref.instance_id)
    stopped.change(
        **kept,
        steps_done=told.progress.steps_done,
        stopped_by_episode=ref,
        instance=instance,
        terms=replace(stopped.episode.terms, people_needed=2),
    )
    yield "page-ask-stopped", stopped.get().sent
    world.post("approve", typed_instance_id=world.ref.instance_id)
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW})
    yield "page-snapshots-run", world.get().sent
    world.post("hold")
    ending = EpisodeEnding(Outcome.HELD, "held", NOW, became=Outcome.STOPPED)
    world.change(phase=Phase.CLOSED, ending=ending)
    yield "page-held", world.get().sent
    yield "page-several-after-a-yes", DigestWorld().post("approve", losses="accepted", **BOTH).sent


def _world(action: Action = Action.STOP, mode: Mode = Mode.ASK) -> World:
    """The world of the site's tests under names that people choose."""
    world = World(action, zone="Europe/Berlin")
    named = replace(world.episode.instance, tags={"Name": "notebook-7"})
    history = episode_of(mode).measurement.history
    world.change(
        mode=mode, instance=named, owner="ml-team", reason="Idle for 3 h.", history=history
    )
    return world


if __name__ == "__main__":
    sys.exit(main())
