"""The access of a check to AWS, and its findings.

`World` is the only way to AWS. It reads and makes dry runs, and refuses every other call.
"""

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
from cli.other_stacks import parameters_of
from cli.policy import deployed
from cli.status import IMITATION
from governor.aws.call_errors import DRY_RUN_OK, translate
from governor.core.errors import AccessDenied, CloudError, GovernorError, SafetyError
from governor.policy.document import parse_policy
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Policy

LONGEST = timedelta(minutes=15)
"""No check begins when a run has taken longer than this."""
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
    """Return the finding that AWS behaves as the product needs it."""
    return Finding(Outcome.CONFIRMED, seen)


def refuted(seen: str, advice: str) -> Finding:
    """Return the finding that AWS does not behave as the product needs it."""
    return Finding(Outcome.REFUTED, seen, advice)


def unknown(seen: str, advice: str) -> Finding:
    """Return the finding that there was nothing to see."""
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
    """One check of the table.

    The docstring of `look` says what must hold and why; `Source` says where that comes from.
    """

    name: str
    needs: Needs
    look: Callable[[World], Finding]

    @property
    def claim(self) -> str:
        """The first paragraph of the docstring, as one line that people read."""
        docstring = self.look.__doc__ or ""
        first_paragraph = docstring.split("\n\n")[0]
        return " ".join(first_paragraph.split()).rstrip(".")


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
        """Return the answer to `service:Operation`, which reads or is a dry run.

        Raises:
            SafetyError: it could change something.
            AccessDenied: the caller may not.
            CloudError: anything else.
        """
        _, _, name = operation.partition(":")
        is_dry_run = parameters.get("DryRun") is True
        if not is_dry_run and not _READS.fullmatch(name):
            raise SafetyError(f"{operation} could change something")
        try:
            method = getattr(self._client(operation), xform_name(name))
            answer: Mapping[str, Any] = method(**parameters)
        except ClientError as error:
            raise translate(error, operation) from error
        return answer

    def all(self, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """Yield the items of all pages, under `key` in each.

        Raises:
            SafetyError: it could change something.
            AccessDenied: the caller may not.
            CloudError: anything else.
        """
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
        """Return EC2's error, or `None` where it says that it would have carried the call out.

        Raises:
            AccessDenied: the caller may not.
            SafetyError: EC2 did not answer as it answers a dry run.
        """
        try:
            self.call(operation, **parameters, DryRun=True)
        except AccessDenied:
            raise
        except CloudError as error:
            if error.code == DRY_RUN_OK:
                return None
            return error
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
            make_client: Any = self.session.client
            self._clients[prefix] = make_client(service, region_name=region, config=short)
        return self._clients[prefix]

    def client_protocol(self, service: str) -> str:
        """Return the protocol that botocore speaks to a service."""
        return str(self._client(f"{service}:").meta.service_model.resolved_protocol)

    @cached_property
    def caller(self) -> Mapping[str, Any]:
        """The caller as STS knows it, with the headers of the answer."""
        return self.call("sts:GetCallerIdentity")

    @property
    def imitation(self) -> str:
        """The name of what answers in place of AWS, by a header of its answers; an empty text where
        AWS itself answers."""
        metadata = self.caller.get("ResponseMetadata", {})
        return str(metadata.get("HTTPHeaders", {}).get(IMITATION, ""))

    @property
    def account(self) -> str:
        """The caller's account."""
        return str(self.caller["Account"])

    @property
    def partition(self) -> str:
        """The partition of the caller, as its ARN names it."""
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
        description = self._stack
        if description is None:
            raise NothingToSee(
                f"there is no stack {self.stack_name!r} in {self.region}",
                "deploy it, then run this again; or pass --stack-name",
            )
        return description

    @cached_property
    def _stack(self) -> Mapping[str, Any] | None:
        """The stack, or `None` if it is not deployed."""
        try:
            answer = self.call("cloudformation:DescribeStacks", StackName=self.stack_name)
        except CloudError as error:
            if "does not exist" in str(error):
                return None
            raise
        description: Mapping[str, Any] = answer["Stacks"][0]
        return description

    @property
    def is_deployed(self) -> bool:
        """Return whether there is a stack."""
        return self._stack is not None

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The stack's parameters by name."""
        return parameters_of(self.stack)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs by name."""
        outputs = self.stack.get("Outputs", ())
        return {output["OutputKey"]: output["OutputValue"] for output in outputs}

    @cached_property
    def resources(self) -> Mapping[str, tuple[str, str]]:
        """Type and physical id of each of the stack's resources, by its name in the template."""
        resources = {}
        stack_name = self.stack["StackName"]
        for summary in self.all(
            "cloudformation:ListStackResources", "StackResourceSummaries", StackName=stack_name
        ):
            physical_id = summary.get("PhysicalResourceId", "")
            resources[summary["LogicalResourceId"]] = (summary["ResourceType"], physical_id)
        return resources

    def of_type(self, kind: str) -> dict[str, str]:
        """Return the physical ids of the resources of a type, by their names in the template."""
        physical_ids = {}
        for name, (resource_type, physical_id) in self.resources.items():
            if resource_type == kind:
                physical_ids[name] = physical_id
        return physical_ids

    def physical(self, name: str) -> str:
        """Return the physical id of one of the stack's resources.

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
        """The policy in force; if it cannot be read, the defaults with the stack's selector."""
        try:
            return parse_policy(deployed(self.stack_name, self.session)).base().policy
        except (CommandError, GovernorError):
            return self._default_policy()

    def _default_policy(self) -> Policy:
        """Return the defaults, with the selector of the stack where there is a stack."""
        selected_value = self.parameters["SelectorTagValue"] if self.is_deployed else ""
        if not selected_value:
            return Policy()
        return Policy(selector=TagMatch("Purpose", selected_value))

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
        running: list[Mapping[str, Any]] = []
        for reservation in self.all("ec2:DescribeInstances", "Reservations", Filters=filters):
            running += reservation["Instances"]
        if not running:
            raise NothingToSee(
                f"no running instance in {self.region} carries {selector}",
                "tag one that runs, then run this again; or pass --region",
            )
        return running


def is_understood(error: CloudError) -> bool:
    """Return whether the product tells this error from others.

    Such an error has a class of its own, and a guard or a message answers it.
    """
    return type(error) is not CloudError


def denied(error: AccessDenied) -> Finding:
    """Return the finding that names the permission that the caller lacks."""
    action = error.operation or "an action"
    return unknown(
        f"your identity may not call {action}",
        f"allow {action}, or ask somebody with this permission to run it",
    )
