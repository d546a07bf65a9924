"""Names the Regions, instance families and units of a policy that this release does not know.

A name that is not known may be a typing error, or newer than the data of this release. So `policy
check` warns of it, asks what was meant, and never refuses it. The data are botocore's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from botocore.loaders import Loader

from cli.nearest import nearest
from governor.core.catalog import accelerated_types, families
from governor.core.regions import (
    fits_a_partition,
    is_known,
    is_region,
    known_regions,
    partition_of,
)
from governor.core.units import listed
from governor.policy.yaml_document import Document, Path

OddName = tuple[Path, str]
"""The path of a name in the document, and why it may be wrong."""
_ALL_OTHERS = "all"
"""The key of `prices.discount_percent` for all families that it does not name."""


def odd_names(document: Document) -> Iterator[OddName]:
    """Yield each name that may be wrong, with its path. The document was read without mistakes."""
    yield from _of_settings(document.settings, ())
    yield from _of_targets(document.settings.get("targets") or {})
    for index, override in enumerate(document.settings.get("overrides") or ()):
        path = ("overrides", str(index))
        yield from _of_settings(override.get("set") or {}, (*path, "set"))
        match = override.get("match") or {}
        yield from _each(match, "regions", (*path, "match"), _region_problem)
        yield from _each(match, "instance_families", (*path, "match"), _family_problem)


def _of_settings(settings: Mapping[str, Any], path: Path) -> Iterator[OddName]:
    """Yield the odd names of a document, or of the settings that an override changes."""
    for section, field, problem in _PLACES:
        values = settings.get(section) or {}
        yield from _each(values, field, (*path, section), problem)


def _each(
    section: Mapping[str, Any], field: str, path: Path, problem: Callable[[str], str]
) -> Iterator[OddName]:
    """Yield the problem of each name in a field: a text, a list, or a mapping by names."""
    value = section.get(field)
    if isinstance(value, str):
        reason = problem(value)
        if reason:
            yield (*path, field), reason
        return
    is_mapping = isinstance(value, Mapping)
    for index, name in enumerate(value or ()):
        reason = problem(str(name))
        if reason:
            yield (*path, field, str(name) if is_mapping else str(index)), reason


def _region_problem(region: str) -> str:
    """Return why the Region may be wrong; an empty text if botocore lists it."""
    if is_known(region):
        return ""
    meant = nearest(region, known_regions())
    if not is_region(region):
        return f"{region} is no code of a Region{meant or ', such as us-east-1'}"
    if not fits_a_partition(region):
        return f"{region} is in no partition of AWS that this release knows{meant}"
    return f"{region} is no Region that this release knows{meant}"


def _type_problem(instance_type: str) -> str:
    """Return why the instance type may be wrong; an empty text if it is known."""
    family = instance_type.partition(".")[0]
    family_problem = _family_problem(family)
    if family_problem or instance_type in accelerated_types() or instance_type in _types_of_ec2():
        return family_problem
    of_family = [name for name in _types_of_ec2() if name.startswith(f"{family}.")]
    meant = nearest(instance_type, of_family)
    return f"{instance_type} is no instance type that this release knows{meant}"


def _family_problem(family: str) -> str:
    """Return why the instance family may be wrong; an empty text if it is known."""
    if family == _ALL_OTHERS or family in families():
        return ""
    if family in _families_of_ec2():
        return ""
    meant = nearest(family, families()) or nearest(family, _families_of_ec2())
    return f"{family} is no instance family that this release knows{meant}"


@cache
def _families_of_ec2() -> tuple[str, ...]:
    """Return the families of all types that botocore knows."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in _types_of_ec2()))


@cache
def _types_of_ec2() -> tuple[str, ...]:
    """Return all types that botocore knows."""
    model = Loader().load_service_model("ec2", "service-2")
    return tuple(model["shapes"]["InstanceType"]["enum"])


_PLACES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("targets", "regions", _region_problem),
    ("events", "spot_price_regions", _region_problem),
    ("prices", "usd_per_hour", _type_problem),
    ("prices", "discount_percent", _family_problem),
    ("advice", "cpu_family", _family_problem),
    ("advice", "old_families", _family_problem),
    ("advice", "newer_families", _family_problem),
)
"""The settings that hold names: their section, their name, and the check of each name."""


def _of_targets(targets: Mapping[str, Any]) -> Iterator[OddName]:
    """Yield what cannot all be right of the Regions and units together."""
    regions: Sequence[str] = targets.get("regions") or ()
    partitions = {partition_of(region): region for region in reversed(regions)}
    if len(partitions) > 1:
        places = listed([f"{region} ({name})" for name, region in partitions.items()], 5)
        yield (
            ("targets", "regions"),
            f"they are in several partitions of AWS, and a stack reaches only its own: {places}",
        )
    units: Sequence[str] = targets.get("units") or ()
    left_out: Sequence[str] = targets.get("without_units") or ()
    for index, unit in enumerate(units):
        if unit in left_out:
            path = ("targets", "units", str(index))
            yield path, f"{unit} is in targets.without_units, too, so none of its accounts is swept"
    yield from _of_other_roots(units, left_out)
    yield from _of_places_left_out(targets)


def _of_places_left_out(targets: Mapping[str, Any]) -> Iterator[OddName]:
    """Yield each place of `targets.without` that is no target in any case: nothing is left out
    there. Its account counts only where no units are named, as their accounts are not known here.
    """
    accounts: Sequence[str] = targets.get("accounts") or ()
    regions: Sequence[str] = targets.get("regions") or ()
    for index, place in enumerate(targets.get("without") or ()):
        path = ("targets", "without", str(index))
        region = place["region"]
        region_problem = _region_problem(region)
        if region_problem:
            yield (*path, "region"), region_problem
        elif regions and region not in regions:
            yield path, f"{region} is not in targets.regions, so nothing is left out there"
        account = place["account"]
        if accounts and not targets.get("units") and account not in accounts:
            yield path, f"{account} is not in targets.accounts, so nothing is left out there"


def _of_other_roots(units: Sequence[str], left_out: Sequence[str]) -> Iterator[OddName]:
    """Yield the units whose IDs do not hold the root of most others: an organization has one.

    Source: AWS Organizations API, OrganizationalUnit.
    """
    placed = []
    for index, unit in enumerate(units):
        placed.append((("targets", "units", str(index)), unit))
    for index, unit in enumerate(left_out):
        placed.append((("targets", "without_units", str(index)), unit))
    counts = Counter(_root_of(unit) for _, unit in placed)
    if len(counts) < 2:
        return
    [(most_common, _)] = counts.most_common(1)
    for path, unit in placed:
        if _root_of(unit) != most_common:
            yield path, f"{unit} is in another organization than those under r-{most_common}"


def _root_of(unit: str) -> str:
    """Return the root in the ID of a unit, as of `ou-ROOT-UNIT`, or of the root itself."""
    return unit.split("-")[1]
