"""Public parameters of images.

- AWS: Systems Manager names the newest images of AWS by public parameters, also those of Deep
  Learning. Engine: knows two of Amazon Linux. Here the name of Deep Learning's base image with
  NVIDIA's driver is added; it leads to the engine's image of the same system.
"""

from __future__ import annotations

_AMAZON_LINUX_2023 = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
_DEEP_LEARNING = "/aws/service/deeplearning/ami/x86_64"
_WITH_NVIDIA_DRIVER = f"{_DEEP_LEARNING}/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"


def repair() -> None:
    """Add the name to the engine's table, which it reads at every request."""
    from ministack.services import ssm

    images = ssm._PUBLIC_AMI_PARAMETERS
    images[_WITH_NVIDIA_DRIVER] = images[_AMAZON_LINUX_2023]
