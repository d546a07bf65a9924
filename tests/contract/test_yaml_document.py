"""The document's text: whatever is wrong with it is a `PolicyError`, soon, and by the right
line."""

from __future__ import annotations

from time import process_time

import pytest

from governor.core.errors import PolicyError, PolicyProblem
from governor.policy.document import parse_policy
from governor.policy.yaml_document import read_document

_BOMB = "\n".join(
    [
        "a0: &a0 [x,x,x,x,x,x,x,x,x]",
        *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
    ]
)
_CHAIN = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 2_000))])


def problems(text: str) -> tuple[PolicyProblem, ...]:
    """Return what the refusal of a document says."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(text)
    return refused.value.problems


@pytest.mark.parametrize(
    ("text", "line", "path", "said"),
    [
        (
            "mode: ask\ntargets: &a\n  accounts: [*a]",
            3,
            "targets.accounts.0",
            "refers to what it stands in",
        ),
        ("mode: ask\nidle: &a\n  <<: *a", 2, "idle", "refers to what it stands in"),
        ("mode: ask\n1: x", 2, "1", "no text as a key"),
        ("mode: ask\ntrue: x", 2, "true", "no text as a key"),
        ("mode: ask\n2020-01-01: x", 2, "2020-01-01", "unknown setting"),
        ("mode: ask\n? [a, b]\n: x", 2, "", "a key that is no text"),
        ("mode: ask\nidle: {? {a: b} : x}", 2, "idle", "a key that is no text"),
        ("mode: ask\ntargets: " + "[" * 5_000 + "]" * 5_000, 2, "", "more than 32 deep"),
        (_BOMB, None, "", "aliases (*name) expand to more than 20000 values"),
        (_CHAIN, None, "", "or 32 deep"),
        (
            "mode: ask\n" + "\n".join(f"key{n}: 1" for n in range(200_000)),
            None,
            "",
            "at most 65536",
        ),
        ("#" * 10_000_000, None, "", "at most 65536"),
        ("mode: ask\nidle: \0", 2, "", "the character 0x0000"),
        ("mode: ask\nidle: \x1b[31m", 2, "", "the character 0x001b"),
        ('mode: ask\nidle: "\\ud800"', 2, "idle", "half of a character"),
        (
            "mode: ask\nidle: !!python/object:os.system {}",
            2,
            "idle",
            "the tag !!python/object:os.system",
        ),
        ("mode: ask\nidle: !own [1]", 2, "idle", "the tag !own"),
        ("mode: ask\nidle: !<!!value> x", 2, "idle", "the tag !!value"),
        ("mode: ask\nidle: !<merge> x", 2, "idle", "the tag merge"),
        ('mode: ask\nidle: !!float "\\n1_0"', 2, "idle", "without _"),
        ("mode: ask\nidle: !!binary aGk=", 2, "idle", "the tag !!binary"),
        ("mode: ask\nidle: !!int x", 2, "idle", "'x' is no int"),
        ("mode: ask\nidle: !!bool x", 2, "idle", "'x'"),
        ("mode: ask\nidle: " + "9" * 5_000, 2, "idle", "is no int"),
        (
            "mode: ask\nidle: {window_minutes: 0x" + "f" * 8_000 + "}",
            2,
            "idle.window_minutes",
            "64 bits",
        ),
        (
            "mode: ask\nidle: {window_minutes: -9223372036854775809}",
            2,
            "idle.window_minutes",
            "64 bits",
        ),
        (
            "mode: ask\nidle: {window_minutes: 0b1" + "0" * 8_000 + "}",
            2,
            "idle.window_minutes",
            "is binary",
        ),
        ('idle: {}\nmode: "\\UFFFFFFFF"', 2, "", "too large"),
        ('idle: {}\nmode: "\\U00110000"', 2, "", "too large"),
        ("%YAML 1." + "9" * 5_000 + "\n---\nmode: ask", 1, "", "too large"),
        (
            "mode: ask\nidle: {window_minutes: 0120}",
            2,
            "idle.window_minutes",
            "'0120' begins with a zero",
        ),
        (
            "mode: ask\nidle: {window_minutes: -0120}",
            2,
            "idle.window_minutes",
            "'-0120' begins with a zero",
        ),
        ("mode: ask\nidle: {worth: 01.5}", 2, "idle.worth", "'01.5' begins with a zero"),
        ("mode: ask\nidle: {window_minutes: 6_0}", 2, "idle.window_minutes", "without _"),
        ("mode: ask\nidle: {worth: 1_0.5}", 2, "idle.worth", "without _"),
        ("mode: ask\n---\nmode: auto", 2, "", "another document"),
        ("mode: ask\n\toops: 1", 2, "", "cannot start any token"),
        ("\n- list", 2, "", "must be a mapping"),
        ("!!python/object:os.system {}", 1, "", "has the tag !!python/object:os.system"),
        ("mode: ask\nidle: {<<: [1]}", 2, "idle.<<", "merges mappings only"),
        ("mode: ask\nidle: {<<: {}, <<: {}}", 2, "idle.<<", "stands twice"),
    ],
)
def test_odd_text_is_refused_by_line_and_soon(
    text: str, line: int | None, path: str, said: str
) -> None:
    """Functions catch `PolicyError` alone, to free locks and tell people; and they must not
    hang."""
    began = process_time()
    found = problems(text)

    assert [path] == [one.path for one in found]
    assert said in found[0].reason
    assert line in (found[0].line, None)
    assert process_time() - began < 5


@pytest.mark.parametrize("text", ["mode: ask\n0120: x", "mode: ask\n!!set x: 1", "mode: ask\n5: x"])
def test_a_key_that_is_no_text_is_one_mistake(text: str) -> None:
    """Its reason is the first one that was found."""
    (problem,) = problems(text)
    assert 2 == problem.line


def test_a_repeated_key_is_named_where_it_stands_again() -> None:
    """Each of them, at any depth."""
    text = "idle:\n  window_minutes: 60\n  window_minutes: 30\nmode: ask\nmode: auto\n"

    assert (
        PolicyProblem("idle.window_minutes", "stands twice, in line 2 and here", 3),
        PolicyProblem("mode", "stands twice, in line 4 and here", 5),
    ) == problems(text)


def test_aliases_and_merge_keys_are_for_use() -> None:
    """A mapping's own keys go first, then the earlier of what is merged."""
    document = read_document(
        "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\nd: *b\ne: "
        "{<<: *b, y: 4}\n"
    )

    assert {"x": 1, "y": 1, "z": 3} == document.settings["c"]
    assert {"y": 2, "z": 2} == document.settings["d"]
    assert {"y": 4, "z": 2} == document.settings["e"]
    # A mistake in what is merged or aliased is mended where it is written.
    assert (1, 4, 2) == tuple(document.line(path) for path in (("c", "x"), ("c", "z"), ("d", "z")))


