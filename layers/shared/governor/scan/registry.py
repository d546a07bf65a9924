"""The table of all kinds of resource that a scan looks for. A kind that is missing here is never
read."""

from __future__ import annotations

from typing import Any

from governor.scan.kind import Kind
from governor.scan.kinds.bedrock_throughput import BedrockThroughputs
from governor.scan.kinds.capacity.capacity_block import CapacityBlocks
from governor.scan.kinds.capacity.capacity_reservation import CapacityReservations
from governor.scan.kinds.capacity.reserved_instances import ReservedInstances
from governor.scan.kinds.capacity.savings_plan import SavingsPlans
from governor.scan.kinds.ec2_instance.kind import Ec2Instances
from governor.scan.kinds.groups.auto_scaling_group import AutoScalingGroups
from governor.scan.kinds.groups.batch_environment import BatchEnvironments
from governor.scan.kinds.groups.eks_node_group import EksNodeGroups
from governor.scan.kinds.groups.fleets import Ec2Fleets, SpotFleets
from governor.scan.kinds.remains.elastic_ip import ElasticIps
from governor.scan.kinds.remains.stopped_instance import StoppedInstances
from governor.scan.kinds.remains.unattached_volume import UnattachedVolumes
from governor.scan.kinds.sagemaker_app import SageMakerApps
from governor.scan.kinds.sagemaker_cluster import SageMakerClusters
from governor.scan.kinds.sagemaker_endpoint.kind import SageMakerEndpoints
from governor.scan.kinds.sagemaker_notebook import SageMakerNotebooks

KINDS: tuple[Kind[Any, Any], ...] = (
    Ec2Instances(),
    SageMakerEndpoints(),
    SageMakerNotebooks(),
    SageMakerApps(),
    SageMakerClusters(),
    BedrockThroughputs(),
    AutoScalingGroups(),
    EksNodeGroups(),
    BatchEnvironments(),
    SpotFleets(),
    Ec2Fleets(),
    CapacityReservations(),
    CapacityBlocks(),
    ReservedInstances(),
    SavingsPlans(),
    StoppedInstances(),
    UnattachedVolumes(),
    ElasticIps(),
)
