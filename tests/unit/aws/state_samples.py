"""Records for tests of the state table, and the table itself in moto."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from governor.approvals.model.approval import Answer, Decision
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Instance, LaunchFacts, Lifecycle, Target, Volume
from governor.episode.model.episode import (
    Asking,
    Episode,
    Measurement,
    Observation,
    Outcome,
    Phase,
    Terms,
)
from governor.episode.model.plan import Plan, Price, Saving, Step
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Window
from governor.evidence.rules.history import History
from governor.evidence.rules.series import evidence_hash
from governor.money.model.ledger import LedgerEntry
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import asked_under
from tests.twins.stores import EveryStore

NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
_DAY_END = NOW.replace(microsecond=0)
LAUNCHED = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
TARGET = Target("111122223333", "us-east-1")
INSTANCE_ID = "i-0123456789abcdef0"
TABLE = "state"


def dynamo_table(clients: Clients) -> EveryStore:
    """The state table in moto, as the template defines its keys."""
    create_table(clients.client("dynamodb"))
    return EveryStore(DynamoTable(clients, TABLE, sleep=lambda _: None))


def create_table(client: Any) -> None:
    """The table as the template defines its keys."""
    client.create_table(
        TableName=TABLE,
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def ref(number: int = 1, instance_id: str = INSTANCE_ID) -> EpisodeRef:
    """An episode of the sample instance."""
    return EpisodeRef(TARGET.account, TARGET.region, instance_id, LAUNCHED, number)


def episode(
    number: int = 1, approval_id: str = "approval-1", instance_id: str = INSTANCE_ID
) -> Episode:
    """An opened episode with every field set."""
    window = Window(
        NOW.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1),
        NOW,
        timedelta(minutes=5),
    )
    window = replace(window, end=window.start + timedelta(hours=1))
    evidence = Evidence(
        window=window,
        source=MetricSource.PER_GPU,
        gpus=(
            GpuReadings("0", (0.1 + 0.2, None, 3.3)),
            GpuReadings("1", (None, 1e-9, 4.999999999999999)),
        ),
        gpus_expected=2,
        gpus_reporting=2,
        memory_used_percent=61.803398874989,
        read=frozenset({"memory"}),
        last_active={"memory": LAUNCHED},
    )
    return Episode(
        ref=ref(number, instance_id),
        phase=Phase.ASKING,
        opened_at=NOW,
        approval_id=approval_id,
        mode=Mode.ASK,
        policy_version="abc",
        overrides=("research",),
        instance=Instance(
            target=TARGET,
            instance_id=instance_id,
            instance_type="p4d.24xlarge",
            state="running",
            launch_time=LAUNCHED,
            lifecycle=Lifecycle.SPOT,
            tags={"Name": "träin <b>", "aws:autoscaling:groupName": ""},
            volumes=(
                Volume("vol-1", "/dev/sda1", True, 100, "gp3"),
                Volume("vol-2", "/dev/sdb", False),
            ),
            availability_zone="us-east-1a",
            public_ip="203.0.113.7",
            spot_request_id="sir-1",
            host_id="h-1",
            launch=LaunchFacts(
                image_id="ami-1",
                subnet_id="subnet-1",
                security_group_ids=("sg-1", "sg-2"),
                key_name="key",
                instance_profile_arn="arn:aws:iam::123456789012:instance-profile/gpu",
                private_ip="10.0.0.4",
            ),
        ),
        reason="every GPU stayed under 5 %",
        measurement=Measurement(
            evidence=evidence,
            evidence_hash=evidence_hash(evidence),
            history=History(
                window=Window(_DAY_END - timedelta(hours=24), _DAY_END, timedelta(hours=8)),
                gpus=(GpuReadings("0", (93.5, None, 1.0)),),
                memory_percent=(50.0, None, 12.5),
                power_percent=(),
            ),
            idle_below_percent=7.5,
        ),
        plan=Plan(
            wanted=Action.STOP,
            action=Action.TERMINATE,
            steps=(Step.SNAPSHOT, Step.CANCEL_SPOT_REQUEST, Step.TERMINATE),
            replaced_because=("it is a one-time Spot instance",),
            losses=("everything in RAM",),
            stays=("one snapshot",),
            saving=Saving(Decimal("21.957642"), Decimal("0.10")),
        ),
        price=Price(Decimal("21.957642"), "list price", NOW),
        owner="research",
        project="llm",
        asking=Asking(
            keep_at_most=timedelta(days=7), asked_under=asked_under(Policy()), acts_on_silence=True
        ),
        terms=Terms(frozenset({"keep"}), 2, frozenset({"a@example.com"})),
        phase_since=NOW,
    )


def entry(
    number: int = 1, booked_at: datetime = NOW, instance_id: str = INSTANCE_ID
) -> LedgerEntry:
    """A booked stop."""
    return LedgerEntry(
        episode=ref(number, instance_id),
        outcome=Outcome.STOPPED,
        instance_type="p4d.24xlarge",
        owner="research",
        project="llm",
        price_source="list price",
        booked_at=booked_at,
        cost_before_usd_per_hour=Decimal("21.96"),
        cost_after_usd_per_hour=Decimal("0.10"),
        saved_usd_per_hour=Decimal("21.86"),
    )


def decision(answer: Answer, by: str = "ada", person: str | None = None) -> Decision:
    """An answer that is complete."""
    return Decision(
        answer=answer,
        by=by,
        channel="web",
        at=NOW,
        keep_until=NOW + timedelta(days=2) if answer is Answer.KEEP else None,
        reason="it is the demo box" if answer is Answer.EXEMPT else None,
        person=person,
    )


def observation(**changes: Any) -> Observation:
    """Return what a sweep saw."""
    seen = Observation(
        launch_time=LAUNCHED,
        verdict="busy",
        at=NOW,
        reason="utilization reached 97.0 %",
        policy_version="abc",
        last_busy=NOW,
        source="per-gpu",
        dimensions=(
            (("InstanceId", INSTANCE_ID), ("index", "0")),
            (("InstanceId", INSTANCE_ID), ("index", "1")),
        ),
        searched_at=NOW,
        next_gpu_check_at=NOW,
        advice=("right-size",),
        is_late=True,
        last_known="busy",
        project="llm",
        usd_per_hour=Decimal("21.9576"),
    )
    return replace(seen, **changes)
