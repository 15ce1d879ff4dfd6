"""Draw what `plot` makes of every family and question by default, at a small size, to
be looked at.

    python benchmarks/default_plots.py OUT [--only TEXT]

Every question is answered at one point and over one field, by both engines where both
can; results are kept in OUT as NetCDF files, so that a second run only draws. OUT also
gets sheets with six pictures each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED, family_class

GRIDS: dict[str, dict[str, Any]] = {
    "one-step": {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]},
    "few-steps": {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]},
    "online-sgd": {"rate": [0.05, 0.1, 0.2]},
    "giant-steps": {"rate": [0.5, 1.0, 2.0]},
    "batch-reuse": {"samples_per_dim": [2.0, 3.0, 4.0]},
    "mixture-glm": {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]},
    "subspace-clustering": {"snr": [2.0, 4.0, 6.0, 8.0]},
    "bayes-limit": {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]},
}
OWN_GRIDS: dict[str, dict[str, Any]] = {
    "few-steps-steps": {"rate": [0.5, 1.0, 2.0]},
    "bayes-limit-thresholds": {"noise": [0.0, 0.1, 0.3, 1.0]},
    "bayes-limit-branches": {"noise": [0.05, 0.1, 0.3, 1.0]},
    "subspace-clustering-thresholds": {
        "sparsity": [0.02, 0.05, 0.1, 0.15, 0.19, 0.25, 0.3]
    },
    "subspace-clustering-critical": {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]},
    "one-step-weights": {"step.rate": [0.5, 1.0, 2.0, 4.0]},
    "one-step-spikes": {"step.rate": [0.5, 1.0, 2.0, 4.0]},
}
"""Grids of questions in which the field of the family plays no part."""
DIM = {"subspace-clustering": 200}


def answers(family: str, what: str, grid: dict[str, Any]) -> Any:
    """Return a small result: of both engines, or of the limit where the experiment does
    not answer.
    """
    scenario = family_class(family).example_for(what)
    question = scenario.questions[what]
    settings = {
        name: setting.example
        for name, setting in question.settings.items()
        if setting.example is not None
    }
    limit_only = all(variable.engines == ("limit",) for variable in question.variables)
    if limit_only:
        return gs.predict(scenario, grid, what=what, progress=False, **settings)
    own = "dim" in type(scenario).model_fields
    dim = {} if own else {"dim": DIM.get(family, 60)}
    return gs.compare(
        scenario, grid, what=what, trials=3, progress=False, **dim, **settings
    )


def draw_all(out: Path, only: str) -> list[Path]:
    """Draw every question once alone and once over a field; return the pictures."""
    pictures = []
    for family in SHIPPED:
        for what in family_class(family).questions:
            for kind, grid in (
                ("point", {}),
                ("grid", OWN_GRIDS.get(f"{family}-{what}", GRIDS[family])),
            ):
                name = f"{family}-{what}-{kind}"
                if only not in name or (
                    what == "spectrum" and grid
                ):  # many spectra take minutes
                    continue
                start = time.perf_counter()
                try:
                    kept = out / f"{name}.nc"
                    if not kept.exists():
                        gs.save(answers(family, what, grid), kept)
                    path = out / f"{name}.png"
                    gs.plot(gs.load(kept), path=path)
                    pictures.append(path)
                except Exception as error:  # what cannot be drawn is what one looks for
                    print(f"{name}: NOT DRAWN: {type(error).__name__}: {error}")
                print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
    return pictures


def write_sheets(pictures: list[Path], out: Path) -> None:
    """Lay six pictures on each sheet."""
    import matplotlib.pyplot as plt

    for first in range(0, len(pictures), 6):
        figure, axes = plt.subplots(2, 3, figsize=(21, 10))
        for panel in np.ravel(axes):
            panel.set_axis_off()
        for panel, path in zip(np.ravel(axes), pictures[first : first + 6]):
            panel.imshow(plt.imread(path))
            panel.set_title(path.stem, fontsize=9)
        figure.tight_layout()
        figure.savefig(out / f"sheet-{first // 6:02d}.png", dpi=85)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.GiantstepWarning)
        pictures = draw_all(options.out, options.only)
    write_sheets(pictures, options.out)


if __name__ == "__main__":
    main()
