"""Accounts and Regions: what cannot be reached is a line, and stops nothing else."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from dataclasses import dataclass
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import NoCredentialsError

from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.errors import SafetyError
from governor.core.instance import Target
from governor.scan.kind import Place
from governor.scan.model import Resource
from governor.scan.rights import session_policy
from tests.unit.scan.cloud_twin import OWN, REGIONS, Asked, CloudTwin, Refused
from tests.unit.scan.kinds import KindTwin, resource
from tests.unit.scan_command.conftest import Run

OTHER, THIRD = "210987654321", "310987654321"
UNIT = "ou-ab12-34567890"
ORGANIZATION = ("--role", "Audit", "--units", UNIT)


@dataclass
class CallingKind(KindTwin):
    """A kind that asks EC2 for instances in each place, and finds one."""

    name = "caller"  # type: ignore[misc]

    def list(self, place: Place) -> list[Resource]:
        """Call once. Raises: CloudError."""
        place.call("ec2:DescribeInstances")
        return [resource(target=place.target)]


def places(out: str) -> list[str]:
    """Return the places of a report in JSON."""
    return [f"{place['account']}/{place['region']}" for place in json.loads(out)["places"]]


def test_all_enabled_regions_of_the_account_without_any_setting(cloud: CloudTwin, run: Run) -> None:
    """No Region, no profile, no stack, no policy."""
    ended = run((KindTwin(),), "--json")
    assert 0 == ended.status, ended.err
    assert [f"{OWN}/{region}" for region in REGIONS] == places(ended.out)
    assert {"us-east-1"} == {asked.region for asked in cloud.calls}


@pytest.mark.parametrize(
    "config",
    [
        "[profile gov]\nsso_region = us-gov-west-1\n",
        "[profile gov]\nsso_session = s\n[sso-session s]\nsso_region = us-gov-west-1\n"
        "sso_start_url = https://example.com\n",
        "[profile gov]\nregion = us-gov-west-1\n",
    ],
)
def test_the_first_calls_go_to_the_partition_of_the_profile(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, config: str
) -> None:
    """Credentials of GovCloud are not known in us-east-1."""
    keys = "aws_access_key_id = x\naws_secret_access_key = y\n"
    (tmp_path / "config").write_text(config)
    (tmp_path / "credentials").write_text(f"[gov]\n{keys}")
    ended = run((), "--json", "--profile", "gov")
    assert 0 == ended.status, ended.err
    assert {"us-gov-west-1"} == {asked.region for asked in cloud.calls}


def test_roles_are_assumed_in_the_partition_of_the_profile(
    cloud: CloudTwin, run: Run, tmp_path: Any
) -> None:
    """STS of another partition does not know the caller."""
    (tmp_path / "config").write_text("[profile gov]\nsso_region = us-gov-west-1\n")
    (tmp_path / "credentials").write_text(
        "[gov]\naws_access_key_id = x\naws_secret_access_key = y\n"
    )
    cloud.accounts_by_unit[UNIT] = (OTHER,)
    ended = run((), "--json", "--profile", "gov", *ORGANIZATION)
    assert 0 == ended.status, ended.err
    (assumed,) = [asked for asked in cloud.calls if asked.operation == "sts:AssumeRole"]
    assert "us-gov-west-1" == assumed.region
    assert f"arn:aws-us-gov:iam::{OTHER}:role/Audit" == assumed.parameters["RoleArn"]


def test_the_printed_policy_is_that_of_the_partition(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the Region that is named or set."""
    named = run((), "--print-policy", "--role", "Audit", "--region", "cn-north-1")
    assert "arn:aws-cn:iam::*:role/Audit" in named.out
    monkeypatch.setenv("AWS_REGION", "us-gov-west-1")
    by_setting = run((), "--print-policy", "--role", "Audit")
    assert "arn:aws-us-gov:iam::*:role/Audit" in by_setting.out
    monkeypatch.delenv("AWS_REGION")
    assert "arn:aws:iam::*:role/Audit" in run((), "--print-policy", "--role", "Audit").out
    assert [] == cloud.calls


