"""All kinds of resource that a scan looks for. A kind that is missing here is never read."""

from __future__ import annotations

from typing import Any

from governor.scan.kind import Kind

KINDS: tuple[Kind[Any, Any], ...] = ()
