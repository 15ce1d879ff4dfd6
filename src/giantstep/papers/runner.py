"""`reproduce`: answers the studies of a recipe, judges them, draws the figure, and
writes it with its data and report.

Everything is computed and drawn before the first file is written. With a store every
trial and every point of a limit is kept as soon as it exists, so that an interrupted
figure goes on where it was.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.core.base.errors import GiantstepWarning, InputError, bad_field
from giantstep.core.base.files import write_text
from giantstep.core.result.files import save
from giantstep.papers import check_figure, recipes
from giantstep.papers.recipe import FigureStudy, Recipe, Results, Size, Studies
from giantstep.papers.report import FINITE_SIZE, Comparison, Report
from giantstep.tools.figures.style import plain_log_axes, style

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from giantstep.core.base.progress import ProgressOption

_log = logging.getLogger("giantstep")


def reproduce(
    name: str,
    out: str | Path = "out",
    quick: bool = False,
    device: str = "cpu",
    progress: ProgressOption = None,
    store: str | Path | None = None,
) -> Report:
    """Rebuild a figure: PNG and PDF, data as CSV, studies as TOML, and a report of the
    agreement.

    Parameters
    ----------
    name : one of `giantstep.papers.list_figures`.
    out : folder; the files go to ``out/name``.
    quick : smaller sizes and fewer trials.
    device : ``"cpu"`` or ``"cuda"``.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.
    store : a file (as of `giantstep.sweep`) that keeps every result; what it holds is
        not computed again.

    Returns
    -------
    Report
        Prints as the report; ``verdict()`` says whether limit and experiment agree,
        disagree, or cannot tell, and ``agrees`` that nothing disagrees.
    """
    check_figure(name)
    return rebuild(
        recipes()[name], out, Size(quick, device), progress=progress, store=store
    )


def rebuild(
    recipe: Recipe,
    out: str | Path,
    size: Size,
    *,
    progress: ProgressOption = None,
    store: str | Path | None = None,
) -> Report:
    """Carry out one recipe; files appear only once all of them are written."""
    folder = _folder(Path(out), recipe.name)
    start = time.perf_counter()
    results = answer(recipe, size, progress, store)
    figure = draw(recipe, results)
    report = judge(recipe, results)
    report.seconds = time.perf_counter() - start
    report.files = _write(folder, recipe.name, figure, results, report)
    return report


def answer(
    recipe: Recipe,
    size: Size,
    progress: ProgressOption = None,
    store: str | Path | None = None,
) -> Results:
    """Return the results of all studies of a recipe, those that need earlier results
    last.
    """
    results = Results(size)
    with warnings.catch_warnings():
        if recipe.quiet:
            warnings.simplefilter("ignore", GiantstepWarning)
        _answer(recipe.studies(size), results, progress, store)
        if recipe.then is not None:
            _answer(recipe.then(results), results, progress, store)
    return results


def _answer(
    studies: Studies,
    results: Results,
    progress: ProgressOption,
    store: str | Path | None,
) -> None:
    for name, asked in studies.items():
        _log.info(
            "%s: %s %s", name, asked.meaning or asked.verb, dict(asked.study.experiment)
        )
        results.studies[name] = asked
        results[name] = _result(
            asked, results.size.device, _named(progress, name), store
        )


def _result(
    asked: FigureStudy, device: str, progress: ProgressOption, store: str | Path | None
) -> xarray.Dataset:
    study = asked.study
    stored = asked.stored
    if store is not None:
        kept: dict[str, Any] = {"store": store, "engine": "local", "progress": progress}
        if asked.verb == "predict":
            return study.sweep(source="limit", **kept)
        if stored is None:
            stored = study.sweep(device=device, **kept)
        if asked.verb == "simulate":
            return stored
    if asked.verb == "predict":
        return study.predict(progress=progress, cpu_limit=math.inf)
    if asked.verb == "simulate":
        return study.simulate(device=device, progress=progress)
    return study.compare(device=device, progress=progress, stored=stored, twin=False)


def _named(progress: ProgressOption, name: str) -> ProgressOption:
    if not callable(progress):
        return progress
    return lambda done, total, text: progress(done, total, f"{name}: {text}")


def draw(recipe: Recipe, results: Results) -> Figure:
    """Return the figure of results, in the look of all figures."""
    with style():
        figure = recipe.draw(results)
        plain_log_axes(figure)
    return figure


def judge(recipe: Recipe, results: Results) -> Report:
    """Return the report of results: the agreement of what is judged, the checks, the
    notes.
    """
    from giantstep.core.result.agreement import agreement

    size = results.size
    report = Report(
        recipe.name,
        recipe.title,
        recipe.paper,
        size.quick,
        size.device,
        0.0,
        ours=recipe.ours,
    )
    for name, asked in results.studies.items():
        if asked.judged:
            settings = dict(asked.study.experiment)
            if asked.until == math.inf:
                answer = results[name]
            else:
                answer = results[name].sel(time=slice(None, asked.until))
            rows = agreement(answer, asked.judged, scale=asked.scale)
            allow = FINITE_SIZE / (settings["dim"] * _smallest_rank(answer))
            report.comparisons.append(
                Comparison(name, asked.meaning, rows, allow, settings)
            )
    report.checks += recipe.checks(results)
    if callable(recipe.notes):
        report.notes += recipe.notes(results)
    else:
        report.notes += recipe.notes
    return report


def _smallest_rank(answer: xarray.Dataset) -> float:
    """Return r_eff/d: for inputs with a covariance it is r_eff that must be large,
    structured_inputs, section 8.
    """
    if "effective_rank" in answer:
        return float(answer["effective_rank"].min())
    return 1.0


def _folder(out: Path, name: str) -> Path:
    if out.exists() and not out.is_dir():
        raise bad_field("out", str(out), "a folder")
    if (out / name).exists() and not (out / name).is_dir():
        raise InputError(
            f"`{out / name}` is a file, but the figure needs a folder of that name."
        )
    return out / name


def _write(
    folder: Path, name: str, figure: Figure, results: Results, report: Report
) -> list[Path]:
    """Write everything beside the folder first, then move it there, file by file."""
    from giantstep.tools.figures.plot import save_figure

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    except OSError as error:
        raise InputError(
            f"`{folder}` cannot be written: {(error.strerror or str(error)).lower()}."
        ) from None
    try:
        for ending in ("png", "pdf"):
            save_figure(figure, staging / f"{name}.{ending}")
        for study, result in results.items():
            save(result, staging / f"{name}-{study}.csv")
            if not results.studies[study].paired:
                results.studies[study].study.write(staging / f"{name}-{study}.toml")
        write_text(staging / f"{name}-report.txt", f"{report}\n")
        write_text(staging / f"{name}-report.json", report.to_json())
        folder.mkdir(exist_ok=True)
        written = []
        for file in sorted(staging.iterdir()):
            os.replace(file, folder / file.name)
            written.append(folder / file.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return written
