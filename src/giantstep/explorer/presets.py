"""Presets of the page: the studies behind each published figure, found without computing any of them.

A recipe asks the verbs for results; while it is rehearsed they write down what is asked and hand out a table of ones
with the right dimensions. A recipe that cannot go on with ones has still said what it studies up to there.
"""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import study as verbs
from giantstep.arrays import large_arrays
from giantstep.errors import InputError
from giantstep.families import families, family_class
from giantstep.figures.recipes import Bench
from giantstep.figures.recipes import Recipe as OldRecipe
from giantstep.jsondata import json_data
from giantstep.papers import list_figures
from giantstep.papers.recipe import FigureStudy, Recipe, Size
from giantstep.request import EXPERIMENT_SETTINGS, LIMIT_SETTINGS, Request, question_name
from giantstep.study import Study

if TYPE_CHECKING:
    import xarray

    from giantstep.scenario import Scenario

_log = logging.getLogger("giantstep")

MOST_STUDIES = 6
"""Studies of one figure that the page lays over each other."""
REHEARSAL = 1.0
"""CPU seconds of one rehearsal; by then a recipe has asked for what it studies."""
_LENGTH = 5
"""Entries of an own dimension nobody has given values to."""


@contextmanager
def rehearsing() -> Iterator[list[Study]]:
    """Let the verbs answer with ones inside a with block, and keep what they were asked as studies.

    This changes the verbs for the whole process: it belongs into a worker that does nothing else meanwhile.
    """
    import giantstep

    asked: list[Study] = []

    def answering(engine: str) -> Any:
        def answer(scenario: Scenario, grid: Mapping[str, Any] | None = None, /, **keywords: Any) -> xarray.Dataset:
            asked.append(_as_study(scenario, grid or {}, keywords, engine))
            return _ones(asked[-1], engine)

        return answer

    engines = {"predict": "limit", "simulate": "experiment", "compare": "comparison"}
    real = {verb: getattr(verbs, verb) for verb in engines}
    try:
        for verb, engine in engines.items():
            for module in (verbs, giantstep):
                setattr(module, verb, answering(engine))
        yield asked
    finally:
        for verb, function in real.items():
            for module in (verbs, giantstep):
                setattr(module, verb, function)


def _as_study(scenario: Scenario, grid: Mapping[str, Any], keywords: Mapping[str, Any], engine: str) -> Study:
    """Return the study that asks what a verb was called with."""
    question = scenario.questions[question_name(scenario, keywords.get("what"))]
    tables: dict[str, dict[str, Any]] = {"grid": dict(grid), "settings": {}, "limit": {}, "experiment": {}}
    lab = engine != "limit"
    for name, value in keywords.items():
        if name in question.settings:
            tables["settings"][name] = value
        elif name in EXPERIMENT_SETTINGS and lab and name != "device":
            tables["experiment"][name] = value
        elif name in ("theory", "dim") and value is not None:
            tables["limit"][name] = value
        elif name not in ("what", "progress", *LIMIT_SETTINGS, *EXPERIMENT_SETTINGS):
            tables["grid"][name.replace("__", ".")] = value
    return Study(scenario, keywords.get("what"), **tables)


def _ones(asked: Study, engine: str) -> xarray.Dataset:
    """Return a result of the right shape with nothing in it but ones."""
    import xarray

    request = Request(asked.scenario, asked.grid, dict(asked.settings), what=asked.what, dim=None)
    both = (2,) if engine == "comparison" else ()
    grid, counts = request.grid, request.grid.scenario.block_count()
    coords: dict[str, Any] = dict(grid.coords)
    sides = {"source": ["limit", "experiment"]} if both else {}
    coords.update(sides)
    data: dict[str, Any] = {}
    for variable in request.question.variables:
        for dim in variable.dims:
            given = request.question.labels.get(dim, request.settings.get(dim))
            length = counts.get(dim, _LENGTH)
            coords.setdefault(dim, (dim, np.arange(1, length + 1) if given is None else np.asarray(given)))
        own = [*grid.dims, *variable.dims]
        shape = [_size(coords, grid, dim) for dim in own]
        for end in ("", "_stderr"):
            data[variable.name + end] = ([*sides, *own], np.ones([*both, *shape]))
        for end in ("_gap", "_z") if both else ():
            data[variable.name + end] = (own, np.ones(shape))
    done = [*both, *grid.shape]
    flags = [*sides, *grid.dims]
    data["converged"], data["status"] = (flags, np.ones(done, bool)), (flags, np.full(done, ""))
    attrs = {"engine": engine, "trials": 2, "what": request.what, "family": grid.scenario.family}
    return xarray.Dataset(data, coords, attrs=attrs)


def _size(coords: Mapping[str, Any], grid: Any, dim: str) -> int:
    return dict(zip(grid.dims, grid.shape)).get(dim) or len(coords[dim][1])


def presets() -> Iterator[dict[str, Any]]:
    """Yield every preset: each family's example, then the published figures, with their studies as TOML tables.

    Arrays too large for a file are named in the tables, and are in ``arrays`` by that name.
    """
    yield from map(example_preset, families())
    yield from map(figure_preset, list_figures())


