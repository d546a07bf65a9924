"""Stores the versions of the policy: which one is in force (`VERSION#`, written by its reviewer
alone), who wrote and who accepts a version, and the last text in use. The schema number of all
items is in the same partition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governor.core.errors import CloudError
from governor.core.units import UtcDatetime, parse_iso
from governor.policy.model.judging import Targets
from governor.policy.rules.consent import Acceptances, Consented, KnownPeople, StandingVersion
from governor.table.table import Key, Store, absent, put, update, where

_KEPT: Key = ("POLICY", "ACCEPTED")
_IN_FORCE: Key = ("VERSION#in-force", "POLICY")
_ACCOUNTS: Key = ("VERSION#in-force", "ACCOUNTS")
_OVER_BUDGET: Key = ("VERSION#in-force", "OVER-BUDGET")
_PARAMETER: Key = ("VERSION#parameter", "POLICY")
SCHEMA_KEY: Key = ("VERSION#items", "SCHEMA")
SCHEMA = 1
"""Raised whenever an earlier release could not read what this one stores: `docs/state.md`."""


class PolicyVersions(Store):
    """Versions of the policy document, by their version ids in S3. Every method may raise
    CloudError."""

    def record_schema(self) -> None:
        """Store the number of this release's schema if a lower one is stored; without a stored
        number it is 1. Raises: CloudError also if a higher one is stored: this release cannot read
        those items."""
        item = self._table.get(SCHEMA_KEY) or {}
        stored = int(item.get("number", 1))
        if stored > SCHEMA:
            raise CloudError(
                f"the state table has items of schema {stored}, and this release reads up to "
                f"{SCHEMA}: deploy the newer release again (docs/state.md)"
            )
        if stored < SCHEMA:
            self._table.write(put(SCHEMA_KEY, {"number": SCHEMA, "what": "schema raised"}))

    def keep_policy(self, text: str, at: datetime) -> None:
        """Store the text of an accepted policy document in place of the last one, to fall back on
        if the next one cannot be used. Raises: CloudError."""
        self._table.write(put(_KEPT, {"text": text, "at": at}))

    def kept_policy(self) -> str | None:
        """Return the text that `keep_policy` kept last; `None` if it never kept one. Raises:
        CloudError."""
        return self._text(_KEPT, "text")

    def version_in_force(self) -> str | None:
        """Return the version in force; `None` before the first version. Raises: CloudError."""
        return self._text(_IN_FORCE, "version")

    def standing_version(self) -> StandingVersion | None:
        """Return the version in force with the acceptances that count; `None` before the first
        version. What an earlier release did not store is empty: no acceptances, and `None` for its
        people. Raises: CloudError."""
        item = self._table.get(_IN_FORCE)
        if item is None:
            return None
        acceptances = Acceptances(item.get("terms", ""), frozenset(item.get("accepted_by", ())))
        people = KnownPeople(item["people"]) if "people" in item else None
        at = parse_iso(item["at"])
        return StandingVersion(item["version"], at, item.get("before"), acceptances, people)

    def put_in_force(
        self, version: str, before: str | None, at: datetime, consented: Consented | None = None
    ) -> None:
        """Store that this version is in force from now on, in place of `before`, and whose
        acceptances of it count; none are stored without `consented`. `before` is `None` for the
        first version.

        Raises: ConflictError, with nothing stored, if another version than `before` is in force;
        CloudError.
        """
        is_unchanged = absent() if before is None else where("version", "=", before)
        item: dict[str, object] = {"version": version, "at": at}
        if before is not None:
            item["before"] = before
        if consented is not None:
            item |= _counted(consented)
        self._table.transact(put(_IN_FORCE, item, is_unchanged))

    def store_acceptances(self, version: str, consented: Consented) -> None:
        """Store whose acceptances of the version in force count. Raises: ConflictError, with
        nothing stored, if another version is in force by now; CloudError."""
        item = {**_counted(consented), "what": "acceptances of the policy counted"}
        self._table.write(update(_IN_FORCE, item, where("version", "=", version)))

    def accounts_of(self, targets: Targets) -> tuple[str, ...] | None:
        """Return the accounts of the targets' organizational units, as they were stored last;
        `None` if none are stored, or they are those of other units. Raises: CloudError."""
        item = self._table.get(_ACCOUNTS) or {}
        has_same_units = item.get("units") == [*targets.units]
        if not has_same_units or item.get("without_units") != [*targets.without_units]:
            return None
        return tuple(item["accounts"])

    def note_accounts(self, targets: Targets, accounts: Sequence[str], at: datetime) -> None:
        """Store the accounts of the targets' organizational units, for all functions. Nothing is
        written, nor audited, if they are stored already. Raises: CloudError."""
        if self.accounts_of(targets) == tuple(accounts):
            return
        document = {
            "units": targets.units,
            "without_units": targets.without_units,
            "accounts": accounts,
            "what": "accounts of units",
            "at": at,
        }
        self._table.write(put(_ACCOUNTS, document))

    def over_budget(self, month: str) -> tuple[str, ...]:
        """Return the projects that have used more than their budget of this month (`yyyy-mm`);
        empty if none was noted. Raises: CloudError."""
        item = self._table.get(_OVER_BUDGET) or {}
        if item.get("month") == month:
            return tuple(item["projects"])
        return ()

    def note_over_budget(self, month: str, projects: Sequence[str], at: datetime) -> None:
        """Store which projects have used more than their budget of this month (`yyyy-mm`), for all
        functions. Nothing is written, nor audited, if that is stored already. Raises:
        CloudError."""
        if self.over_budget(month) == tuple(projects):
            return
        document = {"month": month, "projects": projects, "what": "projects over budget", "at": at}
        self._table.write(put(_OVER_BUDGET, document))

    def note_parameter(self, text: str, at: datetime) -> None:
        """Store the text of the SSM parameter of which people were notified, in place of the last
        one. Raises: CloudError."""
        self._table.write(put(_PARAMETER, {"text": text, "at": at}))

    def noted_parameter(self) -> str | None:
        """Return the text that `note_parameter` kept last; `None` if it never kept one. Raises:
        CloudError."""
        return self._text(_PARAMETER, "text")

    def note_writer(self, version: str, arn: str) -> None:
        """Store the ARN that wrote a version. Raises: CloudError."""
        self._table.write(update((f"VERSION#{version}", "WRITER"), {"arn": arn}))

    def writer(self, version: str) -> str:
        """Return the ARN that wrote a version; an empty text if it is not known. Raises:
        CloudError."""
        return self._text((f"VERSION#{version}", "WRITER"), "arn") or ""

    def accept_version(self, version: str, identity: str, at: datetime) -> None:
        """Store that the person with this identity (`aws:ARN`) accepts the version. A later time
        replaces an earlier one. Raises: CloudError."""
        self._table.write(update((f"ACCEPTED#{version}", identity), {"at": at}))

    def note_acceptance_refused(self, version: str, identity: str, why: str) -> None:
        """Store once, for the audit alone, that somebody may not accept a version, and why. If that
        fails, it is only logged."""
        # No version in S3 has this name, so the refusal counts as no acceptance.
        key = (f"ACCEPTED#refused#{version}", identity)
        self._keep_for_audit(
            update(key, {"what": "refused", "episode": version, "reason": why}, absent())
        )

    def accepted(self, version: str) -> tuple[str, ...]:
        """Return the identities (`aws:ARN`) that accept a version; empty if none does. Raises:
        CloudError."""
        return tuple(self.accepted_at(version))

    def accepted_at(self, version: str) -> dict[str, UtcDatetime]:
        """Return when each identity that accepts a version did so last; empty if none does. Raises:
        CloudError."""
        items = self._table.query(f"ACCEPTED#{version}")
        return {item["sk"]: parse_iso(item["at"]) for item in items}

    def _text(self, key: Key, attribute: str) -> str | None:
        """Return the attribute of the item at this key; `None` if there is no such item. Raises:
        CloudError."""
        item = self._table.get(key)
        if not item:
            return None
        return str(item[attribute])


def _counted(consented: Consented) -> dict[str, object]:
    """Return the attributes that say whose acceptances count: the `terms`, the addresses that have
    accepted them, and the `people` who count, by identity."""
    return {
        "terms": consented.acceptances.terms,
        "accepted_by": sorted(consented.acceptances.people),
        "people": dict(consented.people.addresses),
    }
