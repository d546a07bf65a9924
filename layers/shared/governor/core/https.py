"""Sends one HTTPS request to a channel or an issuer, with a timeout, and refuses private addresses
unless they are allowed. A request follows no redirect, is never retried, and reads at most a
limited number of bytes of the body."""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.util.connection import create_connection

from governor.core.errors import GovernorError
from governor.core.units import not_none

HttpError = urllib3.exceptions.HTTPError
"""Raised if the other side does not answer. Its text may hold the address."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as the gateway of an IPv6 network writes them, in the last 32 bits (RFC 6052)."""


class PrivateAddress(GovernorError):
    """The name leads into a private network, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers by lower-case name, and the first bytes of the body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def document(self) -> Mapping[str, Any]:
        """Return the JSON object in the body; an empty one if the body is anything else, or was cut
        short."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}


class Https:
    """Sends requests. `SSL_CERT_FILE` may name other certificate authorities, as for any
    program."""

    def __init__(
        self,
        *,
        connect_seconds: float = 3.0,
        read_seconds: float = 10.0,
        most_bytes: int = 1_048_576,
        only_public: bool = False,
    ) -> None:
        """Give up a request that has not connected, or receives nothing, for these seconds. With
        `only_public`, connect to public IP addresses alone. `most_bytes` limits how much of a body
        is read."""
        # At DEBUG urllib3 logs the path of every request. The path of a webhook is its secret, and
        # the path of an issuer may hold a code.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        timeout = urllib3.Timeout(connect=connect_seconds, read=read_seconds)
        self._pool = urllib3.PoolManager(cert_reqs="CERT_REQUIRED", timeout=timeout)
        if only_public:
            self._pool.pool_classes_by_scheme = {"https": _PublicPool}
        self._most_bytes = most_bytes

    def send(
        self, method: str, url: str, body: str | bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        """Send one request, and return the answer, whatever its status is. Its body is cut after
        `most_bytes`.

        Raises: HttpError if the other side does not answer; PrivateAddress, with nothing sent, if
        only public addresses are allowed and the name leads to another.
        """
        response = self._pool.request(
            method,
            url,
            body=body,
            headers=dict(headers),
            redirect=False,
            retries=False,
            preload_content=False,
        )
        try:
            start_of_body = response.read(self._most_bytes)
        finally:
            response.close()
        headers_by_name = {name.lower(): text for name, text in response.headers.items()}
        return HttpAnswer(response.status, headers_by_name, start_of_body)


class _PublicConnection(HTTPSConnection):
    """Connects to the same addresses that were checked: the name is not looked up a second time."""

    def _new_conn(self) -> socket.socket:
        """Return a connection to the first address of the name that answers, as urllib3 calls it.

        Raises: PrivateAddress, before any connection, if one of the addresses is not public;
        HttpError if none answers, or the name has no address.
        """
        addresses = _addresses(self)
        if not all(map(is_public, addresses)):
            raise PrivateAddress("the name leads to an address that is not public")
        failure: OSError | None = None
        for address in addresses:
            try:
                return create_connection(
                    (address, self.port or self.default_port),
                    self.timeout,
                    source_address=self.source_address,
                    socket_options=self.socket_options,
                )
            except OSError as error:
                failure = error
        raise urllib3.exceptions.NewConnectionError(self, f"no address answered: {failure}")


class _PublicPool(HTTPSConnectionPool):
    """Connections that reach only public addresses."""

    ConnectionCls = _PublicConnection


def _addresses(connection: HTTPSConnection) -> list[str]:
    """Return every IP address that the name of the connection's host has now, each once. Raises:
    HttpError if it has none."""
    host = connection.host.strip("[]")
    try:
        infos = socket.getaddrinfo(host, connection.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise urllib3.exceptions.NewConnectionError(connection, f"no such name: {error}") from None
    addresses = [str(socket_address[0]) for *_, socket_address in infos]
    return list(dict.fromkeys(addresses))


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet: not a private, local, multicast
    or reserved one. An address that contains another one is public only if that is, too; an
    IPv4-mapped one, if its IPv4 address is. Raises: ValueError if the text is no IP address."""
    # A link-local address may name its interface.
    ip_address = ipaddress.ip_address(address.partition("%")[0])
    for embedded_address in _embedded(ip_address):
        if not is_public(str(embedded_address)):
            return False
    if isinstance(ip_address, ipaddress.IPv6Address):
        if ip_address.ipv4_mapped is not None:
            return True
        if ip_address.is_site_local:
            return False
    return ip_address.is_global and not ip_address.is_multicast and not ip_address.is_reserved


def _embedded(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that packets to an IPv6 address may reach, because it contains
    them; empty if there are none, and for an IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    candidates = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        candidates.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return not_none(candidates)


def is_https(url: str) -> bool:
    """Return whether the text is a whole https:// address: with a host, and without a user name,
    spaces, unprintable characters or an impossible port. A name that leads into a private network
    is not found out here."""
    if not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        is_port_usable = parts.port != 0
        is_plain_host = bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
    return parts.scheme == "https" and is_plain_host and is_port_usable
