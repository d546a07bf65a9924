"""`governor open`: open the console, where people do not sign in at an issuer."""

from __future__ import annotations

import argparse
import json
import webbrowser

from cli.api import Api, api_of


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
        print(f"Open this within a minute; it works once:\n{url}")
    else:
        print("The console opens in your browser. If it does not: governor open --print")
