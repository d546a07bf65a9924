"""Rules of `governor advice`, from the weeks of an instance: each is a pure function, and none
acts.

No rule advises about what was not measured, and an amount that is not known is `None`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import fmean
from zoneinfo import ZoneInfo

from governor.alerts.model import Owner
from governor.alerts.templates import template_lines
from governor.core.catalog import accelerated_types, shape_of
from governor.core.instance import (
    CHECKPOINT_TAG,
    Instance,
    Lifecycle,
    Shape,
    tag_command,
)
from governor.core.managers import managed_by
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour, listed, money, plural, usd
from governor.episode.model.plan import Price
from governor.health.model import Bottleneck
from governor.health.rules import classify_bottleneck
from governor.policy.model.money import Advice as Rule
from governor.policy.model.names import TagMatch
from simulation.past import Past

_NAMED = 3
"""How many types are named, the cheapest first."""
_VCPUS_PER_XLARGE = 4
"""vCPUs per xlarge of every accelerated type so far. Source: EC2 instance types, vCPUs by size."""
_SIZES = (
    "large",
    "xlarge",
    "2xlarge",
    "4xlarge",
    "8xlarge",
    "12xlarge",
    "16xlarge",
    "24xlarge",
    "48xlarge",
)
"""Sizes of CPU families such as m7i, the smallest first."""
_PORTS = ("inf2", "trn1")
# Rules of thumb. Each advice says what was measured, so its reader can judge.
_STEADY_FROM_PERCENT = 60.0
"""Share of an instance's hours with GPU work from which the work is steady."""
_CPU_WORKS_FROM_PERCENT = 20.0
"""CPU utilization from which an instance without GPU work still works."""
_INFERENCE_BELOW_PERCENT = 30.0
"""Mean utilization at work under which a P type may serve inference that a smaller type could
serve."""
_FULL_MEMORY_ABOVE_PERCENT = 90.0
"""GPU memory is short above this peak."""
_BURST_AT_MOST_HOURS = 24
"""Longest stretch of GPU work that Spot is proposed for."""
_HOURS_A_DAY = 24
_WEEKDAYS = 5


@dataclass(frozen=True, slots=True)
class Advice:
    """One proposal. `subject` is an instance, a group or a reservation; `usd_per_month` is `None`
    if it is not known. It rests on `weeks` that were read, and on `percent_measured`, the share of
    the hours in which every GPU was measured."""

    kind: str
    subject: str
    account: str
    region: str
    instance_type: str
    usd_per_month: Usd | None
    weeks: int
    percent_measured: int
    text: str
    command: str = ""
    name: str = ""
    owner: str = ""

    @property
    def advice_id(self) -> str:
        """Return the id by which people dismiss it."""
        return f"{self.kind}:{self.subject}"

    @property
    def document(self) -> dict[str, object]:
        """Return it as a JSON document, with the amount as text."""
        amount = None
        if self.usd_per_month is not None:
            amount = money(self.usd_per_month).replace(",", "")
        return {"id": self.advice_id, **asdict(self), "usd_per_month": amount}


def of_instance(past: Past) -> list[Advice]:
    """Return what the rules advise for one instance, without savings known to be too small. Return
    an empty list if it was not measured for long enough."""
    if not is_known(past):
        return []
    return worthwhile(past.policy.advice, [advise(past) for advise in _OF_INSTANCES])


def is_known(past: Past) -> bool:
    """Return whether it was measured for long enough, and in enough of its hours."""
    rule = past.policy.advice
    has_weeks = past.weeks >= rule.minimum_weeks
    return has_weeks and past.measured_percent >= rule.minimum_measured_percent


def worthwhile(rule: Rule, candidates: Iterable[Advice | None]) -> list[Advice]:
    """Return the advice that there is, without any that is known to save too little."""
    least = rule.minimum_usd_per_month
    kept = []
    for advice in candidates:
        if advice is None:
            continue
        if advice.usd_per_month is None or advice.usd_per_month >= least:
            kept.append(advice)
    return kept


