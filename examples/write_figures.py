"""Write examples/figures: one study for each published figure, taken from its recipe.

    python examples/write_figures.py

The first study of the largest panel that a recipe declares becomes the file, with at
most 15 values of a grid. A figure of a real dataset has no file: its arrays do not
belong into one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from giantstep.core.base.jsondata import with_infinity
from giantstep.core.run.study import Study
from giantstep.core.run.study_file import study_fields
from giantstep.faces.page.presets import figure_preset
from giantstep.papers import list_figures
from giantstep.papers.recipe import Recipe

FOLDER = Path(__file__).parent / "figures"
MOST_VALUES = 15
MOST_NUMBERS = 100
"""Values of a grid, and of a list in a scenario: more of them are data."""


def thinned(values: Any) -> Any:
    """Return at most `MOST_VALUES` values of a list, the first and the last among
    them.
    """
    if isinstance(values, str) or np.ndim(values) != 1 or len(values) <= MOST_VALUES:
        return values
    places = np.linspace(0, len(values) - 1, MOST_VALUES).round().astype(int)
    return [float(f"{values[place]:.5g}") for place in places]


def longest_list(content: Any) -> int:
    """Return the length of the longest list in nested tables and lists."""
    if isinstance(content, Mapping):
        return max(map(longest_list, content.values()), default=0)
    if isinstance(content, list | tuple):
        return max([len(content), *map(longest_list, content)])
    return 0


def example(recipe: Recipe) -> str | None:
    """Return the file of one figure, or nothing where it studies arrays."""
    preset = figure_preset(recipe)
    first = preset["studies"][0] if preset["studies"] else None
    if first is None or any(
        name in json.dumps(first) for name in preset.get("arrays", ())
    ):
        return None
    study = Study(**study_fields(with_infinity(first), recipe.name))
    if longest_list(study.scenario.content()) > MOST_NUMBERS:
        return None
    study = replace(
        study, grid={name: thinned(values) for name, values in study.grid.items()}
    )
    experiment = {
        **study.experiment,
        "trials": min(study.experiment.get("trials", 10), 20),
    }
    if "dim" not in type(study.scenario).model_fields:
        experiment.setdefault("dim", 200)
    else:
        experiment.pop("dim", None)
    if (
        study.what == "spectrum"
    ):  # a figure of edges alone asks for no density worth drawing
        study = replace(
            study,
            settings={
                name: value for name, value in study.settings.items() if name != "x"
            },
        )
    if study.what == "spikes":  # they grow with the dimension: the limit needs one
        study = replace(study, limit={"dim": experiment["dim"], **study.limit})
    head = [
        f"# {recipe.title} ({recipe.paper}).",
        f"# One curve of the figure; `giantstep reproduce {recipe.name}` draws all of it.",
        f"#   giantstep predict examples/figures/{recipe.name}.toml --plot {recipe.name}.png",
    ]
    return "\n".join(head) + "\n" + replace(study, experiment=experiment).to_toml()


def main() -> None:
    """Write the files, and remove those of figures that are gone."""
    FOLDER.mkdir(exist_ok=True)
    texts = {f"{recipe.name}.toml": example(recipe) for recipe in list_figures()}
    for path in FOLDER.glob("*.toml"):
        if not texts.get(path.name):
            path.unlink()
    for name, text in texts.items():
        if text:
            (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
