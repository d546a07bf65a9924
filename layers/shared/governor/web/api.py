"""The HTTP API of the command line: the questions, the policy, freezes and caps as JSON.

AWS IAM authorizes the callers. The use cases are those of the page; no rule is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from governor.approvals.decide import Decide
from governor.approvals.messages.sentences import (
    after_stop_sentence,
    cost_lines,
    launched_text,
    plan_lines,
    restarts_text,
)
from governor.approvals.model.approval import Answer, Approval, Decision
from governor.approvals.model.terms import Role, SignIn
from governor.approvals.open_console import OpenConsole
from governor.approvals.pause import PauseAll, PauseRequester
from governor.approvals.rules.approval import has_controls
from governor.approvals.rules.terms import grants_of
from governor.approvals.show_approval import ApprovalView, ShowApproval
from governor.core.errors import DecisionRefused, InputError, NotAllowed, NotFound
from governor.core.instance import Target
from governor.core.units import UtcDatetime, iso, parse_iso, people, printable
from governor.episode.model.episode import Episode
from governor.limits.freezes import ShowLimits
from governor.limits.model.pause import Pause
from governor.policy.ask_consent import PolicyInForce
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Policy
from governor.policy.rules.changes import PEOPLE_NEEDED
from governor.policy.versions import AcceptPolicy
from governor.web.answers import END_KEEP, LONGEST_REASON, brief, status_of

_FIELDS = frozenset({"answer", "keep_until", "reason", "instance_id", "losses_accepted"})
_PAUSE_FIELDS = frozenset({"reason"})
_RESUME_FIELDS = frozenset({"since"})
_DENIED = (
    "S3 denied this version of the policy: there is none of that name, or the function serve_api "
    "may not read it. Compare the name with `governor policy history`. If it is listed there, "
    "the policy of the bucket or of its key, or a service control policy, takes "
    "s3:GetObjectVersion or kms:Decrypt from the role of serve_api."
)
"""The role may not list. So S3 gives the same answer for a version that does not exist as for one
that the role may not read."""
_LONGEST_VERSION = 1024
"""The longest id of a version, in bytes. Source: Amazon S3 user guide, versioning."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `caller` is the ARN that AWS has authenticated. `route` is written as in
    `template.yaml`. `named` is the id of the approval, or the version of the policy, in the
    path."""

    route: str
    caller: str
    named: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)


class ApiResponse(NamedTuple):
    """The HTTP status, and the body as JSON."""

    status: int
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApprovalApi:
    """Answers the requests of the command line."""

    show: ShowApproval
    limits: ShowLimits
    decide: Decide
    accept: AcceptPolicy
    policy_text: PolicyInForce
    targets: Sequence[Target]
    ownership: Ownership
    open_console: OpenConsole
    pause_all: PauseAll
    policy: Policy
    policy_is_whole: bool
    """False if the document in force is refused. `policy` then holds its people, and defaults for
    everything else."""

    def handle(self, request: ApiRequest) -> ApiResponse:
        """Carry out any request that a client can send; return a status and a JSON object. A
        refusal says in `error` what to do. Raises: CloudError; PolicyError if today's policy is
        needed and cannot be read."""
        try:
            return ApiResponse(200, self._carry_out(request))
        except NotFound as error:
            return _not_found_response(request, error)
        except (InputError, DecisionRefused) as error:
            return ApiResponse(status_of(error), {"error": str(error)})

    def _carry_out(self, request: ApiRequest) -> Mapping[str, Any]:
        """Do what the route of the request says, and return the JSON object of the answer. Raises:
        NotFound, also for an unknown route; InputError; DecisionRefused, also NotAllowed;
        PolicyError if today's policy is needed and cannot be read; CloudError."""
        match request.route:
            case "GET /api/approvals":
                return self._open_questions()
            case "GET /api/approvals/{approval_id}":
                return question_document(self.show.record(request.named))
            case "POST /api/approvals/{approval_id}":
                return self._decide(request)
            case "GET /api/policy":
                return self._policy()
            case "POST /api/policy/{version}":
                return self._accept(request)
            case "GET /api/freezes":
                return self._limits_now()
            case "POST /api/console":
                return {"url": self.open_console(request.caller)}
            case "POST /api/pause":
                return self._pause(request)
            case "POST /api/resume":
                return self._resume(request)
        raise NotFound("there is no such route")

    def _open_questions(self) -> Mapping[str, Any]:
        """Return the questions of all targets that are pending or can still be held, the most
        expensive first, as `{"questions": [...]}`. Raises: CloudError."""
        return {"questions": [brief(view) for view in self.show.open_in(self.targets)]}

    def _accept(self, request: ApiRequest) -> Mapping[str, Any]:
        """Record that the caller accepts a version of the policy, which the next review counts;
        return who supports the version, whether it is in force, and the overrides that still count
        as `ask`. Raises: NotFound; NotAllowed if the caller is no known person, or wrote the
        version; DecisionRefused if it is in force already and asks nobody; CloudError."""
        if not request.named.isascii() or len(request.named) > _LONGEST_VERSION:
            # No id of S3 has this form: there is no such version.
            raise NotFound("S3 names no version so")
        accepted = self.accept(request.named, f"aws:{request.caller}", self.ownership)
        supporters = sorted(accepted.supporters)
        unaccepted_overrides = []
        for override in accepted.unaccepted:
            unaccepted_overrides.append(
                {"override": override.name, "missing": list(override.missing)}
            )
        return {
            "accepted_by": supporters,
            "people_needed": PEOPLE_NEEDED,
            "in_force": accepted.is_in_force,
            "unaccepted": unaccepted_overrides,
        }

    def _policy(self) -> Mapping[str, Any]:
        """Return the document in force, its version, and the people whose acceptances of its
        overrides count; `None` for the last two if no version is stored. Raises: CloudError."""
        text = self.policy_text.read()
        standing = self.accept.policy_store.standing_version()
        if standing is None:
            return {"in_force": None, "document": text, "accepted": None}
        acceptances = standing.acceptances
        accepted = {"terms": acceptances.terms, "people": sorted(acceptances.people)}
        return {"in_force": standing.version, "document": text, "accepted": accepted}

    def _pause(self, request: ApiRequest) -> Mapping[str, Any]:
        """Pause everything that destroys; return the pause that stands now, which somebody else may
        have begun before. Raises: InputError for an unknown field, or a reason that is no short
        text; NotAllowed; DecisionRefused if others kept pausing and ending their pauses;
        CloudError."""
        _refuse_other_fields(request.document, _PAUSE_FIELDS)
        reason = request.document.get("reason")
        if not isinstance(reason, str | None):
            raise InputError("reason: a text")
        pause = self.pause_all.begin(self._pause_requester(request), reason, self.policy)
        return _pause_document(pause)

    def _resume(self, request: ApiRequest) -> Mapping[str, Any]:
        """End the pause that began at the document's `since`; return it. Raises: InputError for an
        unknown field, or without a time in `since`; NotAllowed; DecisionRefused if that pause no
        longer stands; CloudError."""
        _refuse_other_fields(request.document, _RESUME_FIELDS)
        try:
            began = parse_iso(str(request.document.get("since")))
        except ValueError:
            raise InputError(
                "since: the time that `governor resume --all` prints (`pause.since` of "
                "GET /api/freezes)"
            ) from None
        pause = self.pause_all.end(
            self._pause_requester(request), began, self.policy, policy_is_whole=self.policy_is_whole
        )
        return _pause_document(pause)

    def _pause_requester(self, request: ApiRequest) -> PauseRequester:
        """Return the caller as the use cases of the pause know people, with the permissions that
        the policy grants them now."""
        identity = f"aws:{request.caller}"
        now = self.decide.clock.now()
        who = SignIn(identity, by=identity, at=now, ends_at=now)
        person = self.ownership.person(identity) or identity
        return PauseRequester(identity, person, grants_of(self.policy, who))

    def _limits_now(self) -> dict[str, Any]:
        """Return the pause (`None` if there is none), the freezes, the caps, and the questions
        whose steps wait for one of these. Raises: CloudError."""
        open_views = self.show.open_in(self.targets)
        waiting = []
        for view in open_views:
            if view.approval.waits_told_at:
                waiting.append(brief(view))
        pause = self.limits.pause_store.pause()
        freezes = []
        for place_name, why, since in self.limits.freezes(self.targets):
            freezes.append({"what": place_name, "why": why, "since": _iso_or_none(since)})
        caps = []
        for cap_name, used, most in self.limits.caps():
            caps.append({"what": cap_name, "used": used, "most": most})
        return {
            "pause": None if pause is None else _pause_document(pause),
            "freezes": freezes,
            "caps": caps,
            "waiting": waiting,
        }

    def _decide(self, request: ApiRequest) -> Mapping[str, Any]:
        """Record the caller's answer to a question, or end its keep; return the question as it is
        after that. `needs_another` in it says that a second person must approve, too. Raises:
        NotFound; InputError for a document without a known answer, or with a field that cannot be;
        DecisionRefused, also NotAllowed; CloudError; PolicyError if today's policy is needed and
        cannot be read."""
        identity = f"aws:{request.caller}"
        person = self.ownership.person(identity)
        if request.document.get("answer") == END_KEEP:
            self._end_keep(request, identity, person)
            return {**question_document(self.show.record(request.named)), "needs_another": False}
        # For a caller whom the policy does not know, the ARN itself: AWS has proven it.
        author = person or identity
        decision = _decision(request.document, identity, author, self.decide.clock.now())
        decided = self.decide(
            request.named,
            decision,
            typed_instance_id=request.document.get("instance_id"),
            losses_accepted=request.document.get("losses_accepted") is True,
        )
        return {
            **question_document(self.show.record(request.named)),
            "needs_another": decided.needs_another,
        }

    def _end_keep(self, request: ApiRequest, identity: str, person: str | None) -> None:
        """End the keep that the answer to a question made. Raises: NotAllowed for a caller who is
        no known person, or may not; DecisionRefused if there is no keep to end, or another one
        stands by now; NotFound without the question; PolicyError if today's policy cannot be read;
        CloudError."""
        if person is None:
            raise NotAllowed(
                f"{people(identity)} is mapped to nobody, and ends no keep, not even its own: "
                f"map {identity} to a person in ownership.contacts (identities)"
            )
        self.decide.end_keep(self.show(request.named), identity, person, Role.APPROVER)


