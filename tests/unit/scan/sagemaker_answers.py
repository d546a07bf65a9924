"""Answers of SageMaker, Bedrock and the Price List for tests of a scan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from governor.scan.scan_place import PlaceReport
from tests.unit.scan.kinds import NOW
from tests.unit.scan.shapes import is_command_of_aws

OLD = NOW - timedelta(days=30)
ARN = "arn:aws:sagemaker:us-east-1:123456789012"


def endpoint_summary(name: str) -> dict[str, Any]:
    """Return an endpoint as ListEndpoints gives it."""
    return {
        "EndpointName": name,
        "EndpointArn": f"{ARN}:endpoint/{name}",
        "CreationTime": OLD,
        "LastModifiedTime": OLD,
        "EndpointStatus": "InService",
    }


def endpoint(name: str, *variants: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an endpoint as DescribeEndpoint gives it; its configuration is named `NAME-config`."""
    described = {
        **endpoint_summary(name),
        "EndpointConfigName": f"{name}-config",
        "ProductionVariants": list(variants or (variant("main"),)),
    }
    return {**described, **changes}


def variant(name: str, count: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a variant as DescribeEndpoint gives it."""
    counts = {"CurrentInstanceCount": count, "DesiredInstanceCount": count}
    return {"VariantName": name, **counts, **changes}


def endpoint_config(name: str, **type_by_variant: str) -> dict[str, Any]:
    """Return a configuration as DescribeEndpointConfig gives it."""
    variants = [
        {"VariantName": variant_name, "InstanceType": ml_type, "InitialInstanceCount": 1}
        for variant_name, ml_type in type_by_variant.items()
    ]
    return {
        "EndpointConfigName": name,
        "EndpointConfigArn": f"{ARN}:endpoint-config/{name}",
        "ProductionVariants": variants,
        "CreationTime": OLD,
    }


def product(usage_type: str, usd: str, region: str = "us-east-1", unit: str = "Hrs") -> str:
    """Return a product of SageMaker as GetProducts gives it."""
    attributes = {
        "servicecode": "AmazonSageMaker",
        "regionCode": region,
        "instanceName": "ml" + usage_type.partition("ml")[2],
        "usagetype": usage_type,
        "component": "Hosting",
        "operation": "RunInstance",
    }
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    terms = {"OnDemand": {"T": {"priceDimensions": {"D": dimension}}}}
    document = {
        "product": {"productFamily": "ML Instance", "attributes": attributes},
        "serviceCode": "AmazonSageMaker",
        "terms": terms,
    }
    return json.dumps(document)


def price_list(*products: str) -> dict[str, Any]:
    """Return an answer of GetProducts."""
    return {"FormatVersion": "aws_v1", "PriceList": list(products)}


def checked(report: PlaceReport) -> PlaceReport:
    """Return the report. Raises: AssertionError if the AWS CLI does not take a row's command."""
    for row in report.rows:
        if row.command:
            is_command_of_aws(row.command)
    return report
