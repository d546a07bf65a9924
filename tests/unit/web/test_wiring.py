"""What the functions of the page import, and what they make of half a setting."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from governor.contracts.settings import Settings
from governor.errors import ConfigurationError
from tests.unit.template.machines import ROOT

NAMES = {
    "AWS_REGION": "us-east-1",
    "HUB_ACCOUNT_ID": "123456789012",
    "TABLE_NAME": "state",
    "ALERT_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:alerts",
    "POLICY_PARAMETER": "policy",
    "REMEDIATION_STATE_MACHINE_ARN": "arn:aws:states:us-east-1:123456789012:stateMachine:remediation",
    "LINK_KEY_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:keys-abcdef",
    "UNDO_FUNCTION_NAME": "undo",
    "APPROVAL_BASE_URL": "https://api.example.com/",
}
ISSUER = {"OIDC_ISSUER": "https://issuer.example.com", "OIDC_CLIENT_ID": "gpu-governor"}
HEAVY = {"jwt", "cryptography", "governor.adapters.oidc", "governor.web.sign_in"}


def imported(make: str, environment: dict[str, str]) -> set[str]:
    """The modules of a fresh process after it has made a use case."""
    code = f"import sys\nfrom governor import bootstrap\nbootstrap.{make}()\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": "layers/shared", **NAMES, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    return set(done.stdout.split())


def test_the_page_loads_nothing_of_a_sign_in_that_is_not_configured() -> None:
    """Cold starts stay what they were."""
    modules = imported("approval_site", {})

    assert set() == modules & (HEAVY | {"governor.adapters.seals", "governor.contracts.policy"})


def test_the_page_never_loads_the_issuer_s_protocol() -> None:
    """It reads sessions; only the function that signs in speaks to the issuer."""
    modules = imported("approval_site", ISSUER)

    assert "governor.adapters.seals" in modules
    assert set() == modules & HEAVY
    assert HEAVY <= imported("sign_in_site", ISSUER)


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"OIDC_CLIENT_ID": "gpu-governor"}, "OIDC_ISSUER"),
        ({"OIDC_APPROVER_GROUP": "gpu-approvers"}, "OIDC_ISSUER"),
        ({"OIDC_ISSUER": "https://issuer.example.com"}, "OIDC_CLIENT_ID"),
        ({"OIDC_ISSUER": "https://issuer.example.com", "OIDC_CLIENT_ID": " "}, "OIDC_CLIENT_ID"),
    ],
)
def test_half_a_setting_stands_open_to_nobody(variables: dict[str, str], missing: str) -> None:
    """A sign-in is demanded, and what is missing is named."""
    settings = Settings(variables)

    assert settings.signs_in
    with pytest.raises(ConfigurationError, match=missing):
        _ = (settings.oidc_issuer, settings.oidc_client_id)


def test_no_setting_is_no_sign_in() -> None:
    """The template gives empty texts; the claim has its default."""
    empty = dict.fromkeys(("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_APPROVER_GROUP", "OIDC_GROUPS_CLAIM"), "")

    assert not Settings(empty).signs_in
    assert ("groups", "", None) == (
        Settings(empty).oidc_groups_claim,
        Settings(empty).oidc_approver_group,
        Settings(empty).oidc_client_secret_arn,
    )
