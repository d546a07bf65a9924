"""Makes and checks seals with HMAC keys that never leave KMS.

A maker has the key of one duty; the check knows the keys of all duties.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from governor.approvals.rules.sealing import Duty
from governor.aws.clients import Adapter, Clients
from governor.core.errors import CloudError

_ALGORITHM = "HMAC_SHA_256"
_SIGNATURE_BYTES = 32
_NOT_THE_MAC = "KMSInvalidMacException"


class KmsSealMaker(Adapter):
    """Fulfils `governor.approvals.rules.sealing.SealMaker` with one key."""

    def __call__(self, text: bytes) -> str:
        """Return the seal of a text in base64. Raises: CloudError."""
        answer = self._call(
            "kms:GenerateMac", KeyId=self._resource, MacAlgorithm=_ALGORITHM, Message=_sha256(text)
        )
        return base64.b64encode(answer["Mac"]).decode()


class KmsSealCheck(Adapter):
    """Fulfils the port `SealCheck` with the ARNs of four keys, one for each duty. It never uses a
    key that a record names."""

    def __init__(
        self, clients: Clients, openings: str, answers: str, deliveries: str, expiries: str
    ) -> None:
        """Check with these keys (ARNs of KMS keys), one for each duty."""
        super().__init__(clients)
        self._key_by_duty = {
            Duty.OPENING: openings,
            Duty.ANSWER: answers,
            Duty.DELIVERY: deliveries,
            Duty.EXPIRY: expiries,
        }

    def __call__(self, duty: Duty, text: bytes, signature: str) -> bool:
        """Return whether the key of this duty made this signature (base64) of the text; false also
        for a signature of another form. Raises: CloudError if KMS does not say."""
        try:
            mac = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            return False
        if len(mac) != _SIGNATURE_BYTES:
            return False
        try:
            answer = self._call(
                "kms:VerifyMac",
                KeyId=self._key_by_duty[duty],
                MacAlgorithm=_ALGORITHM,
                Message=_sha256(text),
                Mac=mac,
            )
        except CloudError as error:
            if error.code == _NOT_THE_MAC:
                return False
            raise
        return answer["MacValid"] is True


def _sha256(text: bytes) -> bytes:
    """Return a hash of the text: KMS takes 4,096 bytes."""
    return hashlib.sha256(text).digest()
