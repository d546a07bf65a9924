"""`governor status`: one screen that says if the stack works, and what it waits for. Reads only.

Each line is read by itself, with the caller's credentials. A line that cannot be read says which
action of IAM it needs; nothing is guessed from the others.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, times
from cli.api import Api, check_deployed, find_api, missing
from cli.errors import CommandError
from cli.other_stacks import parameters_of, stacks_over_same_instances
from cli.policy_consent import acceptances_of
from cli.progress import Progress
from cli.tables import Column, print_table
from cli.times import ago, since
from governor.approvals.messages.failures import readable_failure, step_text
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.aws.messaging import MAIL, lets_questions_through
from governor.core.documents import plain
from governor.core.errors import AccessDenied, GovernorError
from governor.core.instance import Target
from governor.core.units import (
    in_parts,
    in_utc,
    iso,
    listed,
    plural,
    printable,
    sentence,
    usd,
)
from governor.episode.model.episode import Failing
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import WORDS
from governor.episode.store.instances import Failures, Troubles
from governor.fleet.model import FleetPage
from governor.fleet.store import Fleet
from governor.fleet.unswept import Unswept, unswept
from governor.policy.accounts import swept_targets
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.messages import consent_line
from governor.policy.model.contacts import Contact, addresses, list_addresses
from governor.policy.model.names import KEY_FOR_IAM, TagMatch
from governor.policy.model.policy import Mode
from governor.policy.store import PolicyVersions

_NEVER = datetime.min.replace(tzinfo=UTC)
_STALE = timedelta(hours=1)
"""As on the console: a target that was swept longer ago counts as unread."""
_VERSION = re.compile(r"^GPU Governor (\d+\.\d+\.\d+\S*?)[:,]? ")
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_CUT_SHORT = {"Sandbox.Timedout", "Runtime.ExitError", "Runtime.OutOfMemory", "States.Timeout"}
"""Errors of a function that had too little time or memory."""
IMITATION = "x-imitates-aws"
"""The header of answers by which an emulator of AWS names itself."""
_ENVIRONMENT = "Environment"
"""The key of the tag by which a stack names its environment, such as `production`."""
_DISPLAY_NAME = "DisplayName"
_SHOWN = 3
"""Problems of one line that are shown; the others are counted."""
_ALARMS_AT_ONCE = 100
"""Alarm names of one call. Source: CloudWatch API, DescribeAlarms."""
_REACH = "set EmailSender or Slack, or let ALERT_EMAIL be an address of theirs: docs/channels.md"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen.

    `document` is the same for machines. `is_wrong`: somebody should look at it.
    """

    text: str
    document: Any
    is_wrong: bool = False


@dataclass
class Stack:
    """The stack that several lines are read from. Each fact is read once."""

    name: str
    session: boto3.Session
    # A lambda, as tests replace `times.now` after this class was made.
    now: datetime = field(default_factory=lambda: times.now())  # noqa: PLW0108
    imitation: str = ""

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The stack as CloudFormation describes it."""
        client = self.session.client("cloudformation")
        answer: Any = client.describe_stacks(StackName=self.name)
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self.imitation = headers.get(IMITATION, "")
        description: Mapping[str, Any] = answer["Stacks"][0]
        return description

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs by name."""
        outputs = self.described.get("Outputs", ())
        return {output["OutputKey"]: output["OutputValue"] for output in outputs}

    @property
    def environment(self) -> str:
        """The name of an emulator, where one answers in place of AWS; else the stack's parameter
        `DisplayName`, which its pages show; else the value of its tag `Environment`. An empty text
        where there is none of them."""
        if self.imitation:
            return self.imitation
        for parameter in self.described.get("Parameters", ()):
            if parameter["ParameterKey"] == _DISPLAY_NAME and parameter["ParameterValue"]:
                return str(parameter["ParameterValue"])
        for tag in self.described.get("Tags", ()):
            if tag["Key"] == _ENVIRONMENT:
                return str(tag["Value"])
        return ""

    @cached_property
    def resources(self) -> Sequence[tuple[str, str, str]]:
        """Type, name in the template and physical id of each resource."""
        paginator = self.session.client("cloudformation").get_paginator("list_stack_resources")
        resources = []
        for page in paginator.paginate(StackName=self.name):
            for summary in page["StackResourceSummaries"]:
                kind = summary["ResourceType"]
                physical_id = summary.get("PhysicalResourceId", "")
                resources.append((kind, summary["LogicalResourceId"], physical_id))
        return resources

    @cached_property
    def table(self) -> DynamoTable:
        """The stack's state table."""
        return DynamoTable(Clients(), self.outputs["StateTableName"])

    @cached_property
    def troubles(self) -> Troubles:
        """The failures of workflows and the standing states of all targets."""
        return Failures(self.table).failing_and_standing()

    @cached_property
    def api(self) -> Api:
        """The stack's API."""
        return Api(find_api(self.name, self.session), self.session)

    @cached_property
    def policy(self) -> tuple[PolicyBook, str | None]:
        """The policy in force, and its version in the bucket, or `None` if the bucket has none."""
        answer = self.api.call("GET", "/api/policy")
        book = parse_policy(answer["document"]).apply_acceptances(acceptances_of(answer))
        return book, answer["in_force"]

    @cached_property
    def hub(self) -> Target:
        """The account and Region of the stack."""
        _, _, _, region, account, _ = self.described["StackId"].split(":", 5)
        return Target(account, region)


