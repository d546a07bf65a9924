"""The Questions page: all open questions of a caller's scope, and the forms that answer them.

Every answer goes through the use case that also serves the links of messages. Nothing here answers
a question that the caller may only look at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from markupsafe import Markup

from governor.approvals.decide import Decide
from governor.approvals.messages.sentences import refused_text
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.terms import may
from governor.approvals.show_approval import ApprovalView
from governor.console.current_fleet import Row
from governor.console.page import Caller, Page, Table, ViewRequest
from governor.console.views import addresses, figures
from governor.core.errors import DecisionRefused, InputError, NotAllowed, NotFound
from governor.core.units import UtcDatetime, in_parts, iso
from governor.episode.ports import Undoer
from governor.web.answers import END_KEEP, UNDO, brief, keep_until, posted, start_again, ticked_ids
from governor.web.listed_questions import ListedQuestions, listed_questions
from governor.web.pages import Form, Visitor, approval_page

ROWS = 50
"""Questions on one page: it stays under 5,000 px on a phone."""
_OF_A_KEEP = Role.VIEWER
"""Only those who kept an instance end the keep here. Admins end any keep on the page of the
instance."""
_MAY_LOOK = "you may look at it; the policy makes you no approver of it (console.scopes)"
_COLUMNS = (
    "id",
    "instance_id",
    "instance_name",
    "instance_type",
    "account",
    "region",
    "owner",
    "project",
    "usd_per_day",
    "action",
    "expires_at",
)


def questions(
    request: ViewRequest,
    results: Sequence[tuple[str, str, str]] = (),
    ticked: Collection[str] = (),
) -> Page:
    """Return a page of the open questions, the most expensive first, with the `results` of those
    just answered: the id of the question, the instance's name, and what became of the question.
    Those whose answer was refused stay `ticked`, by their ids. The query's `owner` and `project`
    filter; `select` with the same owner ticks all. As CSV, the questions of all pages are listed.
    Raises: InputError for a page that cannot be; CloudError."""
    owner = addresses.text_of(request, "owner")
    project = addresses.text_of(request, "project")
    all_open = figures.questions(request)
    in_project = [(row, page) for row, page in all_open if not project or row.project == project]
    rows = [(row, page) for row, page in in_project if not owner or row.owner == owner]
    filters = {"owner": owner, "project": project}
    shown, pages = addresses.paged(request, "/questions", filters, rows, ROWS)
    views = _views(request, shown)
    documents = [brief(view) for view in views]
    table = _table("questions", documents)
    if request.wants_csv:
        table = _table("questions", _briefs_of_all(request, rows))
    link_by_id = {str(row.approval_id): f"/questions/{row.approval_id}" for row, _ in shown}
    ticks_all = bool(owner) and request.query.get("select") == owner
    title = "1 open question" if len(rows) == 1 else f"{len(rows)} open questions"
    return Page(
        title=title,
        template="questions_page.html",
        values={
            "rate": figures.rate(rows),
            "links": link_by_id,
            "listed": _listed(request.caller, views),
            "keep_options": keep_options(request.now),
            "owners": _owner_links(in_project, project),
            "all_owners": addresses.with_query("/questions", {"project": project}),
            "owner": owner,
            "project": project,
            "select_all": addresses.with_query("/questions", {**filters, "select": owner}),
            "all": len(all_open),
            "select": owner if ticks_all else None,
            "ticked": ticked,
            "pages": pages,
            "results": results,
        },
        document={"questions": documents, "page": pages["number"], "pages": pages["last"]},
        tables=(table,),
    )


def _owner_links(rows: Sequence[Row], project: str) -> Mapping[str, str]:
    """Return, for each owner of these rows, the address of their questions, in the project if one
    is chosen; sorted by name."""
    names = sorted({row.owner for row, _ in rows})
    return {
        name: addresses.with_query("/questions", {"owner": name, "project": project})
        for name in names
    }


def _listed(caller: Caller, views: Sequence[ApprovalView]) -> ListedQuestions:
    """Return these questions, grouped by where the caller answers them: together, on their own
    pages, or not at all, as a caller may who is no approver of an instance."""
    return listed_questions(
        views,
        caller.person,
        may=lambda view, answer: _may(caller, view, answer),
    )


def _briefs_of_all(request: ViewRequest, rows: Sequence[Row]) -> list[Mapping[str, object]]:
    """Return the documents of the questions of these rows that the caller may see; empty if there
    are none. Raises: CloudError.

    They are read part by part: the evidence of all at once would fill the memory.
    """
    briefs: list[Mapping[str, object]] = []
    for part in in_parts(rows, ROWS):
        briefs += [brief(view) for view in _views(request, part)]
    return briefs


def _views(request: ViewRequest, rows: Sequence[Row]) -> list[ApprovalView]:
    """Return the questions of these rows that the caller may see and that are open or can still be
    held, as they are stored now, the most expensive first. Raises: CloudError."""
    episode_by_approval = {str(row.approval_id): str(row.episode) for row, _ in rows}
    views = request.reader.show.several(episode_by_approval)
    return [view for view in views if request.caller.rank_for(view.episode)]


def question(request: ViewRequest) -> Page:
    """Return the page of one question, which looks like that of a link. Raises: NotFound, also for
    a question out of the caller's scope; CloudError."""
    caller = request.caller
    view = request.reader.show.record(request.query["approval_id"])
    _require_seen(caller, view)
    may_answer = caller.is_approver(view.episode)
    visitor = Visitor("", caller.by, caller.person, Role.APPROVER, only_looks=not may_answer)
    path = f"/questions/{view.approval.approval_id}"
    environment = request.reader.environment

    def as_page_of_a_link(csrf: str, header: Markup) -> str:
        """Return the page of the question as HTML, with this token in its forms, and this
        header."""
        form = Form(visitor, csrf, path, request.what_is_missing, environment, header)
        return approval_page(view, form)

    return Page(
        title="",
        template="",
        values={},
        document=brief(view),
        tables=(_table("question", [brief(view)]),),
        whole=as_page_of_a_link,
    )


