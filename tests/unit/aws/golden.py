"""Every kind of item of the state table, as release 2428e04 wrote and read it.

`write` makes one of each, `read` reads them all. `golden_2428e04.json` holds the items that the
release stored, and what it read from them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Answer, Approval
from governor.core.instance import Target
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Price, Saving
from governor.events.model.notice import Notice
from governor.limits.model.breaker import BreakerState, SweepDay
from governor.money.model.ledger import Ending
from governor.money.rules.cost import Meter
from governor.policy.rules.schedule import Schedule
from governor.verdict.model import Hold
from tests.unit.aws.state_samples import (
    INSTANCE_ID,
    NOW,
    TARGET,
    decision,
    entry,
    episode,
    observation,
    ref,
)

PATH = Path(__file__).parent / "golden_2428e04.json"
RETIRED = frozenset({"last_started_at", "ebs_optimized"})
"""Fields that 2428e04 stored and nobody needs any more."""
RETIRED_OF_OBSERVATIONS = RETIRED | {"not_before", "proof_at"}
ADDED = frozenset(
    {
        "list_usd_per_hour",
        "storage",
        "operation",
        "tenancy",
        "iops",
        "throughput",
        "failures",
        "untold",
        "shared",
        "last_no",
        "snapshots_reserved_at",
        "user_data",
        "is_late",
        "waits_told_at",
        "late_hold",
        "is_clearance_used",
        "first_cleared",
        "state_transition_reason",
        "presence",
        "late_since",
        "idle_told_at",
        "samples",
        "memory_newest_percent",
        "last_measured",
        "longest_hole_minutes",
        "session",
        "brake",
        "notice",
    }
)
"""Fields that it did not know, in records and stored items. It ignores what it does not know. A
field that a record gets goes here, with a default that means what its absence meant."""
ADDED |= {"asked_under", "cli_may", "tag_owner_may", "working_days", "working_from", "counted_for"}
ADDED |= {"keep_ended_at", "keep_ended_by", "answer_by"}
ADDED |= {"moved_schedule", "quiet_wait", "quiet_wait_until", "question_sent_at"}
ADDED |= {"kept_in", "exempt_in", "kept_by", "resource_name"}
ADDED |= {"cash_low_usd_per_hour", "cash_high_usd_per_hour", "saves_from", "morning", "idle_usd"}
ADDED |= {
    "recorded_at",
    "ended",
    "settled_at",
    "replaced_by",
    "cash_source",
    "corrected_at",
    "storage_usd_per_hour",
}
ADDED |= {"may_be_committed"}
ADDED |= {"opening_seal", "seal", "expired_at", "expiry_seal", "idle_for"}
ADDED |= {"bound_utilization_percent", "placement_group", "network_interfaces", "efa_interfaces"}
ADDED |= {"elastic_ips", "stopped_in", "ask_about_stopped_after_days"}
ADDED |= {"snapshot_tags", "copied_tag_keys"}
ADDED |= {"start_try", "starting", "state_reason", "kms_key_id", "restart_doubts"}
ADDED |= {"encoder_percent", "decoder_percent", "encoder_sessions", "encoded_frames_per_second"}
ADDED |= {"busy_vcpus", "second_figure", "video_percent"}
ADDED |= {"encoder_utilization", "decoder_utilization", "encoded_frames"}
ADDED |= {"restarts", "restarts_quiet_until", "others_started_at"}
ADDED |= {"is_owner_alone"}
ADDED |= {"owner_note", "launched_by", "refused_call", "logged_in"}
ADDED |= {"job"}
ADDED |= {"ran_at"}
ADDED |= {"asked_again_at", "stated_until"}
ADDED |= {"exempt_by", "keeper", "first_booked_at"}
ADDED |= {"device_dimension"}
ADDED |= {"utilization_scale", "series_per_device"}
ADDED |= {"contact_hours", "working_until"}
ADDED |= {"idle_parts"}

_LATER_STAGES = {
    "clearance": {"step": "cleared_step", "at": "cleared_at", "is_used": "is_clearance_used"},
    "ending": {
        "outcome": "outcome",
        "reason": "outcome_reason",
        "at": "closed_at",
        "became": "became",
        "told_at": "outcome_told_at",
        "asked_again_at": "asked_again_at",
    },
    "undo": {"by": "undone_by", "at": "undone_at"},
}
"""By field of an episode: the names of its fields in that release."""
_NAMES_IN_THE_RELEASE = {(BreakerState, "left_ids"): "held", (Approval, "hold"): "brake"}
"""By field of any other record: its name in that release."""
IDS = tuple(f"i-0000000000000000{number}" for number in range(7))
LATER = NOW + timedelta(hours=6)
_SAID = NOW.replace(microsecond=0)
_DELIVERIES = (
    Delivery("subject", "m-1", "slack", "C1", NOW, "1.2", "1.1"),
    Delivery(
        "subject",
        "m-1",
        "email",
        "a@example.com",
        NOW,
        refused="the channel is gone",
        given_up=True,
    ),
    Delivery("subject", "m-2", "teams", "T1", NOW, not_before=LATER),
)
_NOTICES = (
    Notice(
        TARGET.account, TARGET.region, "arn:1", "AWS retires it", LATER, _SAID, instance_id=IDS[1]
    ),
    Notice(
        TARGET.account,
        TARGET.region,
        "cr-1",
        "Capacity Block ends",
        LATER,
        _SAID,
        reservation_id="cr-1",
    ),
)


def write(table: Any, log: Any) -> None:
    """Makes one item of every kind, in every shape that its life gives it."""
    _write_sweeps(table)
    _write_episodes(table)
    _write_deliveries(table)
    log.claim("claimed", NOW, timedelta(seconds=30))
    log.done("done", NOW, timedelta(days=1))
    for _ in range(2):
        log.count_one_more(TARGET, "interruption#us-east-1a", NOW, timedelta(minutes=10))
    for notice in _NOTICES:
        log.keep_notice(notice, remind=True)
    log.keep_notice(replace(_NOTICES[0], source_id="arn:2", at=None), remind=False)
    log.drop_notice(replace(_NOTICES[0], source_id="arn:3"))
    log.note_known(TARGET, [f"{IDS[1]}#hot"], LATER)


def _write_sweeps(table: Any) -> None:
    bare = observation(
        reason="", last_busy=None, source=None, dimensions=None, searched_at=None, usd_per_hour=None
    )
    table.remember(TARGET, {INSTANCE_ID: observation(told_silent=True), IDS[1]: bare}, NOW)
    table.set_sweep_days(
        TARGET, (SweepDay(date(2026, 11, 19), 3, 0), SweepDay(date(2026, 11, 20), 0, 7))
    )
    table.set_breaker(
        TARGET, BreakerState(NOW, "60 % idle", LATER, 12, frozenset({IDS[1], INSTANCE_ID}))
    )
    table.set_breaker(replace(TARGET, region="eu-west-1"), BreakerState(NOW, "40 % silent"))
    usd, hours = {"llm": Decimal("3.10")}, {"none": Decimal("0.5")}
    table.bring_forward(Meter(TARGET, "2026-11", NOW, usd, hours, {"llm": Decimal("1E+1")}), None)
    table.bring_forward(Meter(Target(TARGET.account, "eu-west-1"), "2026-11", NOW), None)
    table.keep_policy("mode: ask\n", NOW)


def _write_episodes(table: Any) -> None:
    # One that is over, with everything that can be noted on the way.
    _open(table, 0, episode(1, "approval-0", IDS[0]))
    table.note_first_yes("approval-0", decision(Answer.APPROVE, "bob", "bob@example.com"))
    table.settle("approval-0", decision(Answer.APPROVE, "ada", "ada@example.com"))
    one = ref(1, IDS[0])
    table.clear_step(one, "stop", NOW)
    table.note_step(one, "stop", NOW)
    table.set_snapshots(one, {"snap-1": "vol-1"})
    table.set_marked(TARGET, NOW, IDS[0])
    table.close_episode(
        one, Outcome.STOPPED, "done", LATER, quiet_until=LATER, ledger=entry(1, NOW, IDS[0])
    )
    table.note_told(one, LATER)
    table.note_undo(one, "ada", LATER)
    # One question that is open, of an instance without a price, with a schedule; and one not yet
    # asked.
    asked = replace(
        episode(1, "approval-1", IDS[1]),
        asking=replace(
            episode(1, "approval-1", IDS[1]).asking,
            schedule=Schedule(NOW, NOW + timedelta(hours=1), NOW + timedelta(hours=2), LATER),
            time_zone="Europe/Berlin",
        ),
        price=Price(None, "unpriced"),
        measurement=replace(episode(1, "approval-1", IDS[1]).measurement, history=None),
    )
    asked = replace(
        asked,
        instance=replace(
            asked.instance, launch=None, operator_managed=True, operator_principal="eks"
        ),
        plan=replace(asked.plan, saving=Saving(None, None), loses_local_disks=True),
    )
    _open(table, 1, asked)
    _open(table, 2, episode(1, "approval-2", IDS[2]), asked=False)
    # Questions that ended in other ways, and holds.
    for number, answer in ((3, Answer.KEEP), (4, Answer.EXEMPT)):
        _open(table, number, episode(1, f"approval-{number}", IDS[number]))
        table.settle(f"approval-{number}", decision(answer))
    _open(table, 5, episode(1, "approval-5", IDS[5]))
    table.void("approval-5", "nobody answered", expired=True, outcome="expired")
    _open(table, 6, episode(1, "approval-6", IDS[6]))
    table.void("approval-6", "the GPU works", expired=False, outcome="woke-up")
    over = replace(entry(1, NOW, IDS[6]), ours=False, ended_at=NOW, saved_usd_per_hour=None)
    table.close_episode(
        ref(1, IDS[6]), Outcome.VOID, "by others", NOW, quiet_until=None, ledger=over
    )
    ended = entry(1, LATER, IDS[5])
    table.close_episode(
        ref(1, IDS[5]), Outcome.STOPPED, "done", LATER, quiet_until=None, ledger=ended
    )
    undone = LATER + timedelta(minutes=1)
    table.settle_entry(ended, undone, Ending.UNDONE, undone)
    table.note_warned(TARGET, {IDS[1]: LATER, INSTANCE_ID: LATER})
    table.store_hold(TARGET, IDS[2], Hold(snoozed_until=LATER))


def _open(table: Any, number: int, opened: Any, *, asked: bool = True) -> None:
    table.take_lock(ref(1, IDS[number]))
    table.save_opened(opened)
    if asked:
        table.await_answer(f"approval-{number}", f"token-{number}", "ask", LATER)


def _write_deliveries(table: Any) -> None:
    for delivery in _DELIVERIES[:2]:
        table.note_delivery(delivery)
    table.claim_delivery(_DELIVERIES[2], NOW)
    table.put_outbox("group", "m-1", '{"text": "hello"}', NOW)
    table.take_lease("lease", NOW, 60)
    table.put_digest("digest-1", ("approval-1", "approval-2"), NOW)


def read(table: Any, log: Any) -> dict[str, Any]:
    """Everything that can be read, as plain JSON."""
    europe = Target(TARGET.account, "eu-west-1")
    reads = {
        "observations": table.observations(TARGET),
        "records": table.records(TARGET),
        "record": table.record(TARGET, IDS[1]),
        "sweep_days": table.sweep_days(TARGET),
        "breakers": [table.breaker(TARGET), table.breaker(europe)],
        "episodes": [table.episode(ref(1, one)) for one in IDS],
        "approvals": [table.approval(f"approval-{number}") for number in range(7)],
        "open_entries": [table.open_entries(TARGET, one) for one in IDS],
        "entries": table.entries("2026-11"),
        "meters": [
            *table.meters("2026-11"),
            table.meter(TARGET, "2026-11"),
            table.meter(europe, "2026-11"),
        ],
        "policy": table.kept_policy(),
        "deliveries": table.deliveries("subject"),
        "outbox": table.outbox("group"),
        "digest": table.digest("digest-1"),
        "free": [
            table.take_lease("lease", NOW, 60),
            table.claim_delivery(_DELIVERIES[0], NOW),
            log.claim("claimed", NOW, timedelta(seconds=30)),
            log.claim("done", NOW, timedelta(seconds=30)),
        ],
        "count": log.count_one_more(TARGET, "interruption#us-east-1a", NOW, timedelta(minutes=10)),
        "notices": sorted(log.notices(TARGET), key=lambda notice: notice.source_id),
        "told": sorted(log.known_keys(TARGET, NOW)),
    }
    return {name: plain(value) for name, value in reads.items()}


def _name_in_the_release(record: object, field_name: str) -> str:
    """The name that the field had in the release."""
    return _NAMES_IN_THE_RELEASE.get((type(record), field_name), field_name)


def plain(value: Any) -> Any:
    """Domain records as JSON data that tells types apart: amounts, moments and enums by `repr`."""
    if isinstance(value, Episode):
        return _flat_episode(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            _name_in_the_release(value, one.name): plain(getattr(value, one.name))
            for one in fields(value)
            if one.name not in RETIRED
        }
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, frozenset):
        return ["frozenset", *(plain(inner) for inner in sorted(value))]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _flat_episode(episode: Episode) -> dict[str, Any]:
    """The fields of the episode under their names in that release, which kept all in one record."""
    document: dict[str, Any] = {}
    for one in fields(Episode):
        value = getattr(episode, one.name)
        if one.name in ("measurement", "asking", "progress"):
            document |= plain(value)
        elif one.name not in _LATER_STAGES:
            document[one.name] = plain(value)
    for stage, names in _LATER_STAGES.items():
        record = getattr(episode, stage)
        for name, name_in_the_release in names.items():
            document[name_in_the_release] = plain(None if record is None else getattr(record, name))
    document["stopped_in"] = document.pop("stopped_by_episode")
    return document


def stored(client: Any, name: str) -> list[dict[str, Any]]:
    """All items of the table as DynamoDB holds them, with bytes as text."""
    pages = client.get_paginator("scan").paginate(TableName=name)
    return sorted(
        (json.loads(json.dumps(item, default=_text)) for page in pages for item in page["Items"]),
        key=lambda item: (item["pk"]["S"], item["sk"]["S"]),
    )


def _text(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode()


def load(client: Any, name: str, items: list[dict[str, Any]]) -> None:
    """Puts stored items into the table."""
    for item in items:
        client.put_item(TableName=name, Item={key: from_text(value) for key, value in item.items()})


def from_text(value: dict[str, Any]) -> dict[str, Any]:
    """A stored value with its bytes."""
    return {"B": base64.b64decode(value["B"])} if "B" in value else value


def _known(item: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are neither retired nor new, in maps and lists, too."""

    def within(value: Any) -> Any:
        if "M" in value:
            return {"M": _known(value["M"])}
        return {"L": [*map(within, value["L"])]} if "L" in value else value

    return {name: within(value) for name, value in item.items() if name not in RETIRED | ADDED}


_TYPES = {"S", "N", "B", "M", "L", "NULL", "BOOL"}
"""DynamoDB's names for the types of values."""


def new_fields(before: Any, now: Any) -> set[str]:
    """The names that the release does not have in the same value, at any depth."""
    return _names(now) - _names(before) - _TYPES


def _names(value: Any) -> set[str]:
    names: set[str] = set()
    if isinstance(value, Mapping):
        names.update(value)
        for inner in value.values():
            names |= _names(inner)
    elif isinstance(value, list):
        for inner in value:
            names |= _names(inner)
    return names


def comparable(item: dict[str, Any]) -> dict[str, Any]:
    """An item with what is packed unpacked, and without what differs from run to run, or is new."""
    plain_item = _known({name: value for name, value in item.items() if name != "version"})
    for name, value in plain_item.items():
        if "B" in value:
            text = zlib.decompress(base64.b64decode(value["B"])).decode()
            lines = [json.loads(line) for line in text.splitlines()]
            plain_item[name] = [
                {
                    key: inner
                    for key, inner in line.items()
                    if key not in RETIRED_OF_OBSERVATIONS | ADDED
                }
                for line in lines
            ]
    return plain_item
