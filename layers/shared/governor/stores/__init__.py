"""Stores: one class for each aggregate, over one table (`governor.stores.table`).

Every change that matters is a conditional write, and raises `ConflictError` if another change came
first.
"""

from __future__ import annotations

from governor.stores.brakes import Brakes
from governor.stores.caps import ActionCaps
from governor.stores.deliveries import Deliveries as Deliveries
from governor.stores.episodes import Episodes as Episodes
from governor.stores.episodes import Expiries
from governor.stores.events import Burst as Burst
from governor.stores.events import EventLog as EventLog
from governor.stores.fleet import Fleet as Fleet
from governor.stores.instances import Failures as Failures
from governor.stores.instances import Instances as Instances
from governor.stores.ledger import Ledger as Ledger
from governor.stores.pauses import Pauses as Pauses
from governor.stores.policy import PolicyVersions
from governor.stores.prices import Prices
from governor.stores.sweeps import Sweeps


class StateTable(
    Brakes,
    ActionCaps,
    Sweeps,
    Instances,
    Failures,
    Episodes,
    Ledger,
    Deliveries,
    PolicyVersions,
    Fleet,
    Prices,
    Expiries,
):
    """All stores but the event log in one object, for use cases that need several."""
