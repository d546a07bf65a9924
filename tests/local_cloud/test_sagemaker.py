"""SageMaker on the local cloud: moto's where it exists, and invented answers where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError

import pytest

from local.engine.cloud import LocalCloud
from local.engine.simulation import Simulation

pytestmark = pytest.mark.integration

Refusal = Callable[[Callable[[], object]], str]
ROLE = "arn:aws:iam::123456789012:role/sagemaker"
MONTH_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(days=30)


@pytest.fixture
def sagemaker(bare_cloud: LocalCloud, simulation: Simulation) -> Any:
    """SageMaker with nothing in it."""
    del simulation
    return bare_cloud.client("sagemaker")


def make_endpoint(sagemaker: Any, name: str, ml_type: str) -> None:
    """Create an endpoint with one instance of this type."""
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": "image"}
    )
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InstanceType": ml_type,
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


def test_an_endpoint_lives_and_is_deleted(
    sagemaker: Any, simulation: Simulation, refusal: Refusal
) -> None:
    """Its type is newer than moto's list, and it has been there for a month."""
    make_endpoint(sagemaker, "chat", "ml.p5.48xlarge")
    simulation.set_sagemaker_times("endpoint", "chat", MONTH_AGO)
    (listed,) = sagemaker.list_endpoints(StatusEquals="InService")["Endpoints"]
    assert MONTH_AGO == listed["CreationTime"]
    (variant,) = sagemaker.describe_endpoint(EndpointName="chat")["ProductionVariants"]
    assert 1 == variant["CurrentInstanceCount"]
    sagemaker.delete_endpoint(EndpointName="chat")
    assert [] == sagemaker.list_endpoints()["Endpoints"]
    gone = refusal(lambda: sagemaker.describe_endpoint(EndpointName="chat"))
    assert "ValidationException" == gone


def test_a_type_that_the_service_does_not_know_is_refused(sagemaker: Any, refusal: Refusal) -> None:
    """The service model has the list."""
    assert "ValidationException" == refusal(
        lambda: make_endpoint(sagemaker, "odd", "ml.p99.48xlarge")
    )


def test_a_notebook_instance_has_its_times(sagemaker: Any, simulation: Simulation) -> None:
    """A start changes it last."""
    sagemaker.create_notebook_instance(
        NotebookInstanceName="ada", InstanceType="ml.g5.xlarge", RoleArn=ROLE
    )
    week_ago = MONTH_AGO + timedelta(days=23)
    simulation.set_sagemaker_times("notebook-instance", "ada", MONTH_AGO, week_ago)
    (listed,) = sagemaker.list_notebook_instances()["NotebookInstances"]
    assert (MONTH_AGO, week_ago) == (listed["CreationTime"], listed["LastModifiedTime"])


def test_answers_are_invented_for_what_moto_lacks(
    sagemaker: Any, simulation: Simulation, refusal: Refusal
) -> None:
    """Without one, a list is empty and a thing that is named does not exist."""
    assert [] == sagemaker.list_apps()["Apps"]
    assert [] == sagemaker.list_inference_components()["InferenceComponents"]
    space = {"DomainId": "d-1", "SpaceName": "ada"}
    missing = refusal(lambda: sagemaker.describe_space(**space))
    assert "ResourceNotFound" == missing
    simulation.put_answer("sagemaker:DescribeSpace", {**space, "Status": "InService"}, space)
    assert "InService" == sagemaker.describe_space(**space)["Status"]
    other = {**space, "SpaceName": "bob"}
    assert "ResourceNotFound" == refusal(lambda: sagemaker.describe_space(**other))
    simulation.clear()
    assert "ResourceNotFound" == refusal(lambda: sagemaker.describe_space(**space))


def test_an_invented_answer_has_the_shape_of_the_service_model(simulation: Simulation) -> None:
    """A field that AWS does not have would prove nothing."""
    with pytest.raises(HTTPError):
        simulation.put_answer("sagemaker:ListApps", {"Appz": []})


