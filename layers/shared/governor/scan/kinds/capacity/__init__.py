"""Capacity and commitments that are paid for, whether they are used or not.

Only the part that nothing uses has a price here: what is used is priced with the instances in it.
"""
