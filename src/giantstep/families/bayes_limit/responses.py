"""What one sample says of its z: posterior moments under N(omega, V) P(y|z), row by row, on any device.

Every response answers `moments(rows, omega, V) -> (g, curvature)` for some rows of the data: g = V^-1 (E[z|y, omega] -
omega) (n, r) and the sum over the rows of -dg/domega (r, r), bayes_multi_index (1).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Protocol

import numpy as np

from giantstep.blocks import split_rows
from giantstep.families.bayes_limit.line import Line
from giantstep.families.bayes_limit.noisy import Noisy
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.tolerances import CERTAIN, REACH, TINY
from giantstep.gaussian.grids import even_rule, product_grid
from giantstep.gaussian.primitives import special
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.lab import to_numpy
from giantstep.types import DeviceArray, Floats

_CHUNK = 1 << 22
"""Entries of one block of rows by nodes: 32 MB."""
_LABEL_VARIANCE = 0.1
"""Posterior variance for which the nodes of labels of several directions are made."""


class RowResponse(Protocol):
    """Posterior moments of z, row by row."""

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g (n, r) and the sum over the rows of -dg/domega (r, r)."""


def response_of(reading: TargetReading, noise: float, flip: float, y: DeviceArray, xp: ModuleType) -> RowResponse:
    """Return the response of samples with labels y (n,)."""
    if noise > 0 or (reading.rank > 1 and reading.labels is not None):
        return GridRows(reading, noise, flip, y, xp)
    if reading.labels is not None:
        return LabelRows(reading.line, flip, y, xp)
    if reading.rank == 1:
        return ExactRows(reading.line, y, xp)
    return ProductRows(float(reading.product_scale or 1.0), y, xp)


def _label_numbers(y: DeviceArray, labels: Sequence[float], xp: ModuleType) -> DeviceArray:
    """Return the number of the label nearest to each y."""
    return xp.asarray(np.argmin(np.abs(to_numpy(y)[:, None] - np.asarray(labels)), axis=1))


class LabelRows:
    """Labels of intervals of one variable, bayes_multi_index (6)."""

    def __init__(self, line: Line, flip: float, y: DeviceArray, xp: ModuleType) -> None:
        self.line, self.flip, self.xp = line, flip, xp
        self.kind = _label_numbers(y, line.labels, xp)

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        g, curvature = self.each(rows, omega, V)
        return g[:, None], np.array([[float(self.xp.sum(curvature))]])

    def each(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, DeviceArray]:
        """Return g and -dg/domega of every row."""
        xp, s, kind = self.xp, float(np.sqrt(V[0, 0])), self.kind[rows]
        ndtr = special(xp).ndtr
        P, first, second = (xp.zeros(len(kind)) for _ in range(3))
        for low, high, value in self.line.flat:
            own = kind == self.line.labels.index(value)
            a, b = ((end - omega[:, 0]) / s for end in (low, high))
            swap = a > 0  # the difference of two numbers near one would cancel
            P += own * (ndtr(xp.where(swap, -a, b)) - ndtr(xp.where(swap, -b, a)))
            at_a, at_b = (xp.exp(-0.5 * x * x) / float(np.sqrt(2 * np.pi)) for x in (a, b))
            first += own * (at_a - at_b) / s
            inside = [xp.where(xp.isfinite(x), x, 0.0) for x in (a, b)]
            second += own * (inside[0] * at_a - inside[1] * at_b) / s**2
        others = self.flip / max(len(self.line.labels) - 1, 1)
        scale = 1 - self.flip - others
        Z = xp.maximum(scale * P + others, TINY)
        g = scale * first / Z
        return g, g**2 - scale * second / Z


class ExactRows:
    """y = g(z) of one variable: a sum over the preimages of every row, bayes_multi_index (7); atoms are labels."""

    def __init__(self, line: Line, y: DeviceArray, xp: ModuleType) -> None:
        self.xp = xp
        values = to_numpy(y)
        images = line.preimages(values)
        there = np.isfinite(images)
        log_slope = np.log(np.maximum(np.abs(line.slope(np.where(there, images, 0.0))), TINY))
        self.images = xp.asarray(np.where(there, images, 0.0))
        self.weight = xp.asarray(np.where(there, -log_slope, -np.inf))
        self.atoms: LabelRows | None = None
        if line.labels:
            self.on_atom = xp.asarray(np.abs(values[:, None] - np.array(line.labels)).min(axis=1) < CERTAIN)
            self.atoms = LabelRows(line, 0.0, y, xp)

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        xp, v, z = self.xp, float(V[0, 0]), self.images[rows]
        log_weight = self.weight[rows] - 0.5 * (z - omega) ** 2 / v
        top = xp.max(log_weight, axis=1)
        weight = xp.exp(log_weight - xp.where(xp.isfinite(top), top, 0.0)[:, None])
        total = xp.maximum(xp.sum(weight, axis=1), TINY)
        mean = xp.sum(weight * z, axis=1) / total
        variance = xp.sum(weight * (z - mean[:, None]) ** 2, axis=1) / total
        g, curvature = (mean - omega[:, 0]) / v, 1 / v - variance / v**2
        if self.atoms is not None:
            atom = self.atoms.each(rows, omega, V)
            g, curvature = (xp.where(self.on_atom[rows], *pair) for pair in zip(atom, (g, curvature)))
        return g[:, None], np.array([[float(xp.sum(curvature))]])


