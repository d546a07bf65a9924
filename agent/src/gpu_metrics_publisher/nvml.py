"""Reads every GPU through NVIDIA's NVML, which no other module knows.

A figure that a GPU does not support is left out, and a lost GPU does not hide the others. Only a
driver that cannot be used at all raises an error. The binding (`pynvml`) is an argument, so that
tests can pass their own.
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
"""More Xid events in one interval are of no interest, and a flood must not hold up the reading."""

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
"""The name that `nvidia-smi -q` prints for each nvmlDeviceArchitecture_t. The CloudWatch agent uses
it as `arch`."""

# nvmlClocksEventReasons, bits as in nvml.h.
_SW_POWER_CAP = 0x4
_HW_SLOWDOWN = 0x8
_SW_THERMAL = 0x20
_HW_THERMAL = 0x40
_HW_POWER_BRAKE = 0x80

_Reader = Callable[[Any], dict[Figure, float]]
"""Reads some figures of the GPU of a handle."""


class _GpuLostError(Exception):
    """This GPU does not answer any more; the others may."""


@dataclass
class _Device:
    gpu: Gpu
    handle: Any
    events: Any | None
    """The GPU's own event set, by which an event's GPU is known even after it was lost."""


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
        """Every GPU ever seen, by UUID. One that vanishes from the list is published as lost, and
        the others keep their indices, which would shift."""
        self._logged: set[tuple[object, ...]] = set()
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
        """Load NVML and list the GPUs.

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
        """Release the driver, which could not be replaced otherwise. It may be closed already."""
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
        """Return one sample of each GPU ever seen here, by index.

        `thorough` adds figures that change rarely and cost the driver more: ECC, repairs,
        processes, limits.

        Raises:
            DriverUnavailableError: the driver went away; nothing was read.
        """
        samples = [self._sample(device, thorough=thorough) for device in self._devices]
        present = {device.gpu.uuid for device in self._devices}
        for uuid, gpu in self._known.items():
            if uuid not in present:
                samples.append(_lost(gpu))
        return sorted(samples, key=lambda sample: sample.gpu.index)

    def _find(self, index: int) -> _Device | None:
        """Return the GPU at this index, or `None` if it cannot be opened."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID, handle) or f"unreadable-{index}"
            name = _text(nvml.nvmlDeviceGetName, handle) or "unknown"
        except nvml.NVMLError as error:
            if error.value in self._gone:
                raise
            self._know_unreadable(index)
            self._log_once(
                ("find", index, error.value), "GPU %d cannot be opened: %s", index, error
            )
            return None
        gpu = self._known.get(uuid)
        if gpu is None:
            # A GPU seen before has only moved up in a list that got shorter; then the one that
            # never answered at this index is still lost.
            self._known.pop(f"unknown-{index}", None)
            gpu = Gpu(index, name, self._architecture(handle), uuid)
        return _Device(gpu, handle, self._register_events(gpu, handle))

    def _know_unreadable(self, index: int) -> None:
        """Remember a GPU that cannot be opened, so that the machine does not look smaller."""
        if any(gpu.index == index for gpu in self._known.values()):
            return
        uuid = f"unknown-{index}"
        self._known[uuid] = Gpu(index, "unknown", "unknown", uuid)

    def _architecture(self, handle: Any) -> str:
        try:
            number = int(self._nvml.nvmlDeviceGetArchitecture(handle))
        except self._nvml.NVMLError:
            return "unknown"  # drivers before 440 do not know the question
        return _ARCHITECTURES.get(number, f"architecture-{number}")

    def _register_events(self, gpu: Gpu, handle: Any) -> Any | None:
        """Return a new event set for the Xids of a GPU, or `None` if it reports none."""
        nvml = self._nvml
        xid_events = nvml.nvmlEventTypeXidCriticalError
        events = None
        try:
            if not nvml.nvmlDeviceGetSupportedEventTypes(handle) & xid_events:
                return None
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, xid_events, events)
        except nvml.NVMLError as error:
            self._log_once(
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
        # The Xids are read first: the event with the cause is the last report of a lost GPU.
        xids = self._xids(device)
        gpu = device.gpu
        try:
            figures = self._utilization_figures(device)
            readers = self._quick()
            if thorough:
                readers += self._slow()
            for name, read in readers:
                figures.update(self._figure(device, name, read) or {})
        except _GpuLostError as error:
            self._log_once(("lost", gpu.uuid), "GPU %d is lost: %s", gpu.index, error)
            return _lost(gpu, xids)
        self._logged.discard(("lost", gpu.uuid))
        figures[Figure.LOST] = 0.0
        return Sample(gpu, figures, xids)

    def _utilization_figures(self, device: _Device) -> dict[Figure, float]:
        """Return the utilization, or that MIG is on; an empty dictionary if neither is known."""
        is_mig_on = self._figure(device, "MIG mode", self._mig)
        if is_mig_on is None:
            return {}  # without the MIG mode, the meaning of utilization is not known
        if is_mig_on:
            # With MIG on, utilization is not measured. Some drivers then report 0, which is wrong.
            return {Figure.MIG_ENABLED: 1.0}
        return self._figure(device, "utilization", self._utilization) or {}

    def _figure(self, device: _Device, name: str, read: Callable[[Any], Any]) -> Any | None:
        """Return what `read` returns, or `None` if this GPU or driver does not measure it."""
        nvml = self._nvml
        try:
            return read(device.handle)
        except nvml.NVMLError as error:
            if error.value in self._gone:
                raise _unavailable(error) from error
            if error.value in self._lost:
                raise _GpuLostError(str(error)) from error
            self._log_once(
                (name, device.gpu.uuid, error.value),
                "GPU %d: %s is not measured: %s",
                device.gpu.index,
                name,
                error,
            )
            return None

    def _quick(self) -> list[tuple[str, _Reader]]:
        """Return the figures of each reading, by their names in the log."""
        return [
            ("memory", self._memory),
            ("temperature", self._temperature),
            ("power", self._power),
            ("encoder utilization", self._encoder),
            ("decoder utilization", self._decoder),
            ("SM clock", self._sm_clock),
            ("throttle reasons", self._throttle),
        ]

    def _slow(self) -> list[tuple[str, _Reader]]:
        """Return the figures of a thorough reading, by their names in the log."""
        return [
            ("memory clock", self._memory_clock),
            ("power limit", self._power_limit),
            ("ECC", self._ecc),
            ("memory repairs", self._repairs),
            ("processes", self._processes),
        ]

    def _temperature(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        celsius = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        return {Figure.TEMPERATURE: float(celsius)}

    def _power(self, handle: Any) -> dict[Figure, float]:
        milliwatts = self._nvml.nvmlDeviceGetPowerUsage(handle)
        return {Figure.POWER_DRAW: milliwatts / 1000}

    def _encoder(self, handle: Any) -> dict[Figure, float]:
        read = self._nvml.nvmlDeviceGetEncoderUtilization
        return self._video(Figure.ENCODER_UTILIZATION, read, handle)

    def _decoder(self, handle: Any) -> dict[Figure, float]:
        read = self._nvml.nvmlDeviceGetDecoderUtilization
        return self._video(Figure.DECODER_UTILIZATION, read, handle)

    def _video(
        self, figure: Figure, read: Callable[[Any], Any], handle: Any
    ) -> dict[Figure, float]:
        """Return what `read` returns; empty for a GPU without that unit, which is no problem to
        log: an A100 has no encoder."""
        nvml = self._nvml
        try:
            percent, _sampled_microseconds = read(handle)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return {}
            raise
        return {figure: float(percent)}

    def _power_limit(self, handle: Any) -> dict[Figure, float]:
        milliwatts = self._nvml.nvmlDeviceGetEnforcedPowerLimit(handle)
        return {Figure.POWER_LIMIT: milliwatts / 1000}

    def _sm_clock(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        megahertz = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        return {Figure.SM_CLOCK: float(megahertz)}

    def _memory_clock(self, handle: Any) -> dict[Figure, float]:
        nvml = self._nvml
        megahertz = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        return {Figure.MEMORY_CLOCK: float(megahertz)}

    def _processes(self, handle: Any) -> dict[Figure, float]:
        processes = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return {Figure.PROCESSES: float(len(processes))}

    def _mig(self, handle: Any) -> bool:
        """Return whether MIG is on."""
        nvml = self._nvml
        try:
            current, _pending = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError as error:
            # GPUs without MIG answer the first code, drivers older than MIG the second.
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
            # In the second version, `used` is without what the driver reserves, as in nvidia-smi.
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
        # Every driver still exports this old name; the new one (event reasons) needs driver 535.
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)

        def percent(bits: int) -> float:
            return 100.0 if reasons & bits else 0.0

        return {
            Figure.THERMAL_THROTTLE: percent(_SW_THERMAL | _HW_THERMAL),
            Figure.POWER_THROTTLE: percent(_SW_POWER_CAP),
            Figure.HARDWARE_SLOWDOWN: percent(_HW_SLOWDOWN | _HW_POWER_BRAKE),
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
            pending = nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)
            return {Figure.MEMORY_REPAIR_PENDING: float(pending)}
        return {
            Figure.MEMORY_REPAIR_PENDING: float(pending),
            Figure.MEMORY_REPAIR_FAILED: float(failed),
        }

    def _xids(self, device: _Device) -> tuple[int, ...] | None:
        """Return the Xids reported since the last reading; `None` if the GPU reports none."""
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
                # The Xids from before the failure count; the figures tell whether the GPU is lost.
                self._log_once(
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

    def _log_once(self, key: tuple[object, ...], text: str, *arguments: object) -> None:
        """Log a warning once: the same one every ten seconds would only hide others."""
        if key not in self._logged:
            self._logged.add(key)
            _log.warning(text, *arguments)


def _unavailable(error: Exception) -> DriverUnavailableError:
    return DriverUnavailableError(
        f"NVML cannot be used: {error}. Check that nvidia-smi works on this machine; after a "
        "driver update, reload the kernel module or restart the machine."
    )


def _lost(gpu: Gpu, xids: tuple[int, ...] | None = None) -> Sample:
    return Sample(gpu, {Figure.LOST: 1.0}, xids)


def _text(read: Callable[[Any], str | bytes], handle: Any) -> str:
    """Return what `read` returns, as CloudWatch takes it in a dimension; empty if it is no text.

    Bindings before 11.515 return bytes.
    """
    try:
        value = read(handle)
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return ""
    printable = [sign if " " <= sign <= "~" else "?" for sign in text]
    return "".join(printable).strip()
