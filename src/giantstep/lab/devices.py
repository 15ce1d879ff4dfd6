"""Devices: the array namespace that computes for "cpu" (NumPy) or "cuda" (CuPy, its GPU twin)."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.gaussian.primitives import namespace_of as array_module
from giantstep.types import Array, DeviceArray


def device_index(device: str) -> int | None:
    """Return the number of a CUDA device, None for the CPU: ``"cuda:1"`` is 1.

    >>> device_index("cpu"), device_index("cuda"), device_index("cuda:1")
    (None, 0, 1)
    """
    if device == "cpu":
        return None
    name, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    if name != "cuda" or (colon and not index.isdecimal()):
        raise bad_field("device", device, '"cpu", "cuda" or "cuda:0"')
    return int(index or 0)


def namespace(device: str) -> ModuleType:
    """Return the array namespace of a device: `numpy` for ``"cpu"``, `cupy` for ``"cuda"`` or ``"cuda:0"``.

    Unknown devices are refused, and GPUs that are not there or lack CuPy.
    """
    index = device_index(device)
    if index is None:
        return np
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise _no_gpu(device, "CuPy is not installed (install giantstep[cuda])") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if index >= count:
        raise _no_gpu(device, f"{count} CUDA devices are visible")
    cupy.cuda.Device(index).use()
    return cupy


def _no_gpu(device: str, reason: str) -> InputError:
    error = InputError(f'Field `device` must be "cpu" here, but is device={device!r}: {reason}.')
    error.field, error.value, error.allowed = "device", device, '"cpu"'
    return error


def to_numpy(array: DeviceArray) -> Array:
    """Return the values as a NumPy array, copied from the device where need be."""
    return array.get() if array_module(array) is not np else np.asarray(array)


def synchronize(xp: ModuleType) -> None:
    """Wait until the device has done what it was asked (before reading a clock)."""
    if xp.__name__ == "cupy":
        xp.cuda.get_current_stream().synchronize()
