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
    Who.FINOPS: "the person responsible for cost: prices, budgets, reports, advice",
    Who.SECURITY: (
        "the person responsible for permissions, and for what may happen without an approval"
    ),
    Who.OPERATOR: "the person who runs GPU Governor, even during an incident",
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
    Entry("", "version", (Who.PLATFORM,), "never: it is the version of the schema"),
    Entry(
        "",
        "mode",
        (Who.PLATFORM, Who.OPERATOR),
        "a trial in `observe` is over, or an incident needs `observe` again",
    ),
    Entry(
        "",
        "two_people_for_policy",
        (Who.SECURITY,),
        "policy changes must have a second person, or your team has only one",
    ),
    Entry(
        "selector",
        "tag_key tag_value",
        (Who.PLATFORM,),
        "your fleet is tagged differently; keep the key `Purpose`",
    ),
    Entry(
        "exemption",
        "tag_key tag_value",
        (Who.PLATFORM, Who.SECURITY),
        "your company already has a tag for exemptions",
    ),
    Entry(
        "targets",
        "accounts units without_units regions without",
        (Who.PLATFORM,),
        "you govern more than one account or Region",
    ),
    Entry(
        "metrics",
        "profile",
        (Who.PLATFORM,),
        "your metrics come from Container Insights, DCGM or the Neuron monitor instead of the "
        "CloudWatch agent; often set in an override",
    ),
    Entry(
        "metrics",
        "device_dimension",
        (Who.PLATFORM,),
        "you use the profile `custom`, and your dimension has a name that no publisher uses",
    ),
    Entry(
        "metrics",
        "utilization_scale series_per_device",
        (Who.PLATFORM,),
        "you use the profile `custom`, and your metric is a share from 0 to 1, or has a series for "
        "each core or each part of a GPU",
    ),
    Entry(
        "metrics",
        "namespace utilization memory_used power_draw temperature memory_utilization "
        "hardware_namespace encoder_utilization decoder_utilization encoder_sessions "
        "encoded_frames",
        (Who.PLATFORM,),
        "your metrics have a namespace or names that no profile has",
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
        "you want mode `auto`, and IAM restricts who may publish metrics",
    ),
    Entry(
        "metrics.work", "namespace names", (Who.TRAINING,), "jobs publish their own progress metric"
    ),
    Entry(
        "idle",
        "utilization_below_percent window_minutes minimum_coverage_percent "
        "grace_after_launch_minutes",
        (Who.TRAINING, Who.NOTEBOOKS, Who.INFERENCE),
        "a back-test (`governor simulate`) finds a better value, instances start slowly, or "
        "metrics have gaps",
    ),
    Entry(
        "idle",
        "second_figure",
        (Who.PLATFORM, Who.SECURITY),
        "every host publishes power, and no question should rest on utilization alone",
    ),
    Entry(
        "vetoes",
        "busy_vcpus video_percent encoder_sessions encoded_frames_per_second",
        (Who.TRAINING, Who.INFERENCE),
        "large instances preprocess on a few of their vCPUs, or remote desktops hold encoder "
        "sessions",
    ),
    Entry(
        "vetoes",
        "memory_used_percent power_percent_of_limit cpu_percent network_bytes_per_second required",
        (Who.TRAINING, Who.INFERENCE),
        "you have work that GPU utilization hardly shows: preprocessing, loaded models, downloads",
    ),
    Entry("vetoes", "session_younger_than_hours", (Who.NOTEBOOKS,), "people work in long sessions"),
    Entry(
        "plan",
        "action when_stop_is_unsupported when_termination_is_protected",
        (Who.PLATFORM,),
        "instances can be rebuilt from code, or are one-time Spot",
    ),
    Entry(
        "plan",
        "snapshot_retention_days delete_expired_snapshots delete_last_of_terminated",
        (Who.FINOPS, Who.SECURITY),
        "a rule says how long to keep data, or snapshots cost too much",
    ),
    Entry(
        "plan",
        "snapshot_tags copied_tag_keys",
        (Who.FINOPS, Who.SECURITY),
        "your organization refuses snapshots without certain tags, or some tags must not be copied",
    ),
    Entry(
        "plan",
        "stop_limit_minutes snapshot_limit_minutes running_snapshot_valid_minutes",
        (Who.TRAINING,),
        "bare metal instances stop slowly, or volumes have many TiB",
    ),
    Entry(
        "plan",
        "local_disks_may_be_lost_unasked",
        (Who.TRAINING, Who.SECURITY),
        "local NVMe disks hold only caches",
    ),
    Entry(
        "approval",
        "ask_after_minutes ask_after_released_minutes released_memory_below_percent",
        (Who.TRAINING, Who.NOTEBOOKS, Who.INFERENCE),
        "questions come too early or too late, or servers hold some GPU memory at rest",
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
        "thousands of instances are idle, and you want fewer reads of CloudWatch",
    ),
    Entry(
        "approval",
        "delivery_limit_minutes wait_at_most_hours",
        (Who.OPERATOR,),
        "a channel stays down, or a freeze lasts, longer than usual",
    ),
    Entry(
        "approval",
        "on_expiry",
        (Who.PLATFORM, Who.SECURITY),
        "silence may count as an approval for some instances",
    ),
    Entry(
        "approval",
        "keep_at_most_days keep_after_undo_hours ask_again_after_hours "
        "ask_about_stopped_after_days",
        (Who.FINOPS, Who.NOTEBOOKS),
        "keeps last too long, questions repeat too often, or stopped instances pile up",
    ),
    Entry(
        "approval",
        "people_to_stop people_to_terminate two_people_above_usd_per_hour broadcast_may "
        "tag_owner_may cli_may",
        (Who.SECURITY,),
        "you decide who may answer what, and how many people must agree",
    ),
    Entry(
        "breaker",
        "turned_idle_percent turned_silent_percent minimum_instances hold_minutes "
        "unusual_times_the_most hub_minimum_instances hub_times_the_usual",
        (Who.OPERATOR, Who.TRAINING),
        "your fleet is small or very large, or many jobs end at once",
    ),
    Entry(
        "breaker", "lift_freezes_before", (Who.OPERATOR,), "a freeze had a known, harmless cause"
    ),
    Entry(
        "caps",
        "organization_actions_per_hour account_actions_per_hour owner_actions_per_hour",
        (Who.OPERATOR, Who.SECURITY),
        "approved steps wait for hours; in an incident, set 0",
    ),
    Entry(
        "ownership",
        "owner_tag_keys project_tag_keys default_owner project_owners",
        (Who.PLATFORM,),
        "your company has its own tags for owner and project",
    ),
    Entry(
        "ownership",
        "default_contacts escalation_contacts email_domains",
        (Who.PLATFORM, Who.SECURITY),
        "you set up GPU Governor, because these settings say who is asked",
    ),
    Entry(
        "ownership.contacts.<name>",
        "emails lists identities slack_channel",
        (Who.PLATFORM,),
        "you set up GPU Governor, or people join or leave",
    ),
    Entry(
        "ownership.contacts.<name>",
        "time_zone working_days working_from working_until",
        (Who.PLATFORM,),
        "people have another time zone or working week, or must not get messages at night",
    ),
    Entry(
        "console.scopes.<name>",
        "groups identities role everything accounts projects",
        (Who.SECURITY,),
        "people who own no instances need the console",
    ),
    Entry(
        "managed",
        "idle_for_minutes tell_again_after_hours",
        (Who.TRAINING, Who.INFERENCE),
        "clusters keep spare capacity on purpose",
    ),
    Entry("managed", "tag_keys", (Who.PLATFORM,), "your own scheduler starts and stops instances"),
    Entry(
        "prices",
        "usd_per_hour discount_percent commitments_elsewhere",
        (Who.FINOPS,),
        "you have negotiated prices, or commitments elsewhere in the organization",
    ),
    Entry(
        "prices",
        "ebs_usd_per_gib_month snapshot_usd_per_gib_month",
        (Who.FINOPS,),
        "the price list of a Region cannot be read",
    ),
    Entry(
        "money",
        "job_tag_keys",
        (Who.FINOPS, Who.TRAINING),
        "you want the cost of each job, and your jobs have a tag other than `Job`",
    ),
    Entry(
        "ledger",
        "false_stop_within_minutes saving_counts_days weekly_report monthly_report",
        (Who.FINOPS,),
        "your company counts or reports savings differently",
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
    Entry(
        "events",
        "snapshot_data_volumes",
        (Who.TRAINING,),
        "Spot instances keep work on their volumes",
    ),
    Entry(
        "events",
        "mass_interruption_told_singly remind_before_hours",
        (Who.INFERENCE, Who.OPERATOR),
        "too many messages arrive at once, or reminders arrive too late",
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
        "GPUs run warm or have a power cap, or pipelines are uneven on purpose",
    ),
    Entry(
        "health",
        "busy_from_percent under_used_below_percent",
        (Who.INFERENCE,),
        "the load of your servers is low by design",
    ),
    Entry(
        "health",
        "enabled check_every_minutes advice_every_hours",
        (Who.OPERATOR,),
        "you must learn of faults sooner, or the reads cost too much",
    ),
    Entry(
        "advice",
        "weeks minimum_weeks minimum_measured_percent minimum_usd_per_month dismissed_for_days",
        (Who.FINOPS,),
        "you have little history yet, or small amounts are not worth a line",
    ),
    Entry(
        "advice",
        "target_percent scale_in_below_percent",
        (Who.TRAINING, Who.INFERENCE),
        "your team has its own target for utilization",
    ),
    Entry(
        "advice",
        "cpu_family cpu_usd_per_vcpu_hour old_families newer_families",
        (Who.FINOPS,),
        "you use another Region, or AWS has new families",
    ),
    Entry(
        "advice",
        "schedule_tag_key schedule_name office_day_at_most_hours",
        (Who.NOTEBOOKS,),
        "you use Instance Scheduler, or your team works in two time zones or shifts",
    ),
    Entry(
        "advice",
        "port_pays_within_months empty_reservation_after_hours",
        (Who.FINOPS,),
        "your company has its own payback time, or holds reservations for a later start",
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
        "Most teams set only a few of these. The last column says when to change a setting.",
        "",
        "| who | role |",
        "|---|---|",
    ]
    for who, duty in _DUTIES.items():
        lines.append(f"| {who} | {duty} |")
    lines += ["", "| settings | who | change it when |", "|---|---|---|"]
    for entry in ENTRIES:
        settings = ", ".join(f"`{path}`" for path in _shortened(entry))
        lines.append(f"| {settings} | {', '.join(entry.who)} | {entry.when} |")
    lines += [
        "",
        "An override changes these settings for some instances, so the same people write it.",
        "",
    ]
    return "\n".join(lines)


def _shortened(entry: Entry) -> list[str]:
    """Return the path of the first setting, and the names of the others."""
    first, *others = entry.paths
    return [first, *(path.rpartition(".")[2] for path in others)]
