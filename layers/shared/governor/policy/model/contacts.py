"""The policy's sections `ownership` and `console`: owner tags, contacts with their working hours
and identities, and those who see the console.

A contact is a person or a group, named in the policy.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from governor.core.settings import Mistake, Section, checked, named
from governor.core.units import listed

ACCOUNT = ("[0-9]{12}", "an account has 12 digits, in quotes")
"""The form of an account id, and the advice for anything else."""
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9-]{2,63}"
)
_ADDRESS_CHARACTERS = 254
"""RFC 5321, 4.5.3.1.3."""
_OWN = re.compile(
    r"aws:arn:aws[a-z-]*:(iam::\d{12}:user/\S+|sts::\d{12}:assumed-role/AWSReservedSSO_[^/]+/\S+)"
)
"""Identities of AWS whose name a person cannot choose."""
_CALLER = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:(root|user/[^\s*]+)"
    r"|sts::\d{12}:assumed-role/[^\s/*]+/([^\s/*]+|\*))"
)
"""IAM callers as API Gateway names them. Source: IAM user guide, principals of a request."""
_CONVERSATION = re.compile(r"[CDG][A-Z0-9]{2,20}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_CLOCK_OR_END = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")
_SEPARATORS = re.compile(r"[,;|]|\s+(?:and|or|und|&)\s+", re.IGNORECASE)
"""Between several owners in one tag."""
_WORD_SEPARATORS = re.compile(r"[\s/:]+")
"""Between the words of one segment. Of the separators that people use, most services of AWS accept
only these in a tag."""
_PUNCTUATION = "()[]{}<>\"'`.:"
"""Characters around a word that belong to no name and no address."""
_SCHEME = re.compile("mailto:", re.IGNORECASE)
_MOST_NAMED_BY_TAG = 10
"""Contacts that one owner tag can name. Whoever may tag chooses them, so the number is limited."""
_MOST_UNKNOWN_NAMED = 3
"""How many unknown owners of one tag a message names."""
_BRACKETED = re.compile(r"<([^<>]+)>")
_NO_ADDRESS = "it is not an email address like name@example.com"


def is_address(text: str) -> bool:
    """Return whether the text is one email address that mail services accept: ASCII, with a whole
    domain."""
    return len(text) <= _ADDRESS_CHARACTERS and _ADDRESS.fullmatch(text) is not None


def is_own_identity(name: str) -> bool:
    """Return whether the text is an identity of AWS (`aws:ARN`) that nobody else can take: an IAM
    user, or a session of a role of IAM Identity Center. Other sessions choose their names."""
    return _OWN.fullmatch(name) is not None


def _is_zone(name: str) -> bool:
    """Return whether the IANA database has a time zone of this name."""
    try:
        return bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


Weekday = StrEnum("Weekday", "MON TUE WED THU FRI SAT SUN")


@dataclass(frozen=True, slots=True)
class WorkingHours:
    """The working hours of a contact. All other times are quiet hours, as in `Contact`."""

    time_zone: str = "UTC"
    working_days: tuple[Weekday, ...] = tuple(Weekday)
    working_from: str = "00:00"
    working_until: str = "24:00"


@dataclass(frozen=True, slots=True)
class Contact(Section):
    """A person or a group: addresses, working hours and other identities. Times outside
    `working_from` to `working_until` (local time, `HH:MM`) on `working_days` are quiet hours, in
    which no question, reminder or escalation is sent."""

    emails: tuple[str, ...] = checked((), _NO_ADDRESS, is_address)
    """Addresses that each belong to one person. The link in an email to such an address identifies
    that person."""
    lists: tuple[str, ...] = checked((), _NO_ADDRESS, is_address)
    """Addresses of groups. The link in an email to a group identifies nobody
    (`approval.broadcast_may`)."""
    identities: Mapping[str, str] = field(default_factory=dict)
    """Other identities of these people, each with one of `emails`: `slack:U012ABCDEF`,
    `oidc:<subject>` or `aws:<ARN>`."""
    slack_channel: str | None = checked(
        None, "write its ID, like C0123456789", _CONVERSATION.fullmatch
    )
    """ID of a Slack conversation (`C0123456789`). `null`: the one in the channel secret."""
    time_zone: str = checked("UTC", "it is not in the IANA database", _is_zone)
    """Name of the time zone in the IANA database, such as `Europe/Berlin`."""
    working_days: tuple[Weekday, ...] = tuple(Weekday)
    """Days on which questions, reminders and escalations are sent."""
    working_from: str = checked("00:00", "write HH:MM", _CLOCK.fullmatch)
    """Start of the working day, `HH:MM`. Nothing that can wait is sent before it."""
    working_until: str = checked("24:00", "write HH:MM, or 24:00", _CLOCK_OR_END.fullmatch)
    """End of the working day, `HH:MM` or `24:00`."""

    @property
    def hours(self) -> WorkingHours:
        """Return the working hours alone, as an episode records them."""
        return WorkingHours(
            time_zone=self.time_zone,
            working_days=self.working_days,
            working_from=self.working_from,
            working_until=self.working_until,
        )

    @property
    def has_own_channel(self) -> bool:
        """Return whether messages can be sent to this contact alone: the policy names an address, a
        list or a Slack channel of it. Slack itself may not be set up."""
        return bool(self.own_channels)

    @property
    def own_channels(self) -> frozenset[str]:
        """Return the addresses and lists in lower case, and the Slack channel, by which messages
        reach this contact alone; empty if the policy names none."""
        channels = {address.lower() for address in (*self.emails, *self.lists)}
        if self.slack_channel:
            channels.add(self.slack_channel)
        return frozenset(channels)

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake: working hours that never come, and
        identities that prove nobody or name an unknown address."""
        if not self.working_days:
            yield ("working_days",), "working_days is empty: nobody could ever be asked"
        if self.working_from >= self.working_until:
            yield ("working_from",), "working_from must be before working_until"
        for name, address in self.identities.items():
            if name.startswith("aws:") and not is_own_identity(name):
                reason = (
                    "anybody who assumes a role chooses the session's name: map IAM "
                    "users or SSO roles"
                )
                yield ("identities", name), reason
            if address not in self.emails:
                reason = f"identities name {address!r}, which is not one of emails"
                yield ("identities", name), reason


