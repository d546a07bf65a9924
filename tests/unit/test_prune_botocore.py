"""The layer's botocore: one version everywhere, and pruned data that suffice for all calls."""

from __future__ import annotations

import ast
import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

import prune_botocore
from governor.aws.clients import _OWN, Clients
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_the_stack
from tests.unit.test_repository import pinned

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers" / "shared"
INSTALLED = Path(botocore.__file__).parent / "data"
REGIONS = ("us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1", "eusc-de-east-1")
OPERATION = re.compile(r"([a-z0-9-]+):([A-Z][A-Za-z0-9]+)")
BOTOCORE_NAMES = {"states": "stepfunctions"}
ON_ONE_VERSION = ("project", "cloud", "browser")
"""The environments that run the layer's code. Others hold tools, which bring their own botocore."""


def strings(path: Path) -> Iterator[str]:
    """Yield all texts in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def operations_of_the_adapters() -> set[tuple[str, str]]:
    """Return service and operation of every call that an adapter names, by botocore's names."""
    operations = set()
    for path in (LAYER / "governor" / "aws").rglob("*.py"):
        for text in strings(path):
            match = OPERATION.fullmatch(text)
            if match is not None:
                prefix, operation = match.groups()
                operations.add((BOTOCORE_NAMES.get(prefix, prefix), operation))
    return operations


def clients_by_name() -> set[str]:
    """Return the services whose clients are opened by name, in an adapter or in the wiring."""
    opening = re.compile(r"""(?:\.client\(|create_client\()\s*["']([a-z0-9-]+)["']""")
    services: set[str] = set()
    for path in (LAYER / "governor").rglob("*.py"):
        services.update(opening.findall(path.read_text(encoding="utf-8")))
    return services


def version_in(entry: str) -> str:
    """Return the version that an entry of a requirements file pins."""
    match = re.match(r"[^=]+==([^\s;\\]+)", entry)
    assert match is not None, entry
    return match[1]


def operations_of_the_scan() -> set[tuple[str, str]]:
    """Return service and operation of every call of the daily scan, by botocore's names."""
    operations = set()
    for name in operations_of_the_stack(KINDS):
        service, _, operation = name.partition(":")
        operations.add((service, operation))
    return operations


OPERATIONS = sorted(operations_of_the_adapters() | operations_of_the_scan())


def most_other_services(folder: str, names: list[str]) -> set[str]:
    """Return what is not worth copying: hundreds of services, but for two that must go."""
    if Path(folder) != INSTALLED:
        return set()
    wanted = {*prune_botocore.SERVICES, "acm", "rds"}
    return {name for name in names if name not in wanted and not name.endswith(".json")}


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed botocore's data, pruned as the layer's build prunes them."""
    data = tmp_path_factory.mktemp("botocore") / "data"
    shutil.copytree(INSTALLED, data, ignore=most_other_services)
    assert 0 == prune_botocore.main([str(data)])
    return data


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch, pruned: Path) -> Clients:
    """The product's clients, on the pruned data alone."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(botocore.loaders.Loader, "BUILTIN_DATA_PATH", str(pruned))
    return Clients("us-east-1")


def least(shape: Any) -> Any:
    """Return the smallest value that the model accepts for this shape."""
    match shape.type_name:
        case "structure":
            return {name: least(shape.members[name]) for name in shape.required_members}
        case "list":
            return [least(shape.member)] * int(shape.metadata.get("min", 0))
        case "map":
            return {}
        case "string":
            return "a" * int(shape.metadata.get("min", 1))
        case "blob":
            return b"a"
        case "boolean":
            return False
        case "timestamp":
            return 0
        case _:
            return shape.metadata.get("min", 1)


def empty_body(protocol: str, operation: str) -> bytes:
    """Return an answer without fields."""
    if protocol == "smithy-rpc-v2-cbor":
        return b"\xa0"
    if "json" in protocol:
        return b"{}"
    # The protocol "query" wraps each answer in an element of its own.
    return f"<Response><{operation}Result/><ResponseMetadata/></Response>".encode()