def smaller_type(past: Past) -> Advice | None:
    """Advise a type with fewer of the same GPUs if some never worked, and the peaks of memory and
    CPU fit."""
    shape = past.shape
    if shape is None or not past.is_by_gpu or shape.accelerator_count is None:
        return None
    count = shape.accelerator_count
    accelerator = shape.accelerator
    used = _gpus_used(past)
    if not 0 < used < count:
        return None

    def has_fewer_of_the_same(candidate: Shape) -> bool:
        return candidate.accelerator == accelerator and (candidate.accelerator_count or 0) < count

    fits = _that_fit(past, used, has_fewer_of_the_same)
    verb = "was" if used == 1 else "were"
    return _to_types(past, "smaller-type", f"Only {used} of {count} GPUs {verb} ever in use", fits)


def newer_type(past: Past) -> Advice | None:
    """Advise a newer family for an old one, or a smaller one for a P type that looks like
    inference."""
    rule = past.policy.advice
    family = past.instance.family
    is_old = family in rule.old_families
    percent_at_work = _mean_at_work(past)
    is_little_used = percent_at_work is not None and percent_at_work < _INFERENCE_BELOW_PERCENT
    looks_like_inference = family.startswith("p") and is_little_used
    if not (is_old or looks_like_inference) or not past.worked:
        return None
    fits = _that_fit(past, _used(past), lambda shape: _family(shape) in rule.newer_families)
    if is_old:
        seen = f"{family} is an old generation"
    else:
        seen = (
            f"at work its GPUs are {percent_at_work:.0f}% busy; if it serves inference, it needs "
            f"no {family}"
        )
    return _to_types(past, "newer-type", seen, fits)


def port(past: Past) -> Advice | None:
    """Advise Trainium or Inferentia for steady work of NVIDIA GPUs: a port, and what it may
    cost."""
    rule = past.policy.advice
    percent_worked = 100 * len(past.worked) / len(past.measured)
    if past.shape is None or "NVIDIA" not in past.shape.accelerator:
        return None
    if percent_worked < _STEADY_FROM_PERCENT:
        return None
    fits = _that_fit(past, 1, lambda shape: _family(shape) in _PORTS, together=True)
    advice = _to_types(past, "port", f"GPUs are in use in {percent_worked:.0f}% of its hours", fits)
    if advice is None or advice.usd_per_month is None:
        return None
    worth = usd(advice.usd_per_month * rule.port_pays_within_months)
    months = plural(rule.port_pays_within_months, "month")
    text = (
        f"{advice.text} It needs a port to the Neuron SDK, and to be as fast there: a port "
        f"that costs less than {worth} pays within {months}."
    )
    return replace(advice, text=text)


def cpu_type(past: Past) -> Advice | None:
    """Advise a type without GPUs if none ever worked and the CPUs did."""
    rule = past.policy.advice
    hours_of_work = sum(percent >= _CPU_WORKS_FROM_PERCENT for percent in past.cpu)
    vcpus = vcpus_of(past.instance.instance_type)
    if past.worked or not hours_of_work or vcpus is None:
        return None
    size = _smallest_size(vcpus)
    if size is None:
        return None
    price: UsdPerHour | None = rule.cpu_usd_per_vcpu_hour * (vcpus_of(size) or 0)
    if past.instance.lifecycle is not Lifecycle.ON_DEMAND:
        price = None
    percent_of_hours = 100 * hours_of_work // len(past.ran)
    text = (
        f"No GPU reached {past.policy.idle.utilization_below_percent:g}%, and CPUs worked in "
        f"{percent_of_hours}% of its hours: {rule.cpu_family}.{size} has as many vCPUs. "
        "Check the memory of the host, which is not measured"
    )
    return advice_of(past, "cpu-type", _saving(past, price), text)


