"""Scans one account and Region: every kind of resource, each by itself.

A kind that cannot be read costs only its own rows. This module changes nothing in AWS.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from governor.core.errors import CloudError
from governor.core.units import printable
from governor.scan.kind import UNREADABLE, Kind, Place
from governor.scan.model import Resource, Row, Unread
from governor.scan.rules import owner_of
from governor.scan.unread import has_expired, unread_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlaceReport:
    """The rows of one account and Region in no particular order, and what could not be read."""

    rows: tuple[Row, ...]
    unread: tuple[Unread, ...]
    refused_by: CloudError | None = None
    """The error of the first kind, if no kind could be read at all, or the credentials ended
    between two kinds."""


def scan_place(place: Place, kinds: Sequence[Kind[Any, Any]]) -> PlaceReport:
    """Return the rows of all kinds in one account and Region. Left out are kinds whose service the
    Region lacks, and kinds whose calls AWS bills unless the place allows those. Raises nothing for
    what AWS refuses."""
    rows: list[Row] = []
    unread: list[Unread] = []
    errors: list[CloudError] = []
    has_read_any = False
    for kind in kinds:
        if kind.is_billed and not place.reads_commitments:
            continue
        if not kind.is_offered(place):
            continue
        try:
            rows += kind.completed(place, list(_rows(kind, place)))
            has_read_any = True
        except CloudError as error:
            errors.append(error)
            unread.append(unread_of(str(place.target), kind.words, error))
        except UNREADABLE as error:
            _log.info("%s in %s cannot be read", kind.words, place.target, exc_info=True)
            why = f"AWS's answer has another form than documented ({error!r})"
            unread.append(Unread(str(place.target), kind.words, "", printable(why)))
    for kind in kinds:
        rows = list(kind.beside_others(rows))
    return PlaceReport(
        rows=tuple(rows),
        unread=(*unread, *place.unread),
        refused_by=_refusal_of_all(errors, has_read_any=has_read_any),
    )


def _refusal_of_all(errors: Sequence[CloudError], *, has_read_any: bool) -> CloudError | None:
    """Return the error that says why the place as a whole was not read; `None` if it was."""
    for error in errors:
        if has_expired(error):
            return error
    if errors and not has_read_any:
        return errors[0]
    return None


def _rows(kind: Kind[Any, Any], place: Place) -> Iterator[Row]:
    """Return the rows of one kind. A resource that cannot be judged is left out, and reported.
    Raises: CloudError if the kind cannot be listed or measured."""
    resources = kind.list(place)
    measured_by_id = kind.measure(place, resources) if resources else {}

    def row_of(resource: Resource) -> Row:
        """Judge a resource, and return its row with the price, the command and the owner."""
        measured = measured_by_id.get(resource.resource_id)
        judgment = kind.judge(place, resource, measured)
        return Row(
            kind=kind.name,
            resource=resource,
            judgment=judgment,
            usd_per_hour=kind.price(place, resource),
            command=kind.command(resource, judgment),
            owner=owner_of(resource, place.policy.ownership),
        )

    return place.read_each(kind.words, "", resources, row_of)
