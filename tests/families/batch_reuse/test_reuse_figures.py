"""The recipes of the paper's figures: every line runs on tiny experiments, and the
verdicts agree with the limit.
"""

from dataclasses import replace

import pytest

from giantstep.papers import dandi2024benefits
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge


def shrunk(recipe):
    """Return a recipe with tiny experiments and few points: nothing is learned from the
    numbers.
    """

    def small(asked):
        study = asked.study
        settings = {
            **study.settings,
            "nodes": min(2**11, study.settings.get("nodes", 2**11)),
            "scrambles": 3,
        }
        if asked.verb == "predict":
            return replace(
                asked,
                study=replace(
                    study, settings={**study.settings, "nodes": settings["nodes"]}
                ),
            )
        sizes = {**study.experiment, "dim": 40, "trials": 3}
        return replace(asked, study=replace(study, settings=settings, experiment=sizes))

    return replace(
        recipe,
        studies=lambda size: {
            name: small(asked) for name, asked in recipe.studies(size).items()
        },
    )


@pytest.mark.filterwarnings(
    "ignore:The mean square of the labels"
)  # few points, on purpose
@pytest.mark.parametrize(
    "recipe", dandi2024benefits.RECIPES, ids=lambda recipe: recipe.name
)
def test_every_figure_is_drawn(recipe):
    recipe = shrunk(recipe)
    results = answer(recipe, Size(quick=True), progress=False)
    figure = draw(recipe, results)
    report = judge(recipe, results)
    figure.canvas.draw()
    assert results and set(results.studies) == set(results)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any("z-scores" in text for text in texts)
    assert recipe.name != "reuse-phases" or len(report.checks) == 2