def run(arguments: argparse.Namespace) -> int:
    """Print the screen.

    Return 1 when somebody should look at something, or not all could be read; 0 otherwise.
    """
    lines = read(Stack(arguments.stack_name, aws.session()))
    if arguments.json:
        documents = {name: line.document for name, line in lines.items()}
        print(json.dumps(documents, indent=2))
    else:
        print_table(_COLUMNS, [(title(name), line.text) for name, line in lines.items()])
    return int(any(line.is_wrong for line in lines.values()))


def read(stack: Stack, names: Sequence[str] = ()) -> dict[str, Line]:
    """Return the lines of these names, or all of the screen where none is named.

    Raises:
        CommandError: none could be read: no such stack, no network, expired credentials.
    """
    lines: dict[str, Line] = {}
    with Progress("reading the stack") as progress:
        check(stack)
        for name in names or _LINES:
            progress.show(f"reading {title(name)}")
            lines[name] = _line(name, _LINES[name], stack)
    return lines


def check(stack: Stack) -> None:
    """Check that lines can be read at all.

    Raises:
        CommandError: none can: no such stack, not ours, expired credentials.
    """
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
    """Return a line's name, as people read it."""
    return name.replace("_", " ")


def _line(name: str, read: Callable[[Stack], Line], stack: Stack) -> Line:
    """Return the line, or one that says why it could not be read."""
    try:
        return read(stack)
    except ClientError as error:
        needed_rights = _NEEDS[name] if _is_denied(error) else None
        return _unreadable(aws.reason(error), needed_rights)
    except AccessDenied as error:
        return _unreadable(str(error), _NEEDS[name])
    except (BotoCoreError, GovernorError, CommandError) as error:
        return _unreadable(aws.reason(error), None)


def _unreadable(why: str, needed_rights: str | None) -> Line:
    document = {"not_readable": printable(why), "needs": needed_rights}
    if needed_rights:
        return Line(f"not readable: needs {needed_rights}", document, is_wrong=True)
    return Line(f"not readable: {printable(why)}", document, is_wrong=True)


def _stack(stack: Stack) -> Line:
    description = stack.described
    state = description["StackStatus"]
    updated_at = description.get("LastUpdatedTime") or description["CreationTime"]
    match = _VERSION.match(description.get("Description", ""))
    version = match[1] if match else None
    document = {
        "name": stack.name,
        "version": version,
        "status": state,
        "updated_at": iso(updated_at),
    }
    release = f"version {version}" if version else "unknown version"
    environment = stack.environment
    if environment:
        document["environment"] = environment
    where = f"{stack.hub} ({printable(environment)})" if environment else str(stack.hub)
    text = f"{release} in {where}, {state} {ago(updated_at, stack.now)}"
    return Line(text, document, is_wrong="FAILED" in state or "ROLLBACK" in state)


def _mode(stack: Stack) -> Line:
    book, _ = stack.policy
    mode = book.base().policy.mode.value
    return Line(mode, mode)


