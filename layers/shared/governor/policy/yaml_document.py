"""Parses YAML text into plain settings: keys are text, no objects are made, and the line of every
setting is known.

Length, depth and expanded aliases are limited, and every mistake is a `PolicyError`. As in YAML
1.2, dates, times and words (`2026-01-31`, `18:00`, `off`) are text; a number that 1.1 and 1.2 read
differently (`0120`, `6_0`) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from governor.core.errors import GovernorError, PolicyError, PolicyProblem
from governor.core.units import clip, printable

_MOST_CHARACTERS = 65_536
"""Far more than a policy needs, and far less than a reader can take."""
_MOST_DEPTH = 32
"""The most mappings and lists inside each other."""
_MOST_VALUES = 20_000
"""The most values with aliases expanded; a document of that length without any has fewer."""
_SHOWN_CHARACTERS = 40

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_NUMBERS = ("int", "float")
_PLAIN = ("str", "bool", "null", *_NUMBERS)
_TEXT = ("timestamp", "value", "merge")
"""Kinds of YAML 1.1 alone, read as text: dates, and the signs `=` and `<<`."""
_ODD = (
    (r"[-+]?0b", "is binary, of YAML 1.1 only; write it in decimal, or in quotes if it is text"),
    (r"[-+]?0[0-9_]", "begins with a zero, octal in YAML 1.1; write it without, or in quotes"),
    (r"[^_]*_", "is a number of YAML 1.1 only; write it without _, or in quotes if it is text"),
)
"""Numbers that YAML 1.1 reads differently from 1.2, and what to do about each."""
_INT_BITS = 64
"""The most bits of a whole number, its sign included."""

Path = tuple[str, ...]
"""The path of a setting: the keys, and the indices of lists, that lead to it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document, and the line (from 1) of each setting's key and of each item of a list."""

    settings: Mapping[str, Any]
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """Return the line (from 1) of the setting at this path, else of the nearest setting around
        it; `None` if none of them has a line."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


class PartlyRead(GovernorError):
    """Some settings could not be read. `document` has the others, and those without a value.

    It is no `PolicyError`, so that whoever reads a document decides what the rest is worth.
    """

    def __init__(self, problems: Sequence[PolicyProblem], document: Document) -> None:
        """Keep the mistakes, one for each setting that cannot be read, and the document."""
        super().__init__(f"{len(problems)} settings of the policy cannot be read")
        self.problems = tuple(problems)
        self.document = document


def read_document(text: str) -> Document:
    """Return the settings of a YAML document, with their lines; no settings for an empty text or
    `null`.

    Raises: PolicyError if the text is too long, too deep, not YAML, or no mapping; PartlyRead with
    every setting whose key is no text or stands twice, or whose value no setting can have.
    """
    if len(text) > _MOST_CHARACTERS:
        raise _refused(f"has {len(text)} characters; a policy has at most {_MOST_CHARACTERS}", None)
    reader, root = _composed(text)
    is_null = isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"
    if root is None or is_null:
        return Document({}, {})
    if not isinstance(root, yaml.MappingNode):
        raise _refused("the document must be a mapping of settings", root.start_mark.line + 1)
    settings = reader.setting(root, (), ())
    if reader.problems:
        problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
        raise PartlyRead(problems, Document(settings or {}, reader.lines))
    return Document(settings, reader.lines)


def _composed(text: str) -> tuple[_Reader, yaml.Node | None]:
    """Return the reader of a document and the root of its nodes; `None` for the root of an empty
    document. Raises: PolicyError, with the line, if it is not readable as YAML."""
    try:
        reader = _Reader(text)
        return reader, reader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refused(
            f"not readable as YAML: the character {error.character:#06x} is in it", line
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise _refused(
            f"not readable as YAML: {printable(reason)}", mark.line + 1 if mark else None
        ) from None
    except (ValueError, OverflowError):
        # The scanner converts the numbers in escapes and directives without checking them.
        reason = (
            "not readable as YAML: a number is too large, of an escape (\\U0001F600) or of %YAML"
        )
        raise _refused(reason, reader.line + 1) from None


def shown(value: object) -> str:
    """Return a value as a message shows it, on one line: text in quotes and cut to 40 characters,
    `true` or `false`, `null`, `a list`, `a mapping`; anything else, such as a number, without
    quotes."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = clip(printable(str(value)), _SHOWN_CHARACTERS)
    return f"'{text}'" if isinstance(value, str) else text


def _refused(reason: str, line: int | None) -> PolicyError:
    """Return the error of one mistake that is about the document as a whole, to be raised. `line`
    is `None` if it is in no single line."""
    return PolicyError([PolicyProblem("", reason, line)])