def _smallest_size(vcpus: int) -> str | None:
    """Return the smallest size with so many vCPUs; `None` if none has."""
    for size in _SIZES:
        if (vcpus_of(size) or 0) >= vcpus:
            return size
    return None


def schedule(past: Past) -> Advice | None:
    """Advise office hours if GPUs only ever worked in one span of weekday hours, in the time zone
    of the owner."""
    instance = past.instance
    rule = past.policy.advice
    if not past.worked or not _can_follow_a_schedule(past):
        return None
    local_time = {hour: _local(past, hour) for hour in past.ran}
    office_hours = _office_hours(past, local_time)
    if office_hours is None:
        return None
    first, last = office_hours
    free_hours = _free_hours(past, local_time, first, last)
    if not free_hours:
        return None
    saved = None
    if past.price.usd_per_hour is not None:
        saved = _a_month(past, past.price.usd_per_hour, free_hours)
    text = (
        f"GPUs worked only on weekdays from {first:02d}:00 to {last:02d}:00 "
        f"{past.owner.time_zone}. Give the schedule {rule.schedule_name} of Instance Scheduler "
        "on AWS these hours, and set its tag"
    )
    if past.shape is None or past.shape.local_nvme is not None:
        text += "; each stop wipes local disks"
    command = tag_command(
        instance.instance_id, instance.target.region, rule.schedule_tag_key, rule.schedule_name
    )
    return advice_of(past, "schedule", saved, text, command)


def _free_hours(past: Past, local_time: Mapping[int, datetime], first: int, last: int) -> int:
    """Return how many of the hours in which it ran and was not silent lie outside office hours."""
    free_hours = 0
    for hour, time in local_time.items():
        is_office_time = time.weekday() < _WEEKDAYS and first <= time.hour < last
        if hour not in past.silent and not is_office_time:
            free_hours += 1
    return free_hours


def _can_follow_a_schedule(past: Past) -> bool:
    """Return whether a stop saves money, and the instance can be stopped and is not managed."""
    instance = past.instance
    if instance.lifecycle is not Lifecycle.ON_DEMAND or instance.root_device_type != "ebs":
        return False
    return not managed_by(instance, past.policy.managed.tag_keys)


def _hour_of_end(time: datetime) -> int:
    """Return the full hour after an hour that begins at this time."""
    # In a zone of half hours, the hour of 17:30 ends at 18:30.
    return time.hour + (2 if time.minute else 1)


def _office_hours(past: Past, local_time: Mapping[int, datetime]) -> tuple[int, int] | None:
    """Return the hours of the day at which its work begins and ends; `None` if it worked on a
    weekend, or for longer than an office day."""
    times = [local_time[hour] for hour in past.worked]
    if any(time.weekday() >= _WEEKDAYS for time in times):
        return None
    first = min(time.hour for time in times)
    last = max(_hour_of_end(time) for time in times)
    if last - first > past.policy.advice.office_day_at_most_hours or last > _HOURS_A_DAY:
        return None
    return first, last


