"""Apps of SageMaker Studio: their price and idle shutdown, and never idleness."""

from __future__ import annotations

import shlex
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import AccessDenied, NotFound
from governor.scan.kinds.sagemaker_app import SageMakerApps
from governor.scan.model import Finding
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, ApiTwin, place
from tests.unit.scan.sagemaker_answers import checked, price_list, product

G5 = "ml.g5.2xlarge"
PRICES = price_list(
    product("USE1-Studio:JupyterLab-ml.g5.2xlarge", "1.515"),
    product("USE1-Studio:CodeEditor-ml.g5.2xlarge", "1.516"),
    product("USE1-Host:ml.g5.2xlarge", "1.517"),
)


def app(**changes: Any) -> dict[str, Any]:
    """Return an app as ListApps gives it: JupyterLab in a space."""
    record = {
        "DomainId": "d-1",
        "SpaceName": "ada-space",
        "AppType": "JupyterLab",
        "AppName": "default",
        "Status": "InService",
        "CreationTime": NOW - timedelta(days=12),
        "ResourceSpec": {"InstanceType": G5},
    }
    return {**record, **changes}


def idle(section: str = "JupyterLabAppSettings", **settings: Any) -> dict[str, Any]:
    """Return the settings of an app with these settings of its idle shutdown."""
    return {section: {"AppLifecycleManagement": {"IdleSettings": settings}}}


def space(sharing: str = "Private", **settings: Any) -> dict[str, Any]:
    """Return a space that belongs to ada."""
    return {
        "SpaceName": "ada-space",
        "OwnershipSettings": {"OwnerUserProfileName": "ada"},
        "SpaceSharingSettings": {"SharingType": sharing},
        "SpaceSettings": settings,
    }


def scan(
    *records: Any, domain: Any = None, profile: Any = None, of_space: Any = None
) -> PlaceReport:
    """Return the report on these apps."""
    api = ApiTwin(
        {
            "sagemaker:ListApps": {"Apps": list(records)},
            "sagemaker:DescribeDomain": domain or {"DomainId": "d-1"},
            "sagemaker:DescribeUserProfile": profile or {"UserProfileName": "ada"},
            "sagemaker:DescribeSpace": of_space or space(),
            "pricing:GetProducts": PRICES,
        }
    )
    return checked(scan_place(place(api=api), [SageMakerApps()]))


def test_an_app_is_shown_and_never_idle() -> None:
    """Its owner is that of its private space."""
    (row,) = scan(app()).rows
    assert Finding.NOT_MEASURED is row.judgment.finding
    words = "JupyterLab running for 12 days, idle shutdown off; activity not measured"
    assert words == row.judgment.evidence
    assert ("ada-space", "ada") == (row.resource.name, row.resource.creator)
    assert Decimal("1.515") == row.usd_per_hour
    expected = (
        "aws sagemaker describe-app --region us-east-1 --domain-id d-1 --space-name ada-space "
        "--app-type JupyterLab --app-name default"
    )
    assert expected == row.command


@pytest.mark.parametrize(
    ("domain", "profile", "of_space", "shutdown"),
    [
        ({}, {}, {}, "off"),
        ({"IdleTimeoutInMinutes": 60}, {}, {}, "off"),
        ({"LifecycleManagement": "ENABLED", "IdleTimeoutInMinutes": 600}, {}, {}, "after 600 min"),
        (
            {"LifecycleManagement": "ENABLED", "IdleTimeoutInMinutes": 600},
            {"LifecycleManagement": "DISABLED"},
            {},
            "off",
        ),
        (
            {"LifecycleManagement": "ENABLED", "IdleTimeoutInMinutes": 600},
            {},
            {"IdleTimeoutInMinutes": 90},
            "after 90 min",
        ),
        ({"LifecycleManagement": "ENABLED"}, {}, {}, "on"),
    ],
)
def test_idle_shutdown_comes_from_domain_profile_and_space(
    domain: Any, profile: Any, of_space: Any, shutdown: str
) -> None:
    """The profile overrides the domain; the space sets the time."""
    report = scan(
        app(),
        domain={"DefaultUserSettings": idle(**domain)},
        profile={"UserSettings": idle(**profile)},
        of_space=space(**idle(**of_space)),
    )
    (row,) = report.rows
    assert f"idle shutdown {shutdown};" in row.judgment.evidence


def test_a_shared_space_has_the_defaults_of_spaces() -> None:
    """Not those of the person who made it."""
    enabled = idle(LifecycleManagement="ENABLED", IdleTimeoutInMinutes=60)
    domain = {"DefaultSpaceSettings": enabled, "DefaultUserSettings": idle()}
    (row,) = scan(app(), domain=domain, of_space=space("Shared")).rows
    assert "idle shutdown after 60 min;" in row.judgment.evidence


def test_an_app_without_idle_shutdown_says_so() -> None:
    """Only JupyterLab and Code Editor have one."""
    record = app(AppType="KernelGateway", UserProfileName="ada")
    del record["SpaceName"]
    (row,) = scan(record).rows
    assert "idle shutdown not available for this app" in row.judgment.evidence
    assert "--user-profile-name ada" in row.command
    assert row.usd_per_hour is None


def test_settings_that_cannot_be_read_are_unknown_and_reported() -> None:
    """The rows stand."""
    operation = "sagemaker:DescribeDomain"
    report = scan(app(), domain=AccessDenied("x", operation=operation, words="no right"))
    (row,) = report.rows
    assert "idle shutdown unknown;" in row.judgment.evidence
    assert [operation] == [line.operation for line in report.unread]


def test_a_profile_that_is_gone_is_unknown() -> None:
    """It was deleted since the apps were listed."""
    report = scan(app(), profile=NotFound("x", operation="sagemaker:DescribeUserProfile"))
    assert "idle shutdown unknown;" in report.rows[0].judgment.evidence
    assert () == report.unread


def test_apps_that_are_over_or_have_no_accelerators_are_left_out() -> None:
    """A JupyterServer runs on AWS's own account, as type `system`."""
    over = app(Status="Deleted")
    system = app(AppType="JupyterServer", ResourceSpec={"InstanceType": "system"})
    plain = app(ResourceSpec={"InstanceType": "ml.t3.medium"})
    assert () == scan(over, system, plain, app(ResourceSpec={})).rows


def test_names_are_quoted_for_a_shell() -> None:
    """A name of a user profile comes from people."""
    record = app(AppType="CodeEditor", AppName="x; rm -rf ~")
    (row,) = scan(record).rows
    assert "x; rm -rf ~" == shlex.split(row.command)[-1]
    assert Decimal("1.516") == row.usd_per_hour
