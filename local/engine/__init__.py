"""Runs inside the engine's own process: the simulators and the repairs of its gaps."""
