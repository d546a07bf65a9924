"""The page of the pause, the freezes, and how much of the caps is used, with the forms that end
them.

Its forms pause everything, end the pause, and let an admin end a freeze. Reasons and names are
shown only to callers who see everything that a pause or freeze covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from governor.approvals.model.terms import Rank
from governor.approvals.pause import LONGEST_REASON, PauseAll, PauseRequester
from governor.approvals.rules.pausing import admin_scopes, may_end_pause, may_pause
from governor.console.page import Caller, Cell, Page, Table, ViewRequest
from governor.console.views import addresses, figures
from governor.core.errors import ConflictError, DecisionRefused, InputError, NotAllowed, NotFound
from governor.core.instance import Target
from governor.core.units import listed, parse_iso, people
from governor.limits.freezes import used_caps
from governor.limits.model.breaker import BreakerState
from governor.limits.rules.breaker import is_lifted_by_policy
from governor.limits.store.breaker import Breakers
from governor.policy.model.contacts import ConsoleScope

_COLUMNS = ("where", "since", "why", "is_ended", "ended_by", "may_end")
_EVERYTHING = "everything"
_ADMINS_LISTED = 3
PATH = "/freezes"


def freezes(request: ViewRequest) -> Page:
    """Return the page of the pause, the freezes and the caps, as far as the caller may see them.
    Raises: CloudError."""
    standing = _standing_freezes(request)
    freeze_rows = [_freeze_row(request, target, freeze) for target, freeze in standing]
    freeze_table = Table("freezes", _COLUMNS, tuple(freeze_rows))
    cap_table = Table("caps", ("what", "used", "most"), tuple(_caps(request)))
    pause = pause_values(request)
    freeze_documents = freeze_table.documents
    shown_freezes = []
    for document, (target, _) in zip(freeze_documents, standing, strict=True):
        shown_freezes.append({**document, "who_may_end": _who_may_end_freeze(request, target)})
    named_caps = [{**cap, "what": _words(str(cap["what"]))} for cap in cap_table.documents]
    return Page(
        title="Freezes",
        template="freezes.html",
        values={
            "freezes": shown_freezes,
            "caps": named_caps,
            "two_people": request.reader.policy.two_people_for_policy,
            "waiting": _waiting(request) if pause["may_end"] else [],
            "who_may_end": _who_may_end_pause(request),
            **pause,
        },
        document={
            "pause": _pause_document(request),
            "freezes": freeze_documents,
            "caps": cap_table.documents,
        },
        tables=(freeze_table, cap_table),
    )


def _freeze_row(
    request: ViewRequest, target: Target | None, freeze: BreakerState
) -> tuple[Cell, ...]:
    """Return the cells of one freeze, in the order of `_COLUMNS`; its reason and names are `None`
    unless the caller sees all that it covers, and its names also if nobody has ended it. `target`
    is `None` for the freeze of everything. Raises: CloudError."""
    ended_by = request.reader.breaker_store.freeze_end_requested_by(target, freeze)
    shown_reason = None
    shown_names = None
    if _sees_all(request, target):
        shown_reason = freeze.why
        shown_names = people(ended_by) if ended_by else None
    return (
        _place_name(target),
        freeze.tripped_at,
        shown_reason,
        bool(ended_by),
        shown_names,
        _may_end(request, target),
    )


def _who_may_end_pause(request: ViewRequest) -> str:
    """Return a sentence about who may end the pause by the policy. Only callers who see everything
    get the names of groups and roles."""
    policy = request.reader.policy
    admins = admin_scopes(policy)
    if admins:
        return _admins_can("everything", admins, is_named=request.scope.everything)
    if any(contact.emails for contact in policy.ownership.contacts.values()):
        return (
            "The policy names no admin of everything (console.scopes), so any person in "
            "ownership.contacts can end it here."
        )
    return (
        "The policy names no admin of everything (console.scopes) and no person in "
        "ownership.contacts, so nobody can end it here. Add one of them to the policy."
    )


def _who_may_end_freeze(request: ViewRequest, target: Target | None) -> str:
    """Return a sentence about who may end the freeze of this target (`None` for everything) by the
    policy. Only callers who see all that it covers get the names of groups and roles."""
    whole = "this account"
    account = None
    if target is None:
        whole = "everything"
    else:
        account = target.account
    admins = admin_scopes(request.reader.policy, account)
    if admins:
        return _admins_can(whole, admins, is_named=_sees_all(request, target))
    return (
        f"The policy names no admin of {whole} (console.scopes), so nobody can end it here. Add "
        "one, or end it in the policy: set breaker.lift_freezes_before to the current time."
    )


def _admins_can(whole: str, admins: Sequence[ConsoleScope], *, is_named: bool) -> str:
    """Return the sentence that an admin of the `whole` can end it, with the groups and IAM callers
    of these scopes if `is_named`."""
    text = f"An admin of {whole} can end it here"
    if not is_named:
        return f"{text}."
    names: set[str] = set()
    for scope in admins:
        names.update(f"group {name}" for name in scope.groups)
        names.update(scope.identities)
    return f"{text}: {listed(sorted(names), _ADMINS_LISTED)}."


def _sees_all(request: ViewRequest, target: Target | None) -> bool:
    """Return whether the caller sees everything that a freeze covers: a whole target, or everything
    (`None`)."""
    if target is None:
        return request.scope.everything
    return figures.is_whole(target, request.scope)


def _place_name(target: Target | None) -> str:
    """Return the name of what a freeze covers: a target as `111122223333/eu-central-1`, or
    `everything` for `None`."""
    return str(target or _EVERYTHING)


def _caps(request: ViewRequest) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each cap, the actions that it counted in the last 60 minutes, and how many
    it allows. Callers who see whole accounts get the caps of these; only those who see everything
    get the rest. Raises: CloudError."""
    # A name is `ACCOUNT#111122223333`, for example.
    for what, used, most in used_caps(
        request.reader.cap_store, request.reader.policy.caps, request.now
    ):
        kind, _, name = what.partition("#")
        is_of_own_account = kind == "ACCOUNT" and name in request.scope.accounts
        if request.scope.everything or is_of_own_account:
            yield what, used, most


