"""A person names a thing by its name or a part of its id; what fits two things is refused."""

from __future__ import annotations

import pytest

from cli.errors import CommandError
from cli.references import Candidate, find, short_ids, suggestion

ONE = Candidate("3f2a9c11" + "0" * 24, ("notebook-1", "i-0123"), "notebook-1 (i-0123) in A")
TWO = Candidate("3f2a9c22" + "0" * 24, ("notebook-2", "i-0456"), "notebook-2 (i-0456) in A")
TWIN = Candidate("77777777" + "0" * 24, ("notebook-2", "i-0789"), "notebook-2 (i-0789) in B")


@pytest.mark.parametrize("text", [ONE.id, "3f2a9c11", "3f2a9c1", "notebook-1", "i-0123"])
def test_a_name_an_id_or_its_start_is_enough(text: str) -> None:
    assert ONE == find(text, [ONE, TWO, TWIN], "questions")


@pytest.mark.parametrize("text", ["notebook", "3f2", "i-01", "NOTEBOOK-1", ""])
def test_a_part_of_a_name_names_nothing(text: str) -> None:
    """An answer about the wrong instance is worse than none."""
    assert find(text, [ONE, TWO, TWIN], "questions") is None


def test_a_part_of_a_name_is_enough_to_read() -> None:
    """A name counts before the start of a longer one."""
    longer = Candidate("88888888" + "0" * 24, ("notebook-11", "i-0999"), "notebook-11 (i-0999)")
    assert ONE == find("notebook-1", [longer, ONE, TWO], "questions", to_read=True)
    assert TWO == find("note", [TWO], "questions", to_read=True)
    assert find("not", [TWO], "questions", to_read=True) is None
    with pytest.raises(CommandError, match="'notebook' fits 2 questions"):
        find("notebook", [ONE, TWO], "questions", to_read=True)


@pytest.mark.parametrize(("text", "ids"), [("notebook-2", "222 777"), ("3f2a", "111 222")])
def test_what_fits_two_is_refused_with_the_candidates(text: str, ids: str) -> None:
    with pytest.raises(CommandError) as refused:
        find(text, [ONE, TWO, TWIN], "questions")
    said = str(refused.value)
    assert f"'{text}' fits 2 questions. Name one by its ID:\n" in said
    for one in {"111": ONE, "222": TWO, "777": TWIN}.items():
        assert (one[0] in ids) == (one[1].text in said)


def test_short_ids_tell_all_apart() -> None:
    """As long as they must be, also where two ids begin alike."""
    assert {ONE.id: "3f2a9c11", TWO.id: "3f2a9c22"} == short_ids([ONE.id, TWO.id])
    assert {"a" * 9 + "b": "a" * 9 + "b", "a" * 10: "a" * 10} == short_ids(
        ["a" * 9 + "b", "a" * 10]
    )
    assert {} == short_ids([])


def test_a_slip_is_guessed() -> None:
    assert "; did you mean notebook-1?" == suggestion("notbook-1", [ONE])
    assert "" == suggestion("train", [ONE])
