"""Parts of AWS CLI commands in a report, for people to copy into a shell."""

from __future__ import annotations

from shlex import join

from governor.core.instance import Target

_LOADED_BY_THE_CLI = ("file://", "fileb://", "http://", "https://")
"""Source: AWS CLI user guide, "Loading a parameter from a file"; version 1 loads pages, too."""


def aws_command(target: Target, service: str, operation: str, **options: str) -> str:
    """Return a command of the AWS CLI in the target's Region, quoted for a shell. `options` are
    named with underscores: `min_size="0"` becomes `--min-size 0`. An operation may be a waiter:
    `wait instance-terminated`.

    A value that begins with a dash, as a name may, stays with its option as `--name=-value`.
    Return an empty text if a value begins like an address: the AWS CLI would send the content of
    that file or page in its place, and a tag may hold anything.
    """
    if any(value.startswith(_LOADED_BY_THE_CLI) for value in options.values()):
        return ""
    parts = ["aws", service, *operation.split(), "--region", target.region]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value.startswith("-"):
            parts.append(f"{option}={value}")
        else:
            parts += (option, value)
    return join(parts)


def describe_node_group(target: Target, cluster: str, node_group: str) -> str:
    """Return the command that shows a managed node group of EKS with its sizes. Return an empty
    text for a name that begins like an address: the AWS CLI would load it."""
    return aws_command(
        target, "eks", "describe-nodegroup", cluster_name=cluster, nodegroup_name=node_group
    )


def in_order(*commands: str) -> str:
    """Return the commands as one line for a shell, which runs each only if the one before it did
    its work. Return an empty text if any of them is empty."""
    if not all(commands):
        return ""
    return " && ".join(commands)


def wait_for_snapshots(target: Target, operation: str, query: str, **options: str) -> str:
    """Return the commands that make snapshots by an operation of EC2, and wait until they are
    complete. `query` finds their ids in its answer. They fail if no snapshot was made, or if not
    all are complete within ten minutes. Return an empty text for a value that begins like an
    address: the AWS CLI would load it."""
    make = aws_command(target, "ec2", operation, **options, query=query, output="text")
    if not make:
        return ""
    wait = aws_command(target, "ec2", "wait snapshot-completed")
    # Without ids the AWS CLI would wait for other snapshots, and succeed.
    return f'ids=$({make}) && test -n "$ids" && {wait} --snapshot-ids $(echo "$ids")'


def only_if_stopped(target: Target, instance_id: str) -> str:
    """Return the command that succeeds only if an instance is stopped now: somebody may have
    started it since the scan."""
    show = aws_command(
        target,
        "ec2",
        "describe-instances",
        instance_ids=instance_id,
        query="Reservations[].Instances[].State.Name",
        output="text",
    )
    return f'test "$({show})" = stopped'
