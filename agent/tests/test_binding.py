"""The fake speaks as the real binding does. Runs where the binding is installed; it needs no
driver."""

from __future__ import annotations

import inspect

import pytest
from agent.tests.fake_nvml import FakeNvml

pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed here")


def test_constants_are_the_real_ones() -> None:
    """Every constant of the fake has the value of nvml.h."""
    names = [
        name for name in vars(FakeNvml) if name.startswith(("NVML_", "nvmlEventType", "nvmlMemory"))
    ]
    assert len(names) > 15
    assert {name: getattr(FakeNvml, name) for name in names} == {
        name: getattr(pynvml, name) for name in names
    }


def test_functions_take_the_same_arguments() -> None:
    """Every function of the fake exists in the binding and takes as many arguments."""
    names = [
        name
        for name, value in vars(FakeNvml).items()
        if callable(value) and name.startswith("nvml") and not inspect.isclass(value)
    ]
    for name in names:
        real = inspect.signature(inspect.unwrap(getattr(pynvml, name)))
        fake = inspect.signature(getattr(FakeNvml, name))
        if "args" in real.parameters:
            continue  # wrapped by the binding without its signature
        needed = [p for p in real.parameters.values() if p.default is p.empty]
        given = [p for p in list(fake.parameters.values())[1:] if p.default is p.empty]
        assert len(needed) == len(given), name


def test_errors_carry_their_code() -> None:
    """`value` is where both keep the code."""
    assert FakeNvml.NVML_ERROR_GPU_IS_LOST == pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST).value
