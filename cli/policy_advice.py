"""Name settings that are allowed and dangerous, and settings that no person could carry out.

`policy check` warns of the first and refuses the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from cli.policy_units import unit_warnings
from governor.core.instance import DELETE_AFTER_TAG, NAME_TAG
from governor.evidence.rules.figures import is_share_by_name, limit_of
from governor.evidence.rules.freshness import why_never_fresh
from governor.evidence.rules.profiles import is_in_a_known_unit
from governor.limits.rules.breaker import acts_unasked
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership, addresses
from governor.policy.model.judging import Metrics, SecondFigure
from governor.policy.model.names import KEY_FOR_IAM
from governor.policy.model.policy import Mode, Policy
from governor.policy.model.profiles import (
    PROFILES,
    MetricProfile,
    Part,
    ProfileName,
    UtilizationScale,
    profile_of,
)
from governor.verdict.rules.second_figure import CONFIRMS_BELOW_PERCENT

_SHORT_WINDOW_MINUTES = 30
_WORKING_DAY_SECONDS = 8 * 3600
_NEARLY_ALL_PERCENT = 90


def warnings(policy: Policy) -> tuple[str, ...]:
    """Return a sentence for each dangerous combination, with the setting that would fix it."""
    return (
        *_of_targets(policy),
        *_of_acting(policy),
        *_of_judging(policy),
        *_of_measuring(policy),
        *_of_profile(policy),
        *unit_warnings(policy),
        *_of_fresh_readings(policy),
        *_of_exemption(policy),
        *_of_snapshot_tags(policy),
    )


def _of_targets(policy: Policy) -> Iterator[str]:
    """Warn of places that are left out while accounts or Regions are those of the stack: this
    command does not know them, and nothing may be left to sweep."""
    targets = policy.targets
    if targets.units or not targets.without:
        return
    accounts = targets.accounts or tuple({place.account for place in targets.without})
    regions = targets.regions or tuple({place.region for place in targets.without})
    left_out = {(place.account, place.region) for place in targets.without}
    if all((account, region) in left_out for account in accounts for region in regions):
        implied = [name for name in ("accounts", "regions") if not getattr(targets, name)]
        lists = " and ".join(f"targets.{name}" for name in implied)
        yield (
            "targets.without: nothing is swept if these places are those of the stack, which "
            f"counts where {lists} is empty; set {lists}, or remove targets.without"
        )


def refusals(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Return the settings with which people can never carry out a policy, each with the reason.

    The sweep reads such a document all the same: its questions can be kept, and nothing else
    follows.
    """
    if policy.mode is Mode.OBSERVE or policy.plan.action is Action.NOTIFY_ONLY:
        return ()
    needed = _people_needed(policy)
    doing = "a termination" if _terminates(policy) else "a stop"
    people = "one person" if needed == 1 else f"{needed} people"
    must = f"{people} must approve {doing}, and"
    known_count = len(addresses(tuple(policy.ownership.contacts.values())))
    if known_count < needed:
        why = f"{must} the contacts name {known_count} by address; add emails of more people"
        return (("ownership.contacts", why),)
    refused = []
    for setting, asked in _asked(policy.ownership):
        count = len(addresses(asked))
        if count < needed:
            verb = "is" if count == 1 else "are"
            why = (
                f"{must} of those who are asked {count} {verb} known by address; add "
                "contacts with emails to ownership.default_contacts or escalation_contacts"
            )
            refused.append((setting, why))
    return tuple(refused)


def _people_needed(policy: Policy) -> int:
    """Return how many people whom the policy knows must approve its plan."""
    approval = policy.approval
    needed = approval.people_to_stop
    if needed == 0 and not _may_strangers_stop(policy):
        needed = 1
    if _terminates(policy):
        needed = max(needed, approval.people_to_terminate, 1)
        if approval.two_people_above_usd_per_hour is not None:
            needed = max(needed, 2)
    return needed


def _may_strangers_stop(policy: Policy) -> bool:
    return "stop" in (*policy.approval.broadcast_may, *policy.approval.cli_may)


def _named_owners(ownership: Ownership) -> Iterator[tuple[str, str, str]]:
    """Yield each setting that names those who are asked first, with the owner and the project of an
    instance that it counts for; each of the two may be empty."""
    yield "ownership.default_contacts", "", ""
    for project in ownership.project_owners:
        yield f"ownership.project_owners.{project}", "", project
    for contact in ownership.contacts:
        yield f"ownership.contacts.{contact}", contact, ""


