"""The access of a check to AWS, and its findings. `World.call` is the way there, and refuses
writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

import boto3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from cli.errors import CommandError
from cli.policy import deployed
from cli.twins import parameters_of
from governor.adapters.clients import DRY_RUN_OK, translate
from governor.contracts.policy import parse_policy
from governor.domain.policy.policy import Policy, TagMatch
from governor.errors import AccessDenied, CloudError, GovernorError, SafetyError

LONGEST = timedelta(minutes=15)
"""Nothing is begun later."""
_READS = re.compile(r"(Describe|Get|List|Lookup|Simulate|Validate)[A-Z]\w*")
_SERVICES = {
    "states": "stepfunctions",
    "servicequotas": "service-quotas",
    "ses": "sesv2",
    "apigateway": "apigatewayv2",
}
"""Names of botocore, where the service is known to IAM by another one."""
_ELSEWHERE = {"pricing": "us-east-1", "organizations": "us-east-1"}
"""Regions of services that are not everywhere."""


class Outcome(StrEnum):
    """The result of a check."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, and the remedy; a confirmed one needs none."""

    outcome: Outcome
    seen: str
    advice: str = ""


def confirmed(seen: str) -> Finding:
    """AWS behaves as the product needs it."""
    return Finding(Outcome.CONFIRMED, seen)


def refuted(seen: str, advice: str) -> Finding:
    """It does not."""
    return Finding(Outcome.REFUTED, seen, advice)


def unknown(seen: str, advice: str) -> Finding:
    """Nothing was there to see."""
    return Finding(Outcome.UNKNOWN, seen, advice)


class NothingToSee(Exception):
    """The account lacks what the check looks at; its text and `advice` say what."""

    def __init__(self, seen: str, advice: str) -> None:
        super().__init__(seen)
        self.advice = advice


class Needs(StrEnum):
    """Things that must exist before a check can see anything."""

    NOTHING = "nothing"
    INSTANCES = "instances"
    STACK = "the stack"


