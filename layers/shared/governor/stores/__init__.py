"""Stores: one class for each aggregate, over one table (`governor.stores.table`).

Every change that matters is a conditional write, and raises `ConflictError` if another change came
first.
"""
