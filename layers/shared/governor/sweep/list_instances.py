"""Lists the running instances of a target with all that is known before metrics are read.

An instance that cannot be judged is listed with its problem: the others are judged all the same.
This module must not write.
"""

from __future__ import annotations

from collections.abc import Mapping

from governor.core.errors import PolicyError
from governor.core.instance import Instance, Target
from governor.core.units import UtcDatetime
from governor.episode.model.episode import InstanceRecord, Observation
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.policy.model.policy import AppliedPolicy
from governor.policy.ports import Policies
from governor.sweep.store import Sweeps
from governor.sweep.sweep_case import ListedInstance, Listing, UndescribedInstance
from governor.verdict.model import AFTER_RESTART


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

    An instance that EC2 lists and that cannot be read is undescribed, with its problem. One whose
    id cannot be read either is a problem of the listing, and each known instance that the list does
    not name is undescribed because of it. Raises: CloudError if EC2's list, or the records or
    observations in the state table, cannot be read.
    """
    base = policies.base().policy
    observations = sweep_store.observations(target)
    problem_by_id: dict[str, str] = {}
    described = reader.list_selected(target, base.selector, problem_by_id)
    records = instance_store.records(target)

    problems = []
    # The key "" holds the problem of an instance whose id cannot be read. It may be any known
    # instance that is missing from the list.
    unnamed_problem = problem_by_id.pop("", None)
    named_ids = {*problem_by_id}
    if unnamed_problem is not None:
        problems.append(unnamed_problem)
        missing = _known_ids(observations, records)
        missing.difference_update(instance.instance_id for instance in described)
        problem_by_id = dict.fromkeys(missing, unnamed_problem) | problem_by_id

    listed = []
    for instance in described:
        instance_id = instance.instance_id
        record = records.get(instance_id) or InstanceRecord(target, instance_id)
        applied, policy_problem = _applied_policy(policies, instance)
        problem = policy_problem or record.problem
        previous = _previous_of_this_run(instance, observations.get(instance_id), now)
        listed.append(ListedInstance(instance, applied, record, previous, now, problem))

    undescribed = []
    for instance_id, problem in problem_by_id.items():
        record = records.get(instance_id) or InstanceRecord(target, instance_id)
        previous = observations.get(instance_id) or _never_observed(record, now)
        is_named = instance_id in named_ids
        undescribed.append(UndescribedInstance(record, previous, now, problem, is_named))
    return Listing(target, base, now, listed, undescribed, records, observations, problems)


def _known_ids(
    observations: Mapping[str, Observation], records: Mapping[str, InstanceRecord]
) -> set[str]:
    """Return the ids of the instances that the last sweep observed or that have an open episode;
    empty if there are none."""
    known_ids = {*observations}
    for instance_id, record in records.items():
        if record.open_episode is not None:
            known_ids.add(instance_id)
    return known_ids


def _never_observed(record: InstanceRecord, now: UtcDatetime) -> Observation:
    """Return an observation with an empty verdict for an instance that EC2 does not describe and of
    which there is no observation. It was started when its open episode says, else at `now`."""
    episode = record.open_episode
    launch_time = now if episode is None else episode.launch_time
    return Observation(launch_time, verdict="", at=now)


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
