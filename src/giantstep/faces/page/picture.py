"""The figure of the page as a file: its panels drawn by matplotlib, and one HTML page
around them that needs no server.

The panels are those that the page draws itself: lines, dots, maps and names, with
colours and dashes, as JSON.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from giantstep.core.base.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "html": "text/html",
}
"""What can be written, with its type."""
_WIDE = 5.6
_ALONE = 8.6
_TALL = 3.9
"""Inches of a panel, of one alone, and their height."""
_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}
_SHADE = "#E69F0022"
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")
_MOST_PANELS = 4
_MOST_SERIES = 400
"""Panels, and lines in one, that a request may ask for: the page never has more, and
drawing stays below seconds.
"""
_VERDICTS = ("agrees", "disagrees")


def figure_file(
    panels: Sequence[Mapping[str, Any]], kind: str, title: str = ""
) -> bytes:
    """Return panels as the bytes of a PNG, SVG or PDF; what is no panel raises an
    `InputError`.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    curves = [panel.get("series") for panel in panels]
    is_good = all(
        isinstance(series, list) and len(series) <= _MOST_SERIES for series in curves
    )
    if not 0 < len(panels) <= _MOST_PANELS or not is_good:
        raise InputError(
            f"A figure has 1 to {_MOST_PANELS} panels of at most {_MOST_SERIES} curves."
        )
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    file = BytesIO()
    try:
        with rc_context(
            {"svg.hashsalt": "giantstep", "font.size": 9.5, "lines.scale_dashes": False}
        ):
            size = ((_WIDE if columns > 1 else _ALONE) * columns, _TALL * rows)
            figure = Figure(figsize=size, layout="constrained")
            figure.suptitle(_text(title), fontsize="large", fontweight="bold")
            places = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
            for panel, axes in zip(panels, places):
                _draw(panel, axes)
            for axes in places[len(panels) :]:
                axes.set_axis_off()
            drawn = [
                series
                for panel in panels
                for series in panel["series"]
                if series.get("label")
            ]
            named = {
                _text(series["label"]): Line2D([], [], **_style(series))
                for series in drawn
            }
            if len(named) > 1:
                look: dict[str, Any] = {
                    "loc": "outside lower center",
                    "frameon": False,
                    "handlelength": 3,
                }
                figure.legend(named.values(), named, ncols=min(3, len(named)), **look)
            figure.savefig(file, format=kind, dpi=200)
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(
            f"The figure cannot be drawn: {type(error).__name__}."
        ) from None
    return file.getvalue()


def _draw(panel: Mapping[str, Any], axes: Axes) -> None:
    axes.set_title(_text(panel["title"]), loc="left")
    if panel["kind"] == "text":
        lines = [
            f"{entry['label']}: {entry['value']}" if entry["label"] else entry["value"]
            for entry in panel["text"]
        ]
        axes.text(
            0.5,
            0.5,
            _text("\n".join(lines)),
            ha="center",
            va="center",
            fontsize="large",
        )
        axes.set_axis_off()
        return
    x = panel["x"]
    y = panel["y"]
    axes.set_xlabel(_text(x["label"]))
    axes.set_ylabel(_text(y.get("label", "")))
    axes.set_xscale("log" if x.get("log") else "linear")
    axes.set_yscale("log" if y.get("log") else "linear")
    if panel["kind"] == "map":
        _draw_map(panel["map"], axes)
    else:
        axes.grid(color="#e7eaed")
        for area in panel["areas"]:
            axes.fill_between(
                area["x"],
                area["low"],
                area["high"],
                color=_colour(area["colour"]),
                alpha=0.15,
                lw=0,
            )
        for band in panel["bands"]:
            axes.axvspan(band["from"], band["to"], color=_SHADE, label="_")
            middle = (band["from"] + band["to"]) / 2
            above = axes.get_xaxis_transform()
            axes.text(
                middle,
                0.96,
                _text(band["label"]),
                transform=above,
                ha="center",
                va="top",
            )
        for series in panel["series"]:
            _draw_series(series, axes)
        if x.get("whole") and not x.get("log"):
            axes.locator_params(axis="x", integer=True)
        if x.get("names"):
            axes.set_xticks(
                range(len(x["names"])), [_text(str(name)) for name in x["names"]]
            )
    for mark in panel["marks"]:
        axes.plot(
            [mark["x"]],
            [mark["y"]],
            marker="*",
            color="#E69F00",
            markeredgecolor="black",
            ms=11,
        )


def _draw_series(series: Mapping[str, Any], axes: Axes) -> None:
    import numpy as np

    xs, ys = (np.array(series[side], dtype=float) for side in ("x", "y"))
    for place in reversed(series.get("jumps", ())):  # a jump is drawn upright
        ys = np.insert(ys, place + 1, ys[place : place + 2])
        xs = np.insert(xs, place + 1, [xs[place : place + 2].mean()] * 2)
    style = _style(series)
    if series["kind"] == "dots":
        if series.get("errors"):
            errors = np.array(series["errors"], dtype=float)
        else:
            errors = None
        axes.errorbar(xs, ys, yerr=errors, **style)
    else:
        axes.plot(xs, ys, **style)


