"""Memory: what a device has left, and a refusal before anything is allocated that cannot fit."""

from __future__ import annotations

import os
from pathlib import Path

from giantstep.errors import InputError
from giantstep.lab.devices import device_index, namespace

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory(device: str = "cpu") -> int:
    """Return the bytes free on a device (CPU: the kernel's estimate, within the control group's limit)."""
    index = device_index(device)
    if index is not None:
        return int(namespace(device).cuda.runtime.memGetInfo()[0])
    return min([_system_memory(), *_cgroup_memory()])


def check_memory(bytes_needed: float, device: str = "cpu") -> None:
    """Raise `InputError` where so many bytes do not fit on the device."""
    available = available_memory(device)
    if bytes_needed > available:
        raise InputError(
            f"This experiment needs {bytes_needed / 2**30:.3g} GiB of memory, but device {device!r} has "
            f"{available / 2**30:.3g} GiB free; take a smaller dim, width or number of workers."
        )


def _system_memory() -> int:
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_memory() -> list[int]:
    """Return what the control group leaves, its file cache included; nothing where it sets no bound."""
    try:
        bound = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        table = dict(line.split()[:2] for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []
    return [] if bound == "max" else [max(int(bound) - used + int(table.get("inactive_file", 0)), 0)]
