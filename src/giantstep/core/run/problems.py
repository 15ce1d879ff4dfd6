"""What a caller should hear of an answer: points that failed, errors above a baseline,
numbers out of proportion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.errors import ConvergenceError, warn_user
from giantstep.core.base.types import Booleans, Floats
from giantstep.core.scenario.answer import last_known
from giantstep.core.scenario.family import Engine
from giantstep.core.scenario.model import Scenario

if TYPE_CHECKING:
    from giantstep.core.result.table import ResultTable
    from giantstep.core.run.request import Request

_ROUNDING = 1e-9
"""Relative amount above a baseline that is not worth a word."""
OUT_OF_PROPORTION = 300.0
"""Samples for each neuron, or neurons for each sample, from which on a user may have
meant a number, not one per d.
"""


def worse_than_nothing(request: Request, table: ResultTable) -> list[str]:
    """Return a note for each error of an answer that is above its baseline."""
    if type(request.grid.scenario).baselines is Scenario.baselines:
        return []
    columns = {
        name: table.gather(name)
        for name in table.pieces
        if len(table.columns[name].dims) < 2
    }
    solved: Booleans = table.diagnostics["converged"]
    # an error and what it is held against -> both, at the solved points of each batch
    errors: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
    for batch in request.grid.batches():
        good = solved[batch.index]
        if not good.any():
            continue
        own = {name: values[batch.index] for name, values in columns.items()}
        with np.errstate(all="ignore"):
            baselines = batch.scenario.baselines(batch.points, request.what, own)
        for name, baseline in baselines.items():
            if name not in own:
                continue
            ends = own[name]
            if ends.ndim > 1:
                ends = last_known(ends, 1)
            of_nothing = np.broadcast_to(baseline.error, good.shape)
            pairs = errors.setdefault((name, baseline.words), [])
            pairs.append((ends[good], of_nothing[good]))
    notes = []
    for (name, words), pairs in errors.items():
        answered, of_nothing = map(np.concatenate, zip(*pairs))
        notes.append(_note(name, words, answered, of_nothing))
    return [note for note in notes if note]


def _note(name: str, words: str, errors: Floats, baseline: Floats) -> str:
    """Say how much worse errors are than a baseline; nothing where they are not."""
    worse = errors > baseline * (1 + _ROUNDING)
    if not worse.any():
        return ""
    most = int(np.argmax(np.where(worse, errors - baseline, -np.inf)))
    if len(errors) == 1:
        return (
            f"{name} = {errors[most]:.3g} is worse than {words}, which gives"
            f" {baseline[most]:.3g}."
        )
    where = f"at {worse.sum()} of {len(errors)} points"
    if worse.all():
        where = "at all points"
    return (
        f"{name} is worse than {words} {where}: at worst {errors[most]:.3g} where that"
        f" gives {baseline[most]:.3g}."
    )


def out_of_proportion(request: Request) -> list[str]:
    """Return a note where a network has many samples for each neuron, or the other way
    round, in plain numbers.
    """
    largest = OUT_OF_PROPORTION
    notes: list[str] = []
    for batch in request.grid.batches():
        points = batch.points
        if "samples_per_dim" not in points or "width_per_dim" not in points:
            continue
        samples = points["samples_per_dim"]
        width = points["width_per_dim"]
        with np.errstate(all="ignore"):
            ratio = np.nan_to_num(
                np.maximum(samples / width, width / samples), posinf=0.0
            )
        worst = int(np.argmax(ratio))
        if ratio[worst] >= largest:
            largest = float(ratio[worst])
            note = _counted(
                samples=float(samples[worst]),
                width=float(width[worst]),
                dim=float(points["dim"][worst]),
                ratio=largest,
            )
            # the worst alone
            notes = [note]
    return notes


def _counted(*, samples: float, width: float, dim: float, ratio: float) -> str:
    """Say how many samples and neurons there are, and that they are counted in units
    of d.
    """
    if math.isinf(dim):
        numbers = f"n = {samples:g} d samples and p = {width:g} d neurons"
    else:
        numbers = (
            f"n = {samples * dim:.0f} samples and p = {width * dim:.0f} neurons at d ="
            f" {dim:.0f}"
        )
    if samples > width:
        many = "samples for each neuron"
    else:
        many = "neurons for each sample"
    units = "`samples_per_dim` and `width_per_dim` count in units of d"
    return f"These are {numbers}, {ratio:.0f} {many}: {units}."


@dataclass
class Problems:
    """Points that one engine did not compute, and what else it has to say."""

    engine: Engine
    points: int  # all of them
    # one for each point that was not computed
    reasons: list[str] = field(default_factory=list)
    # sentences worth a warning, whatever was computed
    remarks: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        """Say how many points were not computed and why the first was not; empty where
        all were.
        """
        if not self.reasons:
            return ""
        verb = "solved" if self.engine == "limit" else "measured"
        first = self.reasons[0].removesuffix(".")
        return (
            f"{len(self.reasons)} of {self.points} points were not {verb} (first"
            f" reason: {first})."
        )

    def refuse(self, strict: bool) -> None:
        """Raise `ConvergenceError` where `strict` asks for it and a point was not
        computed.
        """
        if strict and self.reasons:
            raise ConvergenceError(self.sentence())


def warn(*engines: Problems) -> None:
    """Say everything in one warning, at the line of the user."""
    remarks = [remark for problems in engines for remark in problems.remarks]
    failures = [problems.sentence() for problems in engines]
    text = " ".join(filter(None, [*dict.fromkeys(remarks), *failures]))
    if text:
        warn_user(text)
