"""`python -m gpu_metrics_publisher`."""

from __future__ import annotations

import sys

from gpu_metrics_publisher.cli import main

if __name__ == "__main__":
    sys.exit(main())
