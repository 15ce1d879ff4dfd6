"""What one sample says of its z: posterior moments under N(omega, V) P(y|z), row by
row, on any device.

Every response answers `moments(omega, V) -> (g, curvature)` for all rows of the data:
g = V^-1 (E[z|y, omega] - omega) (n, r) and the sum over the rows of -dg/domega (r, r),
bayes_multi_index (1).
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab import to_numpy
from giantstep.core.maths.gaussian import semidefinite_factor
from giantstep.core.maths.gaussian.grids import even_rule, product_grid
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)
from giantstep.problems.bayes_limit.exact import Exact, label_law, noisy_labels
from giantstep.problems.bayes_limit.noisy import Noisy
from giantstep.problems.bayes_limit.reading import Line, TargetReading
from giantstep.problems.bayes_limit.tolerances import CERTAIN, REACH, TINY

_CHUNK = 1 << 22
"""Entries of one block of rows by nodes: 32 MB."""
_LABEL_VARIANCE = 0.1
"""Posterior variance for which the nodes of labels of several directions are made."""


def response_of(
    reading: TargetReading, noise: float, flip: float, y: DeviceArray, xp: ModuleType
) -> RowResponse:
    """Return the response of samples with labels y (n,)."""
    if noise > 0 or (reading.rank > 1 and reading.labels is not None):
        return GridRows(reading, noise, flip, y, xp)
    if reading.labels is not None:
        return LabelRows(reading.line, flip, y, xp)
    if reading.product_scale is not None:
        return ProductRows(reading.product_scale, y, xp)
    return ExactRows(reading.line, y, xp)


class LabelRows:
    """Labels of intervals of one variable, bayes_multi_index (6)."""

    def __init__(self, line: Line, flip: float, y: DeviceArray, xp: ModuleType) -> None:
        self.line = line
        self.flip = flip
        self.xp = xp
        self.kind = xp.argmin(xp.abs(y[:, None] - xp.asarray(line.labels)), axis=1)

    def moments(self, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        g, curvature = self.each(omega, V)
        return g[:, None], np.array([[float(self.xp.sum(curvature))]])

    def each(self, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, DeviceArray]:
        """Return g and -dg/domega of every row."""
        own = self.kind, self.xp.arange(len(self.kind))
        law = label_law(self.line, self.flip, omega[:, 0], float(V[0, 0]), self.xp)
        Z, first, second = (table[own] for table in law)
        Z = self.xp.maximum(Z, TINY)
        return first / Z, (first / Z) ** 2 - second / Z


class ExactRows:
    """y = g(z) of one variable: a sum over the preimages of every row,
    bayes_multi_index (7); atoms are labels.
    """

    def __init__(self, line: Line, y: DeviceArray, xp: ModuleType) -> None:
        self.xp = xp
        values = to_numpy(y)
        images = line.preimages(values)
        there = np.isfinite(images)
        log_slope = np.log(
            np.maximum(np.abs(line.slope(np.where(there, images, 0.0))), TINY)
        )
        self.images = xp.asarray(np.where(there, images, 0.0))
        self.weight = xp.asarray(np.where(there, -log_slope, -np.inf))
        self.atoms: LabelRows | None = None
        if line.labels:
            self.on_atom = xp.asarray(
                np.abs(values[:, None] - np.array(line.labels)).min(axis=1) < CERTAIN
            )
            self.atoms = LabelRows(line, 0.0, y, xp)

    def moments(self, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        g, curvature = _own_moments(self.images[None], self.weight, omega, V, self.xp)
        if self.atoms is not None:
            slope, bend = self.atoms.each(omega, V)
            g = self.xp.where(self.on_atom[:, None], slope[:, None], g)
            curvature = self.xp.where(
                self.on_atom[:, None, None], bend[:, None, None], curvature
            )
        return g, to_numpy(self.xp.sum(curvature, axis=0))


class ProductRows:
    """y = c z1 z2 without noise: the level set z = +-(e^t, (y/c) e^-t) with measure dt,
    bayes_multi_index (8).
    """

    def __init__(self, scale: float, y: DeviceArray, xp: ModuleType) -> None:
        self.xp = xp
        self.y = y / scale
        t, weights = gauss_legendre_panels(np.linspace(-24.0, 3.0, 82), 8)
        self.first = xp.asarray(np.concatenate([np.exp(t), -np.exp(t)]))
        self.log_weights = xp.asarray(np.log(np.tile(weights, 2)))

    def moments(self, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega, some rows at a time."""
        xp = self.xp
        g = self.xp.empty(omega.shape)
        total = np.zeros_like(V)
        for part in split_rows(len(g), 2 * len(self.first), _CHUNK):
            z = xp.stack(
                xp.broadcast_arrays(self.first, self.y[part, None] / self.first)
            )
            g[part], curvature = _own_moments(z, self.log_weights, omega[part], V, xp)
            total += to_numpy(xp.sum(curvature, axis=0))
        return g, total


