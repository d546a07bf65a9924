"""Opens an idle episode, and returns to the state machine which way to go."""

from __future__ import annotations

from typing import Any

from governor.core.parsing import parse
from governor.episode.model.plan import Step
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.remediation.open_episode import Opened, OpenEpisode
from governor.wiring import remediation
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger, observed
from governor.wiring.payloads import EpisodePayload, stage_seconds


@observed(remediation.open_episode(Ec2Parts()))
def handler(
    event: dict[str, Any], context: Any, open_episode: Ready[OpenEpisode]
) -> dict[str, Any]:
    """Open an episode; return its path, its steps and the times of its approval, in seconds."""
    ref = parse(EpisodePayload, event).to_domain()
    logger.append_keys(episode=ref.execution_name)
    opened = open_episode()(ref)
    logger.info("opened" if opened.episode else "not opened", extra=_facts(opened))
    return _document(opened)


def _facts(opened: Opened) -> dict[str, str]:
    """Return the facts for the log, which the stack's dashboard shows. Owners are left out: they
    may be addresses."""
    episode = opened.episode
    if episode is None:
        return {"reason": opened.reason}
    return {
        "instance": episode.instance.name,
        "instance_type": episode.instance.instance_type,
        "reason": episode.reason,
    }


def _document(opened: Opened) -> dict[str, Any]:
    episode = opened.episode
    if episode is None:
        return {"status": "not-opened", "reason": opened.reason}
    is_notify_only = episode.plan.action is Action.NOTIFY_ONLY
    path = "notify-only" if is_notify_only else episode.mode.value
    on_expiry = "act" if episode.asking.acts_on_silence else "no-action"
    planned = episode.asking.schedule
    steps = episode.plan.steps
    return {
        "status": "opened",
        "reason": opened.reason,
        "path": path,
        "stop": Step.STOP in steps,
        "snapshot": Step.SNAPSHOT in steps,
        "terminate": Step.TERMINATE in steps,
        "dry_run": episode.mode is Mode.OBSERVE,
        "on_expiry": on_expiry,
        "approval": {} if planned is None else stage_seconds(planned, episode.opened_at),
    }
