"""Answers and experiments are the same numbers under another kernel of OpenBLAS and
with two threads, to rounding.

Whatever hangs random numbers on the sign of an eigenvector, or follows a solver that
rounding sends elsewhere, is another number on another processor; equal bits are not
asked for.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import kernels

ROUNDING = ("identity", "suboptimality", "residual")
"""Variables that measure rounding itself."""


def numbers_of_all_families() -> dict[str, list[float]]:
    """Return every variable of both engines, of the example of every question, and of a
    network with two neurons.
    """
    import warnings

    import giantstep as gs
    from giantstep.core.scenario.families import SHIPPED, family_class

    warnings.simplefilter("ignore")
    cases = [
        (family_class(name).example_for(what), what)
        for name in SHIPPED
        for what in family_class(name).questions
    ]
    reused = gs.BatchReuse(
        target="tanh(z1) + z2/2",
        activation="erf",
        second_layer=[0.5, -0.5],
        samples_per_dim=2.0,
        rate=0.5,
        steps=2,
    )
    numbers = {}
    for number, (scenario, what) in enumerate([*cases, (reused, "trajectory")]):
        asked = {
            name: s.example
            for name, s in scenario.questions[what].settings.items()
            if s.example is not None
        }
        measured = gs.simulate(
            scenario, what=what, dim=scenario.own_dim() or 40, trials=2, **asked
        )
        for result in (measured, gs.predict(scenario, what=what, **asked)):
            for name in result.data_vars:
                if result[name].dtype.kind == "f" and not str(name).startswith(
                    ROUNDING
                ):
                    key = (
                        f"{number} {scenario.family} {what} {result.attrs['engine']}"
                        f" {name}"
                    )
                    numbers[key] = np.ravel(result[name].values).tolist()
    return numbers


def run_under(kernel: str | None, threads: int) -> dict[str, list[float]]:
    command = [sys.executable, __file__]
    done = subprocess.run(
        command,
        env=kernels.environment(kernel, threads),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_numbers_are_those_of_another_kernel():
    own = kernels.in_use(None)
    other = next(
        (
            name
            for name in kernels.NAMES
            if own and kernels.in_use(name).lower() == name.lower() != own.lower()
        ),
        "",
    )
    if not other:
        pytest.skip("there is no other kernel of OpenBLAS")
    here = run_under(None, 1)
    there = run_under(other, 2)
    assert here.keys() == there.keys() and len(here) > 150
    for name, values in here.items():
        first = np.array(values, dtype=float)
        second = np.array(there[name], dtype=float)
        scale = np.max(np.abs(first[np.isfinite(first)]), initial=0.0)
        if not name.endswith("_stderr"):
            np.testing.assert_allclose(
                second,
                first,
                rtol=0,
                atol=1e-8 * scale,
                err_msg=f"{own}, {other}: {name}",
            )


if __name__ == "__main__":
    print(json.dumps(numbers_of_all_families()))
