"""Steps on finite batches, one after the other: where the blocks go, how they spread,
what the read-out must know.

finite_batches_several_steps sections 1 to 3, whose equations are cited by number. A
step on the population is one with 1/alpha_t = 0. One parameter set is followed at a
time; `Chain.bulk` is the law of its rows for the read-out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, gauss_legendre_panels
from giantstep.core.maths.gaussian.label_law import LabelLaw, label_law
from giantstep.core.maths.gaussian.quadrature import normal_density
from giantstep.core.maths.gaussian.subspaces import split_directions
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout.chain import ChainBulk, ChainStep

RULE = 0.4
"""Fineness of the rule in kappa: steps of 0.25, or one scale of the features, are good
to 1e-9.
"""
SMALL = 1e-9
"""Norm of a function of a sample, relative to the largest, below which the batch adds
nothing along it.
"""
SPANNED = 1e-5
"""Part of a function, relative to its norm, that counts as spanned by others: its
square is left out.
"""
PANELS = 9
PANEL_NODES = 20
REACH = 9.0
"""Panels of the average over one neuron's own noise, nodes on each, and how far they go
in standard deviations.
"""


class StepFields(NamedTuple):
    """The numbers of one step for one parameter set."""

    e: Floats  # (k,): rate zeta_q
    share: Floats  # (k,): pi_q zeta_q, zero for the correlation loss
    inverse: float  # 1/alpha_t
    keep: float  # 1 - weight decay
    noise: float
    flip: float


@dataclass(frozen=True)
class Chain:
    """k blocks after some steps, in D coordinates: the target's r directions first,
    then those of batch noise.
    """

    U: Floats  # (k, D)
    norm: Floats  # (k,): c_q
    targets: int
    gaussian_rows: bool
    # (k, C): F of finite_size_steps (2.2) and (2.7), what became of the mean rows of
    # the blocks
    feedback: Floats
    steps: tuple[ChainStep, ...] = ()
    norms: tuple[Floats, ...] = ()

    @classmethod
    def start(cls, blocks: int, targets: int, gaussian_rows: bool) -> Chain:
        """Return the rows before the first step."""
        ones = np.ones(blocks)
        return cls(
            np.zeros((blocks, targets)),
            ones,
            targets,
            gaussian_rows,
            np.eye(blocks),
            (),
            (ones,),
        )

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """What chains must have in common for one bulk to hold both: directions and
        functions of every step.
        """
        return tuple(
            (step.first, *step.pairs.shape[1:2], step.fresh) for step in self.steps
        )

    @property
    def frame(self) -> Floats:
        """The target's directions (r, D)."""
        return np.eye(self.targets, self.U.shape[1])

    def bulk(self, directions: Floats) -> ChainBulk:
        """Return the law of the rows, asked for these directions (D, n)."""
        norms = np.stack(self.norms)[None]
        owner = np.zeros(1, np.int64)
        return ChainBulk(
            self.steps, norms, directions[None], self.targets, self.gaussian_rows, owner
        )

    def covariance(self) -> Floats:
        """Return d Cov of (<b_i, directions>, |b_i|^2) over the rows of each block (k,
        D + 1, D + 1): (5.5).
        """
        k, D = self.U.shape
        bulk = self.bulk(np.eye(D))
        ones = np.ones((1, k))
        none = np.zeros((1, k, k))
        response = bulk.solve(none, ones, ones, bulk.start(np.ones(1), ones))
        P = bulk.covariance(response, ones)[0].reshape(D + 1, k, D + 1, k)
        return np.stack([P[:, q, :, q] / response.R[0, q] for q in range(k)])

    def advance(
        self,
        activation: Function,
        target: Target,
        fields: StepFields,
        known: dict[Any, LabelLaw],
    ) -> Chain:
        """Return the blocks after one more step; sets that see the labels alike find
        their law among the `known`.
        """
        basis = split_directions(self.U, self.frame, target)
        steepness = np.max(np.linalg.norm(self.U, axis=1) / np.sqrt(self.norm))
        learnt = self.frame @ basis.learnt
        rest = self.frame @ basis.rest
        scale = 1 / max(float(steepness), 1e-3)
        # all that the law of a label depends on
        key = (learnt.tobytes(), rest.tobytes(), scale, fields.noise, fields.flip)
        law = known.get(key)
        if law is None:
            known.clear()  # one law is kept
            law = known[key] = label_law(
                target, learnt, rest, scale, RULE, fields.noise, fields.flip
            )
        sample = Sample(law, np.concatenate(basis, axis=1))
        A = self.U @ basis.learnt @ law.kappa.T
        tables = slope_tables(activation, A, self.norm)
        at_node = {name: values[:, law.row] for name, values in tables.items()}
        return _after(self, sample, at_node, fields)


