"""Names, states and next steps in cells: where they may break."""

from __future__ import annotations

import pytest

from governor.console.cells import name_html, next_html, state_html


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notebook-7", "<bdi>notebook-7</bdi>"),
        ("link:alice@example.com", '<bdi class="name">link:<wbr>alice@<wbr>example.<wbr>com</bdi>'),
        ("a" * 21, f'<bdi class="long">{"a" * 21}</bdi>'),
        ("<b>&", "<bdi>&lt;b&gt;&amp;</bdi>"),
        (
            "<script>alert(1)</script>:x",
            '<bdi class="name">&lt;script&gt;alert(1)&lt;/<wbr>script&gt;:<wbr>x</bdi>',
        ),
    ],
)
def test_a_name_breaks_after_its_marks_alone(name: str, expected: str) -> None:
    """Unless a piece of it is longer than a column: that one breaks anywhere."""
    assert expected == name_html(name)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("idle 6 h 40 min", "idle 6 h 40 min"),
        ("stopped by GPU Governor", "stopped <wbr>by GPU Governor"),
        ("partly idle: 7 of 8 GPUs", "partly idle: <wbr>7 of 8 <wbr>GPUs"),
        ("a<b>", "a&lt;b&gt;"),
        ("a: <b> c", "a: <wbr>&lt;b&gt; <wbr>c"),
    ],
)
def test_a_state_breaks_before_by_and_around_its_number_alone(words: str, expected: str) -> None:
    """A column of a screen of 1,024 points is narrower than the number of NeuronCores."""
    assert expected == state_html(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "checked again Sun Nov 29, 16:02 Berlin (15:02 UTC)",
            "checked again Sun~Nov~29, <wbr>16:02 Berlin (15:02 UTC)",
        ),
        ("kept until Sun 13:02 Berlin", "kept until Sun 13:02 Berlin"),
        ("left alone (a<b> runs it)", "left alone (a&lt;b&gt; runs it)"),
    ],
)
def test_a_next_step_breaks_between_a_date_and_its_time(words: str, expected: str) -> None:
    """The date and the time stay whole: the last column of 1,024 points holds only one of them."""
    assert expected.replace("~", "&nbsp;") == next_html(words)