def _not_found_response(request: ApiRequest, error: NotFound) -> ApiResponse:
    """Return the answer (404) for a question or version that is missing, with the command that
    lists those that exist; 403, with what to do, if S3 denied the version."""
    if error.code == "AccessDenied":
        return ApiResponse(403, {"error": f"{_DENIED} S3 says: {printable(str(error))}"})
    kind = "question"
    advice = "`governor approvals list` prints the IDs of those that are open"
    if "/policy" in request.route:
        kind = "version of the policy"
        advice = "`governor policy history` prints the newest"
    name = printable(request.named[:64])
    return ApiResponse(404, {"error": f"there is no {kind} {name!r}: {advice}"})


def _refuse_other_fields(document: Mapping[str, Any], fields: frozenset[str]) -> None:
    """Require that a document has no fields but these. Raises: InputError, which names an unknown
    field and those that are known."""
    unknown = sorted(set(document) - fields)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(fields))}")


def _pause_document(pause: Pause) -> dict[str, Any]:
    """Return a pause as JSON: since when (ISO text), by whom, and why (`None` without a reason)."""
    return {"since": pause.at.isoformat(), "by": pause.by, "reason": pause.reason}


def question_document(view: ApprovalView) -> dict[str, Any]:
    """Return one question as JSON: its instance and plan, its rules, its answer and its outcome,
    each `None` as long as there is none."""
    episode = view.episode
    approval = view.approval
    after = None
    if view.after_stop is not None:
        after = after_stop_sentence(view.after_stop, episode.asking.time_zone, view.now)
    held = None
    if approval.hold is not None:
        held = approval.hold.words
    first_yes_by = None
    if approval.first_yes is not None:
        first_yes_by = approval.first_yes.by
    return {
        **brief(view),
        "status": approval.status.value,
        "can_decide": view.can_decide,
        "silence": view.silence if view.can_decide or view.acts_soon else None,
        "held": held,
        "cost": list(cost_lines(episode, view.now)),
        "plan": list(plan_lines(episode)),
        "needs_instance_id": episode.plan.destroys,
        "needs_losses_accepted": episode.plan.loses_local_disks,
        "presence": episode.asking.presence,
        "owner_note": episode.asking.owner_note,
        "restarts": restarts_text(episode) or None,
        "launched_by": launched_text(episode) or None,
        "people_needed": episode.terms.people_needed,
        "first_yes_by": first_yes_by,
        **_answer_fields(approval),
        "void_reason": approval.void_reason,
        **_outcome_fields(episode),
        "after_stop": after,
    }


