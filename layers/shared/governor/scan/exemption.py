"""Judges resources with the exemption tag in a scan: they are left alone."""

from __future__ import annotations

from governor.policy.model.policy import Policy
from governor.scan.model import Finding, Judgment, Resource, Strength


def exemption(policy: Policy, resource: Resource) -> Judgment | None:
    """Return the judgment of a resource with the policy's exemption tag, however it is spelled;
    `None` without one."""
    tag = policy.exemption.similar_tag_on(resource)
    if tag is None:
        return None
    return Judgment(Finding.EXEMPT, Strength.STRONG, f"carries the tag {tag}")
