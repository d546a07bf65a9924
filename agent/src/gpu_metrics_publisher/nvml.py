"""The only code that knows NVML. It reads every GPU and says nothing about what was not measured.

One figure that a GPU does not support is left out; one lost GPU does not hide the others; only a
driver that cannot be used at all raises. The binding (`pynvml`) is an argument, so that tests give
their own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable

from gpu_metrics_publisher.errors import DriverUnavailableError
from gpu_metrics_publisher.readings import Figure, Gpu, Sample

_log = logging.getLogger(__name__)
_MIB = 1024 * 1024
_EVENTS_PER_READ = 256
"""More Xid events in one interval would say nothing new, and a flood must not hold up the
reading."""

_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""nvmlDeviceArchitecture_t -> what `nvidia-smi -q` prints, which the CloudWatch agent takes as
`arch`."""

# nvmlClocksEventReasons, bits as in nvml.h.
_SW_POWER_CAP, _HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _HW_POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80


class _GpuLostError(Exception):
    """This GPU does not answer any more; the others may."""


@dataclass
class _Device:
    gpu: Gpu
    handle: Any
    events: Any | None
    """An event set of its own, so that an event's GPU is known even when the GPU cannot be asked
    any more."""


class NvmlSource:
    """Every GPU of this machine, through NVML.

    Call `open` first. After `DriverUnavailableError` from any method, `open` may be tried again
    later.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._open = False
        self._devices: list[_Device] = []
        self._known: dict[str, Gpu] = {}
        """Every GPU ever seen, by UUID: one that vanished from the list is told as lost, not
        forgotten, and the indices of the rest, which shift then, stay what they were."""
        self._told: set[tuple[object, ...]] = set()
        self._gone = frozenset(
            {
                nvml.NVML_ERROR_UNINITIALIZED,
                nvml.NVML_ERROR_DRIVER_NOT_LOADED,
                nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
                nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
            }
        )
        self._lost = frozenset({nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED})

    def open(self) -> None:
        """Loads NVML and lists the GPUs.

        Raises:
            DriverUnavailableError: there is no driver that could be used.
        """
        self.close()
        with self._driver():
            self._nvml.nvmlInit()
            self._open = True
            for index in range(self._nvml.nvmlDeviceGetCount()):
                device = self._find(index)
                if device is not None:
                    self._devices.append(device)
                    self._known.setdefault(device.gpu.uuid, device.gpu)

    def close(self) -> None:
        """Lets go of the driver; a held driver cannot be replaced. Harmless when nothing is
        open."""
        if not self._open:
            return
        for device in self._devices:
            self._free_events(device)
        self._devices = []
        self._open = False
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            # The driver may be gone already; there is nothing left to close then.
            _log.info("NVML did not shut down cleanly: %s", error)

    def read(self, *, thorough: bool) -> list[Sample]:
        """One sample of each GPU ever seen here.

        `thorough` adds what changes rarely and costs the driver more: ECC, repairs, processes,
        limits.

        Raises:
            DriverUnavailableError: the driver went away; nothing was read.
        """
        samples = [self._sample(device, thorough=thorough) for device in self._devices]
        present = {device.gpu.uuid for device in self._devices}
        samples += [_lost(gpu) for uuid, gpu in self._known.items() if uuid not in present]
        return sorted(samples, key=lambda sample: sample.gpu.index)

    def _find(self, index: int) -> _Device | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID, handle) or f"unreadable-{index}"
            name = _text(nvml.nvmlDeviceGetName, handle) or "unknown"
        except nvml.NVMLError as error:
            if error.value in self._gone:
                raise
            if not any(gpu.index == index for gpu in self._known.values()):
                # Told under what is known of it: silence would pass for a smaller machine.
                self._known[f"unknown-{index}"] = Gpu(
                    index, "unknown", "unknown", f"unknown-{index}"
                )
            self._tell_once(
                ("find", index, error.value), "GPU %d cannot be opened: %s", index, error
            )
            return None
        if uuid not in self._known:
            # A known one has moved up in a list that got shorter: the one that never answered is
            # still lost.
            self._known.pop(f"unknown-{index}", None)
        gpu = self._known.get(uuid) or Gpu(index, name, self._architecture(handle), uuid)
        return _Device(gpu, handle, self._register_events(gpu, handle))

    def _architecture(self, handle: Any) -> str:
        try:
            number = int(self._nvml.nvmlDeviceGetArchitecture(handle))
        except self._nvml.NVMLError:
            return "unknown"  # drivers before 440 do not know the question
        return _ARCHITECTURES.get(number, f"architecture-{number}")

    def _register_events(self, gpu: Gpu, handle: Any) -> Any | None:
        nvml = self._nvml
        events = None
        try:
            if (
                not nvml.nvmlDeviceGetSupportedEventTypes(handle)
                & nvml.nvmlEventTypeXidCriticalError
            ):
                return None
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError as error:
            self._tell_once(
                ("events", gpu.uuid, error.value), "GPU %d reports no Xid: %s", gpu.index, error
            )
            if events is not None:
                nvml.nvmlEventSetFree(events)
            return None
        return events

    def _free_events(self, device: _Device) -> None:
        if device.events is None:
            return
        try:
            self._nvml.nvmlEventSetFree(device.events)
        except self._nvml.NVMLError as error:
            _log.info("event set of GPU %d was not freed: %s", device.gpu.index, error)

    def _sample(self, device: _Device, *, thorough: bool) -> Sample:
        # Before the figures: the event that says why a GPU was lost is the last thing it tells.
        xids = self._xids(device)
        figures: dict[Figure, float] = {}
        try:
            mig = self._figure(device, "MIG mode", self._mig)
            if mig:
                figures[Figure.MIG_ENABLED] = 1.0
            elif mig is not None:  # where MIG mode is unknown, so is the meaning of utilization
                # With MIG on, utilization is not measured. A driver that says 0 then must not be
                # believed.
                figures.update(self._figure(device, "utilization", self._utilization) or {})
            for name, read in self._quick():
                figures.update(self._figure(device, name, read) or {})
            if thorough:
                for name, read in self._slow():
                    figures.update(self._figure(device, name, read) or {})
        except _GpuLostError as error:
            self._tell_once(
                ("lost", device.gpu.uuid), "GPU %d is lost: %s", device.gpu.index, error
            )
            return _lost(device.gpu, xids)
        self._told.discard(("lost", device.gpu.uuid))
        figures[Figure.LOST] = 0.0
        return Sample(device.gpu, figures, xids)

    def _figure(self, device: _Device, name: str, read: Callable[[Any], Any]) -> Any | None:
        """Return what `read` gives, or `None` where this GPU or driver does not measure it."""
        nvml = self._nvml
        try:
            return read(device.handle)
        except nvml.NVMLError as error:
            if error.value in self._gone:
                raise _unavailable(error) from error
            if error.value in self._lost:
                raise _GpuLostError(str(error)) from error
            self._tell_once(
                (name, device.gpu.uuid, error.value),
                "GPU %d: %s is not measured: %s",
                device.gpu.index,
                name,
                error,
            )
            return None

    def _quick(self) -> tuple[tuple[str, Callable[[Any], dict[Figure, float]]], ...]:
        nvml = self._nvml
        return (
            ("memory", self._memory),
            (
                "temperature",
                lambda h: {
                    Figure.TEMPERATURE: float(
                        nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU)
                    )
                },
            ),
            ("power", lambda h: {Figure.POWER_DRAW: nvml.nvmlDeviceGetPowerUsage(h) / 1000}),
            (
                "SM clock",
                lambda h: {
                    Figure.SM_CLOCK: float(nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM))
                },
            ),
            ("throttle reasons", self._throttle),
        )

    def _slow(self) -> tuple[tuple[str, Callable[[Any], dict[Figure, float]]], ...]:
        nvml = self._nvml
        return (
            (
                "memory clock",
                lambda h: {
                    Figure.MEMORY_CLOCK: float(nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM))
                },
            ),
            (
                "power limit",
                lambda h: {Figure.POWER_LIMIT: nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1000},
            ),
            ("ECC", self._ecc),
            ("memory repairs", self._repairs),
            (
                "processes",
                lambda h: {
                    Figure.PROCESSES: float(len(nvml.nvmlDeviceGetComputeRunningProcesses(h)))
                },
            ),
        )

    def _mig(self, handle: Any) -> bool:
        nvml = self._nvml
        try:
            current, _pending = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError as error:
            # GPUs without MIG say the first, drivers older than MIG the second.
            if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return False
            raise
        return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)

    def _utilization(self, handle: Any) -> dict[Figure, float]:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(handle)
        return {
            Figure.UTILIZATION: float(rates.gpu),
            Figure.MEMORY_UTILIZATION: float(rates.memory),
        }

    def _memory(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        try:
            # The second version leaves out of `used` what the driver keeps for itself, as
            # nvidia-smi does.
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        except nvml.NVMLError as error:
            if error.value in self._gone | self._lost:
                raise
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)  # drivers before 510
        return {
            Figure.MEMORY_USED: float(memory.used // _MIB),
            Figure.MEMORY_FREE: float(memory.free // _MIB),
            Figure.MEMORY_TOTAL: float(memory.total // _MIB),
        }

    def _throttle(self, handle: Any) -> dict[Figure, float]:
        # By its old name, which every driver still exports; the new one (event reasons) needs
        # driver 535.
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return {
            Figure.THERMAL_THROTTLE: 100.0 if reasons & (_SW_THERMAL | _HW_THERMAL) else 0.0,
            Figure.POWER_THROTTLE: 100.0 if reasons & _SW_POWER_CAP else 0.0,
            Figure.HARDWARE_SLOWDOWN: 100.0 if reasons & (_HW_SLOWDOWN | _HW_POWER_BRAKE) else 0.0,
        }

    def _ecc(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        counted = nvml.NVML_VOLATILE_ECC
        corrected = nvml.nvmlDeviceGetTotalEccErrors(
            handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, counted
        )
        uncorrected = nvml.nvmlDeviceGetTotalEccErrors(
            handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counted
        )
        return {Figure.ECC_CORRECTED: float(corrected), Figure.ECC_UNCORRECTED: float(uncorrected)}

    def _repairs(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        try:
            _corrected, _uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
        except nvml.NVMLError as error:
            if error.value in self._gone | self._lost:
                raise
            # Before Ampere, pages are retired instead of rows remapped; that cannot fail.
            return {
                Figure.MEMORY_REPAIR_PENDING: float(
                    nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)
                )
            }
        return {
            Figure.MEMORY_REPAIR_PENDING: float(pending),
            Figure.MEMORY_REPAIR_FAILED: float(failed),
        }

    def _xids(self, device: _Device) -> tuple[int, ...] | None:
        if device.events is None:
            return None
        nvml = self._nvml
        xids: list[int] = []
        while len(xids) < _EVENTS_PER_READ:
            try:
                event = nvml.nvmlEventSetWait_v2(device.events, 0)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_TIMEOUT:  # none left
                    break
                if error.value in self._gone:
                    raise _unavailable(error) from error
                # What came before the failure is told; the figures will say whether the GPU is
                # lost.
                self._tell_once(
                    ("wait", device.gpu.uuid, error.value),
                    "GPU %d: Xid events: %s",
                    device.gpu.index,
                    error,
                )
                return tuple(xids) or None
            xids.append(int(event.eventData))
        for xid in xids:
            _log.warning("GPU %d (%s) reported Xid %d", device.gpu.index, device.gpu.uuid, xid)
        return tuple(xids)

    @contextmanager
    def _driver(self) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            self.close()
            raise _unavailable(error) from error

    def _tell_once(self, key: tuple[object, ...], text: str, *arguments: object) -> None:
        """The same complaint every ten seconds would only hide others."""
        if key not in self._told:
            self._told.add(key)
            _log.warning(text, *arguments)


def _unavailable(error: Exception) -> DriverUnavailableError:
    return DriverUnavailableError(
        f"NVML cannot be used: {error}. Check that nvidia-smi works on this machine; "
        "after a driver update, "
        "reload the kernel module or restart the machine."
    )


def _lost(gpu: Gpu, xids: tuple[int, ...] | None = None) -> Sample:
    return Sample(gpu, {Figure.LOST: 1.0}, xids)


def _text(read: Callable[[Any], str | bytes], handle: Any) -> str:
    """Return what `read` gives, as CloudWatch takes it in a dimension; empty where it is no text.

    The binding decodes it, before 11.515 its caller did.
    """
    try:
        value = read(handle)
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return ""
    return "".join(sign if " " <= sign <= "~" else "?" for sign in text).strip()
