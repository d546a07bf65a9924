"""In-memory twins of the ports: the same promises without AWS. For tests and benchmarks."""

from tests.twins.ec2 import MemoryEc2 as MemoryEc2
from tests.twins.metrics import Dimensions as Dimensions
from tests.twins.metrics import MemoryMetrics as MemoryMetrics
from tests.twins.seals import MemorySeals as MemorySeals
from tests.twins.seals import SealedStateTable as SealedStateTable
from tests.twins.services import FakeClock as FakeClock
from tests.twins.services import MemoryKeys as MemoryKeys
from tests.twins.services import MemoryLifecycleHooks as MemoryLifecycleHooks
from tests.twins.services import MemoryVault as MemoryVault
from tests.twins.services import MemoryWorkflow as MemoryWorkflow
from tests.twins.services import RecordingAnnouncer as RecordingAnnouncer
from tests.twins.services import RecordingHook as RecordingHook
from tests.twins.services import StaticBatch as StaticBatch
from tests.twins.services import StaticPolicies as StaticPolicies
from tests.twins.services import StaticPrices as StaticPrices
from tests.twins.services import StaticSpotMarket as StaticSpotMarket
from tests.twins.table import MemoryEventLog as MemoryEventLog
from tests.twins.table import MemoryStateTable as MemoryStateTable
