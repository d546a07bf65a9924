"""`governor report`: print costs and savings of a month, as the email and the console show them.

It only reads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, own_cost, times
from cli.errors import CommandError
from cli.policy import deployed
from cli.progress import Progress
from cli.status import Stack
from cli.tables import Column, shown_command, shown_text, table_text
from governor.alerts.model import UNASSIGNED, Alert, Owner
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.documents import csv_text, plain
from governor.core.errors import GovernorError, PolicyError
from governor.core.instance import Target
from governor.core.units import Usd, UtcDatetime, money, plural, printable
from governor.fleet.rules.kept import COLUMNS as KEPT_COLUMNS
from governor.fleet.rules.kept import KeptList
from governor.fleet.store import Fleet
from governor.money.messages import SEE_ALSO, report_alert
from governor.money.model.found import FoundWaste
from governor.money.report_savings import Books, ReportFilter
from governor.money.rules.cost import month_end, month_of, parse_month
from governor.money.rules.jobs import COLUMNS as JOB_COLUMNS
from governor.money.rules.jobs import JobKind
from governor.money.rules.report import COLUMNS, Report
from governor.money.store.ledger import Ledger
from governor.notify.compose import message_of
from governor.notify.email import fitting
from governor.policy.accounts import swept_targets
from governor.policy.document import parse_policy
from governor.policy.model.names import TagMatch
from governor.scan.for_reports import FoundByScans
from governor.scan.model import Finding
from governor.scan.store import Scans

_UNKNOWN_PRICE = "price unknown"
_FIRST_SCAN = (
    "The first scan comes within a day, at 01:10 UTC. To look now with your own permissions, run "
    "`governor scan`."
)
_COLUMNS = (
    Column("instance", longest=40, gives_way=True),
    Column("how it ended", gives_way=True, narrowest=len("terminated")),
    Column("owner", longest=40, gives_way=True),
    Column("project", longest=40, gives_way=True),
    Column("when (UTC)", longest=17),
    Column("saved, USD", longest=12, is_number=True),
)
_KEPT_COLUMNS = (
    Column("instance", longest=40, gives_way=True),
    Column("owner", longest=40, gives_way=True),
    Column("why it stays", longest=40, gives_way=True),
    Column("by", longest=40, gives_way=True),
    Column("until (UTC)", longest=17, gives_way=True, narrowest=len("2026-11-20")),
    Column("measured", longest=12),
    Column("USD a month", longest=12, is_number=True),
)
_JOB_COLUMNS = (
    Column("project", longest=40, gives_way=True),
    Column("job", longest=40, gives_way=True),
    Column("USD", longest=14, is_number=True),
    Column("idle, USD", longest=14, is_number=True),
    Column("idle", longest=7, is_number=True),
)


def run(arguments: argparse.Namespace) -> None:
    """Print the report of a month, or the part of it that is asked for.

    Raises:
        CommandError: the options contradict each other, or something could not be read.
    """
    now = times.now()
    start = _month(arguments.month or month_of(now), now)
    chosen = "json" if arguments.json else arguments.format
    report_filter = ReportFilter(arguments.account, arguments.owner, arguments.project)
    _refuse_contradictions(arguments, chosen, report_filter)
    stack = Stack(arguments.stack_name, aws.session())
    with Progress("reading the ledger") as progress:
        policy = _policy(arguments.stack_name, stack)
        try:
            table = DynamoTable(Clients(), stack.outputs["StateTableName"])
            saving_counts_for = timedelta(days=policy.ledger.saving_counts_days)
            targets = swept_targets(policy, stack.hub)
            fleet_store = Fleet(table)
            found = FoundByScans(Scans(table), fleet_store, targets)
            books = Books(Ledger(table), fleet_store, saving_counts_for, found)
            report = books.report(start, min(now, month_end(start)), now, report_filter)
        except (ClientError, BotoCoreError, GovernorError) as error:
            raise CommandError(f"the ledger could not be read: {aws.reason(error)}") from None
        own = None
        if arguments.own_cost:
            progress.show("reading what GPU Governor itself has used")
            own = own_cost.read(stack, report.start, report.end, report.costs.total)
    if arguments.kept:
        print(shown_kept(report.kept, chosen), end="")
        return
    if arguments.ungoverned:
        print(shown_found(report.ungoverned, chosen), end="")
        return
    if arguments.jobs:
        print(shown_jobs(report, chosen), end="")
        return
    if chosen == "table" and _is_empty(report):
        print(shown_empty(report, report_filter, policy.selector, own), end="")
        return
    alert = alert_of(report, stack.hub, report_filter, now)
    print(shown(report, chosen, alert, own), end="")


def _refuse_contradictions(
    arguments: argparse.Namespace, chosen: str, report_filter: ReportFilter
) -> None:
    """Refuse options that do not go together. Raises: CommandError."""
    can_show_own_cost = chosen in ("table", "json") and not any(report_filter)
    if arguments.own_cost and not can_show_own_cost:
        raise CommandError("--own-cost goes with the table or the json of everything")
    lists_wanted = sum((arguments.kept, arguments.ungoverned, arguments.jobs))
    if lists_wanted > 1:
        raise CommandError("--kept, --ungoverned and --jobs are lists of their own: choose one")
    if arguments.ungoverned and (chosen == "html" or arguments.month or arguments.own_cost):
        raise CommandError("--ungoverned is about now: it goes with table, csv or json alone")
    if arguments.kept and (chosen == "html" or arguments.month or arguments.own_cost):
        raise CommandError("--kept is about now: it goes with table, csv or json alone")
    if arguments.jobs and (chosen == "html" or arguments.own_cost):
        raise CommandError("--jobs goes with table, csv or json alone, without --own-cost")


def _month(text: str, now: UtcDatetime) -> UtcDatetime:
    try:
        start = parse_month(text)
    except ValueError:
        raise CommandError(f"--month is {text!r}: write it as {month_of(now)}") from None
    if start > now:
        raise CommandError(f"--month {text} has not begun")
    return start


def _policy(name: str, stack: Stack) -> Any:
    try:
        return parse_policy(deployed(name, stack.session)).base().policy
    except PolicyError as error:
        raise CommandError(
            f"the policy cannot be used: {error}; run `governor policy check`"
        ) from None


def _is_empty(report: Report) -> bool:
    """Return whether no cost and no ended question counts in the time of the report."""
    return not report.lines and not report.costs.total


def alert_of(report: Report, hub: Target, report_filter: ReportFilter, now: UtcDatetime) -> Alert:
    """Return the message that a reader of this report would get."""
    whose = Owner(
        report_filter.owner or report_filter.account or UNASSIGNED,
        report_filter.project or UNASSIGNED,
    )
    return report_alert(
        report,
        f"month-{month_of(report.start)}",
        hub,
        now,
        whose,
        is_everything=not any(report_filter),
    )


def shown(report: Report, chosen: str, alert: Alert, own: own_cost.Measured | None = None) -> str:
    """Return the report as `table`, `html`, `csv` or `json`.

    The own cost of GPU Governor is only in the first and the last.
    """
    match chosen:
        case "csv":
            return csv_text(COLUMNS, report.rows)
        case "json":
            document = {"month": month_of(report.start), **report.document}
            if own is not None:
                document["own_cost"] = own.document
            return f"{json.dumps(document, indent=2, default=plain)}\n"
        case "html":
            _, page = fitting(message_of(alert, None, link=None))
            return page
        case _:
            return _with_own_cost(_table(report, alert), own)


def shown_empty(
    report: Report,
    report_filter: ReportFilter,
    selector: TagMatch,
    own: own_cost.Measured | None = None,
) -> str:
    """Return why a report has nothing, and what would fill it; and the own cost of GPU Governor."""
    sentences = [
        f"There is nothing to report for {report.start:%B %Y}: no cost was counted, and no "
        "question ended."
    ]
    if any(report_filter):
        sentences.append(
            "Without --account, --owner and --project, the report is about all instances."
        )
    elif report.end == month_end(report.start):
        sentences.append("To see this month, leave out --month.")
    else:
        sentences.append(
            f"Every sweep counts the cost of the running instances with the tag {selector}, if "
            "their price is known. `governor doctor` counts these instances."
        )
        sentences += _lists_of_now(report)
    return _with_own_cost([_sentence(text) for text in sentences], own)


def _lists_of_now(report: Report) -> list[str]:
    """Return a sentence for each list that has something now; empty if none has."""
    sentences = []
    if report.ungoverned.rows:
        sentences.append(
            f"{report.ungoverned.headline} `governor report --ungoverned` lists what was found."
        )
    if report.kept.instances:
        count = plural(len(report.kept.instances), "instance is", "instances are")
        sentences.append(f"{count} left alone: `governor report --kept` says why.")
    return sentences


def _with_own_cost(lines: Sequence[str], own: own_cost.Measured | None) -> str:
    """Return these lines, and below them what GPU Governor itself costs if that was asked for."""
    shown_lines = [*lines]
    if own is not None:
        shown_lines += ["", *map(shown_text, own.lines)]
    return "".join(f"{line}\n" for line in shown_lines)


def shown_kept(kept: KeptList, chosen: str) -> str:
    """Return what is left alone as `table`, `csv` or `json`."""
    match chosen:
        case "csv":
            return csv_text(KEPT_COLUMNS, kept.rows)
        case "json":
            return f"{json.dumps(kept.document, indent=2, default=plain)}\n"
        case _:
            return "".join(f"{line}\n" for line in _kept_table(kept))


def shown_found(found: FoundWaste, chosen: str) -> str:
    """Return what the daily scans found that is not governed as `table`, `csv` or `json`."""
    match chosen:
        case "csv":
            return csv_text(found.columns, found.rows)
        case "json":
            return f"{json.dumps(found.document, indent=2, default=plain)}\n"
        case _:
            return "".join(f"{line}\n" for line in _found_lines(found))


def _found_lines(found: FoundWaste) -> list[str]:
    """Return the sentences about what is not governed, and lines for each wasted resource: the
    most expensive first, those without a known price last. Before the first scan, say only that."""
    if not found.is_scanned:
        return [_sentence(found.headline), _sentence(_FIRST_SCAN)]
    lines = [_sentence(text) for text in (found.headline, *found.remarks)]
    for row in found.rows:
        values: dict[str, Any] = dict(zip(found.columns, row, strict=True))
        if Finding(values["finding"]).is_waste:
            lines += _waste_lines(values)
    return [*lines, *(_sentence(f"Not read: {text}") for text in found.not_read)]


def _waste_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a wasted resource, whose fields are named as in JSON: its cost, its place,
    and what to do."""
    amount = _UNKNOWN_PRICE
    if values.get("is_prepaid"):  # a scan by the release before has no such field
        amount = "prepaid"
    elif values["usd_per_month"] is not None:
        amount = f"{values['waste_usd_per_month']:,.2f}"
    place = f"{values['account']}/{values['region']}"
    what = printable(f"{values['finding']}: {values['what']}, {values['id']}")
    indent = " " * (len(_UNKNOWN_PRICE) + 2)
    yield shown_text(f"  {amount:>{len(_UNKNOWN_PRICE)}}  {what}")
    yield shown_text(f"{indent}  {printable(place)}: {printable(str(values['evidence']))}")
    if values["command"]:
        yield shown_command(printable(values["command"]), f"{indent}  ")


