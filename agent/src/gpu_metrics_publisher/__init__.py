"""Publishes the figures of every NVIDIA GPU of an EC2 instance to CloudWatch."""
