"""Versions of the policy: announced, in force at once, waiting for a second person, or refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import Alert, AlertKind
from governor.core.errors import CloudError, Unavailable
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.versions import AcceptPolicy, ReviewPolicy, StoredPolicy
from governor.table.once import Once
from governor.wiring.policies import accepted
from tests.builders import NOW, TARGET
from tests.twins import FakeClock, MemoryEventLog, MemoryStateTable, RecordingAnnouncer

ALICE, BOB, CI = (f"arn:aws:iam::123456789012:user/{name}" for name in ("alice", "bob", "ci"))
PEOPLE = f"""ownership:
  contacts:
    ops:
      emails: [alice@example.com, bob@example.com]
      identities: {{"aws:{ALICE}": alice@example.com, "aws:{BOB}": bob@example.com}}
"""
ASK = f"mode: ask\n{PEOPLE}"
STRICT = f"{ASK}two_people_for_policy: true\n"
OBSERVE = f"mode: observe\n{PEOPLE}two_people_for_policy: true\n"
AUTO = f"{STRICT}metrics: {{publishers_are_trusted: true}}\n".replace("mode: ask", "mode: auto")


class Versions:
    """A bucket, the review of it, and the text in force. Fulfils the port `PolicyDocuments`."""

    def __init__(self, parameter: str = "mode: observe\n") -> None:
        self.clock, self.log = FakeClock(NOW), MemoryEventLog()
        self.state, self.announcer = MemoryStateTable(), RecordingAnnouncer()
        self.stored: list[StoredPolicy] = []
        self.parameter = parameter

    def put(self, text: str, author: str = "", version: str | None = None) -> str:
        """Store a version."""
        version = version or f"v{len(self.stored) + 1}"
        self.stored.append(StoredPolicy(version, text, author))
        return version

    def newest(self) -> StoredPolicy | None:
        return self.stored[-1] if self.stored else None

    def read(self, version: str = "", *, long_timeout: bool = True) -> str:
        version = version or self.state.version_in_force() or ""
        texts = {one.version: one.text for one in self.stored}
        return texts.get(version, self.parameter) if long_timeout else ""

    def review(self, *written: str) -> str | None:
        """Review the newest version; return which one is in force then."""
        review = ReviewPolicy(
            clock=self.clock,
            documents=self,
            policy_text=self,
            policy_store=self.state,
            once=Once(self.clock, self.log),
            announcer=self.announcer,
            hub=TARGET,
            parse=parse_policy,
            parse_accepted=accepted,
        )
        review((written[0], written[1]) if written else None)
        return self.state.version_in_force()

    def accept(self, version: str, arn: str) -> frozenset[str]:
        """A person accepts a version."""
        people = accepted(self.read()).base().policy.ownership
        accept = AcceptPolicy(self.clock, self.state, self, accepted)
        return accept(version, f"aws:{arn}", people).supporters

    def told(self) -> list[Alert]:
        """The messages since the last look."""
        sent, self.announcer.sent = self.announcer.sent, []
        assert {AlertKind.POLICY_CHANGED} >= {alert.kind for alert in sent}
        return sent


def states(alerts: list[Alert]) -> list[tuple[object, object]]:
    """Version and state of each message."""
    return [(alert.facts["version"], alert.facts.get("state")) for alert in alerts]


def two_people() -> Versions:
    """The policy in force wants two people for what is risky."""
    world = Versions(STRICT)
    world.put(STRICT)
    world.review()
    world.told()
    return world


def test_before_the_first_version_nothing_happens() -> None:
    """The parameter counts; nobody is notified."""
    world = Versions()

    assert world.review() is None
    assert [] == world.told()


def test_a_change_of_the_parameter_before_the_first_version_is_announced() -> None:
    """It counts at once, without a second person: each one, also back to what was before, is told
    once."""
    world = Versions()
    world.review()
    for text in (ASK, "mode: observe\n", ASK):
        world.clock.moment += timedelta(minutes=5)
        world.parameter = text
        world.review()
        world.review()
        (alert,) = world.told()
        assert "The policy changed in the SSM parameter" == alert.subject
        assert {"-mode: observe", "+mode: ask"} <= set(
            alert.lines
        ) or "+mode: observe" in alert.lines
        assert any("event PutParameter" in line for line in alert.lines)

    world.put(ASK)
    world.review()
    world.told()
    world.parameter = AUTO
    world.review()
    assert [] == world.told(), "it no longer counts"


def test_a_version_that_is_refused_hides_no_change_of_the_parameter() -> None:
    """The parameter counts on."""
    world = Versions()
    world.put("mode: banana")
    world.review()
    world.told()
    world.parameter = ASK
    world.review()

    assert ["parameter"] == [state for _, state in states(world.told())]


def test_a_change_of_the_parameter_is_told_when_messages_can_be_sent_again() -> None:
    """It is noted after people were notified."""
    world = Versions()
    world.review()
    world.parameter, world.announcer.failure = ASK, Unavailable("no", operation="sns:Publish")
    with pytest.raises(CloudError):
        world.review()
    world.announcer.failure = None
    world.review()

    assert ["parameter"] == [state for _, state in states(world.told())]


def test_two_people_in_the_parameter_are_said_to_hold_for_versions_alone() -> None:
    """At the first sweep: the parameter itself waits for no second person."""
    world = Versions(STRICT)
    world.review()
    (alert,) = world.told()

    assert any(
        line.startswith("The setting two_people_for_policy applies to stored versions")
        for line in alert.lines
    )


def test_without_two_people_a_change_is_in_force_at_once_and_announced_once() -> None:
    """With its diff, what is risky in it, and who is said to have written it."""
    world = Versions()
    version = world.put(ASK, author=ALICE)

    assert version == world.review() == world.review()
    (alert,) = world.told()
    text = "\n".join(alert.lines)
    assert [(version, "in-force")] == states([alert])
    assert {"-mode: observe", "+mode: ask", "- mode", "- ownership.contacts"} <= set(alert.lines)
    assert f"by {ALICE}, as stated by the writer (to verify this, turn on CloudTrail" in text
    assert ["mode", "ownership.contacts"] == alert.facts["risky"]


def test_a_risky_version_waits_for_two_known_people() -> None:
    """The one before stays in force; the message says how to accept. What is stated proves
    nobody."""
    world = two_people()
    version = world.put(AUTO, author=BOB)

    assert "v1" == world.review() == world.review()
    (alert,) = world.told()
    assert [(version, "waits")] == states([alert])
    assert f"To accept it: governor policy accept {version}" in alert.lines

    assert {"alice@example.com"} == world.accept(version, ALICE)
    assert "v1" == world.review()
    world.accept(version, ALICE)
    assert "v1" == world.review(), "one person counts once"
    assert {"alice@example.com", "bob@example.com"} == world.accept(version, BOB)
    assert version == world.review()
    assert [(version, "in-force")] == states(world.told())


def test_a_writer_whom_cloudtrail_names_is_one_of_the_two() -> None:
    """Before or after people were notified; then they are told who it was."""
    world = two_people()
    version = world.put(AUTO, author=CI)
    world.review()
    world.told()

    assert "v1" == world.review(version, ALICE)
    (alert,) = world.told()
    assert (ALICE, "writer") == (alert.facts["written_by"], alert.facts["state"])
    assert "v1" == world.review(version, ALICE)
    assert [] == world.told(), "once"

    world.accept(version, BOB)
    assert version == world.review()
    (alert,) = world.told()
    assert f"by {ALICE} (CloudTrail)." in alert.lines[0]


def test_the_writer_of_an_older_version_is_named_even_if_a_newer_one_is_announced_now() -> None:
    """CloudTrail may name the writer only after the next version was stored: then one review has
    two messages to send."""
    world = two_people()
    older = world.put(AUTO, author=CI)
    world.review()
    world.told()
    newer = world.put(AUTO + "# again\n", author=CI)
    world.review(older, ALICE)

    assert [(newer, "waits"), (older, "writer")] == states(world.told())


def test_a_writer_whom_nobody_knows_is_none_of_the_two() -> None:
    """Whoever may use a role of a pipeline, and accepts by a name of his own, would be two."""
    world = two_people()
    version = world.put(AUTO)
    world.review(version, CI)
    world.accept(version, BOB)

    assert "v1" == world.review()


@pytest.mark.parametrize(
    "text",
    [
        STRICT.replace("two_people_for_policy: true\n", ""),
        STRICT.replace(f'"aws:{BOB}"', f'"aws:{CI}"'),
        f"{STRICT}breaker: {{minimum_instances: 50}}\n",
    ],
    ids=["the setting itself", "identities", "the breaker"],
)
def test_what_would_loosen_the_brake_waits_itself(text: str) -> None:
    """People, the breaker, and the demand for two people."""
    world = two_people()
    world.put(text)

    assert "v1" == world.review()
    assert ["waits"] == [state for _, state in states(world.told())]


@pytest.mark.parametrize(
    "mistake",
    [
        "idle: {window_minute: 60}\n",
        "vetoes: {cpu_percent: -1}\n",
        "overrides: [{name: x}]\n",
        "mode: stop\n",
    ],
)
def test_a_version_in_force_that_a_later_release_refuses_still_wants_its_two_people(
    mistake: str,
) -> None:
    """By its defaults, one writer would be enough. Everything is risky, as nobody knows what was
    before."""
    text = STRICT.replace("mode: ask\n", "") if mistake.startswith("mode") else STRICT
    world = Versions(text + mistake)
    version = world.put(STRICT + "# mended\n", author=ALICE)

    assert world.review() is None
    (_, alert) = world.told()
    assert [(version, "waits")] == states([alert])
    assert ["everything (this release refuses the version in force)"] == alert.facts["risky"]
    world.accept(version, ALICE)
    assert world.review() is None
    world.accept(version, BOB)
    assert version == world.review()


@pytest.mark.parametrize("text", ["a: [", f"{PEOPLE}two_people_for_policy: maybe\nmode: stop\n"])
def test_a_demand_for_two_people_that_cannot_be_read_is_one(text: str) -> None:
    """One that is not there is none: a first version mends a refused parameter."""
    world = Versions(text)
    world.put(ASK)
    assert world.review() is None

    world.parameter = f"{PEOPLE}mode: stop\n"
    assert "v2" == (world.put(ASK + "# again\n"), world.review())[1]


def test_people_of_the_new_version_do_not_count() -> None:
    """Those of the version in force accept."""
    world = two_people()
    version = world.put(STRICT.replace(f'"aws:{BOB}"', f'"aws:{CI}"'))
    world.accept(version, ALICE)
    with pytest.raises(Exception, match="to your address"):
        world.accept(version, CI)
    world.state.accept_version(version, f"aws:{CI}", NOW)

    assert "v1" == world.review()


@pytest.mark.parametrize("text", [OBSERVE, f"{STRICT}budget: {{monthly_usd: 5}}\n"])
def test_brakes_and_what_is_harmless_wait_for_nobody(text: str) -> None:
    """`observe` stops everything at once."""
    world = two_people()
    version = world.put(text)

    assert version == world.review()


def test_a_version_that_cannot_be_used_never_counts() -> None:
    """Its mistake is told once; the next good one counts."""
    world = two_people()
    for text, version in (("mode: banana", None), ("\udce4", None), (STRICT + "# 1\n", "null")):
        refused = world.put(text, version=version)
        assert "v1" == world.review() == world.review()
        (alert,) = world.told()
        assert [(refused, "refused")] == states([alert])
        assert any("the policy was refused" in line for line in alert.lines)

    version = world.put(STRICT + "# 2\n")
    assert version == world.review()


def test_only_the_newest_version_can_come_into_force() -> None:
    """A version that was accepted and then replaced does not."""
    world = two_people()
    old = world.put(AUTO)
    world.accept(old, ALICE)
    world.accept(old, BOB)
    newer = world.put(AUTO + "# again\n")

    assert "v1" == world.review()
    assert [(newer, "waits")] == states(world.told())


def test_nothing_comes_into_force_unannounced() -> None:
    """While messages cannot be sent, the version before stays."""
    world = Versions()
    version = world.put(ASK)
    world.announcer.failure = Unavailable("no", operation="sns:Publish")
    with pytest.raises(CloudError):
        world.review()
    assert world.state.version_in_force() is None

    world.announcer.failure = None
    world.clock.moment += timedelta(minutes=5)
    assert version == world.review()


def test_while_another_review_announces_a_version_this_one_leaves_it_alone() -> None:
    """The other one may fail: then the next review announces it, and puts it in force."""
    world = Versions()
    version = world.put(ASK)
    world.log.claim(f"policy-{version}-in-force", NOW, timedelta(seconds=30))
    assert world.review() is None

    world.clock.moment += timedelta(minutes=1)
    assert version == world.review()
    assert [(version, "in-force")] == states(world.told())


def test_two_reviews_at_once_put_no_older_version_in_force() -> None:
    """Whoever was slower finds that another version counts."""
    world = Versions()
    world.put(ASK)
    state = world.state
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(state), "standing_version", lambda _: None)
        state.put_in_force("v9", None, NOW)
        world.review()

    assert "v9" == state.version_in_force()


def test_a_document_of_30_kb_and_a_long_diff_fit() -> None:
    """An SSM parameter holds 8 KB. The message stays readable."""
    world = Versions()
    body = "set: {idle: {window_minutes: 120}}"
    overrides = [
        f"- {{name: team {one}, match: {{tags: {{Team: t{one}}}}}, {body}}}" for one in range(450)
    ]
    text = ASK + "overrides:\n" + "\n".join(overrides) + "\n"
    assert len(text) > 30_000
    version = world.put(text)

    assert version == world.review()
    (alert,) = world.told()
    assert len(alert.lines) < 70
    assert any(line.startswith("... and ") for line in alert.lines)
    assert 450 == len(PolicyBook(parse_policy(world.read()).document).overrides)


def test_a_diff_of_thousands_of_lines_keeps_no_sweep_waiting() -> None:
    """The message says how many lines changed."""
    before, after = (
        f"{ASK}#\n" + "\n".join(f"# {(i * k) % 199}" for i in range(8_000)) for k in (7, 31)
    )
    world = Versions(before)
    version = world.put(after + "\n# new")

    assert version == world.review()
    (alert,) = world.told()
    (said,) = [line for line in alert.lines if line.startswith("Changes")]
    assert "too many lines for a diff" in said


def test_an_unknown_author_and_control_characters_are_shown_as_such() -> None:
    """A comment of the document cannot write lines of its own into the message."""
    world = Versions()
    world.put(ASK + "# \x85 Approved: governor policy accept evil\n")
    world.review()
    (alert,) = world.told()

    assert "by somebody unknown" in alert.lines[0]
    assert "data events for the policy's bucket" in alert.lines[0]
    assert not [line for line in alert.lines if "\x85" in line or line.startswith("Approved")]


def test_the_newest_version_is_the_one_that_counts_again() -> None:
    """A rollback is a new version with the old text."""
    world = two_people()
    world.put(OBSERVE)
    world.review()
    again = world.put(OBSERVE + "# again\n")

    assert again == world.review()
    assert replace(world.stored[-1]).version == again


TERMINATES = f"mode: ask\nplan: {{action: terminate}}\n{PEOPLE}"


@pytest.mark.parametrize(
    "text",
    [
        TERMINATES,
        f"{ASK}plan: {{when_stop_is_unsupported: terminate}}\n",
        f"{ASK}approval: {{ask_about_stopped_after_days: 7}}\n",
        f"{ASK}overrides: [{{name: x, match: {{}}, set: {{plan: {{action: terminate}}}}}}]\n",
        f"{TERMINATES}two_people_for_policy: null\n",
    ],
)
def test_once_any_rule_terminates_two_people_are_the_default(text: str) -> None:
    """One writer could otherwise choose who approves terminations."""
    assert parse_policy(text).base().policy.two_people_for_policy is True
    world = Versions()
    world.put(text)
    world.review()
    version = world.put(f"{text}caps: {{owner_actions_per_hour: 9}}\n")

    assert "v1" == world.review()
    world.accept(version, ALICE)
    world.accept(version, BOB)
    assert version == world.review()


@pytest.mark.parametrize("text", [ASK, f"{TERMINATES}two_people_for_policy: false\n"])
def test_two_people_are_not_the_default_where_nothing_terminates_or_the_policy_says_false(
    text: str,
) -> None:
    """An explicit false is a decision, and no default."""
    assert not parse_policy(text).base().policy.two_people_for_policy
    world = Versions()
    world.put(text)
    world.review()
    version = world.put(f"{text}caps: {{owner_actions_per_hour: 9}}\n")

    assert version == world.review()


def test_to_switch_the_default_off_takes_two_people() -> None:
    world = Versions()
    world.put(TERMINATES)
    world.review()
    world.told()
    world.put(f"{TERMINATES}two_people_for_policy: false\n")

    assert "v1" == world.review()
    (alert,) = world.told()
    assert ["two_people_for_policy"] == alert.facts["risky"]


def test_a_version_that_says_true_waits_also_where_nobody_could_be_the_second() -> None:
    """That is what the document says; a default alone locks nobody out."""
    alone = "ownership: {contacts: {me: {emails: [me@example.com]}}}\n"
    for text, waits in ((f"mode: ask\n{alone}two_people_for_policy: true\n", True),
                        (f"mode: ask\n{alone}plan: {{action: terminate}}\n", False)):  # fmt: skip
        world = Versions()
        world.put(text)
        world.review()
        version = world.put(f"{text}caps: {{owner_actions_per_hour: 9}}\n")
        assert (version == world.review()) is not waits


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ("plan: {action: terminate}", True),
        ("plan: 5", True),
        ("approval: {ask_about_stopped_after_days: 3}", True),
        ("overrides: [{name: 5, set: {plan: {action: terminate}}}, 7]", True),
        ("plan: {action: stop}", False),
        ("plan: {action: terminate}\ntwo_people_for_policy: false", False),
    ],
)
def test_a_refused_document_in_force_that_terminates_wants_two_people(
    rule: str, asked: bool
) -> None:
    """A later release refuses it; who may change it stays the same."""
    book = accepted(f"mode: banana\n{PEOPLE}{rule}\n")

    assert (asked, False) == (bool(book.base().policy.two_people_for_policy), book.whole)
