"""The guard around unit tests is itself tested: without it the other tests could pass for a wrong
reason."""

from __future__ import annotations

import os
import socket
from urllib.request import urlopen

import boto3
import pytest
from pytest_socket import SocketBlockedError

# The guard warns before it refuses. Elsewhere that warning is an error; here the refusal itself is
# at stake.
pytestmark = pytest.mark.filterwarnings("ignore:A test tried to use socket:UserWarning")


def test_no_socket_opens() -> None:
    """Neither to this machine nor to another, in either family."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with pytest.raises(SocketBlockedError):
            socket.socket(family, socket.SOCK_STREAM)


def test_no_url_opens() -> None:
    """Clients that are built on sockets are stopped as well."""
    with pytest.raises(SocketBlockedError):
        urlopen("http://127.0.0.1:9/")


def test_the_account_is_nobodys() -> None:
    """Credentials are fake and come from no file."""
    credentials = boto3.Session().get_credentials()
    assert credentials is not None
    assert ("env", "testing", "testing") == (
        credentials.method,
        credentials.access_key,
        credentials.secret_key,
    )


def test_the_environment_is_empty_but_for_the_fakes() -> None:
    """No endpoint, profile or setting of the machine reaches a test."""
    expected = {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_EC2_METADATA_DISABLED",
    }
    assert expected == {name for name in os.environ if name.startswith(("AWS_", "POWERTOOLS_"))}
