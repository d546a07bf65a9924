"""Groups messages to the owner of an environment that another service manages.

The governor never acts on their instances: a setting of that service keeps them running idle, and
only its owner may change it.
"""

from __future__ import annotations

from governor.alerts.model import Owner
from governor.core.hashing import short_hash
from governor.core.instance import Target
from governor.core.managed_environments import ManagedEnvironment


def group_key(target: Target, environment: ManagedEnvironment, owner: Owner) -> str:
    """Return the key under which messages about an environment to an owner are counted as one:
    `managed#` with the target and a hash of both."""
    parts = (
        environment.kind.value,
        environment.service,
        environment.name,
        environment.cluster,
        owner.name,
        owner.project,
    )
    return f"managed#{target}#{short_hash(*parts)}"
