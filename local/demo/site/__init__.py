"""The site of `make up`: the console under a banner, and what was sent."""
