"""Running the programs that `giantstep.script` writes, and reading what they print."""

import subprocess
import sys

import numpy as np

import giantstep as gs


def run_program(text, folder, python=sys.executable):
    """Run a program in an empty folder, isolated from what is importable here but
    installed packages; return its table.

    The table is (variable, ((axis, coordinate), ...)) -> (mean, standard error).
    """
    path = folder / "experiment.py"
    path.write_text(text)
    done = subprocess.run(
        [python, "-W", "error", str(path)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    table = {}
    for line in done.stdout.splitlines():
        (name, *where), (mean, _, error) = line.split()[:-3], line.split()[-3:]
        table[name, tuple(tuple(part.split("=")) for part in where)] = (
            float(mean),
            float(error),
        )
    return table


def judged(scenario):
    """Return the variables of the default question that both engines fill and that are
    compared.
    """
    question = next(iter(scenario.questions.values()))
    return {v.name: v for v in question.variables if v.compared and len(v.engines) == 2}


def numbers_of(result, scenario, names=None):
    """Return the numbers of a result in the same table: mean and standard error (0 of a
    limit); NaN left out.
    """
    table = {}
    for name in names or judged(scenario):
        array = result[name]
        error = result.get(
            f"{name}_stderr", 0 * array if array.dtype.kind == "f" else None
        )
        for place in np.ndindex(array.shape):
            here = array[place]
            if np.isnan(float(here)):
                continue
            where = tuple((dim, str(here.coords[dim].item())) for dim in array.dims)
            table[name, where] = float(here), float(error[place])
    return table


def scores(ours, theirs, allow=0.0):
    """Return key -> distance in joint standard errors, after a relative allowance for
    what is known to differ.
    """
    found = {}
    for key, (mean, error) in ours.items():
        other, other_error = theirs[key]
        joint = np.hypot(error, other_error)
        gap = max(0.0, abs(mean - other) - allow * max(abs(other), abs(mean)))
        if gap < 1e-9:
            found[key] = 0.0
        elif joint > 0:
            found[key] = gap / joint
        else:
            found[key] = np.inf
    return found


def check_against_simulate(
    scenario, folder, dim, trials, *, lang="numpy", python=sys.executable, **asked
):
    """Return the table of a program and its scores against `simulate` at the same
    size.
    """
    table = run_program(
        gs.script(scenario, dim=dim, trials=trials, lang=lang, seed=7), folder, python
    )
    size = {} if "dim" in type(scenario).model_fields else {"dim": dim}
    other = numbers_of(
        gs.simulate(scenario, trials=trials, seed=1, **size, **asked), scenario
    )
    return table, other
