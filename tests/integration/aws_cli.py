"""Lines of the AWS CLI, done with boto3: the AWS CLI itself is no part of the project."""

from __future__ import annotations

import shlex
from typing import Any

from botocore import xform_name

from local.engine.cloud import ACCOUNT, ROOT, LocalCloud


def call(cloud: LocalCloud, line: str, account: str = ACCOUNT) -> Any:
    """Do what one line asks for, and return the answer. An option that the operation lacks is an
    error."""
    _, service, operation, *words = shlex.split(line)
    client = cloud.client(service, account=account)
    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(
        client.meta.method_to_api_mapping[method]
    ).input_shape
    members = {
        f"--{xform_name(name, '-')}": (name, member) for name, member in shape.members.items()
    }
    given: dict[str, Any] = {}
    for option, values in options(words).items():
        is_no = option.startswith("--no-")
        name, member = members[option.replace("--no-", "--") if is_no else option]
        given[name] = not is_no if member.type_name == "boolean" else _read(member, values)
    return getattr(client, method)(**given)


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


def _read(shape: Any, values: list[str]) -> Any:
    """Values as the shape of a request takes them: a file, or the shorthand `Key=a,Value=b`."""
    if shape.type_name == "list":
        return [_read(shape.member, [one]) for one in values]
    (value,) = values
    if shape.type_name == "structure":
        pairs = [one.partition("=") for one in value.split(",")]
        return {key: _read(shape.members[key], [text]) for key, _, text in pairs}
    if shape.type_name == "boolean":
        return value == "true"
    return (ROOT / value[7:]).read_text(encoding="utf-8") if value.startswith("file://") else value
