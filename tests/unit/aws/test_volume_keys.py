"""Keys of volumes are described by KMS, and a key that cannot be read says why."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from governor.aws.volume_keys import KmsVolumeKeys
from governor.episode.rules.restart_doubts import VolumeKey
from tests.builders import TARGET
from tests.unit.aws.fakes import FakeClients

KEY = "arn:aws:kms:us-east-1:999999999999:key/central"


class Kms:
    """Answers each call with this, or raises it."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer

    def describe_key(self, KeyId: str) -> dict[str, Any]:
        assert KEY == KeyId
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeKey")


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        (
            {"KeyMetadata": {"KeyState": "Disabled", "KeyManager": "CUSTOMER"}},
            VolumeKey(KEY, "Disabled"),
        ),
        (
            {"KeyMetadata": {"KeyState": "Enabled", "KeyManager": "AWS"}},
            VolumeKey(KEY, "Enabled", is_of_aws=True),
        ),
        ({"KeyMetadata": {}}, VolumeKey(KEY)),
        (DENIED, VolumeKey(KEY, problem="AccessDeniedException")),
        (ConnectTimeoutError(endpoint_url="x"), VolumeKey(KEY, problem="KMS has not answered")),
    ],
)
def test_a_key_is_read_or_its_problem_is(answer: Any, key: VolumeKey) -> None:
    """A question is asked either way."""
    assert key == KmsVolumeKeys(FakeClients(Kms(answer))).describe(TARGET, KEY)  # type: ignore[arg-type]
