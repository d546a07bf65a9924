"""Targets from AWS Organizations: the active accounts of units, as each sweep finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.demo.fleet import series_of
from local.demo.organization import UNIT, Sample, put_organization
from local.demo.scene import STACK
from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud
from local.engine.repairs.organization import ORGANIZATION
from local.engine.simulation import InstanceSpec
from tests.integration.aws_cli import call
from tests.integration.people import decide
from tests.integration.stage import FORGOTTEN, Stage

LISTING = "organizations:ListAccountsForParent"


@dataclass(frozen=True)
class Company:
    """A unit `gpu` with an account and a suspended one; within it a unit `team` with another
    account, and a unit `sandbox` with one that nobody wants swept."""

    organizations: Any
    root: str
    units: dict[str, str]
    accounts: dict[str, str]

    def targets(self) -> str:
        """Return the policy's targets: `gpu` without `sandbox`."""
        units = f"units: [{self.units['gpu']}], without_units: [{self.units['sandbox']}]"
        return f"mode: ask\ntargets: {{{units}, regions: [{REGION}]}}"


@pytest.fixture(scope="module")
def sample(scene: Any) -> Sample:
    """Return the organization of `make cloud`. It comes first: its units have the ids of the
    page."""
    return put_organization(scene.cloud)


@pytest.fixture(scope="module")
def company(scene: Any, sample: Sample) -> Company:
    """In the organization of the hub, which may list it as its management account; members trust
    the hub."""
    cloud: LocalCloud = scene.cloud
    api = cloud.client("organizations")
    root = api.list_roots()["Roots"][0]["Id"]
    units = {"root": root}
    for name, above in (("gpu", "root"), ("team", "gpu"), ("sandbox", "gpu")):
        made = api.create_organizational_unit(ParentId=units[above], Name=name)
        units[name] = made["OrganizationalUnit"]["Id"]
    accounts = {}
    for name, unit in (
        ("research", "gpu"),
        ("gone", "gpu"),
        ("vision", "team"),
        ("play", "sandbox"),
    ):
        made = api.create_account(Email=f"{name}@example.com", AccountName=name)[
            "CreateAccountStatus"
        ]
        accounts[name] = made["AccountId"]
        api.move_account(
            AccountId=accounts[name], SourceParentId=root, DestinationParentId=units[unit]
        )
    api.close_account(AccountId=accounts["gone"])
    member = {
        "HubAccountId": ACCOUNT, "HubRegion": REGION, "HubStackName": STACK,
        "OrganizationId": ORGANIZATION,
    }  # fmt: skip
    for name in ("research", "vision"):
        path = ROOT / "stacks/member.yaml"
        cloud.deploy_plain(path, "member", member, region=REGION, account=accounts[name])
    return Company(api, root, units, accounts)


@pytest.fixture
def governed(stage: Stage, company: Company) -> Iterator[Stage]:
    """The policy names units alone, and `research` is in its unit again after each test."""
    stage.policy(company.targets())
    yield stage
    _move(company, "research", "gpu")


def test_a_sweep_takes_the_active_accounts_of_the_units(governed: Stage, company: Company) -> None:
    """Those of units within, too; none that is suspended, left out, or elsewhere, the hub's own
    included."""
    asked = {_launch(governed, company.accounts[name]): name for name in ("research", "vision")}
    left = [_launch(governed, account) for account in (company.accounts["play"], ACCOUNT)]

    governed.scene.sweep()

    for instance_id, name in asked.items():
        question = governed.await_mail(instance_id, "approval-requested")
        assert company.accounts[name] == question["account"]
    assert not [one for one in left if one in governed.scene.executions()]


def test_an_account_that_left_its_unit_is_acted_on_no_more(
    governed: Stage, company: Company
) -> None:
    """Although somebody says yes: the next sweep has taken it from the targets, and the guards ask
    them."""
    account = company.accounts["research"]
    instance_id = _launch(governed, account)
    governed.scene.sweep()
    link = governed.personal(governed.question(instance_id))

    _move(company, "research", "root")
    governed.scene.sweep()
    decide(link, "approve")

    assert "refused" == governed.outcome(instance_id)
    assert (
        "running"
        == governed.scene.cloud.simulation(REGION, account).dump()["instances"][instance_id]
    )


