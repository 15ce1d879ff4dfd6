"""Finding clusters and their features, in plain loops: subspace_clustering.

There are k clusters, and a fraction rho of the features differs between them. The order
of the argument is that of the page:

1. What a sample tells about its cluster at signal-to-noise ratio a: `m_u`, `psi_u`,
   section 2.1. What a feature tells about its means at b: `m_v`, `psi_v`, section 2.2.
2. The two feed each other: state evolution, section 3 (`fixed_point`). From below it
   ends where message passing does, from above at the informed branch.
3. The branch of larger free entropy is the best possible one, section 4 (`phi`).
4. Given an overlap m there is one ratio lam(m) that has it as a fixed point. The
   thresholds are read off this curve, section 5 (`thresholds`).

>>> model = Model(clusters=2, sparsity=0.05, samples_per_dim=2.0)
>>> m = fixed_point(model, lam=1.5 * model.lam_alg, start=1e-6)
>>> round(m, 8), round(accuracy(model, 1.5 * model.lam_alg, m), 8)
(0.53528455, 0.83554684)
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats
from scipy.special import expit, gamma, ndtr

from giantstep.reference.averages import normal_density, panel_points, panels


@dataclass
class Model:
    """The letters of the page are in the comments."""

    clusters: int  # k
    sparsity: float  # rho
    samples_per_dim: float  # alpha
    informative: bool = False  # the mean of the data is kept, section 8.1

    @property
    def p(self):
        """Dimensions in which the clusters differ."""
        return self.clusters - 1

    @property
    def lam_alg(self):
        """Where m = 0 loses its stability, for centred data."""
        return self.clusters / np.sqrt(self.samples_per_dim)


# -- section 2.1: the cluster of a sample -----------------------------------------


def m_u(model, a):
    """Return the overlap of the assignments, (2.1d); for two clusters E tanh^2."""
    k = model.clusters
    if a <= 0:
        return 0.0
    root = np.sqrt(a)
    # The trapezoidal rule converges very fast for smooth integrands on the whole line.
    step = min(0.4, 0.2 / root)
    z = np.arange(-9, 9, step)
    weights = step * normal_density(z)
    if k == 2:
        return float(weights @ np.tanh(a / 2 + np.sqrt(a / 2) * z) ** 2)
    y = np.arange(-9 * root - 4, 9 * root + a + 40, 0.2)

    def F(y):
        # The distribution function of a Gumbel variable plus sqrt(a) N(0,1).
        return np.exp(-np.exp(root * z - y[:, None])) @ weights

    slope = root * z - y[:, None]
    f = np.exp(slope - np.exp(slope)) @ weights
    return float(1 - k * 0.2 * np.sum(f * F(y) ** (k - 2) * F(y - a)))


def psi_u(model, a):
    """Return the free entropy of the channel, the integral of (2.1b)."""
    points, lengths = panels(np.linspace(0, a, 4))
    slopes = np.array([m_u(model, point) for point in points])
    return (1 - 1 / model.clusters) / 2 * (lengths @ slopes)


# -- section 2.2: the means of a feature ------------------------------------------


def chi_square_points(degrees, slope, shift, count=24):
    """Return points t and weights of chi^2, fine where expit(slope t - shift) turns."""
    turn = shift + np.array([-40, -20, -8, -3, 0, 3, 8, 20, 40])
    roots = np.sqrt(np.maximum(turn, 0) / max(slope, 1e-300))
    top = np.sqrt(degrees) + 10
    edges = np.concatenate([np.linspace(0, top, 13), roots[roots < top]])
    r, lengths = panels(np.unique(edges), count)
    norm = 2 ** (degrees / 2 - 1) * gamma(degrees / 2)
    return r**2, lengths * r ** (degrees - 1) * np.exp(-r * r / 2) / norm


def log_odds(model, b):
    """Return L_0 of (2.2a)."""
    rho = model.sparsity
    return np.log((1 - rho) / rho) + model.p / 2 * np.log(1 + b)


def m_v(model, b, lam):
    """Return the overlap of the means, (2.2c) or, with the mean, that of section 8.1."""  # noqa: E501
    if model.sparsity == 1:
        return b / (1 + b)
    shift = log_odds(model, b)
    if not model.informative:
        t, weights = chi_square_points(model.p + 2, b / 2, shift)
        return b / (1 + b) * (weights @ expit(b * t / 2 - shift))
    # The mean direction is known at this ratio gamma, whatever the overlap.
    known = model.samples_per_dim * lam / (model.sparsity * model.clusters)
    shift = shift + np.log(1 + known) / 2
    total = 0.0
    t1s, masses = chi_square_points(1, known / 2, shift, count=8)
    for t1, mass in zip(t1s, masses, strict=True):
        sure = known * t1 / 2 - shift
        t2, weights = chi_square_points(model.p + 2, b / 2, -sure, count=8)
        total += mass * (weights @ expit(sure + b * t2 / 2))
    return b / (1 + b) * total


def psi_v(model, b):
    """Return the free entropy of the channel, (2.2d) and (2.2e)."""
    rho = model.sparsity
    p = model.p
    if rho == 1:
        return p / 2 * (b - np.log(1 + b))
    shift = log_odds(model, b)
    t, weights = chi_square_points(p, b / 2, shift)
    active = weights @ np.logaddexp(0, b * t / 2 - shift)
    t, weights = chi_square_points(p, b / (2 * (1 + b)), shift)
    idle = weights @ np.logaddexp(0, b * t / (2 * (1 + b)) - shift)
    return np.log(1 - rho) + rho * active + (1 - rho) * idle


# -- sections 3 and 4: state evolution and free entropy ---------------------------


def feature_ratio(model, lam, m):
    """Return b of (3a)."""
    return model.samples_per_dim * lam * m / (model.sparsity * model.clusters)


def sweep(model, lam, m):
    """Return G(m; lam): one sweep of state evolution, (3a) and (3b)."""
    return m_u(model, lam * m_v(model, feature_ratio(model, lam, m), lam))


def fixed_point(model, lam, start):
    """Return m_u where the sweeps end; they are monotone and need no damping."""
    m = start
    for _ in range(2000):
        before = m
        m = sweep(model, lam, m)
        if abs(m - before) < 1e-13 or m < 1e-10:
            break
    return m


def phi(model, lam, m):
    """Return the free entropy of an overlap, (4a), for centred data."""
    alpha = model.samples_per_dim
    k = model.clusters
    b = feature_ratio(model, lam, m)
    v = m_v(model, b, lam)
    both = alpha * lam * (k - 1) / (2 * k) * m * v
    return alpha * psi_u(model, lam * v) + psi_v(model, b) - both


# -- section 5: thresholds, from the curve lam(m) ---------------------------------


def curve(model, m):
    """Return the one ratio that has the overlap m as a fixed point."""

    def gap(log_ratio):
        return sweep(model, model.lam_alg * np.exp(log_ratio), m) - m

    return model.lam_alg * np.exp(optimize.brentq(gap, -3, 4, xtol=1e-12))


def thresholds(model):
    """Return lam_dyn, lam_jump and lam_algB of a first-order transition."""
    grid = np.exp(np.linspace(np.log(0.02), np.log(0.9), 25))
    values = [curve(model, m) for m in grid]
    low = int(np.argmin(values))
    bottom = optimize.minimize_scalar(
        lambda log_m: curve(model, np.exp(log_m)),
        bracket=np.log(grid[low - 1 : low + 2]),
        options={"xtol": 1e-7},
    )
    m_dyn = np.exp(bottom.x)
    # The maximum sits near rho^2; the onset itself may be higher.
    top = optimize.minimize_scalar(
        lambda log_m: -curve(model, np.exp(log_m)),
        bounds=(2 * np.log(model.sparsity) - 6, bottom.x),
        method="bounded",
        options={"xatol": 1e-7},
    )
    lam_algB = max(-top.fun, model.lam_alg)

    def advantage(m):
        lam = curve(model, m)
        lower = 0.0
        if lam > model.lam_alg:
            lower = fixed_point(model, lam, start=1e-6)
        return phi(model, lam, m) - phi(model, lam, lower)

    # phi of the upper branch overtakes that of the lower one above m_dyn.
    end = optimize.brentq(lambda m: curve(model, m) - lam_algB, m_dyn, 0.999)
    m_jump = optimize.brentq(advantage, m_dyn * (1 + 1e-6), end, xtol=1e-12)
    return {
        "lam_dyn": bottom.fun,
        "lam_jump": curve(model, m_jump),
        "lam_algB": lam_algB,
    }


# -- section 7: what is seen at a fixed point -------------------------------------


def accuracy(model, lam, m):
    """Return the share of samples in the right cluster, (2.1c)."""
    a = lam * m_v(model, feature_ratio(model, lam, m), lam)
    z, weights = panel_points()
    return float(weights @ ndtr(z + np.sqrt(a)) ** model.p)


def selection(model, lam, m):
    """Return which shares of active and of idle features are selected, (7c)."""
    if model.sparsity == 1:
        return 1.0, 0.0
    b = feature_ratio(model, lam, m)
    T = 2 * (1 + b) * max(log_odds(model, b), 0)
    return stats.chi2.sf(T / (b * (1 + b)), model.p), stats.chi2.sf(T / b, model.p)
