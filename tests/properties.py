"""How often a property is tried: with few examples in `make test`, with many in `make soak`.

`make soak` sets GOVERNOR_PROPERTIES=long and runs every property of Hypothesis, which is what
`pytest -m hypothesis` selects, and what bears the mark `repeats`.
"""

from __future__ import annotations

import os

IS_LONG = os.environ.get("GOVERNOR_PROPERTIES") == "long"
FEW = 15
MANY = 500
"""Examples of a property that says nothing else."""


def step(sampled: int) -> int:
    """Return the step through a row of cases: each of them in a long run, one in so many else."""
    return 1 if IS_LONG else sampled


def examples(few: int, many: int) -> int:
    """Return how many examples to try in this run."""
    return many if IS_LONG else few
