"""The policy of one invocation, read at its beginning: changes count at once, no invocation sees
two."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from governor.contracts.policy import PolicyBook, parse_policy, people_of
from governor.domain.instance import Target
from governor.domain.money.cost import month_of
from governor.errors import NotFound, PolicyError, Throttled, Unavailable
from governor.wiring.basics import Ready, UseCase
from governor.wiring.parts import Parts

_log = logging.getLogger(__name__)


def ready(policies: Ready[PolicyBook], make: Callable[[PolicyBook], UseCase]) -> Ready[UseCase]:
    """Return what makes the use case for each invocation. One is made now, to miss no setting."""
    make(parse_policy(""))
    return lambda: make(policies())


def use_case(
    parts: Parts,
    kind: Callable[..., UseCase],
    policies: Callable[[Parts], Ready[PolicyBook]] | None = None,
) -> Ready[UseCase]:
    """Return the use case made of these parts, by the present policy unless told otherwise."""
    return ready((policies or present)(parts), partial(parts.fill, kind))


def by_target(
    parts: Parts,
    kind: Callable[..., Callable[[Target], UseCase]],
    policies: Callable[[Parts], Ready[PolicyBook]] | None = None,
) -> Callable[[str, str], UseCase]:
    """Return what makes the use case of an account and Region, and raises SafetyError for no
    target."""
    accounts = parts.accounts
    made = ready(
        (policies or present)(parts), lambda book: (parts.fill(kind, book), book.base().policy)
    )

    def of_target(account: str, region: str) -> UseCase:
        use_case, policy = made()
        accounts.must_govern(policy, account, region)
        return use_case(accounts.target(account, region))

    return of_target


def present(
    parts: Parts, parse: Callable[[str], PolicyBook] = parse_policy, *, must: bool = True
) -> Ready[PolicyBook]:
    """The document as it stands. Raises: PolicyError, CloudError."""
    text = parts.policy_text
    parts.clients.client("s3")
    return lambda: _with_accounts(parts, _with_acceptances(parts, parse(text.read())), must)


def asking(parts: Parts) -> Ready[PolicyBook]:
    """As `present`, for what asks about instances and acts on the answer: with the projects over
    budget."""
    policies, state, clock = present(parts), parts.state, parts.clock

    def found() -> PolicyBook:
        book = policies()
        asks = book.base().policy.budget.act == "ask"
        return book.over_budget(state.over_budget(month_of(clock.now()))) if asks else book

    return found


def or_defaults(parts: Parts) -> Ready[PolicyBook]:
    """For what must come to an end whatever the document says: locks are freed, people are
    notified."""
    return present(parts, accepted, must=False)


def or_last(parts: Parts, *, keep: bool = False) -> Ready[PolicyBook]:
    """Return the last accepted document where the present one is refused, or cannot be read: for
    what must reach people. With `keep`, for the one function that may, an accepted document is
    stored for that."""
    text, state, clock = parts.policy_text, parts.state, parts.clock
    parts.clients.client("s3", patient=False)

    def found() -> PolicyBook:
        try:
            document = text.read(patient=False)
            book = parse_policy(document)
        except (PolicyError, NotFound, Throttled, Unavailable) as error:
            kept = state.kept_policy()
            if kept is None and not isinstance(error, PolicyError):
                raise
            _log.error("%s; the last accepted document is used", error)
            # Perhaps of an earlier release, which accepted what this one refuses.
            return _with_accounts(parts, _if_readable(parts, accepted(kept or "")))
        if keep and document != state.kept_policy():
            state.keep_policy(document, clock.now())
        return _with_accounts(parts, _if_readable(parts, book))

    return found


def _with_acceptances(parts: Parts, book: PolicyBook) -> PolicyBook:
    """Return the book with the acceptances of the version in force. Without them, an override that
    needs them counts as `ask`; only documents with such an override cost a read."""
    if not book.needs_consent:
        return book
    standing = parts.state.standing_version()
    return book if standing is None else book.accepted_by(standing.acceptances)


def _if_readable(parts: Parts, book: PolicyBook) -> PolicyBook:
    """As `_with_acceptances`; without any while the table does not answer, for what must reach
    people."""
    try:
        return _with_acceptances(parts, book)
    except (Throttled, Unavailable) as error:
        _log.error("%s; overrides that people must accept count as ask", error)
        return book


def _with_accounts(parts: Parts, book: PolicyBook, must: bool = True) -> PolicyBook:
    """Return the book with the accounts of its units, as plan_sweep has found them. Raises:
    Unavailable, where it `must` and plan_sweep has not looked at these units yet."""
    targets = book.base().policy.targets
    if not targets.units:
        return book
    accounts = parts.state.accounts_of(targets)
    if accounts is None and must:
        raise Unavailable(
            "the accounts of targets.units are not known yet; the next sweep looks them up"
        )
    return book.in_accounts(accounts or ())


def accepted(document: str) -> PolicyBook:
    """The policy of a document; where it is refused its people, and defaults of everything else."""
    try:
        return parse_policy(document, accepted=True)
    except PolicyError as error:
        _log.error("%s; its people and else defaults are used", error)
        return people_of(document)