@dataclass(frozen=True)
class Check:
    """One row of the table. The docstring of `look` says what must hold, why, and where that comes
    from."""

    name: str
    needs: Needs
    look: Callable[[World], Finding]

    @property
    def claim(self) -> str:
        """The first paragraph of the docstring, as one line."""
        return " ".join((self.look.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


@dataclass
class World:
    """The caller's account in one Region, and the stack in it, each read once."""

    stack_name: str
    session: boto3.Session
    now: datetime = field(default_factory=lambda: datetime.now(tz=UTC))
    """Time at which it began."""
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(tz=UTC))
    _clients: dict[str, Any] = field(default_factory=dict)

    def call(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """The answer to `service:Operation`, which reads or is a dry run.

        Raises:
            SafetyError: it could change something.
            AccessDenied: the caller may not.
            CloudError: anything else.
        """
        _, _, name = operation.partition(":")
        if not _READS.fullmatch(name) and parameters.get("DryRun") is not True:
            raise SafetyError(f"{operation} could change something")
        try:
            found: Mapping[str, Any] = getattr(self._client(operation), xform_name(name))(
                **parameters
            )
        except ClientError as error:
            raise translate(error, operation) from error
        return found

    def all(self, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """The items of all pages, under `key` in each."""
        _, _, name = operation.partition(":")
        if not _READS.fullmatch(name):
            raise SafetyError(f"{operation} could change something")
        client = self._client(operation)
        if not client.can_paginate(xform_name(name)):
            yield from self.call(operation, **parameters)[key]
            return
        try:
            for page in client.get_paginator(xform_name(name)).paginate(**parameters):
                yield from page[key]
        except ClientError as error:
            raise translate(error, operation) from error

    def dry_run(self, operation: str, **parameters: Any) -> CloudError | None:
        """`None` where EC2 says that it would have done it; else its error.

        Raises:
            AccessDenied: the caller may not.
        """
        try:
            self.call(operation, **parameters, DryRun=True)
        except AccessDenied:
            raise
        except CloudError as error:
            return None if error.code == DRY_RUN_OK else error
        raise SafetyError(
            f"{operation} was a dry run, but EC2 answered as if it had been carried out"
        )

    def _client(self, operation: str) -> Any:
        prefix = operation.partition(":")[0]
        if prefix not in self._clients:
            service = _SERVICES.get(prefix, prefix)
            short = Config(
                retries={"mode": "standard", "total_max_attempts": 3},
                connect_timeout=5,
                read_timeout=20,
            )
            region = _ELSEWHERE.get(prefix, self.session.region_name)
            made: Any = self.session.client
            self._clients[prefix] = made(service, region_name=region, config=short)
        return self._clients[prefix]

    def client_protocol(self, service: str) -> str:
        """The protocol that botocore speaks to a service."""
        return str(self._client(f"{service}:").meta.service_model.resolved_protocol)

    @cached_property
    def caller(self) -> Mapping[str, Any]:
        """As STS knows the caller; with the headers of the answer."""
        return self.call("sts:GetCallerIdentity")

    @property
    def account(self) -> str:
        """The caller's account."""
        return str(self.caller["Account"])

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`."""
        return str(self.caller["Arn"]).split(":")[1]

    @property
    def region(self) -> str:
        """The Region of the stack."""
        return str(self.session.region_name)

    @cached_property
    def stack(self) -> Mapping[str, Any]:
        """The stack as CloudFormation describes it.

        Raises:
            NothingToSee: it is not deployed.
        """
        found = self._stack
        if found is None:
            raise NothingToSee(
                f"there is no stack {self.stack_name!r} in {self.region}",
                "deploy it, then run this again; or pass --stack-name",
            )
        return found

    @cached_property
    def _stack(self) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self.call(
                "cloudformation:DescribeStacks", StackName=self.stack_name
            )["Stacks"][0]
        except CloudError as error:
            if "does not exist" in str(error):
                return None
            raise
        return found

    @property
    def is_deployed(self) -> bool:
        """Return whether there is a stack."""
        return self._stack is not None

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The stack's, by name."""
        return parameters_of(self.stack)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's, by name."""
        return {one["OutputKey"]: one["OutputValue"] for one in self.stack.get("Outputs", ())}

    @cached_property
    def resources(self) -> Mapping[str, tuple[str, str]]:
        """Type and physical id of each of the stack, by its name in the template."""
        asked = {"StackName": self.stack["StackName"]}
        return {
            one["LogicalResourceId"]: (one["ResourceType"], one.get("PhysicalResourceId", ""))
            for one in self.all(
                "cloudformation:ListStackResources", "StackResourceSummaries", **asked
            )
        }

    def of_type(self, kind: str) -> dict[str, str]:
        """The physical ids of the stack's resources of a type, by their names in the template."""
        return {name: ident for name, (one, ident) in self.resources.items() if one == kind}

    def physical(self, name: str) -> str:
        """The physical id of one of the stack's resources.

        Raises:
            NothingToSee: this stack has none of that name.
        """
        if name not in self.resources:
            raise NothingToSee(
                f"the stack has no {name}", "it is of another release, or the setting is not used"
            )
        return self.resources[name][1]

    @cached_property
    def policy(self) -> Policy:
        """The one in force; where that cannot be read, the defaults with the selector of the
        stack."""
        try:
            return parse_policy(deployed(self.stack_name, self.session)).base().policy
        except (CommandError, GovernorError):
            value = self.parameters["SelectorTagValue"] if self.is_deployed else ""
            return Policy(selector=TagMatch("Purpose", value)) if value else Policy()

    @cached_property
    def instances(self) -> Sequence[Mapping[str, Any]]:
        """Selected instances that run, as EC2 describes them.

        Raises:
            NothingToSee: there are none.
        """
        selector = self.policy.selector
        filters = [
            {"Name": f"tag:{selector.tag_key}", "Values": [selector.tag_value]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        listed = self.all("ec2:DescribeInstances", "Reservations", Filters=filters)
        found = [instance for reservation in listed for instance in reservation["Instances"]]
        if not found:
            raise NothingToSee(
                f"no running instance in {self.region} carries {selector}",
                "tag one that runs, then run this again; or pass --region",
            )
        return found


def is_understood(error: CloudError) -> bool:
    """Return whether the product tells this error from others: a guard or a message of its own
    answers it."""
    return type(error) is not CloudError


def denied(error: AccessDenied) -> Finding:
    """Return what the caller lacks."""
    action = error.operation or "an action"
    return unknown(
        f"your identity may not call {action}", f"allow {action}, or have somebody run it who may"
    )
