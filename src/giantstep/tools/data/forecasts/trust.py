"""Whether to believe a forecast: its gap to real fits at N/2 and N/4 rows, and what the
rows themselves show.

Each variable is judged by its own gaps. forecast section 6 has the rules, forecast
section 14 how often they were right for the mean squared error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.tools.data.forecasts.experiment import FitTrials

GOOD = 0.07
BAD = 0.08
"""|gap| + se up to which a forecast is good, |gap| - se above which it is not to be
trusted.
"""
UNEVEN = 1.1
VERY_UNEVEN = 1.5
"""Leave-one-out over generalised cross-validation: leverages are uneven; fair at
best.
"""
HEAVY = 0.5
"""Coefficient of variation of the leverages that heavy tails or outliers have."""
FEW_PER_CLASS = 20
"""Samples of the rarest class below which the misclassified share is approximate."""
WORDS = {"error": "Misclassified share", "mse": "Mean squared error"}
"""How the statement calls a variable; each has a line that begins with it."""
UNSEEN = (
    "Nothing here can show that the features come from a network trained on these rows,"
    " that rows belong together (several of one patient: `groups` says which), or that"
    " later data will differ."
)


@dataclass(frozen=True)
class Probe:
    """Forecast over experiment at one sample size: gap = forecast/experiment - 1 and
    its standard error, by ridge.
    """

    samples: int
    trials: int
    gap: tuple[float, ...]
    se: tuple[float, ...]


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on, at the ridge that is best at N rows unless by ridge."""

    probes: tuple[Probe, ...]  # gaps of the mean squared error
    error_probes: tuple[Probe, ...]  # those of the misclassified share
    # leave-one-out over generalised cross-validation at N rows, by ridge
    loo_over_gcv: tuple[float, ...]
    loo_z: tuple[float, ...]  # its z-score
    leverage_cv: tuple[float, ...]  # std(1/M_ii) mean(M_ii) there, by ridge
    outliers: tuple[int, ...]  # the five rows of largest leverage
    duplicates: int  # rows that are exact copies
    undetermined: float  # share of the points that the rows do not determine
    # largest sample size with fewer than 20 samples of the rarest class, 0 if none
    approximate: int

    def probes_of(self, variable: str) -> tuple[Probe, ...]:
        """Return the gaps of ``"mse"`` or ``"error"``."""
        return self.probes if variable == "mse" else self.error_probes

    def verdicts(self, variable: str) -> list[str]:
        """Return the verdict on ``"mse"`` or ``"error"`` for each ridge."""
        if not self.probes_of(variable):
            return ["not judged"] * len(self.loo_over_gcv)
        gap, se = (
            np.array([getattr(probe, name) for probe in self.probes_of(variable)])
            for name in ("gap", "se")
        )
        doubted = np.any(abs(gap) - se > BAD, axis=0)
        good = np.all(abs(gap) + se <= GOOD, axis=0) & ~(
            np.array(self.loo_over_gcv) > VERY_UNEVEN
        )
        cases = [~np.all(np.isfinite(gap) & np.isfinite(se), axis=0), doubted, good]
        return np.select(cases, ["not judged", "do not trust", "good"], "fair").tolist()

    def model_error(self, variable: str) -> Floats:
        """Return the relative error of the method by ridge: the largest excess of the
        probes, 0 without probes.
        """
        excess = [
            np.nan_to_num(np.abs(probe.gap) - np.array(probe.se))
            for probe in self.probes_of(variable)
        ]
        return np.max([*excess, np.zeros(len(self.loo_over_gcv))], axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with the verdicts: those on the mean squared
        error first.
        """
        if self.error_probes:
            of_error = {"error_verdicts": self.verdicts("error")}
        else:
            of_error = {}
        return {**asdict(self), "verdicts": self.verdicts("mse"), **of_error}


def probe_of(trials: FitTrials, name: str, forecast: Floats) -> Probe:
    """Return the gap between a forecast (ridges,) and the mean of trials."""
    mean = trials.mean(name)
    error = trials.stderr(name)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = forecast / mean
        return Probe(
            trials.samples,
            trials.count,
            tuple((ratio - 1).tolist()),
            tuple((ratio * error / mean).tolist()),
        )


def say(
    evidence: Evidence,
    ridges: Floats,
    best: int,
    choice: str,
    numbers: Mapping[str, str],
) -> str:
    """Return the statement: each variable with its verdict and evidence, then what else
    the reader should know.

    `choice` says in words which ridge is `best` at N rows by the first variable,
    `numbers` what each forecast is there.
    """
    lines: list[str] = []
    for variable, text in numbers.items():
        verdict = judge(evidence, variable, ridges, best)
        why = "the same ridge" if lines else choice
        gaps = [
            f"{100 * p.gap[best]:+.1f} ± {100 * p.se[best]:.1f} % at n = {p.samples}"
            for p in evidence.probes_of(variable)
        ]
        if gaps:
            beside = f"; forecast over experiment {', '.join(gaps)}"
        else:
            beside = ""
        lines.append(f"{WORDS[variable]}: {verdict} ({why}): {text}{beside}.")
    if evidence.probes:
        low = evidence.probes[0].samples
        high = evidence.probes[-1].samples
        lines.append(f"This says little about n below {low} and far above {high}.")
    else:
        lines.append(
            "No experiment was asked for (trials=0), so the method was not tried on"
            " these rows."
        )
    for variable in numbers:
        verdicts = evidence.verdicts(variable)
        told = []
        for verdict in ("fair", "do not trust"):
            others = [
                f"{ridge:.4g}"
                for n, ridge in enumerate(ridges)
                if verdicts[n] == verdict and n != best
            ]
            told += [f"{verdict} at ridge {', '.join(others)}"] if others else []
        if told:
            lines += [f"{WORDS[variable]} at others: {'; '.join(told)}."]
        else:
            lines += []
    return "\n".join([*lines, *_warnings(evidence, best), UNSEEN])


def judge(evidence: Evidence, variable: str, ridges: Floats, place: int) -> str:
    """Return the verdict on a variable at one of the ridges, "good at ridge 1"."""
    return f"{evidence.verdicts(variable)[place]} at ridge {ridges[place]:.4g}"


def _warnings(evidence: Evidence, best: int) -> list[str]:
    ratio = evidence.loo_over_gcv[best]
    z = evidence.loo_z[best]
    cv = evidence.leverage_cv[best]
    lines = []
    if ratio > UNEVEN:
        lines.append(
            f"Leverages are uneven: leave-one-out is {ratio:.2f} times cross-validation"
            f" (z = {z:.1f})."
        )
    if cv > HEAVY:
        rows = ", ".join(map(str, evidence.outliers))
        lines.append(
            f"Heavy tails or outliers (leverage varies by {cv:.2f} of its mean): look"
            f" at rows {rows}."
        )
    if evidence.duplicates:
        lines.append(
            f"{evidence.duplicates} rows are exact copies of others: the forecast is"
            " too good; drop them."
        )
    if evidence.undetermined:
        lines.append(
            f"{evidence.undetermined:.0%} of the points are not determined by these"
            " rows (see status)."
        )
    if evidence.approximate:
        lines.append(
            f"Up to n = {evidence.approximate} the rarest class has fewer than"
            f" {FEW_PER_CLASS} samples: the misclassified share is approximate there."
        )
    return lines
