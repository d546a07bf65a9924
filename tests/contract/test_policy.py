"""The policy document: every mistake is named by its path, and the defaults are the mission's figures."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal

import jsonschema
import pytest
import yaml

from governor.contracts.policy import parse_policy, policy_schema
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.policy import Action, Health, Mode, Policy, Survival
from governor.errors import PolicyError
from tests.builders import make_instance


def test_an_empty_document_is_the_defaults() -> None:
    """Mode observe, 5 % over 60 minutes, 80 % coverage, 30 minutes of grace."""
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
        ("idle: {window_minutes: -5}", "idle"),
        ("plan: {action: hibernate}", "plan.action"),
        ("plan: {when_stop_is_unsupported: stop}", "plan.when_stop_is_unsupported"),
        ("version: 7", "version"),
        ("overrides: [{name: x, match: {tag: {}}, set: {}}]", "overrides.0.match.tag"),
        ("overrides: [{name: x, match: {}, set: {idle: {window: 1}}}]", "overrides.0.set.idle.window"),
        ("overrides: [{name: x, match: {}, set: {selector: {}}}]", "overrides.0.set.selector"),
        ("overrides: [{name: x, match: {}}]", "overrides.0.set"),
        ("overrides: {name: x}", "overrides"),
        ("{approval: {on_expiry: act}, plan: {action: terminate}}", ""),
        ("prices: {ebs_usd_per_gib_month: -1}", "prices"),
        ("approval: {delivery_limit_minutes: 1}", "approval"),
        ("approval: {remind_after_minutes: 30000}", "approval"),
        ("ownership: {default_contacts: [nobody]}", "ownership"),
        ("overrides: [{name: x, match: {}, set: {ownership: {}}}]", "overrides.0.set.ownership"),
        ("health: {hot_above: 85}", "health.hot_above"),
        ("health: {hot_above_celsius: 20}", "health"),
        ("health: {hot_average_seconds: 90}", "health"),
        ("health: {hot_average_seconds: 3600}", "health"),
        ("health: {hot_periods: 30}", "health"),
        ("health: {check_every_minutes: 100}", "health"),
        ("health: {gone_after_minutes: 60}", "health"),
        ("overrides: [{name: x, match: {}, set: {budget: {}}}]", "overrides.0.set.budget"),
        ("overrides: [{name: x, match: {}, set: {managed: {}}}]", "overrides.0.set.managed"),
        ("budget: {monthly_usd: 0}", "budget"),
        ("budget: {monthly_usd: .nan}", "budget.monthly_usd"),
        ("budget: {projects: {llm: -1}}", "budget"),
        ("budget: {tell_at_percent: [0]}", "budget"),
        ("ledger: {saving_counts_days: 0}", "ledger"),
        ("managed: {idle_for_minutes: 30}", "managed"),
        ("managed: {tell_again_after_hours: 1}", "managed"),
        ("metrics: {work: {namespace: AWS/EC2}}", "metrics.work"),
        ("metrics: {work: {name: Loss}}", "metrics.work.name"),
        ("survival: {chance: 65}", "survival.chance"),
        ("survival: {needed_chance_percent: 0.65}", "survival"),
        ("survival: {needed_chance_percent: 100}", "survival"),
        ("survival: {needed_chance_percent: .nan}", "survival"),
        ("survival: {worthwhile_hours: 0}", "survival"),
        ("survival: {similar_start_hours: 0}", "survival"),
        ("survival: {minimum_evidence: -1}", "survival"),
        ("survival: {minimum_evidence: 0, prior_weight: 0}", "survival"),
        ("survival: {prior_weight: -1}", "survival"),
        ("survival: {unproven_minutes: 0}", "survival"),
        ("survival: {unproven_minutes: 780}", "survival"),
        ("survival: {interruption_times: 0}", "survival"),
        ("survival: {interruption_up_to_hours: 0}", "survival"),
        ("survival: {longest_proof_hours: 36, history_days: 1}", "survival"),
        ("survival: {history_days: 64}", "survival"),
        ("survival: {history_days: 0}", "survival"),
        ("survival: {ask_again_after_minutes: -1}", "survival"),
        ("{idle: {window_minutes: 7200}, survival: {history_days: 4}}", ""),
    ],
)
def test_a_mistake_is_refused_with_its_path(text: str, path: str) -> None:
    """Unknown settings and values out of range, wherever they stand."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(text)

    assert path in [where for where, _ in refused.value.problems]


