"""The bugs that `make soak-honest` plants, each with the stories that must catch it.

One for each guard, invariant and gate. Where two guards keep the same thing, the bug takes both:
with one of them left nothing goes wrong, which is what the second one is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.soak.planted import Change, Edit, Rewire

_GUARDS = "remediation.guards"
_PUT_AWAY = "remediation.put_away:PutAway"
_RECHECK = "remediation.recheck_episode:RecheckEpisode"
_EXPIRY = "episode.rules.expiry"
_VERDICT_RULES = "verdict.rules"


@dataclass(frozen=True)
class Bug:
    """A mistake in the product. One of the `stories` breaks the `promise` with it."""

    name: str
    promise: str
    changes: tuple[Change, ...]
    stories: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    """Kinds of faults to try where the story alone does not show it; empty: everybody else acts, or
    none."""
    calls: str = ""
    """Beginning of the calls at which they are tried, as `function service.operation`."""


def _guard(name: str, old: str, new: str) -> Edit:
    return Edit(f"{_GUARDS}:{name}", old, new)


def _comparison(name: str, old: str, new: str) -> Edit:
    return Edit(f"remediation.rules.same_as_asked:{name}", old, new)


def _clearance(name: str, old: str, new: str) -> Edit:
    return Edit(f"remediation.clearance:{name}", old, new)


# changes of the workflow


def _goes_to(state: str, target: str, where: str = "Next") -> Rewire:
    def change(states: Mapping[str, Any]) -> None:
        states[state][where] = target

    return Rewire(change)


def _choice_goes_to(state: str, number: int, target: str) -> Rewire:
    def change(states: Mapping[str, Any]) -> None:
        states[state]["Choices"][number]["Next"] = target

    return Rewire(change)


def _retries(state: str) -> Rewire:
    """The workflow repeats the call by itself."""

    def change(states: Mapping[str, Any]) -> None:
        again = {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 20,
            "BackoffRate": 2,
            "MaxAttempts": 5,
        }
        states[state]["Retry"] = [again]

    return Rewire(change)


def _catches(state: str, target: str) -> Rewire:
    """Any failure of the call leads there."""

    def change(states: Mapping[str, Any]) -> None:
        states[state].pop("Retry", None)
        states[state]["Catch"] = [
            {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": target}
        ]

    return Rewire(change)


def _expires_as_yes(states: Mapping[str, Any]) -> None:
    for choice in states["Decision?"]["Choices"]:
        if choice.get("StringEquals") == "expired":
            choice["Next"] = "Recheck"


# the bugs

_WHO_MAY = (
    _comparison(
        "must_be_authorized",
        "if not was_rightly_approved(terms, episode.plan, approval):",
        "if False:",
    ),
    Edit(
        "approvals.rules.terms:check_terms",
        "if may(terms, plan, decision.answer, decision.person):",
        "if True:",
    ),
)
_FREEZES = Edit(
    "limits.freezes:why_frozen_by_breaker",
    "if why is None:",
    "if why is None or True:",
)
_NO_PROOF = Edit(
    f"{_RECHECK}._end_if_not_idle",
    "verdict, evidence = self.inspect.judge(instance, policy, now)",
    "return None",
)
_ONE_RECHECK_FOR_ALL = (
    _clearance("must_be_fresh", "if clearance.is_used or was_sent_since:", "if False:"),
    Edit(
        "remediation.store:Calls.note_call",
        "IS_OPEN & is_last_recheck & is_unused",
        "IS_OPEN & is_last_recheck",
    ),
)
"""A recheck lets any number of calls through."""
_NEEDS_NO_RECHECK = (
    _clearance(
        "must_be_rechecked",
        "if episode.phase is not Phase.ACTING or clearance is None:",
        "return\n    if True:",
    ),
    _clearance(
        "must_be_fresh",
        "clearance = episode.clearance",
        "return now if episode.clearance is None else episode.clearance.at",
    ),
    Edit("remediation.store:Calls.note_call", "IS_OPEN & is_last_recheck & is_unused", "IS_OPEN"),
)
_NEEDS_NO_ACCEPTANCE = Edit(
    "policy.rules.consent:under_consent",
    "if not is_nobody_responsible and not unaccepted(overrides, people):",
    "if True:",
)
_NO_SEAL = _guard("Guards.check", "self.seals.must_be_sealed(episode, approval, step)", "None")
_ANY_DELIVERY = Edit(
    "remediation.seals:CheckSeals._first_sealed",
    "if self.seal_check(Duty.DELIVERY, delivery_text(delivery), signature):",
    "if True:",
)
_POWER_MAY_VANISH = Edit(
    "remediation.recheck_episode:RecheckEpisode._end_if_not_idle",
    "return _power_vanished(cleared, evidence)",
    "return None",
)
"""Power that is not measured any more ends a step by itself, whatever the verdict."""
_ANY_STATE = Edit(
    "remediation.put_away:_must_be_in_expected_state",
    "must_be_in_state(cleared, wanted_state)",
    "pass",
)
_NEEDS_NO_SNAPSHOTS = _guard(
    "Guards.snapshots_must_be_completed", "if missing or not wanted:", "if False:"
)
_NEEDS_NO_USER_DATA = _guard(
    "Guards.user_data_must_be_kept", "if kept is None:", "return\n    if kept is None:"
)
_NO_KEEP = _guard(
    "Guards._must_not_be_kept",
    "snoozed_until is not None and self.clock.now() < snoozed_until",
    "False",
)
_NO_LAST_LOOK_FOR_WARNINGS = _guard(
    "Guards.must_still_be_allowed", "if record.is_warned(now):", "if False:"
)
_NO_LAST_LOOK_FOR_HOLDS = _guard(
    "Guards.must_still_be_allowed", "if record.hold.stands(now):", "if False:"
)
"""The guards look once more, after the call was noted."""
_STOP = "at every call of a stop"
_END = "at every call of a termination"

BUGS = (
    # the guards
    Bug(
        "the launch time is not compared",
        "it_is_the_same_run",
        (_guard("Guards._same_instance", "instance.launch_time != ref.launch_time", "False"),),
        (f"an id that comes back {_STOP}", f"an id that comes back {_END}"),
    ),
    Bug(
        "a warning of EC2 is not looked at",
        "warned_is_left_alone",
        (
            _guard("Guards._record_without_warning", "record.is_warned(self.clock.now())", "False"),
            _NO_LAST_LOOK_FOR_WARNINGS,
        ),
        (f"a warning {_STOP}",),
    ),
    Bug(
        "a removed target is not noticed",
        "only_governed_places",
        (_guard("Guards._must_be_governed", "if why is not None:", "if False:"),),
        (f"a removed target {_STOP}",),
    ),
    Bug(
        "the selector's tag is not noticed to be gone",
        "only_governed_places",
        (
            _guard("Guards._must_be_governed", "if why is not None:", "if False:"),
            _guard(
                "Guards._must_be_governed",
                "selector is not None and not selector.is_on(instance)",
                "False",
            ),
        ),
        (f"the selector's tag taken off {_STOP}",),
    ),
    Bug(
        "the exemption tag is not looked at",
        "exempt_is_left_alone",
        (_comparison("must_not_carry_exemption", "if tag is not None:", "if False:"),),
        (f"an exemption by tag {_STOP}",),
    ),
    Bug(
        "the exemption tag counts with its one spelling only",
        "exempt_is_left_alone",
        (
            Edit(
                "policy.model.names:TagMatch.similar_tag_on",
                "if self._is_meant_by(key):",
                "if key == self.tag_key:",
            ),
        ),
        (f"an exemption by tag {_STOP}",),
    ),
    Bug(
        "a stored exemption is not looked at",
        "stored_holds_are_obeyed",
        (
            _guard("Guards._must_not_be_kept", "record.hold.exempt_reason is not None", "False"),
            _NO_LAST_LOOK_FOR_HOLDS,
        ),
        (f"a stored exemption {_STOP}",),
    ),
    Bug(
        "a stored keep is not looked at",
        "stored_holds_are_obeyed",
        (_NO_KEEP, _NO_LAST_LOOK_FOR_HOLDS),
        (f"a stored keep {_STOP}",),
    ),
    Bug(
        "a hold is not looked at",
        "a_no_holds",
        (
            _guard("Guards._checked_approval", "if held_by is not None:", "if False:"),
            Edit(
                "remediation.store:Calls._note_before_call",
                'unset("brake") & unset("late_hold")',
                'where("pk", "<>", "")',
            ),
        ),
        (f"a hold {_STOP}", "a hold at every call of mode auto"),
    ),
    Bug(
        "the policy's mode is not compared",
        "observe_changes_nothing",
        (_guard("Guards._same_rules", "mode is not episode.mode", "False"),),
        (f"mode observe {_STOP}",),
    ),
    Bug(
        "mode auto goes on after the policy went back to ask",
        "enough_people_said_yes",
        (_guard("Guards._same_rules", "mode is not episode.mode", "False"),),
        ("mode ask at every call of mode auto",),
    ),
    Bug(
        "today's policy counts alone, however loose",
        "loosening_changes_nothing",
        (
            _guard(
                "Guards._same_rules",
                "stricter_policy = asked_under.stricter(applied.policy)",
                "stricter_policy = applied.policy",
            ),
        ),
        (f"work at eight percent, and a looser policy {_STOP}",),
    ),
    Bug(
        "the approval is not checked again",
        "people_who_left_decide_nothing",
        (_WHO_MAY[0],),
        (f"a person who leaves {_STOP}",),
    ),
    Bug(
        "the number of people is that of the question alone",
        "enough_people_said_yes",
        (_WHO_MAY[0],),
        (f"two people for a stop {_STOP}",),
    ),
    Bug(
        "an episode that is over still acts",
        "an_open_episode_stands_behind_it",
        (
            Edit("remediation.underway:episode_underway", "episode.phase is Phase.CLOSED", "False"),
            _guard(
                "Guards.must_still_be_allowed",
                "record.open_episode != cleared.episode.ref",
                "False",
            ),
            Edit(
                "remediation.store:Calls.note_call",
                "IS_OPEN & is_last_recheck & is_unused",
                "is_last_recheck & is_unused",
            ),
        ),
        (f"an abort before EC2 is asked {_STOP}",),
    ),
    Bug(
        "another owner is not noticed",
        "it_has_the_same_owner",
        (_comparison("_must_be_same_name", "now != before and", "False and"),),
        (f"another owner {_STOP}", f"another owner {_END}"),
    ),
    Bug(
        "another plan is not noticed",
        "the_plan_is_the_one_people_read",
        (_guard("Guards._must_have_same_plan", "plan.steps != episode.plan.steps", "False"),),
        (f"a plan that only notifies {_STOP}",),
    ),
    Bug(
        "an Auto Scaling group is not noticed",
        "managed_is_left_alone",
        (
            _guard("Guards._must_have_same_plan", "plan.steps != episode.plan.steps", "False"),
            Edit(
                "core.managers:managed_by",
                "return manager_by(operator, instance.tags, policy_keys)",
                "return None",
            ),
        ),
        (f"an Auto Scaling group {_STOP}",),
    ),
    Bug(
        "a volume that is deleted with it is not noticed",
        "it_is_the_same_machine",
        (_comparison("must_be_same_machine", "if flag is not flag_when_asked:", "if False:"),),
        (f"a volume deleted with it {_END}",),
    ),
    Bug(
        "another type is not noticed",
        "it_is_the_same_machine",
        (
            _comparison(
                "must_be_same_machine",
                "instance.instance_type != episode.instance.instance_type",
                "False",
            ),
        ),
        (f"another type {_END}",),
    ),
    Bug(
        "an attached volume is not noticed",
        "it_is_the_same_machine",
        (_comparison("must_be_same_machine", "if added_volumes:", "if False:"),),
        (f"another volume {_END}", f"another root volume {_STOP}"),
    ),
    Bug(
        "evidence may be changed in the table",
        "it_rests_on_what_people_saw",
        (
            _guard(
                "Guards._checked_approval",
                "evidence_hash(episode.measurement.evidence) != episode.measurement.evidence_hash",
                "False",
            ),
        ),
        (f"other evidence {_STOP}",),
    ),
    # the seals
    Bug(
        "no seal is checked, and a yes was forged",
        "enough_people_said_yes",
        (_NO_SEAL,),
        ("a forged yes",),
    ),
    Bug(
        "no seal is checked, and a plan was forged",
        "the_plan_is_the_one_people_read",
        (_NO_SEAL,),
        ("a forged plan, and a policy that wants it",),
    ),
    Bug(
        "the seal of an opening is not checked, and its terms were forged",
        "enough_people_said_yes",
        (
            Edit(
                "remediation.seals:CheckSeals.must_be_sealed",
                "self._must_fit(Duty.OPENING",
                "(lambda *_: None)(Duty.OPENING",
            ),
        ),
        ("forged terms, and a looser policy",),
    ),
    Bug(
        "no seal is checked, and a mode was forged",
        "enough_people_said_yes",
        (_NO_SEAL, _ANY_DELIVERY),
        ("a forged mode, notice and yes, and a policy of that mode",),
    ),
    Bug(
        "the seal of an answer is not checked",
        "enough_people_said_yes",
        (
            Edit(
                "remediation.seals:CheckSeals._answers_must_be_sealed",
                "for decision in given_yeses(approval):",
                "for decision in ():",
            ),
        ),
        ("a forged yes", "a forged second yes"),
    ),
    Bug(
        "the seal of the second answer is not checked",
        "enough_people_said_yes",
        (
            Edit(
                "remediation.seals:CheckSeals._answers_must_be_sealed",
                "for decision in given_yeses(approval):",
                "for decision in given_yeses(approval)[:1]:",
            ),
        ),
        ("a forged second yes",),
    ),
    Bug(
        "any seal of a delivery fits, and a notice was forged",
        "auto_gives_notice",
        (_ANY_DELIVERY,),
        ("a forged delivery in the notice of mode auto",),
    ),
    Bug(
        "any seal of a delivery fits, and the question came late",
        "silence_needs_its_messages",
        (_ANY_DELIVERY,),
        ("forged deliveries of a question",),
        ("outage",),
        "deliver_alert ses.send",
    ),
    # The deliveries alone keep silence its time, too: it takes both.
    Bug(
        "neither the seal of an expiry nor those of deliveries are checked",
        "silence_needs_its_messages",
        (
            Edit(
                "remediation.seals:CheckSeals._expiry_must_be_sealed",
                "if approval.expired_at is None:",
                "return\n    if approval.expired_at is None:",
            ),
            _ANY_DELIVERY,
        ),
        ("a forged expiry and forged deliveries",),
    ),
    # gates in front of the calls
    Bug(
        "a freeze holds nothing back",
        "nothing_during_a_freeze",
        (_FREEZES,),
        (f"a freeze {_STOP}", "frozen while an approved step waits"),
    ),
    Bug(
        "a pause holds nothing back",
        "nothing_during_a_pause",
        (
            Edit(
                "limits.freezes:why_paused",
                "if pause is None:",
                "if pause is None or True:",
            ),
            Edit("limits.store.pauses:not_paused", 'absent("pause")', 'absent("nothing")'),
        ),
        (f"a pause {_STOP}", f"a pause {_END}"),
    ),
    Bug(
        "caps hold nothing back",
        "within_the_caps",
        (Edit("limits.freezes:caps_of", "return {", "return {} and {"),),
        ("a cap is reached while an approved step waits",),
    ),
    Bug(
        "the window of the caps is minutes long",
        "within_the_caps",
        (
            Edit(
                "limits.store.cap_items:CapCount.counted",
                "counted.until > now",
                "counted.until > now + WINDOW",
            ),
        ),
        ("approvals of a whole hour under a cap",),
    ),
    Bug(
        "the window of the caps is half an hour long",
        "within_the_caps",
        (
            Edit(
                "limits.store.cap_items:CapCount.counted",
                "counted.until > now",
                "counted.until > now + WINDOW / 2",
            ),
        ),
        ("approvals of a whole hour under a cap",),
    ),
    Bug(
        "nothing is given back to the caps",
        "caps_count_what_was_done",
        (
            Edit(f"{_PUT_AWAY}._take_back", "if not cleared.dry_run:", "if False:"),
            Edit(f"{_PUT_AWAY}._take_back_note", "if not cleared.dry_run:", "if False:"),
        ),
        ("work begins while EC2 throttles the stop",),
    ),
    Bug(
        "the notice of mode auto counts from its beginning",
        "auto_gives_notice",
        (
            Edit(
                "approvals.rules.stages:notice_until",
                "delivered_at + max(episode.asking.notice_length, timedelta(minutes=minutes))",
                "delivered_at",
            ),
        ),
        ("auto",),
    ),
    Bug(
        "a longer notice of today's policy does not count",
        "auto_gives_notice",
        (
            Edit(
                "approvals.rules.stages:notice_until",
                "max(episode.asking.notice_length, timedelta(minutes=minutes))",
                "episode.asking.notice_length",
            ),
        ),
        ("a longer notice at every call of mode auto",),
    ),
    Bug(
        "answers that were refused do not count",
        "nobody_was_refused_meanwhile",
        (
            Edit(
                "approvals.refused_answers:RefusedAnswers.__call__",
                'most_by_query.get("refused", 0) > 0',
                "False",
            ),
        ),
        ("the page is down in the notice of mode auto",),
    ),
    Bug(
        "silence is taken for a yes",
        "enough_people_said_yes",
        (
            Rewire(_expires_as_yes),
            _guard(
                "Guards._must_be_a_yes", "approval.status is not ApprovalStatus.APPROVED", "False"
            ),
            _comparison(
                "must_be_authorized", "if not acts_on_silence(policy, episode.plan):", "if False:"
            ),
        ),
        ("expired",),
    ),
    Bug(
        "silence terminates",
        "silence_never_terminates",
        (
            Rewire(_expires_as_yes),
            _guard(
                "Guards._must_be_a_yes", "approval.status is not ApprovalStatus.APPROVED", "False"
            ),
            _comparison(
                "must_be_authorized", "if not acts_on_silence(policy, episode.plan):", "if False:"
            ),
        ),
        ("stopped long ago, and silence acts on questions",),
    ),
    Bug(
        "silence counts whatever was delivered",
        "silence_needs_its_messages",
        (
            Edit(
                "approvals.rules.stages:silence_from",
                "if planned is None or asked_at is None or escalated_at is None:",
                "if planned is not None:\n        return planned.expire_at\n    if True:",
            ),
        ),
        ("silence acts",),
        ("outage",),
        "deliver_alert ses.send",
    ),
    Bug(
        "a policy that no longer acts on silence is not noticed",
        "enough_people_said_yes",
        (
            _comparison(
                "must_be_authorized", "if not acts_on_silence(policy, episode.plan):", "if False:"
            ),
        ),
        ("no act on silence at every call of silence that acts",),
    ),
    Bug(
        "mode observe sends real calls",
        "observe_changes_nothing",
        (_guard("Guards.check", "episode.mode is Mode.OBSERVE", "False"),),
        ("observe",),
    ),
    # the recheck, and what it reads
    Bug(
        "the recheck reads no metrics",
        "work_keeps_it",
        (_NO_PROOF,),
        ("woke up after the yes", "work resumes in the last minutes before the stop"),
    ),
    Bug(
        "the recheck does not look at the newest minutes",
        "work_keeps_it",
        (
            Edit(
                "remediation.inspect_instance:_changed_since",
                "works = activity(newest, policy)",
                "return None",
            ),
        ),
        ("work resumes in the last minutes before the stop",),
    ),
    Bug(
        "the recheck looks for no clock that is ahead",
        "work_keeps_it",
        (
            Edit(
                "remediation.inspect_instance:InspectInstance._newest",
                "now + timedelta(minutes=_AHEAD_MINUTES)",
                "now",
            ),
        ),
        ("a clock ten minutes ahead, and work on the GPUs alone",),
    ),
    Bug(
        "CPU and network veto nothing",
        "work_keeps_it",
        (
            Edit(
                f"{_VERDICT_RULES}.vetoes:judge_figures",
                "oldest = oldest_figure(evidence, policy)",
                "return None",
            ),
            Edit(
                f"{_VERDICT_RULES}.vetoes:activity", "for figure in FIGURES:", "for figure in ():"
            ),
        ),
        ("an agent that publishes zeros while CPU and network work",),
    ),
    Bug(
        "the end of a proof may be silent",
        "silence_is_not_idleness",
        (Edit(f"{_VERDICT_RULES}.utilization:_judge_end", "if not unmeasured:", "if True:"),),
        (
            "the agent is silent for the last minutes before the stop",
            "the agent dies while people are asked",
        ),
    ),
    Bug(
        "a hole in the proof is taken for idleness",
        "silence_is_not_idleness",
        (Edit(f"{_VERDICT_RULES}.judge:judge_holes", "if ended is not None:", "if False:"),),
        ("the agent was silent for forty minutes of the proof",),
    ),
    Bug(
        "no data is taken for idleness at the recheck",
        "silence_is_not_idleness",
        (
            Edit(
                f"{_RECHECK}._end_if_not_idle",
                "if verdict.kind is VerdictKind.IDLE:",
                "if verdict.kind in (VerdictKind.IDLE, VerdictKind.NO_DATA):",
            ),
            _POWER_MAY_VANISH,
        ),
        ("the agent dies while people are asked", "the agent dies during the notice of mode auto"),
    ),
    Bug(
        "a session is not looked at",
        "somebody_logged_in_keeps_it",
        (
            Edit(
                "remediation.inspect_instance:InspectInstance._unless_logged_in",
                "if not open_sessions:",
                "if True:",
            ),
        ),
        (f"a session {_STOP}",),
    ),
    Bug(
        "readings of any age are enough to act unasked",
        "acts_unasked_on_fresh_readings_only",
        (Edit(f"{_RECHECK}._stale_delay", "_acts_unasked(cleared, approval, step)", "False"),),
        ("minute by minute, every reading comes six minutes late in mode auto",),
    ),
    # what is lost
    Bug(
        "snapshots need not be completed",
        "nothing_ends_unsaved",
        (_NEEDS_NO_SNAPSHOTS,),
        (f"deleted snapshots {_END}", f"failed snapshots {_END}"),
    ),
    Bug(
        "the workflow does not wait for snapshots, and no guard asks for them",
        "nothing_ends_unsaved",
        (_NEEDS_NO_SNAPSHOTS, _goes_to("SnapshotWasDryRun?", "TerminatePlanned?", "Default")),
        ("stop, snapshot, terminate",),
    ),
    Bug(
        "user data is kept once, and never compared",
        "nothing_ends_without_its_user_data",
        (
            _guard(
                "Guards.user_data_must_be_kept",
                "if not kept.is_of(current):",
                "if False:",
            ),
        ),
        ("user data changed while its snapshots are taken",),
    ),
    Bug(
        "an instance that runs again is terminated",
        "what_runs_again_is_not_ended",
        (
            _guard("Guards._same_instance", "instance.launch_time != ref.launch_time", "False"),
            Edit(f"{_RECHECK}._end_if_changed", 'if state != "stopped":', "if False:"),
            _ANY_STATE,
        ),
        (f"a start and work {_END}",),
    ),
    # who decides
    Bug(
        "whoever has a link may approve",
        "only_people_of_the_policy_decide",
        _WHO_MAY,
        ("an address that only a tag names approves", "somebody of a list approves"),
    ),
    Bug(
        "the same person counts twice",
        "enough_people_said_yes",
        (
            Edit(
                "approvals.decide:Decide._decide",
                "if first_yes is not None and first_yes.person == decision.person:",
                "if approval.first_yes is None:",
            ),
            _WHO_MAY[0],
        ),
        ("one person alone approves a termination, twice",),
    ),
    Bug(
        "a termination needs no typed id",
        "a_termination_is_typed",
        (
            Edit(
                "approvals.rules.answers:check_confirmed",
                "if plan.destroys and not is_right_id:",
                "if False:",
            ),
        ),
        ("two people approve a termination without its id",),
    ),
    Bug(
        "a keep is recorded, and holds nothing",
        "accepted_answers_hold",
        (
            Edit(
                "approvals.rules.approval:hold_of",
                "if decision.answer in (Answer.APPROVE, Answer.HOLD):",
                "if True:",
            ),
        ),
        ("keep", "exempt"),
    ),
    Bug(
        "the end of an exemption takes whatever came meanwhile",
        "accepted_answers_hold",
        (
            Edit(
                "episode.store.holds:_is_hold_unchanged",
                "return condition",
                'return where("pk", "<>", "")',
            ),
        ),
        ("an admin ends an exemption, and somebody keeps it at every call of that",),
    ),
    Bug(
        "the page of a keep ends whatever keep stands",
        "accepted_answers_hold",
        (
            Edit(
                "approvals.store.approvals:Approvals.end_keep",
                'is_this_or_none = (has_its_date & is_its_own) | unset("snoozed_until")',
                "is_this_or_none = present() | absent()",
            ),
            Edit(
                "approvals.store.approvals:Approvals.end_keep",
                " & keeps.are_keeps_unchanged(stored)",
                "",
            ),
            Edit(
                "approvals.store.approvals:Approvals.end_keep",
                "keeps.other_keeps(self._table, stored, at, keep)",
                "keeps.OtherKeeps(Hold(), ())",
            ),
        ),
        ("an admin ends a keep, and its page ends it again while somebody keeps it anew",),
    ),
    Bug(
        "the audit does not say who answered",
        "questions_answers_and_actions_are_audited",
        (
            Edit(
                "episode.rules.audit:Change._who",
                'isinstance(answer, Mapping) and "by" in answer',
                "False",
            ),
        ),
        ("stop", "keep"),
    ),
    Bug(
        "the audit names no step that was begun",
        "questions_answers_and_actions_are_audited",
        (
            Edit(
                "episode.rules.audit:Change._what",
                "if name in changed and self.after.get(name):",
                'if name != "steps_done" and name in changed and self.after.get(name):',
            ),
        ),
        ("stop",),
    ),
    Bug(
        "a Spot request is canceled whosever it is",
        "a_spot_request_is_its_own",
        (
            Edit(
                "aws.ec2_writes:Ec2Controller._cancel_spot_request",
                "if owner != instance.instance_id:",
                "if False:",
            ),
        ),
        ("the Spot request of it has launched another instance since",),
    ),
    Bug(
        "an ended session goes on",
        "an_ended_session_decides_nothing",
        (
            Edit(
                "approvals.store.sessions:SignIns.session",
                "session is None or now >= session.ends_at",
                "False",
            ),
        ),
        ("somebody has a copy of an admin's cookie, and her session is ended",),
    ),
    Bug(
        "an ended session goes on upon the page of a link",
        "an_ended_session_decides_nothing",
        (
            Edit(
                "web.site:SignInGate.known",
                "stored = self.sign_in_store.session(session.session_id, now)",
                "stored = self.sign_in_store.session(session.session_id, now.replace(year=2000))",
            ),
        ),
        ("somebody has a copy of an approver's cookie, and her session is ended",),
    ),
    Bug(
        "whoever may pause may end the pause",
        "nothing_during_a_pause",
        (
            Edit(
                "approvals.pause:PauseAll.end",
                "if not may_end_pause(",
                "if not may_pause(presser.grants, presser.person, policy) and not may_end_pause(",
            ),
        ),
        ("somebody who may pause ends the pause, and later an admin does",),
    ),
    Bug(
        "mode auto may trust any publisher",
        "auto_needs_trusted_publishers",
        (
            Edit(
                "policy.rules.recklessness:reckless_rules",
                "if not policy.metrics.publishers_are_trusted:",
                "if False:",
            ),
        ),
        ("mode auto where anybody may publish",),
    ),
    Bug(
        "an override counts before its people have accepted it",
        "auto_terminates_by_two_people",
        (_NEEDS_NO_ACCEPTANCE,),
        ("one of two people accepts an override that terminates",),
    ),
    Bug(
        "people accept the name of an override, whatever it becomes",
        "auto_terminates_by_two_people",
        (
            Edit(
                "policy.rules.consent:terms_of_consent",
                "[asdict(override) for override in overrides]",
                "[override.name for override in overrides]",
            ),
        ),
        ("an override that terminates is widened after two people have accepted it",),
    ),
    Bug(
        "a writer alone brings the people who consent",
        "auto_terminates_by_two_people",
        (
            Edit(
                "policy.rules.consent:people_after",
                "return before",
                "return own",
            ),
        ),
        ("a writer alone brings two people, and accepts an override by both",),
    ),
    Bug(
        "one person may stand behind an override that terminates",
        "auto_terminates_by_two_people",
        (
            _NEEDS_NO_ACCEPTANCE,
            Edit("policy.rules.recklessness:_vouches", "& known) > 1", "& known) > 0"),
        ),
        ("one person stands behind an override that terminates",),
    ),
    Bug(
        "what was stopped cannot be started again",
        "what_was_stopped_can_be_started",
        (
            Edit(
                "episode.model.episode:Episode.can_be_started",
                "return self.became is Outcome.STOPPED or is_last",
                "return False",
            ),
        ),
        ("somebody holds the stop too late, and has it undone",),
    ),
    # The workflow. While the guards hold, a wrong way through it changes the end of the story and
    # destroys nothing. So most of these bugs take a guard as well.
    Bug(
        "the workflow repeats a stop by itself",
        "each_attempt_is_rechecked",
        (_retries("Stop"), *_ONE_RECHECK_FOR_ALL),
        ("work begins while EC2 throttles the stop",),
    ),
    Bug(
        "the workflow repeats a termination by itself",
        "each_attempt_is_rechecked",
        (_retries("Terminate"), *_ONE_RECHECK_FOR_ALL),
        ("work begins while EC2 throttles the termination",),
    ),
    Bug(
        "the workflow stops without a recheck",
        "what_was_decided_is_done",
        (_choice_goes_to("Recheck", 0, "Stop"),),
        ("stop",),
    ),
    Bug(
        "the workflow stops without a recheck, and no guard asks for one",
        "each_attempt_is_rechecked",
        (_choice_goes_to("Recheck", 0, "Stop"), *_NEEDS_NO_RECHECK),
        ("stop", "woke up after the yes"),
    ),
    Bug(
        "the workflow takes no snapshots",
        "what_was_decided_is_done",
        (_choice_goes_to("SnapshotPlanned?", 0, "TerminatePlanned?"),),
        ("stop, snapshot, terminate",),
    ),
    Bug(
        "the workflow does not rehearse snapshots",
        "snapshots_are_rehearsed_before_a_stop",
        (_choice_goes_to("StopAllowed?", 0, "Stop"),),
        ("snapshots are refused",),
    ),
    Bug(
        "a rehearsal that EC2 refuses lets the stop through",
        "snapshots_are_rehearsed_before_a_stop",
        (
            Edit(
                "remediation.take_snapshot:TakeSnapshot._refuse_if_ec2_would",
                "raise SafetyError(refused_snapshots_text(error, tags)) from error",
                "return",
            ),
        ),
        ("snapshots are refused",),
    ),
    Bug(
        "the workflow does not wait for snapshots",
        "what_was_decided_is_done",
        (_goes_to("SnapshotWasDryRun?", "TerminatePlanned?", "Default"),),
        ("stop, snapshot, terminate",),
    ),
    Bug(
        "the workflow takes no snapshots, and no guard asks for them",
        "nothing_ends_unsaved",
        (
            _choice_goes_to("SnapshotPlanned?", 0, "TerminatePlanned?"),
            _NEEDS_NO_SNAPSHOTS,
            _NEEDS_NO_USER_DATA,
        ),
        ("stop, snapshot, terminate",),
    ),
    Bug(
        "the workflow takes no snapshots, and no guard asks for user data",
        "nothing_ends_without_its_user_data",
        (
            _choice_goes_to("SnapshotPlanned?", 0, "TerminatePlanned?"),
            _NEEDS_NO_SNAPSHOTS,
            _NEEDS_NO_USER_DATA,
        ),
        ("stop, snapshot, terminate",),
    ),
    Bug(
        "no sweep closes the episode of a workflow that died",
        "nothing_is_stuck",
        (
            Edit(
                "sweep.follow_up:FollowUp._repair",
                "self._is_dead(sweep, ref, episode)",
                "False",
            ),
        ),
        ("aborted",),
        ("outage",),
        "handle_execution_end table",
    ),
    Bug(
        "waiting ends in the call, round the recheck",
        "each_attempt_is_rechecked",
        (_goes_to("WaitToAct", "Stop"), *_NEEDS_NO_RECHECK),
        (
            "work begins while EC2 throttles the stop",
            "work begins while EC2 is not available for the stop",
        ),
    ),
    Bug(
        "each call is sent twice",
        "nothing_is_done_twice",
        (
            Edit(
                f"{_PUT_AWAY}._send",
                "sent = self._call(",
                "self._call(cleared, step, dry_run=cleared.dry_run)\n        sent = self._call(",
            ),
        ),
        ("stop",),
    ),
    Bug(
        "a recheck lets any number of calls through",
        "each_attempt_is_rechecked",
        (*_ONE_RECHECK_FOR_ALL, _catches("Stop", "Stop")),
        ("work begins while EC2 throttles the stop", "the role may stop nothing any more"),
    ),
    Bug(
        "a lost answer is taken for no answer at all",
        "nothing_is_done_twice",
        (
            Edit(f"{_PUT_AWAY}._is_done", "return effect is Effect.DONE", "return False"),
            Edit(f"{_RECHECK}._result_of_earlier_call", "now = self.clock.now()", "return None"),
            _ANY_STATE,
            Edit(f"{_RECHECK}._end_if_changed", 'if state != "running":', "if False:"),
            Edit(
                "remediation.take_snapshot:_must_not_be_stopped_yet",
                "must_be_in_state(cleared, wanted_state)",
                "pass",
            ),
        ),
        ("the answer to the stop is lost", "the answer to the termination is lost"),
    ),
    Bug(
        "a hold that came during a call is forgotten with it",
        "too_late_was_too_late",
        (
            _comparison("hold_of", "return approval.counted_hold", "return approval.hold"),
            Edit(
                "remediation.store:Calls._note_before_call",
                'unset("brake") & unset("late_hold")',
                'unset("brake")',
            ),
        ),
        ("somebody holds the stop while EC2 throttles it",),
    ),
    # what is recorded and announced
    Bug(
        "a stop that EC2 refused is booked",
        "the_ledger_is_right",
        (
            Edit(
                "money.book_saving:BookSaving._final_outcome",
                "if outcome is not Outcome.STOPPED:\n        return None",
                "if outcome is not Outcome.STOPPED:\n        return Outcome.STOPPED",
            ),
        ),
        ("the role may stop nothing any more",),
    ),
    Bug(
        "the saving goes on after the instance was started again",
        "the_ledger_is_right",
        (
            Edit(
                "money.book_saving:SettleRestart.__call__",
                "stops_booked_by(entries, at)",
                "()",
            ),
        ),
        ("somebody holds the stop too late, and has it undone",),
    ),
    Bug(
        "a message that comes twice is sent twice",
        "messages_come_once",
        (
            Edit(
                "notify.dispatch:Dispatch._due_items",
                "if delivery is None:",
                "if delivery is None or delivery.not_before is None:",
            ),
            Edit(
                "alerts.store:Deliveries.claim_delivery",
                'absent() | where("given_up", "=", True) | is_due',
                'absent() | where("channel", "<>", "")',
            ),
        ),
        ("stop",),
        ("error after",),
        "record_outcome sns.publish",
    ),
    Bug(
        "what was sent stays in the outbox",
        "nothing_is_stuck",
        (Edit("notify.worker:Worker._send_part", "if not done.left:", "if False:"),),
        ("stop",),
    ),
    Bug(
        "an error of EC2 is recorded as a deletion",
        "deletions_are_recorded",
        (
            Edit(
                "remediation.expire_snapshots:ExpireSnapshots._delete",
                'run.problems.append(f"{snapshot_id}: {type(error).__name__}: {error}")\n'
                "        return",
                'what = "snapshot deleted"',
            ),
        ),
        ("snapshots expire",),
        ("error before",),
        "expire_snapshots ec2.delete",
    ),
    Bug(
        "nobody is notified of the outcome",
        "people_learn_the_outcome",
        (
            Edit(
                "remediation.announce_end:AnnounceEnd.__call__",
                "if alert.kind is not AlertKind.FAILURE:\n"
                "        self.announcer.announce(alert)\n        return",
                "return",
            ),
        ),
        ("stop",),
    ),
    Bug(
        "changes of the policy's parameter are not announced",
        "changes_of_the_policy_are_announced",
        (
            Edit(
                "policy.versions:ReviewPolicy._note_parameter",
                "if text == noted:",
                "if True:",
            ),
        ),
        ("the policy's parameter is changed",),
    ),
    Bug(
        "a version counts before people are notified of it",
        "versions_are_announced_first",
        (
            Edit(
                "policy.versions:ReviewPolicy._review_version",
                'is_announced = self._announce(reviewed, "in-force")',
                "is_announced = True",
            ),
        ),
        ("a version of the policy that cannot be used comes after one that can",),
    ),
    Bug(
        "a risky version waits for nobody",
        "versions_count_when_they_may",
        (
            Edit(
                "policy.versions:ReviewPolicy._review_version",
                "risky_settings and waits_for_two(in_force) and len(supporters) < PEOPLE_NEEDED",
                "False",
            ),
        ),
        ("a risky version of the policy waits for a second person",),
    ),
    Bug(
        "snapshots of an exempt instance are deleted",
        "snapshots_stay_while_needed",
        (
            Edit(
                f"{_EXPIRY}:Holdings._why_exempt",
                "if tag is not None:",
                "if False:",
            ),
        ),
        ("snapshots expire, exempt since",),
    ),
    Bug(
        "the last snapshots of a terminated instance are deleted",
        "snapshots_stay_while_needed",
        (
            Edit(
                f"{_EXPIRY}:Holdings._needed",
                "if self._has_all_volumes or (self.policies and may_lose_all):",
                "if True:",
            ),
        ),
        ("snapshots of a terminated instance stay",),
    ),
    Bug(
        "the date in a snapshot's tag does not count",
        "snapshots_stay_while_needed",
        (
            Edit(
                f"{_EXPIRY}:Holdings._date",
                "return max(tagged, episode.ending.at + timedelta(days=max(days)))",
                "return episode.ending.at + timedelta(days=max(days))",
            ),
        ),
        ("snapshots expire, to be kept",),
    ),
    Bug(
        "snapshots are deleted at once",
        "snapshots_stay_while_needed",
        (Edit(f"{_EXPIRY}:to_delete", "delivered_at[expiry.message] + NOTICE <= now", "True"),),
        ("snapshots expire",),
    ),
    Bug(
        "snapshots are deleted in mode observe",
        "snapshots_stay_while_needed",
        (
            Edit(
                f"{_EXPIRY}:switched_off",
                "if not policies or any(policy.mode is Mode.OBSERVE for policy in policies):",
                "if not policies:",
            ),
        ),
        ("snapshots expire, only observed since",),
    ),
)
