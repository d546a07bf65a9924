"""Check the state of GPUs."""
