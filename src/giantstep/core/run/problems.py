"""What a caller should hear of an answer: points that failed, errors above a baseline,
numbers out of proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    pass


import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    errors: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
    for batch in request.grid.batches():
        own = {name: values[batch.index] for name, values in columns.items()}
        good = solved[batch.index]
        with np.errstate(all="ignore"):
            if good.any():
                baselines = batch.scenario.baselines(batch.points, request.what, own)
            else:
                baselines = {}
        for name, baseline in baselines.items():
            if name in own:
                ends = own[name] if own[name].ndim == 1 else last_known(own[name], 1)
                pair = ends[good], np.broadcast_to(baseline.error, good.shape)[good]
                errors.setdefault((name, baseline.words), []).append(pair)
    notes = [
        _note(*key, *map(np.concatenate, zip(*pairs))) for key, pairs in errors.items()
    ]
    return [note for note in notes if note]


def _note(name: str, words: str, found: Floats, blind: Floats) -> str:
    worse = found > blind * (1 + _ROUNDING)
    if not worse.any():
        return ""
    most = int(np.argmax(np.where(worse, found - blind, -np.inf)))
    if len(found) == 1:
        return (
            f"{name} = {found[most]:.3g} is worse than {words}, which gives"
            f" {blind[most]:.3g}."
        )
    if worse.all():
        where = "at all points"
    else:
        where = f"at {worse.sum()} of {len(found)} points"
    return (
        f"{name} is worse than {words} {where}: at worst {found[most]:.3g} where that"
        f" gives {blind[most]:.3g}."
    )


def out_of_proportion(request: Request) -> list[str]:
    """Return a note where a network has many samples for each neuron, or the other way
    round, in plain numbers.
    """
    largest = OUT_OF_PROPORTION
    said = ""
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
            said = _counted(
                float(samples[worst]),
                float(width[worst]),
                float(points["dim"][worst]),
                largest,
            )
    return [said] if said else []


def _counted(samples: float, width: float, dim: float, ratio: float) -> str:
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
        verb = "solved" if self.engine == "limit" else "measured"
        count = f"{len(self.reasons)} of {self.points}"
        if not self.reasons:
            return ""
        return (
            f"{count} points were not {verb} (first reason:"
            f" {self.reasons[0].removesuffix('.')})."
        )

    def refuse(self, strict: bool) -> None:
        """Raise `ConvergenceError` where `strict` asks for it and a point was not
        computed.
        """
        if strict and self.reasons:
            raise ConvergenceError(self.sentence())


def warn(*engines: Problems) -> None:
    """Say everything in one warning, at the line of the user."""
    sentences: Sequence[str] = [
        remark for problems in engines for remark in problems.remarks
    ]
    sentences = [
        *dict.fromkeys(sentences),
        *(problems.sentence() for problems in engines),
    ]
    text = " ".join(filter(None, sentences))
    if text:
        warn_user(text)
