"""What is told about an answer that does not yet settle its question.

Pure wording. Channels render it; this module must not know them.
"""

from __future__ import annotations

from governor.domain.alert import Alert, AlertKind, Severity
from governor.domain.approval import Decision
from governor.domain.episode import Episode
from governor.domain.messages import cost_lines, episode_facts, silence_text, step_text
from governor.domain.units import UtcDatetime, iso


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """The first of two people has approved. It has no link: whose it is decides who may answer by it, so each
    channel makes its own."""
    instance = episode.instance
    steps = "; then ".join(step_text(step) for step in episode.plan.steps)
    return Alert(
        kind=AlertKind.APPROVAL_FIRST_YES,
        severity=Severity.WARNING,
        account=episode.ref.account,
        region=episode.ref.region,
        subject=f"One of two has approved: idle GPU {instance.instance_type} {instance.name}",
        lines=(
            f"{instance.name} ({instance.instance_id}, {instance.instance_type}) in {instance.target}: "
            f"{decision.person or decision.by} has approved to {steps}.",
            "Before anything is done one more person whom the policy names by address must approve, too, "
            f"until {iso(expires_at)}. {silence_text(episode)}",
            *cost_lines(episode),
        ),
        dedup_id=f"first-yes-{episode.ref.execution_name}",
        at=decision.at,
        instance_id=instance.instance_id,
        owner=episode.owner,
        project=episode.project,
        facts=episode_facts(episode),
    )
