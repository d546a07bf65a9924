"""Texts for people use the project's words: one word for one thing, in messages, templates and
docs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
LAYER = ROOT / "layers/shared/governor"
SAY = {
    r"\btold\b|\btell(s|ing)?\b(?! (\w+ ){0,4}(apart|from))|\btellers?\b": (
        "notify, notification, send"
    ),
    r"(?<!AWS )(?<!EC2 has )\bannounce[sd]?\b(?! dates?\b)|\bannouncers?\b": "notify, send",
    r"\bheard\b|\bhas taken (it|the message)\b|\bnot taken\b|\bTaken:": "delivered, recorded",
    r"\bsaid nothing\b": "silent",
    r"\bput(s|ting)? away\b": "stop, terminate",
    r"\blet (it |them )?be\b": "keep, snooze, hold",
    r"\bwhisper": "ephemeral message",
    r"(?<!in )\bthe past\b": "past utilization, history",
    r"\blook(s|ed)? at anew\b": "reviewed, checked again",
    r"\bgravest\b|\bdearest\b": "severity, highest priority, most expensive",
    r"\bwhoever\b": "approver, owner, on-call",
    r"\bbought as\b": "Savings Plan, Reserved Instance, On-Demand, Capacity Reservation",
    r"\bwhat other services run\b": "Auto Scaling group, managed node group, Batch "
    "compute environment",
    r"(?<!AWS )(?<!scheduled )(?<!interruption )(?<!two-minute )\bnotices?\b(?! period)": (
        "alert, finding, question (a notice is one of AWS, or the notice period)"
    ),
}
_ANY_WRONG_WORD = re.compile("|".join(SAY), re.IGNORECASE)
MODULES = sorted(
    path
    for folder in (
        LAYER,
        *(ROOT / name for name in ("agent/src", "cli", "functions", "local", "simulation")),
    )
    for path in folder.rglob("*.py")
)
"""Whatever text of theirs a person may read: messages, reasons, errors, what a command prints,
logs."""
PAGES = [
    *sorted((LAYER / "alerts/words").glob("*/*.txt")),
    *sorted((LAYER / "web/templates").glob("*.html")),
    *sorted((LAYER / "console/templates").glob("*.html")),
    *sorted((LAYER / "notify/templates").glob("*.html")),
]
STACKS = [
    ROOT / "template.yaml",
    ROOT / "docs/openapi.yaml",
    *sorted((ROOT / "stacks").glob("*.yaml")),
    *sorted((ROOT / "statemachines").glob("*.yaml")),
]
DOCS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "agent/README.md")),
    *sorted((ROOT / "local").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))
"""Their comments, and the names of their overrides; settings are named as they are."""
# Of fenced blocks those that name a language are code; the others are diagrams and what commands
# print.
_CODE = re.compile(r"```\w.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)
_MARKUP = re.compile(r"\{[%{#].*?[%}#]\}|<[^>]*>", re.DOTALL)
_DESCRIPTIONS = (
    "Description",
    "AlarmDescription",
    "ConstraintDescription",
    "GroupDescription",
    "AssertDescription",
    "Comment",
    "description",
    "summary",
    "default",
)


class _Loader(yaml.CSafeLoader):
    """Reads CloudFormation's own tags as plain data."""


def _plain(loader: _Loader, _: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _plain)


