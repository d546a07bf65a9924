"""The edges: everything that comes in and goes out, validated with pydantic. Nothing behind the
edges knows pydantic."""
