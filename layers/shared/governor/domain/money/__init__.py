"""Costs, savings and budgets."""
