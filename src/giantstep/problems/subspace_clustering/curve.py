"""State evolution as one curve: every fixed point of a problem, parametrised by the SNR
a of the assignments.

At a fixed point, subspace_clustering (3a)-(3b), a = lam m_v and b = alpha nu lam
m_u/rho (nu the variance of the assignments, 1/k). Given a, the overlap m_u(a) is
explicit, b solves the one-dimensional equation b m_v(b) = alpha nu a m_u(a)/rho, and
lam = a/m_v(b). Along that curve

    d log lam/d log a = (1 - s_u s_v)/(1 + s_v),

with s_u, s_v the logarithmic slopes of the channels: the spinodals are the roots of 1 -
s_u s_v, no minimisation is needed and no root can be missed by iterating through a
critical slowing down. Everything is batched over problems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Booleans, Floats, Indices
from giantstep.core.maths.solve.roots import brent_root, crossing, falling_root
from giantstep.problems.subspace_clustering.channels import (
    AssignmentChannel,
    assignment_channel,
    features_entropy,
    features_overlap,
)

_LOWEST = 1e-11
_LARGEST = 80.0
"""SNR a between which turning points are looked for."""
_GRID = 160
_GRID_INFORMATIVE = 48
_ROUNDS = 5
"""Points in log a on which they are looked for, fewer where a point takes milliseconds,
and rounds of refinement.
"""
_ABOVE = 1 + 1e-14
"""An snr that is lam_alg up to rounding is not above it."""


@dataclass
class CurveProblems:
    """A batch of problems with the same assignment channel: alpha and rho of shape
    (C,).

    `informative`: the mean direction of the features is known at the SNR gamma = alpha
    lam/(rho k), section 8.1. One step still grows with lam at fixed a, so that there is
    one lam for every a, and spinodals are roots of the margin.
    """

    channel: AssignmentChannel
    alpha: Floats
    rho: Floats
    informative: bool = False
    onset: Floats | None = (
        # the snr at which zero overlap loses stability, where it was computed already
        None
    )

    def at(self, index: Indices) -> CurveProblems:
        """Return the problems of an index, which may repeat."""
        onset = self.threshold[index] if self.informative else None
        return CurveProblems(
            self.channel, self.alpha[index], self.rho[index], self.informative, onset
        )

    def different(self) -> tuple[CurveProblems, Indices]:
        """Return the different problems among them, and which of those each is."""
        pairs, place = np.unique(
            np.stack([self.alpha, self.rho]), axis=1, return_inverse=True
        )
        return CurveProblems(
            self.channel, pairs[0], pairs[1], self.informative
        ), place.reshape(-1)

    @property
    def threshold(self) -> Floats:
        """The linear stability lam_alg of zero overlap (BBP): k/sqrt(alpha), less with
        an informative mean.
        """
        if self.onset is None:
            self.onset = 1 / (self.channel.variance * np.sqrt(self.alpha))
            if self.informative:
                top = np.log(self.onset)
                self.onset = np.exp(
                    falling_root(
                        self._excess_at_zero, top + np.log(self.rho) - 1.0, top + 1e-9
                    )[0]
                )
        return self.onset

    def _excess_at_zero(self, x: Floats, index: Indices) -> tuple[Floats, Floats]:
        """Return -log (alpha nu^2 lam^2/rho) E expit(gamma t/2 - L), zero at the onset,
        and its slope.
        """
        alpha = self.alpha[index]
        rho = self.rho[index]
        nu = self.channel.variance
        lam = np.exp(x)
        tiny = 1e-9
        m_v, _, by_mean = features_overlap(
            tiny, rho, self.channel.rank, alpha * lam * nu / rho
        )
        return -np.log(alpha * nu**2 * lam**2 * m_v / tiny / rho), -2 - by_mean

    def observed(self, m_u: Floats, lam: Floats) -> tuple[Floats, Floats, int, Floats]:
        """Return what the features are seen with: b = alpha nu lam m_u/rho, rho, p, and
        gamma, 0 without the mean.
        """
        snr = self.alpha * self.channel.variance * lam / self.rho
        return snr * m_u, self.rho, self.channel.rank, self.informative * snr

    def features(self, m_u: Floats, lam: Floats) -> tuple[Floats, Floats, Floats]:
        """Return m_v and its logarithmic slopes in b and in gamma."""
        return features_overlap(*self.observed(m_u, lam))

    def field(self, a: Floats) -> tuple[Floats, Floats]:
        """Return (m_v, s_v) on the curve at a: lam m_v(b, gamma) = a with b = alpha nu
        lam m_u(a)/rho.

        The root lies between those of the two bounds rho b/(1 + rho b) <= m_v <= b/(1 +
        b).
        """
        m_u = self.channel.overlap(a)
        scale = self.observed(m_u, np.ones(len(a)))[0]  # b over lam
        y = scale * a
        low = 0.5 * (y + np.sqrt(y**2 + 4 * y))
        high = 0.5 * (y + np.sqrt(y**2 + 4 * y / self.rho))
        # no more is needed than by those whose mean says nothing, which is found fast
        if self.informative:
            high = scale * CurveProblems(self.channel, self.alpha, self.rho).snr_of(a)

        def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
            m_v, by_b, by_mean = self.at(index).features(
                m_u[index], np.exp(x) / scale[index]
            )
            return np.log(y[index]) - x - np.log(m_v), -1 - by_b - by_mean

        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # log 0 at a = 0, where the root is b = 0
            x, _ = falling_root(excess, np.log(low) - 1e-12, np.log(high) + 1e-12)
            m_v, s_v, _ = self.features(m_u, np.exp(x) / scale)
        return m_v, s_v

    def snr_of(self, a: Floats) -> Floats:
        """Return lam on the curve at a."""
        return a / self.field(a)[0]

    def margin(self, a: Floats) -> Floats:
        """Return 1 - s_u s_v on the curve at a: positive where the fixed point is
        stable.
        """
        return 1 - self.channel.slope(a) * self.field(a)[1]

    def phi(self, a: Floats, lam: Floats) -> Floats:
        """Return the free entropy per dimension at a fixed point, subspace_clustering
        (4a); zero at a = 0.

        phi = alpha psi_u(a) + psi_v(b) - alpha lam nu p/2 m_u m_v.
        """
        m_u = self.channel.overlap(a)
        nu = self.channel.variance
        p = self.channel.rank
        psi_v = features_entropy(*self.observed(m_u, lam))
        return (
            self.alpha * self.channel.entropy(a)
            + psi_v
            - 0.5 * self.alpha * nu * p * a * m_u
        )


class Turning(NamedTuple):
    """The turning points of each curve; where lam(a) rises throughout, all of them are
    the onset (a = 0, lam_alg).
    """

    a_dyn: Floats
    lam_dyn: Floats
    a_algB: Floats
    lam_algB: Floats
    first_order: Booleans

    def at(self, index: Indices) -> Turning:
        """Return the points of some of the problems."""
        return Turning(*(column[index] for column in self))  # type: ignore[arg-type]


def turning_points(problems: CurveProblems) -> Turning:
    """Return the spinodals, where 1 - s_u s_v changes sign: the last minimum of lam(a),
    the largest value before it.
    """
    brackets: list[
        tuple[int, float, float, float]
    ] = []  # problem, x on both sides, 1 at a maximum of lam
    for c in range(len(problems.alpha)):
        x, margin = _margin_grid(problems.at(np.array([c])))
        positive = margin > 0
        turns = np.flatnonzero(positive[1:] != positive[:-1])
        brackets += [(c, x[i], x[i + 1], 1.0 if positive[i] else -1.0) for i in turns]
    owner, low, high, sign = np.array(brackets).reshape(-1, 4).T
    owner = owner.astype(int)
    owners, count, onset = problems.at(owner), len(problems.alpha), problems.threshold
    turning = Turning(
        np.zeros(count),
        onset.copy(),
        np.zeros(count),
        onset.copy(),
        np.zeros(count, bool),
    )
    if not len(owner):
        return turning

    a = np.exp(
        crossing(
            lambda y, index: sign[index] * owners.at(index).margin(np.exp(y)), low, high
        )
    )
    lam = owners.snr_of(a)
    for c in np.unique(owner):
        minima = np.flatnonzero((owner == c) & (sign < 0))
        if not len(minima):
            continue
        last = minima[-1]
        turning.first_order[c], turning.a_dyn[c], turning.lam_dyn[c] = (
            True,
            a[last],
            lam[last],
        )
        maxima = np.flatnonzero((owner == c) & (sign > 0) & (a < a[last]))
        top = maxima[np.argmax(lam[maxima])] if len(maxima) else None
        if top is not None and lam[top] > onset[c]:
            turning.a_algB[c], turning.lam_algB[c] = a[top], lam[top]
    return turning


def _margin_grid(problem: CurveProblems) -> tuple[Floats, Floats]:
    """Return points x = log a in increasing order, and the margins 1 - s_u s_v there,
    of one problem.

    Points are added around a smallest margin that is positive: a whole loop may fit
    between two points of the grid.
    """
    start = np.clip(
        1e-2
        * _smallest_turn(problem.channel.clusters, problem.alpha[0], problem.rho[0]),
        _LOWEST,
        1e-2,
    )
    x = np.linspace(
        math.log(start),
        math.log(_LARGEST),
        _GRID_INFORMATIVE if problem.informative else _GRID,
    )
    margin = _margins(problem, x)
    for _ in range(_ROUNDS):
        check_time()
        if not (margin > 0).all():
            break
        smallest = int(np.clip(_margin_per_log(margin, x).argmin(), 1, len(x) - 2))
        inner = (
            x[smallest - 1]
            + (x[smallest + 1] - x[smallest - 1]) * (np.arange(10) + 0.5) / 10
        )
        x = np.append(x, inner)
        margin = np.append(margin, _margins(problem, inner))
        order = np.argsort(x, kind="stable")
        x = x[order]
        margin = margin[order]
    return x, margin


def _smallest_turn(clusters: int, alpha: float, rho: float) -> float:
    """Return an a that is of the order of the first maximum of lam(a): k
    rho^2/sqrt(alpha), and no further out.
    """
    return 0.1 * clusters * min(rho**2, 1e-2) / max(1.0, math.sqrt(alpha))


def _margins(problem: CurveProblems, x: Floats) -> Floats:
    return problem.at(np.zeros(len(x), dtype=int)).margin(np.exp(x))


def _margin_per_log(margin: Floats, x: Floats) -> Floats:
    """Return the margin per log a: at the onset it falls like a, which is no loop."""
    return margin / np.exp(np.minimum(x, 0.0))


def branches(
    problems: CurveProblems, turning: Turning, lam: Floats
) -> tuple[Floats, Floats]:
    """Return (a, residual) of the smallest stable fixed point, found without knowledge,
    and of the largest (2, B).
    """
    above = lam > problems.threshold * _ABOVE
    below = turning.first_order & (lam < turning.lam_algB)
    onset = np.clip(1e-3 * _onset(problems, lam), 1e-14, 1e-3)
    rises = below & above & (turning.a_algB > 0)
    # from the onset to lam_algB
    lower = _on_piece(problems, lam, onset, np.where(rises, turning.a_algB, 1.0), rises)
    exists = np.where(turning.first_order, lam >= turning.lam_dyn, above)
    upper = _on_piece(
        problems, lam, np.where(turning.a_dyn > 0, turning.a_dyn, onset), lam, exists
    )
    high = np.where(exists, upper, lower)
    return np.where(below, lower, high), high


def _onset(problems: CurveProblems, lam: Floats) -> Floats:
    """Return a just above lam_alg: (lam/lam_alg)^2 = 1 + c a; zero where c is not
    positive or not known.
    """
    slope = (
        problems.channel.variance * np.sqrt(problems.alpha) - problems.channel.curvature
    )
    if problems.informative:
        return np.zeros(len(lam))
    with np.errstate(divide="ignore", invalid="ignore"):
        a = ((lam / problems.threshold) ** 2 - 1) / slope
    return np.where((slope > 0) & (a > 0), a, 0.0)


def _on_piece(
    problems: CurveProblems, lam: Floats, low: Floats, high: Floats, exists: Booleans
) -> tuple[Floats, Floats]:
    """Return the root of log(lam m_v) = log a between `low` and `high` where the piece
    `exists`, else zero.
    """
    a, residual = np.zeros(len(lam)), np.zeros(len(lam))
    rows = np.flatnonzero(exists)
    if not len(rows):
        return a, residual
    problems, lam, low, high = (
        problems.at(rows),
        lam[rows],
        np.log(low[rows]),
        np.log(high[rows]),
    )

    def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
        a = np.exp(x)
        m_v, s_v, _ = problems.at(index).features(
            problems.channel.overlap(a), lam[index]
        )
        return np.log(lam[index] * m_v) - x, s_v * problems.channel.slope(a) - 1

    x, left = falling_root(excess, low, high)
    onset = _onset(problems, lam)
    # so near the onset that the margin is rounding: its first-order formula
    tiny = x <= low + 1e-9
    a[rows] = np.where(tiny & (onset > 0) & (onset < 1e-9), onset, np.exp(x))
    residual[rows] = np.abs(left)
    return a, residual


def thresholds(problems: CurveProblems) -> dict[str, Array]:
    """Return all thresholds, subspace_clustering section 5; all are lam_alg where the
    transition is continuous.
    """
    turning = turning_points(problems)
    onset = problems.threshold
    jump = onset.copy()
    a_jump = np.zeros(len(onset))
    residual = np.zeros(len(onset))
    rows = np.flatnonzero(turning.first_order)
    if len(rows):
        jump[rows], a_jump[rows], residual[rows] = _jumps(
            problems.at(rows), turning.at(rows)
        )
    overlap = problems.channel.overlap
    return {
        "lam_dyn": turning.lam_dyn,
        "lam_it": np.minimum(jump, onset),
        "lam_jump": jump,
        "lam_alg": onset,
        "lam_algB": turning.lam_algB,
        "m_dyn": overlap(turning.a_dyn),
        "m_jump": overlap(a_jump),
        "m_algB": overlap(turning.a_algB),
        "first_order": turning.first_order,
        "residual": residual,
    }


def _jumps(problems: CurveProblems, turning: Turning) -> tuple[Floats, Floats, Floats]:
    """Return lam_jump, where both branches have the same free entropy, the upper a
    there, and the residual.

    Their difference grows with lam at the rate alpha nu p/2 times that of m_u m_v,
    subspace_clustering (4b).
    """
    rate = 0.5 * problems.alpha * problems.channel.variance * problems.channel.rank

    def gain(x: Floats, index: Indices) -> tuple[Floats, Floats]:
        lam = np.exp(x)
        own = problems.at(index)
        turns = turning.at(index)
        (down, _), (up, _) = branches(own, turns, lam)
        products = [own.channel.overlap(a) * a / lam for a in (down, up)]
        return own.phi(down, lam) - own.phi(up, lam), rate[index] * lam * (
            products[0] - products[1]
        )

    low = np.log(turning.lam_dyn) + 1e-13
    high = np.log(turning.lam_algB) - 1e-13
    x, left = falling_root(gain, low, np.maximum(high, low))
    return np.exp(x), branches(problems, turning, np.exp(x))[1][0], np.abs(left)


def snr_at_overlap(clusters: int, alpha: float, rho: float, overlap: Floats) -> Floats:
    """Return the lam at which overlaps m_u of equal clusters are fixed points of state
    evolution, stable or not.
    """
    channel = assignment_channel(clusters)
    problems = CurveProblems(
        channel, np.full(len(overlap), alpha), np.full(len(overlap), rho)
    )
    return problems.snr_of(np.array([channel.snr(value) for value in overlap]))


def critical_sparsity(
    channel: AssignmentChannel, alpha: float
) -> tuple[float, float, float]:
    """Return (rho_c, m_c, lam_c/lam_alg), the end of the first-order line, where the
    smallest margin is zero.

    NaN where the transition is first order at every sparsity (k >= 4 + 2 sqrt(alpha)).
    """
    if channel.variance * math.sqrt(alpha) <= channel.curvature:
        return math.nan, math.nan, math.nan

    def side(x: float) -> float:
        # far from the end only the sign matters
        return math.tanh(_smallest_margin(channel, alpha, math.exp(x))[0])

    rho = np.array([math.exp(brent_root(side, math.log(1e-9), 0.0, xtol=1e-11))])
    a = np.array([math.exp(_smallest_margin(channel, alpha, float(rho[0]))[1])])
    end = CurveProblems(channel, np.array([alpha]), rho)
    return (
        float(rho[0]),
        float(channel.overlap(a)[0]),
        float(end.snr_of(a)[0] / end.threshold[0]),
    )


def _smallest_margin(
    channel: AssignmentChannel, alpha: float, rho: float
) -> tuple[float, float]:
    """Return the smallest margin per log a on the curve of one problem, and the log a
    of it.
    """
    problem = CurveProblems(channel, np.array([alpha]), np.array([rho]))
    x = np.linspace(
        math.log(0.1 * _smallest_turn(channel.clusters, alpha, rho)), math.log(20.0), 80
    )
    for _ in range(8):
        check_time()
        margin = _margin_per_log(_margins(problem, x), x)
        if x[1] - x[0] < 1e-7:
            break
        smallest = int(np.clip(margin.argmin(), 1, len(x) - 2))
        x = np.linspace(x[smallest - 1], x[smallest + 1], 13)
    return float(margin.min()), float(x[margin.argmin()])
