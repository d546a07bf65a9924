"""The arguments of `make invoke`: checked with the standard library alone, before anything is
installed or started."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = "make invoke FUNCTION=serve_api EVENT=events/serve_api/list.json"


class WrongArgumentError(Exception):
    """Says which argument is wrong, why, and what it could be."""


def given(name: str = "", path: str = "", *more: str) -> tuple[str, Any]:
    """The function and its event. Raises: WrongArgumentError."""
    known = sorted(folder.name for folder in (ROOT / "functions").iterdir() if folder.is_dir())
    functions = f"The functions are {', '.join(known)}."
    if more:
        raise WrongArgumentError(
            f"two arguments, FUNCTION and EVENT, and no {more[0]!r}: {EXAMPLE}"
        )
    if not name:
        raise WrongArgumentError(f"FUNCTION is missing: {EXAMPLE}. {functions}")
    if name not in known:
        of_template = {
            "".join(map(str.capitalize, one.split("_"))) + "Function": one for one in known
        }
        near = of_template.get(name) or _nearest(name, known)
        raise WrongArgumentError(
            f"FUNCTION={name}: there is no such function{_question(near)} {functions}"
        )
    samples = sorted(f"events/{name}/{one.name}" for one in (ROOT / "events" / name).glob("*.json"))
    could_be = f"Samples of {name}: {', '.join(samples)}."
    if not path:
        raise WrongArgumentError(f"EVENT is missing. {could_be}")
    file = ROOT / path
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "there is no such file"
        raise WrongArgumentError(
            f"EVENT={path}: {what}{_question(_nearest(path, samples))} {could_be}"
        )
    owner = file.resolve().parent
    if owner.parent == ROOT / "events" and owner.name != name:
        raise WrongArgumentError(
            f"EVENT={path} is a sample of {owner.name}, not of {name}: "
            f"make invoke FUNCTION={owner.name} EVENT={path}, or another event. {could_be}"
        )
    try:
        return name, json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise WrongArgumentError(f"EVENT={path} is not JSON: {error.msg} ({where})") from None
    except UnicodeDecodeError:
        raise WrongArgumentError(f"EVENT={path} is not JSON: it is not text in UTF-8") from None


def _nearest(word: str, known: list[str]) -> str:
    return next(iter(get_close_matches(word, known, n=1)), "")


def _question(near: str) -> str:
    return f"; did you mean {near}?" if near else "."
