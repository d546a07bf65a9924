"""The policy document: every mistake is named by its path, and the defaults are the mission's
figures."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml

from cli.policy_meetings import meetings
from cli.policy_schema import policy_schema
from governor.core.errors import PolicyError
from governor.policy import validation
from governor.policy.document import parse_people_alone, parse_policy
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Mode, Policy
from governor.policy.yaml_document import read_document
from tests.builders import make_instance

EXAMPLES = ("inference-fleet", "notebooks", "sandbox-account", "training-cluster")


@cache
def by_schema() -> jsonschema.Draft202012Validator:
    """The schema as editors use it; making and checking it takes half a second."""
    return jsonschema.Draft202012Validator(policy_schema())


def test_an_empty_document_is_the_defaults() -> None:
    """Mode observe, 5% over 60 minutes, 80% coverage, 30 minutes of grace."""
    policy = parse_policy("").base().policy

    assert Policy() == policy
    assert Mode.OBSERVE is policy.mode
    idle = policy.idle
    figures = (idle.utilization_below_percent, idle.window_minutes, idle.minimum_coverage_percent)
    assert (5.0, 60, 80.0) == figures
    assert 30 == idle.grace_after_launch_minutes


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("modes: ask", "modes"),
        ("idle: {window_minute: 60}", "idle.window_minute"),
        ("mode: sometimes", "mode"),
        ("idle: {window_minutes: -5}", "idle.window_minutes"),
        ("plan: {action: hibernate}", "plan.action"),
        ("plan: {when_stop_is_unsupported: stop}", "plan.when_stop_is_unsupported"),
        ("version: 7", "version"),
        ("overrides: [{name: x, match: {tag: {}}, set: {}}]", "overrides.0.match.tag"),
        (
            "overrides: [{name: x, match: {}, set: {idle: {window: 1}}}]",
            "overrides.0.set.idle.window",
        ),
        ("overrides: [{name: x, match: {}, set: {selector: {}}}]", "overrides.0.set.selector"),
        ("overrides: [{name: x, match: {}}]", "overrides.0.set"),
        ("overrides: {name: x}", "overrides"),
        ("{approval: {on_expiry: act}, plan: {action: terminate}}", "approval.on_expiry"),
        ("prices: {ebs_usd_per_gib_month: -1}", "prices.ebs_usd_per_gib_month"),
        ("approval: {delivery_limit_minutes: 1}", "approval.delivery_limit_minutes"),
        ("approval: {remind_after_minutes: 30000}", "approval.expire_after_minutes"),
        ("ownership: {default_contacts: [nobody]}", "ownership.default_contacts.0"),
        ("overrides: [{name: x, match: {}, set: {ownership: {}}}]", "overrides.0.set.ownership"),
        ("health: {hot_above: 85}", "health.hot_above"),
        ("health: {hot_above_celsius: 20}", "health.hot_above_celsius"),
        ("overrides: [{name: x, match: {}, set: {budget: {}}}]", "overrides.0.set.budget"),
        ("overrides: [{name: x, match: {}, set: {managed: {}}}]", "overrides.0.set.managed"),
        ("budget: {monthly_usd: 0}", "budget.monthly_usd"),
        ("budget: {monthly_usd: .nan}", "budget.monthly_usd"),
        ("budget: {projects: {llm: -1}}", "budget.projects.llm"),
        ("budget: {projects: {llm: 1000000001}}", "budget.projects.llm"),
        ("budget: {monthly_usd: 1.0e+12}", "budget.monthly_usd"),
        ("prices: {usd_per_hour: {g4dn.xlarge: 1.0e+300}}", "prices.usd_per_hour.g4dn.xlarge"),
        ("prices: {usd_per_hour: {g4dn.xlarge: 1.0e+999}}", "prices.usd_per_hour.g4dn.xlarge"),
        ("prices: {usd_per_hour: {g4dn.xlarge: .inf}}", "prices.usd_per_hour.g4dn.xlarge"),
        ("prices: {usd_per_hour: {g4dn.xlarge: -1}}", "prices.usd_per_hour.g4dn.xlarge"),
        ("prices: {snapshot_usd_per_gib_month: 1000001}", "prices.snapshot_usd_per_gib_month"),
        ("prices: {snapshot_usd_per_gib_month: .nan}", "prices.snapshot_usd_per_gib_month"),
        (
            "approval: {two_people_above_usd_per_hour: 1000001}",
            "approval.two_people_above_usd_per_hour",
        ),
        ("budget: {tell_at_percent: [0]}", "budget.tell_at_percent.0"),
        ("ledger: {saving_counts_days: 0}", "ledger.saving_counts_days"),
        ("managed: {idle_for_minutes: 30}", "managed.idle_for_minutes"),
        ("managed: {tell_again_after_hours: 1}", "managed.tell_again_after_hours"),
        ("metrics: {work: {namespace: AWS/EC2}}", "metrics.work.namespace"),
        ("metrics: {work: {name: Loss}}", "metrics.work.name"),
        ("survival: {chance: 65}", "survival"),
        ("survival: 7", "survival"),
        (
            "overrides: [{name: x, match: {}, set: {survival: {chance: 65}}}]",
            "overrides.0.set.survival",
        ),
        ("targets: {pasts_asked: 7}", "targets.pasts_asked"),
        ("approval: {ask_after_minutes: 4}", "approval.ask_after_minutes"),
        ("approval: {ask_after_minutes: 20161}", "approval.ask_after_minutes"),
        ("approval: {ask_after_minutes: 181}", "approval.ask_after_minutes"),
        ("approval: {ask_after_minutes: 60}", "approval.ask_after_released_minutes"),
        ("approval: {ask_after_released_minutes: 185}", "approval.ask_after_released_minutes"),
        ("approval: {released_memory_below_percent: 51}", "approval.released_memory_below_percent"),
    ],
)
def test_a_mistake_is_refused_with_its_path(text: str, path: str) -> None:
    """Unknown settings and values out of range, wherever they stand."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(text)

    assert path in [problem.path for problem in refused.value.problems]


