"""Mail: readable with and without HTML, one link, nothing of others' text as markup."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from governor.alerts.model import Section, Severity
from governor.aws.clients import Clients
from governor.aws.messaging import SesMailService
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    Throttled,
    Unavailable,
)
from governor.notify.email import EmailChannel, email_document
from governor.notify.message import Chart, DeliveryRefused, DeliveryRetryable, Message, Table
from tests.unit.notify.builders import (
    EPISODE,
    FACTS,
    LINK,
    as_read,
    make_message,
    make_outcome,
)

SENDER, RECIPIENT = "governor@example.com", "ann@example.com"
EVIL = """<script>x</script><a href="https://evil.example">" onmouseover='x'"""


class Page(HTMLParser):
    """Links, tags and text of a mail, and the attributes of its chart."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.chart_attributes: set[str] = set()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps it."""
        values = dict(attrs)
        self.tags.add(tag)
        if tag == "a":
            self.links.append(values["href"] or "")
        if values.get("role") == "img":
            self.chart_attributes = set(values)

    def handle_data(self, data: str) -> None:
        """Keeps it."""
        self.text += data


@dataclass
class FakeMailService:
    """Takes every mail, or none."""

    error: CloudError | None = None
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)

    def send(self, sender: str, recipient: str, document: bytes) -> str:
        """As the Protocol says."""
        self.sent.append((sender, recipient, document))
        if self.error is not None:
            raise self.error
        return "0100-mail"


def parsed(message: Message) -> EmailMessage:
    """The mail as a mail program reads it."""
    document = email_document(message, sender=SENDER, recipient=RECIPIENT).as_bytes()
    mail = message_from_bytes(document, policy=default)
    assert isinstance(mail, EmailMessage)
    assert [] == mail.defects
    return mail


def body(mail: EmailMessage, kind: str) -> str:
    """The text of one form."""
    part = mail.get_body(preferencelist=(kind,))
    assert part is not None
    return as_read(str(part.get_content()))


def sent_html(mail: EmailMessage) -> str:
    """The HTML, byte for byte."""
    part = mail.get_body(preferencelist=("html",))
    assert part is not None
    return str(part.get_content())


def channel(error: CloudError | None = None) -> EmailChannel:
    """From the governor to Ann."""
    return EmailChannel(FakeMailService(error), sender=SENDER, recipient=RECIPIENT)


def test_both_forms_say_everything() -> None:
    """Title, facts, sections, evidence and the link: nothing is in one form only."""
    mail = parsed(make_message())
    for text in (Page(body(mail, "html")).text, body(mail, "plain")):
        for expected in (
            "notebook idle 6 h 40 min, $1,321/day. Stop it?",
            "notebook (i-0123456789abcdef0)",
            "$1,321 a day while it runs",
            "8 local NVMe volumes",
            "GPU utilization, last 60 min",
            "0.4%",
        ):
            assert expected in text
    assert LINK in body(mail, "plain").splitlines()


def test_there_is_one_button() -> None:
    """And no other link that somebody could press in its place."""
    page = Page(body(parsed(make_message()), "html"))
    assert [LINK] == page.links
    assert "Stop or keep it" in page.text
    assert [] == Page(body(parsed(make_message(link=None)), "html")).links
    assert "See the record" in Page(body(parsed(make_outcome()), "html")).text


def test_the_chart_needs_no_font_and_no_picture() -> None:
    """Cells with a background color, one a bar, that suit dark mode; a gap where no data is. In
    plain text it stays a line of characters."""
    mail = parsed(make_message(chart=Chart("Busiest GPU", "▁·█", "Busiest GPU by hour.")))

    assert ["multipart/alternative", "text/plain", "text/html"] == [
        part.get_content_type() for part in mail.walk()
    ]
    assert "Busiest GPU: ▁·█" in body(mail, "plain")
    html = body(mail, "html")
    cells = html.partition('class="bars"')[2].partition("</table>")[0].split("<td ")[1:]
    heights = [re.findall(r'class="bar" style="height:(\d+)px;background:#', one) for one in cells]
    assert [["5"], [], ["40"]] == heights
    assert re.search(r"prefers-color-scheme: dark.*\.bar { background: #\w+ !important", html, re.S)
    assert not set("▁▂▃▄▅▆▇█") & set(html)
    assert "<img" not in html


def test_a_screen_reader_hears_what_the_chart_shows() -> None:
    """Not the name of every block character."""
    html = body(parsed(make_message(chart=Chart("GPU", "▁▁█", "Busiest GPU"))), "html")

    assert 'role="img" aria-label="Busiest GPU"' in html


def test_text_of_others_is_never_markup() -> None:
    """Tags are shown as they are written, in every place."""
    message = make_message(
        title=EVIL,
        facts=replace(FACTS, instance_name=EVIL, owner=EVIL, project=EVIL),
        sections=(Section(EVIL, (EVIL,)),),
        evidence=Table(EVIL, (EVIL,), ((EVIL,),)),
        chart=Chart(EVIL, EVIL, EVIL),
        stage=EVIL,
    )
    page = Page(body(parsed(message), "html"))
    assert [LINK] == page.links
    assert "script" not in page.tags
    assert {"class", "role", "aria-label", "style"} == page.chart_attributes


@given(title=st.text(max_size=300), name=st.text(max_size=300))
def test_no_text_becomes_a_header(title: str, name: str) -> None:
    """A line break in a name would otherwise name another recipient."""
    evil = f"{title}\r\nBcc: eve@example.com\r\n\r\n{name}"
    mail = parsed(make_message(title=evil, facts=replace(FACTS, instance_name=evil), stage=evil))
    expected = {
        "From",
        "To",
        "Subject",
        "Date",
        "References",
        "Auto-Submitted",
        "X-Auto-Response-Suppress",
        "MIME-Version",
        "Content-Type",
    }
    assert expected == set(mail.keys())
    assert [RECIPIENT] == [address.addr_spec for address in mail["To"].addresses]


