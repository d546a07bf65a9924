"""The kinds of a chart differ for every reader: by contrast, also with a color vision deficiency,
and by pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations, pairwise

import pytest

from governor.console.formats import TEMPLATES
from governor.console.views.instance_strip import KINDS as STRIP
from governor.console.views.overview import _KINDS as STACK

STYLE = str(TEMPLATES.globals["style"])
LEAST = 3.0
"""The contrast of graphical objects. Source: WCAG 2.2, 1.4.11."""
Color = tuple[float, float, float]
SIGHTS: Mapping[str, tuple[Color, Color, Color]] = {
    "typical": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Linear RGB as each kind of sight mixes it. Source: Machado, Oliveira, Fernandes 2009, severity
1."""


def values(scheme: str) -> dict[str, str]:
    """The variables of a scheme, by name."""
    found: dict[str, str] = {}
    for block in re.finditer(r"(@media \([^)]*\) \{\s*)?:root \{([^}]*)\}", STYLE):
        if block[1] is None or scheme in block[1]:
            found.update(re.findall(r"--([\w-]+): ([^;]+);", block[2]))
    return found


def kind_of(kind: str) -> dict[str, str]:
    """The variables of a kind in the style sheet: of its fill, its line and its pattern."""
    name = re.escape(kind.replace(" ", "-"))
    found: dict[str, str] = {}
    for rule in re.finditer(rf"(?:^|[\s,}}]|, )\.{name}(?:, \.[\w-]+)* \{{([^}}]*)\}}", STYLE):
        found.update(re.findall(r"--(kind|line|pattern): (?:var\(--)?([^;)]+)", rule[1]))
    return found


def seen(code: str, sight: str) -> Color:
    """A color of the style sheet in linear RGB, as this sight mixes it."""
    channels = [int(code[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    red, green, blue = (
        min(1.0, max(0.0, sum(part * one for part, one in zip(row, linear, strict=True))))
        for row in SIGHTS[sight]
    )
    return red, green, blue


def contrast(first: Color, second: Color) -> float:
    lights = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (first, second))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neighbors_of_a_stack_differ_in_contrast(scheme: str, sight: str) -> None:
    """3:1 for each sight; the line around a kind, or its fill, differs as much from the ground."""
    colors = values(scheme)
    for lower, upper in pairwise(STACK):
        fills = [seen(colors[kind_of(kind)["kind"]], sight) for kind in (lower, upper)]
        assert contrast(*fills) >= LEAST, (lower, upper)
    ground = seen(colors["ground"], sight)
    for kind in {*STACK, *STRIP}:
        own = [seen(colors[kind_of(kind)[part]], sight) for part in ("kind", "line")]
        assert max(contrast(one, ground) for one in own) >= LEAST, kind
        assert kind == "used" or contrast(*own) >= LEAST, kind


@pytest.mark.parametrize("kinds", [STACK, STRIP])
def test_all_kinds_of_a_chart_differ_in_pattern(kinds: tuple[str, ...]) -> None:
    """Any two may be neighbors where those between are zero. One kind at most has no pattern."""
    for first, second in combinations(kinds, 2):
        assert kind_of(first).get("pattern") != kind_of(second).get("pattern"), (first, second)


def test_forced_colors_are_those_of_the_system() -> None:
    """Neighbors alternate between text and ground, which the reader's own theme keeps apart."""
    colors = values("forced-colors")
    for kind in {*STACK, *STRIP}:
        fill, line = (colors[kind_of(kind)[part]] for part in ("kind", "line"))
        assert {fill, line} <= {"Canvas", "CanvasText"}, kind
    for lower, upper in pairwise(STACK):
        assert colors[kind_of(lower)["kind"]] != colors[kind_of(upper)["kind"]], (lower, upper)
