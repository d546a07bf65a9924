"""SageMaker's own list prices, which are above EC2's for the same hardware. So EC2's never stand in
for them: an unknown price is `None`.

Each product names its usage: `USE1-Host:ml.g5.xlarge` is an instance of an endpoint. Sources: AWS
Price List Query API, service AmazonSageMaker; usage types on the bill.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from governor.core.errors import CloudError
from governor.core.regions import partition_of
from governor.core.units import UsdPerHour
from governor.money.rules.prices import filters_of, price_by_name
from governor.scan.kind import Place

GET_PRODUCTS = "pricing:GetProducts"
HOSTING = "Host:"
ASYNCHRONOUS = "AsyncInf:"
NOTEBOOK = "Notebk:"
CLUSTER = "Cluster:"
STUDIO = "Studio:"
"""An app of Studio is named after it: `Studio:JupyterLab-ml.g5.xlarge`."""
_TOPIC = "prices of SageMaker"
_PRODUCTS_OF_A_CALL = 100
"""The most of one call, and far more than a type has in a Region."""


def usd_per_hour(place: Place, ml_type: str, usage: str) -> UsdPerHour | None:
    """Return the list price of an instance for a usage, such as `Host:`. `None` if AWS lists none,
    or the list cannot be read, which is reported. A type is asked for once a scan and Region."""
    region = place.target.region
    key = ("sagemaker-prices", region, ml_type)
    prices = place.kept.get(key, lambda: _prices_of(place, ml_type))
    return prices.get(f"{usage}{ml_type}")


def _prices_of(place: Place, ml_type: str) -> Mapping[str, UsdPerHour]:
    """Return the prices of a type here by usage, such as `Host:ml.g5.xlarge`; empty if they are not
    known. It makes one call."""
    region = place.target.region
    if partition_of(region) != "aws":
        # The other partitions have no price list, or one in another currency.
        return {}
    endpoint = replace(place.target, region=_endpoint(region))
    filters = filters_of(region, instanceName=ml_type)
    try:
        answer = place.api.call(
            endpoint,
            GET_PRODUCTS,
            ServiceCode="AmazonSageMaker",
            Filters=filters,
            MaxResults=_PRODUCTS_OF_A_CALL,
        )
    except CloudError as error:
        place.could_not_read(_TOPIC, error)
        return {}

    def usage_of(product: Mapping[str, str]) -> str:
        """Return the usage without the code of the Region; empty for another Region's."""
        if product.get("regionCode") != region:
            return ""
        return re.sub("^[A-Z]+[0-9]*-", "", product.get("usagetype", ""))

    return price_by_name(answer["PriceList"], usage_of, ("Hrs",))


def _endpoint(region: str) -> str:
    """Return the Region whose endpoint of the Price List to ask about the prices in this one. There
    are three endpoints, and each knows the prices of all Regions."""
    continent, _, _ = region.partition("-")
    return {"eu": "eu-central-1", "ap": "ap-south-1"}.get(continent, "us-east-1")
