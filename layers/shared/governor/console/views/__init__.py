"""The pages of the console, with the fleet and its money: pure functions from what is stored."""
