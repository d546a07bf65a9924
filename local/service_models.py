"""botocore's descriptions of services, parsed once a process: every session parses them anew otherwise."""

from __future__ import annotations

from typing import Any


def remember_service_models() -> None:
    """Keeps what has been parsed, by file, for all sessions to come. Nothing changes what is kept."""
    from botocore import loaders

    known: dict[str, Any] = {}
    parse = loaders.JSONFileLoader.load_file

    def load(self: Any, file_path: str) -> Any:
        found = known.get(file_path)
        if found is None:
            found = known[file_path] = parse(self, file_path)
        return found

    loaders.JSONFileLoader.load_file = load  # type: ignore[method-assign]
