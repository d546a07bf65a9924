"""American spelling everywhere: docs, messages, help, comments and names.

The list holds words and stems that people write the British way; there is no dictionary behind it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ISE = (
    "anonym|apolog|author|capital|categor|central|character|crystall|custom|equal|familiar|"
    "final|formal|general|initial|ital|item|legal|local|material|maxim|memor|minim|modern|"
    "neutral|normal|optim|organ|parallel|penal|polar|popular|priorit|privat|random|real|"
    "recogn|serial|special|stabil|standard|subsid|summar|symbol|sympath|synchron|token|util|"
    "visual"
)
"""Stems of verbs in -ize."""
_SPELLINGS = {
    rf"(?<!com)(?:{_ISE})is(?:e|ed|er|es|ing|ation|ations)(?![a-z])": ("-ize, -ization"),
    r"(?:behavi|col|endeav|fav|harb|hon|hum|lab|neighb|rum|flav|vap)our": "-or",
    r"analys(?:e|ed|er|ing)\b|catalys(?:e|ed|ing)\b|paralys(?:e|ed|ing)\b": "analyze",
    r"catalogue": "catalog",
    r"(?:cancel|channel|fuel|label|level|model|signal|total|travel|tunnel)l(?:ed(?!by)|ing|er)\b": (
        "one l: canceled, labeled, modeled"
    ),
    r"licence|defence|offence|pretence": "license, defense, offense",
    r"\b(?:centre|metre|litre|fibre|theatre|calibre)s?\b": "center, meter",
    r"\bgrey|\bmould\b|\bsceptic|\baluminium|\bmanoeuvre|\bartefact": "gray, mold, artifact",
    r"\b(?:learnt|spelt|burnt|dreamt|whilst|amongst)\b": "learned, spelled, while, among",
    r"\bprogrammes?\b|\bcheques?\b|\bageing\b|\binstalments?\b": "program, check, aging",
    r"judgement|acknowledgement|\bfulfil\b|\benrol\b|skilful|wilful": "judgment, fulfill",
    r"\bper cent\b|\bpractis(?:e|ed|ing)\b|\benquir": "percent, practice, inquiry",
}
_BRITISH = {re.compile(pattern): usual for pattern, usual in _SPELLINGS.items()}
"""Patterns of lower case: one that ignores the case has no first letters to look for."""
_NAMES_OF_OTHERS = re.compile(
    r"aria-labelledby|labelledby|\"cancelled\"|`?\"?cancelling\"?`?|\.cancelled\(|Cancelled[A-Z]\w+"
    r"|TransactionCanceled\w*|\w+_CANCELLED\b|\bCANCELLED\b|\bcancelled_\w+|'cancelled'|`cancelled`"
)
"""Names of AWS, Python and HTML, which we cannot change."""
_TEXT = {".py", ".md", ".txt", ".html", ".css", ".js", ".yaml", ".yml", ".toml", ".sh", ".json", ""}
_LONGEST = 400_000
"""Longer files are data of others."""


def british(text: str) -> list[str]:
    """Return each British spelling in a text, with the line it is in and the American one."""
    if not any(pattern.search(text.lower()) for pattern in _BRITISH):
        return []
    ours = _NAMES_OF_OTHERS.sub("", text).lower()
    found = []
    for pattern, usual in _BRITISH.items():
        for match in pattern.finditer(ours):
            line = ours.count("\n", 0, match.start()) + 1
            found.append(f"{line}: {match[0]} ({usual})")
    return found


def _texts() -> dict[str, str]:
    """Return the text of every file of the repository that people wrote, by its path."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    texts = {}
    for name in listed.split("\0"):
        path = ROOT / name
        is_text = path.is_file() and path.suffix in _TEXT and path != Path(__file__)
        if name.startswith("tests/") and path.suffix == ".json":
            # Records of earlier releases, as they were stored.
            continue
        if is_text and path.stat().st_size < _LONGEST:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return texts


def test_the_repository_is_spelled_the_american_way() -> None:
    """Docs, templates, help, code, and the names in all of them."""
    texts = _texts()
    names = {name: british(name) for name in texts}
    words = {name: british(text) for name, text in texts.items()}

    assert len(texts) > 500
    assert {} == {name: found for name, found in names.items() if found}
    assert {} == {name: found for name, found in words.items() if found}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The colour of the licence, and its behaviour.", 3),
        ("summarise_all(Catalogue)", 2),
        ("It was cancelled, labelled and modelled.", 3),
        ("A programme in the centre, whilst it analyses nothing.", 3),
        ("Analyses, promises and exercises advise a wise comparison; otherwise revise it.", 0),
        ('aria-labelledby="x"; task.cancelled(); {"State": "cancelled"}', 0),
        ("The canceled color, modeled in the center.", 0),
    ],
)
def test_the_check_finds_what_it_is_for(text: str, number: int) -> None:
    """And no American word that looks like it."""
    assert number == len(british(text))
