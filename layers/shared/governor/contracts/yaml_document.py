"""YAML text to plain settings: text keys, no objects, no surprises, and the line of every setting.

Its length, depth and expanded aliases have limits, and every mistake is a `PolicyError`. As in YAML
1.2, dates, times and words (`2026-01-31`, `18:00`, `off`) are text; a number that 1.1 and 1.2 read
differently (`0120`, `6_0`) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from governor.domain.units import printable
from governor.errors import PolicyError, PolicyProblem

_MOST_CHARACTERS = 65_536
"""Far more than a policy needs; far less than what hurts."""
_DEEPEST = 32
_MOST_VALUES = 20_000
"""With aliases expanded; a document of that length without any has fewer."""
_SHOWN_CHARACTERS = 40

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_NUMBERS = ("int", "float")
_PLAIN = ("str", "bool", "null", *_NUMBERS)
_TEXT = ("timestamp", "value", "merge")
"""Parts of YAML 1.1 only: dates, and the signs `=` and `<<`."""
_ODD = (
    (r"[-+]?0b", "is binary, of YAML 1.1 only; write it in decimal, or in quotes if it is text"),
    (r"[-+]?0[0-9_]", "begins with a zero, octal in YAML 1.1; write it without, or in quotes"),
    (r"[^_]*_", "is a number of YAML 1.1 only; write it without _, or in quotes if it is text"),
)
"""Numbers that YAML 1.1 reads in another way than 1.2."""
_INT_BITS = 64
"""Bits of a whole number, its sign included."""

Path = tuple[str, ...]
"""Path of a setting: the keys, and the indices of lists, that lead to it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its lines: the line (from 1) of the key of every setting, or of a list's
    item."""

    settings: Mapping[str, Any]
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """Return the line of the setting itself, else of what holds it, or would."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def read_document(text: str) -> Document:
    """Return the settings of a YAML document; empty text means none. Raises: PolicyError: too long,
    too deep, not YAML, or not one mapping with text keys that each stand once."""
    if len(text) > _MOST_CHARACTERS:
        raise _refused(f"has {len(text)} characters; a policy has at most {_MOST_CHARACTERS}", None)
    try:
        reader = _Reader(text)
        root = reader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refused(
            f"not readable as YAML: the character {error.character:#06x} is in it", line
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise _refused(
            f"not readable as YAML: {printable(said)}", mark.line + 1 if mark else None
        ) from None
    except (ValueError, OverflowError):
        # The scanner makes characters of what escapes name, and numbers of directives, without a
        # look.
        reason = (
            "not readable as YAML: a number is too large, of an escape (\\U0001F600) or of %YAML"
        )
        raise _refused(reason, reader.line + 1) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"):
        return Document({}, {})
    if not isinstance(root, yaml.MappingNode):
        raise _refused("the document must be a mapping of settings", root.start_mark.line + 1)
    settings = reader.setting(root, (), ())
    if reader.problems:
        raise PolicyError(sorted(reader.problems, key=lambda problem: problem.line or 0))
    return Document(settings, reader.lines)


def shown(value: object) -> str:
    """A value as a person would write it, on one line and cut where it is long."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = printable(str(value))
    text = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return f"'{text}'" if isinstance(value, str) else text


def _refused(reason: str, line: int | None) -> PolicyError:
    return PolicyError([PolicyProblem("", reason, line)])


class _Reader(yaml.SafeLoader):
    """Composes the nodes of a document and turns them into settings; collects every mistake on the
    way."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[PolicyProblem] = []
        self.lines: dict[Path, int] = {}
        self._depth = 0
        self._settings = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose nothing deeper than a policy can be, so that no document exhausts the stack."""
        if self._depth == _DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"it is nested more than {_DEEPEST} deep", mark
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def setting(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> Any:
        """Return what a node says, or `None` for a mistake; `above` are the nodes that it stands
        in."""
        if any(node is one for one in above):
            return self._mistake(path, "refers to what it stands in", above[-1])
        self._settings += 1
        if self._settings > _MOST_VALUES or len(above) > _DEEPEST:
            reason = (
                f"its aliases (*name) expand to more than {_MOST_VALUES} values, or {_DEEPEST} deep"
            )
            raise _refused(reason, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag == _TAG + "map" and isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*above, node))
        if node.tag == _TAG + "seq" and isinstance(node, yaml.SequenceNode):
            items = [(item, (*path, str(index))) for index, item in enumerate(node.value)]
            self.lines |= {inner: item.start_mark.line + 1 for item, inner in items}
            return [self.setting(item, inner, (*above, node)) for item, inner in items]
        return self._mistake(path, f"has the tag {_short(node.tag)}, which no setting has", node)

    def _mapping(
        self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        # What is merged comes first: the mapping's own keys, and their lines, replace those of
        # others.
        for key_node, value_node in sorted(
            node.value, key=lambda pair: bool(pair[0].tag != _MERGE)
        ):
            key = self._key(key_node, path)
            if key is None:
                continue
            inner, line = (*path, key), key_node.start_mark.line + 1
            if key in first:
                self._mistake(inner, f"stands twice, in line {first[key]} and here", key_node)
                continue
            first[key] = line
            if key_node.tag == _MERGE:
                found = self._merged(value_node, path, above)
            else:
                self.lines[inner] = line
                found[key] = self.setting(value_node, inner, above)
        return found

    def _merged(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        """The mappings that `<<` names, of one alias or of a list of them; an earlier one goes
        first."""
        merged: dict[str, Any] = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if isinstance(source, yaml.MappingNode):
                merged |= self.setting(source, path, above) or {}
            else:
                self._mistake((*path, "<<"), "merges mappings only", source)
        return merged

    def _key(self, node: yaml.Node, path: Path) -> Any:
        """The text of a key, or `None` where it is a mistake."""
        if not isinstance(node, yaml.ScalarNode):
            return self._mistake(path, "has a key that is no text", node)
        key = self._scalar(node, (*path, node.value))
        if isinstance(key, str):
            return key
        return self._mistake((*path, node.value), "is no text as a key; put it in quotes", node)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text, kind = str(node.value), node.tag[len(_TAG) :] if node.tag.startswith(_TAG) else ""
        is_word = kind == "bool" and text.lower() not in ("true", "false")
        if kind in _TEXT or is_word or (kind in _NUMBERS and ":" in text):
            return text
        if kind not in _PLAIN:
            return self._mistake(
                path, f"has the tag {_short(node.tag)}, which no setting has", node
            )
        for pattern, odd in _ODD if kind in _NUMBERS else ():
            if re.match(pattern, text):
                return self._mistake(path, f"{shown(text)} {odd}", node)
        try:
            found = self.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError):
            return self._mistake(path, f"{shown(text)} is no {kind}", node)
        if isinstance(found, int) and found.bit_length() >= _INT_BITS:
            return self._mistake(path, f"{shown(text)} does not fit in {_INT_BITS} bits", node)
        if isinstance(found, str) and any("\ud800" <= c <= "\udfff" for c in found):
            return self._mistake(path, "has half of a character (a surrogate) in it", node)
        return found

    def _mistake(self, path: Path, reason: str, node: yaml.Node) -> Any:
        """Collect it, and return `None`, so that readers of nodes can return it."""
        self.problems.append(PolicyProblem(dotted(path), reason, node.start_mark.line + 1))
        return None


def dotted(path: Path) -> str:
    return printable(".".join(path))


def _short(tag: str) -> str:
    return printable("!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag)
