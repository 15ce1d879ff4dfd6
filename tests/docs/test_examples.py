"""Every published figure has an example study that runs; examples/*.toml are run by
tests/cli.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED
from giantstep.papers import list_figures

EXAMPLES = Path(__file__).parents[2] / "examples"
FIGURES = sorted((EXAMPLES / "figures").glob("*.toml"))
OF_REAL_DATA = {"digits", "input-digits", "input-patches"}
LONG = {"finite-batch-spectrum"}
A_FEW_STEPS = 20
SMALL = {"subspace-clustering": 200}


def test_every_figure_has_an_example():
    assert {path.stem for path in FIGURES} == {
        recipe.name for recipe in list_figures()
    } - OF_REAL_DATA


def test_every_family_has_an_example():
    studies = [gs.Study.read(path) for path in EXAMPLES.glob("*.toml")]
    assert {study.scenario.family for study in studies} == set(SHIPPED)


def first_point(study):
    """Return a study at the first value of each of its fields that vary, with a few
    steps where it has many.
    """
    grid = {
        name: np.atleast_1d(np.asarray(values))[:1].tolist()
        for name, values in study.grid.items()
    }
    scenario = study.scenario
    settings = dict(study.settings)
    steps = getattr(scenario, "steps", 0)  # a number, or the steps of a network
    if isinstance(steps, int) and steps > A_FEW_STEPS:
        scenario = scenario.replace(steps=A_FEW_STEPS)
        if "times" in settings:
            settings["times"] = [0, A_FEW_STEPS]
    if "nodes" in settings:
        settings["nodes"] = min(settings["nodes"], 1024)
    if study.what == "spectrum":
        settings["x"] = [0.5, 1.0]
    return replace(study, scenario=scenario, grid=grid, settings=settings)


@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else ()
        )
        for path in FIGURES
    ],
)
def test_an_example_of_a_figure_is_answered(path):
    study = first_point(gs.Study.read(path))
    answer = study.predict(progress=False)
    question = study.scenario.questions[
        study.what or next(iter(study.scenario.questions))
    ]
    assert {variable.name for variable in question.variables} & set(answer.data_vars)
    experiment = {**study.experiment, "trials": 1}
    if "dim" in experiment:
        experiment["dim"] = SMALL.get(study.scenario.family, 24)
    if "runs" in study.settings:
        study = replace(study, settings={**study.settings, "runs": 2})
    measured = replace(study, experiment=experiment).simulate(progress=False)
    assert set(measured.sizes) >= {name for name in study.grid}


def test_the_examples_are_those_of_the_recipes():
    place = EXAMPLES / "write_figures.py"
    found = importlib.util.spec_from_file_location("write_figures", place)
    program = importlib.util.module_from_spec(found)
    found.loader.exec_module(program)
    for recipe in list_figures()[::6]:
        text = program.example(recipe)
        assert (
            text is None
            or text == (EXAMPLES / "figures" / f"{recipe.name}.toml").read_text()
        ), f"{recipe.name}: run {place}"
