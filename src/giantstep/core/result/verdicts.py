"""Verdicts on a comparison of limit and experiment: agrees, disagrees, cannot tell;
`docs/verdicts.md` explains them.

The numbers are those of `agreement` and its `report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from giantstep.core.base.jsondata import json_data
from giantstep.core.base.types import Floats

CHANCE = 1e-3
"""How often the line of a report is passed where limit and experiment agree."""

POWER = 0.9
"""How often a gap that is called visible passes the line."""


def normal_score(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Return the normal score with the tail probability of Student's t; infinite
    `freedom` returns `t`.
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    size = np.abs(t)
    with np.errstate(invalid="ignore", divide="ignore"):
        finite = np.where(np.isinf(freedom), 1.0, freedom)
        tail = special.stdtr(finite, -size)
        # a tail too small for a float: P(T > t) = I_x(a, 1/2)/2 with x =
        # freedom/(freedom + t^2), a = freedom/2
        a = finite / 2
        ratio = size**2 / finite
        leading = (
            -a * np.log1p(ratio)
            - 0.5 * np.log1p(1 / ratio)
            - np.log(2 * a)
            - special.betaln(a, 0.5)
        )
        series = -np.log1p(-(a + 0.5) / (a + 1) / (1 + ratio))
        log_tail = np.where(
            tail > 1e-280, np.log(np.maximum(tail, 1e-300)), leading + series
        )
        score = np.maximum(-special.ndtri_exp(log_tail), 0.0)
        score = np.where(np.isinf(size) | np.isinf(freedom), size, score)
    return np.where(freedom > 0, np.copysign(score, t), np.nan)


def student_line(line: float, freedom: ArrayLike) -> Floats:
    """Return the t that has the normal score `line`: the inverse of `normal_score`."""
    freedom = np.asarray(freedom, float)
    t = -special.stdtrit(
        np.where(np.isinf(freedom), 1e10, freedom), special.ndtr(-line)
    )
    return np.where(np.isinf(freedom), line, t)


def chance_line(points: int) -> float:
    """Return the |z| that the largest of so many normal scores passes once in 1,000."""
    return float(-special.ndtri(-np.expm1(np.log1p(-CHANCE) / max(points, 1)) / 2))


def trials_for_gap(
    spread: ArrayLike, relative: float, points: int = 1, power: float = 0.5
) -> Floats:
    """Return the trials with which a relative gap passes the line; `spread` is that of
    one trial over the mean.
    """
    spread = np.asarray(spread, dtype=float)
    line = chance_line(points)
    extra = float(special.ndtri(power))
    low = np.full(spread.shape, 1.0)
    high = np.full(spread.shape, 2.0**40)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        sees = (student_line(line, middle - 1) + extra) * spread <= relative * np.sqrt(
            middle
        ) * (1 + 1e-12)
        low = np.where(sees, low, middle)
        high = np.where(sees, middle, high)
    return np.where(np.isfinite(spread), high, np.nan)


def visible_gap(
    spread: ArrayLike, trials: int, points: int = 1, power: float = POWER
) -> Floats:
    """Return the relative gap that passes the line of so many points with probability
    `power`: inverse of the above.
    """
    passed = student_line(chance_line(points), trials - 1) + special.ndtri(power)
    return np.asarray(
        passed * np.asarray(spread, dtype=float) / np.sqrt(trials), dtype=np.float64
    )


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

    Disagrees: a number is beyond what chance gives, by more than the gap allowed.
    Agrees: a gap of the size asked for would have been seen (nine times in ten, at the
    typical point), and no gap is that large. Cannot tell: neither.
    """

    variable: str  # its name; empty where several are meant
    verdict: Judgement
    # the largest, relative to the variable there; of a disagreement the largest of
    # those beyond chance
    gap: float
    # the relative gap that so many trials see nine times in ten, at the typical point
    visible_gap: float
    asked: float  # the size asked for: `see`, or the gap allowed where that is larger
    trials: int
    # those that see such a gap; None where none are needed, or nothing says how many
    trials_that_would_tell: int | None
    sentence: str  # all of this in words

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
    """What an experiment was compared with."""

    # as tables and legends call it: "limit", "theory at d = 200", "approximate limit"
    name: str = "limit"
    # what it approximates -> how far off that may be
    approximations: Mapping[str, str] = field(default_factory=dict)
    uncorrected: bool = (
        False  # whether its correction was left out on purpose (``finite_size=False``)
    )
    # whether the scenario has one dimension, that of a table or of given covariances
    fixed_dim: bool = False
    without_twin: str = ""  # of a table: why no Gaussian twin stands beside it

    def sentences(self, apart: Mapping[str, float]) -> list[str]:
        """Say what was compared, where that is not simply the limit; `apart` are the
        distances of the bare limit.
        """
        told = []
        if apart:
            far = ", ".join(
                f"{percent(distance)} in {name}" for name, distance in apart.items()
            )
            told.append(
                f"Compared with {self.name}; the bare limit (d to infinity) differs"
                f" from that by up to {far}."
            )
        elif self.uncorrected:
            told.append(
                "Compared with the bare limit (d to infinity), without a finite-size"
                " correction."
            )
        if self.approximations:
            how = "; ".join(
                f"{what} ({how})" for what, how in self.approximations.items()
            )
            told.append(f"The theory is an approximation: {how}.")
        return told

    def cause(self, is_small: bool) -> str:
        """Return the likeliest cause of a gap beyond chance; `is_small` says that it is
        below the size asked for.
        """
        if self.approximations:
            return (
                "The likeliest cause is an approximation of the theory:"
                f" {'; '.join(self.approximations)}."
            )
        if self.uncorrected:
            return (
                "The likeliest cause is the finite dimension, whose correction was left"
                " out (finite_size=False)."
            )
        if is_small:
            return (
                "The likeliest cause is the finite dimension, which leaves small gaps;"
                " `allow` grants them."
            )
        if self.fixed_dim:
            told = (
                "Its dimension is fixed, so that no larger one tells the finite size"
                " from other causes."
            )
            return f"{told} {self.without_twin}".rstrip()
        return (
            "Compare at twice the dimension: what is left of a finite one shrinks, an"
            " error stays."
        )


