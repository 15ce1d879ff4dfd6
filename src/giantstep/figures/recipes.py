"""Recipes of published figures, and `reproduce`, which rebuilds one with its data and its report.

Each paper has a file of its own with a tuple ``RECIPES``; a recipe asks `Bench` for its comparisons and
returns a matplotlib figure. Everything is computed and drawn before the first file is written.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.errors import InputError, bad_field
from giantstep.papers.report import FINITE_SIZE, Check, Comparison, Report

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from giantstep.progress import ProgressOption
    from giantstep.scenario import Scenario
    from giantstep.study import Study

_log = logging.getLogger("giantstep")

PAPERS = ("mixtures",)
"""Modules of this package with recipes: one for each paper, and those on what the papers leave open."""


@dataclass(frozen=True)
class Recipe:
    """How one figure is made.

    Attributes
    ----------
    name : what `reproduce` is asked for.
    title : what the figure shows, in a line.
    paper : BibTeX key in `giantstep.references`.
    description : what each panel shows.
    parameters : the parameters in words and symbols.
    seconds_quick, seconds_full : what it takes on two CPU cores.
    make : draws the figure with what a `Bench` gives it.
    """

    name: str
    title: str
    paper: str
    description: str
    parameters: str
    seconds_quick: float
    seconds_full: float
    make: Callable[[Bench], Figure]

    def __str__(self) -> str:
        times = f"about {_duration(self.seconds_quick)} with --quick, {_duration(self.seconds_full)} in full"
        head = f"{self.name}: {self.title} ({self.paper})"
        return "\n    ".join([head, self.description, self.parameters, times])


@dataclass
class Bench:
    """What a recipe works with; it keeps every study and result, to be written beside the figure."""

    quick: bool = False
    device: str = "cpu"
    progress: ProgressOption = None
    studies: dict[str, Study] = field(default_factory=dict)
    results: dict[str, xarray.Dataset] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def sized(self, quick: Any, full: Any) -> Any:
        """Return the size of this run: the first with --quick, the second in full."""
        return quick if self.quick else full

    def compare(
        self,
        name: str,
        scenario: Scenario,
        grid: Mapping[str, Any],
        *,
        meaning: str,
        judged: Sequence[str],
        dim: int,
        trials: int,
        seed: int,
        what: str | None = None,
        theory: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> xarray.Dataset:
        """Run both engines on a study, keep both, and judge the variables the figure shows.

        Parameters
        ----------
        name : what its files are called.
        scenario, grid, what, theory, settings : the study.
        meaning : what is compared, for the report.
        judged : variables whose agreement is reported; none where the figure makes checks of its own.
        dim, trials, seed : the experiment.
        """
        from giantstep.study import Study

        experiment = {"dim": dim, "trials": trials, "seed": seed}
        limit = {} if theory is None else {"theory": theory}
        study = Study(scenario, what, grid, settings or {}, limit=limit, experiment=experiment)
        _log.info("%s: %s, dim=%d, %d trials", name, meaning, dim, trials)
        result = study.compare(device=self.device, progress=self._named(name))
        return self._judged(name, study, result, meaning, judged, experiment)

    def lay_over(
        self,
        name: str,
        scenario: Scenario,
        grid: Mapping[str, Any],
        measured: Mapping[str, Any],
        *,
        meaning: str,
        judged: Sequence[str],
        dim: int,
        trials: int,
        seed: int,
    ) -> xarray.Dataset:
        """Take the limit, lay a stored experiment over it as `compare` would, and judge it the same way.

        Parameters
        ----------
        name, scenario, grid, meaning, judged : as in `compare`; the grid has one field.
        measured : variable -> values along the grid, each with its ``*_stderr``.
        dim, trials, seed : of the stored experiment.
        """
        from giantstep.study import Study

        experiment = {"dim": dim, "trials": trials, "seed": seed}
        study = Study(scenario, None, grid, experiment=experiment)
        limit = study.predict(dim=dim, progress=self._named(name))
        result = lay_over(limit, scenario, measured, experiment)
        return self._judged(name, study, result, meaning, judged, experiment)

    def _judged(
        self,
        name: str,
        study: Study,
        result: xarray.Dataset,
        meaning: str,
        judged: Sequence[str],
        experiment: dict[str, Any],
    ) -> xarray.Dataset:
        from giantstep.agreement import agreement

        self.studies[name], self.results[name] = study, result
        if judged:
            sides = [v for shown in judged for v in (shown, f"{shown}_stderr", f"{shown}_gap", f"{shown}_z")]
            found = agreement(result[[*sides, "converged"]])
            self.comparisons.append(Comparison(name, meaning, found, FINITE_SIZE / experiment["dim"], experiment))
        return result

    def predict(
        self,
        name: str,
        scenario: Scenario,
        grid: Mapping[str, Any],
        *,
        what: str | None = None,
        theory: str | None = None,
        dim: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> xarray.Dataset:
        """Take the limit on a fine grid, for a line; `dim` adds its finite-size correction."""
        from giantstep.study import Study

        limit = {key: value for key, value in (("theory", theory), ("dim", dim)) if value is not None}
        study = Study(scenario, what, grid, settings or {}, limit=limit)
        self.studies[name] = study
        self.results[name] = study.predict(progress=self._named(name))
        return self.results[name]

    def check(self, name: str, value: float, meaning: str, *, line: float | None = None, above: bool = False) -> None:
        """Report one number, and a line it must stay below (or pass)."""
        self.checks.append(Check(name, meaning, float(value), line, above))

    def _named(self, name: str) -> ProgressOption:
        if not callable(self.progress):
            return self.progress
        tell = self.progress
        return lambda done, total, text: tell(done, total, f"{name}: {text}")


def lay_over(
    limit: xarray.Dataset, scenario: Scenario, measured: Mapping[str, Any], experiment: Mapping[str, Any]
) -> xarray.Dataset:
    """Lay stored means and standard errors over a limit with one grid dimension, as `giantstep.compare` does."""
    import xarray

    from giantstep.agreement import combine
    from giantstep.result import provenance

    what = str(limit.attrs["what"])
    (along,) = limit["converged"].dims
    data = {name: (along, values) for name, values in measured.items()}
    done = limit[["converged", "status"]]
    stored = xarray.Dataset(data, coords=done.coords, attrs={"trials": experiment["trials"]})
    stored["converged"], stored["status"] = xarray.ones_like(done["converged"]), xarray.full_like(done["status"], "")
    result = combine(limit, stored, scenario.questions[what])
    facts = {"trials": experiment["trials"], "theory": limit.attrs.get("theory", ""), "stored": True}
    return result.assign_attrs(provenance(scenario, what, "comparison", experiment, facts))


def recipes() -> dict[str, Recipe]:
    """Return every recipe by its name."""
    found: dict[str, Recipe] = {}
    for paper in PAPERS:
        for recipe in importlib.import_module(f"giantstep.figures.{paper}").RECIPES:
            found[recipe.name] = recipe
    return found


def list_figures() -> list[Recipe]:
    """Return the figures that can be rebuilt."""
    return list(recipes().values())


def reproduce(
    name: str,
    out: str | Path = "out",
    quick: bool = False,
    device: str = "cpu",
    progress: ProgressOption = None,
) -> Report:
    """Rebuild a published figure: PNG and PDF, data as CSV, studies as TOML, and a report of the agreement.

    Parameters
    ----------
    name : one of `list_figures`.
    out : folder; the files go to ``out/name``.
    quick : smaller sizes and fewer trials.
    device : ``"cpu"`` or ``"cuda"``.
    progress : True, False or a callable(done, total, text); a bar on a terminal if left out.

    Returns
    -------
    Report
        Prints as the report; ``agrees`` says whether limit and experiment do.
    """
    known = recipes()
    if name not in known:
        close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.4)
        hint = f" (did you mean `{close[0]}`?)" if close else ""
        raise InputError(f"There is no figure `{name}`{hint}; there are {', '.join(known)}.")
    return make(known[name], out, quick=quick, device=device, progress=progress)


def make(
    recipe: Recipe,
    out: str | Path,
    *,
    quick: bool = False,
    device: str = "cpu",
    progress: ProgressOption = None,
) -> Report:
    """Carry out one recipe; files appear only once all of them are written."""
    folder = _folder(Path(out), recipe.name)
    start = time.perf_counter()
    bench = Bench(quick, device, progress)
    from giantstep.figures.style import style

    with style():
        figure = recipe.make(bench)
    report = Report(
        recipe.name,
        recipe.title,
        recipe.paper,
        quick,
        device,
        time.perf_counter() - start,
        bench.comparisons,
        bench.checks,
        bench.notes,
    )
    report.files = _write(folder, recipe.name, figure, bench, report)
    return report


def _folder(out: Path, name: str) -> Path:
    if out.exists() and not out.is_dir():
        raise bad_field("out", str(out), "a folder")
    if (out / name).exists() and not (out / name).is_dir():
        raise InputError(f"`{out / name}` is a file, but the figure needs a folder of that name.")
    return out / name


def _write(folder: Path, name: str, figure: Figure, bench: Bench, report: Report) -> list[Path]:
    """Write everything beside the folder first, then move it there, file by file."""
    from giantstep.figures.plot import save_figure
    from giantstep.files import save, write_text

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    except OSError as error:
        raise InputError(f"`{folder}` cannot be written: {(error.strerror or str(error)).lower()}.") from None
    try:
        for ending in ("png", "pdf"):
            save_figure(figure, staging / f"{name}.{ending}")
        for part, result in bench.results.items():
            save(result, staging / f"{name}-{part}.csv")
        for part, study in bench.studies.items():
            study.write(staging / f"{name}-{part}.toml")
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


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
