"""CPU time of `predict` for one point, for every family and question: the first call of
a new process, and the next.

    python benchmarks/bench_predict.py [family ...]

Each question is asked in a process of its own, about the family's example for it.
*first* is the CPU time of that whole process up to the answer (starting Python, loading
what is needed, solving); *next* is a second call for another point: the least of three,
each with another value of one field, so that nothing is remembered. The first line is
what loading NumPy, SciPy's special functions, pydantic and xarray takes, measured in
the same minutes. Modules are taken from compiled files, as in an installed package.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

RUNS = 2
"""Of which the best counts: the first one compiles."""
NEEDED = (
    "import numpy, scipy.special, pydantic.main, xarray, time;"
    " print(time.process_time())"
)


def ask(family: str, what: str) -> None:
    """Ask one question in this process and print the CPU seconds of the first call and
    of the next ones.
    """
    import giantstep as gs
    from giantstep.core.scenario.families import family_class

    warnings.simplefilter("ignore", gs.GiantstepWarning)
    cls = family_class(family)
    scenario = cls.example_for(what)
    settings = {
        name: s.example
        for name, s in cls.questions[what].settings.items()
        if s.example is not None
    }
    gs.predict(scenario, what=what, progress=False, **settings)
    first = time.process_time()
    seconds = []
    for other in _neighbours(scenario):
        start = time.process_time()
        gs.predict(other, what=what, progress=False, **settings)
        seconds.append(time.process_time() - start)
    print(json.dumps([first, min(seconds)]))


def _neighbours(scenario: Any) -> list[Any]:
    """Return the scenario with other values of its first real-valued field that may be
    a little smaller.
    """
    from giantstep.core.base.errors import InputError

    for name, value in scenario:
        if isinstance(value, float) and value > 0:
            try:
                return [
                    scenario.replace({name: value * factor})
                    for factor in (0.99, 0.97, 0.95)
                ]
            except InputError:
                continue
    return [scenario] * 3


def run(*arguments: str, cache: str) -> str:
    """Return what a new Python prints; its compiled modules are kept in `cache`."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key != "PYTHONDONTWRITEBYTECODE"
    }
    environment["PYTHONPYCACHEPREFIX"] = cache
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout


def main(wanted: list[str]) -> None:
    from giantstep.core.scenario.families import family_class, family_names

    questions = [
        (family, what)
        for family in wanted or family_names()
        for what in family_class(family).questions
    ]
    with tempfile.TemporaryDirectory() as cache:
        run("-c", NEEDED, cache=cache)
        loading = statistics.median(
            float(run("-c", NEEDED, cache=cache)) for _ in range(2 * RUNS)
        )
        print(f"{'loading the packages alone':45}{1e3 * loading:8.0f}")
        print(f"{'CPU ms for one point':45}{'first':>8}{'next':>8}", flush=True)
        for family, what in questions:
            task = (str(Path(__file__).resolve()), "--ask", family, what)
            times = [json.loads(run(*task, cache=cache)) for _ in range(RUNS)]
            first, again = (min(column) for column in zip(*times))
            print(
                f"{family + ' ' + what:45}{1e3 * first:8.0f}{1e3 * again:8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        ask(*sys.argv[2:])
    else:
        main(sys.argv[1:])
