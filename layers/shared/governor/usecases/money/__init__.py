"""Count costs and book savings."""
