"""Runs that go on with another loss and a decaying rate once their error has fallen."""

from __future__ import annotations

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.lab import Draws
from giantstep.problems.online_sgd.dynamics import map_step
from giantstep.problems.online_sgd.integrators import integrator_for
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.simulators import LawSimulator
from giantstep.problems.online_sgd.states import drive_of, rows, starts


def errors_with_change(
    first: OnlineSGD,
    then: OnlineSGD | None = None,
    share: float = 0.6,
    decay: float = 0.995,
    seed: int | None = None,
) -> Floats:
    """Return the squared error before each of the T updates of a run.

    Parameters
    ----------
    first : the run, as it begins.
    then : how it goes on, with algorithm and rate of its own; the run does not change
        if it is left out.
    share : it changes where the error falls below this share of the first one.
    decay : the rate falls by this factor with every update after the change.
    seed : of a run of the exact-in-law simulator; the mean map if it is left out.
    """
    integrator = integrator_for(first)
    scenario = first
    rate = first.rate
    M, Q = starts(first, first.dim, seed or 0, 0, 1)
    draws = Draws(seed or 0, "adaptive", 0)
    errors = np.empty(first.steps)
    for update in range(first.steps):
        check_time()
        errors[update] = integrator.mse(rows(M, Q))[0]
        if (
            then is not None
            and scenario is first
            and errors[update] < share * errors[0]
        ):
            scenario = then
            rate = then.rate
        drive = drive_of(scenario, {**scenario.point(), "rate": np.array([rate])})
        if seed is None:
            M, Q = map_step(integrator_for(scenario), drive, M, Q)
        else:
            simulator = LawSimulator(
                scenario, drive, (M, Q), first.dim, scenario.batch_size, draws
            )
            simulator.advance(1)
            M, Q = (part[0] for part in simulator.overlaps())
        rate = rate if scenario is first else rate * decay
    return errors
