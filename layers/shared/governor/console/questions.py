"""The Questions page: all open questions of a caller's scope, and what their forms say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from urllib.parse import urlencode

from governor.console.page import Caller, Page, Table
from governor.console.reader import Reader
from governor.domain.approvals.approval import Answer, Decision
from governor.domain.approvals.messages import STEP_TEXT, cost_lines, people_text, restart_text, silence_text
from governor.domain.approvals.scope import Rank
from governor.domain.approvals.terms import may
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.errors import DecisionRefused, InputError, NotAllowed, NotFound
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ApprovalView
from governor.web import questions as shown
from governor.web.api import LONGEST_REASON, brief

ROWS = 50
"""On one page: under 5,000 px on a phone."""
_COLUMNS = ("id", "instance_id", "instance_name", "instance_type", "account", "region")
_MORE = ("owner", "project", "usd_per_day", "action", "expires_at")


def questions(reader: Reader, caller: Caller, query: Mapping[str, str], now: UtcDatetime) -> Page:
    """Return a page of the open questions, the most expensive first.

    `owner` filters, `select` ticks all of an owner. Raises: InputError.
    """
    return _page(reader, caller, query, now)


def _page(
    reader: Reader,
    caller: Caller,
    query: Mapping[str, str],
    now: UtcDatetime,
    results: tuple[tuple[str, str], ...] = (),
) -> Page:
    sees, owner, select = caller.scope, query.get("owner", ""), query.get("select")
    rows = [
        row
        for page in reader.pages
        for row in page.rows
        if row.approval_id and row.episode and sees.sees(row.account, row.project, row.owner)
    ]
    owners = sorted({row.owner for row in rows})
    rows = [row for row in rows if owner in ("", row.owner)]
    rows.sort(key=lambda row: (-(row.usd_per_hour or 0), row.instance_id))
    pages = max(1, ceil(len(rows) / ROWS))
    number = _number(query.get("page", "1"), pages)
    asked = {str(one.approval_id): str(one.episode) for one in rows[(number - 1) * ROWS : number * ROWS]}
    views = shown.by_price(view for view in reader.show.several(asked) if _sees(caller, view))
    lines = [
        shown.line(
            view,
            f"/questions/{view.approval.approval_id}",
            may_answer=view.can_decide and _may(caller, view, Answer.KEEP),
            ticked=select is not None and select == view.episode.owner,
        )
        for view in views
    ]
    stops = [line for line in lines if line["verb"] == "stop"]
    total, unpriced = shown.total(views)
    documents = [document(view) for view in views]
    return Page(
        title=f"{len(rows)} open questions" if len(rows) != 1 else "1 open question",
        template="questions_page.html",
        values={
            "stops": [one for one in stops if one["may_answer"]],
            "others": [one for one in stops if not one["may_answer"]],
            "apart": [line for line in lines if line["verb"] != "stop"],
            "may_stop": any(
                _may(caller, view, Answer.APPROVE) for view in views if not view.episode.plan.destroys
            ),
            "total": total,
            "unpriced": unpriced,
            "keep_options": keep_options(now),
            "owners": owners,
            "owner": owner,
            "page": number,
            "pages": [
                f"/questions?{urlencode({'owner': owner, 'page': one})}" for one in range(1, pages + 1)
            ],
            "results": results,
        },
        document={"questions": documents, "page": number, "pages": pages},
        tables=(Table("questions", (*_COLUMNS, *_MORE), tuple(map(_cells, documents))),),
    )


def question(reader: Reader, caller: Caller, query: Mapping[str, str], now: UtcDatetime) -> Page:
    """Return one question. Raises: NotFound, also for one out of scope."""
    view = _view(reader, caller, query["approval_id"])
    episode = view.episode
    place = f"/instances/{episode.ref.account}/{episode.ref.region}/{episode.ref.instance_id}"
    return Page(
        title=f"{episode.instance.name}: {episode.plan.verb} it?"
        if view.can_decide
        else episode.instance.name,
        template="question_page.html",
        values={
            "view": view,
            "episode": episode,
            "plan": episode.plan,
            "place": place,
            "path": f"/questions/{view.approval.approval_id}",
            "idle": view.idle_text[1],
            "costs": cost_lines(episode),
            "silence": silence_text(episode, view.approval.expires_at, now),
            "steps": [STEP_TEXT[step] for step in episode.plan.steps],
            "restart": restart_text(episode),
            "people": people_text(episode),
            "may": {answer.value: _may(caller, view, answer) for answer in Answer},
            "keep_options": keep_options(now),
        },
        document=document(view),
        tables=(Table("question", (*_COLUMNS, *_MORE), (_cells(document(view)),)),),
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """Takes the forms of both pages, by the use case of the links."""

    decide: Decide

    def several(self, reader: Reader, caller: Caller, form: Mapping[str, str], now: UtcDatetime) -> Page:
        """Answer what is ticked, and say what became of each. Raises: InputError, NotFound, NotAllowed."""
        picked = [name.removeprefix("pick-") for name, value in form.items() if _is_pick(name, value)]
        if not picked:
            raise InputError("tick at least one of them")
        views = [_view(reader, caller, approval_id) for approval_id in picked]
        decision = _decision(form, caller, now)
        results = []
        for view in views:
            try:
                text = self._one(view, caller, decision, form)
            except (DecisionRefused, InputError) as error:
                text = f"not recorded: {error}"
            results.append((view.episode.instance.name, text))
        return _page(reader, caller, {}, now, tuple(results))

    def one(self, reader: Reader, caller: Caller, form: Mapping[str, str], now: UtcDatetime) -> str:
        """Answer one question; return where to go. Raises: InputError, NotFound, DecisionRefused."""
        view = _view(reader, caller, form["approval_id"])
        self._one(view, caller, _decision(form, caller, now), form)
        return f"/questions/{view.approval.approval_id}"

    def _one(self, view: ApprovalView, caller: Caller, decision: Decision, form: Mapping[str, str]) -> str:
        if (_rank(caller, view) or Rank.VIEWER) < Rank.APPROVER:
            why = "you may look at it; the policy makes you no approver of it (console.scopes)"
            self.decide.state.note_refused(view.approval, decision.answer, caller.by, why, decision.at)
            raise NotAllowed(why)
        decided = self.decide(
            view.approval.approval_id,
            decision,
            typed_instance_id=form.get("typed_instance_id"),
            losses_accepted=form.get("losses") == "accepted",
        )
        if decided.needs_another:
            return "noted; a second person must approve, too"
        return "held: nothing more is done" if decided.holds else "recorded"


def document(view: ApprovalView) -> dict[str, object]:
    return {**brief(view), "owner": view.episode.owner, "project": view.episode.project}


def keep_options(now: UtcDatetime) -> Mapping[str, str]:
    """Return value and label of the ends of a keep; without a date it lasts as each question offers."""
    return {
        "": "until their next working morning",
        iso(now + timedelta(hours=4)): "for 4 hours",
        iso(now + timedelta(days=7)): "for a week",
    }


def _view(reader: Reader, caller: Caller, approval_id: str) -> ApprovalView:
    view = reader.show(approval_id)
    if not _sees(caller, view):
        raise NotFound(f"approval {approval_id} is out of scope")
    return view


def _rank(caller: Caller, view: ApprovalView) -> Rank | None:
    return caller.rank(view.episode.ref.account, view.episode.project, view.episode.owner)


def _sees(caller: Caller, view: ApprovalView) -> bool:
    return _rank(caller, view) is not None


def _may(caller: Caller, view: ApprovalView, answer: Answer) -> bool:
    episode, rank = view.episode, _rank(caller, view) or Rank.VIEWER
    return rank >= Rank.APPROVER and may(episode.terms, episode.plan, answer, caller.person)


def _decision(form: Mapping[str, str], caller: Caller, now: UtcDatetime) -> Decision:
    """Return the answer of a form. Raises: InputError."""
    try:
        answer = Answer(form.get("answer", ""))
        until = form.get("keep_until") if answer is Answer.KEEP else None
        keep_until = parse_iso(until) if until else None
    except ValueError:
        raise InputError("choose one of the buttons, and a date like 2026-12-01T09:00:00Z") from None
    reason = form.get("reason", "").strip()
    if len(reason) > LONGEST_REASON:
        raise InputError(f"the reason is longer than {LONGEST_REASON} characters")
    decision = Decision(answer=answer, by=caller.by, channel="console", at=now, person=caller.person)
    return replace(decision, keep_until=keep_until, reason=reason or None)


def _is_pick(name: str, value: str) -> bool:
    return name.startswith("pick-") and value == "yes"


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise InputError(f"there are {most} pages, not a page {text[:20]!r}")
    return int(text)


def _cells(one: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(one[name] for name in (*_COLUMNS, *_MORE))
