"""The people who are asked, and the person behind a proven identity."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.rules.terms import terms_of
from governor.core.settings import SettingError
from governor.episode.model.plan import Price
from governor.episode.rules.plan import draw_plan
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.contacts import Contact, Ownership, addresses
from governor.policy.model.policy import Policy
from tests.builders import make_facts

ML = Contact(
    emails=("Alice@example.com", "bob@example.com"),
    identities={"slack:U012ABCDEF": "bob@example.com"},
    time_zone="Europe/Berlin",
    working_from="09:00",
    working_until="18:00",
)
FINOPS = Contact(emails=("finops@example.com",))
PLATFORM = Contact(emails=("platform@example.com",))
DIRECTORY = Ownership(
    contacts={"ml": ML, "finops": FINOPS, "platform": PLATFORM},
    project_owners={"llm": "ml"},
    default_contacts=("platform",),
    escalation_contacts=("finops",),
    email_domains=("example.com",),
)


@pytest.mark.parametrize(
    ("owner", "project", "asked"),
    [
        ("ml", "unassigned", ("alice@example.com", "bob@example.com")),
        (" ml ", "unassigned", ("alice@example.com", "bob@example.com")),
        ("bob@example.com", "unassigned", ("bob@example.com",)),
        ("ALICE@Example.com", "unassigned", ("alice@example.com",)),
        ("carol@example.com", "unassigned", ("carol@example.com",)),
        ("mallory@example.org", "unassigned", ("platform@example.com",)),
        ("mallory@example.org", "llm", ("alice@example.com", "bob@example.com")),
        ("unassigned", "llm", ("alice@example.com", "bob@example.com")),
        ("unassigned", "unassigned", ("platform@example.com",)),
        ("a@example.com, b@example.org", "unassigned", ("a@example.com",)),
        ("a@example.com, bob@example.com", "llm", ("a@example.com", "bob@example.com")),
        ("a@example.com;b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("a@example.com b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("a@example.com | b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("a@example.com/b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("a@example.com and b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("Bob <bob@example.com>, A <a@example.com>", "llm", ("bob@example.com", "a@example.com")),
        ("mailto:bob@example.com", "unassigned", ("bob@example.com",)),
        ("MAILTO:bob@example.com", "unassigned", ("bob@example.com",)),
        ("bob@example.com (backup: a@example.com)", "llm", ("bob@example.com", "a@example.com")),
        ("Bob (bob@example.com)", "unassigned", ("bob@example.com",)),
        ('"bob@example.com"', "unassigned", ("bob@example.com",)),
        ("'bob@example.com'", "unassigned", ("bob@example.com",)),
        ("bob@example.com.", "unassigned", ("bob@example.com",)),
        ("a@example.com:b@example.com", "llm", ("a@example.com", "b@example.com")),
        ("team:ml", "unassigned", ("alice@example.com", "bob@example.com")),
        ("finops or platform", "llm", ("finops@example.com", "platform@example.com")),
        ("o'brien@example.com", "unassigned", ("o'brien@example.com",)),
        ("a+gpu@example.com", "unassigned", ("a+gpu@example.com",)),
        ("bob@example.com, BOB@example.com", "unassigned", ("bob@example.com",)),
        ("ML", "unassigned", ("alice@example.com", "bob@example.com")),
        ("FinOps / platform", "unassigned", ("finops@example.com", "platform@example.com")),
        (", ;", "unassigned", ("platform@example.com",)),
        ("müller@example.com", "unassigned", ("platform@example.com",)),
    ],
)
def test_the_owner_goes_before_the_project_before_the_default(
    owner: str, project: str, asked: tuple[str, ...]
) -> None:
    """A tag redirects mail only within the domains that the policy names."""
    assert asked == addresses(DIRECTORY.asked(owner, project))


@pytest.mark.parametrize(
    ("owner", "project", "reason"),
    [
        ("ml", "unassigned", ""),
        ("Bob <bob@example.com>", "unassigned", ""),
        ("unassigned", "unassigned", ""),
        (
            "carl",
            "unassigned",
            'The owner tag names "carl", which is not in the policy. The default contacts are '
            "asked instead.",
        ),
        (
            "carl@example.org",
            "llm",
            'The owner tag names "carl@example.org", which is not in the policy. The contact of '
            "project llm is asked instead.",
        ),
        (
            "bob@example.com, carl",
            "llm",
            'The owner tag also names "carl", which is not in the policy.',
        ),
        (
            "a b c d e",
            "llm",
            'The owner tag names "a", "b", "c" and 2 more, which are not in the policy. The '
            "contact of project llm is asked instead.",
        ),
    ],
)
def test_people_read_why_others_than_the_owner_tag_says_are_asked(
    owner: str, project: str, reason: str
) -> None:
    """Never the default contacts without a word."""
    assert reason == DIRECTORY.why_others_are_asked(owner, project)


@pytest.mark.parametrize("owner", [",", " ; ", "()", "mailto:", "|", "<>"])
def test_an_owner_tag_of_signs_alone_is_said_too(owner: str) -> None:
    """It names nobody, so the default contacts are asked."""
    shown = owner.strip()
    assert DIRECTORY.why_others_are_asked(owner, "unassigned") == (
        f'The owner tag names "{shown}", which is not in the policy. The default contacts are '
        "asked instead."
    )
    assert ((), (shown,)) == DIRECTORY.named_by(owner)


def test_a_name_of_several_words_stays_whole_beside_another() -> None:
    """`ml` is another contact: its people have nothing to do with the instance."""
    three = Ownership(contacts={"ml": ML, "ML Platform": PLATFORM, "R&D / vision": FINOPS})

    assert ((PLATFORM, FINOPS), ()) == three.named_by("ml platform; R&D / vision")
    assert ((ML,), ("team",)) == three.named_by("team ml")


def test_nobody_is_said_to_be_asked_where_the_policy_names_no_default_contacts() -> None:
    """The message goes to the channels alone."""
    nobody = Ownership(contacts={"ml": ML})

    text = nobody.why_others_are_asked("carl", "unassigned")
    assert text.endswith("which is not in the policy. There are no default contacts.")


@pytest.mark.parametrize(
    ("owner", "project", "ending"),
    [
        ("carl", "unassigned", ". The default contacts are notified instead."),
        ("carl", "llm", ". The contact of project llm is notified instead."),
        ("bob@example.com, carl", "llm", 'also names "carl", which is not in the policy.'),
    ],
)
def test_nobody_is_said_to_be_asked_where_nothing_is_asked(
    owner: str, project: str, ending: str
) -> None:
    """A rehearsal also says that nobody is asked."""
    text = DIRECTORY.why_others_are_asked(owner, project, is_question=False)
    assert text.endswith(ending)
    assert "asked" not in text


@pytest.mark.parametrize("number", [1, 9, 10, 11, 16, 60])
def test_one_owner_tag_names_at_most_ten_contacts(number: int) -> None:
    """Whoever may tag would otherwise send mail to everybody of `email_domains`."""
    people = [f"p{n}@example.com" for n in range(number)]
    owner = ",".join(people)

    assert tuple(people[:10]) == addresses(DIRECTORY.asked(owner, "llm"))
    assert tuple(people[:10]) == addresses(DIRECTORY.named_by(owner).contacts)
    asked = DIRECTORY.why_others_are_asked(owner, "llm")
    notified = DIRECTORY.why_others_are_asked(owner, "llm", is_question=False)
    if number <= 10:
        assert ("", "") == (asked, notified)
    else:
        start = f"The owner tag names {number} contacts: only the first 10 are "
        assert (f"{start}asked.", f"{start}notified.") == (asked, notified)


def test_too_many_and_unknown_owners_are_both_said() -> None:
    owner = ",".join([*(f"p{n}@example.com" for n in range(11)), "carl"])
    assert DIRECTORY.why_others_are_asked(owner, "llm") == (
        "The owner tag names 11 contacts: only the first 10 are asked. "
        'The owner tag also names "carl", which is not in the policy.'
    )


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("owner", ["José", "JOSÉ", "josé, Ångström", "ＪＯＳÉ"])
@pytest.mark.parametrize("key_form", ["NFC", "NFD"])
def test_a_name_is_the_same_in_every_form_of_unicode(form: Any, owner: str, key_form: Any) -> None:
    """A Mac writes an accented letter as two characters."""
    names = {"José": ML, "Ångström": FINOPS}
    contacts = {unicodedata.normalize(key_form, name): one for name, one in names.items()}
    policy = Ownership(contacts=contacts)

    named = policy.named_by(unicodedata.normalize(form, owner))

    assert ((ML, FINOPS) if "," in owner else (ML,), ()) == named


def test_contacts_that_differ_by_letter_case_alone_keep_it() -> None:
    """Neither is meant by a third spelling."""
    both = Ownership(contacts={"ada": ML, "Ada": FINOPS}, default_contacts=("ada",))

    assert (FINOPS,) == both.asked("Ada", "unassigned")
    assert ((), ("ADA",)) == both.named_by("ADA")


def test_a_member_keeps_the_hours_of_the_group() -> None:
    """Asked alone, at the group's working hours."""
    (bob,) = DIRECTORY.asked("bob@example.com", "unassigned")
    assert ("Europe/Berlin", "09:00", "18:00") == (
        bob.time_zone,
        bob.working_from,
        bob.working_until,
    )


