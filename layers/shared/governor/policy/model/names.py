"""The selector tag and the exemption tag, and how a tag is compared with an instance's; patterns
for tag keys that IAM can match, Regions, organizational units and instance families.

Each pattern has the reason that a person reads if a name does not fit it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.core.instance import OWN_TAGS
from governor.core.regions import SHAPE as REGION_SHAPE
from governor.core.settings import (
    Section,
)
from governor.core.units import letters_and_digits, printable

KEY_FOR_IAM = "at most 128 letters, digits and + - = . _ : / @"
"""The characters of a tag key that a condition key of IAM surely takes, as the stacks' parameter
says."""
_KEY_FOR_IAM = r"[A-Za-z0-9+\-=._:/@]{1,128}"
# No list of Regions: AWS opens them faster than this is released.
REGION = (REGION_SHAPE, "no Region is named so: write each, as us-east-1")
UNIT = (
    "(r|ou-[a-z0-9]{4,32})-[a-z0-9]{4,32}",
    "no unit is named so: write its ID, as ou-abcd-11111111",
)
FAMILY = (
    "[a-z][a-z0-9-]*",
    "no family is named so: write what stands before the dot of a type, as p5",
)


class Tagged(Protocol):
    """An instance, or another resource with tags."""

    @property
    def tags(self) -> Mapping[str, str]:
        """Return the values of its tags by their keys."""


@dataclass(frozen=True, slots=True)
class TagMatch(Section):
    """A tag of an instance, compared exactly."""

    tag_key: str
    """Key of the tag."""
    tag_value: str
    """Value of the tag."""

    def __str__(self) -> str:
        """Return the tag as people write it: `key=value`."""
        return f"{self.tag_key}={self.tag_value}"

    @staticmethod
    def is_key_for_iam(key: str) -> bool:
        """Return whether the key has only characters with which a condition of IAM can name it, so
        that the stacks' parameter `ExemptionTagKey` takes it."""
        return re.fullmatch(_KEY_FOR_IAM, key) is not None

    def is_on(self, instance: Tagged) -> bool:
        """Return whether the instance has exactly this tag."""
        return instance.tags.get(self.tag_key) == self.tag_value

    def similar_tag_on(self, instance: Tagged) -> str | None:
        """Return the instance's tag that means this one, as `key=value`, however its key is spelled
        and whatever its value is; `None` if there is none. This tag itself goes before others.

        Keys are compared by letters and digits alone. A key that also holds the value counts, too
        (`gpugovernor:exempt`). The governor's own keys never count.
        """
        if self.is_on(instance):
            return str(self)
        for key, value in instance.tags.items():
            if self._is_meant_by(key):
                return printable(f"{key}={value}")
        return None

    def _is_meant_by(self, key: str) -> bool:
        """Return whether an instance's tag with this key means this tag: the key is the same, or by
        its letters and digits alone the same, or the same followed by this tag's value. It is false
        for the governor's own keys."""
        if key == self.tag_key:
            return True
        wanted = letters_and_digits(self.tag_key)
        if key in OWN_TAGS or not wanted:
            return False
        return letters_and_digits(key) in (wanted, wanted + letters_and_digits(self.tag_value))
