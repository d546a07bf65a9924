"""Keeps each change of the state table that the audit is about, outside the table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from governor.domain.audit import Change
from governor.ports import Archive


@dataclass(frozen=True, slots=True)
class WriteAudit:
    """Safe to repeat: a change has one document, which is written once."""

    archive: Archive

    def __call__(self, changes: Iterable[Change]) -> int:
        """Return how many documents are new. Raises: CloudError; the stream then hands all over again."""
        return sum(self.archive.keep(one.key, json.dumps(one.document())) for one in changes)
