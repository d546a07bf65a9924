"""Rules over the pages of the fleet: the list of what stays because of something."""
