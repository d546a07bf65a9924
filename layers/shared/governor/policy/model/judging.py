"""The policy's sections `targets`, `metrics`, `idle` and `vetoes`: what is swept, the metric names,
the idle window and the limits, with all defaults.

Every setting has its unit in its name and its default here. A figure that nobody would set is a
constant beside its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import inf
from typing import Literal

from governor.core.settings import (
    Mistake,
    Section,
    between,
    checked,
    named,
    one_of,
    required,
    setting,
)
from governor.policy.model.contacts import ACCOUNT
from governor.policy.model.names import REGION, UNIT
from governor.policy.model.profiles import PROFILES, ProfileName, UtilizationScale

LONGEST_LAG = timedelta(minutes=15)
"""With a longer lag, no figure that EC2 publishes every 5 minutes would be measured in the newest
20 minutes."""
LEAST_WINDOW_MINUTES = 10
"""The two newest bins of 5 minutes must be measured, so a shorter window is never idle. Earlier
releases accepted 5 to 9."""


def _is_account(text: str) -> bool:
    """Return whether the text is the ID of an account: 12 digits."""
    return re.fullmatch(ACCOUNT[0], text) is not None


def _is_region(text: str) -> bool:
    """Return whether the text has the form of a Region code, such as `us-east-1`."""
    return re.fullmatch(REGION[0], text) is not None


def _is_of_jobs(namespace: str) -> bool:
    """Return whether a CloudWatch namespace may be that of jobs: it is not empty, and none of AWS's
    own (`AWS/...`)."""
    return bool(namespace) and not namespace.startswith("AWS/")


@dataclass(frozen=True, slots=True)
class Place(Section):
    """One Region of one account."""

    account: str = required(ACCOUNT[1], _is_account, f"^{ACCOUNT[0]}$")
    """Account ID, in quotes."""
    region: str = required(REGION[1], _is_region, f"^{REGION[0]}$")
    """Region code."""

    def __str__(self) -> str:
        """Return the place as messages name a target: `111122223333/us-east-1`."""
        return f"{self.account}/{self.region}"


@dataclass(frozen=True, slots=True)
class Targets(Section):
    """The accounts and Regions that are swept: every listed account in every listed Region."""

    accounts: tuple[str, ...] = named(*ACCOUNT, "widened")
    """Account IDs, in quotes. If `accounts` and `units` are both empty, only the stack's own
    account is swept."""
    units: tuple[str, ...] = named(*UNIT, "widened")
    """IDs of organizational units, or of the root. All their active accounts are swept, including
    those of units within them (accounts.md)."""
    without_units: tuple[str, ...] = named(*UNIT, "removed")
    """IDs of units to leave out of `units`, with all units within them."""
    regions: tuple[str, ...] = named(*REGION, "widened")
    """Region codes. If empty, only the stack's own Region is swept."""
    without: tuple[Place, ...] = setting((), "removed")
    """Accounts and Regions that are not swept, each written with `account` and `region`. Examples
    are a Region that an account has not enabled, or an account without the member stack there."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the mistakes that `without_units` is set and `units` is not, and that `without`
        leaves out every place that is named; otherwise nothing."""
        if self.without_units and not self.units:
            yield ("without_units",), "leaves accounts out of units, and none is named; set units"
        if self._leaves_out_everything():
            yield ("without",), "leaves out every place that accounts and regions name"

    def _leaves_out_everything(self) -> bool:
        """Return whether all accounts and Regions are named here, and none of their places is
        left."""
        if self.units or not self.accounts or not self.regions:
            return False
        for account in self.accounts:
            for region in self.regions:
                if Place(account, region) not in self.without:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class WorkMetrics(Section):
    """Metrics that jobs publish while they work. Each must have the dimension `InstanceId`.

    A value other than 0 in the window makes the instance busy. A missing metric proves nothing.
    """

    namespace: str = checked("MLTraining", "jobs publish into one of their own", _is_of_jobs)
    """CloudWatch namespace of these metrics. It cannot be a namespace of AWS."""
    names: tuple[str, ...] = ()
    """Names of the metrics that count. Empty: every metric of the namespace."""