@pytest.mark.parametrize("text", ["mode: ask\nmode: auto", "a: [", "- list", "!!python/object:os.system {}"])
def test_what_is_not_one_clear_mapping_is_refused(text: str) -> None:
    """Repeated keys, broken YAML, other shapes, and objects of any language."""
    with pytest.raises(PolicyError):
        parse_policy(text)


def test_overrides_apply_in_order_to_whom_they_match() -> None:
    """By tag, family and account; the later one wins; others keep the base."""
    book = parse_policy(
        """
        mode: ask
        overrides:
          - {name: research, match: {tags: {Project: llm}}, set: {plan: {action: terminate}, mode: observe}}
          - {name: big ones, match: {instance_families: [p5]}, set: {mode: auto}}
        """
    )
    research = book.applied_to(make_instance(tags={"Project": "llm"}))
    both = book.applied_to(make_instance(tags={"Project": "llm"}, instance_type="p5.48xlarge"))

    assert (Action.TERMINATE, Mode.OBSERVE) == (research.policy.plan.action, research.policy.mode)
    assert (Action.TERMINATE, Mode.AUTO) == (both.policy.plan.action, both.policy.mode)
    assert ("research", "big ones") == both.overrides
    assert Mode.ASK is book.applied_to(make_instance()).policy.mode


def test_prices_are_decimals() -> None:
    """Money never goes through a float."""
    policy = parse_policy("prices: {usd_per_hour: {p5.48xlarge: '31.4'}}").base().policy

    assert {"p5.48xlarge": Decimal("31.4")} == policy.prices.usd_per_hour


def test_budgets_are_decimals_and_the_missions_by_default() -> None:
    """10,000 USD of each project; one of its own goes first, and null is none at all."""
    default = parse_policy("").base().policy.budget
    own = parse_policy("budget: {monthly_usd: null, projects: {llm: 0.1}}").base().policy.budget

    assert (Decimal(10_000), Decimal(10_000)) == (default.of("llm"), default.of("untagged"))
    assert (Decimal("0.1"), None) == (own.of("llm"), own.of("vision"))


def test_the_version_changes_with_the_document_and_not_with_its_layout() -> None:
    """Each episode records by which policy it was judged."""
    one, same = parse_policy("mode: ask"), parse_policy("# a note\nmode:   ask\n")

    assert one.base().version == same.base().version != parse_policy("mode: auto").base().version


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


def test_the_document_in_the_docs_is_a_policy(request: pytest.FixtureRequest) -> None:
    """Readers copy it."""
    text = (request.config.rootpath / "docs" / "policy.md").read_text()
    document = text.split("```yaml\n")[1].split("```")[0]

    assert Mode.ASK is parse_policy(document).base().policy.mode


def test_every_setting_of_health_is_in_the_docs_with_its_default(request: pytest.FixtureRequest) -> None:
    """Thresholds of the domain included."""
    text = (request.config.rootpath / "docs" / "policy.md").read_text()
    written = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])["health"]

    assert asdict(Health()) == written


def test_every_setting_of_survival_is_in_the_docs_with_its_default(request: pytest.FixtureRequest) -> None:
    """They are the detector's own defaults, which the evaluation scores."""
    text = (request.config.rootpath / "docs" / "policy.md").read_text()
    written = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])["survival"]

    assert asdict(Survival()) == written
    assert SurvivalDetector() == Policy().past_detector


def test_the_past_never_asks_for_less_than_the_window() -> None:
    """A longer window moves what is asked of an instance without a past, and the longest proof."""
    detector = parse_policy("idle: {window_minutes: 180}").base().policy.past_detector
    assert (180, 180, 12) == (
        detector.minimum_minutes,
        detector.unproven_minutes,
        detector.longest_proof_hours,
    )
    longest = parse_policy("idle: {window_minutes: 1430}").base().policy.past_detector
    assert (1430, 24) == (longest.unproven_minutes, longest.longest_proof_hours)


def test_a_limit_that_only_the_window_knows_says_what_to_set() -> None:
    """The past is told apart by the mission's 5 %; the window takes any limit."""
    with pytest.raises(PolicyError, match="set detector: threshold"):
        parse_policy("idle: {utilization_below_percent: 10}")
    other = "{detector: threshold, idle: {utilization_below_percent: 10}}"
    assert 10 == parse_policy(other).base().policy.idle.utilization_below_percent
