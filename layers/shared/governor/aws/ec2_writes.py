"""Tags, starts, stops and terminates EC2 instances.

Only `Ec2Controller` stops and terminates; each of its calls has credentials for that call alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from governor.aws.call_errors import DRY_RUN_OK
from governor.aws.clients import Adapter, Clients
from governor.aws.ec2_records import tag_pairs
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    NotFound,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import (
    Instance,
    Target,
)
from governor.core.units import in_parts, without_none
from governor.episode.model.plan import Step

_TAG_BATCH = 500
"""CreateTags takes 1,000 resources; half of that keeps the bisection around one bad id short."""
_PAUSES_OF_A_START = (0.5, 1.5)
"""Seconds before a throttled start is sent again. The function has 20 seconds for everything."""
_BREAKS_TAG_POLICY = "TagPolicyViolation"
"""The code of a refusal by a tag policy of AWS Organizations: other instances get the same one."""
_DENIALS = 8
"""After this many single refusals and no success, the role may not tag at all, and the rest is not
tried."""


class Ec2Writer(Adapter):
    """The base of adapters that change something in EC2, for real or as a dry run."""

    def _write(
        self,
        operation: str,
        target: Target,
        *,
        dry_run: bool,
        repeat: bool = True,
        **parameters: Any,
    ) -> Any:
        """Send a write to EC2; return its answer, or `None` if a dry run shows that it would work.
        Without `repeat` it is sent once, with it botocore may retry it.

        Raises: CloudError, also for a dry run that would have failed; SafetyError if EC2 carried
        out a dry run.
        """
        try:
            answer = self._call(operation, target, repeat=repeat, **parameters, DryRun=dry_run)
        except CloudError as error:
            if dry_run and error.code == DRY_RUN_OK:
                return None
            raise
        if dry_run:
            raise SafetyError(
                f"{operation} was a dry run, but EC2 answered as if it had been carried out"
            )
        return answer

    def _request(
        self,
        operation: str,
        target: Target,
        *,
        dry_run: bool,
        repeat: bool = True,
        **parameters: Any,
    ) -> str | None:
        """Send a write to EC2; return the id that AWS gave the request; `None` for a dry run, or if
        the answer names none. Without `repeat` it is sent once, with it botocore may retry it.

        Raises: CloudError, also for a dry run that would have failed; SafetyError if EC2 carried
        out a dry run.
        """
        answer = self._write(operation, target, dry_run=dry_run, repeat=repeat, **parameters)
        return request_id_of(answer)

    def _send_once(
        self, operation: str, target: Target, *, dry_run: bool, **parameters: Any
    ) -> str | None:
        """Send a write to EC2 a single time; return the id of the request; `None` for a dry run, or
        if the answer names none. EC2 gives these calls no token, so that a repeat would act twice.
        Raises: CloudError, also for a dry run that would have failed; SafetyError if EC2 carried
        out a dry run."""
        return self._request(operation, target, dry_run=dry_run, repeat=False, **parameters)


class Ec2Tags(Ec2Writer):
    """The port `InstanceTagger`: it tags in batches, and halves a batch that one id spoils."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> dict[str, CloudError]:
        """Set the tags, and remove those that are `None`. Return the error by instance id for each
        instance where a call failed; empty if none did. Such an instance may have its new tags, and
        still those to remove: these go last. Raises: SafetyError if EC2 carried out a dry run."""
        created = tag_pairs(without_none(tags))
        deleted = []
        for key, value in tags.items():
            if value is None:
                deleted.append({"Key": key})

        def write_tags(batch: Sequence[str]) -> None:
            """Tag these instances: EC2 changes all or none in each of the two calls. Raises:
            CloudError; SafetyError if EC2 carried out a dry run."""
            parameters: Any = {"dry_run": dry_run, "Resources": list(batch)}
            if created:
                self._write("ec2:CreateTags", target, **parameters, Tags=created)
            if deleted:
                self._write("ec2:DeleteTags", target, **parameters, Tags=deleted)

        return _act_in_batches(instance_ids, write_tags)


