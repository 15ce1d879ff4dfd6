"""Verdicts on a comparison of limit and experiment: agrees, disagrees, cannot tell; the numbers are `agreements.py`'s.

`docs/verdicts.md` explains them. For a result of `compare`:

    report = gs.agreement(both)
    report.verdict()                      # on the question's own variables together
    report.verdicts(see=0.03)             # one for each variable, asking for gaps of 3%
    report.to_dict()["variables"][0]      # the same as JSON data: "verdict", "sentence", "visible_gap", ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from giantstep.jsondata import json_data

SEE = 0.05
"""The relative gap that a comparison is asked to see where nobody says another."""

Judgement = Literal["agrees", "disagrees", "cannot tell"]

_MANY_TRIALS = 1_000_000
"""Trials beyond which nobody wants to know how many."""
_FEW = 4
"""Variables that a sentence names; of more it says how many."""


@dataclass(frozen=True)
class Verdict:
    """What a comparison says about one variable, or about several together.

    Attributes
    ----------
    variable : its name; empty where several are meant.
    verdict : ``"agrees"``, ``"disagrees"`` or ``"cannot tell"``.
        Disagrees: a number is beyond what chance gives, by more than the gap allowed. Agrees: a gap of the size asked
        for would have been seen (nine times in ten, at the typical point), and no gap is that large. Cannot tell:
        neither.
    gap : the largest gap, relative to the variable at the same point and time; of a disagreement the largest of those
        beyond chance.
    visible_gap : the relative gap that so many trials see nine times in ten, at the typical point.
    asked : the size asked for: `see`, or the gap allowed where that is larger.
    trials : trials of the experiment.
    trials_that_would_tell : trials that would see a gap of that size; None where the verdict does not need them, or
        nothing says how many.
    sentence : all of this in words.
    """

    variable: str
    verdict: Judgement
    gap: float
    visible_gap: float
    asked: float
    trials: int
    trials_that_would_tell: int | None
    sentence: str

    @property
    def brief(self) -> str:
        """The verdict with what would tell, as a table shows it."""
        if self.verdict != "cannot tell":
            return self.verdict
        if self.trials_that_would_tell is None:
            return f"cannot tell; {self.sentence.rpartition('; ')[2].rstrip('.')}"
        return f"cannot tell; {trials_text(self.trials_that_would_tell)} would"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as strict JSON data (None for NaN, "inf" for infinity)."""
        return json_data(asdict(self))

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class ComparedTheory:
    """What an experiment was compared with.

    Attributes
    ----------
    name : as tables and legends call it: "limit", "theory at d = 200", "approximate limit".
    approximations : what it approximates -> how far off that may be.
    uncorrected : whether its finite-size correction was left out on purpose (``finite_size=False``).
    """

    name: str = "limit"
    approximations: Mapping[str, str] = field(default_factory=dict)
    uncorrected: bool = False

    def sentences(self, apart: Mapping[str, float]) -> list[str]:
        """Say what was compared, where that is not simply the limit; `apart` are the distances of the bare limit."""
        told = []
        if apart:
            far = ", ".join(f"{percent(distance)} in {name}" for name, distance in apart.items())
            told.append(f"Compared with {self.name}; the bare limit (d to infinity) differs from that by up to {far}.")
        elif self.uncorrected:
            told.append("Compared with the bare limit (d to infinity), without a finite-size correction.")
        if self.approximations:
            how = "; ".join(f"{what} ({how})" for what, how in self.approximations.items())
            told.append(f"The theory is an approximation: {how}.")
        return told

    def cause(self, is_small: bool) -> str:
        """Return the likeliest cause of a gap beyond chance; `is_small` says that it is below the size asked for."""
        if self.approximations:
            return f"The likeliest cause is an approximation of the theory: {'; '.join(self.approximations)}."
        if self.uncorrected:
            return "The likeliest cause is the finite dimension, whose correction was left out (finite_size=False)."
        if is_small:
            return "The likeliest cause is the finite dimension, which leaves small gaps; `allow` grants them."
        return "Compare at twice the dimension: what is left of a finite one shrinks, an error stays."


def percent(gap: float, most: str = "more than 1000%") -> str:
    """Return a relative gap as a reader wants it: three digits, and no more than that it is huge.

    >>> percent(0.05), percent(0.1523), percent(0.002114), percent(94.9)
    ('5%', '15.2%', '0.211%', 'more than 1000%')
    """
    if np.isnan(gap):
        return "-"
    return most if gap > 10 else f"{float(f'{100 * gap:.3g}'):g}%"


def trials_text(trials: int | None) -> str:
    """Return a number of trials as a reader wants it.

    >>> trials_text(88), trials_text(12345), trials_text(10**9)
    ('88 trials', 'about 12,000 trials', 'more than a million trials')
    """
    if trials is None:
        return "no known number of trials"
    if trials > _MANY_TRIALS:
        return "more than a million trials"
    return f"{trials} trials" if trials < 1000 else f"about {int(float(f'{trials:.2g}')):,} trials"


def together(verdicts: Sequence[Verdict], asked: float, trials: int, theory: str = "limit") -> Verdict:
    """Return the verdict on all variables: one that disagrees decides, then one that cannot tell."""
    sides = f"{theory[0].upper()}{theory[1:]} and experiment"
    gap = max((verdict.gap for verdict in verdicts), default=np.nan)
    visible = max((verdict.visible_gap for verdict in verdicts), default=np.nan)
    known = [verdict.trials_that_would_tell for verdict in verdicts if verdict.trials_that_would_tell is not None]
    needed = max(known, default=None)
    bad = [verdict.variable for verdict in verdicts if verdict.verdict == "disagrees"]
    blind = [verdict.variable for verdict in verdicts if verdict.verdict == "cannot tell"]
    named = [verdict.variable for verdict in verdicts]
    about = f" in {', '.join(named)}" if 0 < len(named) <= _FEW else ""
    judgement: Judgement = "agrees"
    if bad:
        judgement, text = "disagrees", f"{sides} disagree in {', '.join(bad)}."
    elif not verdicts:
        judgement, text = "cannot tell", "Nothing was compared."
    elif blind:
        judgement = "cannot tell"
        where = ", ".join(blind) if len(blind) <= _FEW else f"{len(blind)} of {len(verdicts)} variables"
        text = f"{sides} do not disagree, but a gap of {percent(asked)} could hide in {where}"
        text += f"; {trials_text(needed)} would show it." if needed is not None else "."
    else:
        text = f"{sides} agree{about}: a gap of {percent(asked)} would have been seen and was not."
    return Verdict("", judgement, gap, visible, asked, trials, needed if judgement == "cannot tell" else None, text)
