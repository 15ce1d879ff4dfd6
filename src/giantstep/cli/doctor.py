"""What ``giantstep doctor`` finds out about this machine."""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import os
import platform
from typing import Any

import giantstep as gs
from giantstep import __version__
from giantstep.workers import usable_cores

_PACKAGES = ("numpy", "scipy", "xarray", "h5netcdf", "h5py", "pydantic", "typer", "matplotlib", "threadpoolctl")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PRECISION = 1e-7
"""Absolute difference to a reference value, to which families write theirs down."""


def examine() -> dict[str, Any]:
    """Return versions, BLAS, cores, memory, GPU and the self-test as plain data."""
    return {
        "giantstep": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cores": usable_cores(),
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


def _blas() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    return [
        {"name": library["internal_api"], "version": library["version"], "threads": library["num_threads"]}
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]


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
    """Compute the reference value of every family that has one."""
    from giantstep.families import family_class, family_names

    texts, passed = [], True
    for name in family_names():
        reference = family_class(name).reference()
        if reference is None:
            continue
        scenario, variable, expected = reference
        try:
            value = float(gs.predict(scenario)[variable].item())
        except gs.GiantstepError as error:
            texts.append(f"{name}: {error}")
            passed = False
            continue
        passed &= math.isclose(value, expected, rel_tol=0, abs_tol=_PRECISION)
        texts.append(f"{variable} of {name} {value:.8f}, expected {expected:.8f}")
    return {"passed": passed and bool(texts), "text": "; ".join(texts)}
