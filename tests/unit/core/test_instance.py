"""The name of an instance: whoever may tag can write anything into its name."""

from __future__ import annotations

import pytest

from tests.builders import make_instance


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("notebook", "notebook"),
        ("  two\twords  ", "two words"),
        ("mine\nLook and decide: elsewhere", "mine Look and decide: elsewhere"),
        ("a\r\nBcc: somebody", "a Bcc: somebody"),
        ("abc\u202etxt.exe", "abc txt.exe"),
        ("\u2066hidden\u2069", "hidden"),
        ("\x1b[2Jgone", "[2Jgone"),
        ("训练-1 é", "训练-1 é"),
        ("\u200b\n", "i-0123456789abcdef0"),
        ("", "i-0123456789abcdef0"),
    ],
)
def test_a_name_is_one_printable_line(tag: str, name: str) -> None:
    """No line of its own in a mail, no turned direction on the page where people decide."""
    assert name == make_instance(tags={"Name": tag}).name
