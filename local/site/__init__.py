"""What `make up` shows in a browser: the console under a banner, and what was sent."""
