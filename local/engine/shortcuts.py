"""Answers that the engine works out at each request, kept once they are known. It only makes the
engine faster.

What is kept depends on nothing but what it is kept by: the text of a policy, the text of a
condition, the name of a service, the second. A policy that changes has another text.
"""

from __future__ import annotations

import functools
import gzip
import json
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_HEAD_CHARACTERS = 20_000
"""As much of a service's description as holds its metadata, which comes first."""


def take_shortcuts() -> None:
    """Replaces the engine's functions; it looks them up by name at every request."""
    from ministack import app
    from ministack.core import iam_evaluator, responses
    from ministack.services import dynamodb

    _keep_policies(iam_evaluator)
    iam_evaluator.request_caller_arn = _caller_without_policies
    responses._service_model = functools.cache(_metadata_alone)
    app.formatdate = _date
    syntax_error = dynamodb._condition_syntax_error
    dynamodb._condition_syntax_error = functools.lru_cache(maxsize=1024)(syntax_error)


def _keep_policies(iam_evaluator: Any) -> None:
    """Parses the text of each policy once. Nothing changes what was parsed."""
    parse = iam_evaluator.parse_policy_document
    parse_text = functools.lru_cache(maxsize=1024)(parse)
    evaluate = iam_evaluator.evaluate_resource_policy

    def parsed(document: Any) -> Any:
        return parse_text(document) if isinstance(document, str) else parse(document)

    def evaluated(document: Any, *more: Any, **named: Any) -> Any:
        known = _loaded(document) if isinstance(document, str) else document
        return evaluate(known, *more, **named)

    iam_evaluator.parse_policy_document = parsed
    iam_evaluator.evaluate_resource_policy = evaluated


@functools.lru_cache(maxsize=1024)
def _loaded(document: str) -> Any:
    """Return a policy as plain data; `None` where it is no JSON."""
    try:
        return json.loads(document)
    except json.JSONDecodeError:
        return None


def _caller_without_policies(
    headers: dict[str, str], query_params: dict[str, Any] | None = None
) -> str:
    """Return who makes a request. The engine looks up all policies of the caller for it."""
    from ministack.core import iam_evaluator, responses, router

    account = responses.get_account_id()
    root = f"arn:aws:iam::{account}:root"
    access_key = router.extract_access_key_id(headers or {}, query_params or {})
    if not access_key:
        return root
    own_account = responses._account_from_sts_session(access_key) or account
    credential = iam_evaluator.resolve_credential(access_key, own_account)
    if isinstance(credential, iam_evaluator.CredentialResolutionError):
        return root
    return str(credential.principal_arn) or root


def _metadata_alone(service: str) -> Any:
    """Return what the engine asks of a service's description: its metadata. `None` for a service
    that botocore does not know."""
    from botocore import loaders
    from botocore.exceptions import DataNotFoundError
    from ministack.core import responses

    name = responses._BOTOCORE_NAME.get(service, service)
    loader = loaders.create_loader()
    try:
        version = loader.determine_latest_version(name, "service-2")
    except DataNotFoundError:
        return None
    for folder in loader.search_paths:
        described = Path(folder, name, version, "service-2.json.gz")
        if described.exists():
            with gzip.open(described, "rt", encoding="utf-8") as description:
                head = description.read(_HEAD_CHARACTERS)
            start = head.index("{", head.index('"metadata"'))
            metadata, _ = json.JSONDecoder().raw_decode(head, start)
            return SimpleNamespace(metadata=metadata)
    return None


def _date(timeval: float | None = None, localtime: bool = False, usegmt: bool = False) -> str:
    """Return what `email.utils.formatdate` returns."""
    if timeval is None and usegmt and not localtime:
        return _date_of(int(time.time()))
    return formatdate(timeval, localtime, usegmt)


@functools.lru_cache(maxsize=8)
def _date_of(second: int) -> str:
    return formatdate(second, usegmt=True)
