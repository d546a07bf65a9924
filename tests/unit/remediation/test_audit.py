"""Every question, answer, refusal and action leaves a document outside the table, written once."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.approval import Answer, Decision
from governor.aws.dynamodb import packed
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    CloudError,
    DecisionRefused,
    InputError,
    MustWait,
    NotAllowed,
    SafetyError,
    Unavailable,
)
from governor.core.hashing import short_hash
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.episode.rules.audit import Change
from governor.events.table_stream import changes_of
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action
from governor.table.table import Key, Write
from local.engine.templates import load_template
from tests.builders import NOW, TARGET
from tests.iam import ROOT
from tests.twins.table import MemoryTable
from tests.unit.policy.test_policy_versions import ALICE as ALICE_ARN
from tests.unit.policy.test_policy_versions import STRICT, two_people
from tests.unit.worlds.builders import decider, recorder, see, undoer
from tests.unit.worlds.world import ALICE, APPROVAL_ID, World

EVERYBODY = "link:broadcast"
_STREAM = load_template(ROOT / "template.yaml")["Resources"]["AuditStream"]["Properties"]
_PATTERN = json.loads(_STREAM["FilterCriteria"]["Filters"][0]["Pattern"])
PREFIXES = tuple(one["prefix"] for one in _PATTERN["dynamodb"]["Keys"]["pk"]["S"])
"""The partitions whose changes the stream hands over."""


@dataclass
class MemoryArchive:
    """Documents by key; `failure` is raised by every call."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: Exception | None = None

    def keep(self, change: Change) -> bool:
        if self.failure is not None:
            raise self.failure
        is_new = change.key not in self.documents
        self.documents.setdefault(change.key, json.loads(json.dumps(change.document())))
        return is_new

    def keep_all(self, records: Sequence[dict[str, Any]]) -> int:
        """As the handler does."""
        return sum(map(self.keep, changes_of({"Records": records})))


@dataclass
class Stream:
    """The stream of the table, as JSON has it."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, key: Key, before: dict[str, Any], after: dict[str, Any]) -> None:
        """One change; DynamoDB tells none where nothing has changed."""
        if before == after:
            return
        images = {"OldImage": before, "NewImage": after}
        change = {
            "Keys": packed({"pk": key[0], "sk": key[1]}),
            "ApproximateCreationDateTime": NOW.timestamp(),
            "SequenceNumber": str(100000000000000000000 + len(self.records)),
            **{name: packed(image) for name, image in images.items() if image},
        }
        kind = "MODIFY" if before and after else "INSERT" if after else "REMOVE"
        record = {"eventName": kind, "dynamodb": change}
        self.records.append(
            json.loads(json.dumps(record, default=lambda b: base64.b64encode(b).decode()))
        )

    def audit(self) -> list[dict[str, Any]]:
        """The documents of all changes so far, in their order."""
        archive = MemoryArchive()
        archive.keep_all(self.records)
        return [archive.documents[key] for key in sorted(archive.documents)]

    def told(self) -> list[str]:
        """Return what happened."""
        return [one["what"] for one in self.audit()]

    def last(self) -> dict[str, Any]:
        """The newest document."""
        return self.audit()[-1]


@contextmanager
def streamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    """All changes of tables in memory."""
    stream, carry_out = Stream(), MemoryTable._carry_out

    def carried_out(table: MemoryTable, one: Write) -> None:
        before = dict(table.items.get(one.key, {}))
        carry_out(table, one)
        if one.key[0].startswith(PREFIXES):
            stream.add(one.key, before, dict(table.items.get(one.key, {})))

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTable, "_carry_out", carried_out)
        # What opens a world is in the stream, too: none is copied from one of an earlier test.
        patch.setattr("tests.unit.worlds.world.OPENED_BEFORE", {})
        yield stream


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    with streamed(monkeypatch) as found:
        yield found


def decide(world: World, answer: Answer, person: str | None, **more: Any) -> None:
    """An answer from the page."""
    by = f"link:{person}" if person else EVERYBODY
    use_case = decider(world)
    use_case(APPROVAL_ID, Decision(answer, by, "page", NOW, person=person, **more))


def test_a_question_that_ends_in_a_termination_leaves_its_whole_sequence(stream: Stream) -> None:
    """Who, what and when, the hashes that bind the answer, and the requests by which CloudTrail
    finds EC2."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    world.put_away(world.ref, Step.TERMINATE)
    recorder(world)(world.ref, Outcome.TERMINATED)

    told = stream.told()
    assert ["opened", "question made", "asked", "answered", "rechecked"] == told[:5]
    for one in ("step begun", "done", "snapshots made", "rechecked", "closed", "outcome sent"):
        assert one in told
    documents = stream.audit()
    answered = documents[told.index("answered")]
    assert (f"link:{ALICE}", "approve") == (
        answered["who"],
        answered["after"]["decision"]["answer"],
    )
    opened, closed = documents[0], documents[told.index("closed")]
    assert (opened["evidence_hash"], opened["plan_hash"]) == (
        closed["evidence_hash"],
        closed["plan_hash"],
    )
    assert 64 == len(opened["plan_hash"])
    done = [one for one in documents if one["what"] == "done"]
    assert ["stop", "terminate"] == [one["after"]["step"] for one in done]
    assert all(one["request_ids"][0].startswith("request-") for one in done)
    assert {(world.ref.execution_name, world.ref.instance_id)} == {
        (one["episode"], one["instance_id"]) for one in documents
    }


