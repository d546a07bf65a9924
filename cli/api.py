"""Call the stack's API, signed with the caller's AWS credentials, and read the stack's outputs."""

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
from governor.core.units import printable

_SECONDS = 60
"""API Gateway itself gives up after 30 s and says so; only a slow network takes longer."""
_UNSURE = "What you asked for may have been done all the same: look before you ask again."


class Api:
    """The stack's API."""

    def __init__(self, url: str, session: boto3.Session) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def call(
        self, method: str, path: str, document: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer's document.

        Raises:
            CommandError: it was refused, or could not be reached.
        """
        request = self._signed(method, path, document)
        try:
            with (
                Progress("waiting for the stack's API"),
                urlopen(request, timeout=_SECONDS) as response,
            ):
                answer: dict[str, Any] = json.loads(response.read())
                return answer
        except HTTPError as error:
            with error:
                text = _refusal(error)
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise CommandError(text) from None
        except URLError as error:
            # The call was not sent, so it cannot have changed anything.
            raise CommandError(f"{self._url} could not be reached: {error.reason}") from None
        except TimeoutError:
            text = f"{self._url} gave no answer within {_SECONDS} s"
        except (OSError, HTTPException) as error:
            text = f"{self._url} broke off its answer: {error or type(error).__name__}"
        except ValueError:
            text = f"{self._url} did not answer in JSON (is it the ApiUrl of the stack?)"
        advice = "Try again." if method == "GET" else _UNSURE
        raise CommandError(f"{text}. {advice}")

    def _signed(self, method: str, path: str, document: dict[str, Any] | None) -> Request:
        body = b"" if document is None else json.dumps(document).encode()
        signed = AWSRequest(
            method, f"{self._url}{path}", data=body, headers={"Content-Type": "application/json"}
        )
        credentials = self._session.get_credentials()
        if credentials is None:
            raise CommandError("there are no AWS credentials: sign in, or set AWS_PROFILE")
        frozen = credentials.get_frozen_credentials()
        SigV4Auth(frozen, "execute-api", self._session.region_name).add_auth(signed)
        return Request(
            str(signed.url), data=body or None, method=method, headers=dict(signed.headers.items())
        )


def _refusal(error: HTTPError) -> str:
    """Return why the API refused, in words where only API Gateway or a proxy can have answered."""
    document: Mapping[str, Any] = {}
    text = None
    try:
        document = json.loads(error.read())
        text = document.get("error") or document.get("message")
    except (ValueError, AttributeError):
        document = {}
    if "error" in document:
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
    reason = printable(str(text)) if text else "without a reason"
    return f"the API answered {error.code} ({reason})"


def api_of(arguments: argparse.Namespace) -> Api:
    """Return the API of the stack that the command line names.

    Raises:
        CommandError: it cannot be found; it says what to set.
    """
    session = aws.session()
    return Api(find_api(arguments.stack_name, session), session)


_OUTPUTS = {"StateTableName", "ApiUrl", "PolicyParameterName"}
"""Every release has one of them."""


def find_api(stack: str, session: boto3.Session) -> str:
    """Return the API's address, from `GOVERNOR_API_URL` or the stack's outputs.

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
    """Return the outputs and the parameters of a stack.

    Raises:
        CommandError: no such stack, one that is not deployed or not ours, or it may not be read.
    """
    try:
        answer = session.client("cloudformation").describe_stacks(StackName=stack)
        description = answer["Stacks"][0]
    except (ClientError, BotoCoreError) as error:
        if "does not exist" in str(error):
            raise CommandError(missing(stack, session)) from None
        raise CommandError(f"the stack {stack!r} could not be read: {aws.reason(error)}") from None
    check_deployed(description)
    outputs = {}
    for output in description.get("Outputs", ()):
        outputs[output["OutputKey"]] = output["OutputValue"]
    parameters = {}
    for parameter in description.get("Parameters", ()):
        parameters[parameter["ParameterKey"]] = parameter["ParameterValue"]
    return outputs, parameters


def check_deployed(found: Mapping[str, Any]) -> None:
    """Check a stack as CloudFormation describes it.

    Raises:
        CommandError: its creation never finished, or it is no stack of GPU Governor; the text
            says what to do.
    """
    if any(output["OutputKey"] in _OUTPUTS for output in found.get("Outputs", ())):
        return
    stack = found["StackName"]
    status = found["StackStatus"]
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
        "pass --stack-name, --region or --profile, or set AWS_REGION or AWS_PROFILE; or deploy it "
        "first (docs/lifecycle.md)"
    )
