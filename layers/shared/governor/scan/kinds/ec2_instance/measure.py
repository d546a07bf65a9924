"""Measures running instances in a scan by the product's own evidence and judge, read only.

The order: what needs no metric; the publishers of each instance; a short look at those whose
accelerators publish, and a day of those that look idle; the figures beside the accelerators of the
rest. This module decides nothing itself: `verdict.rules` and `rules` do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from governor.core.errors import CloudError
from governor.core.instance import Lifecycle, SpotRequestType
from governor.core.units import in_parts
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.ports import Listed, SeriesFilter
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.figures import EC2_NAMESPACE, FIGURES, Publisher, published_by
from governor.policy.model.policy import Policy
from governor.scan.kind import Place
from governor.scan.kinds.calls import report_problem
from governor.scan.kinds.ec2_instance.beside import ReadBeside
from governor.scan.kinds.ec2_instance.model import (
    LOOK_BACK,
    Beside,
    Host,
    Measured,
    Reading,
    Source,
)
from governor.scan.kinds.ec2_instance.rules import (
    FigureBeside,
    deciding,
    figures_beside,
    finding_of,
)
from governor.scan.kinds.ec2_instance.sources import TOPIC, Sources, find_sources
from governor.scan.model import Finding
from governor.verdict.model import NO_HOLD, Verdict
from governor.verdict.rules.judge import first_judged_at, is_candidate, judge, judge_without_metrics
from governor.verdict.rules.judging import wanted_figures
from governor.verdict.rules.second_figure import doubt_text
from governor.verdict.rules.utilization import judge_utilization, peaks_of

SPOT_REQUESTS = "ec2:DescribeSpotInstanceRequests"
_FILTER_VALUES = 200
"""The most values of one filter. Source: EC2 API, Filter."""
_HOSTS_OF_A_READ = 5_000
"""So many instances are read at a time beside their accelerators: about seven series each, of a
day."""


def measure_hosts(place: Place, hosts: Sequence[Host]) -> dict[str, Measured]:
    """Return what was measured of each instance, by its id. A part that AWS refuses is reported,
    and leaves its instances without a judgment."""
    measured: dict[str, Measured] = {}
    old_enough: list[Host] = []
    for host in hosts:
        verdict = judge_without_metrics(host.instance, NO_HOLD, place.policy, place.now)
        if verdict is None:
            old_enough.append(host)
        else:
            measured[host.resource_id] = Measured(Reading(verdict.kind, verdict.reason))
    if not old_enough:
        return measured
    sources = find_sources(place, old_enough)
    published = [host for host in old_enough if sources.of(host)]
    silent = [host for host in old_enough if not sources.of(host)]
    for instance_id, reading in _Publishers(place, sources).readings(published).items():
        measured[instance_id] = Measured(reading)
    if sources.problem:
        for host in silent:
            # Its accelerators may publish something: nothing beside them is worth a guess.
            measured[host.resource_id] = Measured(problem=sources.problem)
    else:
        measured |= _beside(place, silent)
    return _with_spot_requests(place, hosts, measured)


@dataclass(frozen=True, slots=True)
class _Publishers:
    """Reads and judges instances by what their accelerators publish."""

    place: Place
    sources: Sources

    def readings(self, hosts: Sequence[Host]) -> dict[str, Reading]:
        """Return the reading that decides, by instance id."""
        readings: dict[str, list[Reading]] = defaultdict(list)
        hosts_by_source: dict[Source, list[Host]] = defaultdict(list)
        for host in hosts:
            for source in self.sources.of(host):
                hosts_by_source[source].append(host)
        for source, hosts_here in hosts_by_source.items():
            for host, reading in self._of_source(source, hosts_here):
                readings[host.resource_id].append(reading)
        for list_of_host in readings.values():
            self._report_problems(list_of_host)
        return {instance_id: deciding(found) for instance_id, found in readings.items()}

    def _of_source(self, source: Source, hosts: Sequence[Host]) -> Iterator[tuple[Host, Reading]]:
        """Yield the reading of each instance by one publisher: over a day if it has run that long
        and looks idle now, else over the policy's window."""
        short = self._policy(source)
        day = short.with_window(max(LOOK_BACK, short.window))
        old = [host for host in hosts if first_judged_at(host.instance, day) <= self.place.now]
        young = [host for host in hosts if first_judged_at(host.instance, day) > self.place.now]
        idle_now: list[Host] = []
        for host, evidence in self._evidence(source, short, old, in_full=False):
            verdict = judge_utilization(evidence, short)
            if verdict is None:
                idle_now.append(host)
            else:
                yield host, _reading(host, source, verdict, evidence, short)
        for policy, hosts_here in ((day, idle_now), (short, young)):
            for host, evidence in self._evidence(source, policy, hosts_here, in_full=True):
                verdict = judge(host.instance, NO_HOLD, evidence, policy, self.place.now)
                yield host, _reading(host, source, verdict, evidence, policy)

    def _policy(self, source: Source) -> Policy:
        """Return the policy with the publisher's names of metrics."""
        policy = self.place.policy
        names = source.profile.metrics(policy.metrics, source.namespace)
        names = replace(names, bound_namespaces=source.is_bound)
        return replace(policy, metrics=names)

    def _evidence(
        self, source: Source, policy: Policy, hosts: Sequence[Host], *, in_full: bool
    ) -> Iterator[tuple[Host, Evidence]]:
        """Yield the evidence of each instance: its utilization, and in full the other figures of
        those that utilization alone would call idle."""
        host_by_id = {host.resource_id: host for host in hosts}
        figures = wanted_figures(policy) if in_full else frozenset()
        requests = []
        for host in hosts:
            request = EvidenceRequest(
                instance=host.instance,
                policy=policy,
                figures=figures,
                only_if=is_candidate,
                # The agent's interval, by which an aggregate is counted, is not known here.
                per_gpu=in_full,
            )
            requests.append(request)
        if in_full and requests:
            self._list_once(policy)
        gather = GatherEvidence(self.place.metrics)
        parts = gather.in_parts(self.place.target, requests, self.place.now, self.sources.listings)
        for part in parts:
            for instance_id, gathered in part.items():
                yield host_by_id[instance_id], gathered.evidence

    def _list_once(self, policy: Policy) -> None:
        """Add the listings that the evidence of idle instances needs, so that no instance is listed
        by itself. One that fails is asked for again, and noted, where the evidence is read."""
        wanted: list[SeriesFilter] = []
        for figure in published_by(Publisher.EC2_GPU):
            for metric in FIGURES[figure].metrics:
                wanted.append(SeriesFilter(EC2_NAMESPACE, metric))
        work = policy.metrics.work
        if work is not None:
            wanted.append(SeriesFilter(work.namespace, None, recently=False))
            wanted.append(SeriesFilter(work.namespace, None))
        for listing in wanted:
            if listing in self.sources.listings.by_filter:
                continue
            try:
                found = self.place.metrics.list_series(self.place.target, listing)
            except CloudError as error:
                self.place.could_not_read(TOPIC, error)
            else:
                self.sources.listings.by_filter[listing] = found

    def _report_problems(self, readings: Sequence[Reading]) -> None:
        """Report the problem of each reading that has one, among the things that were not read."""
        for reading in readings:
            if reading.problem is not None:
                report_problem(self.place, TOPIC, reading.problem)