def bottleneck(past: Past) -> Advice | None:
    """Advise the first thing to change, by the class of the work, if GPUs that work do not reach
    the target, or only their speed limits it."""
    rule = past.policy.advice
    percent_at_work = _mean_at_work(past)
    if percent_at_work is None:
        return None
    target = f"{percent_at_work:.0f}% busy at work, where {rule.target_percent:g}% is the target"
    memory_percent = _used_memory_percent(past)
    if memory_percent is not None and memory_percent > _FULL_MEMORY_ABOVE_PERCENT:
        text = (
            f"GPU memory reaches {memory_percent:.0f}%, and GPUs are {target}. Lower precision, "
            "checkpoint activations or shard the model before the batch grows"
        )
        return advice_of(past, "memory-full", None, text)
    traffic = _mean_of(past.traffic, past.worked)
    if traffic is None:
        return None
    bound = classify_bottleneck(percent_at_work, traffic)
    words = "".join(template_lines("health advice", {"kind": bound}))
    if bound is Bottleneck.COMPUTE_BOUND:
        text = (
            f"GPUs are {target}, {bound.value}. {words} Lower precision may do the "
            "same work in less time"
        )
        return advice_of(past, bound.value, None, text)
    if percent_at_work >= rule.target_percent:
        return None
    saved = None
    if past.price.usd_per_hour is not None:
        # The same work takes fewer hours of GPUs at the target.
        spare = Decimal(str(round(1 - percent_at_work / rule.target_percent, 4)))
        saved = _a_month(past, past.price.usd_per_hour, len(past.worked)) * spare
    text = (
        f"GPUs are {target}, {bound.value} (memory traffic {traffic:.0f}%). {words} "
        "Saves up to that much"
    )
    return advice_of(past, bound.value, saved, text)


_OF_INSTANCES: tuple[Callable[[Past], Advice | None], ...] = (
    smaller_type,
    newer_type,
    port,
    cpu_type,
    schedule,
    bottleneck,
)


@dataclass(frozen=True, slots=True)
class SpotOffer:
    """The present price of Spot. `score`, from 1 to 10, says how likely EC2 has one of `types`;
    `None` if it is not known."""

    usd_per_hour: UsdPerHour
    zone: str
    types: tuple[str, ...]
    score: int | None = None


def asks_for_spot(past: Past) -> bool:
    """Return whether its work comes in bursts that survive an interruption: it runs On-Demand, no
    service manages it, and it has a checkpoint hook."""
    instance = past.instance
    is_on_demand = instance.lifecycle is Lifecycle.ON_DEMAND
    if not is_on_demand or instance.capacity_reservation_id:
        return False
    hook = instance.tags.get(CHECKPOINT_TAG, "").strip().lower()
    if hook not in ("hook", "signal") or managed_by(instance, past.policy.managed.tag_keys):
        return False
    if not past.worked or not is_known(past):
        return False
    bursts = _bursts(past)
    return len(bursts) > 1 and max(bursts) <= _BURST_AT_MOST_HOURS


def spot(past: Past, offer: SpotOffer) -> Advice | None:
    """Advise Spot for bursts with checkpoints if it costs less."""
    if not asks_for_spot(past):
        return None
    bursts = _bursts(past)
    score = "unknown" if offer.score is None else f"{offer.score} of 10"
    text = (
        f"GPUs work in {len(bursts)} bursts of {max(bursts)} h at the longest, and it "
        f"saves checkpoints: Spot costs {money(offer.usd_per_hour, 4)} USD an hour in "
        f"{offer.zone}; placement score of the Region {score}. Ask for "
        f"{listed(offer.types, 4)} at once; EC2 may take it back two minutes after a warning"
    )
    advice = advice_of(past, "spot", _saving(past, offer.usd_per_hour), text)
    kept = worthwhile(past.policy.advice, [advice])
    return kept[0] if kept else None


def ungoverned(
    instance: Instance, owner: Owner, selector: TagMatch, price: Price, creator: str | None
) -> Advice:
    """Return the advice to govern an accelerated instance: its monthly cost, and the tag to set."""
    target = instance.target
    usd_per_month = None
    if price.usd_per_hour is not None:
        usd_per_month = price.usd_per_hour * HOURS_PER_MONTH
    creator_text = f"Created by {creator}." if creator else "Creator unknown."
    text = f"It has accelerators but not the tag {selector}, so it is not governed. {creator_text}"
    return Advice(
        kind="ungoverned",
        subject=instance.instance_id,
        account=target.account,
        region=target.region,
        instance_type=instance.instance_type,
        usd_per_month=usd_per_month,
        weeks=0,
        percent_measured=0,
        text=text,
        command=tag_command(
            instance.instance_id, target.region, selector.tag_key, selector.tag_value
        ),
        name=instance.name,
        owner=owner.name,
    )


