"""The functions, loaded and wired as Lambda does, with parts of the simulated cloud in place of
AWS's.

Each call of such a part goes through `port` of the present cloud, where faults happen.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

from botocore.exceptions import ClientError

from governor.aws.clients import Clients
from governor.aws.record_codec import read_all
from governor.core.errors import CloudError
from governor.core.https import HttpAnswer
from governor.core.instance import Instance, Target
from governor.core.units import parse_iso
from governor.episode.model.plan import Price
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.notify.dispatch import Dispatch
from governor.notify.message import Message
from governor.policy.document import PolicyBook
from governor.policy.model.policy import Policy
from governor.policy.versions import StoredPolicy
from governor.policy.yaml_document import Document as PolicyDocument
from governor.policy.yaml_document import read_document
from governor.remediation.take_snapshot import TakeSnapshot
from governor.table.table import Document, Key, Table, Write
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.parts import Parts
from tests.builders import NOW
from tests.twins.table import MemoryTable
from tests.unit.wiring.samples import SIGN_IN, VARIABLES, settings

if TYPE_CHECKING:
    from tests.soak.cloud import Cloud

ROOT = Path(__file__).parents[2]
KEYS = {"current": "k1", "k1": "k" * 64}


_CLOUDS: list[Cloud] = []
"""The last one is the one that functions see."""


@contextmanager
def current(cloud: Cloud) -> Iterator[None]:
    """Let functions see this cloud."""
    _CLOUDS.append(cloud)
    try:
        yield
    finally:
        _CLOUDS.pop()


class _Port:
    """A part of the present cloud; each call may fail."""

    def __init__(self, service: str, part: str) -> None:
        self._service, self._part = service, part

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)

        def call(*given: Any, **named: Any) -> Any:
            cloud = _CLOUDS[-1]
            if self._part == "ec2" and method in _CHANGES:
                _send_to_ec2(cloud, method, given, named)
            target = getattr(cloud if self._part == "cloud" else getattr(cloud, self._part), method)
            return cloud.port(f"{self._service}.{method}", lambda: target(*given, **named))

        return call


_CHANGES = {
    "stop": "stop",
    "terminate": "terminate",
    "prepare": "cancel",
    "create": "snapshot",
    "start": "start",
    "delete": "delete",
}
"""Calls that change something in EC2, and the names that invariants give them."""


def _send_to_ec2(cloud: Cloud, method: str, given: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Say that a call is sent, unless it is a dry run."""
    if named.get("dry_run", False):
        return
    # `prepare` gets the instance itself, the others the id of an instance or of a snapshot.
    subject = given[1]
    cloud.send_to_ec2(_CHANGES[method], subject.instance_id if method == "prepare" else subject)


class _Metrics(_Port):
    """Reading never raises: what could not be read is a problem of its series."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        try:
            found: MetricAnswer = self.__getattr__("read")(target, queries, window)
        except CloudError as error:
            return MetricAnswer({}, {query.key: str(error) for query in queries})
        return found


class _Tagger(_Port):
    """Failures are reasons by instance id."""

    def set_tags(
        self, target: Target, instance_ids: Sequence[str], *given: Any, **named: Any
    ) -> Any:
        try:
            return self.__getattr__("set_tags")(target, instance_ids, *given, **named)
        except CloudError as error:
            return dict.fromkeys(instance_ids, str(error))


class _Prices:
    """The same price for all; one that could not be read is not known."""

    def price(self, instance: Instance, policy: Policy) -> Price:
        try:
            return _CLOUDS[-1].port("pricing.price", lambda: Price(Decimal("1.006"), "list price"))
        except CloudError:
            return Price(None, "not known")


class _Documents:
    """The bucket of the policy's versions."""

    def newest(self) -> StoredPolicy | None:
        cloud = _CLOUDS[-1]
        return cloud.port("s3.newest", lambda: cloud.documents[-1] if cloud.documents else None)

    def read(self, version: str, **_: Any) -> str:
        cloud = _CLOUDS[-1]
        (text,) = [one.text for one in cloud.documents if one.version == version]
        return cloud.port("s3.read", lambda: text)


