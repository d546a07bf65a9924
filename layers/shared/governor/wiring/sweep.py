"""The sweep of a target."""

from __future__ import annotations

from functools import cached_property

from governor.adapters.batch import AwsBatch
from governor.ports import BatchReader
from governor.usecases.events.notify_dates import RemindNotices
from governor.usecases.money.count_costs import CountCosts
from governor.usecases.sweep.sweep_alerts import SweepAlerts
from governor.wiring.instances import InstanceParts


class SweepParts(InstanceParts):
    """As `InstanceParts`."""

    @cached_property
    def batch(self) -> BatchReader:
        return AwsBatch(self.clients)

    @cached_property
    def remind(self) -> RemindNotices:
        return self.fill(RemindNotices)

    @cached_property
    def costs(self) -> CountCosts:
        return self.fill(CountCosts)

    @cached_property
    def alerts(self) -> SweepAlerts:
        return self.fill(SweepAlerts)
