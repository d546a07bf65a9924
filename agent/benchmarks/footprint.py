"""The publisher's load on its host: CPU share and memory, at its default pace, on eight GPUs.

The installed command runs as on a host, with the real NVML binding over a fake library
(`fake_nvml.c`) and the real botocore over loopback. What a real driver takes to answer is not in
it. Needs Linux and a C compiler. The last line printed is one JSON object.

    python agent/benchmarks/footprint.py --seconds 300
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_SETTLE_SECONDS = 75.0
"""Past the start and the first call, whose imports and TLS set-up are paid once."""


class _CloudWatch(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0
    octets = 0
    away = False

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        type(self).calls += 1
        type(self).octets += size
        self.send_response(503 if self.away else 200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """The benchmark prints its own."""


def main() -> int:
    """Runs the measurement; returns 0 when the publisher also ended cleanly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="how long to measure (default: 300)"
    )
    parser.add_argument(
        "--away", action="store_true", help="let CloudWatch refuse everything meanwhile"
    )
    options = parser.parse_args()
    _CloudWatch.away = options.away
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_HERE / "fake_nvml.c")],
            check=True,
        )
        server = ThreadingHTTPServer(("127.0.0.1", 0), _CloudWatch)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return _measure(folder, server.server_address[1], options.seconds)
        finally:
            server.shutdown()
            server.server_close()


def _measure(folder: str, port: int, seconds: float) -> int:
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": folder,
        "PYTHONPATH": str(_HERE.parent / "src"),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    command = [
        sys.executable,
        "-m",
        "gpu_metrics_publisher",
        "--instance-id",
        "i-0",
        "--region",
        "us-east-1",
    ]
    process = subprocess.Popen(command, env=environment)
    try:
        time.sleep(_SETTLE_SECONDS)
        started, cpu, calls = time.monotonic(), _cpu_seconds(process.pid), _CloudWatch.calls
        time.sleep(seconds)
        elapsed = time.monotonic() - started
        used = _cpu_seconds(process.pid) - cpu
        sent = _CloudWatch.calls - calls
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("Vm")
        )
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    finally:
        process.kill()
    result = {
        "gpus": 8,
        "seconds": round(elapsed, 1),
        "cpu_percent_of_a_core": round(100 * used / elapsed, 3),
        "rss_mb": _mb(status["VmRSS"]),
        "peak_rss_mb": _mb(status["VmHWM"]),
        "calls_a_minute": round(60 * sent / elapsed, 2),
        "bytes_a_call": _CloudWatch.octets // max(1, _CloudWatch.calls),
        "exit_code": code,
    }
    print(json.dumps(result))
    return int(code)


def _cpu_seconds(pid: int) -> float:
    """Time on a CPU so far, of all threads, to the nanosecond: first field of schedstat."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _mb(text: str) -> float:
    return round(int(text.split()[0]) * 1024 / 1e6, 1)


if __name__ == "__main__":
    sys.exit(main())
