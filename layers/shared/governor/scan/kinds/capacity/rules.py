"""The unused part of Capacity Reservations and Reserved Instances. Nothing here reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from governor.core.units import UtcDatetime
from governor.evidence.model import Series, Window


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
    """Return the free part of a reservation. `used` is how many instances ran in it at most, by the
    periods of the window; the newest of these, as long as `counting`, decide how many were free all
    the time. Those are free since the last period in which more ran, or since the first reading.

    Without any reading it is not measured: EC2's `free_now` counts, and since when is not known.
    """
    readings_by_bin = {index: value for index, value in enumerate(used) if value is not None}
    if not readings_by_bin:
        return FreePart(free_now, None, is_measured=False)
    first_that_counts = window.bins - counting // window.period
    newest = [value for index, value in readings_by_bin.items() if index >= first_that_counts]
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


def unused_by_id(
    purchases: Sequence[Reserved], uses: Iterable[Use], vcpus_by_type: Mapping[str, int | None]
) -> dict[str, int]:
    """Return how many Reserved Instances of each purchase pay for nothing, by its id.

    A purchase for a zone pays for its own type there. One for the Region then pays for its own
    type, and what is left for other sizes of the family: AWS does that for some families only, so
    in doubt one counts as used.
    """
    left = Counter[tuple[str, str, str, str]]()
    for use in uses:
        left[use.instance_type, use.platform, use.tenancy, use.zone] += use.count
    unused: dict[str, int] = {}
    for purchase in sorted(purchases, key=_zonal_first):
        unused[purchase.reserved_id] = purchase.count - _take(left, purchase)
    for purchase in purchases:
        if unused[purchase.reserved_id] and not purchase.zone:
            absorbed = _take_sizes(left, purchase, unused[purchase.reserved_id], vcpus_by_type)
            unused[purchase.reserved_id] -= absorbed
    return unused


def _zonal_first(purchase: Reserved) -> bool:
    """Return what purchases are sorted by: those for a zone come first."""
    return not purchase.zone


def _take(left: Counter[tuple[str, str, str, str]], purchase: Reserved) -> int:
    """Return how many instances of its own type a purchase pays for, and take them out of what is
    left."""
    taken = 0
    for key in sorted(left):
        instance_type, platform, tenancy, zone = key
        is_own = (instance_type, platform, tenancy) == (
            purchase.instance_type,
            purchase.platform,
            purchase.tenancy,
        )
        if is_own and purchase.zone in ("", zone):
            number = min(left[key], purchase.count - taken)
            left[key] -= number
            taken += number
    return taken


def _take_sizes(
    left: Counter[tuple[str, str, str, str]],
    purchase: Reserved,
    most: int,
    vcpus_by_type: Mapping[str, int | None],
) -> int:
    """Return how many of a purchase may pay for other sizes of the family, of the same platform and
    tenancy: `most` at most. The instances that these pay for, counted in vCPUs, are taken out of
    what is `left`.

    If the vCPUs of a size in use or of the purchase are not known, all `most` may pay for it;
    `left` then keeps it.
    """
    family = purchase.instance_type.partition(".")[0]
    vcpus_of_one = vcpus_by_type.get(purchase.instance_type)
    vcpus = 0
    for key in sorted(left):
        instance_type, platform, tenancy, _ = key
        is_same_family = instance_type.partition(".")[0] == family
        if not is_same_family or (platform, tenancy) != (purchase.platform, purchase.tenancy):
            continue
        vcpus_of_other = vcpus_by_type.get(instance_type)
        if left[key] and (vcpus_of_one is None or vcpus_of_other is None):
            return most
        while left[key] and vcpus_of_one and vcpus < most * vcpus_of_one:
            left[key] -= 1
            vcpus += vcpus_of_other or 0
    if vcpus_of_one is None:
        return 0
    return min(most, ceil(vcpus / vcpus_of_one))
