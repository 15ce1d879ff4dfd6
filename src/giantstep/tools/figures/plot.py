"""`plot`: a figure of any result, chosen by the dimensions of its variables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.files import atomic_write
from giantstep.core.base.types import Array
from giantstep.core.result.comparison import as_comparisons
from giantstep.core.scenario.checks import check_number
from giantstep.core.scenario.several import stack
from giantstep.tools.figures.beyond import draw_reliability, draw_variance
from giantstep.tools.figures.curves import ALL_SAMPLES, ask_fine_limit, count_samples
from giantstep.tools.figures.labels import place_legend
from giantstep.tools.figures.layout import View, view_of
from giantstep.tools.figures.learning_curve import draw_learning_curve, draw_tornado
from giantstep.tools.figures.phase_diagram import draw_phase_diagram
from giantstep.tools.figures.reading import Reading, over_trials
from giantstep.tools.figures.style import WIDTHS, panels_in_rows
from giantstep.tools.figures.style import style as look
from giantstep.tools.figures.views import draw

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.core.base.progress import ProgressOption
    from giantstep.tools.figures.best_possible import BoundDrawer

FORMATS = (".png", ".pdf", ".svg", ".pgf")
TEX = ("pdflatex", "xelatex", "lualatex")
"""Programs one of which measures the text of a PGF file."""


def plot(
    result: xarray.Dataset | Sequence[xarray.Dataset],
    variables: str | Sequence[str] | None = None,
    path: str | Path | None = None,
    x: str | None = None,
    log: str | bool | None = None,
    axes: Any = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
    style: str | None = None,
    width: str | float | None = None,
    bound: bool = False,
    smooth: bool = True,
    progress: ProgressOption = None,
) -> Figure:
    """Draw a result: the limit as lines, the experiment as markers with error bars of
    one standard error.

    Where a comparison has the limit with its finite-size correction, that is the line
    ("theory at d = 200"), and the bare limit is a thin one beside it.

    A numeric dimension of the grid makes curves, ``x`` a spectrum, ``time``
    trajectories, two long numeric dimensions a map with contours and its best point; a
    variable of names (``phase``) is a coloured map or strip, and a result without a
    grid a table. NaN leaves gaps, points that were not computed are crossed. A question
    with a figure of its own (phase diagrams, the parts of the variance against one
    field, reliability diagrams) has that drawn unless variables are named.

    The limit of a comparison is asked again between the points of the experiment (for a
    few seconds at most), so that it is a curve, also over an axis in which several
    fields are linear (n/p). Where that cannot be, dots mark where it was computed.

    Parameters
    ----------
    result : what `predict`, `simulate` or `compare` returned, or `load` read; several
        are laid over each other, also of different verbs.
    variables : one name or several, each in a panel of its own; the family's choice if
        left out.
    path : where to save the figure: .png, .pdf, .svg, or .pgf for LaTeX, which needs a
        TeX system here too.
    x : dimension or coordinate of the horizontal axis (``step.rate`` or
        ``step__rate``); chosen if left out. ``"all samples"`` counts every sample that
        a method sees, in its steps and in its fit, so that methods with and without
        steps are comparable; the families are those of `best_possible`.
    log : which axes are logarithmic, ``"x"``, ``"y"``, ``"xy"`` or ``""``; chosen by
        the numbers if left out.
    axes, ax : draw into this matplotlib axes (all variables in one) or into these (one
        each), without a title.
    labels : what the legend calls each of several results; their places if left out.
    style : ``"paper"``: 8-point type, colours and dashes that can be told apart by
        colour-blind readers and in grey, no title (the caption says it), the legend
        above the axes; ``"screen"`` if left out.
    width : of a figure for a paper: ``"column"`` (85 mm, if left out), ``"page"`` (175
        mm) or a number of inches.
    bound : draw under every curve the best possible error of its own scenario and
        samples, and that of message passing (`best_possible`). Against ``time`` it
        stands at whole steps. A noisy target of two and more directions takes seconds
        for each of at most 9 points of a curve; equal ones are computed once.
    smooth : ask the limit of a comparison again for a fine curve; False draws the
        result's own points only.
    progress : of bounds that take long: True, False or a callable(done, total, text); a
        line on a terminal if left out.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> figure = gs.plot(
    ...     gs.predict(s, samples_per_dim=[0.5, 1.0, 2.0, 4.0]), variables="test_error"
    ... )
    >>> len(figure.axes)
    1
    """
    from giantstep.tools.figures.shown import shown_after_cell, shown_by_pyplot

    if axes is None:
        axes = ax
    result = _one_result(result, labels)
    scale = log
    if log is True:
        scale = "x"
    elif log is False:
        scale = ""
    if scale is not None and (not isinstance(scale, str) or set(scale) - {"x", "y"}):
        raise bad_field("log", log, '"x", "y", "xy", "" or left out')
    paper = _paper_width(style, width, axes)
    target = None
    if path is not None:
        target = checked_path(path)
    reading = Reading(result)
    question = reading.question()
    declared = ""
    if question is not None:
        declared = question.figure
    kind = str(result.attrs.get("figure", declared))
    with look(paper):
        figure = None
        if kind and variables is None and x is None and axes is None and not bound:
            figure = _own_figure(kind, result, smooth)
        if figure is None:
            names = reading.chosen(variables)
            across = None
            if x == ALL_SAMPLES:
                across = count_samples(reading, names)
            elif x is not None:
                across = str(x).replace("__", ".")
            views = [view_of(reading, name, across) for name in names]
            if smooth:
                ask_fine_limit(reading, result, views)
            bounds = None
            if bound:
                from giantstep.tools.figures.best_possible import BoundDrawer

                bounds = BoundDrawer(progress)
            if axes is None:
                figure = _panels(reading, views, scale, bounds)
            else:
                figure = _into(axes, reading, views, scale, bounds)
            if bounds is not None:
                bounds.check()
        if target is not None:
            save_figure(figure, target)
    if axes is None:
        return shown_after_cell(figure)
    return shown_by_pyplot(figure)


def _one_result(
    given: xarray.Dataset | Sequence[xarray.Dataset], labels: Sequence[str] | None
) -> xarray.Dataset:
    """Return one result; several become one along the dimension ``scenario``."""
    if not isinstance(given, list | tuple):
        if labels is not None:
            raise bad_field(
                "labels",
                labels,
                "left out unless several results are drawn, plot([one, other], ...)",
            )
        return given  # type: ignore[return-value]  # what it is, `Reading` checks
    if labels is None:
        names = [str(place + 1) for place in range(len(given))]
    else:
        names = list(map(str, labels))
    if not given or len(names) != len(given) or len(set(names)) < len(names):
        raise bad_field(
            "labels", labels, f"a different name for each of the {len(given)} results"
        )
    for one in given:
        Reading(one)  # refuses what is no result
    averaged = [over_trials(one) for one in given]
    return stack(as_comparisons(averaged), names)


def _own_figure(name: str, result: xarray.Dataset, smooth: bool) -> Figure | None:
    """Draw the figure that a question asks for by name; None for a result of another
    shape.
    """
    drawings: dict[str, Callable[[xarray.Dataset], Figure | None]] = {
        "variance": partial(draw_variance, smooth=smooth),
        "phase-diagram": draw_phase_diagram,
        "forecast": draw_learning_curve,
        "tornado": draw_tornado,
        "reliability": draw_reliability,
    }
    return drawings[name](result)


def _panels(
    reading: Reading, views: Sequence[View], log: str | None, bounds: BoundDrawer | None
) -> Figure:
    panels = [
        panel
        for view in views
        if view.kind != "table"
        for panel in _panels_of(reading, view)
    ]
    numbers = [view for view in views if view.kind == "table"]
    if numbers:
        panels.append((reading, numbers, ""))
    figure, axes = panels_in_rows(len(panels), 3.7)
    handles: list[Any] = []
    for panel, (shown, group, name) in zip(axes, panels):
        handles += draw(panel, shown, group, log, bounds)
        if name:
            panel.set_title(name)
    place_legend(axes, handles)
    return figure


def _panels_of(reading: Reading, view: View) -> list[tuple[Reading, list[View], str]]:
    """Return a panel for each entry of dimensions that one panel cannot show, and of a
    map for each engine.
    """
    if view.kind == "map":
        apart = view.others[1:]
    elif view.apart is None:
        apart = ()
    else:
        apart = (view.apart,)
    panels = []
    for sources in _sources_apart(reading, view):
        for index in np.ndindex(*(reading.data.sizes[dim] for dim in apart)):
            point = dict(zip(apart, index))
            part = _part(reading, view, sources, point)
            if _is_empty(part.data[view.name].values):
                continue
            words = [reading.label(point)]
            if view.is_map and len(reading.sources) > 1:
                words.append(reading.called(sources[0]))
            name = ", ".join(filter(None, words))
            panels.append((part, [view_of(part, view.name, view.x)], name))
    if len(panels) == 1 and len(reading.sources) > 1:
        return [(*panels[0][:2], "")]
    return panels or [(reading, [view], "")]


def _sources_apart(reading: Reading, view: View) -> list[list[str]]:
    """Return the engines of each panel: a map shows one of them, curves show all."""
    if not view.is_map:
        return [reading.sources]
    # beside an experiment only what it is compared with
    compared = [
        source for source in reading.sources if source in (reading.judged, "experiment")
    ]
    return [[source] for source in compared or reading.sources]


def _part(
    reading: Reading, view: View, sources: Sequence[str], point: dict[str, int]
) -> Reading:
    """Return what one panel shows of a reading."""
    part = Reading(reading.data.sel(source=sources).isel(point))
    if not view.is_map:
        part.fine = {layer: fine.isel(point) for layer, fine in reading.fine.items()}
    if reading.all_samples is not None:
        part.all_samples = reading.all_samples.isel(point, missing_dims="ignore")
    return part


def _is_empty(values: Array) -> bool:
    """Tell whether there is nothing to show: no name, or no number."""
    if values.dtype.kind in "UO":
        return bool((values == "").all())
    return bool(np.isnan(values.astype(float)).all())


def _into(
    axes: Any,
    reading: Reading,
    views: Sequence[View],
    log: str | None,
    bounds: BoundDrawer | None,
) -> Figure:
    from matplotlib.axes import Axes as MatplotlibAxes

    for view in views:
        if view.apart is not None:
            crowd = f"`{view.name}` has more curves than one axes shows"
            raise InputError(f"{crowd}; choose some along {view.apart} (result.isel).")
    many: list[MatplotlibAxes]
    groups: list[Sequence[View]]
    if isinstance(axes, MatplotlibAxes):
        if len({(view.kind, view.x) for view in views}) > 1 or (
            len(views) > 1 and views[0].kind == "map"
        ):
            raise InputError(
                "These variables have no common horizontal axis; give one axes for"
                " each."
            )
        many = [axes]
        groups = [views]
    else:
        many = list(np.ravel(axes))
        groups = [[view] for view in views]
        if len(many) != len(views) or not all(
            isinstance(one, MatplotlibAxes) for one in many
        ):
            raise InputError(
                f"`axes` must be one matplotlib axes, or {len(views)}, one for each"
                " variable."
            )
    for panel, group in zip(many, groups):
        place_legend([panel], draw(panel, reading, group, log, bounds, titled=False))
    figure = many[0].get_figure(root=True)
    assert figure is not None
    return figure


def _paper_width(
    style: str | None, width: str | float | None, axes: Any
) -> float | None:
    """Return the width of a figure for a paper in inches; None where it is for a
    screen.
    """
    if style not in (None, "screen", "paper"):
        raise bad_field("style", style, '"paper", "screen" or left out')
    if width is not None and (style != "paper" or axes is not None):
        raise bad_field(
            "width",
            width,
            'left out unless style="paper", and with axes that have a width of'
            " their own",
        )
    if style != "paper":
        return None
    if isinstance(width, str | None):
        if (width or "column") not in WIDTHS:
            raise bad_field(
                "width", width, f"{', '.join(map(repr, WIDTHS))} or a number of inches"
            )
        return WIDTHS[width or "column"]
    return check_number(
        "width",
        width,
        "a number of inches from 2 to 20",
        lambda inches: 2 <= inches <= 20,
    )


def checked_path(path: str | Path) -> Path:
    """Return a path a figure can be saved to; its ending says the format."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise bad_field("path", str(path), f"a name that ends in {', '.join(FORMATS)}")
    if target.suffix.lower() == ".pgf":
        _tex_program()
    return target


