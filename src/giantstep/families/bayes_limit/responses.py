"""What one sample says of its z: posterior moments under N(omega, V) P(y|z), row by row, on any device.

Every response answers `moments(rows, omega, V) -> (g, curvature)` for some rows of the data: g = V^-1 (E[z|y, omega] -
omega) (n, r) and the sum over the rows of -dg/domega (r, r), bayes_multi_index (1).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.line import Interval, Line
from giantstep.families.bayes_limit.noisy import Noisy
from giantstep.families.bayes_limit.reading import Reading
from giantstep.families.bayes_limit.tolerances import REACH, TINY
from giantstep.gaussian.grids import even_rule, product_grid
from giantstep.gaussian.primitives import special
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.lab import to_numpy
from giantstep.types import DeviceArray, Floats

_CHUNK = 1 << 22
"""Entries of one block of rows by nodes: 32 MB."""


class Response(Protocol):
    """Posterior moments of z, row by row."""

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g (n, r) and the sum over the rows of -dg/domega (r, r)."""


def response_of(reading: Reading, noise: float, flip: float, y: DeviceArray, xp: ModuleType) -> Response:
    """Return the response of samples with labels y (n,)."""
    if noise > 0:
        return NoisyRows(reading, noise, y, xp)
    if reading.labels is not None:
        kind = np.argmin(np.abs(to_numpy(y)[:, None] - np.asarray(reading.labels)), axis=1)
        return _labels(reading, flip, xp.asarray(kind), xp)
    if reading.rank == 1:
        return ExactRows(reading.line, y, xp)
    return ProductRows(float(reading.product_scale or 1.0), y, xp)


def _labels(reading: Reading, flip: float, kind: DeviceArray, xp: ModuleType) -> Response:
    if reading.rank == 1:
        return LabelRows(reading.line.flat, tuple(reading.labels or ()), flip, kind, xp)
    return LabelGrid(reading, flip, kind, xp)


def _density(x: DeviceArray, xp: ModuleType) -> DeviceArray:
    return xp.exp(-0.5 * x * x) / float(np.sqrt(2 * np.pi))


@dataclass
class LabelRows:
    """Labels of intervals of one variable, bayes_multi_index (6)."""

    intervals: tuple[Interval, ...]
    values: tuple[float, ...]
    flip: float
    kind: DeviceArray
    """(n,) number of the label of each row."""
    xp: ModuleType

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega."""
        xp, s, kind = self.xp, float(np.sqrt(V[0, 0])), self.kind[rows]
        P, first, second = (xp.zeros(len(kind)) for _ in range(3))
        for low, high, value in self.intervals:
            own = kind == int(np.argmin(np.abs(np.asarray(self.values) - value)))
            a, b = ((end - omega[:, 0]) / s for end in (low, high))
            swap = a > 0
            ndtr = special(xp).ndtr
            P += own * (ndtr(xp.where(swap, -a, b)) - ndtr(xp.where(swap, -b, a)))
            at_a, at_b = _density(a, xp), _density(b, xp)
            first += own * (at_a - at_b) / s
            second += own * (_finite(a, xp) * at_a - _finite(b, xp) * at_b) / s**2
        others = self.flip / max(len(self.values) - 1, 1)
        scale = 1 - self.flip - others
        Z = xp.maximum(scale * P + others, TINY)
        g = scale * first / Z
        return g[:, None], np.array([[float(xp.sum(g**2 - scale * second / Z))]])


def _finite(x: DeviceArray, xp: ModuleType) -> DeviceArray:
    return xp.where(xp.isfinite(x), x, 0.0)


class ExactRows:
    """y = g(z) of one variable: a sum over the preimages of every row, bayes_multi_index (7); atoms are labels."""

    def __init__(self, line: Line, y: DeviceArray, xp: ModuleType) -> None:
        self.xp = xp
        values = to_numpy(y)
        images = line.preimages(values)
        there = np.isfinite(images)
        with np.errstate(divide="ignore"):
            log_slope = np.log(np.maximum(np.abs(line.slope(np.where(there, images, 0.0))), 1e-200))
        self.images = xp.asarray(np.where(there, images, 0.0))
        self.weight = xp.asarray(np.where(there, -log_slope, -np.inf))
        atoms = np.array(line.labels)
        self.atoms: LabelRows | None = None
        if len(atoms):
            gap = np.abs(values[:, None] - atoms)
            self.on_atom = xp.asarray(gap.min(axis=1) < 1e-12)
            self.atoms = LabelRows(line.flat, tuple(atoms.tolist()), 0.0, xp.asarray(gap.argmin(axis=1)), xp)

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
        if self.atoms is None:
            return g[:, None], np.array([[float(xp.sum(curvature))]])
        on = self.on_atom[rows]
        atom, _ = self.atoms.moments(rows, omega, V)
        each = self._atom_curvature(rows, omega, V, atom[:, 0])
        g = xp.where(on, atom[:, 0], g)
        return g[:, None], np.array([[float(xp.sum(xp.where(on, each, curvature)))]])

    def _atom_curvature(self, rows: slice, omega: DeviceArray, V: Floats, g: DeviceArray) -> DeviceArray:
        """Return -dg/domega of every row as if it were on its atom, by a central difference of g in omega."""
        assert self.atoms is not None
        step = 1e-4 * float(np.sqrt(V[0, 0]))
        above, below = (self.atoms.moments(rows, omega + shift, V)[0][:, 0] for shift in (step, -step))
        return (below - above) / (2 * step)


@dataclass
class GridRows:
    """Posterior moments as sums over nodes z (N, r) of known log-likelihood."""

    nodes: DeviceArray
    log_weights: DeviceArray
    xp: ModuleType

    def sums(self, log_likelihood: DeviceArray, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega of the rows of a log-likelihood (n, N)."""
        xp, r = self.xp, len(V)
        precision = xp.asarray(np.linalg.inv(V))
        z = self.nodes
        spread = -0.5 * xp.sum((z @ precision) * z, axis=1) + self.log_weights
        exponent = log_likelihood + spread + (omega @ precision) @ z.T
        exponent -= xp.max(exponent, axis=1)[:, None]
        weight = xp.exp(exponent, out=exponent)
        total = xp.sum(weight, axis=1)[:, None]
        mean = (weight @ z) / total
        second = (weight @ (z[:, :, None] * z[:, None, :]).reshape(len(z), r * r)) / total
        covariance = to_numpy(xp.sum(second, axis=0)).reshape(r, r) - to_numpy(mean.T @ mean)
        inverse = np.linalg.inv(V)
        return (mean - omega) @ precision, len(omega) * inverse - inverse @ covariance @ inverse


