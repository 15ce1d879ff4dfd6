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
from giantstep.core.readout.classes import LOSSES, Classifier, frequent, turned
from giantstep.core.readout.errors import FittedMeans, field_variance
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import FiniteSize, push_of_means
from giantstep.core.readout.first_order import Equations
from giantstep.core.readout.pairs import Overlap

OUTER = (0.25, 6.5)
INNER = (0.6, 6.0)
"""Step and reach of the rules over what two outputs share, and over what they do not:
seven digits.
"""
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

    own: Overlap
    layer: Overlap
    samples: Overlap


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
    parts = [
        _parts_of_one(
            equations.take(one), classifier.take(one), loss, flip[one], size.take(one)
        )
        for one in (slice(point, point + 1) for point in range(len(flip)))
    ]
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
    of_means = push_of_means(
        equations.bulk, classifier.response, classifier.theta, size
    ).Q1
    weights = equations.ratio[:, None] * equations.features.weights
    covariance = fitted.covariance(weights * classifier.drive, classifier.Q2)
    return covariance, fitted.counted_twice(classifier.Q1 - of_means)


def _counted(size: FiniteSize, directions: int) -> FiniteSize:
    """Return a finite size that counts fitted parameters."""
    if size.in_limit:
        return size
    return dataclasses.replace(
        size, directions=np.full(len(size.inverse_dim), float(directions))
    )


def _fitted_means(
    equations: Equations, classifier: Classifier, size: FiniteSize
) -> FittedMeans:
    weights = equations.ratio[:, None] * equations.features.weights
    return FittedMeans.of(
        equations,
        classifier.response,
        weights * classifier.slope,
        classifier.penalty,
        size,
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
    Q1, Q2 = tangents.push(features.omega, classifier.x, classifier.dual, means.paid)
    shared, drive = _same_samples(equations, classifier, loss, flip)
    nothing = np.zeros_like(classifier.Q2)
    if size.in_limit:
        fitted = None
    else:
        fitted = _fitted_means(equations, classifier, size)

    def overlap(Q1: Floats, Q2: Floats, driven: Floats, of_means: Floats) -> Overlap:
        along = features.quadratic(Q1, Q2)
        if fitted is not None:
            along = along + fitted.at_nodes(
                fitted.covariance(weights * driven, Q2), Q1 - of_means
            )
        return Overlap(Q1, Q2, np.sum(features.weights * along, axis=1))

    return ClassParts(
        overlap(classifier.Q1, classifier.Q2, classifier.drive, means.Q1),
        overlap(
            Q1 + means.Q1, Q2 + means.Q2, np.zeros_like(classifier.drive), means.Q1
        ),
        overlap(shared, nothing, drive, np.zeros_like(shared)),
    )


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
    c1 = classifier.tau @ features.mu1
    bulk = classifier.Q - np.sum(c1**2, axis=1)
    nothing = np.zeros_like(classifier.Q2)
    Q1 = START * classifier.Q1
    drive = classifier.drive.copy()
    past = None
    often = np.flatnonzero(features.weights[0] > RARE)
    for _ in range(SWEEPS):
        common = np.clip(features.quadratic(Q1, nothing), 0.0, bulk)
        drive[:, often] = _products(
            features, classifier, loss, flip, common, bulk, c1, often
        )
        new = S @ features.moments(weights * drive)[0] @ S / width
        moved = new - Q1
        if not np.max(np.abs(moved)) > SETTLED * np.max(np.abs(new)):
            return new, drive
        step = new
        if past is not None:  # Anderson's mixing with the sweep before
            change = moved - past[1]
            step = new - np.sum(moved * change) / np.sum(change**2) * (new - past[0])
        past = (new, moved)
        Q1 = step
    return np.full_like(Q1, np.nan), drive


def _products(
    features: Features,
    classifier: Classifier,
    loss: str,
    flip: Floats,
    common: Floats,
    bulk: Floats,
    c1: Floats,
    often: Integers,
) -> Floats:
    """Return EGG(kappa) of one point at some nodes, the mean over u of sum_y P(y|u)
    (E_Z G(u + own Z, y))^2.
    """
    field = features.field
    rho = features.rho
    assert field is not None and rho is not None
    total = common + np.sum(c1**2, axis=1)
    along = (rho[:, None, :] @ c1)[:, 0, :]
    columns = (
        classifier.V,
        classifier.c0,
        total,
        bulk - common,
        field,
        along,
        turned(features, flip),
    )
    V, c0, tot, own, field, along, flips = (
        np.broadcast_to(column, total.shape)[0, often] for column in columns
    )
    spread = float(field_variance(features)[0])
    outer, mass = even_rule(*OUTER)
    result = np.empty(len(V))
    size = max(1, CHUNK // (len(outer) * len(even_rule(*INNER)[0])))
    for start in range(0, len(V), size):
        rows = slice(start, start + size)
        deviation = np.sqrt(tot[rows])[:, None] * outer
        left = np.sqrt(np.maximum(spread - along[rows] ** 2 / tot[rows], 1e-300))[
            :, None
        ]
        flipped = flips[rows][:, None]
        chance = flipped + (1 - 2 * flipped) * normal_distribution(
            (field[rows][:, None] + (along[rows] / tot[rows])[:, None] * deviation)
            / left
        )
        u = c0[rows][:, None] + deviation
        up, down = (
            _smoothed_pull(loss, sign * u, own[rows], V[rows]) for sign in (1, -1)
        )
        result[rows] = (chance * up**2 + (1 - chance) * down**2) @ mass
    return result[None]


def _smoothed_pull(loss: str, u: Floats, own: Floats, V: Floats) -> Floats:
    """Return E_Z g(u + sqrt(own) Z) of margins u (n, U)."""
    nodes, mass = even_rule(*INNER)
    s = u[..., None] + np.sqrt(own)[:, None, None] * nodes
    pull = LOSSES[loss].pull(
        s.reshape(len(s), -1), np.broadcast_to(V[:, None], (len(s), s[0].size))
    )
    return np.asarray(pull.g.reshape(s.shape) @ mass)
