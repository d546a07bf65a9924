"""A simulator of the Price List, and of an account without Savings Plans. It must not know the
governor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def product(price: str | dict[str, str], unit: str = "Hrs", **attributes: str) -> str:
    """Return a product as GetProducts gives it: JSON as text, with one On-Demand term and one
    dimension.

    Source: AWS Billing user guide, "Reading the service price list file"; API reference,
    GetProducts.
    """
    sku = f"SKU{abs(hash((unit, *sorted(attributes.items())))):016X}"
    term, dimension = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    document: dict[str, Any] = {
        "product": {
            "productFamily": attributes.pop("productFamily", "Compute Instance"),
            "attributes": {"servicecode": "AmazonEC2", "locationType": "AWS Region", **attributes},
            "sku": sku,
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {
                    "priceDimensions": {
                        dimension: {
                            "unit": unit,
                            "endRange": "Inf",
                            "description": "made up",
                            "appliesTo": [],
                            "rateCode": dimension,
                            "beginRange": "0",
                            "pricePerUnit": price if isinstance(price, dict) else {"USD": price},
                        }
                    },
                    "sku": sku,
                    "effectiveDate": "2026-11-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }
    return json.dumps(document)


def instance_product(
    instance_type: str, price: str | dict[str, str], region: str, **changes: str
) -> str:
    """Return one of an instance type: plain Linux, shared, and used, unless changed."""
    attributes = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "operation": "RunInstances",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "usagetype": f"BoxUsage:{instance_type}",
    }
    return product(price, **{**attributes, **changes})


class PriceListSimulator:
    """Answers GetProducts with one price of each type, the same in all Regions; and
    DescribeSavingsPlans."""

    def __init__(self) -> None:
        self.usd_per_hour: dict[str, str] = {}
        self.sagemaker_usd_per_hour: dict[str, str] = {}
        """By usage, such as `Host:ml.g5.xlarge`."""

    def answer(self, service: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One call of `pricing` or `savingsplans`."""
        if service == "savingsplans":
            return {"savingsPlans": []}
        wanted = {one["Field"]: one["Value"] for one in request.get("Filters", ())}
        if request.get("ServiceCode") == "AmazonSageMaker":
            return self._sagemaker(wanted)
        kind = wanted.get("instanceType", "")
        usd = self.usd_per_hour.get(kind)
        found = [] if usd is None else [instance_product(kind, usd, wanted["regionCode"])]
        return {"FormatVersion": "aws_v1", "PriceList": found}

    def _sagemaker(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The products of an instance type of SageMaker, one for each usage."""
        ml_type = wanted.get("instanceName", "")
        region = wanted["regionCode"]
        found = []
        for usage, usd in self.sagemaker_usd_per_hour.items():
            if usage.endswith((f":{ml_type}", f"-{ml_type}")):
                attributes = {
                    "servicecode": "AmazonSageMaker",
                    "regionCode": region,
                    "instanceName": ml_type,
                    "usagetype": f"USE1-{usage}",
                    "operation": "RunInstance",
                }
                found.append(product(usd, productFamily="ML Instance", **attributes))
        return {"FormatVersion": "aws_v1", "PriceList": found}