@pytest.mark.parametrize(
    ("fault", "raised", "why"),
    [
        (
            lambda w: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
            MustWait,
            "MustWait: ",
        ),
        (
            lambda w: w.ec2.instances.clear(),
            SafetyError,
            "SafetyError: the instance no longer exists",
        ),
        (
            lambda w: w.ec2.failures.update(stop=[CloudError("EC2 said no")]),
            CloudError,
            "CloudError: EC2 said no",
        ),
    ],
    ids=["frozen", "gone", "EC2 refuses"],
)
def test_a_refusal_before_the_call_is_kept(
    stream: Stream, fault: Any, raised: type, why: str
) -> None:
    """The outcome of a workflow says it as well; of a call by hand, or one that waits, nothing
    did."""
    world = World()
    fault(world)
    with pytest.raises(raised):
        world.put_away(world.ref, Step.STOP)

    last = stream.last()
    assert ("refused", "stop") == (last["what"], last["after"]["step"])
    assert last["after"]["reason"].startswith(why)


def test_a_try_at_an_episode_that_never_was_is_kept(stream: Stream) -> None:
    """An execution that was started by hand."""
    world = World()
    unknown = EpisodeRef(TARGET.account, TARGET.region, "i-0123456789abcdef0", NOW, 7)
    for attempt in (
        lambda: world.put_away(unknown, Step.TERMINATE),
        lambda: world.take_snapshot(unknown),
    ):
        with pytest.raises(SafetyError):
            attempt()
        assert ("refused", unknown.instance_id) == (
            stream.last()["what"],
            stream.last()["instance_id"],
        )


def test_a_try_in_an_account_that_is_no_target_leaves_nothing(stream: Stream) -> None:
    """As with a sample of `events/`: there is no episode, and could be none."""
    world = World()
    unknown = EpisodeRef("000000000000", TARGET.region, "i-0123456789abcdef0", NOW, 1)
    before = len(stream.records)
    for attempt in (
        lambda: world.put_away(unknown, Step.TERMINATE),
        lambda: world.take_snapshot(unknown),
    ):
        with pytest.raises(
            SafetyError, match="the policy's targets do not name 000000000000/us-east-1"
        ):
            attempt()

    assert before == len(stream.records)