def _policy(stack: Stack) -> Line:
    book, in_force = stack.policy
    version = book.base().version
    source = "the parameters Mode and PolicyYaml of the stack"
    if in_force:
        source = f"stored as {in_force}"
    unaccepted = book.unaccepted()
    sentences = [f"version {version}, {source}"]
    missing_consents = []
    for override in unaccepted:
        sentences.append(printable(consent_line(override)).removesuffix("."))
        missing_consents.append({"override": override.name, "missing": list(override.missing)})
    if unaccepted and not in_force:
        sentences.append("nobody can accept a parameter: store it with `governor policy put`")
    document = {"version": version, "in_force": in_force, "unaccepted": missing_consents}
    return Line("; ".join(sentences), document, is_wrong=bool(unaccepted))


def _schedule(stack: Stack) -> Line:
    client = stack.session.client("scheduler")
    schedule = client.get_schedule(Name=_physical_id(stack, "SweepSchedule"))
    state = schedule["State"]
    rate = schedule["ScheduleExpression"]
    document = {"state": state, "expression": rate}
    if state == "ENABLED":
        return Line(f"{rate}, enabled", document)
    text = f"{rate}, disabled: nothing is swept until somebody enables it"
    return Line(text, document, is_wrong=True)


def _physical_id(stack: Stack, name: str) -> str:
    """Return the physical id of the resource that has this name in the template."""
    return next(physical_id for _, logical, physical_id in stack.resources if logical == name)


def _last_sweep(stack: Stack) -> Line:
    execution = _last_ended_sweep(stack)
    if execution is None:
        text = (
            "none has ended yet: wait for the schedule's next one, and look again ten minutes later"
        )
        return Line(text, None, is_wrong=True)
    state = execution["status"]
    ended_at = execution["stopDate"]
    has_succeeded = state == "SUCCEEDED"
    if has_succeeded:
        outcome = "succeeded"
    else:
        why = execution.get("cause") or "its execution history says why"
        outcome = f"{state.lower()}; {printable(_message(why))}"
    document = {"status": state, "ended_at": iso(ended_at), "arn": execution["executionArn"]}
    text = f"{ago(ended_at, stack.now)}: {outcome}"
    return Line(text, document, is_wrong=not has_succeeded)


def _last_ended_sweep(stack: Stack) -> Mapping[str, Any] | None:
    """Return the newest execution that was a sweep and has ended, or `None`."""
    machine = stack.outputs["SweepStateMachineArn"]
    client = stack.session.client("stepfunctions")
    executions = client.list_executions(stateMachineArn=machine, maxResults=20)["executions"]
    for summary in executions:
        execution: Mapping[str, Any] = client.describe_execution(
            executionArn=summary["executionArn"]
        )
        # A check of GPU health is an execution of the same machine.
        is_sweep = json.loads(execution["input"]).get("check", "sweep") == "sweep"
        if is_sweep and execution["status"] != "RUNNING":
            return execution
    return None


def _message(cause: str) -> str:
    """Return the message of a function's error, as Step Functions writes it.

    A cause that is no such error comes back as it is.
    """
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause


def _targets(stack: Stack) -> Line:
    """Describe the policy's targets by what the last sweep of each left for the console."""
    table = stack.table
    page_by_target = {page.target: page for page in Fleet(table).pages()}
    book, _ = stack.policy
    named_targets = book.base().policy.targets
    if named_targets.units:
        accounts = PolicyVersions(table).accounts_of(named_targets)
        if accounts is None:
            return Line("the accounts of targets.units are not known yet", None, is_wrong=True)
        book.add_accounts(accounts)
    targets = swept_targets(book.base().policy, stack.hub)
    failures = unswept(table)
    states = _states_of_targets(stack.troubles.standing)
    unread: dict[str, str] = {}
    for target in targets:
        page = page_by_target.get(target)
        problem = _unread(page, failures.get(target), states.get(target), stack.now)
        if problem:
            unread[str(target)] = problem
    text = f"{len(targets) - len(unread)} of {len(targets)} read"
    if unread:
        problems = [f"{name}: {printable(why)}" for name, why in unread.items()]
        text += f"; unread: {'; '.join(_first(problems))}"
    return Line(text, {"targets": len(targets), "unread": unread}, is_wrong=bool(unread))


