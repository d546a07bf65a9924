"""Sentences about a running instance in a scan: its evidence, and the command for its row."""

from __future__ import annotations

from governor.core.catalog import shape_of
from governor.core.instance import AUTO_SCALING_TAG, Lifecycle, SpotRequestType
from governor.core.managed_environments import EnvironmentKind, environment_of
from governor.core.managers import Manager
from governor.core.units import capitalized, full_stop, printable, span
from governor.evidence.rules.figures import scaled_text
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import Part
from governor.scan.kinds.commands import aws_command, describe_node_group
from governor.scan.kinds.ec2_instance import rules
from governor.scan.kinds.ec2_instance.model import Beside, Host, Measured, Reading
from governor.scan.model import Finding, Judgment, Strength

HOW_TO_MEASURE = "docs/telemetry.md says how to measure them"
_PART_WORDS = {"NVIDIA": "GPU", "AMD": "GPU", "AWS": "Neuron device"}
_LOSES_DISKS = "Stopping it loses its local NVMe disks"


def part_word(instance_type: str) -> str:
    """Return the word for an accelerator of a type, such as `GPU`."""
    shape = shape_of(instance_type)
    return _PART_WORDS.get(shape.vendor if shape else "", "accelerator")


def evidence_of(host: Host, measured: Measured, finding: Finding, policy: Policy) -> str:
    """Return the evidence of a finding as sentences for people."""
    manager = host.known_manager
    sentences: list[str] = []
    if measured.reading is not None:
        sentences.append(_by_accelerators(host, measured.reading, finding))
    elif measured.beside is not None:
        sentences.append(_by_beside(host, measured.beside, finding, policy))
    else:
        sentences.append(f"Its metrics could not be listed: {printable(measured.problem)}")
    if finding.is_waste and manager is not None:
        sentences.append(_managed(host, manager))
    if finding is Finding.IDLE and manager is None:
        sentences += _before_a_stop(host, measured)
    return " ".join(full_stop(text) for text in sentences)


def _by_accelerators(host: Host, reading: Reading, finding: Finding) -> str:
    """Return the sentence about the figures of the accelerators themselves."""
    if reading.source is None or reading.window is None:
        return capitalized(printable(reading.reason))
    source = reading.source
    publisher = f"{source.profile.publisher}, {printable(source.namespace)}"
    if finding is not Finding.IDLE:
        return f"{capitalized(printable(reading.reason))} ({publisher})"
    word = "NeuronCore" if source.profile.part is Part.CORE else host.part_word
    figures = [_all_parts(word, reading.parts)]
    if reading.cpu_percent is not None:
        figures.append(f"CPU up to {reading.cpu_percent:.1f}%")
    if reading.network_bytes_per_second is not None:
        figures.append(f"network up to {_megabytes_per_second(reading.network_bytes_per_second)}")
    if reading.doubt:
        figures.append(reading.doubt)
    peak = 0.0 if reading.peak_percent is None else reading.peak_percent
    length = span(reading.window.length)
    return f"No {word} passed {peak:.1f}% in {length} ({publisher}; {'; '.join(figures)})"


def _all_parts(word: str, parts: int | None) -> str:
    """Return how many were measured: `all 8 GPUs measured`."""
    if parts is None or parts == 1:
        return f"its {word} measured"
    return f"all {parts} {word}s measured"


def _by_beside(host: Host, beside: Beside, finding: Finding, policy: Policy) -> str:
    """Return the sentence about the figures beside the accelerators."""
    unmeasured = f"its {host.part_word}s are not measured; {HOW_TO_MEASURE}"
    length = span(beside.window.length)
    figures = rules.figures_beside(policy)
    if finding is Finding.BUSY:
        busiest = rules.busiest_beside(beside, policy) or ""
        row = figures[busiest]
        amount = scaled_text(row.scale, beside.peaks[busiest])
        reached = f"{capitalized(row.words)} reached {amount} within {length}"
        return f"{reached}, according to EC2; {unmeasured}"
    if beside.problem:
        return f"Its metrics could not be read: {printable(beside.problem)}"
    if beside.missing:
        missing = ", ".join(figures[figure].words for figure in beside.missing)
        return f"Not measured over {length}: {missing}; {unmeasured}"
    highest: list[str] = []
    for figure, peak in beside.peaks.items():
        row = figures[figure]
        highest.append(f"{row.words} up to {scaled_text(row.scale, peak)}")
    return f"Quiet for {length} according to EC2's metrics ({', '.join(highest)}); {unmeasured}"


