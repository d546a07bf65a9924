"""The pages that show the fleet and its money: pure functions from what is stored to a page."""
