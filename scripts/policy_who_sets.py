"""Writes the chapter that says who sets each setting of the policy, and when.

Every setting has one entry: `who_sets_chapter` fails for a setting without one, so a setting that
nobody would set is noticed when it is added.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Who(StrEnum):
    """A kind of person who sets something in the policy."""

    PLATFORM = "platform"
    TRAINING = "training"
    NOTEBOOKS = "notebooks"
    INFERENCE = "inference"
    FINOPS = "FinOps"
    SECURITY = "security"
    OPERATOR = "operator"


_DUTIES = {
    Who.PLATFORM: "platform engineer of any GPU fleet",
    Who.TRAINING: "platform engineer of a training cluster",
    Who.NOTEBOOKS: "platform engineer of notebooks and workstations",
    Who.INFERENCE: "platform engineer of inference servers",
    Who.FINOPS: "the person who answers for cost: prices, budgets, reports, advice",
    Who.SECURITY: "the person who answers for rights, and for what may be done without people",
    Who.OPERATOR: "the person who runs GPU Governor, also during an incident",
}


class UnplacedSettingError(Exception):
    """Settings that the chapter does not name, names twice, or names although they do not exist."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The settings of one section that the same people set for the same reason."""

    section: str
    """Path of the section; empty for settings of the document itself."""
    names: str
    """Names of the settings in the section, separated by spaces."""
    who: tuple[Who, ...]
    when: str

    @property
    def paths(self) -> list[str]:
        above = f"{self.section}." if self.section else ""
        return [f"{above}{name}" for name in self.names.split()]


