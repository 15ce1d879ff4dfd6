"""Agreement of limit and experiment as a number: gaps, z-scores, and a report of what they could have shown.

The z-score is Student's t of the gap over the joint standard error of both sides, turned into the normal
score with the same tail probability, so that 5 trials and 500 trials read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from giantstep._names import callable_module
from giantstep.display import Readable, html_table
from giantstep.errors import InputError, bad_field
from giantstep.notes import notes_in
from giantstep.types import Floats
from giantstep.verdicts import SEE, Verdict, agreeing, disagreeing, together, undecided

if TYPE_CHECKING:
    import xarray

    from giantstep.family import Question

CHANCE = 1e-3
"""How often the line of a report is passed where limit and experiment agree."""

POWER = 0.9
"""How often a gap that is called visible passes the line."""

_HEAD = ("variable", "points", "largest |z|", "by chance", "largest gap", "visible gap", "verdict")
"""Columns of the report."""

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
        sees = (student_line(line, middle - 1) + extra) * spread <= relative * np.sqrt(middle) * (1 + 1e-12)
        low, high = np.where(sees, low, middle), np.where(sees, middle, high)
    return np.where(np.isfinite(spread), high, np.nan)


def visible_gap(spread: ArrayLike, trials: int, points: int = 1, power: float = POWER) -> Floats:
    """Return the relative gap that passes the line of so many points with probability `power`: inverse of the above.

    >>> float(visible_gap(0.1, 88)) <= 0.05 < float(visible_gap(0.1, 87))
    True
    """
    passed = student_line(chance_line(points), trials - 1) + special.ndtri(power)
    return np.asarray(passed * np.asarray(spread, dtype=float) / np.sqrt(trials), dtype=np.float64)


def combine(limit: xarray.Dataset, experiment: xarray.Dataset, question: Question) -> xarray.Dataset:
    """Lay the two results of one question over each other, with ``_gap`` and ``_z`` of each variable."""
    import xarray

    from giantstep.result import asked_first

    data: dict[str, Any] = {}
    for variable in question.variables:
        name = variable.name
        if name not in limit and name not in experiment:
            continue
        low, high = (_side(side, other, name) for side, other in ((limit, experiment), (experiment, limit)))
        data[name] = _stack(low, high)
        if name + "_stderr" not in experiment:
            continue
        if name not in limit:
            data[name + "_stderr"] = _stack(
                *(_side(side, experiment, name + "_stderr") for side in (limit, experiment))
            )
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
    return xarray.Dataset(asked_first(data, question))


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

    A gap is relative to the size of the variable: its largest |limit| at that grid point, but never less than the mean
    of that over the grid, so that a variable which passes through zero is not divided by nothing.

    Attributes
    ----------
    variable : its name.
    points : numbers compared (grid points times the variable's own entries).
    largest_z : largest |z| among them.
    chance_z : the |z| that so many points pass by chance once in 1,000.
    largest_relative_gap : largest |gap|, relative to the size of the variable.
    smallest_visible : relative gap that lies on the line, the median over the points: seen every second time.
    failed_gap : largest relative gap among the numbers whose |z| is beyond the line; 0 where there is none.
    visible_gap : relative gap that passes the line nine times in ten, the median over the points.
    visible_there : the same where the largest gap is.
    trials : trials of the experiment.
    """

    variable: str
    points: int
    largest_z: float
    chance_z: float
    largest_relative_gap: float
    smallest_visible: float
    failed_gap: float
    visible_gap: float = np.nan
    visible_there: float = np.nan
    trials: int = 0

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        """Return the row of a stored agreement table: ``visible`` is the gap on the line."""
        points, trials, line = int(record["points"]), int(record["trials"]), float(record["line"])
        gap, typical, z = (float(record[name]) for name in ("largest_gap", "visible", "largest_z"))
        seen = float(typical * visible_gap(1.0, trials, points) / student_line(line, trials - 1) * np.sqrt(trials))
        return cls(str(record["variable"]), points, z, line, gap, typical, gap if z > line else 0.0, seen, seen, trials)

    def passes(self, allow: float = 0.0) -> bool:
        """Tell whether no number beyond the line has a relative gap above `allow`; nothing compared fails."""
        return self.points > 0 and self.failed_gap <= allow

    def verdict(self, see: float = SEE, allow: float = 0.0) -> Verdict:
        """Return the verdict: whether a relative gap of `see` (or of `allow`, if larger) would have been seen."""
        asked, gap = max(see, allow), self.largest_relative_gap
        numbers = (self.variable, gap, self.visible_gap, asked, self.trials)
        if not self.points:
            return undecided(*numbers, "nothing could be compared" if self.trials > 1 else "one trial has no spread")
        if not self.passes(allow):
            scores = (self.largest_z, self.chance_z)
            return disagreeing(self.variable, self.failed_gap, self.visible_gap, asked, self.trials, scores, allow)
        if gap <= asked and self.visible_gap <= asked:
            return agreeing(*numbers)
        return undecided(*numbers, self._trials_to_see(asked))

    def _trials_to_see(self, asked: float) -> int | str:
        """Return the trials that see a gap at the typical point, and where the largest gap is if that is too large.

        Where there are none: why.
        """
        visible = np.fmax(self.visible_gap, self.visible_there if self.largest_relative_gap > asked else 0.0)
        if not (np.isfinite(visible) and visible > 0 and self.trials > 1):
            return "the limit is zero" if np.isnan(self.largest_relative_gap) else "no trial differs from another"
        needed = trials_for_gap(self._spread(float(visible)), asked, self.points, POWER)
        return max(int(needed), self.trials + 1)

    def _spread(self, visible: float) -> float:
        """Return the spread of one trial that belongs to a visible gap."""
        return visible / float(visible_gap(1.0, self.trials, self.points))

    def cells(self, allow: float = 0.0, see: float = SEE) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        scores = (f"{score:.2f}" for score in (self.largest_z, self.chance_z))
        gaps = ("> 1000%" if gap > 10 else f"{gap:.2%}" for gap in (self.largest_relative_gap, self.visible_gap))
        numbers = ("-" if text.startswith("nan") else text for text in (*scores, *gaps))
        return self.variable, str(self.points), *numbers, self.verdict(see, allow).brief


