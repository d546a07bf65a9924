"""The console's data on the fleet: records that each sweep keeps, and nothing that decides."""
