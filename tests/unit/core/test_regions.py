"""Every Region and partition of botocore's data, through everything that reads a Region."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore.endpoint_provider import EndpointProvider

from governor.core import regions
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.core.regions import (
    SHAPE,
    Partition,
    fits_a_partition,
    instance_page,
    is_known,
    known_regions,
    partition_of,
)
from governor.events import contract
from governor.events.model.notice import ScheduledChange
from governor.policy.accounts import Accounts
from governor.policy.document import parse_policy
from governor.wiring.payloads import EpisodePayload, TargetPayload
from tests.iam import ACCOUNT, Request, allows, functions, members
from tests.unit.template.machines import ROOT

BOTOCORE = Path(botocore.__file__).parent / "data"
DOCUMENT = json.loads((BOTOCORE / "partitions.json").read_text())
PARTITION_OF = {
    region: partition["id"]
    for partition in DOCUMENT["partitions"]
    for region in partition["regions"]
    if not region.endswith("-global")
}
"""The partition of each Region, by botocore's data."""
NEW = ("us-east-9", "eusc-fr-west-1", "us-gov-central-1", "xy-new-1", "ap-southwest-12")
"""Regions that AWS could open after this release."""
NO_REGION = (
    "",
    "us-east",
    "us-east-",
    "us-east-123",
    "US-EAST-1",
    "us east 1",
    "us-east-1a",
    "us-west-2-lax-1",
    "u-east-1",
    "1-east-1",
    "aws-global",
    "us-east-1\n",
    "us-east-\N{ARABIC-INDIC DIGIT ONE}",
)
DETAIL = {"instance-id": "i-0123456789abcdef0", "state": "stopped"}
MODELS: Mapping[str, type[contract.Envelope]] = {
    "StateChangeEvent": contract.StateChangeEvent,
    "InterruptionEvent": contract.InterruptionEvent,
    "LifecycleEvent": contract.LifecycleEvent,
    "ExecutionEndEvent": contract.ExecutionEndEvent,
    "HealthEvent": contract.HealthEvent,
    "CapacityBlockEvent": contract.CapacityBlockEvent,
}
KINDS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "StateChangeEvent": ("aws.ec2", "EC2 Instance State-change Notification", DETAIL),
    "InterruptionEvent": (
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        {**DETAIL, "instance-action": "terminate"},
    ),
    "LifecycleEvent": (
        "aws.autoscaling",
        "EC2 Instance-terminate Lifecycle Action",
        {
            "EC2InstanceId": "i-0123456789abcdef0",
            "AutoScalingGroupName": "gpu",
            "LifecycleHookName": "h",
            "LifecycleActionToken": "be2184df-afe7-4db9-a4a4-e6d6a72210d1",
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        },
    ),
    "ExecutionEndEvent": (
        "aws.states",
        "Step Functions Execution Status Change",
        {"name": "n", "status": "FAILED"},
    ),
    "HealthEvent": (
        "aws.health",
        "AWS Health Event",
        {
            "eventArn": "arn",
            "service": "EC2",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
        },
    ),
    "CapacityBlockEvent": (
        "aws.ec2",
        "Capacity Block Delivered",
        {"capacity-reservation-id": "cr-0123", "end-date": "2026-11-30T12:00:00Z"},
    ),
}


def event_of(kind: str, region: str) -> dict[str, Any]:
    source, detail_type, detail = KINDS[kind]
    return {
        "id": "1",
        "account": "123456789012",
        "region": region,
        "time": "2026-11-20T12:00:00Z",
        "source": source,
        "detail-type": detail_type,
        "detail": detail,
    }


def envelopes(model: type[contract.Envelope] = contract.Envelope) -> Iterator[str]:
    """The names of all models of events with a Region."""
    for child in model.__subclasses__():
        if child.__subclasses__():
            yield from envelopes(child)
        else:
            yield child.__name__


def test_every_event_with_a_region_is_tried() -> None:
    assert set(MODELS) == set(envelopes())


@pytest.mark.parametrize("kind", MODELS)
def test_every_event_takes_every_region(kind: str) -> None:
    for region in (*PARTITION_OF, *NEW):
        assert region == parse(MODELS[kind], event_of(kind, region)).region


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("region", NO_REGION)
def test_no_event_takes_what_is_no_region(kind: str, region: str) -> None:
    with pytest.raises(InputError, match="region"):
        parse(MODELS[kind], event_of(kind, region))


