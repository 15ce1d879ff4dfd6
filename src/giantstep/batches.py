"""The limit over a grid, batch by batch: one call of the family for all points that differ in numbers only."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.dimensions import dimension_named
from giantstep.family import Answer, Variable
from giantstep.problems import Problems
from giantstep.progress import Progress, ProgressOption
from giantstep.request import Request
from giantstep.types import Array, Booleans, Indices, Points

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")


def solve_limit(
    request: Request, settings: Mapping[str, Any], progress: ProgressOption, *, bare: bool = False
) -> tuple[xarray.Dataset, Problems]:
    """Return the limit at every point of the grid, and what went wrong.

    Parameters
    ----------
    request : what is asked.
    settings : the prepared settings of the question.
    bare : leave out the finite-size correction.
    """
    start = time.perf_counter()
    grid = request.grid
    own_settings = request.for_engine("limit", settings)
    answers = []
    with Progress(progress, grid.size, "limit") as bar:
        for batch in grid.batches():
            points = _bare(batch.points) if bare and not grid.dim_is_field else batch.points
            answers.append((batch.index, batch.scenario.limit(points, request.what, own_settings)))
            bar.advance(len(batch.index))
    result, problems = collect_answers(answers, request, settings)
    _log.debug(
        "limit of %s, %s: %d of %d points solved in %.3g s",
        grid.scenario.family,
        request.what,
        grid.size - len(problems.reasons),
        grid.size,
        time.perf_counter() - start,
    )
    return result, problems


def collect_answers(
    answers: Sequence[tuple[Indices, Answer]], request: Request, settings: Mapping[str, Any]
) -> tuple[xarray.Dataset, Problems]:
    """Lay answers at points of the grid out as one table."""
    from giantstep.result import Table, merge_facts, provenance

    grid, question = request.grid, request.question
    table = Table(grid, question, "limit")
    problems = Problems("limit", grid.size)
    for index, answer in answers:
        status = np.asarray(answer.status)
        failed = status != ""
        for name, values in answer.values.items():
            column = _without_failed(table.variable(name), np.asarray(values), failed)
            table.put(name, index, column)
        table.put_coords(answer.coords)
        for name, column in _diagnostics(answer, failed).items():
            table.put_diagnostic(name, index, column)
        problems.reasons += [str(reason) for reason in status[failed]]
        problems.remarks += answer.warnings
    if not table.pieces:
        table.put_nothing(settings)
    shown = {**request.shown(), "tolerance": request.tolerance}
    theory = request.theory or next(iter(grid.scenario.theories))
    facts = merge_facts([answer.attrs for _, answer in answers])
    attrs = provenance(grid.scenario, request.what, "limit", shown, {"theory": theory, **facts})
    return table.dataset(grid.scenario, trials_kept=False, settings=settings, attrs=attrs), problems


def _bare(points: Points) -> Points:
    return {**points, "dim": np.full_like(points["dim"], np.inf)}


def _without_failed(variable: Variable, values: Array, failed: Booleans) -> Array:
    """Blank the points that failed; a trajectory keeps what came before it diverged."""
    if not failed.any() or "trajectory" in (dimension_named(dim).role for dim in variable.dims):
        return values
    names = values.dtype.kind in "UO"
    values = values.astype(object if names else np.float64)
    values[failed] = "" if names else np.nan
    return values


def _diagnostics(answer: Any, failed: Booleans) -> dict[str, Array]:
    return {
        "converged": ~failed,
        "residual": np.asarray(answer.residual, dtype=np.float64),
        "iterations": np.asarray(answer.iterations, dtype=np.int64),
        "status": np.asarray(answer.status),
    }
