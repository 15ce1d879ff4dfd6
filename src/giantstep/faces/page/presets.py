"""Presets of the page: the studies that the recipes of published figures declare, and
the example of each family.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray

from giantstep.core.run.request import question_name
from giantstep.core.run.study import Study
from giantstep.core.scenario.arrays import large_arrays
from giantstep.core.scenario.families import family_class, family_names
from giantstep.faces.page.fields import complete, described
from giantstep.faces.page.studies import study_tables
from giantstep.papers import list_figures
from giantstep.papers.recipe import Recipe, Size

MOST_STUDIES = 6
"""Studies of one figure that the page lays over each other."""
TERMINAL = frozenset(
    "amp-staircase repetition-single repetition-staircase repetition-targets"
    " sgd-three-directions spectral-edge".split()
)
"""Figures whose first curve takes more than 10 s, half of what the page waits: they are
listed with their command.
"""


def presets() -> Iterator[dict[str, Any]]:
    """Yield every preset: each family's example, then the published figures, with their
    studies as TOML tables.
    """
    yield from map(example_preset, family_names())
    yield from map(figure_preset, list_figures())


def example_preset(family: str) -> dict[str, Any]:
    """Return the preset of a family's example."""
    about = {"name": f"example:{family}", "title": "Example", "family": family}
    about |= dict.fromkeys(("paper", "description", "parameters"), "")
    try:
        study = Study(family_class(family).example())
        return {**about, "studies": [complete(described(family), study_tables(study))]}
    except (
        Exception
    ) as error:  # one broken family must not take the others' presets away
        return {**about, "studies": [], "error": _why(error)}


def figure_preset(recipe: Recipe) -> dict[str, Any]:
    """Return the preset of a recipe; ``error`` says why no page can show it,
    ``terminal`` that only that can.
    """
    texts = {
        name: getattr(recipe, name)
        for name in ("name", "title", "paper", "description")
    }
    about = {
        **texts,
        "parameters": "",
        "family": "",
        "studies": [],
        "command": f"giantstep reproduce {recipe.name}",
    }
    about["terminal"] = recipe.name in TERMINAL
    try:
        about["parameters"] = recipe.parameters
        found = []
        for asked in recipe.studies(Size(quick=True)).values():
            study = asked.study
            if (
                asked.stored is not None
            ):  # an experiment that was too large to make again
                study = replace(
                    study,
                    limit={**study.limit, "dim": study.experiment["dim"]},
                    experiment={},
                )
            found.append(study)
        # a request holds no large array, and no fields that vary together
        plain = [
            s
            for s in found
            if not any(
                isinstance(values, xarray.DataArray) for values in s.grid.values()
            )
        ]
        small = distinct(
            [study for study in plain if not any(large_arrays(study.scenario))]
        )
        if not small:
            return {
                **about,
                **({"terminal": True} if found else {"error": "it declares no study"}),
            }
        shown = _main_panel(small)[:MOST_STUDIES]
        about["family"] = family = shown[0].scenario.family
        return {
            **about,
            "studies": [
                complete(described(family), study_tables(study)) for study in shown
            ],
        }
    # a recipe is anybody's code; the page says what is wrong with it and lives on
    except Exception as error:
        return {**about, "error": _why(error)}


def _main_panel(studies: Sequence[Study]) -> list[Study]:
    """Return the studies that can lie over the largest: same question, settings of the
    limit and fields that vary.
    """

    def panel(study: Study) -> Any:
        known = study.question.settings
        asked = sorted(
            name for name in study.settings if "limit" in known[name].engines
        )
        return (
            study.scenario.family,
            question_name(study.scenario, study.what),
            tuple(study.grid),
            asked,
        )

    largest = max(studies, key=_points)
    return [study for study in studies if panel(study) == panel(largest)]


def distinct(studies: Sequence[Study]) -> list[Study]:
    """Return studies that differ in more than the fineness of their grids: the finest,
    with the experiment of any.
    """
    kept: dict[Any, Study] = {}
    for study in studies:
        theory = study.limit.get("theory")
        dim = None if study.experiment else study.limit.get("dim")
        what = question_name(study.scenario, study.what)
        key = study.scenario.digest(), what, theory, dim, tuple(study.grid)
        known = kept.get(key, study)
        kept[key] = replace(
            max(known, study, key=_points),
            experiment=known.experiment or study.experiment,
        )
    return list(kept.values())


def _points(study: Study) -> int:
    return int(
        np.prod([np.size(value) for value in study.grid.values()], dtype=np.int64)
    )


def _why(error: Exception) -> str:
    if str(error):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
