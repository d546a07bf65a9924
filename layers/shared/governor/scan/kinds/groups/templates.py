"""Instance types in launch templates, and in the settings that override them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from governor.core.errors import CloudError, NotFound
from governor.scan.kind import Place
from governor.scan.kinds.groups.rules import Choice, has_accelerators

DESCRIBE_TEMPLATE = "ec2:DescribeLaunchTemplateVersions"


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches of a group: the types, or none if it asks for accelerators by attributes."""

    choices: tuple[Choice, ...] = ()
    asks_for_accelerators: bool = False

    @property
    def is_accelerated(self) -> bool:
        """Return whether the group may launch accelerated instances."""
        return self.asks_for_accelerators or has_accelerators(self.choices)

    @property
    def is_known(self) -> bool:
        """Return whether anything is known of what the group launches."""
        return self.asks_for_accelerators or bool(self.choices)


def launches_of(specifications: Iterable[Mapping[str, Any]]) -> Launches:
    """Return what these launch: overrides of a template, or specifications of a fleet. A type that
    stands in several of them counts once. Raises: ArithmeticError for a weight that is none."""
    choice_by_type: dict[str, Choice] = {}
    asks_for_accelerators = False
    for specification in specifications:
        instance_type = specification.get("InstanceType")
        requirements = specification.get("InstanceRequirements") or {}
        if instance_type:
            weight = Decimal(str(specification.get("WeightedCapacity") or 1))
            choice_by_type[instance_type] = Choice(instance_type, weight)
        elif asks_for_an_accelerator(requirements):
            asks_for_accelerators = True
    return Launches(tuple(choice_by_type.values()), asks_for_accelerators)


def asks_for_an_accelerator(requirements: Mapping[str, Any]) -> bool:
    """Return whether requirements of an instance call for at least one accelerator."""
    count = requirements.get("AcceleratorCount") or {}
    return bool(count.get("Min"))


def launches_of_template(place: Place, topic: str, template: Mapping[str, Any]) -> Launches:
    """Return what a launch template launches, read once; nothing is known if EC2 does not show it,
    which is reported under the topic unless the template is gone."""
    which = "LaunchTemplateId" if template.get("LaunchTemplateId") else "LaunchTemplateName"
    name = template.get(which)
    if not name:
        return Launches()
    version = template.get("Version") or "$Default"

    def ask() -> Launches:
        """Return what the version of the template launches."""
        parameters = {which: name, "Versions": [version]}
        page = place.call(DESCRIBE_TEMPLATE, **parameters)
        versions = page.get("LaunchTemplateVersions") or ()
        return launches_of(one.get("LaunchTemplateData") or {} for one in versions)

    try:
        return place.kept.get((DESCRIBE_TEMPLATE, str(place.target), name, version), ask)
    except NotFound:
        return Launches()
    except CloudError as error:
        place.could_not_read(f"launch templates of {topic}", error)
        return Launches()


def launches_of_configs(place: Place, topic: str, configs: Iterable[Mapping[str, Any]]) -> Launches:
    """Return what a fleet launches by its templates and their overrides. A template is read only if
    its overrides name nothing."""
    choices: list[Choice] = []
    asks_for_accelerators = False
    for config in configs:
        launches = launches_of(config.get("Overrides") or ())
        if not launches.is_known:
            template = config.get("LaunchTemplateSpecification") or {}
            launches = launches_of_template(place, topic, template)
        choices += launches.choices
        asks_for_accelerators = asks_for_accelerators or launches.asks_for_accelerators
    return Launches(tuple(dict.fromkeys(choices)), asks_for_accelerators)
