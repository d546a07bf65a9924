"""`governor spot`: prices and scores of the policy's Regions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from cli.governor import main
from governor.aws.pricing import AwsPrices
from governor.core.errors import AccessDenied
from governor.events.model.interruption import SpotPrice
from governor.events.notify_warning import SpotPrices


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """Return the requests to the market; it knows one zone in each of two Regions, and one that is
    closed."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    (tmp_path / "policy.yaml").write_text(
        "events: {spot_price_regions: [us-east-1, eu-west-1, us-west-2]}"
    )
    calls: list[Any] = []

    def prices(
        _: object, target: object, regions: Sequence[str], name: str, platform: str
    ) -> SpotPrices:
        calls.append((tuple(regions), name, platform))
        known = [("eu-west-1", "0.3"), ("us-east-1", "0.6036000004")]
        found = tuple(SpotPrice(region, f"{region}a", Decimal(usd)) for region, usd in known)
        return SpotPrices(found, {"us-west-2": "no network"})

    def scores(
        _: object, target: object, regions: Sequence[str], types: Sequence[str]
    ) -> Mapping[str, int]:
        calls.append((tuple(regions), tuple(types)))
        return {"us-east-1": 9}

    monkeypatch.setattr(AwsPrices, "prices", prices)
    monkeypatch.setattr(AwsPrices, "scores", scores)
    with mock_aws():
        yield calls


def test_zones_come_cheapest_first_with_the_score_of_their_region(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown scores are named; the types that are scored are those with the same GPUs."""
    code = main(["spot", "g5.xlarge", "--file", str(tmp_path / "policy.yaml")])
    said = capsys.readouterr()

    assert 0 == code
    assert ["ZONE", "eu-west-1a", "us-east-1a"] == [
        line.split()[0] for line in said.out.splitlines()
    ]
    assert ["0.3000", "30%", "unknown"] == said.out.splitlines()[1].split()[1:]
    assert ["0.6036", "60%", "9"] == said.out.splitlines()[2].split()[1:]
    assert "not known: Spot prices in us-west-2: no network" in said.err
    assert (("us-east-1", "eu-west-1", "us-west-2"), "g5.xlarge", "Linux/UNIX") == asked[0]
    assert "g5.16xlarge" in asked[1][1]


def test_no_right_to_scores_is_no_reason_for_no_prices(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(*_: object) -> Mapping[str, int]:
        raise AccessDenied("no", operation="ec2:GetSpotPlacementScores")

    monkeypatch.setattr(AwsPrices, "scores", denied)
    code = main(["spot", "g5.xlarge", "--region", "eu-west-1", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert 0 == code
    assert ("eu-west-1",) == asked[0][0]
    assert [None, None] == [one["placement_score"] for one in found["zones"]]
    assert ["0.3", "0.603600"] == [one["usd_per_hour"] for one in found["zones"]]
    assert "Spot placement scores" in found["unread"][-1]


def test_too_few_types_have_no_score(asked: list[Any]) -> None:
    """With fewer than three, EC2's score is falsely low."""
    assert 0 == main(["spot", "p4d.24xlarge", "--region", "us-east-1"])
    assert 1 == len(asked)


def test_a_type_that_is_none_is_refused(
    asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == main(["spot", "m5.large", "--region", "us-east-1"])
    assert "is no accelerated type" in capsys.readouterr().err
    assert [] == asked
