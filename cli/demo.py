"""Run the whole loop on this machine (`make demo`): a fleet, a sweep, the question, the answer, and
what is saved.

Every figure of the last line is read back from the cloud. This module must not know how anything is
decided.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from cli.demo_fleet import WIDTH, Row, rows_of, table
from cli.tables import wrapped
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.store.approvals import Approvals
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.episode_ref import episode_from_execution_name
from governor.core.instance import Target
from governor.core.units import money, span
from governor.episode.model.episode import Episode, Outcome
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.money.store.ledger import Ledger
from governor.policy.document import parse_policy
from governor.sweep.store import Sweeps
from local.demo.fleet import METRIC_LENGTH, demo_fleet
from local.demo.receivers import Receivers
from local.demo.scene import Scene, deploy_scene
from local.engine.cloud import ACCOUNT, ANSWER_SECONDS, REGION, ROOT, LocalCloud, LocalCloudError

OWNER = "owner@example.com"
SECOND = "colleague@example.com"
VISITOR = f"arn:aws:iam::{ACCOUNT}:user/Visitor"
"""The person at this machine, as an IAM user of the local cloud."""
VISITORS_POLICY = f"""\
plan: {{action: stop, when_stop_is_unsupported: terminate}}
approval: {{digest_from: 0}}
caps: {{account_actions_per_hour: 20, owner_actions_per_hour: 20}}
ownership:
  contacts: {{owner: {{emails: [{OWNER}, {SECOND}], identities: {{"aws:{VISITOR}": {OWNER}}}}}}}
  default_contacts: [owner]
console:
  scopes: {{this machine: {{identities: ["{VISITOR}"], role: admin, everything: true}}}}
"""
"""The policy of `make up`."""
POLICY = f"""\
{VISITORS_POLICY}\
overrides:
  - name: research is terminated
    match: {{tags: {{Project: llm}}}}
    set: {{plan: {{action: terminate}}}}
