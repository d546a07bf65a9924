"""Two hundred targets on the local cloud, ten accounts in twenty Regions: one sweep of all of them.

Through the real state machine, roles of members included. Every target has an instance that is idle
and one that works, and the sweep must find both in each. Function and cloud share this machine's
processors.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from unittest.mock import patch

from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.fleet.store import Fleet
from governor.fleet.unswept import unswept
from local.demo.fleet import T4, Member, busy, idle
from local.demo.receivers import Receivers
from local.demo.scene import STACK, deploy_scene
from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud
from local.engine.repairs.organization import ORGANIZATION

ACCOUNTS = (ACCOUNT, *(f"{number:012d}" for number in range(210_000_000_001, 210_000_000_010)))
AREAS = {
    "us-east": 2, "us-west": 2, "ca-central": 1, "sa-east": 1, "eu-west": 3, "eu-central": 1,
    "eu-north": 1,
    "eu-south": 1, "ap-south": 1, "ap-southeast": 2, "ap-northeast": 3, "ap-east": 1, "me-south": 1,
}  # fmt: skip
REGIONS = tuple(f"{area}-{number + 1}" for area, count in AREAS.items() for number in range(count))
TARGETS = len(ACCOUNTS) * len(REGIONS)
MEMBER = ROOT / "stacks" / "member.yaml"
FLEET = tuple(
    Member(name, "g4dn.xlarge", T4, 1, load, name, "one of each")
    for name, load in (("idle", idle), ("busy", busy))
)


def measure() -> float:
    """Return the seconds of the first sweep of a stack that nobody has used before: cold starts are
    in it.

    Raises:
        RuntimeError: a target was not swept, or not read as it is.
    """
    with Receivers() as receivers, LocalCloud(trust=receivers.certificate) as cloud:
        policy = f"targets: {{accounts: {json.dumps(ACCOUNTS)}, regions: {json.dumps(REGIONS)}}}"
        more = {"MemberAccountIds": ",".join(ACCOUNTS[1:]), "OrganizationId": ORGANIZATION}
        scene = deploy_scene(cloud, receivers, mode="observe", policy=policy, more=more)
        cloud.client("organizations").describe_organization()
        hub = {
            "HubAccountId": ACCOUNT,
            "HubRegion": REGION,
            "HubStackName": STACK,
            "OrganizationId": ORGANIZATION,
        }
        now = datetime.now(tz=UTC)
        for account in ACCOUNTS:
            if account != ACCOUNT:
                cloud.deploy_plain(MEMBER, "member", hub, region=REGION, account=account)
            for region in REGIONS:
                scene.launch(FLEET, now, cloud.simulation(region, account))
        began = time.monotonic()
        try:
            scene.sweep()
        finally:
            seconds = time.monotonic() - began
            with patch.dict(os.environ, cloud.environment()):
                table = DynamoTable(Clients(), scene.outputs["StateTableName"])
                pages, failed = Fleet(table).pages(), unswept(table)
            for target, why in failed.items():
                print(f"{target} was not swept: {why}")
    found = Counter(row.verdict for page in pages for row in page.rows)
    if found != {"idle": TARGETS, "busy": TARGETS}:
        raise RuntimeError(f"of {TARGETS} targets {len(pages)} were read: {dict(found)}")
    return seconds
