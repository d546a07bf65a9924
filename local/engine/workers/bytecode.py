"""Keeps what the compiler makes of the modules of layers and functions, for all engines to come.

Each engine unpacks them into a folder of its own, which is gone after its run, so Python's own
cache, which goes by the path of a module, never finds them again. Here they are kept by their
text. It only makes an engine faster.
"""

from __future__ import annotations

import _imp
import hashlib
import marshal
import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType


def keep_by_text(modules: Path, kept: Path) -> None:
    """Imports modules below the first folder by what the second one keeps, from now on."""

    class Loader(SourceFileLoader):
        """Loads a module, and compiles it only if nobody has before."""

        def get_code(self, fullname: str) -> CodeType:
            """Return the code of a module."""
            path = self.get_filename(fullname)
            return _code(self, self.get_data(path), path, kept)

    def finder(folder: str) -> FileFinder:
        if not Path(folder).is_relative_to(modules):
            raise ImportError("another finder looks here")
        return FileFinder(folder, (Loader, SOURCE_SUFFIXES))

    kept.mkdir(parents=True, exist_ok=True)
    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


def _code(loader: SourceFileLoader, text: bytes, path: str, kept: Path) -> CodeType:
    """Return the code of a module with this text, and keep it if it is not kept yet."""
    name = f"{hashlib.sha256(text).hexdigest()}.{sys.implementation.cache_tag}"
    try:
        code: CodeType = marshal.loads((kept / name).read_bytes())  # noqa: S302 - our own
    except (OSError, EOFError, TypeError, ValueError):
        code = loader.source_to_code(text, path)
        _write(kept / name, marshal.dumps(code))
    else:
        # As Python does with its own cache: tracebacks name the file that is imported.
        _imp._fix_co_filename(code, path)
    return code


def _write(path: Path, content: bytes) -> None:
    """Writes a file at once, as other processes may read it meanwhile."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)
