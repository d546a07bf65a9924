"""`governor status`: on one screen whether the stack works, and what it waits for. Reads only.

Each line is read by itself, with the caller's credentials. A line that cannot be read says which
action of IAM it needs; nothing is guessed from the others.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, times
from cli.api import Api, check_deployed, find_api, missing
from cli.errors import CommandError
from cli.policy_consent import acceptances_of
from cli.progress import Progress
from cli.times import ago, since
from cli.twins import parameters_of, twins
from cli.unswept import Unswept, unswept
from governor.adapters.clients import Clients
from governor.adapters.messaging import MAIL, lets_questions_through
from governor.adapters.table.dynamodb import DynamoTable
from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.alerts.policy_messages import consent_line
from governor.domain.approvals.messages import readable, step_text
from governor.domain.documents import plain
from governor.domain.episode.episode import Failing
from governor.domain.fleet.rows import FleetPage
from governor.domain.instance import Target
from governor.domain.policy.contacts import Contact, addresses, list_addresses
from governor.domain.policy.policy import KEY_FOR_IAM, Mode, TagMatch
from governor.domain.units import iso, listed, plural, printable, usd
from governor.errors import AccessDenied, GovernorError
from governor.stores import StateTable
from governor.stores.fleet import Fleet
from governor.usecases.accounts import swept

_STALE = timedelta(hours=1)
"""As on the console: a target that was swept longer ago counts as unread."""
_VERSION = re.compile(r"^GPU Governor (\d+\.\d+\.\d+\S*?)[:,]? ")
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_CUT_SHORT = {"Sandbox.Timedout", "Runtime.ExitError", "Runtime.OutOfMemory", "States.Timeout"}
"""Errors of a function that had too little time or memory."""
_SHOWN = 3
_REACH = "set EmailSender or Slack, or let ALERT_EMAIL be an address of theirs: docs/channels.md"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen. `document` is the same for machines; `is_wrong`: somebody should
    look."""

    text: str
    document: Any
    is_wrong: bool = False


@dataclass
class Stack:
    """The stack that several lines are read from, each fact once."""

    name: str
    session: boto3.Session
    now: datetime = field(default_factory=lambda: times.now())  # noqa: PLW0108 - tests say when it is

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The stack as CloudFormation describes it."""
        client = self.session.client("cloudformation")
        found: Mapping[str, Any] = client.describe_stacks(StackName=self.name)["Stacks"][0]
        return found

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """By name."""
        return {one["OutputKey"]: one["OutputValue"] for one in self.described.get("Outputs", ())}

    @cached_property
    def resources(self) -> Sequence[tuple[str, str, str]]:
        """Type, name in the template and physical id of each."""
        pages = self.session.client("cloudformation").get_paginator("list_stack_resources")
        return [
            (one["ResourceType"], one["LogicalResourceId"], one.get("PhysicalResourceId", ""))
            for page in pages.paginate(StackName=self.name)
            for one in page["StackResourceSummaries"]
        ]

    @cached_property
    def api(self) -> Api:
        """The stack's API."""
        return Api(find_api(self.name, self.session), self.session)

    @cached_property
    def policy(self) -> tuple[PolicyBook, str | None]:
        """The policy that counts, and the version of the bucket that it is, if it is one."""
        found = self.api.call("GET", "/api/policy")
        book = parse_policy(found["document"]).accepted_by(acceptances_of(found))
        return book, found["in_force"]

    @cached_property
    def hub(self) -> Target:
        """Return where the stack is."""
        _, _, _, region, account, _ = self.described["StackId"].split(":", 5)
        return Target(account, region)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    areas.add_parser("status").set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the screen; 1 when somebody should look at something, or not all could be read, 0
    otherwise."""
    found = read(Stack(arguments.stack_name, aws.session()))
    if arguments.json:
        print(json.dumps({name: line.document for name, line in found.items()}, indent=2))
    else:
        for name, line in found.items():
            print(f"{title(name):<{_WIDTH}}  {line.text}")
    return int(any(line.is_wrong for line in found.values()))


def read(stack: Stack, names: Sequence[str] = ()) -> dict[str, Line]:
    """The lines of these names, or all of the screen.

    Raises:
        CommandError: none could be read: no such stack, no network, expired credentials.
    """
    found: dict[str, Line] = {}
    with Progress("reading the stack") as progress:
        check(stack)
        for name in names or _LINES:
            progress.show(f"reading {title(name)}")
            found[name] = _line(name, _LINES[name], stack)
    return found


def check(stack: Stack) -> None:
    """Raises: CommandError where no line could be read: no such stack, not ours, expired
    credentials."""
    try:
        check_deployed(stack.described)
    except ClientError as error:
        if "does not exist" in str(error):
            raise CommandError(missing(stack.name, stack.session)) from None
        if not _is_denied(error):
            raise CommandError(aws.reason(error)) from None
    except BotoCoreError as error:
        raise CommandError(aws.reason(error)) from None


def _is_denied(error: ClientError) -> bool:
    return error.response["Error"]["Code"] in _DENIED


def title(name: str) -> str:
    """A line's name, as people read it."""
    return name.replace("_", " ")


