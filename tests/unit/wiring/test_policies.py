"""Messages that must reach people are sent by the last accepted policy, when the present one cannot
be had."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.s3 import PolicyBucket, PolicyText
from governor.core.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    PolicyError,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer
from governor.policy.accounts import swept_targets
from governor.policy.document import parse_policy
from governor.policy.model.policy import Mode
from governor.policy.versions import StoredPolicy
from governor.wiring import observability, policies
from governor.wiring.api import approval_api
from governor.wiring.console import console
from governor.wiring.counted_metrics import CountedMetrics
from governor.wiring.page import approval_site
from governor.wiring.parts import Parts
from governor.wiring.planning import sweep_plan
from tests.builders import NOW, TARGET
from tests.twins import FakeClock, MemoryEventLog, MemoryStateTable
from tests.twins.stores import event_parts, store_parts
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.wiring.samples import settings


def parts(answer: Any, kept: str | None, **variables: str) -> Parts:
    """Systems Manager gives this answer, the table has kept this document; the function has these
    environment variables, among others."""
    parameter = {"Parameter": {"Value": answer}} if isinstance(answer, str) else answer
    clients = FakeClients(ScriptedClient(get_parameter=[parameter], get_item={}))
    stores = store_parts(SimpleNamespace(kept_policy=lambda: kept))
    return Parts(settings(**variables), clients, **stores)


def last(found: Parts) -> Mode:
    """The mode of the policy that is used."""
    return policies.or_last(found)().base().policy.mode


def test_only_targets_of_the_policy_are_swept() -> None:
    """Whatever account a function is invoked with."""
    made: list[Target] = []
    document = {"Parameter": {"Value": "targets: {regions: [eu-west-1]}\n"}}
    known = Parts(settings(), FakeClients(ScriptedClient(get_parameter=document, get_item={})))
    accounts = known.accounts
    sweep = policies.by_target(accounts, policies.present(known), lambda _: made.append)
    sweep(accounts.hub_account, "eu-west-1")
    for account, region in ((accounts.hub_account, "us-east-1"), ("000000000000", "eu-west-1")):
        with pytest.raises(
            SafetyError, match=f"the policy's targets do not name {account}/{region}"
        ):
            sweep(account, region)

    assert [Target(accounts.hub_account, "eu-west-1")] == made


@pytest.mark.parametrize(("document", "is_whole"), [("mode: ask\n", True), ("unknown: 1\n", False)])
def test_those_who_end_a_pause_learn_whether_the_policy_is_refused(
    document: str, is_whole: bool
) -> None:
    """The command line's API and the console."""
    assert is_whole is approval_api(parts(document, None))().policy_is_whole
    assert is_whole is console(parts(document, None))._reader().policy_is_whole


@pytest.mark.parametrize(
    ("stack", "display_name", "in_console", "on_page"),
    [
        ("gpu-governor", "", "gpu-governor", ""),
        ("gpu-governor", "local cloud", "gpu-governor (local cloud)", "local cloud"),
        ("gpu-governor-prod", "", "gpu-governor-prod", "prod"),
        ("gpu-governor-eu", "staging", "gpu-governor-eu (staging)", "eu (staging)"),
    ],
)
def test_pages_name_the_deployment_as_its_operator_does(
    stack: str, display_name: str, in_console: str, on_page: str
) -> None:
    """Nobody takes one stack for another."""
    named = {"POWERTOOLS_METRICS_NAMESPACE": stack, "DISPLAY_NAME": display_name}
    found = parts("mode: ask", None, **named)

    assert in_console == console(found)._reader().environment
    assert on_page == approval_site(found).environment


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_a_systems_manager_that_does_not_answer_keeps_no_warning_back(code: str) -> None:
    """The table knows the document that was last accepted."""
    found = parts(client_error(code), "mode: auto\n")

    assert Mode.AUTO is last(found)
    # Of two minutes, none may go by with waiting for it.
    assert isinstance(found.clients, FakeClients)
    with_long_timeout = [
        one[0]
        for one, long_timeout in zip(found.clients.asked, found.clients.long_timeout, strict=True)
        if long_timeout
    ]
    assert ["dynamodb"] == with_long_timeout, (
        "the client that everything else uses, opened at cold start"
    )


