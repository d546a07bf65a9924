"""`make test`: the whole suite, its two halves side by side, since the local cloud mostly waits.

What the integration tests say is seen at once, what the others say after it. Arguments go to both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

WHOLE = "not browser and not fuzz"
INTEGRATION, OTHERS = f"integration and {WHOLE}", f"not integration and {WHOLE}"


def side_by_side(shown: Sequence[str], kept: Sequence[str]) -> int:
    """Runs both commands; prints what `kept` has printed when both have ended. 0 when both have succeeded."""
    with tempfile.TemporaryFile() as output:
        beside = subprocess.Popen(kept, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = subprocess.run(shown, check=False).returncode
            status = beside.wait() or status
        finally:
            beside.kill()
        output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(output.read())
    return status


def main() -> int:
    """Returns the exit status: that of a half that failed."""
    commands = [
        [sys.executable, "-m", "pytest", "-m", marked, *sys.argv[1:]] for marked in (INTEGRATION, OTHERS)
    ]
    return side_by_side(*commands)


if __name__ == "__main__":
    sys.exit(main())