def _asked(ownership: Ownership) -> Iterator[tuple[str, tuple[Contact, ...]]]:
    """Yield everybody who is asked in the end, by the setting that names them."""
    for setting, owner, project in _named_owners(ownership):
        yield setting, (*ownership.asked(owner, project), *ownership.escalated(owner, project))


def _terminates(policy: Policy) -> bool:
    return Action.TERMINATE in (policy.plan.action, policy.plan.when_stop_is_unsupported)


def _of_acting(policy: Policy) -> Iterator[str]:
    yield from _of_acting_unasked(policy)
    yield from _of_approvers(policy)
    yield from _of_restarts(policy)
    if _terminates(policy):
        yield from _of_one_with_two_addresses(policy)


def _of_acting_unasked(policy: Policy) -> Iterator[str]:
    approval = policy.approval
    acts_on_silence = approval.on_expiry == "act"
    acts_without_a_yes = acts_on_silence or policy.mode is Mode.AUTO
    if policy.plan.local_disks_may_be_lost_unasked and acts_without_a_yes:
        yield (
            "what lies on local NVMe is wiped without anybody's yes; leave "
            "plan.local_disks_may_be_lost_unasked off"
        )
    if acts_on_silence and approval.total.total_seconds() < _WORKING_DAY_SECONDS:
        yield (
            "approval.on_expiry: act leaves people less than 8 hours to answer; give "
            "them a working day"
        )
    is_ask = policy.mode is Mode.ASK
    if acts_on_silence and is_ask and not policy.metrics.publishers_are_trusted:
        yield (
            "approval.on_expiry: act lets anybody who may publish metrics have instances "
            "stopped in silence; bind publishers and set metrics.publishers_are_trusted, or "
            "leave it at no-action"
        )


def _of_approvers(policy: Policy) -> Iterator[str]:
    approval = policy.approval
    for name in ("broadcast_may", "tag_owner_may", "cli_may"):
        if "terminate" in getattr(approval, name):
            yield (
                f"terminate in approval.{name} has no effect: it takes people whom the policy knows"
            )
    if approval.people_to_stop and _may_strangers_stop(policy):
        yield (
            "stop in approval.broadcast_may or cli_may has no effect while "
            "approval.people_to_stop is not 0; an override for a tag may set that"
        )


def _of_restarts(policy: Policy) -> Iterator[str]:
    """Yield one warning if somebody is asked first and nobody else can be asked about instances
    that are started again after each stop. Escalation contacts have nobody above them."""
    if policy.mode is Mode.OBSERVE or policy.plan.action is Action.NOTIFY_ONLY:
        return
    ownership = policy.ownership
    escalation_contacts = [ownership.contacts[name] for name in ownership.escalation_contacts]
    for _, owner, project in _named_owners(ownership):
        asked = ownership.asked(owner, project)
        has_others_to_ask = ownership.has_others_to_ask(owner, project)
        is_only_for_escalations = all(contact in escalation_contacts for contact in asked)
        if not is_only_for_escalations and not has_others_to_ask:
            yield (
                "ownership.escalation_contacts names nobody beside those who are asked first, so "
                "restarts after GPU Governor's stops reach nobody else, and the owner is asked "
                "again and again; name somebody else there"
            )
            return


def _of_one_with_two_addresses(policy: Policy) -> Iterator[str]:
    """Yield a warning for each identity with several addresses.

    Two addresses of one person under two identities cannot be recognized.
    """
    addresses_by_identity: dict[str, dict[str, None]] = {}
    for contact in policy.ownership.contacts.values():
        for identity, address in contact.identities.items():
            addresses_by_identity.setdefault(identity, {})[address.lower()] = None
    for identity, own_addresses in addresses_by_identity.items():
        if len(own_addresses) > 1:
            yield (
                f"{identity} has the addresses {' and '.join(own_addresses)}, and so counts as "
                "two people who approve; list one of them in ownership.contacts"
            )


