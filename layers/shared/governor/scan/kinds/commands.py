"""Commands of the AWS CLI for people to copy into a shell."""

from __future__ import annotations

from shlex import join

from governor.core.instance import Target


def aws_command(target: Target, service: str, operation: str, **options: str) -> str:
    """Return a command of the AWS CLI in the target's Region, quoted for a shell. `options` are
    named with underscores: `min_size="0"` becomes `--min-size 0`.

    A value that begins with a dash, as a name may, stays with its option as `--name=-value`.
    """
    parts = ["aws", service, operation, "--region", target.region]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value.startswith("-"):
            parts.append(f"{option}={value}")
        else:
            parts += (option, value)
    return join(parts)
