"""Keys of the state table: `pk`, then `sk`.

    TARGET#account#region    OBSERVATIONS#nnn            what the last sweep saw, packed, in chunks
                             INSTANCE#id                 instance record; holds the lock
                             BREAKER                     the tripped breaker
                             SWEEP-DAYS                  the largest changes of a sweep, by day
                             SWEEP#time                  sweep history (30 days)
                             OPENLEDGER#id#execution     booked and not settled
                             BURST#kind#zone             warnings counted since `started_at_epoch`
                             NOTICE#source#id            an announced date, or that it is over, with when
                                                         AWS said so; until a month after it
                             TOLD#...                    findings people know, until `expires_at_epoch`
    EPISODE#execution        EPISODE                     the episode
    APPROVAL#id              REQUEST                     the approval (400 days)
    LEDGER#yyyy-mm           time#execution              the ledger
    COST#yyyy-mm             account#region              what a target's projects have cost (400 days)
    POLICY                   ACCEPTED                    the last policy document that was accepted
    DELIVERIES#subject       message#channel#target      what became of a message (90 days)
    OUTBOX#group             message                     waits to be sent with others (7 days)
    LEASE#name               LEASE                       who works on it now
    DIGEST#id                DIGEST                      the questions of a digest (90 days)
    EVENT#...                SEEN                        done or being done, until `expires_at_epoch`

DynamoDB deletes late, so an item past its time counts as gone wherever that matters.
"""

from __future__ import annotations

from governor.adapters.table.client import Key
from governor.domain.episode import EpisodeRef
from governor.domain.instance import Target


def target_pk(target: Target) -> str:
    """The partition of an account and Region."""
    return f"TARGET#{target.account}#{target.region}"


def instance(target: Target, instance_id: str) -> Key:
    """An instance record."""
    return target_pk(target), f"INSTANCE#{instance_id}"


def episode(ref: EpisodeRef) -> Key:
    """An episode."""
    return f"EPISODE#{ref.execution_name}", "EPISODE"


def approval(approval_id: str) -> Key:
    """An approval."""
    return f"APPROVAL#{approval_id}", "REQUEST"