def _megabytes_per_second(bytes_per_second: float) -> str:
    """Return a rate in MB/s."""
    return f"{bytes_per_second / 1_000_000:.2f} MB/s"


def _managed(host: Host, manager: Manager) -> str:
    """Return the sentence about the service that runs it."""
    environment = environment_of(host.instance, manager)
    return f"{manager.service} runs it ({printable(environment.title)})"


def _before_a_stop(host: Host, measured: Measured) -> list[str]:
    """Return what to know before stopping the instance, or why it cannot be stopped; empty if a
    stop loses nothing."""
    instance = host.instance
    why_not = why_unstoppable(host, measured)
    if why_not is not None:
        return [why_not]
    if host.is_prepaid:
        return ["Its capacity is paid for, used or not: stopping it saves nothing"]
    shape = shape_of(instance.instance_type)
    if shape is None or shape.local_nvme == "unknown":
        return ["Stopping it loses local disks, if it has any"]
    if shape.local_nvme:
        return [f"{_LOSES_DISKS} ({shape.local_nvme} GB)"]
    return []


def why_unstoppable(host: Host, measured: Measured) -> str | None:
    """Return why no command stops the instance; `None` if one does. A termination loses disks, so
    none is proposed in its place."""
    instance = host.instance
    if instance.root_device_type != "ebs":
        return "Its root volume is an instance store, so it cannot be stopped, only terminated"
    if instance.lifecycle is Lifecycle.UNKNOWN:
        return "What a stop does to an instance bought like this is not known"
    if instance.lifecycle is not Lifecycle.SPOT:
        return None
    if measured.spot_request is SpotRequestType.PERSISTENT:
        return None
    if measured.spot_request is SpotRequestType.ONE_TIME:
        return "A one-time Spot instance cannot be stopped, only terminated"
    return "Whether this Spot instance can be stopped is not known"


def command_for(host: Host, judgment: Judgment, *, can_stop: bool) -> str:
    """Return the command of a row: what ends the waste that is proved, or what looks closer where
    nothing is. Nothing is ever stopped on weak evidence. Return an empty text if there is none."""
    if judgment.finding is Finding.IDLE and judgment.strength is Strength.STRONG:
        if host.known_manager is not None:
            return _command_for_its_service(host, host.known_manager)
        if not can_stop:
            return ""
        return aws_command(host.target, "ec2", "stop-instances", instance_ids=host.resource_id)
    if judgment.finding in (Finding.LIKELY_IDLE, Finding.NOT_MEASURED):
        return aws_command(
            host.target,
            "cloudwatch",
            "list-metrics",
            dimensions=f"Name=InstanceId,Value={host.resource_id}",
            recently_active="PT3H",
        )
    return ""


def _command_for_its_service(host: Host, manager: Manager) -> str:
    """Return the command that lets the service shrink to nothing; empty if none is known.

    A node group of EKS is only shown: a minimum size of zero ends nothing, and a desired size of
    zero also ends nodes that work. If all of them are idle, the group's kind has the command.
    """
    environment = environment_of(host.instance, manager)
    if not environment.name:
        return ""
    if environment.kind is EnvironmentKind.NODE_GROUP and environment.cluster:
        return describe_node_group(host.target, environment.cluster, environment.name)
    if environment.kind is EnvironmentKind.BATCH:
        return aws_command(
            host.target,
            "batch",
            "update-compute-environment",
            compute_environment=environment.name,
            compute_resources="minvCpus=0",
        )
    group = host.tags.get(AUTO_SCALING_TAG, "")
    if environment.kind is EnvironmentKind.GROUP and group:
        return aws_command(
            host.target,
            "autoscaling",
            "update-auto-scaling-group",
            auto_scaling_group_name=group,
            min_size="0",
        )
    return ""
