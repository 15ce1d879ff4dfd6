"""The answer of a limit under construction: columns over points and times, and why a point was not solved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from giantstep.families.network.scenario import Network
from giantstep.family import Answer
from giantstep.padding import corner, largest_shape
from giantstep.types import Floats, Integers, Points, Strings


@dataclass
class Table:
    """The answer under construction: every variable is NaN until it is filled; times count from the first one asked."""

    network: Network
    points: Points
    times: int
    values: dict[str, Floats] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    finite_size: dict[str, None] = field(default_factory=dict)
    """Which terms of a finite size are in, in words."""
    accuracy: dict[str, str] = field(default_factory=dict)
    """What was approximated, in words -> how far off that may be."""

    def __post_init__(self) -> None:
        count = len(self.points["dim"])
        self.status = np.full(count, "", dtype=object)
        self.residual, self.iterations = np.zeros(count), np.zeros(count, dtype=np.int64)

    def put(self, name: str, index: Integers, time: int | None, values: Any) -> None:
        """Fill one variable at some points, at one time (None: it has no time)."""
        values = np.asarray(values, dtype=float)
        lead = () if time is None else (self.times,)
        array = self.values.get(name)
        own = values.shape[1:] if array is None else largest_shape([values.shape[1:], array.shape[1 + len(lead) :]])
        if array is None or array.shape[1 + len(lead) :] != own:  # inputs at other points may have fewer atoms
            larger = np.full((len(self.status), *lead, *own), np.nan)
            if array is not None:
                larger[corner(slice(None), array.shape[1:])] = array
            array = self.values[name] = larger
        at_time = array if time is None else array[:, time]
        at_time[corner(index, values.shape[1:])] = values

    def note(self, index: Integers, status: Strings | str, residual: Any = 0.0, iterations: Any = 0) -> None:
        """Keep the first reason, the largest residual and all iterations of some points."""
        self.status[index] = np.where(self.status[index] == "", status, self.status[index])
        self.residual[index] = np.fmax(self.residual[index], residual)
        self.iterations[index] += iterations

    def answer(self) -> Answer:
        """Return what was filled."""
        warnings = list(dict.fromkeys(self.warnings))
        return Answer(self.values, self.status.astype(str), self.residual, self.iterations, warnings=warnings)
