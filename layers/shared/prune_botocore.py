"""Removes from an installed botocore the data that the layer does not use.

The layer's Makefile runs it after pip: `prune_botocore.py FOLDER`, where FOLDER is botocore's
folder `data`. The code of botocore stays as it was installed. The same botocore gives the same
bytes.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

SERVICES = (
    "autoscaling",
    "batch",
    "bedrock",
    "cloudtrail",
    "cloudwatch",
    "dynamodb",
    "ec2",
    "eks",
    "kms",
    "lambda",
    "organizations",
    "pricing",
    "s3",
    "sagemaker",
    "savingsplans",
    "secretsmanager",
    "sesv2",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
    "sts",
)
"""The services whose clients the adapters and the scan open, by botocore's names."""
_MODEL = "service-2.json.gz"
_KEPT_FILES = ("service-2.", "endpoint-rule-set-1.")
"""The files of a service that a client reads start so. The layer uses no paginators and waiters."""


class UnknownLayoutError(Exception):
    """This botocore keeps its data in another way than the one that is known here."""


def main(arguments: Sequence[str]) -> int:
    """Prune the folder that the arguments name. Return the exit status."""
    if len(arguments) != 1:
        print("usage: prune_botocore.py FOLDER", file=sys.stderr)
        return 2
    try:
        prune(Path(arguments[0]))
    except UnknownLayoutError as error:
        print(f"prune_botocore.py: {error}", file=sys.stderr)
        return 1
    return 0


def prune(data: Path) -> None:
    """Keep the data of `SERVICES`, in their newest API version and without documentation.

    Raises: UnknownLayoutError, if the data of a service is not where it is looked for.
    """
    for folder in _folders(data):
        if folder.name not in SERVICES:
            shutil.rmtree(folder)
    endpoint_prefixes = set()
    for service in SERVICES:
        version = _only_newest_version(data / service)
        _remove_unread_files(version)
        model = _without_documentation(version / _MODEL)
        endpoint_prefixes.add(model["metadata"]["endpointPrefix"])
    _prune_endpoints(data / "endpoints.json", endpoint_prefixes)


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        raise UnknownLayoutError(f"{parent} is missing")
    return sorted(path for path in parent.iterdir() if path.is_dir())


def _only_newest_version(service: Path) -> Path:
    """Remove the older API versions of a service. Return the folder of the newest one."""
    versions = _folders(service)
    if not versions:
        raise UnknownLayoutError(f"{service} has no API version")
    for older in versions[:-1]:
        shutil.rmtree(older)
    return versions[-1]


def _remove_unread_files(version: Path) -> None:
    for path in version.iterdir():
        if not path.name.startswith(_KEPT_FILES):
            path.unlink()


def _without_documentation(path: Path) -> dict[str, Any]:
    """Empty all documentation in a service's model, and return the model.

    The texts are five sixths of the model, and a cold start would read them for nothing.
    """
    if not path.is_file():
        raise UnknownLayoutError(f"{path} is missing")
    model: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    _empty_documentation(model)
    path.write_bytes(gzip.compress(_as_json(model), mtime=0))
    return model


def _empty_documentation(value: Any) -> None:
    """Empty the documentation in this part of a model, in place.

    A field that is itself called documentation is no text, but a mapping with its shape.
    """
    if isinstance(value, dict):
        if isinstance(value.get("documentation"), str):
            # It is emptied, not removed: botocore requires it of some parameters.
            value["documentation"] = ""
        for part in value.values():
            _empty_documentation(part)
    elif isinstance(value, list):
        for part in value:
            _empty_documentation(part)


def _prune_endpoints(path: Path, prefixes: Collection[str]) -> None:
    """Keep the endpoints of these prefixes; partitions and Regions stay as they are."""
    if not path.is_file():
        raise UnknownLayoutError(f"{path} is missing")
    endpoints = json.loads(path.read_bytes())
    for partition in endpoints["partitions"]:
        services = partition["services"]
        partition["services"] = {
            prefix: services[prefix] for prefix in services if prefix in prefixes
        }
    path.write_bytes(_as_json(endpoints))


def _as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
