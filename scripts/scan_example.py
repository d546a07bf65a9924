"""Writes the example of docs/scan.md anew: a scan of a made-up organization by the real command.

Every kind of resource lists, measures, prices and judges it as it does in AWS; only the answers are
made up. The same report as a page is written to build/scan.html, to look at.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from unittest.mock import patch

from cli.scan.page import page_html
from cli.scan.places import places_of
from cli.scan.reading import scan_places
from cli.scan.table import report_text
from governor.aws.read_only import ReadOnlyClients
from governor.scan.model import Report
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_a_scan, session_policy
from scripts import scan_world

ROOT = Path(__file__).parent.parent
PAGE, REPORT = ROOT / "docs" / "scan.md", ROOT / "build" / "scan.html"
_CALLER = {
    "AWS_ACCESS_KEY_ID": "example",
    "AWS_SECRET_ACCESS_KEY": "example",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@cache
def report() -> Report:
    """Return the report of the one scan of this process."""
    return scan()


def scan() -> Report:
    """Scan two accounts in three Regions, and an account that cannot be entered."""
    region = scan_world.EAST
    clients = ReadOnlyClients(operations_of_a_scan(KINDS), session_policy(KINDS), region)
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = patch.dict(os.environ, {**others, **_CALLER}, clear=True)
    with environment, scan_world.cloud().answering():
        places = places_of(clients, region, scan_world.ROLE, [scan_world.UNIT], ())
        return scan_places(
            clients,
            places,
            KINDS,
            now=scan_world.NOW,
            reads_commitments=False,
            progress=lambda _: None,
        )


def page_with(shown: str) -> str:
    """Return the page of the docs with this report under its heading."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(
        r"(## Read the report\n.*?```text\n).*?(?=```)",
        lambda found: f"{found[1]}{shown}\n",
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write both."""
    PAGE.write_text(page_with(report_text(report())), encoding="utf-8")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(page_html(report()), encoding="utf-8")


if __name__ == "__main__":
    main()
