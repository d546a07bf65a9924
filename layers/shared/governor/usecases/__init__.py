"""One verb a module: load, decide, act. Use cases know the domain and the ports, and nothing of
AWS."""