def test_a_line_is_found_for_every_path() -> None:
    """The line of the key if the value begins below it; of the section if there is no such
    setting."""
    document = read_document("a:\n  b: 1\nc:\n  - d: 2\n")
    paths = [("a",), ("a", "b"), ("a", "x"), ("c",), ("c", "0"), ("c", "0", "d", "e"), ("x",), ()]

    assert [1, 2, 1, 3, 4, 4, None, None] == [document.line(path) for path in paths]


def test_what_only_yaml_1_1_takes_for_something_else_is_text() -> None:
    """Editors go by YAML 1.2: dates, times of the day and words are what they look like."""
    text = (
        "{a: 2026-01-31, b: 18:00, c: off, d: yes, e: =, f: <<, g: true, h: 1, i: 1.5, "
        "j: ~, k: 'true', "
        "l: 0, m: -0.5, n: 0x1f, o: '0120', p: a_0}"
    )

    assert {
        "a": "2026-01-31",
        "b": "18:00",
        "c": "off",
        "d": "yes",
        "e": "=",
        "f": "<<",
        "g": True,
        "h": 1,
        "i": 1.5,
        "j": None,
        "k": "true",
        "l": 0,
        "m": -0.5,
        "n": 31,
        "o": "0120",
        "p": "a_0",
    } == dict(read_document(text).settings)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null", "\ufeff"])
def test_no_settings_are_a_document(text: str) -> None:
    """All defaults."""
    assert {} == read_document(text).settings
