"""Draw docs/figures/verdicts.png: three comparisons of a made-up variable, one for each
verdict.

python benchmarks/verdict_picture.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from giantstep.core.result.verdicts import SEE, chance_line, student_line, visible_gap
from giantstep.tools.figures.plot import save_figure
from giantstep.tools.figures.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    new_figure,
    style,
)

TRIALS = 10
CASES = (
    ("agrees", 0.006, 0.006, GREEN),
    ("cannot tell", 0.06, 0.035, GREY),
    ("disagrees", 0.13, 0.016, VERMILION),
)
"""Verdict, relative gap, relative standard error, colour."""
PLACES = np.array([3.0, 2.0, 1.0])


def main() -> None:
    line = float(student_line(chance_line(1), TRIALS - 1))
    with style():
        figure, (axes,) = new_figure(1, 1, width=7.2, height=2.7)
        axes.axvspan(-SEE, SEE, color="0.93", zorder=0)
        axes.axvline(0, color=BLUE, linewidth=1.5, zorder=1)
        for place, (verdict, gap, error, colour) in zip(PLACES, CASES):
            visible = float(visible_gap(error * np.sqrt(TRIALS), TRIALS))
            axes.plot(
                [-visible, visible],
                [place - 0.28] * 2,
                color=colour,
                linewidth=5,
                alpha=0.3,
                zorder=1,
            )
            axes.errorbar(
                gap,
                place,
                xerr=line * error,
                color=colour,
                marker="o",
                markerfacecolor="white",
                zorder=3,
            )
            axes.annotate(
                f"{verdict}: visible from {visible:.0%} on",
                (0.33, place),
                color=colour,
                va="center",
            )
        axes.annotate(
            "smaller than the 5% asked for",
            (SEE, 3.62),
            xytext=(4, 0),
            textcoords="offset points",
            color=GREY,
            fontsize=8,
        )
        axes.set(
            xlim=(-0.26, 0.62),
            ylim=(0.45, 3.85),
            yticks=[],
            xlabel="gap of the experiment, relative to the limit",
        )
        axes.set_xticks(
            [-0.2, -0.1, 0, 0.1, 0.2], ["-20%", "-10%", "limit", "10%", "20%"]
        )
        axes.spines["left"].set_visible(False)
        save_figure(
            figure, Path(__file__).parents[1] / "docs" / "figures" / "verdicts.png"
        )


if __name__ == "__main__":
    main()
