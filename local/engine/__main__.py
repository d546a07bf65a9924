"""Starts the engine with its repairs and the simulators mounted: `python -m local.engine`.

Everything is told by the environment that `local.cloud` sets. Ends with its parent, whatever ends that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main() -> None:
    """Runs until it is ended."""
    _die_with_parent()
    from ministack import app

    from local.engine.mount import mount
    from local.engine.repairs import repair_all

    repair_all(float(os.environ.get("SFN_WAIT_SCALE", "1")))
    mount()
    app.main()


def _die_with_parent() -> None:
    """Linux tells a process that its parent is gone, even by SIGKILL; elsewhere Ctrl-C and stop() must do."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    pr_set_pdeathsig = 1
    if libc.prctl(pr_set_pdeathsig, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() == 1:
        raise SystemExit("the parent of the engine was gone before it began")


if __name__ == "__main__":
    main()
