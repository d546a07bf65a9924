"""Opens the caller's AWS session, and says what to set if it lacks a setting."""

from __future__ import annotations

from collections.abc import Sequence

import boto3
import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from cli.credentials import NO_CREDENTIALS, NO_REGION
from cli.errors import CommandError
from governor.core.errors import CloudError

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
    """Return the session of the command line.

    The first of `regions` counts where nothing else names a Region.

    Raises:
        CommandError: no such profile, no credentials or no Region; it says what to set.
    """
    try:
        opened = boto3.Session()
        if opened.region_name is None and regions:
            opened = boto3.Session(region_name=regions[0])
        has_credentials = opened.get_credentials() is not None
    except (BotoCoreError, ClientError) as error:
        raise CommandError(f"{reason(error)}: pass --profile, or set AWS_PROFILE") from None
    if not has_credentials:
        raise CommandError(NO_CREDENTIALS)
    if opened.region_name is None:
        raise CommandError(NO_REGION)
    return opened


def home_region() -> str | None:
    """Return the profile's Region, or the one in which it signs in, which is in the partition of
    its account; `None` if it has neither, or there is no such profile."""
    opened = botocore.session.get_session()
    try:
        settings = opened.get_scoped_config()
        sign_ins = opened.full_config.get("sso_sessions", {})
    except BotoCoreError:
        return None
    sign_in = sign_ins.get(settings.get("sso_session"), settings)
    region = settings.get("region", sign_in.get("sso_region"))
    return None if region is None else str(region)


def reason(error: Exception) -> str:
    """Return why a call of AWS failed, with what to set where that fixes it."""
    if isinstance(error, CloudError):
        return _reason_of_cloud_error(error)
    if isinstance(error, EndpointConnectionError):
        return (
            f"{str(error).rstrip('.')}: no network, or no such Region: set AWS_REGION "
            "or pass --region"
        )
    code = type(error).__name__
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
    return _WORDS.get(code, str(error))


def _reason_of_cloud_error(error: CloudError) -> str:
    """Return why a call failed, by AWS's code or by the error of botocore behind it."""
    if error.code in _WORDS:
        return _WORDS[error.code]
    cause = error.__cause__
    if isinstance(cause, BotoCoreError):
        return reason(cause)
    return str(error)
