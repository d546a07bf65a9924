"""Pure decisions and the records they are about. No AWS, no clock, no environment, no network."""
