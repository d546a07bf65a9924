"""`governor mode`: print the mode of the policy in force, or store the policy with another one.

It changes the mode and nothing else of the document.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import boto3
import yaml

from cli import aws
from cli.errors import CommandError
from cli.output import Output
from cli.policy import deployed
from cli.policy_versions import is_usable_change, note_what_waits, store
from cli.status import Stack, read
from governor.core.errors import PolicyError
from governor.core.units import printable
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.model.policy import Mode
from governor.policy.rules.consent import needs_consent

_BY_HAND = (
    "change it in a file (`governor policy get > policy.yaml`), then `governor "
    "policy put policy.yaml`"
)


def run(arguments: argparse.Namespace) -> int:
    """Print or change the mode. Return 1 when the changed policy is refused."""
    session = aws.session()
    text = deployed(arguments.stack_name, session)
    book = _book_in_force(text, arguments.mode)
    before = book.base().policy.mode.value if book else None
    with Output(arguments) as out:
        if arguments.mode in (None, before):
            line = str(before)
            if arguments.mode:
                line = f"The mode is {before} already; nothing was stored."
            out.say(line, mode=before)
            _say_overrides(book, before, out)
            return 0
        return _change(text, arguments, session, out)


def _book_in_force(text: str, new_mode: str | None) -> PolicyBook | None:
    """Return the policy in force; `None` if it is refused and a new mode is given.

    A release before this one may have taken a policy that is refused now; the mode `observe` is a
    way out of that.
    """
    try:
        return parse_policy(text)
    except PolicyError as error:
        if new_mode is None:
            raise CommandError(f"the policy in force is refused: {error}") from None
        return None


def _change(text: str, arguments: argparse.Namespace, session: boto3.Session, out: Output) -> int:
    """Store the policy with the new mode. Return 1 when it is refused."""
    changed = with_mode(text, arguments.mode)
    if not is_usable_change(Path("policy.yaml"), text, changed, out):
        return 1
    _say_overrides(parse_policy(changed), arguments.mode, out)
    if arguments.dry_run:
        out.say("nothing was stored", stored=None)
        return 0
    note_what_waits(arguments, session, out)
    if arguments.mode != Mode.OBSERVE:
        _say_unreached(Stack(arguments.stack_name, session), out)
    store(changed, arguments, session, out)
    return 0


def _say_unreached(stack: Stack, out: Output) -> None:
    """Warn of subscribers who get no email."""
    line = read(stack, ("subscribers",))["subscribers"]
    unreached = line.document.get("unreached") if line.document else None
    if unreached:
        out.say(f"warning: questions will fail, subscribers: {line.text}", unreached=unreached)


def with_mode(text: str, mode: str) -> str:
    """Return the document with another mode, and every other character as it was.

    Raises:
        CommandError: it is written in a way that a small change could break.
    """
    before = _loaded(text)
    changed = _replaced(text, mode)
    if _loaded(changed) != {**before, "mode": mode}:
        raise CommandError(f"the mode of this document cannot be changed in place: {_BY_HAND}")
    return changed


def _replaced(text: str, mode: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return f"mode: {mode}\n{text}"
    assert isinstance(root, yaml.MappingNode)
    for key, value in root.value:
        if key.value == "mode" and value.start_mark.index > key.end_mark.index:
            return text[: value.start_mark.index] + mode + text[value.end_mark.index :]
    start = root.start_mark.index
    if root.flow_style:
        return f"{text[: start + 1]}mode: {mode}, {text[start + 1 :]}"
    return f"{text[:start]}mode: {mode}\n{text[start:]}"


def _loaded(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CommandError(f"the policy is no YAML ({error}): {_BY_HAND}") from None
    if document is not None and not isinstance(document, dict):
        raise CommandError(f"the policy is no mapping: {_BY_HAND}")
    return document or {}


def _say_overrides(book: PolicyBook | None, mode: str | None, out: Output) -> None:
    """Name the overrides with another mode: the mode of the document does not change them."""
    if book is None:
        return
    for override in book.overrides:
        own_mode = override.set.get("mode")
        if own_mode is None or own_mode == mode:
            continue
        name = printable(override.name)
        text = f"override {name}: its instances are in mode {printable(str(own_mode))}"
        if needs_consent(override):
            text += ", or in ask until everybody in approved_by has accepted it"
        out.list(text, "overrides", {"override": override.name, "mode": own_mode})
    if book.base().policy.budget.act == "ask" and mode != Mode.OBSERVE:
        out.say(
            "budget.act is ask: overrides with mode: observe do not keep a project over "
            "budget from questions"
        )
