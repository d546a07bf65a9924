"""Recognizes the service or tool that runs, creates or schedules an instance, such as an Auto
Scaling group, by the tags that it sets and by EC2's own flag.

The marks are data: `managers.json`, one object a manager, explained in README.md. This module must
not decide what becomes of an instance.

Nobody can forge a tag that begins with `aws:`. The others can be forged, which errs on the safe
side: a forged mark only keeps GPU Governor away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import cast

from governor.core.instance import Instance
from governor.core.units import letters_and_digits, printable

_DATA = Path(__file__).parent / "managers.json"


class ManagerClass(StrEnum):
    """The classes of managers, by what a stop or a termination means to them."""

    LEAVE_ALONE = "leave-alone"
    """It launches and terminates its own instances, and would replace one or lose track of it."""
    ASK = "ask"
    """It created the instance, and its next run may undo the action: people are asked, and read
    that."""
    SCHEDULE = "schedule"
    """It starts instances at times of its own."""


class Runs(StrEnum):
    """The uses of instances that some managers launch. Idle ones are a matter of those tools."""

    RUNNERS = "runners"
    """CI runners and agents: they end after their job."""
    BUILDS = "builds"
    """Instances on which an image is built or tested."""
    WORKSPACES = "workspaces"
    """Workspaces and desktops of single people."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The service that manages an instance, and the mark by which it is known."""

    service: str
    mark: str


@dataclass(frozen=True, slots=True)
class OtherTool:
    """A tool that may undo an action, and the tag by which it is known."""

    name: str
    tag_key: str
    tag_value: str
    after_stop: str
    """The effect on a stopped instance, as a clause without a period."""
    after_termination: str | None
    """The same after a termination; `None` if it does nothing then."""

    def next_act(self, *, terminates: bool) -> str | None:
        """Return what the tool does next, which people read before they answer, such as `Terraform
        (ManagedBy=terraform): the next apply creates it again`; `None` if it undoes nothing."""
        clause = self.after_termination if terminates else self.after_stop
        if clause is None:
            return None
        tag = f"{self.tag_key}={printable(self.tag_value)}" if self.tag_value else self.tag_key
        return f"{self.name} ({tag}): {clause}"

    def effect(self, *, terminates: bool) -> str | None:
        """Return the same as a line of what a plan keeps; `None` if it undoes nothing."""
        next_act = self.next_act(terminates=terminates)
        return None if next_act is None else f"its place in {next_act}"


@dataclass(frozen=True, slots=True, eq=False)
class _Marks:
    """The marks of one manager, in lower case, as `managers.json` lists them."""

    place: int
    """Its place in the data: where several managers have a mark, the first names the service."""
    name: str
    manager_class: ManagerClass
    denied_by_iam: bool
    keys: frozenset[str]
    values: Mapping[str, tuple[str, ...]]
    created_by: tuple[str, ...]
    prefixes: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]
    runs: Runs | None
    after_stop: str
    after_termination: str | None

    def has_exact(self, key: str, value: str) -> bool:
        """Return whether a tag, key and value in lower case, is one of the marks but the words: its
        key is listed or has a listed prefix, its value is listed for the key, or it names this
        manager as the creator."""
        if key.startswith(self.prefixes):
            return True
        if key in self.keys:
            # IAM denies by the key alone: a plan would be refused whatever the value says.
            return self.denied_by_iam or not _says_no(key, value)
        if any(_is_value(value, pattern) for pattern in self.values.get(key, ())):
            return True
        return _is_of_creator(key) and any(_names(value, name) for name in self.created_by)

    def knows(self, key: str) -> bool:
        """Return whether a tag with this key, in lower case, is one of the marks by some value."""
        if key in self.values or self.has_exact(key, ""):
            return True
        return bool(self.created_by) and _is_of_creator(key)

    def has_word(self, endings: Sequence[str]) -> bool:
        """Return whether one of the words begins one of these endings of a tag key, which are in
        lower case and each begin where a word of the key does."""
        return any(ending.startswith(self.words) for ending in endings)


