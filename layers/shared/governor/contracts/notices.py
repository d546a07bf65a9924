"""The events in which AWS announces a date."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, RootModel, Tag

from governor.contracts.events import Envelope, detail, moment, moment_or_none
from governor.contracts.parsing import REGION, AccountId, Event
from governor.domain.events.notice import BlockChange, ScheduledChange
from governor.domain.units import as_utc

_INSTANCE_ID = r"\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b"


class _AffectedEntity(Event):
    entity_value: str | None = Field(default=None, alias="entityValue")
    status: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether nothing is left to do about it, although the event goes on for others."""
        return (self.status or "").upper() == "RESOLVED"


class HealthEvent(Envelope):
    """`AWS Health Event` of category scheduledChange for EC2."""

    source: Literal["aws.health"]
    event_arn: str = detail("eventArn", min_length=1)
    service: Literal["EC2"] = detail("service")
    event_type_code: str = detail("eventTypeCode", min_length=1)
    event_type_category: Literal["scheduledChange"] = detail("eventTypeCategory")
    start_time: str | None = detail("startTime", default=None)
    last_updated: str | None = detail("lastUpdatedTime", default=None)
    status_code: str = detail("statusCode", default="")
    event_region: str | None = detail("eventRegion", default=None)
    affected_account: AccountId | None = detail("affectedAccount", default=None)
    affected_entities: tuple[_AffectedEntity, ...] | None = detail("affectedEntities", default=None)

    def to_domain(self) -> ScheduledChange:
        """The Region is the event's own: a copy also goes to a backup Region.

        Where that names none (`global`), it is the envelope's. An event of which everything is resolved is
        over, though AWS may close it later.
        """
        entities = self.affected_entities or ()
        pending = [one for one in entities if not one.is_resolved]
        is_over = self.status_code.lower() == "closed" or bool(entities and not pending)
        named = entities if is_over else pending
        values = (re.search(_INSTANCE_ID, one.entity_value or "") for one in named)
        own_region = re.fullmatch(REGION, self.event_region or "")
        return ScheduledChange(
            event_id=self.id,
            source_id=self.event_arn,
            account=self.affected_account or self.account,
            region=own_region[0] if own_region else self.region,
            what=_change_text(self.event_type_code),
            at=moment_or_none(self.start_time),
            instance_ids=tuple(dict.fromkeys(match[0] for match in values if match)),
            said_at=moment_or_none(self.last_updated) or as_utc(self.time),
            is_over=is_over,
        )


_KNOWN_BLOCK_EVENT = r"^Capacity Block .*(Delivered|Expiration Warning)$"


class CapacityBlockEvent(Envelope):
    """`Capacity Block Delivered` and `Capacity Block Expiration Warning`.

    AWS has documented both with and without the word Reservation after Block.
    """

    source: Literal["aws.ec2"]
    detail_type: str = Field(alias="detail-type", pattern=_KNOWN_BLOCK_EVENT)
    reservation_id: str = detail("capacity-reservation-id", pattern=r"^cr-[0-9a-f]+$")
    end_date: Annotated[datetime, BeforeValidator(moment)] = detail("end-date")

    def to_domain(self) -> BlockChange:
        return BlockChange(
            event_id=self.id,
            account=self.account,
            region=self.region,
            reservation_id=self.reservation_id,
            is_expiring="Expiration" in self.detail_type,
            at=self.time,
            ends_at=self.end_date,
        )


class OtherBlockEvent(Event):
    """A kind of Capacity Block event from which nothing follows. Whatever else it holds is let through."""

    kind: str = Field(alias="detail-type", pattern=r"^Capacity Block ")

    def to_domain(self) -> None:
        """Nothing is announced."""


def _notice_kind(event: object) -> str | None:
    """Which of the models an event is; `None`, which refuses it, for one that is none."""
    if not isinstance(event, dict):
        return None
    if event.get("source") != "aws.ec2":
        return "health" if event.get("source") == "aws.health" else None
    return "block" if re.match(_KNOWN_BLOCK_EVENT, str(event.get("detail-type"))) else "other"


class NoticeEvent(
    RootModel[
        Annotated[
            Annotated[HealthEvent, Tag("health")]
            | Annotated[CapacityBlockEvent, Tag("block")]
            | Annotated[OtherBlockEvent, Tag("other")],
            Discriminator(_notice_kind),
        ]
    ]
):
    """Any of the events that announce a date, or a sibling that announces none."""


def _change_text(code: str) -> str:
    """`persistent instance retirement scheduled` of `AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED`."""
    words = code.removeprefix("AWS_EC2_").removesuffix("_SCHEDULED").replace("_", " ").lower()
    return f"AWS schedules: {words}"