class NamedOwners(NamedTuple):
    """The contacts that an owner tag names, and the parts of it that name nobody known."""

    contacts: tuple[Contact, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ownership(Section):
    """People responsible for an instance, and how they are reached."""

    owner_tag_keys: tuple[str, ...] = ("Owner", "owner")
    """Tags that name the owner: a contact, or an email address. The first tag that exists
    counts."""
    project_tag_keys: tuple[str, ...] = ("Project", "project")
    """Tags that name the project. The first tag that exists counts."""
    default_owner: str = "unassigned"
    """Owner of an instance without an owner tag."""
    contacts: Mapping[str, Contact] = field(default_factory=dict)
    """People and groups by name."""
    project_owners: Mapping[str, str] = field(default_factory=dict)
    """Name of the contact for each project. It is asked if no tag names a known owner."""
    default_contacts: tuple[str, ...] = ()
    """Names of the contacts who are asked if neither the owner tag nor the project leads to a
    contact."""
    escalation_contacts: tuple[str, ...] = ()
    """Names of the contacts who are also asked if nobody answers the reminder."""
    email_domains: tuple[str, ...] = ()
    """Domains whose addresses get email if an owner tag names them. If empty, only the addresses of
    contacts get email."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake: unknown contacts, and people's addresses
        that are also lists."""
        yield from self._unknown_contacts()
        yield from self._people_in_lists()

    def _unknown_contacts(self) -> Iterator[Mistake]:
        """Yield a mistake, with its path and reason, for each setting that names a contact which
        does not exist."""
        named_at: list[tuple[tuple[str, ...], str]] = []
        for project, name in self.project_owners.items():
            named_at.append((("project_owners", project), name))
        for setting in ("default_contacts", "escalation_contacts"):
            for index, name in enumerate(getattr(self, setting)):
                named_at.append(((setting, str(index)), name))
        for path, name in named_at:
            if name not in self.contacts:
                yield path, f"there is no contact {name!r}: add it under ownership.contacts"

    def _people_in_lists(self) -> Iterator[Mistake]:
        """Yield a mistake, with its path and reason, for each address of a person that is also the
        address of a list."""
        contact_by_list: dict[str, str] = {}
        for name, contact in self.contacts.items():
            for address in contact.lists:
                contact_by_list[address.lower()] = name
        for name, contact in self.contacts.items():
            for index, address in enumerate(contact.emails):
                contact_of_list = contact_by_list.get(address.lower())
                if contact_of_list is None:
                    continue
                reason = (
                    f"{address!r} is in contacts.{contact_of_list}.lists, too; a person's "
                    "address is no list"
                )
                yield ("contacts", name, "emails", str(index)), reason

    def asked(self, owner: str, project: str) -> tuple[Contact, ...]:
        """Return the first recipients of a question about an instance of this owner and project:
        those whom the owner tag names, else the project's, else the default contacts. Return an
        empty tuple if there are none."""
        named = self.named_by(owner)
        if named.contacts:
            return named.contacts
        project_owner = self.project_owners.get(project)
        if project_owner is not None:
            return (self.contacts[project_owner],)
        return tuple(self.contacts[name] for name in self.default_contacts)

    def asks_default_contacts(self, owner: str, project: str) -> bool:
        """Return whether the default contacts are asked first about an instance of this owner and
        project: its owner tag names nobody known, and the project has no contact."""
        return project not in self.project_owners and not self.named_by(owner).contacts

    def escalated(self, owner: str, project: str) -> tuple[Contact, ...]:
        """Return the contacts who are asked in addition if nobody answers: the escalation and
        default contacts, without those who were asked first. Return an empty tuple if there are
        none. Each of them has a contact: a policy with another name is refused."""
        asked_before = self.asked(owner, project)
        names = dict.fromkeys((*self.escalation_contacts, *self.default_contacts))
        contacts = [self.contacts[name] for name in names]
        return tuple(contact for contact in contacts if contact not in asked_before)

    def asked_and_escalated(self, owner: str, project: str) -> tuple[Contact, ...]:
        """Return the contacts who are asked first, then those who are asked in addition. Return an
        empty tuple if there are none."""
        return (*self.asked(owner, project), *self.escalated(owner, project))

    def has_others_to_ask(self, owner: str, project: str) -> bool:
        """Return whether an escalation reaches anybody whom the first question does not: by another
        address, list or Slack channel. Return false if a second name has the same ones."""
        reached: set[str] = set()
        for contact in self.asked(owner, project):
            reached |= contact.own_channels
        escalated = self.escalated(owner, project)
        return any(not contact.own_channels <= reached for contact in escalated)

    def person(self, identity: str) -> str | None:
        """Return the address, in lower case, of the person with this identity: an address of
        `emails`, or one such as `slack:U012ABCDEF` or `aws:ARN`. Return `None` if no contact has
        it."""
        wanted = identity.strip()
        for contact in self.contacts.values():
            if wanted in contact.identities:
                return contact.identities[wanted].lower()
            if wanted.lower() in (address.lower() for address in contact.emails):
                return wanted.lower()
        return None

    def named_by(self, owner: str) -> NamedOwners:
        """Return the contacts that an owner tag names, at most ten, and the parts of it that name
        nobody.

        The tag may hold one name or address, or several with blanks, commas, semicolons, bars,
        colons or slashes between them, such as `ada@example.com; Bob`. Letter case does not count,
        unless two contacts differ by it alone, nor do brackets and quotes around a name.
        """
        named = self._everybody_named_by(owner)
        return named._replace(contacts=named.contacts[:_MOST_NAMED_BY_TAG])

    def _everybody_named_by(self, owner: str) -> NamedOwners:
        """Return all contacts that an owner tag names, each once and in its order, and the parts of
        it that name nobody. A tag that is one name or address as a whole names that contact
        alone."""
        whole = self._contact_of(owner.strip())
        if whole is not None:
            return NamedOwners((whole,), ())
        contacts: list[Contact] = []
        unknown: list[str] = []
        for part in self._parts_of(owner):
            contact = self._contact_of(part)
            if contact is None:
                unknown.append(part)
            elif contact not in contacts:
                contacts.append(contact)
        if owner.strip() and not contacts and not unknown:
            # Signs alone, such as a comma, are no name. People still read that it names nobody.
            unknown.append(owner.strip())
        return NamedOwners(tuple(contacts), tuple(unknown))

    def _parts_of(self, owner: str) -> list[str]:
        """Return the names and addresses of an owner tag, such as `Ada <ada@example.com>, Bob`. A
        contact's name of several words stays whole."""
        parts: list[str] = []
        for segment in _SEPARATORS.split(_SCHEME.sub("", owner)):
            name = segment.strip()
            parts.extend([name] if self._contact_of(name) else _parts_of_segment(name))
        return parts

    def why_others_are_asked(self, owner: str, project: str, *, is_question: bool = True) -> str:
        """Return why not exactly those whom the owner tag names are asked, in up to two sentences;
        an empty text if all are, or the instance has no owner tag. They say that people are
        notified, where nobody is asked (`is_question`)."""
        if owner == self.default_owner:
            return ""
        named = self._everybody_named_by(owner)
        verb = "asked" if is_question else "notified"
        sentences = [
            self._why_not_all(len(named.contacts), verb),
            self._why_unknown(named, project, verb),
        ]
        return " ".join(sentence for sentence in sentences if sentence)

    def _why_not_all(self, number: int, verb: str) -> str:
        """Return the sentence that an owner tag names too many contacts; an empty text if it does
        not. `verb` is `asked` or `notified`."""
        if number <= _MOST_NAMED_BY_TAG:
            return ""
        return (
            f"The owner tag names {number} contacts: only the first {_MOST_NAMED_BY_TAG} "
            f"are {verb}."
        )

    def _why_unknown(self, named: NamedOwners, project: str, verb: str) -> str:
        """Return the sentence that lists up to three of those who are named and unknown; an empty
        text if all are known. `verb` is `asked` or `notified`."""
        if not named.unknown:
            return ""
        quoted_names = [f'"{name}"' for name in named.unknown]
        unknown = listed(quoted_names, _MOST_UNKNOWN_NAMED)
        which_are = "which is" if len(named.unknown) == 1 else "which are"
        if named.contacts:
            return f"The owner tag also names {unknown}, {which_are} not in the policy."
        names_nobody = f"The owner tag names {unknown}, {which_are} not in the policy"
        if project in self.project_owners:
            return f"{names_nobody}. The contact of project {project} is {verb} instead."
        if self.default_contacts:
            return f"{names_nobody}. The default contacts are {verb} instead."
        return f"{names_nobody}. There are no default contacts."

    def _contact_of(self, name: str) -> Contact | None:
        """Return the contact of one name, in any letter case if only one contact is named so, or of
        one address; `None` if it is nobody known."""
        if name in self.contacts:
            return self.contacts[name]
        folded = _folded(name)
        similar = [contact for key, contact in self.contacts.items() if _folded(key) == folded]
        if len(similar) == 1:
            return similar[0]
        if not is_address(name):
            return None
        return self._contact_of_address(name.lower())

    def _contact_of_address(self, address: str) -> Contact | None:
        """Return the contact of an address in lower case; `None` if it is nobody known.

        It is that person alone, or that list, with the hours of the contact that has the address;
        or a contact with default hours if only `email_domains` allows the address.
        """
        for contact in self.contacts.values():
            if address in addresses([contact]):
                return replace(contact, emails=(address,), identities={}, lists=())
        for contact in self.contacts.values():
            if address in list_addresses([contact]):
                return replace(contact, emails=(), identities={}, lists=(address,))
        domain = address.rpartition("@")[2]
        if domain in (allowed.lower() for allowed in self.email_domains):
            return Contact(emails=(address,))
        return None


def _folded(name: str) -> str:
    """Return the name as names are compared: without letter case, and with each accented letter as
    one character. Some keyboards and programs write it as two."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


def _parts_of_segment(segment: str) -> list[str]:
    """Return the names and addresses between two separators, without the punctuation around them.

    Words beside an address in angle brackets are its owner's name, and left out.
    """
    parts: list[str] = []
    bracketed = _BRACKETED.findall(segment)
    for text in bracketed or segment.split():
        parts.extend(_words_of(text.strip(_PUNCTUATION)))
    return parts


def _words_of(text: str) -> list[str]:
    """Return the parts between slashes, colons and blanks. An address may hold a slash itself, so
    it stays whole."""
    if is_address(text):
        return [text]
    words = [word.strip(_PUNCTUATION) for word in _WORD_SEPARATORS.split(text)]
    return [word for word in words if word]


def working_hours(contacts: Sequence[Contact]) -> tuple[WorkingHours, ...]:
    """Return the working hours of these contacts, equal ones once; empty if there are none."""
    return tuple(dict.fromkeys(contact.hours for contact in contacts))


def list_addresses(contacts: Sequence[Contact]) -> tuple[str, ...]:
    """Return the addresses of all mailing lists of these contacts, in lower case and each once;
    empty if they have none."""
    return _distinct(contact.lists for contact in contacts)


def addresses(contacts: Sequence[Contact]) -> tuple[str, ...]:
    """Return the addresses of all people of these contacts, in lower case and each once; empty if
    they have none."""
    return _distinct(contact.emails for contact in contacts)


def _distinct(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return all addresses of these groups in lower case, each once, in their order."""
    distinct_addresses: dict[str, None] = {}
    for group in groups:
        for address in group:
            distinct_addresses[address.lower()] = None
    return tuple(distinct_addresses)


_NAME = "write a whole name, without blanks around it; * stands for nothing here"


def _is_name(text: str) -> bool:
    """Return whether the text may name a group or a project: it is not empty, has no outer blanks,
    and is not `*`."""
    is_trimmed = text == text.strip()
    return is_trimmed and text not in ("", "*")


@dataclass(frozen=True, slots=True)
class ConsoleScope(Section):
    """The part of the console that some people see, and their permissions there."""

    groups: tuple[str, ...] = checked((), _NAME, _is_name)
    """Groups of the sign-in issuer, as its claim names them."""
    identities: tuple[str, ...] = checked(
        (),
        "write the ARN of a user, or of a role session; * may stand for its name",
        _CALLER.fullmatch,
    )
    """ARNs of IAM callers. `*` stands only for the session name of an assumed role."""
    role: Literal["viewer", "approver", "admin"] = "viewer"
    """`viewer` changes nothing; `approver` answers questions; `admin` also ends keeps, exemptions
    and freezes."""
    everything: bool = False
    """The whole fleet."""
    accounts: tuple[str, ...] = named(*ACCOUNT)
    """All instances of these accounts."""
    projects: tuple[str, ...] = checked((), f"{_NAME}; everything: true shows all", _is_name)
    """All instances of these projects."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the path and the reason of each mistake: a scope of nobody, or of nothing."""
        if not (self.groups or self.identities):
            yield ("groups",), "names nobody: set groups or identities"
        if not (self.everything or self.accounts or self.projects):
            yield ("everything",), "shows nothing: set everything, accounts or projects"


@dataclass(frozen=True, slots=True)
class Console(Section):
    """Access to the console for people other than contacts. Contacts see what they or their
    projects own without being named here."""

    scopes: Mapping[str, ConsoleScope] = field(default_factory=dict)
    """Parts of the console for groups of the issuer and for IAM callers, each with a role, under a
    name of your choice."""
