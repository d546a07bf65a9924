"""Ports for gathering evidence: EC2, CloudWatch and Systems Manager.

Every method may raise `CloudError` unless its docstring says otherwise, and no other error of
`governor.core.errors` that it does not name. With a `Target` that has a `role_arn`, it acts as that
role in that account.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from governor.core.errors import CloudError

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import (
        Instance,
        Launch,
        Protection,
        Reservation,
        Session,
        SpotRequestType,
        Target,
        Volume,
    )
    from governor.core.units import UtcDatetime
    from governor.evidence.model import Series, Window
    from governor.policy.model.names import TagMatch


class InstanceReader(Protocol):
    """EC2, read only. An instance that EC2 does not know, or no longer knows, is `None`, or left
    out. Every method may raise CloudError.

    Lists leave out a record without the fields that EC2 always sends. Describing such an instance
    fails; among others, only that one fails.
    """

    def list_selected(
        self, target: Target, selector: TagMatch, unreadable: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return all running instances that the selector names, each once, hidden ones too. Their
        volumes have no sizes.

        `unreadable` receives problems by instance id, and by "" a problem that may be about any
        instance that is missing. Raises: CloudError.
        """

    def list_ungoverned(self, target: Target, selector: TagMatch) -> Sequence[Instance]:
        """Return running instances of an accelerated type without the selector's tag: up to 500,
        only to be shown."""

    def creator(self, target: Target, instance_id: str) -> str | None:
        """Return who launched the instance, mostly as an ARN; `None` if CloudTrail's last 90 days
        do not say."""

    def launch(self, target: Target, instance_id: str, before: UtcDatetime) -> Launch | None:
        """Return who launched the instance and when, by one call for the newest records before this
        time; `None` if those do not say it. It never waits for a retry."""

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """Return the instance as EC2 shows it now; `None` if EC2 does not know it."""

    def describe_all(
        self, target: Target, instance_ids: Sequence[str]
    ) -> Mapping[str, Instance | CloudError]:
        """Return each instance by its id, or the error of one that cannot be read. Instances that
        EC2 does not know are left out."""

    def protection(self, target: Target, instance_id: str) -> Protection:
        """Return whether the instance is protected from a stop and from a termination: `None` for a
        flag that EC2 does not know there. Raises: CloudError."""

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """Return the type of a Spot request; `None` if EC2 does not know it."""

    def knows_reservation(self, target: Target, reservation_id: str) -> bool:
        """Return whether EC2 knows this Capacity Reservation."""

    def reservations(self, target: Target) -> Sequence[Reservation]:
        """Return the Capacity Reservations of accelerated types that are charged to the target's
        account; empty if there are none."""

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """Return the volumes of the instance, with their sizes and types if EC2 tells them."""


class MetricQuery(NamedTuple):
    """One series, by its exact dimensions and a statistic of CloudWatch. `key` names its answer."""

    key: str
    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """Series by key, each with a value for every bin of the window. A key without a series
    published nothing. `problems` names keys that could not be read: their series may be missing or
    incomplete."""

    series: Mapping[str, Series]
    problems: Mapping[str, str]


class SeriesFilter(NamedTuple):
    """The series to list; `None` means any. `recently` leaves out those without readings in the
    last three hours."""

    namespace: str | None
    metric: str | None
    recently: bool = True


class Listed(NamedTuple):
    """A series that CloudWatch lists."""

    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]


class MetricReader(Protocol):
    """CloudWatch, read only."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Return the series of all queries over the window. Never raises: `problems` names what
        could not be read."""

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> Mapping[str, Sequence[Listed]]:
        """Return the listed series by their `InstanceId`; with `instance_id`, only those of that
        instance; empty if none is listed. Never call this with an `instance_id` in a loop. Raises:
        CloudError."""


class InstanceTagger(Protocol):
    """Sets EC2 tags in batches."""

    def set_tags(
        self,
        target: Target,
        instance_ids: Sequence[str],
        tags: Mapping[str, str | None],
        *,
        dry_run: bool,
    ) -> Mapping[str, CloudError]:
        """Set the tags of these instances; a tag with the value `None` is removed.

        Return the error by instance id for each instance whose tags could not be set; empty if all
        were set. A failed call is in the result, not raised. Raises: SafetyError if EC2 carried out
        a dry run.
        """


class SessionReader(Protocol):
    """Session Manager, read only."""

    def open_sessions(
        self, target: Target, instance_id: str, since: datetime
    ) -> tuple[Session, ...]:
        """Return the open sessions that began after `since`; empty if there are none. Raises:
        CloudError, among them AccessDenied if the member role is of an earlier release."""