def _style(series: Mapping[str, Any]) -> dict[str, Any]:
    """Return how matplotlib draws a series of the page."""
    colour = _colour(series["colour"])
    if series["kind"] == "dots":
        return {
            "color": colour,
            "linestyle": "none",
            "marker": _MARKERS.get(series.get("marker", ""), "o"),
            "ms": 5,
        }
    dash = [float(length) for length in series.get("dash", ())][:4]
    if len(dash) in (2, 4) and min(dash) > 0:
        line: Any = (0, tuple(dash))
    else:
        line = "-"
    width = min(max(float(series["width"]), 0.5), 4.0)
    marker = "o" if series.get("points") else ""
    return {
        "color": colour,
        "linestyle": line,
        "linewidth": width,
        "marker": marker,
        "ms": 4,
    }


def _draw_map(about: Mapping[str, Any], axes: Axes) -> None:
    import numpy as np
    from matplotlib.colors import ListedColormap

    values = np.ma.masked_invalid(np.array(about["z"], dtype=float))
    names = about.get("names")
    if names:
        colours: Any = ListedColormap([_colour(one) for one in about["colours"]])
    else:
        colours = "viridis"
    ends: dict[str, Any]
    if names:
        ends = {"vmin": -0.5, "vmax": len(about["colours"]) - 0.5}
    else:
        ends = {}
    drawn = axes.pcolormesh(
        np.array(about["x"], float),
        np.array(about["y"], float),
        values,
        cmap=colours,
        shading="nearest",
        **ends,
    )
    bar = axes.figure.colorbar(drawn, ax=axes)
    if names:
        bar.set_ticks(range(len(names)), labels=[_text(str(name)) for name in names])


def _colour(text: Any) -> str:
    if isinstance(text, str) and _COLOUR.fullmatch(text):
        return text
    return "#5A5A5A"


def _text(marked: Any) -> str:
    r"""Return a title of the page, HTML with few marks, as matplotlib writes it.

    >>> print(_text("<b>test error</b>  <i>m<sub>u</sub></i>, cost in $"))
    test error  m$_{u}$, cost in \$
    """
    text = str(marked).replace("$", r"\$")
    text = re.sub(
        r"<(sub|sup)>([\w,+∞*-]+)</\1>",
        lambda found: f"${'_^'[found[1] == 'sup']}{{{found[2]}}}$",
        text,
    )
    text = text.replace("<sub>", "_").replace("<sup>", "^")
    return html.unescape(re.sub(r"</?(?:i|b|sub|sup)>", "", text))


_STYLE = """\
body{margin:0 auto;max-width:1160px;padding:28px 20px 60px;color:#1b1f23;background:#fff;
 font:16px/1.55 system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
h1{font-size:30px;line-height:1.2;letter-spacing:-.02em;margin:0 0 6px}
.lead{font-size:19px;color:#3a424b;margin:0 0 18px;max-width:70ch}
figure{margin:0;overflow-x:auto}svg{width:100%;min-width:560px;height:auto}figcaption,footer{color:#57606a;font-size:14px}
.verdict{border-left:4px solid #d5d9de;padding-left:10px;margin:6px 0}
.agrees{border-color:#009e73}.disagrees{border-color:#d55e00}
pre{background:#f6f7f8;border:1px solid #d5d9de;border-radius:8px;padding:12px 14px;overflow-x:auto;font-size:13px}
summary{cursor:pointer;font-weight:600;margin-top:14px}
footer{margin-top:30px;border-top:1px solid #d5d9de;padding-top:10px}"""  # noqa: E501
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\
<title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1><p class="lead">{sentence}</p>
<figure>{svg}<figcaption>{caption}</figcaption></figure>
{verdicts}
<details open><summary>The scenario</summary><pre>{toml}</pre></details>
<details><summary>The same figure in Python</summary><pre>{python}</pre></details>
<footer>Made with giantstep. To drag its sliders: <code>pip install 'giantstep[explorer]'</code>, then \
<code>giantstep explore THIS-FILE.html</code>.</footer>
<script type="application/json" id="giantstep-state">{data}</script></body></html>
"""  # noqa: E501


def html_file(
    panels: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    toml: str,
    python: str,
) -> bytes:
    """Return one page with the figure, the verdicts, the scenario, and the state to go
    on from.

    Parameters
    ----------
    panels : of the figure.
    about : ``title``, ``sentence``, ``caption``, ``verdicts`` (each a ``verdict`` and
        its ``sentence``), ``state``.
    toml, python : the study, and the lines that draw the same figure.
    """
    svg = figure_file(panels, "svg").decode()  # what is no panel is refused here
    kept = ("label", "kind", "x", "y", "errors")
    results = [
        {
            "name": panel.get("name"),
            "series": [
                {key: series.get(key) for key in kept} for series in panel["series"]
            ],
        }
        for panel in panels
    ]
    rows = about.get("verdicts")
    verdicts = [
        _verdict(row)
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    ]
    texts = {
        name: html.escape(str(about.get(name, "")))
        for name in ("title", "sentence", "caption")
    }
    text = _PAGE.format(
        **texts,
        style=_STYLE,
        svg=svg[svg.index("<svg") :],
        verdicts="\n".join(verdicts),
        toml=html.escape(toml),
        python=html.escape(python),
        data=json.dumps({**about["state"], "results": results}).replace("<", "\\u003c"),
    )
    return text.encode()


def _verdict(row: Mapping[str, Any]) -> str:
    name = row.get("verdict") if row.get("verdict") in _VERDICTS else ""
    return f'<p class="verdict {name}">{html.escape(str(row.get("sentence", "")))}</p>'
