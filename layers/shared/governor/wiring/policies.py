"""The policy of one invocation, read at its beginning: changes count at once, no invocation sees two."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic

from governor.contracts.policy import PolicyBook, parse_policy
from governor.errors import PolicyError, Throttled, Unavailable
from governor.usecases.accounts import Accounts, swept
from governor.wiring.basics import Ready, UseCase
from governor.wiring.parts import Parts

_log = logging.getLogger(__name__)
Places = tuple[tuple[str, str], ...]
"""Accounts and Regions."""


def ready(policies: Ready[PolicyBook], make: Callable[[PolicyBook], UseCase]) -> Ready[UseCase]:
    """Return what makes the use case for each invocation.

    One is made now, by the default policy: a missing setting ends the cold start, and clients are opened.
    """
    make(parse_policy(""))
    return lambda: make(policies())


def make_ready() -> None:
    """Build the parser at cold start, for functions whose every invocation reads a policy in its midst."""
    parse_policy("")


def use_case(
    parts: Parts, kind: Callable[..., UseCase], policies: Callable[[Parts], Ready[PolicyBook]] | None = None
) -> Ready[UseCase]:
    """Return the use case made of these parts, by the present policy unless told otherwise."""
    return ready((policies or present)(parts), partial(parts.fill, kind))


@dataclass(frozen=True, slots=True)
class ByTarget(Generic[UseCase]):
    """A use case, and what makes the targets it takes."""

    accounts: Accounts
    ready: Ready[UseCase]


def by_target(parts: Parts, kind: Callable[..., UseCase]) -> ByTarget[UseCase]:
    """Return the use case of one target, made of these parts."""
    return ByTarget(parts.accounts, use_case(parts, kind))


def swept_accounts(parts: Parts) -> Ready[Places]:
    """For `plan_sweep`: account and Region of every target of the policy."""
    hub = parts.hub

    def places(policies: PolicyBook) -> Places:
        for problem in policies.retired():
            _log.warning("the policy: %s", problem)
        return swept(policies.base().policy, hub.account, hub.region)

    return ready(present(parts), places)


def present(parts: Parts) -> Ready[PolicyBook]:
    """The document as it stands. Raises: PolicyError, CloudError."""
    text = parts.policy_text
    parts.clients.client("ssm")
    return lambda: parse_policy(text.read())


def or_defaults(parts: Parts) -> Ready[PolicyBook]:
    """For what must come to an end whatever the document says: locks are freed, people are notified."""
    read = present(parts)

    def found() -> PolicyBook:
        try:
            return read()
        except PolicyError as error:
            _log.error("%s; its defaults are used", error)
            return parse_policy("")

    return found


def or_last(parts: Parts, *, keep: bool = False) -> Ready[PolicyBook]:
    """For what must reach people: the last accepted document where the present one is refused, or Systems
    Manager does not answer.

    With `keep` an accepted document is stored for that; only the function that may write it does.
    """
    text, state, clock = parts.policy_text, parts.state, parts.clock
    parts.clients.client("ssm", patient=False)

    def found() -> PolicyBook:
        try:
            document = text.read(patient=False)
        except (Throttled, Unavailable) as error:
            kept = state.kept_policy()
            if kept is None:
                raise
            _log.error("%s; the last accepted document is used", error)
            return parse_policy(kept)
        try:
            book = parse_policy(document)
        except PolicyError as error:
            _log.error("%s; the last accepted document is used", error)
            return last_accepted()
        if keep and document != state.kept_policy():
            state.keep_policy(document, clock.now())
        return book

    def last_accepted() -> PolicyBook:
        # Perhaps of an earlier release, which accepted what this one refuses; then the defaults.
        try:
            return parse_policy(state.kept_policy() or "")
        except PolicyError as error:
            _log.error("the last accepted document: %s; its defaults are used", error)
            return parse_policy("")

    return found
