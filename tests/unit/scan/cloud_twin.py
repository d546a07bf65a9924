"""A twin of AWS behind real clients: everything above the HTTP call is botocore's own.

Requests are checked, counted, limited to the list of a scan and serialized as ever; only the answer
comes from a test. No socket is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.endpoint import Endpoint
from botocore.exceptions import HTTPClientError

OWN = "123456789012"
"""The account of the caller."""
REGIONS = ("eu-west-1", "us-east-1")


@dataclass(frozen=True)
class Asked:
    """A call: the account and Region that it went to, and its own parameters."""

    account: str
    region: str
    operation: str
    """As IAM names it, such as `ec2:DescribeRegions`."""
    parameters: Mapping[str, Any]
    read_timeout_seconds: float = 0
    """How long its client waits for the answer."""


class Refused(Exception):
    """An answer of AWS that is an error."""

    def __init__(self, code: str, message: str = "no", status: int = 400) -> None:
        self.answer = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
        self.status = status
        super().__init__(code)


@dataclass
class CloudTwin:
    """Accounts with Regions. `answers` gives a test's own answers by operation: a value, or a
    function of the call, which may raise `Refused`. Without one an answer is empty."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[Asked] = field(default_factory=list)
    accounts_by_unit: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wait: Callable[[Callable[[], Any]], Any] = lambda answer: answer()
    """Called with what makes the answer, in place of the time on the wire."""
    is_retried: bool = False
    """True if botocore itself repeats the calls that fail, with its waits between them."""

    def operations(self) -> list[str]:
        """Return the operations of all calls, in their order."""
        return [asked.operation for asked in self.calls]

    @contextmanager
    def answering(self) -> Iterator[CloudTwin]:
        """Answer every client of this process meanwhile."""
        at_hand = threading.local()
        original: Any = getattr(BaseClient, "_make_api_call")  # noqa: B009 - it is not public

        original_request = Endpoint.make_request

        def call(client: Any, name: str, parameters: Mapping[str, Any]) -> Any:
            """Note whose call it is. The credentials of a role are asked for here, as at
            signing."""
            key = client._request_signer._credentials.get_frozen_credentials().access_key
            account = key if key.isdigit() else OWN
            operation = f"{client.meta.service_model.service_name}:{name}"
            timeout_seconds = client.meta.config.read_timeout
            region = client.meta.region_name
            asked = Asked(account, region, operation, parameters, timeout_seconds)
            at_hand.asked = asked
            return original(client, name, parameters)

        def request(_: Any, model: Any, __: Any) -> Any:
            """Take the place of the HTTP call."""
            asked = at_hand.asked
            empty = _empty(model.output_shape)
            try:
                answer = self.wait(lambda: {**empty, **self._answer(asked)})
                return SimpleNamespace(status_code=200, headers={}), answer
            except Refused as refused:
                return SimpleNamespace(status_code=refused.status, headers={}), refused.answer

        def response(endpoint: Any, _: Any, model: Any, __: Any) -> Any:
            """Take the place of one try of the HTTP call. A connection that fails is no answer."""
            try:
                return request(endpoint, model, None), None
            except HTTPClientError as error:
                return None, error

        def make_request(endpoint: Any, model: Any, request_dict: Any) -> Any:
            """Make the HTTP call, with botocore's own tries if they are asked for."""
            if self.is_retried:
                return original_request(endpoint, model, request_dict)
            return request(endpoint, model, request_dict)

        with (
            patch.object(BaseClient, "_make_api_call", call),
            patch.object(Endpoint, "make_request", make_request),
            patch.object(Endpoint, "_get_response", response),
        ):
            yield self

    def _answer(self, asked: Asked) -> Any:
        """Return the answer to a call."""
        self.calls.append(asked)
        answer = self.answers.get(asked.operation, self._usual)
        if callable(answer):
            answer = answer(asked)
        return {"ResponseMetadata": {"HTTPStatusCode": 200}, **answer}

    def _usual(self, asked: Asked) -> Mapping[str, Any]:
        """Return the answer of accounts without any accelerator."""
        match asked.operation:
            case "sts:GetCallerIdentity":
                return {"Account": asked.account}
            case "sts:AssumeRole":
                account = asked.parameters["RoleArn"].split(":")[4]
                expiration = datetime(2999, 1, 1, tzinfo=UTC)
                secrets = {"SecretAccessKey": "s", "SessionToken": "t"}
                credentials = {"AccessKeyId": account, "Expiration": expiration, **secrets}
                return {"Credentials": credentials}
            case "ec2:DescribeRegions":
                return {"Regions": [{"RegionName": name} for name in REGIONS]}
            case "cloudwatch:GetMetricData":
                queries = asked.parameters["MetricDataQueries"]
                nothing = {"Timestamps": [], "Values": [], "StatusCode": "Complete"}
                return {"MetricDataResults": [{"Id": one["Id"], **nothing} for one in queries]}
            case "organizations:ListAccountsForParent":
                return {"Accounts": self._accounts(asked.parameters["ParentId"])}
            case "organizations:ListOrganizationalUnitsForParent":
                return {"OrganizationalUnits": []}
            case _:
                return {}

    def _accounts(self, unit: str) -> list[dict[str, str]]:
        """Return the records of a unit's accounts. Raises: Refused for a unit that is not there."""
        if unit not in self.accounts_by_unit:
            raise Refused("ParentNotFoundException", f"{unit} is not there")
        return [{"Id": account, "State": "ACTIVE"} for account in self.accounts_by_unit[unit]]


def _empty(shape: Any) -> dict[str, Any]:
    """Return an answer of this shape in which every list is empty."""
    members = shape.members if shape is not None else {}
    return {name: [] for name, member in members.items() if member.type_name == "list"}
