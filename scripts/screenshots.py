"""Takes the pictures of docs/images: one question on the local cloud, as its people see it, to its end.

Run by `make screenshots`, with an installed Chromium.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable
from governor.channels.picture_png import evidence_png
from governor.domain.instance import Target
from governor.stores import StateTable
from local.cloud import ACCOUNT, REGION, LocalCloud
from local.fleet import A10G, METRIC_MINUTES, Member, busy, idle, series_of
from local.receivers import Receivers
from local.scene import Scene, deploy_scene
from local.slack_preview import slack_page

Seen = TypeVar("Seen")
IMAGES = Path(__file__).parent.parent / "docs" / "images"
OWNER = "alice@example.com"
POLICY = f"""\
approval: {{digest_from: 0}}
ownership: {{contacts: {{ml-team: {{emails: [{OWNER}]}}}}, default_contacts: [ml-team]}}
"""
FORGOTTEN = Member(
    "notebook-7",
    "g5.12xlarge",
    A10G,
    4,
    idle,
    "idle",
    "worked until six hours ago",
    data_gib=500,
    tags={"Owner": "ml-team", "Project": "vision"},
)
_IDLE_BLOCKS, _SILENT_BLOCK, _BLOCKS = 3, 6, 11
"""The last 24 hours in blocks as long as the fleet's metrics: the newest idle, one without data, the others
at work."""
_PATIENCE_SECONDS = 600.0
_COLOURS = 192
"""Of a picture: text and flat surfaces need no more, and a file is half of what it would be."""
_DESK, _PHONE = {"width": 800, "height": 900}, {"width": 390, "height": 844}


def main() -> int:
    """Exit status 0 when every picture was taken."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("Chromium is not installed: on Debian, `apt-get install chromium`", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        Receivers() as receivers,
        LocalCloud(wait_scale=0.05, trust=receivers.certificate) as cloud,
        sync_playwright() as playwright,
    ):
        os.environ.update(cloud.environment())
        # Its sandbox refuses to run as root, which is who runs this in containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        take_all(deploy_scene(cloud, receivers, mode="ask", policy=POLICY), browser)
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(IMAGES.parent.parent)}: {path.stat().st_size // 1024} KiB")
    return 0


def take_all(scene: Scene, browser: Browser) -> None:
    """The messages, the question, and the record after an approval."""
    instance_id = launch(scene)
    scene.sweep()
    mail = scene.wait_for(lambda: mail_about(scene, instance_id), "no mail about the instance")
    blocks = scene.wait_for(lambda: slack_blocks_about(scene, instance_id), "nothing in Slack")
    found = re.search(r"^https?://\S+", mail["BodyText"], re.MULTILINE)
    if found is None:
        raise RuntimeError("the mail holds no link")
    link = scene.cloud.reachable_url(found[0])

    with page(browser, _DESK) as shown:
        shown.set_content(with_picture(scene, mail["BodyHtml"], instance_id))
        take(shown, "mail", whole=True)
    with page(browser, _DESK) as shown:
        shown.set_content(slack_page(blocks))
        take(shown, "slack", whole=True)
    with page(browser, _DESK) as shown:
        shown.goto(link)
        take(shown, "question", whole=True)
    with page(browser, _PHONE, scheme="dark", scale=2) as shown:
        shown.goto(link)
        take(shown, "question-dark-phone")
    with page(browser, _PHONE, scale=2) as shown:
        shown.goto(link)
        take(shown, "question-phone")
        shown.get_by_label("I accept that data on its local disks is lost for good").check()
        shown.get_by_role("button", name="Stop it").click()
    with page(browser, _DESK) as shown:
        shown.goto(link)
        shown.get_by_text("Stopped on").wait_for(timeout=_PATIENCE_SECONDS * 1000)
        take(shown, "record")


def launch(scene: Scene) -> str:
    """The instance with a day of metrics."""
    now = datetime.now(tz=UTC)
    instance_id = next(iter(scene.launch([FORGOTTEN], now).values()))
    for block in range(1, _BLOCKS):
        if block != _SILENT_BLOCK:
            member = FORGOTTEN if block < _IDLE_BLOCKS else replace(FORGOTTEN, load=busy)
            then = now - timedelta(minutes=METRIC_MINUTES * block)
            scene.simulation.put_metrics(series_of(member, instance_id, then))
    return instance_id


def mail_about(scene: Scene, instance_id: str) -> dict[str, str] | None:
    """The mail to the owner."""
    mails = (mail for mail in scene.sent_mail() if instance_id in mail["BodyText"])
    return next((mail for mail in mails if mail["To"] == [OWNER]), None)


def with_picture(scene: Scene, html: str, instance_id: str) -> str:
    """The mail with the picture that it carries: the local cloud keeps no attachments."""
    state = StateTable(DynamoTable(Clients(), scene.outputs["StateTableName"]))
    ref = state.record(Target(ACCOUNT, REGION), instance_id).open_episode
    episode = state.episode(ref) if ref else None
    if episode is None:
        raise RuntimeError("the instance has no open episode")
    drawn = base64.b64encode(evidence_png(episode.evidence, episode.idle_below_percent)).decode()
    return re.sub(r"cid:[^\"]+", f"data:image/png;base64,{drawn}", html)


def slack_blocks_about(scene: Scene, instance_id: str) -> list[dict[str, object]] | None:
    """The blocks of the message in Slack."""
    messages = (one.payload for one in scene.receivers.received("slack") if one.status < 300)
    return next((message["blocks"] for message in messages if instance_id in str(message)), None)


@contextmanager
def page(
    browser: Browser, size: dict[str, int], *, scheme: str = "light", scale: float = 1
) -> Iterator[Page]:
    """A tab of that size in points."""
    context = browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=scale)
    try:
        yield context.new_page()
    finally:
        context.close()


def take(shown: Page, name: str, *, whole: bool = False) -> None:
    """One picture: what fits the screen, or the whole page."""
    path = IMAGES / f"{name}.png"
    shown.screenshot(path=path, full_page=whole)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