@dataclass(frozen=True, repr=False)
class Agreement(Readable):
    """The report of a comparison: one row per variable; printing it gives a table with a verdict on each."""

    rows: tuple[Row, ...]
    trials: int
    notes: tuple[str, ...] = ()

    def verdicts(self, see: float = SEE, allow: float = 0.0) -> list[Verdict]:
        """Return the verdict on each variable: would a relative gap of `see` have been seen, and was there one?"""
        _check_gaps(see, allow)
        return [row.verdict(see, allow) for row in self.rows]

    def verdict(self, see: float = SEE, allow: float = 0.0) -> Verdict:
        """Return the verdict on all variables together."""
        return together(self.verdicts(see, allow), max(see, allow), self.trials)

    def passes(self, allow: float = 0.0, see: float | None = None) -> bool:
        """Tell whether nothing disagrees: no |z| beyond the line with a relative gap above `allow`.

        With `see` every variable must agree: a gap of that size would have been seen, too.
        """
        _check_gaps(SEE if see is None else see, allow)
        return bool(self.rows) and not self.failures(allow, see)

    def failures(self, allow: float = 0.0, see: float | None = None) -> list[str]:
        """Return the names of the variables that disagree; with `see` also of those which cannot tell."""
        return [
            row.variable
            for row in self.rows
            if not row.passes(allow) or (see is not None and row.verdict(see, allow).verdict != "agrees")
        ]

    def trials_needed(self, relative: float = 0.01, power: float = POWER) -> dict[str, int]:
        """Return the trials with which a comparison like this one would see a relative gap, for each variable.

        A gap is seen where it passes the line of that variable, with probability `power`; a variable without spread is
        left out. `giantstep.trials_needed` asks the same before anything was compared.
        """
        needed = {}
        for row in self.rows:
            if np.isfinite(row.visible_gap) and row.visible_gap > 0 and self.trials > 1:
                spread = row._spread(row.visible_gap)
                needed[row.variable] = int(trials_for_gap(spread, relative, row.points, power))
        return needed

    def to_dict(self, allow: float = 0.0, see: float = SEE) -> dict[str, Any]:
        """Return the report as strict JSON data (None for NaN, "inf" for infinity), with the verdicts.

        ``verdict`` and ``sentence`` are those on all variables; each entry of ``variables`` has the numbers of its
        `Row`, and ``verdict``, ``gap``, ``visible_gap``, ``asked``, ``trials_that_would_tell`` and ``sentence``.
        """
        from giantstep.jsondata import json_data

        rows = [
            {**json_data(asdict(row)), **row.verdict(see, allow).to_dict(), "passes": row.passes(allow)}
            for row in self.rows
        ]
        whole = self.verdict(see, allow).to_dict()
        return {
            **whole,
            "allow": allow,
            "see": see,
            "passes": self.passes(allow),
            "variables": rows,
            "notes": list(self.notes),
        }

    def table(self, allow: float = 0.0, see: float = SEE) -> str:
        """Return the report as an aligned table, with what disagrees and the verdict on the whole in words."""
        cells = [_HEAD, *(row.cells(allow, see) for row in self.rows)]
        name, *numbers, verdict = (max(map(len, column)) for column in zip(*cells))
        form = "  ".join([f"{{:<{name}}}", *(f"{{:>{width}}}" for width in numbers), f"{{:<{verdict}}}"])
        lines = [form.format(*row).rstrip() for row in cells]
        return "\n".join([*lines, *self._sentences(allow, see)])

    def _sentences(self, allow: float = 0.0, see: float = SEE) -> list[str]:
        """Return what disagrees and the verdict on the whole."""
        if self.trials < 2:
            return ["One trial has no standard error, so nothing can be compared; take more.", *self.notes]
        told = [verdict.sentence for verdict in self.verdicts(see, allow) if verdict.verdict == "disagrees"]
        return [*told, self.verdict(see, allow).sentence, *self.notes]

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        said = "".join(f"<div>{escape(sentence)}</div>" for sentence in self._sentences())
        return html_table(_HEAD, [row.cells() for row in self.rows], right=range(1, len(_HEAD) - 1)) + said


