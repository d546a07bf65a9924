"""Results that botocore works out again and again, kept for the life of a process: its descriptions
of services, and the parts of the header `User-Agent`. It only makes a process faster."""

from __future__ import annotations

import functools
from typing import Any


def remember_service_models() -> None:
    """Keeps what has been found and parsed for all sessions to come. Nothing changes what is
    kept."""
    from botocore import loaders

    known: dict[str, Any] = {}
    services: dict[tuple[str, ...], list[str]] = {}
    parse, walk = loaders.JSONFileLoader.load_file, loaders.Loader.list_available_services

    def load(self: Any, file_path: str) -> Any:
        found = known.get(file_path)
        if found is None:
            found = known[file_path] = parse(self, file_path)
        return found

    def list_services(self: Any, type_name: str) -> list[str]:
        key = (type_name, *self.search_paths)
        if key not in services:
            services[key] = walk(self, type_name)
        return services[key]

    loaders.Loader.list_available_services = list_services  # type: ignore[method-assign]
    loaders.JSONFileLoader.load_file = load  # type: ignore[method-assign]


def remember_user_agents() -> None:
    """Cleans each part of the header `User-Agent` once: botocore cleans some forty of them,
    character by character, at each call."""
    from botocore import useragent

    clean = useragent.sanitize_user_agent_string_component
    useragent.sanitize_user_agent_string_component = functools.lru_cache(maxsize=1024)(clean)
