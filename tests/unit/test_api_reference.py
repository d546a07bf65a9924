"""The page of the HTTP API is generated, and says all of its OpenAPI document."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scripts.api_reference import DOCUMENT, METHODS, PAGE, page

OPENAPI: dict[str, Any] = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_that_of_the_document() -> None:
    """`make fix` writes it."""
    assert page(OPENAPI) == TEXT


def test_every_operation_has_a_section() -> None:
    """With each of its answers."""
    operations = [
        (path, method)
        for path, entry in OPENAPI["paths"].items()
        for method in METHODS
        if method in entry
    ]
    known = {key for entry in OPENAPI["paths"].values() for key in entry}

    assert known <= {*METHODS, "parameters"}
    assert [] == [
        (path, method)
        for path, method in operations
        if f"### `{method.upper()} {path}`\n" not in TEXT
    ]


def test_every_document_has_a_section() -> None:
    """Links to documents lead there."""
    assert [] == [name for name in OPENAPI["components"]["schemas"] if f"### {name}\n" not in TEXT]


def test_an_operation_outside_of_the_chapters_is_noticed() -> None:
    """A new tag must get a title."""
    document = {
        "tags": [],
        "paths": {"/x": {"get": {"tags": ["new"], "summary": "New.", "responses": {}}}},
        "components": {"schemas": {}},
    }
    with pytest.raises(KeyError, match="new"):
        page(document)