def _answer_fields(approval: Approval) -> dict[str, str | None]:
    """Return who answered, when, how, and until when the instance is kept. The first three are
    `None` if nobody has answered; the last if no answer keeps it, or the keep was ended."""
    fields: dict[str, str | None] = dict.fromkeys(("decided_by", "decided_at", "decision"))
    decision = approval.decision
    if decision is not None:
        fields["decided_by"] = decision.by
        fields["decided_at"] = iso(decision.at)
        fields["decision"] = decision.answer.value
    fields["kept_until"] = None
    if approval.kept is not None and approval.keep_ended_at is None:
        fields["kept_until"] = _iso_or_none(approval.kept.keep_until)
    return fields


def _outcome_fields(episode: Episode) -> dict[str, str | None]:
    """Return the outcome and its reason; `None` in both fields while the episode is open."""
    ending = episode.ending
    if ending is None:
        return {"outcome": None, "outcome_reason": None}
    return {"outcome": ending.outcome.value, "outcome_reason": ending.reason}


def _iso_or_none(moment: UtcDatetime | None) -> str | None:
    """Return the moment as ISO text in UTC; `None` if there is none."""
    return iso(moment) if moment else None


def _decision(document: Mapping[str, Any], by: str, person: str, now: UtcDatetime) -> Decision:
    """Return the answer in a document, given by this identity (`by`) and person; nothing is
    recorded. The end of a keep is left out of any other answer; a keep may name none. Raises:
    InputError, whose text says what to send."""
    _refuse_other_fields(document, _FIELDS)
    try:
        answer = Answer(str(document.get("answer")))
    except ValueError:
        raise InputError(f"answer: one of {', '.join(Answer)}, {END_KEEP}") from None
    reason = _reason_in(document)
    if not isinstance(document.get("instance_id"), str | None):
        raise InputError(
            "instance_id: the ID of the instance as text, where the plan terminates it"
        )
    if not isinstance(document.get("losses_accepted", False), bool):
        raise InputError("losses_accepted: true where local disks may be lost, else false")
    keep_until = _keep_until_in(document)
    return Decision(
        answer=answer,
        by=by,
        channel="cli",
        at=now,
        keep_until=keep_until if answer is Answer.KEEP else None,
        reason=reason,
        person=person,
    )


def _reason_in(document: Mapping[str, Any]) -> str | None:
    """Return the document's reason without spaces at its ends; `None` if it has none, or an empty
    one. Raises: InputError for anything but a short text."""
    reason = document.get("reason")
    if reason is None:
        return None
    is_text = isinstance(reason, str) and len(reason) <= LONGEST_REASON and not has_controls(reason)
    if not is_text:
        raise InputError(
            f"reason: a text of at most {LONGEST_REASON} characters, without control characters"
        )
    return reason.strip() or None


def _keep_until_in(document: Mapping[str, Any]) -> UtcDatetime | None:
    """Return the document's end of a keep; `None` if it names none. Raises: InputError for anything
    but a time in UTC."""
    keep_until = document.get("keep_until")
    if keep_until is None:
        return None
    try:
        return parse_iso(keep_until)
    except (ValueError, TypeError, AttributeError):
        raise InputError("keep_until: a time in UTC like 2026-12-01T09:00:00Z") from None
