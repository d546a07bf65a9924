"""The policy of one invocation, read at its beginning.

A change counts from the next invocation on, and no invocation sees two policies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from governor.core.errors import NotFound, PolicyError, Throttled, Unavailable
from governor.core.instance import Target
from governor.money.rules.cost import month_of
from governor.policy.accounts import Accounts
from governor.policy.document import PolicyBook, parse_people_alone, parse_policy
from governor.policy.model.policy import Policy
from governor.wiring.basics import Ready, UseCase
from governor.wiring.parts import Parts

_log = logging.getLogger(__name__)

Summary = TypeVar("Summary")


def ready(policies: Ready[PolicyBook], make: Callable[[PolicyBook], UseCase]) -> Ready[UseCase]:
    """Return a function that makes the use case of each invocation.

    One use case is made at once, so that a missing setting shows at cold start.
    """
    make(parse_policy(""))
    return lambda: make(policies())


def by_target(
    accounts: Accounts,
    policies: Ready[PolicyBook],
    make: Callable[[PolicyBook], Callable[[Target], Summary]],
) -> Callable[[str, str], Summary]:
    """Return a function that runs a use case for an account and Region, under the policy of the
    moment. It raises SafetyError for places that are no target."""

    def make_with_policy(book: PolicyBook) -> tuple[Callable[[Target], Summary], Policy]:
        return make(book), book.base().policy

    use_case_and_policy = ready(policies, make_with_policy)

    def run(account: str, region: str) -> Summary:
        use_case, policy = use_case_and_policy()
        accounts.require_governed(policy, account, region)
        return use_case(accounts.target(account, region))

    return run


def present(
    parts: Parts, parse: Callable[[str], PolicyBook] = parse_policy, *, must: bool = True
) -> Ready[PolicyBook]:
    """Return a function that reads the document in force.

    It raises PolicyError and CloudError; also where the accounts of organizational units `must` be
    known and are not.
    """
    text = parts.policy_text
    parts.clients.client("s3")

    def read_policy() -> PolicyBook:
        book = _with_acceptances(parts, parse(text.read()))
        return _with_accounts(parts, book, must)

    return read_policy


def asking(parts: Parts) -> Ready[PolicyBook]:
    """As `present`, with the projects over budget: for use cases that ask about instances and act
    on the answer."""
    policies = present(parts)
    policy_store = parts.policy_store
    clock = parts.clock

    def read_policy() -> PolicyBook:
        book = policies()
        if book.base().policy.budget.act != "ask":
            return book
        projects = policy_store.over_budget(month_of(clock.now()))
        return book.ask_over_budget(projects)

    return read_policy


def or_defaults(parts: Parts) -> Ready[PolicyBook]:
    """As `present`, with defaults where the document is refused: for use cases that must end
    whatever it says, which free locks and notify people."""
    return present(parts, accepted, must=False)


def or_last(parts: Parts, *, keep: bool = False) -> Ready[PolicyBook]:
    """Return a function that reads the document in force or, if that is refused or cannot be read,
    the last accepted one: for messages that must reach people.

    With `keep` an accepted document is stored for that; only one function may.
    """
    text = parts.policy_text
    policy_store = parts.policy_store
    clock = parts.clock
    parts.clients.client("s3", patient=False)

    def read_policy() -> PolicyBook:
        try:
            document = text.read(patient=False)
            book = parse_policy(document)
        except (PolicyError, NotFound, Throttled, Unavailable) as error:
            kept = policy_store.kept_policy()
            if kept is None and not isinstance(error, PolicyError):
                raise
            _log.error("%s; the last accepted document is used", error)
            # An earlier release may have accepted a document that this one refuses.
            return _with_accounts(parts, _if_readable(parts, accepted(kept or "")))
        if keep and document != policy_store.kept_policy():
            policy_store.keep_policy(document, clock.now())
        return _with_accounts(parts, _if_readable(parts, book))

    return read_policy


def _with_acceptances(parts: Parts, book: PolicyBook) -> PolicyBook:
    """Return the book with the acceptances of the version in force. Without them, an override that
    needs them counts as `ask`; only documents with such an override cost a read."""
    if not book.needs_consent:
        return book
    standing = parts.policy_store.standing_version()
    return book if standing is None else book.apply_acceptances(standing.acceptances)


def _if_readable(parts: Parts, book: PolicyBook) -> PolicyBook:
    """As `_with_acceptances`, but without any while the table does not answer: for messages that
    must reach people."""
    try:
        return _with_acceptances(parts, book)
    except (Throttled, Unavailable) as error:
        _log.error("%s; overrides that people must accept count as ask", error)
        return book


def _with_accounts(parts: Parts, book: PolicyBook, must: bool = True) -> PolicyBook:
    """Return the book with the accounts of its organizational units, as plan_sweep has read them.

    Raises: Unavailable where it `must` have them and plan_sweep has not read these units yet.
    """
    targets = book.base().policy.targets
    if not targets.units:
        return book
    accounts = parts.policy_store.accounts_of(targets)
    if accounts is None and must:
        raise Unavailable(
            "the accounts of targets.units are not known yet; the next sweep looks them up"
        )
    return book.add_accounts(accounts or ())


def accepted(document: str) -> PolicyBook:
    """Return the policy of a document. If it is refused, return its people, and defaults of
    everything else."""
    try:
        return parse_policy(document, accepted=True)
    except PolicyError as error:
        _log.error("%s; its people and else defaults are used", error)
        return parse_people_alone(document)