def test_an_escalation_goes_to_others() -> None:
    """The next group and the default; nobody who was asked before."""
    assert (FINOPS, PLATFORM) == DIRECTORY.escalated("ml", "unassigned")
    assert (FINOPS,) == DIRECTORY.escalated("unassigned", "unassigned")


def test_an_identity_is_a_person_only_where_the_policy_says_so() -> None:
    """By address or by another identity; nobody else is known."""
    known = [
        DIRECTORY.person(name)
        for name in ("slack:U012ABCDEF", "ALICE@example.com", "slack:U9", "x")
    ]
    assert ["bob@example.com", "alice@example.com", None, None] == known


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"emails": ("not an address",)}, "not an email address"),
        ({"emails": ("müller@example.com",)}, "not an email address"),
        ({"emails": ("a@localhost",)}, "not an email address"),
        ({"lists": ("a@b",)}, "not an email address"),
        ({"emails": ("a@example.com\nBcc: x@example.org",)}, "not an email address"),
        ({"identities": {"slack:U1": "other@example.com"}}, "not one of emails"),
        (
            {
                "identities": {
                    "aws:arn:aws:sts::123456789012:assumed-role/Admin/bob@example.com": (
                        "bob@example.com"
                    )
                }
            },
            "chooses the session's name",
        ),
        ({"time_zone": "Europe/Atlantis"}, "IANA"),
        ({"time_zone": "../../etc/passwd"}, "IANA"),
        ({"working_days": ()}, "nobody could ever be asked"),
        ({"working_from": "9"}, "HH:MM"),
        ({"working_until": "25:00"}, "HH:MM"),
        ({"working_from": "18:00", "working_until": "09:00"}, "before"),
    ],
)
def test_a_contact_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    """With what to write instead."""
    with pytest.raises(ValueError, match=said):
        replace(ML, **changes)


