"""The fit of the second layer at many points, given what the read-out sees: errors,
order parameters, self-tests.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers, Points, Strings
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Bulk, Response
from giantstep.core.readout.classes import GOOD_ENOUGH, Classifier, classify, separated
from giantstep.core.readout.errors import Errors, Observables, ridge_errors
from giantstep.core.readout.features import PACKED_BLOCKS, Features
from giantstep.core.readout.finite_size import FiniteSize
from giantstep.core.readout.first_order import (
    Equations,
    FirstOrder,
    begin,
    solve_first_order,
)
from giantstep.core.readout.input_bulk import InputBulk, QuadraticNoise
from giantstep.core.readout.signal import solve_signal
from giantstep.core.scenario.family import LOOSE

TRIED_NODES = 4000
"""Nodes up to which a point that fails is tried at the nodes: steep features along one
direction have so many.
"""
IDENTITY = 1e-6
"""Violation of the identity that checks a solution above which digits are lost."""
QUADRATURE = 1e-3
"""Change of the test error with a coarser rule above which a point is flagged."""
ROUNDING = 1e-9
"""Relative size of what is left of a sum after cancellation."""
RARE_INPUT = 3.5
"""|kappa| from which inputs are rare in a finite network."""
SEPARATED = (
    "the means of the features separate the classes, so that the fit grows without"
    " bound; give dim"
)


@dataclass(frozen=True)
class Asked:
    """Points whose features have one shape: features and laws of S parameter sets, and
    which set each point has.
    """

    features: Features
    bulks: tuple[Bulk, ...]  # (S,)
    owner: Integers  # (B,)
    points: Points
    tolerance: float
    size: FiniteSize
    pi: Floats | None = (
        # fractions of the blocks of every point, where they are not those of the
        # features
        None
    )
    coarse: Features | None = None
    """The same features on a coarser rule, by which the error of the rule is
    measured.
    """
    with_floors: bool = False
    plain: Features | None = None
    """The features on all data, where they are others than those of the fit."""

    @property
    def labelled(self) -> Features:
        """The features of every point, with its label noise; one set for all where they
        share it.
        """
        return self._labelled(self.features)

    def _labelled(self, features: Features) -> Features:
        noise = self.points["noise"]
        taken = features.take(self.owner)
        if (
            len(taken.weights) == 1 and np.ptp(noise) > 0
        ):  # one set, several label noises
            taken = taken.for_all(len(noise))
        return dataclasses.replace(
            taken, hh=taken.hh + noise[: len(taken.weights), None]
        )

    @property
    def bulk(self) -> Bulk:
        """The law of the rows of every point."""
        return type(self.bulks[0]).stack(self.bulks, self.owner)

    def ridge_equations(self, features: Features) -> Equations:
        """Return the first-order equations of the ridge fit."""
        width = self.points["width_per_dim"]
        ridge = self.points["readout.ridge"]
        ratio = self.points["samples_per_dim"] / width
        equations = Equations.of_ridge(
            self._labelled(features), ratio, width, ridge, self.bulk
        )
        equations.pi = self.pi
        bulk = equations.bulk
        seen = equations.features
        if not isinstance(bulk, InputBulk) or not bulk.spread.quadratic:
            return equations
        # what y_q multiplies, in the noise of the quadratic channels
        curvature = seen.T0[:, -len(seen.pi) :]
        noise = QuadraticNoise(seen, curvature, equations.ratio, equations.b)
        return dataclasses.replace(
            equations, bulk=dataclasses.replace(bulk, noise=noise)
        )

    def take(self, index: Integers) -> Asked:
        """Return the points in `index`."""
        numbers = {name: values[index] for name, values in self.points.items()}
        pi = None if self.pi is None else self.pi[index]
        return dataclasses.replace(
            self,
            owner=self.owner[index],
            points=numbers,
            size=self.size.take(index),
            pi=pi,
        )


@dataclass
class Fit(Stacked):
    """What is known of a fit at B points; V1 and V2 are in the units of the answer."""

    solution: Errors | Classifier
    V1: Floats
    V2: Floats
    # S diag(1/R) of the bulk (B, k, k), what the fit keeps along the means of the
    # blocks
    kept: Floats
    null: Floats
    status: Strings
    residual: Floats
    iterations: Integers
    all_data: Floats
    floor: Floats
    rare: Booleans
    first: FirstOrder | None = None  # the first-order solution behind a ridge fit
    equations: Equations | None = None  # what a fit of classes solved


# -- ridge -----------------------------------------------------------------------------


def solve_ridge(asked: Asked) -> Fit:
    """Return the ridge fit; where packed coordinates lose digits (a linear activation),
    at the nodes themselves.
    """
    fit = _solve_ridge(asked)
    (blocks, nodes), again = (
        asked.features.mu1.shape[1:],
        np.flatnonzero(fit.status != ""),
    )
    if (
        again.size
        and blocks <= PACKED_BLOCKS
        and nodes <= TRIED_NODES
        and not asked.bulks[0].packed_only
    ):
        fit.put(again, _solve_ridge(asked.take(again), packed=False))
    return fit


def _solve_ridge(asked: Asked, packed: bool | None = None) -> Fit:
    equations = asked.ridge_equations(asked.features)
    size = asked.size
    count = len(asked.owner)
    is_loose = asked.tolerance > LOOSE
    begun = None
    near = None
    if asked.coarse is not None and not is_loose:
        near = solve_first_order(asked.ridge_equations(asked.coarse), packed=packed)
        begun = begin(equations, near.response)
    first = solve_first_order(
        equations, begun, packed=packed, goal=1e-9 if is_loose else 1e-13
    )
    errors = ridge_errors(first, size, packed=packed)
    # a perfect fit, up to rounding
    errors.test = np.maximum(errors.test, asked.points["noise"])
    status = _ridge_status(asked, first, errors)
    residual = first.residual
    if near is not None:
        moved = _quadrature_errors(near, errors.test, size, asked.owner)
        said = np.array(
            [f"the quadrature is accurate only to {error:.1e}" for error in moved]
        )
        status = np.where((moved > QUADRATURE) & (status == ""), said, status)
        residual = np.fmax(residual, moved)
    all_data = floor = np.full(count, np.nan)
    if asked.with_floors:
        if asked.plain is None:
            of_all_data = equations
        else:
            of_all_data = asked.ridge_equations(asked.plain)
        all_data, floor = floors(of_all_data, asked.owner, asked.points["noise"])
    scale = equations.width * equations.b
    with np.errstate(divide="ignore", invalid="ignore"):
        V1 = first.response.S / scale[:, None, None]
        V2 = first.response.R / scale[:, None]
    rare = _rare_inputs_matter(first, errors, size) & (status == "")
    known = (
        errors,
        V1,
        V2,
        first.response.S / first.response.R[:, None, :],
        np.array(errors.null),
        status,
    )
    return Fit(
        *known,
        np.array(residual),
        first.iterations,
        all_data,
        np.array(floor),
        rare,
        first,
    )


def _quadrature_errors(
    coarse: FirstOrder, test: Floats, size: FiniteSize, owner: Integers
) -> Floats:
    """Return how much the test error moves with the coarser rule, for every set at its
    point of the smallest ridge.
    """
    ridge = coarse.equations.a * coarse.equations.b
    moved = np.zeros(len(owner))
    for own in np.unique(owner):
        rows = np.flatnonzero(owner == own)
        least = rows[[np.argmin(ridge[rows])]]
        moved[rows] = np.abs(
            ridge_errors(coarse.take(least), size.take(least)).test / test[least] - 1
        )
    return moved


def _ridge_status(asked: Asked, first: FirstOrder, errors: Errors) -> Strings:
    """Return why each point is not to be trusted; empty where it is."""
    below_noise = errors.test < asked.points["noise"] - ROUNDING * errors.null
    # after a perfect fit there is only rounding in Q2
    negative = np.min(errors.Q2, axis=1) < -ROUNDING * np.max(errors.Q2, axis=1)
    negative &= errors.test > ROUNDING * errors.null
    status = _status(
        errors,
        first.residual,
        asked.tolerance,
        first.iterations,
        "steps",
        "loss identity",
    )
    status[(status == "") & below_noise] = (
        "digits lost: the test error is below the label noise"
    )
    status[(status == "") & negative] = "digits lost: the norm of a block is negative"
    return status


def _status(
    solution: Observables,
    residual: Floats,
    tolerance: float,
    iterations: Integers,
    steps: str,
    identity: str,
) -> Strings:
    reasons = np.full(len(residual), "", dtype=object)
    for row, violation in enumerate(solution.identity):
        if not np.isfinite(solution.test[row]):
            reasons[row] = "the solution is not finite"
        elif residual[row] > tolerance:
            reasons[row] = (
                f"residual {residual[row]:.1e} above the tolerance after"
                f" {iterations[row]} {steps}"
            )
        elif violation > IDENTITY:
            reasons[row] = f"digits lost: the {identity} is violated by {violation:.1e}"
    return reasons


def _rare_inputs_matter(
    first: FirstOrder, errors: Errors, size: FiniteSize
) -> Booleans:
    """Tell where dropping the rare |kappa| > 3.5 changes the test error by over 1%:
    spiked_features section 12.
    """
    equations = first.equations
    kappa = equations.features.kappa
    matter = np.zeros(len(errors.test), dtype=bool)
    suspects = np.flatnonzero((equations.ratio < 1) & (equations.b < 1e-2))
    if kappa is None or kappa.shape[1] != 1 or not suspects.size:
        return matter
    few = equations.take(suspects)
    test = errors.test[suspects]
    assert few.features.kappa is not None
    weights = np.where(
        np.abs(few.features.kappa[:, 0]) < RARE_INPUT, few.features.weights, 0.0
    )
    few = dataclasses.replace(
        few, features=dataclasses.replace(few.features, weights=weights)
    )
    without = solve_first_order(few, first.take(suspects), goal=ROUNDING)
    change = np.abs(ridge_errors(without, size.take(suspects)).test - test)
    matter[suspects] = change > 0.01 * test + ROUNDING * errors.null[suspects]
    return matter


# -- classes ---------------------------------------------------------------------------


def solve_classes(asked: Asked, loss: str) -> Fit:
    """Return the fit of classes with a convex loss."""
    numbers = asked.points
    ones = np.ones(len(asked.owner))
    width = numbers["width_per_dim"]
    flip = numbers["flip"]
    features = asked.labelled
    ratio = numbers["samples_per_dim"] / width
    equations = Equations(
        features, ratio, width, numbers["readout.ridge"], ones, asked.bulk, asked.pi
    )
    apart = (flip == 0) & np.isinf(numbers["dim"])
    if apart.any():
        apart &= separated(asked.features)[asked.owner]
    classifier = classify(equations, loss, flip, asked.size, apart)
    residual = classifier.residual
    tolerance = max(asked.tolerance, GOOD_ENOUGH)
    status = _status(
        classifier,
        residual,
        tolerance,
        classifier.iterations,
        "sweeps",
        "stationarity of the fit",
    )
    assert features.rho is not None and features.kappa is not None
    # where the mean features could nearly separate the classes, a finite dimension has
    # an answer
    growing = (
        (status != "")
        & (flip == 0)
        & np.isinf(numbers["dim"])
        & (features.kappa.shape[1] > 0)
    )
    growing &= np.all(features.rho == 0, axis=1)
    status[growing] = [f"{said}; give dim" for said in status[growing]]
    status[apart] = SEPARATED
    kept = classifier.V1 / classifier.V2[:, None, :]
    iterations = classifier.iterations
    known = (
        classifier,
        classifier.V1,
        classifier.V2,
        kept,
        0.5 * ones,
        status,
        residual,
        iterations,
    )
    return Fit(
        *known,
        np.nan * ones,
        np.nan * ones,
        np.zeros(len(ones), dtype=bool),
        equations=equations,
    )


# -- The least errors of given features: on all data -----------------------------------


UNPENALISED = 1e10
"""R of a width at which coefficients of the channels cost nothing."""


def floors(
    equations: Equations, owner: Integers, noise: Floats
) -> tuple[Floats, Floats]:
    """Return the error of each point (B,) on all data, few_steps_readout (8.1), and at
    infinite width, (8.2).

    (8.1) is (4.3)-(4.5) at V = 0, rho = 1, lambda = 0; (8.2) leaves out its penalty
    too: the distance of the target to the span of the means and the channels. `owner`
    (B,) says which set of features a point has: the first depends on the width and on
    the features, the second on these only; the label noise (B,) adds to both.
    """
    pairs = np.stack([owner, equations.width], axis=1)
    _, chosen, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    part = equations.take(chosen)
    ones = np.ones(len(chosen))
    part = dataclasses.replace(part, ratio=ones, a=0.0 * ones, b=ones)
    if isinstance(
        part.bulk, InputBulk
    ):  # the noise of quadratic channels vanishes with 1/d
        part = dataclasses.replace(
            part, bulk=dataclasses.replace(part.bulk, noise=None)
        )
    features = part.features
    count = len(chosen)
    weights = np.broadcast_to(features.weights, (count, features.weights.shape[1]))
    Vh1, Vh2 = features.moments(weights)
    start = part.bulk.start(Vh2.min(axis=1), part.block_width)
    response = part.bulk.solve(Vh1, Vh2, part.block_width, start)
    all_data = _unexplained(part, response, weights)
    _, first, set_of = np.unique(owner[chosen], return_index=True, return_inverse=True)
    free = np.broadcast_to(
        part.bulk.spread.free if isinstance(part.bulk, InputBulk) else True, (count,)
    )
    floor = np.empty(len(first))
    for number, row in enumerate(first):
        if free[row]:
            floor[number] = _distance(features.take(np.array([row])))
            continue
        unpenalised = response.take(np.array([row]))
        unpenalised.R[:] = UNPENALISED
        floor[number] = _unexplained(
            part.take(np.array([row])), unpenalised, weights[[row]]
        )[0]
    own = noise[chosen]
    which = which.reshape(-1)
    floor = (floor - own[first])[set_of.reshape(-1)]
    return (all_data - own)[which] + noise, floor[which] + noise


def _unexplained(equations: Equations, response: Response, weights: Floats) -> Floats:
    """Return what the means and channels with the penalties of this response do not
    explain of the labels.
    """
    features = equations.features
    psih = np.swapaxes(
        (features.mu1 * weights[:, None, :]) @ np.swapaxes(features.h1, 1, 2), 1, 2
    )
    signal = solve_signal(
        equations,
        response,
        weights,
        features.h,
        psih,
        FiniteSize(np.zeros(len(weights))),
    )
    explained = signal.c0 * features.h + np.sum(features.h1 * signal.c1, axis=1)
    return np.sum(features.weights * (features.hh - explained), axis=1)


def _distance(features: Features) -> float:
    """Return E hh minus what the functions (mu0, T) explain of (h, h1) without any
    penalty.
    """
    root = np.sqrt(features.weights[0])
    k = len(features.pi)
    channels = features.channels
    means = np.concatenate([features.mu0[0], features.T0[0]]) * root
    slopes = np.tile(features.mu1[0] * root, (channels, 1))
    rows = [means.T] + [
        np.pad(slopes * Jp[:, None], ((k, 0), (0, 0))).T for Jp in features.Jp[0]
    ]
    wanted = np.concatenate(
        [features.h[0] * root, *(h1 * root for h1 in features.h1[0])]
    )
    left, values, _ = np.linalg.svd(np.concatenate(rows), full_matrices=False)
    explained = (left.T @ wanted)[values > 1e-12 * values[0]]
    return float(features.hh[0] @ features.weights[0] - explained @ explained)
