"""Read metrics and inspect single instances."""
