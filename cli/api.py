"""The stack's API, with calls signed by the caller's AWS credentials; and the stack's outputs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.errors import CommandError
from cli.progress import Progress
from governor.domain.units import printable

_SECONDS = 60
"""API Gateway gives up after 30 by itself and says so; only the way there takes longer."""
_UNSURE = "What you asked for may have been done all the same: look before you ask again."


class Api:
    """The stack's API."""

    def __init__(self, url: str, session: boto3.Session) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def call(
        self, method: str, path: str, document: dict[str, Any] | None = None
    ) -> dict[str, Any]:
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
        SigV4Auth(
            credentials.get_frozen_credentials(), "execute-api", self._session.region_name
        ).add_auth(signed)
        request = Request(
            str(signed.url), data=body or None, method=method, headers=dict(signed.headers.items())
        )
        try:
            with (
                Progress("waiting for the stack's API"),
                urlopen(request, timeout=_SECONDS) as answer,
            ):
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            with error:
                text = _refusal(error)
                is_unsure = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        except URLError as error:
            # It was not sent.
            text, is_unsure = f"{self._url} could not be reached: {error.reason}", False
        except TimeoutError:
            text, is_unsure = f"{self._url} gave no answer within {_SECONDS} s", True
        except (OSError, HTTPException) as error:
            text, is_unsure = (
                f"{self._url} broke off its answer: {error or type(error).__name__}",
                True,
            )
        except ValueError:
            text, is_unsure = (
                f"{self._url} did not answer in JSON (is it the ApiUrl of the stack?)",
                True,
            )
        raise CommandError(
            f"{text}. {_UNSURE if method != 'GET' else 'Try again.'}" if is_unsure else text
        )


def _refusal(error: HTTPError) -> str:
    """Return what the API said; what only API Gateway or a proxy can have said is put into
    words."""
    try:
        said = json.loads(error.read())
        text = said.get("error") or said.get("message")
    except (ValueError, AttributeError):
        said, text = {}, None
    if "error" in said:
        return printable(str(text))
    if text and "security token" in str(text):
        return f"{printable(str(text)).rstrip('.')}: {aws.SIGN_IN}"
    if error.code in (401, 403):
        return (
            "AWS refused the call: your identity needs execute-api:Invoke on the API of the stack"
        )
    if error.code == HTTPStatus.NOT_FOUND:
        old = "is its stack older than this command, or GOVERNOR_API_URL of a stack that is gone?"
        return f"the API at {printable(error.url or '')} knows no such call (404): {old}"
    return f"the API answered {error.code} ({printable(str(text)) if text else 'without a reason'})"


def api_of(arguments: argparse.Namespace) -> Api:
    """The API of the stack that the command line names.

    Raises:
        CommandError: it cannot be found; it says what to set.
    """
    session = aws.session()
    return Api(find_api(arguments.stack_name, session), session)


_OUTPUTS = {"StateTableName", "ApiUrl", "PolicyParameterName"}
"""Every release has one of them."""


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
        raise CommandError(
            f"the stack {stack!r} has no output ApiUrl: is it a stack of GPU Governor?"
        )
    return outputs["ApiUrl"]


def described(stack: str, session: boto3.Session) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The outputs and the parameters of a stack.

    Raises:
        CommandError: no such stack, one that is not deployed or not ours, or it may not be read.
    """
    try:
        found = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except (ClientError, BotoCoreError) as error:
        if "does not exist" in str(error):
            raise CommandError(missing(stack, session)) from None
        raise CommandError(f"the stack {stack!r} could not be read: {aws.reason(error)}") from None
    check_deployed(found)
    outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}
    return outputs, {
        one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", ())
    }


def check_deployed(found: Mapping[str, Any]) -> None:
    """Check a stack as CloudFormation describes it.

    Raises:
        CommandError: it was never created whole, or it is no stack of GPU Governor; with what to
            do.
    """
    if any(one["OutputKey"] in _OUTPUTS for one in found.get("Outputs", ())):
        return
    stack, status = found["StackName"], found["StackStatus"]
    if status == "REVIEW_IN_PROGRESS":
        why = f"is not deployed: nobody has accepted its change set: run make deploy STACK={stack}"
    elif status == "CREATE_IN_PROGRESS":
        why = "is being created: try again when it is there"
    elif status in (
        "CREATE_FAILED",
        "ROLLBACK_IN_PROGRESS",
        "ROLLBACK_COMPLETE",
        "ROLLBACK_FAILED",
    ):
        why = (
            f"could not be created ({status}): its events say why; run make deploy "
            f"STACK={stack} again"
        )
    else:
        why = "is no stack of GPU Governor: pass --stack-name"
    raise CommandError(f"the stack {stack!r} {why}")


def missing(stack: str, session: boto3.Session) -> str:
    """Return what to set where a stack is not found."""
    return (
        f"there is no stack {stack!r} in {session.region_name} with these credentials: "
        "pass --stack-name, "
        "--region or --profile, or set AWS_REGION or AWS_PROFILE; or deploy it first "
        "(docs/deploy.md)"
    )
