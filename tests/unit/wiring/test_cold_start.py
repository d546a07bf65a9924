"""The cold start of a function: its loading and its checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from governor.aws.clients import READING, allowing
from governor.core.environment import parse_settings
from governor.core.errors import ConfigurationError
from governor.wiring.acting import acting
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.parts import Parts
from tests.iam import functions as hub_functions
from tests.iam import listed
from tests.unit.template.machines import ROOT
from tests.unit.wiring.samples import SIGN_IN, VARIABLES, settings

ISSUER_PROTOCOL = {"jwt", "cryptography", "governor.aws.oidc", "governor.web.sign_in"}


PROBE = """
import sys

from botocore.session import Session

create_client = Session.create_client
opened = []


def recorded(session, service, *args, **options):
    opened.append(service)
    return create_client(session, service, *args, **options)


Session.create_client = recorded
import handler

print(*sys.modules)
print(*opened)
"""
"""Imports the handler of a function; prints the modules that are loaded then, and the services
whose clients were opened."""
OF_EVERY_FUNCTION = ("botocore.client", "botocore.session", "pydantic", "pydantic.type_adapter")
"""Libraries that every cold start loads, and that read nothing of the environment then."""
FORKS = """
import importlib
import json
import os
import sys
from pathlib import Path

probe, folder, *libraries = sys.argv[1:]
for name in libraries:
    importlib.import_module(name)

for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    files = [Path(folder, f"{number}.{kind}") for kind in ("out", "err")]
    pid = os.fork()
    if pid == 0:
        for standard, path in enumerate(files, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), standard)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path[:0] = asked["path"]
        status = 1
        try:
            exec(probe, {"__name__": "__main__"})
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    answer = [os.waitstatus_to_exitcode(status), *(path.read_text() for path in files)]
    print(json.dumps(answer), flush=True)
"""
"""Forks a process for each function that it is asked for, as importing the libraries again would
be most of each cold start."""


class ColdStarts:
    """A process that has loaded the libraries of every function, and forks for each cold start."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS, PROBE, folder, *OF_EVERY_FUNCTION],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/layers/shared"},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, function: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """The handler of a function, imported in a process of its own; prints the modules it has
        loaded and the services whose clients it has opened."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "path": [f"{ROOT}/layers/shared", f"{ROOT}/functions/{function}"],
            "environment": {
                "PATH": os.environ["PATH"],
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "POWERTOOLS_METRICS_NAMESPACE": "test",
                **environment,
            },
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        status, output, errors = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess([function], status, output, errors)

    def end(self) -> None:
        """Ends the process."""
        self._process.communicate()


@pytest.fixture(scope="module", autouse=True)
def _cold_starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One such process for all tests here."""
    starts = ColdStarts(str(tmp_path_factory.mktemp("cold-starts")))
    STARTS.append(starts)
    yield
    STARTS.remove(starts)
    starts.end()


STARTS: list[ColdStarts] = []
"""The process of this run."""