def vcpus_of(name: str) -> int | None:
    """Return the vCPUs of a type by its size, 4 for each `xlarge`; `None` for metal, and for a name
    without a size."""
    size = name.rpartition(".")[2]
    if size == "large":
        return _VCPUS_PER_XLARGE // 2
    number = size.removesuffix("xlarge")
    if number == size or (number and not number.isdecimal()):
        return None
    return _VCPUS_PER_XLARGE * int(number or 1)


def _that_fit(
    past: Past, used: int, wanted: Callable[[Shape], bool], *, together: bool = False
) -> list[Shape]:
    """Return cheaper types with so many GPUs or more, whose memory and vCPUs leave room over the
    peaks, the cheapest first. `together`: one GPU may hold the memory of several.

    All the memory must fit at once, as on the present type. Return an empty list if the memory of
    some GPU, the CPU or the price is not known: it is never assumed that a type fits.
    """
    price = past.price.usd_per_hour
    needs = _needs(past, used, together=together)
    if needs is None or price is None:
        return []
    priced_shapes = []
    for name in accelerated_types():
        shape = shape_of(name)
        if shape is None or not wanted(shape) or not needs.are_met_by(shape):
            continue
        other_price = past.price_of(name)
        if other_price is not None and other_price < price:
            priced_shapes.append((other_price, shape))
    priced_shapes.sort(key=lambda priced: (priced[0], priced[1].instance_type))
    return [shape for _, shape in priced_shapes]


@dataclass(frozen=True, slots=True)
class _Needs:
    """Needs that another type must meet. `room` is the share of it that the peaks may take."""

    gpus: int
    memory_mib_each: float
    memory_mib: float
    vcpus: float
    room: float

    def are_met_by(self, shape: Shape) -> bool:
        count = shape.accelerator_count or 0
        if shape.memory_mib_each is None or count < self.gpus:
            return False
        if shape.memory_mib_each * self.room < self.memory_mib_each:
            return False
        if shape.memory_mib_each * count * self.room < self.memory_mib:
            return False
        return (vcpus_of(shape.instance_type) or 0) * self.room >= self.vcpus


def _needs(past: Past, used: int, *, together: bool) -> _Needs | None:
    """Return what the peaks take; `None` if a GPU's memory or the CPU was not measured."""
    memory = past.peaks(past.memory)
    vcpus = vcpus_of(past.instance.instance_type)
    cpu_peak = max((percent for percent in past.cpu if percent >= 0), default=None)
    is_whole = past.shape is not None and len(memory) == past.shape.accelerator_count
    if not is_whole or cpu_peak is None or vcpus is None:
        return None
    return _Needs(
        gpus=used,
        memory_mib_each=0.0 if together else max(memory.values()),
        memory_mib=sum(memory.values()),
        vcpus=vcpus * cpu_peak / 100,
        room=past.policy.advice.target_percent / 100,
    )


def _to_types(past: Past, kind: str, seen: str, fits: Sequence[Shape]) -> Advice | None:
    """Return the advice to move to the cheapest of these types; `None` if there is none."""
    if not fits:
        return None
    cheapest = fits[0].instance_type
    saved_by_type: dict[str, Usd | None] = {}
    for shape in fits[:_NAMED]:
        name = shape.instance_type
        saved_by_type[name] = _saving(past, past.price_of(name))
    with_amounts = []
    for name, saved in saved_by_type.items():
        if saved is not None:
            with_amounts.append(f"{name} ({usd(saved)} a month less)")
    memory_peaks = past.peaks(past.memory).values()
    text = (
        f"{seen[0].upper()}{seen[1:]}; GPU memory peaks at {max(memory_peaks) / 1024:.1f} GiB "
        f"a GPU, {sum(memory_peaks) / 1024:.1f} GiB in all. Fits: {listed(with_amounts, _NAMED)}. "
        "Check the memory of the host, which is not measured"
    )
    if past.instance.capacity_reservation_id:
        text += (
            f"; {past.instance.capacity_reservation_id} costs as much as before until "
            "it is changed, too"
        )
    return advice_of(past, kind, saved_by_type[cheapest], text)