def _words(cap: str) -> str:
    """Return the name of a cap for people: `account 111122223333` for `ACCOUNT#111122223333`, and
    `all accounts` for a name without `#`."""
    kind, _, name = cap.partition("#")
    if not name:
        return "all accounts"
    return f"{kind.lower()} {name}"


def pause_values(request: ViewRequest) -> dict[str, Any]:
    """Return the template's values about the pause, and which of its buttons the caller may press.
    Only callers who see everything get its reason and who paused. Raises: CloudError."""
    caller = request.caller
    policy = request.reader.policy
    is_whole = request.reader.policy_is_whole
    pause = request.reader.pause_store.pause()
    may_end = may_end_pause(caller.grants, caller.person, policy, policy_is_whole=is_whole)
    paused_by = None
    shown_reason = None
    if pause is not None and request.scope.everything:
        paused_by = people(pause.by)
        shown_reason = pause.reason
    return {
        "pause": pause,
        "paused_by": paused_by,
        "pause_reason": shown_reason,
        "may_pause": pause is None and may_pause(caller.grants, caller.person, policy),
        "may_end": pause is not None and may_end,
        "policy_is_refused": not is_whole,
        "longest_reason": LONGEST_REASON,
    }


def _pause_document(request: ViewRequest) -> dict[str, object] | None:
    """Return the pause as JSON, for callers who do not see everything only its time; `None` if
    nothing is paused. Raises: CloudError."""
    pause = request.reader.pause_store.pause()
    if pause is None:
        return None
    if not request.scope.everything:
        return {"since": pause.at}
    return {"since": pause.at, "by": pause.by, "reason": pause.reason}


def _waiting(request: ViewRequest) -> list[str]:
    """Return the names of the caller's instances whose plan acts unless somebody holds it, and can
    still be held: it goes on when the pause ends. They are sorted; empty if there are none. Raises:
    CloudError."""
    episode_by_approval: dict[str, str] = {}
    for row, _ in request.governed:
        if row.approval_id and row.episode:
            episode_by_approval[str(row.approval_id)] = str(row.episode)
    views = request.reader.show.several(episode_by_approval)
    return sorted(view.episode.instance.name for view in views if view.can_hold)