"""
TARGET = Target(ACCOUNT, REGION)
ENVIRONMENT = ROOT / "build" / "demo.env"
"""Environment of the command line in another terminal, while the demo runs."""
_STEPS = {
    "stop": "EC2 is asked to stop it",
    "snapshot": "EC2 is asked for snapshots of its volumes",
    "cancel-spot-request": "its Spot request is canceled",
    "terminate": "EC2 is asked to terminate it",
}
Seen = TypeVar("Seen")


class Demo:
    """One run of the demo."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.table = DynamoTable(Clients(), scene.outputs["StateTableName"])
        self._episode_store = Episodes(self.table)
        self._approval_store = Approvals(self.table)
        self._instance_store = Instances(self.table)
        self._ledger_store = Ledger(self.table)
        self._sweep_store = Sweeps(self.table)
        self.verdicts: dict[str, str] = {}
        executions = scene.executions().values()
        self._before = {execution["executionArn"] for execution in executions}
        self._printed: dict[str, tuple[str, ...]] = {}

    def rows(self) -> list[Row]:
        """Return a row for each launched instance, from what sweep and workflows have stored."""
        observations = self._sweep_store.observations(TARGET)
        self.verdicts = {}
        for instance_id, observation in observations.items():
            self.verdicts[instance_id] = str(observation.verdict)
        episodes = {episode.ref.instance_id: episode for episode in self._latest_episodes()}
        policy = parse_policy(VISITORS_POLICY).base().policy
        return rows_of(list(self.scene.members), TARGET, policy, observations, episodes)

    def _wait_for(self, look: Callable[[], Seen | None], otherwise: str) -> Seen:
        """Look until there is something to see, while anything moves and no workflow has failed.

        Raises:
            LocalCloudError: a workflow has failed, or nothing moves any more; with the cause.
        """

        def look_or_fail() -> Seen | None:
            seen = look()
            # After the look: a workflow that fails before it may be what there is to see.
            self._raise_where_one_failed()
            return seen

        return self.scene.wait_for(look_or_fail, otherwise)

    def _raise_where_one_failed(self) -> None:
        failure = self.scene.failure(self._before)
        if failure is not None:
            raise LocalCloudError(f"{failure}\nerrors of the functions: {self.scene.errors()}")

    def await_questions(self) -> list[dict[str, Any]]:
        """Wait until every workflow has either asked or ended. Return the questions.

        Raises:
            LocalCloudError: none has asked, one has failed, or nothing moves any more.
        """
        questions = self._wait_for(self._questions, "not every workflow has asked")
        if not questions:
            raise LocalCloudError("every workflow has ended, and none has asked")
        return questions

    def _questions(self) -> list[dict[str, Any]] | None:
        """Return the questions; `None` while a workflow that runs has not asked."""
        self.scene.read_mail()
        questions = [mail for mail in self.scene.mail if mail["kind"] == "approval-requested"]
        asked_ids = {question["instance_id"] for question in questions}
        executions = self.scene.executions()
        running_ids = set()
        for instance_id, execution in executions.items():
            if execution["status"] == "RUNNING":
                running_ids.add(instance_id)
        if not executions or not running_ids <= asked_ids:
            return None
        return questions

    def await_mail(self, instance_id: str, address: str = OWNER) -> str:
        """Wait for one person's mail about an instance. Return the link in it, as SES took it."""
        return self._wait_for(
            lambda: self._link_in_mail(instance_id, address), f"no mail about {instance_id}"
        )

    def _link_in_mail(self, instance_id: str, address: str) -> str | None:
        for mail in self.scene.sent_mail():
            body = mail["BodyText"]
            links = []
            for line in body.splitlines():
                if "/q/" in line:
                    links.append(line.strip())
            is_about_it = mail["To"] == [address] and instance_id in body
            if is_about_it and links:
                return self.scene.cloud.reachable_url(links[0])
        return None

    def warn(self, name: str, taken_after: float | None = None) -> float:
        """Have EC2 warn that it takes a Spot instance back, and wait until on-call was paged.

        EC2 takes it after `taken_after` seconds; never where this is `None`. Return the seconds
        until the instance was asked to save its work.
        """
        warned_ids = []
        for instance_id, member in self.scene.members.items():
            if member.name == name:
                warned_ids.append(instance_id)
        (warned_id,) = warned_ids
        began = time.time()
        self.scene.simulation.spot_warning(warned_id, interrupt_after=taken_after)

        def seconds_until_asked() -> float | None:
            commands = self.scene.simulation.commands()
            hooks = [command for command in commands if warned_id in command["InstanceIds"]]
            pages = self.scene.receivers.received("pagerduty")
            is_paged = any(warned_id in str(page.payload) for page in pages)
            if not hooks or not is_paged:
                return None
            return float(hooks[0]["at"]) - began

        return self._wait_for(
            seconds_until_asked, f"{name} was not asked to save its work, or nobody was paged"
        )

    def approve(self, question: dict[str, Any]) -> None:
        """Press the button as a browser would: read the page, and send its form back.

        Two people do, where the policy wants two.
        """
        for person in (OWNER, SECOND)[: question["facts"]["people_needed"]]:
            url = self.await_mail(question["instance_id"], person)
            with urlopen(url, timeout=ANSWER_SECONDS) as page:
                form = _hidden_fields(page.read().decode())
            body = {**form, "answer": "approve", "typed_instance_id": question["instance_id"]}
            request = Request(url, data=urlencode(body).encode(), method="POST")
            with urlopen(request, timeout=ANSWER_SECONDS) as answer:
                answer.read()

    def follow(self, *, patiently: bool) -> None:
        """Print each step of each episode as it happens, until no workflow runs.

        It ends at the first workflow that fails, too. Patiently means as long as people take to
        answer.

        Raises:
            LocalCloudError: a workflow has failed, or nothing moves any more; with the cause.
        """

        def over() -> bool | None:
            # First whether they run, then what they did: what comes last is printed, too.
            executions = self.scene.executions().values()
            is_running = any(execution["status"] == "RUNNING" for execution in executions)
            self.print_news()
            return None if is_running else True

        while patiently and over() is None:
            self._raise_where_one_failed()
            time.sleep(0.3)
        self._wait_for(over, "a workflow does not end")

    def print_news(self) -> None:
        """Print each step of each episode that was not printed before."""
        for episode in self._latest_episodes():
            self._print(episode)

    def _print(self, episode: Episode) -> None:
        news = [_STEPS[step] for step in episode.progress.steps_done]
        if episode.outcome is not None and episode.outcome is not Outcome.TOLD:
            news.append(_ended(episode))
        instance_id = episode.ref.instance_id
        printed = self._printed.get(instance_id, ())
        for line in news:
            if line not in printed:
                print_step(episode.instance.name, line)
        self._printed[instance_id] = tuple(news)

    def summary(self) -> dict[str, Any]:
        """Return what the first sweep saw, and what has happened.

        It is read from EC2, Step Functions and DynamoDB.
        """
        episodes = self._latest_episodes()
        approved = sorted(self._approved_ids(episodes))
        ec2 = self.scene.cloud.client("ec2")
        states = self._instance_states(ec2)
        actions = []
        for instance_id in approved:
            state = states[instance_id]
            if state in ("stopped", "terminated"):
                actions.append({"instance_id": instance_id, "state": state})
        snapshots = ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        return {
            "instances": len(self.verdicts),
            "verdicts": dict(sorted(Counter(self.verdicts.values()).items())),
            "approved": approved,
            "actions": actions,
            "snapshots_completed": sum(snapshot["State"] == "completed" for snapshot in snapshots),
            "usd_per_hour_saved": money(self._saved_usd_per_hour(episodes), 4),
        }

    def _latest_episodes(self) -> list[Episode]:
        """Return the episode of each instance's latest workflow, where it has begun one."""
        executions = self.scene.executions()
        episodes = []
        for instance_id in self._instance_store.records(TARGET):
            execution = executions.get(instance_id)
            if execution is None:
                continue
            ref = episode_from_execution_name(execution["name"])
            episode = self._episode_store.episode(ref)
            if episode is not None:
                episodes.append(episode)
        return episodes

    def _approved_ids(self, episodes: Sequence[Episode]) -> list[str]:
        instance_ids = []
        for episode in episodes:
            approval = self._approval_store.approval(episode.approval_id)
            if approval is not None and approval.status is ApprovalStatus.APPROVED:
                instance_ids.append(episode.ref.instance_id)
        return instance_ids

    def _instance_states(self, ec2: Any) -> dict[str, str]:
        described = ec2.describe_instances(InstanceIds=sorted(self.scene.members))
        states = {}
        for reservation in described["Reservations"]:
            for instance in reservation["Instances"]:
                states[instance["InstanceId"]] = instance["State"]["Name"]
        return states

    def _saved_usd_per_hour(self, episodes: Sequence[Episode]) -> Decimal:
        """Return what the ledger has for these episodes."""
        months = {episode.opened_at.strftime("%Y-%m") for episode in episodes}
        own = {episode.ref for episode in episodes}
        saved = Decimal(0)
        for month in months:
            for entry in self._ledger_store.entries(month):
                if entry.episode in own:
                    saved += entry.saved_usd_per_hour or Decimal(0)
        return saved


