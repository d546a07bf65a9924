"""Hardware of SageMaker's instance types: `ml.p5.48xlarge` has that of EC2's `p5.48xlarge`."""

from __future__ import annotations

from collections.abc import Mapping

from governor.core.catalog import families, shape_of

_PREFIX = "ml."


def is_accelerated(ml_type: str) -> bool:
    """Return whether instances of this type have accelerators: the catalog has the type, or others
    of its family."""
    if not ml_type.startswith(_PREFIX):
        return False
    ec2_type = ml_type.removeprefix(_PREFIX)
    family, _, _ = ec2_type.partition(".")
    return shape_of(ec2_type) is not None or family in families()


def accelerators_of(ml_type: str) -> int | None:
    """Return the number of accelerators of one instance; `None` if it is not known."""
    shape = shape_of(ml_type.removeprefix(_PREFIX))
    return shape.accelerator_count if shape else None


def hardware(count_by_type: Mapping[str, int | None]) -> str:
    """Return instances in words: `2 x ml.p5.48xlarge, 8 x NVIDIA H100 each`. A count of `None` is
    not known."""
    parts = [_instances(ml_type, count) for ml_type, count in count_by_type.items()]
    return "; ".join(parts)


def _instances(ml_type: str, count: int | None) -> str:
    """Return the instances of one type in words."""
    text = ml_type
    if count is not None and count != 1:
        text = f"{count} x {ml_type}"
    shape = shape_of(ml_type.removeprefix(_PREFIX))
    if shape is None or shape.accelerator_count is None:
        return text
    each = "" if count in (1, None) else " each"
    return f"{text}, {shape.accelerator_count} x {shape.accelerator}{each}"