@pytest.mark.parametrize(
    ("code", "kept", "kind"),
    [
        ("ThrottlingException", None, Throttled),
        ("InternalServerError", None, Unavailable),
        ("AccessDeniedException", "mode: auto\n", AccessDenied),
    ],
)
def test_where_nothing_is_kept_or_a_right_is_missing_that_is_the_error(
    code: str, kept: str | None, kind: type[CloudError]
) -> None:
    """Defaults would be a policy that nobody has written."""
    with pytest.raises(kind):
        last(parts(client_error(code), kept))


@pytest.mark.parametrize(
    ("text", "kept", "mode"),
    [
        ("mode: ask", "mode: auto", Mode.ASK),
        ("mode: banana", "mode: auto", Mode.AUTO),
        ("a: &a [*a]", "mode: auto", Mode.AUTO),
        ("mode: banana", None, Mode.OBSERVE),
        ("mode: banana", "mode: banana", Mode.OBSERVE),
    ],
)
def test_a_refused_document_gives_way(text: str, kept: str | None, mode: Mode) -> None:
    """To the last accepted one, also where this release refuses how that one acts; else to the
    defaults."""
    assert mode is last(parts(text, kept))


def test_what_must_end_ends_by_the_defaults() -> None:
    """And what acts on instances does not start: the refusal is its error."""
    assert Mode.OBSERVE is policies.or_defaults(parts("mode: banana", None))().base().policy.mode
    with pytest.raises(PolicyError, match="banana"):
        policies.present(parts("mode: banana", None))()


def test_each_invocation_reads_the_document_anew() -> None:
    """A change counts at once, though the use case was put together before."""
    answers = [{"Parameter": {"Value": f"mode: {mode}"}} for mode in ("ask", "observe")]
    found = Parts(settings(), FakeClients(ScriptedClient(get_parameter=answers, get_item={})))
    mode = policies.ready(policies.present(found), lambda book: book.base().policy.mode)

    assert [Mode.ASK, Mode.OBSERVE] == [mode(), mode()]


# the version in force


def version_of(name: str) -> dict[str, Any]:
    """Return what the table says of the version in force."""
    return {"Item": {"version": {"S": name}}}


def object_of(text: str | bytes) -> dict[str, Any]:
    """An object of S3, as a stream."""
    body = text.encode() if isinstance(text, str) else text
    return {
        "Body": BytesIO(body),
        "VersionId": "v1",
        "LastModified": NOW,
        "Metadata": {"author": "ada"},
    }


def text_of(**answers: Any) -> tuple[PolicyText, ScriptedClient]:
    """The text in force, of a client with these answers."""
    client = ScriptedClient(**answers)
    return Parts(settings(), FakeClients(client)).policy_text, client


def test_the_version_that_the_table_names_is_the_policy_and_is_read_once() -> None:
    """A version never changes; the newest one, and the parameter, are not asked for."""
    records = [version_of("v1"), version_of("v1"), version_of("v2")]
    text, client = text_of(
        get_item=records, get_object=[object_of("mode: ask"), object_of("mode: auto")]
    )

    assert ["mode: ask", "mode: ask", "mode: auto"] == [text.read(), text.read(), text.read()]
    assert ["v1", "v2"] == [
        given["VersionId"] for name, given in client.calls if name == "get_object"
    ]


def test_until_a_version_is_in_force_the_parameter_is_the_policy() -> None:
    """After an update of a stack that has no version yet, nothing changes."""
    text, client = text_of(get_item=[{}], get_parameter=[{"Parameter": {"Value": "mode: ask"}}])

    assert "mode: ask" == text.read()
    assert ["get_item", "get_parameter"] == [name for name, _ in client.calls]