def run(function: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The handler of a function, imported in a process of its own."""
    return STARTS[0].run(function, environment)


@cache
def cold_start(function: str, **more: str) -> tuple[frozenset[str], frozenset[str]]:
    """The modules and the services of its cold start."""
    done = run(function, {**VARIABLES, **more})
    assert 0 == done.returncode, done.stderr[-2000:]
    modules, services = done.stdout.splitlines()
    return frozenset(modules.split()), frozenset(services.split())


def loaded(function: str, **more: str) -> frozenset[str]:
    """The modules of its cold start."""
    return cold_start(function, **more)[0]


def test_the_page_loads_nothing_of_a_sign_in_that_is_not_configured() -> None:
    """Cold starts stay what they were."""
    assert set() == loaded("serve_approval") & (ISSUER_PROTOCOL | {"governor.policy.document"})


def test_the_page_never_loads_the_issuer_s_protocol() -> None:
    """It reads sessions; only the function that signs in speaks to the issuer."""
    modules = loaded("serve_approval", **SIGN_IN)

    assert "governor.policy.document" in modules
    assert set() == modules & ISSUER_PROTOCOL
    assert loaded("sign_in", **SIGN_IN) >= ISSUER_PROTOCOL


@pytest.mark.parametrize("function", ["sweep_target", "serve_console"])
def test_no_cold_start_loads_boto3(function: str) -> None:
    """Not even a library does: Lambda's boto3 is made for another botocore than the layer's."""
    assert set() == loaded(function) & {"boto3", "s3transfer"}


def test_the_function_that_acts_reads_with_credentials_that_change_nothing() -> None:
    """By its wiring, and no other one: those use their roles in members as they are."""
    parts = Ec2Parts(settings())
    assert parts.clients._session_policy is None

    acting(parts)
    assert allowing(*READING) == parts.clients._session_policy


def test_put_away_alone_is_wired_to_act() -> None:
    handlers = {
        path.parent.name: path.read_text() for path in (ROOT / "functions").glob("*/handler.py")
    }

    assert ["put_away"] == [name for name, text in handlers.items() if "acting(" in text]
    assert ["put_away"] == [name for name, text in handlers.items() if "PutAway" in text]


FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
RENDER_PAGES = {"serve_approval", "serve_console", "sign_in", "deliver_alert"}
"""Functions that load Jinja2 for pages or mails."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_cold_start_loads_the_words_of_alerts(function: str) -> None:
    """Most invocations send nothing: Jinja2 and the templates come with the first message."""
    modules = loaded(function, **(SIGN_IN if function == "sign_in" else {}))

    assert "governor.core.errors" in modules
    assert "governor.alerts.render" not in modules
    assert (function in RENDER_PAGES) == ("jinja2" in modules)


@dataclass(frozen=True)
class Family:
    """Functions that are wired together, and what their cold starts load."""

    functions: str
    wiring: str
    """Modules of `wiring`, besides those that any function may load."""
    rooms: str
    beyond: str = ""
    """Use cases and adapters of other rooms that it works with."""


GATHERING = (
    "evidence.gather_evidence evidence.measure evidence.pending evidence.read_batch "
    "evidence.request"
)
"""Modules that read the evidence of instances."""
ENDS = (
    "remediation.announce_end remediation.close_dead remediation.outcome "
    "remediation.record_outcome remediation.void_episode"
)
"""Modules that end an episode."""
FAMILIES = (
    Family("plan_sweep", "planning", "sweep", "approvals.pause money.costs"),
    Family(
        "sweep_target",
        "sweeping endings following counted_metrics",
        "sweep",
        "approvals.deliver_decision events.notify_dates events.notify_warning "
        f"{GATHERING} limits.freezes money.book_saving money.costs {ENDS} "
        "remediation.follow_start",
    ),
    Family("check_health", "health counted_metrics", "health"),
    Family("scan_accelerators", "scanning", "scan", f"events.notify_warning {GATHERING}"),
    Family(
        "open_episode recheck_episode take_snapshot",
        "remediation guards counted_metrics",
        "remediation",
        "approvals.deliver_decision approvals.refused_answers events.notify_warning "
        f"evidence.check_freshness {GATHERING} limits.freezes",
    ),
    Family(
        "put_away",
        "acting guards counted_metrics",
        "remediation",
        "approvals.deliver_decision approvals.refused_answers events.notify_warning "
        f"{GATHERING} limits.freezes",
    ),
    Family(
        "record_outcome handle_execution_end",
        "endings",
        "remediation",
        "approvals.deliver_decision money.book_saving",
    ),
    Family("check_progress", "progress", "remediation", "approvals.deliver_decision"),
    Family("undo_episode", "undo following", "remediation"),
    Family("expire_snapshots", "expiry", "remediation", "limits.freezes"),
    Family("ask_owner", "approvals", "approvals", "limits.freezes"),
    Family("conclude_approval", "conclusion", "approvals"),
    Family("sum_up_month", "closing", "money sweep", "evidence.request fleet.unswept"),
    Family(
        "report_savings",
        "money",
        "money",
        "scan.documents scan.for_reports scan.snapshot scan.words",
    ),
    Family("refresh_prices", "money", "money"),
    Family(
        "handle_spot_interruption handle_rebalance_recommendation handle_lifecycle_action "
        "handle_notice",
        "events endings",
        "events",
        f"approvals.deliver_decision money.book_saving {ENDS}",
    ),
    Family(
        "handle_state_change",
        "state_changes endings following",
        "events",
        f"approvals.deliver_decision money.book_saving {ENDS} remediation.follow_start",
    ),
    Family("deliver_alert", "delivery", "notify"),
    Family(
        "handle_slack_action",
        "slack deciding",
        "notify",
        "approvals.decide approvals.deliver_decision approvals.show_approval web.requests",
    ),
    Family(
        "serve_api",
        "api deciding pausing",
        "web",
        "approvals.decide approvals.deliver_decision approvals.open_console approvals.pause "
        "approvals.show_approval limits.freezes",
    ),
    Family(
        "serve_approval",
        "page deciding",
        "web",
        "approvals.decide approvals.deliver_decision approvals.show_approval",
    ),
    Family(
        "serve_console",
        "console deciding pausing",
        "console web",
        "approvals.decide approvals.deliver_decision approvals.open_console approvals.pause "
        "approvals.show_approval fleet.unswept limits.freezes scan.documents "
        "scan.for_reports scan.snapshot scan.words",
    ),
    Family("sign_in", "sign_in", "web"),
    Family("rotate_link_keys", "", "approvals"),
    Family("write_audit", "", "episode"),
)
"""A reviewer sees a change of it here: what a function loads, it pays for at every cold start."""
OF_ANY_FUNCTION = {"basics", "parts", "ec2", "policies", "observability", "payloads"}
"""Modules of `wiring` that load no use case but the reading of the policy."""
SHARED_ROOMS = {"core", "table", "alerts", "policy", "aws"}
PASSIVE = {"messages", "model", "ports", "rules", "store", "templates"}
"""Modules of a room that other rooms share: words, records, decisions, and stores."""
OF_THE_CONTRACT_OF_EVENTS = {"events.contract", "events.table_stream", "approvals.rotate_keys"}
"""Modules with which a handler parses events of AWS."""


def use_cases(modules: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield room and module of each use case among these modules."""
    for module in modules:
        _, room, *inside = [*module.split("."), ""]
        is_of_a_room = module.startswith("governor.") and any(inside)
        if is_of_a_room and room not in SHARED_ROOMS and inside[0] not in PASSIVE:
            yield room, inside[0]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.functions)
def test_a_cold_start_loads_its_own_family_alone(family: Family) -> None:
    """And the few modules beyond it which the family works with."""
    for function in family.functions.split():
        found = set(use_cases(loaded(function, **(SIGN_IN if function == "sign_in" else {}))))
        wiring = {module for room, module in found if room == "wiring"}
        beyond = {
            f"{room}.{module}"
            for room, module in found
            if room not in {"wiring", *family.rooms.split()}
        }

        assert set(family.wiring.split()) == wiring - OF_ANY_FUNCTION
        assert set(family.beyond.split()) == beyond - OF_THE_CONTRACT_OF_EVENTS


def test_every_function_has_one_family() -> None:
    assert FUNCTIONS == sorted(name for family in FAMILIES for name in family.functions.split())


IAM_PREFIXES = {"stepfunctions": "states"}
"""Services that IAM names differently than botocore."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_opens_no_client_that_its_role_forbids(function: str) -> None:
    """A client that may call nothing costs time at every cold start, and hides a wrong part."""
    role = hub_functions()["".join(word.capitalize() for word in function.split("_"))]
    allowed = {
        action.partition(":")[0]
        for statement in role
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
    }

    services = cold_start(function, **(SIGN_IN if function == "sign_in" else {}))[1]

    assert services
    assert set() == {IAM_PREFIXES.get(service, service) for service in services} - allowed


def test_functions_without_a_policy_load_no_parser_of_it() -> None:
    """Parts import their classes when they are made: a function without a policy parses none."""
    for function in ("write_audit", "conclude_approval", "rotate_link_keys"):
        assert "governor.wiring.policies" not in loaded(function)
        assert "governor.policy.document" not in loaded(function)


@pytest.mark.parametrize("function", ["serve_approval", "put_away", "handle_state_change"])
def test_nothing_but_the_console_loads_the_console(function: str) -> None:
    """Nor the routes of Powertools, nor what only its pages read."""
    modules = loaded(function)

    assert set() == {one for one in modules if one.startswith("governor.console")}
    assert set() == modules & {
        "governor.approvals.store.sessions",
        "aws_lambda_powertools.event_handler",
    }
    assert "governor.console.app" in loaded("serve_console")


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        ("put_away", "TABLE_NAME"),
        ("deliver_alert", "DELIVERY_QUEUE_URL"),
        ("plan_sweep", "HUB_ACCOUNT_ID"),
    ],
)
def test_a_missing_variable_ends_the_cold_start_by_its_name(function: str, missing: str) -> None:
    """Not the first invocation that happens to need it."""
    done = run(function, {**VARIABLES, missing: ""})

    assert 0 != done.returncode
    assert f"ConfigurationError: the environment variable {missing} is missing" in done.stderr


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"OIDC_CLIENT_ID": "gpu-governor"}, "OIDC_ISSUER"),
        ({"OIDC_APPROVER_GROUP": "gpu-approvers"}, "OIDC_ISSUER"),
        ({"OIDC_ISSUER": "https://issuer.example.com"}, "OIDC_CLIENT_ID"),
        ({"OIDC_ISSUER": "https://issuer.example.com", "OIDC_CLIENT_ID": " "}, "OIDC_CLIENT_ID"),
    ],
)
def test_half_a_sign_in_stands_open_to_nobody(variables: dict[str, str], missing: str) -> None:
    """The cold start fails, and names what is missing."""
    with pytest.raises(ConfigurationError, match=missing):
        settings(**variables)