_WORD_START = re.compile(
    r"""(?<![^\W_])[^\W_]       # the first letter or digit after any other character
      | (?<=[a-z0-9])[A-Z]      # the hump of teamRancher
      | (?<=[A-Z]{2})[A-Z][a-z] # the word after the acronym of EKSKubernetes; XRay is one word
    """,
    re.VERBOSE,
)
"""The beginning of a word in a tag key."""
_NO_VALUES = frozenset({"false", "no", "off", "none", "disabled", "n/a"})
"""Values, in lower case, that say that a tool does not run the instance. `0` is none of them: tools
count their nodes from 0."""
_SCHEDULE_EFFECT = "it may start the instance again at its next start time"
_LAUNCHER_KEYS = frozenset(
    {"aws:autoscaling:groupname", "aws:ec2:fleet-id", "aws:ec2spot:fleet-request-id"}
)
"""Tags that only say how instances are started. Most services use one of these, and their own mark
is more precise."""
_HARMLESS_AWS_TAGS = (
    "aws:cloudformation:",
    "aws:ec2launchtemplate:",
    "aws:createdby",
    "aws:backup:",
)
"""Tags that say how an instance was made or is backed up, not that a service runs it. Any other
`aws:` tag belongs to such a service."""
_CREATOR_KEYS = frozenset(
    {"createdby", "deployedby", "iac", "iactool", "managedby", "provisionedby", "provisioner"}
)
"""Keys under which people and tools write who created an instance, without letter case, blanks and
signs: `Managed By` and `managed-by` are one."""


def managed_by(instance: Instance, policy_keys: Sequence[str]) -> Manager | None:
    """Return the service that would replace, restart or miss the instance; `None` if there is none.

    `policy_keys` are the tag keys that the policy adds (`managed.tag_keys`). The most certain mark
    names the service: EC2's own flag, a tag that nobody can forge, a listed tag, the policy's keys,
    a word in a tag key.
    """
    operator = instance.operator_principal or "" if instance.operator_managed else None
    return manager_by(operator, instance.tags, policy_keys)


def manager_by(
    operator: str | None, tags: Mapping[str, str], policy_keys: Sequence[str]
) -> Manager | None:
    """Return the manager of an instance as `managed_by` does, by its marks alone. `operator` is the
    service that owns it by EC2's own flag: empty if the flag names none, `None` without the flag.
    """
    if operator is not None:
        return Manager(operator or "an AWS service", "Operator.Managed")
    keys = sorted(tags)
    unforgeable = [key for key in keys if _is_unforgeable(key)]
    return (
        _listed_manager(tags, unforgeable)
        or _listed_manager(tags, keys)
        or _unlisted_aws_service(unforgeable)
        or _manager_of_policy(keys, policy_keys)
        or _manager_by_word(tags, keys)
    )


def other_tools(instance: Instance) -> tuple[OtherTool, ...]:
    """Return the tools that may undo a stop or a termination, in the order of the data, each once
    with the first of its tags; empty if no tag names one. Managers that are left alone are no such
    tools: `managed_by` finds those.

    They do not keep people from being asked.
    """
    key_by_marks: dict[_Marks, str] = {}
    for key in sorted(instance.tags):
        value = instance.tags[key].strip().casefold()
        for marks in _exact_marks_of(key):
            if marks.has_exact(key.casefold(), value):
                key_by_marks.setdefault(marks, key)
        if not _denies_word(key, value):
            for marks in _word_marks_of(key):
                key_by_marks.setdefault(marks, key)
    tools: list[OtherTool] = []
    for marks in sorted(key_by_marks, key=_place):
        if marks.manager_class is not ManagerClass.LEAVE_ALONE:
            key = key_by_marks[marks]
            tools.append(
                OtherTool(
                    name=marks.name,
                    tag_key=key,
                    tag_value=instance.tags[key],
                    after_stop=marks.after_stop,
                    after_termination=marks.after_termination,
                )
            )
    return tuple(tools)


