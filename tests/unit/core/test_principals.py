"""Principals of AWS in words, and the manager that a name may stand for."""

from __future__ import annotations

import pytest

from governor.core.managers import perhaps_by
from governor.core.principals import names_in, principal_text

STS = "arn:aws:sts::123456789012"
IAM = "arn:aws:iam::123456789012"


@pytest.mark.parametrize(
    ("principal", "text"),
    [
        (f"{STS}:assumed-role/gh-runner-scale-up/i-0abc", "the role gh-runner-scale-up"),
        (
            f"{STS}:assumed-role/AWSReservedSSO_Dev_0f/ada@example.com",
            "the role AWSReservedSSO_Dev_0f (ada@example.com)",
        ),
        (f"{STS}:assumed-role/alone", "the role alone"),
        (
            f"{STS}:assumed-role/AWSServiceRoleForAutoScaling/AutoScaling",
            "the role AWSServiceRoleForAutoScaling",
        ),
        (f"{IAM}:role/service/path/trainer", "the role trainer"),
        (f"{IAM}:user/bob", "the user bob"),
        (f"{IAM}:user/teams/ml/bob", "the user bob"),
        (f"{STS}:federated-user/carl", "the federated user carl"),
        (f"{IAM}:root", "the root user of account 123456789012"),
        ("arn:aws-cn:iam::123456789012:user/bob", "the user bob"),
        ("arn:aws-eusc:sts::123456789012:assumed-role/ci/s", "the role ci"),
        ("autoscaling.amazonaws.com", "the service autoscaling.amazonaws.com"),
        ("bob", "bob"),
        ("a\nb\u202ec", "a b c"),
        ("n" * 64, "n" * 64),
        ("n" * 65, "n" * 63 + "…"),
        (f"{IAM}:user/{'n' * 900}", f"the user {'n' * 63}…"),
    ],
)
def test_a_principal_is_said_in_few_words(principal: str, text: str) -> None:
    """Roles, users, services and root; one line, and never longer than names of IAM."""
    assert text == principal_text(principal)


@pytest.mark.parametrize(
    ("name", "manager"),
    [
        ("jenkins", "Jenkins"),
        ("databricks-workers", "Databricks"),
        ("ci-Jenkins-agents", "Jenkins"),
        ("MyJenkinsRole", "Jenkins"),
        ("gh-runner-scale-up", "GitHub Actions"),
        ("prod_gh_runner", "GitHub Actions"),
        ("TerraformApply", "Terraform"),
        ("team-tofu", "Terraform"),
        ("notjenkins", None),
        ("restofus", None),
        ("scale-up", None),
        ("", None),
        ("İjenkins", "Jenkins"),
    ],
)
def test_a_name_gives_a_guess_where_a_word_begins_a_part_of_it(
    name: str, manager: str | None
) -> None:
    """A word inside another word is chance."""
    guess = perhaps_by(name)
    assert (guess or "").split(" (")[0] == (manager or "")


def test_an_account_or_a_service_of_an_arn_is_no_name() -> None:
    """Only what somebody named counts."""
    assert names_in(f"{STS}:assumed-role/ci/s") == "assumed-role/ci/s"
    assert names_in("sagemaker.amazonaws.com") == "sagemaker.amazonaws.com"
