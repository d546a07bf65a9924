"""Descriptions of stacks.

AWS: a stack has the `Description` of the template that it was made or changed by last. Engine: that
of the template it was created by, and none where a change set created it, as SAM CLI does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def repair() -> None:
    """Wraps what creates and updates the resources of a stack, in both modules that call it."""
    from ministack.services.cloudformation import changesets, handlers

    for module in (changesets, handlers):
        module._deploy_stack_async = _described(module._deploy_stack_async)


def _described(deploy: Callable[..., Any]) -> Callable[..., Any]:
    def described(
        stack_name: str, stack_id: str, template: Mapping[str, Any], *rest: Any, **more: Any
    ) -> Any:
        from ministack.services.cloudformation import _stacks

        _stacks[stack_name]["Description"] = template.get("Description", "")
        return deploy(stack_name, stack_id, template, *rest, **more)

    return described
