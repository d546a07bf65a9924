"""Wiring of the one function that stops and terminates."""

from __future__ import annotations

from governor.remediation.put_away import PutAway
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import asking, use_case


def acting(parts: Ec2Parts) -> Ready[PutAway]:
    """Return the use case of `put_away`. It reads members with credentials that change nothing:
    each call that stops or terminates takes credentials of its own."""
    parts.clients.only_read_members()
    return use_case(parts, PutAway, asking)