class Ec2Controller(Ec2Writer):
    """Stops, terminates and cancels, each call with credentials that are good for that call alone.

    The function's own credentials, with which it reads, allow none of these calls. `_resource` is
    the role that acts in the account of the stack; a member account has its own. A dry run goes the
    same way.
    """

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        """Have EC2 stop the instance, asked once. Return the id of the request; `None` for a dry
        run, or if the answer names none.

        Raises: SafetyError if the id could mean more than one resource, or EC2 carried out a dry
        run; ConfigurationError without a role that acts; CloudError, among them Unavailable if EC2
        may have been asked.
        """
        operation = "ec2:StopInstances"
        client = self._client_for(operation, target, "instance", instance_id)
        return self._send_once(
            operation, target, dry_run=dry_run, client=client, InstanceIds=[instance_id]
        )

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> str | None:
        """Have EC2 terminate the instance, asked once. Return the id of the request; `None` for a
        dry run, or if the answer names none.

        Raises: SafetyError if the id could mean more than one resource, or EC2 carried out a dry
        run; ConfigurationError without a role that acts; CloudError, among them Unavailable if EC2
        may have been asked.
        """
        operation = "ec2:TerminateInstances"
        client = self._client_for(operation, target, "instance", instance_id)
        return self._send_once(
            operation, target, dry_run=dry_run, client=client, InstanceIds=[instance_id]
        )

    def prepare(self, companion: Step, instance: Instance, *, dry_run: bool) -> str | None:
        """Carry out the step that must come right before a stop or termination: cancel the Spot
        request. Return the id of the request to AWS; `None` for a dry run, if the answer names
        none, or if it was canceled before.

        Raises: SafetyError for any other step, if the Spot request is not this instance's, or if
        EC2 carried out a dry run; ConfigurationError without a role that acts; CloudError.
        """
        match companion:
            case Step.CANCEL_SPOT_REQUEST:
                return self._cancel_spot_request(instance, dry_run=dry_run)
            case Step.STOP | Step.SNAPSHOT | Step.TERMINATE:
                raise SafetyError(f"{companion.value} is no companion of another step")
            case _:
                assert_never(companion)

    def _cancel_spot_request(self, instance: Instance, *, dry_run: bool) -> str | None:
        """Cancel the Spot request of this instance: left open, a persistent one would launch a
        successor. Return the id of the request to AWS; `None` for a dry run, if the answer names
        none, or if it was canceled before.

        A request carries no tag of its instance, so IAM cannot tell whose it is. EC2 is asked right
        before. Nothing is sent if an earlier call, whose answer was lost, has canceled it.

        Raises:
            SafetyError: the Spot request belongs to another instance, to none, or is gone; or EC2
                carried out a dry run.
            ConfigurationError: the stack names no role that acts.
            CloudError: a call failed; Unavailable if the request may be canceled.
        """
        operation = "ec2:CancelSpotInstanceRequests"
        target = instance.target
        request_id = instance.spot_request_id or ""
        request = self._spot_request(target, request_id)
        if request.get("State") == "cancelled":
            return None
        owner = request.get("InstanceId")
        if owner != instance.instance_id:
            raise SafetyError(
                f"the Spot request {request_id} belongs to {owner or 'no instance'}, "
                f"not to {instance.instance_id}"
            )
        client = self._client_for(operation, target, "spot-instances-request", request_id)
        parameters: Any = {"SpotInstanceRequestIds": [request_id]}
        return self._send_once(operation, target, dry_run=dry_run, client=client, **parameters)

    def _spot_request(self, target: Target, request_id: str) -> Mapping[str, Any]:
        """Return a Spot request as EC2 describes it; empty if EC2 does not know it. Raises:
        CloudError."""
        operation = "ec2:DescribeSpotInstanceRequests"
        try:
            answer = self._call(operation, target, SpotInstanceRequestIds=[request_id])
        except NotFound:
            return {}
        requests: Sequence[Mapping[str, Any]] = answer.get("SpotInstanceRequests", ())
        if requests:
            return requests[0]
        return {}

    def _client_for(self, operation: str, target: Target, kind: str, resource_id: str) -> Any:
        """Return a client that may carry out this operation on this one resource.

        Raises:
            SafetyError: the id could mean more than one resource.
            ConfigurationError: the stack names no role that acts.
            AccessDenied, Throttled, Unavailable: the role could not be assumed. EC2 was not called.
        """
        if re.fullmatch(r"[A-Za-z0-9-]+", resource_id) is None:
            raise SafetyError(f"{resource_id!r} is no single {kind}")
        role_arn = target.role_arn or self._resource
        if not role_arn:
            raise ConfigurationError(
                "the environment variable ACTOR_ROLE_ARN is missing: set it in template.yaml"
            )
        partition = role_arn.split(":")[1]
        resource = f"arn:{partition}:ec2:{target.region}:{target.account}:{kind}/{resource_id}"
        return self._clients.client_for_one_call(operation, target, role_arn, resource)


