"""`make invoke` says which of its arguments is wrong, before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import invoke, invoke_arguments

FOREIGN = "events/serve_approval/get.json"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "FUNCTION is missing: make invoke FUNCTION="),
        (["", FOREIGN], "FUNCTION is missing"),
        (
            ["serve_apy", FOREIGN],
            "FUNCTION=serve_apy: there is no such function; did you mean serve_api?",
        ),
        (["ServeApiFunction", FOREIGN], "did you mean serve_api?"),
        (["xxxx", FOREIGN], "there is no such function. The functions are ask_owner, "),
        (["serve_api"], "EVENT is missing. Samples of serve_api: events/serve_api/freezes.json, "),
        (
            ["serve_api", "events/serve_api/lst.json"],
            "there is no such file; did you mean events/serve_api/list.json?",
        ),
        (["serve_api", "events/serve_api"], "EVENT=events/serve_api: is a folder"),
        (
            ["serve_api", FOREIGN],
            f"EVENT={FOREIGN} is a sample of serve_approval, not of serve_api: make invoke",
        ),
        (
            ["serve_api", "README.md"],
            "EVENT=README.md is not JSON: Expecting value (line 1, column 1)",
        ),
        (["serve_api", FOREIGN, "more"], "no 'more'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_wrong_argument_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it could be."""
    assert 2 == invoke.main(arguments)

    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out


def test_an_event_of_ones_own_is_taken(tmp_path: Path) -> None:
    """From anywhere; what is not text is refused."""
    own, broken = tmp_path / "own.json", tmp_path / "broken.json"
    own.write_text('{"mine": true}')
    broken.write_bytes(b'{"\xff": 1}')

    assert ("plan_sweep", {"mine": True}) == invoke_arguments.given("plan_sweep", str(own))
    with pytest.raises(invoke_arguments.WrongArgumentError, match="not text in UTF-8"):
        invoke_arguments.given("plan_sweep", str(broken))
