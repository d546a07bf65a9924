"""The only code that knows botocore: sends one call and says whether it may be tried again."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import botocore.exceptions
import botocore.session
from botocore.config import Config

from gpu_metrics_publisher.errors import RefusedError, UndeliveredError
from gpu_metrics_publisher.metrics import Call

_NEVER = frozenset(
    {
        "InvalidFormat",
        "InvalidFormatFault",
        "InvalidParameterCombination",
        "InvalidParameterCombinationException",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "MissingParameter",
        "MissingRequiredParameterException",
        "RequestEntityTooLarge",
        "ValidationError",
        "ValidationException",
    }
)
"""Error codes that tell a call itself is wrong. Whatever else is refused may be taken later: a role can be
attached, a permission given, a clock set, a limit raised."""


def cloudwatch_client(region: str) -> Any:
    """A client with the machine's own credentials and endpoints, as every AWS tool finds them.

    Short timeouts, few tries: what fails is kept and tried again a minute later. Bodies over 1 KiB go
    compressed.
    """
    config = Config(
        region_name=region,
        connect_timeout=5,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=1,
        request_min_compression_size_bytes=1024,
        user_agent_extra="gpu-metrics-publisher",
    )
    return botocore.session.Session().create_client("cloudwatch", config=config)


class CloudWatchSink:
    """Sends calls with a client of botocore."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, call: Call) -> None:
        """Sends one call.

        Raises:
            UndeliveredError: not taken now; it may be later.
            RefusedError: never to be taken.
        """
        try:
            self._client.put_metric_data(Namespace=call.namespace, MetricData=_timed(call))
        except botocore.exceptions.ParamValidationError as error:
            raise RefusedError(f"PutMetricData to {call.namespace} is malformed: {error}") from error
        except botocore.exceptions.ClientError as error:
            text = f"PutMetricData to {call.namespace}: {error}"
            if error.response.get("Error", {}).get("Code") in _NEVER:
                raise RefusedError(text) from error
            raise UndeliveredError(text) from error
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.HTTPClientError) as error:
            raise UndeliveredError(f"PutMetricData to {call.namespace}: {error}") from error


def _timed(call: Call) -> list[dict[str, Any]]:
    return [
        {**datum, "Timestamp": datetime.fromtimestamp(datum["Timestamp"], tz=timezone.utc)}
        for datum in call.datums
    ]
