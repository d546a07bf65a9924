"""Puts IAM principals, such as who launched an instance, into words by their ARNs.

The names are other people's text: they are printable and short here, and each channel escapes them.
This module decides nothing.
"""

from __future__ import annotations

from governor.core.units import clip, printable

_LONGEST_NAME = 64
"""The longest name of a user, a role or a session. Source: IAM user guide, quotas."""
_ARN_FIELDS = 6
_IAM_SERVICES = ("iam", "sts")


def principal_text(principal: str) -> str:
    """Return a principal in words, such as `the role gh-runner-scale-up`; one of a kind that is not
    known by its last name alone.

    The session of a role is named only where it is a person's address, as sign-ins by IAM Identity
    Center have it. `principal` is an ARN, the name of a service, or any other name.
    """
    text = printable(principal)
    fields = text.split(":", _ARN_FIELDS - 1)
    is_arn = len(fields) == _ARN_FIELDS and fields[0] == "arn" and fields[2] in _IAM_SERVICES
    if not is_arn:
        return f"the service {_short(text)}" if _is_service(text) else _short(text)
    kind, _, name = fields[-1].partition("/")
    last_part = name.rpartition("/")[2]
    if kind == "root":
        return f"the root user of account {_short(fields[4])}"
    if kind == "assumed-role":
        return _role_text(name)
    if kind in ("user", "role"):
        return f"the {kind} {_short(last_part)}"
    if kind == "federated-user":
        return f"the federated user {_short(last_part)}"
    return _short(fields[-1])


def names_in(principal: str) -> str:
    """Return the part of a principal that somebody named: the resource of an ARN, else all."""
    fields = principal.split(":", _ARN_FIELDS - 1)
    is_arn = len(fields) == _ARN_FIELDS and fields[0] == "arn"
    return fields[-1] if is_arn else principal


def _role_text(name: str) -> str:
    """Return a role in words, by its name and that of its session with a `/` between. The session
    is named only if its name is an address."""
    role, _, session = name.partition("/")
    if "@" in session:
        return f"the role {_short(role)} ({_short(session)})"
    return f"the role {_short(role)}"


def _is_service(text: str) -> bool:
    """Return whether this is the name of an AWS service, such as `autoscaling.amazonaws.com`."""
    return text.endswith((".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"))


def _short(name: str) -> str:
    """Return a name, its end replaced by an ellipsis if it is longer than AWS allows."""
    return clip(name, _LONGEST_NAME)
