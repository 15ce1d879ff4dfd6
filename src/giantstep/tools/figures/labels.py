"""Words on a figure: axis labels and legend entries, from what a result says about its
parts.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.tools.figures.style import paper_width

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

    from giantstep.core.scenario.dimensions import Dimension

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma"
    " tau phi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
).split()
_OPERATORS = {
    **{name: rf"\mathrm{{{name}}}\," for name in ("sign", "Re", "Im", "tr")},
    **{name: rf"\{name} " for name in ("cos", "max", "min", "log", "ell", "int")},
    **{name: rf"\mathrm{{{name}}}" for name in ("E", "P")},
    **{"sum": r"\Sigma\,", "dx": r"\,dx", "inf": r"\infty", "eps": r"\epsilon "},
}
WITH_CLASSES = "; with classes "
OR = " or "
"""Where the meaning of a variable, and its symbol, go on with what they are for labels
that are classes.
"""
_PUNCTUATED = re.compile(r"([(`]*)(.*?\([^()]*\)|.*?)([)`,;:.]*)")
_ALLOWED = re.compile(r"[A-Za-z0-9_^+\-*/=<>,.()|!' \[\]]+")


def mathtext(symbol: str) -> str:
    r"""Write a plain symbol as mathematics; what is made of words stays as it is.

    >>> mathtext("alpha = n/d")
    '$\\alpha = n/d$'
    >>> mathtext("mass at 0")
    'mass at 0'
    """
    from matplotlib.mathtext import MathTextParser

    if not symbol or symbol == "-":
        return ""
    if symbol.startswith("gap of "):
        return f"gap of {mathtext(symbol.removeprefix('gap of '))}"
    words = re.findall(
        "[A-Za-z]+", re.sub(r"_[A-Za-z0-9]+|sqrt\(|\b[a-z]hat\b", "", symbol)
    )
    if not _ALLOWED.fullmatch(symbol) or any(
        len(w) > 2 and w not in _GREEK and w not in _OPERATORS for w in words
    ):
        return symbol
    text = re.sub(r"\^(-\w+(?:/\w+)?)", r"^{\1}", symbol.replace("!=", r"\neq "))
    text = re.sub(r"\bw\*_(\w+)", r"w_{\\ast \1}", text)
    text = re.sub(
        r"\b([EP]) (?=[A-Za-z])",
        r"\1\\,",
        text.replace("w*", r"w_\ast ").replace("*", r"\,"),
    )
    text = re.sub(r"<([^<>=]+,[^<>=]+)>", r"\\langle \1\\rangle ", text)
    text = re.sub(r"\b([A-Za-z])_?hat\b", r"\\hat \1 ", text)
    text = re.sub(r"sqrt\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<=[A-Za-z])(\d)(?=$|[^\d])", r"_\1", text)
    text = re.sub(rf"_({'|'.join(_GREEK)})(?![A-Za-z0-9])", r"_{\\\1}", text)
    text = re.sub(r"_([A-Za-z]{3,}[0-9]*)", r"_{\\mathrm{\1}}", text)
    text = re.sub(r"_([A-Za-z0-9]+'?[A-Za-z0-9]*'?|[+-])", r"_{\1}", text)
    text = re.sub(r"_\{((?:[^{}]|\{\w+\})+)\}_\{", r"_{\1,", text)
    letters = {**{name: f"\\{name}" for name in _GREEK}, **_OPERATORS}
    text = re.sub(
        r"\\mathrm\{\w+\}|\\?[A-Za-z]+",
        lambda match: letters.get(match[0], match[0]),
        text,
    )
    try:
        MathTextParser("path").parse(f"${text}$")
    except ValueError:
        return symbol
    return f"${text}$"


def name_of(variable: str) -> str:
    """Return a name as words: ``"test_error"`` is ``"test error"``."""
    return re.sub(r"_|\.(?!\d)", " ", variable)


def short_symbol(array: xarray.DataArray, name: str) -> str:
    """Return what a legend calls a quantity: the symbol (its left side, in ``alpha =
    n/d``) or the name.
    """
    symbol = mathtext(str(array.attrs.get("symbol", "")).split(" = ")[0])
    return symbol if symbol.startswith("$") else name_of(name)


def value_label(value: Any) -> str:
    """Return a coordinate value as text: numbers short, names as they are."""
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, float | np.floating | int | np.integer
    ):
        return str(value)
    number = float(value)
    if np.isinf(number):
        return r"$\infty$"
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:g}"


def x_label(
    coordinate: xarray.DataArray, name: str, dimension: Dimension, width: int = 46
) -> str:
    """Return the label of a horizontal axis: what it means, and its symbol."""
    clause = (
        str(coordinate.attrs.get("long_name", "")) or dimension.label or name_of(name)
    ).split("; ")[0]
    before, _, formula = clause.partition(": ")
    clause = before if re.search(r"[=*^`]", formula) else clause  # without a formula
    # a final bracket of words
    meaning = re.sub(r" \([^()]*[a-z]{3}[^()]*\)$", "", clause)
    symbol = mathtext(str(coordinate.attrs.get("symbol", "")) or dimension.symbol)
    text = textwrap.fill(typeset(meaning), width)
    if symbol and symbol != meaning:
        return f"{text},  {symbol}"
    return text


def y_label(array: xarray.DataArray, name: str, classes: bool | None = None) -> str:
    """Return the label of a vertical axis: the name of the variable, and its symbol
    where it is short.
    """
    symbol = mathtext(_of_labels(str(array.attrs.get("symbol", "")), OR, classes))
    text = textwrap.fill(name_of(name), 40)
    if (
        not symbol
        or symbol == text
        or len(symbol) > 60
        or ("$" not in symbol and re.search(r"[_^*/=]", symbol))
    ):
        return text
    same = (
        re.match(rf"{re.escape(name)}(_\w+)?(\W|$)", str(array.attrs["symbol"]))
        is not None
    )
    return symbol if same else f"{text},  {symbol}"


def title(array: xarray.DataArray, width: int = 62, classes: bool | None = None) -> str:
    """Return the meaning of a variable up to a semicolon, broken into lines; what it is
    for these labels only.
    """
    meaning = _of_labels(str(array.attrs.get("long_name", "")), WITH_CLASSES, classes)
    said = meaning if WITH_CLASSES in meaning else meaning.split("; ")[0]
    return textwrap.fill(typeset(said), width)


def _of_labels(text: str, between: str, classes: bool | None) -> str:
    """Return what is said of real labels, or of classes behind `between`; both where
    that is not known.
    """
    regression, _, of_classes = text.partition(between)
    if not of_classes or classes is None:
        return text
    return of_classes.removeprefix("the ") if classes else regression


def typeset(text: str) -> str:
    r"""Write the formulas of a sentence as mathematics, and names of variables as
    words.

    >>> typeset("least error of order d^kappa samples, mass `on_margin`")
    'least error of order $d^\\kappa$ samples, mass on margin'
    """
    words = []
    for word in text.split(" "):
        before, core, after = _PUNCTUATED.fullmatch(word).groups()  # type: ignore[union-attr]
        is_symbol = (
            "^" in core or "sqrt(" in core or re.split("[_/]", core)[0] in _GREEK
        )
        # a formula with spaces stays as it is
        whole = core.count("(") == core.count(")")
        if "`" in word:
            written = name_of(core)
        elif is_symbol and whole:
            written = mathtext(core)
        else:
            written = core
        words.append(f"{before}{written}{after}".replace("`", ""))
    return " ".join(words)


# -- Where legends stand: inside the axes where they are short -------------------------


_BESIDE: dict[str, Any] = {
    "loc": "upper left",
    "bbox_to_anchor": (1.01, 1.0),
    "frameon": False,
}
"""Where a legend stands that would cover data."""
_ABOVE: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (0.0, 1.02),
    "frameon": False,
}
"""Where legends of a paper stand: a column has no room beside the axes."""
ROOM = 4
"""Entries beyond which a legend stands beside the axes."""
_LETTERS_PER_INCH = 20
"""Letters of 8 points that an inch holds, for the columns of a legend of a paper."""
_HANDLE = 0.5
"""Inches of a legend's column that its sample of a line takes."""
_TICKS = 0.5
"""Inches beside the axes of a paper, for ticks and their label."""
_ROWS = 3
_ROW = 0.16
"""Rows of a legend for which a figure of a paper has room above its axes, and inches of
each further one.
"""


