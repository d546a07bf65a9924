"""Alerts, which are messages to people: their records, their words as templates, and their
deliveries."""
