"""`make deploy`: takes or asks what a stack needs, shows the change set, and carries it out with
SAM CLI.

Settings come as variables of make (`NAMES`). Runs in SAM's environment. Whatever can be refused is
refused before anything is built or created. Writes no file that git tracks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ProfileNotFound

from cli.other_stacks import EMPTY, is_ours, parameters_of, stacks_over_same_instances
from governor.core.regions import is_region
from scripts.deploy_log import run_logged
from scripts.deploy_parameters import DeployError, Parameters, for_sam
from scripts.make_arguments import (
    DEPLOY,
    NO_CREDENTIALS,
    NO_STACK_NAME,
    NO_TERMINAL,
    STACK_NAME,
    at_terminal,
)

ROOT = Path(__file__).resolve().parent.parent
SAM = ROOT / ".tools" / "sam" / "bin" / "sam"
NAMES = DEPLOY
LOG = ROOT / "build" / "deploy.log"
"""Everything that SAM CLI has said."""
SEEDS = ("Mode", "PolicyYaml")
"""Parameters that are the policy until a version of it is stored."""
STACK = "gpu-governor"


def ask(question: str, default: str) -> str:
    """A line from the terminal; the default where it is empty."""
    return input(f"{question} [{default or 'none'}]: ").strip() or default


def _run(command: list[str], *, shows_change_set: bool = True) -> int:
    # What is compiled belongs beside its sources: it is deployed. SAM's other libraries are SAM's
    # own.
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONPYCACHEPREFIX")}
    if command[0] == str(SAM):
        return run_logged(command, kept, LOG, shows_change_set=shows_change_set)
    try:
        return subprocess.run(command, env=kept, cwd=ROOT, check=False).returncode
    except FileNotFoundError:
        return 127


@dataclass
class Deployment:
    """One call of `make deploy`. `ask` is `None` where nobody sits at a terminal."""

    given: Mapping[str, str]
    ask: Callable[[str, str], str] | None = None
    template: Path = ROOT / "template.yaml"
    session: Any = None
    run: Callable[..., int] = _run

    def __call__(self) -> None:
        """Deploy.

        Raises:
            DeployError: it was refused or has failed.
        """
        self._check_confirmation()
        self._check_runtime()
        self._sign_in()
        stack = self.given.get("STACK") or STACK
        found = self._describe(stack)
        is_first = found is None or found["StackStatus"] == "REVIEW_IN_PROGRESS"
        if is_first and self.ask and "STACK" not in self.given:
            stack = self.ask("Name of the stack", stack)
            found = self._describe(stack)
            is_first = found is None or found["StackStatus"] == "REVIEW_IN_PROGRESS"
        if not STACK_NAME.fullmatch(stack):
            raise DeployError(f"{stack!r} {NO_STACK_NAME}")
        parameters = self._values.all(guided=is_first)
        if not is_first and found is not None:
            self._check_existing(stack, found, parameters)
        self._check_overlap(stack, found if not is_first else None, parameters)
        if is_first:
            self._check_names(stack)
        protect = parameters.get("DeletionProtection")
        if protect is None:
            # With it a create that fails could not be undone: the table would stay in the way of
            # the next.
            parameters["DeletionProtection"] = "false" if is_first else "true"
        self._sum_up(stack, parameters, is_first=is_first, protect=protect)
        self._build()
        self._deploy(stack, parameters, confirm=self.given.get("YES") != "1")
        deployed = self._describe(stack)
        if deployed is None or deployed["StackStatus"] in EMPTY:
            print("Nothing was deployed: the change set was not confirmed.")
            return
        if is_first and protect is None:
            print("Turning on deletion protection of the state table ...", flush=True)
            try:
                self._deploy(
                    stack, {"DeletionProtection": "true"}, confirm=False, shows_change_set=False
                )
            except DeployError:
                raise DeployError(
                    "the stack works, but its state table is not protected against deletion yet: "
                    "run the same make deploy again"
                ) from None
        self._say_what_next(stack, parameters, is_first=is_first)

    @cached_property
    def _values(self) -> Parameters:
        return Parameters(self.given, self.ask, self.template)

    # before anything is read

    def _check_confirmation(self) -> None:
        if self.given.get("YES") not in (None, "1"):
            raise DeployError(
                "YES takes 1: make deploy YES=1 carries the change set out without asking"
            )
        if self.ask is None and "YES" not in self.given:
            raise DeployError(NO_TERMINAL)

    def _check_runtime(self) -> None:
        # With pip, which fetches its libraries. A version manager's shim may stand for nothing.
        if self.run(["python3.13", "-c", "import pip"]) != 0:
            raise DeployError(
                "python3.13 with pip is missing: the layer is compiled for that Lambda "
                "runtime. Install it "
                "(Debian 13: sudo apt-get install python3.13 python3-pip; elsewhere: "
                ".tools/uv/bin/uv python install 3.13) and put it on PATH"
            )

    # who, and where

    def _sign_in(self) -> None:
        """Find profile, Region and account."""
        profile, region = self.given.get("PROFILE"), self.given.get("REGION")
        try:
            self.session = self.session or boto3.Session(profile_name=profile, region_name=region)
        except ProfileNotFound:
            known = ", ".join(boto3.Session().available_profiles)
            how = f"set PROFILE= to one of: {known}" if known else "make one by aws configure sso"
            raise DeployError(f"there is no profile {profile!r}: {how}") from None
        self.region = region or os.environ.get("AWS_REGION") or self.session.region_name or ""
        if self.ask and region is None:
            self.region = self.ask("Region", self.region)
        if not self.region:
            raise DeployError("there is no Region: set REGION=, as in make deploy REGION=us-east-1")
        if not is_region(self.region):
            raise DeployError(f"{self.region!r} is no Region: set REGION= to one like us-east-1")
        try:
            self.account = self._client("sts").get_caller_identity()["Account"]
        except NoCredentialsError:
            raise DeployError(NO_CREDENTIALS) from None
        except (ClientError, BotoCoreError) as error:
            raise DeployError(
                f"AWS did not take your credentials ({error}): sign in again, or set PROFILE="
            ) from None

    def _client(self, service: str) -> Any:
        return self.session.client(service, region_name=self.region)

    # the stack that is there

    @cached_property
    def _stacks(self) -> dict[str, dict[str, Any]]:
        try:
            pages = self._client("cloudformation").get_paginator("describe_stacks").paginate()
            return {one["StackName"]: one for page in pages for one in page["Stacks"]}
        except (ClientError, BotoCoreError) as error:
            raise DeployError(
                f"the stacks of {self.account}/{self.region} could not be read ({error}): "
                "your identity "
                "needs cloudformation:DescribeStacks"
            ) from None

    def _describe(self, stack: str) -> dict[str, Any] | None:
        self.__dict__.pop("_stacks", None)
        return self._stacks.get(stack)

    def _check_existing(
        self, stack: str, found: Mapping[str, Any], parameters: Mapping[str, str]
    ) -> None:
        """Refuse what an update cannot do."""
        status, where = found["StackStatus"], f"--stack-name {stack} --region {self.region}"
        if status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"):
            raise DeployError(
                f"the stack {stack} is what a create or a delete that failed has left "
                f"({status}): see why "
                f"with aws cloudformation describe-stack-events {where}, remove it with "
                f"aws cloudformation delete-stack {where}, then run make deploy again"
            )
        if status == "UPDATE_ROLLBACK_FAILED":
            raise DeployError(
                f"an update of the stack {stack} could not be rolled back: run "
                f"aws cloudformation continue-update-rollback {where}, then make deploy again"
            )
        if status.endswith("_IN_PROGRESS"):
            raise DeployError(
                f"the stack {stack} is being changed ({status}): wait until that has ended"
            )
        if not is_ours(found):
            raise DeployError(
                f"the stack {stack} is not one of GPU Governor: set STACK= to another name"
            )
        selector = parameters.get("SelectorTagValue", parameters_of(found)["SelectorTagValue"])
        if selector != parameters_of(found)["SelectorTagValue"] and self._has_stored_policy(found):
            print(
                "Warning: the stored policy names the selector, too. After the deploy, write\n"
                f"selector: {{tag_key: Purpose, tag_value: {selector}}} into it "
                "(bin/governor policy put)."
            )
        seeds = [name for name in SEEDS if name in parameters]
        if seeds and self._has_stored_policy(found):
            mode, more = parameters.get("Mode"), self._options(stack)
            how = (
                f"bin/governor mode {mode}{more}" if mode else f"bin/governor policy put FILE{more}"
            )
            raise DeployError(
                f"the policy of {stack} is stored as versions, and {' and '.join(seeds)} no longer "
                f"{'counts' if len(seeds) == 1 else 'count'}: use {how}, without a deploy"
            )
        if seeds:
            self._check_edited(stack, found)

    def _check_edited(self, stack: str, found: Mapping[str, Any]) -> None:
        """Refuse to overwrite a policy that somebody has written into the SSM parameter itself."""
        name, seeds = _outputs(found).get("PolicyParameterName"), parameters_of(found)
        if name is None:
            return
        try:
            text = self._client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
            now, seeded = (yaml.safe_load(one) or {} for one in (text, seeds.get("PolicyYaml", "")))
        except (ClientError, BotoCoreError) as error:
            raise DeployError(
                f"the SSM parameter {name} could not be read ({error}): your identity needs "
                "ssm:GetParameter; without MODE and POLICY the deploy does not need it"
            ) from None
        except yaml.YAMLError:
            return  # the sweep refuses it, and says so
        expected = {"mode": seeds["Mode"], **seeded}
        if (
            not isinstance(now, dict)
            or {k: v for k, v in now.items() if k != "selector"} == expected
        ):
            return
        more = self._options(stack)
        raise DeployError(
            f"somebody has edited the SSM parameter {name}, and this deploy would undo "
            "that. Store what "
            f"it says: bin/governor policy get{more} > policy.yaml, bin/governor policy "
            f"put policy.yaml{more}"
        )

    def _has_stored_policy(self, found: Mapping[str, Any]) -> bool:
        bucket = _outputs(found).get("PolicyBucketName")
        if bucket is None:
            return False  # a release before versions
        try:
            listed = self._client("s3").list_object_versions(
                Bucket=bucket, Prefix="policy.yaml", MaxKeys=1
            )
        except (ClientError, BotoCoreError) as error:
            raise DeployError(
                f"the stored policy could not be looked for ({error}): your identity needs "
                "s3:ListBucketVersions; without MODE and POLICY the deploy does not need it"
            ) from None
        return bool(listed.get("Versions"))

    def _check_overlap(
        self, stack: str, found: Mapping[str, Any] | None, parameters: Mapping[str, str]
    ) -> None:
        """Refuse a second stack over the same instances, in this account and Region."""
        before = parameters_of(found).get("SelectorTagValue") if found else None
        selector = parameters.get("SelectorTagValue", before) or self._values.default(
            "SelectorTagValue"
        )
        others = stacks_over_same_instances(self._stacks.values(), stack, selector)
        if not others:
            return
        said = (
            f"the stack {others[0]} governs the instances with the tag Purpose={selector} in "
            f"{self.account}/{self.region} already, and two would stop each other's"
        )
        if selector == before:
            print(f"Warning: {said}. Remove one of them.")
            return
        raise DeployError(
            f"{said}: set STACK={others[0]} and deploy that one, or set SELECTOR= to "
            "another value of the tag"
        )

    def _check_names(self, stack: str) -> None:
        """Refuse a create that would fail late, at the name of a log group.

        A function that ran while its stack was removed has made its log group again.
        """
        prefixes = (
            f"/aws/lambda/{stack}/",
            f"/aws/vendedlogs/states/{stack}",
            f"/aws/vendedlogs/apis/{stack}",
        )
        try:
            pages = self._client("logs").get_paginator("describe_log_groups")
            found = [
                one["logGroupName"]
                for prefix in prefixes
                for page in pages.paginate(logGroupNamePrefix=prefix)
                for one in page["logGroups"]
                if one["logGroupName"].startswith(prefixes[0]) or one["logGroupName"] in prefixes
            ]
        except (ClientError, BotoCoreError) as error:
            print(f"Not checked: whether an earlier stack has left log groups ({error})")
            return
        if found:
            raise DeployError(
                f"an earlier stack {stack} has left {', '.join(found)}, and a create "
                "would fail there: "
                "delete them (aws logs delete-log-group --log-group-name NAME), or set STACK="
            )

    # the deploy

    def _sum_up(
        self, stack: str, parameters: Mapping[str, str], *, is_first: bool, protect: str | None
    ) -> None:
        print(
            f"\n{'Creates' if is_first else 'Updates'} the stack {stack} in "
            f"{self.account}/{self.region}"
        )
        for name, value in parameters.items():
            if name == "DeletionProtection" and protect is None:
                continue
            shown = value if "\n" not in value.strip() else f"{len(value.splitlines())} lines"
            print(f"  {name:18}  {shown.strip() or '(none)'}")
        if not is_first:
            print("  every other parameter keeps its value")
        if is_first and protect is None:
            print("  A second change set then turns on deletion protection of the state table.")
        print("Nothing is created before you see the change set.\n", flush=True)

    def _say_step(self, text: str) -> None:
        """Say what takes minutes now."""
        print(f"{text} ...", flush=True)

    def _build(self) -> None:
        self._say_step(f"Building; the log is {LOG.relative_to(ROOT)}")
        if self.run([str(SAM), "build", "--region", self.region]) != 0:
            raise DeployError(
                f"sam build failed; nothing was deployed. All that it said: {LOG.relative_to(ROOT)}"
            )

    def _deploy(
        self,
        stack: str,
        parameters: Mapping[str, str],
        *,
        confirm: bool,
        shows_change_set: bool = True,
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="gpu-governor-") as folder:
            file = Path(folder, "parameters.yaml")
            file.write_text(for_sam(parameters), encoding="utf-8")
            command = [str(SAM), "deploy", "--stack-name", stack, "--region", self.region]
            command += ["--no-progressbar", "--no-fail-on-empty-changeset"]
            command += ["--confirm-changeset" if confirm else "--no-confirm-changeset"]
            command += ["--parameter-overrides", f"file://{file}"]
            # As its option: keys in the environment would win over AWS_PROFILE.
            command += ["--profile", self.given["PROFILE"]] if "PROFILE" in self.given else []
            self._say_step(f"Deploying {stack}")
            if self.run(command, shows_change_set=shows_change_set) != 0:
                raise DeployError(
                    "sam deploy failed; the events above say why, and "
                    f"{LOG.relative_to(ROOT)} has all of them. Run make deploy again: it says what "
                    "is left"
                )

    def _options(self, stack: str) -> str:
        """Return what the command line needs to find the stack."""
        named = {
            "--stack-name": stack if stack != STACK else None,
            "--profile": self.given.get("PROFILE"),
        }
        if self.region != self.session.region_name or "REGION" in self.given:
            named["--region"] = self.region
        return "".join(f" {name} {value}" for name, value in named.items() if value)

    def _say_what_next(self, stack: str, parameters: Mapping[str, str], *, is_first: bool) -> None:
        more = self._options(stack)
        print(f"\nDeployed {stack} in {self.account}/{self.region}.")
        print(f"  All that SAM CLI said          {LOG.relative_to(ROOT)}")
        if not is_first:
            return
        if parameters.get("AlertEmail"):
            print(f"  Confirm the subscription that AWS has emailed to {parameters['AlertEmail']}.")
        print(f"  Did it work?                   bin/governor doctor{more}")
        if parameters.get("Mode", "observe") == "observe":
            print(f"  After a week, ask for consent: bin/governor mode ask{more}")


def _outputs(stack: Mapping[str, Any]) -> dict[str, str]:
    return {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", ())}


def main(environment: Mapping[str, str]) -> int:
    """Exit status 0 when it was deployed or not confirmed, 2 when it was refused or has failed."""
    given = {name: environment[name] for name in NAMES if environment.get(name)}
    LOG.unlink(missing_ok=True)
    try:
        Deployment(given, ask if at_terminal() else None)()
    except DeployError as error:
        print(f"make deploy: {error}", file=sys.stderr)
        return 2
    except (EOFError, KeyboardInterrupt):
        print("\nmake deploy: stopped", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
