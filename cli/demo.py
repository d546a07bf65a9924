"""The whole loop on this machine: a fleet, a sweep, the question, the answer, and what is saved.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from cli.demo_fleet import Row, rows_of, table
from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable
from governor.contracts.policy import parse_policy
from governor.domain.approvals.approval import ApprovalStatus
from governor.domain.episode.episode import (
    Episode,
    InstanceRecord,
    Outcome,
    episode_from_execution_name,
)
from governor.domain.instance import Target
from governor.domain.units import money, span
from governor.stores import StateTable
from local.cloud import ACCOUNT, ANSWER_SECONDS, REGION, ROOT, LocalCloud, LocalCloudError
from local.fleet import METRIC_LENGTH, demo_fleet
from local.receivers import Receivers
from local.scene import Scene, deploy_scene

OWNER, SECOND = "owner@example.com", "colleague@example.com"
VISITOR = f"arn:aws:iam::{ACCOUNT}:user/you"
"""Whoever sits at this machine, as an IAM user of the local cloud."""
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
        self.state = StateTable(self.table)
        self.verdicts: dict[str, str] = {}
        self._before = {found["executionArn"] for found in scene.executions().values()}
        self._printed: dict[str, tuple[str, ...]] = {}

    def rows(self) -> list[Row]:
        """Return what became of every launched instance, by what the sweep and the workflows have
        stored."""
        seen = self.state.observations(TARGET)
        self.verdicts = {instance_id: str(found.verdict) for instance_id, found in seen.items()}
        records = self.state.records(TARGET).values()
        episodes = {r.instance_id: found for r in records if (found := self._latest_episode(r))}
        policy = parse_policy(VISITORS_POLICY).base().policy
        return rows_of(list(self.scene.members), TARGET, policy, seen, episodes)

    def _wait_for(self, look: Callable[[], Seen | None], otherwise: str) -> Seen:
        """Looks until there is something to see, as long as anything moves and no workflow has
        failed.

        Raises:
            LocalCloudError: a workflow has failed, or nothing moves any more; with the cause.
        """

        def look_or_fail() -> Seen | None:
            found = look()
            # After the look: a workflow that fails before it may be what there is to see.
            self._raise_where_one_failed()
            return found

        return self.scene.wait_for(look_or_fail, otherwise)

    def _raise_where_one_failed(self) -> None:
        if (failed := self.scene.failure(self._before)) is not None:
            raise LocalCloudError(f"{failed}\nerrors of the functions: {self.scene.errors()}")

    def await_questions(self) -> list[dict[str, Any]]:
        """Waits until every workflow has either asked or ended; returns the questions."""

        def asked() -> list[dict[str, Any]] | None:
            self.scene.read_mail()
            questions = [mail for mail in self.scene.mail if mail["kind"] == "approval-requested"]
            ids = {question["instance_id"] for question in questions}
            executions = self.scene.executions()
            running = {i for i, found in executions.items() if found["status"] == "RUNNING"}
            return questions if executions and running <= ids else None

        questions = self._wait_for(asked, "not every workflow has asked")
        if not questions:
            raise LocalCloudError("every workflow has ended, and none has asked")
        return questions

    def await_mail(self, instance_id: str, address: str = OWNER) -> str:
        """The link in one person's mail about an instance, as SES has taken it."""

        def link() -> str | None:
            for mail in self.scene.sent_mail():
                links = [line.strip() for line in mail["BodyText"].splitlines() if "/q/" in line]
                if mail["To"] == [address] and instance_id in mail["BodyText"] and links:
                    return self.scene.cloud.reachable_url(links[0])
            return None

        return self._wait_for(link, f"no mail about {instance_id}")

    def warn(self, name: str, taken_after: float | None = None) -> float:
        """EC2 takes an instance back: the seconds until it was asked to save its work. Waits until
        whoever is on call has been paged. EC2 does as it says after so many seconds, if any.
        """
        (warned,) = [i for i, member in self.scene.members.items() if member.name == name]
        began = time.time()
        self.scene.simulation.spot_warning(warned, interrupt_after=taken_after)

        def hooked() -> float | None:
            hooks = [c for c in self.scene.simulation.commands() if warned in c["InstanceIds"]]
            pages = [
                p for p in self.scene.receivers.received("pagerduty") if warned in str(p.payload)
            ]
            return float(hooks[0]["at"]) - began if hooks and pages else None

        return self._wait_for(hooked, f"{name} was not asked to save its work, or nobody was paged")

    def approve(self, question: dict[str, Any]) -> None:
        """Presses the button as a browser would: reads the page, sends its form back. Two people
        do, where the policy wants two."""
        for person in (OWNER, SECOND)[: question["facts"]["people_needed"]]:
            url = self.await_mail(question["instance_id"], person)
            with urlopen(url, timeout=ANSWER_SECONDS) as page:
                form = _hidden_fields(page.read().decode())
            body = {**form, "answer": "approve", "typed_instance_id": question["instance_id"]}
            with urlopen(
                Request(url, data=urlencode(body).encode(), method="POST"), timeout=ANSWER_SECONDS
            ) as answer:
                answer.read()

    def follow(self, *, patiently: bool) -> None:
        """Print each step of each episode as it happens, until no workflow runs or the first has
        failed.

        Patiently means as long as people take to answer.

        Raises:
            LocalCloudError: a workflow has failed, or nothing moves any more; with the cause.
        """

        def over() -> bool | None:
            # First whether they run, then what they did: what comes last is printed, too.
            running = any(
                found["status"] == "RUNNING" for found in self.scene.executions().values()
            )
            self.print_news()
            return None if running else True

        while patiently and over() is None:
            self._raise_where_one_failed()
            time.sleep(0.3)
        self._wait_for(over, "a workflow does not end")

    def print_news(self) -> None:
        """Prints each step of each episode that was not printed before."""
        for record in self.state.records(TARGET).values():
            self._print(record)

    def _print(self, record: InstanceRecord) -> None:
        episode = self._latest_episode(record)
        if episode is None:
            return
        news = [_STEPS[step] for step in episode.steps_done]
        if episode.outcome is not None and episode.outcome is not Outcome.TOLD:
            news.append(_ended(episode))
        known = self._printed.get(record.instance_id, ())
        for one in news:
            if one not in known:
                print(f"  {episode.instance.name:<21}  {one}", flush=True)
        self._printed[record.instance_id] = tuple(news)

    def _latest_episode(self, record: InstanceRecord) -> Episode | None:
        execution = self.scene.executions().get(record.instance_id)
        if execution is None:
            return None
        return self.state.episode(episode_from_execution_name(execution["name"]))

    def summary(self) -> dict[str, Any]:
        """Return what the first sweep saw, and what has happened, read from EC2, Step Functions and
        DynamoDB."""
        episodes = [
            e for r in self.state.records(TARGET).values() if (e := self._latest_episode(r))
        ]
        approved = [
            episode.ref.instance_id
            for episode in episodes
            if (approval := self.state.approval(episode.approval_id))
            and approval.status is ApprovalStatus.APPROVED
        ]
        ec2 = self.scene.cloud.client("ec2")
        described = ec2.describe_instances(InstanceIds=sorted(self.scene.members))["Reservations"]
        states = {i["InstanceId"]: i["State"]["Name"] for r in described for i in r["Instances"]}
        actions = [
            {"instance_id": instance_id, "state": states[instance_id]}
            for instance_id in sorted(approved)
            if states[instance_id] in ("stopped", "terminated")
        ]
        snapshots = ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        months = {episode.opened_at.strftime("%Y-%m") for episode in episodes}
        booked, own = (
            (one for month in months for one in self.state.entries(month)),
            {e.ref for e in episodes},
        )
        saved = [entry.saved_usd_per_hour for entry in booked if entry.episode in own]
        return {
            "instances": len(self.verdicts),
            "verdicts": dict(sorted(Counter(self.verdicts.values()).items())),
            "approved": sorted(approved),
            "actions": actions,
            "snapshots_completed": sum(snapshot["State"] == "completed" for snapshot in snapshots),
            "usd_per_hour_saved": money(sum((usd for usd in saved if usd), Decimal(0)), 4),
        }


