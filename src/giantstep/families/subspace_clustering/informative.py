"""State evolution where the assignments are one-hot, not centred: the mean of the data tells of the active features.

The mean direction is known at the SNR gamma = alpha lam/(rho k) always, subspace_clustering section 8.1, so that the
channel of the features depends on lam beyond b. One step of state evolution still grows with lam at fixed a: there is
one lam for every a, the same curve of fixed points as in `curve`, with spinodals at the roots of the same 1 - s_u s_v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from giantstep.families.subspace_clustering.channels import informed_entropy, informed_overlap, informed_selection
from giantstep.families.subspace_clustering.curve import EXACT, CurveProblems
from giantstep.solve import falling_root
from giantstep.types import Floats, Indices


@dataclass
class InformedProblems(CurveProblems):
    """Problems whose mean is informative; `onset`, the snr at which zero overlap loses stability, is computed once."""

    onset: Floats | None = None
    grid: ClassVar[int] = 48

    def at(self, index: Indices) -> InformedProblems:
        """Return the problems of an index, which may repeat."""
        return InformedProblems(self.channel, self.alpha[index], self.rho[index], self.threshold[index])

    @property
    def threshold(self) -> Floats:
        """The linear stability lam_alg of zero overlap."""
        if self.onset is None:
            self.onset = _onset(CurveProblems(self.channel, self.alpha, self.rho))
        return self.onset

    def onset_slope(self) -> Floats:
        """Return zero: the slope has no closed form here, and roots are bracketed without it."""
        return np.zeros(len(self.alpha))

    def features_overlap(self, b: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Return m_v and s_v of the features at SNR b, their mean known at the SNR gamma(lam)."""
        m_v, s_v, _ = informed_overlap(b, mean_snr(self, lam), self.rho, self.channel.rank)
        return m_v, s_v

    def features_entropy(self, b: Floats, lam: Floats) -> Floats:
        """Return psi_v(gamma, b), the known direction included."""
        return informed_entropy(b, mean_snr(self, lam), self.rho, self.channel.rank)

    def selection(self, b: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Return the true and false positive rates of features that are active more likely than not."""
        return informed_selection(b, mean_snr(self, lam), self.rho, self.channel.rank)

    def field(self, a: Floats, width: float = EXACT) -> tuple[Floats, Floats]:
        """Return (m_v, s_v) on the curve at a: lam m_v(b(a, lam), gamma(lam)) = a, with log lam known up to `width`.

        As m_v is at most one and at least that of centred data, lam lies between a and the lam of those.
        """
        m_u = self.channel.overlap(a)
        centred = CurveProblems(self.channel, self.alpha, self.rho).snr_of(a)

        def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
            own, lam = self.at(index), np.exp(x)
            b, gamma = own.features_snr(m_u[index], lam), mean_snr(own, lam)
            m_v, by_b, by_mean = informed_overlap(b, gamma, own.rho, own.channel.rank)
            return np.log(a[index]) - x - np.log(m_v), -1 - by_b - by_mean

        x, _ = falling_root(excess, np.log(a) - 1e-12, np.log(centred) + 1e-9, width=width)
        lam = np.exp(x)
        return self.features_overlap(self.features_snr(m_u, lam), lam)


def mean_snr(problems: CurveProblems, lam: Floats) -> Floats:
    """Return gamma, the SNR at which the mean direction of the features is known."""
    gamma: Floats = problems.alpha * lam * problems.channel.variance / problems.rho
    return gamma


def _onset(problems: CurveProblems) -> Floats:
    """Return the snr at which zero overlap loses stability: (alpha nu^2 lam^2/rho) E expit(gamma t/2 - L) = 1."""

    def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
        own, lam, tiny = problems.at(index), np.exp(x), np.full(len(x), 1e-9)
        m_v, _, by_mean = informed_overlap(tiny, mean_snr(own, lam), own.rho, own.channel.rank)
        gain = np.log(own.alpha * own.channel.variance**2 * lam**2 * m_v / tiny / own.rho)
        return -gain, -2 - by_mean

    top = np.log(problems.threshold)
    x, _ = falling_root(excess, top + np.log(problems.rho) - 1.0, top + 1e-9)
    return np.exp(x)
