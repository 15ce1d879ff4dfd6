"""The first network a reader meets learns: its error is below that of predicting zero
and that without a step.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.notes import notes_in
from giantstep.core.scenario.describe import template
from giantstep.core.scenario.families import SHIPPED, family_class

ROOT = Path(__file__).parents[2]
ERRORS = ("test_error", "mse", "population_loss")
"""What a limit calls the error on fresh samples, in one family or another."""
NO_ZERO = ("batch-reuse",)
"""Its second layer is not fitted, and the question is what the rows find: the loss
falls, but not to that of zero.
"""


def asked(scenario):
    """Return the question about an error and the error, or None."""
    for what, question in scenario.questions.items():
        for variable in question.variables:
            if variable.name in ERRORS and "limit" in variable.engines:
                return what, variable.name
    return None


def power(scenario):
    """Return E y^2, by a rule of its own; of classes the error of guessing."""
    if scenario.has_classes():
        return 0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    k = getattr(scenario.target, "directions", 1)
    points = np.stack(np.meshgrid(*[nodes] * k, indexing="ij"), axis=-1)
    values = scenario.target(
        points if hasattr(scenario.target, "directions") else points[..., 0]
    )
    law = np.prod(
        np.stack(np.meshgrid(*[weights / weights.sum()] * k, indexing="ij")), axis=0
    )
    # its mse leaves the noise out
    noise = 0.0 if scenario.family == "online-sgd" else scenario.noise
    return float((law * values**2).sum()) + noise


def without_learning(scenario, result, name):
    """Return the error of the same network before anything was learnt; inf where there
    is no such thing.
    """
    if "time" in result[name].dims:
        return float(result[name].isel(time=0))
    if "step" in type(scenario).model_fields:
        return float(gs.predict(scenario.replace(step={"kind": "none"}))[name])
    return np.inf


def check_it_learns(scenario):
    if getattr(scenario, "shift", None) is not None:
        # inputs of the test alone: learning is about those of the fit
        scenario = scenario.replace(shift=None)
    what, name = asked(scenario)
    if getattr(scenario, "shift", None) is not None:
        scenario = scenario.replace(shift=None)  # it learns at the inputs of its fit
    result = gs.predict(scenario, what=what)
    values = np.ravel(
        result[name].sel(branch="bayes")
        if "branch" in result[name].dims
        else result[name]
    )
    end = values[np.isfinite(values)][-1]
    assert notes_in(result.attrs) == []
    assert end < 0.98 * without_learning(scenario, result, name)
    if scenario.family not in NO_ZERO:
        assert end < 0.98 * power(scenario)


@pytest.mark.parametrize(
    "family", [name for name in SHIPPED if asked(family_class(name).example())]
)
def test_the_example_of_every_family_learns(family):
    scenario = family_class(family).example()
    check_it_learns(scenario)
    # what `giantstep new` writes
    assert gs.Study.from_toml(template(family)).scenario == scenario


def first_scenario(page):
    """Return the first scenario that the first Python block of a page makes; nothing
    behind it is run.
    """
    found = re.search(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    names = {}
    for statement in ast.parse(found[1]).body if found else ():
        if "compare" in ast.unparse(statement) or isinstance(statement, ast.ClassDef):
            return None
        exec(compile(ast.Module([statement], []), page.name, "exec"), names)
        made = [value for value in names.values() if isinstance(value, gs.Scenario)]
        if made:
            return made[0]
    return None


PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "gs." in page.read_text()
}
FIRST = {
    name: scenario
    for name, page in PAGES.items()
    if (scenario := first_scenario(page)) and asked(scenario)
}


def test_the_network_of_the_overview_has_a_best_possible_error():
    scenario = FIRST["docs/overview.md"]
    best = gs.predict(gs.best_possible(scenario)).mse.sel(branch="bayes")
    assert 0 < float(best) < float(gs.predict(scenario).test_error)


def test_the_pages_that_begin_with_a_network_are_found():
    assert {
        "README.md",
        "docs/index.md",
        "docs/overview.md",
        "docs/one_step.md",
        "docs/few_steps.md",
    } <= set(FIRST)
    assert len(FIRST) >= 14


@pytest.mark.parametrize("name", FIRST)
def test_the_first_example_of_every_page_learns(name):
    check_it_learns(FIRST[name])


def test_the_front_page_shows_the_report_that_its_lines_print(
    tmp_path, monkeypatch, capsys
):
    """Catches a report with other numbers than those shown."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "index.md").read_text()
    program, shown = (
        re.search(rf"^```{kind}\n(.*?)^```", text, flags=re.M | re.S)[1]
        for kind in ("python", "text")
    )
    exec(program, {})
    assert capsys.readouterr().out.startswith(shown)