def perhaps_by(name: str) -> str | None:
    """Return the first manager of the data whose word, or name as a creator, begins a part of this
    name of a role or a user, such as `Jenkins` for `ci-jenkins-agents`; `None` if there is none.

    It is a guess: anybody may name a role like this. It is only shown, and decides nothing.
    """
    for marks in _all_marks():
        words = (*marks.words, *marks.created_by, *marks.names)
        if any(_begins_a_part(word, name) for word in words):
            return marks.name
    return None


def _begins_a_part(word: str, name: str) -> bool:
    """Return whether the word, in lower case, stands in the name of a role or user where a part of
    that begins: at its beginning, after a sign, or at any capital letter, also within capitals
    (`AWSANSIBLE`). `_` and `-` are the same. Words of tag keys are found more strictly."""
    # Names in IAM are ASCII. Other characters could have more than one in lower case.
    ascii_name = name.encode("ascii", "replace").decode().replace("_", "-")
    searched = word.replace("_", "-")
    folded = ascii_name.lower()
    at = folded.find(searched)
    while at >= 0:
        if at == 0 or not folded[at - 1].isalnum() or ascii_name[at].isupper():
            return True
        at = folded.find(searched, at + 1)
    return False


def runs_of(service: str) -> Runs | None:
    """Return the use of the instances that this service launches; `None` if the data does not say,
    or does not know the service."""
    for marks in _all_marks():
        if marks.name == service:
            return marks.runs
    return None


def _listed_manager(tags: Mapping[str, str], keys: Sequence[str]) -> Manager | None:
    """Return the first manager of the data, of those whose instances are left alone, that has an
    exact mark among these keys; `None` if none has."""
    key_by_marks: dict[_Marks, str] = {}
    for key in keys:
        value = tags[key].strip().casefold()
        for marks in _exact_marks_of(key):
            if marks.manager_class is not ManagerClass.LEAVE_ALONE:
                continue
            if marks.has_exact(key.casefold(), value):
                key_by_marks.setdefault(marks, key)
    return _first_manager(key_by_marks)


def _first_manager(key_by_marks: Mapping[_Marks, str]) -> Manager | None:
    """Return the manager that comes first in the data; `None` if there is none."""
    if not key_by_marks:
        return None
    first = min(key_by_marks, key=_place)
    return Manager(first.name, key_by_marks[first])


def _place(marks: _Marks) -> int:
    """Return the place of a manager in the data, as the key to sort by: the first has 0."""
    return marks.place


def _unlisted_aws_service(keys: Sequence[str]) -> Manager | None:
    """Return the AWS service that set the first of these tags that is not harmless, such as `an AWS
    service (sagemaker)`; `None` if all are harmless, or there are none. All `keys` must begin with
    `aws:`."""
    for key in keys:
        folded = key.casefold()
        if not folded.startswith(_HARMLESS_AWS_TAGS):
            return Manager(f"an AWS service ({folded.split(':')[1]})", key)
    return None


def _manager_of_policy(keys: Sequence[str], policy_keys: Sequence[str]) -> Manager | None:
    """Return the manager by a tag key that the policy lists; `None` if no tag has one."""
    folded_keys = {key.casefold() for key in policy_keys}
    for key in keys:
        if key.casefold() in folded_keys:
            return Manager("a service that the policy names", key)
    return None


def _manager_by_word(tags: Mapping[str, str], keys: Sequence[str]) -> Manager | None:
    """Return the first manager of the data, of those whose instances are left alone, whose word one
    of these tag keys contains, with a value that does not say no; `None` if there is none."""
    key_by_marks: dict[_Marks, str] = {}
    for key in keys:
        for marks in _word_marks_of(key):
            if marks.manager_class is not ManagerClass.LEAVE_ALONE:
                continue
            if not _denies_word(key, tags[key].strip().casefold()):
                key_by_marks.setdefault(marks, key)
    return _first_manager(key_by_marks)


# Most keys of a fleet are no mark and repeat on every instance: each is looked up once.
@lru_cache(maxsize=4096)
def _exact_marks_of(key: str) -> tuple[_Marks, ...]:
    """Return the marks of the managers that have an exact mark with this tag key, whatever its
    value; empty if none has. `has_exact` then checks the value."""
    folded = key.casefold()
    return tuple(marks for marks in _all_marks() if marks.knows(folded))