class Sample:
    """Averages over a sample of a batch: E[f], E[f zeta], E[f zeta zeta^T] for
    functions f at the nodes.
    """

    def __init__(self, law: LabelLaw, rel: Floats) -> None:
        self.law = law
        self.rel = rel
        kappa = law.kappa[law.row].T
        w = law.weights
        self.label = law.label
        self.weights = w
        self.linear = np.concatenate([w * kappa, law.linear])
        """Weights of f zeta (Z, J)."""
        m = len(kappa)
        # learnt coordinates of zeta are known at a node, the others averaged over
        Z = len(kappa) + len(law.linear)
        self.quadratic = np.empty((Z, Z, len(w)))
        self.quadratic[:m, :m] = w * kappa[:, None] * kappa
        self.quadratic[:m, m:] = kappa[:, None] * law.linear
        self.quadratic[m:, :m] = np.swapaxes(self.quadratic[:m, m:], 0, 1)
        self.quadratic[m:, m:] = law.quadratic

    def mean(self, f: Floats) -> Floats:
        """Return E f (...)."""
        return np.asarray(f @ self.weights)

    def coordinates(self, f: Floats, span: Floats, inverse: float) -> Floats:
        """Return the vectors X^T f/n of functions (k, J) in old and new directions (k,
        D + fresh): (2.1), (2.2).
        """
        return np.concatenate(
            [
                f @ self.linear.T @ self.rel.T,
                np.sqrt(inverse) * (f * self.weights) @ span.T,
            ],
            axis=1,
        )

    def orthonormal(self, functions: Floats) -> Floats:
        """Return functions (fresh, J), orthonormal in L2 of the batch, that span these:
        (2.2).

        Gram-Schmidt in the order given, so that the first new direction is that of the
        first function.
        """
        norms = np.sqrt(np.maximum(self.mean(functions**2), 0.0))
        span = np.zeros((0, functions.shape[1]))
        for f in (
            functions[norms > SMALL * norms.max()]
            / norms[norms > SMALL * norms.max(), None]
        ):
            # a second time: the first leaves rounding of a function that is nearly
            # spanned
            for _ in range(2):
                f = f - ((f * self.weights) @ span.T) @ span
            length = np.sqrt(max(float(self.mean(f**2)), 0.0))
            if length > SPANNED:
                span = np.concatenate([span, f[None] / length])
        return span

    def pairs(self, span: Floats) -> Floats:
        """Return weights times the products of two of the functions (zeta, F), a <= b
        (P, J).
        """
        Z = len(self.linear)
        fresh = len(span)
        both = np.empty((Z + fresh, Z + fresh, len(self.weights)))
        both[:Z, :Z] = self.quadratic
        both[:Z, Z:] = self.linear[:, None] * span
        both[Z:, Z:] = self.weights * span[:, None] * span
        return both[np.triu_indices(Z + fresh)]


def slope_tables(activation: Function, A: Floats, norm: Floats) -> dict[str, Floats]:
    """Return the functions of A (k, N) at rows of squared norm c (k,) that a step
    needs: (1.1), (1.2).
    """
    s = np.sqrt(norm)[:, None] * np.ones_like(A)
    D = activation.smoothed(A, s)
    blocks = split_rows(
        A.shape[1], len(A) * (PANELS + len(activation.kinks)) * PANEL_NODES, 1 << 20
    )
    parts = [
        _noise_tables(activation, A[:, part], s[:, part], D[..., part])
        for part in blocks
    ]
    tables = {f"D{j}": D[j] for j in range(5)}
    return tables | {
        name: np.concatenate([part[name] for part in parts], axis=1)
        for name in parts[0]
    }


