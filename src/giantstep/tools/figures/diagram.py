"""`phase_diagram`: the phases of a scenario as a coloured map with named regions and
the lines between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.run.verbs import predict
from giantstep.core.scenario.families import family_class, family_names
from giantstep.core.scenario.family import PhaseDiagram
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import dotted_names
from giantstep.tools.figures.phase_diagram import draw_plane
from giantstep.tools.figures.plot import checked_path, plot, save_figure
from giantstep.tools.figures.shown import shown_after_cell
from giantstep.tools.figures.style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEYOND = 1.25
"""How far an axis goes beyond the scenario's own point and beyond the lines."""
HIGHEST = 4.0
"""How many times the median of the lines the vertical axis goes at most."""


def phase_diagram(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    path: str | Path | None = None,
    **fields: Any,
) -> Figure:
    """Draw the phase diagram of a scenario: named regions, the lines between them, and
    a star at the scenario itself.

    The family chooses the plane and the question: `SubspaceClustering` sparsity and snr
    with the thresholds of inference, `MixtureGLM` label noise (or another field) and
    samples per dimension with the line of separability, `OnlineSGD` the exponents of
    batch size, rate and time. Lines are limits, asked at points along the horizontal
    axis.

    Parameters
    ----------
    scenario : what is studied.
    grid, **fields : fields of the scenario. A list makes the horizontal axis
        (``flip=[0.0, 0.1, 0.2]``) or, of the vertical field, its range; for `OnlineSGD`
        it marks several runs. A single value changes the scenario.
    path : where to save the figure (.png, .pdf or .svg).

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(
    ...     labels="sign", noise=0.5, loss="logistic", ridge=0.1, samples_per_dim=2.0
    ... )
    >>> figure = gs.phase_diagram(s)
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['not separable', 'separable']
    """
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"phase_diagram takes a scenario, not a {type(scenario).__name__}."
        )
    target = None if path is None else checked_path(path)
    given = dotted_names({**(grid or {}), **fields})
    lists = {name: given.pop(name) for name in list(given) if np.ndim(given[name])}
    scenario = scenario.replace(given)
    diagram = scenario.diagram()
    if diagram is None:
        classes = [
            cls
            for cls in map(family_class, family_names())
            if cls.example().diagram() is not None
        ]
        those = " and ".join(", ".join(cls.__name__ for cls in classes).rsplit(", ", 1))
        raise InputError(
            f"{type(scenario).__name__} has no phase diagram; {those} have one."
        )
    if scenario.questions[diagram.what].figure:
        return plot(predict(scenario, lists, what=diagram.what), path=path)
    with style():
        figure = _draw(scenario, diagram, lists)
        if target is not None:
            save_figure(figure, target)
    return shown_after_cell(figure)


def _draw(scenario: Scenario, diagram: PhaseDiagram, lists: dict[str, Any]) -> Figure:
    heights = lists.pop(diagram.up, None)
    numbers = scenario.numbers
    if len(lists) > 1:
        raise InputError(
            f"A phase diagram has one horizontal axis, but {', '.join(lists)} are"
            " lists."
        )
    across, along = next(iter(lists.items()), (diagram.across, None))
    if across not in numbers:
        raise bad_field(
            "x", across, f"one of the numbers of the scenario: {', '.join(numbers)}"
        )
    low = min(diagram.span[0], numbers[across])
    high = max(diagram.span[1], numbers[across])
    # closer at the low end, where thresholds are steep
    spread = low + (high - low) * np.linspace(0.0, 1.0, diagram.points) ** 1.5
    places = spread if along is None else _sorted(across, along)
    lines = predict(scenario, {across: places.tolist()}, what=diagram.what)
    top = _range(diagram, lines, numbers[diagram.up])
    if heights is not None:
        top = tuple(_sorted(diagram.up, heights)[[0, -1]])
    x, y = own = (numbers[across], numbers[diagram.up])
    if places[0] <= x <= places[-1] and top[0] <= y <= top[1]:
        shown = own
    else:
        shown = None
    figure, (axes,) = new_figure(1, 1, width=7.4, height=4.4)
    draw_plane(axes, scenario, diagram, lines, np.linspace(*top, 251), shown)
    return figure


def _sorted(name: str, values: Sequence[Any]) -> Floats:
    numbers = np.asarray(values)
    if (
        numbers.ndim != 1
        or numbers.dtype.kind not in "iuf"
        or len(np.unique(numbers)) < 2
    ):
        raise bad_field(
            name,
            values,
            "a list of at least two numbers where it is the horizontal axis",
        )
    return np.unique(numbers.astype(np.float64))


def _range(diagram: PhaseDiagram, lines: Any, own: float) -> tuple[float, float]:
    """Return the range of the vertical axis: the lines where they do not diverge, and
    the scenario's own point.
    """
    values = np.concatenate([lines[name].values for name in diagram.lines])
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, BEYOND * own
    return 0.0, BEYOND * max(
        min(float(finite.max()), HIGHEST * float(np.median(finite))), own
    )
