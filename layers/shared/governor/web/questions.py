"""Several questions on one page: those of a digest, and those of the console. Nothing is ticked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from governor.domain.approvals.messages import price_text
from governor.domain.wording import left, usd
from governor.usecases.approvals.show_approval import ApprovalView


def line(
    view: ApprovalView, link: str, *, may_answer: bool = True, ticked: bool = False
) -> Mapping[str, object]:
    """Return one open question as its row shows it. `may_answer`: it has a box to tick."""
    episode, price = view.episode, view.episode.price.usd_per_hour
    return {
        "id": view.approval.approval_id,
        "name": episode.instance.name,
        "type": episode.instance.instance_type,
        "owner": episode.owner,
        "project": episode.project,
        "link": link,
        "idle": view.idle_text[0],
        "usd_per_day": None if price is None else price * 24,
        "price": price_text(episode),
        "verb": episode.plan.verb,
        "acts": episode.acts_on_silence,
        "losses": "; ".join(episode.plan.losses),
        "loses_disks": episode.plan.loses_local_disks,
        "left": left(view.approval.expires_at - view.now),
        "may_answer": may_answer,
        "ticked": ticked,
    }


def by_price(views: Iterable[ApprovalView]) -> list[ApprovalView]:
    """Return the most expensive first, those of unknown price at the end."""
    return sorted(views, key=lambda view: -(view.episode.price.usd_per_hour or 0))


def total(views: Sequence[ApprovalView]) -> tuple[str, int]:
    """Return what they cost a day together, and how many prices are not known."""
    prices = [view.episode.price.usd_per_hour for view in views]
    known = [price * 24 for price in prices if price is not None]
    return usd(sum(known, Decimal(0))), len(prices) - len(known)