def example_preset(family: str) -> dict[str, Any]:
    """Return the preset of a family's example."""
    about = {"name": f"example:{family}", "title": "Example", "paper": "", "description": "", "parameters": ""}
    try:
        scenario = family_class(family).example()
        return {**about, "family": family, "studies": [study_tables(Study(scenario))]}
    except Exception as error:  # one broken family must not take the others' presets away
        return {**about, "family": family, "studies": [], "error": _why(error)}


def figure_preset(recipe: Recipe | OldRecipe) -> dict[str, Any]:
    """Return the preset of one recipe; where it has no study that fits the page, ``error`` says why."""
    about = {
        "name": recipe.name,
        "title": recipe.title,
        "paper": recipe.paper,
        "description": recipe.description,
        "parameters": recipe.parameters,
        "family": "",
        "studies": [],
    }
    try:
        studies = distinct([plain for study in _studies(recipe) for plain in unpaired(study)])
        if not studies:
            return {**about, "error": "The recipe asks for no study."}
    except Exception as error:  # a recipe is anybody's code; the page says what is wrong with it and lives on
        return {**about, "error": _why(error)}
    why = ""
    tables: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for one in _main_panel(studies):
        try:
            tables.append(study_tables(one))
            arrays.update((array.file, array.values.tolist()) for array in large_arrays(one.scenario))
        except InputError as problem:
            why = str(problem)
    if not tables:
        return {**about, "error": why}
    family = tables[0]["scenario"]["family"]
    return {**about, "family": family, "studies": tables[:MOST_STUDIES], "arrays": arrays}


def _main_panel(studies: Sequence[Study]) -> list[Study]:
    """Return the studies that can lie over each other with the largest of all: same question, same fields that vary."""

    def panel(study: Study) -> Any:
        return study.scenario.family, _what(study), tuple(study.grid)

    largest = max(studies, key=_points)
    return [study for study in studies if panel(study) == panel(largest)]


def _studies(recipe: Recipe | OldRecipe) -> list[Study]:
    if isinstance(recipe, OldRecipe):
        return rehearsed(recipe)
    return [_live(asked) for asked in recipe.studies(Size(quick=True)).values()]


def _live(asked: FigureStudy) -> Study:
    """Return a study as the page can run it: without an experiment that was too large to make again."""
    study = asked.study
    if asked.stored is None:
        return study
    return replace(study, limit={**study.limit, "dim": study.experiment["dim"]}, experiment={})


@contextmanager
def _cut_short() -> Iterator[None]:
    """Stop a recipe that computes on its own for longer than `REHEARSAL` CPU seconds, where the system can."""
    here = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not here:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError("it computes for too long")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, REHEARSAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def rehearsed(recipe: OldRecipe) -> list[Study]:
    """Return the studies a recipe asks for, in order; it must ask for at least one."""
    from giantstep.figures.style import style

    with rehearsing() as asked:
        try:
            with _cut_short(), style(), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                recipe.make(Bench(quick=True, progress=False))
        except Exception as error:
            if not asked:
                raise
            _log.debug("the rehearsal of %s stopped after %d studies: %s", recipe.name, len(asked), error)
    return asked


def unpaired(study: Study) -> list[Study]:
    """Return a study whose fields vary together (DataArrays) as a few studies of one point, which files can hold."""
    import xarray

    together = {name: value for name, value in study.grid.items() if isinstance(value, xarray.DataArray)}
    if not together or "dim" in together and "dim" not in type(study.scenario).model_fields:
        return [study]
    rest = {name: value for name, value in study.grid.items() if name not in together}
    points = xarray.Dataset({f"{place}": value for place, value in enumerate(together.values())})
    flat = points.stack(point=list(points.dims))
    places = np.unique(np.linspace(0, flat.sizes["point"] - 1, MOST_STUDIES).astype(int))
    rows = [[flat[f"{column}"].values[place].item() for column in range(len(together))] for place in places]
    whole = {name for name, (_, info) in study.scenario.numeric_fields().items() if info.annotation is int}
    changes = [{n: int(v) if n in whole else v for n, v in zip(together, row)} for row in rows]
    return [replace(study, scenario=study.scenario.replace(change), grid=rest) for change in changes]


def distinct(studies: Sequence[Study]) -> list[Study]:
    """Return studies that differ in more than the fineness of their grids; the finest stands for all of them.

    What one says of the experiment holds for all of the same scenario.
    """
    kept: dict[Any, Study] = {}
    for study in studies:
        dim = None if study.experiment else study.limit.get("dim")
        key = (study.scenario.digest(), _what(study), study.limit.get("theory"), dim, tuple(study.grid))
        known = kept.get(key)
        if known is None:
            kept[key] = study
        else:
            kept[key] = replace(max(known, study, key=_points), experiment=known.experiment or study.experiment)
    return list(kept.values())


def _what(study: Study) -> str:
    return question_name(study.scenario, study.what)


def _points(study: Study) -> int:
    return int(np.prod([np.size(value) for value in study.grid.values()], dtype=np.int64))


def study_tables(study: Study) -> dict[str, Any]:
    """Return a study as the tables of its TOML file, in strict JSON data; what has no place in a file raises."""
    from giantstep.toml import read_toml

    tables: dict[str, Any] = json_data(read_toml(study.to_toml()))
    return tables


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
