"""Rules over the rows of the Fleet."""
