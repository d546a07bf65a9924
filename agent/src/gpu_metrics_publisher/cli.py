"""The command `gpu-metrics-publisher`: parses settings, wires everything, turns errors into exit
codes.

Exit codes: 0 done, 2 wrong usage, 3 no usable driver (`--once`), 4 the instance's identity is
unknown, 5 CloudWatch did not take the data (`--once`).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from gpu_metrics_publisher.buffer import Buffer
from gpu_metrics_publisher.errors import DeliveryError, DriverUnavailableError, MetadataError
from gpu_metrics_publisher.imds import DEFAULT_ENDPOINT, Identity, direct_open, read_identity
from gpu_metrics_publisher.metrics import BOUND, GROUPS, Call, Host, Window
from gpu_metrics_publisher.nvml import NvmlSource
from gpu_metrics_publisher.patience import PatientSource
from gpu_metrics_publisher.service import GpuSource, Pace, Publisher, Sender, Sink

_log = logging.getLogger(__name__)
LAST_FLUSH_SECONDS = 15.0
"""How long a stop waits for CloudWatch; the systemd unit allows more than this."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code."""
    import pynvml

    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        identity = identify(options, os.environ)
    except MetadataError as error:
        _log.error("%s", error)
        return 4
    host = Host(identity.instance_id, identity.instance_type or None)
    stop = threading.Event()
    source = PatientSource(NvmlSource(pynvml), stop)
    if options.print:
        return once(source, host, options.metrics, None)
    from gpu_metrics_publisher.cloudwatch import CloudWatchSink

    # botocore tells where credentials come from each time they are looked for.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    sink = CloudWatchSink(identity.region, instance_id=identity.instance_id)
    if options.once:
        return once(source, host, options.metrics, sink)
    serve(source, host, sink, options, stop)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options. Exit with code 2 and a reason if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="gpu-metrics-publisher", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--once", action="store_true", help="sample and send once, then exit")
    parser.add_argument(
        "--print",
        action="store_true",
        help="with --once: print as JSON what would be sent, send nothing",
    )
    parser.add_argument(
        "--metrics",
        type=_groups,
        default=GROUPS,
        help=f"what to publish, comma-separated: {', '.join(GROUPS)} (default: these), {BOUND}",
    )
    parser.add_argument(
        "--sample-seconds", type=int, default=10, help="how often GPUs are read (default: 10)"
    )
    parser.add_argument(
        "--publish-seconds",
        type=int,
        default=60,
        help="how often figures are sent: a whole number of minutes (default: 60)",
    )
    parser.add_argument("--instance-id", help="instead of asking the instance metadata service")
    parser.add_argument("--region", help="where to send; instead of the instance's own Region")
    options = parser.parse_args(arguments)
    if options.print and not options.once:
        parser.error("--print needs --once")
    if options.publish_seconds < 60 or options.publish_seconds % 60:
        parser.error(
            "--publish-seconds must be a multiple of 60: CloudWatch keeps these metrics "
            "by the minute"
        )
    if not 1 <= options.sample_seconds <= options.publish_seconds:
        parser.error("--sample-seconds must be between 1 and --publish-seconds")
    return options


def identify(options: argparse.Namespace, environment: Mapping[str, str]) -> Identity:
    """Return who this instance is, by the options or else by the metadata service.

    Raises:
        MetadataError: the metadata service does not say what the options leave out.
    """
    if options.instance_id and options.region:
        return Identity(options.instance_id, "", options.region)
    # The variable is botocore's own, so that identity and credentials have the same source.
    endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or DEFAULT_ENDPOINT
    instance = read_identity(endpoint, direct_open())
    return Identity(
        options.instance_id or instance.instance_id,
        instance.instance_type,
        options.region or instance.region,
    )


def once(source: GpuSource, host: Host, groups: Sequence[str], sink: Sink | None) -> int:
    """Take one sample of everything, and send it to `sink`, or print it without one.

    Return the exit code.
    """
    window = Window(int(time.time()) // 60 * 60)
    try:
        source.open()
        window.add(source.read(thorough=True))
    except DriverUnavailableError as error:
        _log.error("%s", error)
        return 3
    finally:
        source.close()
    calls = window.calls(host, groups)
    if sink is None:
        print(json.dumps([_document(call) for call in calls], indent=2))
        return 0
    try:
        for call in calls:
            sink.send(call)
    except DeliveryError as error:
        _log.error("%s", error)
        return 5
    return 0


def serve(
    source: GpuSource, host: Host, sink: Sink, options: argparse.Namespace, stop: threading.Event
) -> None:
    """Run until `stop` is set, which SIGTERM and SIGINT do, then send what is left."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    buffer = Buffer()
    sender = Sender(buffer, sink, stop.set)
    pace = Pace(options.sample_seconds, options.publish_seconds)
    publisher = Publisher(source, buffer, host, options.metrics, pace, sender.wake)
    sender.start()
    _log.info(
        "publishing %s of %s every %d s",
        ",".join(options.metrics),
        host.instance_id,
        pace.publish_seconds,
    )
    try:
        publisher.run(stop, time.time, time.monotonic)
    finally:
        sender.finish(LAST_FLUSH_SECONDS)


def _groups(text: str) -> tuple[str, ...]:
    """Return the groups of an option. Raises: ArgumentTypeError for none, or an unknown one."""
    known = (*GROUPS, BOUND)
    parts = [part.strip() for part in text.split(",")]
    groups = tuple(part for part in parts if part)
    if not groups or any(group not in known for group in groups):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(known)}")
    return groups


def _document(call: Call) -> dict[str, object]:
    return {"Namespace": call.namespace, "MetricData": list(call.datums)}
