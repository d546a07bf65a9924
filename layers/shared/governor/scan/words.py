"""Sentences of a scan's report, which all its formats have in common."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from governor.core.units import in_utc, listed, money, plural, usd
from governor.scan.model import Finding, Report, Row, Strength
from governor.scan.rules import Refusal

PREPAID = "prepaid"
UNKNOWN = "unknown"
_PLACES_NAMED = 3
_PLACES_OF_OWN_COST = 4


def headline(report: Report) -> str:
    """Return the first sentence: what is wasted a month, by how many, where."""
    where = _where(report)
    if not report.rows and not report.is_complete:
        return "No accelerators were found in the parts that could be read."
    if not report.rows:
        return f"No accelerators were found in {where}, nor anything that they left behind."
    wasted = sum(row.judgment.finding.is_waste for row in report.rows)
    resources = plural(len(report.rows), "resource")
    if not wasted:
        return f"Nothing is known to be wasted by {resources} in {where}."
    if not report.waste_usd_per_month:
        return f"{wasted} of {resources} in {where} {_are(wasted)} wasted."
    amount = usd(report.waste_usd_per_month)
    return f"{amount} a month is wasted by {wasted} of {resources} in {where}."


def ungoverned_headline(report: Report, *, is_scanned: bool) -> str:
    """Return the first sentence about what GPU Governor does not govern: what is wasted a month, by
    how many, where. `is_scanned` says that some place was scanned, also if the report has none
    because its reader may see nothing there."""
    if not report.places and is_scanned:
        return "None of the resources that were found belongs to you."
    if not report.places:
        return "Nothing has been scanned yet."
    where = _where(report)
    if not report.rows and not report.is_complete:
        return "Nothing was found in the parts that could be read."
    if not report.rows:
        return f"Everything in {where} that costs money for accelerators is governed."
    wasted = sum(row.judgment.finding.is_waste for row in report.rows)
    resources = plural(len(report.rows), "resource")
    are = _are(len(report.rows))
    if not wasted:
        return f"{resources} in {where} {are} not governed; none is known to be waste."
    of_all = f"{wasted} of {resources} that {are} not governed"
    if not report.waste_usd_per_month:
        return f"{of_all}, in {where}, {_are(wasted)} wasted."
    amount = usd(report.waste_usd_per_month)
    return f"{amount} a month is wasted by {of_all}, in {where}."


def remarks(report: Report) -> list[str]:
    """Return the sentences that limit the first one; empty if nothing does."""
    sentences: list[str] = []
    if not report.is_complete:
        sentences.append("The report is incomplete: see what could not be read.")
    if report.weak_waste_usd_per_month:
        amount = usd(report.weak_waste_usd_per_month)
        sentences.append(f"The evidence for {amount} of the waste is weak: ask before you act.")
    wasted = [row for row in report.rows if row.judgment.finding.is_waste]
    left_out = Counter(price_word(row) for row in wasted)
    prepaid = left_out[PREPAID]
    if prepaid:
        count = plural(prepaid, "prepaid resource")
        pronoun = "it" if prepaid == 1 else "them"
        sentences.append(f"The sum leaves out {count}: ending {pronoun} saves nothing.")
    unpriced = left_out[UNKNOWN]
    if unpriced:
        count = plural(unpriced, "wasted resource", "wasted resources")
        sentences.append(f"The sum leaves out {count} whose price is not known.")
    unattached = [row for row in report.rows if row.judgment.finding is Finding.UNATTACHED]
    if unattached:
        are = plural(len(unattached), "volume or address", "volumes and addresses")
        amount = usd(sum((row.own_usd_per_month for row in unattached), Decimal()))
        pronoun = "it" if len(unattached) == 1 else "them"
        sentences.append(
            f"{are} ({amount} a month) may be left over from GPU hosts. "
            f"The sum leaves {pronoun} out."
        )
    unmeasured = [row for row in report.rows if _is_unmeasured(row)]
    if unmeasured:
        count = plural(len(unmeasured), "resource was", "resources were")
        amount = usd(sum((row.own_usd_per_month for row in unmeasured), Decimal()))
        pronoun = "it does" if len(unmeasured) == 1 else "they do"
        sentences.append(
            f"{count} not measured ({amount} a month), so {pronoun} not count as idle."
        )
    return sentences


def own_cost(report: Report) -> str:
    """Return the sentence about the calls of the scan itself, and AWS's charge for them."""
    calls = plural(sum(report.calls.values()), "call")
    if not report.usd_spent:
        return f"The scan made {calls}, all of them reads, which AWS does not bill."
    amount = money(report.usd_spent, _PLACES_OF_OWN_COST)
    return f"The scan made {calls}, all of them reads, for which AWS bills about ${amount}."


def price_word(row: Row) -> str | None:
    """Return the word that stands in place of a row's price a month: `prepaid` if it is paid in
    advance, used or not, and `unknown` if it is not known. Return `None` if the price says it."""
    if row.resource.is_prepaid:
        return PREPAID
    return UNKNOWN if row.usd_per_month is None else None


def refusal_text(refusal: Refusal) -> str:
    """Return the sentence about something that could not be read."""
    where = listed(refusal.places, _PLACES_NAMED)
    calls = ", ".join(refusal.operations)
    what = f"{', '.join(refusal.topics)} in {where}"
    if calls and not refusal.is_missing_right:
        what = f"{what} ({calls})"
    missing_right = f"missing permission {calls}; AWS says: " if refusal.is_missing_right else ""
    since = ""
    if refusal.last_read_at is not None:
        or_later = " or later" if len(refusal.places) > 1 else ""
        since = f"last read at {in_utc(refusal.last_read_at)}{or_later}, since then refused: "
    return f"{what}: {since}{missing_right}{refusal.reason}"


def _are(count: int) -> str:
    """Return the verb for this many."""
    return "is" if count == 1 else "are"


def _is_unmeasured(row: Row) -> bool:
    """Return whether nothing is known of the work of a resource. A group that keeps instances
    running is not meant: these are measured themselves."""
    is_group = row.judgment.finding.is_priced_elsewhere
    return row.judgment.strength is Strength.NONE and not is_group


def _where(report: Report) -> str:
    """Return how many accounts and Regions were looked at."""
    accounts = {place.account for place in report.places}
    regions = {place.region for place in report.places}
    return f"{plural(len(accounts), 'account')} and {plural(len(regions), 'Region')}"
