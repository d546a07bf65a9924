"""Finds rules of a policy that would act without people's approval, or with that of too few.

A new document with such a rule is refused; one that an earlier release accepted is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from governor.core.settings import Mistake
from governor.policy.model.judging import LEAST_WINDOW_MINUTES
from governor.policy.model.policy import Mode, Override, Policy


def reckless_rules(
    policy: Policy, chosen: Sequence[Override], known: frozenset[str] | None
) -> list[Mistake]:
    """Return the rules of a policy, under the `chosen` overrides, that would act without people or
    with too few, and an idle window that is too short. Each has its path and reason.

    They are checked in this order: the window, the numbers of people who must approve; and in mode
    `auto`, unproven metrics and terminations that nobody vouches for. `known` are the addresses of
    the people who may vouch for an override. Return an empty list if there are no such rules, or
    `known` is `None`: an earlier release accepted the document then.
    """
    if known is None:
        return []
    mistakes = [*_window_too_short(policy), *_too_few_people(policy, chosen)]
    if policy.mode is not Mode.AUTO:
        return mistakes
    if not policy.metrics.publishers_are_trusted:
        reason = (
            "auto is refused while metrics.publishers_are_trusted is false: anybody who "
            "may publish metrics "
            "could have any instance stopped. Restrict who may (docs/trust.md) and set "
            "it, or set mode: ask"
        )
        mistakes.append((("mode",), reason))
    mistakes += _terminations_without_people(policy, chosen, known)
    return mistakes


def _window_too_short(policy: Policy) -> Iterator[Mistake]:
    """Yield a mistake if the idle window is so short that nothing would ever be idle; otherwise
    nothing."""
    window_minutes = policy.idle.window_minutes
    if window_minutes < LEAST_WINDOW_MINUTES:
        reason = (
            f"is {window_minutes}; it must be at least {LEAST_WINDOW_MINUTES}, or nothing "
            "would ever be idle"
        )
        yield ("idle", "window_minutes"), reason


def _too_few_people(policy: Policy, chosen: Sequence[Override]) -> Iterator[Mistake]:
    """Yield a mistake for each number of people that must approve, if it is lower than usual (one
    to stop, two to terminate) and no override for a tag sets it."""
    for name, usual in (("people_to_stop", 1), ("people_to_terminate", 2)):
        number = getattr(policy.approval, name)
        is_set_by_tag = any(_sets_people(override, name) for override in chosen)
        if number < usual and not is_set_by_tag:
            reason = f"is {number}; only an override that matches a tag may set less than {usual}"
            yield ("approval", name), reason


def _sets_people(override: Override, name: str) -> bool:
    """Return whether the override is for instances with a tag, and sets the number of people that
    `name` stands for, such as `people_to_stop`."""
    return bool(override.match.tags) and name in override.set.get("approval", {})


def _terminations_without_people(
    policy: Policy, chosen: Sequence[Override], known: frozenset[str]
) -> Iterator[Mistake]:
    """Yield a mistake for each setting of the plan that terminates, and for which no override names
    two `known` people. Call it only for a policy in mode `auto`."""
    for name in ("action", "when_stop_is_unsupported"):
        if getattr(policy.plan, name) != "terminate":
            continue
        if any(_vouches(override, name, known) for override in chosen):
            continue
        reason = (
            "mode: auto does not terminate, unless an override matches a tag, sets "
            "mode: auto and this, "
            "and names two people of ownership.contacts by address (approved_by), "
            "who then accept it; a "
            "team of one sets mode: ask, or action: stop"
        )
        yield ("plan", name), reason


def _vouches(override: Override, name: str, known: frozenset[str]) -> bool:
    """Return whether the override stands for a termination that nobody is asked about: it matches a
    tag, sets `mode: auto` and this setting of the plan (`name`), and names two `known` people."""
    plan = override.set.get("plan", {})
    terminates_unasked = override.set.get("mode") == Mode.AUTO and plan.get(name) == "terminate"
    has_two_people = len({address.lower() for address in override.approved_by} & known) > 1
    return bool(override.match.tags) and terminates_unasked and has_two_people
