"""Parts of an episode, as tests need them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from governor.episode.model.episode import Episode, EpisodeEnding

_PARTS = ("measurement", "asking", "progress")


def ending_of(episode: Episode | None) -> EpisodeEnding:
    """Return how the episode ended. Fails if it is still open."""
    assert episode is not None
    assert episode.ending is not None
    return episode.ending


def changed(episode: Episode, **changes: Any) -> Episode:
    """Return the episode with other values of these fields: its own, or those of its
    measurement, its asking or its progress."""
    own_fields = {field.name for field in fields(Episode)}
    for name, value in changes.items():
        if name in own_fields:
            episode = replace(episode, **{name: value})
            continue
        [part_name] = [part for part in _PARTS if hasattr(getattr(episode, part), name)]
        part = replace(getattr(episode, part_name), **{name: value})
        episode = replace(episode, **{part_name: part})
    return episode
