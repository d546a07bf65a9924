"""Consent to an override: recorded by the people themselves, and only of people who counted
before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from governor.alerts.model import Alert, AlertKind
from governor.core.errors import CloudError, DecisionRefused, SafetyError, Unavailable
from governor.episode.model.plan import Step
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.policy.rules.consent import NOT_ACCEPTED, Acceptances
from governor.wiring import policies
from governor.wiring.parts import Parts
from tests.builders import NOW, make_instance
from tests.twins import FakeClock, MemoryStateTable
from tests.twins.stores import store_parts
from tests.unit.aws.fakes import FakeClients, ScriptedClient
from tests.unit.policy.test_policy_versions import ALICE, BOB, CI, Versions
from tests.unit.wiring.samples import settings
from tests.unit.worlds.builders import opener, ref_of
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World

EVE = "arn:aws:iam::123456789012:user/eve"
TAGS = {
    "Purpose": "GPU-Workload",
    "Life": "short",
    "Name": "scratch",
    "Owner": "ml",
    "Project": "vision",
}
BOTH = frozenset({"alice@example.com", "bob@example.com"})
ASK = "mode: ask\ntwo_people_for_policy: false\nmetrics: {publishers_are_trusted: true}\n"
OVERRIDE = """overrides:
  - name: scratch
    match: {tags: {Life: short}}
    set: {mode: auto, plan: {action: terminate, local_disks_may_be_lost_unasked: true}}
    approved_by: [alice@example.com, bob@example.com]
"""


def people(**arns: str) -> str:
    """Return the people of a document by their ARNs: by default Alice and Bob."""
    known = arns or {"alice": ALICE, "bob": BOB}
    identities = ", ".join(f'"aws:{arn}": {name}@example.com' for name, arn in known.items())
    emails = ", ".join(f"{name}@example.com" for name in dict.fromkeys(("alice", "bob", *known)))
    return (
        f"ownership: {{contacts: {{ops: {{emails: [{emails}], identities: {{{identities}}}}}}}}}\n"
    )


PLAIN = ASK + people()
NAMED = PLAIN + OVERRIDE


def world_of(*texts: str) -> Versions:
    """Versions that one writer alone has put, each in force after the other."""
    world = Versions()
    for text in texts:
        version = world.put(text)
        assert version == world.review()
    world.announcer.sent = []
    return world


def book_of(world: Versions) -> PolicyBook:
    """Return the policy as every function reads it."""
    parts = Parts(
        settings(),
        FakeClients(ScriptedClient()),
        **store_parts(world.state),
        policy_text=SimpleNamespace(read=lambda **_: world.read()),
        clock=world.clock,
    )
    return policies.present(parts)()


def mode_in(world: Versions) -> Mode:
    """Return the mode of an instance that the override is for."""
    return book_of(world).applied_to(make_instance(tags=TAGS)).policy.mode


def consents(world: Versions) -> list[Alert]:
    """The messages about missing acceptances since the last look."""
    sent, world.announcer.sent = world.announcer.sent, []
    return [alert for alert in sent if alert.kind is AlertKind.CONSENT_MISSING]


# what counts


def test_one_writer_who_types_two_addresses_lets_nothing_act_unasked() -> None:
    """It was in force at once. Now its instances are asked about; everything else of the version
    works."""
    world = world_of(PLAIN, NAMED)
    applied = book_of(world).applied_to(make_instance(tags=TAGS))

    assert (Mode.ASK, Action.TERMINATE) == (applied.policy.mode, applied.policy.plan.action)
    assert ("scratch", NOT_ACCEPTED) == applied.overrides
    assert ["scratch"] == [one.name for one in book_of(world).unaccepted()]


def test_the_override_counts_once_everybody_whom_it_names_has_accepted() -> None:
    """Each by their own identity; the next review counts them."""
    world = world_of(PLAIN, NAMED)
    world.accept("v2", ALICE)
    world.review()
    assert Mode.ASK is mode_in(world)
    world.accept("v2", BOB)
    assert Mode.ASK is mode_in(world), "serve_api records, and decides nothing"
    world.review()

    assert Mode.AUTO is mode_in(world)
    assert () == book_of(world).unaccepted()


def test_who_accepts_twice_counts_once() -> None:
    world = world_of(PLAIN, NAMED)
    for _ in range(3):
        world.accept("v2", ALICE)
        world.review()

    assert Mode.ASK is mode_in(world)
    assert [("bob@example.com",)] == [one.missing for one in book_of(world).unaccepted()]


def test_two_identities_of_one_person_count_once() -> None:
    known = people(alice=ALICE, bob=BOB).replace(
        f'"aws:{BOB}"', f'"aws:{CI}": alice@example.com, "aws:{BOB}"'
    )
    world = world_of(ASK + known, ASK + known + OVERRIDE)
    world.accept("v2", ALICE)
    world.accept("v2", CI)
    world.review()

    assert Mode.ASK is mode_in(world)


def test_acceptances_from_before_the_version_is_in_force_count() -> None:
    """Where it waits for two people, they accept once for both."""
    world = world_of(PLAIN.replace("policy: false", "policy: true"))
    version = world.put(NAMED)
    assert "v1" == world.review()
    world.accept(version, ALICE)
    world.accept(version, BOB)

    assert version == world.review()
    assert Mode.AUTO is mode_in(world)


def test_a_writer_whom_the_override_names_accepts_like_everybody_else() -> None:
    """That CloudTrail says who wrote it is no acceptance."""
    world = world_of(PLAIN, NAMED)
    world.review("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    assert Mode.ASK is mode_in(world)

    world.accept("v2", ALICE)
    world.review()
    assert Mode.AUTO is mode_in(world)


def test_everybody_who_is_named_must_accept() -> None:
    """Also a third person: a name under `approved_by` is a claim until then."""
    three = people(alice=ALICE, bob=BOB, carol=CI)
    text = ASK + three + OVERRIDE.replace("bob@example.com]", "bob@example.com, carol@example.com]")
    world = world_of(ASK + three, text)
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    assert Mode.ASK is mode_in(world)

    world.accept("v2", CI)
    world.review()
    assert Mode.AUTO is mode_in(world)


# whose acceptance counts


def test_people_whom_the_writer_brings_do_not_count() -> None:
    """The version itself maps both addresses to identities of the writer's."""
    world = world_of(PLAIN, ASK + people(alice=CI, bob=EVE) + OVERRIDE)
    world.accept("v2", CI)
    world.accept("v2", EVE)
    world.review()

    assert Mode.ASK is mode_in(world)


