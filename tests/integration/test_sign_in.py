"""A stack with a sign-in in front of decisions, and an issuer that is as strict as a real one.

The client is a confidential one, so that its secret is on the way, too. The template's roles are
enforced.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest
import pytest_socket

from governor.approvals.model.terms import Role, SignedIn, SignIn
from governor.approvals.rules.links import LinkSigner
from governor.approvals.store.sessions import SignIns
from governor.aws.dynamodb import DynamoTable
from governor.aws.oidc import Client, OidcProvider
from governor.core.errors import IssuerUnavailable
from governor.web.sessions import SESSION_COOKIE, SESSION_LASTS, Session, Sessions
from local.demo.oidc import Issuer, OidcServer, Person
from local.demo.receivers import Receivers
from local.demo.samples import happening
from local.demo.scene import deploy_scene
from local.engine.cloud import LocalCloud
from tests.integration.people import Answer, Browser, hidden_fields
from tests.integration.stage import Stage

GROUP = "gpu-approvers"
ALICE = Person(
    "u-alice", {"email": "alice@example.com", "email_verified": True, "groups": ["gpu", GROUP]}
)
BOB = Person("u-bob", {"email": "bob@example.com", "email_verified": True, "groups": ["gpu"]})


@dataclass
class Place:
    """The stack, its issuer, and whom both are reached by."""

    stage: Stage
    issuer: Issuer
    trust: Path

    def browser(self) -> Browser:
        """A fresh one."""
        return Browser(self.trust)

    def reach(self, url: str) -> str:
        """An address of the API, from here."""
        return self.stage.scene.cloud.reachable_url(url)

    def to_issuer(self, browser: Browser, link: str) -> str:
        """Follows the page's link; the issuer's address."""
        found = re.search(r'href="(\.\./sign-in\?[^"]+)"', browser.get(link).body)
        assert found, "the page leads to no sign-in"
        begun = browser.get(urljoin(link, unescape(found[1])))
        assert 303 == begun.status
        return begun.location

    def to_callback(self, browser: Browser, link: str) -> str:
        """Signs in at the issuer; the address that it sends the browser back to."""
        answer = browser.get(self.to_issuer(browser, link))
        assert (302, []) == (answer.status, self.issuer.refused)
        assert answer.location.startswith(f"{self.issuer.redirect_uri}?")
        return answer.location

    def sign_in(self, browser: Browser, link: str) -> Answer:
        """The whole way, up to the answer of the callback."""
        return browser.get(self.reach(self.to_callback(browser, link)))


@pytest.fixture(scope="module")
def whole_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One engine, stack and issuer for all tests of this module."""
    pytest_socket.enable_socket()
    trust = tmp_path_factory.mktemp("trust") / "both.pem"
    with OidcServer() as server, Receivers() as receivers:
        trust.write_bytes(server.certificate.read_bytes() + receivers.certificate.read_bytes())
        issuer = server.issuer
        issuer.client_secret = "a secret: with/odd+signs"
        with LocalCloud(wait_scale=0.05, enforce_iam=True, trust=trust) as cloud:
            secret = cloud.client("secretsmanager").create_secret(
                Name="oidc-client", SecretString=json.dumps({"client_secret": issuer.client_secret})
            )
            parameters = {
                "OidcIssuer": issuer.url,
                "OidcClientId": issuer.client_id,
                "OidcClientSecretArn": secret["ARN"],
                "OidcApproverGroup": GROUP,
            }
            before = dict(os.environ)
            os.environ.update(cloud.environment())
            try:
                scene = deploy_scene(cloud, receivers, mode="ask", more=parameters)
                issuer.redirect_uri = scene.outputs["SignInRedirectUri"]
                yield Place(Stage(scene), issuer, trust)
            finally:
                os.environ.clear()
                os.environ.update(before)


@pytest.fixture(scope="module")
def question(whole_place: Place) -> tuple[str, str]:
    """An instance and the link of its question, for all tests that decide nothing."""
    whole_place.stage.policy("mode: ask")
    return whole_place.stage.ask()


@pytest.fixture
def place(whole_place: Place) -> Place:
    """With nothing left of the tests before, but their instances."""
    whole_place.stage.policy("mode: ask")
    issuer = whole_place.issuer
    issuer.person, issuer.algorithm = ALICE, "RS256"
    issuer.meddle.clear()
    issuer.refused.clear()
    return whole_place


