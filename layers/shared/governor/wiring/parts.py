"""The adapters of a function, made at cold start. A keyword argument puts another in the place of one.

Each function makes only what its use case asks for, so that none opens a client that it has no right to use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cached_property
from inspect import ismethod
from typing import Any, TypeVar

from governor.adapters.clients import Clients
from governor.adapters.clock import SystemClock
from governor.adapters.links import HmacLinkSigner
from governor.adapters.secrets import SecretDocument
from governor.adapters.sns import SnsAnnouncer
from governor.adapters.ssm import PolicyParameter
from governor.adapters.stepfunctions import StepFunctionsWorkflow
from governor.adapters.table import EventStore, StateTable, Table
from governor.contracts.settings import Settings, from_environment
from governor.domain.instance import Target
from governor.ports import Announcer, Clock, LinkSigner, Policies, Workflow
from governor.stores import EventLog
from governor.usecases.accounts import Accounts
from governor.usecases.deliver_decision import DeliverDecision
from governor.usecases.once import Once
from governor.usecases.void_episode import VoidEpisode

UseCase = TypeVar("UseCase")
Ready = Callable[[], UseCase]
"""Gives the use case of one invocation, which sees one policy."""


class Parts:
    """What use cases are made of, by the names of their fields: `fill(AskOwner)` takes `state` from here.

    Raises:
        ConfigurationError: a variable that a part needs is missing; the message names it.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        clients: Clients | None = None,
        clock: Clock | None = None,
        **replaced: object,
    ) -> None:
        self.settings = settings or from_environment()
        self.clients = clients or Clients(self.settings.aws_region)
        self.clock: Clock = clock or SystemClock()
        unknown = [name for name in replaced if not hasattr(type(self), name)]
        if unknown:
            raise TypeError(f"no such parts: {', '.join(unknown)}")
        # A cached property gives way to an attribute of its name.
        vars(self).update(replaced)

    def fill(self, kind: Callable[..., UseCase], policies: Policies | None = None, **given: Any) -> UseCase:
        """Make a use case: a field without default is what is given, or the part of that name.

        A part that is a method rests on the policy, and gets it.
        """
        for field in fields(kind):  # type: ignore[arg-type]
            if field.name == "policies" and policies is not None:
                given["policies"] = policies
            elif field.name not in given and field.default is MISSING:
                part = getattr(self, field.name)
                given[field.name] = part(policies) if ismethod(part) else part
        return kind(**given)

    @property
    def hub(self) -> Target:
        """The account and Region of the stack."""
        return Target(self.settings.hub_account_id, self.settings.aws_region)

    @cached_property
    def accounts(self) -> Accounts:
        known = self.settings
        role = known.member_role_name or None
        return Accounts(known.hub_account_id, known.aws_region, known.partition, role)

    @cached_property
    def policy_text(self) -> PolicyParameter:
        return PolicyParameter(self.clients, self.settings.need("policy_parameter"))

    @cached_property
    def table(self) -> Table:
        self.clients.client("dynamodb")
        return Table(self.clients, self.settings.need("table_name"))

    @cached_property
    def state(self) -> StateTable:
        return StateTable(self.table)

    @cached_property
    def log(self) -> EventLog:
        self.clients.client("dynamodb", repeat=False, patient=False)
        return EventStore(self.table)

    @cached_property
    def workflow(self) -> Workflow:
        self.clients.client("stepfunctions")
        return StepFunctionsWorkflow(self.clients, self.settings.need("remediation_state_machine_arn"))

    @cached_property
    def announcer(self) -> Announcer:
        self.clients.client("sns")
        return SnsAnnouncer(self.clients, self.settings.need("alert_topic_arn"))

    @cached_property
    def link_keys(self) -> SecretDocument:
        return self.secret(self.settings.need("link_key_secret_arn"))

    @cached_property
    def channel_secret(self) -> SecretDocument:
        return self.secret(self.settings.need("channel_secret_arn"))

    def secret(self, arn: str) -> SecretDocument:
        """A secret by its ARN."""
        self.clients.client("secretsmanager")
        return SecretDocument(self.clients, arn)

    @cached_property
    def signer(self) -> LinkSigner:
        return HmacLinkSigner(self.link_keys.read, self.settings.approval_base_url or None)

    @cached_property
    def once(self) -> Once:
        return Once(self.clock, self.log)

    @cached_property
    def deliver(self) -> DeliverDecision:
        return self.fill(DeliverDecision)

    @cached_property
    def void(self) -> VoidEpisode:
        return self.fill(VoidEpisode)
