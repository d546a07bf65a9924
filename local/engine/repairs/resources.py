"""Types of resources that CloudFormation makes.

- AWS: `AWS::EC2::Instance` and `AWS::EC2::EC2Fleet` launch what their launch template says, and
  terminate it when they go. Engine: knows neither. Here the instances are simulated, the fleet's
  all of its first type.
- AWS: `AWS::SSM::Document` and `AWS::SSM::Association` have one name each in an account and Region;
  an association is of a document that is there, or of one of AWS. Engine: knows neither. Here they
  are names: nothing is run.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_DOCUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,128}")


def repair(simulation: Any) -> None:
    """Adds the types to the engine's.

    `simulation` is what `local.engine.simulators.mount` has mounted.
    """
    from ministack.services.cloudformation import provisioners

    instances, names = _Instances(simulation.ec2), _Names()
    for kind, create, delete in (
        ("AWS::EC2::Instance", instances.one, instances.terminate),
        ("AWS::EC2::EC2Fleet", instances.fleet, instances.terminate),
        ("AWS::SSM::Document", names.document, names.remove),
        ("AWS::SSM::Association", names.association, names.remove),
    ):
        # An update of a document or an association keeps its name; one of an instance is not needed
        # yet.
        provisioners._RESOURCE_HANDLERS[kind] = {
            "create": create,
            "update": lambda physical_id, *_: (physical_id, {}),
            "delete": delete,
        }


class _Instances:
    """Instances of stacks, by the physical id of what launched them."""

    def __init__(self, ec2: Any) -> None:
        self._ec2 = ec2
        self._launched: dict[str, list[str]] = {}

    def one(self, _name: str, props: Mapping[str, Any], _stack: str) -> tuple[str, dict[str, Any]]:
        instance_id = self._launch(props["LaunchTemplate"], props["InstanceType"])
        self._launched[instance_id] = [instance_id]
        return instance_id, {"InstanceId": instance_id}

    def fleet(
        self, _name: str, props: Mapping[str, Any], _stack: str
    ) -> tuple[str, dict[str, Any]]:
        (config,) = props["LaunchTemplateConfigs"]
        template, kind = (
            config["LaunchTemplateSpecification"],
            config["Overrides"][0]["InstanceType"],
        )
        number = int(props["TargetCapacitySpecification"]["TotalTargetCapacity"])
        fleet_id = f"fleet-{uuid.uuid4()}"
        self._launched[fleet_id] = [
            self._launch(template, kind, lifecycle="spot") for _ in range(number)
        ]
        return fleet_id, {"FleetId": fleet_id}

    def terminate(self, physical_id: str, _props: Mapping[str, Any]) -> None:
        from ministack.core.responses import get_account_id, get_region

        for instance_id in self._launched.pop(physical_id, ()):
            self._ec2.set_state(get_account_id(), get_region(), instance_id, "terminated")

    def _launch(self, template: Mapping[str, Any], kind: str, **more: str) -> str:
        from ministack.core.responses import get_account_id, get_region
        from ministack.services import ec2

        versions = ec2._launch_templates[template["LaunchTemplateId"]]["Versions"]
        (data,) = (
            one["LaunchTemplateData"]
            for one in versions
            if one["VersionNumber"] == int(template["Version"])
        )
        specs = data.get("TagSpecifications", ())
        tags = {
            t["Key"]: t["Value"]
            for one in specs
            if one["ResourceType"] == "instance"
            for t in one["Tags"]
        }
        spec = {
            "instance_type": kind,
            "tags": tags,
            "launch_time": datetime.now(tz=UTC).replace(microsecond=0).isoformat(),
            **more,
        }
        return str(self._ec2.put_instance(get_account_id(), get_region(), spec))


class _Names:
    """Documents and associations that are there: their ids by account, Region, kind and name."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str, str, str], str] = {}

    def document(
        self, _name: str, props: Mapping[str, Any], _stack: str
    ) -> tuple[str, dict[str, Any]]:
        if not _DOCUMENT_NAME.fullmatch(props["Name"]):
            raise ValueError(f"the name of a document cannot be {props['Name']!r}")
        return self._take("document", props["Name"], props["Name"]), {}

    def association(
        self, _name: str, props: Mapping[str, Any], _stack: str
    ) -> tuple[str, dict[str, Any]]:
        document = props["Name"]
        if not document.startswith("AWS-") and self._key("document", document) not in self._ids:
            raise ValueError(f"there is no document {document}")
        association_id = self._take("association", props["AssociationName"], str(uuid.uuid4()))
        return association_id, {"AssociationId": association_id}

    def remove(self, physical_id: str, _props: Mapping[str, Any]) -> None:
        here = self._key("", "")[:2]
        self._ids = {
            key: one for key, one in self._ids.items() if (key[:2], one) != (here, physical_id)
        }

    def _take(self, kind: str, name: str, physical_id: str) -> str:
        key = self._key(kind, name)
        if key in self._ids:
            raise ValueError(f"there is a {kind} {name} already")
        self._ids[key] = physical_id
        return physical_id

    def _key(self, kind: str, name: str) -> tuple[str, str, str, str]:
        from ministack.core.responses import get_account_id, get_region

        return get_account_id(), get_region(), kind, name
