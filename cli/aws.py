"""The caller's AWS session, and what to set where it lacks something."""

from __future__ import annotations

from collections.abc import Sequence

import boto3
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from cli.errors import CommandError

SIGN_IN = "sign in again, or pass another --profile"
_SSO = "run `aws sso login`, or pass another --profile"
_WORDS = {
    "ExpiredToken": f"the AWS credentials have expired: {SIGN_IN}",
    "ExpiredTokenException": f"the AWS credentials have expired: {SIGN_IN}",
    "InvalidClientTokenId": f"AWS does not know these credentials: {SIGN_IN}",
    "UnrecognizedClientException": f"AWS does not know these credentials: {SIGN_IN}",
    "UnauthorizedSSOTokenError": f"the AWS sign-in has expired: {_SSO}",
    "SSOTokenLoadError": f"there is no AWS sign-in: {_SSO}",
    "TokenRetrievalError": f"the AWS sign-in has expired: {_SSO}",
}


def session(regions: Sequence[str] = ()) -> boto3.Session:
    """The session of the command line. `regions`: the first counts where nothing else names a
    Region.

    Raises:
        CommandError: no such profile, no credentials or no Region; it says what to set.
    """
    try:
        found = boto3.Session()
        if found.region_name is None and regions:
            found = boto3.Session(region_name=regions[0])
        has_credentials = found.get_credentials() is not None
    except (BotoCoreError, ClientError) as error:
        raise CommandError(f"{reason(error)}: pass --profile, or set AWS_PROFILE") from None
    if not has_credentials:
        raise CommandError("no credentials: sign in to AWS, then set AWS_PROFILE or pass --profile")
    if found.region_name is None:
        raise CommandError("no Region: set AWS_REGION or pass --region")
    return found


def reason(error: Exception) -> str:
    """Why a call of AWS failed, with what to set where that mends it."""
    code = (
        error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
    )
    if isinstance(error, EndpointConnectionError):
        return (
            f"{str(error).rstrip('.')}: no network, or no such Region: set AWS_REGION "
            "or pass --region"
        )
    return _WORDS.get(code, str(error))
