"""State evolution where the assignments are one-hot, not centred: the mean of the data tells of the active features.

The mean direction is known at the SNR gamma = alpha lam/(rho k) always, so that the channel of the features depends on
lam beyond b. One step of state evolution still grows with lam at fixed a: there is one lam for every a, the same curve
of fixed points as in `curve`, with spinodals at the roots of the same 1 - s_u s_v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from giantstep.families.subspace_clustering.channels import (
    AssignmentChannel,
    chi_nodes,
    informed_entropy,
    informed_overlap,
    log_odds,
)
from giantstep.families.subspace_clustering.curve import Problems, falling_root
from giantstep.types import Floats, Indices


@dataclass
class InformedProblems(Problems):
    """Problems whose mean is informative; `onset` is the snr at which zero overlap loses stability."""

    onset: Floats
    grid: ClassVar[int] = 48

    @classmethod
    def of(cls, channel: AssignmentChannel, alpha: Floats, rho: Floats) -> InformedProblems:
        """Return the problems with their onset."""
        rows, place = np.unique(np.stack([alpha, rho], axis=1), axis=0, return_inverse=True)
        plain = Problems(channel, rows[:, 0].copy(), rows[:, 1].copy())
        return cls(channel, alpha, rho, onset(plain)[place.reshape(-1)])

    def at(self, index: Indices) -> InformedProblems:
        """Return the problems at some places (an index may repeat)."""
        return InformedProblems(self.channel, self.alpha[index], self.rho[index], self.onset[index])

    @property
    def threshold(self) -> Floats:
        """The linear stability lam_alg of zero overlap."""
        return self.onset

    def onset_slope(self) -> Floats:
        """Return zero: the slope has no closed form here, and roots are bracketed without it."""
        return np.zeros(len(self.alpha))

    def field(self, a: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (b, m_v, s_v) on the curve at a: lam m_v(b(a, lam), gamma(lam)) = a.

        As m_v is at most one and at least that of centred data, lam lies between a and the lam of those.
        """
        m_u = self.channel.overlap(a)
        centred = Problems(self.channel, self.alpha, self.rho).snr_of(a)

        def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
            own, lam = self.at(index), np.exp(x)
            m_v, by_b, by_mean = informed_overlap(
                own.features_snr(m_u[index], lam), known(own, lam), own.rho, own.channel.rank
            )
            return np.log(a[index]) - x - np.log(m_v), -1 - by_b - by_mean

        x, _ = falling_root(excess, np.log(a) - 1e-12, np.log(centred) + 1e-9)
        lam = np.exp(x)
        b = self.features_snr(m_u, lam)
        m_v, s_v, _ = informed_overlap(b, known(self, lam), self.rho, self.channel.rank)
        return b, m_v, s_v

    def map(self, a: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Return one step of state evolution, a -> lam m_v, and its logarithmic slope."""
        b = self.features_snr(self.channel.overlap(a), lam)
        m_v, s_v, _ = informed_overlap(b, known(self, lam), self.rho, self.channel.rank)
        return lam * m_v, s_v * self.channel.slope(a)

    def phi(self, a: Floats, lam: Floats) -> Floats:
        """Return phi = alpha psi_u(a) + psi_v(gamma, b) - alpha lam nu p/2 m_u m_v, the known direction included."""
        m_u, nu, p = self.channel.overlap(a), self.channel.variance, self.channel.rank
        b = self.features_snr(m_u, lam)
        entropies = self.alpha * self.channel.entropy(a) + informed_entropy(b, known(self, lam), self.rho, p)
        value: Floats = entropies - 0.5 * self.alpha * nu * p * a * m_u
        return value


def known(problems: Problems, lam: Floats) -> Floats:
    """Return gamma, the SNR at which the mean direction of the features is known."""
    gamma: Floats = problems.alpha * lam * problems.channel.variance / problems.rho
    return gamma


def onset(problems: Problems) -> Floats:
    """Return the snr at which zero overlap loses stability: (alpha nu^2 lam^2/rho) E expit(gamma t/2 - L) = 1."""

    def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
        some, lam, tiny = problems.at(index), np.exp(x), np.full(len(x), 1e-9)
        m_v, _, by_mean = informed_overlap(tiny, known(some, lam), some.rho, some.channel.rank)
        gain = np.log(some.alpha * some.channel.variance**2 * lam**2 * m_v / tiny / some.rho)
        return -gain, -2 - by_mean

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
