"""Idle episodes and their plans."""
