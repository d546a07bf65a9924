"""Which changes of the policy are risky: every setting is classified, and what is new counts as
risky."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from governor.core.settings import Risk, Section
from governor.policy.document import parse_policy
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Policy
from governor.policy.rules.changes import people_behind, risky_changes, settings_of

AUTO = "mode: auto\nmetrics: {publishers_are_trusted: true}"
RISKS = {path: risk for path, risk, _ in settings_of(Policy())}
HARMLESS = """
    advice.weeks advice.minimum_weeks advice.minimum_measured_percent advice.minimum_usd_per_month
    advice.dismissed_for_days advice.target_percent advice.cpu_family advice.cpu_usd_per_vcpu_hour
    advice.office_day_at_most_hours advice.schedule_tag_key advice.schedule_name
    advice.old_families advice.newer_families
    advice.port_pays_within_months advice.empty_reservation_after_hours
    advice.scale_in_below_percent approval.delivery_limit_minutes approval.digest_after_seconds
    approval.digest_from approval.watch_every_minutes budget.monthly_usd budget.projects
    budget.publish_at_most_projects budget.tell_at_percent events.compare_spot_prices
    events.mass_interruption_told_singly events.placement_scores events.remind_before_hours
    events.spot_price_regions health.advice_every_hours health.busy_from_percent
    health.check_every_minutes health.enabled health.hot_above_celsius health.straggler_above_points
    health.throttled_above_percent health.under_used_below_percent ledger.false_stop_within_minutes
    ledger.monthly_report ledger.saving_counts_days ledger.weekly_report managed.idle_for_minutes
    managed.tell_again_after_hours money.job_tag_keys plan.copied_tag_keys plan.snapshot_tags
    prices.commitments_elsewhere prices.discount_percent
    prices.ebs_usd_per_gib_month prices.snapshot_usd_per_gib_month
"""
ANY_CHANGE = """
    approval.ask_about_stopped_after_days approval.on_expiry breaker.hold_minutes
    breaker.hub_minimum_instances breaker.hub_times_the_usual breaker.lift_freezes_before
    breaker.minimum_instances budget.act breaker.turned_idle_percent breaker.turned_silent_percent
    breaker.unusual_times_the_most console.scopes events.checkpoint_on_auto_scaling
    events.checkpoint_on_rebalance events.checkpoint_on_spot_interruption
    events.completed_lifecycle_hooks events.signal_gpu_processes events.snapshot_data_volumes
    exemption.tag_key exemption.tag_value metrics.collection_interval_seconds
    metrics.device_dimension metrics.utilization_scale metrics.series_per_device
    metrics.encoded_frames metrics.encoder_sessions metrics.encoder_utilization
    metrics.decoder_utilization
    metrics.hardware_namespace metrics.lag_seconds metrics.memory_used metrics.memory_utilization
    metrics.namespace metrics.period_seconds metrics.power_draw metrics.profile
    metrics.temperature
    metrics.utilization metrics.work ownership.contacts ownership.default_contacts
    ownership.default_owner ownership.email_domains ownership.escalation_contacts
    ownership.owner_tag_keys ownership.project_owners ownership.project_tag_keys plan.action
    plan.delete_expired_snapshots plan.delete_last_of_terminated
    plan.local_disks_may_be_lost_unasked plan.snapshot_limit_minutes plan.stop_limit_minutes
    plan.when_stop_is_unsupported plan.when_termination_is_protected prices.usd_per_hour
    selector.tag_key selector.tag_value
