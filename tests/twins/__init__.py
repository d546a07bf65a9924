"""In-memory twins of the ports: the same promises without AWS. For tests and benchmarks."""

from tests.twins.ec2 import MemoryEc2
from tests.twins.metrics import Dimensions, MemoryMetrics
from tests.twins.services import (
    FakeClock,
    MemoryLifecycleHooks,
    MemoryWorkflow,
    RecordingAnnouncer,
    RecordingHook,
    StaticBatch,
    StaticPolicies,
    StaticPrices,
    StaticSpotMarket,
)
from tests.twins.table import MemoryEventLog, MemoryStateTable

__all__ = [
    "Dimensions",
    "FakeClock",
    "MemoryEc2",
    "MemoryEventLog",
    "MemoryLifecycleHooks",
    "MemoryMetrics",
    "MemoryStateTable",
    "MemoryWorkflow",
    "RecordingAnnouncer",
    "RecordingHook",
    "StaticBatch",
    "StaticPolicies",
    "StaticPrices",
    "StaticSpotMarket",
]
