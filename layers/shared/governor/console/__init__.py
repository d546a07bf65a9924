"""The console: pages of the whole fleet for people who have signed in. Only `serve_console` imports
it."""