def _noise_tables(
    activation: Function, A: Floats, s: Floats, D: Floats
) -> dict[str, Floats]:
    """Return the functions that are averages over one neuron's own noise, at some
    columns.
    """
    # panels end where sigma'(A + s z) jumps
    kinks = np.array(activation.kinks)
    edges = np.linspace(-REACH, REACH, PANELS + 1) + np.zeros((*A.shape, 1))
    edges = np.concatenate(
        [edges, np.clip((kinks - A[..., None]) / s[..., None], -REACH, REACH)], axis=2
    )
    edges = np.sort(edges, axis=2).reshape(-1, edges.shape[2])
    z, w = gauss_legendre_panels(edges, PANEL_NODES)
    w = w * normal_density(z)
    # a constant keeps its mean, whatever lies beyond the last panel
    w = w / w.sum(axis=1, keepdims=True)
    a = A.reshape(-1, 1)
    scale = s.reshape(-1, 1)
    d1 = D[1].reshape(-1, 1)
    d2 = D[2].reshape(-1, 1)
    slope = activation.derivative(a + scale * z)
    # sp of (1.1), without a part along 1 and z
    rest = slope - d1 - scale * d2 * z

    def mean(values: Floats) -> Floats:
        return np.sum(w * values, axis=1).reshape(A.shape)

    square = rest**2
    return {
        "v": mean(square),
        "k3": mean(rest * square),
        "k4": mean(square**2),
        "a1": mean(z * square),
        "a2": mean(z**2 * square),
        "a3": mean(z * rest * square),
        "e3": mean(z**3 * rest),
        "b2": mean((z**2 - 1) * square),
        "square": mean(slope**2),
        "curved": mean((z**2 - 1) * slope**2),
    }


def _after(
    chain: Chain, sample: Sample, at: dict[str, Floats], fields: StepFields
) -> Chain:
    """Return the chain after a step whose functions of a sample are `at` the nodes (k,
    J).
    """
    inverse = fields.inverse
    keep = fields.keep
    mean = sample.mean
    # columns over the blocks, rows over the nodes
    e = fields.e[:, None]
    c = chain.norm[:, None]
    s = np.sqrt(c)
    res = sample.label - fields.share @ at["D0"]
    # (3.1): r2 multiplies the row in (3.0), ep the part of sigma' beyond its first two
    # Hermite polynomials
    r2 = e * res * at["D2"]
    ep = e * res / s
    stays = keep + mean(r2)[:, None]
    kr = stays + inverse * r2
    dk = 2 * stays * inverse * r2 + (inverse * r2) ** 2
    c3 = c * at["D3"]
    # (3.3): the length after the step sees s <b, X^T fl/n>, beside its own past: (3.6)
    fl = 2 * ep * c3 * kr + inverse * ep**2 * at["a1"]
    # (3.4): the covariance of that length with the neuron's own part of the gradient
    own_noise = c3 * dk + 2 * inverse * ep * at["a1"] * kr
    fy = ep * (own_noise + inverse**2 * ep**2 * at["k3"])
    gain = _gain(sample, at, fields, res, stays[:, 0], chain.norm)
    alone = _spread(sample, at, fields, r2, ep, kr, dk, chain.norm)
    # <b, X^T fl/n> is a variable of the chain, and no part of the rest of (3.6)
    spread = alone - inverse * chain.norm**2 * mean(fl**2)
    moves = res * at["D1"]
    bends = 0.5 * e * res * at["D3"]
    needed = [moves, s * fl, s**3 * fy]
    # dl of (3.0) bends a row; before the first step it is 0 on the sphere
    if chain.steps or chain.gaussian_rows:
        needed.append(bends)
    # on the population no function of the sample is a new direction
    span = np.zeros((0, len(res)))
    if inverse > 0 and np.any(e != 0):
        span = sample.orthonormal(np.concatenate(needed))

    def coordinates(f: Floats) -> Floats:
        return sample.coordinates(f, span, inverse)

    step = ChainStep(
        inverse=np.array([inverse]),
        keep=np.array([keep]),
        slope=r2[None],
        noise=(e**2 * res**2 * at["v"])[None],
        weights=sample.weights[None],
        pairs=sample.pairs(span)[None],
        frame=sample.rel[None],
        gain=gain[None],
        spread=spread[None],
        carried=coordinates(s * fl)[None],
        own=coordinates(s**3 * fy)[None],
        bent=coordinates(bends)[None],
    )
    # (2.4): rows keep their part, and gain the noise that no direction has
    widened = mean(res**2 * (at["square"] - at["D1"] ** 2))
    norm = chain.norm * stays[:, 0] ** 2 + fields.e**2 * inverse * widened
    # (2.3): the old means have no part along the new directions yet
    old_means = np.pad(chain.U, ((0, 0), (0, len(span))))
    U = keep * old_means + e * coordinates(moves)
    # finite_size_steps (2.2): the output of all means pulls each of them back
    turned = e * ((at["D1"] * sample.weights) @ at["D1"].T) * fields.share
    means = stays * chain.feedback - turned @ chain.feedback
    # (2.7) there: the mean of the noise of a block is a column of its own
    noise = np.abs(fields.e) * np.sqrt(np.maximum(inverse * widened, 0.0))
    return dataclasses.replace(
        chain,
        U=U,
        norm=norm,
        feedback=np.concatenate([means, np.diag(noise)], axis=1),
        steps=(*chain.steps, step),
        norms=(*chain.norms, norm),
    )


