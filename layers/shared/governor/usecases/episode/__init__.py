"""Open, guard, act on and close idle episodes."""
