"""Measured, not asserted: calls, time and memory of a sweep, and the cold start of every
handler."""