@pytest.mark.parametrize("region", [*PARTITION_OF, *NEW])
def test_a_health_event_names_the_region_of_its_instances(region: str) -> None:
    """AWS Health also sends a copy to a backup Region, in every partition."""
    event = event_of("HealthEvent", "us-west-2")
    event["detail"] = {
        **event["detail"],
        "eventRegion": region,
        "affectedEntities": [{"entityValue": "i-0123456789abcdef0"}],
    }
    change = contract.notice_of(event)

    assert isinstance(change, ScheduledChange)
    assert region == change.notices["i-0123456789abcdef0"].region


def test_every_payload_and_execution_name_takes_every_region() -> None:
    for region in (*PARTITION_OF, *NEW):
        place = {"account": "123456789012", "region": region}
        assert region == parse(TargetPayload, place).region
        ref = EpisodeRef(
            "123456789012", region, "i-0123456789abcdef0", datetime(2026, 11, 20, tzinfo=UTC), 7
        )
        payload = {
            **place,
            "instance_id": ref.instance_id,
            "launch_time": "2026-11-20T00:00:00Z",
            "number": 7,
        }
        assert ref == parse(EpisodePayload, payload).to_domain()
        assert ref == episode_from_execution_name(ref.execution_name)
        assert len(ref.execution_name) <= 80


@pytest.mark.parametrize("region", NO_REGION)
def test_no_payload_and_no_execution_name_takes_what_is_no_region(region: str) -> None:
    with pytest.raises(InputError):
        parse(TargetPayload, {"account": "123456789012", "region": region})
    with pytest.raises(ValueError, match="not the name"):
        episode_from_execution_name(f"123456789012-{region}-i-0123456789abcdef0-1-1")


@pytest.mark.parametrize("region", [*PARTITION_OF, *NEW])
def test_every_field_of_a_policy_takes_every_region(region: str) -> None:
    text = (
        f"targets: {{regions: [{region}]}}\n"
        f"events: {{spot_price_regions: [{region}]}}\n"
        f"overrides: [{{name: a, match: {{regions: [{region}]}}, set: {{}}}}]"
    )
    assert (region,) == parse_policy(text).base().policy.targets.regions


def test_every_region_is_in_its_partition() -> None:
    assert len(PARTITION_OF) > 40
    assert PARTITION_OF == {region: partition_of(region) for region in PARTITION_OF}
    assert sorted(PARTITION_OF) == list(known_regions())
    assert all(is_known(region) for region in PARTITION_OF)


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-east-9", "aws"),
        ("eusc-de-west-7", "aws-eusc"),
        ("us-gov-central-1", "aws-us-gov"),
        ("cn-south-1", "aws-cn"),
        ("us-isof-north-3", "aws-iso-f"),
    ],
)
def test_a_new_region_is_in_the_partition_whose_pattern_it_fits(
    region: str, partition: str
) -> None:
    assert partition == partition_of(region)
    assert fits_a_partition(region)
    assert not is_known(region)


def test_a_region_that_fits_no_pattern_counts_as_one_of_aws() -> None:
    """As in AWS's own endpoint rules."""
    assert "aws" == partition_of("xy-new-1")
    assert not fits_a_partition("xy-new-1")


def test_pseudo_regions_are_none() -> None:
    assert not is_known("aws-global")
    assert not is_known("aws-us-gov-global")


@pytest.mark.parametrize("region", PARTITION_OF)
def test_a_role_is_named_in_the_hub_s_partition(region: str) -> None:
    accounts = Accounts("111111111111", region, member_role_name="reader")
    role_arn = accounts.target("222222222222", region).role_arn

    assert f"arn:{PARTITION_OF[region]}:iam::222222222222:role/reader" == role_arn


def sign_in_host(region: str) -> str:
    """The host where people of the Region sign in, by botocore's endpoint rules."""
    (path,) = BOTOCORE.glob("signin/*/endpoint-rule-set-1.json.gz")
    provider = EndpointProvider(json.loads(gzip.decompress(path.read_bytes())), DOCUMENT)
    place = {"Region": region, "UseDualStack": False, "UseFIPS": False}
    return str(provider.resolve_endpoint(**place).url).removeprefix("https://")


