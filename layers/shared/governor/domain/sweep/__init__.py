"""Verdicts, the breaker, and what a sweep reports."""
