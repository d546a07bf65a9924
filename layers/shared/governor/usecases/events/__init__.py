"""Respond to warnings, changes of state and scheduled dates."""