def _line(name: str, read: Callable[[Stack], Line], stack: Stack) -> Line:
    """The line, or why there is none."""
    try:
        return read(stack)
    except ClientError as error:
        needs = _NEEDS[name] if _is_denied(error) else None
        why = aws.reason(error)
    except AccessDenied as error:
        needs, why = _NEEDS[name], str(error)
    except (BotoCoreError, GovernorError, CommandError) as error:
        needs, why = None, aws.reason(error)
    text = f"not readable: needs {needs}" if needs else f"not readable: {printable(why)}"
    return Line(text, {"not_readable": printable(why), "needs": needs}, is_wrong=True)


def _stack(stack: Stack) -> Line:
    found = stack.described
    version = _VERSION.match(found.get("Description", ""))
    at = found.get("LastUpdatedTime") or found["CreationTime"]
    document = {
        "name": stack.name,
        "version": version[1] if version else None,
        "status": found["StackStatus"],
        "updated_at": iso(at),
    }
    which = f"version {version[1]}" if version else "unknown version"
    text = f"{which} in {stack.hub}, {found['StackStatus']} {ago(at, stack.now)}"
    return Line(
        text,
        document,
        is_wrong="FAILED" in found["StackStatus"] or "ROLLBACK" in found["StackStatus"],
    )


def _mode(stack: Stack) -> Line:
    mode = stack.policy[0].base().policy.mode.value
    return Line(mode, mode)


def _policy(stack: Stack) -> Line:
    book, in_force = stack.policy
    version = book.base().version
    source = (
        f"stored as {in_force}" if in_force else "the parameters Mode and PolicyYaml of the stack"
    )
    waiting = book.unaccepted()
    said = [f"version {version}, {source}", *(printable(consent_line(one)) for one in waiting)]
    if waiting and not in_force:
        said.append("nobody can accept a parameter: store it with `governor policy put`")
    document = {
        "version": version,
        "in_force": in_force,
        "unaccepted": [{"override": one.name, "missing": list(one.missing)} for one in waiting],
    }
    return Line("; ".join(one.removesuffix(".") for one in said), document, is_wrong=bool(waiting))


def _schedule(stack: Stack) -> Line:
    client = stack.session.client("scheduler")
    name = next(ident for _, logical, ident in stack.resources if logical == "SweepSchedule")
    found = client.get_schedule(Name=name)
    is_on, rate = found["State"] == "ENABLED", found["ScheduleExpression"]
    document = {"state": found["State"], "expression": rate}
    text = (
        f"{rate}, enabled"
        if is_on
        else f"{rate}, disabled: nothing is swept until somebody enables it"
    )
    return Line(text, document, is_wrong=not is_on)


def _last_sweep(stack: Stack) -> Line:
    machine = stack.outputs["SweepStateMachineArn"]
    client = stack.session.client("stepfunctions")
    listed = client.list_executions(stateMachineArn=machine, maxResults=20)["executions"]
    known = (client.describe_execution(executionArn=one["executionArn"]) for one in listed)
    # A look at GPU health is an execution of the same machine.
    sweeps = (one for one in known if json.loads(one["input"]).get("check", "sweep") == "sweep")
    ended = next((one for one in sweeps if one["status"] != "RUNNING"), None)
    if ended is None:
        said = (
            "none has ended yet: wait for the schedule's next one, and look again ten minutes later"
        )
        return Line(said, None, is_wrong=True)
    succeeded = ended["status"] == "SUCCEEDED"
    why = ended.get("cause") or "its execution history says why"
    said = "succeeded" if succeeded else f"{ended['status'].lower()}; {printable(_message(why))}"
    document = {
        "status": ended["status"],
        "ended_at": iso(ended["stopDate"]),
        "arn": ended["executionArn"],
    }
    return Line(f"{ago(ended['stopDate'], stack.now)}: {said}", document, is_wrong=not succeeded)


