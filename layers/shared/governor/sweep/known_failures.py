"""Finds targets whose sweep failed again for a reason that people know, so that the alarm on failed
sweeps sounds for new failures.

It only decides which failures are known. It must not hide a failure that no sweep has failed for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, iso
from governor.episode.model.standing import StandingState
from governor.episode.store.instances import Failures
from governor.fleet.store import Fleet
from governor.fleet.unswept import Unswept
from governor.policy.accounts import swept_targets
from governor.policy.ports import Policies
from governor.table.once import Once

_LONGEST_SWEEP = timedelta(hours=3)
"""A sweep ends within two and a half hours (`statemachines/sweep.yaml`), so an older failure is of
an earlier one."""
_FAILED_SWEEPS = ("first", "second")
"""Sweeps that fail for a new failure. Step Functions may call the function again without having
seen its error: the second one fails even if the first one was lost so."""


@dataclass(frozen=True, slots=True)
class FindKnownFailures:
    """Finds the targets for whose present failure sweeps have already failed.

    A failure is known once two sweeps have failed for it within a day. It is new again after that
    day, with another error, and after its target was swept. Where no target at all was swept, no
    failure is known.
    """

    clock: Clock
    policies: Policies
    fleet_store: Fleet
    failure_store: Failures
    read_failures: Callable[[], Mapping[Target, Unswept]]
    once: Once
    hub: Target

    def __call__(self) -> frozenset[Target]:
        """Return the targets that failed, if sweeps have failed for each of their failures before.

        Return an empty set if no target failed. Return it, too, if one of the failures is new or no
        target was swept: this sweep must fail then, as it must after an error. Raises: CloudError.
        """
        targets = swept_targets(self.policies.base().policy, self.hub)
        state_by_target = self._states_of_targets()
        failures = self._present_failures(targets, state_by_target)
        unswept = failures.keys() | state_by_target.keys()
        is_any_swept = any(target not in unswept for target in targets)
        if not failures or not is_any_swept:
            return frozenset()
        if self._new_keys(list(failures.values())):
            return frozenset()
        return frozenset(failures)

    def _states_of_targets(self) -> dict[Target, StandingState]:
        """Return by target the newest state that keeps the whole target from being swept; empty if
        there are none. Raises: CloudError."""
        state_by_target: dict[Target, StandingState] = {}
        for state in self.failure_store.standing_states():
            earlier = state_by_target.get(state.target)
            is_newest = earlier is None or state.seen_at > earlier.seen_at
            if state.is_of_target and is_newest:
                state_by_target[state.target] = state
        return state_by_target

    def _present_failures(
        self, targets: Sequence[Target], state_by_target: Mapping[Target, StandingState]
    ) -> dict[Target, str]:
        """Return a key for the failure of each of these targets that has not been swept since, and
        has not met a state since. A failure keeps its key until its target is swept, or fails with
        another error. Raises: CloudError."""
        oldest = self.clock.now() - _LONGEST_SWEEP
        key_by_target: dict[Target, str] = {}
        for target, failure in self.read_failures().items():
            if target not in targets or failure.at < oldest:
                continue
            state = state_by_target.get(target)
            if state is not None and state.seen_at > failure.at:
                continue
            page = self.fleet_store.page(target)
            if page is not None and page.swept_at > failure.at:
                continue
            swept_at = None if page is None else page.swept_at
            key_by_target[target] = _key(target, failure.error, swept_at)
        return key_by_target

    def _new_keys(self, keys: Sequence[str]) -> frozenset[str]:
        """Return those of the keys for which fewer than two sweeps of the last day have failed, so
        that this sweep must fail; empty if there are none.

        Each of them is claimed for this sweep. A key that could not be claimed is among them.
        """
        new_keys: set[str] = set()
        for sweep in _FAILED_SWEEPS:
            key_by_claim: dict[str, str] = {}
            for key in keys:
                if key not in new_keys:
                    key_by_claim[f"{key}#{sweep}"] = key
            claimed = self.once.of_many([*key_by_claim], _do_nothing)
            for claim in claimed:
                new_keys.add(key_by_claim[claim])
        return frozenset(new_keys)


def _key(target: Target, error: str, swept_at: UtcDatetime | None) -> str:
    """Return the key of a failure: the same until the target is swept or the error is another.
    `swept_at` is when the target was last swept; `None` if it never was."""
    last_swept = "never" if swept_at is None else iso(swept_at)
    return f"unswept#{target}#{error}#{last_swept}"


def _do_nothing(claims: Sequence[str]) -> dict[str, CloudError | None]:
    """Return `None` for each claim: it is done, as nothing else has to be done for it."""
    return dict.fromkeys(claims)
