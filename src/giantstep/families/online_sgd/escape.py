"""Leaving the saddle at M = 0: the mean escape time with its constant.

One neuron, one direction. On the sphere, near m = 0, dm = r m dt + sqrt(Dm) dB with Dm = g^2 a^2 E[F^2 z^2]/n_b, and m
grows out of its noise as m_inf exp(r t), m_inf = m_0 + sqrt(Dm/2r) N. Then the mean time to |m| = m* is

    T = -E[log m_inf^2]/(2r) + lim_{e -> 0} { int_e^{m*} dm/b(m) + log(e)/r },   b the drift of the ODE,

gradient_dynamics (2.5a). Without a constraint the cosine c = m/sqrt(q) obeys the same law with (4.2a).
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from giantstep.families.online_sgd.dynamics import flow
from giantstep.families.online_sgd.integrators import Integrator, integrator_for
from giantstep.families.online_sgd.moments import Summation
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.states import Drive, drive_of
from giantstep.gaussian.quadrature import gauss_legendre_panels
from giantstep.types import Floats, Points

SMALL = 1e-5
"""Overlap at which the slope of the drift is taken: its cubic term leaves 1e-10, rounding 1e-11."""
DEEP = -20.0
"""log m from which the drift is linear."""


def escape(scenario: OnlineSGD, points: Points, threshold: float, integrator: Integrator) -> tuple[Floats, Floats]:
    """Return the mean escape time in updates and the rate r at every point; NaN where nothing is unstable."""
    time, rate = np.full((2, len(points["rate"])), np.nan)
    single = scenario.width == 1 and scenario.directions == 1 and scenario.constraint != "none"
    if not single or integrator.sampled:
        return time, rate
    every, plain = drive_of(scenario, points), plain_integrator(scenario)
    for i in range(len(rate)):
        drive = every.take(slice(i, i + 1))
        low, high = drift_at(integrator, drive, np.array([-SMALL, SMALL]))[0]
        r = float((high - low) / (2 * SMALL))
        if r <= 0 or abs(low + high) > 1e-3 * abs(high - low):  # stable, or no fixed point
            continue
        rate[i] = r
        variance = label_diffusion(plain, drive) / (2 * r)
        time[i] = -_mean_log(scenario, float(drive.dim[0]), variance) / (2 * r)
        time[i] += _constant(integrator, drive, r, threshold)
    return time, rate


def drift_at(integrator: Integrator, drive: Drive, m: Floats, q: float = 1.0) -> tuple[Floats, Floats]:
    """Return dm/dt and dq/dt at overlaps m and squared norm q."""
    many = drive.take(np.zeros(len(m), dtype=int))
    dM, dQ = flow(integrator, many, m[:, None, None], np.full((len(m), 1, 1), q))
    return dM[:, 0, 0], dQ[:, 0, 0]


def plain_integrator(scenario: OnlineSGD) -> Summation:
    """Return a sum over nodes for the moments of one neuron without a constraint: closed forms know no E[F^2 z^2]."""
    free = scenario.replace(constraint="none")
    integrator = integrator_for(free)
    if not isinstance(integrator, Summation):
        integrator = integrator_for(free, "tensor")
    assert isinstance(integrator, Summation)
    return integrator


def label_diffusion(integrator: Summation, drive: Drive, q: float = 1.0) -> float:
    """Return Dm = g^2 a^2 E[F^2 z^2]/n_b at m = 0, label noise included."""
    total = integrator.label_spread(np.array([[[0.0, np.sqrt(q)]]]), drive.inner[:1], drive.noise[:1]).item()
    return float((drive.pace[0] * drive.second_layer[0]) ** 2 * total / drive.batch[0])


def _mean_log(scenario: OnlineSGD, dim: float, variance: float) -> float:
    """Return E log m_inf^2 for m_inf = m_0 + sqrt(variance) N."""
    if scenario.initial_overlap == "gaussian":
        return float(np.log(variance + 1 / dim) - np.euler_gamma - np.log(2))
    if scenario.initial_overlap == "zero":
        return float(np.log(variance) - np.euler_gamma - np.log(2))
    start = 1 / dim if scenario.initial_overlap == "random" else float(np.square(scenario.initial_overlap).sum())
    mean = start / (2 * variance)
    if mean > 300:
        return float(np.log(start) - variance / start)
    n = np.arange(1000)
    poisson = np.exp(xlogy(n, mean) - mean - gammaln(n + 1))
    return float(np.log(2 * variance) + poisson @ digamma(n + 0.5))


def _constant(integrator: Integrator, drive: Drive, r: float, threshold: float) -> float:
    """Return the limit in braces, integrated over u = log m."""
    top = np.log(threshold)
    u, weights = gauss_legendre_panels(np.linspace(DEEP, top, 13), 12)
    m = np.exp(u)
    drift, _ = drift_at(integrator, drive, m)
    linear = m < 1e-4  # there the difference is below rounding
    integrand = np.where(linear, 0.0, m / drift - 1 / r)
    if np.any(~linear & ~(drift > 0)):
        return np.inf
    return float(weights @ integrand + top / r)
