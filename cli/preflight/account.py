"""Checks of the account and the Region; they need neither a stack nor instances."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

from cli.preflight.world import Finding, NothingToSee, World, confirmed, refuted, unknown
from governor.domain.catalogue import PRICES_AS_OF, list_price, shape_of
from governor.domain.instance import PLAIN_OPERATION
from governor.domain.money.prices import SERVICE, WANTED, filters_of, key_of, on_demand
from governor.domain.units import printable
from governor.errors import CloudError

_SKEW = timedelta(seconds=60)
_LEAST_CONCURRENCY = 100
_LEAST_READS_A_SECOND = 50
_LIST_REGION = "us-east-1"
_FAMILIAR = ("g5.xlarge", "p5.48xlarge")
"""Types to look at where no instance runs."""
_OF_ANOTHER = ("TrailNotFoundException", "InvalidHomeRegionException")
"""Codes of trails of another account or Region: what they log is seen there only."""
_RELATIVE = Decimal("0.02")


def credentials(world: World) -> Finding:
    """The stack is for commercial Regions: elsewhere events cross no Regions, and prices differ.

    Source: docs/events.md; Price List API.
    """
    if world.partition == "aws":
        return confirmed(f"account {world.account}, {world.region}, as {world.caller['Arn']}")
    return refuted(
        f"partition {world.partition}",
        "deploy no stacks/forward_events.yaml across Regions, and set "
        "prices.usd_per_hour in the policy",
    )


def clock(world: World) -> Finding:
    """This machine's clock is right to a minute: AWS refuses signatures that are 5 minutes off.

    Source: Signature Version 4. Functions use AWS's clock; this one signs, and tells ages of
    metrics.
    """
    headers = world.caller["ResponseMetadata"]["HTTPHeaders"]
    if "date" not in headers:
        return unknown("STS gave no date", "compare `date -u` with a clock you trust")
    skew = abs(parsedate_to_datetime(headers["date"]) - world.now)
    seen = f"{skew.total_seconds():.0f} s between this clock and that of STS"
    return confirmed(seen) if skew <= _SKEW else refuted(seen, "set this machine's clock by NTP")


def regions(world: World) -> Finding:
    """Every Region of the policy is enabled in this account.

    Source: EC2 API, DescribeRegions; the sweep of another Region fails as a whole.
    """
    wanted = set(world.policy.targets.regions) or {world.region}
    enabled = {one["RegionName"] for one in world.call("ec2:DescribeRegions")["Regions"]}
    if missing := sorted(wanted - enabled):
        return refuted(
            f"not enabled: {', '.join(missing)}", "enable them, or take them out of targets.regions"
        )
    return confirmed(f"{len(wanted)} of {len(wanted)} enabled")


def lambda_concurrency(world: World) -> Finding:
    """Lambda may run 100 functions at a time here: sweeps, warnings and answers must not wait for
    each other.

    Source: memory: new accounts begin with 10. ReservedConcurrency takes from the same number, of
    which Lambda keeps 100 unreserved.
    """
    limit = world.call("lambda:GetAccountSettings")["AccountLimit"]
    total, left = limit["ConcurrentExecutions"], limit["UnreservedConcurrentExecutions"]
    seen = f"{total} at a time, {left} of them unreserved"
    if left >= _LEAST_CONCURRENCY:
        return confirmed(seen)
    return refuted(seen, "ask for 1,000 in Service Quotas (Lambda, Concurrent executions)")


def metric_quota(world: World) -> Finding:
    """CloudWatch takes 50 GetMetricData calls a second: a large fleet is read 8 calls at a time.

    Source: CloudWatch quotas: 500; older articles say 50.
    """
    listed = world.all("servicequotas:ListServiceQuotas", "Quotas", ServiceCode="monitoring")
    rate = next(
        (one["Value"] for one in listed if one["QuotaName"].endswith("GetMetricData requests")),
        None,
    )
    if rate is None:
        return unknown(
            "Service Quotas lists no rate of GetMetricData", "look there by hand (CloudWatch)"
        )
    seen = f"{rate:g} calls a second"
    if rate >= _LEAST_READS_A_SECOND:
        return confirmed(seen)
    return refuted(seen, "ask for more in Service Quotas, or set a longer SweepRateMinutes")


def missing_metric(world: World) -> Finding:
    """GetMetricData answers a metric that never existed with no values and Complete, not with an
    error.

    Source: CloudWatch API, GetMetricData; silence must look like silence. The call costs $0.00001.
    """
    metric = {
        "Namespace": "GpuGovernor/Preflight",
        "MetricName": "never-published",
        "Dimensions": [{"Name": "InstanceId", "Value": "i-00000000000000000"}],
    }
    answer = world.call(
        "cloudwatch:GetMetricData",
        MetricDataQueries=[
            {"Id": "m", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Maximum"}}
        ],
        StartTime=world.now - timedelta(hours=1),
        EndTime=world.now,
    )
    protocol = world.client_protocol("cloudwatch")
    found = [
        (len(one["Values"]), one.get("StatusCode", "Complete"))
        for one in answer["MetricDataResults"]
    ]
    if found in ([(0, "Complete")], []):
        return confirmed(
            f"{'an empty series' if found else 'no series'}, Complete, by protocol {protocol}"
        )
    return refuted(f"{found} by protocol {protocol}", "stay in observe, and report this")


def organization(world: World) -> Finding:
    """The account's organization is the one that the stack lets send events (OrganizationId).

    Source: Organizations API, DescribeOrganization: every member account may ask.
    """
    wanted = world.parameters.get("OrganizationId", "") if world.is_deployed else ""
    try:
        found = world.call("organizations:DescribeOrganization")["Organization"]["Id"]
    except CloudError as error:
        if "AWSOrganizationsNotInUse" not in error.code:
            raise
        found = None
    if wanted and wanted != found:
        return refuted(
            f"OrganizationId is {wanted}, the account's is {found}", f"set OrganizationId={found}"
        )
    if found is None:
        return confirmed("the account is in no organization; name members in MemberAccountIds")
    return confirmed(f"{found}{'' if wanted else '; OrganizationId is not set'}")


def units(world: World) -> Finding:
    """AWS Organizations lists the accounts of targets.units, and their state: suspended ones are
    left out.

    Source: Organizations API; only the management account and a delegated administrator may ask.
    """
    named = world.policy.targets.units
    if not named:
        raise NothingToSee("the policy names no targets.units", "nothing, if you name accounts")
    found = 0
    for unit in named:
        try:
            listed = list(
                world.all("organizations:ListAccountsForParent", "Accounts", ParentId=unit)
            )
        except CloudError as error:
            if error.code != "ParentNotFoundException":
                raise
            return refuted(f"there is no unit {unit}", "correct targets.units in the policy")
        if strange := [one["Id"] for one in listed if not {"State", "Status"} & one.keys()]:
            return refuted(
                f"no state of {', '.join(strange)}",
                "name accounts in targets.accounts, and report this",
            )
        found += len(listed)
    return confirmed(f"{found} accounts directly in {len(named)} units, each with its state")


def list_prices(world: World) -> Finding:
    """The shipped list prices are those of AWS (us-east-1, Linux, shared tenancy), to 2%.

    Source: layers/shared/governor/data/README.md; that these filters leave one price is from other
    projects.
    """
    compared, wrong = [], []
    for kind in _types(world):
        shipped = list_price(kind)
        if shipped is None:
            continue
        found = _price(world, kind)
        compared.append(kind)
        if found is None or abs(found - shipped) > shipped * _RELATIVE:
            wrong.append(f"{kind}: {shipped} shipped, {found or 'none'} listed")
    if wrong:
        return refuted(
            "; ".join(wrong), "set prices.usd_per_hour in the policy, also for your discounts"
        )
    return confirmed(
        f"{', '.join(compared)} as shipped on {PRICES_AS_OF}; your discounts are not known here"
    )


def _price(world: World, kind: str) -> Decimal | None:
    filters = filters_of(_LIST_REGION, instanceType=kind, operation=PLAIN_OPERATION, **WANTED)
    answer = world.call("pricing:GetProducts", ServiceCode=SERVICE, Filters=filters)
    tenancy = "Dedicated" if kind.endswith("metal") else "Shared"
    found = on_demand(answer["PriceList"], _LIST_REGION)
    return found.get(key_of(kind, PLAIN_OPERATION, tenancy))


def instance_shapes(world: World) -> Finding:
    """EC2 gives the types the number of GPUs that the shipped catalogue has: all of them must be
    idle.

    Source: a copy of DescribeInstanceTypes: fractional types have Count 0 and LogicalGpuCount.
    """
    kinds = [kind for kind in _types(world) if shape_of(kind)]
    try:
        answer = world.call("ec2:DescribeInstanceTypes", InstanceTypes=kinds)
    except CloudError as error:
        if error.code != "InvalidInstanceType":
            raise
        return unknown(
            f"not all of {', '.join(kinds)} are in {world.region}", "run it where your GPUs are"
        )
    wrong = []
    for one in answer["InstanceTypes"]:
        shape, gpus = shape_of(one["InstanceType"]), one.get("GpuInfo", {}).get("Gpus", [])
        counted = sum(gpu["Count"] or gpu.get("LogicalGpuCount", 0) for gpu in gpus)
        if shape is not None and gpus and counted != shape.accelerator_count:
            wrong.append(
                f"{one['InstanceType']}: {counted} by EC2, {shape.accelerator_count} by "
                "the catalogue"
            )
    if wrong:
        return refuted("; ".join(wrong), "exempt instances of these types, and report this")
    return confirmed(f"{', '.join(kinds)} as in the catalogue")


def spot_prices(world: World) -> Finding:
    """DescribeSpotPriceHistory with start and end now gives the price in force, as a decimal text.

    Source: EC2 API, DescribeSpotPriceHistory; what the saving of a Spot instance is computed from.
    """
    kind = _types(world)[0]
    asked: Any = {"InstanceTypes": [kind], "ProductDescriptions": ["Linux/UNIX"]}
    found = world.call(
        "ec2:DescribeSpotPriceHistory", StartTime=world.now, EndTime=world.now, **asked
    )
    prices = [Decimal(one["SpotPrice"]) for one in found["SpotPriceHistory"]]
    if not prices:
        return unknown(
            f"EC2 knows no Spot price of {kind} here", "nothing, if you run no Spot of it"
        )
    if min(prices) > 0:
        return confirmed(f"{kind}: ${min(prices):.4f} to ${max(prices):.4f} an hour")
    return refuted(f"{kind}: a price of {min(prices)}", "set prices.usd_per_hour in the policy")


def sessions(world: World) -> Finding:
    """Systems Manager lists open sessions with target and start: a person at work keeps an
    instance.

    Source: Systems Manager API; it gives no time of the last key, so old sessions do not count.
    """
    found = world.call("ssm:DescribeSessions", State="Active", MaxResults=10)["Sessions"]
    if not found:
        return unknown("no session is open", "open one to any instance, then run this again")
    if all({"Target", "StartDate"} <= one.keys() for one in found):
        return confirmed(f"{len(found)} open, each with target and start")
    return refuted(
        f"fields: {sorted(found[0])}", "do not count on sessions; use work metrics or exemptions"
    )


def mail(world: World) -> Finding:
    """SES sends to anybody and knows the sender of personal links (EmailSender).

    Source: SES documentation, from memory: in the sandbox SES sends to verified addresses only.
    """
    sender = world.parameters.get("EmailSender", "") if world.is_deployed else ""
    account = world.call("ses:GetAccount")
    if not sender:
        raise NothingToSee(
            "EmailSender is not set: no personal mail is sent", "set it, if people should get it"
        )
    if not account.get("SendingEnabled"):
        return refuted("SES sends nothing for this account", "open SES in the console: it says why")
    domain = sender.partition("@")[2]
    if not any(_is_verified(world, one) for one in (sender, domain)):
        return refuted(f"neither {sender} nor {domain} is verified", "verify one of them in SES")
    if not account.get("ProductionAccessEnabled"):
        return refuted(
            "SES is in the sandbox", "request production access, or verify every reader's address"
        )
    return confirmed(f"{sender} is verified, and SES is out of the sandbox")


def _is_verified(world: World, identity: str) -> bool:
    try:
        found = world.call("ses:GetEmailIdentity", EmailIdentity=identity)
    except CloudError as error:
        if error.code == "NotFoundException":
            return False
        raise
    return bool(found.get("VerifiedForSendingStatus"))


def trail(world: World) -> Finding:
    """A trail records writes to S3 objects, so that who changed the policy is known.

    Source: memory: EventBridge gets `AWS API Call via CloudTrail` only where a trail logs it.
    """
    trails = [one["TrailARN"] for one in world.call("cloudtrail:DescribeTrails")["trailList"]]
    for name in trails:
        try:
            found = world.call("cloudtrail:GetEventSelectors", TrailName=name)
        except CloudError as error:
            if error.code not in _OF_ANOTHER:
                raise
            continue
        said = json.dumps(
            [found.get("EventSelectors"), found.get("AdvancedEventSelectors")], default=str
        )
        if "AWS::S3::Object" in said:
            return confirmed(
                f"{printable(name)} logs S3 objects; see that the policy's bucket is among them"
            )
    return unknown(
        f"{len(trails)} trails, none with data events of S3: nobody sees who changes the policy",
        "turn on data events of the policy's bucket (docs/trust.md)",
    )


def _types(world: World) -> list[str]:
    """Accelerated types that run here, a few; else familiar ones."""
    try:
        found = {one["InstanceType"] for one in world.instances}
    except NothingToSee:
        found = set()
    return sorted(kind for kind in found if shape_of(kind))[:5] or list(_FAMILIAR)
