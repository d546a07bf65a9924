"""`governor policy get|diff|put|history|rollback|accept`: the versions of the policy document."""

from __future__ import annotations

import argparse
import difflib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.api import Api, described, find_api
from cli.errors import CommandError
from cli.output import Output
from cli.policy import deployed, is_usable, read
from cli.policy_consent import next_steps
from cli.references import Candidate, find, short_ids
from cli.tables import Column, print_table, print_text
from governor.core.errors import PolicyError
from governor.core.units import printable
from governor.policy.document import parse_policy
from governor.policy.messages import consent_line
from governor.policy.rules.changes import risky_changes
from governor.policy.rules.consent import Unaccepted
from governor.policy.versions import waits_for_two

KEY = "policy.yaml"
_SHOWN = 20
_NAMED = 5
"""The most versions that an error names."""
_NO_VERSION = ("NoSuchVersion", "InvalidArgument")
"""S3's answers for a version that does not exist; the second for a text that cannot be one."""
_WHOLE = 32
"""Characters of a version id of S3."""
_COLUMNS = (
    Column("VERSION", longest=40),
    Column("STORED (UTC)", longest=20),
    Column("STATE", is_colored=True, longest=12),
    Column("AUTHOR", longest=60, gives_way=True),
)


def put(arguments: argparse.Namespace) -> int:
    """Store a document as the newest version, if it can be used."""
    path = Path(arguments.file)
    session = aws.session()
    text = read(path)
    with Output(arguments) as out:
        if not is_usable(path, text, out):
            return 1
        if not arguments.empty and not parse_policy(text).document.settings:
            _check_removes_nothing(path, deployed(arguments.stack_name, session))
        store(text, arguments, session, out)
    return 0


def _check_removes_nothing(path: Path, now: str) -> None:
    """Check that nothing is in force that a document without settings would remove.

    Raises:
        CommandError: there is; it names the settings.
    """
    try:
        settings = list(parse_policy(now, accepted=True).document.settings)
    except PolicyError:
        settings = ["all of a document that is refused"]
    if settings:
        raise CommandError(
            f"{path} has no settings. It would remove those in force: "
            f"{printable(', '.join(settings))}. "
            "Nothing was stored: if that is what you want, pass --empty"
        )


def rollback(arguments: argparse.Namespace) -> int:
    """Store an earlier version as the newest one, if it can still be used."""
    session = aws.session()
    text = _version(arguments, session)
    now = deployed(arguments.stack_name, session)
    with Output(arguments) as out:
        if text == now:
            out.say("That is the document in force; nothing was stored.", stored=None)
            return 0
        if not is_usable_change(Path(arguments.version), now, text, out):
            return 1
        note_what_waits(arguments, session, out)
        store(text, arguments, session, out)
    return 0


def diff(arguments: argparse.Namespace) -> int:
    """Print how a document differs from the one in force. 1 when it cannot be used."""
    path = Path(arguments.file)
    session = aws.session()
    text = read(path)
    now = deployed(arguments.stack_name, session)
    with Output(arguments) as out:
        return int(not is_usable_change(path, now, text, out))


def is_usable_change(path: Path, now: str, text: str, out: Output) -> bool:
    """Say how a document differs from the one in force, its mistakes, and its risky changes.

    Return whether it can be used.
    """
    lines = difflib.unified_diff(
        now.splitlines(), text.splitlines(), "in force", str(path), lineterm=""
    )
    shown = [_on_one_line(line) for line in lines]
    out.say("\n".join(shown) or "no difference to the document in force", diff=shown)
    if not is_usable(path, text, out):
        return False
    try:
        before = parse_policy(now, accepted=True)
    except PolicyError as error:
        out.say(
            f"all of it is risky: the document in force is refused ({error})", risky=["all of it"]
        )
        return True
    risky_paths = risky_changes(before, parse_policy(text))
    if not risky_paths:
        out.say("", risky=[])
        return True
    consent = "; two people must have written or accepted it" if waits_for_two(before) else ""
    out.say(f"risky: {', '.join(map(printable, risky_paths))}{consent}", risky=list(risky_paths))
    return True


