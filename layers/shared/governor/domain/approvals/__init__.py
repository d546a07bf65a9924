"""Questions, answers and who may give them."""
