"""The figure of the page as one HTML file that needs no server: picture, verdicts,
scenario, Python, and the state to go on from.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from giantstep.faces.page.picture import figure_file

_VERDICTS = ("agrees", "disagrees")

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
    state = {**about["state"], "results": [_numbers(panel) for panel in panels]}
    rows = about.get("verdicts")
    if not isinstance(rows, list):
        rows = []
    verdicts = [_verdict(row) for row in rows if isinstance(row, dict)]
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
        # nothing in the state may end the script that holds it
        data=json.dumps(state).replace("<", "\\u003c"),
    )
    return text.encode()


def _numbers(panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return the curves of a panel as numbers with their names."""
    series = []
    for one in panel["series"]:
        series.append(
            {name: one.get(name) for name in ("label", "kind", "x", "y", "errors")}
        )
    return {"name": panel.get("name"), "series": series}


def _verdict(row: Mapping[str, Any]) -> str:
    """Return a verdict as a paragraph; its colour is that of a verdict we know."""
    name = row.get("verdict")
    if name not in _VERDICTS:
        name = ""
    return f'<p class="verdict {name}">{html.escape(str(row.get("sentence", "")))}</p>'
