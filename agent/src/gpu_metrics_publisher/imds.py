"""Reads the identity of this instance from the instance metadata service, version 2 only."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from gpu_metrics_publisher.errors import MetadataError

DEFAULT_ENDPOINT = "http://169.254.169.254"
_TTL_SECONDS = "60"
_TIMEOUT_SECONDS = 2.0

Open = Callable[..., Any]
"""As `OpenerDirector.open`: takes a request and a timeout, and returns a response as a context."""


@dataclass(frozen=True)
class Identity:
    """The facts of the identity document."""

    instance_id: str
    instance_type: str
    region: str


def direct_open() -> Open:
    """Return a way to open URLs without a proxy: only this machine reaches the service."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def read_identity(endpoint: str, opener: Open) -> Identity:
    """Return the identity of this instance.

    Raises:
        MetadataError: no answer, or none that names the instance; the text says what to check.
    """
    base = endpoint.rstrip("/")
    try:
        token_request = urllib.request.Request(  # noqa: S310 - the endpoint is the host's setting
            f"{base}/latest/api/token",
            method="PUT",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": _TTL_SECONDS},
        )
        with opener(token_request, timeout=_TIMEOUT_SECONDS) as response:
            token = response.read().decode("ascii")
        request = urllib.request.Request(  # noqa: S310 - as above
            f"{base}/latest/dynamic/instance-identity/document",
            headers={"X-aws-ec2-metadata-token": token},
        )
        with opener(request, timeout=_TIMEOUT_SECONDS) as response:
            document = json.loads(response.read())
        return Identity(
            instance_id=_word(document, "instanceId"),
            instance_type=_word(document, "instanceType"),
            region=_word(document, "region"),
        )
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise MetadataError(
            f"the instance metadata service at {base} did not say which instance this is: "
            f"{error!r}. Check that HttpEndpoint is enabled and, in a container, that "
            "HttpPutResponseHopLimit is 2; or give --instance-id and --region."
        ) from error


def _word(document: Mapping[str, object], name: str) -> str:
    """Return a text of the document. Raises: KeyError, ValueError if there is none."""
    word = document[name]
    if not isinstance(word, str) or not word:
        raise ValueError(f"{name} is {word!r}")
    return word
