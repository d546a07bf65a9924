"""The policy: which version is in force, who wrote and who accepts one, and the last text in use.

`VERSION#` is written by the function alone that reviews versions.
"""

from __future__ import annotations

from datetime import datetime

from governor.stores.table import Key, Store, absent, put, update, where

_KEPT: Key = ("POLICY", "ACCEPTED")
_IN_FORCE: Key = ("VERSION#in-force", "POLICY")


class PolicyVersions(Store):
    """Versions of the policy document by their names in S3."""

    def keep_policy(self, text: str, at: datetime) -> None:
        """Keep the text of an accepted policy document, to fall back on where the next cannot be used."""
        self._table.write(put(_KEPT, {"text": text, "at": at}))

    def kept_policy(self) -> str | None:
        """Return the last text that was kept."""
        item = self._table.get(_KEPT)
        return str(item["text"]) if item else None

    def version_in_force(self) -> str | None:
        """Return the version that counts; `None` before the first one."""
        item = self._table.get(_IN_FORCE)
        return str(item["version"]) if item else None

    def put_in_force(self, version: str, before: str | None, at: datetime) -> None:
        """Let a version count from now on. Raises: ConflictError when another one than `before` does now."""
        same = absent() if before is None else where("version", "=", before)
        self._table.transact(put(_IN_FORCE, {"version": version, "at": at}, same))

    def note_writer(self, version: str, arn: str) -> None:
        """Keep who wrote a version."""
        self._table.write(update((f"VERSION#{version}", "WRITER"), {"arn": arn}))

    def writer(self, version: str) -> str:
        """Return the ARN that wrote a version; empty where it is not known."""
        item = self._table.get((f"VERSION#{version}", "WRITER"))
        return str(item["arn"]) if item else ""

    def accept_version(self, version: str, identity: str, at: datetime) -> None:
        """Keep that somebody accepts a version."""
        self._table.write(update((f"ACCEPTED#{version}", identity), {"at": at}))

    def accepted(self, version: str) -> tuple[str, ...]:
        """Return the identities that accept a version."""
        return tuple(item["sk"] for item in self._table.query(f"ACCEPTED#{version}"))