def outside(labels: Sequence[str]) -> dict[str, Any]:
    """Return where a legend stands that must not cover data: beside the axes, in a
    paper above them.
    """
    paper = paper_width()
    if paper is None:
        return _BESIDE
    return {**_ABOVE, "ncols": _columns(labels, paper - _TICKS)}


def _columns(labels: Sequence[str], width: float) -> int:
    """Return how many entries of a legend of a paper stand beside each other in so many
    inches.
    """
    letters = [len(re.sub(r"\\[A-Za-z]+|[${}_^]", "", label)) for label in labels]
    return int(
        np.clip(width / (_HANDLE + max(letters, default=1) / _LETTERS_PER_INCH), 1, 4)
    )


def place_legend(panels: Sequence[Axes], handles: Sequence[Any]) -> None:
    """Put a legend where it covers little: into a single panel if it is short, else
    beside all, in a paper above.
    """
    named = {str(handle.get_label()): handle for handle in handles}
    if not named:
        return
    entries = list(named.values())
    labels = list(named)
    paper = paper_width()
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    alone = len(panels) == 1
    if paper is None:
        columns = 1
    else:
        columns = _columns(labels, paper - _TICKS * alone)
    if paper is not None:  # many rows above the axes must not leave them a strip
        figure.set_figheight(
            figure.get_figheight()
            + max(math.ceil(len(named) / columns) - _ROWS, 0) * _ROW
        )
    if alone:
        where: dict[str, Any] = {"loc": "best"}
        if paper is not None or len(named) > ROOM:
            where = outside(labels)
        panels[0].legend(handles=entries, **where)
    else:
        place: Any = "outside right upper"
        if paper is not None:
            place = "outside upper center"
        figure.legend(handles=entries, loc=place, ncols=columns, frameon=False)