def refusal(text: str) -> list[tuple[int | None, str, str]]:
    """Line, path and reason of every problem."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(text)
    return [(one.line, one.path, one.reason) for one in refused.value.problems]


def test_every_mistake_is_named_at_once_with_its_own_line() -> None:
    """Two in a section, in the base and in overrides: nobody mends a document one mistake a
    time."""
    found = refusal(
        """mode: banana
idle:
  window_minutes: 60
  minimum_coverage_percent: 1
  utilization_below_percent: 99
  bogus: 1
overrides:
  - name: a
    match: {tagz: 1}
    set:
      plan: {action: nuke}
  - name: b
    match: {}
    set: {breaker: {turned_idle_percent: 9}, approval: {ask_after_minutes: 1}}
"""
    )

    assert [
        (1, "mode", "is 'banana'; it must be 'observe', 'ask' or 'auto'"),
        (4, "idle.minimum_coverage_percent", "is 1; it must be at least 50"),
        (5, "idle.utilization_below_percent", "is 99; it must be at most 50"),
        (6, "idle.bogus", "unknown setting"),
        (9, "overrides.0.match.tagz", "unknown setting"),
        (
            11,
            "overrides.0.set.plan.action",
            "is 'nuke'; it must be 'stop', 'terminate' or 'notify-only'",
        ),
        (14, "overrides.1.set.breaker", "is a setting of the whole sweep and cannot be overridden"),
        (14, "overrides.1.set.approval.ask_after_minutes", "is 1; it must be at least 5"),
    ] == found


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            'targets: {accounts: ["1"], regoins: [xx]}',
            [
                ("targets.regoins", "unknown setting"),
                ("targets.accounts.0", "is '1'; an account has 12 digits, in quotes"),
            ],
        ),
        (
            'targets: {accounts: ["1", 5, "2"]}',
            [
                ("targets.accounts.1", "is 5; it must be text; put it in quotes"),
                ("targets.accounts.0", "is '1'; an account has 12 digits, in quotes"),
                ("targets.accounts.2", "is '2'; an account has 12 digits, in quotes"),
            ],
        ),
        (
            "idle: {window_minutes: often, bogus: 2, minimum_coverage_percent: 1}",
            [
                ("idle.bogus", "unknown setting"),
                ("idle.window_minutes", "is 'often'; it must be a whole number"),
                ("idle.minimum_coverage_percent", "is 1; it must be at least 50"),
            ],
        ),
        (
            'overrides: [{name: a, match: {accounts: ["1"], regoins: [xx]}, set: {mod: ask}}]',
            [
                ("overrides.0.match.regoins", "unknown setting"),
                ("overrides.0.match.accounts.0", "is '1'; an account has 12 digits, in quotes"),
                ("overrides.0.set.mod", "unknown setting"),
            ],
        ),
        (
            "approval: {ask_after_minutes: 60, bogus: 1}",
            [
                ("approval.bogus", "unknown setting"),
                (
                    "approval.ask_after_released_minutes",
                    "ask_after_released_minutes (90) must be at most ask_after_minutes (60)",
                ),
            ],
        ),
    ],
)
def test_no_mistake_of_a_section_hides_another(text: str, problems: list[tuple[str, str]]) -> None:
    """An unknown setting, a value of the wrong type, and one out of range."""
    assert sorted(problems) == sorted((path, reason) for _, path, reason in refusal(text))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("approval: {ask_after_minutes: 60, ask_after_released_minutes: soon}", "approval."),
        ("{idle: {window_minutes: 61}, metrics: {period_seconds: long}}", "metrics."),
    ],
)
def test_a_mistake_makes_no_contradiction(text: str, path: str) -> None:
    """With the default in its place, settings that go together may not."""
    (problem,) = refusal(text)

    assert problem[1].startswith(path)


def test_several_contradictions_of_a_section_are_named_each() -> None:
    """By the setting to change, wherever it stands."""
    found = refusal(
        """ownership:
  default_contacts: [nobody]
  escalation_contacts:
    - noone
  contacts:
    a:
      emails: [b, alice@example.com, c]
      time_zone: Mars