class GridRows:
    """Noisy outputs, and labels of several variables: sums over nodes z that all rows share, finer as V shrinks."""

    def __init__(self, reading: TargetReading, noise: float, flip: float, y: DeviceArray, xp: ModuleType) -> None:
        self.reading, self.noise, self.flip, self.xp = reading, noise, flip, xp
        self.y = y if noise > 0 else _label_numbers(y, reading.labels or (), xp)
        self._rules: dict[int, tuple[DeviceArray, DeviceArray, DeviceArray]] = {}

    def _rule(self, V: Floats) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Return nodes, the logarithms of their weights, and g at them, or the logarithm of the law of each label.

        They are made for the smallest eigenvalue of V, rounded down to a power of two; labels have one rule.
        """
        level = int(np.floor(np.log2(max(float(np.linalg.eigvalsh(V)[0]), CERTAIN)))) if self.noise > 0 else 0
        if level not in self._rules:
            nodes, weights = (
                noisy_nodes(self.reading, self.noise, 2.0**level)
                if self.noise > 0
                else lebesgue_nodes(self.reading, _LABEL_VARIANCE)
            )
            table = np.asarray(self.reading.inner(nodes), dtype=float)
            if self.noise == 0:
                labels = np.asarray(self.reading.labels)
                own = np.argmin(np.abs(table[:, None] - labels), axis=1) == np.arange(len(labels))[:, None]
                with np.errstate(divide="ignore"):
                    table = np.log(np.where(own, 1 - self.flip, self.flip / (len(labels) - 1)))
            self._rules[level] = tuple(map(self.xp.asarray, (nodes, np.log(weights), table)))
        return self._rules[level]

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega, some rows at a time."""
        xp, r, y = self.xp, len(V), self.y[rows]
        z, log_weights, table = self._rule(V)
        inverse = np.linalg.inv(V)
        precision = xp.asarray(inverse)
        spread = -0.5 * xp.sum((z @ precision) * z, axis=1) + log_weights
        squares = (z[:, :, None] * z[:, None, :]).reshape(len(z), r * r)
        g, covariance = xp.empty(omega.shape), np.zeros_like(V)
        for part in split_rows(len(y), len(z), _CHUNK):
            law = table[y[part]] if self.noise == 0 else (y[part, None] - table) ** 2 * (-0.5 / self.noise)
            exponent = law + spread + (omega[part] @ precision) @ z.T
            exponent -= xp.max(exponent, axis=1)[:, None]
            weight = xp.exp(exponent, out=exponent)
            weight /= xp.sum(weight, axis=1)[:, None]
            mean = weight @ z
            covariance += to_numpy(xp.sum(weight @ squares, axis=0)).reshape(r, r) - to_numpy(mean.T @ mean)
            g[part] = (mean - omega[part]) @ precision
        return g, np.asarray(len(y) * inverse - inverse @ covariance @ inverse, dtype=np.float64)


def noisy_nodes(reading: TargetReading, noise: float, V: float) -> tuple[Floats, Floats]:
    """Return nodes z (N, r) and weights dz that resolve N(omega, V) and the likelihood of the noise."""
    if reading.rank == 1:
        z, weights = Noisy(reading.line, noise).z_rule(V)
        return z[:, None], weights
    return lebesgue_nodes(reading, V, 0.5 * float(np.sqrt(noise)) / max(reading.steepness, 1e-9))


def lebesgue_nodes(reading: TargetReading, V: float, finest: float = 0.35) -> tuple[Floats, Floats]:
    """Return nodes (N, r) and weights dz on the ball of radius 8.5, broken on the planes of the target.

    `finest` is the spacing that the likelihood needs; three directions have room for 0.3 at best.
    """
    spacing = float(np.clip(min(finest, 0.6 * np.sqrt(V)), 0.05, 0.35))
    spacing = max(spacing, 0.3) if reading.rank > 2 else spacing
    piece = max(12, int(7.5 / spacing)) if reading.rank == 2 else 12
    grid = product_grid(reading.rank, reading.planes, even_rule(spacing, REACH), piece)
    density = np.prod(normal_density(grid.points), axis=1)
    inside = (grid.weights > 1e-17) & (density > 0)
    return grid.points[inside], grid.weights[inside] / density[inside]


class ProductRows:
    """y = c z1 z2 without noise: the level set z = +-(e^t, (y/c) e^-t) with measure dt, bayes_multi_index (8)."""

    def __init__(self, scale: float, y: DeviceArray, xp: ModuleType) -> None:
        self.xp, self.y = xp, y / scale
        t, weights = gauss_legendre_panels(np.linspace(-24.0, 3.0, 82), 8)
        self.t, self.log_weights = xp.asarray(t), xp.asarray(np.log(weights))

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        xp, y = self.xp, self.y[rows]
        first = xp.exp(self.t)
        z1 = xp.concatenate([first, -first])
        inverse = np.linalg.inv(V)
        weights = xp.concatenate([self.log_weights, self.log_weights])
        g, curvature = xp.empty(omega.shape), np.zeros_like(V)
        for part in split_rows(len(y), len(z1), _CHUNK):
            z2 = y[part, None] / z1
            a, b = z1 - omega[part, :1], z2 - omega[part, 1:]
            exponent = weights - 0.5 * (inverse[0, 0] * a**2 + 2 * inverse[0, 1] * a * b + inverse[1, 1] * b**2)
            weight = xp.exp(exponent - xp.max(exponent, axis=1)[:, None])
            weight /= xp.sum(weight, axis=1)[:, None]
            shift = xp.stack([xp.sum(weight * a, axis=1), xp.sum(weight * b, axis=1)], axis=1)
            second = [[xp.sum(weight * x * w) for w in (a, b)] for x in (a, b)]
            covariance = np.array([[float(entry) for entry in row] for row in second]) - to_numpy(shift.T @ shift)
            g[part] = shift @ xp.asarray(inverse)
            curvature += len(shift) * inverse - inverse @ covariance @ inverse
        return g, curvature
