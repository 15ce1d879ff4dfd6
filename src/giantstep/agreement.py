"""Agreement of limit and experiment as a number: gaps, z-scores, and a report of what they could have shown.

The z-score is Student's t of the gap over the joint standard error of both sides, turned into the normal
score with the same tail probability, so that 5 trials and 500 trials read alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from giantstep._names import callable_module
from giantstep.errors import InputError, bad_field
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

    from giantstep.family import Question

CHANCE = 1e-3
"""How often the line of a report is passed where limit and experiment agree."""

BLIND = 0.1
"""Relative gap that every agreement should be able to see; a report says how many trials it takes where one cannot."""

_ROUNDING = 1e-9
"""Precision, relative to the variable's largest entry at a grid point, below which numbers are the same."""

_ZERO = 1e-14
"""Absolute precision below which a number is zero."""


def normal_score(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Return the normal score with the tail probability of Student's t; infinite `freedom` returns `t`.

    >>> round(float(normal_score(2.776445, 4)), 3)   # the 97.5% point of Student's t
    1.96
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    size = np.abs(t)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = -special.ndtri_exp(_log_tail(size, np.where(np.isinf(freedom), 1.0, freedom)))
        score = np.where(np.isinf(size) | np.isinf(freedom), size, np.maximum(score, 0.0))
    return np.where(freedom > 0, np.copysign(score, t), np.nan)


def _log_tail(t: Floats, freedom: Floats) -> Floats:
    """Return log P(T > t) for t >= 0, also where the probability itself is too small for a float."""
    tail = special.stdtr(freedom, -t)
    # P(T > t) = I_x(a, 1/2)/2 with x = freedom/(freedom + t^2), a = freedom/2; leading term of its series
    a, ratio = freedom / 2, t**2 / freedom
    leading = -a * np.log1p(ratio) - 0.5 * np.log1p(1 / ratio) - np.log(2 * a) - special.betaln(a, 0.5)
    series = -np.log1p(-(a + 0.5) / (a + 1) / (1 + ratio))
    return np.where(tail > 1e-280, np.log(np.maximum(tail, 1e-300)), leading + series)


def student_line(line: float, freedom: ArrayLike) -> Floats:
    """Return the t that has the normal score `line`: the inverse of `normal_score`."""
    freedom = np.asarray(freedom, float)
    t = -special.stdtrit(np.where(np.isinf(freedom), 1e10, freedom), special.ndtr(-line))
    return np.where(np.isinf(freedom), line, t)


def chance_line(points: int) -> float:
    """Return the |z| that the largest of so many normal scores passes once in 1,000.

    >>> round(chance_line(1), 2)
    3.29
    """
    each = -np.expm1(np.log1p(-CHANCE) / max(points, 1))
    return float(-special.ndtri(each / 2))


def trials_for_gap(spread: ArrayLike, relative: float, points: int = 1, power: float = 0.5) -> Floats:
    """Return the trials with which a relative gap passes the line of so many points with probability `power`.

    `spread` is the standard deviation of one trial over the mean; NaN where there is none.

    >>> float(trials_for_gap(0.1, 0.05)), float(trials_for_gap(0.1, 0.05, power=0.9))
    (50.0, 88.0)
    """
    spread = np.asarray(spread, dtype=float)
    line, extra = chance_line(points), float(special.ndtri(power))
    low, high = np.full(spread.shape, 1.0), np.full(spread.shape, 2.0**40)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        sees = (student_line(line, middle - 1) + extra) * spread <= relative * np.sqrt(middle)
        low, high = np.where(sees, low, middle), np.where(sees, middle, high)
    return np.where(np.isfinite(spread), high, np.nan)


def combine(limit: xarray.Dataset, experiment: xarray.Dataset, question: Question) -> xarray.Dataset:
    """Lay the two results of one question over each other, with ``_gap`` and ``_z`` of each variable."""
    import xarray

    data: dict[str, Any] = {}
    for variable in question.variables:
        name = variable.name
        if name not in limit and name not in experiment:
            continue
        low, high = (_side(side, other, name) for side, other in ((limit, experiment), (experiment, limit)))
        data[name] = _stack(low, high)
        if name not in limit or name not in experiment or name + "_stderr" not in experiment:
            continue
        exact = xarray.zeros_like(low).where(low.notnull(), 0.0)
        errors = limit.get(name + "_stderr", exact), experiment[name + "_stderr"]
        low_error, high_error = xarray.align(*errors, join="outer")
        data[name + "_stderr"] = _stack(low_error, high_error).assign_attrs(high_error.attrs)
        if variable.compared:
            low, high = xarray.align(low, high, join="outer")
            freedoms = _freedom(limit), _freedom(experiment)
            gap, z = _gap_and_z(low, high, low_error, high_error, freedoms, len(variable.dims))
            if variable.counted:
                unseen = (high == 0) & (high_error == 0) & (low * (freedoms[1] + 1) < 3)
                z = z.where(~unseen, 0.0)
            data[name + "_gap"] = gap.assign_attrs(long_name=f"{name}: experiment minus limit")
            data[name + "_z"] = z.assign_attrs(long_name=f"{name}: gap in standard errors, as a normal score")
    for name in ("converged", "status"):
        data[name] = _stack(limit[name], experiment[name])
    data.update({name: side[name] for side in (limit, experiment) for name in _ONE_SIDED if name in side})
    return xarray.Dataset(data)


_ONE_SIDED = ("residual", "iterations", "trials_done")


def _side(side: xarray.Dataset, other: xarray.Dataset, name: str) -> xarray.DataArray:
    import xarray

    missing = "" if name in other and other[name].dtype.kind in "UO" else np.nan
    return side[name] if name in side else xarray.full_like(other[name], missing)


def _stack(low: xarray.DataArray, high: xarray.DataArray) -> xarray.DataArray:
    import xarray

    sources = xarray.IndexVariable("source", ["limit", "experiment"])
    how: Any = {"join": "outer", "combine_attrs": "override", "coords": "minimal", "compat": "override"}
    return xarray.concat([low, high], sources, **how).transpose("source", *high.dims)


def _freedom(side: xarray.Dataset) -> float:
    runs = side.attrs.get("trials", side.attrs.get("replicates"))  # a sampled limit has independent runs, too
    return float("inf") if runs is None else float(runs) - 1


def _gap_and_z(
    low: xarray.DataArray,
    high: xarray.DataArray,
    low_error: xarray.DataArray,
    high_error: xarray.DataArray,
    freedoms: tuple[float, float],
    own: int,
) -> tuple[xarray.DataArray, xarray.DataArray]:
    gap = high - low
    low_square, high_square = low_error.values**2, high_error.values**2
    size = np.fmax(np.abs(low.values), np.abs(high.values))
    entries = tuple(range(size.ndim - own, size.ndim))
    high_square = _with_spread(high_square, entries)
    floor = (_ROUNDING * np.fmax.reduce(size, axis=entries, keepdims=True) + _ZERO) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        t = gap.values / np.sqrt(low_square + high_square + floor)
        # Welch and Satterthwaite
        freedom = (low_square + high_square) ** 2 / (low_square**2 / freedoms[0] + high_square**2 / freedoms[1])
    freedom = np.where(low_square > 0, freedom, freedoms[1])
    score = normal_score(t, freedom)
    return gap, gap.copy(data=np.where((gap.values == 0) & np.isfinite(high_error.values), 0.0, score))


def _with_spread(square: Floats, entries: tuple[int, ...]) -> Floats:
    """Give entries without any spread, among others of the variable that have some, the smallest of theirs.

    A few trials that happen to count the same number of eigenvalues in one bin have not measured it exactly.
    """
    spread = np.where(square > 0, square, np.inf)
    smallest = spread.min(axis=entries, keepdims=True) if entries else spread
    return np.where((square == 0) & np.isfinite(smallest), smallest, square)


@dataclass(frozen=True)
class Row:
    """Agreement of one variable.

    Attributes
    ----------
    variable : its name.
    points : numbers compared (grid points times the variable's own entries).
    largest_z : largest |z| among them.
    chance_z : the |z| that so many points pass by chance once in 1,000.
    largest_relative_gap : largest |gap|, relative to the largest |limit| of that variable at that grid point.
    smallest_visible : relative gap that would have reached the line, the median over the points.
    failed_gap : largest relative gap among the numbers whose |z| is beyond the line; 0 where there is none.
    """

    variable: str
    points: int
    largest_z: float
    chance_z: float
    largest_relative_gap: float
    smallest_visible: float
    failed_gap: float

    def passes(self, allow: float = 0.0) -> bool:
        """Tell whether no number beyond the line has a relative gap above `allow`; nothing compared fails."""
        return self.points > 0 and self.failed_gap <= allow

    def cells(self, allow: float) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        scores = (f"{score:.2f}" for score in (self.largest_z, self.chance_z))
        gaps = (f"{gap:.2%}" for gap in (self.largest_relative_gap, self.smallest_visible))
        numbers = ("-" if text.startswith("nan") else text for text in (*scores, *gaps))
        verdict = "yes" if self.passes(allow) else "NO" if self.points else "nothing compared"
        return self.variable, str(self.points), *numbers, verdict


@dataclass(frozen=True)
class Agreement:
    """The report of a comparison: one row per variable; printing it gives a table."""

    rows: tuple[Row, ...]
    trials: int

    def passes(self, allow: float = 0.0) -> bool:
        """Tell whether every variable agrees: no |z| beyond the line with a relative gap above `allow`."""
        if isinstance(allow, bool) or not isinstance(allow, int | float) or not allow >= 0:
            raise bad_field("allow", allow, "a number at least 0")
        return bool(self.rows) and all(row.passes(allow) for row in self.rows)

    def failures(self, allow: float = 0.0) -> list[str]:
        """Return the names of the variables that do not agree."""
        return [row.variable for row in self.rows if not row.passes(allow)]

    def trials_needed(self, relative: float = 0.01, power: float = 0.9) -> dict[str, int]:
        """Return the trials with which a comparison like this one would see a relative gap, for each variable.

        A gap is seen where it passes the line of that variable, with probability `power`; a variable without spread is
        left out. `giantstep.trials_needed` asks the same before anything was compared.
        """
        needed = {}
        for row in self.rows:
            if np.isfinite(row.smallest_visible) and row.smallest_visible > 0 and self.trials > 1:
                line = float(student_line(row.chance_z, self.trials - 1))
                spread = row.smallest_visible * np.sqrt(self.trials) / line
                needed[row.variable] = int(trials_for_gap(spread, relative, row.points, power))
        return needed

    def to_dict(self, allow: float = 0.0) -> dict[str, Any]:
        """Return the report as strict JSON data (None for NaN, "inf" for infinity)."""
        from giantstep.jsondata import json_data

        rows = [{**json_data(asdict(row)), "passes": row.passes(allow)} for row in self.rows]
        return {"trials": self.trials, "allow": allow, "passes": self.passes(allow), "variables": rows}

    def table(self, allow: float = 0.0) -> str:
        """Return the report as an aligned table."""
        head = ("variable", "points", "largest |z|", "by chance", "largest gap", "visible gap", "agrees")
        cells = [head, *(row.cells(allow) for row in self.rows)]
        name, *numbers, agrees = (max(map(len, column)) for column in zip(*cells))
        form = "  ".join([f"{{:<{name}}}", *(f"{{:>{width}}}" for width in numbers), f"{{:<{agrees}}}"])
        lines = [form.format(*row).rstrip() for row in cells]
        if self.trials < 2:
            lines.append("One trial has no standard error, so nothing can be compared; take more.")
        blind = {row.variable for row in self.rows if row.passes(allow) and row.smallest_visible > BLIND}
        for variable, trials in self.trials_needed(BLIND).items():
            if variable in blind:
                lines.append(f"{variable}: {trials} trials would show a gap of {BLIND:.0%}, {self.trials} cannot.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def agreement(result: xarray.Dataset) -> Agreement:
    """Return the report of a result of `giantstep.compare`.

    For each variable: how many numbers were compared, the largest |z| beside the one which so many numbers
    pass by chance once in 1,000, the largest relative gap, and the smallest one that could have been seen.

    The score z is Student's t of the gap over the joint standard error of both sides, turned into a normal score.
    A variable `passes` where its largest |z| stays below that line, or its gap below `allow`, the relative
    finite-size term you grant.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> report = gs.agreement(gs.compare(s, dim=60, trials=5))
    >>> report.rows[0].variable, report.rows[0].points
    ('test_error', 1)
    >>> all(row.passes(allow=0.1) for row in report.rows)
    True
    """
    if getattr(result, "attrs", {}).get("engine") != "comparison":
        raise InputError("agreement takes a result of compare; predict and simulate have one side only.")
    trials = int(result.attrs["trials"])
    columns = [str(name) for name in result.data_vars]
    names = [name[:-2] for name in columns if name.endswith("_z") and f"{name[:-2]}_gap" in columns]
    return Agreement(tuple(_row(result, name, trials) for name in names), trials)


def _row(result: xarray.Dataset, name: str, trials: int) -> Row:
    gap, limit = abs(result[name + "_gap"]), abs(result[name].sel(source="limit"))
    own = [dim for dim in gap.dims if dim not in result["converged"].dims]
    with np.errstate(invalid="ignore"):
        scale = (limit.max(own) if own else limit).broadcast_like(gap).transpose(*gap.dims).values
    error = np.sqrt((result[name + "_stderr"].transpose("source", *gap.dims).values ** 2).sum(axis=0))
    z, size = np.abs(result[name + "_z"].values), gap.values
    compared = ~np.isnan(z)
    points = int(compared.sum())
    if not points:
        return Row(name, 0, np.nan, np.nan, np.nan, np.nan, np.inf)
    line = chance_line(points)
    z, size, scale, error = z[compared], size[compared], scale[compared], error[compared]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(size == 0, 0.0, size / scale)
        visible = student_line(line, trials - 1) * error / scale
    beyond = z > line
    finite, visible = relative[np.isfinite(relative)], visible[np.isfinite(visible) & (error > 0)]
    return Row(
        variable=name,
        points=points,
        largest_z=float(z.max()),
        chance_z=line,
        largest_relative_gap=float(finite.max()) if finite.size else np.nan,
        smallest_visible=float(np.median(visible)) if visible.size else np.nan,
        failed_gap=float(relative[beyond].max()) if beyond.any() else 0.0,
    )


callable_module(__name__, agreement)