def _own_moments(
    z: DeviceArray,
    log_weights: DeviceArray,
    omega: DeviceArray,
    V: Floats,
    xp: ModuleType,
) -> tuple[DeviceArray, DeviceArray]:
    """Return g (n, r) and -dg/domega (n, r, r) of rows that have nodes z (r, n, N) of
    their own.
    """
    inverse = xp.asarray(np.linalg.inv(V))
    away = z - omega.T[:, :, None]
    exponent = log_weights - 0.5 * xp.einsum(
        "anN,anN->nN", away, xp.einsum("ab,bnN->anN", inverse, away)
    )
    top = xp.max(exponent, axis=1)
    weight = xp.exp(exponent - xp.where(xp.isfinite(top), top, 0.0)[:, None])
    weight /= xp.maximum(xp.sum(weight, axis=1), TINY)[:, None]
    mean = xp.einsum("anN,nN->an", away, weight)
    away -= mean[:, :, None]
    covariance = xp.einsum("anN,bnN->nab", away, away * weight)
    return mean.T @ inverse, inverse - inverse @ covariance @ inverse


class GridRows:
    """Noisy outputs, and labels of several variables: sums over nodes z that all rows
    share, finer as V shrinks.
    """

    def __init__(
        self,
        reading: TargetReading,
        noise: float,
        flip: float,
        y: DeviceArray,
        xp: ModuleType,
    ) -> None:
        self.reading = reading
        self.noise = noise
        self.flip = flip
        self.xp = xp
        if noise > 0:
            self.y = y
        else:
            self.y = xp.argmin(xp.abs(y[:, None] - xp.asarray(reading.labels)), axis=1)
        self._rules: dict[int, tuple[DeviceArray, DeviceArray, DeviceArray]] = {}

    def _rule(self, V: Floats) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Return nodes, the logarithms of their weights, and g at them, or the
        logarithm of the law of each label.
        """
        # made for the smallest eigenvalue of V, rounded down to a power of two; labels
        # have one rule
        if self.noise > 0:
            level = int(
                np.floor(np.log2(max(float(np.linalg.eigvalsh(V)[0]), CERTAIN)))
            )
        else:
            level = 0
        if level not in self._rules:
            if self.reading.rank == 1:
                z, weights = Noisy(self.reading.line, self.noise).z_rule(2.0**level)
                nodes = z[:, None]
            elif self.noise > 0:
                finest = (
                    0.5 * float(np.sqrt(self.noise)) / max(self.reading.steepness, 1e-9)
                )
                nodes, weights = lebesgue_nodes(self.reading, 2.0**level, finest)
            else:
                nodes, weights = lebesgue_nodes(self.reading, _LABEL_VARIANCE)
            table = np.asarray(self.reading.inner(nodes), dtype=float)
            if self.noise == 0:
                labels = np.asarray(self.reading.labels)
                own = (
                    np.argmin(np.abs(table[:, None] - labels), axis=1)
                    == np.arange(len(labels))[:, None]
                )
                with np.errstate(divide="ignore"):
                    table = np.log(
                        np.where(own, 1 - self.flip, self.flip / (len(labels) - 1))
                    )
            self._rules[level] = tuple(
                map(self.xp.asarray, (nodes, np.log(weights), table))
            )
        return self._rules[level]

    def moments(self, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega, some rows at a time."""
        xp = self.xp
        r = len(V)
        y = self.y
        z, log_weights, table = self._rule(V)
        inverse = np.linalg.inv(V)
        precision = xp.asarray(inverse)
        spread = -0.5 * xp.sum((z @ precision) * z, axis=1) + log_weights
        squares = (z[:, :, None] * z[:, None, :]).reshape(len(z), r * r)
        g = xp.empty(omega.shape)
        covariance = np.zeros_like(V)
        for part in split_rows(len(y), len(z), _CHUNK):
            if self.noise == 0:
                law = table[y[part]]
            else:
                law = (y[part, None] - table) ** 2 * (-0.5 / self.noise)
            exponent = law + spread + (omega[part] @ precision) @ z.T
            exponent -= xp.max(exponent, axis=1)[:, None]
            weight = xp.exp(exponent, out=exponent)
            weight /= xp.sum(weight, axis=1)[:, None]
            mean = weight @ z
            covariance += to_numpy(xp.sum(weight @ squares, axis=0)).reshape(
                r, r
            ) - to_numpy(mean.T @ mean)
            g[part] = (mean - omega[part]) @ precision
        return g, np.asarray(
            len(y) * inverse - inverse @ covariance @ inverse, dtype=np.float64
        )