def _states(stack: Stack) -> Line:
    """Describe the states that last until a person changes something, and what to do about each
    kind."""
    states = stack.troubles.standing
    document = []
    places_by_kind: dict[StateKind, list[str]] = defaultdict(list)
    for state in states:
        places_by_kind[state.kind].append(state.place)
        document.append(
            {
                "state": state.kind.value,
                "target": str(state.target),
                "instance_id": state.instance_id or None,
                "since": iso(state.since),
                "reason": printable(state.reason),
            }
        )
    if not states:
        return Line("no known problem with sweeps or tags", [])
    sentences = []
    for kind, places in places_by_kind.items():
        words = WORDS[kind]
        state_text = sentence(f"{words.what}: {listed(places, _SHOWN)}")
        sentences.append(f"{state_text} {words.to_do}")
    return Line(" ".join(sentences), document, is_wrong=True)


def _first(texts: Sequence[str]) -> list[str]:
    """Return the first few texts, and how many there are more."""
    shown = list(texts[:_SHOWN])
    if len(texts) > _SHOWN:
        shown.append(f"and {len(texts) - _SHOWN} more")
    return shown


def _states_of_targets(standing: Sequence[StandingState]) -> dict[Target, StandingState]:
    """Return the newest of these states that keeps each target from being swept; a target that is
    swept has none."""
    states: dict[Target, StandingState] = {}
    for state in standing:
        known = states.get(state.target)
        is_newest = known is None or known.seen_at < state.seen_at
        if state.is_of_target and is_newest:
            states[state.target] = state
    return states


def _unread(
    page: FleetPage | None,
    failure: Unswept | None,
    state: StandingState | None,
    now: datetime,
) -> str | None:
    """Return why the console has nothing recent about a target; `None` if it has. The newest of
    its last sweep, its last failure and its state counts."""
    swept_at = _NEVER if page is None else page.swept_at
    state_at = _NEVER if state is None else state.seen_at
    if failure is not None and failure.at > max(swept_at, state_at):
        return _failed_sweep(failure, now)
    if state is not None and state_at > swept_at:
        return f"{WORDS[state.kind].what}, since {ago(state.since, now)}"
    if page is None:
        return "not swept yet, wait for the next sweep"
    if now - page.swept_at > _STALE:
        return f"last swept {ago(page.swept_at, now)}"
    return page.problem


def _failed_sweep(failure: Unswept, now: datetime) -> str:
    reasons = [text for text in (failure.error, _message(failure.cause)) if text]
    text = f"not swept {ago(failure.at, now)}: {': '.join(reasons)}"
    if failure.error in _CUT_SHORT:
        text += "; if it repeats, raise SweepMemoryMegabytes"
    return text


def _questions(stack: Stack) -> Line:
    open_count = 0
    prices = []
    for question in stack.api.call("GET", "/api/approvals")["questions"]:
        if question.get("can_hold") or question.get("can_hold_late"):
            continue
        open_count += 1
        if question["usd_per_day"] is not None:
            prices.append(Decimal(question["usd_per_day"]))
    total = sum(prices, Decimal())
    unpriced_count = open_count - len(prices)
    document = {
        "open": open_count,
        "usd_per_day": plain(total),
        "without_price": unpriced_count,
    }
    if not open_count:
        return Line("none is open", document)
    text = f"{open_count} open: {usd(total)} a day"
    if unpriced_count:
        text += f", {unpriced_count} without a price"
    return Line(text, document)


def _not_asked(stack: Stack) -> Line:
    """Name the instances about which nobody is asked, because others start them again after each
    stop, with the time until then."""
    table = stack.table
    until_by_name: dict[str, str] = {}
    texts = []
    for page in Fleet(table).pages():
        for row in page.rows:
            until = row.restarts_quiet_until
            if until is not None and until > stack.now:
                until_by_name[f"{page.target}/{row.instance_id}"] = iso(until)
                texts.append(f"{row.name} until {in_utc(until)}")
    if not until_by_name:
        return Line("no instance", {})
    text = f"{'; '.join(_first(texts))} (others start them again after each stop)"
    return Line(text, until_by_name)


