"""Stack sets of CloudFormation.

- AWS: a stack set keeps one stack in each Region of accounts that it names, or of the active
  accounts of units and of the units within them, but never in the management account. It can be
  deleted once it has none. Engine: knows no stack sets. Here an account that enters a unit later
  gets no stack by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Params = Mapping[str, Any]
"""Parameters of a request in the query protocol: each name with its values."""


_WELL = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"}


@dataclass(frozen=True, slots=True)
class _Instance:
    account: str
    region: str
    stack: str


@dataclass(slots=True)
class _Set:
    name: str
    set_id: str
    given: dict[str, Any]
    instances: list[_Instance] = field(default_factory=list)
    operations: dict[str, tuple[str, list[_Instance]]] = field(default_factory=dict)
    """By id: the action and what it is about."""


class _RefusedError(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def repair() -> None:
    """Adds the actions to the engine's; it looks them up at every request."""
    from ministack.services.cloudformation import handlers
    from ministack.services.cloudformation.helpers import _error, _xml

    sets = _StackSets()

    def handled(action: str, answer: Any) -> Any:
        def handle(params: Params) -> Any:
            try:
                found = answer(params)
            except _RefusedError as error:
                return _error(error.code, str(error), error.status)
            return _xml(200, f"{action}Response", f"<{action}Result>{found}</{action}Result>")

        return handle

    for action, answer in {
        "CreateStackSet": sets.create,
        "DescribeStackSet": sets.describe,
        "ListStackSets": sets.list_all,
        "UpdateStackSet": sets.update,
        "DeleteStackSet": sets.delete,
        "CreateStackInstances": sets.create_instances,
        "DescribeStackInstance": sets.describe_instance,
        "ListStackInstances": sets.list_instances,
        "DeleteStackInstances": sets.delete_instances,
        "DescribeStackSetOperation": sets.describe_operation,
        "ListStackSetOperations": sets.list_operations,
    }.items():
        handlers._ACTION_HANDLERS[action] = handled(action, answer)


