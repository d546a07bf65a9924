"""Checks of the account and the Region; they need neither a stack nor instances."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

from cli.preflight.world import Finding, NothingToSee, World, confirmed, refuted, unknown
from governor.core.catalog import PRICES_AS_OF, list_price, shape_of
from governor.core.errors import CloudError
from governor.core.instance import PLAIN_OPERATION
from governor.core.units import printable
from governor.money.rules.prices import SERVICE, WANTED, filters_of, key_of, on_demand

_SKEW = timedelta(seconds=60)
_LEAST_CONCURRENCY = 100
_LEAST_READS_A_SECOND = 50
_LIST_REGION = "us-east-1"
_FAMILIAR = ("g5.xlarge", "p5.48xlarge")
"""Types to look at where no instance runs."""
_MOST_TYPES = 5
"""Types of a large fleet that a check looks at."""
_OF_ANOTHER = ("TrailNotFoundException", "InvalidHomeRegionException")
"""Codes of trails of another account or Region: what they log is seen there only."""
_RELATIVE = Decimal("0.02")


def credentials(world: World) -> Finding:
    """The account is in a commercial Region; in China and GovCloud, events and prices differ.

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
    """This machine's clock is right to within a minute; AWS refuses signatures that are 5 minutes
    off.

    Source: Signature Version 4. Functions use AWS's clock; this one signs, and tells ages of
    metrics.
    """
    headers = world.caller["ResponseMetadata"]["HTTPHeaders"]
    if "date" not in headers:
        return unknown("STS gave no date", "compare `date -u` with a clock you trust")
    skew = abs(parsedate_to_datetime(headers["date"]) - world.now)
    seen = f"{skew.total_seconds():.0f} s between this clock and that of STS"
    if skew <= _SKEW:
        return confirmed(seen)
    return refuted(seen, "set this machine's clock by NTP")


def regions(world: World) -> Finding:
    """Every Region of the policy is enabled in this account.

    Source: EC2 API, DescribeRegions; the sweep of another Region fails as a whole.
    """
    wanted = set(world.policy.targets.regions) or {world.region}
    answer = world.call("ec2:DescribeRegions")
    enabled = {region["RegionName"] for region in answer["Regions"]}
    missing = sorted(wanted - enabled)
    if missing:
        return refuted(
            f"not enabled: {', '.join(missing)}", "enable them, or take them out of targets.regions"
        )
    return confirmed(f"{len(wanted)} of {len(wanted)} enabled")


def lambda_concurrency(world: World) -> Finding:
    """Lambda may run 100 functions at once, so that warnings and answers do not wait for sweeps.

    Source: memory: new accounts begin with 10. ReservedConcurrency takes from the same number, of
    which Lambda keeps 100 unreserved.
    """
    limit = world.call("lambda:GetAccountSettings")["AccountLimit"]
    total = limit["ConcurrentExecutions"]
    unreserved = limit["UnreservedConcurrentExecutions"]
    seen = f"{total} at a time, {unreserved} of them unreserved"
    if unreserved >= _LEAST_CONCURRENCY:
        return confirmed(seen)
    return refuted(seen, "ask for 1,000 in Service Quotas (Lambda, Concurrent executions)")


def metric_quota(world: World) -> Finding:
    """CloudWatch accepts 50 GetMetricData calls a second; a large fleet is read 8 calls at a time.

    Source: CloudWatch quotas: 500; older articles say 50.
    """
    rate = _rate_of_get_metric_data(world)
    if rate is None:
        return unknown(
            "Service Quotas lists no rate of GetMetricData",
            "look it up there yourself (CloudWatch)",
        )
    seen = f"{rate:g} calls a second"
    if rate >= _LEAST_READS_A_SECOND:
        return confirmed(seen)
    return refuted(seen, "ask for more in Service Quotas, or set a longer SweepRateMinutes")


def _rate_of_get_metric_data(world: World) -> float | None:
    """Return the calls a second that CloudWatch allows, or `None` if the quota is not listed."""
    quotas = world.all("servicequotas:ListServiceQuotas", "Quotas", ServiceCode="monitoring")
    for quota in quotas:
        if quota["QuotaName"].endswith("GetMetricData requests"):
            rate: float = quota["Value"]
            return rate
    return None


