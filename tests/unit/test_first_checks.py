"""Mistakes that are found before a command is loaded: files that are missing or cannot be written,
no credentials, no Region."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import botocore.session
import pytest

from cli import credentials, governor
from cli.credentials import has_none
from cli.errors import CommandError
from cli.first_checks import check_first

ROOT = Path(__file__).parents[2]
HEAVY = ("boto3", "botocore", "pydantic", "yaml", "numpy", "governor.core", "simulation")
AWS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
STATUS = ["status", "--region", "eu-west-1"]


def run(line: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Run a line in a process of its own. Return its error, and the heavy modules it loaded."""
    code = (
        "import sys\nfrom cli.governor import main\n"
        f"assert main({line!r}) == 1\n"
        f"print([one for one in {HEAVY!r} if one in sys.modules])"
    )
    nothing = {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'layers' / 'shared'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**nothing, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr, done.stdout.strip()


@pytest.mark.parametrize(
    "line",
    [
        "policy check nowhere.yaml",
        "policy diff nowhere.yaml",
        "policy put nowhere.yaml",
        "policy explain i-0123456789abcdef0 --file nowhere.yaml",
        "simulate --policy nowhere.yaml",
        "simulate --traces nowhere.yaml",
        "advice --file nowhere.yaml",
        "doctor --file nowhere.yaml",
        "spot g5.xlarge --file nowhere.yaml",
        "reconcile nowhere.yaml",
        "uninstall --recorded nowhere.yaml",
    ],
)
def test_a_missing_file_is_found_before_the_command_is_loaded(line: str) -> None:
    error, loaded = run(line.split(), AWS)
    assert "governor: nowhere.yaml could not be read: No such file or directory\n" == error
    assert "[]" == loaded


@pytest.mark.parametrize(
    "line",
    [
        "status",
        "approvals list",
        "mode ask",
        "report",
        "doctor",
        "preflight",
        "scan",
        "simulate",
        "policy get",
        "uninstall",
    ],
)
def test_a_shell_without_credentials_is_found_before_the_command_is_loaded(line: str) -> None:
    error, loaded = run(line.split(), {})
    assert f"governor: {credentials.NO_CREDENTIALS}\n" == error
    assert "[]" == loaded


@pytest.mark.parametrize(
    "line",
    ["simulate --out nowhere/x.html", "scan --csv nowhere/x.html", "scan --html nowhere/x.html"],
)
def test_a_file_that_cannot_be_written_is_found_before_the_command_is_loaded(line: str) -> None:
    """Not after minutes of reading, for which CloudWatch may charge."""
    error, loaded = run(line.split(), AWS)
    expected = "nowhere/x.html could not be written: there is no folder nowhere"
    assert f"governor: {expected}\n" == error
    assert "[]" == loaded


def test_a_file_to_write_may_be_there_and_stays_as_it_is(tmp_path: Path) -> None:
    """A folder is none; a device and standard output may be written."""
    old = tmp_path / "old.html"
    old.write_text("old")
    for place in (old, tmp_path / "new.html", "/dev/null", "-"):
        check_first(governor.parsed(["scan", "--csv", str(place)]), AWS)
    assert ["old.html"] == [path.name for path in tmp_path.iterdir()]
    assert "old" == old.read_text()
    with pytest.raises(CommandError, match="is a folder: name a file in it"):
        check_first(governor.parsed(["scan", "--csv", str(tmp_path)]), AWS)


def test_a_folder_without_the_right_to_write_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.access` answers for it: root, who runs tests in containers, may write everywhere."""
    monkeypatch.setattr(os, "access", lambda path, right: (path, right) != (tmp_path, os.W_OK))
    with pytest.raises(CommandError, match="you lack permission to write there"):
        check_first(governor.parsed(["simulate", "--out", str(tmp_path / "x.html")]), AWS)


@pytest.mark.parametrize("line", ["status", "simulate", "spot g5.xlarge", "policy get"])
def test_a_missing_region_is_found_before_the_command_is_loaded(line: str) -> None:
    error, loaded = run(line.split(), AWS)
    assert f"governor: {credentials.NO_REGION}\n" == error
    assert "[]" == loaded


@pytest.mark.parametrize(
    ("line", "more", "settings"),
    [
        ("status --region eu-west-1", {}, ""),
        ("spot g5.xlarge --region eu-west-1", {}, ""),
        ("status", {"AWS_REGION": "eu-west-1"}, ""),
        ("status", {"AWS_DEFAULT_REGION": "eu-west-1"}, ""),
        ("status", {}, "[default]\nregion = eu-west-1\n"),
        ("status", {"AWS_PROFILE": "p"}, "[profile p]\nregion=eu-west-1\n"),
        # It looks at all Regions.
        ("scan", {}, ""),
        ("policy schema", {}, ""),
    ],
)
def test_a_region_may_come_from_the_line_the_environment_or_the_profile(
    line: str, more: Mapping[str, str], settings: str, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(settings)
    check_first(governor.parsed(line.split()), {**_nothing(tmp_path), **AWS, **more})


def test_every_argument_that_names_a_file_says_so() -> None:
    """By what its help says of it. The file of `--cache` and its folder are made."""
    for name in governor.COMMANDS:
        for parser in _leaves(governor.parser(name)):
            named = set()
            for action in parser._actions:
                is_file = action.metavar == "FILE" or action.dest == "file"
                if is_file or action.dest == "traces":
                    named.add(action.dest)
            declared = {
                *(parser.get_default("reads") or ()),
                *(parser.get_default("reads_folders") or ()),
                *(parser.get_default("writes") or ()),
            }
            assert named - {"cache"} == declared, parser.prog


def _leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not below:
        return [parser]
    leaves = []
    for one in below[0].choices.values():
        leaves += _leaves(one)
    return leaves


def test_a_folder_is_no_file_but_traces_may_be_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="could not be read: Is a directory"):
        check_first(governor.parsed(["policy", "check", str(tmp_path)]), {})
    check_first(governor.parsed(["simulate", "--traces", str(tmp_path)]), {})


def test_standard_input_and_a_pipe_are_left_for_the_command(tmp_path: Path) -> None:
    """To open a pipe would wait for its writer, and then take what is in it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_first(governor.parsed(["policy", "check", str(pipe)]), {})
    check_first(governor.parsed(["policy", "check", "-"]), {})


@pytest.mark.parametrize("line", ["policy schema", "scan --print-policy", "preflight --list"])
def test_what_needs_no_credentials_runs_without(line: str, tmp_path: Path) -> None:
    check_first(governor.parsed(line.split()), _nothing(tmp_path))


def _nothing(home: Path) -> dict[str, str]:
    return {
        "AWS_CONFIG_FILE": str(home / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.mark.parametrize(
    "settings",
    [
        "[default]\naws_access_key_id = x\n",
        "[profile p]\ncredential_process = tool\n",
        "[profile p]\nsso_session: work\n",
        "[profile p]\nrole_arn=arn:aws:iam::1:role/x\n",
        "[profile p]\nlogin_session = x\n",
        "[profile p]\nsomething_new = x\n",
    ],
)
def test_only_boto3_knows_whether_a_profile_has_credentials(settings: str, tmp_path: Path) -> None:
    """Nothing is refused that may work: a program, a sign-in, or what later releases add."""
    (tmp_path / "config").write_text(settings)
    assert not has_none(_nothing(tmp_path))


def test_a_profile_with_a_region_alone_has_no_credentials(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("# mine\n[default]\nregion = eu-west-1\noutput=json\n")
    assert has_none(_nothing(tmp_path))


@pytest.mark.parametrize("name", credentials._VARIABLES)
def test_a_variable_may_give_credentials(name: str, tmp_path: Path) -> None:
    assert not has_none({**_nothing(tmp_path), name: "x"})


def test_an_instance_has_those_of_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found as botocore finds them, by the metadata service; its answer is not read here."""
    environment = {**_nothing(tmp_path), "AWS_EC2_METADATA_DISABLED": "false"}
    ends = socket.socketpair()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: ends[0])
    assert not has_none(environment)
    ends[1].close()

    def refuse(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert has_none(environment)
    assert not has_none({**environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[::1]"})


def test_a_profile_that_nothing_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\ncredential_process = tool\n")
    environment = {**_nothing(tmp_path), "AWS_PROFILE": "work"}
    check_first(governor.parsed(STATUS), environment)
    with pytest.raises(CommandError, match=r"\(wrok\) could not be found: pass --profile"):
        check_first(governor.parsed(STATUS), {**environment, "AWS_PROFILE": "wrok"})


def test_a_profile_is_looked_for_in_the_order_of_botocore(tmp_path: Path) -> None:
    """With both variables, botocore takes that of the default profile."""
    (tmp_path / "config").write_text("[profile base]\ncredential_process = tool\n")
    environment = {**_nothing(tmp_path), "AWS_DEFAULT_PROFILE": "base", "AWS_PROFILE": "gone"}
    check_first(governor.parsed(STATUS), environment)
    order = botocore.session.Session().session_var_map["profile"][1]
    assert ["AWS_DEFAULT_PROFILE", "AWS_PROFILE"] == order


@pytest.mark.parametrize(
    "section", ["[profile my\\ dev]", '[profile "my dev"]', "[ profile 'my dev']"]
)
def test_a_section_in_quotes_may_have_any_name(section: str, tmp_path: Path) -> None:
    """Botocore reads it as a shell would."""
    (tmp_path / "config").write_text(f"{section}\ncredential_process = tool\n")
    check_first(governor.parsed(STATUS), {**_nothing(tmp_path), "AWS_PROFILE": "my dev"})


def test_a_user_without_a_home_may_have_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does an unreadable home end the command with an error of Python's."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert not has_none({"AWS_ACCESS_KEY_ID": "x"})
    check_first(governor.parsed(STATUS), {"AWS_ACCESS_KEY_ID": "x"})
