"""An OpenID Connect issuer: discovery, the authorization code flow with PKCE, and the ID token's
proof.

Sources: OpenID Connect Core 1.0 (3.1.3.7), Discovery 1.0, RFC 7636 (PKCE), RFC 6749 (2.3.1, 4.1.3).
Signatures and times are PyJWT's work. No redirects are followed, only https is spoken, no token is
kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import jwt

from governor.errors import ConfigurationError, IssuerUnavailable, SignInRefused
from governor.https import HttpAnswer, HttpError, Https, is_https

_KEPT_SECONDS = 3600.0
_KEYS = {"RS256": {"kty": "RSA"}, "ES256": {"kty": "EC", "crv": "P-256"}}
"""The accepted algorithms, with what their keys must say; every issuer must support RS256."""
_LEEWAY_SECONDS = 60
_FRESH = {"prompt": "login", "max_age": "900"}
"""To prove anew who it is. `max_age` makes issuers say when that was (Core 1.0, 3.1.2.1)."""
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Client:
    """The stack as the issuer knows it. `secret` reads the document that names it; `None`: a public
    client. `wants_groups`: the scope `groups` is asked for where the issuer offers it."""

    issuer: str
    client_id: str
    secret: Callable[[], Mapping[str, str]] | None = None
    wants_groups: bool = False


class OidcProvider:
    """The port `IdentityProvider`. Keep it for the life of the process: it keeps the issuer's
    documents."""

    def __init__(
        self,
        client: Client,
        https: Https | None = None,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        _checked(client.issuer, "the template's parameter OidcIssuer")
        self._client = client
        self._https = https or Https(connect_seconds=2.0, read_seconds=4.0, most_bytes=262_144)
        self._elapsed = elapsed
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        discovered = self._discovered()
        endpoint = _checked(discovered.get("authorization_endpoint"), "authorization_endpoint")
        scopes = ["openid", "email"]
        if self._client.wants_groups and "groups" in (discovered.get("scopes_supported") or ()):
            scopes.append("groups")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(
            b"="
        )
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge.decode(),
                "code_challenge_method": "S256",
                **(_FRESH if fresh else {}),
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = self._authenticated(form)
        endpoint = _checked(self._discovered().get("token_endpoint"), "token_endpoint")
        sent = self._fetch("POST", endpoint, urlencode(form), {**headers, **_FORM})
        if sent.status != 200:
            raise _token_refusal(sent.status, str(sent.document.get("error", "")))
        token = sent.document.get("id_token")
        if not isinstance(token, str):
            raise IssuerUnavailable("the token endpoint sent no id_token")
        return self._verified(token, nonce)

    def _authenticated(self, form: dict[str, str]) -> Mapping[str, str]:
        """Puts the client's name and proof into the form or into headers, as the issuer wants
        it."""
        if self._client.secret is None:
            form["client_id"] = self._client.client_id
            return {}
        secret = self._client.secret().get("client_secret")
        if not secret:
            raise ConfigurationError(
                "the secret behind OidcClientSecretArn must be a JSON object like "
                '{"client_secret": "..."}'
            )
        # What is not named is the default of Discovery 1.0, section 3.
        methods = self._discovered().get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        if "client_secret_basic" in methods:
            pair = f"{quote_plus(self._client.client_id)}:{quote_plus(secret)}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        if "client_secret_post" not in methods:
            raise ConfigurationError(
                "the OIDC issuer takes neither client_secret_basic nor "
                "client_secret_post: register the "
                "client with one of them, or as a public one without OidcClientSecretArn"
            )
        form["client_id"], form["client_secret"] = self._client.client_id, secret
        return {}

    def _verified(self, token: str, nonce: str) -> Mapping[str, object]:
        try:
            claims: Mapping[str, object] = jwt.decode(
                token,
                key=self._key_of(token),
                algorithms=list(_KEYS),
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
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client.client_id) != self._client.client_id:
            raise SignInRefused("the issuer's token was made for another client")
        return claims

    def _key_of(self, token: str) -> jwt.PyJWK:
        """The issuer's key that the token names; asked for anew when it is one we have not seen."""
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in _KEYS:
            raise SignInRefused(
                "the issuer's token is signed by an algorithm other than RS256 and ES256"
            )
        uri = _checked(self._discovered().get("jwks_uri"), "jwks_uri")
        for anew in (False, True):
            keys = self._document(uri, anew=anew).get("keys")
            found = (
                [k for k in keys if _fits(k, algorithm, key_id)] if isinstance(keys, list) else []
            )
            # Without a name there must be no choice; a wrong key of the right name fails at the
            # signature.
            if len(found) == 1 or (found and key_id is not None):
                return jwt.PyJWK(found[0], algorithm)
        raise SignInRefused(
            "the issuer's token is signed by a key that the issuer does not publish"
        )

    def _discovered(self) -> Mapping[str, Any]:
        issuer = self._client.issuer
        found = self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise ConfigurationError(
                f"the OIDC issuer calls itself {found.get('issuer')!r}, not {issuer!r}: "
                "set OidcIssuer to "
                "exactly what it calls itself"
            )
        methods = found.get("code_challenge_methods_supported")
        # Many issuers support it and do not say so; only a list without it is a no.
        if methods is not None and "S256" not in methods:
            raise ConfigurationError("the OIDC issuer does not support PKCE with S256")
        return found

    def _document(self, url: str, *, anew: bool = False) -> Mapping[str, Any]:
        now = self._elapsed()
        kept = self._kept.get(url)
        if kept is not None and not anew and now - kept[0] < _KEPT_SECONDS:
            return kept[1]
        answer = self._fetch("GET", url, None, {})
        found = answer.document if answer.status == 200 else {}
        if not found:
            raise IssuerUnavailable(f"{url} answered {answer.status}, and no JSON object")
        self._kept[url] = now, found
        return found

    def _fetch(
        self, method: str, url: str, body: str | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        try:
            return self._https.send(method, url, body, {"Accept": "application/json", **headers})
        except HttpError as error:
            said = f"{urlsplit(url).hostname} did not answer ({type(error).__name__})"
            raise IssuerUnavailable(said) from error


def _fits(key: object, algorithm: str, key_id: object) -> bool:
    """Return whether a published key may have signed this; never a symmetric one, whatever it
    says."""
    if (
        not isinstance(key, dict)
        or key.get("use", "sig") != "sig"
        or key.get("alg", algorithm) != algorithm
    ):
        return False
    is_kind = all(key.get(name) == value for name, value in _KEYS[algorithm].items())
    return is_kind and (key_id is None or key.get("kid") == key_id)


def _token_refusal(status: int, code: str) -> Exception:
    """Return what a refusal of the token endpoint means (RFC 6749, 5.2)."""
    if code == "invalid_grant":
        return SignInRefused("the issuer does not take this answer (any more)")
    if code in ("invalid_client", "unauthorized_client"):
        return ConfigurationError(
            f"the OIDC issuer answers {code}: look at OidcClientId and "
            "OidcClientSecretArn, and register "
            "<base>/sign-in/callback as redirect URI of an authorization code client"
        )
    return IssuerUnavailable(f"the token endpoint answered {status} {code[:40]!r}")


def _checked(url: object, name: str) -> str:
    """Raises: ConfigurationError."""
    if not isinstance(url, str) or not is_https(url) or "#" in url:
        raise ConfigurationError(
            f"{name} must be a whole https:// URL without user name; it is {url!r}"
        )
    return url