def _message(cause: str) -> str:
    """Return the message of a function's error, as Step Functions writes it; else the cause as it
    is."""
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause


def _targets(stack: Stack) -> Line:
    """Those of the policy: with what the last sweep of each left for the console."""
    table = DynamoTable(Clients(), stack.outputs["StateTableName"])
    pages = {page.target: page for page in Fleet(table).pages()}
    book, _ = stack.policy
    if (named := book.base().policy.targets).units:
        if (accounts := StateTable(table).accounts_of(named)) is None:
            return Line("the accounts of targets.units are not known yet", None, is_wrong=True)
        book.in_accounts(accounts)
    targets = swept(book.base().policy, stack.hub)
    failed = unswept(table)
    why = {str(one): _unread(pages.get(one), failed.get(one), stack.now) for one in targets}
    unread = {name: text for name, text in why.items() if text}
    said = "; ".join(f"{name}: {printable(text)}" for name, text in list(unread.items())[:_SHOWN])
    more = f"; and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else ""
    text = (
        f"{len(targets) - len(unread)} of {len(targets)} "
        f"read{f'; unread: {said}{more}' if unread else ''}"
    )
    return Line(text, {"targets": len(targets), "unread": unread}, is_wrong=bool(unread))


def _unread(page: FleetPage | None, failed: Unswept | None, now: datetime) -> str | None:
    if failed is not None and (page is None or page.swept_at < failed.at):
        todo = "; if it repeats, raise SweepMemoryMegabytes" if failed.error in _CUT_SHORT else ""
        why = ": ".join(filter(None, (failed.error, _message(failed.cause))))
        return f"not swept {ago(failed.at, now)}: {why}{todo}"
    if page is None:
        return "not swept yet, wait for the next sweep"
    if now - page.swept_at > _STALE:
        return f"last swept {ago(page.swept_at, now)}"
    return page.problem


def _questions(stack: Stack) -> Line:
    listed = stack.api.call("GET", "/api/approvals")["questions"]
    found = [one for one in listed if not (one.get("can_hold") or one.get("can_hold_late"))]
    prices = [Decimal(one["usd_per_day"]) for one in found if one["usd_per_day"] is not None]
    document = {
        "open": len(found),
        "usd_per_day": plain(sum(prices, Decimal())),
        "without_price": len(found) - len(prices),
    }
    if not found:
        return Line("none is open", document)
    unknown = f", {len(found) - len(prices)} without a price" if len(prices) < len(found) else ""
    return Line(f"{len(found)} open: {usd(sum(prices, Decimal()))} a day{unknown}", document)


def _subscribers(stack: Stack) -> Line:
    """Return who would get an alert; the channels of the policy's contacts count where they have
    been filled in."""
    pages = stack.session.client("sns").get_paginator("list_subscriptions_by_topic")
    topic = stack.outputs["AlertTopicArn"]
    found = [one for page in pages.paginate(TopicArn=topic) for one in page["Subscriptions"]]
    people = [
        one["SubscriptionArn"].startswith("arn:") for one in found if one["Protocol"] != "sqs"
    ]
    confirmed, waiting = people.count(True), people.count(False)
    document: dict[str, Any] = {"confirmed": confirmed, "waiting": waiting}
    waits = f"{waiting} wait to be confirmed" if waiting else ""
    has_mail, has_channels = (
        bool(parameters_of(stack.described).get("EmailSender")),
        _has_channels(stack),
    )
    if not confirmed and not has_mail and not has_channels:
        nobody = "no subscription of the alert topic is confirmed"
        advice = (
            "confirm the mail of AWS Notifications"
            if waiting
            else "run `make deploy ALERT_EMAIL=...`"
        )
        return Line("; ".join(filter(None, [nobody, waits, advice])), document, is_wrong=True)
    mails = [
        one
        for one in found
        if one["Protocol"] in MAIL and one["SubscriptionArn"].startswith("arn:")
    ]
    mailed = {
        one["Endpoint"].lower() for one in mails if _gets_questions(stack, one["SubscriptionArn"])
    }
    contacts = stack.policy[0].base().policy.ownership.contacts
    unreached = document["unreached"] = [
        name for name, one in contacts.items() if not _reached(one, mailed, has_mail, has_channels)
    ]
    by = "get mail by SES" if has_mail else "have channels"
    said = [f"{confirmed} confirmed", waits] if confirmed else ["none of the alert topic"]
    also = "" if confirmed or unreached else f"contacts of the policy {by}"
    names = f"nothing reaches the contacts {', '.join(unreached)} ({_REACH})" if unreached else ""
    text = "; ".join(filter(None, [", ".join(filter(None, said)), also, names]))
    asks = stack.policy[0].base().policy.mode is not Mode.OBSERVE
    return Line(text, document, is_wrong=bool(unreached) and asks)


