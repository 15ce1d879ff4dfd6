"""What real networks say at an optimum of the limit and beside it: whether it stands.

All places of one optimum are measured on the same draws, so that their differences are
less noisy than each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Floats
from giantstep.core.result.verdicts import (
    POWER,
    SEE,
    chance_line,
    normal_score,
    percent,
    trials_for_gap,
    trials_text,
    visible_gap,
)
from giantstep.core.run.request import Request
from giantstep.core.run.verbs import simulate
from giantstep.core.scenario.model import Scenario

if TYPE_CHECKING:
    from giantstep.tools.design.limits import Observable

CHECKED_DIM = 200
"""Dimension of the networks where none is given."""


class Place(NamedTuple):
    """A place that is measured: the optimum (no name), or a factor of one field; what
    the theory has there.
    """

    name: str
    factor: float
    scenario: Scenario
    theory: float

    def __str__(self) -> str:
        if self.factor < 1:
            return f"half of {self.name}"
        return f"twice of {self.name}"


@dataclass
class Measured:
    """What networks say of one optimum: mean and standard error, percents by which its
    neighbours are worse.
    """

    mean: float
    error: float
    # (field, factor) -> percent and its standard error
    worse: dict[tuple[str, float], tuple[float, float]]
    verdict: str
    sentence: str


_UNMEASURED = Measured(np.nan, np.nan, worse={}, verdict="", sentence="")
"""What stands where nothing was measured."""


@dataclass
class Checks:
    """The checks of the optima of all rows."""

    observable: Observable
    sign: float
    trials: int
    rows: dict[int, Measured] = field(default_factory=dict)
    size: int = 0

    def columns(self, name: str, fields: Sequence[str]) -> dict[str, Any]:
        """Return the columns of a result: own dimensions, values, what they are."""
        rows = [self.rows.get(row, _UNMEASURED) for row in range(self.size)]
        mean = np.array([one.mean for one in rows])
        error = np.array([one.error for one in rows])
        columns: dict[str, Any] = {
            f"{name}_measured": (
                (),
                mean,
                f"{name} of {self.trials} networks at the optimum",
            ),
            f"{name}_measured_stderr": (
                (),
                error,
                f"standard error of {name}_measured",
            ),
        }
        if fields:
            for word, factor in (("half", 0.5), ("twice", 2.0)):
                percents, errors = _worse(rows, fields, factor)
                column = f"measured_worse_at_{word}"
                columns[column] = (
                    ("field",),
                    percents,
                    f"the same of networks, with {word} of the field",
                )
                columns[f"{column}_stderr"] = (
                    ("field",),
                    errors,
                    f"standard error of {column}",
                )
        verdicts = np.array([one.verdict for one in rows], dtype=str)
        sentences = np.array([one.sentence for one in rows], dtype=str)
        columns["verdict"] = ((), verdicts, "what networks say of the optimum")
        columns["checked"] = ((), sentences, "the same in a sentence")
        return columns


def _worse(
    rows: Sequence[Measured], fields: Sequence[str], factor: float
) -> tuple[Floats, Floats]:
    """Return by how much networks get worse with this factor of each field, and the
    standard errors: both of shape (rows, fields), NaN where it was not measured.
    """
    worse = np.full((len(rows), len(fields)), np.nan)
    errors = np.full((len(rows), len(fields)), np.nan)
    for place, one in enumerate(rows):
        for column, name in enumerate(fields):
            if (name, factor) in one.worse:
                worse[place, column], errors[place, column] = one.worse[name, factor]
    return worse, errors


def check_places(
    places: Sequence[Place],
    checks: Checks,
    request: Request,
    dim: int | None,
    progress: ProgressOption,
) -> Measured:
    """Measure the optimum, which comes first, and its neighbours; say whether it
    stands.
    """
    settings: Mapping[str, Any] = request.given
    size: dict[str, Any] = {}
    at_dim = ""
    if dim is not None:
        size["dim"] = dim
        at_dim = f" at d = {dim}"
    values = []
    for place in places:
        trials = simulate(
            place.scenario,
            what=request.what,
            trials=checks.trials,
            seed=request.seed,
            paired=True,
            keep_trials=True,
            progress=progress,
            **size,
            **settings,
        )
        values.append(checks.observable.select(trials[checks.observable.name]).values)
    return judge(
        places,
        np.array(values, dtype=np.float64),
        checks.sign,
        at_dim,
    )


def judge(
    places: Sequence[Place], values: Floats, sign: float, at_dim: str
) -> Measured:
    """Return what measured `values` (places, trials) say of the optimum, which is the
    first place.
    """
    trials = values.shape[1]
    root = np.sqrt(trials)
    line = chance_line(len(places))
    freedom = trials - 1
    theory = places[0].theory
    optimum = values[0]
    mean = float(optimum.mean())
    spread = float(optimum.std(ddof=1))
    error = spread / root
    gap = mean / theory - 1
    worse = {}
    better = []
    room = 0.0
    for place, own in zip(places[1:], values[1:]):
        difference = 100 * sign * (own - optimum) / abs(mean)
        percents = float(difference.mean())
        deviation = float(difference.std(ddof=1)) / root
        worse[place.name, place.factor] = percents, deviation
        room = max(room, 2 * deviation - percents)
        if percents < 0 and _score(percents, deviation, freedom) > line:
            better.append((percents, deviation, place))
    visible = float(visible_gap(abs(spread / mean), trials, len(places)))
    measured = (
        f"{trials} networks{at_dim} have {mean:.4g} +- {error:.2g} there, the theory"
        f" {theory:.4g}"
    )
    measured += f" ({100 * gap:+.2g}%)"
    if better:
        percents, deviation, place = min(better, key=lambda one: one[0])
        there = 100 * sign * (place.theory - theory) / abs(theory)
        verdict = f"theory is {_two_digits(abs(there - percents) / 100)} off beside it"
        also = (
            f"; networks are better by {-percents:.2g} +- {deviation:.1g}% with {place}"
        )
    elif _score(mean - theory, error, freedom) > line:
        verdict = f"theory is {_two_digits(abs(gap))} off there"
        also = _nothing_better(worse, room)
    elif visible > SEE:
        needed = float(trials_for_gap(abs(spread / mean), SEE, len(places), POWER))
        verdict = "cannot tell"
        enough = trials_text(None)
        if np.isfinite(needed):
            enough = trials_text(int(needed))
        also = f"; {enough} would show a gap of 5%"
    else:
        verdict = "stands"
        also = _nothing_better(worse, room)
    return Measured(mean, error, worse, verdict, f"{verdict}: {measured}{also}")


def _score(gap: float, error: float, freedom: int) -> float:
    """Return the size of a gap as a normal score; that of an error of 0 is infinite,
    unless there is no gap.
    """
    if error == 0:
        return 0.0 if gap == 0 else np.inf
    return float(abs(normal_score(gap / error, freedom)))


def _two_digits(gap: float) -> str:
    return percent(float(f"{gap:.2g}"))


def _nothing_better(worse: Mapping[Any, Any], room: float) -> str:
    if not worse:
        return ""
    if room <= 0:
        return "; half and twice of every field are worse"
    return f"; no half or twice of a field is better by more than {room:.2g}%"