def _ended(episode: Episode) -> str:
    """Return the outcome with what it saves, or else why."""
    ending = episode.ending
    assert ending is not None
    saved = episode.plan.saving.saved_usd_per_hour
    if ending.outcome in (Outcome.STOPPED, Outcome.TERMINATED) and saved is not None:
        return f"{ending.outcome.value}: ${money(saved)} an hour saved"
    return f"{ending.outcome.value}: {ending.reason}"


def closing(questions: int, summary: dict[str, Any]) -> str:
    """Return the demo in one line: `5 asked, 3 stopped, 2 terminated, $24.22 an hour saved`."""
    states = Counter(action["state"] for action in summary["actions"])
    saved = money(Decimal(summary["usd_per_hour_saved"].replace(",", "")))
    done = f"{states['stopped']} stopped, {states['terminated']} terminated"
    return f"{questions} asked, {done}, ${saved} an hour saved"


def visitors_key(cloud: LocalCloud, visitor: str = VISITOR) -> dict[str, str]:
    """Return an access key, as environment, of the person at this machine.

    They may call the product's API.
    """
    iam = cloud.client("iam")
    name = visitor.rpartition("/")[2]
    with suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_user(UserName=name)
    right = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [right]})
    iam.put_user_policy(UserName=name, PolicyName="api", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@contextmanager
def environment_file(exports: str, file: Path | None = None) -> Iterator[str]:
    """Yield the path of a file that another terminal reads, as long as the demo runs."""
    path = file or ENVIRONMENT
    path.parent.mkdir(exist_ok=True)
    path.write_text(exports + "\n", encoding="utf-8")
    try:
        yield str(path.relative_to(ROOT))
    finally:
        path.unlink(missing_ok=True)


class _FormParser(HTMLParser):
    """Reads the hidden fields and the boxes of a page; of two with one name the first counts."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        name = attributes.get("name")
        is_sent = tag == "input" and attributes.get("type") in ("hidden", "checkbox")
        if is_sent and name:
            self.fields.setdefault(name, attributes.get("value") or "")


def _hidden_fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the page's form, and the boxes of what is lost as ticked."""
    parser = _FormParser()
    parser.feed(page)
    return parser.fields


def run(cloud: LocalCloud, receivers: Receivers, *, auto: bool) -> None:
    """Print the story as it happens."""
    started = time.monotonic()
    demo = _launch(cloud, receivers)
    say("one sweep; then a workflow for each idle instance, which decides whether to ask")
    demo.scene.sweep()
    questions = demo.await_questions()
    rows = demo.rows()
    print(table(rows))
    _print_questions(demo, rows, questions)
    say("EC2 warns that it takes train-a back in two minutes")
    note(f"asked to save its work after {demo.warn('train-a'):.1f} s; the on-call is paged")
    say("what was sent")
    note(f"Slack, Teams, PagerDuty, webhook: {receivers.inbox_url}")
    note(f"email, as SES got it: {cloud.endpoint_url}/_ministack/ses/messages")
    with environment_file(demo.scene.exports(visitors_key(cloud))) as path:
        say("the same questions on the command line, in another terminal in this folder")
        print(f"  . {path}; bin/governor approvals list", flush=True)
        if auto:
            _approve_all(demo, questions)
        else:
            say("open a link and decide; Ctrl-C ends the demo")
        demo.follow(patiently=not auto)
        summary = demo.summary()
        say(f"{closing(len(questions), summary)}; the demo took {time.monotonic() - started:.0f} s")
    if auto:
        print(json.dumps(summary, separators=(",", ":")), flush=True)


def _launch(cloud: LocalCloud, receivers: Receivers) -> Demo:
    say("deploying template.yaml into the local cloud")
    scene = deploy_scene(cloud, receivers, mode="ask", policy=POLICY)
    demo = Demo(scene)
    fleet = demo_fleet()
    say(
        f"launching {len(fleet)} instances, with their GPU metrics of the last "
        f"{span(METRIC_LENGTH)}"
    )
    scene.launch(fleet)
    return demo


def _print_questions(demo: Demo, rows: Sequence[Row], questions: Sequence[dict[str, Any]]) -> None:
    """Print each question with its link, in the order of the rows."""
    say(f"{len(questions)} questions are in the email to {OWNER}; each link opens its page")
    subjects = {question["instance_id"]: question["subject"] for question in questions}
    for row in rows:
        subject = subjects.get(row.instance_id)
        if subject is not None:
            link = demo.scene.receivers.short_link(demo.await_mail(row.instance_id))
            note(subject)
            print(f"    '{link}'", flush=True)


def _approve_all(demo: Demo, questions: Sequence[dict[str, Any]]) -> None:
    say(f"answering yes to all {len(questions)}, by the HTTP POST that a browser would send")
    for question in questions:
        demo.approve(question)


def print_log(cloud: LocalCloud) -> None:
    """Print the last lines of the engine on standard error, if it wrote any."""
    last_lines = cloud.log()[-3000:].strip()
    if last_lines:
        print(f"\nlast lines of the engine:\n{last_lines}", file=sys.stderr)


def say(text: str) -> None:
    """Print a heading of the story."""
    print("", *wrapped(f"* {text}", WIDTH), sep="\n", flush=True)


def note(text: str) -> None:
    """Print a sentence below a heading."""
    print(*wrapped(f"  {text}", WIDTH), sep="\n", flush=True)


def print_step(name: str, text: str) -> None:
    """Print what has happened to an instance, in a column beside its name."""
    print(*wrapped(f"  {name:<21}  {text}", WIDTH, hanging=" " * 23), sep="\n", flush=True)


def main() -> int:
    """Run the demo. Return the exit status: 0 when the loop has run to its end."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--approve", choices=["auto"], help="answer every question by itself")
    arguments = parser.parse_args()
    # A terminated demo must clean up as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with (
            Receivers() as receivers,
            LocalCloud(wait_scale=0.1, trust=receivers.certificate) as cloud,
        ):
            os.environ.update(cloud.environment())
            try:
                run(cloud, receivers, auto=arguments.approve == "auto")
            except (LocalCloudError, TimeoutError, RuntimeError, OSError) as error:
                print(f"\nthe demo failed: {error}", file=sys.stderr)
                print_log(cloud)
                return 1
    except LocalCloudError as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nthe demo has ended, with everything that it started", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
