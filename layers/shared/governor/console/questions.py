"""The Questions page: all open questions of a caller's scope, and what their forms say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.console.page import Asked, Caller, Page, Row, Table
from governor.console.views import figures
from governor.domain.approvals.approval import Answer, Decision
from governor.domain.approvals.messages import refused_text
from governor.domain.approvals.terms import Rank, Role, may
from governor.domain.units import UtcDatetime, in_parts, iso
from governor.errors import DecisionRefused, InputError, NotAllowed, NotFound
from governor.ports import Undoer
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ApprovalView
from governor.web.answers import END_KEEP, UNDO, brief, keep_until, posted, start_again
from governor.web.pages import Form, Visitor, approval_page

ROWS = 50
"""On one page: under 5,000 px on a phone."""
_OF_A_KEEP = Role.VIEWER
"""Whoever kept it ends that here; what others keep, admins end on the page of the instance."""
_MAY_LOOK = "you may look at it; the policy makes you no approver of it (console.scopes)"
_COLUMNS = (
    *("id", "instance_id", "instance_name", "instance_type", "account", "region"),
    *("owner", "project", "usd_per_day", "action", "expires_at"),
)


def questions(ask: Asked, results: Sequence[tuple[str, str]] = ()) -> Page:
    """Return a page of the open questions, the most expensive first, and what became of those just
    answered. `owner` filters, the same `select` ticks all of them. Raises: InputError."""
    owner, caller = figures.text_of(ask, "owner"), ask.caller
    all_open = figures.questions(ask)
    rows = [one for one in all_open if owner in ("", one[0].owner)]
    shown, pages = figures.paged(ask, "/questions", {"owner": owner}, rows, ROWS)
    views = _views(ask, shown)
    stops = [view for view in views if not view.episode.plan.destroys]
    mine = [view for view in stops if view.can_decide and _may(caller, view, Answer.KEEP)]
    documents = [brief(view) for view in views]
    whole = documents
    if ask.wants_csv:  # a page after the other: the evidence of all at once would fill the memory
        whole = [brief(view) for part in in_parts(rows, ROWS) for view in _views(ask, part)]
    return Page(
        title=f"{len(rows)} open questions" if len(rows) != 1 else "1 open question",
        template="questions_page.html",
        values={
            "rate": figures.rate(rows),
            "links": {str(one.approval_id): f"/questions/{one.approval_id}" for one, _ in shown},
            "stops": mine,
            "others": [view for view in stops if view not in mine],
            "apart": [view for view in views if view.episode.plan.destroys],
            "may_stop": any(_may(caller, view, Answer.APPROVE) for view in stops),
            "keep_options": keep_options(ask.now),
            "owners": sorted({row.owner for row, _ in all_open}),
            "owner": owner,
            "all": len(all_open),
            "select": owner if owner and ask.query.get("select") == owner else None,
            "pages": pages,
            "results": results,
        },
        document={"questions": documents, "page": pages["number"], "pages": pages["last"]},
        tables=(_table("questions", whole),),
    )


def _views(ask: Asked, rows: Sequence[Row]) -> list[ApprovalView]:
    asked = {str(one.approval_id): str(one.episode) for one, _ in rows}
    return [view for view in ask.reader.show.several(asked) if _rank(ask.caller, view)]


def question(ask: Asked) -> Page:
    """Return one question, as the page of its link. Raises: NotFound, also for one out of scope."""
    view, caller = _view(ask, ask.query["approval_id"]), ask.caller
    may_answer = _is_approver(caller, view)
    visitor = Visitor("", caller.by, caller.person, Role.APPROVER, only_looks=not may_answer)
    path, environment = f"/questions/{view.approval.approval_id}", ask.reader.environment
    return Page(
        title="",
        template="",
        values={},
        document=brief(view),
        tables=(_table("question", [brief(view)]),),
        whole=lambda csrf: approval_page(
            view, Form(visitor, csrf, path, ask.what_is_missing, environment, in_console=True)
        ),
    )


def _table(name: str, documents: Sequence[Mapping[str, object]]) -> Table:
    return Table(
        name, _COLUMNS, tuple(tuple(one[column] for column in _COLUMNS) for one in documents)
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """Takes the forms of both pages, by the use case of the links."""

    decide: Decide
    undoer: Undoer

    def several(self, ask: Asked) -> Page:
        """Answer what is ticked, and say what became of each. Raises: InputError, NotFound,
        NotAllowed."""
        picked = [
            key[5:]
            for key, value in ask.query.items()
            if key.startswith("pick-") and value == "yes"
        ]
        if not picked:
            raise InputError("tick at least one of them")
        if len(picked) > ROWS:
            raise InputError(f"tick at most {ROWS} of them at once")
        rows = [one for one in ask.asked if one[0].approval_id in picked]
        # Read at once to know whose they are; what is answered is read again by its decision.
        known = {view.approval.approval_id: view for view in _views(ask, rows)}
        views = [known.get(approval_id) or _view(ask, approval_id) for approval_id in picked]
        decision = _decision(ask)
        results = []
        for view in views:
            try:
                text = self._one(view, ask, decision, in_a_list=True)
            except (DecisionRefused, InputError) as error:
                text = refused_text(error)
            results.append((view.episode.instance.name, text))
        return questions(replace(ask, query={}), results)

    def one(self, ask: Asked) -> str:
        """Answer one question; return where to go. Raises: InputError, NotFound,
        DecisionRefused."""
        view, caller, button = (
            _view(ask, ask.query["approval_id"]),
            ask.caller,
            ask.query.get("answer"),
        )
        if button == UNDO:
            self._start_again(view, ask)
        elif button == END_KEEP:
            self._check_approver(view, ask, button)
            self.decide.end_keep(view, caller.by, caller.person, _OF_A_KEEP)
        else:
            self._one(view, ask, _decision(ask, view.episode.time_zone))
        return f"/questions/{view.approval.approval_id}"

    def _start_again(self, view: ApprovalView, ask: Asked) -> None:
        self._check_approver(view, ask, UNDO)
        by, person = ask.caller.by, ask.caller.person
        try:
            start_again(self.decide, self.undoer, view.episode, by, person, "console")
        except NotAllowed as error:
            self.decide.state.note_refused(view.approval, UNDO, by, str(error), ask.now)
            raise

    def _check_approver(self, view: ApprovalView, ask: Asked, answer: str) -> None:
        """Raises: NotAllowed, which the audit keeps."""
        if not _is_approver(ask.caller, view):
            self.decide.state.note_refused(view.approval, answer, ask.caller.by, _MAY_LOOK, ask.now)
            raise NotAllowed(_MAY_LOOK)

    def _one(
        self, view: ApprovalView, ask: Asked, decision: Decision, *, in_a_list: bool = False
    ) -> str:
        self._check_approver(view, ask, decision.answer)
        if in_a_list and decision.answer is Answer.APPROVE and view.episode.plan.destroys:
            raise InputError("a termination is answered on its own page")
        decided = self.decide(
            view.approval.approval_id,
            decision,
            typed_instance_id=ask.query.get("typed_instance_id"),
            losses_accepted=ask.query.get("losses") == "accepted",
        )
        return decided.said(decision, view.episode, ask.now)


def keep_options(now: UtcDatetime) -> Mapping[str, str]:
    """Return value and label of the ends of a keep; without a date it lasts as each question
    offers."""
    return {
        "": "until their next working morning",
        iso(now + timedelta(hours=4)): "for 4 hours",
        iso(now + timedelta(days=7)): "for a week",
    }


def _view(ask: Asked, approval_id: str) -> ApprovalView:
    view = ask.reader.show(approval_id)
    if _rank(ask.caller, view) is None:
        raise NotFound(f"approval {approval_id} is out of scope")
    return view


def _rank(caller: Caller, view: ApprovalView) -> Rank | None:
    return caller.rank(view.episode.ref.account, view.episode.project, view.episode.owner)


def _is_approver(caller: Caller, view: ApprovalView) -> bool:
    return (_rank(caller, view) or Rank.VIEWER) >= Rank.APPROVER


def _may(caller: Caller, view: ApprovalView, answer: Answer) -> bool:
    episode = view.episode
    return _is_approver(caller, view) and may(episode.terms, episode.plan, answer, caller.person)


def _decision(ask: Asked, zone: str = "UTC") -> Decision:
    """Return the answer of a form; a date of one's own choice is in this time zone. Raises:
    InputError."""
    decision = posted(ask.query, ask.caller.by, ask.caller.person, "console", ask.now)
    is_dated = decision.answer is Answer.KEEP and (
        ask.query.get("keep_until") or ask.query.get("keep_date")
    )
    return replace(decision, keep_until=keep_until(ask.query, zone)) if is_dated else decision
