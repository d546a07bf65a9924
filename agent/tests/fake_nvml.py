"""A stand-in for the module `pynvml`, driven by a fixture: same names, same error codes, same
answers.

Error codes and constants are those of nvml.h; `test_binding.py` compares them with the real
binding.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FIXTURES = Path(__file__).parent / "fixtures"
_MIB = 1024 * 1024


class NVMLError(Exception):
    """As in the binding: a code in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


def fixture(name: str) -> dict[str, Any]:
    """The fixture of that name, each GPU with `copies` written out."""
    document: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    document["gpus"] = [
        json.loads(json.dumps(gpu)) for gpu in document["gpus"] for _ in range(gpu.get("copies", 1))
    ]
    return document


class FakeNvml:
    """`pynvml` over a fixture. `gpus` may be changed between calls, as the world changes."""

    NVMLError = NVMLError
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_RESET_REQUIRED = 16
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    NVML_ERROR_UNKNOWN = 999
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_VOLATILE_ECC = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - the binding's name
    nvmlMemory_v2 = 0x2000028  # noqa: N815 - the binding's name

    def __init__(self, document: dict[str, Any]) -> None:
        self.gpus: list[dict[str, Any]] = document["gpus"]
        self.init_error: str | None = document.get("init_error")
        self.sessions = 0
        self.event_sets = 0
        for number, gpu in enumerate(self.gpus):
            gpu.setdefault("uuid", f"GPU-00000000-0000-0000-0000-{number:012d}")

    def nvmlInit(self) -> None:
        self._raise(self.init_error)
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self._raise(None if self.sessions else "UNINITIALIZED")
        self.sessions -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        gpu = self.gpus[index]
        self._raise("GPU_IS_LOST" if gpu.get("lost") else None)
        return gpu

    def nvmlDeviceGetUUID(self, handle: Any) -> Any:
        return self._text(handle, "uuid")

    def nvmlDeviceGetName(self, handle: Any) -> Any:
        return self._text(handle, "name")

    def nvmlDeviceGetArchitecture(self, handle: Any) -> Any:
        return self._get(handle, "architecture")

    def nvmlDeviceGetMigMode(self, handle: Any) -> Any:
        return self._get(handle, "mig")

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(**self._get(handle, "utilization"))

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        memory = self._get(handle, "memory_mib")
        if version is not None and "reserved" not in memory:
            raise NVMLError(self.NVML_ERROR_FUNCTION_NOT_FOUND)
        reserved = 0 if version is not None else memory.get("reserved", 0)
        free = memory["total"] - memory["used"] - memory.get("reserved", 0)
        return SimpleNamespace(
            total=memory["total"] * _MIB, used=(memory["used"] + reserved) * _MIB, free=free * _MIB
        )

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> Any:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._get(handle, "temperature_celsius")

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> Any:
        return self._get(handle, "power_milliwatts")

    def nvmlDeviceGetEncoderUtilization(self, handle: Any) -> Any:
        handle.setdefault("encoder_percent", {"error": "NOT_SUPPORTED"})
        return [self._get(handle, "encoder_percent"), 167_000]

    def nvmlDeviceGetDecoderUtilization(self, handle: Any) -> Any:
        handle.setdefault("decoder_percent", {"error": "NOT_SUPPORTED"})
        return [self._get(handle, "decoder_percent"), 167_000]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> Any:
        return self._get(handle, "power_limit_milliwatts")

    def nvmlDeviceGetClockInfo(self, handle: Any, clock: int) -> Any:
        return self._get(handle, {1: "sm_clock_mhz", 2: "memory_clock_mhz"}[clock])

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> Any:
        return self._get(handle, "throttle_reasons")

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: int, counter: int) -> Any:
        assert counter == self.NVML_VOLATILE_ECC
        return self._get(handle, "ecc_errors")[("corrected", "uncorrected")[kind]]

    def nvmlDeviceGetRemappedRows(self, handle: Any) -> Any:
        return self._get(handle, "remapped_rows")

    def nvmlDeviceGetRetiredPagesPendingStatus(self, handle: Any) -> Any:
        return self._get(handle, "retired_pages_pending")

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:
        return [SimpleNamespace(pid=1000 + n) for n in range(self._get(handle, "processes"))]

    def nvmlDeviceGetSupportedEventTypes(self, handle: Any) -> int:
        self._get(handle, "xids")
        return self.nvmlEventTypeXidCriticalError

    def nvmlEventSetCreate(self) -> Any:
        self.event_sets += 1
        return SimpleNamespace(gpu=None)

    def nvmlEventSetFree(self, events: Any) -> None:
        assert events is not None
        self.event_sets -= 1

    def nvmlDeviceRegisterEvents(self, handle: Any, kinds: int, events: Any) -> None:
        assert kinds == self.nvmlEventTypeXidCriticalError
        events.gpu = handle

    def nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:
        assert timeout_ms == 0, "a read must not wait for errors to happen"
        if not events.gpu["xids"]:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        return SimpleNamespace(eventData=events.gpu["xids"].pop(0))

    def _get(self, handle: Any, key: str) -> Any:
        self._raise(None if self.sessions else "UNINITIALIZED")
        self._raise(self.init_error)
        self._raise("GPU_IS_LOST" if handle.get("lost") else None)
        value = handle[key]
        if isinstance(value, dict) and "error" in value:
            self._raise(value["error"])
        return value

    def _text(self, handle: Any, key: str) -> Any:
        """A value in bytes is what the driver has; the binding decodes it, in old versions its
        caller."""
        value = self._get(handle, key)
        if handle.get("speaks_bytes"):
            return value.encode() if isinstance(value, str) else value
        return value.decode() if isinstance(value, bytes) else value

    def _raise(self, error: str | None) -> None:
        if error is not None:
            raise NVMLError(getattr(self, f"NVML_ERROR_{error}"))