def _sentence(text: str) -> str:
    """Return the text of others in lines of the terminal."""
    return shown_text(printable(text))


def shown_jobs(report: Report, chosen: str) -> str:
    """Return the costs by project and job as `table`, `csv` or `json`."""
    match chosen:
        case "csv":
            return csv_text(JOB_COLUMNS, report.job_rows)
        case "json":
            document = {
                "month": month_of(report.start),
                "projects": [project.document for project in report.projects],
            }
            return f"{json.dumps(document, indent=2, default=plain)}\n"
        case _:
            return "".join(f"{line}\n" for line in _jobs_table(report))


def _jobs_table(report: Report) -> list[str]:
    """Return the lines of a table with each project, followed by its jobs, and below it the reasons
    why costs have no job."""
    if not report.projects:
        return [f"No costs were counted in {month_of(report.start)}."]
    rows = []
    notes = []
    for project in report.projects:
        rows.append((project.project, "all", *_job_amounts(project.usd, project.idle_usd)))
        for job in project.jobs:
            name = job.name if job.kind is JobKind.NAMED else f"({job.name})"
            rows.append(("", name, *_job_amounts(job.usd, job.idle_usd)))
            if job.note:
                notes.append(_sentence(f"{project.project}, {job.name}: {job.note}."))
    return [table_text(_JOB_COLUMNS, rows), "", *notes]