class Ec2Starter(Adapter):
    """Starts stopped instances. To start one twice does no harm."""

    def __init__(self, clients: Clients, pause: Callable[[float], None] = time.sleep) -> None:
        """Wait with `pause`, which takes seconds, between two tries."""
        super().__init__(clients)
        self._pause = pause

    def start(self, target: Target, instance_id: str) -> str | None:
        """Have EC2 start the instance; return the id of the request, `None` if AWS gave none.

        A throttled call is repeated, and nothing else: botocore would also repeat EC2's answer that
        it has no capacity, which comes with HTTP 500, and the person waits meanwhile. Raises:
        CloudError.
        """
        for seconds in _PAUSES_OF_A_START:
            try:
                return self._started(target, instance_id)
            except Throttled:
                self._pause(seconds)
        return self._started(target, instance_id)

    def _started(self, target: Target, instance_id: str) -> str | None:
        """Send the call once. Return the id of the request; `None` if EC2's answer names none.
        Raises: CloudError."""
        answer = self._call("ec2:StartInstances", target, repeat=False, InstanceIds=[instance_id])
        return request_id_of(answer)


def request_id_of(answer: Mapping[str, Any] | None) -> str | None:
    """Return the id that AWS gave the request of this answer; `None` if the answer names none, or
    there is no answer, as of a dry run."""
    if answer is None:
        return None
    request_id: str | None = answer.get("ResponseMetadata", {}).get("RequestId")
    return request_id


def _act_in_batches(
    instance_ids: Sequence[str], act: Callable[[Sequence[str]], object]
) -> dict[str, CloudError]:
    """Call `act` with batches of ids, and with the halves of a batch that fails, down to single
    ids. Return the error by id for each id whose call failed; empty if none did.

    A failed batch is not halved if AWS is busy, or if the role may not act at all: it was denied
    for 8 single ids, also by a tag policy, and never succeeded. Raises: errors of `act` other than
    CloudError.
    """
    failures: dict[str, CloudError] = {}
    has_succeeded = False
    denied_count = 0
    batches_left = list(in_parts(list(dict.fromkeys(instance_ids)), _TAG_BATCH))
    batches_left.reverse()
    while batches_left:
        batch = batches_left.pop()
        try:
            act(batch)
        except CloudError as error:
            is_denied = isinstance(error, AccessDenied) or error.code == _BREAKS_TAG_POLICY
            may_not_act = is_denied and not has_succeeded and denied_count >= _DENIALS
            # More and smaller calls would only add to the load of a busy service.
            is_busy = isinstance(error, (Throttled, Unavailable))
            if len(batch) > 1 and not may_not_act and not is_busy:
                middle = len(batch) // 2
                batches_left += [batch[middle:], batch[:middle]]
            else:
                denied_count += is_denied
                failures |= dict.fromkeys(batch, error)
        else:
            has_succeeded = True
    return failures