ENTRIES = (
    Entry("", "version", (Who.PLATFORM,), "never needed: says which schema the document is in"),
    Entry(
        "",
        "mode",
        (Who.PLATFORM, Who.OPERATOR),
        "after a trial in `observe`; back to `observe` in an incident",
    ),
    Entry(
        "",
        "two_people_for_policy",
        (Who.SECURITY,),
        "changes of the policy need a second person, or the team is one person",
    ),
    Entry(
        "selector",
        "tag_key tag_value",
        (Who.PLATFORM,),
        "the fleet has a tag value of its own; the key stays `Purpose`",
    ),
    Entry(
        "exemption",
        "tag_key tag_value",
        (Who.PLATFORM, Who.SECURITY),
        "the company has a tag for that already",
    ),
    Entry(
        "targets",
        "accounts units without_units regions without",
        (Who.PLATFORM,),
        "more than one account or Region",
    ),
    Entry(
        "metrics",
        "profile",
        (Who.PLATFORM,),
        "other publishers than CloudWatch's agent: EKS with Container Insights, DCGM, Trainium and "
        "Inferentia; often in an override",
    ),
    Entry(
        "metrics",
        "namespace utilization memory_used power_draw temperature memory_utilization "
        "hardware_namespace encoder_utilization decoder_utilization encoder_sessions "
        "encoded_frames",
        (Who.PLATFORM,),
        "a namespace or names of the team's own, which no profile has",
    ),
    Entry(
        "metrics",
        "period_seconds collection_interval_seconds lag_seconds",
        (Who.PLATFORM,),
        "the agent collects more or less often, or its readings arrive late",
    ),
    Entry(
        "metrics",
        "publishers_are_trusted bound_namespaces",
        (Who.SECURITY,),
        "before `auto`: who may publish metrics is settled",
    ),
    Entry(
        "metrics.work", "namespace names", (Who.TRAINING,), "jobs publish their own progress metric"
    ),
    Entry(
        "idle",
        "utilization_below_percent window_minutes minimum_coverage_percent "
        "grace_after_launch_minutes",
        (Who.TRAINING, Who.NOTEBOOKS, Who.INFERENCE),
        "a back-test (`governor simulate`) finds a better figure; long start-up; holes in metrics",
    ),
    Entry(
        "idle",
        "second_figure",
        (Who.PLATFORM, Who.SECURITY),
        "every host publishes power, so that no question needs to rest on utilization alone",
    ),
    Entry(
        "vetoes",
        "busy_vcpus video_percent encoder_sessions encoded_frames_per_second",
        (Who.TRAINING, Who.INFERENCE),
        "large instances preprocess on few of many vCPUs; remote desktops hold encoder sessions",
    ),
    Entry(
        "vetoes",
        "memory_used_percent power_percent_of_limit cpu_percent network_bytes_per_second required",
        (Who.TRAINING, Who.INFERENCE),
        "work that shows less in GPU utilization: preprocessing, loaded models, downloads",
    ),
    Entry("vetoes", "session_younger_than_hours", (Who.NOTEBOOKS,), "people work in long sessions"),
    Entry(
        "plan",
        "action when_stop_is_unsupported when_termination_is_protected",
        (Who.PLATFORM,),
        "instances are rebuilt from code, or one-time Spot",
    ),
    Entry(
        "plan",
        "snapshot_retention_days delete_expired_snapshots delete_last_of_terminated",
        (Who.FINOPS, Who.SECURITY),
        "a rule says how long data is kept, or snapshots cost too much",
    ),
    Entry(
        "plan",
        "snapshot_tags copied_tag_keys",
        (Who.FINOPS, Who.SECURITY),
        "an organization refuses a snapshot without certain tags, or tags must not be copied",
    ),
    Entry(
        "plan",
        "stop_limit_minutes snapshot_limit_minutes running_snapshot_valid_minutes",
        (Who.TRAINING,),
        "bare metal that stops slowly; volumes of many TiB",
    ),
    Entry(
        "plan",
        "local_disks_may_be_lost_unasked",
        (Who.TRAINING, Who.SECURITY),
        "local NVMe disks hold caches only",
    ),
    Entry(
        "approval",
        "ask_after_minutes ask_after_released_minutes released_memory_below_percent",
        (Who.TRAINING, Who.NOTEBOOKS, Who.INFERENCE),
        "questions come too early or too late; servers hold some memory at rest",
    ),
    Entry(
        "approval",
        "remind_after_minutes escalate_after_minutes expire_after_minutes notice_minutes",
        (Who.PLATFORM,),
        "people need more or less time to answer",
    ),
    Entry(
        "approval",
        "digest_from digest_after_seconds",
        (Who.NOTEBOOKS,),
        "owners of many instances get too many messages",
    ),
    Entry(
        "approval",
        "watch_every_minutes",
        (Who.OPERATOR,),
        "thousands of instances are idle: fewer reads of CloudWatch",
    ),
    Entry(
        "approval",
        "delivery_limit_minutes wait_at_most_hours",
        (Who.OPERATOR,),
        "a channel is down, or a freeze lasts, for long",
    ),
    Entry(
        "approval",
        "on_expiry",
        (Who.PLATFORM, Who.SECURITY),
        "silence may count as a yes for some instances",
    ),
    Entry(
        "approval",
        "keep_at_most_days keep_after_undo_hours ask_again_after_hours "
        "ask_about_stopped_after_days",
        (Who.FINOPS, Who.NOTEBOOKS),
        "keeps last too long, questions repeat too often, stopped instances pile up",
    ),
    Entry(
        "approval",
        "people_to_stop people_to_terminate two_people_above_usd_per_hour broadcast_may "
        "tag_owner_may cli_may",
        (Who.SECURITY,),
        "who may decide what, and how many must agree",
    ),
    Entry(
        "breaker",
        "turned_idle_percent turned_silent_percent minimum_instances hold_minutes "
        "unusual_times_the_most hub_minimum_instances hub_times_the_usual",
        (Who.OPERATOR, Who.TRAINING),
        "a small or very large fleet; jobs that all end at once",
    ),
    Entry(
        "breaker", "lift_freezes_before", (Who.OPERATOR,), "a freeze had a known, harmless cause"
    ),
    Entry(
        "caps",
        "organization_actions_per_hour account_actions_per_hour owner_actions_per_hour",
        (Who.OPERATOR, Who.SECURITY),
        "approved steps wait for hours; 0 in an incident",
    ),
    Entry(
        "ownership",
        "owner_tag_keys project_tag_keys default_owner project_owners",
        (Who.PLATFORM,),
        "the company's own tags for owner and project",
    ),
    Entry(
        "ownership",
        "default_contacts escalation_contacts email_domains",
        (Who.PLATFORM, Who.SECURITY),
        "first setup: who is asked",
    ),
    Entry(
        "ownership.contacts.<name>",
        "emails lists identities slack_channel",
        (Who.PLATFORM,),
        "first setup, and whenever people come or go",
    ),
    Entry(
        "ownership.contacts.<name>",
        "time_zone working_days working_from working_until",
        (Who.PLATFORM,),
        "another time zone, working week or rule about calls at night",
    ),
    Entry(
        "console.scopes.<name>",
        "groups identities role everything accounts projects",
        (Who.SECURITY,),
        "people who own nothing need the console",
    ),
    Entry(
        "managed",
        "idle_for_minutes tell_again_after_hours",
        (Who.TRAINING, Who.INFERENCE),
        "clusters that keep spare capacity on purpose",
    ),
    Entry(
        "managed", "tag_keys", (Who.PLATFORM,), "a scheduler of your own starts and stops instances"
    ),
    Entry(
        "prices",
        "usd_per_hour discount_percent commitments_elsewhere",
        (Who.FINOPS,),
        "negotiated prices; commitments of the organization",
    ),
    Entry(
        "prices",
        "ebs_usd_per_gib_month snapshot_usd_per_gib_month",
        (Who.FINOPS,),
        "a Region whose price list cannot be read",
    ),
    Entry(
        "money",
        "job_tag_keys",
        (Who.FINOPS, Who.TRAINING),
        "jobs are named by other tags than `Job`, and their cost is wanted",
    ),
    Entry(
        "ledger",
        "false_stop_within_minutes saving_counts_days weekly_report monthly_report",
        (Who.FINOPS,),
        "the company counts and reports savings differently",
    ),
    Entry(
        "budget",
        "monthly_usd projects tell_at_percent act",
        (Who.FINOPS,),
        "each project has a budget",
    ),
    Entry(
        "budget",
        "publish_at_most_projects",
        (Who.FINOPS, Who.OPERATOR),
        "dashboards need the cost of single projects",
    ),
    Entry(
        "events",
        "checkpoint_on_spot_interruption checkpoint_on_rebalance checkpoint_on_auto_scaling "
        "signal_gpu_processes",
        (Who.TRAINING,),
        "jobs can save a checkpoint, or must not be disturbed",
    ),
    Entry(
        "events",
        "completed_lifecycle_hooks",
        (Who.TRAINING, Who.INFERENCE),
        "an Auto Scaling group has a hook for GPU Governor alone",
    ),
    Entry("events", "snapshot_data_volumes", (Who.TRAINING,), "work lies on volumes of Spot"),
    Entry(
        "events",
        "mass_interruption_told_singly remind_before_hours",
        (Who.INFERENCE, Who.OPERATOR),
        "too many messages at once, or reminders that come too late",
    ),
    Entry(
        "events",
        "compare_spot_prices spot_price_regions placement_scores",
        (Who.TRAINING, Who.INFERENCE, Who.SECURITY),
        "data may move to other Regions, or must not",
    ),
    Entry(
        "health",
        "hot_above_celsius throttled_above_percent straggler_above_points",
        (Who.TRAINING,),
        "warm halls, GPUs with a power cap, pipelines that are uneven on purpose",
    ),
    Entry(
        "health",
        "busy_from_percent under_used_below_percent",
        (Who.INFERENCE,),
        "servers whose load is low by design",
    ),
    Entry(
        "health",
        "enabled check_every_minutes advice_every_hours",
        (Who.OPERATOR,),
        "faults must be known sooner, or the reads cost too much",
    ),
    Entry(
        "advice",
        "weeks minimum_weeks minimum_measured_percent minimum_usd_per_month dismissed_for_days",
        (Who.FINOPS,),
        "little history yet; small amounts are not worth a line",
    ),
    Entry(
        "advice",
        "target_percent scale_in_below_percent",
        (Who.TRAINING, Who.INFERENCE),
        "the team's own target for utilization",
    ),
    Entry(
        "advice",
        "cpu_family cpu_usd_per_vcpu_hour old_families newer_families",
        (Who.FINOPS,),
        "another Region, or AWS has new families",
    ),
    Entry(
        "advice",
        "schedule_tag_key schedule_name office_day_at_most_hours",
        (Who.NOTEBOOKS,),
        "schedules of Instance Scheduler; a team in two time zones or shifts",
    ),
    Entry(
        "advice",
        "port_pays_within_months empty_reservation_after_hours",
        (Who.FINOPS,),
        "the company's time to pay back; reservations held for a later start",
    ),
)