class _Reader(yaml.SafeLoader):
    """Composes the nodes of a document, and turns them into settings. Mistakes are added to
    `problems`, and the line of each setting to `lines`."""

    def __init__(self, text: str) -> None:
        """Begin at the start of the document `text`, without mistakes and lines."""
        super().__init__(text)
        self.problems: list[PolicyProblem] = []
        self.lines: dict[Path, int] = {}
        self._depth = 0
        self._settings = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, as PyYAML's own method of this name does. Raises: ComposerError for a
        node that is deeper than a policy can be, so that no document exhausts the stack."""
        if self._depth == _MOST_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"it is nested more than {_MOST_DEPTH} deep", mark
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def setting(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> Any:
        """Return the value of the node at this path. Return `None` for a mistake, which is added to
        `problems`, and for the value `null`.

        `above` are the nodes around it, the outermost first. Raises: PolicyError if there are too
        many values.
        """
        if any(node is outer_node for outer_node in above):
            return self._mistake(path, "refers to what it stands in", above[-1])
        self._count_setting(node, above)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag == _TAG + "map" and isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if node.tag == _TAG + "seq" and isinstance(node, yaml.SequenceNode):
            return self._sequence(node, path, (*above, node))
        return self._mistake(path, f"has the tag {_short(node.tag)}, which no setting has", node)

    def _count_setting(self, node: yaml.Node, above: tuple[yaml.Node, ...]) -> None:
        """Count one more value of the document. Raises: PolicyError if there are too many by now,
        or this one is too deep."""
        self._settings += 1
        if self._settings > _MOST_VALUES or len(above) > _MOST_DEPTH:
            reason = (
                f"its aliases (*name) expand to more than {_MOST_VALUES} values, "
                f"or {_MOST_DEPTH} deep"
            )
            raise _refused(reason, node.start_mark.line + 1)

    def _sequence(
        self, node: yaml.SequenceNode, path: Path, above: tuple[yaml.Node, ...]
    ) -> list[Any]:
        """Return the values of a list, and add the line of each to `lines`. A value that is a
        mistake is `None`. `above` are the nodes around its members, the list itself last. Raises:
        PolicyError if there are too many values."""
        values: list[Any] = []
        for index, item in enumerate(node.value):
            item_path = (*path, str(index))
            self.lines[item_path] = item.start_mark.line + 1
            values.append(self.setting(item, item_path, above))
        return values

    def _mapping(
        self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]
    ) -> dict[str, Any]:
        """Return the settings of a mapping, and add the line of each to `lines`. A setting whose
        key is no text or stands twice is left out, and is a mistake; a value that is one is `None`.
        `above` are the nodes around its values, the mapping itself last. Raises: PolicyError if
        there are too many values."""
        settings: dict[str, Any] = {}
        line_by_key: dict[str, int] = {}
        # Merged settings come first: the mapping's own keys, and their lines, replace them.
        pairs = sorted(node.value, key=lambda pair: pair[0].tag != _MERGE)
        for key_node, value_node in pairs:
            key = self._key(key_node, path)
            if key is None:
                continue
            inner_path = (*path, key)
            if key in line_by_key:
                reason = f"stands twice, in line {line_by_key[key]} and here"
                self._mistake(inner_path, reason, key_node)
                continue
            line_by_key[key] = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                settings = self._merged(value_node, path, above)
            else:
                self.lines[inner_path] = line_by_key[key]
                settings[key] = self.setting(value_node, inner_path, above)
        return settings

    def _merged(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        """Return the settings of the mappings that the merge key `<<` names: one alias, or a list
        of them. If two of the mappings have the same key, the earlier one counts.

        Anything but a mapping is a mistake, and is left out. `above` are the nodes around it, the
        outermost first. Raises: PolicyError if there are too many values.
        """
        merged: dict[str, Any] = {}
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in reversed(sources):
            if isinstance(source, yaml.MappingNode):
                merged |= self.setting(source, path, above) or {}
            else:
                self._mistake((*path, "<<"), "merges mappings only", source)
        return merged

    def _key(self, node: yaml.Node, path: Path) -> Any:
        """Return the text of a key. If it is no text, add one mistake and return `None`."""
        if not isinstance(node, yaml.ScalarNode):
            return self._mistake(path, "has a key that is no text", node)
        problems_before = len(self.problems)
        key = self._scalar(node, (*path, node.value))
        if isinstance(key, str):
            return key
        if len(self.problems) > problems_before:
            return None
        return self._mistake((*path, node.value), "is no text as a key; put it in quotes", node)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        """Return the value of a scalar: text, a number, a boolean or `None` for `null`. If it is a
        mistake, add that and return `None`."""
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG) if node.tag.startswith(_TAG) else ""
        if _is_text(kind, text):
            return text
        if kind not in _PLAIN:
            reason = f"has the tag {_short(node.tag)}, which no setting has"
            return self._mistake(path, reason, node)
        odd = _why_odd(text) if kind in _NUMBERS else None
        if odd is not None:
            return self._mistake(path, f"{shown(text)} {odd}", node)
        try:
            value = self.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError):
            return self._mistake(path, f"{shown(text)} is no {kind}", node)
        if isinstance(value, int) and value.bit_length() >= _INT_BITS:
            return self._mistake(path, f"{shown(text)} does not fit in {_INT_BITS} bits", node)
        if isinstance(value, str) and _has_surrogate(value):
            return self._mistake(path, "has half of a character (a surrogate) in it", node)
        return value

    def _mistake(self, path: Path, reason: str, node: yaml.Node) -> Any:
        """Add a mistake, with the line of its node, to `problems`. Return `None`, as the value of
        that node."""
        self.problems.append(PolicyProblem(dotted(path), reason, node.start_mark.line + 1))
        return None


def _is_text(kind: str, text: str) -> bool:
    """Return whether a scalar is text in YAML 1.2 although YAML 1.1 reads it as this kind: a date,
    a word such as `off`, or a time such as `18:00`. `kind` is the name of its tag, as `bool`."""
    is_word = kind == "bool" and text.lower() not in ("true", "false")
    is_clock_time = kind in _NUMBERS and ":" in text
    return kind in _TEXT or is_word or is_clock_time


def _why_odd(number: str) -> str | None:
    """Return why a number is refused that YAML 1.1 and 1.2 read differently, such as `0120`; `None`
    if both read it alike."""
    for pattern, reason in _ODD:
        if re.match(pattern, number):
            return reason
    return None


def _has_surrogate(text: str) -> bool:
    """Return whether a text has half of a character, which UTF-8 cannot write."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def dotted(path: Path) -> str:
    """Return a path as people read it: `overrides.0.set.mode`."""
    return printable(".".join(path))


def _short(tag: str) -> str:
    """Return a tag as a person would write it: `!!set` for `tag:yaml.org,2002:set`."""
    short_tag = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
    return printable(short_tag)
