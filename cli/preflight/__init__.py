"""`governor preflight`: check that AWS behaves, in this account, as the product needs it.

It reads and makes dry runs, and changes nothing. These are things that could not be tried where the
product was written. Before a deploy, the checks of the account and of instances run; after it,
those of the stack, too. docs/preflight.md lists them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence

from botocore.exceptions import BotoCoreError

from cli import aws
from cli.errors import CommandError
from cli.nearest import nearest
from cli.preflight import account, deployed, fleet, rights
from cli.preflight.world import (
    LONGEST,
    Check,
    Finding,
    Needs,
    NothingToSee,
    Outcome,
    World,
    denied,
    unknown,
)
from cli.progress import Progress
from cli.tables import Column, print_table, print_text
from governor.core.errors import AccessDenied, GovernorError
from governor.core.units import printable

CHECKS: Sequence[Check] = (
    Check("credentials", Needs.NOTHING, account.credentials),
    Check("clock", Needs.NOTHING, account.clock),
    Check("regions", Needs.NOTHING, account.regions),
    Check("lambda-concurrency", Needs.NOTHING, account.lambda_concurrency),
    Check("metric-quota", Needs.NOTHING, account.metric_quota),
    Check("missing-metric", Needs.NOTHING, account.missing_metric),
    Check("organization", Needs.NOTHING, account.organization),
    Check("units", Needs.NOTHING, account.units),
    Check("list-prices", Needs.NOTHING, account.list_prices),
    Check("instance-shapes", Needs.NOTHING, account.instance_shapes),
    Check("spot-prices", Needs.NOTHING, account.spot_prices),
    Check("sessions", Needs.NOTHING, account.sessions),
    Check("trail", Needs.NOTHING, account.trail),
    Check("iam-stop", Needs.NOTHING, rights.stop_by_tag),
    Check("iam-own-rights", Needs.NOTHING, rights.no_right_of_its_own),
    Check("iam-snapshots", Needs.NOTHING, rights.snapshots_by_tag),
    Check("iam-snapshot-tags", Needs.NOTHING, rights.snapshot_tags),
    Check("iam-tag-keys", Needs.NOTHING, rights.tag_keys),
    Check("iam-leading-keys", Needs.NOTHING, rights.leading_keys),
    Check("iam-command", Needs.NOTHING, rights.command_by_tag),
    Check("iam-namespace", Needs.NOTHING, rights.bound_namespace),
    Check("unknown-instance", Needs.NOTHING, fleet.unknown_instance),
    Check("managed-instances", Needs.NOTHING, fleet.managed_instances),
    Check("agent-metrics", Needs.INSTANCES, fleet.agent_metrics),
    Check("gpu-metric-delay", Needs.INSTANCES, fleet.gpu_metric_delay),
    Check("ec2-metric-delay", Needs.INSTANCES, fleet.ec2_metric_delay),
    Check("gpu-power", Needs.INSTANCES, fleet.gpu_power),
    Check("dry-runs", Needs.INSTANCES, fleet.dry_runs),
    Check("lifecycles", Needs.INSTANCES, fleet.lifecycles),
    Check("group-tags", Needs.INSTANCES, fleet.group_tags),
    Check("spot-requests", Needs.INSTANCES, fleet.spot_requests),
    Check("volume-keys", Needs.INSTANCES, fleet.volume_keys),
    Check("snapshot-keys", Needs.STACK, fleet.snapshot_keys),
    Check("mail", Needs.STACK, account.mail),
    Check("subscriptions", Needs.STACK, deployed.subscriptions),
    Check("role-names", Needs.STACK, deployed.role_names),
    Check("role-policies", Needs.STACK, deployed.role_policies),
    Check("drift", Needs.STACK, deployed.drift),
    Check("buckets", Needs.STACK, deployed.buckets),
    Check("table", Needs.STACK, deployed.table),
    Check("keys", Needs.STACK, deployed.keys),
    Check("state-machines", Needs.STACK, deployed.state_machines),
    Check("api-throttles", Needs.STACK, deployed.api_throttles),
    Check("api-signatures", Needs.STACK, deployed.api_signatures),
    Check("mappings", Needs.STACK, deployed.mappings),
    Check("reserved-concurrency", Needs.STACK, deployed.reserved_concurrency),
    Check("link-keys", Needs.STACK, deployed.link_keys),
    Check("alarm-actions", Needs.STACK, deployed.alarm_actions),
    Check("event-delivery", Needs.STACK, deployed.event_delivery),
    Check("session-names", Needs.STACK, deployed.session_names),
    Check("checkpoint-document", Needs.STACK, deployed.checkpoint_document),
)
_COLUMNS = (Column(), Column(wraps=True))


def run(arguments: argparse.Namespace) -> int:
    """Print the finding of each check. Return 1 when something is refuted, 0 otherwise."""
    checks = _chosen(arguments.only)
    if arguments.list:
        _print_checks(checks, as_json=arguments.json)
        return 0
    world = World(arguments.stack_name, aws.session())
    findings: list[tuple[Check, Finding]] = []
    with Progress("reading the account") as progress:
        _check_credentials(world)
        for number, check in enumerate(checks, 1):
            progress.show(f"{check.name} ({number} of {len(checks)})")
            findings.append((check, look(check, world)))
    if arguments.json:
        documents = [_document(check, finding) for check, finding in findings]
        print(json.dumps(documents, indent=2))
    else:
        _print(findings, world.imitation)
    return int(any(finding.outcome is Outcome.REFUTED for _, finding in findings))


def look(check: Check, world: World) -> Finding:
    """Return the finding of a check.

    It never fails: a check that cannot be made is `unknown`, with what to do about that.
    """
    if world.clock() - world.now > LONGEST:
        return unknown(
            "not started: the 15 minutes are over", f"governor preflight --only {check.name}"
        )
    try:
        # Reading them raises NothingToSee where there are none.
        if check.needs is Needs.STACK:
            assert world.stack
        if check.needs is Needs.INSTANCES:
            assert world.instances
        return _of_aws(check.look(world), world)
    except NothingToSee as error:
        return unknown(str(error), error.advice)
    except AccessDenied as error:
        return denied(error)
    except (GovernorError, BotoCoreError) as error:
        return _failed(printable(str(error)), world)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {printable(str(error))}"
        return unknown(f"AWS answered in a form that is not known ({problem})", "report this")


def _failed(reason: str, world: World) -> Finding:
    """Return the finding of a check whose call failed. An imitation of AWS fails at calls that it
    does not know, and would do so again."""
    if world.imitation:
        return unknown(
            f"the {world.imitation} does not imitate this: {reason}", "run it in an AWS account"
        )
    return unknown(f"AWS could not be asked: {reason}", "run it again; look at the reason")


def _of_aws(finding: Finding, world: World) -> Finding:
    """Return the finding; `unknown` where an imitation of AWS refutes it: that says nothing of
    AWS."""
    if finding.outcome is not Outcome.REFUTED or not world.imitation:
        return finding
    return unknown(
        f"the {world.imitation} answers in place of AWS: {finding.seen}", "run it in an AWS account"
    )


def _check_credentials(world: World) -> None:
    """Check that AWS answers at all.

    Raises:
        CommandError: it does not: no network, expired credentials.
    """
    try:
        assert world.caller
    except (GovernorError, BotoCoreError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise CommandError(aws.reason(cause)) from None


def _chosen(names: Sequence[str] | None) -> Sequence[Check]:
    """Return the checks of these names, or all checks if none is named.

    Raises:
        CommandError: there is no check of such a name.
    """
    if not names:
        return CHECKS
    known = [check.name for check in CHECKS]
    for name in names:
        if name not in known:
            raise CommandError(f"there is no check {name!r}{nearest(name, known)}; --list has all")
    return [check for check in CHECKS if check.name in names]


def _print_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        documents = [_claim_document(check) for check in checks]
        print(json.dumps(documents, indent=2))
        return
    for check in checks:
        print_text(f"{check.name} (needs {check.needs}): {check.claim}")


def _claim_document(check: Check) -> dict[str, str | None]:
    return {"check": check.name, "needs": check.needs, "claim": check.claim}


def _document(check: Check, finding: Finding) -> dict[str, str | None]:
    return {
        **_claim_document(check),
        "outcome": finding.outcome,
        "seen": finding.seen,
        "advice": finding.advice or None,
    }


def _print(findings: Sequence[tuple[Check, Finding]], imitation: str) -> None:
    """Print the findings, and what answered if it was not AWS."""
    if imitation:
        print_text(f"environment: {imitation}")
    rows = []
    for check, finding in findings:
        rows.append((finding.outcome.value, f"{check.name}: {check.claim}"))
        rows.append(("", f"seen: {finding.seen}"))
        if finding.advice:
            rows.append(("", f"-> {finding.advice}"))
    print_table(_COLUMNS, rows)
    counts = Counter(finding.outcome for _, finding in findings)
    print_text(", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome))