def _descriptions(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in _DESCRIPTIONS:
                yield from _strings(value)
            else:
                yield from _descriptions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _descriptions(value)


def _strings(node: object) -> Iterator[str]:
    """Yield what is put together of parts is read part by part."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)


KNOWN_SENTENCES = [
    " ".join(line.lower().split())
    for line in (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]
"""Parts of sentences that readers had to read twice."""
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def known_sentences(text: str) -> list[str]:
    """Return the known bad sentences that are in a text, whatever its case and line breaks."""
    # A template goes on in the next line after a backslash.
    without_values = _PLACEHOLDER.sub(" ", text.replace("\\\n", " "))
    plain_text = " ".join(without_values.lower().split())
    return [sentence for sentence in KNOWN_SENTENCES if sentence in plain_text]


_SMALL_ID = re.compile(r"(?<![\w\-./$#<{\"])[Ii]ds?(?![\w\-=>}\"]|\.\w)")
"""The word `id`, and not a part of a name, an option, a path, markup or a variable."""


def small_ids(text: str) -> list[str]:
    """Return each place where `ID` is written in small letters, with the words around it."""
    return [
        " ".join(text[max(0, found.start() - 30) : found.end() + 30].split())
        for found in _SMALL_ID.finditer(text)
    ]


def wrong_words(text: str) -> list[str]:
    """Each word that is not the project's, where it stands, with what to say instead."""
    if not _ANY_WRONG_WORD.search(text):
        return []
    return [
        f"{' '.join(text[max(0, found.start() - 30) : found.end() + 30].split())!r}: {instead}"
        for pattern, instead in SAY.items()
        for found in re.finditer(pattern, text, re.IGNORECASE)
    ]


@cache
def prose_of(path: Path) -> str:
    """Return what a person reads of a file, less code, names and markup."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            return "\n".join(_texts(ast.parse(text)))
        case ".html" | ".txt":
            return _MARKUP.sub(" ", text)
        case ".yaml":
            return "\n".join(_descriptions(yaml.load(text, _Loader)))
        case _:
            return _CODE.sub(" ", text)


def _texts(tree: ast.Module) -> list[str]:
    """The texts of a module that hold several words; docstrings are for contributors."""
    texts = []
    to_read: list[ast.AST] = [tree]
    while to_read:
        node = to_read.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value.strip():
                texts.append(node.value)
        elif not _is_docstring(node):
            # A third of the time of `ast.walk`. The last is read first, so the first comes last.
            parts: list[ast.AST] = []
            for part in vars(node).values():
                if isinstance(part, ast.AST):
                    parts.append(part)
                elif isinstance(part, list):
                    parts.extend(one for one in part if isinstance(one, ast.AST))
            to_read += reversed(parts)
    return texts


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a text alone: of a module, a function, a class, a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def name_of(path: Path) -> str:
    """Its path in the repository."""
    return str(path.relative_to(ROOT))


def problems_of(paths: Iterable[Path], check: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """Return what a check finds in what people read of these files, by file."""
    found = {name_of(path): check(prose_of(path)) for path in paths}
    return {name: problems for name, problems in found.items() if problems}


def test_messages_and_templates_use_the_words() -> None:
    """Whatever a reader of a mail, a page or a stack sees."""
    assert MODULES
    assert PAGES
    assert {} == problems_of([*MODULES, *PAGES, *STACKS], wrong_words)


def test_docs_use_the_words() -> None:
    """Every page."""
    assert len(DOCS) > 10
    assert {} == problems_of(DOCS, wrong_words)


def test_no_text_holds_a_sentence_that_readers_stumbled_over() -> None:
    """Messages, templates, pages, docs, and what commands print."""
    paths = [*MODULES, *PAGES, *STACKS, *DOCS, *EXAMPLES]

    assert {} == problems_of(paths, known_sentences)


def test_people_read_id_in_capitals() -> None:
    """`ID`, as AWS writes it; names of fields, options and variables stay as they are. The engine
    repeats what AWS says."""
    modules = [path for path in MODULES if not path.is_relative_to(ROOT / "local/engine")]

    assert {} == problems_of([*modules, *PAGES, *STACKS, *DOCS, *EXAMPLES], small_ids)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Id of the account. Type its id, or the ids of both.", 3),
        ("the ID, two IDs, --instance-id, instance_id, $ids, <a id='x'>, ACCOUNT#id", 0),
        ("pick-<approval id>, /q/{id}.{number}, q.id", 0),
    ],
)
def test_the_check_of_ids_finds_words_alone(text: str, number: int) -> None:
    """And no part of a name."""
    assert number == len(small_ids(text))


def test_the_check_finds_a_sentence_across_lines_and_values() -> None:
    """As a template, a paragraph of the docs or an f-string has it."""
    assert KNOWN_SENTENCES
    assert ["it is in no snapshot"] == known_sentences("all data; It is in\\\n    no snapshot.")
    assert ["because of something"] == known_sentences("3 stay because\nof {number} Something")
    code = 'f"3 stay because of {number} something, and {number} others"'
    assert ["because of something"] == known_sentences("\n".join(_texts(ast.parse(f"x = {code}"))))
    assert [] == known_sentences("It stays in a snapshot because of its tag.")


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_example_policies_use_the_words(path: Path) -> None:
    """A reader copies them."""
    said = re.findall(r"#.*|\bname: .*", path.read_text(encoding="utf-8"))
    assert said
    assert [] == wrong_words("\n".join(said))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The owner is told.", 1),
        ("Hashes tell long names apart.", 0),
        ("AWS announces a date; announced dates are kept.", 0),
        ("The sweep announces it, and nobody heard.", 2),
        ("The notice went out.", 1),
        ("Tell -> Heard? -> Record", 2),
        ("EC2 has announced that it takes it back.", 0),
        ("An interruption notice, and the notice period.", 0),
        ("It is put away, as in the past.", 1),
    ],
)
def test_the_check_finds_what_it_is_for(text: str, wrong: int) -> None:
    """And leaves alone what the list allows."""
    assert wrong == len(wrong_words(text))


def sentences_without_a_subject(page: str) -> list[str]:
    """Return the sentences of a page whose first word is no subject; headings and questions
    aside."""
    text = re.sub(r"^```.*?^```|^#.*?$|\*\*", "", page, flags=re.DOTALL | re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\|\n?|^\s*(?:[-*]|\d+\.) ", text, flags=re.MULTILINE)
    said = [one for block in blocks for one in re.split(r"(?<=[.!?:])\s+", " ".join(block.split()))]
    return [one for one in said if _NO_SUBJECT.match(one) and not one.endswith("?")]


def test_a_sentence_of_the_docs_opens_with_its_subject() -> None:
    """Fifty did not: `Who changes it runs make check`."""
    found = {
        name_of(path): sentences_without_a_subject(path.read_text(encoding="utf-8"))
        for path in DOCS
    }
    assert {} == {name: sentences for name, sentences in found.items() if sentences}


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("# What it is\n\nIt works. What fails\nis kept.\n", 1),
        ("1. Do it.\n2. Who did it is named.\n", 1),
        ("| **Whether** it can | Of two the first |\n", 2),
        ("Who is asked? The owner.\n\n```\nWhat it prints\n```\n", 0),
    ],
)
def test_the_check_finds_sentences_in_lists_and_tables_too(page: str, wrong: int) -> None:
    """Not in headings, questions or code."""
    assert wrong == len(sentences_without_a_subject(page))


def opens_with_a_pronoun(source: str) -> list[str]:
    """Return the docstrings, of constants and fields too, whose first word is no subject."""
    if not _TEXT_WITHOUT_SUBJECT.search(source):
        return []
    said = (
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return [text for text in said if isinstance(text, str) and _NO_SUBJECT.match(text)]


_NO_SUBJECT = re.compile(r"(What|Whether|Of|Who|Whose) ")
_TEXT_WITHOUT_SUBJECT = re.compile(rf"[\"']{_NO_SUBJECT.pattern}")
"""Most modules hold no text that begins so, and need not be parsed."""


@pytest.mark.parametrize(
    "folder",
    [
        *("agent", "benchmarks", "cli", "evaluation", "functions", "layers"),
        *("local", "scripts", "simulation", "tests"),
    ],
)
def test_a_docstring_opens_with_a_verb_or_a_noun(folder: str) -> None:
    """A reader knows the subject before the rest."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    found = {str(path): opens_with_a_pronoun(path.read_text(encoding="utf-8")) for path in paths}

    assert len(paths) > 5
    assert {} == {path: texts for path, texts in found.items() if texts}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ('"""What it does."""', 1),
        ('A = 1\n"""Of the stack."""', 1),
        ('"""Return what it does."""', 0),
    ],
)
def test_the_check_finds_docstrings_of_constants_too(source: str, wrong: int) -> None:
    """Not what stands inside of one."""
    assert wrong == len(opens_with_a_pronoun(source))