def stub_wire(client: Any, body: bytes, requests: list[Any]) -> None:
    """Answer every request of the client at once; no socket opens."""

    class Raw:
        def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
            return iter([body])

        def read(self, *_: Any) -> bytes:
            return body

    def answer(request: Any, **_: Any) -> AWSResponse:
        requests.append(request)
        headers = HTTPHeaders()
        headers["smithy-protocol"] = "rpc-v2-cbor"
        return AWSResponse(request.url, 200, headers, Raw())

    client.meta.events.register("before-send", answer)


def test_all_services_that_the_adapters_and_the_scan_name_are_kept() -> None:
    """So are those of the kinds that a scan knows. A service that is missing would be found by
    Lambda, at the first call."""
    named = {service for service, _ in OPERATIONS} | clients_by_name()
    assert named == set(prune_botocore.SERVICES)
    assert len(OPERATIONS) > 50


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_every_call_of_the_adapters_goes_out(
    clients: Clients, service: str, operation: str
) -> None:
    """The model, the endpoint, the signature and the reading of the answer are botocore's own."""
    if operation == "InvokeFunction":
        operation = "Invoke"  # IAM's name and the API's differ
    client = clients.client(service)
    model = client.meta.service_model.operation_model(operation)
    parameters = least(model.input_shape) if model.input_shape else {}
    requests: list[Any] = []
    body = empty_body(client.meta.service_model.resolved_protocol, operation)
    stub_wire(client, body, requests)

    client._make_api_call(operation, parameters)

    assert 1 == len(requests)
    assert requests[0].headers["Authorization"]


@pytest.mark.parametrize("service", prune_botocore.SERVICES)
def test_pruned_data_mean_what_the_whole_data_mean(clients: Clients, service: str) -> None:
    """The same endpoints, signatures, protocols and Regions, in all partitions."""
    pruned_session = clients._session(_OWN)
    whole_session = botocore.session.Session()
    whole_loader = botocore.loaders.Loader(
        extra_search_paths=[str(INSTALLED)], include_default_search_paths=False
    )
    whole_session.register_component("data_loader", whole_loader)
    for region in REGIONS:
        theirs = whole_session.create_client(service, region_name=region)
        ours = pruned_session.create_client(service, region_name=region)
        assert described(theirs) == described(ours), region
    for partition in whole_session.get_available_partitions():
        known_regions = whole_session.get_available_regions(service, partition)
        assert known_regions == pruned_session.get_available_regions(service, partition)


def described(client: Any) -> dict[str, Any]:
    """Return what a client has made of its endpoint data."""
    meta = client.meta
    return {
        "endpoint": meta.endpoint_url,
        "region": meta.region_name,
        "partition": meta.partition,
        "signing": client._request_signer._signing_name,
        "version": meta.service_model.api_version,
        "protocol": meta.service_model.resolved_protocol,
    }


def undocumented(path: Path) -> str:
    """Return a service's model without its documentation."""
    model = json.loads(gzip.decompress(path.read_bytes()))
    text = json.dumps(model, sort_keys=True)
    return re.sub(r'"documentation": "(?:[^"\\]|\\.)*"', '"documentation": ""', text)


@pytest.mark.parametrize("service", prune_botocore.SERVICES)
def test_a_model_loses_its_documentation_alone(pruned: Path, service: str) -> None:
    """All operations, shapes, errors and settings of the newest API version stay."""
    (version,) = (pruned / service).iterdir()
    whole = INSTALLED / service / version.name
    read_by_clients = [*whole.glob("service-2.*"), *whole.glob("endpoint-rule-set-1.*")]
    assert {path.name for path in read_by_clients} == {path.name for path in version.iterdir()}
    for path in version.iterdir():
        if path.name == "service-2.json.gz":
            assert undocumented(whole / path.name) == undocumented(path)
        else:
            assert (whole / path.name).read_bytes() == path.read_bytes(), path