def _of_judging(policy: Policy) -> Iterator[str]:
    if policy.idle.window_minutes < _SHORT_WINDOW_MINUTES:
        yield (
            f"idle.window_minutes under {_SHORT_WINDOW_MINUTES} calls a coffee break "
            "idle, and `no-data` where one reading of CPU or network is late; use 60"
        )
    if policy.ask_window.total_seconds() < _SHORT_WINDOW_MINUTES * 60:
        yield (
            f"approval.ask_after_minutes under {_SHORT_WINDOW_MINUTES} asks during "
            "coffee breaks; use 180"
        )
    yield from _of_vetoes(policy)
    breaker = policy.breaker
    if max(breaker.turned_idle_percent, breaker.turned_silent_percent) > _NEARLY_ALL_PERCENT:
        yield "the breaker hardly ever trips; a metrics outage would look like an idle fleet"
    if policy.ledger.false_stop_within_minutes == 0:
        yield (
            "ledger.false_stop_within_minutes: 0 counts no stop as false, whatever happens after it"
        )


def _of_vetoes(policy: Policy) -> Iterator[str]:
    vetoes = policy.vetoes
    limits = (
        vetoes.memory_used_percent,
        vetoes.power_percent_of_limit,
        vetoes.cpu_percent,
        vetoes.network_bytes_per_second,
    )
    if all(limit is None for limit in limits):
        yield (
            "no veto is on: utilization alone makes an instance idle; switch on "
            "vetoes.cpu_percent at least"
        )
    if vetoes.power_percent_of_limit is None:
        yield from _of_uncompared_power(policy)
    yield from _of_high_power(policy)
    if policy.mode is not Mode.OBSERVE and not vetoes.required:
        yield (
            "vetoes.required is empty: an instance whose CPU and network are not "
            "measured counts as quiet"
        )


def _of_high_power(policy: Policy) -> Iterator[str]:
    """Yield that a limit above the one from which on power confirms nothing is only a veto."""
    limit = policy.vetoes.power_percent_of_limit
    is_required = policy.idle.second_figure is SecondFigure.REQUIRED
    needs_power = is_required or policy.acts_unasked_by is not None
    if limit is not None and limit > CONFIRMS_BELOW_PERCENT and needs_power:
        yield (
            f"vetoes.power_percent_of_limit: {limit:g} does not let power from "
            f"{CONFIRMS_BELOW_PERCENT:g}% on confirm a low utilization: such an instance is not "
            f"busy, and nothing is done unasked; set at most {CONFIRMS_BELOW_PERCENT:g}"
        )


def _of_uncompared_power(policy: Policy) -> Iterator[str]:
    """Yield what a policy without a limit for power leaves undone on types that have a power limit.
    Only one setting is named, the strictest."""
    is_null = "vetoes.power_percent_of_limit is null"
    if policy.idle.second_figure is SecondFigure.REQUIRED:
        yield (
            "idle.second_figure: required needs power to confirm a low utilization, and "
            f"{is_null}, so nobody is asked and nothing is done on types with a power limit; set a "
            "limit"
        )
    elif policy.mode is Mode.AUTO:
        yield (
            "mode: auto acts only where power confirms a low utilization, and "
            f"{is_null}, so on types with a power limit nothing is done unasked; set a limit"
        )
    elif policy.approval.on_expiry == "act":
        yield (
            "approval.on_expiry: act counts silence only where power confirms a low utilization, "
            f"and {is_null}, so on types with a power limit people are asked, and nothing happens "
            "if nobody answers; set a limit"
        )


def _of_measuring(policy: Policy) -> Iterator[str]:
    """Yield each figure that can never be measured as the policy wants it."""
    metrics = policy.metrics
    ask_after_released = timedelta(minutes=policy.approval.ask_after_released_minutes)
    if policy.why_never_asks is not None:
        yield f"the last minutes cannot be shown, so nobody is ever asked: {policy.why_never_asks}"
    elif policy.released_window > max(policy.window, ask_after_released):
        yield (
            f"metrics.lag_seconds: {metrics.lag_seconds} hides the memory that is held now, so "
            "approval.ask_after_released_minutes is never used; set 120"
        )
    if metrics.period_seconds % metrics.collection_interval_seconds:
        yield (
            f"metrics.collection_interval_seconds: {metrics.collection_interval_seconds} "
            f"does not divide metrics.period_seconds ({metrics.period_seconds}), so GPUs in an "
            "aggregated metric may be miscounted, and their instances are no-data; set 60"
        )
    if is_share_by_name(metrics.utilization) and not is_in_a_known_unit(metrics):
        yield (
            f"metrics.utilization: {metrics.utilization} is a share from 0 to 1, in which a busy "
            "GPU looks idle, so its instances are no-data; name a metric in percent, such as "
            "DCGM_FI_DEV_GPU_UTIL, or set metrics.utilization_scale: share with the profile custom"
        )
    for figure in policy.vetoes.required:
        if limit_of(policy, figure) is None:
            yield (
                f"vetoes.required names {figure}, whose limit is null: it need not be "
                "measured; set a limit"
            )


