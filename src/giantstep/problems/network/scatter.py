"""How steep features scatter from input to input at a finite dimension:
finite_size_steps section 15.

Given kappa, the features of the limit have one slope D_1 and one noise mu2 for all
inputs. At a finite dimension the inputs have lengths of their own, and an input sees p
neurons only. Both matter for activations that grow fast. Both are followed here, as two
variables beside kappa. What Gaussian features have at a finite size, too, is not
counted.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.functions import from_table, tabulated
from giantstep.core.maths.gaussian.grids import even_rule, hermite_rule
from giantstep.core.readout import PACKED_BLOCKS, Features
from giantstep.core.readout.finite_size import stretch_of_atoms
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.rows.protocol import SCATTER
from giantstep.problems.network.tolerances import ORDINARY, STEEP

VARIABLE_NODES = 5
"""Nodes of either variable: three are 1% off for z^5 at d = 50."""
MOST_NODES = 100_000
"""Nodes of kappa and both variables together, above which nothing is followed."""
FOURTH_STEP = 0.06
"""Step of the rule for moments of the fourth order, which are needed to a percent."""
FOURTH_CHUNK = 2000
"""Rows of that rule held at a time (5 MB)."""
OF_ROWS = 0.85
OF_INPUTS = 0.3
"""Relative change of the test error by a relative variance of the noise that is not
counted, within a factor of two.
"""
WORTH_SAYING = 0.02
"""Relative size of what is neglected that is worth a warning."""
WIDEST = 6.0
"""Relative standard deviation of the noise of a block that p neurons may leave; rare
shifts kappa have more.
"""
ROUNDING = 1e-9
"""Noise, in units of the largest, of which nothing is followed."""
SHORTEST = 0.05
"""What the cube root of the squared length of an input may fall to, in units of its
mean.
"""


class NoiseMoments(NamedTuple):
    """Moments of sigma(A + s z) = mean + slope z + xi, of blocks at the nodes of kappa
    (M, k, N).
    """

    slope: Floats  # s D_1
    bent: Floats  # its derivative by the logarithm of the length of the input, s^3 D_3
    third: Floats  # E[z xi^3]
    fourth: Floats  # E[xi^4] - 3 E[xi^2]^2, which is 0 for Gaussian noise

    @classmethod
    def of(cls, activation: Function, A: Floats, s: Floats) -> NoiseMoments:
        """Return those at shifts A (M, k, N) and lengths s (M, k)."""
        return cls(*from_table(activation, _four_moments, A, np.abs(s)))


def _four_moments(activation: Function, A: Floats, s: Floats) -> Floats:
    """Return the four moments at points A of lengths s (P,): (4, P)."""
    z, weights = even_rule(FOURTH_STEP)
    D = activation.smoothed(A, s)
    moments = np.empty((4, len(A)))
    moments[0] = s * D[1]
    moments[1] = s**3 * D[3]
    for start in range(0, len(A), FOURTH_CHUNK):
        part = slice(start, start + FOURTH_CHUNK)
        values = activation(A[part, None] + s[part, None] * z)
        mean = values @ weights
        slope = values @ (weights * z)
        xi = values - mean[:, None] - slope[:, None] * z
        square = xi**2
        moments[2, part] = (xi * square) @ (weights * z)
        moments[3, part] = square**2 @ weights - 3 * (square @ weights) ** 2
    return moments


def _noise(activation: Function, A: Floats, s: Floats) -> Floats:
    """Return mu2 at shifts A (M, k, N) and lengths s (M, k)."""
    moments = tabulated(
        activation, lambda f, *at: np.stack(f.moments(*at)), A, np.abs(s)
    )
    return np.maximum(moments[2], 0.0)


class Steepness(NamedTuple):
    """d times the relative variance of the noise of an activation from input to input,
    before any step.
    """

    of_lengths: float
    of_neurons: float  # times p/d

    def at(self, width_per_dim: Floats) -> Floats:
        """Return the whole, for widths p/d (M,)."""
        return self.of_lengths + self.of_neurons / width_per_dim


@lru_cache(maxsize=256)
def steepness(activation: Function) -> Steepness:
    """Measure an activation at rows of length 1: x^3 has 43, tanh 0.6."""
    origin = np.zeros((1, 1, 1))
    change = 0.05
    moments = NoiseMoments.of(activation, origin, np.ones((1, 1)))
    shorter, noise, longer = (
        float(_noise(activation, origin, np.full((1, 1), s))[0, 0, 0])
        for s in (1 - change, 1.0, 1 + change)
    )
    power = noise + float(moments.slope[0, 0, 0]) ** 2
    if noise <= 0:
        return Steepness(0.0, 0.0)
    moved = (longer - shorter) / (2 * change)
    fourth = max(float(moments.fourth[0, 0, 0]), 0.0)
    return Steepness(0.5 * moved**2 / (power * noise), fourth / (power * noise))


@dataclasses.dataclass(frozen=True)
class Scatter:
    """The features of M parameter sets whose slope and noise are not the same for all
    inputs.
    """

    activation: Function
    A: Floats  # (M, k, N)
    s: Floats  # (M, k)
    noise: Floats  # mu2 (M, k, N)
    moments: NoiseMoments
    lengths: Floats  # relative standard deviation of the lengths of inputs (M, k)
    variance: Floats
    """What p neurons add to the variance of their mean noise, beyond what Gaussian
    noise does (M, 1, N).
    """
    neurons: Floats  # p (M, 1, 1)
    counted: Floats  # how much of the variances is counted (M,)
    among_inputs: Floats  # relative variance of the noise from input to input (M,)
    among_rows: Floats  # relative variance of the noise from row to row of a block (M,)

    @classmethod
    def of(
        cls, problem: Problem, layer: Layer, A: Floats, features: Features
    ) -> Scatter:
        """Measure the scatter of features at shifts A."""
        s = layer.scale(problem)
        dim = problem.numbers["dim"]
        atoms = (problem.inputs.eigenvalues * layer.rows.B**2).swapaxes(1, 2)
        stretch = stretch_of_atoms(1 / dim, atoms, problem.inputs.masses)
        lengths = np.sqrt(np.einsum("mqq->mq", stretch))
        moments = NoiseMoments.of(problem.activation, A, s)
        share = problem.pi[:, :, None]
        neurons = problem.neurons.sum(axis=1)[:, None, None]
        # all blocks together, because the fit sees the sum of their noise
        variance = np.sum(share * moments.fourth, axis=1, keepdims=True) / neurons
        variance = np.maximum(variance, 0.0)
        longer = _noise(problem.activation, A, s * (1 + lengths))
        shorter = _noise(problem.activation, A, s * (1 - lengths))
        moved = 0.5 * (longer - shorter)
        of_lengths = np.sum(share * moved, axis=1) ** 2
        # how lengths differ inside a block, in units of how those of inputs do
        uneven = layer.rows.uneven(problem) / (s**2 * dim[:, None] * lengths**2)
        of_rows = np.sum(share * uneven[..., None] * moved**2, axis=1)
        noise = np.sum(share * features.mu2, axis=1)
        power = noise + np.sum(share * features.mu1**2, axis=1)
        whole, mean_power = (
            np.sum(features.weights * values, axis=1) for values in (noise, power)
        )
        # where features are small, their own size is not what decides
        size = np.maximum(power, mean_power[:, None])
        among_inputs, among_rows = (
            _ratio(
                np.sum(features.weights * _ratio(values, size, 0.0), axis=1), whole, 0.0
            )
            for values in (of_lengths + variance[:, 0], of_rows)
        )
        counted = np.clip(
            (dim * among_inputs - ORDINARY) / (STEEP - ORDINARY), 0.0, 1.0
        )
        measured = (lengths, variance, neurons, counted, among_inputs, among_rows)
        return cls(problem.activation, A, s, features.mu2, moments, *measured)

    def with_lengths(self, g: Floats) -> tuple[Floats, Floats]:
        """Return what is added to the slope, and the noise, of inputs at nodes g of
        their length: (15.2).

        Both are (G, M, k, N). Of the slope, which Gaussian features have too, the
        excess of its variance is taken.
        """
        # Wilson and Hilferty: its cube is chi squared
        cube = 4 / 9 * (self.counted[:, None] * self.lengths**2)
        root = np.maximum(1 - cube + g[:, None, None] * np.sqrt(cube), SHORTEST)
        length = root**1.5
        excess = np.maximum(
            self.moments.bent * (self.moments.bent + 2 * self.moments.slope), 0.0
        )
        followed = np.sign(self.moments.bent) * np.sqrt(excess)
        slope = followed * (length - 1)[..., None]
        noise = np.stack(
            [_noise(self.activation, self.A, self.s * own) for own in length]
        )
        return slope, noise

    def of_neurons(self, t: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return what is added to the slope, and factors of the noise, as p neurons
        have them: (15.3).

        Both are (T, M, k, N), at nodes t of one variable for all blocks, by which each
        of them follows their sum.
        """
        spread = np.sqrt(self.variance) * self.neurons
        seen = (spread > 0) & (self.noise > ROUNDING * self.noise.max())
        relative = np.where(
            seen, self.moments.fourth / np.where(seen, spread * self.noise, 1.0), 0.0
        )
        follows = seen & (self.moments.fourth > ROUNDING * self.noise**2)
        slope = np.where(
            follows,
            self.noise
            * self.moments.third
            / np.where(follows, self.moments.fourth, 1.0),
            0.0,
        )
        relative = np.clip(
            relative * np.sqrt(self.counted)[:, None, None], -WIDEST, WIDEST
        )
        width = np.sign(relative) * np.sqrt(np.log1p(relative**2))
        # a log-normal factor: the noise of few neurons stays positive
        factor = np.exp(width * t[:, None, None, None])
        factor = factor / np.tensordot(weights, factor, axes=1)
        return slope * (factor - 1), factor

    def at_inputs(self) -> tuple[Floats, Floats, Floats]:
        """Return weights (J,) of inputs, and slope and noise for each of them (J, M, k,
        N).

        Over all inputs they keep the mean noise and the mean of their squares, which
        are those of the limit.
        """
        nodes, weights = hermite_rule(VARIABLE_NODES)
        by_length, noise = self.with_lengths(nodes)
        by_neurons, factor = self.of_neurons(nodes, weights)
        # over all lengths the noise is that of the limit
        noise = noise * _ratio(self.noise, np.tensordot(weights, noise, axes=1), 1.0)
        both = np.multiply.outer(weights, weights).ravel()
        slope = self.moments.slope + _sums(by_length, by_neurons)
        noise = (noise[:, None] * factor).reshape(slope.shape)
        lengths = self.counted[:, None, None] * self.lengths[..., None] ** 2
        moved = lengths * self.moments.bent**2 + np.tensordot(
            weights, by_neurons**2, axes=1
        )
        # what the slope varies by is a part of the noise of the limit, and is not
        # counted twice
        left = 1 / (1 + _ratio(moved, self.noise, 0.0))
        wanted = self.moments.slope**2 + (1 - left) * self.noise
        slope = slope * np.sqrt(
            _ratio(wanted, np.tensordot(both, slope**2, axes=1), 1.0)
        )
        return both, slope, noise * left


