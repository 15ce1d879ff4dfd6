"""What ``giantstep doctor`` finds out about this machine."""

from __future__ import annotations

import math
import platform
from importlib.metadata import distributions
from typing import Any

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.core.lab.devices import available_memory, namespace
from giantstep.core.scenario.families import family_class, family_names
from giantstep.tools.sweeps.workers import usable_cores

_PACKAGES = (
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "pydantic",
    "typer",
    "matplotlib",
    "threadpoolctl",
)
_PRECISION = 1e-7
"""Absolute difference to a reference value, to which families write theirs down."""


def examine() -> dict[str, Any]:
    """Return versions, BLAS, cores, memory, GPU and the self-test as plain data."""
    passed, text = _self_test()
    return {
        "giantstep": gs.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "packages": {name: _installed(name) for name in _PACKAGES},
        "cores": usable_cores(),
        "BLAS": _blas(),
        "memory": f"{available_memory() / 2**30:.1f} GiB free",
        "GPU": _gpu(),
        "self_test": {"passed": passed, "text": text},
    }


def _installed(package: str) -> str | None:
    """Return the version of a package; None where it is missing."""
    return next((one.version for one in distributions(name=package)), None)


def report(findings: dict[str, Any]) -> str:
    """Return the findings for reading."""
    test = findings["self_test"]
    packages = ", ".join(
        f"{name} {version or 'MISSING'}"
        for name, version in findings["packages"].items()
    )
    if test["passed"]:
        verdict = "passed"
    else:
        verdict = "FAILED"
    rows = {
        **findings,
        "packages": packages,
        "self_test": f"{verdict}: {test['text']}",
    }
    return "\n".join(
        f"{name.replace('_', '-'):<10} {text}" for name, text in rows.items()
    )


def _blas() -> str:
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    texts = [
        f"{library['internal_api']} {library['version']} with"
        f" {library['num_threads']} threads"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]
    return "; ".join(texts) or "unknown"


def _gpu() -> str:
    try:
        cupy = namespace("cuda")
    except InputError as error:
        return f"none: {str(error.allowed).partition(', as ')[2]}"
    count = cupy.cuda.runtime.getDeviceCount()
    names = [
        cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        for index in range(count)
    ]
    return f"{', '.join(names)} (CuPy {cupy.__version__})"


def _self_test() -> tuple[bool, str]:
    """Compute the reference value of every family that has one."""
    texts = []
    passed = True
    for name in family_names():
        try:
            reference = family_class(name).reference()
            if reference is None:
                continue
            scenario, variable, expected = reference
            value = float(gs.predict(scenario)[variable].item())
            if abs(value - expected) > _PRECISION or math.isnan(value):
                passed = False
            texts.append(f"{variable} of {name} {value:.8f}, expected {expected:.8f}")
        except Exception as error:  # whatever is wrong with this machine
            passed = False
            texts.append(f"{name}: {error}")
    return passed and bool(texts), "; ".join(texts)
