"""SageMaker notebook instances: their price and idle shutdown, and never idleness."""

from __future__ import annotations

import base64
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import AccessDenied
from governor.scan.kinds.sagemaker_notebook import SageMakerNotebooks
from governor.scan.model import Finding, Strength
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, ApiTwin, place
from tests.unit.scan.sagemaker_answers import ARN, OLD, checked, price_list, product

PRICES = price_list(
    product("USE1-Notebk:ml.g4dn.xlarge", "0.7364"),
    product("USE1-Host:ml.g4dn.xlarge", "0.7365"),
)
SCRIPTS = "sagemaker:DescribeNotebookInstanceLifecycleConfig"


def notebook(name: str, ml_type: str = "ml.g4dn.xlarge", **changes: Any) -> dict[str, Any]:
    """Return a notebook instance as ListNotebookInstances gives it."""
    record = {
        "NotebookInstanceName": name,
        "NotebookInstanceArn": f"{ARN}:notebook-instance/{name}",
        "NotebookInstanceStatus": "InService",
        "InstanceType": ml_type,
        "CreationTime": OLD,
        "LastModifiedTime": NOW - timedelta(days=9),
    }
    return {**record, **changes}


def config(script: str) -> dict[str, Any]:
    """Return a lifecycle configuration that runs a script at each start."""
    content = base64.b64encode(script.encode()).decode()
    return {"NotebookInstanceLifecycleConfigName": "setup", "OnStart": [{"Content": content}]}


def scan(*records: Any, scripts: Any = None, tags: Any = None) -> PlaceReport:
    """Return the report on these notebook instances."""
    api = ApiTwin(
        {
            "sagemaker:ListNotebookInstances": {"NotebookInstances": list(records)},
            "sagemaker:ListTags": tags or {"Tags": []},
            "pricing:GetProducts": PRICES,
            SCRIPTS: scripts,
        }
    )
    return checked(scan_place(place(api=api), [SageMakerNotebooks()]))


def test_a_notebook_instance_is_shown_and_never_idle() -> None:
    """AWS publishes nothing of its activity. A start is its last change."""
    (row,) = scan(notebook("ada")).rows
    assert Finding.NOT_MEASURED is row.judgment.finding
    assert Strength.NONE is row.judgment.strength
    words = "running for 9 days, idle shutdown off; activity not measured"
    assert words == row.judgment.evidence
    assert Decimal("0.7364") == row.usd_per_hour
    assert Decimal() == row.waste_usd_per_month
    assert "aws sagemaker describe-notebook-instance --region us-east-1 " in row.command
    assert row.command.endswith("--notebook-instance-name ada")


@pytest.mark.parametrize(
    ("script", "shutdown"),
    [
        ("python3 autostop.py --time 3600", "on (lifecycle configuration setup)"),
        ("curl -O https://x/auto-stop-idle/on-start.sh", "on (lifecycle configuration setup)"),
        ("aws sagemaker stop-notebook-instance", "on (lifecycle configuration setup)"),
        ("pip install torch", "off (lifecycle configuration setup does not stop it)"),
    ],
)
def test_idle_shutdown_is_a_script_of_its_lifecycle_configuration(
    script: str, shutdown: str
) -> None:
    """Nothing else of the script is shown: it may hold secrets."""
    record = notebook("ada", NotebookInstanceLifecycleConfigName="setup")
    (row,) = scan(record, scripts=config(script)).rows
    assert f"idle shutdown {shutdown};" in row.judgment.evidence


def test_a_lifecycle_configuration_that_cannot_be_read_is_reported() -> None:
    """The row stands."""
    denied = AccessDenied("x", operation=SCRIPTS, words="no right")
    report = scan(notebook("a", NotebookInstanceLifecycleConfigName="setup"), scripts=denied)
    (row,) = report.rows
    assert "idle shutdown unknown" in row.judgment.evidence
    assert [SCRIPTS] == [line.operation for line in report.unread]


def test_a_lifecycle_configuration_that_is_no_base64_is_unknown() -> None:
    """And costs nothing else."""
    odd = {"OnStart": [{"Content": "x"}]}
    report = scan(notebook("a", NotebookInstanceLifecycleConfigName="setup"), scripts=odd)
    (row,) = report.rows
    assert "unknown (lifecycle configuration setup not readable)" in row.judgment.evidence


def test_notebook_instances_without_accelerators_are_left_out() -> None:
    """Nothing more is asked about them."""
    assert () == scan(notebook("cpu", "ml.t3.medium")).rows


def test_an_exempt_notebook_instance_has_no_command() -> None:
    """Its tag says so."""
    (row,) = scan(notebook("a"), tags={"Tags": [{"Key": "GpuGovernor", "Value": "exempt"}]}).rows
    assert (Finding.EXEMPT, "") == (row.judgment.finding, row.command)


def test_a_record_in_another_form_costs_its_own_row() -> None:
    """One without a type."""
    odd = notebook("odd")
    del odd["InstanceType"]
    report = scan(odd, notebook("ada"))
    assert ["ada"] == [row.resource.name for row in report.rows]
    assert ["sagemaker:ListNotebookInstances"] == [line.operation for line in report.unread]
