"""Advice from the weeks of an instance: each rule is a pure function, and none acts. What is not
measured is never advised about, and an amount that is not known is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import fmean
from zoneinfo import ZoneInfo

from governor.domain.alerts.alert import Owner
from governor.domain.alerts.templates import said
from governor.domain.catalogue import accelerated_types, shape_of
from governor.domain.episode.plan import Price
from governor.domain.health.health import Bottleneck, classify_bottleneck
from governor.domain.instance import (
    CHECKPOINT_TAG,
    Instance,
    Lifecycle,
    Shape,
    managed_by,
    tag_command,
)
from governor.domain.policy.policy import Advice as Rule
from governor.domain.policy.policy import TagMatch
from governor.domain.units import HOURS_PER_MONTH, Usd, UsdPerHour, listed, money, plural, usd
from simulation.past import Past

_NAMED = 3
"""Types that are named, the cheapest first."""
_VCPUS_PER_XLARGE = 4
"""vCPUs per xlarge of every accelerated type so far. Source: EC2 instance types, vCPUs by size."""
_SIZES = ("large", *(f"{number or ''}xlarge" for number in (0, 2, 4, 8, 12, 16, 24, 48)))
"""Sizes of CPU families such as m7i, the smallest first."""
_PORTS = ("inf2", "trn1")
_HOURS_A_DAY = 24
_WEEKDAYS = 5


@dataclass(frozen=True, slots=True)
class Advice:
    """One proposal. `subject` is an instance, a group or a reservation. `usd_per_month`: `None`
    where it is not known. `weeks` and `percent_measured` say what it rests on: how many weeks were
    read, and the share of the hours in which every GPU was measured."""

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
        """By which it is dismissed."""
        return f"{self.kind}:{self.subject}"

    @property
    def document(self) -> dict[str, object]:
        """As JSON: the amount as text, exactly."""
        amount = None if self.usd_per_month is None else money(self.usd_per_month).replace(",", "")
        return {"id": self.advice_id, **asdict(self), "usd_per_month": amount}


def of_instance(past: Past) -> list[Advice]:
    """Everything that the rules say of one instance. Only what was measured for long enough is
    looked at, and nobody is advised about a saving known to be too small."""
    if not is_known(past):
        return []
    return worthwhile(past.policy.advice, [look(past) for look in _OF_INSTANCES])


def is_known(past: Past) -> bool:
    rule = past.policy.advice
    return (
        past.weeks >= rule.minimum_weeks and past.measured_percent >= rule.minimum_measured_percent
    )


def worthwhile(rule: Rule, found: Iterable[Advice | None]) -> list[Advice]:
    """Without what is known to save too little."""
    least = rule.minimum_usd_per_month
    return [
        one for one in found if one and (one.usd_per_month is None or one.usd_per_month >= least)
    ]


def smaller_type(past: Past) -> Advice | None:
    """Fewer of the same GPUs, where some never worked, and the peaks of memory and CPU fit."""
    shape, limit = past.shape, past.policy.advice.unused_below_percent
    if shape is None or not past.is_by_gpu or shape.accelerator_count is None:
        return None
    used = sum(peak >= limit for peak in past.peaks(past.high).values())
    if not 0 < used < shape.accelerator_count:
        return None
    whole, accelerator = shape.accelerator_count, shape.accelerator
    fits = _that_fit(
        past,
        used,
        lambda one: one.accelerator == accelerator and (one.accelerator_count or 0) < whole,
    )
    seen = f"{used} of {shape.accelerator_count} GPUs ever worked"
    return _to_types(past, "smaller-type", seen, fits)


def newer_type(past: Past) -> Advice | None:
    """A newer family for an old one; a smaller one for a P type that looks like inference."""
    rule, family = past.policy.advice, past.instance.family
    at_work = _mean_at_work(past)
    is_old = family in rule.old_families
    serves = (
        family.startswith("p") and at_work is not None and at_work < rule.inference_below_percent
    )
    if not (is_old or serves) or not past.worked:
        return None
    fits = _that_fit(past, _used(past), lambda one: _family(one) in rule.newer_families)
    seen = (
        f"{family} is an old generation"
        if is_old
        else (
            f"at work its GPUs are {at_work:.0f}% busy; if it serves inference, it needs "
            f"no {family}"
        )
    )
    return _to_types(past, "newer-type", seen, fits)


def port(past: Past) -> Advice | None:
    """Trainium or Inferentia for steady work of NVIDIA GPUs: a port, and what it may cost."""
    rule = past.policy.advice
    share = 100 * len(past.worked) / len(past.measured)
    if (
        past.shape is None
        or "NVIDIA" not in past.shape.accelerator
        or share < rule.steady_from_percent
    ):
        return None
    fits = _that_fit(past, 1, lambda one: _family(one) in _PORTS, together=True)
    found = _to_types(past, "port", f"GPUs work in {share:.0f}% of its hours", fits)
    if found is None or found.usd_per_month is None:
        return None
    worth = usd(found.usd_per_month * rule.port_pays_within_months)
    months = plural(rule.port_pays_within_months, "month")
    text = (
        f"{found.text} It needs a port to the Neuron SDK, and to be as fast there: a port "
        "that costs less "
        f"than {worth} pays within {months}."
    )
    return replace(found, text=text)


def cpu_type(past: Past) -> Advice | None:
    """A type without GPUs, where none ever worked and the CPUs did."""
    rule = past.policy.advice
    works = sum(one >= rule.cpu_works_from_percent for one in past.cpu)
    vcpus = vcpus_of(past.instance.instance_type)
    if past.worked or not works or vcpus is None:
        return None
    size = next((one for one in _SIZES if (vcpus_of(one) or 0) >= vcpus), None)
    if size is None:
        return None
    price: UsdPerHour | None = rule.cpu_usd_per_vcpu_hour * (vcpus_of(size) or 0)
    if past.instance.lifecycle is not Lifecycle.ON_DEMAND:
        price = None
    hours = 100 * works // len(past.ran)
    text = (
        f"No GPU reached {rule.unused_below_percent:g}%, and CPUs worked in {hours}% of its hours: "
        f"{rule.cpu_family}.{size} has as many vCPUs. Check the memory of the host, which "
        "is not measured"
    )
    return advice_of(past, "cpu-type", _saving(past, price), text)


def schedule(past: Past) -> Advice | None:
    """Office hours, where GPUs only ever worked in one span of weekday hours, in the owner's time
    zone."""
    instance, rule = past.instance, past.policy.advice
    wiped = past.shape is None or past.shape.local_nvme is not None
    if instance.lifecycle is not Lifecycle.ON_DEMAND or managed_by(
        instance, past.policy.managed.tag_keys
    ):
        return None
    if not past.worked or instance.root_device_type != "ebs":
        return None
    local = {hour: _local(past, hour) for hour in past.ran}
    if any(local[hour].weekday() >= _WEEKDAYS for hour in past.worked):
        return None
    first = min(local[hour].hour for hour in past.worked)
    # In a zone of half hours, what begins at 17:30 works until 18:30.
    last = max(local[hour].hour + (2 if local[hour].minute else 1) for hour in past.worked)
    if last - first > rule.office_day_at_most_hours or last > _HOURS_A_DAY:
        return None
    free = [
        hour
        for hour, at in local.items()
        if hour not in past.silent and not (at.weekday() < _WEEKDAYS and first <= at.hour < last)
    ]
    if not free:
        return None
    saved = (
        None
        if past.price.usd_per_hour is None
        else _a_month(past, past.price.usd_per_hour, len(free))
    )
    zone = past.owner.time_zone
    text = (
        f"GPUs worked only on weekdays from {first:02d}:00 to {last:02d}:00 {zone}. Give "
        "the schedule "
        f"{rule.schedule_name} of Instance Scheduler on AWS these hours, and set its tag"
    )
    if wiped:
        text += "; each stop wipes local disks"
    command = tag_command(
        instance.instance_id, instance.target.region, rule.schedule_tag_key, rule.schedule_name
    )
    return advice_of(past, "schedule", saved, text, command)


def bottleneck(past: Past) -> Advice | None:
    """The first thing to change, by the class of the work: where GPUs that work do not reach the
    target, or where only their speed holds it up."""
    rule = past.policy.advice
    at_work, used = _mean_at_work(past), _used_memory_percent(past)
    if at_work is None:
        return None
    traffic = _mean_of(past.traffic, past.worked)
    target = f"{at_work:.0f}% busy at work, where {rule.target_percent:g}% is the target"
    if used is not None and used > rule.full_memory_above_percent:
        text = (
            f"GPU memory reaches {used:.0f}%, and GPUs are {target}. Lower precision, "
            "checkpoint activations "
            "or shard the model before the batch grows"
        )
        return advice_of(past, "memory-full", None, text)
    if traffic is None:
        return None
    bound = classify_bottleneck(at_work, traffic, past.policy.health)
    words = "".join(said("health advice", {"kind": bound}))
    if bound is Bottleneck.COMPUTE_BOUND:
        text = (
            f"GPUs are {target}, {bound.value}. {words} Lower precision may do the "
            "same work in less time"
        )
        return advice_of(past, bound.value, None, text)
    if at_work >= rule.target_percent:
        return None
    saved = None
    if past.price.usd_per_hour is not None:
        # As many GPU hours at the target.
        spare = Decimal(str(round(1 - at_work / rule.target_percent, 4)))
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
    """The present price of Spot. `score`: 1 to 10, how likely EC2 has one of `types`; `None`: not
    known."""

    usd_per_hour: UsdPerHour
    zone: str
    types: tuple[str, ...]
    score: int | None = None


def asks_for_spot(past: Past) -> bool:
    """Return whether its work is known to come in bursts that an interruption cannot lose: it runs
    On-Demand, no service manages it, and it has a checkpoint hook."""
    instance, rule = past.instance, past.policy.advice
    hooked = instance.tags.get(CHECKPOINT_TAG, "").strip().lower() in ("hook", "signal")
    plain = instance.lifecycle is Lifecycle.ON_DEMAND and not instance.capacity_reservation_id
    if not (hooked and plain and past.worked and is_known(past)):
        return False
    if managed_by(instance, past.policy.managed.tag_keys):
        return False
    bursts = _bursts(past)
    return len(bursts) > 1 and max(bursts) <= rule.burst_at_most_hours


def spot(past: Past, offer: SpotOffer) -> Advice | None:
    """Spot for bursts with checkpoints, where it costs less."""
    if not asks_for_spot(past):
        return None
    bursts = _bursts(past)
    score = "unknown" if offer.score is None else f"{offer.score} of 10"
    text = (
        f"GPUs work in {len(bursts)} bursts of {max(bursts)} h at the longest, and it "
        "saves checkpoints: "
        f"Spot costs {money(offer.usd_per_hour, 4)} USD an hour in {offer.zone}; "
        "placement score of the "
        f"Region {score}. Ask for {listed(offer.types, 4)} at once; EC2 may take it back "
        "two minutes after "
        "a warning"
    )
    found = advice_of(past, "spot", _saving(past, offer.usd_per_hour), text)
    return next(iter(worthwhile(past.policy.advice, [found])), None)


def ungoverned(
    instance: Instance, owner: Owner, selector: TagMatch, price: Price, creator: str | None
) -> Advice:
    """An accelerated instance that nobody watches, with what it costs a month and the tag to
    set."""
    hourly, target = price.usd_per_hour, instance.target
    text = (
        f"It has accelerators and not the tag {selector}, so it is not governed. "
        f"Created by {creator or 'somebody who is not known'}."
    )
    return Advice(
        kind="ungoverned",
        subject=instance.instance_id,
        account=target.account,
        region=target.region,
        instance_type=instance.instance_type,
        usd_per_month=None if hourly is None else hourly * HOURS_PER_MONTH,
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
    """By the size: 4 for each `xlarge`. `None` for metal, and for a name that says none."""
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
    """Cheaper types with so many GPUs, or more, whose memory and vCPUs leave room over the peaks.
    All the memory must fit at once, as on the present type; that a type fits is never assumed:
    without a reading of every GPU's memory, and of CPU, none does. `together`: one GPU may hold the
    memory of several."""
    rule, shape = past.policy.advice, past.shape
    memory, vcpus = past.peaks(past.memory), vcpus_of(past.instance.instance_type)
    cpu = max((one for one in past.cpu if one >= 0), default=None)
    price = past.price.usd_per_hour
    whole = shape is not None and len(memory) == shape.accelerator_count
    if not whole or cpu is None or vcpus is None or price is None:
        return []
    room = rule.target_percent / 100
    each, total, needed = max(memory.values()), sum(memory.values()), vcpus * cpu / 100
    found = [
        (other, one)
        for name in accelerated_types()
        if (one := shape_of(name)) is not None
        and wanted(one)
        and one.memory_mib_each is not None
        and (one.accelerator_count or 0) >= used
        and (together or one.memory_mib_each * room >= each)
        and one.memory_mib_each * (one.accelerator_count or 0) * room >= total
        and (vcpus_of(name) or 0) * room >= needed
        and (other := past.price_of(name)) is not None
        and other < price
    ]
    return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].instance_type))]


def _to_types(past: Past, kind: str, seen: str, fits: Sequence[Shape]) -> Advice | None:
    if not fits:
        return None
    named = [one.instance_type for one in fits[:_NAMED]]
    saved = {name: _saving(past, past.price_of(name)) for name in named}
    with_amounts = [
        f"{name} ({usd(one)} a month less)" for name, one in saved.items() if one is not None
    ]
    held = past.peaks(past.memory).values()
    text = (
        f"{seen[0].upper()}{seen[1:]}; GPU memory peaks at {max(held) / 1024:.1f} GiB a GPU, "
        f"{sum(held) / 1024:.1f} GiB in all. Fits: {listed(with_amounts, _NAMED)}. Check "
        "the memory of the "
        "host, which is not measured"
    )
    if past.instance.capacity_reservation_id:
        text += (
            f"; {past.instance.capacity_reservation_id} costs as much as before until "
            "it is changed, too"
        )
    return advice_of(past, kind, saved[named[0]], text)


def _saving(past: Past, price: UsdPerHour | None) -> Usd | None:
    now = past.price.usd_per_hour
    return None if now is None or price is None else _a_month(past, now - price, len(past.ran))


def _a_month(past: Past, usd_per_hour: UsdPerHour, hours: int) -> Usd:
    """So many of the hours since it first ran, in a month of the same kind."""
    return usd_per_hour * HOURS_PER_MONTH * hours / (past.hours.bins - past.ran[0])


def advice_of(past: Past, kind: str, saved: Usd | None, text: str, command: str = "") -> Advice:
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
    """The GPUs that ever worked, as far as is known: all of them where only an aggregate is."""
    limit, count = (
        past.policy.advice.unused_below_percent,
        past.shape and past.shape.accelerator_count,
    )
    used = sum(peak >= limit for peak in past.peaks(past.high).values())
    return max(1, used if past.is_by_gpu else count or 1)


def _mean_at_work(past: Past) -> float | None:
    """The mean of the GPUs that work, in the hours in which they do."""
    busy = past.policy.health.busy_from_percent
    found = [one[hour] for one in past.mean.values() for hour in past.worked if one[hour] >= busy]
    return fmean(found) if found and past.is_by_gpu else None


def _mean_of(series: Mapping[str, Sequence[float]], hours: Sequence[int]) -> float | None:
    found = [one[hour] for one in series.values() for hour in hours if one[hour] >= 0]
    return fmean(found) if found else None


def _used_memory_percent(past: Past) -> float | None:
    whole = past.shape.memory_mib_each if past.shape else None
    return 100 * max(past.peaks(past.memory).values(), default=0) / whole if whole else None


def _local(past: Past, hour: int) -> datetime:
    """The begin of the hour in the owner's time zone."""
    return (past.hours.start + timedelta(hours=hour)).astimezone(ZoneInfo(past.owner.time_zone))


def _bursts(past: Past) -> list[int]:
    """The lengths of its stretches of work; an hour without a reading may have been work."""
    return list(_stretches(sorted({*past.worked, *past.silent})))


def _stretches(hours: Sequence[int]) -> Iterator[int]:
    """The lengths of the runs of hours without a gap."""
    start = None
    for hour, following in zip(hours, [*hours[1:], None], strict=True):
        start = hour if start is None else start
        if following != hour + 1:
            yield hour + 1 - start
            start = None


def _family(shape: Shape) -> str:
    return shape.instance_type.partition(".")[0]