"""
    )
    assert [(7, "emails.0"), (7, "emails.2"), (8, "time_zone")] == [
        (line, path.removeprefix("ownership.contacts.a.")) for line, path, _ in found
    ]
    found = refusal(
        "ownership:\n  default_contacts: [nobody]\n  escalation_contacts:\n    - noone\n"
    )
    assert [(2, "ownership.default_contacts.0"), (4, "ownership.escalation_contacts.0")] == [
        (line, path) for line, path, _ in found
    ]


def test_the_bases_mistake_is_not_told_again_of_an_override() -> None:
    """Unless it makes the same one."""
    text = """idle: {window_minutes: 1}
overrides:
  - {name: a, match: {}, set: {mode: ask}}
  - {name: b, match: {}, set: {idle: {window_minutes: 1}}}
  - {name: c, match: {}, set: {idle: {window_minutes: 60}}}
"""
    assert [(1, "idle.window_minutes"), (4, "overrides.1.set.idle.window_minutes")] == [
        (line, path) for line, path, _ in refusal(text)
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('idle: {window_minutes: "60"}', "is '60'; it must be a whole number"),
        ("idle: {window_minutes: true}", "is true; it must be a whole number"),
        ("idle: {window_minutes: 60.5}", "is 60.5; it must be a whole number"),
        ('idle: {minimum_coverage_percent: "80"}', "is '80'; it must be a number"),
        ("idle: {minimum_coverage_percent: true}", "is true; it must be a number"),
        ('plan: {local_disks_may_be_lost_unasked: "yes"}', "is 'yes'; it must be true or false"),
        ("plan: {local_disks_may_be_lost_unasked: yes}", "is 'yes'; it must be true or false"),
        ("health: {enabled: 0}", "is 0; it must be true or false"),
        ("selector: {tag_key: a, tag_value: 1}", "is 1; it must be text; put it in quotes"),
        ("targets: {accounts: 123}", "is 123; it must be a list"),
        ("prices: {usd_per_hour: {g5.xlarge: true}}", "is true; it must be a number"),
        ('prices: {usd_per_hour: {g5.xlarge: "1.5"}}', "is '1.5'; it must be a number"),
        ("prices: {usd_per_hour: {g4dn.xlarge: 1e999999}}", "is '1e999999'; it must be a number"),
        ('prices: {ebs_usd_per_gib_month: "0.1"}', "is '0.1'; it must be a number"),
        ('budget: {monthly_usd: " 1_0 "}', "is '1_0'; it must be a number"),
        ('budget: {projects: {llm: "10"}}', "is '10'; it must be a number"),
        ('approval: {two_people_above_usd_per_hour: "5"}', "is '5'; it must be a number"),
        ("idle: null", "is null; it must be a mapping of settings"),
        ("version: true", "is true; this release reads version 1"),
        ("overrides: [{name: 1, match: {}, set: {}}]", "is 1; it must be text"),
        ("overrides: [{name: ' ', match: {}, set: {}}]", "is ''; it must be text"),
        (
            "overrides: [{name: a, match: {accounts: [123456789012]}, set: {}}]",
            "is 123456789012; it must be",
        ),
    ],
)
def test_a_value_of_another_kind_is_refused(text: str, reason: str) -> None:
    """As the schema refuses it: no text is a number, no number a flag."""
    ((_, _, said),) = refusal(text)
    assert said.startswith(reason)
    with pytest.raises(jsonschema.ValidationError):
        by_schema().validate(dict(read_document(text).settings))


@pytest.mark.parametrize(
    ("match", "path", "said"),
    [
        (
            "regions: ['eu-*']",
            "regions.0",
            "is 'eu-*'; no Region is named so: write each, as us-east-1",
        ),
        ("regions: [us-east-1a]", "regions.0", "is 'us-east-1a'; no Region is named so"),
        ("regions: [eu-west-1, EU-WEST-1]", "regions.1", "is 'EU-WEST-1'; no Region is named so"),
        ("accounts: ['123456']", "accounts.0", "is '123456'; an account has 12 digits, in quotes"),
        ("accounts: ['*']", "accounts.0", "is '*'; an account has 12 digits"),
        ("accounts: ['" + "\u0661" * 12 + "']", "accounts.0", "an account has 12 digits"),
        (
            "instance_families: [p5.48xlarge]",
            "instance_families.0",
            "is 'p5.48xlarge'; no family is named so: write what stands before the dot "
            "of a type, as p5",
        ),
        ("instance_families: ['p5*']", "instance_families.0", "no family is named so"),
    ],
)
def test_what_can_never_match_is_refused(match: str, path: str, said: str) -> None:
    """An override that never applies leaves production to be stopped."""
    text = (
        f"mode: ask\noverrides:\n  - {{name: production, match: {{{match}}}, set: "
        "{mode: observe}}"
    )
    ((line, where, reason),) = refusal(text)
    assert (3, f"overrides.0.match.{path}", True) == (line, where, said in reason)

    if not path.startswith("instance_families"):
        ((_, where, reason),) = refusal(f"targets: {{{match}}}")
        assert (f"targets.{path}", True) == (where, said in reason)
    if path.startswith("accounts"):
        ((_, where, reason),) = refusal(f"console: {{scopes: {{a: {{groups: [a], {match}}}}}}}")
        assert (f"console.scopes.a.{path}", True) == (where, said in reason)


def test_every_kind_of_region_and_family_has_a_name() -> None:
    """Other partitions too, and families with a dash."""
    regions = (
        "[us-east-1, us-gov-west-1, us-isob-east-1, ap-southeast-5, eusc-de-east-1, eu-isoe-west-1]"
    )
    families = "[p5, p4d, g4dn, g5g, trn1n, vt1, u-6tb1, p6-b200, mac2-m2pro]"
    parse_policy(
        f"targets: {{regions: {regions}}}\n"
        f"overrides: [{{name: a, match: {{regions: {regions}, instance_families: "
        f"{families}}}, set: {{}}}}]"
    )


def test_a_whole_number_is_a_number() -> None:
    """Where a fraction may stand."""
    idle = parse_policy("idle: {minimum_coverage_percent: 75}").base().policy.idle
    assert 75.0 == idle.minimum_coverage_percent


def test_a_long_refusal_is_cut() -> None:
    """It goes into messages and records; `problems` holds all."""
    with pytest.raises(
        PolicyError, match=r"k19 \(line 20\): unknown setting; and 80 more$"
    ) as refused:
        parse_policy("\n".join(f"k{number}: 1" for number in range(100)))
    assert 100 == len(refused.value.problems)


def test_overrides_of_one_name_are_refused() -> None:
    """Episodes record by name which applied."""
    text = """overrides:
  - {name: team, match: {tags: {Project: llm}}, set: {plan: {action: terminate}}}
  - {name: other, match: {}, set: {}}
  - name: team
    match: {tags: {Project: web}}
    set: {mode: observe}