def _gets_questions(stack: Stack, arn: str) -> bool:
    """Return whether its filter policy, if it has one, lets every question through."""
    found = stack.session.client("sns").get_subscription_attributes(SubscriptionArn=arn)[
        "Attributes"
    ]
    return lets_questions_through(found.get("FilterPolicy"))


def _reached(contact: Contact, mailed: Set[str], has_mail: bool, has_channels: bool) -> bool:
    """Return whether questions about their instances reach them: a channel of everybody counts only
    for contacts for whom the policy names no way of their own (docs/channels.md)."""
    known = {*addresses([contact]), *list_addresses([contact])}
    own = contact.slack_channel or not contact.has_own_channel
    return bool(
        (has_mail and known) or (has_channels and own) or {one.lower() for one in known} & mailed
    )


def _has_channels(stack: Stack) -> bool:
    """Return whether somebody has filled the secret of channels in: then it has two versions. Reads
    no value."""
    secret = next(ident for _, name, ident in stack.resources if name == "ChannelSecret")
    found = stack.session.client("secretsmanager").describe_secret(SecretId=secret)
    return len(found.get("VersionIdsToStages", {})) > 1


def _failing(stack: Stack) -> Line:
    """Instances whose last workflow failed, as the console's Overview has them: one text for each
    cause."""
    table = DynamoTable(Clients(), stack.outputs["StateTableName"])
    causes: dict[str, list[Failing]] = {}
    for one in sorted(StateTable(table).failing(), key=lambda one: one.at, reverse=True):
        if one.over_at is None:
            causes.setdefault(one.cause, []).append(one)
    said = [
        f"could not {step_text(found[0].step)} "
        f"{listed([one.name or one.instance_id for one in found], 3)}: "
        f"{readable(found[0].reason)}"
        for found in causes.values()
    ]
    more = [f"and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    document = [
        {"instance_id": one.instance_id, "step": one.step, "reason": one.reason, "at": iso(one.at)}
        for found in causes.values()
        for one in found
    ]
    return Line(
        printable("; ".join([*said[:_SHOWN], *more])) or "none", document, is_wrong=bool(said)
    )


def _freezes(stack: Stack) -> Line:
    found = stack.api.call("GET", "/api/freezes")
    said = [
        f"{one['what']}{_since(one['since'])}: {printable(one['why'])}" for one in found["freezes"]
    ]
    waiting = len(found["waiting"])
    steps = f"{plural(waiting, 'step')} waiting (`governor freezes`)" if waiting else ""
    text = "; ".join(filter(None, [*said, steps]))
    document = {"freezes": found["freezes"], "waiting": waiting}
    return Line(text or "none", document, is_wrong=bool(text))


def _undelivered(stack: Stack) -> Line:
    """Return what waits in the stack's dead-letter queues."""
    client: Any = stack.session.client("sqs")
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    counts: dict[str, int] = {}
    for kind, name, url in stack.resources:
        if kind == "AWS::SQS::Queue" and name.endswith("Failures"):
            found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
            counts[name] = sum(int(found[one]) for one in names)
    said = ", ".join(f"{count} in {name}" for name, count in counts.items() if count)
    return Line(f"{said} (docs/events.md)" if said else "none", counts, is_wrong=bool(said))


def _alarms(stack: Stack) -> Line:
    own = {ident: name for kind, name, ident in stack.resources if kind == "AWS::CloudWatch::Alarm"}
    pages = stack.session.client("cloudwatch").get_paginator("describe_alarms")
    names = list(own)
    found = [
        {"alarm": own[one["AlarmName"]], "says": one.get("AlarmDescription", "")}
        for start in range(0, len(names), 100)
        for page in pages.paginate(AlarmNames=names[start : start + 100], StateValue="ALARM")
        for one in page["MetricAlarms"]
    ]
    said = "; ".join(f"{one['alarm']}: {printable(one['says'])}" for one in found)
    return Line(said or f"none of {len(own)}", found, is_wrong=bool(found))


