"""The OIDC adapter against an issuer as strict as a real one: what does not prove who it is, is
refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils

from governor.aws.oidc import Client, OidcProvider
from governor.core.errors import ConfigurationError, IssuerUnavailable, SignInRefused
from governor.core.https import HttpAnswer, Https
from local.demo.oidc import Issuer, Person

URL = "https://issuer.example.com"
CALLBACK = "https://api.example.com/sign-in/callback"
NONCE, STATE, VERIFIER = "n" * 43, "s" * 43, "v" * 43
ALICE = Person("u-alice", {"email": "alice@example.com", "email_verified": True, "groups": ["gpu"]})


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    """Return a key, another one for each number. To make one takes as long as ten tests."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(autouse=True)
def _issuers_share_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the issuers of a test one key after the other, the same as in other tests."""
    numbers = count()
    monkeypatch.setattr(Issuer, "new_rsa_key", lambda _: rsa_key(next(numbers)))


class Wire(Https):
    """Gives what would go over the network to a function of address, form and headers."""

    def __init__(self, fetch: Callable[..., tuple[int, bytes]]) -> None:
        self.fetch = fetch

    def send(
        self, method: str, url: str, body: str | bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        assert ("POST" if body else "GET") == method
        form = dict(parse_qsl(str(body), strict_parsing=True)) if body else None
        status, answer = self.fetch(url, form, headers)
        return HttpAnswer(status, {}, answer)


@dataclass
class World:
    """A provider whose requests end at an issuer in memory."""

    secret: str = ""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.issuer = Issuer(URL, CALLBACK, client_secret=self.secret)
        self.issuer.person = ALICE
        self.changed: dict[str, Any] = {}
        read = (lambda: {"client_secret": self.secret}) if self.secret else None
        self.provider = self.made(Client(URL, "gpu-governor", read))

    def made(self, client: Client) -> OidcProvider:
        """Another provider of the same issuer."""
        return OidcProvider(client, Wire(self.fetch), elapsed=lambda: self.seconds)

    def fetch(
        self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """As over the network."""
        path = url.removeprefix(URL)
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        if form is None:
            reply = self.issuer.get(path, {})
            if path.startswith("/.well-known") and self.changed:
                return 200, json.dumps({**self.issuer.document(), **self.changed}).encode()
            return reply.status, reply.body
        sent = {name.lower(): value for name, value in headers.items()}
        reply = self.issuer.post(path, sent, form)
        return reply.status, reply.body

    def authorized(self, provider: OidcProvider | None = None) -> dict[str, str]:
        """Return what a browser brings back from the issuer."""
        address = (provider or self.provider).authorization_url(
            state=STATE, nonce=NONCE, verifier=VERIFIER, redirect_uri=CALLBACK, fresh=False
        )
        parts = urlsplit(address)
        reply = self.issuer.get(parts.path, dict(parse_qsl(parts.query)))
        return dict(parse_qsl(urlsplit(reply.headers["Location"]).query))

    def redeem(self, code: str | None = None, **changes: str) -> Mapping[str, object]:
        """Hands in a code."""
        code = self.authorized()["code"] if code is None else code
        given = {"nonce": NONCE, "verifier": VERIFIER, "redirect_uri": CALLBACK, **changes}
        return self.provider.redeem(code=code, **given)


@pytest.mark.parametrize("secret", ["", "a secret: with/odd+signs"])
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_code_becomes_claims(secret: str, algorithm: str) -> None:
    """Codes of public and confidential clients, with both kinds of keys."""
    world = World(secret)
    world.issuer.algorithm = algorithm

    claims = world.redeem()

    assert ("u-alice", ["gpu"]) == (claims["sub"], claims["groups"])
    assert [] == world.issuer.refused


def test_a_fresh_proof_is_a_new_one_and_has_its_time() -> None:
    """`max_age` alone lets somebody through who signed in 14 minutes ago; `prompt` alone asks for
    no time."""
    world = World()
    where = {"state": STATE, "nonce": NONCE, "verifier": VERIFIER, "redirect_uri": CALLBACK}
    plain, fresh = (
        dict(parse_qsl(urlsplit(world.provider.authorization_url(**where, fresh=fresh)).query))
        for fresh in (False, True)
    )
    assert {**plain, "prompt": "login", "max_age": "900"} == fresh


def test_the_state_comes_back() -> None:
    """And nothing of the verifier goes to the browser."""
    world = World()
    address = world.provider.authorization_url(
        state=STATE, nonce=NONCE, verifier=VERIFIER, redirect_uri=CALLBACK, fresh=False
    )

    assert STATE == world.authorized()["state"]
    assert VERIFIER not in address


@pytest.mark.parametrize(
    ("wants", "offered", "scope"),
    [
        (True, ["openid", "groups"], "openid email groups"),
        (True, ["openid"], "openid email"),
        (True, None, "openid email"),
        (False, ["openid", "groups"], "openid email"),
    ],
)
def test_groups_are_asked_for_where_they_are_needed_and_offered(
    wants: bool, offered: list[str] | None, scope: str
) -> None:
    """Some issuers refuse a scope that they do not know."""
    world = World()
    world.changed["scopes_supported"] = offered
    provider = world.made(Client(URL, "gpu-governor", wants_groups=wants))
    address = provider.authorization_url(
        state=STATE, nonce=NONCE, verifier=VERIFIER, redirect_uri=CALLBACK, fresh=False
    )

    assert scope == dict(parse_qsl(urlsplit(address).query))["scope"]


def test_a_code_is_good_once() -> None:
    """A second time it proves nothing."""
    world = World()
    code = world.authorized()["code"]
    world.redeem(code)

    with pytest.raises(SignInRefused, match="any more"):
        world.redeem(code)


def test_a_stolen_code_needs_the_verifier() -> None:
    """PKCE: whoever did not begin the sign-in cannot end it."""
    with pytest.raises(SignInRefused):
        World().redeem(verifier="w" * 43)


@pytest.mark.parametrize(
    "meddle",
    [
        {"nonce": "m" * 43},
        {"nonce": None},
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"aud": "another-client"},
        {"aud": None},
        {"aud": ["gpu-governor", "another-client"]},
        {"aud": ["gpu-governor", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"iat": None},
        {"nbf": 4_000_000_000},
        {"sub": None},
    ],
    ids=str,
)
def test_a_token_that_does_not_hold_is_refused(meddle: dict[str, object]) -> None:
    """Each claim that must be right, wrong or missing."""
    world = World()
    world.issuer.meddle = meddle

    with pytest.raises(SignInRefused):
        world.redeem()


def test_a_token_for_several_clients_names_us() -> None:
    """By `azp`."""
    world = World()
    world.issuer.meddle = {"aud": ["gpu-governor", "another-client"], "azp": "gpu-governor"}

    assert "u-alice" == world.redeem()["sub"]


def answer_with(world: World, token: str) -> None:
    """The token endpoint hands this out."""
    world.answers["/token"] = 200, json.dumps({"id_token": token}).encode()


def test_a_signature_of_somebody_else_is_refused() -> None:
    """The right name of a key, another key."""
    world = World()
    kid = world.issuer.keys()["keys"][0]["kid"]
    forger = Issuer(URL, CALLBACK)
    forged = jwt.encode(
        jwt.decode(forger.token(ALICE, NONCE), options={"verify_signature": False}),
        forger._rsa,
        algorithm="RS256",
        headers={"kid": kid},
    )
    answer_with(world, forged)

    with pytest.raises(SignInRefused, match="InvalidSignatureError"):
        world.redeem("code")


def test_no_algorithm_of_the_token_s_own_choice() -> None:
    """None at all, and the public key as if it were a shared secret."""
    world = World()
    claims = jwt.decode(world.issuer.token(ALICE, NONCE), options={"verify_signature": False})
    kid = world.issuer.keys()["keys"][0]["kid"]
    for token in (
        jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
        jwt.encode(claims, "s" * 64, algorithm="HS256", headers={"kid": kid}),
        jwt.encode(claims, "s" * 64, algorithm="HS256"),
    ):
        answer_with(world, token)
        with pytest.raises(SignInRefused, match="algorithm"):
            world.redeem("code")


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits:jwt.warnings.InsecureKeyLengthWarning")
def test_a_key_that_is_too_short_proves_nothing() -> None:
    """RSA keys have 2,048 bits at least (RFC 7518, 3.3)."""
    world = World()
    world.issuer._rsa = rsa.generate_private_key(public_exponent=65537, key_size=1024)

    with pytest.raises(SignInRefused, match="InvalidKeyError"):
        world.redeem()


@pytest.mark.parametrize("token", ["", "a.b.c", "é", "e30.e30.e30"])
def test_what_is_no_token_is_refused(token: str) -> None:
    """Without a stack trace for the person."""
    world = World()
    answer_with(world, token)

    with pytest.raises(SignInRefused):
        world.redeem("code")


def test_new_keys_of_the_issuer_are_found() -> None:
    """At once; documents are asked for again after an hour, and no sooner."""
    world = World()
    world.redeem()
    world.redeem()
    assert 1 == world.asked.count("/keys")
    world.issuer.rotate()
    world.redeem()
    assert 2 == world.asked.count("/keys")

    before = world.asked.count("/.well-known/openid-configuration")
    world.seconds = 3600.0
    world.redeem()
    assert (1, 2) == (before, world.asked.count("/.well-known/openid-configuration"))


def test_a_token_without_a_key_s_name_needs_an_issuer_without_a_choice() -> None:
    """One key that fits is enough; of two, none is tried."""
    world = World()
    claims = jwt.decode(world.issuer.token(ALICE, NONCE), options={"verify_signature": False})
    answer_with(world, jwt.encode(claims, world.issuer._rsa, algorithm="RS256"))
    assert "u-alice" == world.redeem("code")["sub"]

    keys = [*world.issuer.keys()["keys"], *Issuer(URL, CALLBACK).keys()["keys"]]
    world.answers["/keys"] = 200, json.dumps({"keys": keys}).encode()
    world.seconds = 3600.0
    with pytest.raises(SignInRefused, match="does not publish"):
        world.redeem("code")


def test_a_symmetric_key_is_never_a_key() -> None:
    """Not even one that the issuer publishes under the right name."""
    world = World()
    kid = world.issuer.keys()["keys"][0]["kid"]
    keys = {
        "keys": [
            {"kty": "oct", "k": "c2VjcmV0", "kid": kid},
            {"kty": "RSA", "use": "enc", "kid": kid},
            7,
        ]
    }
    world.answers["/keys"] = 200, json.dumps(keys).encode()

    with pytest.raises(SignInRefused, match="does not publish"):
        world.redeem()


ODD_KEYS: list[object] = [
    7,
    None,
    "RSA",
    {},
    {"kty": []},
    {"kty": "RSA"},
    {"kty": "RSA", "n": 7, "e": 8},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": ["RS256"]},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": {"name": "RS256"}},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RS1"},
    {"kty": "EC", "crv": "P-999", "x": "AQAB", "y": "AQAB"},
    {"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"},
    {"kty": "OKP", "crv": "Ed448", "x": "AQAB"},
    {"kty": "oct", "k": "c2VjcmV0"},
]


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("odd", ODD_KEYS, ids=str)
def test_a_key_that_nobody_can_use_hides_no_other(odd: object, algorithm: str) -> None:
    """Issuers publish keys of kinds that are unknown here beside those that they sign with."""
    world = World()
    world.issuer.algorithm = algorithm
    keys = [odd, *world.issuer.keys()["keys"], odd]
    world.answers["/keys"] = 200, json.dumps({"keys": keys}).encode()

    assert "u-alice" == world.redeem()["sub"]


@pytest.mark.parametrize("keys", [None, [], {}, "keys", 7, *([odd] for odd in ODD_KEYS)], ids=str)
def test_without_a_usable_key_the_keys_are_read_again_and_the_token_is_refused(
    keys: object,
) -> None:
    world = World()
    world.answers["/keys"] = 200, json.dumps({"keys": keys}).encode()

    with pytest.raises(SignInRefused, match="does not publish"):
        world.redeem()
    assert 2 == world.asked.count("/keys")


@pytest.mark.parametrize(
    "change",
    [
        {"alg": "RS512"},
        {"alg": "PS256"},
        {"alg": "ES256"},
        {"use": "enc"},
        {"kid": "another"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "oct", "k": "c2VjcmV0", "alg": "RS256"},
    ],
    ids=str,
)
def test_a_key_for_something_else_proves_nothing(change: dict[str, str]) -> None:
    """The issuer's own key, published for another algorithm, use or name."""
    world = World()
    keys = [{**key, **change} for key in world.issuer.keys()["keys"] if key["kty"] == "RSA"]
    world.answers["/keys"] = 200, json.dumps({"keys": keys}).encode()

    with pytest.raises(SignInRefused, match="does not publish"):
        world.redeem()


