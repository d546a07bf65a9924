"""GPU Governor: finds idle GPU instances, proves it, asks, and puts them away without losing data."""

__version__ = "0.1.0"
