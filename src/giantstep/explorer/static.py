"""The page without a server: a folder for any static host, with the limits of the stories stored on grids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import InputError
from giantstep.explorer.bounds import TABLES
from giantstep.explorer.pagefiles import page_files

if TYPE_CHECKING:
    import xarray

ALONE = 25
"""Positions of a slider that a story has alone."""
TOGETHER = (17, 7)
"""Positions of the first and of the further sliders of a story."""
DIGITS = 6
"""Significant digits of a stored limit."""
_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; font-src 'self' file:; "
    "img-src 'self' file: data: blob:; connect-src 'none'"
)


def export_page(
    folder: Path, *, stories: Sequence[str] | None = None, say: Callable[[str], object] = lambda text: None
) -> None:
    """Write the page with its stories into a folder, as files that need no server.

    Parameters
    ----------
    folder : made where it is missing; files of the same names are overwritten.
    stories : names of those to store; all of them if left out.
    say : told what is being computed.
    """
    page = page_files()
    told = [story for story in json.loads(page["stories.json"]) if stories is None or story["name"] in stories]
    if not told:
        raise InputError(f"There is no story {', '.join(stories or [])}.")
    limits = {}
    for story in told:
        say(f"{story['name']}: {story['title']}")
        limits[story["name"]] = stored_limits(story)
    wanted = {story["study"]["scenario"]["family"] for story in told}
    theory = {story["name"]: _theory(story) for story in told}
    data = {"stories": told, "families": _families(wanted), "limits": limits, "theory": theory}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in page.items():
        if name.endswith((".css", ".woff2", ".min.js")):
            _write(folder / "page" / name, content)
    for library in ("katex", "uplot"):
        licence = files("giantstep.explorer").joinpath("page", library, "LICENSE").read_bytes()
        _write(folder / "page" / library / "LICENSE", licence)
    _write(folder / "page" / "explorer.js", page["explorer.js"])
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    _write(folder / "page" / "data.js", f"window.giantstepStored = {text};\n".encode())
    _write(folder / "index.html", static_html(page["index.html"].decode()).encode())


def static_html(html: str) -> str:
    """Return the page with relative addresses and the data it shows."""
    script = '<script src="/page/explorer.js" defer></script>'
    scripts = '<script src="page/data.js" defer></script>\n<script src="page/explorer.js" defer></script>'
    policy = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    changed = html.replace(script, scripts).replace('<meta charset="utf-8">', policy)
    changed = re.sub(r'<link rel="preload"[^>]*>\n', "", changed)
    return changed.replace('"/page/', '"page/')


def stored_limits(story: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a story at the positions of its sliders, and those of the curves beside it."""
    counts = (ALONE,) if len(story["drag"]) == 1 else (TOGETHER[0], *(TOGETHER[1] for _ in story["drag"][1:]))
    axes = [_axis(drag, count) for drag, count in zip(story["drag"], counts)]
    grid = {axis["field"]: axis["values"] for axis in axes}
    result = _limit(story["study"], story["variables"], grid)
    fields = [axis["field"] for axis in axes]
    first, *_ = states = [
        _shown(story["study"], story["variables"], result.isel(dict(zip(fields, index))).drop_vars(fields))
        for index in np.ndindex(*(len(axis["values"]) for axis in axes))
    ]
    names = [name for name in (*story["variables"], "converged", "status") if name in first["dims"]]
    kept = [_shown(study, story["variables"], _limit(study, story["variables"], {})) for study in story["kept"]]
    return {
        "axes": axes,
        "template": {name: value for name, value in first.items() if name not in names},
        "states": [{name: state[name] for name in names} for state in states],
        "kept": kept,
    }


def _axis(drag: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return positions of a slider; where it starts is one of them only by chance."""
    low, high = float(drag["min"]), float(drag["max"])
    values = np.geomspace(low, high, count) if drag.get("log") else np.linspace(low, high, count)
    return {"field": drag["field"], "log": bool(drag.get("log")), "values": [float(f"{value:.6g}") for value in values]}


def _limit(tables: Mapping[str, Any], variables: Sequence[str], grid: Mapping[str, Any]) -> xarray.Dataset:
    from giantstep.explorer.tasks import read_study, remarks_of

    known = {name: tables[name] for name in ("what", *TABLES) if name in tables}
    study = read_study({**known, "grid": {**tables.get("grid", {}), **grid}})
    with remarks_of():
        result = study.predict(progress=False)
    return result[[name for name in (*variables, "converged", "status") if name in result.data_vars]]


def _shown(study: Mapping[str, Any], variables: Sequence[str], result: xarray.Dataset) -> dict[str, Any]:
    from giantstep.explorer.views import shown_json

    data: dict[str, Any] = json.loads(shown_json(result, variables, study["scenario"]["family"], study["what"]))
    return {name: _rounded(value) for name, value in data.items() if name not in ("about", "attrs", "dtypes")}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _theory(story: Mapping[str, Any]) -> str:
    """Return the equations and papers of a story."""
    from giantstep.explorer.fields import described
    from giantstep.explorer.theory import theory_html

    return theory_html(described(story["study"]["scenario"]["family"]), story["study"], story["variables"])


def _families(wanted: set[str]) -> list[dict[str, Any]]:
    from giantstep.explorer.tasks import families

    told: list[dict[str, Any]] = []
    families(lambda kind, text: told.append(json.loads(text)))
    return [family for family in told if family["family"] in wanted]


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