def _gain(
    sample: Sample,
    at: dict[str, Floats],
    fields: StepFields,
    res: Floats,
    stays: Floats,
    c: Floats,
) -> Floats:
    """Return d c'/d c of every block: (3.2)."""
    bend = sample.mean(res * at["D4"])
    noise = sample.mean(
        res**2 * (at["curved"] / (2 * c[:, None]) - at["D1"] * at["D3"])
    )
    return np.asarray(
        stays**2 + c * stays * fields.e * bend + fields.e**2 * fields.inverse * noise
    )


def _spread(
    sample: Sample,
    at: dict[str, Floats],
    fields: StepFields,
    r2: Floats,
    ep: Floats,
    kr: Floats,
    dk: Floats,
    c: Floats,
) -> Floats:
    """Return d times the variance of |b|^2 that the step alone gives a block: vsp of
    (3.5).
    """
    mean = sample.mean
    inverse = fields.inverse
    keep = fields.keep
    # free cumulants of X^T diag(r2) X/n, of which K of (3.0) is a shift
    f1 = mean(r2)
    f2 = mean(r2**2) * inverse
    f3 = mean(r2**3) * inverse**2
    f4 = mean(r2**4) * inverse**3
    # its moments, tr (X^T diag(r2) X/n)^j / d
    F2 = f2 + f1**2
    F3 = f3 + 3 * f2 * f1 + f1**3
    F4 = f4 + 4 * f3 * f1 + 2 * f2**2 + 6 * f2 * f1**2 + f1**4
    # those of K itself, with the weight decay
    K2 = keep**2 + 2 * keep * f1 + F2
    K4 = keep**4 + 4 * keep**3 * f1 + 6 * keep**2 * F2 + 4 * keep * F3 + F4
    noise = mean(ep**2 * at["v"])
    # |K b|^2 for a row of random direction
    total = 2 * (K4 - K2**2)
    # K b times the neuron's own part
    crossed = mean(ep**2 * at["a2"] * kr**2) + inverse * noise * mean(r2**2)
    total += 4 * inverse * crossed
    # that part alone, with its third and fourth moments
    total += 4 * inverse**2 * mean(ep**3 * at["a3"] * kr) + 2 * inverse**2 * noise**2
    total += inverse**3 * mean(ep**4 * (at["k4"] - at["v"] ** 2))
    # what both have in common: the part is not independent of <b, x>
    total += 4 * mean(ep * at["e3"] * kr * dk)
    total += 2 * inverse * mean(ep**2 * at["b2"] * dk)
    return np.asarray(c**2 * total)
