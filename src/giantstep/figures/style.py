"""One calm look for every figure: it is set for one figure at a time and changes nothing outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#5A5A5A"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""The colours of Okabe and Ito, told apart by colour-blind readers (their yellow is too pale for lines)."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
"""One marker for each colour, so that a figure also reads in grey."""
DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.5))
PRINTED = (BLACK, VERMILION, SKY, BLUE, ORANGE, GREEN, PURPLE)
"""The same colours for a paper: the first three also differ as greys, the rest by their dashes and markers."""
DASHES: tuple[Any, ...] = (
    "-",
    DASHED,
    (0, (5, 1.5, 1, 1.5)),
    (0, (1.2, 1.2)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    "-",
)
"""One kind of line for each colour of a paper."""
WIDTHS = {"column": 3.35, "page": 6.9}
"""Inches: 85 mm and 175 mm, the narrowest column and page of the usual two-column journals."""
_TALLER = 1.2
"""Height over width of a figure of a paper, relative to the one on a screen: type does not shrink with the width."""
COLORMAP = "viridis"
DECADES = 2.5
"""Span of positive values beyond which their axis is logarithmic."""

RC: dict[str, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#333333",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-4, 5),
    "axes.formatter.use_mathtext": True,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "legend.fontsize": 8,
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.facecolor": "white",
    "legend.edgecolor": "none",
    "legend.fancybox": False,
    "legend.borderaxespad": 0.6,
    "legend.handlelength": 1.8,
    "image.cmap": COLORMAP,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "giantstep",
}

PAPER: dict[str, Any] = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 8),
    "axes.titlepad": 4,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.0,
    "savefig.dpi": 300,
    "pgf.rcfonts": False,
}
"""What differs in a paper: 8-point type whose letters go with Times, thinner lines; a PGF file has the document's."""

_PAPER_WIDTH: ContextVar[float | None] = ContextVar("paper_width", default=None)


@contextlib.contextmanager
def style(paper: float | None = None) -> Iterator[None]:
    """Use the look inside a with block; a reader's own matplotlib settings come back after it.

    `paper` is the width in inches of a figure for a paper, which looks as `PAPER` says.
    """
    import matplotlib

    settings: Any = RC if paper is None else RC | PAPER
    token = _PAPER_WIDTH.set(paper)
    try:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(settings)
            yield
    finally:
        _PAPER_WIDTH.reset(token)


def paper_width() -> float | None:
    """Return the width of the figure for a paper that is being drawn; None where it is for a screen."""
    return _PAPER_WIDTH.get()


def new_figure(
    rows: int, columns: int, *, width: float, height: float, heights: Sequence[float] | None = None, sharex: Any = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure in inches with its axes in reading order; no window, no global state.

    `heights` are the relative heights of the rows; ``sharex="col"`` gives a column one horizontal axis. In a paper the
    figure has the width of the paper, and a height in proportion.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from giantstep.figures.shown import ShownFigure, TitledAxes

    paper = paper_width()
    if paper is not None:
        width, height = paper, height * paper / width * _TALLER
    pad = (0.09, 0.06) if paper is None else (0.03, 0.03)
    figure = ShownFigure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=pad[0], h_pad=pad[1]))
    figure.paper = paper
    FigureCanvasAgg(figure)
    look = {"axes_class": TitledAxes}
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, height_ratios=heights, subplot_kw=look)
    return figure, list(axes.ravel())


NARROWEST = 2.2
"""Inches that a panel of a paper has at least."""


def panels_in_rows(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many axes, up to three beside each other, of this height in inches."""
    paper = paper_width()
    columns = min(count, 3 if paper is None else min(max(int(paper / NARROWEST), 1), 3))
    rows = -(-count // columns)
    figure, axes = new_figure(rows, columns, width={1: 5.6, 2: 9.2, 3: 12.6}[columns], height=height * rows)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def colours(count: int, *, ordered: bool = False) -> list[str]:
    """Return so many colours: of the palette, or of a colour map where they are ordered or many."""
    palette = PALETTE if paper_width() is None else PRINTED
    if count <= 2 or (count <= len(palette) and not (ordered and count > 3)):
        return list(palette[:count])
    import matplotlib
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in matplotlib.colormaps[COLORMAP](np.linspace(0.0, 0.88, count))]


def dashes(place: int, is_solid: bool = False) -> Any:
    """Return the kind of line of a curve: lines that lie on each other show, and a figure also reads in grey.

    On a screen lines may all be solid, where they are told apart otherwise.
    """
    return "-" if is_solid and paper_width() is None else DASHES[place % len(DASHES)]


def is_geometric(values: Sequence[float] | np.ndarray) -> bool:
    """Tell whether numbers grow by a constant factor, so that a log axis spreads them evenly.

    >>> is_geometric([0.1, 1, 10]), is_geometric([1, 2, 3])
    (True, False)
    """
    x = np.asarray(values, dtype=float)
    if len(x) < 3 or not np.all(np.isfinite(x)) or np.any(x <= 0):
        return False
    steps = np.diff(np.log(x))
    spread = np.ptp(np.log(x))
    even = bool(np.all(np.abs(steps - steps.mean()) <= 0.02 * abs(steps.mean())))
    # rounded decades (0.01, 0.03, 0.1, 0.3, ...) count too
    rough = bool(np.all(np.abs(steps - steps.mean()) <= 0.35 * abs(steps.mean())) and spread > np.log(50))
    return bool(spread > np.log(4)) and (even or rough) and bool(np.all(steps > 0) or np.all(steps < 0))


def spans_decades(values: np.ndarray) -> bool:
    """Tell whether numbers are positive and span so much that their axis should be logarithmic."""
    finite = values[np.isfinite(values)]
    return bool(finite.size > 2 and np.all(finite > 0) and np.log10(finite.max() / finite.min()) > DECADES)


def whole_ticks(axes: Axes, values: np.ndarray, *, is_time: bool = False) -> None:
    """Give an axis of whole numbers whole ticks: of counts, or of updates."""
    from matplotlib.ticker import MaxNLocator

    counted = values.dtype.kind in "iu" or (is_time and values.dtype.kind == "f")
    if counted and axes.get_xscale() == "linear" and np.all(values == np.round(values)):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def plain_log_ticks(axis: Axis) -> None:
    """Write 0.2, 0.5, 1, 2 rather than powers on a log axis that spans less than three decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if not 0 < low < high or high / low > 1000:
        return
    close = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(
        LogLocator(subs=close if high / low < 6 else (1.0, 2.0, 5.0) if high / low < 200 else (1.0,))
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def log_axes(axes: Axes, sides: str) -> None:
    """Make axes logarithmic, ``"x"``, ``"y"`` or both, with plain numbers where they span few decades."""
    for side in sides:
        getattr(axes, f"set_{side}scale")("log")
        plain_log_ticks(getattr(axes, f"{side}axis"))


def plain_log_axes(figure: Figure) -> None:
    """Give every log axis of a figure that has no ticks of its own plain numbers, where it spans few decades."""
    from matplotlib.ticker import LogFormatterSciNotation

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log" and isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
                plain_log_ticks(axis)