@dataclass(frozen=True, slots=True)
class FreezeForms:
    """Carries out the forms of the page: begin a pause, end it, end a freeze."""

    breaker_store: Breakers
    pause_all: PauseAll

    def take(self, request: ViewRequest) -> str:
        """Do what the pressed button says: pause everything, end the pause, or end a freeze. Return
        the path of the page. Raises: InputError for a form without a button of the page; NotFound
        if nothing is frozen in its place; NotAllowed, of which SignInTooOld is a kind;
        DecisionRefused if something else stands by now than the page showed; CloudError."""
        match request.query.get("answer"):
            case "pause":
                return self._begin_pause(request)
            case "end-pause":
                return self._end_pause(request)
        return end_freeze(self.breaker_store, request)

    def _begin_pause(self, request: ViewRequest) -> str:
        """Pause everything, with the reason in the form if there is one; return the path of the
        page. Nothing changes if everything is paused already. Raises: NotAllowed; InputError for a
        reason that is too long or has control characters; DecisionRefused if others kept pausing
        and ending their pauses; CloudError."""
        self.pause_all.begin(
            _pause_requester(request.caller), request.query.get("reason"), request.reader.policy
        )
        return PATH

    def _end_pause(self, request: ViewRequest) -> str:
        """End the pause that the page showed; return the path of the page. Raises: InputError if
        the box is not ticked, or the form names no pause; NotAllowed; SignInTooOld; DecisionRefused
        if that pause no longer stands; CloudError."""
        request.caller.require_fresh_sign_in(request.now)
        if request.query.get("confirmed") != "yes":
            raise InputError("check the box that says which steps continue when the pause ends")
        try:
            since = parse_iso(request.query.get("since", ""))
        except ValueError:
            raise InputError("choose the button of the page") from None
        reader = request.reader
        self.pause_all.end(
            _pause_requester(request.caller),
            since,
            reader.policy,
            policy_is_whole=reader.policy_is_whole,
        )
        return PATH


def _pause_requester(caller: Caller) -> PauseRequester:
    """Return the caller as the use cases of the pause know who presses its button."""
    return PauseRequester(caller.by, caller.person, caller.grants)


def end_freeze(breaker_store: Breakers, request: ViewRequest) -> str:
    """Record that the freeze which the page showed is ended, which the next sweep carries out;
    return the path of the page. Raises: NotFound if nothing is frozen in the place of the form;
    NotAllowed if the caller is no admin of it, or the policy asks for two people; SignInTooOld;
    InputError for another button; DecisionRefused if it is another freeze by now, or somebody has
    ended it; CloudError."""
    place_name = addresses.text_of(request, "where")
    shown_since = addresses.text_of(request, "since")
    target, freeze = _freeze_at(request, place_name)
    if not _may_end(request, target):
        raise NotAllowed(
            "only an admin of all that it holds back may end a freeze (console.scopes)"
        )
    if request.reader.policy.two_people_for_policy:
        raise NotAllowed(
            "the policy asks for two people (two_people_for_policy): end the freeze there"
        )
    request.caller.require_fresh_sign_in(request.now)
    if request.query.get("answer") != "end-freeze":
        raise InputError("choose the button of the page")
    try:
        if shown_since != freeze.tripped_at.isoformat():
            raise ConflictError("this is not the freeze that the page showed")
        breaker_store.request_freeze_end(target, freeze, request.caller.by, request.now)
    except ConflictError:
        raise DecisionRefused(
            "somebody has ended this freeze, or a new one has begun, since this page was "
            "opened: open it again"
        ) from None
    return PATH


def _freeze_at(request: ViewRequest, place_name: str) -> tuple[Target | None, BreakerState]:
    """Return the freeze of the place that a form names, `everything` or a target such as
    `111122223333/eu-central-1`, and before it that target (`None` for everything). Raises: NotFound
    if nothing is frozen there that the caller may see; CloudError."""
    for target, freeze in _standing_freezes(request):
        if _place_name(target) == place_name:
            return target, freeze
    raise NotFound(f"nothing is frozen in {place_name}")


def _standing_freezes(request: ViewRequest) -> list[tuple[Target | None, BreakerState]]:
    """Return the freezes that the policy has not lifted, each with its target: that of everything
    (`None`) first, then those of the targets that the caller sees; empty if there are none. Raises:
    CloudError."""
    breaker_store = request.reader.breaker_store
    rule = request.reader.policy.breaker
    targets = [target for target, _ in figures.targets_in(request)]
    freezes_by_place = [
        (None, breaker_store.hub().freeze),
        *breaker_store.breakers(targets).items(),
    ]
    standing: list[tuple[Target | None, BreakerState]] = []
    for target, freeze in freezes_by_place:
        if freeze is not None and not is_lifted_by_policy(freeze, rule, request.now):
            standing.append((target, freeze))
    return standing


def _may_end(request: ViewRequest, target: Target | None) -> bool:
    """Return whether the caller may end the freeze of this target (`None` for everything): they are
    an admin of everything, or of the target's whole account."""
    for grant in request.caller.grants:
        if grant.rank is not Rank.ADMIN:
            continue
        is_admin_of_account = target is not None and target.account in grant.scope.accounts
        if grant.scope.everything or is_admin_of_account:
            return True
    return False
