"""Sweep one target."""
