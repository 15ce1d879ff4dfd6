"""Two directions: channels by tables in the eigenbasis of the overlap matrix,
bayes_multi_index section 5.

In the eigenbasis V is diagonal, so that the integral over z is one over z2 at fixed z1
and then one over z1. The planes on which the target is not smooth cut every line z1 =
const at known points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.gaussian.grids import with_crossings
from giantstep.core.maths.gaussian.planes import Plane, turned_planes
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)
from giantstep.problems.bayes_limit.exact import between, noisy_labels
from giantstep.problems.bayes_limit.noisy import y_step
from giantstep.problems.bayes_limit.reading import TargetReading
from giantstep.problems.bayes_limit.tolerances import CERTAIN, REACH, TINY, VISIBLE

_CUT = 7.5
"""Standard deviations of omega at which its rules end."""
_FINEST = 0.05
_COARSEST = 0.19
"""Steps of z at least and at most: finer ones do not fit into memory, coarser ones do
not resolve z.
"""
_Z_STEP = 0.56
_POSTERIOR_STEP = 0.75
"""Steps of z, in standard deviations of the likelihood where the target is as steep as
on average, and of z given omega.
"""
_Y_STEP = 0.7
"""Step of y in standard deviations of the noise; half of it changes thresholds by 1e-9
(0.8 by 2e-8), wherever y begins.
"""
_OMEGA_NOISY = (0.45, 0.1)
_OMEGA_LABELS = (0.3, 0.02)
_OMEGA_WRONG = (0.07, 0.02)
"""Steps of omega over sqrt((1 - m)/m), and the least of this root that they follow: for
noisy outputs, for labels, and for the fraction of wrong labels, which has kinks.
"""
_OMEGA_SLAB = 0.12
"""Step of omega along one direction over sqrt((1 - m)/m), as for one direction with
noise.
"""
_UNSEEN = 1e-40
"""Probability below which a label is left out: its score is rounding."""
_ACROSS = 1e-12
"""Entries of the normal of a plane below which it is parallel to an axis."""
_BLOCK = 1 << 20
"""Numbers of a likelihood, and of what is averaged from it, that are held at once: 8
MB.
"""


@dataclass(frozen=True)
class Slab:
    """What y says where only z1 along one unit vector is resolved, the others ~ N(0, 1)
    beside it.
    """

    z: Floats  # (N,) nodes along the direction
    weights: Floats  # (N,) weights dz
    rest: Floats  # (D, r) orthonormal rows, the other directions
    law: Floats  # (N, Y), P(y | z1)
    first: Floats  # (N, Y, D), E[z_D; y | z1]
    second: Floats  # (N, Y, D, D), E[z_D z_D^T - 1; y | z1]
    measure: Floats  # (Y,) weights dy; one for labels

    def _kernels(self, m: float) -> tuple[Floats, Floats, Floats]:
        """Return w N(z; omega, 1 - m) and its derivative in omega, (O, N), and the
        weights of omega (O,).
        """
        xi, density = trapezoid_rule(
            _OMEGA_SLAB * min(1.0, float(np.sqrt((1 - m) / max(m, CERTAIN)))), REACH
        )
        if m < CERTAIN:
            xi = np.zeros(1)
            density = np.ones(1)
        K, S = _kernels(self.z, self.weights, np.sqrt(m) * xi, 1 - m)
        return K, S, density

    @property
    def entropy(self) -> float:
        """Psi(0) = Int P(y) log P(y), bayes_multi_index (2)."""
        K, _, _ = self._kernels(0.0)
        P = np.maximum(K @ self.law, TINY)[0]
        return float(self.measure @ (P * np.log(P)))

    def visible(self, m: float) -> Floats:
        """Return E[E[z_D|y, omega] E[z_D|y, omega]^T] (D, D): directions that are seen
        at once.
        """
        K, _, density = self._kernels(m)
        Z = np.maximum(K @ self.law, TINY)
        first = np.tensordot(K, self.first, axes=1)
        return np.asarray(
            np.einsum(
                "oy,oya,oyb->ab", density[:, None] * self.measure / Z, first, first
            )
        )

    def information_and_growth(self, m: float) -> tuple[float, Floats]:
        """Return I_UU(m) and the map dM -> E[H dM H] as a matrix (D^2, D^2),
        bayes_multi_index (13).
        """
        K, S, density = self._kernels(m)
        Z = np.maximum(K @ self.law, TINY)
        slope = S @ self.law
        weights = density[:, None] * self.measure / Z
        D = len(self.rest)
        pairs = np.tensordot(K, self.second, axes=1).reshape(-1, D * D)
        # E[H_ab H_cd]
        squares = ((pairs * weights.reshape(-1, 1)).T @ pairs).reshape(D, D, D, D)
        growth = squares.transpose(0, 2, 1, 3).reshape(D * D, D * D)
        return float(np.einsum("oy,oy,oy->", weights, slope, slope)), growth


def breaks_along_first(planes: Sequence[Plane]) -> Floats:
    """Return where rules in z1 break: planes across z1 alone, and crossings of
    others.
    """
    ends = [
        -plane.offset / plane.normal[0]
        for plane in with_crossings(planes, 2)
        if abs(plane.normal[1]) < _ACROSS
    ]
    inside = np.array([end for end in ends if abs(end) < REACH])
    return np.unique(np.round(inside, 12)) if len(inside) else inside


def line_rule(breaks: Floats, step: float) -> tuple[Array, Array]:
    """Return nodes and weights dz on (-8.5, 8.5): equally spaced without breaks, else
    panels between them.
    """
    if not len(breaks):
        count = int(np.ceil(REACH / step))
        nodes = step * np.arange(-count, count + 1)
        return nodes, np.full(len(nodes), step)
    plain = np.linspace(-REACH, REACH, int(np.ceil(2 * REACH / (8 * step))) + 1)
    return gauss_legendre_panels(np.unique(np.concatenate([plain, breaks])), 10)


def omega_rule(m: float, widest: float, narrowest: float) -> tuple[Floats, Floats]:
    """Return omega along an eigenvector of M of eigenvalue m, and weights of N(0,
    m).
    """
    if m < CERTAIN:
        return np.zeros(1), np.ones(1)
    ratio = float(np.sqrt((1 - m) / m))
    xi, weights = trapezoid_rule(min(max(ratio, narrowest), 0.5) * widest, _CUT)
    return np.sqrt(m) * xi, weights


def _kernels(
    z: Floats, weights: Floats, omega: Floats, V: float
) -> tuple[Floats, Floats]:
    """Return w N(z; omega, V) and its derivative in omega, (..., O, N)."""
    away = (z[..., None, :] - omega[:, None]) / np.sqrt(V)
    K = weights[..., None, :] * normal_density(away) / np.sqrt(V)
    return K, K * away / np.sqrt(V)


def eigenbasis(M: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of M and its eigenvectors as rows; the axes where M is
    diagonal.
    """
    if abs(M[0, 1]) <= 1e-13:
        return np.diag(M).copy(), np.eye(2)
    if abs(M[0, 0] - M[1, 1]) <= 1e-12:  # the diagonals, to the last bit
        return np.array([M[0, 0] + M[0, 1], M[0, 0] - M[0, 1]]), np.array(
            [[1.0, 1.0], [1.0, -1.0]]
        ) / np.sqrt(2)
    sizes, vectors = np.linalg.eigh(M)
    return sizes, vectors.T