def test_a_call_without_an_answer_is_in_the_audit(stream: Stream) -> None:
    """The step that was begun, and why it goes no further for now."""
    world = World()
    world.ec2.failures["stop"] = [Unavailable("down")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)

    begun, _, refused = stream.audit()[-3:]
    assert ("step begun", "refused") == (begun["what"], refused["what"])
    assert "AWS gave no clear answer" in refused["after"]["reason"]


def test_a_step_that_waits_is_kept_with_its_reason(stream: Stream) -> None:
    """People are notified of a freeze once."""
    world = World()
    world.state.set_breaker(TARGET, BreakerState(NOW, "outage"))
    assert world.recheck(world.ref, Step.STOP).wait is not None

    assert "held back" == stream.last()["what"]
    assert "outage" in stream.last()["after"]["reason"]
    assert "stop" == stream.last()["after"]["step"]


def test_an_answer_that_is_refused_is_kept_once(stream: Stream) -> None:
    """With who tried; whoever repeats it fills neither the table nor the bucket."""
    world = World(decide=False, action=Action.TERMINATE)
    for _ in range(3):
        with pytest.raises(DecisionRefused):
            decide(world, Answer.APPROVE, None)

    assert 1 == stream.told().count("refused")
    last = stream.last()
    assert (EVERYBODY, "approve", world.ref.instance_id) == (
        last["who"],
        last["after"]["refused"]["answer"],
        last["instance_id"],
    )


def test_a_hold_and_an_undo_are_kept_with_who_did_it(stream: Stream) -> None:
    """And an undo that is refused."""
    world = World()
    decide(world, Answer.HOLD, "bob@example.com")
    assert ("held", "link:bob@example.com") == (stream.last()["what"], stream.last()["who"])

    world = World()
    undo = undoer(world)
    undo(world.ref, f"link:{ALICE}", "page")
    assert ("refused", "start", f"link:{ALICE}") == (
        stream.last()["what"],
        stream.last()["after"]["step"],
        stream.last()["who"],
    )
    world.put_away(world.ref, Step.STOP)
    recorder(world)(world.ref, Outcome.STOPPED)
    assert undo(world.ref, f"link:{ALICE}", "page").done
    see(world)
    who = f"link:{ALICE}"
    assert [
        ("start asked", who),
        ("start accepted", "gpu-governor"),
        ("done", who),
        ("undone", who),
        ("start running", "gpu-governor"),
    ] == [(one["what"], one["who"]) for one in stream.audit()[-5:]]


def test_no_task_token_leaves_the_table(stream: Stream) -> None:
    """Whoever has it may end the wait of a workflow; nothing else is left out."""
    world = World(decide=False)
    world.state.await_answer(APPROVAL_ID, "a-very-secret-token", "remind", NOW + timedelta(hours=2))

    assert "a-very-secret-token" in json.dumps(stream.records)
    assert "a-very-secret-token" not in json.dumps(stream.audit())
    assert ("asked", "remind") == (stream.last()["what"], stream.last()["after"]["stage"])


def test_a_refusal_stands_where_it_cannot_be_written_down(caplog: pytest.LogCaptureFixture) -> None:
    """The table fails: the guard refuses all the same, for its own reason; the log says what is
    lost."""
    world = World()
    world.ec2.instances.clear()
    failing = mock.patch.object(MemoryTable, "write", side_effect=CloudError("no table"))
    with failing, pytest.raises(SafetyError, match="no longer exists"):
        world.put_away(world.ref, Step.STOP)
    assert "the audit lacks EPISODE#" in caplog.text