def test_what_is_not_simulated_is_refused(sagemaker: Any, refusal: Refusal) -> None:
    """An answer would pretend that something was made."""
    app = {"DomainId": "d-1", "AppType": "JupyterLab", "AppName": "default"}
    assert "InvalidAction" == refusal(lambda: sagemaker.create_app(**app))


def test_a_fault_can_be_planned(sagemaker: Any, simulation: Simulation, refusal: Refusal) -> None:
    """As for any service."""
    simulation.set_fault("sagemaker:ListEndpoints", "AccessDeniedException")
    assert "AccessDeniedException" == refusal(sagemaker.list_endpoints)


def test_accounts_and_regions_are_apart(
    bare_cloud: LocalCloud, sagemaker: Any, simulation: Simulation
) -> None:
    """An endpoint is in the one where it was made."""
    make_endpoint(sagemaker, "chat", "ml.g5.xlarge")
    elsewhere = bare_cloud.client("sagemaker", region="eu-west-1")
    assert [] == elsewhere.list_endpoints()["Endpoints"]


def test_cost_explorer_knows_no_savings_plan_until_one_is_invented(
    bare_cloud: LocalCloud, simulation: Simulation, refusal: Refusal
) -> None:
    """It refuses where there is no data, as AWS does."""
    explorer = bare_cloud.client("ce")
    period = {"Start": "2026-11-01", "End": "2026-11-08"}

    def ask() -> Any:
        """Return the use of all Savings Plans."""
        return explorer.get_savings_plans_utilization_details(TimePeriod=period)

    assert "DataUnavailableException" == refusal(ask)
    details: dict[str, Any] = {"SavingsPlansUtilizationDetails": [], "TimePeriod": period}
    simulation.put_answer("ce:GetSavingsPlansUtilizationDetails", details)
    assert [] == ask()["SavingsPlansUtilizationDetails"]


def test_sagemaker_has_prices_of_its_own(bare_cloud: LocalCloud, simulation: Simulation) -> None:
    """One product for each usage of a type."""
    simulation.set_sagemaker_prices(
        {"Host:ml.g5.xlarge": "1.408", "Notebk:ml.g5.xlarge": "1.409", "Host:ml.g5.2xlarge": "2"}
    )
    filters = [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
        {"Type": "TERM_MATCH", "Field": "instanceName", "Value": "ml.g5.xlarge"},
    ]
    pricing = bare_cloud.client("pricing")
    found = pricing.get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"]
    assert 2 == len(found)


@pytest.fixture
def throughput(bare_cloud: LocalCloud) -> Iterator[Any]:
    """Bedrock, with a provisioned throughput that is committed for a month."""
    bedrock = bare_cloud.client("bedrock")
    made = bedrock.create_provisioned_model_throughput(
        provisionedModelName="titan",
        modelId="amazon.titan-text-express-v1",
        modelUnits=2,
        commitmentDuration="OneMonth",
    )
    yield bedrock
    bedrock.delete_provisioned_model_throughput(provisionedModelId=made["provisionedModelArn"])


def test_a_provisioned_throughput_names_its_model_and_commitment(
    throughput: Any, simulation: Simulation
) -> None:
    """It may have been there for a month."""
    simulation.set_throughput_time("titan", MONTH_AGO)
    answer = throughput.list_provisioned_model_throughputs(statusEquals="InService")
    (listed,) = answer["provisionedModelSummaries"]
    assert listed["foundationModelArn"].endswith("amazon.titan-text-express-v1")
    assert MONTH_AGO == listed["creationTime"]
    assert MONTH_AGO + timedelta(days=30) == listed["commitmentExpirationTime"]


def test_provisioned_throughputs_are_listed_by_status(throughput: Any) -> None:
    """Those that failed are none in service."""
    answer = throughput.list_provisioned_model_throughputs(statusEquals="Failed")
    assert [] == answer["provisionedModelSummaries"]