def test_the_partitions_are_kept_as_they_are(pruned: Path) -> None:
    """`governor.core.regions` reads them."""
    name = "partitions.json"
    assert (INSTALLED / name).read_bytes() == (pruned / name).read_bytes()


def test_nothing_is_kept_that_nobody_reads(pruned: Path) -> None:
    """Other services, older API versions, paginators, waiters, examples and documentation."""
    folders = sorted(path for path in pruned.iterdir() if path.is_dir())
    assert list(prune_botocore.SERVICES) == [folder.name for folder in folders]
    for folder in folders:
        (version,) = folder.iterdir()
        kinds = {path.name.split(".")[0] for path in version.iterdir()}
        assert {"service-2", "endpoint-rule-set-1"} == kinds, folder.name
    size = sum(path.stat().st_size for path in pruned.rglob("*") if path.is_file())
    assert size < 1_000_000


def test_the_layer_uses_no_paginator_and_no_waiter() -> None:
    """Their files are not in the layer."""
    for path in (LAYER / "governor").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert [] == re.findall(r"get_paginator|get_waiter|can_paginate", text), path


def test_pruning_twice_changes_nothing(pruned: Path) -> None:
    """The same botocore gives the same bytes."""
    before = {path: path.read_bytes() for path in pruned.rglob("*") if path.is_file()}
    prune_botocore.prune(pruned)
    after = {path: path.read_bytes() for path in pruned.rglob("*") if path.is_file()}
    assert before == after


def test_a_field_called_documentation_stays() -> None:
    """Its name is one of the service's own; only texts are emptied."""
    model = {"shapes": {"S": {"members": {"documentation": {"documentation": "Text."}}}}}
    prune_botocore._empty_documentation(model)
    assert {"documentation": {"documentation": ""}} == model["shapes"]["S"]["members"]


@pytest.mark.parametrize("missing", ["ec2", "endpoints.json", "sts/2011-06-15/service-2.json.gz"])
def test_a_botocore_that_keeps_its_data_otherwise_fails_the_build(
    tmp_path: Path, pruned: Path, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A layer without a model would fail at the first event."""
    data = tmp_path / "data"
    shutil.copytree(pruned, data)
    path = data / missing
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()

    assert 1 == prune_botocore.main([str(data)])
    assert f"{path} is missing" in capsys.readouterr().err


def test_without_a_folder_the_script_says_how_it_is_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 2 == prune_botocore.main([])
    assert "usage: prune_botocore.py FOLDER" in capsys.readouterr().err


def test_the_build_prunes_before_it_compiles() -> None:
    lines = (LAYER / "Makefile").read_text(encoding="utf-8").splitlines()
    steps = [line.split()[1] for line in lines if line.startswith("\tpython3.13 ")]
    assert ["-m", "prune_botocore.py", "-m"] == steps


@pytest.mark.parametrize("environment", ON_ONE_VERSION)
@pytest.mark.parametrize("package", ["botocore", "jmespath", "python-dateutil", "six", "urllib3"])
def test_layer_tests_and_local_cloud_pin_one_version(environment: str, package: str) -> None:
    """Tests run on what is deployed."""
    layer = pinned((LAYER / "requirements.txt").read_text(encoding="utf-8"))
    path = ROOT / "requirements" / f"{environment}.txt"
    here = pinned(path.read_text(encoding="utf-8"))
    assert version_in(layer[package]) == version_in(here[package])


def test_boto3_is_of_botocore_s_number() -> None:
    """The tools use boto3, the layer botocore alone."""
    for environment in ON_ONE_VERSION:
        path = ROOT / "requirements" / f"{environment}.txt"
        pins = pinned(path.read_text(encoding="utf-8"))
        assert version_in(pins["boto3"]) == version_in(pins["botocore"]), environment
    assert "boto3" not in pinned((LAYER / "requirements.txt").read_text(encoding="utf-8"))
