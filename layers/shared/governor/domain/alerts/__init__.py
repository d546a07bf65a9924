"""Alerts, their owners and their deliveries."""
