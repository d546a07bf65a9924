"""Lists endpoints of SageMaker whose instances have accelerators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from governor.core.errors import CloudError
from governor.core.units import as_utc, clip, printable
from governor.scan.kind import Place
from governor.scan.kinds.sagemaker.hardware import hardware, is_accelerated
from governor.scan.kinds.sagemaker.reading import described, is_gone, tags_of
from governor.scan.model import Resource

TOPIC = "SageMaker endpoints"
LIST = "sagemaker:ListEndpoints"
DESCRIBE = "sagemaker:DescribeEndpoint"
DESCRIBE_CONFIG = "sagemaker:DescribeEndpointConfig"
LIST_COMPONENTS = "sagemaker:ListInferenceComponents"
_PAGE = 100
_BILLED = ("InService", "Updating", "SystemUpdating", "RollingBack", "UpdateRollbackFailed")
"""The states in which an endpoint has running instances. Source: SageMaker API reference,
DescribeEndpoint."""
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Variant:
    """A production variant, or a shadow variant, that runs on instances."""

    name: str
    count_by_type: Mapping[str, int | None]
    """Its instances by their type, such as `ml.g5.xlarge`. `None`: SageMaker does not say how
    many."""
    is_prepaid: bool = False
    """True if it runs in capacity that was paid in advance."""


@dataclass(frozen=True, slots=True)
class Endpoint(Resource):
    """An endpoint whose instances run."""

    arn: str = ""
    variants: tuple[Variant, ...] = ()
    component_names: tuple[str, ...] = ()
    """Its inference components."""
    is_asynchronous: bool = False
    has_enhanced_metrics: bool = False
    """True if its metrics also come by instance and container."""


class _Described(NamedTuple):
    """An endpoint as DescribeEndpoint gives it, and its configuration."""

    endpoint: Mapping[str, Any]
    config: Mapping[str, Any]


def list_endpoints(place: Place) -> Sequence[Endpoint]:
    """Return the endpoints that have running instances with accelerators; empty if there are none.
    Left out are serverless endpoints, and those scaled to zero: both cost nothing while nobody
    calls them. Raises: CloudError if they cannot be listed."""
    names: list[str] = []
    for page in place.pages(LIST, MaxResults=_PAGE):
        for record in page["Endpoints"]:
            if record["EndpointStatus"] in _BILLED:
                names.append(record["EndpointName"])

    def read(record: _Described) -> Endpoint | None:
        """Return the endpoint; `None` if it has no accelerators."""
        return _endpoint(place, record)

    endpoints = list(place.read_each(TOPIC, DESCRIBE, _describe(place, names), read))
    if not endpoints:
        return []
    return _with_tags(place, _with_components(place, endpoints))


def _describe(place: Place, names: Sequence[str]) -> list[_Described]:
    """Return the endpoints of these names, with their configurations, each of which is read once.
    Left out are those that cannot be read, and those whose instances only a configuration could
    name that is gone, which is reported: they go on costing money."""
    name_parameters = [{"EndpointName": name} for name in names]
    answers = described(place, TOPIC, DESCRIBE, name_parameters)
    endpoints = [answer for answer in answers if answer]
    config_by_name = _configs(place, endpoints)
    records: list[_Described] = []
    unknown: list[str] = []
    for endpoint in endpoints:
        name = endpoint.get("EndpointConfigName", "")
        if name and name not in config_by_name:
            continue
        config = config_by_name.get(name)
        if config is None and _needs_config(endpoint):
            unknown.append(printable(endpoint["EndpointName"]))
        else:
            records.append(_Described(endpoint, config or {}))
    if unknown:
        listed = clip(", ".join(unknown), _LONGEST_REASON)
        why = f"the configuration of these endpoints is gone, and named their type: {listed}"
        error = CloudError(why, operation=DESCRIBE_CONFIG, words=why)
        place.could_not_read(f"the instances of {TOPIC}", error)
    return records


def _configs(
    place: Place, endpoints: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any] | None]:
    """Return the configurations of these endpoints by name: `None` for one that was deleted, which
    SageMaker allows while an endpoint uses it. One that cannot be read is missing, and reported."""
    names_in_use = []
    for endpoint in endpoints:
        if endpoint.get("EndpointConfigName"):
            names_in_use.append(endpoint["EndpointConfigName"])
    names = list(dict.fromkeys(names_in_use))
    answers = place.call_each(DESCRIBE_CONFIG, [{"EndpointConfigName": name} for name in names])
    configs: dict[str, Mapping[str, Any] | None] = {}
    for name, answer in zip(names, answers, strict=True):
        if not isinstance(answer, CloudError):
            configs[name] = answer
        elif is_gone(answer):
            configs[name] = None
        else:
            place.could_not_read(TOPIC, answer)
    return configs


def _needs_config(endpoint: Mapping[str, Any]) -> bool:
    """Return whether only its configuration names the type of some running instances of an
    endpoint: DescribeEndpoint itself names those of instance pools, and serverless variants."""
    for variant in _variants(endpoint):
        names_its_types = variant.get("InstancePools") or variant.get("CurrentServerlessConfig")
        if not names_its_types and variant.get("CurrentInstanceCount") != 0:
            return True
    return False


def _endpoint(place: Place, record: _Described) -> Endpoint | None:
    """Return the endpoint of a record; `None` if no instance of it has accelerators. Raises:
    LookupError, TypeError or ValueError for a record in another form."""
    config_by_variant = {config["VariantName"]: config for config in _variants(record.config)}
    variants: list[Variant] = []
    for variant in _variants(record.endpoint):
        read = _variant(variant, config_by_variant.get(variant["VariantName"], {}))
        if read is not None:
            variants.append(read)
    totals = _total(variants)
    if not any(is_accelerated(ml_type) for ml_type in totals):
        return None
    name = record.endpoint["EndpointName"]
    metrics_config = record.endpoint.get("MetricsConfig") or {}
    return Endpoint(
        target=place.target,
        resource_id=name,
        what=hardware(totals),
        name=printable(name),
        since=as_utc(record.endpoint["CreationTime"]),
        arn=record.endpoint["EndpointArn"],
        variants=tuple(variants),
        is_asynchronous=bool(record.endpoint.get("AsyncInferenceConfig")),
        has_enhanced_metrics=bool(metrics_config.get("EnableEnhancedMetrics")),
        is_prepaid=all(variant.is_prepaid for variant in variants),
    )


def _variants(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the production and shadow variants of an endpoint or a configuration. A shadow variant
    gets copies of the requests, and costs the same."""
    production = record.get("ProductionVariants") or ()
    shadow = record.get("ShadowProductionVariants") or ()
    return [*production, *shadow]