def _subscribers(stack: Stack) -> Line:
    """Describe who would get an alert.

    The channels of the policy's contacts count where they have been filled in.
    """
    subscriptions = _subscriptions(stack)
    confirmed, waiting = _people_counts(subscriptions)
    document: dict[str, Any] = {"confirmed": confirmed, "waiting": waiting}
    has_mail = bool(parameters_of(stack.described).get("EmailSender"))
    has_channels = _has_channels(stack)
    if not (confirmed or has_mail or has_channels):
        return Line(_nobody(waiting), document, is_wrong=True)
    mailed = _mailed_addresses(stack, subscriptions)
    policy = stack.policy[0].base().policy
    unreached = []
    for name, contact in policy.ownership.contacts.items():
        if not _is_reached(contact, mailed, has_mail, has_channels):
            unreached.append(name)
    document["unreached"] = unreached
    texts = [_confirmed(confirmed, waiting)]
    if unreached:
        texts.append(f"nothing reaches the contacts {', '.join(unreached)} ({_REACH})")
    elif not confirmed:
        texts.append(_contacts_are_reached(has_mail))
    is_asking = policy.mode is not Mode.OBSERVE
    return Line("; ".join(texts), document, is_wrong=bool(unreached) and is_asking)


def _contacts_are_reached(has_mail: bool) -> str:
    way = "get email by SES" if has_mail else "have channels"
    return f"contacts of the policy {way}"


def _subscriptions(stack: Stack) -> list[Mapping[str, Any]]:
    """Return the subscriptions of the alert topic, as SNS lists them."""
    paginator = stack.session.client("sns").get_paginator("list_subscriptions_by_topic")
    subscriptions: list[Mapping[str, Any]] = []
    for page in paginator.paginate(TopicArn=stack.outputs["AlertTopicArn"]):
        subscriptions += page["Subscriptions"]
    return subscriptions