@dataclass(frozen=True, slots=True)
class Metrics(Section):
    """The CloudWatch metrics of the GPUs. The defaults are the names that the CloudWatch agent uses
    on Linux. Other profiles have other defaults. An empty name means that the metric is not
    published."""

    profile: ProfileName = ProfileName.AGENT
    """Publisher of the metrics. It sets their names, dimensions and units, and whether each device
    or each core has a series. Names that are set here or in an override take precedence. With
    `custom`, no name has a default, memory is in MiB, and the next three settings apply."""
    device_dimension: str = ""
    """Only for `custom`: the dimension that distinguishes the devices of an instance. If empty, the
    dimensions of the other profiles count, such as `index`, `gpu` and `GpuDevice`."""
    utilization_scale: UtilizationScale = UtilizationScale.PERCENT
    """Only for `custom`: the unit of the utilization metric. `share` means a share from 0 to
    1. With `percent`, readings that may be shares count as not measured."""
    series_per_device: int = between(1, 1, 64)
    """Only for `custom`: the number of series that each device publishes. It is more than 1 if each
    core, or each part of a GPU, has its own series. All of them must be measured."""
    namespace: str = "GPU/EC2"
    """CloudWatch namespace of the metrics below."""
    utilization: str = "nvidia_smi_utilization_gpu"
    """Metric of GPU utilization, in percent."""
    memory_used: str = "nvidia_smi_memory_used"
    """Metric of used GPU memory, in MiB."""
    power_draw: str = "nvidia_smi_power_draw"
    """Metric of GPU power draw, in watts."""
    temperature: str = "nvidia_smi_temperature_gpu"
    """Metric of GPU temperature, in degrees Celsius."""
    memory_utilization: str = "nvidia_smi_utilization_memory"
    """Metric of the percentage of time in which GPU memory was read or written."""
    encoder_utilization: str = "nvidia_smi_utilization_encoder"
    """Metric of the utilization of a GPU's video encoder, in percent. `agent/` publishes it;
    CloudWatch's agent does not."""
    decoder_utilization: str = "nvidia_smi_utilization_decoder"
    """Metric of the utilization of a GPU's video decoder, in percent. `agent/` publishes it;
    CloudWatch's agent does not."""
    encoder_sessions: str = "nvidia_smi_encoder_stats_session_count"
    """Metric of the number of open sessions of a GPU's video encoder."""
    encoded_frames: str = "nvidia_smi_encoder_stats_average_fps"
    """Metric of the frames that a GPU's video encoder encodes per second."""
    hardware_namespace: str = "GPU/Custom"
    """CloudWatch namespace in which `agent/` publishes Xid errors, ECC errors, throttling and lost
    GPUs."""
    period_seconds: int = one_of(300, (60, 300, 3600))
    """Length of one reading in seconds. With 3600, nobody is asked and nothing is done."""
    collection_interval_seconds: int = between(60, 1, 3600, at_most="period_seconds")
    """Seconds between two samples of the agent. GPU Governor uses it to count the GPUs in an
    aggregated metric."""
    lag_seconds: int = between(120, 0, 3600)
    """Readings younger than this many seconds are ignored, because CloudWatch may still be
    receiving others of the same time."""
    publishers_are_trusted: bool = setting(False, "raised")
    """Declare that IAM lets only people who may stop any instance publish these metrics. `auto`
    needs this, because CloudWatch does not show who published a metric, and forged zeros make an
    instance look idle."""
    bound_namespaces: bool = setting(False, "lowered")
    """Call an instance idle only if its own namespace also shows it as idle. That namespace is
    `<namespace>/<role ID>:<instance ID>`. `agent/` publishes there with `--metrics bound`, and IAM
    can prevent others from publishing there."""
    work: WorkMetrics | None = WorkMetrics()
    """Metrics that jobs publish while they work. `null`: no such metrics are read."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield a mistake for each name that the profile `custom` needs and the policy does not
        give, and for a dimension that distinguishes no devices; otherwise nothing."""
        if self.device_dimension == _OF_AN_INSTANCE:
            yield ("device_dimension",), "names the instance, and not one of its devices"
        if self.device_dimension and not _is_dimension(self.device_dimension):
            yield (
                ("device_dimension",),
                "must be a dimension's name in CloudWatch: 1 to 255 ASCII characters, not all "
                "blank, none a control character, the first one no colon",
            )
        if self.profile is not ProfileName.CUSTOM:
            yield from self._only_custom()
            return
        for name in ("namespace", "utilization"):
            if not getattr(self, name):
                yield (name,), "is missing; metrics.profile: custom has no name of its own for it"

    def _only_custom(self) -> Iterator[Mistake]:
        """Yield a mistake for each setting that only the profile `custom` has."""
        for name, default in _ONLY_CUSTOM.items():
            if getattr(self, name) != default:
                yield (
                    (name,),
                    "only metrics.profile: custom has one; the other profiles know theirs",
                )


_ONLY_CUSTOM: Mapping[str, str | int] = {
    "device_dimension": "",
    "utilization_scale": UtilizationScale.PERCENT,
    "series_per_device": 1,
}
"""The settings that only the profile `custom` has, with their defaults."""
_OF_AN_INSTANCE = "InstanceId"
_LONGEST_DIMENSION = 255


def _is_dimension(text: str) -> bool:
    """Return whether CloudWatch accepts the text as the name of a dimension."""
    is_plain = text.isascii() and text.isprintable() and len(text) <= _LONGEST_DIMENSION
    return is_plain and bool(text.strip()) and not text.startswith(":")


