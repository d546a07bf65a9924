"""Things that GPU hosts leave behind, which cost money without an instance: volumes, addresses."""
