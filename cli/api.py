"""The stack's API, with calls signed by the caller's AWS credentials; and the stack's outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from cli.errors import CommandError
from governor.domain.units import printable

_SECONDS = 30


class Api:
    """The stack's API."""

    def __init__(self, url: str, session: boto3.Session) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def call(self, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer's document.

        Raises:
            CommandError: it was refused, or could not be reached.
        """
        body = b"" if document is None else json.dumps(document).encode()
        signed = AWSRequest(
            method, f"{self._url}{path}", data=body, headers={"Content-Type": "application/json"}
        )
        credentials = self._session.get_credentials()
        if credentials is None:
            raise CommandError("there are no AWS credentials: sign in, or set AWS_PROFILE")
        region = self._session.region_name or "us-east-1"
        SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(signed)
        request = Request(
            str(signed.url), data=body or None, method=method, headers=dict(signed.headers.items())
        )
        try:
            with urlopen(request, timeout=_SECONDS) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            with error:
                raise CommandError(_refusal(error)) from None
        except (URLError, OSError, ValueError) as error:
            raise CommandError(f"{self._url} could not be reached: {error}") from None


def _refusal(error: HTTPError) -> str:
    """What the API said; what only API Gateway or a proxy can have said is put into words."""
    try:
        said = json.loads(error.read())
        text = said.get("error") or said.get("message")
    except (ValueError, AttributeError):
        said, text = {}, None
    if error.code in (401, 403) and "error" not in said:
        return "AWS refused the call: your identity needs execute-api:Invoke on the API of the stack"
    return printable(str(text)) if text else f"the API answered {error.code} without a reason: try again"


def find_api(stack: str, session: boto3.Session) -> str:
    """The API's address, from `GOVERNOR_API_URL` or the stack's outputs.

    Raises:
        CommandError: no such stack, or it may not be read.
    """
    known = os.environ.get("GOVERNOR_API_URL")
    if known:
        return known
    outputs = described(stack, session)[0]
    if "ApiUrl" not in outputs:
        raise CommandError(f"the stack {stack!r} has no output ApiUrl: is it a stack of GPU Governor?")
    return outputs["ApiUrl"]


def described(stack: str, session: boto3.Session) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The outputs and the parameters of a stack.

    Raises:
        CommandError: no such stack, or it may not be read.
    """
    try:
        found = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(
            f"the stack {stack!r} could not be read ({error}): give --stack-name, or set GOVERNOR_API_URL"
        ) from None
    outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}
    return outputs, {one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", ())}
