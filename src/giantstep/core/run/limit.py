"""The limit over a grid, batch by batch: one call of the family for all points that
differ in numbers only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.deadline import TimeUp, deadline
from giantstep.core.base.errors import Code, InputError, NotFiniteError
from giantstep.core.base.progress import (
    Progress,
    ProgressOption,
    counted,
    duration,
    with_time,
)
from giantstep.core.base.types import Array, Indices, Points
from giantstep.core.result.notes import notes_in
from giantstep.core.run.problems import Problems, out_of_proportion, worse_than_nothing
from giantstep.core.run.reach import notes_on_reach
from giantstep.core.run.request import Request
from giantstep.core.run.returns import answer_of
from giantstep.core.scenario.answer import Answer, blank_array
from giantstep.core.scenario.checks import check_number
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.several import by_name

if TYPE_CHECKING:
    import xarray

    from giantstep.core.result.table import ResultTable
    from giantstep.core.scenario.model import Scenario

_GIVEN_UP = (TimeUp, MemoryError, ArithmeticError, ValueError)
"""What may flag a point rather than end the call (a ValueError: an array too large for
NumPy, a singular matrix).
"""

_UNANSWERED = (Code.NO_THEORY, Code.NEEDS_DIMENSION)
"""Refusals of one batch that leave the others of a table what they are."""

_log = logging.getLogger("giantstep")


def solve_limit(
    request: Request,
    settings: Mapping[str, Any] | None,
    progress: ProgressOption,
    *,
    bare: bool = False,
    cpu_limit: float = math.inf,
) -> tuple[xarray.Dataset, Problems]:
    """Return the limit at every point, `bare` without its finite-size correction, and
    what went wrong.
    """
    start = time.perf_counter()
    cpu_start = time.thread_time()
    grid = request.grid
    request.refuse_limit()
    try:
        with deadline(cpu_limit * grid.size, time.thread_time):
            settings = request.prepare() if settings is None else settings
    except _GIVEN_UP as error:
        reason = _reason_of(error, grid.scenario, request.what)
        unsolved = Answer.unsolved(grid.size, reason)
        return collect_answers(
            [(np.arange(grid.size), unsolved)], request, request.settings
        )
    # what was spent on the settings is shared by all points
    cpu_left = cpu_limit - (time.thread_time() - cpu_start) / grid.size
    own_settings = request.for_engine("limit", settings)
    answers: list[tuple[Indices, Answer]] = []
    refusals: list[tuple[Indices, InputError]] = []
    seconds = sum(
        batch.scenario.seconds(request.what) * len(batch.index)
        for batch in grid.batches()
    )
    with Progress(progress, grid.size, with_time("limit", seconds)) as bar:
        for batch in grid.batches():
            scenario = batch.scenario
            points = batch.points
            if bare and not grid.dim_is_field:
                points = {**points, "dim": np.full_like(points["dim"], np.inf)}
            try:
                with counted(bar, len(batch.index)):
                    solved = _solve_batch(
                        scenario, points, request.what, own_settings, cpu_left
                    )
            except InputError as error:
                if error.code not in _UNANSWERED:
                    raise
                refusals.append((batch.index, error))
                continue
            for rows, answer in solved:
                part = {name: column[rows] for name, column in points.items()}
                notes = notes_on_reach(request, scenario, part, answer, own_settings)
                if notes:
                    answer.attrs["notes"] = [*notes_in(answer.attrs), *notes]
                answers.append((batch.index[rows], answer))
    if refusals and not answers:
        raise refusals[0][1]
    # other batches of the same table have a theory
    for index, refusal in refusals:
        answers.append((index, Answer.unsolved(len(index), str(refusal))))
    missing = dict.fromkeys(str(refusal) for _, refusal in refusals)
    result, problems = collect_answers(answers, request, settings, missing)
    count = grid.size - len(problems.reasons)
    _log.debug(
        f"limit of {grid.scenario.family}, {request.what}: {count} of {grid.size}"
        f" points solved in {time.perf_counter() - start:.3g} s"
    )
    return result, problems


def ask_again(
    result: xarray.Dataset,
    changes: Mapping[str, Any],
    source: str,
    *,
    trials: int | None = None,
    progress: ProgressOption = False,
) -> xarray.Dataset:
    """Return a layer of a result, "limit" or "theory" (with starts for `trials`), with
    other values of some fields.
    """
    from giantstep.core.result.provenance import fields_of

    scenarios, fields = fields_of(result)
    first = next(iter(by_name(scenarios).values()))
    what = str(result.attrs["what"])
    given = json.loads(str(result.attrs["settings"]))
    names = [name for name in first.questions[what].settings if name in given]
    general = [name for name in ("theory", "tolerance", "seed") if name in given]
    dim = None
    if "dim" not in fields and "dim" not in type(first).model_fields:
        dim = given.get("dim")
    request = Request(
        scenarios,
        {**fields, **changes},
        {name: given[name] for name in names},
        what=what,
        dim=dim,
        **{name: given[name] for name in general},
    )
    settings = request.prepare(trials=trials)
    answer, _ = solve_limit(request, settings, progress, bare=source == "limit")
    return answer


def _solve_batch(
    scenario: Scenario,
    points: Points,
    what: str,
    settings: Mapping[str, Any],
    cpu_left: float,
) -> list[tuple[Indices, Answer]]:
    """Answer a batch; where that takes too long, or more memory than there is, each of
    its points alone.
    """
    rows = np.arange(len(points["dim"]))
    try:
        with deadline(cpu_left * len(rows), time.thread_time):
            return [(rows, answer_of(scenario, points, what, settings))]
    except _GIVEN_UP as error:
        reason = _reason_of(error, scenario, what)
    if len(rows) == 1:
        unsolved = Answer.unsolved(1, reason)
        unsolved.put(rows, scenario.beforehand(points, what, settings))
        return [(rows, unsolved)]
    answers = []
    for row in rows:
        here = slice(row, row + 1)
        point = {name: column[here] for name, column in points.items()}
        (_, answer), *_ = _solve_batch(scenario, point, what, settings, cpu_left)
        answers.append((rows[here], answer))
    return answers


def checked_cpu_limit(seconds: float | None) -> float:
    """Return the seconds of CPU one point may take; the default is 15, or that of the
    environment.
    """
    limit: Any = seconds
    if seconds is None:
        limit = os.environ.get("GIANTSTEP_CPU_LIMIT", "15")
    if isinstance(limit, str):
        # what is no number is refused below, as it was written
        with contextlib.suppress(ValueError):
            limit = float(limit)
    allowed = "a number above 0 (inf is allowed)"
    return check_number("cpu_limit", limit, allowed, lambda value: value > 0)


def _reason_of(error: BaseException, scenario: Scenario, what: str) -> str:
    """Say why a point was given up; raise what a family refused, and what is a mistake
    in its code.

    Families of giantstep are tried with fields of any size, where Python's own
    arithmetic may overflow or divide by zero; in a family of somebody else that is a
    mistake until it says otherwise (`status`, `NotFiniteError`).
    """
    if isinstance(error, TimeUp):
        seconds = scenario.seconds(what)
        about = f", about {duration(seconds)}" if seconds else ""
        return (
            f"it takes too long{about}; `cpu_limit` and GIANTSTEP_CPU_LIMIT allow more"
            " seconds of CPU for a point"
        )
    # NumPy raises a ValueError where the size itself is too large a number
    is_too_large = re.match(r"Maximum allowed \w+ exceeded", str(error))
    if isinstance(error, MemoryError) or is_too_large:
        return "it needs more memory than there is"
    ours = type(scenario).__module__.partition(".")[0] == __name__.partition(".")[0]
    if isinstance(error, NotFiniteError | np.linalg.LinAlgError) or (
        ours and isinstance(error, ArithmeticError)
    ):
        words = str(error).rstrip(".").lower() or type(error).__name__
        return f"its numbers leave the range of floating point ({words})"
    raise error


def collect_answers(
    answers: Sequence[tuple[Indices, Answer]],
    request: Request,
    settings: Mapping[str, Any],
    missing: Iterable[str] = (),
) -> tuple[xarray.Dataset, Problems]:
    """Lay answers at points of the grid out as one table; `missing` are reasons of
    points that have no theory.
    """
    from giantstep.core.result.provenance import provenance
    from giantstep.core.result.table import ResultTable

    grid = request.grid
    table = ResultTable(grid, request.question, "limit")
    problems = Problems("limit", grid.size)
    for index, answer in answers:
        _put_answer(table, problems, index, answer)
    if all(table.columns[name].stands for name in table.pieces):
        table.put_nothing(settings)
    settings_shown = {**request.shown(), "tolerance": request.tolerance}
    attrs: dict[str, Any] = provenance(
        grid, request.what, "limit", settings_shown, _facts(request, answers)
    )
    if missing:
        attrs["no_theory"] = list(missing)
    notes = [note for _, answer in answers for note in notes_in(answer.attrs)]
    notes += worse_than_nothing(request, table)
    notes += out_of_proportion(request)
    if notes:
        attrs["notes"] = list(dict.fromkeys(notes))
    result = table.dataset(
        grid.scenario, trials_kept=False, settings=settings, attrs=attrs
    )
    return result, problems


def _facts(
    request: Request, answers: Sequence[tuple[Indices, Answer]]
) -> dict[str, Any]:
    """Return what the answers say of how they were made: theory, facts, what is
    approximated.
    """
    from giantstep.core.result.provenance import merge_facts

    facts: list[dict[str, Any]] = []
    approximations: dict[str, str] = {}
    for _, answer in answers:
        own = dict(answer.attrs)
        # they are sentences, one after the other, and no facts to be merged
        own.pop("notes", None)
        facts.append(own)
        approximations |= answer.approximations
    theory = request.theory or next(iter(request.grid.scenario.theories))
    merged = {"theory": theory, **merge_facts(facts)}
    if approximations:
        merged["approximations"] = approximations
    return merged


def _put_answer(
    table: ResultTable, problems: Problems, index: Indices, answer: Answer
) -> None:
    """Put the variables and the diagnostics of one answer into the table."""
    failed = np.asarray(answer.status) != ""
    for name, values in answer.values.items():
        array = np.asarray(values)
        variable = table.columns[name]
        roles = [dimension_named(dim).role for dim in variable.dims]
        # points that failed are blanked; a trajectory keeps what came before it
        # diverged
        if failed.any() and "trajectory" not in roles and not variable.stands:
            blank = blank_array(array.shape, like=array)
            is_blank = failed.reshape(-1, *[1] * len(variable.dims))
            array = np.where(is_blank, blank, array)
        table.put(name, index, array)
    table.put_coords(answer.coords)
    status = _with_silent_nans(answer, table)
    residual = np.asarray(answer.residual, dtype=np.float64)
    iterations = np.asarray(answer.iterations, dtype=np.int64)
    table.put_diagnostic("converged", index, status == "")
    table.put_diagnostic("residual", index, residual)
    table.put_diagnostic("iterations", index, iterations)
    table.put_diagnostic("status", index, status)
    problems.reasons += [str(reason) for reason in status[status != ""]]
    problems.remarks += answer.warnings


def _with_silent_nans(answer: Answer, table: ResultTable) -> Array:
    """Flag solved points where a variable is NaN that does not declare what that means
    (`Variable.absent`).
    """
    status = np.asarray(answer.status).astype(object)
    for name, values in answer.values.items():
        variable = table.columns[name]
        array = np.asarray(values)
        is_error = name != variable.name
        if array.dtype.kind != "f" or is_error or variable.absent:
            continue
        missing = np.isnan(array)
        if not missing.any():
            continue
        has_missing = missing.reshape(len(status), -1).any(axis=1)
        for point in np.flatnonzero(has_missing & (status == "")):
            if not _is_padding(missing[point]):
                status[point] = f"{name} is not a number"
    return status


def _is_padding(missing: Array) -> bool:
    """Tell whether numbers are missing only beyond the last ones: a point is padded
    where a neighbour is longer.
    """
    known = np.atleast_1d(~missing)
    if not known.any():
        return False
    ends = [int(places.max()) + 1 for places in np.nonzero(known)]
    return bool(known[tuple(map(slice, ends))].all())