@pytest.mark.parametrize("between", [people(alice=CI, bob=EVE), people(alice=ALICE), ""])
def test_people_whom_a_writer_has_brought_in_a_version_before_do_not_count(between: str) -> None:
    """Neither by bringing them first, nor by removing the others first."""
    forged = ASK + people(alice=CI, bob=EVE)
    world = world_of(PLAIN, ASK + between, forged, forged + OVERRIDE)
    world.accept("v4", CI)
    world.accept("v4", EVE)
    world.review()

    assert Mode.ASK is mode_in(world)


@pytest.mark.parametrize("known", ["", people(alice=ALICE)], ids=["nobody", "one person"])
def test_where_fewer_than_two_counted_before_a_writer_brings_nobody_either(known: str) -> None:
    """Both identities are the writer's own. They count only in a version that has none before
    it."""
    forged = ASK + people(alice=CI, bob=EVE)
    world = world_of(ASK + known, forged)
    assert "v3" == world.put(forged + OVERRIDE)
    world.review()
    world.review()
    said = consents(world)[0]
    for arn in (CI, EVE):
        world.accept("v3", arn)
    world.review()
    assert Mode.ASK is mode_in(world)
    assert "Two people from the previous version" in "\n".join(said.lines)
    assert "VERSION#in-force" in "\n".join(said.lines)

    # The documented way out, with the break-glass role: the newest version is a first version.
    world.state.forget("POLICY")
    assert world.state.standing_version() is None
    world.clock.moment += timedelta(hours=1)
    assert "v3" == world.review()
    world.clock.moment += timedelta(minutes=1)
    for arn in (CI, EVE):
        world.accept("v3", arn)
    world.review()
    assert Mode.AUTO is mode_in(world)


def test_people_count_once_two_of_those_before_have_accepted_the_version_that_brings_them() -> None:
    """So does a new colleague; whoever is first records, and is counted later."""
    text = ASK + people(alice=ALICE, bob=BOB, carol=CI)
    text += OVERRIDE.replace("alice@example.com, bob", "alice@example.com, carol")
    world = world_of(PLAIN, text)
    world.accept("v2", CI)
    world.accept("v2", ALICE)
    world.review()
    assert Mode.ASK is mode_in(world)

    world.accept("v2", BOB)
    world.review()
    assert Mode.AUTO is mode_in(world)


