"""The product as a whole on simulated time: crash points, faults, and invariants that no fault may
break.

`make soak` runs all of it. The real state machine runs over the real handlers; only AWS is in
memory.
"""
