"""Replays real utilization traces against detectors and scores their answers. Never part of the
product."""
