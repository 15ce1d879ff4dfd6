"""The report of a comparison: a row for each variable, a verdict on each and on the
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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

_HEADS = (
    "variable",
    "points",
    "largest |z|",
    "by chance",
    "gap",
    "visible gap",
    "verdict",
)
"""Heads of the table, as `AgreementRow.cells` fills it."""


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
    # what that gap is relative to, where the variable is nearly zero there
    relative_to: str = ""
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
        size = max(see, allow)
        if not self.points:
            why = "one trial has no spread"
            if self.trials > 1:
                why = "nothing could be compared"
            return self._verdict("cannot tell", size, f": cannot tell; {why}.")
        if not self.passes(allow):
            return self._disagreement(size, allow, theory or ComparedTheory())
        if self.largest_relative_gap <= size and self.visible_gap <= size:
            why = "there is no spread to hide one"
            if self.visible_gap > 0:
                why = f"gaps from {percent(self.visible_gap)} on are visible"
            words = (
                f" agrees: a gap of {percent(size)} would have been seen and was not"
                f" ({why})."
            )
            return self._verdict("agrees", size, words)
        needed, why = self._trials_to_see(size)
        verdict = self._verdict("cannot tell", size, f": cannot tell; {why}.")
        return replace(verdict, trials_that_would_tell=needed)

    def _verdict(self, judgement: Judgement, size: float, words: str) -> Verdict:
        """Return a verdict on the largest gap; `size` is that of a gap to be seen."""
        return Verdict(
            self.variable,
            judgement,
            gap=self.largest_relative_gap,
            visible_gap=self.visible_gap,
            asked=size,
            trials=self.trials,
            trials_that_would_tell=None,
            sentence=f"{self.variable}{words}",
        )

    def _disagreement(
        self, size: float, allow: float, theory: ComparedTheory
    ) -> Verdict:
        """Return the verdict on a gap beyond chance, with what may have made it."""
        where = f" ({self.place()})" if self.place() else ""
        scores = f"largest |z| {self.largest_z:.1f}, by chance {self.chance_z:.1f}"
        granted = f" and above the {percent(allow)} allowed" if allow else ""
        if self.split:
            cause = self.split.sentence()
        else:
            cause = theory.cause(self.failed_gap < size)
        words = (
            f" disagrees: a gap of {percent(self.failed_gap)}{where} is beyond chance"
            f" ({scores}){granted}. {cause}"
        )
        verdict = self._verdict("disagrees", size, words)
        return replace(verdict, gap=self.failed_gap)

    def place(self) -> str:
        """Return where the gap is, and what it is relative to where that is not the
        value there.
        """
        parts = []
        if self.where:
            parts.append(f"at {self.where}")
        if self.relative_to:
            parts.append(f"relative to {self.relative_to}")
        return ", ".join(parts)

    def _trials_to_see(self, size: float) -> tuple[int | None, str]:
        """Return the trials that see a gap of a size, at the typical point or where a
        larger one is, and what is said of it.
        """
        visible = self.visible_gap
        if self.largest_relative_gap > size:
            visible = float(np.fmax(visible, self.visible_there))
        if not (0 < visible < np.inf and self.trials > 1):
            if np.isnan(self.largest_relative_gap):
                return None, "the limit is zero"
            return None, "no trial differs from another"
        now = f"{self.trials} trials {seen_from(self.visible_gap)}"
        if size <= self.left_open:
            left = f"the theory leaves {percent(self.left_open)} open"
            return None, f"{now}, and {left} ({self.open_because})"
        # trials narrow what chance makes, not what the theory leaves open
        spread = self._spread(visible - self.left_open)
        needed = int(trials_for_gap(spread, size - self.left_open, self.points, POWER))
        needed = max(needed, self.trials + 1)
        return needed, f"{now}, {trials_text(needed)} would see one of {percent(size)}"

    def _spread(self, visible: float) -> float:
        """Return the spread of one trial that belongs to a visible gap."""
        return visible / float(visible_gap(1.0, self.trials, self.points))

    def cells(self, allow: float = 0.0, see: float = SEE) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        verdict = self.verdict(see, allow)
        return (
            self.variable,
            str(self.points),
            _score_text(self.largest_z),
            _score_text(self.chance_z),
            percent(verdict.gap, most="> 1000%"),
            visible_text(verdict.visible_gap),
            verdict.brief,
        )


def _score_text(score: float) -> str:
    return "-" if np.isnan(score) else f"{score:.2f}"


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
        if rows is None:
            rows = self.rows
        return [row.verdict(see, allow, self.theory) for row in rows]

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
        blind = []
        if see is not None:
            verdicts = [row.verdict(see, allow) for row in self.judged]
            blind = [one.variable for one in verdicts if one.verdict != "agrees"]
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
        needed = {}
        for row in self.rows:
            has_spread = row.left_open < row.visible_gap < np.inf and self.trials > 1
            # what the theory leaves open no number of trials shows
            if has_spread and see > row.left_open:
                spread = row._spread(row.visible_gap - row.left_open)
                trials = trials_for_gap(spread, see - row.left_open, row.points, power)
                needed[row.variable] = int(trials)
        return needed

    def to_dict(self, allow: float = 0.0, see: float = SEE) -> dict[str, Any]:
        """Return the report as strict JSON data (None for NaN, "inf" for infinity),
        with the verdicts.

        ``verdict`` and ``sentence`` are those on the question's own variables; each
        entry of ``variables`` has the numbers of its `AgreementRow` and of its
        `Verdict`.
        """
        rows = []
        for row in self.rows:
            content = {
                **json_data(asdict(row)),
                **row.verdict(see, allow, self.theory).to_dict(),
                "own": row in self.judged,
                "passes": row.passes(allow),
            }
            rows.append(content)
        return {
            **self.verdict(see, allow).to_dict(),
            "notes": [*self._notes(), *self.notes],
            "compared_with": self.theory.name,
            "approximations": dict(self.theory.approximations),
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
        report: list[Block] = [
            Table(_HEADS, [row.cells(allow, see) for row in self.judged])
        ]
        if self.trials < 2:
            report.append(
                "One trial has no standard error, so nothing can be compared; take"
                " more."
            )
        else:
            report += [*self._notes(), *self._splits(), *self._sentences(allow, see)]
        report += self.notes
        if self.others:
            others = Table(_HEADS, [row.cells(allow, see) for row in self.others])
            report += ["", "Other variables", others]
        return report

    def _sentences(self, allow: float, see: float) -> list[str]:
        """Return the verdict on the whole, after those that disagree."""
        verdicts = self.verdicts(see, allow, self.judged)
        sentences = [one.sentence for one in verdicts if one.verdict == "disagrees"]
        whole = self.verdict(see, allow).sentence
        bad = [row.variable for row in self.others if not row.passes(allow)]
        if bad:
            verb = "disagree" if len(bad) > 1 else "disagrees"
            whole += f" Of the other variables {', '.join(bad)} {verb}."
        return [*sentences, whole]

    def _splits(self) -> list[Block]:
        """Return the gaps on a table in two parts, as a table with empty lines around
        it.
        """
        rows = []
        for row in self.judged:
            if row.split is None:
                continue
            name = row.variable
            if row.where:
                name += f" at {row.where}"
            rows.append(row.split.cells(name))
        return ["", Table(HEADS, rows), ""] if rows else []

    def _notes(self) -> list[str]:
        """Return what was compared, where that is not simply the limit."""
        from_limit = {row.variable: row.from_limit for row in self.judged}
        known = {name: gap for name, gap in from_limit.items() if np.isfinite(gap)}
        notes = self.theory.sentences(known)
        for row in self.judged:
            if row.left_open > 0:
                notes.append(
                    f"Of {row.variable}, {self.theory.name} leaves"
                    f" {percent(row.left_open)} open: {row.open_because}. |z| is about"
                    " what a gap has beyond that."
                )
        return notes

    def __str__(self) -> str:
        return self.table()