def test_the_same_change_is_written_once_and_a_failure_is_raised() -> None:
    """The stream hands over a batch again, perhaps half of it written."""
    stream, archive = Stream(), MemoryArchive()
    for number in range(3):
        stream.add(("EPISODE#x", "EPISODE"), {"n": str(number)}, {"n": str(number + 1)})
    archive.failure = Unavailable("no S3", operation="s3:PutObject")
    with pytest.raises(Unavailable):
        archive.keep_all(stream.records)
    archive.failure = None

    assert (2, 1, 0) == tuple(archive.keep_all(stream.records[:n]) for n in (2, 3, 3))
    item = short_hash("EPISODE#x", "EPISODE")
    assert sorted(archive.documents) == [
        f"audit/day=2026-11-20/x/{100000000000000000000 + n:040}-{item}.json" for n in range(3)
    ]


def test_a_delivery_that_a_channel_refused_is_kept() -> None:
    """Its `refused` is the reason of a channel, where that of an answer is a decision."""
    stream = Stream()
    stream.add(("DELIVERIES#x", "slack"), {}, {"channel": "slack", "refused": "no such channel"})

    assert ("delivery", "gpu-governor") == (stream.last()["what"], stream.last()["who"])


def test_who_wrote_and_accepted_a_version_of_the_policy_is_kept() -> None:
    """With it comes into force what decides about everything else."""
    stream, ada = Stream(), "arn:aws:sts::1:assumed-role/ops/ada"
    stream.add(("VERSION#v2", "WRITER"), {}, {"arn": ada})
    stream.add(("ACCEPTED#v2", "aws:bob"), {}, {"at": "2026-11-20T00:00:00Z"})
    stream.add(("VERSION#in-force", "POLICY"), {"version": "v1"}, {"version": "v2"})

    assert {
        "policy written": ada,
        "policy accepted": "aws:bob",
        "policy in force": "gpu-governor",
    } == {one["what"]: one["who"] for one in stream.audit()}
    assert {"VERSION#", "ACCEPTED#"} <= set(PREFIXES)


def test_an_acceptance_that_is_refused_is_kept_once_and_counts_for_nothing(stream: Stream) -> None:
    """Neither somebody unknown nor its writer counts."""
    world = two_people()
    version = world.put(STRICT + "# more\n")
    world.state.note_writer(version, ALICE_ARN)
    for arn in ("arn:aws:iam::1:user/eve", ALICE_ARN, ALICE_ARN):
        with pytest.raises(NotAllowed):
            world.accept(version, arn)

    kept = [one for one in stream.audit() if one["what"] == "refused"]
    assert [("aws:arn:aws:iam::1:user/eve", version), (f"aws:{ALICE_ARN}", version)] == [
        (one["who"], one["episode"]) for one in kept
    ]
    assert "you wrote this version" in kept[1]["after"]["reason"]
    assert () == world.state.accepted(version)


_TEXT = st.text(max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    ["decision", "brake", "first_yes", "refused", "undone_by", "by", "arn", "plan", "what"]
)


@given(st.dictionaries(_NAMES, _JSON), st.dictionaries(_NAMES, _JSON), st.sampled_from(PREFIXES))
def test_no_shape_of_an_item_holds_up_the_others(before: Any, after: Any, partition: str) -> None:
    """The stream hands a change over until it is kept, and all behind it wait."""
    change = Change(f"{partition}x", "y", "MODIFY", NOW, "1", before, after)

    assert {"what", "who", "when"} <= json.loads(json.dumps(change.document())).keys()


def test_a_deletion_in_the_table_is_kept_too() -> None:
    """By the table itself when its time is over, or by whoever got hold of it."""
    stream = Stream()
    stream.add(("APPROVAL#a", "REQUEST"), {"status": "APPROVED"}, {})
    by_hand = stream.last()
    stream.records[0]["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}

    assert ("removed", "gpu-governor", {"status": "APPROVED"}) == (
        by_hand["what"],
        by_hand["who"],
        by_hand["before"],
    )
    assert "dynamodb.amazonaws.com" == stream.last()["who"]


def test_what_is_no_batch_of_changes_is_refused() -> None:
    """Not half written."""
    with pytest.raises(InputError):
        changes_of({"Records": [{"eventName": "INSERT"}]})