def test_what_acts_waits_for_the_table_and_what_reaches_people_does_not() -> None:
    """The last text that the function knows: an older policy must not act."""
    away = client_error("InternalServerError")
    text, _ = text_of(get_item=[away, version_of("v1"), away], get_object=[object_of("mode: ask")])

    with pytest.raises(Unavailable):
        text.read()
    assert "mode: ask" == text.read()
    assert "mode: ask" == text.read(long_timeout=False)


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_a_cold_function_never_takes_a_retired_parameter_for_the_policy(code: str) -> None:
    """Where the table does not say which version is in force, the kept document counts and
    stays."""
    client = ScriptedClient(
        get_item=[client_error(code)], get_parameter={"Parameter": {"Value": "mode: auto"}}
    )
    stored: list[str] = []
    state = SimpleNamespace(
        kept_policy=lambda: "mode: ask", keep_policy=lambda text, _: stored.append(text)
    )
    found = policies.or_last(
        Parts(settings(), FakeClients(client), **store_parts(state)), keep=True
    )

    assert Mode.ASK is found().base().policy.mode
    assert [] == stored
    assert ["get_item"] == [name for name, _ in client.calls]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NoSuchVersion", NotFound),
        ("InvalidArgument", NotFound),
        ("AccessDenied", NotFound),
        ("MethodNotAllowed", CloudError),
    ],
)
def test_a_version_that_is_gone_is_no_policy(code: str, kind: type[CloudError]) -> None:
    """Sweeps and actions stop: neither another version nor the parameter takes its place."""
    text, _ = text_of(get_item=[version_of("v1")], get_object=[client_error(code)])

    with pytest.raises(kind):
        text.read()


@pytest.mark.parametrize("code", ["NoSuchVersion", "InvalidArgument", "AccessDenied"])
def test_people_are_reached_where_the_version_in_force_is_gone(code: str) -> None:
    """By the last document that was accepted. Without permission to list, S3 denies what is not
    there."""
    client = ScriptedClient(get_item=[version_of("v1")], get_object=[client_error(code)])
    kept = SimpleNamespace(kept_policy=lambda: "mode: ask")

    assert Mode.ASK is last(Parts(settings(), FakeClients(client), **store_parts(kept)))


def test_the_newest_version_is_read_with_what_its_writer_says() -> None:
    """None before the first. What is too long, or no UTF-8, is refused when it is parsed."""
    big, other = b"#" * 400_000, "mode: \xe4".encode("latin-1")
    answers = [client_error("NoSuchKey"), *(object_of(one) for one in ("mode: ask", big, other))]
    clients = FakeClients(ScriptedClient(get_object=answers))
    bucket = PolicyBucket(clients, "policies")

    assert bucket.newest() is None
    assert [False] == clients.long_timeout, "a sweep waits for it"
    assert StoredPolicy("v1", "mode: ask", "ada") == bucket.newest()
    for said in ("a policy has at most 65536", "not readable as YAML"):
        with pytest.raises(PolicyError, match=said):
            parse_policy((bucket.newest() or StoredPolicy("", "")).text)


def test_a_topic_that_hangs_costs_no_sweep_and_the_next_one_announces() -> None:
    """Time-outs of 25 s, five times, are longer than the function may run; the sweep would be
    lost."""
    silent = ReadTimeoutError(endpoint_url="https://sns.us-east-1.amazonaws.com")
    client = ScriptedClient(generate_mac={"Mac": b"m"}, publish=[silent, {"MessageId": "1"}])
    clients, state, log = FakeClients(client), MemoryStateTable(), MemoryEventLog()
    documents = SimpleNamespace(newest=lambda: StoredPolicy("v1", "mode: observe\n"))
    text, clock = SimpleNamespace(read=lambda: "mode: observe\n"), FakeClock(NOW)
    plan = sweep_plan(
        Parts(
            settings(),
            clients,
            **store_parts(state),
            **event_parts(log),
            documents=documents,
            policy_text=text,
            clock=clock,
        )
    )
    with pytest.raises(Unavailable):
        plan.review()
    assert state.version_in_force() is None
    assert [Target("123456789012", "us-east-1")] == list(plan.places())

    clock.moment += timedelta(minutes=15)
    plan.review()
    assert "v1" == state.version_in_force()
    waits = {
        one[0]: long_timeout
        for one, long_timeout in zip(clients.asked, clients.long_timeout, strict=True)
    }
    assert {"sns": False, "kms": False} == {name: waits[name] for name in ("sns", "kms")}
    assert clients.asked.count(("sns", None, True)) == 1