def test_units_that_cannot_be_read_fail_the_sweep_and_change_no_target(
    governed: Stage, company: Company
) -> None:
    """With the cause; what the last sweep has found counts on for what was asked, and nothing new
    is."""
    account = company.accounts["vision"]
    instance_id = _launch(governed, account)
    governed.scene.sweep()
    link = governed.personal(governed.question(instance_id))
    another = _launch(governed, account)
    governed.scene.simulation.set_fault(
        LISTING, "AccessDeniedException", "not a delegated administrator"
    )

    with pytest.raises(RuntimeError, match="not a delegated administrator"):
        governed.scene.sweep()

    assert another not in governed.scene.executions()
    assert 303 == decide(link, "approve")[0]
    assert "stopped" == governed.outcome(instance_id)


def test_the_stack_set_of_the_docs_governs_a_unit_and_goes_again(
    stage: Stage, sample: Sample, tmp_path: Path
) -> None:
    """Every command of docs/accounts.md works as it stands in the organization of `make cloud`: for
    accounts of the unit and within it that are active; between them an instance there is stopped by
    the roles that the set has made."""
    cloud = stage.scene.cloud
    accounts = [sample.research, sample.sandbox]
    create, fill, show, update, compare, empty, look, delete = _commands_of_the_stack_set()
    earlier = tmp_path / "member.yaml"
    template = (ROOT / "stacks/member.yaml").read_text(encoding="utf-8")
    earlier.write_text(
        template.replace("Takes snapshots of governed", "Takes snapshots of"), encoding="utf-8"
    )

    def succeeded() -> list[Any] | None:
        found = call(cloud, show)["Summaries"]
        statuses = {one["StackInstanceStatus"]["DetailedStatus"] for one in found}
        return found if {"SUCCEEDED"} == statuses else None

    def snapshotter() -> str:
        iam = cloud.client("iam", account=accounts[1])
        return str(iam.get_role(RoleName="gpu-governor-member-snapshotter")["Role"]["Description"])

    call(cloud, create.replace("stacks/member.yaml", str(earlier)))
    call(cloud, fill)
    made = cloud.wait_for(succeeded, "the stacks of the set are not there")
    assert "Takes snapshots of instances." == snapshotter()
    call(cloud, update)
    cloud.wait_for(succeeded, "the stacks of the set are not updated")
    assert "Takes snapshots of governed instances." == snapshotter()
    assert sorted(accounts) == sorted(one["Account"] for one in made)
    assert ["GpuGovernor"] == call(cloud, compare)
    with pytest.raises(ClientError, match="StackSetNotEmpty"):
        call(cloud, delete)

    stage.policy(f"mode: ask\ntargets: {{units: [{UNIT}], regions: [{REGION}]}}")
    instance_id = _launch(stage, accounts[1])
    stage.scene.sweep()
    assert 303 == decide(stage.personal(stage.question(instance_id)), "approve")[0]
    assert "stopped" == stage.outcome(instance_id)

    call(cloud, empty)
    cloud.wait_for(lambda: not call(cloud, look)["Summaries"] or None, "stacks of the set are left")
    call(cloud, delete)
    assert [] == cloud.client("cloudformation").list_stack_sets()["Summaries"]
    for account in accounts:
        assert [] == cloud.client("iam", account=account).list_roles()["Roles"]


def _commands_of_the_stack_set() -> list[str]:
    """Return the commands of docs/accounts.md, in its order."""
    page = (ROOT / "docs" / "accounts.md").read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^aws cloudformation .*--stack-set-name .*$", page, re.MULTILINE)


def _launch(stage: Stage, account: str) -> str:
    """An idle instance in an account."""
    there, now = (
        stage.scene.cloud.simulation(REGION, account),
        datetime.now(tz=UTC).replace(microsecond=0),
    )
    spec = InstanceSpec(
        instance_type=FORGOTTEN.instance_type,
        launch_time=now - timedelta(days=2),
        tags={"Purpose": "GPU-Workload", "Name": "trainer", "Owner": "ada"},
    )
    instance_id: str = there.put_instance(spec)
    there.put_metrics(series_of(FORGOTTEN, instance_id, now))
    return instance_id


def _move(company: Company, name: str, unit: str) -> None:
    account, api = company.accounts[name], company.organizations
    before = api.list_parents(ChildId=account)["Parents"][0]["Id"]
    if before != company.units[unit]:
        api.move_account(
            AccountId=account, SourceParentId=before, DestinationParentId=company.units[unit]
        )
