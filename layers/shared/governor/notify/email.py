"""Sends messages by email: text and HTML in one document. Headers group the mails of an episode."""

from __future__ import annotations

import hashlib
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from pathlib import Path
from typing import Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape

from governor.alerts.templates import first_line_of
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    Throttled,
    Unavailable,
)
from governor.core.line_breaks import steady_page
from governor.core.units import clip
from governor.notify.message import (
    NOTE_IF_SHORTENED,
    Channel,
    Delivered,
    DeliveryRefused,
    DeliveryRetryable,
    Message,
)
from governor.policy.model.contacts import is_address

_HTML_BYTES = 90_000
"""The longest HTML. Gmail hides everything after 102 KB behind a link."""
_SUBJECT_CHARACTERS = 150
MAIL_ID_TAG = '<span style="display:inline-block;max-width:100%">'
"""Begins an id, which then stands on one line where it fits. Few mail programs read classes."""


class MailService(Protocol):
    """A service that sends mails."""

    def send(self, sender: str, recipient: str, document: bytes) -> str:
        """Send the mail and return the service's id of it. Raises: CloudError; after `Throttled`
        and `Unavailable` a repeat may help."""
        ...


class EmailChannel(Channel):
    """Mails to one recipient, because a link can be personal.

    Raises: ConfigurationError if sender or recipient is no ASCII address like name@example.com.
    """

    name = "email"

    def __init__(self, service: MailService, *, sender: str, recipient: str) -> None:
        """Mail from `sender` to `recipient`. Raises: ConfigurationError if one of them is no
        address."""
        for role, address in (("sender", sender), ("recipient", recipient)):
            if not is_address(address):
                raise ConfigurationError(
                    f"the {role} of the channel email must be one address like name@example.com"
                )
        self._service = service
        self._sender = sender
        self._recipient = recipient

    def send(self, message: Message) -> Delivered:
        """Mail the message; the delivery id is that of the service, and mails have no threads.
        Raises: DeliveryRetryable if the service is busy or gave no answer; DeliveryRefused if it
        refused the mail."""
        mail = email_document(message, sender=self._sender, recipient=self._recipient)
        try:
            mail_id = self._service.send(self._sender, self._recipient, mail.as_bytes())
        except CloudError as error:
            # The text of the error may hold addresses, so it is not repeated.
            text = f"the service did not take it ({error.code or type(error).__name__})"
            if isinstance(error, (Throttled, Unavailable)):
                raise DeliveryRetryable(text) from None
            code = "AccessDenied" if isinstance(error, AccessDenied) else error.code
            advice = first_line_of("refused by ses", code=code)
            raise DeliveryRefused(f"{text}: {advice}") from None
        return Delivered(mail_id)


def email_document(message: Message, *, sender: str, recipient: str) -> EmailMessage:
    """Return the message as a mail with a text and an HTML part. It is shortened if the HTML would
    be longer than `_HTML_BYTES`. Mails of one episode have the same `References`, by which mail
    programs group them."""
    text, page = fitting(message)
    episode_hash = hashlib.sha256(message.episode.encode()).hexdigest()[:32]
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address("GPU Governor", addr_spec=sender)
    mail["To"] = Address(addr_spec=recipient)
    mail["Subject"] = clip(message.title, _SUBJECT_CHARACTERS)
    mail["Date"] = message.at
    # SES sets the Message-ID itself. Mails that refer to the same id are grouped, even if no mail
    # with this id exists.
    mail["References"] = f"<{episode_hash}@gpu-governor.invalid>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(text)
    mail.add_alternative(page, subtype="html")
    return mail


def fitting(message: Message) -> tuple[str, str]:
    """Return the text and the HTML of a mail, in this order, shortened until the HTML has at most
    `_HTML_BYTES` bytes, or as short as they get."""
    for shown in message.shortened():
        values = {
            "message": shown,
            "footer": " · ".join(filter(None, ("GPU Governor", shown.reference))),
            "note_if_shortened": "" if shown is message else NOTE_IF_SHORTENED,
        }
        page = steady_page(_template("email.html").render(values), MAIL_ID_TAG)
        if len(page.encode()) <= _HTML_BYTES:
            break
    return _template("email.txt").render(values), page


@cache
def _template(name: str) -> Template:
    """Return the template of this file name in `templates`, loaded once."""
    folder = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=folder,
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