def redeemed_by(curve: ec.EllipticCurve) -> Mapping[str, object]:
    """Redeem a token whose header says ES256, signed by a key of any curve that the issuer
    publishes for ES256."""
    world = World()
    key = ec.generate_private_key(curve)
    published = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    keys = {"keys": [{**published, "alg": "ES256", "kid": "k"}]}
    world.answers["/keys"] = 200, json.dumps(keys).encode()
    claims = jwt.decode(world.issuer.token(ALICE, NONCE), options={"verify_signature": False})
    answer_with(world, signed_by(key, claims))
    return world.redeem("code")


def test_a_key_of_another_curve_proves_nothing() -> None:
    """ES256 is a signature by P-256 alone (RFC 7518, 3.4), whatever the issuer says of its key."""
    assert "u-alice" == redeemed_by(ec.SECP256R1())["sub"]
    with pytest.raises(SignInRefused, match="InvalidKeyError"):
        redeemed_by(ec.SECP384R1())


def signed_by(key: ec.EllipticCurvePrivateKey, claims: Mapping[str, object]) -> str:
    """Return a token whose header says ES256, signed by a key of any curve."""

    def encoded(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    header = {"alg": "ES256", "kid": "k", "typ": "JWT"}
    message = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    der = key.sign(message.encode(), ec.ECDSA(hashes.SHA256()))
    numbers = utils.decode_dss_signature(der)
    length = (key.curve.key_size + 7) // 8
    raw = b"".join(number.to_bytes(length, "big") for number in numbers)
    return f"{message}.{encoded(raw)}"


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"issuer": f"{URL}/"}, "calls itself"),
        ({"issuer": "https://other.example.com"}, "calls itself"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        (
            {"authorization_endpoint": "http://issuer.example.com/authorize"},
            "authorization_endpoint must be",
        ),
        ({"authorization_endpoint": None}, "authorization_endpoint must be"),
        ({"authorization_endpoint": "https://a@b.example.com/"}, "authorization_endpoint must be"),
        ({"authorization_endpoint": "https://[/"}, "authorization_endpoint must be"),
    ],
)
def test_an_issuer_that_does_not_fit_is_told_to_the_operator(
    changed: dict[str, Any], match: str
) -> None:
    """The error says what to set, or what it lacks."""
    world = World()
    world.changed = changed

    with pytest.raises(ConfigurationError, match=match):
        world.provider.authorization_url(
            state=STATE, nonce=NONCE, verifier=VERIFIER, redirect_uri=CALLBACK, fresh=False
        )


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri"])
def test_codes_and_keys_travel_by_https_only(name: str) -> None:
    """Whatever the issuer's document says."""
    world = World()
    world.changed = {name: "http://issuer.example.com/x"}

    with pytest.raises(ConfigurationError, match=name):
        world.redeem()


