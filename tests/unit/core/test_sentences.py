"""Texts become sentences, and identifiers in them keep their spelling."""

from __future__ import annotations

import pytest

from governor.core.units import capitalized, people, sentence


@pytest.mark.parametrize(
    "text",
    [
        "i-0123456789abcdef0 is stopped",
        "ec2:CreateSnapshots failed: UnauthorizedOperation",
        "nvidia_smi_utilization_gpu never passed 1",
        "idle.second_figure: required asks for it",
        "idle.second_figure",
        "p5.48xlarge is not offered here",
        "us-east-1 is not enabled",
        "arn:aws:kms:us-east-1:111122223333:key/k is disabled",
        "alice@example.com had it started again",
        "bin/governor status shows it",
        "minvCpus is 96",
        "notebook-7: failed",
    ],
)
def test_an_identifier_at_the_beginning_keeps_its_spelling(text: str) -> None:
    """Names of AWS, of metrics and of settings are others with a capital letter."""
    assert text == capitalized(text)
    assert f"{text}." == sentence(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("power: not measured", "Power: not measured."),
        ("the instance runs again.", "The instance runs again."),
        ("one-time Spot cannot be stopped", "One-time Spot cannot be stopped."),
        ("every GPU under 5%; power: not measured", "Every GPU under 5%; power: not measured."),
        ("EC2 refused", "EC2 refused."),
        ("was it?", "Was it?"),
        ("x", "X."),
        ("", ""),
        ("  ", ""),
    ],
)
def test_any_other_text_begins_with_a_capital_letter(text: str, expected: str) -> None:
    assert expected == sentence(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kept by aws:arn:aws:iam::111122223333:user/team/ada: x", "kept by ada (AWS identity): x"),
        ("paused by aws:ada", "paused by ada (AWS identity)"),
        ("aws:arn:aws:iam::111122223333:root", "root (AWS identity)"),
        ("aws:arn:aws-cn:iam::111122223333:user/ada", "ada (AWS identity)"),
    ],
)
def test_a_recorded_identity_becomes_readable(text: str, expected: str) -> None:
    assert expected == people(text)


@pytest.mark.parametrize(
    "text",
    [
        "User: arn:aws:sts::111122223333:assumed-role/governor/x is not authorized",
        "on resource: arn:aws:ec2:us-east-1::snapshot/* with an explicit deny",
        "the tag aws:cloudformation:stack-name=lab",
        "the condition aws:RequestTag/CostCenter",
    ],
)
def test_names_in_the_words_of_aws_stay_as_they_are(text: str) -> None:
    """They begin like a recorded identity and are none."""
    assert text == people(text)