def _saving(past: Past, price: UsdPerHour | None) -> Usd | None:
    """Return what a month saves at this price; `None` if either price is not known."""
    present_price = past.price.usd_per_hour
    if present_price is None or price is None:
        return None
    return _a_month(past, present_price - price, len(past.ran))


def _a_month(past: Past, usd_per_hour: UsdPerHour, hours: int) -> Usd:
    """Return what so many of the hours since it first ran come to in a month of the same kind."""
    return usd_per_hour * HOURS_PER_MONTH * hours / (past.hours.bins - past.ran[0])


def advice_of(past: Past, kind: str, saved: Usd | None, text: str, command: str = "") -> Advice:
    """Return advice for one instance; the text is a sentence without its full stop."""
    instance = past.instance
    return Advice(
        kind=kind,
        subject=instance.instance_id,
        account=instance.target.account,
        region=instance.target.region,
        instance_type=instance.instance_type,
        usd_per_month=saved,
        weeks=past.weeks,
        percent_measured=past.measured_percent,
        text=f"{text}.",
        command=command,
        name=instance.name,
        owner=past.owner.name,
    )


def _used(past: Past) -> int:
    """Return how many GPUs ever worked; all of them if only an aggregate is known."""
    if past.is_by_gpu:
        return max(1, _gpus_used(past))
    count = past.shape.accelerator_count if past.shape else None
    return max(1, count or 1)


def _gpus_used(past: Past) -> int:
    limit = past.policy.idle.utilization_below_percent
    return sum(peak >= limit for peak in past.peaks(past.high).values())


def _mean_at_work(past: Past) -> float | None:
    """Return the mean of the GPUs that work, in the hours in which they do; `None` if only an
    aggregate is known, or none works."""
    if not past.is_by_gpu:
        return None
    busy_from = past.policy.health.busy_from_percent
    readings: list[float] = []
    for series in past.mean.values():
        for hour in past.worked:
            if series[hour] >= busy_from:
                readings.append(series[hour])
    return fmean(readings) if readings else None


def _mean_of(series_by_gpu: Mapping[str, Sequence[float]], hours: Sequence[int]) -> float | None:
    """Return the mean of all readings of these hours; `None` if there is none."""
    readings: list[float] = []
    for series in series_by_gpu.values():
        for hour in hours:
            if series[hour] >= 0:
                readings.append(series[hour])
    return fmean(readings) if readings else None


def _used_memory_percent(past: Past) -> float | None:
    """Return the highest peak of a GPU's memory; `None` if its size is not known."""
    size_mib = past.shape.memory_mib_each if past.shape else None
    if not size_mib:
        return None
    return 100 * max(past.peaks(past.memory).values(), default=0) / size_mib


def _local(past: Past, hour: int) -> datetime:
    """Return the begin of the hour in the owner's time zone."""
    return (past.hours.start + timedelta(hours=hour)).astimezone(ZoneInfo(past.owner.time_zone))


def _bursts(past: Past) -> list[int]:
    """Return the lengths of its stretches of work; an hour without a reading may have been work."""
    return list(_stretches(sorted({*past.worked, *past.silent})))


def _stretches(hours: Sequence[int]) -> Iterator[int]:
    """Yield the lengths of the runs of hours without a gap."""
    length = 0
    for hour, following in zip(hours, [*hours[1:], None], strict=True):
        length += 1
        if following != hour + 1:
            yield length
            length = 0


def _family(shape: Shape) -> str:
    return shape.instance_type.partition(".")[0]
