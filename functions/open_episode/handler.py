"""Opens an idle episode and tells the state machine which way to go."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from governor.contracts.parsing import parse
from governor.contracts.payloads import EpisodePayload
from governor.domain.episode.plan import Step
from governor.domain.policy.policy import Action, Mode
from governor.domain.policy.schedule import Schedule
from governor.domain.units import UtcDatetime
from governor.observability import logger, observed
from governor.usecases.episode.open_episode import Opened, OpenEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import asking, use_case


@observed(use_case(Ec2Parts(), OpenEpisode, asking))
def handler(
    event: dict[str, Any], context: Any, open_episode: Ready[OpenEpisode]
) -> dict[str, Any]:
    """An episode's name to its path, its steps and the times of its approval, in seconds."""
    ref = parse(EpisodePayload, event).to_domain()
    logger.append_keys(episode=ref.execution_name)
    opened = open_episode()(ref)
    logger.info("opened" if opened.episode else "not opened", extra=_facts(opened))
    return _document(opened)


def _facts(opened: Opened) -> dict[str, str]:
    """Return what the log says of it, and by it the stack's dashboard. Owners may be addresses."""
    if opened.episode is None:
        return {"reason": opened.reason}
    instance, reason = opened.episode.instance, opened.episode.reason
    return {"instance": instance.name, "instance_type": instance.instance_type, "reason": reason}


def _document(opened: Opened) -> dict[str, Any]:
    episode = opened.episode
    if episode is None:
        return {"status": "not-opened", "reason": opened.reason}
    notify = episode.plan.action is Action.NOTIFY_ONLY
    return {
        "status": "opened",
        "reason": opened.reason,
        "path": "notify-only" if notify else episode.mode.value,
        "stop": Step.STOP in episode.plan.steps,
        "snapshot": Step.SNAPSHOT in episode.plan.steps,
        "terminate": Step.TERMINATE in episode.plan.steps,
        "dry_run": episode.mode is Mode.OBSERVE,
        "on_expiry": "act" if episode.acts_on_silence else "no-action",
        "approval": _times(episode.schedule, episode.opened_at),
    }


def _times(planned: Schedule | None, now: UtcDatetime) -> dict[str, int]:
    """The stages' lengths. Step Functions takes whole seconds, at least one to time out; rounded
    up, so that nobody gets less time.
    """
    if planned is None:
        return {}
    return {
        "ask_after_seconds": math.ceil((planned.ask_at - now).total_seconds()),
        "remind_after_seconds": _seconds(planned.remind_at - planned.ask_at),
        "escalate_after_seconds": _seconds(planned.escalate_at - planned.remind_at),
        "expire_after_seconds": _seconds(planned.expire_at - planned.escalate_at),
    }


def _seconds(span: timedelta) -> int:
    return max(1, math.ceil(span.total_seconds()))
