"""Rules over the pages of the fleet: states of instances, and those that are left alone."""
