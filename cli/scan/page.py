"""The report of a scan as one HTML file: no script, nothing loaded from elsewhere, printable."""

from __future__ import annotations

from pathlib import Path

from governor.console.cells import name_html, state_html
from governor.core.line_breaks import steady_page
from governor.core.units import iso, money, printable
from governor.scan.model import Report
from governor.scan.rules import groups_of, refusals_of
from governor.scan.words import headline, own_cost, price_word, refusal_text, remarks
from governor.web.responses import TOKENS, environment

_FOLDER = Path(__file__).parent


def page_html(report: Report) -> str:
    """Return the page. Every text of the report is escaped."""
    style = TOKENS + (_FOLDER / "page.css").read_text(encoding="utf-8")
    templates = environment(style, _FOLDER)
    templates.filters.update(
        money=money,
        iso=iso,
        printable=printable,
        name=name_html,
        state=state_html,
        price_word=price_word,
    )
    groups = {
        "Account": groups_of(report.rows, lambda row: row.resource.target.account),
        "Owner": groups_of(report.rows, lambda row: row.owner or "no owner tag"),
        "Kind": groups_of(report.rows, lambda row: row.kind),
    }
    html = templates.get_template("page.html").render(
        report=report,
        headline=headline(report),
        remarks=remarks(report),
        groups=groups,
        refusals=[refusal_text(refusal) for refusal in refusals_of(report.unread)],
        own_cost=own_cost(report),
    )
    return steady_page(html)
