"""What a finite dimension adds to a read-out: means of finite strength, stretched
inputs.

The means m_q of the rows of the blocks are k more directions that the fit does not see
as such. It pays for them through theta: finite_size_steps sections 3, 4 and 6, whose
equations are cited by number here. All of it is of order 1/d, and 1/d = 0 is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.features import Features

if TYPE_CHECKING:
    from giantstep.core.readout.bulk import Bulk, Response, Tangents


@dataclass(frozen=True)
class FiniteSize(Stacked):
    """The finite size of B points with k blocks of p_q = beta_q d neurons; of
    independent rows if only d is known.
    """

    inverse_dim: Floats  # 1/d (B,), 0 in the limit
    gram: Floats | None = None
    """Products of the means of the blocks: of unit bulk rows (B, k, k), (2.4); lambda
    Gam(lambda) at J atoms of the inputs (B, J, k, k), (6.2). None: those of independent
    rows.
    """
    stretch: Floats | None = None
    """Covariance (B, k, k) of the relative changes of s_q^2/2 from input to input,
    (3.6) and (6.5), which the means follow as `Features.stretch`. None: not counted.
    """
    directions: Floats | None = None
    """How many directions (B,) of the network and the target the features treat on
    their own, to count the fitted parameters, (3.7): those of kappa first, then
    unlearnt ones. None: not counted.
    """
    excess: Floats | None = None
    """What the steps add to the products of the means of independent rows (B, k, k),
    where `gram` is not known: along directions that the law of the rows does not
    prefer, which after finite batches is an approximation.
    """

    @property
    def in_limit(self) -> bool:
        """Whether no point has a finite dimension."""
        return not self.inverse_dim.any()

    def per_neuron(self, response: Response) -> Floats:
        """Return 1/p_q (B, k)."""
        return self.inverse_dim[:, None] / response.block_width


class AlongMeans(NamedTuple):
    """How a bulk answers along the means of its blocks, at J atoms: (6.3), (6.4);
    isotropic rows have one.
    """

    masses: Floats  # (J,)
    G: Array  # Gt = (I + Vh1 m)^-1 Vh1 with m = diag(scale R) (B, J, k, k)
    Y: Array  # (I + m Vh1)^-1 (B, J, k, k)
    scale: Floats  # squared scale of the rows, lambda B_q^2 (B or 1, J, k)


def stretch_of_atoms(inverse_dim: Floats, scale: Floats, masses: Floats) -> Floats:
    """Return the covariance of the stretches for lambda B_q^2 = scale (B, J, k) at
    atoms: (6.5) over s_q^2 s_q'^2.

    Isotropic inputs, which are one atom, move all blocks together: (3.6).
    """
    # s_q^2 is the mean of the scale over the atoms
    relative = scale / (masses @ scale)[..., None, :]
    products = np.swapaxes(relative * masses[:, None], -1, -2) @ relative
    return 0.5 * inverse_dim[:, None, None] * products


def mean_penalty(
    bulk: Bulk,
    features: Features,
    response: Response,
    weights: Floats,
    size: FiniteSize,
) -> Floats:
    """Return P (B, k, k): theta pays theta^T P theta, (3.1) or (6.3), and for the
    stretch (3.6) at weights (B, N).
    """
    if size.gram is None:
        P = _penalty_of_independent_rows(response, size)
    else:
        k = response.R.shape[1]
        along = bulk.along_means(response)
        P = np.einsum("j,bjqr->bqr", along.masses, _at_atoms(size.gram) * along.G)
        # (3.1): a mean of length 1/p_q costs D_q as every row does
        P = P + (response.D * size.per_neuron(response))[:, :, None] * np.eye(k)
    if size.stretch is not None and features.stretch is not None:
        P = P + size.stretch * gram_at_nodes(features.stretch, weights)
    return np.asarray(0.5 * (P + np.swapaxes(P, 1, 2)))


def _penalty_of_independent_rows(response: Response, size: FiniteSize) -> Floats:
    """Return P of theta (B, k, k) for means of length 1/p_q in all directions alike,
    and what the steps added to their products.
    """
    k = response.R.shape[1]
    P = (size.inverse_dim[:, None] / response.R)[:, :, None] * np.eye(k)
    if size.excess is None:
        return P
    # (I + Vh1 m)^-1 Vh1 = Vh1 - Vh1 S Vh1, G of (6.3)
    return P + size.excess * (response.Vh1 - response.Vh1 @ response.S @ response.Vh1)


def root_of(matrix: Floats) -> Floats:
    """Return roots with root^T root = matrix, for positive semi-definite matrices (B,
    k, k).
    """
    # eigh would refuse the whole batch for one point without a solution
    broken = ~np.isfinite(matrix).all(axis=(1, 2), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(broken, 0.0, matrix))
    scales = np.sqrt(np.maximum(values, 0.0))[:, :, None]
    root: Floats = scales * np.swapaxes(vectors, 1, 2)
    return np.where(broken, np.nan, root)


class MeanPush(NamedTuple):
    """What the means leave in the fluctuations: (3.3)-(3.5), or (6.4)."""

    penalty: (
        Floats  # R_q^2 times the drive of e_q over beta (B, k), for `Tangents.push`
    )
    Q1: Floats  # added to Q1 as it is (B, k, k)
    Q2: Floats  # added to Q2 as it is (B, k)
    # what acts on the bulk as a change of Vh1 (B, k, k), for `Tangents.apply`
    drive: Floats | None = None

    def through(self, tangents: Tangents) -> tuple[Array, Array]:
        """Return what is added to Q1 and Q2, with the answer of the bulk to the
        drive.
        """
        if self.drive is None:
            return self.Q1, self.Q2
        dQ1, dQ2 = tangents.apply(self.drive, np.zeros_like(self.Q2))
        return self.Q1 + dQ1, self.Q2 + dQ2


def push_of_means(
    bulk: Bulk, response: Response, theta: Floats, size: FiniteSize
) -> MeanPush:
    """Return what the means push at given theta (B, k)."""
    if size.gram is None:
        return _push_of_independent_rows(response, theta, size)
    along = bulk.along_means(response)
    YT = np.swapaxes(along.Y, 2, 3)
    TT = _at_atoms(size.gram) * (theta[:, None, :, None] * theta[:, None, None, :])
    across = np.einsum("j,bjqr->bqr", along.masses, along.Y @ TT @ YT)
    drive = np.einsum(
        "j,bjq,bjqq->bq", along.masses, along.scale, along.G @ TT @ along.G
    )
    return MeanPush(
        penalty=response.R**2 * drive,
        Q1=across,
        Q2=theta**2 * size.per_neuron(response),
    )


def _push_of_independent_rows(
    response: Response, theta: Floats, size: FiniteSize
) -> MeanPush:
    """Return what the means push where only d is known, and what the steps added to
    their products.
    """
    count, k = theta.shape
    penalty = theta**2 * size.inverse_dim[:, None]
    no_Q2 = np.zeros((count, k))
    if size.excess is None:
        return MeanPush(penalty, np.zeros((count, k, k)), no_Q2)
    TT = size.excess * theta[:, :, None] * theta[:, None, :]
    # Y TT Y^T with Y = I - S Vh1, whose last term answers to the drive
    turned = response.S @ response.Vh1 @ TT
    return MeanPush(
        penalty=penalty,
        Q1=TT - turned - np.swapaxes(turned, 1, 2),
        Q2=no_Q2,
        drive=response.Vh1 @ TT @ response.Vh1,
    )


def stretched_variance(
    features: Features, theta: Floats, size: FiniteSize
) -> Floats | float:
    """Return what the stretch of the inputs adds to the variance of the output at the
    nodes (B, N): (3.6), (6.5).
    """
    if size.stretch is None or features.stretch is None:
        return 0.0
    # a sum of squares, which rounding does not make negative
    moved = root_of(size.stretch) * theta[:, None, :]
    return np.asarray(np.sum((moved @ features.stretch) ** 2, axis=1))


def _at_atoms(gram: Floats) -> Floats:
    """Return a Gram matrix with the axis of the atoms, of which isotropic rows have
    one.
    """
    if gram.ndim == 3:
        return gram[:, None]
    return gram


def gram_at_nodes(functions: Floats, weights: Floats) -> Floats:
    """Return sum_n weights f f^T (B, F, F) of functions (1 or B, F, N); one point after
    the other where they share.
    """
    if len(functions) < len(weights):
        # point after point: broadcast, the weighted functions would be B times as large
        shared = functions[0]
        return np.stack([(shared * row) @ shared.T for row in weights])
    return np.asarray((functions * weights[:, None, :]) @ np.swapaxes(functions, 1, 2))


def whole_sizes(points: Points) -> dict[str, Floats]:
    """Return points with the ratios that n = round(alpha d) and p = round(beta d)
    really have at a finite dim.
    """
    changed = dict(points)
    finite = np.isfinite(points["dim"])
    # 1 in place of an infinite dim: no inf - inf where nothing is rounded
    dim = np.where(finite, points["dim"], 1.0)
    for name in ("samples_per_dim", "width_per_dim"):
        whole = np.maximum(1.0, np.rint(points[name] * dim))
        changed[name] = np.where(finite, whole / dim, points[name])
    return changed


def whole_blocks(pi: Floats, neurons: Floats) -> Floats:
    """Return p_q (B, k) of blocks of fractions pi (k,) among p neurons (B,): rounded
    where their cumulated sum is.

    An infinite p has infinite blocks. Where rounding would leave a block without
    neurons, nothing is rounded.

    >>> whole_blocks(np.array([0.5, 0.25, 0.25]), np.array([31.0, 2.0]))
    array([[16. ,  7. ,  8. ],
           [ 1. ,  0.5,  0.5]])
    """
    finite = np.isfinite(neurons)
    count = np.where(finite, neurons, 1.0)[:, None]
    # rounded sums: the blocks have all neurons, whatever their fractions
    edges = np.rint(np.cumsum(np.append(0.0, pi)) * count)
    counts = np.diff(edges, axis=1)
    rounded = finite & (counts > 0).all(axis=1)
    return np.where(rounded[:, None], counts, pi * neurons[:, None])