class _Market(_Port):
    """Prices never raise."""

    def prices(self, target: Target, regions: Sequence[str], *given: Any) -> Any:
        try:
            return self.__getattr__("prices")(target, regions, *given)
        except CloudError:
            return _CLOUDS[-1].market.answer


_WITHOUT_REFERENCES = 2
"""The version of marshal's format that gives the same bytes for the same item."""


@lru_cache(4096)
def _record(kind: Hashable, item: bytes) -> Any:
    """The record of an item. Records are frozen, and the same item is read again and again."""
    (found,) = read_all(cast("type[Any]", kind), [marshal.loads(item)])
    return found


def records_of(kind: type[Any], items: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """The records of stored items, one by one."""
    return (
        _record(cast("Hashable", kind), marshal.dumps(dict(item), _WITHOUT_REFERENCES))
        for item in items
    )


class _CloudTable(Table):
    """The table of the present cloud."""

    def get(self, key: Key) -> Document | None:
        cloud = _CLOUDS[-1]
        return cloud.port("table.get", lambda: cloud.memory.get(key))

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        cloud = _CLOUDS[-1]
        return cloud.port("table.query", lambda: cloud.memory.query(pk, prefix, after=after))

    def write(self, one: Write) -> Document:
        cloud = _CLOUDS[-1]
        return cloud.port("table.write", lambda: cloud.memory.write(one))

    def transact(self, *writes: Write) -> None:
        cloud = _CLOUDS[-1]
        cloud.port("table.transact", lambda: cloud.memory.transact(*writes))

    def with_short_timeout(self) -> Table:
        return self

    def document(self, record: object) -> Document:
        return MemoryTable().document(record)

    def records(self, kind: type[Any], items: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
        return records_of(kind, items)


class _Clock:
    def now(self) -> datetime:
        return _CLOUDS[-1].moment if _CLOUDS else NOW


class _Sns:
    def list_subscriptions_by_topic(self, **_: Any) -> Any:
        one = {"SubscriptionArn": "arn:aws:sns:us-east-1:123456789012:alerts:1", "Protocol": "sqs"}
        return _CLOUDS[-1].port("sns.list_subscriptions", lambda: {"Subscriptions": [one]})

    def publish(self, *, Message: str, **_: Any) -> Any:
        cloud, body = _CLOUDS[-1], json.loads(Message)["sqs"]
        return cloud.port("sns.publish", lambda: cloud.put(body))


class _Sqs:
    def change_message_visibility(
        self, *, ReceiptHandle: str, VisibilityTimeout: int, **_: Any
    ) -> Any:
        cloud = _CLOUDS[-1]
        cloud.port("sqs.hide", lambda: cloud.hide(ReceiptHandle, VisibilityTimeout))

    def send_message(
        self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int = 0, **_: Any
    ) -> Any:
        cloud = _CLOUDS[-1]
        if QueueUrl == VARIABLES["DELIVERY_QUEUE_URL"]:
            cloud.port("sqs.send", lambda: cloud.put(MessageBody, DelaySeconds))
        elif QueueUrl == VARIABLES["DELIVERY_FAILURES_URL"]:
            cloud.port("sqs.park", lambda: cloud.parked.append(MessageBody))
        else:
            cloud.port("sqs.keep", lambda: cloud.dead_letters.append(MessageBody))


class _Ses:
    def send_email(self, *, Destination: Any, Content: Any, **_: Any) -> Any:
        cloud, document = _CLOUDS[-1], json.loads(Content["Raw"]["Data"])
        (to,) = Destination["ToAddresses"]
        cloud.port("ses.send", lambda: cloud.mailed(to, document))
        return {"MessageId": "mail"}


class _Kms:
    def generate_mac(self, *, KeyId: str, Message: bytes, **_: Any) -> Any:
        return {"Mac": _CLOUDS[-1].port("kms.generate_mac", lambda: self._mac(KeyId, Message))}

    def verify_mac(self, *, KeyId: str, Message: bytes, Mac: bytes, **_: Any) -> Any:
        def check() -> dict[str, bool]:
            if Mac != self._mac(KeyId, Message):
                said: Any = {
                    "Error": {"Code": "KMSInvalidMacException", "Message": "the HMAC does not fit"}
                }
                raise ClientError(said, "VerifyMac")
            return {"MacValid": True}

        return _CLOUDS[-1].port("kms.verify_mac", check)

    @staticmethod
    def _mac(key_id: str, message: bytes) -> bytes:
        return hashlib.sha256(key_id.encode() + message).digest()


class _Ssm:
    def describe_sessions(self, *, Filters: Sequence[Mapping[str, str]], **_: Any) -> Any:
        cloud = _CLOUDS[-1]
        wanted = {one["key"]: one["value"] for one in Filters}

        def sessions() -> Any:
            since = cloud.logins.get(wanted["Target"])
            invoked_after = parse_iso(wanted["InvokedAfter"])
            if since is None or not invoked_after < since <= cloud.moment:
                return {"Sessions": []}
            return {
                "Sessions": [{"Owner": "arn:aws:iam::123456789012:user/erin", "StartDate": since}]
            }

        return cloud.port("ssm.describe_sessions", sessions)


class _SimulatedClients(Clients):
    """Clients of the services whose adapters are the real ones; any other fails when it is used."""

    def client(self, service: str, *_: Any, **__: Any) -> Any:
        known = {"sns": _Sns(), "sqs": _Sqs(), "sesv2": _Ses(), "kms": _Kms(), "ssm": _Ssm()}
        return known.get(service)


def _send(
    self: object, method: str, url: str, body: bytes, headers: Mapping[str, str]
) -> HttpAnswer:
    """In place of an HTTPS request: Slack takes it."""
    del self, method, headers
    cloud, document = _CLOUDS[-1], json.loads(body)

    def take() -> HttpAnswer:
        text = json.loads(document["text"])
        if url.endswith("chat.postMessage"):
            cloud.mailed(f"slack:{document['channel']}", text)
        answer = {"ok": True, "channel": document.get("channel"), "ts": "1795262400.000100"}
        return HttpAnswer(200, {}, json.dumps(answer).encode())

    return cloud.port("slack.post", take)


def _digest(message: Message, **_: Any) -> str:
    """A message in short: what it is, not what it looks like."""
    known = {
        "kind": message.kind.value,
        "key": message.delivery_key,
        "episode": message.episode,
        # A link to the instance's page in the console is nothing to answer by.
        "link": None if message.link is None or "/instances/" in message.link else message.link,
        "acts": message.acts,
    }
    return json.dumps(known)


def _bits(count: int) -> int:
    """In place of chance, a number of the cloud: the same story has the same ids."""
    return _CLOUDS[-1].number() % (1 << count)


def _sleep(seconds: float) -> None:
    """Let simulated time pass, for the one who sleeps."""
    _CLOUDS[-1].moment += timedelta(seconds=seconds)


class _Inline:
    """An executor that does everything at once, in order: threads have no place in simulated
    time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, act: Callable[..., Any], *given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(act(*given))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    def shutdown(self, **_: Any) -> None:
        pass


class _Silent:
    """A logger that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _parts(kind: type[Parts], variables: Mapping[str, str]) -> Parts:
    twins: dict[str, Any] = {
        "policy_text": SimpleNamespace(
            read=lambda **_: (
                _CLOUDS[-1].port("ssm.read", lambda: _CLOUDS[-1].policy) if _CLOUDS else ""
            )
        ),
        "documents": _Documents(),
        "clock": _Clock(),
        "table": _CloudTable(),
        "workflow": _Port("states", "cloud"),
        "link_keys": SimpleNamespace(read=lambda: _CLOUDS[-1].port("secrets.read", lambda: KEYS)),
        "channel_secret": SimpleNamespace(
            read=lambda: (
                _CLOUDS[-1].port("secrets.read", lambda: _CLOUDS[-1].channels) if _CLOUDS else {}
            )
        ),
        "undoer": _Port("lambda", "cloud"),
        **dict.fromkeys(
            ("instances", "controller", "starter", "snapshots", "remover"), _Port("ec2", "ec2")
        ),
        "vault": _Port("s3", "vault"),
        "tagger": _Tagger("ec2", "ec2"),
        "metrics": _Metrics("cloudwatch", "metrics"),
        "prices": _Prices(),
        "batch": _Port("batch", "batch"),
        "hook": _Port("ssm", "hook"),
        "hooks": _Port("autoscaling", "hooks"),
        "spread": map,
        "market": _Market("ec2", "market"),
    }
    known = {name: twin for name, twin in twins.items() if hasattr(kind, name)}
    return kind(settings(**variables), _SimulatedClients(), **known)


@cache
def handler_of(function: str) -> Callable[[Any], Any]:
    """The handler of a function, wired by its own wiring with parts of the present cloud."""
    return _wired(function, {})


@cache
def handler_with_sign_in(function: str) -> Callable[[Any], Any]:
    """The same in a stack whose people sign in before they decide."""
    return _wired(function, SIGN_IN)


def _wired(function: str, variables: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return the handler of a function of a stack with these further variables."""
    path = ROOT / "functions" / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"simulated_{function}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    def observed(wired: Any) -> Callable[[Any], Any]:
        return lambda handler: lambda event: handler(event, None, wired)

    # What is wired at cold start must call nothing.
    with ExitStack() as patched, _current_none():
        for name, value in (
            ("governor.wiring.ec2.Ec2Parts", lambda: _parts(Ec2Parts, variables)),
            ("governor.wiring.parts.Parts", lambda: _parts(Parts, variables)),
            ("governor.wiring.observability.observed", observed),
            ("governor.wiring.observability.logger", _Silent()),
            ("governor.wiring.observability.count", lambda *_, **__: None),
        ):
            patched.enter_context(mock.patch(name, value))
        spec.loader.exec_module(module)
    handler: Callable[[Any], Any] = module.handler
    return handler


@contextmanager
def _current_none() -> Iterator[None]:
    kept, _CLOUDS[:] = list(_CLOUDS), []
    try:
        yield
    finally:
        _CLOUDS[:] = kept


@contextmanager
def simulated() -> Iterator[None]:
    """Put what has no place in simulated time aside: threads, sleep, chance, logs, how a mail
    looks."""
    # The same text is the same policy: it is parsed at every invocation, and is no part of what is
    # proven.
    read = lru_cache(64)(read_document)
    books: dict[tuple[int, bool], PolicyBook] = {}

    def book(document: PolicyDocument, *, accepted: bool = False) -> PolicyBook:
        key = id(document), accepted
        if key not in books:
            books[key] = PolicyBook(document, accepted=accepted)
        return books[key]

    with ExitStack() as patched:
        for name, value in (
            ("governor.table.once.ThreadPoolExecutor", _Inline),
            ("governor.table.once.wait", lambda *_, **__: None),
            (
                "governor.notify.email.email_document",
                lambda message, **_: SimpleNamespace(as_bytes=lambda: _digest(message).encode()),
            ),
            ("governor.notify.slack.slack_text", _digest),
            ("governor.notify.slack.slack_blocks", lambda *_, **__: []),
            ("governor.core.https.Https.send", _send),
            (
                "governor.remediation.open_episode.secrets.token_hex",
                lambda size: f"{_bits(8 * size):032x}",
            ),
            (
                "governor.notify.dispatch.secrets.token_urlsafe",
                lambda size: f"{_bits(8 * size):032x}",
            ),
            ("governor.sweep.store.random", SimpleNamespace(getrandbits=_bits)),
            ("governor.policy.document.read_document", read),
            ("governor.policy.document.PolicyBook", book),
            ("logging.Logger.handle", lambda *_: None),
        ):
            patched.enter_context(mock.patch(name, value))
        for kind in (Dispatch, TakeSnapshot):
            init = kind.__init__
            defaults = tuple(
                _sleep if one is time.sleep else one for one in init.__defaults__ or ()
            )
            patched.enter_context(mock.patch.object(init, "__defaults__", defaults))
        yield
        handler_of.cache_clear()
        handler_with_sign_in.cache_clear()
