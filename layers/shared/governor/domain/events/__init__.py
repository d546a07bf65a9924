"""Warnings and scheduled dates of AWS."""