class _StackSets:
    """By account, Region and name."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str, str], _Set] = {}

    def create(self, params: Params) -> str:
        key = self._key(params)
        if key in self._sets:
            raise _RefusedError(
                "NameAlreadyExistsException", f"StackSet {key[2]} already exists", 409
            )
        if not _value(params, "TemplateBody"):
            raise _RefusedError("ValidationError", "a stack set here needs a TemplateBody")
        made = _Set(key[2], f"{key[2]}:{uuid.uuid4()}", _given(params))
        self._sets[key] = made
        return _xml(StackSetId=made.set_id)

    def describe(self, params: Params) -> str:
        found = self._found(params)
        fields = _xml(StackSetName=found.name, StackSetId=found.set_id, Status="ACTIVE")
        parameters = "".join(
            f"<member>{_xml(ParameterKey=key, ParameterValue=value)}</member>"
            for key, value in _parameters(found.given)
        )
        return f"<StackSet>{fields}<Parameters>{parameters}</Parameters></StackSet>"

    def list_all(self, params: Params) -> str:
        here = self._key(params)[:2]
        found = [one for key, one in self._sets.items() if key[:2] == here]
        return _members(
            _xml(StackSetName=one.name, StackSetId=one.set_id, Status="ACTIVE") for one in found
        )

    def update(self, params: Params) -> str:
        from ministack.core.responses import request_scope
        from ministack.services.cloudformation.handlers import _update_stack

        found = self._found(params)
        found.given = _given(params, found.given)
        there = _there(found)
        for one in there:
            with request_scope(one.account, one.region):
                status, _, body = _update_stack({**found.given, "StackName": [one.stack]})
            if status != 200 and b"No updates" not in body:
                raise _RefusedError("ValidationError", body.decode())
        return _operation(found, "UPDATE", there)

    def delete(self, params: Params) -> str:
        if _there(self._found(params)):
            raise _RefusedError("StackSetNotEmptyException", "StackSet is not empty", 409)
        del self._sets[self._key(params)]
        return ""

    def create_instances(self, params: Params) -> str:
        from ministack.core.responses import request_scope
        from ministack.services.cloudformation.handlers import _create_stack

        found, made = self._found(params), []
        taken = {(one.account, one.region) for one in _there(found)}
        for account, region in sorted(set(_targets(params)) - taken):
            one = _Instance(account, region, f"StackSet-{found.name}-{uuid.uuid4()}")
            with request_scope(account, region):
                status, _, body = _create_stack({**found.given, "StackName": [one.stack]})
            if status != 200:
                raise _RefusedError("ValidationError", body.decode())
            made.append(one)
        found.instances += made
        return _operation(found, "CREATE", made)

    def describe_instance(self, params: Params) -> str:
        place = _value(params, "StackInstanceAccount"), _value(params, "StackInstanceRegion")
        found = self._found(params)
        for one in _there(found):
            if (one.account, one.region) == place:
                return f"<StackInstance>{_described(found, one)}</StackInstance>"
        raise _RefusedError("StackInstanceNotFoundException", f"no stack instance in {place}", 404)

    def list_instances(self, params: Params) -> str:
        found = self._found(params)
        return _members(_described(found, one) for one in _there(found))

    def delete_instances(self, params: Params) -> str:
        from ministack.core.responses import request_scope
        from ministack.services.cloudformation.handlers import _delete_stack

        found, wanted = self._found(params), set(_targets(params))
        gone = [one for one in _there(found) if (one.account, one.region) in wanted]
        if _value(params, "RetainStacks") == "true":
            found.instances = [one for one in found.instances if one not in gone]
            return _operation(found, "DELETE", [])
        for one in gone:
            with request_scope(one.account, one.region):
                _delete_stack({"StackName": [one.stack]})
        return _operation(found, "DELETE", gone)

    def describe_operation(self, params: Params) -> str:
        operations, asked = self._found(params).operations, _value(params, "OperationId")
        if asked not in operations:
            raise _RefusedError("OperationNotFoundException", f"no operation {asked}", 404)
        return f"<StackSetOperation>{_of_operation(asked, *operations[asked])}</StackSetOperation>"

    def list_operations(self, params: Params) -> str:
        return _members(
            _of_operation(key, *one) for key, one in self._found(params).operations.items()
        )

    def _found(self, params: Params) -> _Set:
        key = self._key(params)
        if key not in self._sets:
            raise _RefusedError("StackSetNotFoundException", f"StackSet {key[2]} not found", 404)
        return self._sets[key]

    def _key(self, params: Params) -> tuple[str, str, str]:
        from ministack.core.responses import get_account_id, get_region

        return get_account_id(), get_region(), _value(params, "StackSetName").partition(":")[0]


def _parameters(given: Params) -> list[tuple[str, str]]:
    """Return name and value of each parameter that the set was given."""
    parameters = []
    for name, value in given.items():
        if name.endswith(".ParameterKey"):
            stem = name.removesuffix("Key")
            parameters.append((value[0], given[f"{stem}Value"][0]))
    return parameters


def _given(params: Params, before: Params | None = None) -> dict[str, Any]:
    """Return what each stack of a set is made of, with the values of before where parameters keep
    them."""
    parts = ("TemplateBody", "Parameters.", "Capabilities.")
    given = {name: value for name, value in params.items() if name.startswith(parts)}
    kept = {
        value[0]: (before or {})[name.replace("ParameterKey", "ParameterValue")]
        for name, value in (before or {}).items()
        if name.endswith("ParameterKey")
    }
    for name in [one for one in given if one.endswith("UsePreviousValue")]:
        if given.pop(name) == ["true"]:
            key = given[name.replace("UsePreviousValue", "ParameterKey")][0]
            given[name.replace("UsePreviousValue", "ParameterValue")] = kept[key]
    return given


def _targets(params: Params) -> Iterator[tuple[str, str]]:
    """Accounts and Regions that a request names."""
    accounts = [*_values(params, "Accounts"), *_values(params, "DeploymentTargets.Accounts")]
    units = _values(params, "DeploymentTargets.OrganizationalUnitIds")
    for account in accounts or [one for unit in units for one in _accounts(unit)]:
        for region in _values(params, "Regions"):
            yield account, region


def _accounts(unit: str) -> Iterator[str]:
    from ministack.services import organizations as engine

    engine._ensure_org()
    if unit not in engine._ous and unit not in engine._roots:
        raise _RefusedError("ValidationError", f"there is no organizational unit {unit}")
    for one in engine._accounts.values():
        is_management = one["Id"] == engine._orgs["self"]["MasterAccountId"]
        if one["_ParentId"] == unit and one["Status"] == "ACTIVE" and not is_management:
            yield one["Id"]
    for one in engine._ous.values():
        if one["_ParentId"] == unit:
            yield from _accounts(one["Id"])


def _status(one: _Instance) -> str:
    from ministack.core.responses import request_scope
    from ministack.services.cloudformation import _stacks

    with request_scope(one.account, one.region):
        return str(_stacks.get(one.stack, {}).get("StackStatus", "DELETE_COMPLETE"))


def _there(found: _Set) -> list[_Instance]:
    """Those whose stack is not gone."""
    return [one for one in found.instances if _status(one) != "DELETE_COMPLETE"]


def _described(found: _Set, one: _Instance) -> str:
    from ministack.core.responses import request_scope
    from ministack.services.cloudformation import _stacks

    with request_scope(one.account, one.region):
        stack_id = _stacks[one.stack]["StackId"]
    outcome = _outcome([one])
    status = {"SUCCEEDED": "CURRENT", "RUNNING": "OUTDATED"}.get(outcome, "INOPERABLE")
    facts = {"Account": one.account, "Region": one.region, "StackId": stack_id, "Status": status}
    detail = f"<StackInstanceStatus>{_xml(DetailedStatus=outcome)}</StackInstanceStatus>"
    return _xml(StackSetId=found.set_id, **facts) + detail


def _operation(found: _Set, action: str, about: list[_Instance]) -> str:
    operation_id = str(uuid.uuid4())
    found.operations[operation_id] = action, about
    return _xml(OperationId=operation_id)


def _of_operation(operation_id: str, action: str, about: list[_Instance]) -> str:
    return _xml(OperationId=operation_id, Action=action, Status=_outcome(about))


def _outcome(about: list[_Instance]) -> str:
    found = {_status(one) for one in about}
    if any(one.endswith("_IN_PROGRESS") for one in found):
        return "RUNNING"
    return "SUCCEEDED" if found <= _WELL else "FAILED"


def _values(params: Params, name: str) -> list[str]:
    from ministack.services.cloudformation.helpers import _extract_string_members

    return list(_extract_string_members(params, name))


def _value(params: Params, name: str) -> str:
    from ministack.services.cloudformation.helpers import _p

    return str(_p(params, name))


def _members(found: Iterator[str]) -> str:
    return f"<Summaries>{''.join(f'<member>{one}</member>' for one in found)}</Summaries>"


def _xml(**facts: str) -> str:
    from xml.sax.saxutils import escape

    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in facts.items())
