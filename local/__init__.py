"""The local cloud: the real template, handlers and state machines on one machine, with no
account."""
