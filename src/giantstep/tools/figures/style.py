"""One calm look for every figure: it is set for one figure at a time and changes
nothing outside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
BLACK = "#000000"
GREY = "#5A5A5A"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""The colours of Okabe and Ito, told apart by colour-blind readers (their yellow is too
pale for lines).
"""
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
"""One marker for each colour, so that a figure also reads in grey."""
DASHED = (0, (5, 2))
DOTTED = (0, (1, 1.5))
PRINTED = (BLACK, VERMILION, SKY, BLUE, ORANGE, GREEN, PURPLE)
"""The same colours for a paper: the first three also differ as greys, the rest by their
dashes and markers.
"""
_BROKEN = (5, 2), (5, 1.5, 1, 1.5), (1.2, 1.2), (8, 2), (3, 1, 1, 1, 1, 1)
DASHES: tuple[Any, ...] = ("-", *((0, lengths) for lengths in _BROKEN), "-")
"""One kind of line for each colour of a paper."""
WIDTHS = {"column": 3.35, "page": 6.9}
"""Inches: 85 mm and 175 mm, the narrowest column and page of the usual two-column
journals.
"""
_TALLER = 1.2
"""Height over width of a figure of a paper, relative to the one on a screen: type does
not shrink with the width.
"""
COLORMAP = "viridis"
DECADES = 2.5
"""Span of positive values beyond which their axis is logarithmic."""

LOOKS = Path(__file__).parent
"""Where the looks lie, as style sheets of matplotlib: that of a screen, and what
differs in a paper.
"""

_PAPER_WIDTH: ContextVar[float | None] = ContextVar("paper_width", default=None)


@contextlib.contextmanager
def style(paper: float | None = None) -> Iterator[None]:
    """Use the look inside a with block; a reader's own matplotlib settings come back
    after it.

    `paper` is the width in inches of a figure for a paper, which looks as
    ``paper.mplstyle`` says.
    """
    import matplotlib

    token = _PAPER_WIDTH.set(paper)
    try:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            names = ["screen"]
            if paper is not None:
                names.append("paper")
            for name in names:
                look = matplotlib.rc_params_from_file(
                    LOOKS / f"{name}.mplstyle", use_default_template=False
                )
                matplotlib.rcParams.update(look)
            yield
    finally:
        _PAPER_WIDTH.reset(token)


def paper_width() -> float | None:
    """Return the width of the figure for a paper that is being drawn; None where it is
    for a screen.
    """
    return _PAPER_WIDTH.get()


def new_figure(
    rows: int, columns: int, *, width: float, height: float, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure in inches with its axes in reading order (a `grid` as of
    subplots); no window, no global state.

    In a paper the figure has the width of the paper, and a height in proportion.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from giantstep.tools.figures.shown import ShownFigure, TitledAxes

    paper = paper_width()
    if paper is not None:
        height = height * paper / width * _TALLER
        width = paper
    w_pad = 0.09
    h_pad = 0.06
    if paper is not None:
        w_pad = 0.03
        h_pad = 0.03
    figure = ShownFigure(
        figsize=(width, height),
        layout=ConstrainedLayoutEngine(w_pad=w_pad, h_pad=h_pad),
    )
    figure.paper = paper
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        rows, columns, squeeze=False, subplot_kw={"axes_class": TitledAxes}, **grid
    )
    return figure, list(axes.ravel())


NARROWEST = 2.2
"""Inches that a panel of a paper has at least."""


def panels_in_rows(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many axes, up to three beside each other, of this height
    in inches.
    """
    paper = paper_width()
    room = 3
    if paper is not None:
        room = int(np.clip(paper / NARROWEST, 1, 3))
    columns = min(count, room)
    rows = -(-count // columns)
    figure, axes = new_figure(
        rows, columns, width={1: 5.6, 2: 9.2, 3: 12.6}[columns], height=height * rows
    )
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def colours(count: int, *, ordered: bool = False) -> list[str]:
    """Return so many colours: of the palette, or of a colour map where they are ordered
    or many.
    """
    palette = PALETTE if paper_width() is None else PRINTED
    if count <= 2 or (count <= len(palette) and not (ordered and count > 3)):
        return list(palette[:count])
    import matplotlib
    from matplotlib.colors import to_hex

    return [
        to_hex(colour)
        for colour in matplotlib.colormaps[COLORMAP](np.linspace(0.0, 0.88, count))
    ]


def dashes(place: int, is_solid: bool = False) -> Any:
    """Return the kind of line of a curve, so that a figure also reads in grey; on a
    screen lines may all be solid.
    """
    if is_solid and paper_width() is None:
        return "-"
    return DASHES[place % len(DASHES)]


def is_geometric(values: Sequence[float] | np.ndarray) -> bool:
    """Tell whether numbers grow by a constant factor, so that a log axis spreads them
    evenly.

    >>> is_geometric([0.1, 1, 10]), is_geometric([1, 2, 3])
    (True, False)
    """
    x = np.asarray(values, dtype=float)
    if len(x) < 3 or not np.all(np.isfinite(x)) or np.any(x <= 0):
        return False
    steps = np.diff(np.log(x))
    spread = np.ptp(np.log(x))
    uneven = np.abs(steps - steps.mean()).max() / abs(steps.mean() or np.nan)
    # rounded decades (0.01, 0.03, 0.1, 0.3, ...) count too
    rough = 0.35 if spread > np.log(50) else 0.02
    return bool(
        spread > np.log(4)
        and uneven <= rough
        and (np.all(steps > 0) or np.all(steps < 0))
    )


def spans_decades(values: np.ndarray) -> bool:
    """Tell whether numbers are positive and span so much that their axis should be
    logarithmic.
    """
    finite = values[np.isfinite(values)]
    return bool(
        finite.size > 2
        and np.all(finite > 0)
        and np.log10(finite.max() / finite.min()) > DECADES
    )


def whole_ticks(axes: Axes, values: np.ndarray, *, is_time: bool = False) -> None:
    """Give an axis of whole numbers whole ticks: of counts, or of updates."""
    from matplotlib.ticker import MaxNLocator

    counted = values.dtype.kind in "iu" or (is_time and values.dtype.kind == "f")
    if counted and axes.get_xscale() == "linear" and np.all(values == np.round(values)):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def plain_log_ticks(axis: Axis) -> None:
    """Write 0.2, 0.5, 1, 2 rather than powers on a log axis that spans less than three
    decades.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if not 0 < low < high or high / low > 1000:
        return
    subs: tuple[float, ...]
    close = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    if high / low < 6:
        subs = close
    elif high / low < 200:
        subs = (1.0, 2.0, 5.0)
    else:
        subs = (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def log_axes(axes: Axes, sides: str) -> None:
    """Make axes logarithmic, ``"x"``, ``"y"`` or both, with plain numbers where they
    span few decades.
    """
    for side in sides:
        getattr(axes, f"set_{side}scale")("log")
        plain_log_ticks(getattr(axes, f"{side}axis"))


def plain_log_axes(figure: Figure) -> None:
    """Give every log axis of a figure that has no ticks of its own plain numbers, where
    it spans few decades.
    """
    from matplotlib.ticker import LogFormatterSciNotation

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log" and isinstance(
                axis.get_major_formatter(), LogFormatterSciNotation
            ):
                plain_log_ticks(axis)
