"""`governor open`: open the console, where people do not sign in at an issuer."""

from __future__ import annotations

import argparse
import json
import webbrowser

from cli.api import Api, api_of
from cli.tables import print_text


def run(arguments: argparse.Namespace) -> None:
    """Open the console, or print its address."""
    _open(api_of(arguments), arguments)


def _open(api: Api, arguments: argparse.Namespace) -> None:
    """Open the console in a browser, or print its address.

    The code in the address works once, within a minute.
    """
    url = api.call("POST", "/api/console", {})["url"]
    if arguments.json:
        print(json.dumps({"url": url}))
    elif arguments.print or not webbrowser.open(url):
        print_text("Open this within a minute; it works once:")
        # On one line, however long: somebody copies it.
        print(url)
    else:
        print_text("The console opens in your browser. If it does not: governor open --print")
