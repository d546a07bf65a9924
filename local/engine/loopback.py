"""Sends botocore's requests to an engine on loopback without urllib3, which takes as much processor
time for it as all the rest of a call. It only makes a process faster.

Requests to anything but `http://127.0.0.1` go the usual way, and so do those whose body is no
bytes.
"""

from __future__ import annotations

import io
import socket
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

_HOST = "127.0.0.1"
_HERE = f"http://{_HOST}:"
_PART_BYTES = 1 << 18
_NO_BODY = (204, 304)


def send_plainly() -> None:
    """Replaces how botocore's sessions send requests to an engine on loopback."""
    from botocore import httpsession

    session: Any = httpsession.URLLib3Session
    if session.send.__module__ == __name__:
        return  # it is replaced already
    usual, close = session.send, session.close
    pools: weakref.WeakKeyDictionary[Any, _Pool] = weakref.WeakKeyDictionary()

    def send(self: Any, request: Any) -> Any:
        if not request.url.startswith(_HERE) or not _is_plain(request):
            return usual(self, request)
        pool = pools.get(self)
        if pool is None:
            pool = pools.setdefault(self, _Pool())
        return pool.send(request, self._timeout)

    def close_all(self: Any) -> None:
        pool = pools.pop(self, None)
        if pool is not None:
            pool.close()
        close(self)

    session.send = send
    session.close = close_all


def _is_plain(request: Any) -> bool:
    """Return whether a request is sent in one piece."""
    return request.body is None or isinstance(request.body, (bytes, bytearray, str))


class _Pool:
    """Connections of one session that rest between two requests. Threads share it."""

    def __init__(self) -> None:
        self._resting: deque[_Connection] = deque()

    def send(self, request: Any, timeout: Any) -> Any:
        """Send a request; return botocore's answer. Raises: botocore's errors of connections."""
        from botocore import awsrequest, exceptions

        address = urlsplit(request.url)
        connection = self._taken(int(address.port or 0), request, timeout)
        try:
            connection.write(_text(request, address))
            status, headers, body, stays_open = connection.read(request.method)
        except TimeoutError as error:
            connection.close()
            raise exceptions.ReadTimeoutError(endpoint_url=request.url, error=error) from error
        except OSError as error:
            connection.close()
            raise exceptions.ConnectionClosedError(
                error=error, request=request, endpoint_url=request.url
            ) from error
        except BaseException:
            connection.close()
            raise
        if stays_open:
            self._resting.append(connection)
        else:
            connection.close()
        answer: Any = awsrequest.AWSResponse
        return answer(request.url, status, headers, _Body(body))

    def close(self) -> None:
        """Close what rests."""
        while self._resting:
            self._resting.pop().close()

    def __del__(self) -> None:
        """Close what rests when the session is forgotten, as urllib3 does."""
        self.close()

    def _taken(self, port: int, request: Any, timeout: Any) -> _Connection:
        """Return a connection that rests and is open, or a new one. Raises: botocore's errors of
        connections."""
        from botocore import exceptions

        while self._resting:
            try:
                connection = self._resting.pop()
            except IndexError:
                break  # another thread has taken it
            if connection.port == port and connection.is_open():
                connection.wait_at_most(_read_seconds(request, timeout))
                return connection
            connection.close()
        seconds = getattr(timeout, "connect_timeout", timeout)
        try:
            connection = _Connection(port, seconds)
        except TimeoutError as error:
            raise exceptions.ConnectTimeoutError(endpoint_url=request.url, error=error) from error
        except OSError as error:
            raise exceptions.EndpointConnectionError(
                endpoint_url=request.url, error=error
            ) from error
        connection.wait_at_most(_read_seconds(request, timeout))
        return connection


def _read_seconds(request: Any, timeout: Any) -> float | None:
    """Return how long to wait for each part of an answer."""
    own: float | None = (getattr(request, "context", None) or {}).get("read_timeout")
    if own is not None:
        return own
    seconds: float | None = getattr(timeout, "read_timeout", timeout)
    return seconds


def _text(request: Any, address: Any) -> bytes:
    """Return a request as it goes over the wire."""
    target = address.path or "/"
    if address.query:
        target += f"?{address.query}"
    lines = [f"{request.method} {target} HTTP/1.1"]
    names = set()
    for name, value in request.headers.items():
        names.add(name.lower())
        # The engine takes a body unasked.
        if name.lower() != "expect":
            lines.append(f"{name}: {value.decode() if isinstance(value, bytes) else value}")
    if "host" not in names:
        lines.append(f"Host: {address.netloc}")
    if "accept-encoding" not in names:
        lines.append("Accept-Encoding: identity")
    body = request.body or b""
    if isinstance(body, str):
        body = body.encode()
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Connection:
    """One connection to a port of loopback."""

    def __init__(self, port: int, seconds: float | None) -> None:
        self.port = port
        self._socket = socket.create_connection((_HOST, port), timeout=seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def is_open(self) -> bool:
        """Return whether the engine has not closed it."""
        self._socket.setblocking(False)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def wait_at_most(self, seconds: float | None) -> None:
        """Set how long to wait for each part of an answer."""
        self._socket.settimeout(seconds)

    def write(self, text: bytes) -> None:
        """Send a request."""
        self._socket.sendall(text)

    def read(self, method: str) -> tuple[int, dict[str, str], bytes, bool]:
        """Return the status, the headers and the body of an answer, and whether the connection
        stays open. Raises: OSError if it ends before."""
        status, headers = self._head()
        while 100 <= status < 200:
            status, headers = self._head()
        known = {name.lower(): value for name, value in headers.items()}
        stays_open = known.get("connection", "").lower() != "close"
        if method == "HEAD" or status in _NO_BODY:
            return status, headers, b"", stays_open
        if known.get("transfer-encoding", "").lower() == "chunked":
            return status, headers, b"".join(self._chunks()), stays_open
        if "content-length" in known:
            return status, headers, self._exactly(int(known["content-length"])), stays_open
        return status, headers, self._rest(), False

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _head(self) -> tuple[int, dict[str, str]]:
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            value = value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(lines[0].split(" ", 2)[1]), headers

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = int(self._until(b"\r\n").partition(b";")[0], 16)
            chunk = self._exactly(size)
            if not size:
                while self._until(b"\r\n"):
                    pass  # trailers
                return
            self._exactly(len(b"\r\n"))
            yield chunk

    def _until(self, end: bytes) -> bytes:
        """Return what comes before a mark, and pass it."""
        while (at := self._read.find(end)) < 0:
            self._read += self._received(_PART_BYTES)
        found, self._read = self._read[:at], self._read[at + len(end) :]
        return found

    def _exactly(self, size: int) -> bytes:
        """Return so many bytes, and pass them."""
        found, self._read = self._read[:size], self._read[size:]
        parts, missing = [found], size - len(found)
        while missing:
            part = self._received(missing)
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _rest(self) -> bytes:
        """Return everything up to the end of the connection."""
        parts = [self._read]
        while part := self._socket.recv(_PART_BYTES):
            parts.append(part)
        return b"".join(parts)

    def _received(self, most: int) -> bytes:
        """Return what comes next. Raises: OSError if nothing does any more."""
        part = self._socket.recv(min(most, _PART_BYTES))
        if not part:
            raise ConnectionError("the connection was closed before the answer was complete")
        return part


class _Body(io.BytesIO):
    """The body of an answer, as botocore reads urllib3's."""

    def stream(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
        """Yield what is left."""
        del decode_content
        while part := self.read(amt):
            yield part
