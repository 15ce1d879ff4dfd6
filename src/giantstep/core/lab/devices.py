"""Devices: the array namespace that computes for "cpu" (NumPy) or "cuda" (CuPy, its GPU
twin).
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from types import ModuleType

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, DeviceArray
from giantstep.core.maths.gaussian.primitives import namespace_of as array_module


def device_index(device: str) -> int | None:
    """Return the number of a CUDA device, None for the CPU: ``"cuda:1"`` is 1,
    ``"cuda"`` 0.
    """
    if device == "cpu":
        return None
    if isinstance(device, str):
        name, colon, index = device.partition(":")
    else:
        name = ""
        colon = ""
        index = ""
    if name != "cuda" or (colon and not index.isdecimal()):
        raise bad_field("device", device, '"cpu", "cuda" or "cuda:0"')
    return int(index or 0)


def namespace(device: str) -> ModuleType:
    """Return `numpy` for ``"cpu"``, `cupy` for ``"cuda"`` or ``"cuda:0"``; a GPU that
    is not there is refused.
    """
    index = device_index(device)
    if index is None:
        return np
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise bad_field(
            "device",
            device,
            '"cpu" here, as CuPy is not installed (install giantstep[cuda])',
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if index >= count:
        raise bad_field(
            "device", device, f'"cpu" here, as {count} CUDA devices are visible'
        )
    cupy.cuda.Device(index).use()
    return cupy


def to_numpy(array: DeviceArray) -> Array:
    """Return the values as a NumPy array, copied from the device where need be."""
    if array_module(array) is not np:
        return array.get()
    return np.asarray(array)


def synchronize(xp: ModuleType) -> None:
    """Wait until the device has done what it was asked (before reading a clock)."""
    if xp.__name__ == "cupy":
        xp.cuda.get_current_stream().synchronize()


# -- Memory: what a device has left, and a refusal before anything is allocated that can


_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory(device: str = "cpu") -> int:
    """Return the bytes free on a device (CPU: the kernel's estimate, within the control
    group's limit).
    """
    index = device_index(device)
    if index is not None:
        return int(namespace(device).cuda.runtime.memGetInfo()[0])
    known = re.search(
        r"^MemAvailable:\s*(\d+)",
        _MEMINFO.read_text() if _MEMINFO.exists() else "",
        re.MULTILINE,
    )
    if known:
        system = int(known[1]) * 1024
    else:
        system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([system, *_cgroup_memory()])


def check_memory(bytes_needed: float, device: str = "cpu") -> None:
    """Raise `InputError` where so many bytes do not fit on the device."""
    available = available_memory(device)
    if bytes_needed > available:
        raise InputError(
            f"This experiment needs {bytes_needed / 2**30:.3g} GiB of memory, but"
            f" device {device!r} has {available / 2**30:.3g} GiB free; take a smaller"
            " dim, width or number of workers."
        )


def _cgroup_memory() -> list[int]:
    """Return what the control group leaves, its file cache included; nothing where it
    sets no bound.
    """
    try:
        bound = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        table = dict(
            line.split()[:2]
            for line in (_CGROUP / "memory.stat").read_text().splitlines()
        )
    except (OSError, ValueError):
        return []
    if bound == "max":
        return []
    return [max(int(bound) - used + int(table.get("inactive_file", 0)), 0)]