@given(
    lines=st.lists(st.text(max_size=3000), max_size=60),
    sections=st.integers(0, 30),
    rows=st.integers(0, 500),
)
def test_a_mail_is_never_so_long_that_its_end_is_hidden(
    lines: list[str], sections: int, rows: int
) -> None:
    """Button and facts are always there, and a mail that was cut says so."""
    message = make_message(
        sections=(Section("x" * 200, tuple(lines)),) * sections,
        evidence=Table("t", ("a", "b"), (("<" * 90, "ü" * 90),) * rows),
    )
    mail = parsed(message)
    html = body(mail, "html")
    page = Page(html)
    assert len(sent_html(mail).encode()) < 100_000
    assert [LINK] == page.links
    assert "notebook (i-0123456789abcdef0)" in page.text
    assert ("There is more" in page.text) == ("<table style" not in html)


def test_mails_of_an_episode_are_grouped() -> None:
    """By the same reference; those of another episode by another."""
    first, second = parsed(make_message()), parsed(make_outcome())
    other = parsed(make_message(episode=EPISODE + "0"))
    assert first["References"] == second["References"] != other["References"]


def test_mail_is_readable_in_the_dark() -> None:
    """Mail programs that know no dark mode ignore it."""
    html = body(parsed(make_message()), "html")
    assert "prefers-color-scheme: dark" in html
    assert '<meta name="color-scheme" content="light dark">' in html


@pytest.mark.parametrize(
    ("severity", "approval_id", "acts", "color"),
    [
        (Severity.INFO, None, False, "#1a7f37"),
        (Severity.WARNING, None, False, "#9a6700"),
        (Severity.CRITICAL, None, False, "#b42318"),
        (Severity.WARNING, "apr-1", False, "#1a7f37"),
        (Severity.CRITICAL, "apr-1", False, "#1a7f37"),
        (Severity.WARNING, "apr-1", True, "#b42318"),
    ],
)
def test_the_bar_beside_what_happens_is_green_only_where_nothing_is_wrong(
    severity: Severity, approval_id: str | None, acts: bool, color: str
) -> None:
    """A start that EC2 refused looked like good news. A question is green unless silence acts."""
    message = make_message(severity=severity, approval_id=approval_id, acts=acts)
    assert f"border-left:4px solid {color}" in body(parsed(message), "html")


def test_taken_is_what_the_service_says() -> None:
    """The id is the service's; mails have no thread that anybody must name."""
    service = FakeMailService()
    delivered = EmailChannel(service, sender=SENDER, recipient=RECIPIENT).send(make_message())
    ((sender, recipient, _),) = service.sent
    assert (SENDER, RECIPIENT) == (sender, recipient)
    assert ("0100-mail", None) == (delivered.delivery_id, delivered.thread)


@pytest.mark.parametrize(
    "error", [Throttled("x", code="TooManyRequestsException"), Unavailable("x")]
)
def test_what_may_pass_is_retryable(error: CloudError) -> None:
    """The sending rate is per second."""
    with pytest.raises(DeliveryRetryable, match=r"TooManyRequests|Unavailable"):
        channel(error).send(make_message())


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (CloudError(f"not verified: {RECIPIENT}", code="MessageRejected"), "sandbox"),
        (CloudError("x", code="SendingPausedException"), "resume"),
        (AccessDenied("x", code="AccessDeniedException"), "ses:SendRawEmail"),
        (CloudError("x", code="BadRequestException"), "documentation"),
    ],
)
def test_what_never_succeeds_says_what_to_do(error: CloudError, advice: str) -> None:
    """The service's own text holds addresses, and so neither it nor the error is passed on."""
    with pytest.raises(DeliveryRefused, match=advice) as refused:
        channel(error).send(make_message())
    assert RECIPIENT not in str(refused.value) + repr(channel())
    assert (None, True) == (refused.value.__cause__, refused.value.__suppress_context__)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "ann@example",
        "Ann <ann@example.com>",
        "ann@example.com, eve@example.com",
        "ann@example.com\n",
        "änn@example.com",
        "x" * 65 + "@example.com",
    ],
)
def test_an_address_is_one_plain_address(address: str) -> None:
    """A list or a name with an address could hide a second recipient."""
    for sender, recipient in ((address, RECIPIENT), (SENDER, address)):
        with pytest.raises(ConfigurationError, match=r"like name@example\.com"):
            EmailChannel(FakeMailService(), sender=sender, recipient=recipient)


@mock_aws
def test_ses_takes_it_from_a_verified_sender_only() -> None:
    """The adapter, with what SES says otherwise."""
    sender = EmailChannel(SesMailService(Clients()), sender=SENDER, recipient=RECIPIENT)
    with pytest.raises(DeliveryRefused, match="MessageRejected"):
        sender.send(make_message())
    boto3.client("ses").verify_email_identity(EmailAddress=SENDER)
    assert sender.send(make_message()).delivery_id


def test_times_and_ids_do_not_break_in_the_html_and_are_plain_in_the_text() -> None:
    """Text that a person copies has no special spaces; nothing is escaped twice."""
    line = "i-0123456789abcdef0 <b> stops at Sat 04:02 Berlin"
    mail = parsed(replace(make_message(), sections=(Section("Plan", (line,)),)))

    assert line in body(mail, "plain")
    tag = '<span style="display:inline-block;max-width:100%">'
    kept = f"{tag}i-0123456789abcdef0</span> &lt;b&gt; stops at Sat\u00a004:02\u00a0Berlin"
    assert kept in sent_html(mail)
