"""Finds out, before anything that takes time is loaded, that a shell has no AWS credentials or no
Region.

Standard library only. boto3 finds credentials in many places, and some of them are programs. So
this only says that there are none where none of these places can have any. Whatever it cannot
know, boto3 has to find out.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from cli.errors import CommandError

NO_CREDENTIALS = "no credentials: sign in to AWS, then set AWS_PROFILE or pass --profile"
NO_REGION = "no Region: set AWS_REGION or pass --region"
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CREDENTIAL_FILE",
    "BOTO_CONFIG",
)
"""With one of them, there may be credentials. Source: botocore.credentials."""
_OLD_FILES = ("/etc/boto.cfg", "~/.boto")
"""Files of boto 2, which botocore still reads."""
_HARMLESS = frozenset(
    {"region", "output", "cli_pager", "ca_bundle", "retry_mode", "max_attempts", "defaults_mode"}
)
"""Settings of a profile that give no credentials."""
_QUOTED_SECTION = re.compile(r"""^\s*\[[^\]]*[\\"']""", re.MULTILINE)
_REGION_SETTING = re.compile(r"^\s*region\s*[=:]", re.MULTILINE)
_METADATA_ADDRESS = ("169.254.169.254", 80)
_METADATA_SECONDS = 1
"""The same as botocore's."""
_METADATA_VARIABLES = (
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
    "AWS_METADATA_SERVICE_TIMEOUT",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS",
    "HTTP_PROXY",
    "http_proxy",
)
"""With one of them, botocore asks the metadata service in another way than this module."""


def check_credentials(environment: Mapping[str, str]) -> None:
    """Check that boto3 may find credentials.

    Raises:
        CommandError: there are certainly none, or there is no such profile.
    """
    settings = _configuration(environment)
    # In the order in which botocore looks.
    profile = environment.get("AWS_DEFAULT_PROFILE") or environment.get("AWS_PROFILE")
    if profile and not _may_name(profile, settings):
        raise CommandError(
            f"The config profile ({profile}) could not be found: pass --profile, or set AWS_PROFILE"
        )
    if has_none(environment, settings):
        raise CommandError(NO_CREDENTIALS)


def check_region(environment: Mapping[str, str]) -> None:
    """Check that boto3 may find a Region. The Region of any profile counts.

    Raises:
        CommandError: there is certainly none.
    """
    if any(environment.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION")):
        return
    if not _REGION_SETTING.search(_configuration(environment)):
        raise CommandError(NO_REGION)


def has_none(environment: Mapping[str, str], settings: str | None = None) -> bool:
    """Return whether there are certainly no credentials. `settings` is the text of the AWS
    configuration, which is read if it is not given."""
    if any(environment.get(name) for name in _VARIABLES):
        return False
    # As botocore does: unlike those of pathlib, these raise nothing where there is no home.
    if any(os.path.exists(os.path.expanduser(name)) for name in _OLD_FILES):  # noqa: PTH110, PTH111
        return False
    if settings is None:
        settings = _configuration(environment)
    names = re.findall(r"^\s*([^\s#;\[=:][^=:]*?)\s*[=:]", settings, re.MULTILINE)
    if not _HARMLESS.issuperset(names):
        return False
    return not _may_be_on_aws(environment)


def has_profile(profile: str, environment: Mapping[str, str]) -> bool:
    """Return whether the AWS configuration may have a profile of this name."""
    return _may_name(profile, _configuration(environment))


def _may_name(profile: str, settings: str) -> bool:
    """Return whether the text of an AWS configuration may name a profile. A section in quotes, or
    with a backslash, may have any name: botocore reads it as a shell would."""
    return profile in settings or _QUOTED_SECTION.search(settings) is not None


def _configuration(environment: Mapping[str, str]) -> str:
    """Return the text of both files of the AWS configuration, as far as they can be read."""
    text = ""
    for variable, default in (
        ("AWS_CONFIG_FILE", "~/.aws/config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ):
        place = os.path.expandvars(environment.get(variable) or default)
        path = Path(os.path.expanduser(place))  # noqa: PTH111 - without a home, pathlib raises
        try:
            text += path.read_text(encoding="utf-8", errors="replace") + "\n"
        except OSError:
            continue
    return text


def _may_be_on_aws(environment: Mapping[str, str]) -> bool:
    """Return whether the instance metadata service of EC2 may answer here."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "false").lower() == "true":
        return False
    if any(environment.get(name) for name in _METADATA_VARIABLES):
        return True
    try:
        socket.create_connection(_METADATA_ADDRESS, timeout=_METADATA_SECONDS).close()
    except OSError:
        return False
    return True