"""
    assert [
        (4, "overrides.2.name", "is the name of overrides.0, too; give each its own")
    ] == refusal(text)


@pytest.mark.parametrize("name", ["'team '", "' team'", '"team\\t"', "'\u00a0team'"])
def test_a_name_with_space_around_it_is_refused(name: str) -> None:
    """Nobody could tell it from the one without."""
    text = (
        f"overrides: [{{name: team, match: {{}}, set: {{}}}}, {{name: {name}, match: "
        "{}, set: {}}]"
    )
    ((_, path, said),) = refusal(text)

    assert ("overrides.1.name", True) == (path, "no space before or after it" in said)
    with pytest.raises(jsonschema.ValidationError):
        by_schema().validate(dict(read_document(text).settings))


def test_overrides_apply_in_order_to_whom_they_match() -> None:
    """By tag, family and account; the later one wins; others keep the base."""
    book = parse_policy(
        """
        mode: observe
        overrides:
          - name: research
            match: {tags: {Project: llm}}
            set: {plan: {action: terminate}, mode: observe}
          - {name: big ones, match: {instance_families: [p5]}, set: {mode: ask}}
        """
    )
    research = book.applied_to(make_instance(tags={"Project": "llm"}))
    both = book.applied_to(make_instance(tags={"Project": "llm"}, instance_type="p5.48xlarge"))

    assert (Action.TERMINATE, Mode.OBSERVE) == (research.policy.plan.action, research.policy.mode)
    assert (Action.TERMINATE, Mode.ASK) == (both.policy.plan.action, both.policy.mode)
    assert ("research", "big ones") == both.overrides
    assert Mode.OBSERVE is book.applied_to(make_instance()).policy.mode


def test_overrides_are_told_apart_by_where_they_stand() -> None:
    """Two that match different instances, and one that matches both."""
    book = parse_policy(
        """
        overrides:
          - {name: a, match: {tags: {Project: llm}}, set: {plan: {action: terminate}}}
          - {name: a+b, match: {tags: {Project: web}}, set: {mode: observe}}
          - {name: b, match: {tags: {Project: llm}}, set: {mode: ask}}
        """
    )
    llm, web = (
        book.applied_to(make_instance(tags={"Project": project})) for project in ("llm", "web")
    )
    assert (("a", "b"), Mode.ASK, Action.TERMINATE) == (
        llm.overrides,
        llm.policy.mode,
        llm.policy.plan.action,
    )
    assert (("a+b",), Mode.OBSERVE, Action.STOP) == (
        web.overrides,
        web.policy.mode,
        web.policy.plan.action,
    )


def test_prices_are_decimals() -> None:
    """By the digits that are written; a whole number stays one."""
    text = "prices: {usd_per_hour: {p5.48xlarge: 31.4, g5.xlarge: 1, trn1.2xlarge: 0.000001}}"
    prices = parse_policy(text).base().policy.prices.usd_per_hour

    assert {"p5.48xlarge": "31.4", "g5.xlarge": "1", "trn1.2xlarge": "0.000001"} == {
        kind: str(usd) for kind, usd in prices.items()
    }


def test_the_schemas_defaults_are_what_may_be_written() -> None:
    """Editors write them: a price in quotes would be refused."""
    schema = policy_schema()
    prices = schema["$defs"]["Prices"]["properties"]

    assert (0.08, 10_000) == (
        prices["ebs_usd_per_gib_month"]["default"],
        schema["$defs"]["Budget"]["properties"]["monthly_usd"]["default"],
    )


def test_budgets_are_decimals_and_the_missions_by_default() -> None:
    """10,000 USD of each project; one of its own goes first, and null is none at all."""
    default = parse_policy("").base().policy.budget
    own = parse_policy("budget: {monthly_usd: null, projects: {llm: 0.1}}").base().policy.budget

    assert (Decimal(10_000), Decimal(10_000)) == (default.of("llm"), default.of("untagged"))
    assert (Decimal("0.1"), None) == (own.of("llm"), own.of("vision"))


def test_the_version_changes_with_the_document_and_not_with_its_layout() -> None:
    """Each episode records by which policy it was judged."""
    one, same = parse_policy("mode: ask"), parse_policy("# a note\nmode:   ask\n")

    assert one.base().version == same.base().version != parse_policy("mode: observe").base().version


def test_the_schema_accepts_what_the_parser_accepts() -> None:
    """Editors complete and check by it; docs/policy.md is a valid document."""
    schema = policy_schema()
    document = yaml.safe_load(
        "mode: ask\nidle: {window_minutes: 90}\noverrides: [{name: x, match: {}, set: {}}]"
    )

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"modes": "ask"}, schema)


@pytest.mark.parametrize(
    "text",
    [
        "idle: {window_minutes: 4}",
        "idle: {utilization_below_percent: 60}",
        "vetoes: {cpu_percent: 101}",
        "metrics: {period_seconds: 120}",
        "prices: {ebs_usd_per_gib_month: -1}",
        "prices: {usd_per_hour: {p5.48xlarge: 1000001}}",
        "budget: {projects: {llm: 1000000001}}",
        "targets: {regions: ['eu-*']}",
        "targets: {accounts: ['1234567890123']}",
        "overrides: [{name: a, match: {instance_families: [p5.48xlarge]}, set: {}}]",
        "health: {hot_above_celsius: 20}",
        "overrides: [{name: x, match: {}, set: {idle: {window_minute: 1}}}]",
        "overrides: [{name: x, match: {}, set: {idle: {window_minutes: 1}}}]",
        "overrides: [{name: x, match: {}, set: {plan: {action: nuke}}}]",
        "overrides: [{name: x, match: {}, set: {breaker: {}}}]",
        "overrides: [{name: '', match: {}, set: {}}]",
    ],
)
def test_the_schema_refuses_what_the_parser_refuses(text: str) -> None:
    """Ranges and what an override sets included: a mistake is seen while it is typed."""
    refusal(text)
    with pytest.raises(jsonschema.ValidationError):
        by_schema().validate(dict(read_document(text).settings))


def test_an_override_may_set_a_part_of_a_section() -> None:
    """For the schema, too; the rest is as the document says."""
    text = """
        exemption: {tag_key: Keep, tag_value: me}
        overrides:
          - name: x
            match: {}
            set:
              exemption: {tag_value: us}
              health: {hot_above_celsius: 80}
              vetoes: {cpu_percent: null}
    """
    by_schema().validate(dict(read_document(text).settings))
    policy = parse_policy(text).applied_to(make_instance()).policy

    assert "Keep=us" == str(policy.exemption)
    assert (80, None) == (policy.health.hot_above_celsius, policy.vetoes.cpu_percent)


@pytest.mark.parametrize(
    "path", ["docs/policy.md", *(f"examples/policies/{name}.yaml" for name in EXAMPLES)]
)
def test_what_readers_copy_is_good_by_the_schema(request: pytest.FixtureRequest, path: str) -> None:
    """So that no editor marks it."""
    text = (request.config.rootpath / path).read_text()
    text = text.split("```yaml\n")[1].split("```")[0] if path.endswith(".md") else text

    by_schema().validate(dict(read_document(text).settings))


def test_the_document_in_the_docs_is_a_policy(request: pytest.FixtureRequest) -> None:
    """Readers copy it."""
    text = (request.config.rootpath / "docs" / "policy.md").read_text()
    document = text.split("```yaml\n")[1].split("```")[0]

    policy = parse_policy(document).base().policy
    assert Mode.ASK is policy.mode


RETIRED = """
mode: ask
detector: threshold
idle: {window_minutes: 120}
survival: {needed_chance_percent: 80, history_days: 21}
targets: {pasts_asked_per_sweep: 20, regions: [us-east-1]}
advice: {right_size_check_every_minutes: 60}
health: {hot_average_seconds: 60, check_every_minutes: 62}
overrides:
  - name: notebooks
    match: {tags: {Team: notebooks}}
    set:
      detector: survival
      survival: {unproven_minutes: 240}
      idle: {window_minutes: 90}
