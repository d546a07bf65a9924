"""Recorded reasons name people as others know them, and leave what people typed as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from governor.approvals.messages.failures import (
    readable,
    readable_clause,
    readable_end,
    readable_failure,
)
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.rules.approval import hold_of
from governor.approvals.rules.sealing import unsealed_text
from governor.core.units import people, sentence
from governor.episode.model.episode import Outcome
from governor.limits.model.pause import Pause
from governor.policy.model.policy import Policy
from governor.verdict.model import EXEMPT_BY_DECISION, Hold
from governor.verdict.rules.judge import judge_without_metrics
from tests.builders import NOW, make_instance

IDENTITIES = (
    "link:alice@example.com",
    "link:broadcast",
    "oidc:alice@example.com",
    "oidc:auth0|5f7c8ec7",
    "slack:U0BOB",
    "aws:arn:aws:iam::111122223333:user/team/ada",
    "aws:arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_x/ada@example.com",
)
TYPED = "until 2026-11-28 09:00 UTC ask slack:ops, Name=oidc:prod (oidc:bob), GPU at 5 %"
ENDS = {
    Answer.KEEP: ("Kept", Outcome.KEPT),
    Answer.EXEMPT: ("Exempted", Outcome.EXEMPTED),
    Answer.HOLD: ("Held", Outcome.HELD),
}


def answered(answer: Answer, by: str, reason: str | None = TYPED) -> Decision:
    return Decision(answer, by, "page", NOW, reason=reason)


@pytest.mark.parametrize("reason", [TYPED, None], ids=["with words", "without"])
@pytest.mark.parametrize("answer", ENDS)
@pytest.mark.parametrize("by", IDENTITIES)
def test_an_answer_names_its_author_and_nothing_else_changes(
    by: str, answer: Answer, reason: str | None
) -> None:
    """`kept by oidc:a@b.example: x` read `Kept by a@b.example: (signed in) x`, and the words of
    people were rewritten, too. By its fields, and by the text of a record, it reads the same."""
    decision = answered(answer, by, reason)
    done, outcome = ENDS[answer]
    words = f"{done} by {people(by)}"
    expected = f"{words}: {reason}." if reason else f"{words}."

    assert expected == sentence(decision.words)
    assert expected == readable_end(outcome, decision.why, "Europe/Berlin", NOW)
    assert people(by) != by


@pytest.mark.parametrize("by", [by for by in IDENTITIES if by != "link:broadcast"])
def test_a_pause_and_a_freeze_name_people_in_the_same_way(by: str) -> None:
    why = f"everything is {Pause(NOW, by, TYPED).why}"

    assert f"everything is paused by {people(by)}: {TYPED}" == why
    assert f"E{why[1:]}." == readable(why, "Europe/Berlin", NOW)
    frozen = f"plans are frozen: tag Owner={by} turned idle"
    assert frozen == readable_clause(frozen, "UTC", NOW)


@pytest.mark.parametrize("is_old", [False, True], ids=["stored now", "stored before"])
@pytest.mark.parametrize("by", IDENTITIES)
def test_an_exemption_names_its_author_and_keeps_the_words(by: str, *, is_old: bool) -> None:
    """`(oidc:bob)` read `(bob) (signed in)`. Earlier releases stored no author beside the text."""
    hold = hold_of(answered(Answer.EXEMPT, by))
    if is_old:
        hold = replace(hold, exempt_by=None)

    assert f"{TYPED} ({by})" == hold.exempt_reason
    assert by == hold.exempter
    assert f"{TYPED} ({people(by)})" == hold.exemption_words
    verdict = judge_without_metrics(make_instance(), hold, Policy(), NOW)
    assert verdict is not None
    assert f"{EXEMPT_BY_DECISION}: {TYPED} ({people(by)})" == verdict.reason
    assert EXEMPT_BY_DECISION == verdict.public_reason
    assert readable(verdict.reason, "UTC", NOW).startswith(f"Exempted by decision: {TYPED} (")


def test_an_identity_with_brackets_is_named_whole() -> None:
    """An issuer may write any printable character into `sub`."""
    hold = hold_of(answered(Answer.EXEMPT, "oidc:Ann (ops)"))

    assert "oidc:Ann (ops)" == hold.exempter


def test_after_a_rollback_the_text_names_the_author() -> None:
    """The previous release stores a new text and leaves the field of the earlier answer."""
    hold = Hold(
        exempt_reason="license server (link:bob@example.com)", exempt_by="link:al@b.example"
    )

    assert "link:bob@example.com" == hold.exempter
    assert ("", "") == (Hold().exempter, Hold().exemption_words)
    untold = Hold(exempt_reason="mine")
    assert ("", "mine") == (untold.exempter, untold.exemption_words)


@pytest.mark.parametrize("outcome", [Outcome.KEPT, Outcome.EXEMPTED, Outcome.HELD, Outcome.VOID])
def test_words_of_people_are_no_error(outcome: Outcome) -> None:
    """`PyTorch: nightly run` read `Nightly run.`: it has the form of an error and its cause."""
    assert "PyTorch: nightly run." == readable_end(outcome, "PyTorch: nightly run", "UTC", NOW)
    assert "PyTorch: nightly run." == readable("PyTorch: nightly run", "UTC", NOW)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED, Outcome.INTERRUPTED])
def test_an_error_is_still_read_as_one(outcome: Outcome) -> None:
    reason = "StepTimedOut: stop was requested 30 min ago"
    expected = "EC2 did not finish in time: stop was requested 30 min ago."

    assert expected == readable_end(outcome, reason, "UTC", NOW)
    assert expected == readable_failure(reason, "UTC", NOW)


@pytest.mark.parametrize("by", IDENTITIES)
def test_a_question_that_an_exemption_voids_names_its_author(by: str) -> None:
    """Releases before wrote the words first, and the author in brackets."""
    recorded = f"{EXEMPT_BY_DECISION}: {TYPED} ({by})"
    expected = f"Exempted by decision: {TYPED} ({people(by)})."

    assert expected == readable_end(Outcome.VOID, recorded, "Europe/Berlin", NOW)


def test_an_author_with_a_space_in_the_name_is_named() -> None:
    """As the subject of an issuer may have."""
    assert "Kept by Alice Smith (signed in): until 9 UTC." == readable(
        "kept by oidc:Alice Smith: until 9 UTC", "Europe/Berlin", NOW
    )


def test_a_lack_of_a_seal_names_the_person_and_no_error() -> None:
    """A guard notes it with the name of its error."""
    reason = f"Unsealed: {unsealed_text('the answer of link:alice@example.com')}"
    text = readable_end(Outcome.VOID, reason, "UTC", NOW)

    assert text.startswith("The answer of alice@example.com (mail link) has no seal")
