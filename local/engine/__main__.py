"""Starts the engine with its repairs and the simulators mounted: `python -m local.engine`.

Reads its settings from the environment that `local.engine.cloud` sets. Ends with its parent,
however that ends.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
import time

_LOOK_EVERY_SECONDS = 0.5


def main() -> None:
    """Runs until it is ended."""
    threading.Thread(target=_die_with_parent, args=(os.getppid(),), daemon=True).start()
    from ministack import app

    from local.engine import serving
    from local.engine.repairs import repair_all
    from local.engine.shortcuts import take_shortcuts
    from local.engine.simulators.mount import mount
    from local.engine.simulators.weather import serve

    simulation = mount()
    repair_all(float(os.environ.get("SFN_WAIT_SCALE", "1")), simulation)
    take_shortcuts()
    if os.environ.get("LOCAL_CLOUD_WEATHER"):
        port = serve(simulation.weather, int(os.environ["GATEWAY_PORT"]))
        # Read by the engine when it starts the process of a function.
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    _spare_the_collector()
    serving.serve(app.app)


def _spare_the_collector() -> None:
    """Collect seldom, and never what is loaded by now: it lives as long as the engine, and looking
    at all of it again took a sixteenth of the engine's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _die_with_parent(parent: int) -> None:
    """A parent that was killed could not clean up: ends the whole group, workers included, and its
    scratch.

    Not left to a signal of the kernel: the engine ends gracefully on those, and waits for workflows
    that wait for people.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_SECONDS)
    scratch = os.environ.get("LOCAL_CLOUD_SCRATCH")
    if scratch:
        # By a process outside the group, a moment later: the workers write into it until they are
        # gone.
        command = ["/bin/sh", "-c", 'sleep 0.5; rm -rf -- "$1"', "sh", scratch]
        subprocess.Popen(command, start_new_session=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