def _of_profile(policy: Policy) -> Iterator[str]:
    """Yield the names that contradict `metrics.profile`, and figures that it cannot measure."""
    metrics = policy.metrics
    known = profile_of(metrics.utilization)
    if known is not None and _is_read_wrongly(known, metrics):
        yield (
            f"metrics.utilization: {metrics.utilization} is a metric of {known.publisher}, and "
            f"metrics.profile is {metrics.profile}, which counts or scales otherwise; set "
            f"metrics.profile: {known.name}"
        )
    if known is not None and known.namespace not in (None, metrics.namespace):
        yield (
            f"metrics.namespace: {known.publisher} publishes {metrics.utilization} into "
            f"{known.namespace}, not into {metrics.namespace}; set metrics.namespace: "
            f"{known.namespace}"
        )
    memory_profiles = [profile for profile in PROFILES if profile.memory == metrics.memory_used]
    if metrics.memory_used and memory_profiles:
        names = {profile.name for profile in memory_profiles}
        is_in_mib = all(profile.mib_per_unit == 1.0 for profile in memory_profiles)
        if metrics.profile not in names and not is_in_mib:
            yield (
                f"metrics.memory_used: {metrics.memory_used} is in bytes, and metrics.profile is "
                f"{metrics.profile}, which takes MiB; set metrics.profile: {min(names)}"
            )
    for figure, name in (("power", metrics.power_draw), ("memory", metrics.memory_used)):
        if figure in policy.vetoes.required and not name:
            yield (
                f"vetoes.required names {figure}, and metrics.profile: {metrics.profile} has no "
                "metric of it, so its instances are no-data; take it out, or name a metric"
            )


def _is_read_wrongly(known: MetricProfile, metrics: Metrics) -> bool:
    """Return whether the policy's profile is not the one of its metric of utilization. `custom`
    may read it in the same unit, with one series for each device, or several for each of cores."""
    if metrics.profile is known.name:
        return False
    if metrics.profile is not ProfileName.CUSTOM:
        return True
    reads_shares = metrics.utilization_scale is UtilizationScale.SHARE
    sends_shares = known.percent_per_unit != 1.0
    misses_cores = known.part is Part.CORE and metrics.series_per_device == 1
    return reads_shares != sends_shares or misses_cores


def _of_exemption(policy: Policy) -> Iterator[str]:
    """Yield a warning where only the guards in the code know the exemption, and IAM does not."""
    key = policy.exemption.tag_key
    if not policy.exemption.is_key_for_iam(key):
        yield (
            f"exemption.tag_key: IAM does not deny instances with the key {key}, so only "
            f"the guards in the code leave them alone; choose a key of {KEY_FOR_IAM}"
        )


def _of_snapshot_tags(policy: Policy) -> Iterator[str]:
    """Yield a warning for the keys of snapshots' tags that differ in letter case alone."""
    own_keys = (NAME_TAG, DELETE_AFTER_TAG)
    spellings: dict[str, list[str]] = {}
    for key in (*own_keys, *policy.plan.snapshot_tags):
        spellings.setdefault(key.casefold(), []).append(key)
    for keys in spellings.values():
        if len(keys) > 1:
            yield (
                f"plan.snapshot_tags: {', '.join(keys)} differ in letter case alone, and a tag "
                "policy of the organization may refuse snapshots with both; keep one of them"
            )


def _of_fresh_readings(policy: Policy) -> Iterator[str]:
    """Yield why steps that no person approves cannot begin as the policy wants it."""
    if policy.why_never_asks is not None or not acts_unasked(policy):
        return
    for why in why_never_fresh(policy):
        yield f"without a person's approval a step often waits, or never begins: {why}"