def _reading(
    host: Host, source: Source, verdict: Verdict, evidence: Evidence, policy: Policy
) -> Reading:
    """Return what a verdict and its evidence say of an instance."""
    return Reading(
        kind=verdict.kind,
        reason=verdict.reason,
        source=source,
        window=evidence.window,
        peak_percent=max(peaks_of(evidence), default=None),
        parts=evidence.gpus_reporting,
        idle_parts=verdict.idle_parts,
        cpu_percent=evidence.cpu_percent,
        network_bytes_per_second=evidence.network_bytes_per_second,
        doubt=doubt_text(host.instance.instance_type, evidence, policy),
        problem=evidence.read_problem,
    )


def _beside(place: Place, hosts: Sequence[Host]) -> dict[str, Measured]:
    """Return the figures beside the accelerators of instances that publish nothing else, by id:
    over a day if they have run that long, else over the policy's window. If the series of a figure
    cannot be listed, that is reported, and is the problem of each."""
    if not hosts:
        return {}
    figures = figures_beside(place.policy)
    try:
        listed = _list_figures(place, figures.values())
    except CloudError as error:
        place.could_not_read(TOPIC, error)
        return {host.resource_id: Measured(problem=str(error)) for host in hosts}
    day = place.policy.with_window(max(LOOK_BACK, place.policy.window))
    old = [host for host in hosts if first_judged_at(host.instance, day) <= place.now]
    young = [host for host in hosts if first_judged_at(host.instance, day) > place.now]
    measured: dict[str, Measured] = {}
    for policy, hosts_here in ((day, old), (place.policy, young)):
        read = ReadBeside(place, policy.window, figures, listed)
        for part in in_parts(hosts_here, _HOSTS_OF_A_READ):
            for instance_id, beside in read(part).items():
                _report_beside(place, beside)
                measured[instance_id] = Measured(beside=beside)
    return measured