def _on_one_line(line: str) -> str:
    """Replace each character that is not printable by a space."""
    characters = [character if character.isprintable() else " " for character in line]
    return "".join(characters)


def store(text: str, arguments: argparse.Namespace, session: boto3.Session, out: Output) -> None:
    """Store a document that was checked as the newest version, and say what happens next.

    Raises:
        CommandError: IAM does not allow its selector, or it could not be stored.
    """
    outputs, parameters = described(arguments.stack_name, session)
    book = parse_policy(text)
    governed = book.base().policy.selector.tag_value
    stack = parameters.get("SelectorTagValue")
    if governed != stack:
        raise CommandError(
            f"the selector is Purpose={governed}, and IAM limits the stack to "
            f"Purpose={stack}: write selector: {{tag_key: Purpose, tag_value: {stack}}}"
        )
    try:
        stored = session.client("s3").put_object(
            Bucket=_bucket(outputs, arguments.stack_name),
            Key=KEY,
            Body=text.encode(),
            ContentType="application/yaml",
            Metadata={"author": session.client("sts").get_caller_identity()["Arn"]},
        )
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the policy could not be stored: {aws.reason(error)}") from None
    out.say(f"stored as version {stored['VersionId']}", stored=stored["VersionId"])
    out.say("It is reviewed within seconds. `governor policy history` says whether it is in force.")
    out.say(next_steps(book.unaccepted(), stored["VersionId"]))


def note_what_waits(arguments: argparse.Namespace, session: boto3.Session, out: Output) -> None:
    """Say which newer version than the one in force the next one replaces.

    The replaced version never comes into force.

    Raises:
        CommandError: the stack or the versions could not be read.
    """
    outputs, _ = described(arguments.stack_name, session)
    in_force = _api(arguments, session).call("GET", "/api/policy")["in_force"]
    try:
        newest = _versions(
            session.client("s3"), _bucket(outputs, arguments.stack_name), in_force, 1
        )
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the versions could not be listed: {aws.reason(error)}") from None
    for row in newest:
        if row["state"] != "in force":
            text = (
                f"version {row['version']} of {row['author']} is not in force, and "
                "this takes its place"
            )
            out.list(text, "takes_the_place_of", row)


def get(arguments: argparse.Namespace) -> int:
    """Print the document in force, or that of a version."""
    session = aws.session()
    if arguments.version:
        text = _version(arguments, session)
    else:
        text = deployed(arguments.stack_name, session)
    with Output(arguments) as out:
        out.document(text.removesuffix("\n"), version=arguments.version, document=text)
    return 0


def _version(arguments: argparse.Namespace, session: boto3.Session) -> str:
    """Return the document of the version that the command line names.

    Raises:
        CommandError: there is none, it fits several, or it may not be read.
    """
    outputs, _ = described(arguments.stack_name, session)
    bucket = _bucket(outputs, arguments.stack_name)
    s3 = session.client("s3")
    try:
        version = _whole_version(s3, bucket, arguments.version)
        stored = s3.get_object(Bucket=bucket, Key=KEY, VersionId=version)
        return str(stored["Body"].read().decode(errors="replace"))
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in _NO_VERSION:
            raise CommandError(_missing_version(s3, bucket, arguments.version)) from None
        why = f"version {printable(arguments.version)} could not be read: {aws.reason(error)}"
        raise CommandError(f"{why.rstrip('.')}: see `governor policy history`") from None


def _missing_version(s3: Any, bucket: str, text: str) -> str:
    """Return that there is no version that begins with this text, and which there are.

    Raises:
        CommandError: the versions could not be listed.
    """
    try:
        candidates = _newest(s3, bucket)
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the versions could not be listed: {aws.reason(error)}") from None
    if not candidates:
        return f"there is no version {printable(text)!r} of the policy: none was stored yet"
    shorts = short_ids([candidate.id for candidate in candidates])
    lines = [f"there is no version {printable(text)!r} of the policy. The newest are:"]
    for candidate in candidates[:_NAMED]:
        lines.append(f"  {shorts[candidate.id]}  {candidate.text}")
    lines.append("`governor policy history` says who stored them.")
    return "\n".join(lines)