@pytest.mark.parametrize("other", ["ml", "all"])
def test_an_address_of_a_list_is_nobodys_own_in_any_contact(other: str) -> None:
    """Whoever reads the list could answer as that person. Both places are named."""
    contacts = {"ml": ML, "all": Contact(lists=("all@example.com",))}
    contacts[other] = replace(contacts[other], lists=("all@example.com", "Bob@Example.com"))
    with pytest.raises(SettingError) as refused:
        Ownership(contacts=contacts)

    [(path, why)] = refused.value.mistakes
    assert ("contacts", "ml", "emails") == path[:3]
    assert "bob@example.com" == ML.emails[int(path[3])]
    assert f"contacts.{other}.lists" in why


@pytest.mark.parametrize(
    "named", [{"project_owners": {"llm": "nobody"}}, {"default_contacts": ("nobody",)}]
)
def test_a_name_without_a_contact_is_refused(named: dict[str, Any]) -> None:
    """A question would go nowhere."""
    with pytest.raises(ValueError, match="no contact 'nobody'"):
        Ownership(**named)


@pytest.mark.parametrize(
    ("action", "limit", "price", "people"),
    [
        (Action.TERMINATE, None, "100", 1),
        (Action.TERMINATE, "10", "10", 1),
        (Action.TERMINATE, "10", "10.01", 2),
        (Action.TERMINATE, "10", None, 2),
        (Action.STOP, "10", "100", 1),
    ],
)
def test_two_people_are_needed_for_dear_terminations(
    action: Action, limit: str | None, price: str | None, people: int
) -> None:
    """Where an override lets one person terminate. An unknown price is above every limit."""
    above = None if limit is None else Decimal(limit)
    rule = ApprovalRule(two_people_above_usd_per_hour=above, people_to_terminate=1)
    policy = Policy(plan=PlanRule(action=action), approval=rule)
    paid = Price(None if price is None else Decimal(price), "list price")

    terms = terms_of(policy, draw_plan(make_facts(price=paid), policy), paid)
    assert (people, frozenset()) == (terms.people_needed, terms.known_people)
    if paid.usd_per_hour is not None:
        # A discount changes what is paid, never whom a question needs.
        less = replace(paid, usd_per_hour=Decimal(1), list_usd_per_hour=paid.usd_per_hour)
        assert terms == terms_of(policy, draw_plan(make_facts(price=less), policy), less)
    named = replace(policy, ownership=Ownership(contacts={"ml": ML}))
    assert {"alice@example.com", "bob@example.com"} == terms_of(
        named, draw_plan(make_facts(), named), paid
    ).known_people


def test_two_people_cannot_be_told_apart_by_a_list() -> None:
    """The policy is refused."""
    with pytest.raises(ValueError, match="does not tell two people apart"):
        ApprovalRule(two_people_above_usd_per_hour=Decimal(1), broadcast_may=("terminate",))


def test_a_list_stays_a_list_whoever_tags_it() -> None:
    """Its address is no person's, in a tag neither."""
    directory = replace(
        DIRECTORY, contacts={**DIRECTORY.contacts, "all": Contact(lists=("all@example.com",))}
    )
    (found,) = directory.asked("ALL@example.com", "unassigned")

    assert ((), ("all@example.com",)) == (found.emails, found.lists)


@pytest.mark.parametrize(
    "identity",
    [
        "aws:arn:aws:iam::123456789012:user/bob",
        "aws:arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_0123456789abcdef/bob@example.com",
    ],
)
def test_identities_that_nobody_chooses_are_mapped(identity: str) -> None:
    """An IAM user, and a session of Identity Center."""
    contact = replace(ML, identities={identity: "bob@example.com"})
    assert "bob@example.com" == Ownership(contacts={"ml": contact}).person(identity)
