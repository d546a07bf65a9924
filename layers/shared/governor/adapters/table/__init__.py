"""The state table: one small store per aggregate over one client."""

from governor.adapters.table.approvals import ApprovalStore
from governor.adapters.table.client import Table
from governor.adapters.table.deliveries import DeliveryStore
from governor.adapters.table.episodes import EpisodeStore
from governor.adapters.table.events import EventStore
from governor.adapters.table.instances import InstanceStore
from governor.adapters.table.ledger import LedgerStore
from governor.adapters.table.policies import PolicyStore
from governor.adapters.table.sweeps import SweepStore


class StateTable(
    SweepStore, InstanceStore, EpisodeStore, ApprovalStore, LedgerStore, DeliveryStore, PolicyStore
):
    """All stores but the event log in one object, for use cases that need several."""


__all__ = ["EventStore", "StateTable", "Table"]