"""
"""Their values have no direction that is always safe."""


def found(before: str, after: str) -> list[str]:
    """The risky paths between two documents."""
    return risky_changes(parse_policy(before), parse_policy(after))


def test_every_setting_is_classified() -> None:
    """A new setting without a declared risk counts as risky; whoever adds it says here that this is
    meant."""
    of_risk = {
        risk: {path for path, its in RISKS.items() if its == risk} for risk in get_args(Risk)
    }

    assert set(HARMLESS.split()) == of_risk["none"]
    assert set(ANY_CHANGE.split()) == of_risk["any"]
    assert "any" == Section.risk


def test_a_default_that_no_line_has_is_explained() -> None:
    """Two people are needed by default while a rule terminates."""
    before = "plan: {action: terminate}"
    explained = "two_people_for_policy (false by default, as no rule terminates now)"

    assert explained in found(before, "plan: {action: notify-only}")
    assert explained not in found(f"two_people_for_policy: true\n{before}", "{}")


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ("mode: ask", AUTO, ["mode", "metrics.publishers_are_trusted"]),
        ("mode: ask", "mode: observe", []),
        ("two_people_for_policy: true", "{}", ["two_people_for_policy"]),
        ("{}", "two_people_for_policy: true", []),
        ("{}", "exemption: {tag_key: K, tag_value: v}",
        ["exemption.tag_key", "exemption.tag_value"]),
        ("targets: {accounts: ['111122223333']}", "{}", ["targets.accounts"]),
        ("{}", "targets: {regions: [eu-west-1]}", ["targets.regions"]),
        ("{}", "targets: {units: [ou-abcd-11111111]}", ["targets.units"]),
        ("targets: {units: [ou-abcd-11111111]}", "{}", ["targets.units"]),
        ("targets: {units: [r-abcd, ou-abcd-11111111]}", "targets: {units: [r-abcd]}", []),
        (
            "targets: {units: [r-abcd], without_units: [ou-abcd-11111111]}",
            "targets: {units: [r-abcd]}",
            ["targets.without_units"],
        ),
        (
            "targets: {units: [r-abcd]}",
            "targets: {units: [r-abcd], without_units: [ou-abcd-11111111]}",
            [],
        ),
        ("targets: {regions: [eu-west-1, us-east-1]}", "targets: {regions: [us-east-1]}", []),
        (
            "targets: {without: [{account: '111122223333', region: eu-west-1}]}",
            "{}",
            ["targets.without"],
        ),
        ("{}", "targets: {without: [{account: '111122223333', region: eu-west-1}]}", []),
        ("{}", "caps: {account_actions_per_hour: 6}", ["caps.account_actions_per_hour"]),
        ("{}", "caps: {account_actions_per_hour: 0}", []),
        ("{}", "breaker: {minimum_instances: 6}", ["breaker.minimum_instances"]),
        ("{}", "ownership: {contacts: {x: {emails: [a@example.com]}}}", ["ownership.contacts"]),
        ("{}", "vetoes: {cpu_percent: null}", ["vetoes.cpu_percent"]),
        ("{}", "vetoes: {memory_used_percent: 50}", []),
        ("{}", "vetoes: {session_younger_than_hours: null}", ["vetoes.session_younger_than_hours"]),
        ("{}", "vetoes: {required: [cpu]}", ["vetoes.required"]),
        ("{}", "approval: {notice_minutes: 30}", ["approval.notice_minutes"]),
        ("{}", "approval: {cli_may: [keep, stop]}", ["approval.cli_may"]),
        ("{}", "approval: {cli_may: []}", []),
        ("{}", "idle: {window_minutes: 30}", ["idle.window_minutes"]),
        ("{}", "idle: {window_minutes: 120}", []),
        ("{}", "managed: {tag_keys: [batch]}", []),
        ("{}", "plan: {running_snapshot_valid_minutes: 241}",
        ["plan.running_snapshot_valid_minutes"]),
        ("{}", "plan: {running_snapshot_valid_minutes: 239, snapshot_retention_days: 31}", []),
        ("metrics: {bound_namespaces: true}", "{}", ["metrics.bound_namespaces"]),
        ("{}", "metrics: {bound_namespaces: true}", []),
        ("{}", "budget: {monthly_usd: 5}\nhealth: {enabled: false}", []),
        ("mode: ask", "# a comment\nmode: ask", []),
    ],
)  # fmt: skip
def test_what_loosens_is_risky_and_what_tightens_is_not(
    before: str, after: str, paths: list[str]
) -> None:
    """An operator who pulls a brake waits for nobody."""
    assert sorted(paths) == sorted(found(before, after))


OVERRIDE = "{name: one, match: {tags: {a: b}}, set: {idle: {window_minutes: 120}}}"
OTHER = "{name: two, match: {tags: {c: d}}, set: {health: {enabled: false}}}"


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ("[]", f"[{OVERRIDE}]", ["overrides"]),
        (f"[{OVERRIDE}]", "[]", ["overrides"]),
        (f"[{OVERRIDE}, {OTHER}]", f"[{OTHER}, {OVERRIDE}]", ["overrides"]),
        (f"[{OVERRIDE}]", f"[{OVERRIDE.replace('a: b', 'a: c')}]", ["overrides"]),
        (f"[{OVERRIDE}]", f"[{OVERRIDE}] # a comment", []),
    ],
)
def test_any_change_of_overrides_is_risky(before: str, after: str, paths: list[str]) -> None:
    """For which instances a value loosens something is not worth a guess."""
    assert paths == found(f"overrides: {before}", f"overrides: {after}")


def test_people_count_once_and_only_those_of_the_policy_in_force() -> None:
    """Whoever CloudTrail saw, and whoever accepted; by whichever of their names."""
    own = {"aws:arn:aws:iam::123456789012:user/alice": "alice@example.com"}
    people = Ownership(
        contacts={"x": Contact(emails=("alice@example.com", "bob@example.com"), identities=own)}
    )

    def behind(writer: str, *accepted: str) -> Any:
        return set(people_behind(writer, accepted, people))

    alice = "arn:aws:iam::123456789012:user/alice"
    assert {"alice@example.com"} == behind(alice, f"aws:{alice}", "alice@example.com")
    assert {"alice@example.com", "bob@example.com"} == behind(
        alice, "bob@example.com", "mallory@example.com"
    )
    assert set() == behind("", "aws:arn:aws:sts::123456789012:assumed-role/ci/alice")
