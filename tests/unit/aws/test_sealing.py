"""Seals by the HMAC keys of KMS: made by one duty, checked by the key of that duty alone."""

from __future__ import annotations

import base64

import pytest

from governor.approvals.rules.sealing import Duty
from governor.aws.clients import Clients
from governor.aws.sealing import KmsSealCheck, KmsSealMaker
from governor.core.errors import AccessDenied, CloudError, Throttled, Unavailable
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

KEYS = ("openings", "answers", "deliveries", "expiries")
MAC = base64.b64encode(b"m" * 32).decode()


@pytest.fixture
def keys(aws: Clients) -> tuple[str, ...]:
    """Keys of KMS in the order of the duties."""
    made = []
    for _ in KEYS:
        key = aws.client("kms").create_key(KeySpec="HMAC_256", KeyUsage="GENERATE_VERIFY_MAC")
        made.append(str(key["KeyMetadata"]["Arn"]))
    return tuple(made)


def test_a_seal_is_good_for_its_duty_and_its_text(aws: Clients, keys: tuple[str, ...]) -> None:
    """A text longer than KMS takes has one, too."""
    check, text = KmsSealCheck(aws, *keys), b"x" * 5000
    for duty, key in zip(Duty, keys, strict=True):
        signature = KmsSealMaker(aws, key)(text)
        fits = {other for other in Duty if check(other, text, signature)}
        assert ({duty}, False) == (fits, check(duty, text + b"y", signature))


@pytest.mark.parametrize(
    "signature", ["", "no base 64", base64.b64encode(b"short").decode(), MAC + "é"]
)
def test_what_is_no_signature_is_never_sent_to_kms(signature: str) -> None:
    """It does not fit."""
    assert not KmsSealCheck(FakeClients(ScriptedClient()), *KEYS)(Duty.ANSWER, b"text", signature)


@pytest.mark.parametrize(
    ("code", "status", "raised"),
    [
        ("ThrottlingException", 400, Throttled),
        ("KMSInternalException", 500, Unavailable),
        ("DependencyTimeoutException", 503, Unavailable),
        ("AccessDeniedException", 400, AccessDenied),
        ("DisabledException", 409, CloudError),
    ],
)
def test_what_kms_cannot_say_is_no_answer(code: str, status: int, raised: type[Exception]) -> None:
    """Neither that it fits nor that it does not."""
    failing = FakeClients(ScriptedClient(verify_mac=client_error(code, status=status)))
    with pytest.raises(raised):
        KmsSealCheck(failing, *KEYS)(Duty.OPENING, b"text", MAC)
    failing = FakeClients(ScriptedClient(generate_mac=client_error(code, status=status)))
    with pytest.raises(raised):
        KmsSealMaker(failing, "key")(b"text")
