"""A result as a figure reads it: its layers, its variables, its coordinates, and what
they are called.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.errors import InputError, nearest
from giantstep.core.result.layers import called, judged_source
from giantstep.core.result.notes import missing_theories
from giantstep.core.result.provenance import has_classes, main_variables, question_of
from giantstep.core.scenario.dimensions import Dimension, dimension_named
from giantstep.core.scenario.family import DIAGNOSTICS, Question, Variable
from giantstep.tools.figures.labels import name_of, short_symbol, value_label

_NUMBERS = "fiub"
_NAMES = "UO"
"""Kinds of arrays (``dtype.kind``) that hold numbers, and that hold names."""
_BESIDE = ("_stderr", "_error", "_gap", "_z", "_twin", "_twin_stderr")
"""Endings of the columns that stand beside a variable and say more of it."""


class Reading:
    """A result as a figure reads it: trials averaged, ``source`` always there, no dims
    of length one.
    """

    def __init__(self, result: xarray.Dataset) -> None:
        if not isinstance(result, xarray.Dataset):
            what = (
                "plot takes a result of a verb (an xarray.Dataset), not"
                f" {type(result).__name__}"
            )
            raise InputError(f"{what}; of a report plot the comparison.")
        self.attrs = result.attrs
        result = over_trials(result)
        if "source" not in result.dims:
            result = _with_source(result)
        single = [
            dim for dim in result.dims if dim != "source" and result.sizes[dim] == 1
        ]
        self.data = _with_complex_names(result.squeeze(single))
        self.sources = [str(source) for source in self.data["source"].values]
        self.judged = judged_source(self.data)
        """The layer that the experiment is compared with; another one is drawn thinly
        beside it.
        """
        if self.judged in self.sources:
            self.main = self.judged
        else:
            self.main = self.sources[0]
        """The layer to show where only one can be."""
        self.fine: dict[tuple[str, str], xarray.Dataset] = {}
        """Layer and coordinate -> the limit on a fine grid along it, with the dims of
        `data` but for ``source`` (`curves.ask_fine_limit`).
        """
        self.all_samples: xarray.DataArray | None = None
        """Samples per dimension that the method of every entry has seen, where they are
        the horizontal axis (`curves.count_samples`).
        """

    # -- Layers ------------------------------------------------------------------------

    @property
    def is_compared(self) -> bool:
        """Whether an experiment stands beside a limit."""
        return "experiment" in self.sources and self.main != "experiment"

    def called(self, source: str) -> str:
        """Return what a legend calls a layer."""
        return called(self.data, source)

    def layer(self, columns: Any, source: str | None = None) -> Any:
        """Return one layer of a variable (or of several), the one to show if left out;
        some have no layers.
        """
        if "source" in columns.dims:
            return columns.sel(source=source or self.main)
        return columns

    def is_absent(self, name: str, source: str) -> bool:
        """Tell whether an engine does not answer this variable at all (it is NaN
        everywhere).
        """
        values = self.layer(self.data[name], source).values.astype(float)
        return bool(np.all(np.isnan(values))) and len(self.sources) > 1

    def has_no_theory(self, source: str, point: dict[str, int]) -> bool:
        """Tell whether a curve has no theory at any of its points: there is nothing
        that was not computed.
        """
        refused = missing_theories(self.attrs)
        if not refused or source == "experiment":
            return False
        status = self.layer(self.data["status"], source).isel(
            point, missing_dims="ignore"
        )
        return bool(np.isin(status.values, refused).all())

    # -- Variables ---------------------------------------------------------------------

    def chosen(self, variables: str | Sequence[str] | None) -> list[str]:
        """Return the variables asked for, or those the family shows by default."""
        drawable = [
            str(name)
            for name, data in self.data.data_vars.items()
            if data.dtype.kind in _NUMBERS + _NAMES
        ]
        beside = {
            f"{name}{ending}" for name in self.data.data_vars for ending in _BESIDE
        }
        known = [
            name
            for name in drawable
            if self.data[name].dtype.kind in _NUMBERS
            and name not in DIAGNOSTICS
            and name not in beside
        ]
        if variables is None:
            return self._shown_by_default(known)
        if isinstance(variables, str):
            wanted = [variables]
        else:
            wanted = list(variables)
        for name in wanted:
            if name not in drawable:
                hint = nearest(name, drawable)
                raise InputError(
                    f"There is no variable `{name}` in the result{hint}; it has"
                    f" {', '.join(known)}."
                )
        if not wanted:
            raise InputError("plot needs at least one variable.")
        return wanted

    def _shown_by_default(self, known: Sequence[str]) -> list[str]:
        """Return the variables that the family shows, of those in the result."""
        if not known:
            raise InputError("The result has no variable that can be drawn.")
        shown = [name for name in main_variables(self.attrs) if name in known]
        # of real labels there is no fraction of wrong ones: such a variable is NaN
        answered = [
            name
            for name in shown
            if np.isfinite(self.data[name].values.astype(float)).any()
        ]
        return answered or shown[:1] or list(known[:1])

    def question(self) -> Question | None:
        """Return the question the result answers, where the result knows it."""
        return question_of(self.attrs)

    def variable(self, name: str) -> Variable | None:
        """Return what the question declares of a variable, where the result knows
        it.
        """
        question = self.question()
        if question is None:
            return None
        return next((v for v in question.variables if v.name == name), None)

    def classes(self) -> bool | None:
        """Tell whether the labels of the scenario are classes; None where they vary or
        nobody knows.
        """
        return has_classes(self.data.assign_attrs(self.attrs))

    # -- Dimensions --------------------------------------------------------------------

    def dimension(self, name: str) -> Dimension:
        """Return what is declared of a dimension, by the question where the result
        knows it.
        """
        question = self.question()
        if question is None:
            return dimension_named(name)
        return question.dimension(name)

    def coordinate(self, dim: str) -> str | None:
        """Return the coordinate with the numbers along a dimension, or None where there
        are only names.
        """
        lines = [str(name) for name, c in self.data.coords.items() if c.dims == (dim,)]
        numbers = [name for name in lines if self.data[name].dtype.kind in "fiu"]
        if numbers:
            if dim in numbers:
                return dim
            return numbers[0]
        if not lines:
            return dim
        return None

    def count(self, dims: Iterable[str]) -> int:
        """Return how many entries dimensions have together."""
        return math.prod(self.data.sizes[dim] for dim in dims)

    def is_field(self, dim: str) -> bool:
        """Tell whether a field of the grid varies along a dimension."""
        return "converged" in self.data and dim in self.data["converged"].dims

    def is_line(self, dim: str) -> bool:
        """Tell whether a line may join neighbours along a dimension."""
        declared = self.dimension(dim)
        return declared.joined and declared.role != "entries"

    # -- Words -------------------------------------------------------------------------

    def label(self, point: dict[str, int]) -> str:
        """Return the legend entry of a point: ``lambda = 0.1, relu``."""
        return ", ".join(self._label_at(dim, place) for dim, place in point.items())

    def _label_at(self, dim: str, place: int) -> str:
        """Return what the legend says of a place along one dimension."""
        name = self.coordinate(dim)
        if name is None or name not in self.data.coords:
            values = self.data.coords.get(dim)
            if values is None:
                return f"{name_of(dim)} {place + 1}"
            if dimension_named(dim).role == "curve":
                return f"{dim} = {values.values[place]}"
            return str(values.values[place])
        value = self.data[name].values[place]
        number = value_label(value)
        if dimension_named(dim).role == "trajectory":
            unit = self.dimension(dim).label.split()[0]
            if value == 1:
                unit = unit.removesuffix("s")
            return f"after {number} {unit}"
        if is_of_variable(dim):
            if dim.endswith("_2"):
                return f"second {dim.removesuffix('_2')} {number}"
            return f"{dim} {number}"
        return f"{short_symbol(self.data[name], name)} = {number}"


def is_of_variable(dim: str) -> bool:
    """Tell whether a dimension belongs to a variable: it is none of the grid's, and not
    drawn like one either.
    """
    return dimension_named(dim).role != "values"


# -- Results in the form that a figure reads -------------------------------------------


def _with_source(result: xarray.Dataset) -> xarray.Dataset:
    """Return the result of one engine with that engine as its only layer."""
    # an old file does not name its engine: only an experiment has standard errors
    has_errors = any(str(name).endswith("_stderr") for name in result.data_vars)
    if has_errors:
        guess = "experiment"
    else:
        guess = "limit"
    engine = str(result.attrs.get("engine", guess))
    return result.drop_vars("source", errors="ignore").expand_dims(source=[engine])


def _with_complex_names(result: xarray.Dataset) -> xarray.Dataset:
    """Give dimensions of complex points their numbers: names such as ``1+1i``, or the
    part that varies alone.
    """
    for dim in map(str, list(result.dims)):
        both = [f"{dim}_real", f"{dim}_imag"]
        if not set(both) <= set(result.coords):
            continue
        parts = [result[name].values for name in both]
        varying = [part for part in parts if np.ptp(part) > 0]
        if len(varying) == 1:
            values = varying[0]
        else:
            values = np.array([_complex_name(re, im) for re, im in zip(*parts)])
        result = result.drop_vars([*both, dim]).assign_coords({dim: values})
    return result


def _complex_name(real: float, imaginary: float) -> str:
    if imaginary:
        return f"{real:g}{imaginary:+g}i"
    return f"{real:g}"


def over_trials(result: xarray.Dataset) -> xarray.Dataset:
    """Return means over the trials of a result that kept them, with their standard
    errors; another result as it is.
    """
    if "trial" not in result.dims:
        return result
    averaged = result.copy()
    for name, values in result.data_vars.items():
        if "trial" not in values.dims:
            continue
        averaged[name] = values.mean("trial", keep_attrs=True)
        if f"{name}_stderr" not in result and values.dtype.kind == "f":
            averaged[f"{name}_stderr"] = values.std("trial", ddof=1) / np.sqrt(
                values.notnull().sum("trial")
            )
    return averaged.drop_dims("trial", errors="ignore")