def _ended(episode: Episode) -> str:
    """The outcome, with what it saves or else why."""
    assert episode.outcome is not None
    saved = episode.plan.saving.saved_usd_per_hour
    if episode.outcome in (Outcome.STOPPED, Outcome.TERMINATED) and saved is not None:
        return f"{episode.outcome.value}: ${money(saved)} an hour saved"
    return f"{episode.outcome.value}: {episode.outcome_reason}"


def closing(questions: int, summary: dict[str, Any]) -> str:
    """The demo in one line: `5 asked, 3 stopped, 2 terminated, $24.22 an hour saved`."""
    states = Counter(action["state"] for action in summary["actions"])
    saved = money(Decimal(summary["usd_per_hour_saved"].replace(",", "")))
    done = f"{states['stopped']} stopped, {states['terminated']} terminated"
    return f"{questions} asked, {done}, ${saved} an hour saved"


def visitors_key(cloud: LocalCloud, visitor: str = VISITOR) -> dict[str, str]:
    """An access key, as environment, of whoever sits at this machine; they may call the product's
    API."""
    iam, name = cloud.client("iam"), visitor.rpartition("/")[2]
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
    """The path of a file that another terminal reads, as long as the demo runs."""
    file = file or ENVIRONMENT
    file.parent.mkdir(exist_ok=True)
    file.write_text(exports + "\n", encoding="utf-8")
    try:
        yield str(file.relative_to(ROOT))
    finally:
        file.unlink(missing_ok=True)