UNITS = "targets: {units: [ou-abcd-11111111], accounts: ['111122223333']}"


def with_units(*found: str, of: str = UNITS) -> Parts:
    """The table knows these accounts of the units of a document; that of `UNITS` is in force."""
    state = MemoryStateTable()
    state.note_accounts(parse_policy(of).base().policy.targets, found, NOW)
    text = SimpleNamespace(read=lambda **_: UNITS)
    return Parts(settings(), FakeClients(ScriptedClient()), **store_parts(state), policy_text=text)


@pytest.mark.parametrize("ready", [policies.present, policies.or_last, policies.or_defaults])
def test_every_function_knows_the_accounts_of_units(ready: Any) -> None:
    """As plan_sweep has found them, beside those that the document names; under overrides as
    well."""
    book = ready(with_units("210987654321"))()

    for policy in (book.base().policy, book.applied(()).policy):
        assert ("111122223333", "210987654321") == policy.targets.accounts


@pytest.mark.parametrize("ready", [policies.present, policies.or_last])
def test_what_acts_waits_until_other_units_are_looked_up(ready: Any) -> None:
    """Neither the accounts of the units before, nor none: a workflow would end for an account that
    stays."""
    found = with_units("210987654321", of=UNITS.replace("1111]", "2222]"))

    with pytest.raises(Unavailable, match=r"targets\.units are not known yet"):
        ready(found)()
    (one,) = policies.or_defaults(found)().base().policy.targets.accounts
    assert "111122223333" == one, "people can answer and read on"


def test_units_alone_do_not_name_the_hub() -> None:
    """An empty unit is no reason to sweep another account."""
    book = parse_policy("targets: {units: [ou-abcd-11111111]}").add_accounts(())

    assert () == swept_targets(book.base().policy, Target("123456789012", "us-east-1"))


@pytest.mark.parametrize(
    ("place", "path", "why"),
    [
        ("{account: '11112222333', region: us-east-1}", "0.account", "an account has 12 digits"),
        ("{account: '111122223333', region: useast}", "0.region", "no Region is named so"),
        ("{account: '111122223333'}", "0.region", "is missing"),
        ("{region: us-east-1}", "0.account", "is missing"),
        ("{account: '111122223333', region: us-east-1, zone: a}", "0.zone", ""),
    ],
)
def test_a_place_left_out_that_is_none_is_refused_with_its_path(
    place: str, path: str, why: str
) -> None:
    with pytest.raises(PolicyError, match=rf"targets\.without\.{path}.*{why}"):
        parse_policy(f"targets: {{without: [{place}]}}")


def test_a_policy_that_leaves_out_every_place_is_refused() -> None:
    """A sweep of nothing is nobody's wish; to stop everything there is a pause."""
    names = "accounts: ['111122223333'], regions: [us-east-1]"
    place = "{account: '111122223333', region: us-east-1}"

    with pytest.raises(PolicyError, match=r"targets\.without.*leaves out every place"):
        parse_policy(f"targets: {{{names}, without: [{place}]}}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("targets: {units: [gpu]}", "no unit is named so"),
        ("targets: {without_units: [ou-abcd-11111111]}", "set units"),
    ],
)
def test_units_that_are_none_are_refused(text: str, why: str) -> None:
    """By name, and where nothing would be left out."""
    with pytest.raises(PolicyError, match=why):
        parse_policy(text)


def test_functions_count_the_metrics_that_they_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS charges for each: no metric of its own says how many."""
    tallied: list[tuple[str, int]] = []
    monkeypatch.setattr(observability, "_tallied", tallied)
    monkeypatch.setattr(CloudWatchMetrics, "read", lambda *_: MetricAnswer({}, {}))
    query: Any = object()
    window = Window(NOW - timedelta(hours=1), NOW, timedelta(minutes=5))
    clients: Any = None

    for number in (3, 500):
        CountedMetrics(clients).read(TARGET, [query] * number, window)

    assert [("MetricsRead", 3), ("MetricsRead", 500)] == tallied
