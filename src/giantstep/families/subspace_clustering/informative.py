"""State evolution where the assignments are one-hot, not centred: the mean of the data tells of the active features.

The mean direction is known at the SNR gamma = alpha lam/(rho k) always. The channel of the features then depends on lam
beyond b, so that there is no curve lam(a): fixed points are looked for on a grid in log a at each point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from giantstep.families.subspace_clustering.channels import (
    Floats,
    informed_entropy,
    informed_overlap,
    log_odds,
)
from giantstep.families.subspace_clustering.channels import _chi_nodes as chi_nodes
from giantstep.families.subspace_clustering.curve import Problems, falling_root

_GRID = 40
"""Points in log a between 1e-8 and lam at which the step of state evolution is looked at."""
_LOWEST = 1e-8


def known(problems: Problems, lam: Floats) -> Floats:
    """Return gamma, the SNR at which the mean direction of the features is known."""
    gamma: Floats = problems.alpha * lam * problems.channel.variance / problems.rho
    return gamma


def branches(problems: Problems, lam: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Floats]:
    """Return (a, residual) of the uninformed and of the informed branch, and phi of both, (B, 2)."""
    count = len(lam)
    x = np.linspace(np.full(count, np.log(_LOWEST)), np.log(np.maximum(lam, 2 * _LOWEST)), _GRID, axis=1)
    flat = np.repeat(np.arange(count), _GRID)
    excess, _ = _excess(problems.at(flat), lam[flat], x.ravel())
    falls = excess.reshape(x.shape)
    down = (falls[:, :-1] > 0) & (falls[:, 1:] <= 0)
    first = np.where(falls[:, 0] > 0, down.argmax(axis=1), -1)
    last = np.where(down.any(axis=1), down.shape[1] - 1 - down[:, ::-1].argmax(axis=1), -1)
    low, high = (_root(problems, lam, x, place) for place in (first, last))
    phi = np.stack([_phi(problems, lam, a) for a, _ in (low, high)], axis=1)
    return low, high, phi


def onset(problems: Problems) -> Floats:
    """Return the snr at which zero overlap loses stability: (alpha nu^2 lam^2/rho) E expit(gamma t/2 - L) = 1."""

    def excess(x: Floats, index: NDArray[np.intp]) -> tuple[Floats, Floats]:
        some, e = problems.at(index), 1e-6
        values = [_stability(some, np.exp(x + shift)) for shift in (0.0, -e, e)]
        return -values[0], -(values[2] - values[1]) / (2 * e)

    top = np.log(problems.threshold)
    x, _ = falling_root(excess, top + np.log(problems.rho) - 1.0, top + 1e-9)
    return np.exp(x)


def selected(problems: Problems, lam: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return true and false positive rates of selecting features that are active more likely than not.

    The rule is gamma t1/2 + b t2/2 > L (idle features: each divided by 1 + its SNR), averaged over t1 ~ chi^2_1.
    """
    gamma, rank = known(problems, lam), problems.channel.rank
    sparse = problems.rho < 1
    rho = np.where(sparse, problems.rho, 0.5)
    b = np.maximum(b, 1e-300)
    line = log_odds(rho) + 0.5 * np.log1p(gamma) + 0.5 * rank * np.log1p(b)
    rates = []
    for mean, snr in ((gamma, b), (gamma / (1 + gamma), b / (1 + b))):
        r, weights = chi_nodes(mean, line, 1)
        with np.errstate(over="ignore"):
            left = 2 * np.maximum(line[:, None] - 0.5 * mean[:, None] * r**2, 0.0) / snr[:, None]
        rates.append((weights * special.chdtrc(rank, left)).sum(axis=1))
    return np.where(sparse, rates[0], 1.0), np.where(sparse, rates[1], 0.0)


def _stability(problems: Problems, lam: Floats) -> Floats:
    tiny = np.full(len(lam), 1e-9)
    m_v, _ = informed_overlap(tiny, known(problems, lam), problems.rho, problems.channel.rank)
    gain: Floats = np.log(problems.alpha * problems.channel.variance**2 * lam**2 * m_v / tiny / problems.rho)
    return gain


def _excess(problems: Problems, lam: Floats, x: Floats) -> tuple[Floats, Floats]:
    a = np.exp(x)
    b = problems.features_snr(problems.channel.overlap(a), lam)
    m_v, slope = informed_overlap(b, known(problems, lam), problems.rho, problems.channel.rank)
    return np.log(lam * m_v) - x, slope * problems.channel.slope(a) - 1


def _root(problems: Problems, lam: Floats, x: Floats, place: NDArray[np.intp]) -> tuple[Floats, Floats]:
    a, residual = np.zeros(len(lam)), np.zeros(len(lam))
    here = np.flatnonzero(place >= 0)
    if len(here):
        some, snr = problems.at(here), lam[here]
        root, left = falling_root(
            lambda y, index: _excess(some.at(index), snr[index], y), x[here, place[here]], x[here, place[here] + 1]
        )
        a[here], residual[here] = np.exp(root), np.abs(left)
    return a, residual


def _phi(problems: Problems, lam: Floats, a: Floats) -> Floats:
    """Return phi = alpha psi_u(a) + psi_v(gamma, b) - alpha lam nu p/2 m_u m_v, the known direction included."""
    m_u, nu, p = problems.channel.overlap(a), problems.channel.variance, problems.channel.rank
    b = problems.features_snr(m_u, lam)
    entropies = problems.alpha * problems.channel.entropy(a) + informed_entropy(
        b, known(problems, lam), problems.rho, p
    )
    value: Floats = entropies - 0.5 * problems.alpha * nu * p * a * m_u
    return value
