"""The unused part of Capacity Reservations and Reserved Instances. Nothing here reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil, inf
from typing import NamedTuple

from governor.core.units import UtcDatetime
from governor.evidence.model import Series, Window

_MINIMUM_COVERAGE_PERCENT = 80
"""With fewer readings an hour of full use may be missing."""


@dataclass(frozen=True, slots=True)
class FreePart:
    """The instances of a reservation that nobody used, now and over the last hours."""

    count: int
    """Free now, and at any time of the last hours; zero if all were used at some time."""
    since: UtcDatetime | None
    """Since when so many are free, as far back as was measured; `None` if nothing was."""
    is_measured: bool
    """False if CloudWatch had no figures: `count` is EC2's own of this moment."""


def free_part(
    total: int, free_now: int, used: Series, window: Window, counting: timedelta
) -> FreePart:
    """Return the free part of a reservation. `used` is how many instances ran in it at most, by
    the periods of the window; the newest of these, as long as `counting`, decide."""
    readings_by_bin = {index: value for index, value in enumerate(used) if value is not None}
    if not readings_by_bin:
        return FreePart(free_now, None, is_measured=False)
    first_that_counts = window.bins - counting // window.period
    newest = [value for index, value in readings_by_bin.items() if index >= first_that_counts]
    if 100 * len(newest) < _MINIMUM_COVERAGE_PERCENT * (counting // window.period):
        # Older readings say nothing of the hours that decide.
        return FreePart(free_now, None, is_measured=False)
    most_used = ceil(max(newest, default=0))
    count = max(0, min(free_now, total - most_used))
    fuller = [index for index, value in readings_by_bin.items() if value > total - count]
    since = window.start + window.period * min(readings_by_bin)
    if fuller:
        since = window.bin_end(max(fuller))
    return FreePart(count, since, is_measured=True)


@dataclass(frozen=True, slots=True)
class Reserved:
    """A purchase of Reserved Instances. An empty zone means the whole Region."""

    reserved_id: str
    instance_type: str
    platform: str
    zone: str
    tenancy: str
    count: int


@dataclass(frozen=True, slots=True)
class Use:
    """Instances that Reserved Instances pay for: running ones, or free ones of a reservation. An
    empty zone is that of no zonal purchase."""

    instance_type: str
    platform: str
    zone: str
    tenancy: str
    count: int = 1


class _Family(NamedTuple):
    """Instances that one purchase for a Region may pay for."""

    name: str
    platform: str
    tenancy: str


def unused_by_id(
    purchases: Sequence[Reserved], uses: Iterable[Use], vcpus_by_type: Mapping[str, int | None]
) -> dict[str, int]:
    """Return how many Reserved Instances of each purchase pay for nothing, by its id.

    A purchase for a zone pays for its own type there. One for the Region then pays for its own
    type, and what is left for other sizes of the family: AWS does that for some families only, so
    in doubt one counts as used.
    """
    uses_left = [*uses]
    unused: dict[str, int] = {}
    for purchase in sorted(purchases, key=_zonal_first):
        paid = _paid_of_own_type(uses_left, purchase)
        unused[purchase.reserved_id] = purchase.count - paid
    vcpus_left = _vcpus_by_family(uses_left, vcpus_by_type)
    for purchase in purchases:
        if purchase.zone:
            continue
        most = unused[purchase.reserved_id]
        vcpus = vcpus_by_type.get(purchase.instance_type)
        unused[purchase.reserved_id] -= _paid_of_other_sizes(vcpus_left, purchase, most, vcpus)
    return unused


def _zonal_first(purchase: Reserved) -> bool:
    """Return what purchases are sorted by: those for a zone come first."""
    return not purchase.zone


def _paid_of_own_type(uses_left: list[Use], purchase: Reserved) -> int:
    """Return how many instances of its own type a purchase pays for, and take them out of the uses
    that are left."""
    paid = 0
    own = (purchase.instance_type, purchase.platform, purchase.tenancy)
    for index, use in enumerate(uses_left):
        is_own = (use.instance_type, use.platform, use.tenancy) == own
        if is_own and purchase.zone in ("", use.zone):
            number = min(use.count, purchase.count - paid)
            uses_left[index] = replace(use, count=use.count - number)
            paid += number
    return paid


def _vcpus_by_family(
    uses: Iterable[Use], vcpus_by_type: Mapping[str, int | None]
) -> defaultdict[_Family, float]:
    """Return the vCPUs of these uses by family: without end if those of a type are not known."""
    vcpus_left: defaultdict[_Family, float] = defaultdict(float)
    for use in uses:
        if use.count:
            vcpus = vcpus_by_type.get(use.instance_type)
            vcpus_left[_family_of(use)] += inf if vcpus is None else use.count * vcpus
    return vcpus_left


def _paid_of_other_sizes(
    vcpus_left: defaultdict[_Family, float], purchase: Reserved, most: int, vcpus: int | None
) -> int:
    """Return how many of a purchase, `most` at most, may pay for other sizes of its family, and
    take their `vcpus` out of those that are left. If they are not known, all may."""
    family = _family_of(purchase)
    if not vcpus_left[family]:
        return 0
    if vcpus is None:
        return most
    paid = ceil(min(most, vcpus_left[family] / vcpus))
    vcpus_left[family] = max(0.0, vcpus_left[family] - paid * vcpus)
    return paid


def _family_of(instances: Reserved | Use) -> _Family:
    """Return the family of the type, with platform and tenancy."""
    name = instances.instance_type.partition(".")[0]
    return _Family(name, instances.platform, instances.tenancy)
