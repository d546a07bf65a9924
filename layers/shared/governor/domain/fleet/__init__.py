"""What the console shows of the fleet: records that each sweep keeps, and nothing that decides."""
