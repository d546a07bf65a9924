"""How far a visitor has come in the story of the banner, read from what the stack has stored.

Looking is remembered here; answering and saving are what the state table says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.store.approvals import Approvals
from governor.core.instance import Target
from governor.core.units import daily_cost, usd
from governor.episode.model.episode import Episode
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import months
from governor.money.store.ledger import Ledger

LOOKED, SAVED = "/fleet", "/savings"
"""The pages to which the first and the last step lead."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the story, and the page where it is done."""

    text: str
    path: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class News:
    """A change of an instance; `path` is its page, where it can say more."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The steps, and the news below them."""

    steps: tuple[Step, ...]
    news: tuple[News, ...]


@dataclass
class Story:
    """The story of one `make up`, from now on; `names` are those of the instances by id."""

    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    ledger_store: Ledger
    target: Target
    names: Mapping[str, str]
    clock: Callable[[], datetime]
    _visited: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def visit(self, path: str) -> None:
        """Somebody has opened a page. The savings count once there are any."""
        page = path.partition("?")[0]
        if page == LOOKED or (page == SAVED and self._done()):
            self._visited.add(page)

    @property
    def is_told(self) -> bool:
        """Return whether anything was stopped or terminated since it began."""
        return bool(self._done())

    def progress(self) -> Progress:
        """How far it has come."""
        done = self._done()
        steps = (
            Step("See what is idle", f"{LOOKED}?state=idle", bool(LOOKED in self._visited or done)),
            Step("Stop one", "/questions", bool(done)),
            Step("See what it saved", SAVED, SAVED in self._visited),
        )
        return Progress(steps, (*self._acting(), *done))

    def _done(self) -> list[News]:
        """Return what was stopped or terminated since the story began, oldest first."""
        booked: list[LedgerEntry] = []
        for month in months(self._began, self.clock()):
            booked += self.ledger_store.entries(month)
        return [self._ended(one) for one in booked if one.booked_at >= self._began and one.ours]

    def _ended(self, entry: LedgerEntry) -> News:
        ref, rate = entry.episode, entry.saved_usd_per_hour
        name = self.names.get(ref.instance_id, ref.instance_id)
        path = f"/instances/{ref.account}/{ref.region}/{ref.instance_id}"
        if entry.ended_at is not None:
            return News(f"{name} was {entry.outcome.value}, and runs again.", path)
        saves = "" if rate is None else f": it saves {usd(daily_cost(rate))} a day"
        return News(f"{name} is {entry.outcome.value}{saves}.", path)

    def _acting(self) -> list[News]:
        """Return what was answered with yes, and is not done yet."""
        records = self.instance_store.records(self.target).values()
        episodes = [
            self.episode_store.episode(record.open_episode)
            for record in records
            if record.open_episode
        ]
        answered = (one for one in episodes if one and self._is_answered(one))
        return [News(f"{one.plan.doing} {one.instance.name} ...") for one in answered]

    def _is_answered(self, episode: Episode) -> bool:
        approval = self.approval_store.approval(episode.approval_id)
        return approval is not None and approval.status is ApprovalStatus.APPROVED