def percent(gap: float, most: str = "more than 1000%") -> str:
    """Return a relative gap as a reader wants it: three digits, and no more than that
    it is huge.
    """
    if np.isnan(gap):
        return "-"
    return most if gap > 10 else f"{float(f'{100 * gap:.3g}'):g}%"


BLIND = 1.0
"""Visible gap, relative, from which on trials are too few to be asked: not even a
factor of two would be seen.
"""
_HUGE = "1000%"
"""How a gap beyond ten times the variable is written."""


def seen_from(visible: float) -> str:
    """Say which gaps so many trials see: "see gaps from 9% on", or that they are too
    few to see any but huge ones.
    """
    if visible > BLIND:
        return f"cannot see gaps below {percent(visible, most=_HUGE)}"
    return f"see gaps from {percent(visible)} on"


def visible_text(visible: float) -> str:
    """Return a visible gap as a table shows it."""
    if visible > BLIND:
        return f"none below {percent(visible, most=_HUGE)}"
    return percent(visible)


def trials_text(trials: int | None) -> str:
    """Return a number of trials as a reader wants it; None is one that nothing
    tells.
    """
    if trials is None:
        return "no known number of trials"
    if trials > _MANY_TRIALS:
        return "more than a million trials"
    if trials < 1000:
        return f"{trials} trials"
    return f"about {int(float(f'{trials:.2g}')):,} trials"


def together(
    verdicts: Sequence[Verdict], asked: float, trials: int, theory: str = "limit"
) -> Verdict:
    """Return the verdict on all variables: one that disagrees decides, then one that
    cannot tell.
    """
    sides = f"{theory[0].upper()}{theory[1:]} and experiment"
    gap, visible = (
        max((getattr(v, name) for v in verdicts), default=np.nan)
        for name in ("gap", "visible_gap")
    )
    needed = max(
        (
            v.trials_that_would_tell
            for v in verdicts
            if v.trials_that_would_tell is not None
        ),
        default=None,
    )
    bad, blind = (
        [v.variable for v in verdicts if v.verdict == said]
        for said in ("disagrees", "cannot tell")
    )
    judgement: Judgement = "agrees"
    if bad:
        judgement = "disagrees"
        text = f"{sides} disagree in {', '.join(bad)}."
    elif not verdicts:
        judgement = "cannot tell"
        text = "Nothing was compared."
    elif blind:
        judgement = "cannot tell"
        if len(blind) <= _FEW:
            where = ", ".join(blind)
        else:
            where = f"{len(blind)} of {len(verdicts)} variables"
        text = (
            f"{sides} do not disagree, but a gap of {percent(asked)} could hide in"
            f" {where}"
        )
        if needed is not None:
            text += f"; {trials_text(needed)} would show it."
        else:
            text += "."
    else:
        if len(verdicts) <= _FEW:
            about = f" in {', '.join(v.variable for v in verdicts)}"
        else:
            about = ""
        text = (
            f"{sides} agree{about}: a gap of {percent(asked)} would have been seen and"
            " was not."
        )
    return Verdict(
        "",
        judgement,
        gap,
        visible,
        asked,
        trials,
        needed if judgement == "cannot tell" else None,
        text,
    )
