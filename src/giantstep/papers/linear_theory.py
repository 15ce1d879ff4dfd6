"""The linear theory of one neuron that sees its samples again: growth of the cosine out
of its noise at M = 0.
"""

from __future__ import annotations

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.problems.online_sgd.integrators import Summation
from giantstep.problems.online_sgd.limit import (
    SMALL,
    drift_at,
    label_diffusion,
    plain_integrator,
)
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.states import Drive, drive_of


def linear_theory(scenario: OnlineSGD, tau: Floats) -> tuple[Floats, Floats]:
    """Return q and the rms cosine at tau = t n_b/d for one neuron that starts at m = 0,
    without constraint.

    c = m/sqrt(q) obeys dc = r c dt + sqrt(Dc) dB with r and Dc at the current q, so
    that dV = (2 r V + Dc) dt for V = E c^2, while dq/dt is the flow at m = 0.
    """
    drive, integrator = drive_of(scenario, scenario.point()), plain_integrator(scenario)
    steps = tau * scenario.dim / scenario.batch_size

    def right(t: float, state: Floats) -> Floats:
        q, V = state
        r, dq, diffusion = growth_rates(drive, integrator, float(q))
        return np.array([dq, 2 * r * V + diffusion])

    solution = scipy.integrate.solve_ivp(
        right, (0.0, steps[-1]), [1.0, 0.0], t_eval=steps, rtol=1e-8, atol=1e-12
    )
    return solution.y[0], np.sqrt(solution.y[1])


def growth_rates(
    drive: Drive, integrator: Summation, q: float
) -> tuple[float, float, float]:
    """Return r, dq/dt and Dc of (4.2a) per update at m = 0 and squared norm q; r > 0 is
    the test of learnability.
    """
    small = SMALL * np.sqrt(q)
    drift, dq = drift_at(integrator, drive, np.array([-small, small]), q)
    grow = float(dq.mean())
    r = float((drift[1] - drift[0]) / (2 * small)) - 0.5 * grow / q
    return r, grow, label_diffusion(integrator, drive, q) / q
