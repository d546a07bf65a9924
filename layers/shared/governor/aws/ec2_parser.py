"""Parses only the XML elements present in EC2's answer; botocore tries every field of the model.

That took half of a steady sweep. The parser here overrides one method of botocore that is not
public, and calls others. The layer therefore ships botocore, pinned (decision 0013). If the
installed botocore lacks something that the parser relies on, botocore's own parser reads EC2's
answers, and the log says so. Nothing is written onto botocore's objects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from botocore.model import Shape, StructureShape
from botocore.parsers import EC2QueryParser, ResponseParserFactory

_log = logging.getLogger(__name__)
_RELIED_ON: dict[type, tuple[str, ...]] = {
    EC2QueryParser: (
        "_handle_structure",
        "_handle_list",
        "_handle_string",
        "_handle_boolean",
        "_handle_integer",
        "_handle_long",
        "_handle_float",
        "_handle_double",
        "_handle_timestamp",
    ),
    Shape: ("metadata", "serialization"),
    StructureShape: ("members",),
}
"""Names of botocore's classes that the parser uses."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a structure, and the parser's method that reads its element."""

    name: str
    shape: Any
    read: Callable[..., Any]


_Fields = dict[str, _Field]
"""The fields of a structure, by the names of their XML elements."""


class Ec2ParserFactory(ResponseParserFactory):
    """Makes the parsers of one session: this module's for EC2, botocore's for other services."""

    def __init__(self, timestamp_parser: Callable[[Any], datetime]) -> None:
        """Make the factory, which gives every parser `timestamp_parser` to read times. Log a
        warning if this botocore lacks something that `Ec2Parser` needs."""
        super().__init__()
        self.set_parser_defaults(timestamp_parser=timestamp_parser)
        self.timestamp_parser = timestamp_parser
        # Weak: a warm function sees the clients of hundreds of episodes, and the model of EC2
        # takes megabytes. A client that is gone takes its shapes along.
        self.fields_by_shape: MutableMapping[Any, _Fields] = WeakKeyDictionary()
        self.missing = missing_from_botocore()
        if self.missing:
            _log.warning(
                "this botocore lacks %s; EC2's answers are read by its own parser, which takes "
                "longer",
                ", ".join(self.missing),
            )

    def create_parser(self, protocol_name: str) -> Any:
        """Return a parser for one answer: ours for EC2, unless this botocore lacks something
        (`missing`); else botocore's own. botocore calls this for each answer."""
        if protocol_name != "ec2" or self.missing:
            return super().create_parser(protocol_name)
        return Ec2Parser(self.timestamp_parser, self.fields_by_shape)


def missing_from_botocore() -> list[str]:
    """Return the names that this botocore lacks of all that the parser relies on, such as
    `Shape.metadata`; empty if it lacks none."""
    missing = []
    for botocore_class, names in _RELIED_ON.items():
        for name in names:
            if not hasattr(botocore_class, name):
                missing.append(f"{botocore_class.__name__}.{name}")
    return missing


class Ec2Parser(EC2QueryParser):
    """Reads only the XML elements that an answer contains.

    Structures with special fields or repeated elements are left to botocore.
    """

    def __init__(
        self,
        timestamp_parser: Callable[[Any], datetime],
        fields_by_shape: MutableMapping[Any, _Fields],
    ) -> None:
        """Read times with `timestamp_parser`. `fields_by_shape` keeps the fields of each structure,
        and is shared by all parsers of a session."""
        super().__init__(timestamp_parser=timestamp_parser)
        self.fields_by_shape = fields_by_shape

    def _handle_structure(self, shape: Any, node: Any) -> Any:
        """Return the fields of a structure by their names, read from its XML element `node` (or a
        list of elements); elements that the model does not know are left out. botocore calls this
        for each structure of an answer."""
        if isinstance(node, list):
            return super()._handle_structure(shape, node)  # type: ignore[misc]
        fields = self.fields_of(shape)
        elements = {element.tag.rpartition("}")[2]: element for element in node}
        has_repeated_elements = len(elements) < len(node)
        if not fields or has_repeated_elements:
            return super()._handle_structure(shape, node)  # type: ignore[misc]
        parsed: dict[str, Any] = {}
        for tag, element in elements.items():
            field = fields.get(tag)
            if field is not None:
                parsed[field.name] = field.read(self, field.shape, element)
        return parsed

    def fields_of(self, shape: Any) -> _Fields:
        """Return the fields of a structure; an empty mapping if botocore is to read it."""
        fields = self.fields_by_shape.get(shape)
        if fields is None:
            fields = plain_fields(shape)
            self.fields_by_shape[shape] = fields
        return fields


def plain_fields(shape: Any) -> _Fields:
    """Return the fields of a structure, by the names of their XML elements.

    Return an empty mapping if the model says more of the structure or of a field than a name, or
    botocore has no method to read a field's type: such fields are read by other rules.
    """
    if not shape.metadata.keys() <= {"required"}:
        return {}
    fields: _Fields = {}
    for name, member in shape.members.items():
        read = getattr(Ec2Parser, f"_handle_{member.type_name}", None)
        has_only_a_name = member.serialization.keys() <= {"name"}
        if read is None or not has_only_a_name:
            return {}
        element_name = member.serialization.get("name", name)
        fields[element_name] = _Field(name, member, read)
    return fields