def test_nothing_is_decided_without_a_sign_in_and_all_with_one(place: Place) -> None:
    """Look, be refused, sign in, come back to the same page, decide, be on record, sign out."""
    instance_id, link = place.stage.ask()
    browser = place.browser()
    assert "Sign in to decide" in browser.get(link).body
    assert 403 == browser.press(link, "approve", losses="accepted").status

    back = place.sign_in(browser, link)
    assert (303, link) == (back.status, place.reach(back.location))
    assert "Signed in as oidc:alice@example.com" in browser.get(link).body
    assert [SESSION_COOKIE] == list(browser.cookies)
    assert 303 == browser.press(link, "approve").status
    assert "stopped" == place.stage.outcome(instance_id)
    assert "Approved by alice@example.com (signed in)" in browser.get(link).body

    assert 303 == browser.press(link, "sign-out").status
    assert ({}, True) == (browser.cookies, "Sign in to start it again" in browser.get(link).body)


def test_two_people_sign_in_for_a_dear_termination(place: Place) -> None:
    """By the same link; the policy knows one by subject, the other by verified address."""
    # The engine that enforces roles takes no mail of this one: here it waits for other questions
    # meanwhile.
    approval = (
        "{two_people_above_usd_per_hour: 0.01, digest_after_seconds: 900, "
        "delivery_limit_minutes: 60}"
    )
    place.stage.policy(
        f"mode: ask\nplan: {{action: terminate}}\napproval: {approval}\n"
        "ownership:\n  default_contacts: [team]\n  contacts:\n    team:\n"
        "      emails: [alice@example.com, carol@example.com]\n"
        "      identities: {'oidc:u-carol': carol@example.com}\n"
    )
    instance_id, link = place.stage.ask()
    first, second = place.browser(), place.browser()
    place.sign_in(first, link)
    for _ in range(2):
        said = first.press(link, "approve", typed_instance_id=instance_id, losses="accepted")
        assert 303 == said.status
    assert "A second person must approve" in first.get(link).body

    place.issuer.person, place.issuer.algorithm = Person("u-carol", {"groups": GROUP}), "ES256"
    place.sign_in(second, link)
    assert "known as carol@example.com" in second.get(link).body
    assert 303 == second.press(link, "approve", typed_instance_id=instance_id).status
    assert "terminated" == place.stage.outcome(instance_id)


def test_the_wrong_group_may_keep_and_no_more(place: Place) -> None:
    """Whatever the form says."""
    instance_id, link = place.stage.ask()
    browser = place.browser()
    place.issuer.person = BOB
    place.sign_in(browser, link)
    page = browser.get(link).body

    refused = browser.press(link, "approve", losses="accepted")
    assert (403, True) == (refused.status, "not in the group" in refused.body)
    assert 403 == browser.press(link, "exempt", reason="mine").status
    until = re.search(r'<option value="([^"]+)"', page)
    assert until
    assert 303 == browser.press(link, "keep", keep_until=until[1]).status
    assert "kept" == place.stage.outcome(instance_id)


def test_a_code_is_no_use_to_anybody_else_nor_twice(
    place: Place, question: tuple[str, str]
) -> None:
    """In another browser, and again in the same one with what belonged to the sign-in kept."""
    _, link = question
    browser, other = place.browser(), place.browser()
    callback = place.reach(place.to_callback(browser, link))
    kept = dict(browser.cookies)

    assert 403 == other.get(callback).status
    place.to_issuer(other, link)
    assert 403 == other.get(callback).status
    assert 303 == browser.get(callback).status
    thief = place.browser()
    thief.cookies = kept
    replayed = thief.get(callback)

    assert (403, ["invalid_grant"]) == (replayed.status, place.issuer.refused)
    assert (SESSION_COOKIE in other.cookies, SESSION_COOKIE in thief.cookies) == (False, False)


def test_forged_states_tokens_and_refusals_sign_nobody_in(
    place: Place, question: tuple[str, str]
) -> None:
    """A state of another sign-in, a nonce of another, another client's token, and a no."""
    _, link = question
    browser = place.browser()
    code = parse_qs(urlsplit(place.to_callback(browser, link)).query)["code"][0]
    forged = f"{place.issuer.redirect_uri}?{urlencode({'code': code, 'state': 's' * 43})}"
    assert 403 == browser.get(place.reach(forged)).status

    for meddle in (
        {"nonce": "n" * 43},
        {"aud": "another"},
        {"iss": "https://other.invalid"},
        {"exp": 1},
    ):
        place.issuer.meddle = dict(meddle)
        assert (403, meddle) == (place.sign_in(browser, link).status, meddle)
    place.issuer.meddle = {}
    place.issuer.algorithm = "HS256"
    assert 403 == place.sign_in(browser, link).status
    place.issuer.person = None
    refused = place.sign_in(browser, link)

    assert (403, True) == (refused.status, "It says access_denied." in refused.body)
    assert {} == browser.cookies