def test_people_count_whom_the_writer_and_another_person_have_brought() -> None:
    """The two people behind the version, as for every risky change: CloudTrail names the writer."""
    text = ASK + people(alice=ALICE, bob=BOB, carol=CI)
    text += OVERRIDE.replace("alice@example.com, bob", "alice@example.com, carol")
    world = world_of(PLAIN, text)
    world.state.note_writer("v2", BOB)
    world.accept("v2", CI)
    world.review()
    assert Mode.ASK is mode_in(world)

    world.accept("v2", ALICE)
    world.review()
    assert Mode.AUTO is mode_in(world)


def test_a_person_whom_the_version_no_longer_names_does_not_count() -> None:
    world = world_of(PLAIN, NAMED)
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    gone = world.put(ASK + people(alice=ALICE) + OVERRIDE)
    world.state.accept_version(gone, f"aws:{ALICE}", NOW)
    world.state.accept_version(gone, f"aws:{BOB}", NOW)
    world.review()

    assert Mode.ASK is mode_in(world)


def test_somebody_unknown_accepts_nothing() -> None:
    world = world_of(PLAIN, NAMED)
    with pytest.raises(DecisionRefused, match="to your address"):
        world.accept("v2", EVE)
    world.state.accept_version("v2", f"aws:{EVE}", NOW)
    world.review()

    assert Mode.ASK is mode_in(world)


# a first version, a parameter, a team of one, an update


def test_a_first_version_counts_as_ask_until_its_own_people_accept_it_in_force() -> None:
    """Everybody is notified of it first; what was recorded before that does not count."""
    world = Versions()
    version = world.put(NAMED)
    for arn in (ALICE, BOB):
        world.state.accept_version(version, f"aws:{arn}", NOW - timedelta(minutes=1))
    assert version == world.review()
    world.review()
    assert Mode.ASK is mode_in(world)

    world.clock.moment += timedelta(minutes=1)
    world.accept(version, ALICE)
    world.accept(version, BOB)
    world.review()
    assert Mode.AUTO is mode_in(world)


def test_a_policy_that_is_only_the_parameter_counts_as_ask_and_says_what_to_do() -> None:
    """Nobody can accept it. Its people are notified once of each text."""
    world = Versions(NAMED)
    world.review()
    world.review()
    assert Mode.ASK is mode_in(world)
    sent = consents(world)
    assert BOTH == {alert.owner for alert in sent}
    assert 2 == len(sent)
    assert "governor policy put policy.yaml" in "\n".join(sent[0].lines)


def test_the_same_parameter_after_a_version_was_accepted_counts_as_ask() -> None:
    """Where an operator goes back to it, as docs/lifecycle.md says."""
    world = world_of(PLAIN, NAMED)
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    assert Mode.AUTO is mode_in(world)
    world.parameter = NAMED
    world.state = MemoryStateTable()

    assert Mode.ASK is mode_in(world)


def test_a_team_of_one_is_not_locked_out_of_its_policy() -> None:
    """A termination makes two people the default. Where nobody could be the second, nothing
    waits."""
    alone = "ownership: {contacts: {me: {emails: [a@example.com, b@example.com]}}}\n"
    terminates = f"mode: ask\nplan: {{action: terminate}}\n{alone}"
    world = world_of(terminates)
    version = world.put(f"{terminates}caps: {{owner_actions_per_hour: 9}}\n")

    assert version == world.review()


def test_a_version_of_the_release_before_counts_as_ask_until_its_people_accept_it() -> None:
    """The update records no acceptances, and stops no sweep."""
    world = Versions()
    version = world.put(NAMED)
    world.state.put_in_force(version, None, NOW)
    assert Mode.ASK is mode_in(world)
    world.review()
    assert BOTH == {alert.owner for alert in consents(world)}
    world.clock.moment += timedelta(minutes=1)
    world.accept(version, ALICE)
    world.accept(version, BOB)
    world.review()

    assert Mode.AUTO is mode_in(world)


# what was accepted