def _information_of(
    likelihood: Floats,
    first: tuple[Floats, Floats],
    second: tuple[Floats, ...],
    measure: Floats,
) -> tuple[Floats, float]:
    """Return what some y add to I in the eigenbasis (I11 alone without the second
    kernel's derivative) and to Psi.
    """
    K1, S1 = first
    plain, *sloped = np.split(
        np.matmul(np.concatenate(second, axis=-2), likelihood), len(second), axis=1
    )
    flat = plain.reshape(len(plain), -1)
    Z = np.maximum(K1 @ flat, TINY)
    scores = [S1 @ flat, *(K1 @ part.reshape(len(plain), -1) for part in sloped)]
    measure = np.repeat(measure.reshape(len(K1), -1), likelihood.shape[-1], axis=1)
    weighted = [measure / Z * score for score in scores]
    I = np.array([[np.vdot(a, b) for b in scores] for a in weighted])
    return I, float(np.vdot(measure * Z, np.log(Z)))


@dataclass(eq=False)
class PairNoisy:
    """y = g(z1, z2) + sqrt(noise) N(0, 1)."""

    reading: TargetReading
    noise: float

    @cached_property
    def _step(self) -> float:
        """Spacing of z that resolves the likelihood where z is likely."""
        return float(
            np.clip(
                _Z_STEP * np.sqrt(self.noise) / max(self.reading.steepness, 1e-9),
                _FINEST,
                _COARSEST,
            )
        )

    @cached_property
    def _dy(self) -> float:
        return y_step(self.noise, self.reading.jump, _Y_STEP)

    @cached_property
    def y(self) -> Floats:
        """Equally spaced y over what is visible of g and its noise."""
        return self.reading.outputs(VISIBLE, 8 * float(np.sqrt(self.noise)), self._dy)

    def _likelihoods(
        self, g: Floats, inner: int = 0, outer: int = 0
    ) -> Iterator[Floats]:
        """Yield the likelihood (N1, N2, y) at consecutive y: few where each takes part
        in averages at many omega.
        """
        rows, columns = g.shape
        if g.size > 32 * _BLOCK:  # one y of it takes a second, and 256 MB
            raise MemoryError(f"a rule in the plane with {g.size:.1g} nodes")
        for part in split_rows(
            len(self.y), rows * columns + inner * (2 * rows + 3 * outer), _BLOCK
        ):
            # changed in place: large arrays are slow to make
            likelihood = self.y[part] - g[..., None]
            likelihood *= likelihood
            likelihood *= -0.5 / self.noise
            np.exp(likelihood, out=likelihood)
            likelihood /= np.sqrt(2 * np.pi * self.noise)
            yield likelihood

    def information(self, M: Floats, alike: bool = False) -> tuple[Floats, float]:
        """Return I(M) (2, 2) and Psi(M), bayes_multi_index (2); `alike` tells that
        I11 = I22.
        """
        m, basis = eigenbasis(M)
        V = 1 - m
        step = min(self._step, _POSTERIOR_STEP * float(np.sqrt(V.min())))
        z1, w1, z2, w2, g = _plane_rule(self.reading, basis, step)
        rules = [omega_rule(float(x), *_OMEGA_NOISY) for x in m]
        alone = self._halve(rules, basis)
        (o1, d1), (o2, d2) = rules
        second = _kernels(z2, w2, o2, float(V[1]))
        first = _kernels(z1, w1, o1, float(V[0]))
        measure = np.outer(d1, d2) * self._dy
        I = np.zeros((2, 2))
        entropy = 0.0
        for likelihood in self._likelihoods(g, len(o2), len(o1)):
            part, more = _information_of(
                likelihood, first, second[: 1 if alike else 2], measure
            )
            I = I + part
            entropy = entropy + more
        if alone:
            I[0, 1] = I[1, 0] = 0.0
        return basis.T @ I @ basis, entropy

    def _halve(self, rules: list[tuple[Floats, Floats]], basis: Floats) -> bool:
        """Keep omega >= 0 where a reflection of the target gives the rest; tell whether
        one forbids M12.
        """
        # a reflection (s1, s2) maps y to y or -y, I11 and I22 to themselves, and I12 to
        # s1 s2 I12
        if np.array_equal(basis, np.eye(2)):
            flips = self.reading.reflections
        else:
            flips = frozenset()
        first = bool(flips & {(-1.0, 1.0), (-1.0, -1.0)})
        second = (1.0, -1.0) in flips
        for axis, halved in enumerate((first, second)):
            omega, weights = rules[axis]
            if halved and len(omega) > 1:
                kept = omega > -1e-12
                rules[axis] = (
                    omega[kept],
                    np.where(omega[kept] > 1e-12, 2.0, 1.0) * weights[kept],
                )
        return bool(flips & {(-1.0, 1.0), (1.0, -1.0)})

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best square error."""
        m, basis = eigenbasis(M)
        V = 1 - m
        z1, w1, z2, w2, g = _plane_rule(
            self.reading, basis, min(0.12, 0.6 * float(np.sqrt(V.min())))
        )
        (o1, d1), (o2, d2) = (omega_rule(float(x), *_OMEGA_NOISY) for x in m)
        K2, _ = _kernels(z2, w2, o2, float(V[1]))
        K1, _ = _kernels(z1, w1, o1, float(V[0]))
        ghat = K1 @ np.matmul(K2, g[..., None])[..., 0]
        density = w1[:, None] * normal_density(z1)[:, None] * w2 * normal_density(z2)
        second = float((density * g**2).sum())
        return self.noise + max(0.0, second - float(d1 @ ghat**2 @ d2)), np.nan

    def slab(self, direction: Floats) -> Slab:
        """Return the tables along a direction, the other one averaged out."""
        basis = np.array([direction, [-direction[1], direction[0]]])
        z1, w1, z2, w2, g = _plane_rule(self.reading, basis, self._step)
        density = w2 * normal_density(z2)
        weights = [
            (density * values)[:, None, :]
            for values in (np.ones_like(z2), z2, z2**2 - 1)
        ]
        parts = [
            [np.matmul(row, likelihood)[:, 0] for row in weights]
            for likelihood in self._likelihoods(g)
        ]
        law, first, second = (
            np.concatenate(columns, axis=1) for columns in zip(*parts)
        )
        measure = np.full(len(self.y), self._dy)
        return Slab(
            z1, w1, basis[1:], law, first[..., None], second[..., None, None], measure
        )


def _plane_rule(
    reading: TargetReading, basis: Floats, step: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return rules in z1 and in z2 at each z1, along the rows of a basis, and the
    target on them.
    """
    planes = turned_planes(reading.inner.planes, basis.T)
    z1, w1 = line_rule(breaks_along_first(planes), step)
    z2, w2 = _second_rule(z1, planes, step)
    grid = np.broadcast_arrays(z1[:, None], z2)
    g = np.empty((len(z1), z2.shape[1]))
    for part in split_rows(*g.shape, _BLOCK):
        g[part] = reading.inner(
            np.stack([axis[part] for axis in grid], axis=-1) @ basis
        )
    return z1, w1, z2, w2, g


