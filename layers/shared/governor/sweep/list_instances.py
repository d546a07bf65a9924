"""Lists the running instances of a target with all that is known before metrics are read.

An instance that cannot be judged is listed with its problem: the others are judged all the same.
This module must not write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from governor.core.errors import PolicyError
from governor.core.instance import Instance, Target
from governor.core.units import UtcDatetime
from governor.episode.model.episode import InstanceRecord, Observation
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.policy.model.policy import AppliedPolicy
from governor.policy.ports import Policies
from governor.sweep.store import Sweeps
from governor.sweep.sweep_case import ListedInstance, Listing
from governor.verdict.model import AFTER_RESTART


@dataclass(frozen=True, slots=True)
class UndescribedInstance:
    """A running instance whose record from EC2 cannot be read: only its id is certain."""

    target: Target
    instance_id: str
    launch_time: UtcDatetime
    """The last known start, or the time of this sweep if none is known."""
    problem: str

    def as_instance(self) -> Instance:
        """Return an instance with this id that runs, has the type `unknown` and no tags. With it
        the costs, the row in the console and the open episode of the real one are not lost."""
        return Instance(self.target, self.instance_id, "unknown", "running", self.launch_time)


def list_instances(
    target: Target,
    now: UtcDatetime,
    policies: Policies,
    reader: InstanceReader,
    instance_store: Instances,
    sweep_store: Sweeps,
) -> Listing:
    """Return the running instances of the target that the policy's selector names, each with its
    policy, its record and the previous observation. Nothing is written.

    An instance that EC2 lists and that cannot be read is in the list with its problem. One whose id
    cannot be read either is a problem of the listing, and of each known instance that the list does
    not name. Raises: CloudError if EC2's list, or the records or observations in the state table,
    cannot be read.
    """
    base = policies.base().policy
    observations = sweep_store.observations(target)
    problem_by_id: dict[str, str] = {}
    described = reader.list_selected(target, base.selector, problem_by_id)
    records = instance_store.records(target)
    known_starts = _known_starts(observations, records)

    problems = []
    # The key "" holds the problem of an instance whose id cannot be read. It may be any known
    # instance that is missing from the list.
    unnamed_problem = problem_by_id.pop("", None)
    if unnamed_problem is not None:
        problems.append(unnamed_problem)
        missing = known_starts.keys() - {instance.instance_id for instance in described}
        problem_by_id = dict.fromkeys(missing, unnamed_problem) | problem_by_id

    instances = list(described)
    for instance_id, problem in problem_by_id.items():
        start = known_starts.get(instance_id, now)
        instances.append(UndescribedInstance(target, instance_id, start, problem).as_instance())

    listed = []
    for instance in instances:
        instance_id = instance.instance_id
        record = records.get(instance_id) or InstanceRecord(target, instance_id)
        applied, policy_problem = _applied_policy(policies, instance)
        problem_of_instance = problem_by_id.get(instance_id, policy_problem or record.problem)
        previous = _previous_of_this_run(instance, observations.get(instance_id), now)
        listed.append(ListedInstance(instance, applied, record, previous, now, problem_of_instance))
    return Listing(target, base, now, listed, records, observations, problems)


def _known_starts(
    observations: Mapping[str, Observation], records: Mapping[str, InstanceRecord]
) -> dict[str, UtcDatetime]:
    """Return by instance id when each known instance was last started. If there is an observation
    and an open episode, the observation counts: it is newer."""
    starts = {}
    for instance_id, record in records.items():
        if record.open_episode is not None:
            starts[instance_id] = record.open_episode.launch_time
    for instance_id, observation in observations.items():
        starts[instance_id] = observation.launch_time
    return starts


def _applied_policy(policies: Policies, instance: Instance) -> tuple[AppliedPolicy, str | None]:
    """Return the policy of the instance and `None`. If its overrides contradict each other, return
    the policy without overrides, and the problem as a text."""
    try:
        return policies.applied_to(instance), None
    except PolicyError as error:
        return policies.base(), str(error)


def _previous_of_this_run(
    instance: Instance, observation: Observation | None, now: UtcDatetime
) -> Observation:
    """Return the observation of the previous sweep if it saw this run of the instance. Otherwise
    return an observation at `now` with an empty verdict.

    An instance that was seen before and has been restarted since counts as newly launched: its last
    known verdict is `too-young`.
    """
    if observation is not None and observation.launch_time == instance.launch_time:
        return observation
    last_known = None if observation is None else AFTER_RESTART.value
    return Observation(instance.launch_time, verdict="", at=now, last_known=last_known)