_NAMES_OF_PROFILES = (
    "namespace",
    "utilization",
    "memory_used",
    "power_draw",
    "temperature",
    "memory_utilization",
    "encoder_utilization",
    "decoder_utilization",
    "encoder_sessions",
    "encoded_frames",
)
"""The names in `Metrics` that a profile gives."""


def settings_of_profile(name: ProfileName) -> dict[str, str | int]:
    """Return the settings of `Metrics` that a policy with this profile has if it sets nothing else:
    its names, and the defaults of what only `custom` may set."""
    return {**_ONLY_CUSTOM, **names_of_profile(name)}


def names_of_profile(name: ProfileName) -> dict[str, str]:
    """Return the names of a policy with this profile that names no metric itself. A metric that the
    publisher does not send is an empty text, as all are for `custom`."""
    if name is ProfileName.AGENT:
        defaults = Metrics()
        return {setting: getattr(defaults, setting) for setting in _NAMES_OF_PROFILES}
    names = dict.fromkeys(_NAMES_OF_PROFILES, "")
    for profile in PROFILES:
        if profile.name is name:
            names["namespace"] = profile.usual_namespace
            names["utilization"] = profile.utilization
            names["memory_used"] = profile.memory or ""
            names["power_draw"] = profile.power or ""
            names["temperature"] = profile.temperature or ""
            names["memory_utilization"] = profile.memory_utilization or ""
            names["encoder_utilization"] = profile.encoder or ""
            names["decoder_utilization"] = profile.decoder or ""
            break
    return names


class SecondFigure(StrEnum):
    """When power must confirm a low utilization, the stricter last."""

    UNASKED = "unasked"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class IdleRule(Section):
    """Rules of idleness: every GPU stays under the threshold for the whole window."""

    utilization_below_percent: float = between(5.0, 0.1, 50, "raised")
    """A GPU is idle while its maximum utilization is under this percentage."""
    window_minutes: int = between(60, LEAST_WINDOW_MINUTES, 20_160, "lowered", once_from=5)
    """Minutes without work after which an instance is idle: it is tagged, shown and counted."""
    minimum_coverage_percent: float = between(80.0, 50, 100, "lowered")
    """Percentage of the window that must be measured on every GPU. Otherwise the verdict is
    `no-data`."""
    grace_after_launch_minutes: int = between(30, 0, 10_080, "lowered")
    """Minutes after a start during which an instance is not judged."""
    second_figure: SecondFigure = setting(SecondFigure.UNASKED, "lowered")
    """Says when power must confirm low utilization, for instance types whose power limit is in the
    catalog. `unasked`: only before an action without an approval (`mode: auto`,
    `approval.on_expiry: act`). `required`: always. The verdict is then `no-data` if power is not
    measured."""


@dataclass(frozen=True, slots=True)
class Vetoes(Section):
    """Limits of other metrics. An instance is busy if one of them reaches its limit at any time in
    the window. `null` switches a veto off."""

    memory_used_percent: float | None = between(None, 0.1, 100, "raised")
    """Used GPU memory, as a percentage of the GPU's memory."""
    power_percent_of_limit: float | None = between(40.0, 0.1, 100, "raised")
    """GPU power draw, as a percentage of the GPU's power limit."""
    cpu_percent: float | None = between(30.0, 0.1, 100, "raised")
    """CPU utilization, as a percentage of all vCPUs."""
    busy_vcpus: float | None = between(None, 0.1, 1024, "raised")
    """CPU utilization, as a number of busy vCPUs: 8% of 192 vCPUs is 15.4. It applies in addition
    to `cpu_percent`, but only to types whose number of vCPUs is in the catalog."""
    network_bytes_per_second: float | None = checked(
        1_000_000.0, "it must be above 0 and finite", lambda value: 0 < value < inf, "raised", gt=0
    )
    """Network traffic in both directions, in bytes per second."""
    video_percent: float | None = between(1.0, 0.1, 100, "raised")
    """Utilization of a GPU's video encoder or decoder, in percent, if it is published."""
    encoder_sessions: int | None = between(1, 1, 1000, "raised")
    """Open sessions of a GPU's video encoder, if they are published."""
    encoded_frames_per_second: float | None = between(1.0, 0.1, 100_000, "raised")
    """Frames that a GPU's video encoder encodes per second, if they are published."""
    session_younger_than_hours: int | None = between(12, 1, 72, "lowered")
    """Hours during which an open Session Manager session makes the instance busy. Older sessions do
    not count, because Systems Manager also shows disconnected sessions as open."""
    required: tuple[Literal["memory", "power", "cpu", "network"], ...] = setting(
        ("cpu", "network"), "removed"
    )
    """Metrics that must be measured. Otherwise the verdict is `no-data`."""
