"""Requests to an engine on loopback go without urllib3, and end as they would with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)
from botocore.httpsession import URLLib3Session

from local.engine.loopback import send_plainly

pytestmark = pytest.mark.integration
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nwhole"
IN_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nin \r\n6\r\nchunks\r\n0\r\n\r\n"
)


class Server:
    """Answers each request with the next of its answers, and keeps what it was asked. An empty
    answer ends the connection, and after `None` it says nothing more."""

    def __init__(self, *answers: bytes | None) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/path?a=b"

    def close(self) -> None:
        """Stop it."""
        self._socket.close()
        for one in self._open:
            one.close()

    def _serve(self) -> None:
        while self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            while asked := connection.recv(65_536):
                self.asked.append(asked)
                answer = self._answers.pop(0)
                if answer is None:
                    return
                connection.sendall(answer)
                if not answer or b"Connection: close" in answer:
                    connection.close()
                    break
                if not self._answers:
                    return


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[URLLib3Session]:
    """A session of botocore that sends plainly, and waits for half a second."""
    for name in ("send", "close"):
        monkeypatch.setattr(URLLib3Session, name, getattr(URLLib3Session, name))
    send_plainly()
    kind: Any = URLLib3Session
    session: URLLib3Session = kind(timeout=(0.5, 0.5))
    yield session
    session.close()


def ask(session: URLLib3Session, url: str, method: str = "POST", body: Any = b"body") -> Any:
    """Send one request; return the answer."""
    headers: Any = HeadersDict({"Content-Length": str(len(body)), "Expect": "100-continue"})
    return session.send(AWSPreparedRequest(method, url, headers, body, stream_output=False))


def test_a_request_is_sent_and_its_answer_is_read(session: URLLib3Session) -> None:
    """Of either form, over one connection; the body goes without being asked for."""
    server = Server(WHOLE, IN_CHUNKS, b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE)

    answers = [ask(session, server.url) for _ in range(3)]

    assert [b"whole", b"in chunks", b"whole"] == [one.content for one in answers]
    assert (200, "1, 2", "5") == (
        answers[0].status_code,
        answers[0].headers["x-a"],
        answers[0].headers["content-length"],
    )
    assert server.asked[0].startswith(b"POST /path?a=b HTTP/1.1\r\n")
    assert server.asked[0].endswith(b"\r\n\r\nbody")
    assert b"Host: 127.0.0.1:" in server.asked[0]
    assert b"Expect" not in server.asked[0]
    assert 1 == server.connections
    server.close()


def test_answers_without_a_body_end_with_their_head(session: URLLib3Session) -> None:
    """Whatever length they name."""
    server = Server(WHOLE.removesuffix(b"whole"), b"HTTP/1.1 204 No Content\r\n\r\n", WHOLE)

    assert b"" == ask(session, server.url, "HEAD", b"").content
    assert 204 == ask(session, server.url, "DELETE").status_code
    assert b"whole" == ask(session, server.url).content
    server.close()


def test_an_answer_may_end_with_its_connection(session: URLLib3Session) -> None:
    """The next request then takes another one."""
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"
    server = Server(closing, WHOLE)

    assert b"to the end" == ask(session, server.url).content
    assert b"whole" == ask(session, server.url).content
    assert 2 == server.connections
    server.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionClosedError),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\ncut", HTTPClientError),
        (None, ReadTimeoutError),
    ],
)
def test_what_goes_wrong_is_said_as_botocore_says_it(
    session: URLLib3Session, answer: bytes | None, error: type[Exception]
) -> None:
    """So a client tries again where it would."""
    server = Server(answer)

    with pytest.raises(error):
        ask(session, server.url)
    server.close()


def test_nobody_who_listens_is_a_failed_connection(session: URLLib3Session) -> None:
    """As with urllib3."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/"
        with pytest.raises(EndpointConnectionError):
            ask(session, url)


def test_what_is_not_on_loopback_or_no_bytes_goes_the_usual_way(
    session: URLLib3Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, for example."""
    sent: list[Any] = []
    monkeypatch.setattr(URLLib3Session, "send", lambda _, request: sent.append(request.url))
    send_plainly()

    ask(session, "http://localhost:1/")
    ask(session, "http://127.0.0.1:1/", body=memoryview(b"a file"))

    assert ["http://localhost:1/", "http://127.0.0.1:1/"] == sent
