"""`governor policy put|show|history|accept`: the versions of the policy document."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli.api import Api, described, find_api
from cli.errors import CommandError
from cli.policy import checked, read
from governor.contracts.policy import parse_policy
from governor.domain.units import printable

KEY = "policy.yaml"
_SHOWN = 20


def put(arguments: argparse.Namespace) -> int:
    """Store a document as the newest version, if it can be used."""
    path, session = Path(arguments.file), boto3.Session()
    text = read(path)
    if checked(path, text):
        return 1
    outputs, parameters = described(arguments.stack_name, session)
    governed, stack = parse_policy(text).base().policy.selector.tag_value, parameters.get("SelectorTagValue")
    if governed != stack:
        raise CommandError(
            f"the selector is Purpose={governed}, and IAM limits the stack to Purpose={stack}: write "
            f"selector: {{tag_key: Purpose, tag_value: {stack}}}"
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
        raise CommandError(f"the policy could not be stored: {error}") from None
    print(f"stored as version {stored['VersionId']}")
    print("It is reviewed within seconds. `governor policy history` says whether it is in force.")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print the document in force, or that of a version."""
    session = boto3.Session()
    if arguments.version is None:
        text = str(_api(arguments, session).call("GET", "/api/policy")["document"])
    else:
        outputs, _ = described(arguments.stack_name, session)
        try:
            found = session.client("s3").get_object(
                Bucket=_bucket(outputs, arguments.stack_name), Key=KEY, VersionId=arguments.version
            )
            text = found["Body"].read().decode(errors="replace")
        except (ClientError, BotoCoreError) as error:
            raise CommandError(f"version {arguments.version} could not be read: {error}") from None
    print(text, end="" if text.endswith("\n") else "\n")
    return 0


def history(arguments: argparse.Namespace) -> int:
    """Print the newest versions, newest first."""
    session = boto3.Session()
    in_force = _api(arguments, session).call("GET", "/api/policy")["in_force"]
    outputs, _ = described(arguments.stack_name, session)
    try:
        rows = _versions(session.client("s3"), _bucket(outputs, arguments.stack_name), in_force)
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the versions could not be listed: {error}") from None
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    if in_force is None:
        print("no version is in force: the parameters Mode and PolicyYaml of the stack count")
    for row in rows:
        print(f"{row['version']}  {row['at']}  {row['state']:12}  {row['author']}")
    return 0


def _versions(s3: Any, bucket: str, in_force: str | None) -> list[dict[str, str]]:
    listed = s3.list_object_versions(Bucket=bucket, Prefix=KEY, MaxKeys=_SHOWN).get("Versions", [])
    rows = []
    for one in listed:
        found = s3.head_object(Bucket=bucket, Key=KEY, VersionId=one["VersionId"])
        newest = "not in force" if one["IsLatest"] else ""
        rows.append(
            {
                "version": one["VersionId"],
                "at": f"{one['LastModified']:%Y-%m-%dT%H:%M:%SZ}",
                "state": "in force" if one["VersionId"] == in_force else newest,
                "author": printable(found["Metadata"].get("author", "")) or "not stated",
            }
        )
    return rows


def accept(arguments: argparse.Namespace) -> int:
    """Accept a version that waits, as the person that the policy in force maps the caller to."""
    path = f"/api/policy/{quote(arguments.version, safe='')}"
    found = _api(arguments, boto3.Session()).call("POST", path, {})
    people, needed = found["accepted_by"], found["people_needed"]
    print(f"behind this version: {', '.join(map(printable, people))}")
    if len(people) < needed:
        print(f"{needed - len(people)} more must accept it")
    else:
        print("It comes into force with the next sweep.")
    return 0


def _api(arguments: argparse.Namespace, session: boto3.Session) -> Api:
    return Api(find_api(arguments.stack_name, session), session)


def _bucket(outputs: Any, stack: str) -> str:
    if "PolicyBucketName" not in outputs:
        raise CommandError(f"the stack {stack!r} has no output PolicyBucketName: update the stack")
    return str(outputs["PolicyBucketName"])