RowResponse = LabelRows | ExactRows | ProductRows | GridRows
"""Posterior moments of z, row by row."""


def lebesgue_nodes(
    reading: TargetReading, V: float, finest: float = 0.35
) -> tuple[Floats, Floats]:
    """Return nodes (N, r) and weights dz, broken on the planes of the target; the
    likelihood needs spacing `finest`.
    """
    spacing = float(np.clip(min(finest, 0.6 * np.sqrt(V)), 0.05, 0.35))
    # for more there is no room
    spacing = max(spacing, 0.3) if reading.rank > 2 else spacing
    piece = max(12, int(7.5 / spacing)) if reading.rank == 2 else 12
    grid = product_grid(
        reading.rank, reading.inner.planes, even_rule(spacing, REACH), piece
    )
    density = np.prod(normal_density(grid.points), axis=1)
    inside = (grid.weights > 1e-17) & (density > 0)
    return grid.points[inside], grid.weights[inside] / density[inside]


# -- Test errors of an estimate --------------------------------------------------------


_STEP = {1: 0.05, 2: 0.3, 3: 0.6}
_REACH = {1: 8.0, 2: 5.5, 3: 4.5}
"""Step and reach of the mesh of omega in standard deviations, by the number of
directions: at most 3,400 points.
"""


def measured_errors(
    reading: TargetReading,
    noise: float,
    flip: float,
    overlap: Floats,
    size: Floats,
    V: Floats,
) -> tuple[float, float]:
    """Return the errors of an estimate, from What^T W/d, What^T What/d and the
    posterior covariance it believes in.
    """
    r = reading.rank
    mesh, weights = product_grid(r, (), trapezoid_rule(_STEP[r], _REACH[r]), 1)
    factor = semidefinite_factor(size)
    omega = mesh @ factor.T
    slope = overlap.T @ np.linalg.pinv(size, rcond=1e-10)
    truth = omega @ slope.T
    rest = np.eye(r) - slope @ overlap
    believed, actual = (_Law(reading, flip, C) for C in (V, rest))
    values = believed.values
    guess = believed.mean(omega)
    mean = actual.mean(truth)
    squares = (
        float(weights @ actual.mean(truth, 2))
        - 2 * float(weights @ (guess * mean))
        + float(weights @ guess**2)
    )
    if values is None or noise > 0:
        return noise + max(0.0, squares), np.nan
    chosen = believed.probabilities(omega).argmax(axis=0)
    right = np.take_along_axis(actual.probabilities(truth), chosen[None], axis=0)[0]
    return max(0.0, squares), float(1 - weights @ right)


class _Law:
    """The law of y without noise given z ~ N(omega, C)."""

    def __init__(self, reading: TargetReading, flip: float, C: Floats) -> None:
        self.reading = reading
        self.flip = flip
        sizes, vectors = np.linalg.eigh(0.5 * (C + C.T))
        self.C = (vectors * np.maximum(sizes, 1e-14)) @ vectors.T
        if reading.labels is None:
            self.values = None
        else:
            self.values = np.asarray(reading.labels)
        if reading.rank > 1:
            self.nodes, self.weights = lebesgue_nodes(
                reading, max(float(sizes[0]), 0.02)
            )
            self.g = np.asarray(reading.inner(self.nodes), dtype=float)

    def probabilities(self, omega: Floats) -> Floats:
        """Return the probability of every label (K, N)."""
        assert self.values is not None
        if self.reading.rank == 1:
            return Exact(self.reading.line, self.flip).law(
                omega[:, 0], float(self.C[0, 0])
            )[0]
        own = (np.abs(self.g[:, None] - self.values) < 1e-9).astype(float)
        P = self._average(omega, own).T
        return np.asarray(noisy_labels(P, P, self.flip)[0])

    def mean(self, omega: Floats, power: int = 1) -> Floats:
        """Return E[y|omega], or E[y^2|omega] with the power 2."""
        if self.values is not None:
            return np.asarray(self.values**power @ self.probabilities(omega))
        if self.reading.rank > 1:
            return self._average(omega, self.g[:, None] ** power)[:, 0]
        function = self.reading.line.function
        field = omega[:, 0]
        spread = float(np.sqrt(self.C[0, 0]))
        return np.asarray(
            function.moments(field, spread).mean
            if power == 1
            else function.second_moment(field, spread)
        )

    def _average(self, omega: Floats, values: Floats) -> Floats:
        precision = np.linalg.inv(self.C)
        spread = -0.5 * np.sum((self.nodes @ precision) * self.nodes, axis=1) + np.log(
            self.weights
        )
        exponent = spread + (omega @ precision) @ self.nodes.T
        exponent -= exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent)
        return np.asarray((weight @ values) / weight.sum(axis=1)[:, None])
