"""Takes a person's answer once (approve, keep, exempt or hold), and hands it to the workflow that
waits.

It also ends keeps and exemptions. Every channel ends here, so no channel may store an answer
itself. This module must not act on an instance: the workflow checks everything again first.

An answer either settles an open question, or holds an episode that would act unless somebody
prevents it: after a yes, or where nobody is asked. A hold is stored beside the decision, and the
guards before each step read it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from governor.alerts.ports import Announcer
from governor.alerts.templates import template_lines
from governor.approvals.deliver_decision import hand_over
from governor.approvals.messages.questions import first_yes_alert
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.answers import (
    check_confirmed,
    hold_hash,
    repeats,
    with_trimmed_reason,
)
from governor.approvals.rules.approval import (
    LATE_HOLD_COUNTS,
    acts_by_itself,
    check_decision,
    check_hold,
    hold_of,
    keep_end,
)
from governor.approvals.rules.sealing import SealMaker, answer_text, is_opening_sealed, sealed
from governor.approvals.rules.terms import check_terms, may_end_keep, stricter, terms_of
from governor.approvals.show_approval import ApprovalView
from governor.approvals.store.approvals import Approvals
from governor.core.errors import (
    CloudError,
    ConflictError,
    DecisionRefused,
    NotAllowed,
    NotFound,
    TooLate,
)
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, Terms
from governor.episode.ports import Workflow
from governor.episode.store.episodes import Episodes
from governor.episode.store.holds import Holds
from governor.episode.store.instances import Instances
from governor.policy.ports import Policies, policy_or_base
from governor.verdict.model import Hold

_log = logging.getLogger(__name__)
_ASKED_BEFORE_UPDATE = (
    "GPU Governor was updated after this question was asked, so your answer was not recorded. "
    "You are asked again within minutes"
)


@dataclass(frozen=True, slots=True)
class Decided:
    """The result of an answer that was taken, with the approval as it stands now."""

    approval: Approval
    delivered: bool
    """False if the workflow finds this decision in the table only later. True if it has it, and for
    an answer for which no workflow waits: the first of two approvals, and a hold."""
    needs_another: bool = False
    """True if this was the first of two approvals: nothing happens before somebody else approves,
    too."""
    holds: bool = False
    """True if the answer came after the yes, or where nobody is asked: it holds an episode that
    would act."""

    def confirmation(self, decision: Decision, episode: Episode, now: UtcDatetime) -> str:
        """Return the confirmation of this answer that every channel shows, as one line: for a keep
        with its end, in the time zone of the owner."""
        until = None
        if decision.answer is Answer.KEEP:
            until = decision.keep_until or keep_end(episode, now)
        values = {"decided": self, "answer": decision.answer, "until": until}
        lines = template_lines("answered", values, episode.asking.time_zone, now)
        return lines[0]


@dataclass(frozen=True, slots=True)
class Decide:
    """Takes decisions. The conditional write in the table is the decision; the rest delivers it."""

    episode_store: Episodes
    approval_store: Approvals
    hold_store: Holds
    instance_store: Instances
    workflow: Workflow
    clock: Clock
    announcer: Announcer
    policies_now: Callable[[], Policies]
    """Today's policies. They are read only for answers that outlive the question."""
    answer_seal: SealMaker

    def terms_now(self, episode: Episode) -> Terms:
        """Return the terms that allow only what both the question's terms and today's policy allow.
        If overrides of the instance contradict each other, today's policy is the one without them.
        Raises: CloudError or PolicyError if today's policy cannot be read."""
        policy = policy_or_base(self.policies_now(), episode.instance)
        return stricter(episode.terms, terms_of(policy, episode.plan, episode.price))

    def __call__(
        self,
        approval_id: str,
        decision: Decision,
        *,
        typed_instance_id: str | None = None,
        losses_accepted: bool = False,
    ) -> Decided:
        """Take the answer to a question: store it, and deliver it to the workflow. An answer that
        is refused is noted for the audit.

        An approval of a plan that terminates needs the `typed_instance_id`; one of a plan that
        wipes local disks needs `losses_accepted`. Raises: NotFound if there is no such question;
        DecisionRefused, of which NotAllowed and TooLate are kinds, with the `status` of the
        question; CloudError; PolicyError for an exemption, if today's policy cannot be read.
        """
        approval = self.approval_store.existing(approval_id)
        try:
            return self._decide(
                approval,
                decision,
                typed_instance_id=typed_instance_id,
                losses_accepted=losses_accepted,
            )
        except DecisionRefused as error:
            answer = decision.answer.value
            self.approval_store.note_refused(
                approval, answer, decision.by, str(error), decision.at, decision
            )
            raise

    def _decide(
        self,
        approval: Approval,
        decision: Decision,
        *,
        typed_instance_id: str | None,
        losses_accepted: bool,
    ) -> Decided:
        """Check the decision, store it, and deliver it. A keep without a date gets the date of
        `keep_end` first.

        A repeat of the stored decision, and a hold, are taken by themselves. The first of two
        approvals is only stored, and people are notified of it; the second, of another person,
        settles the question, as any other answer does. Raises: NotFound if the episode is gone;
        DecisionRefused, NotAllowed or TooLate if the decision cannot be taken; CloudError;
        PolicyError for an exemption, if today's policy cannot be read.
        """
        now = self.clock.now()
        episode = self._episode(approval)
        if decision.answer is Answer.KEEP and decision.keep_until is None:
            decision = replace(decision, keep_until=keep_end(episode, now))
        already_taken = self._take_repeat_or_hold(approval, episode, decision, now)
        if already_taken is not None:
            return already_taken
        self._check_terms(episode, decision)
        check_confirmed(
            episode,
            decision,
            typed_instance_id=typed_instance_id,
            losses_accepted=losses_accepted,
        )
        # The seal is made before the answer is stored: what is stored is never without its seal.
        decision = self._sealed(episode, decision)
        needs_two_people = episode.terms.people_needed > 1
        if decision.answer is Answer.APPROVE and needs_two_people:
            stored = self._note_first_yes(approval, episode, decision)
            # There is none if another answer has settled the question meanwhile.
            first_yes = stored.first_yes
            if first_yes is not None and first_yes.person == decision.person:
                return Decided(stored, delivered=True, needs_another=True)
        return self._settle(approval.approval_id, episode, decision)

    def _note_first_yes(self, approval: Approval, episode: Episode, decision: Decision) -> Approval:
        """Store the first of two approvals, unless one is stored, and notify people if this call
        stored it.

        Return the approval as it is stored now: its `first_yes` may be another person's, or `None`
        if the question was settled before this call. Raises: NotFound; CloudError.
        """
        stored = self.approval_store.note_first_yes(approval.approval_id, decision)
        is_new = approval.first_yes is None and stored.first_yes == decision
        if is_new:
            self._notify_of_first_yes(episode, decision, approval)
        return stored

    def _settle(self, approval_id: str, episode: Episode, decision: Decision) -> Decided:
        """Store the decision that ends the question, and deliver it.

        If the question is decided already, take the decision as a repeat or a hold. Raises:
        DecisionRefused if it is neither, or the table is busy; NotFound; CloudError; PolicyError
        for an exemption, if today's policy cannot be read.
        """
        try:
            settled = self.approval_store.settle(approval_id, decision, episode.project)
        except ConflictError:
            # Another person was faster, or this request is a repeat of the person's own.
            stored = self.approval_store.existing(approval_id)
            already_taken = self._take_repeat_or_hold(
                stored, self._episode(stored), decision, self.clock.now()
            )
            if already_taken is None:
                # Still pending: the table was busy, not decided. The person may press again.
                raise DecisionRefused("please try again", status=stored.status.value) from None
            return already_taken
        # Until the first task waits, there is nobody to deliver to: that task reads the table.
        delivered = settled.task_token is None or self._deliver(approval_id)
        return Decided(settled, delivered=delivered)

    def _take_repeat_or_hold(
        self, approval: Approval, episode: Episode, decision: Decision, now: UtcDatetime
    ) -> Decided | None:
        """Take a decision that repeats the stored one, by delivering that again, or that holds a
        plan which would act. Return the result.

        Return `None` if the decision is neither, and is complete for a question that is open: the
        caller must then settle the question. Raises: DecisionRefused if it is neither and the
        question takes no such answer, or the hold was refused (NotAllowed, TooLate); CloudError;
        PolicyError for an exemption, if today's policy cannot be read.
        """
        if repeats(approval.decision, decision):
            # Delivered again, in case the first delivery was lost. The person gets the same
            # confirmation in either case.
            self._deliver(approval.approval_id)
            return Decided(approval, delivered=True)
        is_yes = decision.answer is Answer.APPROVE
        is_hold = decision.answer is Answer.HOLD
        if not is_yes and (is_hold or acts_by_itself(episode, approval, now)):
            return self._hold(approval, episode, decision)
        check_decision(approval, decision, now)
        return None

    def _hold(self, approval: Approval, episode: Episode, decision: Decision) -> Decided:
        """Keep the plan from being carried out any further, by storing the hold, with the keep or
        exemption of the answer.

        The table takes either the hold or the note of the call to EC2, whichever comes first. Once
        the call is noted, the keep or exemption is stored all the same. If the same decision holds
        the episode already, nothing is written. Raises: TooLate if the call was noted first;
        NotAllowed; DecisionRefused if there is nothing to hold, or the answer is incomplete or no
        stricter than the hold that stands; CloudError; PolicyError for an exemption, if today's
        policy cannot be read.
        """
        hold_decision = with_trimmed_reason(decision)
        now = self.clock.now()
        held = Decided(approval, delivered=True, holds=True)
        if repeats(approval.hold, hold_decision):
            return held
        self._check_terms(episode, decision)
        keep = hold_of(decision, episode.project, approval.approval_id)
        try:
            check_hold(episode, approval, decision, now)
            self._take_hold(episode, hold_decision, keep, approval)
        except TooLate as error:
            self._store_keep(episode, keep)
            return self._note_late_hold(approval, episode, decision, error)
        return held

    def _store_keep(self, episode: Episode, keep: Hold) -> None:
        """Store the keep or the exemption of an answer: guards and sweeps obey it from now on.

        A `keep` without either stores nothing. Raises: DecisionRefused if others changed the keeps
        at each attempt; CloudError.
        """
        try:
            self.hold_store.store_hold(episode.ref.target, episode.ref.instance_id, keep)
        except ConflictError:
            raise DecisionRefused("please try again", status=ApprovalStatus.PENDING.value) from None

    def _note_late_hold(
        self, approval: Approval, episode: Episode, decision: Decision, error: TooLate
    ) -> Decided:
        """Note a hold that came during the call to EC2, and raise a TooLate that says if the hold
        may still count. `error` is the TooLate of the hold.

        Only if the call was taken back meanwhile, take the hold as any other, and return that
        result. Raises: TooLate; DecisionRefused; PolicyError; CloudError.
        """
        if self.approval_store.note_late_hold(episode, with_trimmed_reason(decision)):
            raise TooLate(f"{error}. {LATE_HOLD_COUNTS}", status=error.status) from None
        stored = self.approval_store.existing(approval.approval_id)
        episode_now = self._episode(stored)
        if episode_now.begun_at is None:
            return self._hold(stored, episode_now, decision)
        raise error

    def _check_terms(self, episode: Episode, decision: Decision) -> None:
        """Require that the person may give this answer. Raises: NotAllowed; CloudError or
        PolicyError if today's policy is needed and cannot be read.

        Today's policy counts for an exemption, which nothing checks later. An approval is checked
        again before each step.
        """
        terms = episode.terms
        if decision.answer is Answer.EXEMPT:
            terms = self.terms_now(episode)
        check_terms(terms, episode.plan, decision)

    def _take_hold(
        self, episode: Episode, hold_decision: Decision, keep: Hold, approval: Approval
    ) -> None:
        """Store the decision that holds the episode, with its keep or exemption. If the same
        decision is stored already, nothing changes.

        Raises: TooLate if the call to EC2 was noted meanwhile; DecisionRefused if another decision
        holds the episode, it is over, or the person should try again; CloudError.
        """
        try:
            self.approval_store.hold(episode, hold_decision, keep, replaced=approval.hold)
        except ConflictError:
            stored = self.approval_store.existing(episode.approval_id)
            if not repeats(stored.hold, hold_decision):
                check_hold(self._episode(stored), stored, hold_decision, self.clock.now())
                raise DecisionRefused(
                    "please try again", status=ApprovalStatus.PENDING.value
                ) from None

    def _sealed(self, episode: Episode, decision: Decision) -> Decision:
        """Return an approval with its seal, and any other answer as it is. It stores nothing.

        Raises: DecisionRefused if an earlier release asked the question, or KMS could not seal the
        answer.
        """
        if decision.answer is not Answer.APPROVE:
            return decision
        status = ApprovalStatus.PENDING.value
        if not is_opening_sealed(episode):
            raise DecisionRefused(_ASKED_BEFORE_UPDATE, status=status)
        try:
            seal = sealed(self.answer_seal, answer_text(episode, decision))
        except CloudError as error:
            _log.exception("an answer could not be sealed")
            why = (
                "your answer could not be signed at this moment, so nothing was "
                "recorded: please try again"
            )
            raise DecisionRefused(why, status=status) from error
        return replace(decision, seal=seal)

    def _episode(self, approval: Approval) -> Episode:
        """Return the episode of the question. Raises: NotFound if there is none; CloudError."""
        episode = self.episode_store.episode(approval.episode)
        if episode is None:
            raise NotFound(f"the episode of approval {approval.approval_id} does not exist")
        return episode

    def _notify_of_first_yes(
        self, episode: Episode, decision: Decision, approval: Approval
    ) -> None:
        """Notify people of the first approval. A CloudError is only logged: the approval stands."""
        try:
            self.announcer.announce(first_yes_alert(episode, decision, approval.deadline))
        except CloudError:
            _log.exception("nobody could be notified of a first yes")

    def _deliver(self, approval_id: str) -> bool:
        """Hand the stored decision to the workflow. Return true if the waiting task took it; false
        if no task waits, or a call of AWS failed: the next stage or a sweep then finds the decision
        in the table."""
        try:
            return hand_over(
                self.episode_store, self.workflow, self.approval_store.approval(approval_id)
            )
        except CloudError:
            # The decision stands in the table. The next stage and the sweep deliver it.
            return False

    def end_keep(self, view: ApprovalView, by: str, person: str | None, role: Role) -> None:
        """End the keep of the question in `view` before its time: people end their own, approvers
        anybody's.

        `by` is the name for the record; `person` is who is proven, `None` for an unknown person.
        Raises: NotAllowed; DecisionRefused if the keep is over, or another one stands by now;
        CloudError or PolicyError if today's policy cannot be read.
        """
        approval = view.approval
        now = self.clock.now()
        keep = approval.lasting_keep(now)
        if keep is None:
            raise DecisionRefused(
                "there is no keep to end: it is over", status=approval.status.value
            )
        if not may_end_keep(self.terms_now(view.episode), role, keep, person):
            raise NotAllowed(
                "only the person who kept it, or an approver by their own link, may end that"
            )
        try:
            self.approval_store.end_keep(approval, keep, by, now)
        except ConflictError:
            why = "somebody has kept it again, or has ended this keep, since this page was opened"
            raise DecisionRefused(why, status=approval.status.value) from None

    def end_hold(
        self, target: Target, instance_id: str, by: str, shown: str, may_end: Callable[[Hold], bool]
    ) -> None:
        """End the keep and the exemption of an instance in one write. A tag that exempts the
        instance stays.

        `shown` is what `hold_hash` returned for the hold on the page. `may_end` says whether the
        person may end a hold. Raises: DecisionRefused if no hold stands, or another one than shown;
        NotAllowed; CloudError.
        """
        now = self.clock.now()
        hold = self.instance_store.record(target, instance_id).hold
        if not hold.stands(now):
            raise DecisionRefused("nothing holds this instance: no keep and no exemption is stored")
        if not may_end(hold):
            raise NotAllowed("only an admin of it may end a keep or an exemption (console.scopes)")
        try:
            if hold_hash(hold) != shown:
                raise ConflictError("this is not the hold that the page showed")
            self.hold_store.end_hold(target, instance_id, hold, by, now)
        except ConflictError:
            why = "somebody has held it again since this page was opened: open the instance again"
            raise DecisionRefused(why) from None
