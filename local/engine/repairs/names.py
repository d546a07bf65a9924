"""Names that CloudFormation makes up.

- AWS: a name that would be too long for its service keeps 12 random characters at its end; stack
  and logical id share the rest, half each, and what the shorter does not need is the other's. For a
  role: 25 and 25. Engine: 13 characters at the end, and only the logical id is cut. AWS documents
  neither; the source is names that were seen.
"""

from __future__ import annotations

from collections.abc import Callable

_RANDOM = 12
_UNCUT = 10_000


def repair() -> None:
    """Replaces the engine's function; it looks it up by name for every resource."""
    from ministack.services.cloudformation import provisioners

    provisioners._physical_name = _shortened(provisioners._physical_name)


def _shortened(name: Callable[..., str]) -> Callable[..., str]:
    def shortened(
        stack: str,
        logical_id: str,
        *,
        lowercase: bool = False,
        max_len: int = 128,
        seeded: bool = True,
    ) -> str:
        end = name(stack, logical_id, max_len=_UNCUT, seeded=seeded)[-_RANDOM:]
        room = max_len - _RANDOM - len("--")
        of_stack = min(len(stack), max(room - room // 2, room - len(logical_id)))
        found = f"{stack[:of_stack]}-{logical_id[: room - of_stack]}-{end}"
        return found.lower() if lowercase else found

    return shortened
