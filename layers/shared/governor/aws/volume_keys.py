"""Describes the KMS keys of volumes. Nothing here uses or changes a key."""

from __future__ import annotations

from governor.aws.clients import Adapter
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.episode.rules.restart_doubts import VolumeKey


class KmsVolumeKeys(Adapter):
    """The port `KeyReader`."""

    def describe(self, target: Target, key_id: str) -> VolumeKey:
        """Return the key as KMS describes it. A key that cannot be read says why in its
        `problem`."""
        try:
            answer = self._call("kms:DescribeKey", target, long_timeout=False, KeyId=key_id)
        except CloudError as error:
            return VolumeKey(key_id, problem=error.code or "KMS has not answered")
        key = answer["KeyMetadata"]
        return VolumeKey(key_id, key.get("KeyState"), is_of_aws=key.get("KeyManager") == "AWS")
