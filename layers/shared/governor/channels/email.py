"""Email: text and HTML in one document, the picture inside it, one button, sent by a mail service.

The document is made here rather than by the service, so that it carries what groups the mails of an episode
and keeps absence notices away. This module must not know which service sends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from pathlib import Path
from typing import Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from governor.channels.errors import DeliveryRefused, DeliveryRetryable
from governor.channels.message import CUT, Delivered, Message, Table, one_line
from governor.domain.alert import Section
from governor.domain.contacts import is_address
from governor.errors import AccessDenied, CloudError, ConfigurationError, Throttled, Unavailable

_NAME = "email"
_HTML_BYTES = 90_000
"""Gmail hides what comes after 102 KB behind a link."""
_PICTURE_BYTES = 1_000_000
_SUBJECT, _LINE, _CELL = 150, 1000, 100
_CID = "picture@gpu-governor"
_WHAT_TO_DO = {
    "MessageRejected": "verify the sender's identity; while the account is in the sandbox of SES, verify the "
    "recipient too or ask for production access",
    "MailFromDomainNotVerifiedException": "repair the MX record of the sender's MAIL FROM domain",
    "SendingPausedException": "sending is paused for the account or the configuration set: resume it",
    "AccountSuspendedException": "the account may not send mail any more: ask AWS Support",
    "NotFoundException": "the configuration set does not exist in this Region: create or unset it",
}
_OTHERWISE = "look the code up in the documentation of SES, SendEmail"
_DENIED = "allow ses:SendEmail and ses:SendRawEmail on the sender's identity"


class MailService(Protocol):
    """Sends one document to one address."""

    def send(self, sender: str, recipient: str, document: bytes) -> str:
        """The service's id of the mail that it has taken.

        Raises:
            CloudError: it has not; `Throttled` and `Unavailable` may pass.
        """
        ...


class EmailChannel:
    """Mails to one recipient, as a link can be personal. Mails of an episode are grouped by a reference.

    Raises:
        ConfigurationError: an address is not like name@example.com in ASCII.
    """

    name = _NAME

    def __init__(self, service: MailService, *, sender: str, recipient: str) -> None:
        self._service = service
        self._sender = _checked(sender, "sender")
        self._recipient = _checked(recipient, "recipient")

    def takes(self, message: Message) -> bool:
        """Every message."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """As the Protocol says."""
        document = email_document(message, sender=self._sender, recipient=self._recipient).as_bytes()
        try:
            return Delivered(self._service.send(self._sender, self._recipient, document))
        except (Throttled, Unavailable) as error:
            raise DeliveryRetryable(
                f"the service did not take it ({_reason(error)})", channel=_NAME
            ) from None
        except CloudError as error:
            # Its text can hold addresses, and so is not repeated.
            advice = _DENIED if isinstance(error, AccessDenied) else _WHAT_TO_DO.get(error.code, _OTHERWISE)
            raise DeliveryRefused(
                f"the service did not take it ({_reason(error)}): {advice}", channel=_NAME
            ) from None


def email_document(message: Message, *, sender: str, recipient: str) -> EmailMessage:
    """The mail: text, and HTML with the picture inside when there is one of at most 1 MB."""
    picture = message.picture_png
    if picture is not None and len(picture) > _PICTURE_BYTES:
        picture = None
    content = _fitting(message, has_picture=picture is not None)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address("GPU Governor", addr_spec=sender)
    mail["To"] = Address(addr_spec=recipient)
    mail["Subject"] = one_line(message.title, _SUBJECT)
    mail["Date"] = message.at
    # SES gives its own Message-ID; a reference to one that never existed groups mails all the same.
    mail["References"] = f"<{hashlib.sha256(message.episode.encode()).hexdigest()[:32]}@gpu-governor.invalid>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(_text(content))
    mail.add_alternative(_html(content, has_picture=picture is not None), subtype="html")
    if picture is not None:
        _, html = mail.iter_parts()
        assert isinstance(html, EmailMessage)
        html.add_related(
            picture, "image", "png", cid=f"<{_CID}>", filename="utilization.png", disposition="inline"
        )
    return mail


@dataclass(frozen=True, slots=True)
class _Content:
    """What both forms say, on single lines of bounded length. `cut` says that something is left out."""

    title: str
    happens: str
    acts: bool
    lead: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    details: tuple[Section, ...]
    table: Table | None
    link: str | None
    link_text: str
    why: str
    footer: str
    cut: str = ""


def _content(message: Message) -> _Content:
    table = message.evidence
    return _Content(
        title=one_line(message.title, _SUBJECT),
        happens=one_line(message.happens, _LINE),
        acts=message.acts,
        lead=_lines(message.lead),
        facts=tuple((label, one_line(value, _LINE)) for label, value in message.facts.rows()),
        sections=_sections(message.sections),
        details=_sections(message.details),
        table=table
        and Table(one_line(table.caption, _CELL), _cells(table.columns), tuple(map(_cells, table.rows))),
        link=message.link,
        link_text=message.link_text,
        why=one_line(message.why, _LINE),
        footer=one_line(" · ".join(filter(None, ("GPU Governor", message.reference))), _LINE),
    )


def _sections(sections: Sequence[Section]) -> tuple[Section, ...]:
    return tuple(Section(one_line(one.heading, _CELL), _lines(one.lines)) for one in sections)


def _lines(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(one_line(line, _LINE) for line in lines)


def _cells(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(one_line(cell, _CELL) for cell in cells)


def _fitting(message: Message, *, has_picture: bool) -> _Content:
    """The whole content, or the most of it that mail programs show."""
    whole = _content(message)
    few = tuple(Section(section.heading, section.lines[:5]) for section in whole.sections[:8])
    shorter = replace(whole, table=None, cut=CUT)
    shortest = replace(shorter, lead=whole.lead[:5], sections=few, details=())
    for content in (whole, shorter, shortest):
        if len(_html(content, has_picture=has_picture).encode()) <= _HTML_BYTES:
            return content
    return replace(shortest, lead=(), sections=())


def _text(content: _Content) -> str:
    return "\n".join(_text_lines(content)) + "\n"


def _text_lines(content: _Content) -> Iterator[str]:
    yield from (content.title, "")
    yield from (line for line in (content.happens, *content.lead) if line)
    for section in content.sections:
        yield from _section_lines(section)
    if content.link is not None:
        yield from ("", f"{content.link_text}:", content.link)
    yield ""
    yield from (f"{label}: {value}" for label, value in content.facts)
    for section in content.details:
        yield from _section_lines(section)
    if content.table is not None:
        yield from ("", content.table.caption)
        yield from (" | ".join(row) for row in (content.table.columns, *content.table.rows))
    if content.cut:
        yield from ("", content.cut)
    # Two hyphens and a space: mail programs set what follows apart.
    yield from ("", "-- ", *filter(None, (content.why, content.footer)))


def _section_lines(section: Section) -> Iterator[str]:
    yield from ("", section.heading)
    yield from (f"- {line}" for line in section.lines)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _html(content: _Content, *, has_picture: bool) -> str:
    alt = content.table.caption if content.table else "The utilization of the GPUs"
    return (
        _environment()
        .get_template("email.html")
        .render(content=content, picture_cid=_CID if has_picture else None, picture_alt=alt)
    )


def _checked(address: str, role: str) -> str:
    if not is_address(address):
        raise ConfigurationError(f"the {role} of the channel email must be one address like name@example.com")
    return address


def _reason(error: CloudError) -> str:
    return error.code or type(error).__name__