def _variant(record: Mapping[str, Any], config: Mapping[str, Any]) -> Variant | None:
    """Return a variant; `None` if it has no instances: it is serverless, or scaled to zero. Raises:
    LookupError or TypeError for a record in another form."""
    count_by_type: dict[str, int | None] = {}
    pools = record.get("InstancePools") or ()
    for pool in pools:
        count_by_type[pool["InstanceType"]] = pool.get("CurrentInstanceCount")
    if not pools and config.get("InstanceType"):
        count = record.get("CurrentInstanceCount", config.get("InitialInstanceCount"))
        count_by_type[config["InstanceType"]] = count
    running = {ml_type: count for ml_type, count in count_by_type.items() if count != 0}
    if not running:
        return None
    reservation = record.get("CapacityReservationConfig") or {}
    return Variant(
        name=record["VariantName"],
        count_by_type=running,
        is_prepaid=bool(reservation.get("MlReservationArn")),
    )


def _total(variants: Sequence[Variant]) -> dict[str, int | None]:
    """Return the instances of all variants by their type; `None` if a count is not known."""
    totals: dict[str, int | None] = {}
    for variant in variants:
        for ml_type, count in variant.count_by_type.items():
            known = totals.get(ml_type, 0)
            totals[ml_type] = None if known is None or count is None else known + count
    return totals


def _with_components(place: Place, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints with their inference components, which have metrics of their own.
    Raises: CloudError if they cannot be listed: without them no endpoint is known to be unused."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for page in place.pages(LIST_COMPONENTS, MaxResults=_PAGE):
        for record in page["InferenceComponents"]:
            names[record["EndpointName"]].append(record["InferenceComponentName"])
    named = []
    for endpoint in endpoints:
        named.append(replace(endpoint, component_names=tuple(names[endpoint.resource_id])))
    return named


def _with_tags(place: Place, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints with their tags. One whose tags cannot be read has none, and that is
    reported."""
    arns = [endpoint.arn for endpoint in endpoints]
    all_tags = tags_of(place, "tags of SageMaker endpoints", arns)
    tagged: list[Endpoint] = []
    for endpoint, tags in zip(endpoints, all_tags, strict=True):
        tagged.append(replace(endpoint, tags=tags))
    return tagged
