"""What ``giantstep doctor`` finds out about this machine."""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import platform
from typing import Any

import giantstep as gs
from giantstep.workers import usable_cores

_PACKAGES = ("numpy", "scipy", "xarray", "h5netcdf", "pydantic", "typer", "matplotlib", "threadpoolctl")
_PRECISION = 1e-7
"""Absolute difference to a reference value, to which families write theirs down."""


def examine() -> dict[str, Any]:
    """Return versions, BLAS, cores, memory, GPU and the self-test as plain data."""
    from giantstep.lab.devices import available_memory

    passed, text = _self_test()
    return {
        "giantstep": gs.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "cores": usable_cores(),
        "BLAS": _blas(),
        "memory": f"{available_memory() / 2**30:.1f} GiB free",
        "GPU": _gpu(),
        "self_test": {"passed": passed, "text": text},
    }


def report(findings: dict[str, Any]) -> str:
    """Return the findings for reading."""
    test = findings["self_test"]
    packages = ", ".join(f"{name} {version or 'MISSING'}" for name, version in findings["packages"].items())
    verdict = f"{'passed' if test['passed'] else 'FAILED'}: {test['text']}"
    rows = {**findings, "packages": packages, "self_test": verdict}
    return "\n".join(f"{name.replace('_', '-'):<10} {text}" for name, text in rows.items())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas() -> str:
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return "; ".join(f"{b['internal_api']} {b['version']} with {b['num_threads']} threads" for b in found) or "unknown"


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


def _self_test() -> tuple[bool, str]:
    """Compute the reference value of every family that has one."""
    from giantstep.families import family_class, family_names

    texts, passed = [], True
    for name in family_names():
        try:
            if (reference := family_class(name).reference()) is not None:
                scenario, variable, expected = reference
                value = float(gs.predict(scenario)[variable].item())
                passed &= math.isclose(value, expected, rel_tol=0, abs_tol=_PRECISION)
                texts.append(f"{variable} of {name} {value:.8f}, expected {expected:.8f}")
        except Exception as error:  # whatever is wrong with this machine
            passed = False
            texts.append(f"{name}: {error}")
    return passed and bool(texts), "; ".join(texts)
