"""Guards that compare an instance and its answers with those of the question.

They read nothing. A guard that does not hold raises `SafetyError`.
"""

from __future__ import annotations

from governor.approvals.model.approval import Approval, ApprovalStatus, Decision
from governor.approvals.rules.terms import stricter, terms_of, was_rightly_approved
from governor.core.errors import (
    SafetyError,
)
from governor.core.instance import Instance
from governor.episode.model.episode import Episode
from governor.episode.rules.plan import acts_on_silence
from governor.policy.model.contacts import is_address
from governor.policy.model.policy import Policy
from governor.policy.rules.changes import AskedUnder
from governor.policy.rules.owners import owner_of


def must_be_same_machine(episode: Episode, instance: Instance) -> None:
    """Require that the instance has the type that it had when people were asked, no volume that was
    attached since, and an unchanged DeleteOnTermination of each volume. A volume may be gone.
    Raises: SafetyError."""
    flags_when_asked: dict[str, bool] = {}
    for volume in episode.instance.volumes:
        flags_when_asked[volume.volume_id] = volume.delete_on_termination
    for volume in instance.volumes:
        flag = volume.delete_on_termination
        flag_when_asked = flags_when_asked.get(volume.volume_id, flag)
        if flag is not flag_when_asked:
            raise SafetyError(
                f"DeleteOnTermination of {volume.volume_id} was changed since it was asked about"
            )
    if instance.instance_type != episode.instance.instance_type:
        raise SafetyError(
            f"its type was changed to {instance.instance_type} since it was asked about"
        )
    added_volumes = sorted(instance.volume_ids - flags_when_asked.keys())
    if added_volumes:
        listed = ", ".join(added_volumes)
        raise SafetyError(f"volumes were attached since it was asked about: {listed}")


def must_not_carry_exemption(
    instance: Instance, policy: Policy, asked_under: AskedUnder | None
) -> None:
    """Require that no tag exempts the instance, by today's policy or by that of the question.

    `asked_under` is `None` for episodes of earlier releases. Raises: SafetyError.
    """
    exemptions = [policy.exemption]
    if asked_under is not None:
        exemptions.append(asked_under.exemption)
    for exemption in exemptions:
        tag = exemption.similar_tag_on(instance)
        if tag is not None:
            raise SafetyError(f"the instance is exempt: {tag}")


def must_have_same_owner(episode: Episode, instance: Instance, policy: Policy) -> None:
    """Require that the instance still has the owner and the project of the question. Raises:
    SafetyError."""
    today = owner_of(instance, policy.ownership)
    _must_be_same_name("owner", episode.owner, today.name)
    _must_be_same_name("project", episode.project, today.project)


def _must_be_same_name(kind: str, before: str, now: str) -> None:
    """Require that the name is still the same; addresses may differ in letter case. `kind` is
    `owner` or `project`. Raises: SafetyError."""
    is_same_address = is_address(before) and now.lower() == before.lower()
    if now != before and not is_same_address:
        raise SafetyError(f"its {kind} was changed from {before} to {now} since it was asked about")


def hold_of(approval: Approval, episode: Episode) -> Decision | None:
    """Return the decision that holds the episode; `None` if there is none.

    Until the last step is noted, each hold counts, also one that came too late for a call without
    effect, whose note was taken back. Once the step is noted, only a hold from before that counts.
    """
    if episode.begun_at is None:
        return approval.counted_hold
    return approval.hold


def must_be_authorized(episode: Episode, approval: Approval, policy: Policy) -> None:
    """Require that the answer is a yes by the stricter of the terms of the question and those of
    today's policy; after an expiry, that today's policy still acts on silence. Raises:
    SafetyError."""
    if approval.status is ApprovalStatus.EXPIRED:
        if not acts_on_silence(policy, episode.plan):
            raise SafetyError("nobody answered, and the policy no longer acts on silence")
        return
    terms = stricter(episode.terms, terms_of(policy, episode.plan, episode.price))
    if not was_rightly_approved(terms, episode.plan, approval):
        raise SafetyError("the approval was not given by those who may give it")
