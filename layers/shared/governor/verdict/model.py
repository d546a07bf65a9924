"""Verdicts: the kind of an instance at one moment, and the family that says how it is treated.

Records only: `verdict.rules` judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from governor.core.managers import Manager
from governor.core.units import UtcDatetime, people
from governor.evidence.model import Evidence
from governor.evidence.rules.series import latest


class Family(Enum):
    """The meaning of verdicts to the sweep, the breaker and a recheck. A value lists the kinds that
    have this meaning."""

    WORKING = ("busy", "partly-idle")
    IDLE = ("idle", "managed-elsewhere", "frozen")
    """Idle by its measurements, whether or not a question has started."""
    LEFT_ALONE = ("exempt", "snoozed")
    """People have decided, so its metrics are not read."""
    YOUNG = ("too-young",)
    """Its metrics are not read yet."""
    UNKNOWN = ("no-data",)


class VerdictKind(StrEnum):
    """The kinds of verdicts, by the names that are stored."""

    BUSY = "busy"
    IDLE = "idle"
    PARTLY_IDLE = "partly-idle"
    NO_DATA = "no-data"
    TOO_YOUNG = "too-young"
    EXEMPT = "exempt"
    SNOOZED = "snoozed"
    MANAGED_ELSEWHERE = "managed-elsewhere"
    FROZEN = "frozen"

    @property
    def family(self) -> Family:
        """Return the family of this kind."""
        return _FAMILIES[self]


_FAMILIES = {VerdictKind(name): family for family in Family for name in family.value}


_KNOWN = {kind.value: kind for kind in VerdictKind}


def known_kind(name: str) -> VerdictKind | None:
    """Return the kind with this stored name; `None` if this release does not know the name."""
    if name == "resting":
        # Earlier releases wrote this for an idle instance before its question.
        return VerdictKind.IDLE
    return _KNOWN.get(name)


def _kinds(*families: Family) -> tuple[VerdictKind, ...]:
    """Return the kinds of these families, in the order of `VerdictKind`."""
    # The family of every kind is looked up, so a kind without a family fails at import.
    return tuple(kind for kind in VerdictKind if kind.family in families)


WORKING = _kinds(Family.WORKING)


IDLE = _kinds(Family.IDLE)


LEFT_ALONE = _kinds(Family.LEFT_ALONE)


YOUNG = _kinds(Family.YOUNG)


AFTER_RESTART = VerdictKind.TOO_YOUNG
"""The last known verdict on an instance that was seen before and has been restarted since."""


UNREAD = _kinds(Family.LEFT_ALONE, Family.YOUNG)


KEPT = (VerdictKind.SNOOZED,)
"""Found idle once, then left alone by an answer. An exempt instance may never have been idle."""


HELD_BACK = (VerdictKind.FROZEN,)
"""Idle, but nothing follows while the breaker holds plans back."""


NOTES: Mapping[VerdictKind, str] = {
    VerdictKind.FROZEN: "plans are frozen",
    VerdictKind.NO_DATA: "check its agent",
    VerdictKind.PARTLY_IDLE: "a smaller type may do",
}
"""Words beside the verdict, for kinds whose family does not tell the next step."""


@dataclass(frozen=True, slots=True)
class IdleParts:
    """How many parts of a partly idle instance did nothing, such as 7 of its 8 GPUs."""

    idle: int
    total: int
    """All parts that the instance has, also those that were measured too little."""
    name: str
    """The word for one of them: `GPU` or `NeuronCore`."""

    @property
    def text(self) -> str:
        """Return both numbers in words: `7 of 8 GPUs`."""
        return f"{self.idle} of {self.total} {self.name}s"


PART_COLUMNS = ("idle_parts", "all_parts", "part_name")
"""The fields of `IdleParts` in rows of CSV and JSON."""


def part_values(idle_parts: IdleParts | None) -> tuple[int | None, int | None, str | None]:
    """Return the values of `PART_COLUMNS`, all `None` if the number is not known."""
    if idle_parts is None:
        return None, None, None
    return idle_parts.idle, idle_parts.total, idle_parts.name


def partly_idle_text(idle_parts: IdleParts | None) -> str:
    """Return the words of the verdict: `partly idle: 7 of 8 GPUs`, or `partly idle` if the number
    is not known."""
    if idle_parts is None:
        return "partly idle"
    return f"partly idle: {idle_parts.text}"


@dataclass(frozen=True, slots=True)
class Hold:
    """The keep and the exemption of an instance: people have said that it stays as it is."""

    snoozed_until: UtcDatetime | None = None
    exempt_reason: str | None = None
    kept_in: str | None = None
    """The project of the instance when it was kept, which a tag may change later; `None` if it is
    not known."""
    exempt_in: str | None = None
    """The project of the instance when it was exempted."""
    exempt_by: str | None = None
    """The recorded identity of the person who exempted it; `None` if an earlier release stored the
    exemption, or nobody exempted it. `exempt_reason` ends with it in brackets, too."""
    kept_by: str | None = None
    """The question whose answer kept it; `None` if it was kept without one, or by an earlier
    release."""
    keeper: str | None = None
    """The person who kept it without a question, by having it started again; `None` if a question
    kept it, or an earlier release stored the keep."""

    @property
    def own_keeper(self) -> str | None:
        """Return the person who kept it without a question; `None` if a question kept it. After a
        rollback, an earlier keeper may stand beside the question of a keep that was stored then."""
        return self.keeper if self.kept_by is None else None

    @property
    def exempter(self) -> str:
        """Return the recorded identity of the person who exempted it; empty if it is not exempt, or
        that is not known.

        Without `exempt_by`, it is read from the end of the reason, where each release has written
        it. After a rollback, an earlier `exempt_by` may stand beside a newer reason.
        """
        reason = self.exempt_reason or ""
        if self.exempt_by is not None and reason.endswith(f" ({self.exempt_by})"):
            return self.exempt_by
        _, bracket, author = reason.rpartition(" (")
        return author.removesuffix(")") if bracket else ""

    @property
    def exemption_words(self) -> str:
        """Return why it is exempt and who exempted it, as people read it: `license server
        (alice@example.com (mail link))`. The reason stays as the person wrote it. Return an empty
        text if it is not exempt."""
        reason = self.exempt_reason or ""
        author = self.exempter
        suffix = f" ({author})"
        if not reason.endswith(suffix):
            return reason
        return f"{reason.removesuffix(suffix)} ({people(author)})"

    def stands(self, now: UtcDatetime) -> bool:
        """Return whether the instance is exempt, or is kept still."""
        if self.exempt_reason is not None:
            return True
        return self.snoozed_until is not None and self.snoozed_until > now

    def stricter(self, other: Hold) -> Hold:
        """Return both holds as one: the later date to which one of them keeps, and the exemption of
        either, this one's if both exempt. Each part says in whose project and by whom it was
        made."""
        snoozed_until = latest(self.snoozed_until, other.snoozed_until)
        keep = self if snoozed_until == self.snoozed_until else other
        exemption = self if self.exempt_reason else other
        return Hold(
            snoozed_until=snoozed_until,
            exempt_reason=exemption.exempt_reason,
            kept_in=keep.kept_in,
            exempt_in=exemption.exempt_in,
            exempt_by=exemption.exempt_by,
            kept_by=keep.kept_by,
            keeper=keep.keeper,
        )


NO_HOLD = Hold()


EXEMPT_BY_DECISION = "exempted by decision"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on an instance and its reason."""

    kind: VerdictKind
    reason: str
    """It may end with words of a person about the instance: `public_reason` has none."""
    evidence: Evidence | None = None
    """The measurements behind the verdict; `None` if it needed none."""
    not_before: UtcDatetime | None = None
    """The verdict cannot change before this time, so nothing is read until then."""
    last_busy: UtcDatetime | None = None
    """The end of the newest work that is known."""
    advice: tuple[str, ...] = ()
    """Hints that never lead to an action by themselves."""
    idle_parts: IdleParts | None = None
    """The idle GPUs of a partly idle instance; `None` for other verdicts, or if their number is not
    known."""
    manager: Manager | None = None
    """The service that runs the instance; `None` if none does."""
    presence: str = ""
    """A sentence about people who may be logged in; empty if nobody is known to be."""
    logged_in: str = ""
    """The person whose open session makes it busy; empty if no session does."""
    is_late: bool = False
    """True if there is no data only because the newest readings have been missing for a short time:
    they may still arrive."""
    is_exempt_by_decision: bool = False
    """True if an answer exempts the instance. The reason then ends with the words of the person."""

    @property
    def public_reason(self) -> str:
        """Return the reason without the words of the person who exempted the instance: only people
        who could see the instance then may read those."""
        return EXEMPT_BY_DECISION if self.is_exempt_by_decision else self.reason

    @property
    def is_idle(self) -> bool:
        """Return whether the evidence proves idleness, even if another service manages it."""
        return self.kind in IDLE
