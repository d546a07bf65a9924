"""Finds which instances publish metrics of their accelerators, under which known names.

CloudWatch is asked by the names of the profiles alone, never for every series of a place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from governor.core.catalog import shape_of
from governor.core.errors import AccessDenied, CloudError
from governor.evidence.ports import Listed, SeriesFilter
from governor.evidence.read_batch import Listings
from governor.policy.model.profiles import PROFILES, Accelerators, MetricProfile
from governor.scan.kind import Place
from governor.scan.kinds.ec2_instance.model import Host, Source

TOPIC = "metrics of accelerators"
_OWN_NAMESPACE = re.compile(r"(?P<base>.+)/AROA[A-Z0-9]+:(?P<instance_id>i-[0-9a-f]+)")
"""A namespace into which only the role of one instance may publish."""


@dataclass(slots=True)
class Sources:
    """The publishers of each instance, and the listings by which they were found."""

    by_id: dict[str, list[Source]] = field(default_factory=dict)
    """In the order of the profiles."""
    listings: Listings = field(default_factory=Listings)
    """Listings that the reads of evidence need not repeat."""
    problem: str = ""
    """Why a listing is missing, so that an instance without publishers may have some; empty if
    none is."""

    def of(self, host: Host) -> Sequence[Source]:
        """Return the publishers of an instance; empty if none is known."""
        return self.by_id.get(host.resource_id, ())


def find_sources(place: Place, hosts: Sequence[Host]) -> Sources:
    """Return the publishers of these instances, by one listing for each known name of their kinds
    of accelerators. A listing that AWS refuses is reported, and noted as the problem."""
    found = _Found()
    problem = ""
    wanted_ids = {host.resource_id for host in hosts}
    for profile in _profiles_for(hosts):
        wanted = SeriesFilter(profile.namespace, profile.utilization)
        try:
            listed_by_id = place.metrics.list_series(place.target, wanted)
        except CloudError as error:
            place.could_not_read(TOPIC, error)
            problem = str(error)
            if isinstance(error, AccessDenied):
                # The permission is missing for all names.
                break
            continue
        for instance_id in sorted(wanted_ids & listed_by_id.keys()):
            found.add(profile, instance_id, listed_by_id[instance_id])
    return Sources(found.by_id, Listings(dict(found.listings)), problem)


def _profiles_for(hosts: Sequence[Host]) -> list[MetricProfile]:
    """Return the profiles that can measure one of these instances: all of them for a type whose
    vendor is not known."""
    vendors: set[str] = set()
    for host in hosts:
        shape = shape_of(host.instance.instance_type)
        if shape is None or shape.accelerator_count is None:
            vendors.update(Accelerators)
        else:
            vendors.add(shape.vendor)
    return [profile for profile in PROFILES if profile.accelerators in vendors]


@dataclass(slots=True)
class _Found:
    """The publishers and the listings that were found so far."""

    by_id: dict[str, list[Source]] = field(default_factory=dict)
    listings: dict[SeriesFilter, dict[str, list[Listed]]] = field(default_factory=dict)

    def add(self, profile: MetricProfile, instance_id: str, listed: Sequence[Listed]) -> None:
        """Add the publishers that these series of one instance show."""
        by_namespace: dict[str, list[Listed]] = defaultdict(list)
        bound_bases: set[str] = set()
        for series in listed:
            match = _OWN_NAMESPACE.fullmatch(series.namespace)
            if match is None:
                by_namespace[series.namespace].append(series)
            elif match["instance_id"] == instance_id:
                bound_bases.add(match["base"])
                self._keep(SeriesFilter(None, profile.utilization), instance_id, [series])
        for base in bound_bases:
            by_namespace.setdefault(base, [])
        sources = self.by_id.setdefault(instance_id, [])
        for namespace, series_here in sorted(by_namespace.items()):
            sources.append(Source(profile, namespace, is_bound=namespace in bound_bases))
            self._keep(SeriesFilter(namespace, profile.utilization), instance_id, series_here)

    def _keep(self, wanted: SeriesFilter, instance_id: str, series: Sequence[Listed]) -> None:
        """Add the series of one instance to a listing."""
        listing = self.listings.setdefault(wanted, {})
        listing.setdefault(instance_id, []).extend(series)
