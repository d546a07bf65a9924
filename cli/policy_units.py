"""Names the metrics of a policy whose names say another unit than the one in which they are read.

`policy check` warns of them. It never refuses one, because a name may mislead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import PROFILES

_SHARE = frozenset({"ratio", "share", "fraction"})
_PERCENT = frozenset({"percent", "percentage", "pct", "util", "utilization"})
_KILOWATTS = frozenset({"kw", "kilowatt", "kilowatts"})
_MILLIWATTS = frozenset({"mw", "milliwatt", "milliwatts"})
_ENERGY = frozenset({"joule", "joules", "kwh", "energy"})
_BYTES = frozenset({"bytes", "gib", "gb", "kib", "kb"})


class _Unit(NamedTuple):
    """The unit in which a setting of `metrics` is read."""

    setting: str
    words: str
    other_units: frozenset[str]
    """Words in the name of a metric that say another unit."""
    effect: str
    """The effect of a metric in another unit, as people read it."""


_UNITS = (
    _Unit(
        "power_draw",
        "watts",
        _SHARE | _PERCENT | _KILOWATTS | _MILLIWATTS | _ENERGY,
        "a busy GPU may seem to draw little power",
    ),
    _Unit(
        "memory_used",
        "MiB",
        _SHARE | _PERCENT | _BYTES,
        "memory that is held may seem released",
    ),
    _Unit("encoder_utilization", "percent", _SHARE, "encoding may not count as work"),
    _Unit("decoder_utilization", "percent", _SHARE, "decoding may not count as work"),
)


def unit_warnings(policy: Policy) -> Iterator[str]:
    """Yield a sentence for each metric whose name says another unit, with its setting."""
    for unit in _UNITS:
        name = getattr(policy.metrics, unit.setting)
        if name in _known_names(unit.setting):
            continue
        wrong_words = sorted(_words(name) & unit.other_units)
        if wrong_words:
            yield (
                f"metrics.{unit.setting}: {name} is read as {unit.words}, and its name says "
                f"{wrong_words[0]!r}: {unit.effect}; name a metric in {unit.words}"
            )


def _known_names(setting: str) -> frozenset[str]:
    """Return the names whose unit a profile knows: the default, and those of publishers."""
    known = {getattr(Metrics(), setting)}
    for profile in PROFILES:
        if setting == "power_draw" and profile.power:
            known.add(profile.power)
        if setting == "memory_used" and profile.memory:
            known.add(profile.memory)
    return frozenset(known)


def _words(name: str) -> frozenset[str]:
    """Return the words of a metric's name in small letters: of `gpu_power_kW` and
    `GPUPowerPercent` also `kw` and `percent`."""
    parts = re.split(r"[^A-Za-z]+", name)
    words = {part.lower() for part in parts}
    for part in parts:
        words |= {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part)}
    return frozenset(words)
