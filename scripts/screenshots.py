"""Takes the pictures of docs/images with an installed Chromium, and writes the text of each page
beside them.

Run by `make screenshots`. Each picture names the text it was taken of, so that a test finds one
that is old.
"""

from __future__ import annotations

import os
import shutil
import sys

from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser, sync_playwright

from scripts.pictures import FOLDER, TEXT_KEY, Picture, pictures

_COLORS = 192
"""Colors of a picture: text and flat surfaces need no more, and a file is half of what it would
be."""


def main() -> int:
    """Exit status 0 when every picture was taken."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("Chromium is not installed: on Debian, `apt-get install chromium`", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        # The drawings (SVG) are written by hand.
        if path.suffix in (".png", ".txt"):
            path.unlink()
    # Its sandbox refuses to run as root, which is who runs this in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for picture in pictures():
            take(browser, picture)
            (FOLDER / f"{picture.page}.txt").write_text(picture.text, encoding="utf-8")
        browser.close()
    for path in sorted(FOLDER.glob("*.png")):
        print(f"{path.relative_to(FOLDER.parent.parent)}: {path.stat().st_size // 1024} KiB")
    return 0


def take(browser: Browser, picture: Picture) -> None:
    """One picture: what fits the screen, or the whole page."""
    width, height = picture.size
    shown = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.is_dark else "light",
        device_scale_factor=picture.scale,
    )
    shown.set_content(picture.html)
    if picture.is_whole:
        # As tall as the page, so that what sticks to the screen's end lies at the page's.
        tall = int(shown.evaluate("document.documentElement.scrollHeight"))
        shown.set_viewport_size({"width": width, "height": max(height, tall)})
    path = FOLDER / f"{picture.name}.png"
    shown.screenshot(path=path, full_page=picture.is_whole)
    shown.close()
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
    taken_of = PngImagePlugin.PngInfo()
    taken_of.add_text(TEXT_KEY, picture.digest)
    few.save(path, optimize=True, pnginfo=taken_of)


if __name__ == "__main__":
    sys.exit(main())
