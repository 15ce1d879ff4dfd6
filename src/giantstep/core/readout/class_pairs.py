"""Two logistic read-outs of one target that are alike: how their outputs overlap.

beyond_the_error (2.10), (2.11) and, at a finite dimension, (2.12)-(2.14). Networks with
the same layer and common samples are not covered: their overlap is not derived.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian import normal_distribution
from giantstep.core.maths.gaussian.grids import even_rule
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.classes import Classifier, flip_at_nodes, frequent
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import FiniteSize, push_of_means
from giantstep.core.readout.first_order import Equations
from giantstep.core.readout.fitted_means import FittedMeans
from giantstep.core.readout.losses.functions import LOSSES
from giantstep.core.readout.pairs import Overlap
from giantstep.core.readout.signs import field_variance

OUTER = (0.25, 6.5)
"""Step and reach of the rule over what two outputs share: seven digits."""
INNER = (0.6, 6.0)
"""Step and reach of the rule over what they do not share."""
RARE = 1e-10
"""Nodes of kappa whose probability is below this do not count for the overlap."""
START = 0.2
"""Share of Q1 from which the overlap is iterated: none at all would be 0/0 for the sign
of an unlearnt direction.
"""
SWEEPS = 60
SETTLED = 1e-9
"""Relative change of the overlap that ends the iteration."""
CHUNK = 1 << 16
"""Values that are worked on together, so that they stay in cache."""


@dataclass
class ClassParts(Stacked):
    """Overlaps of two classifiers alike that share the layer or the samples, and of one
    with itself.
    """

    own: Overlap  # of one with itself
    layer: Overlap  # the same layer, samples of their own
    samples: Overlap  # the same samples, layers of their own


def class_parts(
    equations: Equations,
    classifier: Classifier,
    loss: str,
    flip: Floats,
    size: FiniteSize,
    directions: int,
) -> ClassParts:
    """Return the overlaps at every point; `directions` is how many coordinates the
    target and the network have.
    """
    equations = frequent(equations)
    size = _counted(size, directions)
    parts = []
    # point by point: each iterates an overlap of its own
    for point in range(len(flip)):
        one = slice(point, point + 1)
        part = _parts_of_one(
            equations.take(one), classifier.take(one), loss, flip[one], size.take(one)
        )
        parts.append(part)
    return ClassParts.join(parts)


def spread_of_classes(
    equations: Equations, classifier: Classifier, size: FiniteSize, directions: int
) -> tuple[Floats, Floats] | None:
    """Return for fits of classes what `pairs.spread_of_means` does for ridge: (2.12),
    (2.14).
    """
    if size.in_limit:
        return None
    equations = frequent(equations)
    size = _counted(size, directions)
    fitted = _fitted_means(equations, classifier, size)
    means = push_of_means(equations.bulk, classifier.response, classifier.theta, size)
    weights = equations.ratio[:, None] * equations.features.weights
    # E g^2 drives the fitted means of classes, as the residual does those of ridge
    covariance = fitted.covariance(weights * classifier.drive, classifier.Q2)
    return covariance, fitted.counted_twice(classifier.Q1 - means.Q1)


def _counted(size: FiniteSize, directions: int) -> FiniteSize:
    """Return a finite size that counts fitted parameters."""
    if size.in_limit:
        return size
    each = np.full(len(size.inverse_dim), float(directions))
    return dataclasses.replace(size, directions=each)


def _fitted_means(
    equations: Equations, classifier: Classifier, size: FiniteSize
) -> FittedMeans:
    weights = equations.ratio[:, None] * equations.features.weights
    # the curvature of the fit at a node: -E dg/domega in place of 1/(1 + V)
    return FittedMeans.of(
        equations,
        classifier.response,
        weights=weights * classifier.slope,
        penalty=classifier.penalty,
        size=size,
    )


def _parts_of_one(
    equations: Equations,
    classifier: Classifier,
    loss: str,
    flip: Floats,
    size: FiniteSize,
) -> ClassParts:
    features = equations.features
    response = classifier.response
    weights = equations.ratio[:, None] * features.weights
    means = push_of_means(equations.bulk, response, classifier.theta, size)
    tangents = equations.bulk.tangents(response)
    layer_Q1, layer_Q2 = tangents.push(
        features.omega, classifier.x, classifier.dual, means.penalty
    )
    samples_Q1, drive = _same_samples(equations, classifier, loss, flip)
    fitted = None
    if not size.in_limit:
        fitted = _fitted_means(equations, classifier, size)

    def overlap(Q1: Floats, Q2: Floats, driven: Floats, of_means: Floats) -> Overlap:
        along = features.quadratic(Q1, Q2)
        if fitted is not None:
            # the fitted means of both vary with what the two have in common, too
            covariance = fitted.covariance(weights * driven, Q2)
            along = along + fitted.at_nodes(covariance, Q1 - of_means)
        return Overlap(Q1, Q2, np.sum(features.weights * along, axis=1))

    own = overlap(
        Q1=classifier.Q1,
        Q2=classifier.Q2,
        driven=classifier.drive,
        of_means=means.Q1,
    )
    # with samples of their own nothing drives both at once
    layer = overlap(
        Q1=layer_Q1 + means.Q1,
        Q2=layer_Q2 + means.Q2,
        driven=np.zeros_like(classifier.drive),
        of_means=means.Q1,
    )
    # with layers of their own they share nothing of the rows' noise, and no means
    samples = overlap(
        Q1=samples_Q1,
        Q2=np.zeros_like(classifier.Q2),
        driven=drive,
        of_means=np.zeros_like(samples_Q1),
    )
    return ClassParts(own=own, layer=layer, samples=samples)


def _same_samples(
    equations: Equations, classifier: Classifier, loss: str, flip: Floats
) -> tuple[Floats, Floats]:
    """Return Q1 of networks with layers of their own on the same samples, and EGG at
    the nodes: (2.11).
    """
    features = equations.features
    S = classifier.response.S
    weights = equations.ratio[:, None] * features.weights
    width = equations.width[:, None, None]
    pair = _PairOfOutputs.of(features, classifier, flip)
    no_Q2 = np.zeros_like(classifier.Q2)
    Q1 = START * classifier.Q1
    drive = classifier.drive.copy()
    last_image = None
    last_moved = None
    for _ in range(SWEEPS):
        # no more can be shared than there is: a sweep may overshoot
        common = np.clip(features.quadratic(Q1, no_Q2), 0.0, pair.bulk)
        drive[:, pair.often] = pair.mean_products(loss, common)
        image = S @ features.moments(weights * drive)[0] @ S / width
        moved = image - Q1
        # not `<=`: an overlap that is not a number goes on and is flagged at the end
        if not np.max(np.abs(moved)) > SETTLED * np.max(np.abs(image)):
            return image, drive
        Q1 = image
        if last_image is not None and last_moved is not None:
            # Anderson's mixing with the sweep before: the secant along what changed
            change = moved - last_moved
            share = np.sum(moved * change) / np.sum(change**2)
            Q1 = image - share * (image - last_image)
        last_image = image
        last_moved = moved
    return np.full_like(Q1, np.nan), drive


@dataclass(frozen=True, eq=False)
class _PairOfOutputs:
    """The outputs of two such networks at the nodes that count (n,), given kappa.

    Each is u + own Z: u is what both share, c0 and the signal included.
    """

    often: Integers  # which nodes count, of all N
    V: Floats  # response of the output
    c0: Floats  # its mean
    along_signal: Floats  # |c1|^2, which all networks have in common
    bulk: Floats  # (1, N): the rest of the variance, which they share in part
    field: Floats  # mean of the field
    along_field: Floats  # covariance of the output and the field
    flip: Floats  # chance that a class is turned
    spread: float  # variance of the field

    @classmethod
    def of(
        cls, features: Features, classifier: Classifier, flip: Floats
    ) -> _PairOfOutputs:
        """Return those of one point."""
        assert features.field is not None and features.rho is not None
        often = np.flatnonzero(features.weights[0] > RARE)
        c1 = classifier.tau @ features.mu1
        along_signal = np.sum(c1**2, axis=1)

        def at_nodes(values: Floats) -> Floats:
            return np.broadcast_to(values, classifier.V.shape)[0, often]

        return cls(
            often=often,
            V=at_nodes(classifier.V),
            c0=at_nodes(classifier.c0),
            along_signal=at_nodes(along_signal),
            bulk=classifier.Q - along_signal,
            field=at_nodes(features.field),
            along_field=at_nodes((features.rho[:, None, :] @ c1)[:, 0, :]),
            flip=at_nodes(flip_at_nodes(features, flip)),
            spread=float(field_variance(features)[0]),
        )

    def mean_products(self, loss: str, common: Floats) -> Floats:
        """Return EGG(kappa) at the nodes (1, n), the mean over u of sum_y P(y|u) (E_Z
        G(u + own Z, y))^2, where `common` (1, N) of the bulk is shared.
        """
        shared = common[0, self.often] + self.along_signal
        own = (self.bulk - common)[0, self.often]
        result = np.empty(len(shared))
        outer, mass = even_rule(*OUTER)
        inner, _ = even_rule(*INNER)
        size = max(1, CHUNK // (len(outer) * len(inner)))
        for start in range(0, len(result), size):
            rows = slice(start, start + size)
            deviation = np.sqrt(shared[rows])[:, None] * outer
            chance = self._chance_of_positive(rows, shared[rows], deviation)
            u = self.c0[rows][:, None] + deviation
            up = _smoothed_pull(loss, u, own[rows], self.V[rows])
            down = _smoothed_pull(loss, -u, own[rows], self.V[rows])
            result[rows] = (chance * up**2 + (1 - chance) * down**2) @ mass
        return result[None]

    def _chance_of_positive(
        self, rows: slice, shared: Floats, deviation: Floats
    ) -> Floats:
        """Return P(y = 1|u): the field given the shared part of the output, by
        regression.
        """
        along = self.along_field[rows]
        left = np.sqrt(np.maximum(self.spread - along**2 / shared, 1e-300))[:, None]
        field = self.field[rows][:, None] + (along / shared)[:, None] * deviation
        flipped = self.flip[rows][:, None]
        return flipped + (1 - 2 * flipped) * normal_distribution(field / left)


def _smoothed_pull(loss: str, u: Floats, own: Floats, V: Floats) -> Floats:
    """Return E_Z g(u + sqrt(own) Z) of margins u (n, U)."""
    nodes, mass = even_rule(*INNER)
    s = u[..., None] + np.sqrt(own)[:, None, None] * nodes
    flat = s.reshape(len(s), -1)
    pull = LOSSES[loss].pull(flat, np.broadcast_to(V[:, None], flat.shape))
    return np.asarray(pull.g.reshape(s.shape) @ mass)