def _safeguards(stack: Stack) -> Line:
    """That the state table is protected, and that no other stack acts on the same instances."""
    parameters = parameters_of(stack.described)
    is_protected = parameters.get("DeletionProtection") == "true"
    selector = parameters.get("SelectorTagValue", "")
    pages = stack.session.client("cloudformation").get_paginator("describe_stacks").paginate()
    others = twins((one for page in pages for one in page["Stacks"]), stack.name, selector)
    said = [
        f"the stack {name} governs Purpose={printable(selector)}, too: remove one"
        for name in others
    ]
    if not is_protected:
        said.append("the state table is not protected against deletion: run `make deploy`")
    document = {"state_table_protected": is_protected, "stacks_over_the_same_instances": others}
    text = (
        "; ".join(said)
        or "the state table is protected; no other stack governs the same instances here"
    )
    return Line(text, document, is_wrong=bool(said))


def _exemption(stack: Stack) -> Line:
    """Compare the key by which IAM denies with those of the policy: IAM takes one exact key, the
    stack's."""
    denied = parameters_of(stack.described).get("ExemptionTagKey")
    book = stack.policy[0]
    key = book.base().policy.exemption.tag_key
    of_overrides = sorted({policy.exemption.tag_key for policy in book.variants} - {key})
    document = {"iam": denied, "policy": key, "overrides": of_overrides}
    if denied is None:
        text = (
            "the stack is of an earlier release, whose IAM does not protect exempt instances: "
            "run `make deploy`"
        )
        return Line(text, document, is_wrong=True)
    if not TagMatch.is_key_for_iam(key):
        text = (
            f"the policy exempts by the key {key}, which ExemptionTagKey cannot be: IAM "
            f"denies by {denied} "
            f"alone. Choose a key of {KEY_FOR_IAM}"
        )
        return Line(printable(text), document, is_wrong=True)
    if denied != key:
        text = (
            f"the policy exempts by the key {key}, and IAM denies by {denied} alone: run "
            f'`make deploy PARAMETERS="ExemptionTagKey={key}"`, and set it in the member stacks'
        )
        return Line(printable(text), document, is_wrong=True)
    if of_overrides:
        text = (
            f"overrides exempt by the key {', '.join(of_overrides)}, which IAM does not "
            "see: it denies by "
            f"{denied} alone. Use one key in the whole policy"
        )
        return Line(printable(text), document, is_wrong=True)
    text = f"IAM denies stops and terminations of instances with the tag key {denied}"
    targets = book.base().policy.targets
    other_accounts = set(targets.accounts) - {stack.hub.account}
    if other_accounts or targets.units:
        text += (
            "; that of the member stacks is not read from here: compare their ExemptionTagKey "
            "(docs/accounts.md)"
        )
    return Line(printable(text), document)


def _since(moment: str | None) -> str:
    """Nothing where no sweep has said since when."""
    return f", frozen {since(moment)}" if moment else " frozen"


_LINES: Mapping[str, Callable[[Stack], Line]] = {
    "stack": _stack,
    "mode": _mode,
    "policy": _policy,
    "schedule": _schedule,
    "last_sweep": _last_sweep,
    "targets": _targets,
    "subscribers": _subscribers,
    "questions": _questions,
    "failing": _failing,
    "freezes": _freezes,
    "undelivered": _undelivered,
    "alarms": _alarms,
    "safeguards": _safeguards,
    "exemption": _exemption,
}
_API = "execute-api:Invoke on the stack's API, and cloudformation:DescribeStacks"
_NEEDS: Mapping[str, str] = {
    "stack": "cloudformation:DescribeStacks",
    "mode": _API,
    "policy": _API,
    "schedule": "cloudformation:ListStackResources, and scheduler:GetSchedule on the "
    "sweep's schedule",
    "last_sweep": "states:ListExecutions, states:DescribeExecution and "
    "cloudformation:DescribeStacks",
    "targets": "dynamodb:Query, dynamodb:GetItem, kms:Decrypt with the table's key, and "
    "what policy needs",
    "subscribers": "sns:ListSubscriptionsByTopic on the alert topic, "
    "sns:GetSubscriptionAttributes, "
    "secretsmanager:DescribeSecret on ChannelSecret, and what policy needs",
    "questions": _API,
    "failing": "dynamodb:Query on the state table, and kms:Decrypt with its key",
    "freezes": _API,
    "undelivered": "cloudformation:ListStackResources, and sqs:GetQueueAttributes on its queues",
    "alarms": "cloudformation:ListStackResources, and cloudwatch:DescribeAlarms",
    "safeguards": "cloudformation:DescribeStacks on all stacks",
    "exemption": _API,
}
"""The reader of each line."""
_WIDTH = max(map(len, _LINES))