"""


def test_settings_of_the_release_before_are_ignored_with_a_warning() -> None:
    """A stack that holds them goes on with everything else that its document says."""
    book = parse_policy(RETIRED)
    notebook = book.applied_to(make_instance(tags={"Team": "notebooks"})).policy

    assert [
        (3, "detector"),
        (5, "survival.history_days"),
        (5, "survival.needed_chance_percent"),
        (6, "targets.pasts_asked_per_sweep"),
        (7, "advice.right_size_check_every_minutes"),
        (8, "health.hot_average_seconds"),
        (13, "overrides.0.set.detector"),
        (14, "overrides.0.set.survival.unproven_minutes"),
    ] == [(one.line, one.path) for one in book.retired]
    assert (Mode.ASK, 120, ("us-east-1",)) == (
        book.base().policy.mode,
        book.base().policy.idle.window_minutes,
        book.base().policy.targets.regions,
    )
    assert 90 == notebook.idle.window_minutes
    assert timedelta(minutes=95) == notebook.health.window
    assert () == meetings(book).problems
    assert () == parse_policy("mode: ask").retired


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("approval", "retry_unopened_after_minutes", 30),
        ("prices", "refresh_hours", 12),
        ("events", "mass_interruption_window_minutes", 20),
        ("health", "memory_bound_memory_above_percent", 70),
        ("health", "memory_bound_compute_below_percent", 40),
        ("health", "compute_bound_above_percent", 95),
        ("health", "minimum_coverage_percent", 50),
        ("health", "window_minutes", 90),
        ("advice", "unused_below_percent", 10),
        ("advice", "full_memory_above_percent", 80),
        ("advice", "cpu_works_from_percent", 30),
        ("advice", "inference_below_percent", 20),
        ("advice", "steady_from_percent", 50),
        ("advice", "burst_at_most_hours", 12),
    ],
)
def test_a_removed_setting_of_messages_and_advice_is_ignored_with_a_warning(
    section: str, name: str, value: int
) -> None:
    """A stored policy of the release before still loads, and the warning names the path."""
    setting = f"{section}: {{{name}: {value}}}"
    override = f"overrides: [{{name: x, match: {{}}, set: {{{setting}}}}}]"
    book = parse_policy(f"mode: ask\n{setting}\n{override}")

    assert [(2, f"{section}.{name}"), (3, f"overrides.0.set.{section}.{name}")] == [
        (problem.line, problem.path) for problem in book.retired
    ]
    assert parse_policy("mode: ask").base().policy == book.base().policy
    assert book.base().policy == book.applied((0,)).policy


@pytest.mark.parametrize(
    ("section", "name", "value", "advice"),
    [
        ("metrics", "unasked_newest_reading_minutes", 3, "set mode: ask"),
        ("metrics", "unasked_newest_5_minute_reading_minutes", 7, "set mode: ask"),
        ("approval", "released_for_minutes", 60, "set approval.ask_after_released_minutes to"),
    ],
)
def test_a_removed_setting_that_held_actions_back_is_refused_with_its_path(
    section: str, name: str, value: int, advice: str
) -> None:
    """If it were ignored, more could be done than its author allowed."""
    setting = f"{section}: {{{name}: {value}}}"
    override = f"overrides: [{{name: x, match: {{}}, set: {{{setting}}}}}]"

    ((line, path, reason),) = refusal(f"mode: ask\n{setting}")
    assert (2, f"{section}.{name}") == (line, path)
    assert "is no longer a setting" in reason
    assert "remove it" in reason
    assert advice in reason
    assert [(2, f"overrides.0.set.{section}.{name}", reason)] == refusal(f"mode: ask\n{override}")


def test_a_version_in_force_with_a_removed_guard_keeps_its_people() -> None:
    """Nothing acts by it, and whoever must be notified of the corrected version still is."""
    text = f"metrics: {{unasked_newest_reading_minutes: 3}}\n{TWO}"
    book = parse_policy(text, accepted=True)

    assert book.whole
    assert book.base().policy.ownership.contacts
    assert parse_policy(TWO).base().policy == book.base().policy


def test_a_longer_window_is_the_time_before_a_question_too() -> None:
    """An override keeps it; released memory does not shorten it."""
    policy = parse_policy("idle: {window_minutes: 720}").base().policy
    assert (timedelta(hours=12), timedelta(hours=12)) == (policy.ask_window, policy.released_window)
    assert (timedelta(hours=3), timedelta(minutes=90)) == (
        Policy().ask_window,
        Policy().released_window,
    )


def test_periods_of_an_hour_are_accepted_and_start_no_question() -> None:
    """Documents that hold them are not refused; the times of questions need not fit them."""
    assert parse_policy("metrics: {period_seconds: 3600}").base().policy.why_never_asks
    assert not parse_policy("metrics: {period_seconds: 60}").base().policy.why_never_asks


def test_a_lag_that_hides_the_last_minutes_is_accepted_and_starts_no_question() -> None:
    """Documents of the release before may hold one; a shorter one ends only the shorter wait."""
    lags = {
        lag: parse_policy(f"metrics: {{lag_seconds: {lag}}}").base().policy
        for lag in (600, 900, 901)
    }

    assert [True, True, False] == [policy.why_never_asks is None for policy in lags.values()]
    assert timedelta(minutes=90) == lags[600].released_window
    assert lags[900].ask_window == lags[900].released_window


def test_nobody_is_asked_before_memory_was_released_for_a_quarter_of_an_hour() -> None:
    """However short the times of the policy are; else one low reading between two runs would
    count."""
    text = "idle: {window_minutes: 10}\napproval: {ask_after_released_minutes: 10}"
    assert timedelta(minutes=15) == parse_policy(text).base().policy.released_window


TRUSTED = "metrics: {publishers_are_trusted: true}\n"
TWO = "ownership: {contacts: {a: {emails: [alice@example.com, bob@example.com]}}}\n"


def test_auto_is_refused_where_tenants_may_publish_metrics() -> None:
    """Zeros that anybody may publish would stop any instance; in the document and in overrides."""
    (found,) = refusal("idle: {window_minutes: 60}\nmode: auto")
    assert (2, "mode") == found[:2]
    assert "metrics.publishers_are_trusted" in found[2]
    override = "overrides: [{name: x, match: {tags: {A: b}}, set: {mode: auto}}]"
    assert ["overrides.0.set.mode"] == [path for _, path, _ in refusal(override)]

    assert Mode.AUTO is parse_policy(f"mode: auto\n{TRUSTED}").base().policy.mode


@pytest.mark.parametrize(
    ("match", "settings", "people", "passes"),
    [
        (
            "tags: {Life: short}",
            "mode: auto, plan: {action: terminate}",
            "alice@example.com, BOB@example.com",
            True,
        ),
        (
            "tags: {Life: short}",
            "mode: auto, plan: {action: terminate}",
            "alice@example.com",
            False,
        ),
        (
            "tags: {Life: short}",
            "mode: auto, plan: {action: terminate}",
            "alice@example.com, Alice@example.com",
            False,
        ),
        (
            "tags: {Life: short}",
            "mode: auto, plan: {action: terminate}",
            "alice@example.com, eve@example.com",
            False,
        ),
        (
            "accounts: ['123456789012']",
            "mode: auto, plan: {action: terminate}",
            "alice@example.com, bob@example.com",
            False,
        ),
        (
            "tags: {Life: short}",
            "mode: auto, plan: {when_stop_is_unsupported: terminate}",
            "alice@example.com, bob@example.com",
            True,
        ),
    ],
)
def test_auto_terminates_only_where_a_tag_and_two_people_say_so(
    match: str, settings: str, people: str, passes: bool
) -> None:
    """The people are known to the policy, and two."""
    text = (
        f"{TRUSTED}{TWO}mode: ask\noverrides:\n"
        f"  - {{name: short, match: {{{match}}}, set: {{{settings}}}, approved_by: [{people}]}}\n"
    )
    if passes:
        assert Mode.AUTO is parse_policy(text).applied((0,)).policy.mode
    else:
        assert any("approved_by" in why for _, _, why in refusal(text))


@pytest.mark.parametrize("name", ["action", "when_stop_is_unsupported"])
def test_auto_with_terminate_in_the_document_itself_is_refused(name: str) -> None:
    """Two overrides that bring it about together are refused where they meet."""
    (found,) = refusal(f"{TRUSTED}{TWO}mode: auto\nplan: {{{name}: terminate}}")
    assert f"plan.{name}" == found[1]

    book = parse_policy(
        f"{TRUSTED}{TWO}overrides:\n"
        "  - {name: a, match: {tags: {A: a}}, set: {mode: auto}}\n"
        f"  - {{name: b, match: {{tags: {{B: b}}}}, set: {{plan: {{{name}: terminate}}}}}}\n"
    )
    with pytest.raises(PolicyError, match="does not terminate"):
        book.applied_to(make_instance(tags={"A": "a", "B": "b"}))


@pytest.mark.parametrize(("name", "number"), [("people_to_stop", 0), ("people_to_terminate", 1)])
def test_fewer_people_are_for_tagged_instances_alone(name: str, number: int) -> None:
    """An override for a tag, as for a project, may say so."""
    assert [f"approval.{name}"] == [
        path for _, path, _ in refusal(f"approval: {{{name}: {number}}}")
    ]
    override = f"set: {{approval: {{{name}: {number}}}}}"
    (found,) = refusal(f"overrides: [{{name: x, match: {{instance_families: [p5]}}, {override}}}]")
    assert f"overrides.0.set.approval.{name}" == found[1]

    book = parse_policy(f"overrides: [{{name: x, match: {{tags: {{Project: llm}}}}, {override}}}]")
    assert number == getattr(book.applied((0,)).policy.approval, name)


def test_what_an_earlier_release_accepted_still_names_its_people() -> None:
    """`mode: auto` of before this release: refused for what acts, read for whoever must be told."""
    text = f"mode: auto\nplan: {{action: terminate}}\n{TWO}"
    assert 2 == len(refusal(text))
    assert parse_policy(text, accepted=True).base().policy.ownership.contacts


@pytest.mark.parametrize("minutes", [5, 9])
def test_a_window_of_an_earlier_release_is_refused_and_keeps_its_people(minutes: int) -> None:
    """Nothing acts by it, and whoever must be notified still is; also where an override says so."""
    idle, rest = f"idle: {{window_minutes: {minutes}}}", f"metrics: {{period_seconds: 60}}\n{TWO}"
    within = f"overrides: [{{name: x, match: {{tags: {{Project: llm}}}}, set: {{{idle}}}}}]"
    for text, path in (
        (idle, "idle.window_minutes"),
        (within, "overrides.0.set.idle.window_minutes"),
    ):
        ((_, found, reason),) = refusal(f"{text}\n{rest}")
        assert (path, f"is {minutes}; it must be at least 10") == (found, reason.partition(",")[0])
        book = parse_policy(f"{text}\n{rest}", accepted=True)
        assert book.base().policy.ownership.contacts
    assert minutes == book.applied((0,)).policy.idle.window_minutes


@pytest.mark.parametrize(
    ("text", "people", "asked"),
    [
        ("mode: stop", [], False),
        ("mode: [", [], True),
        ("ownership: 5", [], False),
        ("two_people_for_policy: false\nownership: {contacts: 5, tags: x}", [], False),
        ("two_people_for_policy: 1\nownership: {contacts: {a: {emails: [x, a@b.org, y, "
        "c@d.org, z]}}}",
         ["a@b.org", "c@d.org"], True),
        ("two_people_for_policy: true\nownership: {default_contacts: [a, b], contacts: "
        "{b: 3, a: {zone: x, "
         "emails: [a@b.org], identities: {x: 5, y: c@d.org, z: a@b.org}}}}", ["a@b.org"], True),
    ],
)  # fmt: skip
def test_of_a_refused_document_its_people_are_read(
    text: str, people: list[str], asked: bool
) -> None:
    """Without what is wrong about them: each other one stays."""
    book = parse_people_alone(text)
    policy = book.base().policy
    known = [one for contact in policy.ownership.contacts.values() for one in contact.emails]

    assert (people, asked, False) == (known, policy.two_people_for_policy, book.whole)
    assert Policy(two_people_for_policy=asked, ownership=policy.ownership) == policy


class Counted(frozenset[tuple[str, ...]]):
    """Paths that count how often one is looked for."""

    lookups = 0

    def __contains__(self, path: object) -> bool:
        Counted.lookups += 1
        return super().__contains__(path)


def test_each_setting_is_looked_at_once_to_find_hidden_mistakes() -> None:
    """A list of 6,000 bad addresses took 41 seconds, and a sweep reads each new version."""
    addresses = [f"bad {number}" for number in range(2_000)]
    settings = {"contacts": {"a": {"nope": 1, "emails": addresses}}}
    left_out = Counted({("contacts", "a", "nope")})
    Counted.lookups = 0

    found = validation._new_mistakes(Ownership, settings, left_out, (), ignored=())

    assert len(addresses) == len(found)
    assert Counted.lookups < 2 * len(addresses)


def test_a_document_full_of_mistakes_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody corrects more than a hundred at once."""
    readings = []

    def read(kind: Any, settings: object) -> Any:
        readings.append(settings)
        return _read(kind, settings)

    _read = validation._read
    monkeypatch.setattr(validation, "_read", read)
    settings = {"contacts": {"a": {"nope": 1, "emails": [1, "bad"] * 101}}}
    _, mistakes = validation.validated(Ownership, settings)

    assert (1, 102) == (len(readings), len(mistakes))