def test_only_the_regions_that_are_named_are_looked_at(cloud: CloudTwin, run: Run) -> None:
    """One that the account has not enabled is unread, and the scan incomplete."""
    ended = run((CallingKind(),), "--json", "--region", "eu-west-1", "--region", "ap-east-1")
    assert 4 == ended.status
    assert [f"{OWN}/eu-west-1"] == places(ended.out)
    (line,) = json.loads(ended.out)["not_read"]
    assert (f"{OWN}/ap-east-1", "the Region is not enabled") == (line["place"], line["reason"])


def test_a_name_that_is_no_region_is_refused(cloud: CloudTwin, run: Run) -> None:
    """Before anything is asked."""
    ended = run((), "--region", "us-east1")
    assert (1, []) == (ended.status, cloud.calls)
    assert "'us-east1' is no Region" in ended.err


def test_named_regions_need_no_right_to_list_them(cloud: CloudTwin, run: Run) -> None:
    """Without names that permission is missing, and the line says what else to do."""
    cloud.answers["ec2:DescribeRegions"] = _refusing("UnauthorizedOperation")
    named = run((CallingKind(),), "--json", "--region", "eu-west-1")
    assert (0, 1) == (named.status, len(json.loads(named.out)["rows"]))
    unnamed = run((CallingKind(),))
    assert 4 == unnamed.status
    assert "missing permission ec2:DescribeRegions" in _flat(unnamed.out)
    assert "name the Regions with --region" in _flat(unnamed.out)
    assert "--print-policy" in unnamed.out


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ExpiredToken", "the AWS credentials have expired"),
        ("InvalidClientTokenId", "AWS does not know these credentials"),
        ("Throttling", "AWS is busy: try again in a minute"),
        ("AccessDenied", "sts:GetCallerIdentity failed"),
    ],
)
def test_credentials_that_cannot_be_used_end_the_scan(
    cloud: CloudTwin, run: Run, code: str, words: str
) -> None:
    """With a line and status 1."""
    cloud.answers["sts:GetCallerIdentity"] = _refusing(code)
    ended = run((CallingKind(),))
    assert (1, "") == (ended.status, ended.out)
    assert words in ended.err
    assert 1 == len(ended.err.splitlines())


def test_a_sign_in_that_is_over_is_named(cloud: CloudTwin, run: Run) -> None:
    """botocore's own errors have no code."""

    def signed_out(_: Asked) -> Any:
        raise NoCredentialsError

    cloud.answers["sts:GetCallerIdentity"] = signed_out
    ended = run(())
    assert 1 == ended.status
    assert "credentials" in ended.err


def test_a_profile_that_cannot_be_used_is_a_line(cloud: CloudTwin, run: Run, tmp_path: Any) -> None:
    """botocore reads it when the first client is made."""
    (tmp_path / "config").write_text("[profile odd]\nsso_session = none\n")
    (tmp_path / "credentials").write_text(
        "[odd]\naws_access_key_id = x\naws_secret_access_key = y\n"
    )
    ended = run((), "--profile", "odd")
    assert (1, "") == (ended.status, ended.out)
    assert "configuration does not exist" in ended.err