@pytest.mark.parametrize(
    "issuer", ["http://issuer.example.com", "issuer.example.com", "https://", "https://a b"]
)
def test_an_issuer_without_https_is_refused(issuer: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigurationError, match="OidcIssuer"):
        World().made(Client(issuer, "gpu-governor"))


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/.well-known/openid-configuration", (503, b"")),
        ("/.well-known/openid-configuration", (200, b"<html>")),
        ("/.well-known/openid-configuration", (200, b"[]")),
        ("/keys", (500, b"{}")),
        ("/token", (502, b"<html>")),
        ("/token", (200, b"{}")),
        ("/token", (200, b"<html>")),
        ("/token", (400, b'{"error": "temporarily_unavailable"}')),
    ],
)
def test_an_issuer_that_is_ill_is_told_as_such(path: str, answer: tuple[int, bytes]) -> None:
    """The person may try again."""
    world = World()
    world.answers[path] = answer

    with pytest.raises(IssuerUnavailable):
        world.redeem("code" if "token" in path else None)


def test_a_client_that_the_issuer_does_not_know_is_told_to_the_operator() -> None:
    """A wrong secret, or none where one is needed."""
    world = World("right")
    world.provider = world.made(Client(URL, "gpu-governor", lambda: {"client_secret": "wrong"}))
    with pytest.raises(ConfigurationError, match="OidcClientSecretArn"):
        world.redeem()

    world.provider = world.made(Client(URL, "gpu-governor"))
    with pytest.raises(ConfigurationError, match="OidcClientSecretArn"):
        world.redeem()