class NoisyRows:
    """y = g(z) + noise: quadrature over z, finer as V shrinks."""

    def __init__(self, reading: Reading, noise: float, y: DeviceArray, xp: ModuleType) -> None:
        self.reading, self.noise, self.y, self.xp = reading, noise, y, xp
        self._rules: dict[int, tuple[GridRows, DeviceArray]] = {}

    def _rule(self, V: Floats) -> tuple[GridRows, DeviceArray]:
        """Return nodes for the smallest eigenvalue of V, rounded down to a power of two, and g at them."""
        smallest = max(float(np.linalg.eigvalsh(V)[0]), 1e-12)
        level = int(np.floor(np.log2(smallest)))
        if level not in self._rules:
            nodes, weights = noisy_nodes(self.reading, self.noise, 2.0**level)
            xp = self.xp
            rows = GridRows(xp.asarray(nodes), xp.asarray(np.log(weights)), xp)
            self._rules[level] = rows, xp.asarray(np.asarray(self.reading.inner(nodes), dtype=float))
        return self._rules[level]

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega, some rows at a time."""
        grid, g = self._rule(V)
        y, xp = self.y[rows], self.xp
        size = max(1, _CHUNK // len(g))
        parts, curvature = [], np.zeros_like(V)
        for start in range(0, len(y), size):
            check_time()
            part = slice(start, start + size)
            log_likelihood = (y[part, None] - g) ** 2 * (-0.5 / self.noise)
            values, more = grid.sums(log_likelihood, omega[part], V)
            parts.append(values)
            curvature += more
        return xp.concatenate(parts), curvature


def noisy_nodes(reading: Reading, noise: float, V: float) -> tuple[Floats, Floats]:
    """Return nodes z (N, r) and weights dz that resolve N(omega, V) and the likelihood of the noise."""
    if reading.rank == 1:
        z, weights = Noisy(reading.line, noise).z_rule(V)
        return z[:, None], weights
    return lebesgue_nodes(reading, V, 0.5 * float(np.sqrt(noise)) / max(reading.steepness, 1e-9))


def lebesgue_nodes(reading: Reading, V: float, finest: float = 0.35) -> tuple[Floats, Floats]:
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


class LabelGrid:
    """Labels of several variables: quadrature over z between the planes on which the label changes."""

    def __init__(self, reading: Reading, flip: float, kind: DeviceArray, xp: ModuleType) -> None:
        self.reading, self.flip, self.kind, self.xp = reading, flip, kind, xp
        labels = np.asarray(reading.labels)
        nodes, weights = lebesgue_nodes(reading, 0.1)
        self.grid = GridRows(xp.asarray(nodes), xp.asarray(np.log(weights)), xp)
        values = np.asarray(reading.inner(nodes), dtype=float)
        own = np.argmin(np.abs(values[:, None] - labels), axis=1) == np.arange(len(labels))[:, None]
        with np.errstate(divide="ignore"):
            self.log_law = xp.asarray(np.log(np.where(own, 1 - flip, flip / (len(labels) - 1))))

    def moments(self, rows: slice, omega: DeviceArray, V: Floats) -> tuple[DeviceArray, Floats]:
        """Return g and the sum of -dg/domega, some rows at a time."""
        kind, xp = self.kind[rows], self.xp
        size = max(1, _CHUNK // self.log_law.shape[1])
        parts, curvature = [], np.zeros_like(V)
        for start in range(0, len(kind), size):
            check_time()
            part = slice(start, start + size)
            values, more = self.grid.sums(self.log_law[kind[part]], omega[part], V)
            parts.append(values)
            curvature += more
        return xp.concatenate(parts), curvature


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
        size = max(1, _CHUNK // len(z1))
        for start in range(0, len(y), size):
            check_time()
            part = slice(start, start + size)
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
