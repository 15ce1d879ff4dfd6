"""Features that are Gaussian given kappa: functions of kappa at the nodes of a rule,
and packed symmetric matrices.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.gaussian.moments import Moments
from giantstep.core.maths.stacked import Stacked

PACKED_BLOCKS = 8
"""Blocks up to which the packed functions are fewer than the nodes."""
ROUNDING_OF_MEANS = 1e-13
"""Share of a feature below which its mean is zero: sums over the nodes of a rule are
rounded to a few 1e-16 of it.
"""
MANY_NODES = 1000
"""Nodes above which fewer points are solved together, so that their functions stay in
cache.
"""
EVEN = 1e-14
"""Relative differences between the nodes that are rounding."""
WITHOUT_NODES = ("omega", "Jp", "rho", "blur")
"""Fields of `Features` that are the same at all nodes."""
NOT_LINEAR = 1e-3
"""Share of the noise in the features from which they count as not linear."""


@dataclass(frozen=True)
class Features(Stacked):
    """M parameter sets with k blocks of neurons at N nodes of kappa in R^m, C channels
    each, L unlearnt directions.

    Given kappa, neuron i of block q with the bulk row b_i is, with xi_l the coordinates
    of the input along the unlearnt directions (few_steps_readout (4.1), (4.2)),

        mu0_q + mu1_q <b_i, x> + sqrt(mu2_q) N(0, 1) + sum_c eps_ic [T0_qc + mu1_q sum_l
        Jp_lqc xi_l]/sqrt(d), eps_ic ~ N(0, omega_qc),

    and the label has h = E[y|kappa], h1_l = E[xi_l y|kappa], hh = E[y^2|kappa]. What
    belongs to a channel of a block has one axis of length X = C k, channel after
    channel: entry c k + q. Every array starts with the axis of the sets.
    """

    pi: Floats  # fractions of the blocks (k,), the same for all sets
    # of the nodes (M, N), of sum 1; the equations do not ask where the nodes are
    weights: Floats
    mu0: Floats
    mu1: Floats
    mu2: Floats  # conditional functions of the blocks (M, k, N)
    T0: Floats  # what a channel adds as a function of kappa (M, X, N)
    omega: Floats  # weights of the channels (M, X): the variances of eps
    # what a channel adds along the unlearnt directions, in units of mu1 (M, L, X)
    Jp: Floats
    h: Floats
    h1: Floats
    hh: Floats  # labels given kappa: (M, N), (M, L, N), (M, N)
    # the sign of field + sum_l rho_l xi_l is the class: (M, N) and (M, L), if there are
    # any
    field: Floats | None = None
    rho: Floats | None = None
    # variance (M,) of noise that is added to the field before its sign is taken
    blur: Floats | None = None
    # probability (M, N) that a class is turned, where it depends on kappa
    turned: Floats | None = None
    # what a feature gains where the input is stretched, (M, k, N), at a finite d
    stretch: Floats | None = None
    # the nodes themselves (M, m, N), for callers; no equation reads them
    kappa: Floats | None = None
    shared: ClassVar[tuple[str, ...]] = ("pi",)

    def take(self, index: Any) -> Features:
        """Return the sets listed in `index`; a single one is kept single, to be
        broadcast.
        """
        if len(self.weights) == 1:
            return self
        return super().take(index)

    def at_nodes(self, index: Integers) -> Features:
        """Return the features at the nodes in `index` only."""
        at_nodes = {
            name: array[..., index]
            for name, array in self._stacks().items()
            if name not in WITHOUT_NODES
        }
        return dataclasses.replace(self, **at_nodes)

    @property
    def channels(self) -> int:
        """C, the number of channels of every block."""
        return self.T0.shape[1] // len(self.pi)

    @cached_property
    def packed(self) -> Floats:
        """The functions (mu1_q mu1_q', mu2_q), q <= q', of which V is a combination (M,
        K, N).
        """
        pairs = packing(len(self.pi))
        products = self.mu1[:, pairs.rows] * self.mu1[:, pairs.columns]
        return np.concatenate([products, self.mu2], axis=1)

    @cached_property
    def products(self) -> Floats:
        """Products of two of the packed functions (M, P, N)."""
        pairs = packing(self.packed.shape[1])
        return self.packed[:, pairs.rows] * self.packed[:, pairs.columns]

    @cached_property
    def of_variance(self) -> Features:
        """The features as V sees them, by mu1 and mu2: the other functions of kappa
        lose their nodes.
        """
        # no nodes in place of None: `take` must find arrays there
        dropped = {
            name: getattr(self, name)[..., :0]
            for name in ("mu0", "T0", "h", "h1", "hh")
        }
        return dataclasses.replace(
            self, **dropped, field=None, rho=None, stretch=None, kappa=None
        )

    def per_channel(self, values: Array) -> Array:
        """Repeat values of blocks (..., k) for all channels (..., X)."""
        return np.concatenate([values] * self.channels, axis=-1)

    @cached_property
    def even(self) -> bool:
        """Whether no block depends on kappa but by rounding (a layer that took no
        step): V is the same everywhere.

        Linear features (mu2 = 0) lose digits with several blocks, fewer as averages
        over nodes: they do not count.
        """
        size = float(np.max(self.mu1**2 + self.mu2))
        if not self.mu2.min() > NOT_LINEAR * size:
            return False
        # mu1 is of the size of a root of the others
        range_mu1 = np.ptp(self.mu1, axis=-1).max()
        range_mu2 = np.ptp(self.mu2, axis=-1).max()
        return bool(range_mu1 <= EVEN * np.sqrt(size) and range_mu2 <= EVEN * size)

    def sums(self, weights: Array, functions: Floats) -> Array:
        """Return sum_n weights functions (B, F), for weights (B, N) and functions (1 or
        B, F, N).
        """
        # a product of matrices, which broadcasts functions that all points share
        return (functions @ weights[:, :, None])[:, :, 0]

    def combine(self, coefficients: Array) -> Array:
        """Return the combination of the packed functions at the nodes, (B, K) to (B,
        N).
        """
        return (coefficients[:, None, :] @ self.packed)[:, 0, :]

    def quadratic(self, matrix: Array, vector: Array) -> Array:
        """Return mu1^T matrix mu1 + mu2 . vector at the nodes, (B, k, k) and (B, k) to
        (B, N).
        """
        coordinates = packing(len(self.pi))
        return self.combine(coordinates.pack(matrix, vector) * coordinates.multiplicity)

    def moments(self, weights: Array) -> tuple[Array, Array]:
        """Return sum_n weights mu1 mu1^T (B, k, k) and sum_n weights mu2 (B, k) for
        weights of the nodes (B, N).
        """
        return packing(len(self.pi)).unpack(self.sums(weights, self.packed))


@dataclass(frozen=True)
class Packing:
    """Packed coordinates of a symmetric k x k matrix and a k-vector: the pairs q <= q',
    then the vector.
    """

    rows: Integers
    columns: Integers
    # how often a coordinate counts in a sum over the matrix: 2 for q < q', else 1
    multiplicity: Floats
    place: Integers  # which of the pairs an entry of the matrix is (k, k)
    eye: Floats  # the identity (k, k)

    def pack(self, matrix: Array, vector: Array) -> Array:
        """Return the packed coordinates (B, K)."""
        return np.concatenate([matrix[:, self.rows, self.columns], vector], axis=1)

    def unpack(self, packed: Array) -> tuple[Array, Array]:
        """Return the symmetric (B, k, k) matrix and the (B, k) vector."""
        return packed.take(self.place, axis=1), packed[:, len(self.rows) :]


@cache
def packing(k: int) -> Packing:
    """Return the packed coordinates for k blocks."""
    rows, columns = np.triu_indices(k)
    place = np.empty((k, k), dtype=np.int64)
    eye = np.eye(k)
    place[rows, columns] = np.arange(len(rows))
    place[columns, rows] = np.arange(len(rows))
    # q < q' stands for (q', q) too
    multiplicity = np.append(2.0 - eye[rows, columns], np.ones(k))
    return Packing(rows, columns, multiplicity, place, eye)


def packed_products(S: Array) -> Array:
    """Return the matrix of A -> S A S for symmetric A, in packed coordinates: (...,
    P, P) for S (..., k, k).
    """
    rows = packing(S.shape[-1]).rows
    columns = packing(S.shape[-1]).columns
    # (i, j) answers to (a, b) by S_ia S_jb + S_ib S_ja, and to (a, a) by one of them
    first = S.take(rows, -2)
    second = S.take(columns, -2)
    direct = first.take(rows, -1) * second.take(columns, -1)
    crossed = first.take(columns, -1) * second.take(rows, -1)
    return np.asarray(direct + np.where(rows == columns, 0.0, crossed))


def mean_functions(moments: Moments) -> Floats:
    """Return the mean functions mu0; one that is rounding alone (odd activations before
    the first step) becomes zero.

    The fit of the means would divide one rounding error by the other, and theta would
    depend on the processor.
    """
    power = moments.slope**2 + moments.noise
    size = np.sqrt(power.max(axis=2, keepdims=True))
    # of all nodes of a block: a mean that passes through zero is none
    largest = np.abs(moments.mean).max(axis=2, keepdims=True)
    return np.where(largest > ROUNDING_OF_MEANS * size, moments.mean, 0.0)


def channels(
    along: Floats,
    across: Floats,
    Js: Floats,
    nodes: Floats,
    slope: Floats,
    curvature: Floats,
    unit: Floats,
) -> tuple[Floats, Floats]:
    """Return T0 (S, C k, N), Jp (S, L, C k) of channels: (S, k, m, C) along kappa, (S,
    k, L, C) across it, on s.
    """
    # tau_q moves the argument of the activation, y_q its variance
    T0 = np.swapaxes(along, 2, 3) @ nodes.T * slope[:, :, None]  # (S, k, C, N)
    T0 = T0 + Js[..., None] * curvature[:, :, None]
    # `Features` counts it in units of mu1, which is that of unit rows
    Jp = across / unit[..., None, None]  # (S, k, L, C)
    sets, k, C, N = T0.shape
    # channel after channel: entry c k + q
    T0 = T0.swapaxes(1, 2).reshape(sets, C * k, N)
    Jp = Jp.transpose(0, 2, 3, 1).reshape(sets, -1, C * k)
    return T0, Jp