def _hidden_fields(page: str) -> dict[str, str]:
    """The hidden fields of the page's first form, and the boxes of what is lost as ticked."""

    class Fields(HTMLParser):
        found: dict[str, str]

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values = dict(attrs)
            if (
                tag == "input"
                and values.get("type") in ("hidden", "checkbox")
                and values.get("name")
            ):
                self.found.setdefault(str(values["name"]), values.get("value") or "")

    parser = Fields()
    parser.found = {}
    parser.feed(page)
    return parser.found


def run(cloud: LocalCloud, receivers: Receivers, *, auto: bool) -> None:
    """Print the story as it happens."""
    started = time.monotonic()
    say("deploying template.yaml into the local cloud")
    scene = deploy_scene(cloud, receivers, mode="ask", policy=POLICY)
    demo = Demo(scene)
    fleet = demo_fleet()
    say(
        f"launching {len(fleet)} instances, with their GPU metrics of the last "
        f"{span(METRIC_LENGTH)}"
    )
    scene.launch(fleet)
    say("one sweep; then a workflow for each idle instance, which decides whether to ask")
    scene.sweep()
    questions = demo.await_questions()
    rows = demo.rows()
    print(table(rows))
    say(f"{len(questions)} questions are in the mail to {OWNER}; each link opens its page")
    subjects = {question["instance_id"]: question["subject"] for question in questions}
    for instance_id in (row.instance_id for row in rows if row.instance_id in subjects):
        print(
            f"  {subjects[instance_id]}\n    '{receivers.short_link(demo.await_mail(instance_id))}'"
        )
    say("EC2 warns that it takes train-a back in two minutes")
    print(f"  asked to save its work after {demo.warn('train-a'):.1f} s; the on-call is paged")
    say("what was sent")
    print(f"  Slack, Teams, PagerDuty, webhook: {receivers.inbox_url}")
    print(f"  mail, as SES got it: {cloud.endpoint_url}/_ministack/ses/messages")
    with environment_file(scene.exports(visitors_key(cloud))) as path:
        say("the same questions on the command line, in another terminal in this folder")
        print(f"  . {path}; bin/governor approvals list")
        if auto:
            say(
                f"answering yes to all {len(questions)}, by the HTTP POST that a browser would send"
            )
            for question in questions:
                demo.approve(question)
        else:
            say("open a link and decide; Ctrl-C ends the demo")
        demo.follow(patiently=not auto)
        summary = demo.summary()
        say(f"{closing(len(questions), summary)}; the demo took {time.monotonic() - started:.0f} s")
    print(json.dumps(summary, separators=(",", ":")), flush=True)


def say(text: str) -> None:
    """A heading of the story."""
    print(f"\n* {text}", flush=True)


def main() -> int:
    """Exit status 0 when the loop has run to its end."""
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
                if log := cloud.log()[-3000:].strip():
                    print(f"\nlast lines of the engine:\n{log}", file=sys.stderr)
                return 1
    except LocalCloudError as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nended", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
