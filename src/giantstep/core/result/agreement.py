"""Agreement of limit and experiment as a number: gaps, z-scores, and a report of what
they could have shown.

The z-score is Student's t of the gap over the joint standard error of both sides,
turned into the normal score with the same tail probability, so that 5 trials and 500
trials read alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.display import Block, Readable, Table, blocks_text
from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.jsondata import json_data
from giantstep.core.base.types import Booleans, Floats
from giantstep.core.result.comparison import (
    approximations,
    called,
    judged_side,
    judged_source,
    left_open_by,
    with_spread,
)
from giantstep.core.result.notes import missing_theories, notes_in
from giantstep.core.result.table import question_of
from giantstep.core.result.twins import HEADS, GapSplit
from giantstep.core.result.verdicts import (
    POWER,
    SEE,
    ComparedTheory,
    Judgement,
    Verdict,
    chance_line,
    percent,
    seen_from,
    student_line,
    together,
    trials_for_gap,
    trials_text,
    visible_gap,
    visible_text,
)
from giantstep.core.scenario.checks import check_number
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.family import Question, Variable

LEAST = 0.01
"""Part of a variable's largest value below which a gap is no longer relative to the
value itself.
"""


@dataclass(frozen=True)
class AgreementRow:
    """Agreement of one variable.

    A gap is relative to what theory gives the variable at the same grid point and time
    (of a matrix or a spectrum: its largest entry there). A variable is nearly zero
    where that is below what one trial scatters: there the gap is relative to its
    largest value over time, or over the grid in the mean. It is never relative to less
    than 1% of that.
    """

    variable: str
    points: int  # numbers compared: grid points times the variable's own entries
    largest_z: float  # largest |z| among them
    chance_z: float  # the |z| that so many points pass by chance once in 1,000
    largest_relative_gap: float
    # gap that lies on the line, the median over the points: seen every second time
    smallest_visible: float
    # largest gap among the numbers whose |z| is beyond the line; 0 where there is none
    failed_gap: float
    # gap that passes the line nine times in ten, the median over the points
    visible_gap: float = np.nan
    visible_there: float = np.nan  # the same where the largest gap is
    trials: int = 0
    # the place of the largest gap, or of the largest beyond the line where there is one
    where: str = ""
    relative_to: str = (
        ""  # what that gap is relative to, where the variable is nearly zero there
    )
    # largest distance of the bare limit from the theory compared; NaN where it was that
    from_limit: float = np.nan
    split: GapSplit | None = None  # of a table, the gap at that place in two parts
    # gap that the theory leaves open (`Variable.resolution`): z is about the rest
    left_open: float = 0.0
    open_because: str = ""  # what that gap is

    def passes(self, allow: float = 0.0) -> bool:
        """Tell whether no number beyond the line has a relative gap above `allow`;
        nothing compared fails.
        """
        return self.points > 0 and self.failed_gap <= allow

    def verdict(
        self, see: float = SEE, allow: float = 0.0, theory: ComparedTheory | None = None
    ) -> Verdict:
        """Return the verdict: whether a relative gap of `see` (or of `allow`, if
        larger) would have been seen.
        """
        asked = max(see, allow)
        name = self.variable
        gap = self.largest_relative_gap
        judgement: Judgement = "cannot tell"
        needed: int | None = None
        if not self.points:
            if self.trials > 1:
                why = "nothing could be compared"
            else:
                why = "one trial has no spread"
            text = f"{name}: cannot tell; {why}."
        elif not self.passes(allow):
            judgement = "disagrees"
            gap = self.failed_gap
            where = f" ({self.place()})" if self.place() else ""
            scores = f"largest |z| {self.largest_z:.1f}, by chance {self.chance_z:.1f}"
            granted = f" and above the {percent(allow)} allowed" if allow else ""
            text = (
                f"{name} disagrees: a gap of {percent(gap)}{where} is beyond chance"
                f" ({scores}){granted}."
            )
            text += f" {self.split.sentence() if self.split else (theory or ComparedTheory()).cause(gap < asked)}"  # noqa: E501
        elif gap <= asked and self.visible_gap <= asked:
            judgement = "agrees"
            seen = f"gaps from {percent(self.visible_gap)} on are visible"
            if self.visible_gap > 0:
                seen = seen
            else:
                seen = "there is no spread to hide one"
            text = (
                f"{name} agrees: a gap of {percent(asked)} would have been seen and was"
                f" not ({seen})."
            )
        else:
            needed, why = self._trials_to_see(asked)
            text = f"{name}: cannot tell; {why}."
        return Verdict(
            name, judgement, gap, self.visible_gap, asked, self.trials, needed, text
        )

    def place(self) -> str:
        """Return where the gap is, and what it is relative to where that is not the
        value there.
        """
        parts = [f"at {self.where}"] if self.where else []
        return ", ".join(
            [*parts, f"relative to {self.relative_to}"] if self.relative_to else parts
        )

    def _trials_to_see(self, asked: float) -> tuple[int | None, str]:
        """Return the trials that see a gap (at its typical point, or where a larger one
        is), and what is said of it.
        """
        visible = np.fmax(
            self.visible_gap,
            self.visible_there if self.largest_relative_gap > asked else 0.0,
        )
        if not (0 < visible < np.inf and self.trials > 1):
            return None, (
                "the limit is zero"
                if np.isnan(self.largest_relative_gap)
                else "no trial differs from another"
            )
        seen = f"{self.trials} trials {seen_from(self.visible_gap)}"
        if asked <= self.left_open:
            return (
                None,
                (
                    f"{seen}, and the theory leaves {percent(self.left_open)} open"
                    f" ({self.open_because})"
                ),
            )
        spread = self._spread(float(visible) - self.left_open)
        needed = int(trials_for_gap(spread, asked - self.left_open, self.points, POWER))
        needed = max(needed, self.trials + 1)
        return (
            needed,
            f"{seen}, {trials_text(needed)} would see one of {percent(asked)}",
        )

    def _spread(self, visible: float) -> float:
        """Return the spread of one trial that belongs to a visible gap."""
        return visible / float(visible_gap(1.0, self.trials, self.points))

    def cells(self, allow: float = 0.0, see: float = SEE) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        verdict = self.verdict(see, allow)
        scores = (
            "-" if np.isnan(score) else f"{score:.2f}"
            for score in (self.largest_z, self.chance_z)
        )
        gaps = percent(verdict.gap, most="> 1000%"), visible_text(verdict.visible_gap)
        return self.variable, str(self.points), *scores, *gaps, verdict.brief


@dataclass(frozen=True, repr=False)
class Agreement(Readable):
    """The report of a comparison: one row per variable; printing it gives a table with
    a verdict on each.

    The verdict on the whole is about the variables in `own` (all where it is empty);
    the others, order parameters, stand below it. What disagrees among them is said, and
    fails, all the same.
    """

    rows: tuple[AgreementRow, ...]  # those of the question first
    trials: int
    own: tuple[str, ...] = ()
    theory: ComparedTheory = ComparedTheory()  # what the experiment was compared with
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[AgreementRow, ...]:
        """The rows of the variables that the verdict on the whole is about."""
        return tuple(
            row for row in self.rows if not self.own or row.variable in self.own
        )

    @property
    def others(self) -> tuple[AgreementRow, ...]:
        """The rows of the other variables."""
        return tuple(row for row in self.rows if row not in self.judged)

    def verdicts(
        self,
        see: float = SEE,
        allow: float = 0.0,
        rows: Sequence[AgreementRow] | None = None,
    ) -> list[Verdict]:
        """Return the verdict on each variable: would a relative gap of `see` have been
        seen, and was there one?
        """
        for name, value in (("see", see), ("allow", allow)):
            check_number(name, value, "a number at least 0", lambda gap: gap >= 0)
        return [
            row.verdict(see, allow, self.theory)
            for row in (self.rows if rows is None else rows)
        ]

    def verdict(self, see: float = SEE, allow: float = 0.0) -> Verdict:
        """Return the verdict on the question's own variables together (`own`)."""
        return together(
            self.verdicts(see, allow, self.judged),
            max(see, allow),
            self.trials,
            self.theory.name,
        )

    def passes(self, allow: float = 0.0, see: float | None = None) -> bool:
        """Tell whether no |z| beyond the line has a gap above `allow`; with `see`, also
        whether the judged agree.
        """
        self.verdicts(SEE if see is None else see, allow, ())  # refuses what is no gap
        return bool(self.rows) and not self.failures(allow, see)

    def failures(self, allow: float = 0.0, see: float | None = None) -> list[str]:
        """Return the names of the variables that disagree; with `see` also of the
        question's own that cannot tell.
        """
        blind = [
            row.variable
            for row in self.judged
            if see is not None and row.verdict(see, allow).verdict != "agrees"
        ]
        return [
            row.variable
            for row in self.rows
            if not row.passes(allow) or row.variable in blind
        ]

    def trials_needed(self, see: float = SEE, power: float = POWER) -> dict[str, int]:
        """Return the trials with which a comparison like this one would see a relative
        gap, for each variable.

        A variable without spread is left out; `giantstep.trials_needed` asks the same
        before anything was compared.
        """
        spread = [
            row
            for row in self.rows
            if row.left_open < row.visible_gap < np.inf and self.trials > 1
        ]
        return {
            row.variable: int(
                trials_for_gap(
                    row._spread(row.visible_gap - row.left_open),
                    see - row.left_open,
                    row.points,
                    power,
                )
            )
            for row in spread
            if see > row.left_open
        }

    def to_dict(self, allow: float = 0.0, see: float = SEE) -> dict[str, Any]:
        """Return the report as strict JSON data (None for NaN, "inf" for infinity),
        with the verdicts.

        ``verdict`` and ``sentence`` are those on the question's own variables; each
        entry of ``variables`` has the numbers of its `AgreementRow` and of its
        `Verdict`.
        """
        rows = []
        for row in self.rows:
            own = {"own": row in self.judged, "passes": row.passes(allow)}
            rows.append(
                {
                    **json_data(asdict(row)),
                    **row.verdict(see, allow, self.theory).to_dict(),
                    **own,
                }
            )
        whole = {
            **self.verdict(see, allow).to_dict(),
            "notes": [*self._notes(), *self.notes],
        }
        about = {
            "compared_with": self.theory.name,
            "approximations": dict(self.theory.approximations),
        }
        return {
            **whole,
            **about,
            "allow": allow,
            "see": see,
            "passes": self.passes(allow),
            "variables": rows,
        }

    def table(self, allow: float = 0.0, see: float = SEE) -> str:
        """Return the report as an aligned table with the verdict in words; the other
        variables follow below it.
        """
        return blocks_text(self.blocks(allow, see))

    def blocks(self, allow: float = 0.0, see: float = SEE) -> list[Block]:
        """Return the table of the question's own variables, the verdict in words, and
        the other variables.
        """
        heads = (
            "variable",
            "points",
            "largest |z|",
            "by chance",
            "gap",
            "visible gap",
            "verdict",
        )
        report: list[Block] = [
            Table(heads, [row.cells(allow, see) for row in self.judged])
        ]
        if self.trials < 2:
            report += [
                (
                    "One trial has no standard error, so nothing can be compared; take"
                    " more."
                ),
                *self.notes,
            ]
        else:
            told = [
                v.sentence
                for v in self.verdicts(see, allow, self.judged)
                if v.verdict == "disagrees"
            ]
            bad = [row.variable for row in self.others if not row.passes(allow)]
            if bad:
                also = (
                    f" Of the other variables {', '.join(bad)}"
                    f" {'disagree' if bad[1:] else 'disagrees'}."
                )
            else:
                also = ""
            report += [
                *self._notes(),
                *self._splits(),
                *told,
                self.verdict(see, allow).sentence + also,
                *self.notes,
            ]
        if self.others:
            report += [
                "",
                "Other variables",
                Table(heads, [row.cells(allow, see) for row in self.others]),
            ]
        return report

    def _splits(self) -> list[Block]:
        """Return the gaps on a table in two parts, as a table with empty lines around
        it.
        """
        rows = []
        for row in self.judged:
            if row.split is not None:
                rows.append(
                    row.split.cells(
                        f"{row.variable} at {row.where}" if row.where else row.variable
                    )
                )
        return ["", Table(HEADS, rows), ""] if rows else []

    def _notes(self) -> list[str]:
        """Return what was compared, where that is not simply the limit."""
        told = self.theory.sentences(
            {r.variable: r.from_limit for r in self.judged if np.isfinite(r.from_limit)}
        )
        for row in self.judged:
            if row.left_open > 0:
                told.append(
                    f"Of {row.variable}, {self.theory.name} leaves"
                    f" {percent(row.left_open)} open: {row.open_because}. |z| is about"
                    " what a gap has beyond that."
                )
        return told

    def __str__(self) -> str:
        return self.table()


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
    columns = [str(name) for name in result.data_vars]
    known = [
        name[:-2]
        for name in columns
        if name.endswith("_z") and f"{name[:-2]}_gap" in columns
    ]
    question = question_of(attrs)
    if question is None:
        absent = []
    else:
        absent = [v.name for v in question.variables if v.absent]
    known = [
        name
        for name in known
        if name not in absent or bool(result[name + "_z"].notnull().any())
    ]
    if question and variables is None:
        own = tuple(name for name in question.plot if name in known)
    else:
        own = ()
    names = list(dict.fromkeys([*own, *_chosen(variables, known)]))
    bare = attrs.get("finite_size", 1) == 0
    theory = ComparedTheory(
        name=called(result, judged_source(result)),
        approximations=approximations(attrs),
        uncorrected=bare,
        fixed_dim=bool(attrs.get("fixed_dim", 0)),
        without_twin=str(attrs.get("without_twin", "")),
    )
    least = dict(scale or {})
    for name, size in least.items():
        if name not in names:
            raise bad_field(
                "scale", name, f"among the variables judged ({', '.join(names)})"
            )
        check_number(
            f"scale.{name}", size, "a number above 0", lambda value: 0 < value < np.inf
        )
    rows = tuple(_row(result, name, trials, least.get(name, 0.0)) for name in names)
    return Agreement(
        rows, trials, own, theory, (*_without_theory(result), *notes_in(attrs))
    )


