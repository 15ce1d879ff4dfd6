"""The report of a comparison: a row for each variable, a verdict on each and on the
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from giantstep.core.base.display import Block, Readable, Table, blocks_text
from giantstep.core.base.jsondata import json_data
from giantstep.core.result.twins import HEADS, GapSplit
from giantstep.core.result.verdicts import (
    POWER,
    SEE,
    ComparedTheory,
    Judgement,
    Verdict,
    percent,
    seen_from,
    together,
    trials_for_gap,
    trials_text,
    visible_gap,
    visible_text,
)
from giantstep.core.scenario.checks import check_number


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
            if self.split:
                cause = self.split.sentence()
            else:
                cause = (theory or ComparedTheory()).cause(gap < asked)
            text += f" {cause}"
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
