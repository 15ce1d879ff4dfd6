"""The best possible curve under a learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.bounds.best import bound_of, scenario_of
from giantstep.bounds.counting import Observable, teacher_of
from giantstep.errors import InputError
from giantstep.figures.style import DASHED, DOTTED, GREY
from giantstep.scenario import Scenario
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_POINTS = {1: 41, 2: 9}


def draw_bounds(result: xarray.Dataset, panels: Sequence[tuple[Axes, str, str]]) -> None:
    """Draw the best possible and the message-passing error into panels (axes, variable, horizontal dimension)."""
    scenario = scenario_of(result)
    teacher = teacher_of(scenario)
    known = {observable.variable: observable for observable in teacher.observables}
    drawn = [panel for panel in panels if panel[1] in known and panel[2] in ("samples_per_dim", "time")]
    if not drawn:
        names = ", ".join(known)
        raise InputError(
            f"`bound=True` needs a panel of {names} against samples_per_dim or time; this figure has none."
        )
    for axes, variable, x in drawn:
        _draw(axes, scenario, known[variable], x, result[x].values)


def _draw(axes: Axes, scenario: Scenario, observable: Observable, x: str, given: Any) -> None:
    teacher = teacher_of(scenario)
    values = np.asarray(given, dtype=float)
    count = _POINTS[min(teacher.target.directions, 2)]
    places = np.unique(np.geomspace(values[values > 0].min(), values.max(), count))
    samples = _samples_at(scenario, x, places)
    said = axes.get_legend()
    handles = [] if said is None else list(said.legend_handles)
    for branch, dashes, label in (("bayes", DASHED, "best possible"), ("uninformed", DOTTED, "message passing")):
        curve = bound_of(scenario, observable, samples, branch)
        handles += axes.plot(places, curve, color=GREY, linestyle=dashes, linewidth=1.2, label=label, zorder=1.5)
    low = min(axes.get_ylim()[0], float(np.nanmin(curve)) * 0.98)
    if axes.get_yscale() == "linear" or low > 0:
        axes.set_ylim(bottom=low)
    axes.legend(handles=handles)


def _samples_at(scenario: Scenario, x: str, places: Floats) -> Floats:
    """Return the samples per dimension seen at places of the horizontal axis."""
    teacher = teacher_of(scenario)
    if x == "time":
        return teacher.fit + places * teacher.batch
    at_one = teacher_of(scenario.replace({x: 1.0})).total()
    slope = teacher_of(scenario.replace({x: 2.0})).total() - at_one
    return at_one + slope * (places - 1.0)
