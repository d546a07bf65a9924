"""The reason of an episode whose snapshots EC2 refuses: EC2's words, and what to do about it.

This module is pure: it reads an error and the tags of the snapshots, and calls nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from governor.core.errors import AccessDenied, CloudError
from governor.core.units import clip

_ENCODED_MESSAGE = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
"""EC2 ends a refusal with hundreds of characters that only `sts:DecodeAuthorizationMessage` can
read."""
_MOST_CHARACTERS = 400
"""The longest words of EC2 that are shown. A stored reason has 1,000 characters, and what to do
must fit, too."""
_MOST_CHARACTERS_OF_KEYS = 280
_POLICIES_OF_AN_ORGANIZATION = ("service control policy", "resource control policy", "tag policy")
_TOO_MANY_TAGS = "TagLimitExceeded"
_BREAKS_TAG_POLICY = "TagPolicyViolation"
"""The code of a refusal by a tag policy of AWS Organizations."""


def refused_snapshots_text(error: CloudError, tags: Mapping[str, str]) -> str:
    """Return why the snapshots with these tags, of which there is at least one, are refused, in
    EC2's words, and what to do.

    An example: `EC2 refuses its snapshots: UnauthorizedOperation: You are not authorized ... with
    an explicit deny in a service control policy. The organization refuses snapshots with the tags
    Name, DeleteAfter: set the tags that it demands in plan.snapshot_tags`.
    """
    words = _words_of(error)
    # EC2 names the policy at the end of its words, so the advice needs all of them.
    advice = _advice(error, words, _named(tags))
    return f"EC2 refuses its snapshots: {clip(words, _MOST_CHARACTERS)}. {advice}"


def _advice(error: CloudError, words: str, named_tags: str) -> str:
    """Return what to do about the refusal, by its code and by EC2's words, which are not cut."""
    if _is_by_organization(error, words):
        return (
            f"The organization refuses snapshots with the tags {named_tags}: "
            "set the tags that it demands in plan.snapshot_tags"
        )
    if _is_of_quota(error):
        return (
            "This is a quota, not a matter of tags: delete snapshots, or ask AWS for a higher quota"
        )
    if _is_of_rate(error):
        return "EC2 had too many calls, not a matter of tags: try again later"
    if isinstance(error, AccessDenied):
        return (
            "Allow ec2:CreateSnapshots to the role of take_snapshot in this account. If a policy "
            f"of the organization demands more tags than {named_tags}, "
            "set those in plan.snapshot_tags"
        )
    return f"They would have the tags {named_tags}: docs/snapshots.md says how to change them"


def _words_of(error: CloudError) -> str:
    """Return the code and the message of an error of EC2, without the encoded part and without a
    full stop, such as `UnauthorizedOperation: You are not authorized`."""
    text = str(error).removeprefix("ec2:CreateSnapshots failed: ")
    words = _ENCODED_MESSAGE.sub("", text)
    return words.strip().rstrip(".")


def _named(tags: Mapping[str, str]) -> str:
    """Return the keys of the tags in their order, such as `Name, DeleteAfter`; as many as fit into
    280 characters, and the number of those left out."""
    named_keys = ""
    left_out = 0
    for key in tags:
        longer = f"{named_keys}, {key}" if named_keys else key
        if left_out or len(longer) > _MOST_CHARACTERS_OF_KEYS:
            left_out += 1
        else:
            named_keys = longer
    return f"{named_keys} and {left_out} more" if left_out else named_keys


def _is_of_quota(error: CloudError) -> bool:
    """Return whether the account has as many snapshots as EC2 allows it, such as
    `SnapshotLimitExceeded`. Tags have a limit, too, which is no quota."""
    return error.code.endswith("LimitExceeded") and error.code != _TOO_MANY_TAGS


def _is_of_rate(error: CloudError) -> bool:
    """Return whether EC2 had too many calls in a short time, such as
    `SnapshotCreationPerVolumeRateExceeded`."""
    return error.code.endswith("RateExceeded")


def _is_by_organization(error: CloudError, words: str) -> bool:
    """Return whether a policy of AWS Organizations refuses the call, as far as EC2 says so."""
    if error.code == _BREAKS_TAG_POLICY:
        return True
    lowered = words.casefold()
    return any(policy in lowered for policy in _POLICIES_OF_AN_ORGANIZATION)
