"""What ``giantstep doctor`` finds out about this machine."""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import os
import platform
from typing import Any

from giantstep import __version__

_PACKAGES = (
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "h5py",
    "pydantic",
    "typer",
    "rich",
    "matplotlib",
    "threadpoolctl",
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

REFERENCE = 0.57343370
"""Test error of spiked random features: relu, tanh, u = 1, gamma = 0.5, p/d = n/d = 1.5, ridge 0.01."""
_PRECISION = 1e-7


def examine() -> dict[str, Any]:
    """Return versions, BLAS, cores, memory, GPU and the self-test as plain data."""
    return {
        "giantstep": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cores": _cores(),
        "threads": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        "blas": _blas(),
        "memory_gib": _memory(),
        "gpu": _gpu(),
        "self_test": _self_test(),
    }


def report(findings: dict[str, Any]) -> str:
    """Return the findings for reading."""
    packages = ", ".join(f"{name} {version or 'MISSING'}" for name, version in findings["packages"].items())
    blas = "; ".join(f"{lib['name']} {lib['version']} with {lib['threads']} threads" for lib in findings["blas"])
    threads = ", ".join(f"{name}={value}" for name, value in findings["threads"].items())
    test = findings["self_test"]
    rows = {
        "giantstep": findings["giantstep"],
        "python": f"{findings['python']} on {findings['platform']}",
        "packages": packages,
        "cores": str(findings["cores"]),
        "BLAS": blas or "unknown",
        "threads": threads or "not limited by the environment",
        "memory": f"{findings['memory_gib']:.1f} GiB free",
        "GPU": findings["gpu"],
        "self-test": f"{'passed' if test['passed'] else 'FAILED'}: {test['text']}",
    }
    return "\n".join(f"{name:<10} {text}" for name, text in rows.items())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return [{"name": lib["internal_api"], "version": lib["version"], "threads": lib["num_threads"]} for lib in found]


def _memory() -> float:
    from giantstep.lab.memory import available_memory

    return round(available_memory() / 2**30, 2)


def _gpu() -> str:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return "none: CuPy is not installed (install giantstep[cuda])"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        names = [cupy.cuda.runtime.getDeviceProperties(index)["name"].decode() for index in range(count)]
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"none: CuPy {cupy.__version__} is installed, but {error}"
    return f"{', '.join(names)} (CuPy {cupy.__version__})" if names else "none: no CUDA device is visible"


def _self_test() -> dict[str, Any]:
    """Compute one reference value of the limit of one step."""
    from giantstep import OneStep, PlantedSpike, predict
    from giantstep.errors import GiantstepError

    scenario = OneStep(
        activation="relu",
        target="tanh(z)",
        width_per_dim=1.5,
        samples_per_dim=1.5,
        ridge=0.01,
        step=PlantedSpike(strength=1.0, alignment=0.5),
    )
    try:
        value = float(predict(scenario)["test_error"])
    except GiantstepError as error:
        return {"passed": False, "text": str(error), "expected": REFERENCE}
    passed = math.isclose(value, REFERENCE, rel_tol=0, abs_tol=_PRECISION)
    text = f"test error of spiked random features {value:.8f}, expected {REFERENCE:.8f}"
    found = {"passed": passed, "text": text, "expected": REFERENCE}
    return {**found, "value": value} if math.isfinite(value) else found