def _table(name: str, documents: Sequence[Mapping[str, object]]) -> Table:
    """Return these documents of questions as a table for CSV and JSON, with `_COLUMNS`. Each
    document must have them all."""
    rows = [tuple(document[column] for column in _COLUMNS) for document in documents]
    return Table(name, _COLUMNS, tuple(rows))


@dataclass(frozen=True, slots=True)
class Answers:
    """Takes the forms of both pages, with the use case that also serves the links of messages."""

    decide: Decide
    undoer: Undoer

    def several(self, request: ViewRequest) -> Page:
        """Answer every ticked question; return the page of open questions with what became of each.
        A refusal of one is the text of its result, and does not stop the others. Raises: InputError
        if none or more than 50 are ticked, or the form holds no answer; NotFound, before any is
        answered, if the caller may not see one of them; CloudError; PolicyError if an exemption
        needs today's policy and it cannot be read."""
        picked = ticked_ids(request.query)
        if not picked:
            raise InputError("select at least one of them")
        if len(picked) > ROWS:
            raise InputError(f"select at most {ROWS} of them at once")
        views = self._picked_views(request, picked)
        decision = _decision(request)
        results = []
        refused = set()
        for view in views:
            try:
                text = self._decide(view, request, decision, in_a_list=True)
            except (DecisionRefused, InputError) as error:
                text = refused_text(error)
                refused.add(view.approval.approval_id)
            results.append((view.approval.approval_id, view.episode.instance.name, text))
        return questions(replace(request, query={}), results, refused)

    def _picked_views(self, request: ViewRequest, picked: Sequence[str]) -> list[ApprovalView]:
        """Return the questions with these ids, in their order. Raises: NotFound if the caller may
        not see one; CloudError.

        They are read at once, only to know whose they are: each decision reads its question again.
        """
        rows = [(row, page) for row, page in request.open_questions if row.approval_id in picked]
        view_by_id = {view.approval.approval_id: view for view in _views(request, rows)}
        shown_views = []
        for approval_id in picked:
            shown_views.append(view_by_id.get(approval_id) or _view(request, approval_id))
        return shown_views

    def one(self, request: ViewRequest) -> str:
        """Do what the pressed button says: start the instance again, end its keep, or answer the
        question. Return the path of the question's page. Raises: InputError if the form holds no
        answer that can be; NotFound for a question out of the caller's scope; DecisionRefused
        (NotAllowed and Uncertain are such); CloudError; PolicyError if today's policy is needed and
        cannot be read."""
        view = _view(request, request.query["approval_id"])
        caller = request.caller
        button = request.query.get("answer")
        if button == UNDO:
            self._start_again(view, request)
        elif button == END_KEEP:
            self._refuse_non_approver(view, request, button)
            self.decide.end_keep(view, caller.by, caller.person, _OF_A_KEEP)
        else:
            self._decide(view, request, _decision(request, view.episode.asking.time_zone))
        return f"/questions/{view.approval.approval_id}"

    def _start_again(self, view: ApprovalView, request: ViewRequest) -> None:
        """Have EC2 start the stopped instance again. Record a try of a caller who may not; other
        refusals are not recorded. Raises: DecisionRefused (NotAllowed and Uncertain are such);
        CloudError; PolicyError if today's policy cannot be read."""
        self._refuse_non_approver(view, request, UNDO)
        by = request.caller.by
        person = request.caller.person
        try:
            start_again(self.decide, self.undoer, view.episode, by, person, "console")
        except NotAllowed as error:
            self.decide.approval_store.note_refused(
                view.approval, UNDO, by, str(error), request.now
            )
            raise

    def _refuse_non_approver(self, view: ApprovalView, request: ViewRequest, answer: str) -> None:
        """Refuse a caller who is no approver of the question's instance, and record the answer that
        they tried to give. Raises: NotAllowed; CloudError."""
        if not request.caller.is_approver(view.episode):
            self.decide.approval_store.note_refused(
                view.approval, answer, request.caller.by, _MAY_LOOK, request.now
            )
            raise NotAllowed(_MAY_LOOK)

    def _decide(
        self,
        view: ApprovalView,
        request: ViewRequest,
        decision: Decision,
        *,
        in_a_list: bool = False,
    ) -> str:
        """Record the caller's answer to a question; return the text that confirms it. `in_a_list`
        says that several are answered at once. Raises: InputError for an approval of a termination
        in a list; NotAllowed; DecisionRefused; PolicyError if an exemption needs today's policy and
        it cannot be read; CloudError."""
        self._refuse_non_approver(view, request, decision.answer)
        if in_a_list and decision.answer is Answer.APPROVE and view.episode.plan.destroys:
            raise InputError("a termination is answered on its own page")
        decided = self.decide(
            view.approval.approval_id,
            decision,
            typed_instance_id=request.query.get("typed_instance_id"),
            losses_accepted=request.query.get("losses") == "accepted",
        )
        return decided.confirmation(decision, view.episode, request.now)


