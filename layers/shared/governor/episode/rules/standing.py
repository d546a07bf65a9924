"""Decides which errors of AWS are lasting problems (standing states), such as a missing role, and
says what each means.

Only answers that no repeat changes are states. A throttled call, a lost answer and expired
credentials stay failures, and for a target's instances so does an error that is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from governor.core.errors import CloudError, NotFound
from governor.episode.model.standing import StateKind
from governor.episode.rules.refusal import is_refused_by_ec2

_NOT_ENABLED_CODES = frozenset(
    {
        "AuthFailure",
        "InvalidClientTokenId",
        "OptInRequired",
        "RegionDisabledException",
        "UnrecognizedClientException",
    }
)
"""EC2 and STS answer with these codes if the account has not enabled the Region, and also if it is
suspended or not active yet. Source: EC2 API reference, client error codes; IAM user guide, STS in
Regions."""
_DENIED_CODES = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_CONCURRENT_TAGGING = "ConcurrentTagAccess"
"""EC2's code if another call changes the tags of the same resource at that moment."""
_ASSUME_ROLE = "sts:AssumeRole"
_REFUSING_ALL_CODES = _DENIED_CODES | {"AuthFailure", "TagPolicyViolation"}
_TOO_MANY_TAGS = "TagLimitExceeded"


class StateWords(NamedTuple):
    """The words for a kind of state, in messages and pages. Each is a whole sentence, except
    `what`."""

    what: str
    """The state itself, as the end of `111122223333/us-east-1: ...`, without a full stop."""
    not_done: str
    to_do: str


WORDS: Mapping[StateKind, StateWords] = {
    StateKind.NOT_ENABLED: StateWords(
        "AWS refuses every call",
        "Nothing is swept there: no instance is judged, nobody is asked, and nothing is stopped.",
        "Enable the Region in the account. If it is enabled, the account may be suspended: ask AWS "
        "Support. To leave the place out, name it in targets.without in the policy.",
    ),
    StateKind.ROLE_MISSING: StateWords(
        "the role of GPU Governor cannot be assumed",
        "Nothing is swept there: no instance is judged, nobody is asked, and nothing is stopped.",
        "Deploy stacks/member.yaml in the account (docs/accounts.md). To leave the place out, name "
        "it in targets.without in the policy.",
    ),
    StateKind.DENIED: StateWords(
        "the role of GPU Governor may not list instances",
        "Nothing is swept there: no instance is judged, nobody is asked, and nothing is stopped.",
        "Allow ec2:DescribeInstances. Update stacks/member.yaml in the account, or change the "
        "policy of the organization that denies the call. To leave the place out, name it in "
        "targets.without in the policy.",
    ),
    StateKind.CANNOT_TAG: StateWords(
        "tags cannot be set",
        "The tags LowUtilization and ReviewForTermination are not updated there. Questions, "
        "answers and actions work as usual. Each instance is tried again once an hour.",
        "If the instance has 50 tags, the most that EC2 allows, remove one. Otherwise, allow "
        "ec2:CreateTags and ec2:DeleteTags for these two tags: in the permissions of the role, in "
        "the service control policies, and in the tag policies of the organization.",
    ),
}


def state_of_target(error: CloudError) -> StateKind | None:
    """Return the standing state that an error of listing a target's instances shows: of its role,
    or a refusal of EC2. Return `None` if the error, such as one of another service, shows none, so
    that the sweep of the target has failed."""
    if error.operation == _ASSUME_ROLE:
        return _state_of_role(error)
    is_of_ec2 = error.operation.startswith("ec2:")
    if not is_of_ec2:
        return None
    if error.code in _NOT_ENABLED_CODES:
        return StateKind.NOT_ENABLED
    if error.code in _DENIED_CODES:
        return StateKind.DENIED
    return None


def _state_of_role(error: CloudError) -> StateKind | None:
    """Return the standing state that a refused AssumeRole shows; `None` if it shows none."""
    if error.code in ("RegionDisabledException", "OptInRequired"):
        return StateKind.NOT_ENABLED
    if error.code in _DENIED_CODES:
        return StateKind.ROLE_MISSING
    return None


def refuses_all_tags(error: CloudError) -> bool:
    """Return whether this refusal of tagging an instance is one of the role's permissions, or
    of a policy of the organization, so that other instances of the target are refused, too, unless
    one was tagged.

    Return false for a refusal that may be about this instance alone, such as too many tags.
    """
    return error.code in _REFUSING_ALL_CODES


def has_too_many_tags(error: CloudError) -> bool:
    """Return whether this error of tagging an instance says that it has the most tags that EC2
    allows: a standing state of the instance, however many have it."""
    return error.code == _TOO_MANY_TAGS


def cannot_tag(error: CloudError) -> bool:
    """Return whether this error of tagging an instance is a standing state: a refusal of EC2 that
    does not go away by itself, such as a denial or one by a tag policy. Return false if the
    instance is gone, the credentials have expired, or another call sets its tags."""
    passing_codes = _EXPIRED_CODES | {_CONCURRENT_TAGGING}
    passes_by_itself = isinstance(error, NotFound) or error.code in passing_codes
    return not passes_by_itself and is_refused_by_ec2(error)
