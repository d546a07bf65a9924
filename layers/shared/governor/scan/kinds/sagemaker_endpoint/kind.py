"""SageMaker endpoints as a kind of resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from governor.core.units import UsdPerHour
from governor.scan.kind import Kind, Place
from governor.scan.kinds.calls import GET_METRIC_DATA
from governor.scan.kinds.sagemaker.price_list import (
    ASYNCHRONOUS,
    GET_PRODUCTS,
    HOSTING,
    usd_per_hour,
)
from governor.scan.kinds.sagemaker.reading import LIST_TAGS, SERVICE
from governor.scan.kinds.sagemaker_endpoint.judge import judge_endpoint
from governor.scan.kinds.sagemaker_endpoint.list import (
    DESCRIBE,
    DESCRIBE_CONFIG,
    LIST,
    LIST_COMPONENTS,
    TOPIC,
    Endpoint,
    list_endpoints,
)
from governor.scan.kinds.sagemaker_endpoint.measure import EndpointUse, measure_endpoints
from governor.scan.kinds.sagemaker_endpoint.words import command_for
from governor.scan.model import Judgment


class SageMakerEndpoints(Kind[Endpoint, EndpointUse]):
    """Endpoints that run on accelerated instances, judged by their invocations."""

    name = "sagemaker-endpoint"
    words = TOPIC
    service = SERVICE
    operations = (
        LIST,
        DESCRIBE,
        DESCRIBE_CONFIG,
        LIST_COMPONENTS,
        LIST_TAGS,
        GET_METRIC_DATA,
        GET_PRODUCTS,
    )

    def list(self, place: Place) -> Sequence[Endpoint]:
        """Return the endpoints; empty if there are none. Raises: CloudError."""
        return list_endpoints(place)

    def measure(self, place: Place, resources: Sequence[Endpoint]) -> Mapping[str, EndpointUse]:
        """Return the use of each endpoint by its name. What cannot be read is a problem of that
        use, and reported."""
        return measure_endpoints(place, resources)

    def price(self, place: Place, resource: Endpoint) -> UsdPerHour | None:
        """Return the list price of all its instances; `None` if one is not known, or was paid in
        advance."""
        usage = ASYNCHRONOUS if resource.is_asynchronous else HOSTING
        total = Decimal()
        for variant in resource.variants:
            for ml_type, count in variant.count_by_type.items():
                each = usd_per_hour(place, ml_type, usage)
                if each is None or count is None or variant.is_prepaid:
                    return None
                total += each * count
        return total

    def own_judgment(
        self, place: Place, resource: Endpoint, measured: EndpointUse | None
    ) -> Judgment:
        """Return the judgment by its calls and its GPUs, under the thresholds of the policy.
        Without measurements (`None`) it is not measured."""
        idle = place.policy.idle
        return judge_endpoint(
            resource,
            measured,
            place.now,
            minimum_coverage_percent=idle.minimum_coverage_percent,
            busy_from_percent=idle.utilization_below_percent,
        )

    def own_command(self, resource: Endpoint, judgment: Judgment) -> str:
        """Return the command that deletes an unused endpoint, or shows one that is not measured."""
        return command_for(resource, judgment)