@lru_cache(maxsize=4096)
def _word_marks_of(key: str) -> tuple[_Marks, ...]:
    """Return the managers whose word this key contains; empty if it contains none, or is AWS's."""
    if key.casefold().startswith("aws:"):
        return ()
    endings = [key[start.start() :].casefold() for start in _WORD_START.finditer(key)]
    return tuple(marks for marks in _all_marks() if marks.has_word(endings))


def _is_unforgeable(key: str) -> bool:
    """Return whether AWS alone can set this tag, and it says more than how instances start."""
    folded = key.casefold()
    return folded.startswith("aws:") and folded not in _LAUNCHER_KEYS


def _says_no(key: str, value: str) -> bool:
    """Return whether a tag says that the tool of its key does not run the instance. The value is in
    lower case.

    A key with a namespace is a setting of that tool, and says nothing about the tool itself:
    `karpenter.sh/do-not-disrupt=false`, and all keys that begin with `aws:`.
    """
    return value in _NO_VALUES and not _has_namespace(key)


def _denies_word(key: str, value: str) -> bool:
    """Return whether a word in this tag key is no mark, because of the value, which is in lower
    case: it says no, or it is empty and the key has no namespace."""
    is_bare = not value and not _has_namespace(key)
    return is_bare or _says_no(key, value)


def _has_namespace(key: str) -> bool:
    """Return whether the key has a namespace, as `karpenter.sh/nodepool` and `run:ai` have."""
    return "/" in key or ":" in key


def _is_of_creator(key: str) -> bool:
    """Return whether people and tools write under this tag key who created an instance."""
    return letters_and_digits(key) in _CREATOR_KEYS


def _names(value: str, name: str) -> bool:
    """Return whether the value of a creator's key names this tool as a whole word, both in lower
    case: `terraform` in `hashicorp/terraform` and `terraform-prod`, not in `my-terraform`. A hyphen
    before a name belongs to another name."""
    if name not in value:
        return False
    pattern = rf"(?<![^\W_])(?<!-){re.escape(name)}(?![^\W_])"
    return re.search(pattern, value) is not None


def _is_value(value: str, pattern: str) -> bool:
    """Return whether a tag value in lower case is the pattern, which may end with `*`."""
    if pattern.endswith("*"):
        return value.startswith(pattern[:-1])
    return value == pattern


@cache
def _all_marks() -> tuple[_Marks, ...]:
    """Return the marks of all managers, in the order of the data, which is read once."""
    managers: list[Mapping[str, object]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return tuple(_marks_of(manager, place) for place, manager in enumerate(managers))


def _marks_of(manager: Mapping[str, object], place: int) -> _Marks:
    """Return the marks of one object of the data, in lower case."""
    manager_class = ManagerClass(str(manager["class"]))
    is_schedule = manager_class is ManagerClass.SCHEDULE
    after_termination = manager.get("after_termination")
    runs = manager.get("runs")
    values = cast("Mapping[str, object]", manager.get("values", {}))
    folded_values: dict[str, tuple[str, ...]] = {}
    for key, patterns in values.items():
        folded_values[key.casefold()] = _folded(patterns)
    return _Marks(
        place=place,
        name=str(manager["manager"]),
        manager_class=manager_class,
        denied_by_iam=bool(manager.get("denied_by_iam")),
        keys=frozenset(_folded(manager.get("keys"))),
        values=folded_values,
        created_by=_folded(manager.get("created_by")),
        prefixes=_folded(manager.get("prefixes")),
        words=_folded(manager.get("words")),
        names=_folded(manager.get("names")),
        runs=None if runs is None else Runs(str(runs)),
        after_stop=_SCHEDULE_EFFECT if is_schedule else str(manager.get("after_stop", "")),
        after_termination=None if after_termination is None else str(after_termination),
    )


def _folded(texts: object) -> tuple[str, ...]:
    """Return the texts of one field in lower case; empty if the manager does not have the field."""
    if texts is None:
        return ()
    return tuple(text.casefold() for text in cast("list[str]", texts))
