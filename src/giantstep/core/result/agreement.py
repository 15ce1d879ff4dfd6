"""Agreement of limit and experiment as a number: what `giantstep.agreement` returns.

The z-score is Student's t of the gap over the joint standard error of both sides,
turned into the normal score with the same tail probability, so that 5 trials and 500
trials read alike. `gaps` makes a row of each variable, `report` a verdict of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray

from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.types import Booleans
from giantstep.core.result.gaps import agreement_row
from giantstep.core.result.layers import approximations, called, judged_source
from giantstep.core.result.notes import missing_theories, notes_in
from giantstep.core.result.provenance import question_of
from giantstep.core.result.report import Agreement
from giantstep.core.result.verdicts import (
    ComparedTheory,
)
from giantstep.core.scenario.checks import check_number
from giantstep.core.scenario.family import Question


def agreement(
    result: xarray.Dataset,
    variables: str | Sequence[str] | None = None,
    *,
    scale: Mapping[str, float] | None = None,
) -> Agreement:
    """Return the report of a result of `giantstep.compare`.

    For each variable: how many numbers were compared, the largest |z| beside the one
    which so many numbers pass by chance once in 1,000, the largest relative gap, and
    the smallest one that could have been seen.

    The score z is Student's t of the gap over the joint standard error of both sides,
    turned into a normal score. A variable `passes` where its largest |z| stays below
    that line, or its gap below `allow`, the relative finite-size term you grant. A gap
    is relative to the variable at the same point and time. A variable that the scenario
    does not have, as its question declares, is left out.

    Parameters
    ----------
    result : what `compare` returned.
    variables : a name or several: the report is about these alone. If left out, the
        verdict is about the variables that the question shows (the errors), and the
        order parameters follow below it.
    scale : variable -> what its gaps are relative to where it is smaller: a cosine that
        stays near 0 is judged on the scale of the cosines one cares about.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> both = gs.compare(s, dim=60, trials=5)
    >>> report = gs.agreement(both)
    >>> [row.variable for row in report.judged]
    ['test_error', 'train_error']
    >>> all(row.passes(allow=0.1) for row in report.rows)
    True
    >>> [row.variable for row in gs.agreement(both, "norm").rows]
    ['norm']
    >>> row, small = (
    ...     gs.agreement(both, "norm", scale={"norm": 10.0}).rows[0],
    ...     gs.agreement(both, "norm").rows[0],
    ... )
    >>> row.visible_gap < small.visible_gap
    True
    """
    attrs = getattr(result, "attrs", {})
    if attrs.get("engine") != "comparison":
        raise InputError(
            "agreement takes a result of compare; predict and simulate have one side"
            " only."
        )
    trials = int(attrs["trials"])
    question = question_of(attrs)
    compared = _compared(result, question)
    own: tuple[str, ...] = ()
    if question is not None and variables is None:
        own = tuple(name for name in question.plot if name in compared)
    names = list(dict.fromkeys([*own, *_chosen(variables, compared)]))
    least = dict(scale or {})
    _check_scale(least, names)
    theory = ComparedTheory(
        name=called(result, judged_source(result)),
        approximations=approximations(attrs),
        uncorrected=attrs.get("finite_size", 1) == 0,
        fixed_dim=bool(attrs.get("fixed_dim", 0)),
        without_twin=str(attrs.get("without_twin", "")),
    )
    rows = [agreement_row(result, name, trials, least.get(name, 0.0)) for name in names]
    return Agreement(
        rows=tuple(rows),
        trials=trials,
        own=own,
        theory=theory,
        notes=(*_without_theory(result), *notes_in(attrs)),
    )


def _compared(result: xarray.Dataset, question: Question | None) -> list[str]:
    """Return the variables that were compared; one that the scenario does not have is
    left out.
    """
    absent = []
    if question is not None:
        absent = [variable.name for variable in question.variables if variable.absent]
    names = []
    for column in map(str, result.data_vars):
        name = column.removesuffix("_z")
        if name == column or f"{name}_gap" not in result.data_vars:
            continue
        if name not in absent or bool(result[column].notnull().any()):
            names.append(name)
    return names


def _check_scale(least: Mapping[str, float], names: Sequence[str]) -> None:
    """Refuse a scale of what is not judged, or one that is no size."""
    for name, size in least.items():
        if name not in names:
            allowed = f"among the variables judged ({', '.join(names)})"
            raise bad_field("scale", name, allowed)
        check_number(
            f"scale.{name}", size, "a number above 0", lambda value: 0 < value < np.inf
        )


def _without_theory(result: xarray.Dataset) -> list[str]:
    """Say of points that have no theory which they are, and why: they are in no row of
    the report.
    """
    missing = missing_theories(result.attrs)
    if not missing:
        return []
    status = result["status"].sel(source=judged_source(result))
    sentences = []
    for reason in missing:
        there = status.values == reason
        if there.any():
            places = _named_places(status, there)
            sentences.append(f"No theory: {places} ({reason.removesuffix('.')}).")
    return sentences


def _named_places(status: xarray.DataArray, there: Booleans) -> str:
    """Return the names along a grid that some of its points have: ``scenario = same``;
    else how many they are.
    """
    parts = []
    for axis, dim in enumerate(map(str, status.dims)):
        places = np.unique(np.nonzero(there)[axis])
        is_named = dim in status.coords and status[dim].dtype.kind in "UO"
        # what all points have tells none of them
        if is_named and len(places) < status.sizes[dim]:
            names = " and ".join(map(str, status[dim].values[places]))
            parts.append(f"{dim} = {names}")
    return ", ".join(parts) or f"{int(there.sum())} of {there.size} points"


def _chosen(variables: str | Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the variables asked for, all that were compared if left out."""
    if variables is None:
        return list(known)
    names = [variables] if isinstance(variables, str) else list(variables)
    allowed = f"among those compared ({', '.join(known) or 'there are none'})"
    if not names:
        raise bad_field("variables", names, allowed)
    for name in names:
        if name not in known:
            raise bad_field("variables", name, allowed + nearest(name, known))
    return list(dict.fromkeys(names))


def check_variables(variables: str | Sequence[str] | None, question: Question) -> None:
    """Refuse names that the comparison of a question does not have, before it is
    made.
    """
    both = [variable for variable in question.variables if len(variable.engines) == 2]
    _chosen(variables, [variable.name for variable in both if variable.compared])
