"""Say which acceptances of a policy are missing, and where too few people can accept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cli.output import Output
from governor.core.units import plural, printable
from governor.policy.document import PolicyBook
from governor.policy.messages import consent_line
from governor.policy.rules.changes import PEOPLE_NEEDED
from governor.policy.rules.consent import Acceptances, Unaccepted, known_people, may_terminate


def acceptances_of(answer: dict[str, object]) -> Acceptances:
    """Return the acceptances that count, from the API's answer about the policy.

    There are none before a first version, and none from a stack of the release before.
    """
    accepted = answer.get("accepted")
    if not isinstance(accepted, dict):
        return Acceptances()
    return Acceptances(str(accepted["terms"]), frozenset(accepted["people"]))


def say_unaccepted(path: Path, book: PolicyBook, out: Output) -> None:
    """Say which overrides count as `ask`, whose acceptance is missing, and who cannot accept."""
    able_people = known_people(book.base().policy.ownership).everybody
    waiting = book.unaccepted()
    for override in waiting:
        fact = {"override": override.name, "missing": list(override.missing)}
        out.list(f"{path}: {printable(consent_line(override))}", "unaccepted", fact)
        for person in override.missing:
            if person not in able_people:
                out.say(
                    f"{path}: {printable(person)} cannot accept an override: map an aws: "
                    "identity to that address in ownership.contacts"
                )
    if waiting:
        out.say(
            f"{path}: people accept a stored version (`governor policy put`). Nobody can "
            "accept the parameter PolicyYaml of the stack"
        )


def verdict(book: PolicyBook) -> str:
    """Return `ok`, or how many overrides count as `ask` while acceptances are missing."""
    waiting = len(book.unaccepted())
    if waiting == 0:
        return "ok"
    verb = "counts" if waiting == 1 else "count"
    return f"usable, but {plural(waiting, 'override')} {verb} as ask until people accept"


def next_steps(waiting: tuple[Unaccepted, ...], version: str) -> str:
    """Return what people do after the version was stored; an empty text if nothing is missing."""
    missing: set[str] = set()
    for override in waiting:
        missing.update(override.missing)
    if not missing:
        return ""
    people = ", ".join(map(printable, sorted(missing)))
    return (
        f"Next, each of {people} runs `governor policy accept {version}` "
        "(a first version: once it is in force). A person who accepted the same terms "
        "before is counted already."
    )


def of_two_people(book: PolicyBook) -> Iterator[tuple[str, str]]:
    """Yield each setting by which one writer could change a policy that terminates, and a fix."""
    policy = book.base().policy
    if not any(map(may_terminate, book.variants)):
        return
    if policy.two_people_for_policy is False:
        yield (
            "two_people_for_policy",
            "is false, and the policy terminates: one writer alone can change who "
            "decides and what is terminated; remove the line",
        )
        return
    able_count = len(known_people(policy.ownership).everybody)
    if able_count < PEOPLE_NEEDED and not book.says_two_people:
        yield (
            "ownership.contacts",
            f"maps {plural(able_count, 'person', 'people')} to aws: identities, and the policy "
            "terminates: risky changes wait for nobody until two people are mapped; map two "
            "people",
        )