@pytest.mark.parametrize("region", [*PARTITION_OF, "us-east-9", "eusc-de-west-7", "cn-south-1"])
def test_a_link_into_the_console_has_the_domain_where_people_of_the_region_sign_in(
    region: str,
) -> None:
    page = instance_page(region, "i-1")

    assert page is not None
    host, _, rest = page.removeprefix("https://").partition("/")
    assert sign_in_host(region).replace("signin", "console") == host
    assert f"ec2/home?region={region}#InstanceDetails:instanceId=i-1" == rest


def test_the_console_of_a_partition_that_is_not_known_gets_no_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong one would ask people of another cloud for their password."""
    later = Partition("aws-new", re.compile("new-.*"), frozenset({"new-east-1"}))
    monkeypatch.setattr(regions, "partitions", lambda: (later,))

    assert "aws-new" == partition_of("new-east-1")
    assert instance_page("new-east-1", "i-1") is None


PARAMETERS = [
    (path.name, name, pattern)
    for path in (ROOT / "template.yaml", *sorted((ROOT / "stacks").glob("*.yaml")))
    for name, pattern in re.findall(
        r'^  (\w*Region):\n(?:    .*\n)*?    AllowedPattern: "(.+)"', path.read_text(), re.MULTILINE
    )
]


def test_every_stack_takes_every_region() -> None:
    assert {"forward_events.yaml", "member.yaml"} <= {file for file, _, _ in PARAMETERS}
    for file, name, pattern in PARAMETERS:
        assert SHAPE == pattern, (file, name)


def via_service(service: str, region: str) -> str:
    """The name by which KMS knows a service that uses a key for somebody."""
    suffixes = {one["id"]: one["outputs"]["dnsSuffix"] for one in DOCUMENT["partitions"]}
    return f"{service}.{region}.{suffixes[PARTITION_OF[region]]}"


def test_keys_of_volumes_are_used_by_ec2_of_every_region() -> None:
    """When an instance is started again; no other service uses them for it."""
    for rights in (functions()["UndoEpisode"], members()["starter"][0]):
        for region in PARTITION_OF:
            for service, expected in (("ec2", True), ("s3", False), ("ec2x", False)):
                context = {
                    "kms:GrantIsForAWSResource": "true",
                    "kms:ViaService": via_service(service, region),
                }
                key = f"arn:aws:kms:{region}:{ACCOUNT}:key/k"
                assert expected == allows(rights, Request("kms:CreateGrant", key, context)), region


def test_logs_may_use_the_key_in_every_partition() -> None:
    """The principal of CloudWatch Logs has the domain of its partition."""
    principals = re.findall(r"logs\.\$\{AWS::Region\}\S*", (ROOT / "template.yaml").read_text())
    assert ['logs.${AWS::Region}.${AWS::URLSuffix}"'] == principals


PROBE = """
import sys
from governor.core import regions

opened = []
sys.addaudithook(lambda event, given: event == "open" and opened.append(str(given[0])))
for _ in range(3):
    {question}
data = [path for path in opened if path.endswith("partitions.json")]
print(len(data), "botocore" in sys.modules)
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("regions.is_region('us-east-1')", "0 False"),
        ("regions.partition_of('us-east-1')", "1 False"),
        ("regions.instance_page('us-east-1', 'i-1'), regions.known_regions()", "1 False"),
    ],
)
def test_the_data_is_read_once_and_only_for_what_needs_it(question: str, answer: str) -> None:
    """Every cold start loads the module, and few ask it anything."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace("{question}", question)],
        env={"PYTHONPATH": f"{ROOT}/layers/shared"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer == done.stdout.strip()


def test_no_other_module_knows_a_partition_or_a_shape_of_regions() -> None:
    """One module leads them all, so that a new partition is one change."""
    marks = re.compile(
        r"aws-us-gov|aws-cn|aws-iso|aws-eusc|console\.aws|amazonaws-|startswith\(.(cn|us-gov|eusc)-"
        r"|\[a-z\](\{2\}|\{2,\}|\+)\(\??:?-\[a-z\]"
    )
    own = ROOT / "layers/shared/governor/core/regions.py"
    sources = [
        path
        for folder in ("layers", "functions", "cli", "scripts", "agent")
        for path in (ROOT / folder).rglob("*.py")
        if path != own and "tests" not in path.parts
    ]
    assert len(sources) > 200
    assert [] == [str(path) for path in sources if marks.search(path.read_text())]
    assert marks.search(own.read_text())
