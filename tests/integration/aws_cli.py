"""Lines of the AWS CLI, done with boto3: the AWS CLI itself is no part of the project."""

from __future__ import annotations

import json
import shlex
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

import jmespath
from botocore import xform_name

from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud
from local.engine.templates import load_template

_S3 = "s3://"
_FILE = "file://"


def call(cloud: LocalCloud, line: str, account: str = ACCOUNT, folder: Path = ROOT) -> Any:
    """Do what one line asks for, and return the answer. An option that the operation lacks is an
    error. Files that it copies are in `folder`."""
    _, service, operation, *words = shlex.split(line)
    given = options(words)
    (region,) = given.pop("--region", [REGION])
    client = cloud.client(service, region, account)
    match service, operation:
        case "cloudformation", "deploy":
            return _deploy(cloud, given, region, account)
        case "s3", "cp":
            return _copy(client, words, folder)
        case _, "wait":
            waiter = client.get_waiter(words[0].replace("-", "_"))
            names = {xform_name(name, "-"): name for name in ("StackName", "TableName")}
            asked = {names[one.removeprefix("--")]: values[0] for one, values in given.items()}
            waiter.wait(**asked, WaiterConfig={"Delay": 1})
            return {}
    return _answer(client, operation, given)


def options(words: list[str]) -> dict[str, list[str]]:
    """Each option with its values."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            found[word] = values = []
        else:
            values.append(word)
    return found


def _answer(client: Any, operation: str, given: dict[str, list[str]]) -> Any:
    """Call one operation of an API, and return what its line prints."""
    query = given.pop("--query", None)
    input_file = given.pop("--cli-input-json", None)
    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(
        client.meta.method_to_api_mapping[method]
    ).input_shape
    members = {
        f"--{xform_name(name, '-')}": (name, member) for name, member in shape.members.items()
    }
    asked: dict[str, Any] = {}
    if input_file:
        asked = json.loads(_text(input_file[0]))
    for option, values in given.items():
        is_no = option.startswith("--no-")
        name, member = members[option.replace("--no-", "--") if is_no else option]
        asked[name] = not is_no if member.type_name == "boolean" else _read(member, values)
    answer = getattr(client, method)(**asked)
    answer.pop("ResponseMetadata")
    return jmespath.search(query[0], answer) if query else answer


def _read(shape: Any, values: list[str]) -> Any:
    """Values as the shape of a request takes them: JSON, a file, or the shorthand
    `Key=a,Value=b`."""
    if shape.type_name in ("list", "map", "structure") and values[0].startswith(("[", "{")):
        return json.loads(values[0])
    if shape.type_name == "list":
        return [_read(shape.member, [one]) for one in values]
    (value,) = values
    if shape.type_name == "structure":
        pairs = [one.partition("=") for one in value.split(",")]
        return {key: _read(shape.members[key], [text]) for key, _, text in pairs}
    if shape.type_name == "boolean":
        return value == "true"
    return int(value) if shape.type_name == "integer" else _text(value)


def _text(value: str) -> str:
    """Return a value, or what is in the file that it names."""
    if not value.startswith(_FILE):
        return value
    return (ROOT / value.removeprefix(_FILE)).read_text(encoding="utf-8")


def _deploy(cloud: LocalCloud, given: dict[str, list[str]], region: str, account: str) -> Any:
    """Create a stack, or update it: parameters that are not given keep their values."""
    (name,), (template,) = given["--stack-name"], given["--template-file"]
    parameters = dict(one.split("=", 1) for one in given["--parameter-overrides"])
    client = cloud.client("cloudformation", region, account)
    names = [stack["StackName"] for stack in client.describe_stacks()["Stacks"]]
    if name not in names:
        return cloud.deploy_plain(ROOT / template, name, parameters, region=region, account=account)
    document = load_template(ROOT / template)
    given_values = [{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()]
    kept_values = [
        {"ParameterKey": one, "UsePreviousValue": True}
        for one in document["Parameters"]
        if one not in parameters
    ]
    client.update_stack(
        StackName=name,
        TemplateBody=json.dumps(document),
        Parameters=given_values + kept_values,
        Capabilities=given["--capabilities"],
    )
    waiter = client.get_waiter("stack_update_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 1})
    return {}


def _copy(s3: Any, words: list[str], folder: Path) -> list[str]:
    """Copy one file into a bucket, or all objects that the filters leave out of it. Return the
    names of the copies."""
    if "--recursive" not in words:
        source, target = words
        bucket, _, key = target.removeprefix(_S3).partition("/")
        if not key or key.endswith("/"):
            key += Path(source).name
        s3.put_object(Bucket=bucket, Key=key, Body=(folder / source).read_bytes())
        return [key]
    *filters, source, target = words
    bucket, _, prefix = source.removeprefix(_S3).partition("/")
    copies = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for found in page.get("Contents", ()):
            name = found["Key"].removeprefix(prefix)
            if not _is_included(name, filters):
                continue
            path = folder / target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read())
            copies.append(name)
    return copies


def _is_included(name: str, words: list[str]) -> bool:
    """Return whether the filters let an object through; the last one that fits it decides."""
    is_included = True
    for option, pattern in pairwise(words):
        if option in ("--exclude", "--include") and fnmatch(name, pattern):
            is_included = option == "--include"
    return is_included
