"""The identity of a caller, for conditions of IAM.

- AWS: `aws:PrincipalArn` of a role's session is the ARN of the role, with its path. Engine: that of
  the session, which has no path.
- AWS: `aws:PrincipalIsAWSService` is known of every request. Engine: no such key.
"""

from __future__ import annotations

import re
from typing import Any

_SESSION = re.compile(r"arn:([^:]+):sts::(\d+):assumed-role/([^/]+)/.*")


def repair() -> None:
    """Wraps what the engine knows of a request; it looks it up by name at every condition."""
    from ministack.core import iam_evaluator
    from ministack.services import iam

    resolve = iam_evaluator._resolve_condition_key

    def role_of(session: re.Match[str]) -> str:
        plain = session.expand(r"arn:\1:iam::\2:role/\3")
        kept = str((iam._roles.get(session[3]) or {}).get("Arn", ""))
        # A role of that name in another account is another role.
        is_the_same = kept.startswith(f"arn:{session[1]}:iam::{session[2]}:role/")
        return kept if is_the_same else plain

    def resolved(key: str, context: Any) -> Any:
        caller = str(context.principal_arn or "")
        if key.lower() == "aws:principalarn":
            return _SESSION.sub(role_of, caller)
        if key.lower() == "aws:principalisawsservice":
            return str(caller.endswith(".amazonaws.com") or not caller).lower()
        return resolve(key, context)

    iam_evaluator._resolve_condition_key = resolved
