"""Texts become sentences, and identifiers in them keep their spelling."""

from __future__ import annotations

import pytest

from governor.core.units import (
    capitalized,
    holds_words_of_people,
    people,
    people_in_record,
    sentence,
)


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


IDENTITIES = {
    "link:alice@example.com": "alice@example.com (mail link)",
    "link:broadcast": "somebody with the link sent to a list",
    "oidc:alice@example.com": "alice@example.com (signed in)",
    "oidc:auth0|5f7c8ec7": "auth0|5f7c8ec7 (signed in)",
    "slack:U0BOB": "U0BOB (Slack)",
    "aws:arn:aws:iam::111122223333:user/team/ada": "ada (AWS identity)",
    "aws:arn:aws:iam::111122223333:root": "root (AWS identity)",
    "aws:arn:aws-cn:iam::111122223333:user/ada": "ada (AWS identity)",
    "aws:ada": "ada (AWS identity)",
}
TYPED = (
    "",
    ": training until Friday",
    ": ask slack:ops (oidc:bob), Name=oidc:prod, aws:ada or link:bob@example.com.",
    ": first\nkept by oidc:bob: second",
    " (its tags could not be removed yet: AccessDenied: aws:ResourceTag/x)",
)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_a_recorded_identity_becomes_readable(identity: str) -> None:
    assert IDENTITIES[identity] == people(identity)


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.parametrize("done", ["kept", "held", "exempted", "paused", "approved"])
@pytest.mark.parametrize("identity", IDENTITIES)
def test_who_did_it_becomes_readable_and_what_they_typed_stays(
    identity: str, done: str, typed: str
) -> None:
    """A colon after the identity is no part of it, and no other identity is looked for."""
    recorded = f"{done} by {identity}{typed}"

    assert f"{done} by {IDENTITIES[identity]}{typed}" == people_in_record(recorded)
    assert holds_words_of_people(recorded)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_sentences_that_name_a_person_later_become_readable(identity: str) -> None:
    name = IDENTITIES[identity]
    unsealed = "has no seal of this release: nothing was done, and people are asked again"
    for before, after in (
        ("it was stopped, and ", " started it again"),
        ("the answer of ", f" {unsealed}"),
    ):
        assert f"{before}{name}{after}" == people_in_record(f"{before}{identity}{after}")
    two = f"approved by {identity} and {identity}"
    assert f"approved by {name} and {name}" == people_in_record(two)


@pytest.mark.parametrize(
    "text",
    [
        "User: arn:aws:sts::111122223333:assumed-role/governor/x is not authorized",
        "on resource: arn:aws:ec2:us-east-1::snapshot/* with an explicit deny",
        "the tag aws:cloudformation:stack-name=lab",
        "the condition aws:RequestTag/CostCenter",
        "aws:cloudformation:stack-name",
        "carries the tag Name=oidc:prod",
        "plans are frozen: ask slack:ops (oidc:bob)",
        "kept by decision until Fri Nov 27, 09:00 UTC",
        "kept by nobody knows oidc:bob",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Names in the words of AWS begin like a recorded identity, and so may words of people."""
    assert text == people(text)
    assert text == people_in_record(text)
    assert not holds_words_of_people(text)
