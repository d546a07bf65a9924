"""Who sees and does what in the console, beside the owners of instances."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from governor.domain.settings import Mistake, Section, checked

_CALLER = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:(root|user/[^\s*]+)|sts::\d{12}:assumed-role/[^\s/*]+/([^\s/*]+|\*))"
)
"""As API Gateway names an IAM caller. Source: IAM user guide, principals of a request."""


@dataclass(frozen=True, slots=True)
class ConsoleScope(Section):
    """What some people see in the console, and what they may do there."""

    groups: tuple[str, ...] = ()
    """Groups of the issuer, by the names in its claim."""
    identities: tuple[str, ...] = checked(
        (), "write the ARN of a user, or of a role session; * may stand for its name", _CALLER.fullmatch
    )
    """ARNs of IAM callers. `*` stands for the session name of an assumed role, and for nothing else."""
    role: Literal["viewer", "approver", "admin"] = "viewer"
    """`viewer` changes nothing; `approver` answers questions; `admin` also ends keeps and
    exemptions."""
    everything: bool = False
    """The whole fleet."""
    accounts: tuple[str, ...] = checked(
        (), "an account has 12 digits, in quotes", re.compile(r"\d{12}").fullmatch
    )
    """All instances of these accounts."""
    projects: tuple[str, ...] = ()
    """All instances of these projects."""

    def contradictions(self) -> Iterator[Mistake]:
        if not (self.groups or self.identities):
            yield ("groups",), "names nobody: set groups or identities"
        if not (self.everything or self.accounts or self.projects):
            yield ("everything",), "shows nothing: set everything, accounts or projects"


@dataclass(frozen=True, slots=True)
class Console(Section):
    """Who sees what in the console. Contacts see what they or their projects own without being named here."""

    scopes: Mapping[str, ConsoleScope] = field(default_factory=dict)
    """What groups of the issuer and IAM callers see, by a name of your choice."""
