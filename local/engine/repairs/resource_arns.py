"""The resources that calls of SageMaker and EKS name, for IAM.

- AWS: a policy may limit most calls of SageMaker that name a resource to its ARN, and
  `eks:DescribeNodegroup` to that of the node group. Source: service authorization reference.
- The engine: it knows no ARN for SageMaker, so that only a policy for `*` allows these calls, and
  takes that of the cluster for a node group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from local.engine.repairs.table_keys import parsed

_KINDS = (
    ("EndpointName", "endpoint"),
    ("EndpointConfigName", "endpoint-config"),
    ("NotebookInstanceLifecycleConfigName", "notebook-instance-lifecycle-config"),
    ("ClusterName", "cluster"),
)
"""The fields that name a resource, and the kinds of resource in its ARN."""
_NODE_GROUP = re.compile("/clusters/([^/]+)/node-groups/([^/?]+)$")
_IN_DOMAINS = (("SpaceName", "space"), ("UserProfileName", "user-profile"))


Finder = Callable[[str, str, bytes, str, str], str]
"""Returns the ARN that a call names, by its service, path, body, Region and account; empty if it
names none."""


def repair() -> None:
    """Wraps the engine's function; it looks it up by name at every request."""
    also_name(_of_call)


def also_name(find: Finder) -> None:
    """Have IAM asked about the resource that `find` names, and where it names none, about the one
    that was named before."""
    from ministack.core import iam_actions

    named = iam_actions.extract_resource_arn

    def resource(
        service: str,
        method: str,
        path: str,
        headers: Any,
        body: bytes,
        query: Any,
        region: str,
        account: str,
    ) -> str:
        found = find(service, path, body, region, account)
        return found or named(service, method, path, headers, body, query, region, account)

    iam_actions.extract_resource_arn = resource


def _of_call(service: str, path: str, body: bytes, region: str, account: str) -> str:
    """Return the ARN of what a call of SageMaker or about a node group names; empty for others."""
    if service == "sagemaker":
        return _of_sagemaker(parsed(body), region, account)
    if service == "eks":
        return _of_node_group(path, region, account)
    return ""


def _of_node_group(path: str, region: str, account: str) -> str:
    """Return the ARN of the node group that the path names, with an id that the engine does not
    know; empty if it names none."""
    match = _NODE_GROUP.search(path)
    if match is None:
        return ""
    return f"arn:aws:eks:{region}:{account}:nodegroup/{match[1]}/{match[2]}/id"


def _of_sagemaker(parameters: Mapping[str, Any], region: str, account: str) -> str:
    """Return the ARN of the resource that these parameters name; empty if they name none, as those
    of a list do."""
    if "ResourceArn" in parameters:
        return str(parameters["ResourceArn"])
    name = _name_of(parameters)
    return f"arn:aws:sagemaker:{region}:{account}:{name}" if name else ""


def _name_of(parameters: Mapping[str, Any]) -> str:
    """Return the end of the ARN, in the small letters of SageMaker; empty if there is none."""
    domain = parameters.get("DomainId")
    for field, kind in _IN_DOMAINS:
        if domain and field in parameters:
            return f"{kind}/{domain}/{parameters[field]}".lower()
    for field, kind in _KINDS:
        if field in parameters:
            return f"{kind}/{parameters[field]}".lower()
    return f"domain/{domain}" if domain else ""