def _list_figures(
    place: Place, figures: Iterable[FigureBeside]
) -> dict[str, Mapping[str, Sequence[Listed]]]:
    """Return the series of the figures that only a listing shows, by metric and instance id.
    Raises: CloudError."""
    listed: dict[str, Mapping[str, Sequence[Listed]]] = {}
    for figure in figures:
        if figure.is_listed:
            for metric in figure.metrics:
                wanted = SeriesFilter(EC2_NAMESPACE, metric)
                listed[metric] = place.metrics.list_series(place.target, wanted)
    return listed


def _report_beside(place: Place, beside: Beside) -> None:
    """Report why a figure of an instance could not be read, if one could not."""
    if beside.problem:
        report_problem(place, TOPIC, beside.problem)


def _with_spot_requests(
    place: Place, hosts: Sequence[Host], measured: dict[str, Measured]
) -> dict[str, Measured]:
    """Return the measurements with the type of the Spot request of each idle Spot instance: it says
    whether the instance can be stopped. A refusal is reported, and leaves the type unknown."""
    request_by_id: dict[str, str] = {}
    for host in hosts:
        reading = measured[host.resource_id].reading
        is_idle = reading is not None and finding_of(reading.kind) is Finding.IDLE
        request_id = host.instance.spot_request_id
        if is_idle and request_id and host.instance.lifecycle is Lifecycle.SPOT:
            request_by_id[host.resource_id] = request_id
    if not request_by_id:
        return measured
    types = _spot_request_types(place, sorted(set(request_by_id.values())))
    completed = dict(measured)
    for instance_id, request_id in request_by_id.items():
        found = types.get(request_id)
        completed[instance_id] = replace(measured[instance_id], spot_request=found)
    return completed


def _spot_request_types(place: Place, request_ids: Sequence[str]) -> dict[str, SpotRequestType]:
    """Return the types of Spot requests by id; those that EC2 does not show are left out. If a read
    fails, that is reported, and those that were not read yet are left out, too."""
    types: dict[str, SpotRequestType] = {}
    for part in in_parts(request_ids, _FILTER_VALUES):
        by_id = [{"Name": "spot-instance-request-id", "Values": list(part)}]
        try:
            for page in place.pages(SPOT_REQUESTS, Filters=by_id):
                for record in page["SpotInstanceRequests"]:
                    is_persistent = record.get("Type") == SpotRequestType.PERSISTENT
                    types[record["SpotInstanceRequestId"]] = (
                        SpotRequestType.PERSISTENT if is_persistent else SpotRequestType.ONE_TIME
                    )
        except CloudError as error:
            place.could_not_read("Spot requests", error)
            break
    return types