def test_no_setting_is_no_sign_in() -> None:
    """The template gives empty texts; the claim has its default."""
    empty = dict.fromkeys(
        ("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_APPROVER_GROUP", "OIDC_GROUPS_CLAIM"), ""
    )
    found = settings(**empty)

    assert ("", "groups", "", "") == (
        found.oidc_issuer,
        found.oidc_groups_claim,
        found.oidc_approver_group,
        found.oidc_client_secret_arn,
    )


@pytest.mark.parametrize(
    ("variables", "match"),
    [({"HUB_ACCOUNT_ID": "12345"}, "twelve digits"), ({"AWS_REGION": ""}, "AWS_REGION is missing")],
)
def test_what_every_function_needs_is_checked_for_every_function(
    variables: dict[str, str], match: str
) -> None:
    """The account and the Region of the stack."""
    with pytest.raises(ConfigurationError, match=match):
        settings(**variables)


def test_a_setting_is_read_without_what_surrounds_it() -> None:
    """Spaces around it, and the slash that a base address may end with."""
    found = parse_settings({**VARIABLES, "TABLE_NAME": " state "})

    assert "state" == found.need("table_name")
    assert "https://api.example.com" == found.approval_base_url


def test_a_part_of_an_unknown_name_is_refused() -> None:
    """Or a test would replace nothing and reach for AWS."""
    with pytest.raises(TypeError, match="stat"):
        Parts(settings(), stat=None)