def _people_counts(subscriptions: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many subscriptions of people are confirmed, and how many wait for that."""
    people = [subscription for subscription in subscriptions if subscription["Protocol"] != "sqs"]
    confirmed = sum(_is_confirmed(subscription) for subscription in people)
    return confirmed, len(people) - confirmed


def _is_confirmed(subscription: Mapping[str, Any]) -> bool:
    """Return whether it has an ARN: one that waits has `PendingConfirmation` in its place."""
    return bool(subscription["SubscriptionArn"].startswith("arn:"))


def _nobody(waiting: int) -> str:
    """Return the text for a stack whose alerts reach nobody."""
    texts = ["no subscription of the alert topic is confirmed"]
    if waiting:
        texts.append(f"{waiting} wait to be confirmed")
        texts.append("confirm the email of AWS Notifications")
    else:
        texts.append("run `make deploy ALERT_EMAIL=...`")
    return "; ".join(texts)


def _confirmed(confirmed: int, waiting: int) -> str:
    if not confirmed:
        return "none of the alert topic"
    if waiting:
        return f"{confirmed} confirmed, {waiting} wait to be confirmed"
    return f"{confirmed} confirmed"


def _mailed_addresses(stack: Stack, subscriptions: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the addresses, in lower case, that SNS mails every question to."""
    addresses = set()
    for subscription in subscriptions:
        is_confirmed_mail = subscription["Protocol"] in MAIL and _is_confirmed(subscription)
        if is_confirmed_mail and _gets_questions(stack, subscription["SubscriptionArn"]):
            addresses.add(subscription["Endpoint"].lower())
    return addresses


def _gets_questions(stack: Stack, arn: str) -> bool:
    """Return whether its filter policy, if it has one, lets every question through."""
    client = stack.session.client("sns")
    attributes = client.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    return lets_questions_through(attributes.get("FilterPolicy"))


def _is_reached(contact: Contact, mailed: Set[str], has_mail: bool, has_channels: bool) -> bool:
    """Return whether questions about their instances reach them.

    A channel of everybody counts only for contacts for whom the policy names no way of their own
    (docs/channels.md).
    """
    own_addresses = {*addresses([contact]), *list_addresses([contact])}
    if has_mail and own_addresses:
        return True
    is_in_a_channel = bool(contact.slack_channel) or not contact.has_own_channel
    if has_channels and is_in_a_channel:
        return True
    return any(address.lower() in mailed for address in own_addresses)


def _has_channels(stack: Stack) -> bool:
    """Return whether somebody has filled in the secret of channels. Reads no value.

    The stack makes the first version, so a filled one has two.
    """
    client = stack.session.client("secretsmanager")
    secret = client.describe_secret(SecretId=_physical_id(stack, "ChannelSecret"))
    return len(secret.get("VersionIdsToStages", {})) > 1


def _failing(stack: Stack) -> Line:
    """Describe the instances whose last workflow failed, as the console's Overview has them.

    There is one text for each cause.
    """
    failures = sorted(stack.troubles.failing, key=lambda failure: failure.at, reverse=True)
    failures_by_cause: dict[str, list[Failing]] = {}
    for failure in failures:
        if failure.over_at is None:
            failures_by_cause.setdefault(failure.cause, []).append(failure)
    texts = []
    documents = []
    for same_cause in failures_by_cause.values():
        names = [failure.name or failure.instance_id for failure in same_cause]
        newest = same_cause[0]
        step = step_text(newest.step)
        reason = readable_failure(newest.reason, "UTC", stack.now)
        texts.append(f"could not {step} {listed(names, 3)}: {reason}")
        documents += [_failure_document(failure) for failure in same_cause]
    text = printable("; ".join(_first(texts)))
    return Line(text or "none", documents, is_wrong=bool(texts))


def _failure_document(failure: Failing) -> dict[str, str]:
    return {
        "instance_id": failure.instance_id,
        "step": failure.step,
        "reason": failure.reason,
        "at": iso(failure.at),
    }


def _freezes(stack: Stack) -> Line:
    answer = stack.api.call("GET", "/api/freezes")
    texts = []
    for freeze in answer["freezes"]:
        texts.append(f"{freeze['what']}{_since(freeze['since'])}: {printable(freeze['why'])}")
    waiting = len(answer["waiting"])
    if waiting:
        texts.append(f"{plural(waiting, 'step')} waiting (`governor freezes`)")
    document = {"freezes": answer["freezes"], "waiting": waiting}
    return Line("; ".join(texts) or "none", document, is_wrong=bool(texts))


def _undelivered(stack: Stack) -> Line:
    """Describe what waits in the stack's dead-letter queues."""
    client: Any = stack.session.client("sqs")
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    count_by_queue: dict[str, int] = {}
    for kind, queue, url in stack.resources:
        if kind == "AWS::SQS::Queue" and queue.endswith("Failures"):
            answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            attributes = answer["Attributes"]
            count_by_queue[queue] = sum(int(attributes[name]) for name in names)
    waiting = []
    for queue, count in count_by_queue.items():
        if count:
            waiting.append(f"{count} in {queue}")
    if not waiting:
        return Line("none", count_by_queue)
    return Line(f"{', '.join(waiting)} (docs/events.md)", count_by_queue, is_wrong=True)


def _alarms(stack: Stack) -> Line:
    name_in_template = {
        physical_id: logical
        for kind, logical, physical_id in stack.resources
        if kind == "AWS::CloudWatch::Alarm"
    }
    documents = []
    texts = []
    for alarm in _ringing_alarms(stack, list(name_in_template)):
        name = name_in_template[alarm["AlarmName"]]
        description = alarm.get("AlarmDescription", "")
        documents.append({"alarm": name, "says": description})
        texts.append(f"{name}: {printable(description)}")
    text = "; ".join(texts) or f"none of {len(name_in_template)}"
    return Line(text, documents, is_wrong=bool(documents))


def _ringing_alarms(stack: Stack, names: Sequence[str]) -> Iterator[Any]:
    """Yield those alarms that are in the state ALARM, as CloudWatch describes them."""
    paginator = stack.session.client("cloudwatch").get_paginator("describe_alarms")
    for part in in_parts(names, _ALARMS_AT_ONCE):
        for page in paginator.paginate(AlarmNames=part, StateValue="ALARM"):
            yield from page["MetricAlarms"]


def _safeguards(stack: Stack) -> Line:
    """Check that the state table is protected, and that no other stack acts on the instances."""
    parameters = parameters_of(stack.described)
    is_protected = parameters.get("DeletionProtection") == "true"
    selector = parameters.get("SelectorTagValue", "")
    pages = stack.session.client("cloudformation").get_paginator("describe_stacks").paginate()
    all_stacks = (description for page in pages for description in page["Stacks"])
    other_stacks = stacks_over_same_instances(all_stacks, stack.name, selector)
    problems = []
    for name in other_stacks:
        problems.append(f"the stack {name} governs Purpose={printable(selector)}, too: remove one")
    if not is_protected:
        problems.append("the state table is not protected against deletion: run `make deploy`")
    document = {
        "state_table_protected": is_protected,
        "stacks_over_the_same_instances": other_stacks,
    }
    if problems:
        return Line("; ".join(problems), document, is_wrong=True)
    text = "the state table is protected; no other stack governs the same instances here"
    return Line(text, document)


def _exemption(stack: Stack) -> Line:
    """Compare the key by which IAM denies with those of the policy.

    IAM takes one exact key, the stack's.
    """
    denied_key = parameters_of(stack.described).get("ExemptionTagKey")
    book, _ = stack.policy
    policy = book.base().policy
    key = policy.exemption.tag_key
    variant_keys = {variant.exemption.tag_key for variant in book.variants}
    override_keys = sorted(variant_keys - {key})
    document = {"iam": denied_key, "policy": key, "overrides": override_keys}
    problem = _exemption_problem(denied_key, key, override_keys)
    if problem is not None:
        return Line(printable(problem), document, is_wrong=True)
    text = f"IAM denies stops and terminations of instances with the tag key {denied_key}"
    has_other_accounts = bool(set(policy.targets.accounts) - {stack.hub.account})
    if has_other_accounts or policy.targets.units:
        text += (
            "; that of the member stacks is not read from here: compare their ExemptionTagKey "
            "(docs/accounts.md)"
        )
    return Line(printable(text), document)


def _exemption_problem(
    denied_key: str | None, key: str, override_keys: Sequence[str]
) -> str | None:
    """Return why IAM does not protect all that the policy exempts; `None` where it does."""
    if denied_key is None:
        return (
            "the stack is of an earlier release, whose IAM does not protect exempt instances: "
            "run `make deploy`"
        )
    if not TagMatch.is_key_for_iam(key):
        return (
            f"the policy exempts by the key {key}, which ExemptionTagKey cannot be: IAM denies "
            f"by {denied_key} alone. Choose a key of {KEY_FOR_IAM}"
        )
    if denied_key != key:
        return (
            f"the policy exempts by the key {key}, and IAM denies by {denied_key} alone: run "
            f'`make deploy PARAMETERS="ExemptionTagKey={key}"`, and set it in the member stacks'
        )
    if override_keys:
        return (
            f"overrides exempt by the key {', '.join(override_keys)}, which IAM does not see: "
            f"it denies by {denied_key} alone. Use one key in the whole policy"
        )
    return None


def _since(moment: str | None) -> str:
    """Return since when it is frozen; the bare word where no sweep has recorded that."""
    if not moment:
        return " frozen"
    return f", frozen {since(moment)}"


_LINES: Mapping[str, Callable[[Stack], Line]] = {
    "stack": _stack,
    "mode": _mode,
    "policy": _policy,
    "schedule": _schedule,
    "last_sweep": _last_sweep,
    "targets": _targets,
    "states": _states,
    "subscribers": _subscribers,
    "questions": _questions,
    "not_asked": _not_asked,
    "failing": _failing,
    "freezes": _freezes,
    "undelivered": _undelivered,
    "alarms": _alarms,
    "safeguards": _safeguards,
    "exemption": _exemption,
}
"""The reader of each line, in the order of the screen."""
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
    "states": "dynamodb:Query on the state table, and kms:Decrypt with its key",
    "subscribers": "sns:ListSubscriptionsByTopic on the alert topic, "
    "sns:GetSubscriptionAttributes, "
    "secretsmanager:DescribeSecret on ChannelSecret, and what policy needs",
    "questions": _API,
    "not_asked": "dynamodb:Query on the state table, and kms:Decrypt with its key",
    "failing": "dynamodb:Query on the state table, and kms:Decrypt with its key",
    "freezes": _API,
    "undelivered": "cloudformation:ListStackResources, and sqs:GetQueueAttributes on its queues",
    "alarms": "cloudformation:ListStackResources, and cloudwatch:DescribeAlarms",
    "safeguards": "cloudformation:DescribeStacks on all stacks",
    "exemption": _API,
}
"""The permissions that a reader needs, by the line."""
_COLUMNS = (Column(), Column(wraps=True))
"""Line and text."""
