"""`policy check` knows Regions, instance families and units, and refuses none that it does not
know."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.governor import main
from cli.policy_names import odd_names
from governor.core.catalog import accelerated_types, families
from governor.core.regions import known_regions
from governor.policy.yaml_document import read_document

OF_REGIONS = (
    "targets: {{regions: [us-east-1, {name}]}}",
    "events: {{spot_price_regions: [us-east-1, {name}]}}",
    "overrides: [{{name: a, match: {{regions: [us-east-1, {name}]}}, set: {{}}}}]",
    "overrides: [{{name: a, match: {{}}, set: {{events: {{spot_price_regions: [{name}]}}}}}}]",
)
OF_FAMILIES = (
    "overrides: [{{name: a, match: {{instance_families: [p5, {name}]}}, set: {{}}}}]",
    "prices: {{usd_per_hour: {{{name}.xlarge: 1}}}}",
    "prices: {{discount_percent: {{{name}: 10}}}}",
    "overrides: [{{name: a, match: {{}}, set: {{prices: {{discount_percent: {{{name}: 1}}}}}}}}]",
    "advice: {{cpu_family: {name}}}",
    "advice: {{old_families: [{name}]}}",
    "advice: {{newer_families: [g5, {name}]}}",
)


def reasons(text: str) -> list[str]:
    return [reason for _, reason in odd_names(read_document(text))]


@pytest.mark.parametrize("text", OF_REGIONS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("us-esat-1", "us-esat-1 is no Region that this release knows; did you mean us-east-1?"),
        ("eu-wset-1", "eu-wset-1 is no Region that this release knows; did you mean eu-west-1?"),
        ("us-est-1", "; did you mean us-east-1 or us-west-1?"),
        ("us-easst-1", "; did you mean us-east-1?"),
        ("us-gov-wst-1", "; did you mean us-gov-west-1?"),
        ("eusc-de-esat-1", "; did you mean eusc-de-east-1?"),
        ("us-east-9", "us-east-9 is no Region that this release knows"),
        ("xq-east-1", "xq-east-1 is in no partition of AWS that this release knows"),
    ],
)
def test_a_region_that_is_not_known_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, name: str, said: str
) -> None:
    """It may be newer than this release."""
    file = tmp_path / "policy.yaml"
    file.write_text(text.format(name=name))

    assert 0 == main(["policy", "check", str(file)])
    out = capsys.readouterr().out
    assert out.count(said) == 1
    assert "error" not in out


@pytest.mark.parametrize("text", OF_REGIONS)
def test_every_region_that_botocore_lists_is_known(text: str) -> None:
    for region in known_regions():
        assert [] == [one for one in reasons(text.format(name=region)) if "knows" in one]


@pytest.mark.parametrize("text", OF_FAMILIES)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("p5n", "p5n is no instance family that this release knows; did you mean p5 or p5en?"),
        ("g4d", "; did you mean g4ad or g4dn?"),
        ("gd4n", "; did you mean g4dn?"),
        ("trn12", "; did you mean trn1 or trn2?"),
        ("zz9", "zz9 is no instance family that this release knows"),
    ],
)
def test_a_family_that_is_not_known_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, name: str, said: str
) -> None:
    """It may be newer than this release."""
    file = tmp_path / "policy.yaml"
    file.write_text(text.format(name=name))

    assert 0 == main(["policy", "check", str(file)])
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("text", OF_FAMILIES)
def test_every_family_is_known(text: str) -> None:
    """Accelerated ones by the catalog, others by botocore."""
    for family in (*families(), "m7i", "u-6tb1", "mac2-m2pro", "vt1", "f2", "t4g"):
        found = reasons(text.format(name=family))
        assert [] == [one for one in found if "family" in one]


def test_a_price_of_a_type_that_is_not_known_is_a_warning() -> None:
    """It would replace no list price, without a word."""
    found = reasons("prices: {usd_per_hour: {g5.12xlage: 1, p5.4xlarge: 2, zz9.large: 3}}")

    assert [
        "g5.12xlage is no instance type that this release knows; did you mean g5.12xlarge?",
        "zz9 is no instance family that this release knows",
    ] == found


def test_every_type_is_known() -> None:
    """Accelerated ones by the catalog, others by botocore."""
    for name in (*accelerated_types(), "m7i.large", "f2.6xlarge", "vt1.3xlarge"):
        assert [] == reasons(f"prices: {{usd_per_hour: {{{name}: 1}}}}")


def test_all_is_no_family() -> None:
    assert [] == reasons("prices: {discount_percent: {all: 10}}")


def test_the_warning_names_the_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("mode: ask\ntargets:\n  regions:\n    - us-east-1\n    - us-esat-1\n")

    main(["policy", "check", str(file)])

    assert ":5: warning: targets.regions.1: us-esat-1 is no Region" in capsys.readouterr().out


def test_regions_of_two_partitions_are_a_warning() -> None:
    """No role is assumed across partitions."""
    (said,) = reasons("targets: {regions: [us-east-1, eu-west-1, cn-north-1]}")
    assert (
        "they are in several partitions of AWS, and a stack reaches only its own: "
        "cn-north-1 (aws-cn), us-east-1 (aws)" == said
    )
    assert [] == reasons("targets: {regions: [us-gov-east-1, us-gov-west-1]}")


@pytest.mark.parametrize(
    ("units", "left_out", "said"),
    [
        ("ou-abcd-11111111", "", []),
        ("r-abcd, ou-abcd-11111111", "ou-abcd-22222222", []),
        (
            "ou-abcd-11111111, ou-abcd-22222222, ou-bcde-33333333",
            "",
            ["ou-bcde-33333333 is in another organization than those under r-abcd"],
        ),
        (
            "r-abcd, ou-abcd-11111111",
            "ou-bcde-33333333",
            ["ou-bcde-33333333 is in another organization than those under r-abcd"],
        ),
        (
            "ou-abcd-11111111",
            "ou-abcd-11111111",
            ["ou-abcd-11111111 is in targets.without_units, too, so none of its accounts is swept"],
        ),
    ],
)
def test_units_that_cannot_all_be_right_are_a_warning(
    units: str, left_out: str, said: list[str]
) -> None:
    """The ID of a unit holds that of its root, and an organization has one."""
    assert said == reasons(f"targets: {{units: [{units}], without_units: [{left_out}]}}")


OF_TWO = "accounts: ['111122223333', '210987654321'], regions: [us-east-1, eu-west-1]"


@pytest.mark.parametrize(
    ("targets", "account", "region", "said"),
    [
        (OF_TWO, "210987654321", "eu-west-1", []),
        (OF_TWO, "210987654321", "eu-wset-1",
         ["eu-wset-1 is no Region that this release knows; did you mean eu-west-1?"]),
        (OF_TWO, "210987654321", "eu-west-2",
         ["eu-west-2 is not in targets.regions, so nothing is left out there"]),
        (OF_TWO, "999988887777", "eu-west-1",
         ["999988887777 is not in targets.accounts, so nothing is left out there"]),
        ("accounts: ['111122223333'], units: [r-abcd]", "999988887777", "eu-west-1", []),
    ],
)  # fmt: skip
def test_a_place_left_out_that_is_no_target_is_a_warning(
    targets: str, account: str, region: str, said: list[str]
) -> None:
    """The accounts of units are not known at a desk, so an account may be one of theirs."""
    place = f"{{account: '{account}', region: {region}}}"

    assert said == reasons(f"targets: {{{targets}, without: [{place}]}}")


def test_an_empty_document_has_no_names() -> None:
    assert [] == reasons("")
    assert [] == reasons("targets:\noverrides:\n")
