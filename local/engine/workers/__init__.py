"""The processes that functions run in."""
