"""Findings about the state of GPUs."""
