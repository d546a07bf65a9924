"""Ask, answer and show questions."""
