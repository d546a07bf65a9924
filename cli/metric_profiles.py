"""Find the metric profile by which an instance publishes, where that is not its policy's.

CloudWatch is asked by the utilization metrics of the known profiles, never for every series.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.telemetry import Finding, other_profile_finding
from governor.core.instance import Instance, Target
from governor.core.units import printable
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.ports import Listed, MetricReader, SeriesFilter
from governor.evidence.request import EvidenceRequest
from governor.policy.model.judging import Metrics, names_of_profile
from governor.policy.model.profiles import PROFILES, MetricProfile, Part, profile_of

_GROUP_TAGS = ("eks:nodegroup-name", "karpenter.sh/nodepool", "eks:cluster-name")
"""Tags that the hosts of one group share, the narrowest first."""


@dataclass(frozen=True, slots=True)
class _Publisher:
    """A profile by which an instance publishes, and the namespace that holds its series."""

    profile: MetricProfile
    namespace: str


def profile_findings(
    target: Target,
    requests: Sequence[EvidenceRequest],
    evidence_by_id: Mapping[str, Evidence],
    metrics: MetricReader,
) -> dict[str, Finding]:
    """Return by instance id the finding that an instance publishes by another profile than its
    policy's. Empty if there is none.

    Instances that publish nothing under their policy's names are looked for. The names of cores
    need no search. Raises: CloudError.
    """
    findings: dict[str, Finding] = {}
    silent: list[EvidenceRequest] = []
    for request in requests:
        instance_id = request.instance.instance_id
        evidence = evidence_by_id[instance_id]
        names = request.policy.metrics
        if evidence.read_problem is None and evidence.source is MetricSource.NONE:
            silent.append(request)
        elif _is_counted_wrongly(evidence, names):
            known = profile_of(names.utilization)
            if known is not None:
                publisher = _Publisher(known, names.namespace)
                findings[instance_id] = _finding(request.instance, publisher, names)
    if not silent:
        return findings
    publisher_by_id = _publishers(target, metrics)
    for request in silent:
        instance = request.instance
        publisher_found = publisher_by_id.get(instance.instance_id)
        if publisher_found is not None:
            names = request.policy.metrics
            findings[instance.instance_id] = _finding(instance, publisher_found, names)
    return findings


def _is_counted_wrongly(evidence: Evidence, names: Metrics) -> bool:
    """Return whether another number of series publishes than expected, under the name of a profile
    of cores that is not the policy's."""
    known = profile_of(names.utilization)
    # GPUs have other reasons to be missing, such as MIG mode.
    if known is None or known.name is names.profile or known.part is not Part.CORE:
        return False
    return len(evidence.gpus) != evidence.gpus_expected


def _publishers(target: Target, metrics: MetricReader) -> dict[str, _Publisher]:
    """Return by instance id the first profile of the table by which an instance has published in
    the last three hours. Raises: CloudError."""
    publisher_by_id: dict[str, _Publisher] = {}
    for profile in PROFILES:
        wanted = SeriesFilter(profile.namespace, profile.utilization)
        for instance_id, listed in metrics.list_series(target, wanted).items():
            namespace = _namespace_of(profile, listed)
            if namespace and instance_id not in publisher_by_id:
                publisher_by_id[instance_id] = _Publisher(profile, namespace)
    return publisher_by_id


def _namespace_of(profile: MetricProfile, listed: Sequence[Listed]) -> str:
    """Return the namespace of these series that is the profile's usual one, or else the first;
    empty if there is none. A namespace that belongs to one role does not count."""
    namespaces = sorted({series.namespace for series in listed if ":" not in series.namespace})
    if profile.usual_namespace in namespaces:
        return profile.usual_namespace
    return namespaces[0] if namespaces else ""


def _finding(instance: Instance, publisher: _Publisher, names: Metrics) -> Finding:
    """Return the finding that an instance publishes by this publisher, and the settings that read
    its metrics."""
    profile = publisher.profile
    given = names_of_profile(profile.name)
    more_names = ""
    if publisher.namespace != given["namespace"]:
        more_names += f", metrics.namespace: {printable(publisher.namespace)}"
    if profile.utilization != given["utilization"]:
        more_names += f", metrics.utilization: {profile.utilization}"
    return other_profile_finding(
        publisher=profile.publisher,
        metric=profile.utilization,
        namespace=printable(publisher.namespace),
        wanted=f"metrics.profile: {names.profile}",
        profile=profile.name,
        names=more_names,
        match=_match_for(instance),
    )


def _match_for(instance: Instance) -> str:
    """Return a match of an override that is for this instance and those like it."""
    for key in _GROUP_TAGS:
        if key in instance.tags:
            return f"tags: {json.dumps({key: printable(instance.tags[key])})}"
    return f"instance_families: [{instance.family}]"
