"""Simulators of EC2, CloudWatch, the Price List and Run Command, and the gate before every
service."""
