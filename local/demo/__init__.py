"""A simulated company in the local cloud: its fleet, its channels, its past, and the pages of
`make up`."""