def _tex_program() -> str:
    """Return the program that measures the text of a PGF file."""
    found = next(filter(shutil.which, TEX), None)
    if found is None:
        why = (
            "A .pgf file needs a TeX system to measure its text, and none of"
            f" {', '.join(TEX)} is installed"
        )
        raise InputError(f"{why}; .pdf needs none.")
    return found


def save_figure(figure: Figure, path: str | Path) -> None:
    """Save a figure so that the file is there whole or not at all."""
    import matplotlib

    target = checked_path(path)
    kind = target.suffix.lower().removeprefix(".")
    # equal figures are equal files
    no_date: dict[str, Any] = {
        "pdf": {"CreationDate": None},
        "svg": {"Date": None},
    }
    if kind == "pgf":
        how: dict[str, Any] = {"backend": "pgf"}
    else:
        how = {"metadata": no_date.get(kind)}
    if kind == "pgf":  # such a file holds no picture of dots: lines and areas alone
        if any(axes.images for axes in figure.axes):
            raise InputError(
                "This figure is partly a picture of dots, which a .pgf file cannot"
                " hold; take .pdf."
            )
        for artist in figure.findobj(lambda one: one.get_rasterized()):
            artist.set_rasterized(False)
    with atomic_write(target) as temporary, look(getattr(figure, "paper", None)):
        if kind == "pgf":
            matplotlib.rcParams["pgf.texsystem"] = _tex_program()
        figure.savefig(temporary, format=kind, **how)