def _check_gaps(see: float, allow: float) -> None:
    for name, value in (("see", see), ("allow", allow)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise bad_field(name, value, "a number at least 0")


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
    return Agreement(tuple(_row(result, name, trials) for name in names), trials, tuple(notes_in(result.attrs)))


def _row(result: xarray.Dataset, name: str, trials: int) -> Row:
    gap, limit = abs(result[name + "_gap"]), abs(result[name].sel(source="limit"))
    own = [dim for dim in gap.dims if dim not in result["converged"].dims]
    with np.errstate(invalid="ignore"):
        local = limit.max(own) if own else limit
        scale = local.clip(min=float(local.mean())).broadcast_like(gap).transpose(*gap.dims).values
    square = (result[name + "_stderr"].transpose("source", *gap.dims).values ** 2).sum(axis=0)
    measured = np.sqrt(square), np.sqrt(_with_spread(square, tuple(range(gap.ndim - len(own), gap.ndim))))
    z, size = np.abs(result[name + "_z"].values), gap.values
    compared = ~np.isnan(z)
    points = int(compared.sum())
    if not points:
        return Row(name, 0, np.nan, np.nan, np.nan, np.nan, np.inf, trials=trials)
    line = chance_line(points)
    z, size, scale, error, filled = (values[compared] for values in (z, size, scale, *measured))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(size == 0, 0.0, size / scale)
        visible = student_line(line, trials - 1) * error / scale
        one_trial = filled * np.sqrt(trials) / scale
    beyond, largest = z > line, int(np.argmax(np.where(np.isfinite(relative), relative, -1.0)))
    finite, visible = relative[np.isfinite(relative)], visible[np.isfinite(visible) & (error > 0)]
    typical = float(np.median(visible)) if visible.size else np.nan
    seen = visible_gap(1.0, trials, points) / student_line(line, trials - 1) * np.sqrt(trials)
    return Row(
        variable=name,
        points=points,
        largest_z=float(z.max()),
        chance_z=line,
        largest_relative_gap=float(finite.max()) if finite.size else np.nan,
        smallest_visible=typical,
        failed_gap=float(relative[beyond].max()) if beyond.any() else 0.0,
        visible_gap=float(typical * seen) if error.any() else _without_spread(result, name, trials),
        visible_there=float(visible_gap(one_trial[largest], trials, points)),
        trials=trials,
    )


def _without_spread(result: xarray.Dataset, name: str, trials: int) -> float:
    """Return the visible gap of a variable without any spread: none, but for events that were only counted."""
    from giantstep.result import question_of

    question = question_of(result.attrs)
    counted = question is not None and any(known.name == name and known.counted for known in question.variables)
    return np.nan if counted or trials < 2 else 0.0


callable_module(__name__, agreement)
