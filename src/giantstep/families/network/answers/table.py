"""The answer of a limit under construction: columns over points and times, and why a point was not solved."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.families.network.scenario import Network
from giantstep.family import Answer
from giantstep.padding import corner
from giantstep.types import Integers, Points, Strings


class Table:
    """The answer under construction: every variable is NaN until it is filled; times count from the first one asked."""

    def __init__(self, network: Network, points: Points, times: int) -> None:
        self.network, self.points, self.times = network, points, times
        self.answer = Answer.blank(len(points["dim"]))
        self.finite_size: dict[str, None] = {}
        """Which terms of a finite size are in, in words."""

    def put(self, name: str, index: Integers, time: int | None, values: Any) -> None:
        """Fill one variable at some points, at one time (None: it has no time)."""
        values = np.asarray(values, dtype=float)
        own = values.shape[1:]
        array = self.answer.room_for(name, own if time is None else (self.times, *own))
        at_time = array if time is None else array[:, time]
        at_time[corner(index, own)] = values

    def note(self, index: Integers, status: Strings | str, residual: Any = 0.0, iterations: Any = 0) -> None:
        """Keep the first reason, the largest residual and all iterations of some points."""
        answer = self.answer
        answer.status[index] = np.where(answer.status[index] == "", status, answer.status[index])
        answer.residual[index] = np.fmax(answer.residual[index], residual)
        answer.iterations[index] += iterations