def _without_theory(result: xarray.Dataset) -> list[str]:
    """Say of points that have no theory which they are, and why: they are in no row of
    the report.
    """
    missing = missing_theories(result.attrs)
    if not missing:
        return []
    status = result["status"].sel(source=judged_source(result))
    told = []
    for sentence in missing:
        there = status.values == sentence
        if there.any():
            told.append(
                f"No theory: {_named_places(status, there)}"
                f" ({sentence.removesuffix('.')})."
            )
    return told


def _named_places(status: xarray.DataArray, there: Booleans) -> str:
    """Return the names along a grid that some of its points have: ``scenario = same``;
    else how many they are.
    """
    parts = []
    for axis, dim in enumerate(map(str, status.dims)):
        rows = np.unique(np.nonzero(there)[axis])
        if (
            dim in status.coords
            and status[dim].dtype.kind in "UO"
            and len(rows) < status.sizes[dim]
        ):
            parts.append(f"{dim} = {' and '.join(map(str, status[dim].values[rows]))}")
    return ", ".join(parts) or f"{int(there.sum())} of {there.size} points"


def _chosen(variables: str | Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the variables asked for, all that were compared if left out."""
    if variables is None:
        return list(known)
    if isinstance(variables, str):
        wanted = [variables]
    else:
        wanted = list(variables)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        hint = nearest(unknown[0], known) if unknown else ""
        among = f"among those compared ({', '.join(known) or 'there are none'}){hint}"
        raise bad_field("variables", unknown[0] if unknown else wanted, among)
    return list(dict.fromkeys(wanted))


def check_variables(variables: str | Sequence[str] | None, question: Question) -> None:
    """Refuse names that the comparison of a question does not have, before it is
    made.
    """
    _chosen(
        variables,
        [v.name for v in question.variables if v.compared and len(v.engines) == 2],
    )


def _row(result: xarray.Dataset, name: str, trials: int, least: float) -> AgreementRow:
    source = judged_source(result)
    gap = result[name + "_gap"]
    grid = [dim for dim in gap.dims if dim in result["converged"].dims]
    own = tuple(place for place, dim in enumerate(gap.dims) if dim not in grid)
    errors = (
        result[name + "_stderr"]
        .sel(source=[source, "experiment"])
        .transpose("source", *gap.dims)
    )
    square = (errors.values**2).sum(axis=0)
    error = np.sqrt(square)
    filled = np.sqrt(with_spread(square, own))
    theory = result[name].sel(source=source).transpose(*gap.dims)
    scale, here, elsewhere = _scales(theory, filled * np.sqrt(trials), grid)
    scale = np.fmax(scale, least) if least else scale
    z = np.abs(result[name + "_z"].values)
    size = np.abs(gap.values)
    compared = ~np.isnan(z)
    if not (points := int(compared.sum())):
        return AgreementRow(
            name, 0, np.nan, np.nan, np.nan, np.nan, np.inf, trials=trials
        )
    line = chance_line(points)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(compared, np.where(size == 0, 0.0, size / scale), np.nan)
        visible = np.where(
            compared & (error > 0),
            student_line(line, trials - 1) * error / scale,
            np.nan,
        )
        one_trial = filled * np.sqrt(trials) / scale
    finite = np.isfinite(relative)
    beyond = compared & (z > line)
    largest = _place_of_largest(np.where(finite, relative, -1.0))
    if beyond.any():
        shown = _place_of_largest(np.where(beyond, relative, -1.0))
    else:
        shown = largest
    if np.isfinite(visible).any():
        typical = float(np.median(visible[np.isfinite(visible)]))
    else:
        typical = np.nan
    seen = (
        visible_gap(1.0, trials, points)
        / student_line(line, trials - 1)
        * np.sqrt(trials)
    )
    variable = _declared(result, name)
    # a gap is visible, but for events only counted
    without_spread = np.nan if variable.counted or trials < 2 else 0.0
    left_open, because = _left_open(result, variable, theory, scale)
    return AgreementRow(
        variable=name,
        points=points,
        largest_z=float(z[compared].max()),
        chance_z=line,
        largest_relative_gap=float(relative[finite].max()) if finite.any() else np.nan,
        smallest_visible=typical,
        failed_gap=float(relative[shown]) if beyond.any() else 0.0,
        visible_gap=left_open
        + (float(typical * seen) if error[compared].any() else without_spread),
        visible_there=left_open
        + float(visible_gap(one_trial[largest], trials, points)),
        trials=trials,
        where=_words_of_place(gap, shown),
        relative_to=_relative_to(scale[shown], here[shown], elsewhere[shown]),
        from_limit=_from_limit(result, name, theory, scale),
        left_open=left_open,
        open_because=because,
        split=_split(result, name, gap.dims, shown, float(scale[shown]), trials),
    )


def _split(
    result: xarray.Dataset,
    name: str,
    dims: Sequence[Any],
    place: tuple[int, ...],
    scale: float,
    trials: int,
) -> GapSplit | None:
    """Return the gap of a variable at one place in two parts, where the Gaussian twin
    of a table stands beside it.
    """
    if f"{name}_twin" not in result:
        return None

    def at(column: str, source: str = "") -> float:
        if source:
            values = result[column].sel(source=source)
        else:
            values = result[column]
        return float(values.transpose(*dims).values[place])

    judged = judged_source(result)
    return GapSplit.of(
        at(name, judged),
        at(f"{name}_stderr", judged),
        at(f"{name}_twin"),
        at(f"{name}_twin_stderr"),
        at(name, "experiment"),
        at(f"{name}_stderr", "experiment"),
        scale=scale,
        trials=trials,
        approximate=bool(approximations(result.attrs)),
    )


def _declared(result: xarray.Dataset, name: str) -> Variable:
    """Return the declaration of a variable of a result; a plain one where its question
    is not known here.
    """
    question = question_of(result.attrs)
    known = () if question is None else question.variables
    return next(
        (variable for variable in known if variable.name == name),
        Variable(name, (), "", ""),
    )


def _left_open(
    result: xarray.Dataset, variable: Variable, theory: xarray.DataArray, scale: Floats
) -> tuple[float, str]:
    """Return the relative gap that the theory leaves open of a variable, the median
    over its entries, and why.
    """
    if variable.resolution not in result:
        return 0.0, ""
    side = result[[variable.resolution]]
    told = left_open_by(
        judged_side(side) if "source" in side.dims else side, variable, theory
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.broadcast_to(told, theory.shape) / scale
    known = relative[np.isfinite(relative)]
    return (float(np.median(known)) if known.size else 0.0), _declared(
        result, variable.resolution
    ).meaning


def _scales(
    theory: xarray.DataArray, spread: Floats, grid: Sequence[Any]
) -> tuple[Floats, Floats, Floats]:
    """Return what gaps are relative to, the size of the variable at the same point and
    time, and its size elsewhere.
    """
    # entries of a matrix or a spectrum at one time are one object, as large as the
    # largest
    times = tuple(
        n
        for n, dim in enumerate(theory.dims)
        if dimension_named(str(dim)).role == "trajectory"
    )
    entries = tuple(
        n for n, dim in enumerate(theory.dims) if dim not in grid and n not in times
    )
    here = _largest(theory.values, entries)
    elsewhere = _largest(here, times)
    known = elsewhere[np.isfinite(elsewhere)]
    elsewhere = np.fmax(elsewhere, known.mean() if known.size else np.nan)
    scale = np.where(
        here < _largest(spread, entries), elsewhere, np.fmax(here, LEAST * elsewhere)
    )
    return tuple(
        np.broadcast_to(size, theory.shape) for size in (scale, here, elsewhere)
    )  # type: ignore[return-value]


def _relative_to(scale: float, here: float, elsewhere: float) -> str:
    if not scale > here:
        return ""
    if scale > elsewhere or np.isnan(elsewhere):
        return f"{scale:g}"
    if scale == elsewhere:
        return "its size elsewhere"
    return f"{LEAST:.0%} of its size elsewhere"


def _largest(values: Floats, places: tuple[int, ...]) -> Floats:
    if places:
        return np.fmax.reduce(np.abs(values), axis=places, keepdims=True)
    return np.abs(values)


def _place_of_largest(values: Floats) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmax(values)), values.shape)))


def _words_of_place(gap: xarray.DataArray, place: tuple[int, ...]) -> str:
    """Return where an entry is: ``samples_per_dim = 0.5, time = 3``."""
    values = {
        name: c.values.item()
        for name, c in gap[place].coords.items()
        if gap[name].dims and gap[name].size > 1
    }
    return ", ".join(
        f"{name} = {v:g}" if isinstance(v, float) else f"{name} = {v}"
        for name, v in values.items()
    )


def _from_limit(
    result: xarray.Dataset, name: str, theory: xarray.DataArray, scale: Floats
) -> float:
    """Return how far the bare limit is from the theory compared, at most; NaN where it
    was not solved.
    """
    if "limit" not in result["source"].values or theory["source"].item() == "limit":
        return np.nan
    bare = result[name].sel(source="limit").transpose(*theory.dims)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(bare.values - theory.values) / scale
    known = apart[np.isfinite(apart)]
    return float(known.max()) if known.size else np.nan