def test_keys_that_the_issuer_has_changed_are_found(
    place: Place, question: tuple[str, str]
) -> None:
    """Without waiting for anything."""
    _, link = question
    assert 303 == place.sign_in(place.browser(), link).status
    place.issuer.rotate()

    assert 303 == place.sign_in(place.browser(), link).status


def test_an_expired_or_ended_session_decides_nothing(
    place: Place, question: tuple[str, str]
) -> None:
    """Nor does one that is sealed by the right keys for another client, or is not stored."""
    instance_id, link = question
    issuer, now = place.issuer, datetime.now(tz=UTC)
    signer = LinkSigner(place.stage.link_keys, None)
    stored = SignIns(DynamoTable(place.stage.clients, place.stage.scene.outputs["StateTableName"]))
    alice = SignedIn("u-alice", "alice@example.com", Role.APPROVER)
    who = SignIn(alice.identity, alice.by, now, now + SESSION_LASTS, alice.email, (), alice.role)
    stored.keep_session("live", who)
    stored.keep_session("ended", who)
    stored.end_session("ended", now)
    scope = (issuer.url, issuer.client_id, "groups", GROUP)
    for session_id, rests_on, begun, good in (
        ("live", scope, now - SESSION_LASTS, False),
        ("live", (issuer.url, "another", "groups", GROUP), now, False),
        ("ended", scope, now, False),
        ("unknown", scope, now, False),
        ("live", scope, now, True),
    ):
        browser = place.browser()
        browser.keep(Sessions(signer, rests_on).cookie(Session(session_id, alice), begun))
        assert good == ("Signed in as" in browser.get(link).body)
        if not good:
            fields = hidden_fields(browser.get(link).body)
            assert (
                403
                == browser.post(link, {**fields, "answer": "approve", "losses": "accepted"}).status
            )
    assert place.stage.episode(instance_id).outcome is None


@pytest.mark.parametrize(
    "target", ["https://evil.invalid/", "//evil.invalid", "id?k=k1&r=a&e=9999999999&s=x", ""]
)
def test_a_sign_in_leads_nowhere_but_back(place: Place, target: str) -> None:
    """Nothing is begun for an address that is no link of ours."""
    api = urljoin(place.reach(place.issuer.redirect_uri), "../sign-in")
    answer = place.browser().get(f"{api}?{urlencode({'return': target})}")

    assert (403, "") == (answer.status, answer.location)
    assert "evil" not in answer.body


def test_an_issuer_that_cannot_be_reached_or_trusted_is_told(place: Place) -> None:
    """A certificate that nobody vouches for, and a port where nobody listens."""

    def begin(issuer: str) -> None:
        where = {
            "state": "s",
            "nonce": "n",
            "verifier": "v",
            "redirect_uri": "https://api.example.com",
        }
        OidcProvider(Client(issuer, "gpu-governor")).authorization_url(**where, fresh=False)

    with pytest.raises(IssuerUnavailable, match="SSLError"):
        begin(place.issuer.url)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(IssuerUnavailable, match="did not answer"):
            begin(f"https://127.0.0.1:{port}")


def test_the_sample_of_the_sign_in_leads_to_the_issuer(place: Place) -> None:
    """`events/sign_in/begin.json`, made ready as `make invoke` does: its link is signed. As they
    are, all are refused and write nothing."""
    sample = json.loads((Path(__file__).parents[2] / "events/sign_in/begin.json").read_text())
    event, _ = happening(place.stage.scene, "sign_in", sample, datetime.now(tz=UTC))

    answer, raised = place.stage.invoke("SignIn", event)

    assert (False, 303) == (raised, answer["statusCode"])
    assert answer["headers"]["Location"].startswith(place.issuer.url)
    scene = place.stage.scene
    table, dynamodb = scene.outputs["StateTableName"], scene.cloud.client("dynamodb")
    # Others write meanwhile: a sign-in may write sessions alone.
    sessions = {
        "TableName": table,
        "FilterExpression": "begins_with(pk, :sessions)",
        "ExpressionAttributeValues": {":sessions": {"S": "SESSION#"}},
    }
    before = dynamodb.scan(**sessions)["Count"]
    as_they_are = Path(__file__).parents[2].glob("events/sign_in/*.json")
    refused = [place.stage.invoke("SignIn", json.loads(one.read_text()))[0] for one in as_they_are]
    assert {403, None} == {one.get("statusCode") for one in refused}
    assert before == dynamodb.scan(**sessions)["Count"]