def _second_rule(
    z1: Floats, planes: Sequence[Plane], step: float
) -> tuple[Floats, Floats]:
    """Return nodes and weights dz2 for every z1, (1, N2) or (N1, N2): broken where a
    plane cuts the line.
    """
    cutting = [plane for plane in planes if abs(plane.normal[1]) > _ACROSS]
    if all(abs(plane.normal[0]) < _ACROSS for plane in cutting):
        nodes, weights = line_rule(
            np.array([-plane.offset / plane.normal[1] for plane in cutting]), step
        )
        return nodes[None], weights[None]
    cuts = np.stack(
        [-(plane.offset + plane.normal[0] * z1) / plane.normal[1] for plane in cutting],
        axis=1,
    )
    plain = np.linspace(-REACH, REACH, int(np.ceil(2 * REACH / (8 * step))) + 1)
    edges = np.concatenate(
        [np.broadcast_to(plain, (len(z1), len(plain))), np.clip(cuts, -REACH, REACH)],
        axis=1,
    )
    return gauss_legendre_panels(np.sort(edges, axis=1), 10)


@dataclass(eq=False)
class PairLabels:
    """Labels of cells between planes in two dimensions, flipped with probability
    `flip`.
    """

    reading: TargetReading
    flip: float

    @cached_property
    def values(self) -> Floats:
        """The labels."""
        return np.asarray(self.reading.labels)

    def _cells(
        self, z1: Floats, planes: Sequence[Plane], basis: Floats
    ) -> tuple[Floats, Floats]:
        """Return the cuts of every line z1 = const, (N1, J + 2), and the label number
        of each interval between them.
        """
        cutting = [plane for plane in planes if abs(plane.normal[1]) > _ACROSS]
        cuts = [
            -(plane.offset + plane.normal[0] * z1) / plane.normal[1]
            for plane in cutting
        ]
        far = np.full(len(z1), 1e3)
        ends = np.sort(np.stack([-far, *cuts, far], axis=1), axis=1)
        low = ends[:, :-1]
        high = ends[:, 1:]
        middle = np.where(
            low < -900, high - 1, np.where(high > 900, low + 1, 0.5 * (low + high))
        )
        middle = np.where((low < -900) & (high > 900), 0.0, middle)
        points = np.stack(np.broadcast_arrays(z1[:, None], middle), axis=-1) @ basis
        g = np.asarray(self.reading.inner(points), dtype=float)
        return ends, np.argmin(np.abs(g[..., None] - self.values), axis=-1)

    def _inner(
        self, ends: Floats, kinds: Floats, omega: Floats, V: float
    ) -> tuple[Floats, Floats]:
        """Return P_l(z1, omega_2) and its derivative in omega_2, (K, N1, O)."""
        x = (ends[:, :, None] - omega) / np.sqrt(V)
        density = normal_density(x) / np.sqrt(V)
        share = between(x[:, :-1], x[:, 1:])
        slope = -np.diff(density, axis=1)
        own = [(kinds == label)[..., None] for label in range(len(self.values))]
        return np.stack([(share * k).sum(axis=1) for k in own]), np.stack(
            [(slope * k).sum(axis=1) for k in own]
        )

    def law(
        self, M: Floats, rules: Sequence[tuple[Floats, Floats]]
    ) -> tuple[Floats, Floats, Floats]:
        """Return Z_l and its derivatives along the eigenvectors of M on a product of
        rules in omega, (K, O1, O2).
        """
        m, basis = eigenbasis(M)
        V = np.maximum(1 - m, 1e-14)
        planes = turned_planes(self.reading.inner.planes, basis.T)
        step = min(0.1, 0.4 * float(np.sqrt(V[0])))
        z1, w1 = line_rule(np.append(breaks_along_first(planes), 0.0), step)
        ends, kinds = self._cells(z1, planes, basis)
        (o1, _), (o2, _) = rules
        P, slope = self._inner(ends, kinds, o2, float(V[1]))
        K1, S1 = _kernels(z1, w1, o1, float(V[0]))
        Z, second = noisy_labels(K1 @ P, K1 @ slope, self.flip)
        return Z, noisy_labels(K1 @ P, S1 @ P, self.flip)[1], second

    def information(self, M: Floats) -> tuple[Floats, float]:
        """Return I(M) and Psi(M)."""
        m, basis = eigenbasis(M)
        rules = [omega_rule(float(x), *_OMEGA_LABELS) for x in m]
        Z, *scores = self.law(M, rules)
        seen = Z > _UNSEEN
        Z = np.where(seen, Z, 1.0)
        measure = np.outer(rules[0][1], rules[1][1]) * seen
        I = np.array(
            [[float((measure * a * b / Z).sum()) for b in scores] for a in scores]
        )
        return basis.T @ I @ basis, float((measure * Z * np.log(Z)).sum())

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best square error and the best fraction of wrong labels."""
        m, _ = eigenbasis(M)
        rules = [omega_rule(float(x), *_OMEGA_WRONG) for x in m]
        Z, _, _ = self.law(M, rules)
        measure = np.outer(rules[0][1], rules[1][1])
        mean = np.tensordot(self.values, Z, axes=1)
        square = np.tensordot(self.values**2, Z, axes=1)
        wrong = 1 - Z.max(axis=0)
        # wrong labels have kinks in omega where another one becomes the likeliest: two
        # steps are extrapolated
        # zero among them
        every_second = tuple(
            slice(len(weights) // 2 % 2, None, 2) for _, weights in rules
        )
        fine, coarse = (
            float((part * values).sum() / part.sum())
            for part, values in (
                (measure, wrong),
                (measure[every_second], wrong[every_second]),
            )
        )
        return (
            float((measure * (square - mean**2)).sum() / measure.sum()),
            (4 * fine - coarse) / 3,
        )

    def slab(self, direction: Floats) -> Slab:
        """Return the tables along a direction."""
        basis = np.array([direction, [-direction[1], direction[0]]])
        planes = turned_planes(self.reading.inner.planes, basis.T)
        z1, w1 = line_rule(np.append(breaks_along_first(planes), 0.0), 0.04)
        ends, kinds = self._cells(z1, planes, basis)
        density = normal_density(ends)
        own = np.stack([kinds == label for label in range(len(self.values))], axis=-1)
        pieces = (
            between(ends[:, :-1], ends[:, 1:]),
            -np.diff(density, axis=1),
            -np.diff(ends * density, axis=1),
        )
        P, first, second = ((piece[..., None] * own).sum(axis=1) for piece in pieces)
        law, first = noisy_labels(P.T, first.T, self.flip)
        second = noisy_labels(P.T, second.T, self.flip)[1]
        return Slab(
            z1,
            w1,
            basis[1:],
            law.T,
            first.T[..., None],
            second.T[..., None, None],
            np.ones(len(self.values)),
        )


PairChannel = PairNoisy | PairLabels
"""A channel of two directions."""