def _job_amounts(usd: Usd, idle_usd: Usd) -> tuple[str, str, str]:
    """Return the cells of a cost, of its idle part, and of the share of that part; the share is
    empty if there is no cost."""
    share = f"{money(100 * idle_usd / usd, 0)}%" if usd else ""
    return money(usd), money(idle_usd), share


def _kept_table(kept: KeptList) -> list[str]:
    if not kept.instances:
        return [
            _sentence(
                "No instance is left alone because of an answer, a tag, a service, a session or "
                "the policy."
            )
        ]
    lines = [
        f"${money(kept.idle_usd_per_month)} a month is idle, but left alone for these reasons.",
        f"${money(kept.not_measured_usd_per_month)} a month is not measured, so it may be in use.",
    ]
    if kept.unpriced:
        lines.append(f"In no amount: {plural(kept.unpriced, 'instance')} of unknown price.")
    rows = []
    for instance in kept.instances:
        row = instance.row
        until = "no end" if row.stays_until is None else f"{row.stays_until:%Y-%m-%d %H:%M}"
        amount = _amount_text(instance.usd_per_month, is_prepaid=instance.is_prepaid)
        by = row.kept_by or "unknown"
        rows.append((row.name, row.owner, instance.words, by, until, instance.measured, amount))
    return [*map(shown_text, lines), "", table_text(_KEPT_COLUMNS, rows)]


def _amount_text(amount: Usd | None, *, is_prepaid: bool) -> str:
    """Return the last cell of a row: an amount, `unknown` without a known price, or `prepaid`."""
    if is_prepaid:
        return "prepaid"
    return "unknown" if amount is None else money(amount)


def _table(report: Report, alert: Alert) -> list[str]:
    texts = [alert.subject, *alert.lines]
    lines = [_sentence(text) for text in texts if text != SEE_ALSO]
    rows = []
    for line in report.lines:
        entry = line.entry
        name = entry.resource_name or entry.episode.instance_id
        ending = f"{line.what}, undone" if entry.false_stop else line.what
        booked_at = f"{entry.booked_at:%Y-%m-%d %H:%M}"
        amount = _amount_text(line.net_usd, is_prepaid=entry.is_prepaid)
        rows.append((name, ending, entry.owner, entry.project, booked_at, amount))
    if rows:
        lines += ["", table_text(_COLUMNS, rows)]
    return lines
