"""The kernels of OpenBLAS that this processor has, and tests under another one than its
own.

    python benchmarks/kernels.py                       # which there are
    python benchmarks/kernels.py --test -n 2           # pytest of all that computes, under another one than its own
    python benchmarks/kernels.py --test tests/lab      # of these tests

OpenBLAS takes the kernel of the processor, or the one that the environment names in
OPENBLAS_CORETYPE, and silently another one where the processor cannot run it: only what
threadpoolctl finds in use counts. Numbers of different kernels differ in their last
digits, as those of different processors do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    *(
        "Haswell",
        "SkylakeX",
        "Nehalem",
        "Sandybridge",
        "Katmai",
        "Zen",
        "Cooperlake",
        "SapphireRapids",
    ),
    *(
        "ARMV8",
        "NEOVERSEN1",
        "NEOVERSEV1",
        "CORTEXA57",
        "THUNDERX2T99",
        "POWER9",
        "POWER8",
        "Z14",
        "Z13",
    ),
)
"""Kernels that builds of NumPy and SciPy bring, as OPENBLAS_CORETYPE names them; those
that are tried first first.
"""
COMPUTING = tuple(
    f"tests/{name}"
    for name in (
        "gaussian",
        "solve",
        "spectra",
        "readout",
        "risk",
        "lab",
        "learnability",
        "forecasts",
        "families",
    )
)
"""Folders of tests whose numbers come from linear algebra."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_LOOK = (
    "import json, numpy, scipy.linalg, threadpoolctl;"
    " print(json.dumps([pool.get('architecture', '') for pool in"
    " threadpoolctl.threadpool_info() if pool['internal_api'] == 'openblas']))"
)


def environment(kernel: str | None, threads: int) -> dict[str, str]:
    """Return the environment of a program that uses a kernel (None: the machine's own)
    with so many threads.
    """
    counts = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    others = {
        name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"
    }
    return {
        **others,
        **counts,
        **({} if kernel is None else {"OPENBLAS_CORETYPE": kernel}),
    }


def in_use(kernel: str | None) -> str:
    """Return the kernel that NumPy and SciPy really take; "" where they do not use
    OpenBLAS, or two different ones.
    """
    command = [sys.executable, "-c", _LOOK]
    done = subprocess.run(
        command, env=environment(kernel, 1), capture_output=True, text=True
    )
    if done.returncode == 0:
        taken = set(json.loads(done.stdout))
    else:
        taken = set()
    return taken.pop() if len(taken) == 1 else ""


def available() -> tuple[str, list[str]]:
    """Return the machine's own kernel, and all that it can run (its own first); "" and
    none without OpenBLAS.
    """
    own = in_use(None)
    others = [name for name in NAMES if own and in_use(name).lower() == name.lower()]
    return own, (
        [
            own,
            *(name for name in others if name.lower() != own.lower()),
        ]
        if own
        else []
    )


def tests(options: list[str]) -> list[str]:
    """Return the command that runs quick tests; of what computes where the options of
    pytest name none.
    """
    if any(option.startswith("tests") for option in options):
        named = []
    else:
        named = COMPUTING
    return [*PYTEST, "-m", "not slow", *options, *named]


def main() -> int:
    own, kernels = available()
    if not own:
        print(
            "NumPy and SciPy do not use one OpenBLAS here; there is no other kernel to"
            " try."
        )
        return 0
    print(
        f"This machine takes the kernel {own} of OpenBLAS; it can run"
        f" {', '.join(kernels)}."
    )
    if sys.argv[1:2] != ["--test"]:
        return 0
    if len(kernels) == 1:
        print("There is no other kernel to try.")
        return 0
    print(f"Tests under {kernels[1]}", flush=True)
    return subprocess.run(
        tests(sys.argv[2:]), cwd=ROOT, env=environment(kernels[1], 1)
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