def test_no_credentials_and_unknown_profiles_are_lines(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thing that goes wrong."""
    unknown = run((), "--profile", "nobody")
    assert 1 == unknown.status
    assert "nobody" in unknown.err
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    nothing = run(())
    assert 1 == nothing.status
    assert "no credentials" in nothing.err
    assert [] == cloud.calls


def test_all_accounts_of_the_units_are_scanned_with_a_session_that_only_reads(
    cloud: CloudTwin, run: Run
) -> None:
    """The role may be an administrator's. Each is assumed once, for all Regions."""
    cloud.accounts_by_unit[UNIT] = (OWN, OTHER)
    kinds = (CallingKind(),)
    ended = run(kinds, "--json", *ORGANIZATION)
    assert 0 == ended.status, ended.err
    expected = [f"{account}/{region}" for account in (OWN, OTHER) for region in REGIONS]
    assert expected == places(ended.out)
    (assumed,) = [asked for asked in cloud.calls if asked.operation == "sts:AssumeRole"]
    assert f"arn:aws:iam::{OTHER}:role/Audit" == assumed.parameters["RoleArn"]
    assert session_policy(kinds) == assumed.parameters["Policy"]
    looked_at = [(asked.account, asked.region) for asked in cloud.calls if _is_list(asked)]
    assert sorted((place.split("/")[0], place.split("/")[1]) for place in expected) == sorted(
        looked_at
    )


@pytest.mark.parametrize("code", ["AccessDenied", "Throttling", "RegionDisabledException"])
def test_an_account_that_cannot_be_entered_stops_no_other(
    cloud: CloudTwin, run: Run, code: str
) -> None:
    """The report names the account and the call."""
    cloud.accounts_by_unit[UNIT] = (OTHER, THIRD)

    def assume(asked: Asked) -> Any:
        if OTHER in asked.parameters["RoleArn"]:
            raise Refused(code, "not in this account")
        return cloud._usual(asked)

    cloud.answers["sts:AssumeRole"] = assume
    ended = run((CallingKind(),), "--json", *ORGANIZATION)
    report = json.loads(ended.out)
    assert (4, False) == (ended.status, report["is_complete"])
    assert [f"{THIRD}/{region}" for region in REGIONS] == places(ended.out)
    (line,) = report["not_read"]
    assert (OTHER, "sts:AssumeRole") == (line["place"], line["operation"])
    assert (code == "AccessDenied") is line["is_missing_right"]


def test_an_account_that_is_closed_meanwhile_is_unread(cloud: CloudTwin, run: Run) -> None:
    """Its Regions were listed; then every call is refused."""
    cloud.accounts_by_unit[UNIT] = (OTHER, THIRD)

    def instances(asked: Asked) -> Any:
        if asked.account == OTHER:
            raise Refused("UnrecognizedClientException", "the token is invalid", 403)
        return {"Reservations": []}

    cloud.answers["ec2:DescribeInstances"] = instances
    ended = run((CallingKind(),), "--json", *ORGANIZATION)
    report = json.loads(ended.out)
    assert 4 == ended.status
    assert {THIRD} == {row["account"] for row in report["rows"]}
    assert [f"{OTHER}/{region}" for region in REGIONS] == [
        line["place"] for line in report["not_read"]
    ]
    assert {False} == {line["is_missing_right"] for line in report["not_read"]}


def test_an_organization_does_not_fill_the_memory(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore makes a class for each client; those of places that were scanned are freed."""
    accounts = tuple(str(200_000_000_000 + number) for number in range(28))
    cloud.accounts_by_unit[UNIT] = accounts
    made: list[weakref.ref[type]] = []
    create = botocore.session.Session.create_client

    def noted(session: Any, service: str, **settings: Any) -> Any:
        client = create(session, service, **settings)
        if service == "ec2":
            made.append(weakref.ref(type(client)))
        return client

    monkeypatch.setattr(botocore.session.Session, "create_client", noted)
    gc.disable()
    try:
        ended = run((CallingKind(),), "--json", *ORGANIZATION)
        alive = sum(one() is not None for one in made)
    finally:
        gc.enable()
    assert 0 == ended.status
    assert 56 <= len(made)
    assert alive < 32


def test_roles_share_one_client_of_sts(cloud: CloudTwin, run: Run) -> None:
    """A client for each of hundreds of accounts would be kept to the end."""
    cloud.accounts_by_unit[UNIT] = (OTHER, THIRD)
    clients = ReadOnlyClients(("sts:AssumeRole", "ec2:DescribeRegions"), "{}", "us-east-1")
    for account in (OTHER, THIRD):
        target = Target(account, "us-east-1", f"arn:aws:iam::{account}:role/Audit")
        AwsReadApi(clients).call(target, "ec2:DescribeRegions")
    assert clients._sts() is clients._sts()
    assert 2 == cloud.operations().count("sts:AssumeRole")


def test_a_unit_that_does_not_exist_stops_no_other(cloud: CloudTwin, run: Run) -> None:
    """It is a line; if there is no account at all, there is no scan."""
    cloud.accounts_by_unit[UNIT] = (OTHER,)
    ended = run((CallingKind(),), "--json", *ORGANIZATION, "ou-none-00000000")
    (line,) = json.loads(ended.out)["not_read"]
    assert (4, "ou-none-00000000") == (ended.status, line["place"])

    alone = run((), "--role", "Audit", "--units", "ou-none-00000000")
    assert (1, "") == (alone.status, alone.out)
    assert "ou-none-00000000 is not there" in alone.err


def test_units_without_any_account_are_refused(cloud: CloudTwin, run: Run) -> None:
    """A scan of nothing is no good news for a pipeline."""
    cloud.accounts_by_unit[UNIT] = ()
    ended = run((CallingKind(),), *ORGANIZATION)
    assert (1, "") == (ended.status, ended.out)
    assert f"no active account is in {UNIT}" in ended.err


@pytest.mark.parametrize("name", ["bogus", "r-", "ou-ab12", "OU-ab12-11111111", "123456789012"])
def test_a_name_that_no_unit_can_have_is_refused(cloud: CloudTwin, run: Run, name: str) -> None:
    """Before anything is called; the message says how it is written."""
    ended = run((CallingKind(),), "--role", "Audit", "--units", UNIT, name)
    assert (1, "") == (ended.status, ended.out)
    assert f"--units: {name!r}: no unit is named so: write its ID, as ou-abcd-11111111" in ended.err
    assert [] == cloud.calls


def test_a_caller_without_any_right_gets_a_report_of_what_is_missing(
    cloud: CloudTwin, run: Run
) -> None:
    """Every account may ask whose credentials it has."""
    for operation in ("ec2:DescribeRegions", "ec2:DescribeInstances"):
        cloud.answers[operation] = _refusing("UnauthorizedOperation")
    ended = run((CallingKind(),), "--region", "eu-west-1", "--region", "us-east-1")
    assert 4 == ended.status
    assert "missing permission ec2:DescribeInstances" in _flat(ended.out)
    assert "incomplete" in ended.out


def test_an_answer_of_another_form_prints_no_traceback(
    cloud: CloudTwin, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the product has one, for its functions; a person gets a line."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    ended = run((KindTwin(error=KeyError("Endpoints"), words="odd ones"),))
    assert 4 == ended.status
    assert "odd ones in 123456789012/eu-west-1" in _flat(ended.out)
    assert "" == ended.err


def test_a_call_that_is_not_on_the_list_is_a_defect_that_shows(cloud: CloudTwin, run: Run) -> None:
    """It is neither sent nor reported as a missing permission."""
    kind = CallingKind(operations=())
    with pytest.raises(SafetyError, match="ec2:DescribeInstances was not sent"):
        run((kind,))
    assert "ec2:DescribeInstances" not in cloud.operations()


def test_an_interruption_before_the_first_region_is_a_line(cloud: CloudTwin, run: Run) -> None:
    """Nothing was read, so nothing is printed."""

    def interrupted(_: Asked) -> Any:
        raise KeyboardInterrupt

    cloud.answers["ec2:DescribeRegions"] = interrupted
    ended = run((CallingKind(),))
    assert (4, "") == (ended.status, ended.out)
    assert "interrupted" in ended.err


def _is_list(asked: Asked) -> bool:
    """Return whether the call lists instances."""
    return asked.operation == "ec2:DescribeInstances"


def _refusing(code: str) -> Any:
    """Return an answer that is an error with this code."""

    def refuse(asked: Asked) -> Any:
        raise Refused(code, f"{asked.operation} is not for you")

    return refuse


def _flat(text: str) -> str:
    """Return the text without its line breaks."""
    return " ".join(text.split())