def _ratio(value: Floats, to: Floats, otherwise: float) -> Floats:
    """Return value/to, and `otherwise` where the latter is not positive."""
    return np.asarray(np.where(to > 0, value / np.where(to > 0, to, 1.0), otherwise))


def _sums(first: Floats, second: Floats) -> Floats:
    """Return all sums of one of the first (G, ...) and one of the second (T, ...): (G
    T, ...).
    """
    return (first[:, None] + second).reshape(-1, *first.shape[1:])


class Scattered(NamedTuple):
    """Features of M parameter sets with both variables beside kappa, and what is left
    out.
    """

    features: Features
    neglected: Floats  # about how much of the test error that is (M,), relative


def scattered(
    problem: Problem, layer: Layer, A: Floats, unit: Floats, features: Features
) -> Scattered:
    """Return features as they scatter at a finite dimension; as they are in the limit,
    and where nothing is steep.

    `A` (M, k, N) are the shifts of the neurons at the nodes of kappa, and mu1 is `unit`
    (M, k) times D_1.
    """
    plain = Scattered(features, np.zeros(len(A)))
    # in the limit all inputs of one kappa have the same features
    if not np.isfinite(problem.numbers["dim"]).all():
        return plain
    if SCATTER not in layer.rows.known:
        return plain
    # an ordinary activation may look steep after a large step, at a few kappa that
    # decide nothing: of tanh after a step of rate 20 the sizes below said 17%, where
    # networks are within 1%
    widths = problem.numbers["width_per_dim"]
    if np.max(steepness(problem.activation).at(widths)) <= ORDINARY:
        return plain
    scatter = Scatter.of(problem, layer, A, features)
    if not scatter.counted.any():
        return plain
    # rows of one block share their functions of kappa: how they differ is left out
    neglected = OF_ROWS * scatter.among_rows
    too_many = VARIABLE_NODES**2 * features.weights.shape[1] > MOST_NODES
    # for inputs with a covariance, whose lengths differ more, the term was not held
    # against networks
    outside = problem.network.readout.classes or not problem.isotropic
    if too_many or outside or len(problem.zeta) > PACKED_BLOCKS:
        among_inputs = OF_INPUTS * scatter.counted * scatter.among_inputs
        return Scattered(features, neglected + among_inputs)
    # the nodes of kappa are repeated for every value of both variables
    weights, slope, noise = scatter.at_inputs()
    again = np.tile(np.arange(features.weights.shape[1]), len(weights))
    # mu1 is in units of the bulk rows, the slope in those of their length s
    change = (slope - scatter.moments.slope) * (unit / scatter.s)[..., None]
    several = dataclasses.replace(
        features.at_nodes(again),
        weights=np.concatenate(list(weights[:, None, None] * features.weights), axis=1),
        mu1=np.concatenate(list(features.mu1 + change), axis=2),
        mu2=np.concatenate(list(noise), axis=2),
    )
    return Scattered(several, neglected)


def scatter_warning(neglected: Floats) -> list[str]:
    """Warn where what is neglected of steep features is large."""
    largest = float(np.max(neglected, initial=0.0))
    if largest < WORTH_SAYING:
        return []
    return [
        "The features differ much from row to row or from input to input (a steep"
        " activation), which is not all counted at this dim: expect errors to be off"
        f" by about {100 * largest:.0f}% (finite_size_steps section 15)."
    ]
