"""Programs for people in a terminal."""