def missing_metric(world: World) -> Finding:
    """GetMetricData returns no values and no error for a metric that never existed, with status
    Complete.

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
    series = []
    for result in answer["MetricDataResults"]:
        series.append((len(result["Values"]), result.get("StatusCode", "Complete")))
    if not series:
        return confirmed(f"no series, Complete, by protocol {protocol}")
    if series == [(0, "Complete")]:
        return confirmed(f"an empty series, Complete, by protocol {protocol}")
    return refuted(f"{series} by protocol {protocol}", "stay in observe, and report this")


def organization(world: World) -> Finding:
    """The account's organization is the one whose members may send events (OrganizationId).

    Source: Organizations API, DescribeOrganization: every member account may ask.
    """
    wanted = world.parameters.get("OrganizationId", "") if world.is_deployed else ""
    actual = _organization_id(world)
    if wanted and wanted != actual:
        return refuted(
            f"OrganizationId is {wanted}, the account's is {actual}", f"set OrganizationId={actual}"
        )
    if actual is None:
        return confirmed("the account is in no organization; name members in MemberAccountIds")
    if not wanted:
        return confirmed(f"{actual}; OrganizationId is not set")
    return confirmed(actual)


def _organization_id(world: World) -> str | None:
    """Return the id of the account's organization, or `None` if it is in none."""
    try:
        answer = world.call("organizations:DescribeOrganization")
    except CloudError as error:
        if "AWSOrganizationsNotInUse" not in error.code:
            raise
        return None
    organization_id: str = answer["Organization"]["Id"]
    return organization_id


def units(world: World) -> Finding:
    """AWS Organizations lists the accounts of targets.units with their state, so that suspended
    ones are left out.

    Source: Organizations API; only the management account and a delegated administrator may ask.
    """
    named = world.policy.targets.units
    if not named:
        raise NothingToSee(
            "the policy names no targets.units", "nothing to do if you name accounts"
        )
    count = 0
    for unit in named:
        try:
            accounts = list(
                world.all("organizations:ListAccountsForParent", "Accounts", ParentId=unit)
            )
        except CloudError as error:
            if error.code != "ParentNotFoundException":
                raise
            return refuted(f"there is no unit {unit}", "correct targets.units in the policy")
        stateless = []
        for account in accounts:
            if not _has_state(account):
                stateless.append(account["Id"])
        if stateless:
            return refuted(
                f"no state of {', '.join(stateless)}",
                "name accounts in targets.accounts, and report this",
            )
        count += len(accounts)
    return confirmed(f"{count} accounts directly in {len(named)} units, each with its state")


def _has_state(account: Any) -> bool:
    """Return whether an account has a state, by its new name or by its old one."""
    return "State" in account or "Status" in account


def list_prices(world: World) -> Finding:
    """The shipped list prices differ from AWS's by at most 2% (us-east-1, Linux, shared tenancy).

    Source: layers/shared/governor/core/README.md; that these filters leave one price is from other
    projects.
    """
    compared = []
    wrong = []
    for instance_type in _types(world):
        shipped = list_price(instance_type)
        if shipped is None:
            continue
        current = _price(world, instance_type)
        compared.append(instance_type)
        if current is None or abs(current - shipped) > shipped * _RELATIVE:
            wrong.append(f"{instance_type}: {shipped} shipped, {current or 'none'} listed")
    if wrong:
        return refuted(
            "; ".join(wrong), "set prices.usd_per_hour in the policy, also for your discounts"
        )
    return confirmed(
        f"{', '.join(compared)} as shipped on {PRICES_AS_OF}; your discounts are not known here"
    )


def _price(world: World, instance_type: str) -> Decimal | None:
    """Return AWS's list price of the type now, or `None` if it lists none."""
    filters = filters_of(
        _LIST_REGION, instanceType=instance_type, operation=PLAIN_OPERATION, **WANTED
    )
    answer = world.call("pricing:GetProducts", ServiceCode=SERVICE, Filters=filters)
    tenancy = "Dedicated" if instance_type.endswith("metal") else "Shared"
    prices = on_demand(answer["PriceList"], _LIST_REGION)
    return prices.get(key_of(instance_type, PLAIN_OPERATION, tenancy))


def instance_shapes(world: World) -> Finding:
    """EC2 gives each type as many GPUs as the shipped catalog; an instance is idle only if all of
    them are.

    Source: a copy of DescribeInstanceTypes: fractional types have Count 0 and LogicalGpuCount.
    """
    types = [name for name in _types(world) if shape_of(name)]
    try:
        answer = world.call("ec2:DescribeInstanceTypes", InstanceTypes=types)
    except CloudError as error:
        if error.code != "InvalidInstanceType":
            raise
        return unknown(
            f"not all of {', '.join(types)} are in {world.region}", "run it where your GPUs are"
        )
    wrong = []
    for described in answer["InstanceTypes"]:
        name = described["InstanceType"]
        shape = shape_of(name)
        gpus = described.get("GpuInfo", {}).get("Gpus", [])
        if shape is None or not gpus:
            continue
        by_ec2 = _gpu_count(gpus)
        by_catalog = shape.accelerator_count
        if by_ec2 != by_catalog:
            in_catalog = "not known" if by_catalog is None else by_catalog
            wrong.append(f"{name}: {by_ec2} by EC2, {in_catalog} by the catalog")
    if wrong:
        return refuted("; ".join(wrong), "exempt instances of these types, and report this")
    return confirmed(f"{', '.join(types)} as in the catalog")


