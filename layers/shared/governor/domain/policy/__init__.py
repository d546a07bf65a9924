"""The policy, its contacts and working hours."""