def keep_options(now: UtcDatetime) -> Mapping[str, str]:
    """Return the label of each end of a keep that a list of questions offers, by the end as ISO
    text. The empty end means that of each question's own offer."""
    return {
        "": "until their next working morning",
        iso(now + timedelta(hours=4)): "for 4 hours",
        iso(now + timedelta(days=7)): "for a week",
    }


def _view(request: ViewRequest, approval_id: str) -> ApprovalView:
    """Return a question as it is stored now. Raises: NotFound, also for one out of the caller's
    scope; CloudError."""
    view = request.reader.show(approval_id)
    _require_seen(request.caller, view)
    return view


def _require_seen(caller: Caller, view: ApprovalView) -> None:
    """Refuse a caller who may not see the question. Raises: NotFound."""
    if caller.rank_for(view.episode) is None:
        raise NotFound(f"approval {view.approval.approval_id} is out of scope")


def _may(caller: Caller, view: ApprovalView, answer: Answer) -> bool:
    """Return whether the caller may give this answer: they are an approver, and the question's
    terms let them."""
    episode = view.episode
    return caller.is_approver(episode) and may(episode.terms, episode.plan, answer, caller.person)


def _decision(request: ViewRequest, zone: str = "UTC") -> Decision:
    """Return the answer in the request's form, as the caller's; nothing is recorded. A typed date
    of a keep is in this time zone; a keep without a date has no end yet. Raises: InputError if the
    form has no known answer, or its date cannot be read."""
    decision = posted(
        request.query, request.caller.by, request.caller.person, "console", request.now
    )
    has_end = bool(request.query.get("keep_until") or request.query.get("keep_date"))
    if decision.answer is not Answer.KEEP or not has_end:
        return decision
    return replace(decision, keep_until=keep_until(request.query, zone))