def test_a_secret_goes_into_the_form_where_the_issuer_wants_it_there() -> None:
    """And nowhere else; a way that we do not know is said."""
    world = World("right")
    world.changed = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    sent: list[tuple[Mapping[str, str] | None, Mapping[str, str]]] = []

    def spy(
        url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        sent.append((form, headers))
        return world.fetch(url, form, headers)

    provider = OidcProvider(
        Client(URL, "gpu-governor", lambda: {"client_secret": "right"}), Wire(spy)
    )
    with pytest.raises(ConfigurationError):  # this issuer takes it in the header only
        provider.redeem(code="c", nonce=NONCE, verifier=VERIFIER, redirect_uri=CALLBACK)
    form, headers = sent[-1]
    assert form is not None
    assert ("gpu-governor", "right") == (form["client_id"], form["client_secret"])
    assert "Authorization" not in headers

    world.changed = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}
    world.seconds = 3600.0
    with pytest.raises(ConfigurationError, match="client_secret_basic"):
        world.redeem()


def test_the_secret_s_document_names_it() -> None:
    """A wrong one says what is right."""
    world = World()
    world.provider = world.made(Client(URL, "gpu-governor", lambda: {"secret": "x"}))

    with pytest.raises(ConfigurationError, match="OidcClientSecretArn must be a JSON object"):
        world.redeem()
