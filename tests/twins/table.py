"""The state table in memory: the real stores over a table that is a dictionary.

Conditions, encodings and keys are those of the real table; one suite runs against both.
"""

from __future__ import annotations

import marshal
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from governor.approvals.model.approval import Approval
from governor.aws.dynamodb import attributes, packed, unpacked
from governor.aws.record_codec import read_all, written
from governor.core.errors import CloudError, ConflictError
from governor.episode.model.episode import Episode, InstanceRecord
from governor.table import keys
from governor.table.table import Condition, Document, Key, Table, Write
from tests.twins.stores import EveryEventStore, EveryStore

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
}

ASKED: list[Callable[[str, str], None]] = []
WRITTEN: list[Callable[[str, str, frozenset[str]], None]] = []


class MemoryTable(Table):
    """Items by key. One lock stands for DynamoDB's atomic writes; `failure` is raised by every
    call.

    Those in `ASKED` are told the IAM action and the partition of every request; those in `WRITTEN`,
    of every write and check, with the attributes that it names (`tests/rights.py`).
    """

    document, records = staticmethod(written), staticmethod(read_all)

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.items: dict[Key, Document] = {}
        self.failure: Exception | None = None

    def with_short_timeout(self) -> Table:
        """Itself: no call takes time."""
        return self

    def get(self, key: Key) -> Document | None:
        _ask("dynamodb:GetItem", key[0])
        with self._turn():
            found = self.items.get(key)
            return None if found is None else _copy(found)

    def get_all(self, keys: Sequence[Key]) -> list[Document]:
        """Copies of the items, each once, and not in the order of the keys."""
        different_keys = list(dict.fromkeys(keys))
        for pk, _ in different_keys:
            _ask("dynamodb:BatchGetItem", pk)
        with self._turn():
            return [_copy(self.items[key]) for key in reversed(different_keys) if key in self.items]

    def query(self, pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        """Copies of the items, as they are now."""
        _ask("dynamodb:Query", pk)
        with self._turn():
            found = sorted(key for key in self.items if key[0] == pk and key[1].startswith(prefix))
            return iter(
                [_copy(self.items[key]) for key in found if after is None or key[1] > after]
            )

    def write(self, one: Write) -> Document:
        with self._turn():
            self.transact(one)
            return _copy(self.items[one.key]) if one.returns_item else {}

    def transact(self, *writes: Write) -> None:
        for one in writes:
            _ask(f"dynamodb:{one.kind}Item", one.key[0])
            for written_by in WRITTEN:
                written_by(f"dynamodb:{one.kind}Item", one.key[0], named_attributes(one))
        if len({one.key for one in writes}) < len(writes):
            raise CloudError(
                "a transaction cannot write one item twice", operation="dynamodb:TransactWriteItems"
            )
        with self._turn():
            for one in writes:
                item = self.items.get(one.key, {})
                if one.condition is not None and not _holds(one.condition, item):
                    raise ConflictError(f"the condition on {' / '.join(one.key)} does not hold")
            for one in writes:
                self._carry_out(one)

    def _carry_out(self, one: Write) -> None:
        document = _stored({**attributes(one), "pk": one.key[0], "sk": one.key[1]})
        match one.kind:
            case "Put":
                self.items[one.key] = document
            case "Delete":
                self.items.pop(one.key, None)
            case "Update":
                item = {**self.items.get(one.key, {}), **document}
                for name in one.remove:
                    item.pop(name, None)
                for name, number in one.add.items():
                    item[name] = item.get(name, 0) + number
                if one.first is not None:
                    name, entry, value = one.first
                    item[name] = {**_stored({entry: value}), **item[name]}
                self.items[one.key] = item

    def _turn(self) -> threading.RLock:
        if self.failure is not None:
            raise self.failure
        return self.lock


def _ask(action: str, pk: str) -> None:
    for asked in ASKED:
        asked(action, pk)


def named_attributes(one: Write) -> frozenset[str]:
    """Return the attributes that a write names, those of its condition included, as
    `dynamodb:Attributes`.

    Source: DynamoDB Developer Guide, "Using IAM policy conditions for fine-grained access control":
    the key attributes count, and of a path its first part.
    """
    names = {"pk", "sk", *attributes(one), *one.remove, *one.add}
    if one.first is not None:
        names.add(one.first[0])
    if one.condition is not None:
        names |= _compared(one.condition)
    return frozenset(names)


def _compared(condition: Condition) -> set[str]:
    if isinstance(condition.left, Condition):
        return _compared(condition.left) | _compared(condition.right)
    return {str(condition.left).partition(".")[0]}


def _copy(document: Document) -> Document:
    """Copy plain data: by `copy.deepcopy` it would take many times as long."""
    copied: Document = marshal.loads(marshal.dumps(document))
    return copied


def _stored(document: Document) -> Document:
    """Through the real encoding, which refuses what DynamoDB cannot hold and gives lists for
    tuples."""
    return unpacked(packed(document))


def _holds(condition: Condition, item: Document) -> bool:
    left, right = condition.left, condition.right
    if isinstance(left, Condition):
        return (all if condition.operator == "AND" else any)(
            _holds(one, item) for one in (left, right)
        )
    right = _stored({"right": right})["right"]
    outer, _, inner = str(left).rpartition(".")
    item, left = (item.get(outer, {}), inner) if outer else (item, left)
    match condition.operator:
        case "attribute_exists":
            return left in item
        case "attribute_not_exists":
            return left not in item
        case "=":
            return left in item and item[left] == right
        case "<>":
            return left not in item or item[left] != right
        case comparison:
            known = item.get(left)
            return type(known) is type(right) and _COMPARISONS[comparison](known, right)


class MemoryStateTable(EveryStore):
    """All stores over one table, whose `items` tests may change behind their back."""

    def __init__(self, memory: MemoryTable | None = None) -> None:
        self.memory = memory or MemoryTable()
        super().__init__(self.memory)
        self.items = self.memory.items

    def put(self, *records: Episode | Approval | InstanceRecord) -> None:
        """Stores the records as they are, whatever was there."""
        for record in records:
            match record:
                case Episode():
                    key = keys.episode(record.ref)
                case Approval():
                    key = keys.approval(record.approval_id)
                case InstanceRecord():
                    key = keys.instance(record.target, record.instance_id)
            document = {"pk": key[0], "sk": key[1], **written(record)}
            self.items[key] = _stored({k: v for k, v in document.items() if v is not None})

    def forget(self, sk: str) -> None:
        """Deletes all items with that sort key."""
        for key in [key for key in self.items if key[1] == sk]:
            del self.items[key]


class MemoryEventLog(EveryEventStore):
    """The event log over a table of its own."""

    def __init__(self) -> None:
        self.memory = MemoryTable()
        super().__init__(self.memory)