CHANGES = {
    "what it sets": lambda text: text.replace(
        "action: terminate", "action: terminate, stop_limit_minutes: 9"
    ),
    "whom it is for": lambda text: text.replace(
        "tags: {Life: short}", "tags: {Purpose: GPU-Workload}"
    ),
    "what it inherits": lambda text: f"{text}idle: {{window_minutes: 30}}\n",
    "another override": lambda text: (
        f"{text}  - {{name: x, match: {{}}, set: {{idle: {{window_minutes: 30}}}}}}\n"
    ),
    "its people": lambda text: text.replace("{ops: {", "{ops: {time_zone: Europe/Berlin, "),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_was_accepted_takes_new_acceptances(change: Any) -> None:
    """A change of the override, or of anything that decides what it does."""
    world = world_of(PLAIN, NAMED)
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    changed = world.put(change(NAMED))
    assert changed == world.review()
    assert Mode.ASK is book_of(world).applied_to(make_instance(tags=TAGS)).policy.mode

    back = world.put(NAMED + "# back\n")
    assert back == world.review()
    assert Mode.ASK is mode_in(world), "what was given up is given anew"
    world.accept(back, ALICE)
    world.accept(back, BOB)
    world.review()
    assert Mode.AUTO is mode_in(world)


@pytest.mark.parametrize(
    "change", ["ledger: {weekly_report: false}\n", "health: {enabled: false}\n", "# c\n"]
)
def test_a_change_of_reports_alone_leaves_acceptances_as_they_are(change: str) -> None:
    """So does the emergency switch of the document's mode, there and back."""
    world = world_of(PLAIN, NAMED)
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()
    for text in (NAMED + change, NAMED.replace("mode: ask", "mode: observe"), NAMED + "# again\n"):
        version = world.put(text)
        assert version == world.review()
        assert Mode.AUTO is mode_in(world)


def test_acceptances_of_another_document_do_not_count_for_this_one() -> None:
    """Whoever reads the table and the text at the moment of a change gets `ask`."""
    other = parse_policy(NAMED.replace("Life: short", "Life: long"))
    book = parse_policy(NAMED).apply_acceptances(Acceptances(other.terms, BOTH))
    applied = book.applied_to(make_instance(tags=TAGS))

    assert Mode.ASK is applied.policy.mode


# where it is applied


def test_an_episode_that_is_opened_without_consent_asks() -> None:
    """As for every other instance in mode ask: with a schedule, and an answer that must come."""
    world = FleetWorld()
    instance_id = world.add(1, tags=TAGS)
    world.policies = parse_policy(NAMED)  # type: ignore[assignment]
    opened = opener(world)(ref_of(world, instance_id)).episode

    assert opened is not None
    assert (Mode.ASK, True, False) == (
        opened.mode,
        opened.plan.destroys,
        opened.asking.acts_on_silence,
    )
    assert opened.asking.schedule is not None


def test_with_consent_it_opens_in_auto() -> None:
    world = FleetWorld()
    instance_id = world.add(1, tags=TAGS)
    book = parse_policy(NAMED)
    world.policies = book.apply_acceptances(Acceptances(book.terms, BOTH))  # type: ignore[assignment]
    opened = opener(world)(ref_of(world, instance_id)).episode

    assert opened is not None
    assert Mode.AUTO is opened.mode


def test_an_episode_of_mode_auto_does_not_act_once_acceptances_do_not_stand() -> None:
    """Every guard reads them anew: the version in force may be another one by then."""
    world = World(action=Action.TERMINATE, mode=Mode.AUTO, changes={"tags": TAGS})
    book = parse_policy(NAMED).apply_acceptances(Acceptances(parse_policy(NAMED).terms, BOTH))
    step = world.state.episode(world.ref).plan.steps[0]  # type: ignore[union-attr]
    assert replace(world.guards, policies=book).check(world.ref, step)

    for people_now in (frozenset[str](), frozenset({"alice@example.com"})):
        fewer = parse_policy(NAMED).apply_acceptances(Acceptances(book.terms, people_now))
        with pytest.raises(SafetyError, match="mode has changed from auto to ask"):
            replace(world.guards, policies=fewer).check(world.ref, Step.STOP)


def test_an_override_without_consent_asks_also_where_another_has_it() -> None:
    """And where a later one only stops: what it would do unasked is claimed in the same names."""
    second = OVERRIDE.removeprefix("overrides:\n").replace("name: scratch", "name: second")
    second = second.replace("alice@example.com, bob", "alice@example.com, carol")
    stops = "  - {name: stops, match: {tags: {Life: short}}, set: {plan: {action: stop}}}\n"
    known = people(alice=ALICE, bob=BOB, carol=CI)
    for more in (second, second + stops):
        book = parse_policy(ASK + known + OVERRIDE + more)
        book.apply_acceptances(Acceptances(book.terms, BOTH))
        assert Mode.ASK is book.applied_to(make_instance(tags=TAGS)).policy.mode


@pytest.mark.parametrize(
    "ready", [policies.asking, policies.present, policies.or_last, policies.or_defaults]
)
def test_every_function_reads_the_same_acceptances(ready: Any) -> None:
    world = world_of(PLAIN, NAMED)
    text = SimpleNamespace(read=lambda **_: world.read())
    parts = Parts(
        settings(),
        FakeClients(ScriptedClient()),
        **store_parts(world.state),
        policy_text=text,
        clock=FakeClock(NOW),
    )
    assert Mode.ASK is ready(parts)().applied_to(make_instance(tags=TAGS)).policy.mode
    world.accept("v2", ALICE)
    world.accept("v2", BOB)
    world.review()

    assert Mode.AUTO is ready(parts)().applied_to(make_instance(tags=TAGS)).policy.mode


def test_while_the_table_does_not_answer_nothing_acts_and_people_are_reached() -> None:
    """An action fails and is tried again; a message goes by the document, with its override at
    ask."""

    def away() -> Any:
        raise Unavailable("no", operation="dynamodb:GetItem")

    state = SimpleNamespace(standing_version=away, kept_policy=lambda: None)
    text = SimpleNamespace(read=lambda **_: NAMED)
    parts = Parts(settings(), FakeClients(ScriptedClient()), **store_parts(state), policy_text=text)
    with pytest.raises(CloudError):
        policies.asking(parts)()

    assert Mode.ASK is policies.or_last(parts)().applied_to(make_instance(tags=TAGS)).policy.mode


# messages


def test_each_person_is_notified_once_of_what_stands_in_their_name() -> None:
    """With the command; not again by a later version with the same terms, nor after their
    acceptance."""
    world = world_of(PLAIN)
    version = world.put(NAMED)
    world.review()
    world.review()
    sent = consents(world)
    assert sorted(BOTH) == sorted(alert.owner for alert in sent)
    for alert in sent:
        assert f"To accept it: governor policy accept {version}" in alert.lines
        assert (version, ["scratch"]) == (alert.facts["version"], alert.facts["overrides"])

    world.accept(version, ALICE)
    world.review()
    assert [] == consents(world)


def test_the_message_about_the_version_says_who_is_missing() -> None:
    world = world_of(PLAIN)
    world.put(NAMED)
    world.review()
    (changed,) = [one for one in world.announcer.sent if one.kind is AlertKind.POLICY_CHANGED]

    line = (
        'Override "scratch" counts as ask until alice@example.com and bob@example.com '
        "accept this version."
    )
    assert line in changed.lines


def test_a_message_says_why_an_acceptance_would_not_count() -> None:
    """Where nobody can accept as that person, and where one writer has brought them."""
    world = world_of(PLAIN, ASK + people(alice=ALICE) + OVERRIDE)
    world.review()
    world = world_of(PLAIN)
    world.put(ASK + people(alice=CI) + OVERRIDE)
    world.review()
    said = {alert.owner: "\n".join(alert.lines) for alert in consents(world)}

    assert "one person alone added that address" in said["alice@example.com"]
    assert "no aws: identity" in said["bob@example.com"]
    assert "policy accept" not in said["bob@example.com"]


def test_a_message_that_cannot_be_sent_is_sent_later_and_stops_no_version() -> None:
    """The version is in force, with its override at ask; the next review notifies."""
    world = world_of(PLAIN, NAMED)
    fresh = world_of(PLAIN)
    version = fresh.put(NAMED)
    announce = fresh.announcer.announce

    def fails(alert: Alert) -> None:
        if alert.kind is AlertKind.CONSENT_MISSING:
            raise Unavailable("no", operation="sns:Publish")
        announce(alert)

    fresh.announcer.announce = fails  # type: ignore[method-assign]
    with pytest.raises(CloudError):
        fresh.review()
    assert version == fresh.state.version_in_force()
    fresh.announcer.announce = announce  # type: ignore[method-assign]
    fresh.clock.moment += timedelta(minutes=5)
    fresh.review()

    assert BOTH == {alert.owner for alert in consents(fresh)}
    assert Mode.ASK is mode_in(world)
