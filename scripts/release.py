"""`make release`: packs what a release consists of, into build/release/.

- `gpu-governor-VERSION-sam.zip`: what `sam build` has made, for `sam deploy` alone, and the other
  stacks;
- `gpu_governor-VERSION-py3-none-any.whl`: the operator's command line;
- `gpu-metrics-publisher-VERSION.tar.gz`: the publisher for hosts that ask no index;
- `*.cdx.json`: what the layer and the publisher are made of (CycloneDX);
- `NOTES.md`: what is new; `SHA256SUMS`: the checksums of all of these.

The same commit gives the same bytes where the same interpreter compiles the layer.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools" / "release" / "bin"
BUILT = ROOT / ".aws-sam" / "build"
BESIDE = ("samconfig.toml", "LICENSE", "CHANGELOG.md", "stacks/*.yaml", "statemachines/*.json")
"""Files of the package that `sam build` does not make. It is laid out as a clone: its template says
so."""
PINS = {"layer": "layers/shared/requirements.txt", "publisher": "requirements/publisher.txt"}
SUMS = "SHA256SUMS"
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can name."""


class NotReadyError(Exception):
    """This commit cannot be released; the message says what to do."""


def version() -> str:
    """Return the version of the command line, which is the project's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def news(changelog: str, wanted: str, *, tagged: bool = False) -> str:
    """Return what the changelog says of a version. Raises: NotReadyError, for one without a date,
    too, if it is `tagged`."""
    heading = rf"^## {re.escape(wanted)}(?: \((.*)\))?\n"
    found = re.search(rf"{heading}((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if found is None or not found[2].strip():
        raise NotReadyError(f"CHANGELOG.md has no section {wanted}: say there what is new")
    if tagged and not re.fullmatch(r"\d{4}-\d\d-\d\d", found[1] or ""):
        raise NotReadyError(
            f"CHANGELOG.md has no date for {wanted}: write `## {wanted} (2026-12-01)`"
        )
    return f"{found[2].strip()}\n"


def check(tag: str, wanted: str, changes: str) -> None:
    """Raises: NotReadyError, for another tag than the version's, or files that are not
    committed."""
    if tag and tag != f"v{wanted}":
        raise NotReadyError(
            f"the tag is {tag}, and pyproject.toml says {wanted}: the tag must be v{wanted}"
        )
    if changes:
        raise NotReadyError(f"commit or remove these first:\n{changes}")


def checked(tag: str) -> str:
    """Check that this commit can be released under this tag; an empty one means that nothing is
    published. Return the notes. Raises: NotReadyError, CalledProcessError."""
    git = ["git", "status", "--porcelain", "--untracked-files=normal"]
    changes = subprocess.run(git, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    number = version()
    check(tag, number, changes)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return news(changelog, number, tagged=bool(tag))


def check_whole(names: Mapping[str, Path], template: str) -> None:
    """Raises: NotReadyError, where what the template names is not in the package."""
    for path in re.findall(
        r"^ +(?:CodeUri|ContentUri|DefinitionUri): (\S+)$", template, re.MULTILINE
    ):
        place = os.path.normpath(f".aws-sam/build/{path}")
        if not any(name == place or name.startswith(f"{place}/") for name in names):
            raise NotReadyError(
                f"the template needs {path}, which is not packed: name it in scripts/release.py"
            )


def zipped(files: Mapping[str, Path]) -> dict[zipfile.ZipInfo, bytes]:
    """Return the members of a zip file, with nothing in them of when and by whom it was made."""
    members = {}
    for name, path in sorted(files.items()):
        member = zipfile.ZipInfo(name, _FIRST_DAY)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = (0o755 if os.access(path, os.X_OK) else 0o644) << 16
        members[member] = path.read_bytes()
    return members


def sums(folder: Path) -> str:
    """Return the checksums of a folder's files, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


def pack(folder: Path, number: str) -> None:
    """Put everything into an empty folder. Raises: CalledProcessError, NotReadyError."""
    found = [*BUILT.rglob("*"), *(path for name in BESIDE for path in ROOT.glob(name))]
    files = {str(path.relative_to(ROOT)): path for path in found if path.is_file()}
    check_whole(files, (BUILT / "template.yaml").read_text(encoding="utf-8"))
    with zipfile.ZipFile(folder / f"gpu-governor-{number}-sam.zip", "w") as archive:
        for member, content in zipped(files).items():
            archive.writestr(member, content)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    _run([TOOLS / "hatchling", "build", "--target", "wheel", "--directory", folder], environment)
    _run([sys.executable, "scripts/bundle_publisher.py", folder], environment)
    for name, pins in PINS.items():
        made = ["--output-reproducible", "--of", "JSON", "--sv", "1.6", "--mc-type", "application"]
        target = folder / f"gpu-governor-{number}-{name}.cdx.json"
        _run(
            [TOOLS / "cyclonedx-py", "requirements", *made, "--output-file", target, pins],
            environment,
        )


def _run(command: list[object], environment: Mapping[str, str]) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment)


def main(arguments: list[str]) -> int:
    """Exit status: 0 packed, 1 a part could not be made, 2 this commit is not ready."""
    parser = argparse.ArgumentParser(prog="release.py")
    parser.add_argument(
        "--tag", default="", help="the tag to publish; it must be that of the version"
    )
    tag, number = parser.parse_args(arguments).tag, version()
    try:
        notes = checked(tag)
        folder = ROOT / "build" / "release"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pack(folder, number)
    except (NotReadyError, subprocess.CalledProcessError) as error:
        print(f"not released: {error}", file=sys.stderr)
        return 2 if isinstance(error, NotReadyError) else 1
    (folder / "NOTES.md").write_text(notes, encoding="utf-8")
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")
    print((folder / SUMS).read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