def _gpu_count(gpus: Any) -> int:
    """Return how many GPUs these are, as EC2 describes them."""
    count = 0
    for gpu in gpus:
        count += gpu["Count"] or gpu.get("LogicalGpuCount", 0)
    return count


def spot_prices(world: World) -> Finding:
    """DescribeSpotPriceHistory, with now as start and end, returns the current price as decimal
    text.

    Source: EC2 API, DescribeSpotPriceHistory; what the saving of a Spot instance is computed from.
    """
    name = _types(world)[0]
    answer = world.call(
        "ec2:DescribeSpotPriceHistory",
        StartTime=world.now,
        EndTime=world.now,
        InstanceTypes=[name],
        ProductDescriptions=["Linux/UNIX"],
    )
    prices = [Decimal(record["SpotPrice"]) for record in answer["SpotPriceHistory"]]
    if not prices:
        return unknown(
            f"EC2 knows no Spot price of {name} here",
            "nothing to do if you run no Spot instances of this type",
        )
    lowest = min(prices)
    if lowest > 0:
        return confirmed(f"{name}: ${lowest:.4f} to ${max(prices):.4f} an hour")
    return refuted(f"{name}: a price of {lowest}", "set prices.usd_per_hour in the policy")


def sessions(world: World) -> Finding:
    """Systems Manager lists open sessions with target and start, so that an instance is kept while
    somebody works on it.

    Source: Systems Manager API; it gives no time of the last key, so old sessions do not count.
    """
    answer = world.call("ssm:DescribeSessions", State="Active", MaxResults=10)
    open_sessions = answer["Sessions"]
    if not open_sessions:
        return unknown("no session is open", "open one to any instance, then run this again")
    if all({"Target", "StartDate"} <= session.keys() for session in open_sessions):
        return confirmed(f"{len(open_sessions)} open, each with target and start")
    return refuted(
        f"fields: {sorted(open_sessions[0])}",
        "do not rely on sessions; use work metrics or exemptions",
    )


def mail(world: World) -> Finding:
    """SES sends to any address, and knows the sender of personal links (EmailSender).

    Source: SES documentation, from memory: in the sandbox SES sends to verified addresses only.
    """
    sender = world.parameters.get("EmailSender", "") if world.is_deployed else ""
    account = world.call("ses:GetAccount")
    if not sender:
        raise NothingToSee(
            "EmailSender is not set: no personal email is sent", "set it if people should get email"
        )
    if not account.get("SendingEnabled"):
        return refuted("SES sends nothing for this account", "open SES in the console: it says why")
    domain = sender.partition("@")[2]
    is_verified = _is_verified(world, sender) or _is_verified(world, domain)
    if not is_verified:
        return refuted(f"neither {sender} nor {domain} is verified", "verify one of them in SES")
    if not account.get("ProductionAccessEnabled"):
        return refuted(
            "SES is in the sandbox", "request production access, or verify every reader's address"
        )
    return confirmed(f"{sender} is verified, and SES is out of the sandbox")


def _is_verified(world: World, identity: str) -> bool:
    try:
        answer = world.call("ses:GetEmailIdentity", EmailIdentity=identity)
    except CloudError as error:
        if error.code == "NotFoundException":
            return False
        raise
    return bool(answer.get("VerifiedForSendingStatus"))


def trail(world: World) -> Finding:
    """A trail records writes to S3 objects, which shows who changed the policy.

    Source: memory: EventBridge gets `AWS API Call via CloudTrail` only where a trail logs it.
    """
    answer = world.call("cloudtrail:DescribeTrails")
    trails = [described["TrailARN"] for described in answer["trailList"]]
    for name in trails:
        if _is_logging_objects(world, name):
            return confirmed(
                f"{printable(name)} logs S3 objects; see that the policy's bucket is among them"
            )
    return unknown(
        f"{len(trails)} trails, none with data events of S3: nobody sees who changes the policy",
        "turn on data events of the policy's bucket (docs/trust.md)",
    )


def _is_logging_objects(world: World, trail_arn: str) -> bool:
    """Return whether a trail of this account and Region records writes to S3 objects."""
    try:
        answer = world.call("cloudtrail:GetEventSelectors", TrailName=trail_arn)
    except CloudError as error:
        if error.code not in _OF_ANOTHER:
            raise
        return False
    selectors = [answer.get("EventSelectors"), answer.get("AdvancedEventSelectors")]
    return "AWS::S3::Object" in json.dumps(selectors, default=str)


def _types(world: World) -> list[str]:
    """Return a few accelerated types that run here; familiar ones if none does."""
    try:
        running = {instance["InstanceType"] for instance in world.instances}
    except NothingToSee:
        return list(_FAMILIAR)
    known = sorted(name for name in running if shape_of(name))
    return known[:_MOST_TYPES] or list(_FAMILIAR)
