"""Signs people in with an OpenID Connect issuer: discovery, the authorization code flow with PKCE,
and the verification of the ID token.

Sources: OpenID Connect Core 1.0 (3.1.3.7), Discovery 1.0, RFC 7636 (PKCE), RFC 6749 (2.3.1, 4.1.3).
PyJWT reads keys and checks signatures and times; `Https` alone opens connections. This adapter
follows no redirects, speaks only https, and keeps no token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import jwt

from governor.core.errors import ConfigurationError, IssuerUnavailable, SignInRefused
from governor.core.https import HttpAnswer, HttpError, Https, is_https

_KEPT_SECONDS = 3600.0
_ALGORITHMS = ("RS256", "ES256")
"""The accepted algorithms, which are asymmetric. Every issuer must support RS256."""
_LEEWAY_SECONDS = 60
_FRESH = {"prompt": "login", "max_age": "900"}
"""Makes the person sign in again. `max_age` makes issuers tell when (Core 1.0, 3.1.2.1)."""
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Client:
    """The stack as the issuer knows it.

    `secret` reads the document with the client secret; `None` means a public client.
    `wants_groups`: the scope `groups` is requested if the issuer offers it.
    """

    issuer: str
    client_id: str
    secret: Callable[[], Mapping[str, str]] | None = None
    wants_groups: bool = False


class _ClientProof(NamedTuple):
    """Fields of the form and headers of a request, by which the issuer knows who sends it."""

    form: Mapping[str, str]
    headers: Mapping[str, str]


class OidcProvider:
    """The port `IdentityProvider`. Keep one for the life of the process, because it keeps the
    issuer's documents."""

    def __init__(
        self,
        client: Client,
        https: Https | None = None,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the issuer of this client. Without `https` a client with short timeouts is made;
        `elapsed` is a monotonic clock in seconds. Raises: ConfigurationError if the issuer's
        address is not https."""
        _checked_url(client.issuer, "the template's parameter OidcIssuer")
        self._client = client
        self._https = https or Https(connect_seconds=2.0, read_seconds=4.0, most_bytes=262_144)
        self._elapsed = elapsed
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        """Return the issuer's address at which the person signs in; with `fresh` they must, even if
        the issuer still knows them. Groups are asked for if the client wants and the issuer offers
        them. Raises: IssuerUnavailable if the issuer's description of itself cannot be read;
        ConfigurationError if it is of another issuer, without PKCE, or without a usable address."""
        discovered = self._discovered()
        endpoint = _checked_url(discovered.get("authorization_endpoint"), "authorization_endpoint")
        scopes = ["openid", "email"]
        offers_groups = "groups" in (discovered.get("scopes_supported") or ())
        if self._client.wants_groups and offers_groups:
            scopes.append("groups")
        verifier_hash = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier_hash).rstrip(b"=")
        parameters = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        if fresh:
            parameters |= _FRESH
        separator = "&" if "?" in endpoint else "?"
        return f"{endpoint}{separator}{urlencode(parameters)}"

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        """Exchange the code for an ID token, verify the token, and return its claims.

        Raises: SignInRefused if the issuer refuses the code, or the token does not hold;
        IssuerUnavailable if the issuer does not answer as it must; ConfigurationError if it refuses
        this client, or a setting is wrong; CloudError if the client's secret cannot be read.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        proof = self._client_proof()
        form |= proof.form
        endpoint = _checked_url(self._discovered().get("token_endpoint"), "token_endpoint")
        answer = self._fetch("POST", endpoint, urlencode(form), {**proof.headers, **_FORM})
        if answer.status != 200:
            raise _token_refusal(answer.status, str(answer.document.get("error", "")))
        token = answer.document.get("id_token")
        if not isinstance(token, str):
            raise IssuerUnavailable("the token endpoint sent no id_token")
        return self._verified(token, nonce)

    def _client_proof(self) -> _ClientProof:
        """Return the fields and headers by which the issuer knows this client: its id, and its
        secret if it has one. Raises: ConfigurationError if the stored document has no
        `client_secret`, or the issuer takes secrets in neither way; IssuerUnavailable; CloudError
        if the secret cannot be read."""
        client_id = self._client.client_id
        if self._client.secret is None:
            return _ClientProof(form={"client_id": client_id}, headers={})
        secret = self._client.secret().get("client_secret")
        if not secret:
            raise ConfigurationError(
                "the secret behind OidcClientSecretArn must be a JSON object like "
                '{"client_secret": "..."}'
            )
        # An issuer that names no method means the default of Discovery 1.0, section 3.
        methods = self._discovered().get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        if "client_secret_basic" in methods:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
            return _ClientProof(form={}, headers={"Authorization": basic})
        if "client_secret_post" not in methods:
            raise ConfigurationError(
                "the OIDC issuer takes neither client_secret_basic nor client_secret_post: "
                "register the client with one of them, or as a public one without "
                "OidcClientSecretArn"
            )
        return _ClientProof(form={"client_id": client_id, "client_secret": secret}, headers={})

    def _verified(self, token: str, nonce: str) -> Mapping[str, object]:
        """Return the claims of an ID token, after its signature, times, issuer, client and nonce
        are checked. Raises: SignInRefused if one of them is wrong; IssuerUnavailable or
        ConfigurationError if the issuer's keys cannot be read."""
        try:
            claims: Mapping[str, object] = jwt.decode(
                token,
                key=self._key_of(token),
                algorithms=list(_ALGORITHMS),
                audience=self._client.client_id,
                issuer=self._client.issuer,
                leeway=_LEEWAY_SECONDS,
                options={
                    "require": ["iss", "sub", "aud", "exp", "iat", "nonce"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise SignInRefused(
                f"the issuer's token does not hold ({type(error).__name__})"
            ) from error
        if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise SignInRefused("the issuer's token belongs to another sign-in")
        audience = claims["aud"]
        has_several_audiences = isinstance(audience, list) and len(audience) > 1
        # A token for several audiences must name the client that it was made for.
        default_client = None if has_several_audiences else self._client.client_id
        if claims.get("azp", default_client) != self._client.client_id:
            raise SignInRefused("the issuer's token was made for another client")
        return claims

    def _key_of(self, token: str) -> jwt.PyJWK:
        """Return the issuer's key that the token names, or its only one if the token names none.

        The keys are read again if they lack it, because issuers exchange their keys.

        Raises: SignInRefused for an algorithm other than RS256 and ES256, or if there is no such
        key; jwt.PyJWTError for a text that is no token; IssuerUnavailable; ConfigurationError.
        """
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        key_id = header.get("kid")
        if algorithm not in _ALGORITHMS:
            raise SignInRefused(
                "the issuer's token is signed by an algorithm other than RS256 and ES256"
            )
        uri = _checked_url(self._discovered().get("jwks_uri"), "jwks_uri")
        for read_again in (False, True):
            published_keys = _key_set(self._document(uri, read_again=read_again))
            fitting_keys = [key for key in published_keys if _fits(key, algorithm, key_id)]
            # A token that names no key must leave no choice. A wrong key of the right name fails at
            # the signature.
            is_named = bool(fitting_keys) and key_id is not None
            if len(fitting_keys) == 1 or is_named:
                return fitting_keys[0]
        raise SignInRefused(
            "the issuer's token is signed by a key that the issuer does not publish"
        )

    def _discovered(self) -> Mapping[str, Any]:
        """Return the issuer's description of itself (OpenID Connect Discovery), at most an hour
        old. Raises: ConfigurationError if it is of another issuer or without PKCE;
        IssuerUnavailable."""
        issuer = self._client.issuer
        discovered = self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if discovered.get("issuer") != issuer:
            raise ConfigurationError(
                f"the OIDC issuer calls itself {discovered.get('issuer')!r}, not {issuer!r}: "
                "set OidcIssuer to exactly what it calls itself"
            )
        methods = discovered.get("code_challenge_methods_supported")
        # Many issuers support S256 and do not list it; only a list without it is a no.
        if methods is not None and "S256" not in methods:
            raise ConfigurationError("the OIDC issuer does not support PKCE with S256")
        return discovered

    def _document(self, url: str, *, read_again: bool = False) -> Mapping[str, Any]:
        """Return the JSON object at an address of the issuer, at most an hour old, or read now with
        `read_again`. Raises: IssuerUnavailable if there is no answer, or one with another status
        than 200 or without a JSON object that has fields."""
        now = self._elapsed()
        if url in self._kept and not read_again:
            read_at, document = self._kept[url]
            if now - read_at < _KEPT_SECONDS:
                return document
        answer = self._fetch("GET", url, None, {})
        document = answer.document if answer.status == 200 else {}
        if not document:
            raise IssuerUnavailable(f"{url} answered {answer.status}, and no JSON object")
        self._kept[url] = now, document
        return document

    def _fetch(
        self, method: str, url: str, body: str | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        """Send a request to the issuer; return the answer, whatever its status. Raises:
        IssuerUnavailable if there is none."""
        try:
            return self._https.send(method, url, body, {"Accept": "application/json", **headers})
        except HttpError as error:
            why = f"{urlsplit(url).hostname} did not answer ({type(error).__name__})"
            raise IssuerUnavailable(why) from error


def _key_set(document: Mapping[str, Any]) -> list[jwt.PyJWK]:
    """Return the usable keys that an issuer publishes; an empty list if there is none."""
    keys = document.get("keys")
    if not isinstance(keys, list):
        return []
    # PyJWT skips keys that it cannot use, but fails at an algorithm that is no text.
    well_formed_keys = [key for key in keys if _is_well_formed(key)]
    try:
        return jwt.PyJWKSet(well_formed_keys).keys
    except jwt.PyJWKSetError:
        return []


def _is_well_formed(key: object) -> bool:
    """Return whether a published key is an object whose algorithm, if it names one, is a text."""
    return isinstance(key, dict) and isinstance(key.get("alg", ""), str)


def _fits(key: jwt.PyJWK, algorithm: str, key_id: object) -> bool:
    """Return whether a published key is for signatures by this algorithm and has this id; any id
    fits if the token names none (`None`)."""
    is_for_signatures = key.public_key_use in (None, "sig")
    is_for_algorithm = key.algorithm_name == algorithm
    if not is_for_signatures or not is_for_algorithm:
        return False
    return key_id is None or key.key_id == key_id


def _token_refusal(status: int, code: str) -> Exception:
    """Return the error to raise for an error code of the token endpoint (RFC 6749, 5.2):
    SignInRefused for `invalid_grant`, ConfigurationError if the client is refused, and
    IssuerUnavailable for any other code, also an empty one."""
    if code == "invalid_grant":
        return SignInRefused("the issuer does not take this answer (any more)")
    if code in ("invalid_client", "unauthorized_client"):
        return ConfigurationError(
            f"the OIDC issuer answers {code}: look at OidcClientId and OidcClientSecretArn, and "
            "register <base>/sign-in/callback as redirect URI of an authorization code client"
        )
    return IssuerUnavailable(f"the token endpoint answered {status} {code[:40]!r}")


def _checked_url(url: object, name: str) -> str:
    """Return the URL if it is a whole https address without fragment. Raises: ConfigurationError,
    whose text says by `name` which setting or field holds another thing."""
    if not isinstance(url, str) or not is_https(url) or "#" in url:
        raise ConfigurationError(
            f"{name} must be a whole https:// URL without user name; it is {url!r}"
        )
    return url
