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
    """Return a function that calls `policies` to read the policy, and returns the use case that
    `make` makes under it. Call that function once for each invocation; it raises what `policies`
    raises.

    One use case is made now, at cold start, under the default policy, so that a missing setting
    shows. Raises: ConfigurationError if one is missing.
    """
    make(parse_policy(""))
    return lambda: make(policies())


def by_target(
    accounts: Accounts,
    policies: Ready[PolicyBook],
    make: Callable[[PolicyBook], Callable[[Target], Summary]],
) -> Callable[[str, str], Summary]:
    """Return a function that takes an account and a Region, makes the use case under the policy
    that `policies` reads then, runs it for the target of that place, and returns its summary.

    It raises SafetyError if the place is no target of the policy, and the errors of `policies` and
    of the use case. `make` makes the use case; it is called once now, at cold start. Raises:
    ConfigurationError if a setting is missing.
    """

    def make_with_policy(book: PolicyBook) -> tuple[Callable[[Target], Summary], Policy]:
        """Return the use case under this policy, and the policy."""
        return make(book), book.base().policy

    use_case_and_policy = ready(policies, make_with_policy)

    def run(account: str, region: str) -> Summary:
        """Run the use case for one target, and return its summary. Raises: SafetyError if the
        policy does not govern the place; PolicyError; CloudError."""
        use_case, policy = use_case_and_policy()
        accounts.require_governed(policy, account, region)
        return use_case(accounts.target(account, region))

    return run


def present(
    parts: Parts, parse: Callable[[str], PolicyBook] = parse_policy, *, must: bool = True
) -> Ready[PolicyBook]:
    """Return a function that reads the document in force by `parse`, with the acceptances and the
    accounts that belong to it.

    It raises PolicyError if `parse` refuses the document; CloudError if something cannot be read;
    Unavailable if the accounts of its organizational units are not known yet. Without `must` it has
    no accounts of units then, and does not raise.
    """
    text = parts.policy_text
    parts.clients.client("s3")

    def read_policy() -> PolicyBook:
        """Return the policy in force now. Raises: PolicyError; CloudError."""
        book = _with_acceptances(parts, parse(text.read()))
        return _with_accounts(parts, book, must=must)

    return read_policy


def asking(parts: Parts) -> Ready[PolicyBook]:
    """Return a function that reads the document in force as that of `present` does, and the
    projects over budget if the policy asks about these: for use cases that ask about instances and
    act on the answer. It raises PolicyError, CloudError."""
    policies = present(parts)
    policy_store = parts.policy_store
    clock = parts.clock

    def read_policy() -> PolicyBook:
        """Return the policy in force now; with the projects over budget, as stored for this month,
        if it asks about those. Raises: PolicyError; CloudError."""
        book = policies()
        if book.base().policy.budget.act != "ask":
            return book
        projects = policy_store.over_budget(month_of(clock.now()))
        return book.ask_over_budget(projects)

    return read_policy


def or_defaults(parts: Parts) -> Ready[PolicyBook]:
    """Return a function that reads the document in force or, if that is refused, its people with
    defaults for the rest: for use cases that must end whatever it says, which free locks and notify
    people. It raises CloudError."""
    return present(parts, accepted, must=False)


def or_last(parts: Parts, *, keep: bool = False) -> Ready[PolicyBook]:
    """Return a function that reads the document in force or, if that is refused or cannot be read,
    the last accepted one: for messages that must reach people. If the document is refused and none
    was ever accepted, defaults count. It raises CloudError if the document cannot be read and none
    was ever accepted.

    With `keep` it also stores an accepted document for that; only one Lambda function may.
    """
    text = parts.policy_text
    policy_store = parts.policy_store
    clock = parts.clock
    parts.clients.client("s3", long_timeout=False)

    def read_policy() -> PolicyBook:
        """Return the policy in force now; the last accepted one if that is refused, not found or
        not answered in time, or defaults if it is refused and none was accepted. With `keep`, store
        a document that was accepted. Raises: CloudError."""
        try:
            document = text.read(long_timeout=False)
            book = parse_policy(document)
        except (PolicyError, NotFound, Throttled, Unavailable) as error:
            kept = policy_store.kept_policy()
            if kept is None and not isinstance(error, PolicyError):
                raise
            _log.error("%s; the last accepted document is used", error)
            # An earlier release may have accepted a document that this one refuses.
            return _with_accounts(parts, _with_readable_acceptances(parts, accepted(kept or "")))
        if keep and document != policy_store.kept_policy():
            policy_store.keep_policy(document, clock.now())
        return _with_accounts(parts, _with_readable_acceptances(parts, book))

    return read_policy


def _with_acceptances(parts: Parts, book: PolicyBook) -> PolicyBook:
    """Return the policy with the acceptances of the version in force; the same policy if it needs
    none, or no version is stored: an override that needs them then counts as `ask`. Raises:
    CloudError."""
    if not book.needs_consent:
        return book
    standing = parts.policy_store.standing_version()
    return book if standing is None else book.apply_acceptances(standing.acceptances)


def _with_readable_acceptances(parts: Parts, book: PolicyBook) -> PolicyBook:
    """Return the policy with the acceptances of the version in force, or without any if the table
    does not answer: for messages that must reach people. Raises: CloudError for other errors."""
    try:
        return _with_acceptances(parts, book)
    except (Throttled, Unavailable) as error:
        _log.error("%s; overrides that people must accept count as ask", error)
        return book


def _with_accounts(parts: Parts, book: PolicyBook, *, must: bool = True) -> PolicyBook:
    """Return the policy with the accounts of its organizational units, as plan_sweep has recorded
    them; with none if they are not recorded, and the same policy if it names no units.

    Raises: Unavailable if it `must` have them and they are not recorded yet; CloudError.
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
    """Return the policy of a document, which counts as one that an earlier release has accepted. If
    it is refused all the same, log that, and return its people with defaults for everything else.
    It raises nothing."""
    try:
        return parse_policy(document, accepted=True)
    except PolicyError as error:
        _log.error("%s; its people and else defaults are used", error)
        return parse_people_alone(document)