def _newest(s3: Any, bucket: str) -> list[Candidate]:
    """Return the newest versions, newest first. Raises: ClientError, BotoCoreError."""
    listed = s3.list_object_versions(Bucket=bucket, Prefix=KEY, MaxKeys=_SHOWN)
    candidates = []
    for version in listed.get("Versions", []):
        stored_at = f"stored {version['LastModified']:%Y-%m-%d %H:%M} UTC"
        candidates.append(Candidate(version["VersionId"], (), stored_at))
    return candidates


def _whole_version(s3: Any, bucket: str, text: str) -> str:
    """Return the version that begins with this text; the text where none of the newest does.

    Raises:
        CommandError: several begin so.
        ClientError, BotoCoreError: the versions could not be listed.
    """
    if len(text) >= _WHOLE:
        return text
    found = find(text, _newest(s3, bucket), "versions")
    return found.id if found else text


def history(arguments: argparse.Namespace) -> int:
    """Print the newest versions, newest first.

    Raises:
        CommandError: the stack or the versions could not be read.
    """
    session = aws.session()
    in_force = _api(arguments, session).call("GET", "/api/policy")["in_force"]
    outputs, _ = described(arguments.stack_name, session)
    try:
        rows = _versions(session.client("s3"), _bucket(outputs, arguments.stack_name), in_force)
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the versions could not be listed: {aws.reason(error)}") from None
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    if in_force is None:
        print_text(
            "no version is in force: none was stored, or none was accepted yet, so the parameters "
            "Mode and PolicyYaml of the stack count"
        )
    if rows:
        shorts = short_ids([row["version"] for row in rows])
        cells = []
        for row in rows:
            cells.append((shorts[row["version"]], row["at"], row["state"], row["author"]))
        print_table(_COLUMNS, cells)
    return 0


def _versions(
    s3: Any, bucket: str, in_force: str | None, most: int = _SHOWN
) -> list[dict[str, str]]:
    listed = s3.list_object_versions(Bucket=bucket, Prefix=KEY, MaxKeys=most)
    rows = []
    for version in listed.get("Versions", []):
        version_id = version["VersionId"]
        head = s3.head_object(Bucket=bucket, Key=KEY, VersionId=version_id)
        state = ""
        if version_id == in_force:
            state = "in force"
        elif version["IsLatest"]:
            state = "not in force"
        row = {
            "version": version_id,
            "at": f"{version['LastModified']:%Y-%m-%dT%H:%M:%SZ}",
            "state": state,
            "author": printable(head["Metadata"].get("author", "")) or "not stated",
        }
        rows.append(row)
    return rows


def accept(arguments: argparse.Namespace) -> int:
    """Accept a version that waits, or overrides that name you.

    The caller accepts as the person that the policy in force maps them to.
    """
    path = f"/api/policy/{quote(arguments.version, safe='')}"
    answer = _api(arguments, aws.session()).call("POST", path, {})
    with Output(arguments) as out:
        people = ", ".join(map(printable, answer["accepted_by"]))
        out.say(f"behind this version: {people}", **answer)
        out.say(_state_after_acceptance(answer))
        for override in answer.get("unaccepted", ()):
            unaccepted = Unaccepted(override["override"], tuple(override["missing"]))
            out.say(printable(consent_line(unaccepted)))
    return 0


def _state_after_acceptance(answer: dict[str, Any]) -> str:
    if answer.get("in_force"):
        return "It is in force already; the next sweep counts your acceptance."
    missing_count = answer["people_needed"] - len(answer["accepted_by"])
    if missing_count > 0:
        return f"{missing_count} more must accept it"
    return "It comes into force with the next sweep."


def _api(arguments: argparse.Namespace, session: boto3.Session) -> Api:
    return Api(find_api(arguments.stack_name, session), session)


def _bucket(outputs: Any, stack: str) -> str:
    if "PolicyBucketName" not in outputs:
        raise CommandError(f"the stack {stack!r} has no output PolicyBucketName: update the stack")
    return str(outputs["PolicyBucketName"])