def who_sets_chapter(paths: Collection[str]) -> str:
    """Return the chapter about the settings with these paths.

    Raises:
        UnplacedSettingError: an entry is missing, double, or about no setting.
    """
    placed = [path for entry in ENTRIES for path in entry.paths]
    wrong = sorted(set(paths) ^ set(placed))
    doubled = sorted({path for path in placed if placed.count(path) > 1})
    if wrong or doubled:
        names = ", ".join([*wrong, *doubled])
        raise UnplacedSettingError(
            f"name each setting once in ENTRIES of scripts/policy_who_sets.py: {names}"
        )
    lines = [
        "## Who sets what",
        "",
        "Most teams set only a few of these. The last column gives the reason to set each.",
        "",
        "| who | is the |",
        "|---|---|",
    ]
    for who, duty in _DUTIES.items():
        lines.append(f"| {who} | {duty} |")
    lines += ["", "| settings | who | when |", "|---|---|---|"]
    for entry in ENTRIES:
        settings = ", ".join(f"`{path}`" for path in _shortened(entry))
        lines.append(f"| {settings} | {', '.join(entry.who)} | {entry.when} |")
    lines += ["", "An override sets the same for some instances, so the same people write it.", ""]
    return "\n".join(lines)


def _shortened(entry: Entry) -> list[str]:
    """Return the path of the first setting, and the names of the others."""
    first, *others = entry.paths
    return [first, *(path.rpartition(".")[2] for path in others)]
