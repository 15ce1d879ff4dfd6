"""The fit of the second layer at many points, given what the read-out sees: errors,
order parameters, self-tests.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers, Points, Strings
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Bulk
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
from giantstep.core.readout.floors import floors
from giantstep.core.readout.input_bulk import InputBulk, QuadraticNoise
from giantstep.core.scenario.family import LOOSE

TRIED_NODES = 4000
"""Nodes up to which a point that fails is tried at the nodes: steep features along one
direction have so many.
"""
EXACT_GOAL = 1e-13
LOOSE_GOAL = 1e-9
"""Residuals that the first-order solution aims at, and where a loose answer will do."""
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
    pi: Floats | None = None
    """Fractions of the blocks of every point, where they are not those of the
    features.
    """
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
        # one set of features, but several label noises
        if len(taken.weights) == 1 and np.ptp(noise) > 0:
            taken = taken.for_all(len(noise))
        noise = noise[: len(taken.weights), None]
        return dataclasses.replace(taken, hh=taken.hh + noise)

    @property
    def bulk(self) -> Bulk:
        """The law of the rows of every point."""
        return type(self.bulks[0]).stack(self.bulks, self.owner)

    def ridge_equations(self, features: Features) -> Equations:
        """Return the first-order equations of the ridge fit."""
        width = self.points["width_per_dim"]
        equations = Equations.of_ridge(
            self._labelled(features),
            self.points["samples_per_dim"] / width,
            width,
            self.points["readout.ridge"],
            self.bulk,
        )
        equations.pi = self.pi
        bulk = equations.bulk
        if not isinstance(bulk, InputBulk) or not bulk.spread.quadratic:
            return equations
        # what y_q multiplies in the noise of the quadratic channels, which come last
        labelled = equations.features
        curvature = labelled.T0[:, -len(labelled.pi) :]
        noise = QuadraticNoise(labelled, curvature, equations.ratio, equations.b)
        bulk = dataclasses.replace(bulk, noise=noise)
        return dataclasses.replace(equations, bulk=bulk)

    def take(self, index: Integers) -> Asked:
        """Return the points in `index`."""
        pi = self.pi
        if pi is not None:
            pi = pi[index]
        return dataclasses.replace(
            self,
            owner=self.owner[index],
            points={name: values[index] for name, values in self.points.items()},
            size=self.size.take(index),
            pi=pi,
        )


@dataclass
class Fit(Stacked):
    """What is known of a fit at B points; V1 and V2 are in the units of the answer."""

    solution: Errors | Classifier
    V1: Floats  # (B, k, k)
    V2: Floats  # (B, k)
    # S diag(1/R) of the bulk (B, k, k), what the fit keeps along the means of the
    # blocks
    kept: Floats
    null: Floats  # the error of no network at all
    status: Strings  # why a point is not to be trusted; empty where it is
    residual: Floats
    iterations: Integers
    all_data: Floats  # the error on all data
    floor: Floats  # and at infinite width, too
    rare: Booleans  # whether rare inputs count for more than they should
    first: FirstOrder | None = None  # the first-order solution behind a ridge fit
    equations: Equations | None = None  # what a fit of classes solved


def solve_ridge(asked: Asked) -> Fit:
    """Return the ridge fit; where packed coordinates lose digits (a linear activation),
    at the nodes themselves.
    """
    fit = _solve_ridge(asked)
    blocks, nodes = asked.features.mu1.shape[1:]
    # with more blocks it was solved at the nodes already, with more nodes it would
    # take too long, and some bulks know packed coordinates only
    was_packed = blocks <= PACKED_BLOCKS
    affordable = nodes <= TRIED_NODES and not asked.bulks[0].packed_only
    again = np.flatnonzero(fit.status != "")
    if again.size and was_packed and affordable:
        fit.put(again, _solve_ridge(asked.take(again), packed=False))
    return fit


def _solve_ridge(asked: Asked, packed: bool | None = None) -> Fit:
    equations = asked.ridge_equations(asked.features)
    size = asked.size
    is_loose = asked.tolerance > LOOSE
    # the coarser rule is solved first: it measures the error of the finer one, which
    # starts from it
    begun = None
    coarse = None
    if asked.coarse is not None and not is_loose:
        coarse = solve_first_order(asked.ridge_equations(asked.coarse), packed=packed)
        begun = begin(equations, coarse.response)
    goal = LOOSE_GOAL if is_loose else EXACT_GOAL
    first = solve_first_order(equations, begun, packed=packed, goal=goal)
    errors = ridge_errors(first, size, packed=packed)
    # a perfect fit, up to rounding
    errors.test = np.maximum(errors.test, asked.points["noise"])
    status = _ridge_status(asked, first, errors)
    residual = first.residual
    if coarse is not None:
        moved = _quadrature_errors(coarse, errors.test, size, asked.owner)
        inaccurate = (moved > QUADRATURE) & (status == "")
        for row in np.flatnonzero(inaccurate):
            status[row] = f"the quadrature is accurate only to {moved[row]:.1e}"
        residual = np.fmax(residual, moved)
    all_data, floor = _ridge_floors(asked, equations)
    # in the units of the answer: R and S are b times as large
    scale = equations.width * equations.b
    with np.errstate(divide="ignore", invalid="ignore"):
        V1 = first.response.S / scale[:, None, None]
        V2 = first.response.R / scale[:, None]
    return Fit(
        solution=errors,
        V1=V1,
        V2=V2,
        kept=first.response.S / first.response.R[:, None, :],
        null=np.array(errors.null),
        status=status,
        residual=np.array(residual),
        iterations=first.iterations,
        all_data=all_data,
        floor=floor,
        rare=_rare_inputs_matter(first, errors, size) & (status == ""),
        first=first,
    )


def _ridge_floors(asked: Asked, equations: Equations) -> tuple[Floats, Floats]:
    """Return the errors on all data and at infinite width; NaN where nobody wants to
    know them.
    """
    if not asked.with_floors:
        return np.full(len(asked.owner), np.nan), np.full(len(asked.owner), np.nan)
    if asked.plain is not None:
        equations = asked.ridge_equations(asked.plain)
    all_data, floor = floors(equations, asked.owner, asked.points["noise"])
    return all_data, np.array(floor)


def _quadrature_errors(
    coarse: FirstOrder, test: Floats, size: FiniteSize, owner: Integers
) -> Floats:
    """Return how much the test error moves with the coarser rule, for every set at its
    point of the smallest ridge.
    """
    ridge = coarse.equations.a * coarse.equations.b
    moved = np.zeros(len(owner))
    for number in np.unique(owner):
        rows = np.flatnonzero(owner == number)
        # the smaller the ridge, the more the rule counts
        least = rows[[np.argmin(ridge[rows])]]
        with_coarse = ridge_errors(coarse.take(least), size.take(least)).test
        moved[rows] = np.abs(with_coarse / test[least] - 1)
    return moved


def _ridge_status(asked: Asked, first: FirstOrder, errors: Errors) -> Strings:
    """Return why each point is not to be trusted; empty where it is."""
    below_noise = errors.test < asked.points["noise"] - ROUNDING * errors.null
    # after a perfect fit there is only rounding in Q2
    negative = np.min(errors.Q2, axis=1) < -ROUNDING * np.max(errors.Q2, axis=1)
    negative &= errors.test > ROUNDING * errors.null
    status = _status(
        errors,
        residual=first.residual,
        tolerance=asked.tolerance,
        iterations=first.iterations,
        steps="steps",
        identity="loss identity",
    )
    # the first reason counts
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
    # with a ridge, or more samples than neurons, rare inputs do not pull the fit
    suspects = np.flatnonzero((equations.ratio < 1) & (equations.b < 1e-2))
    if kappa is None or kappa.shape[1] != 1 or not suspects.size:
        return matter
    few = equations.take(suspects)
    assert few.features.kappa is not None
    common = np.abs(few.features.kappa[:, 0]) < RARE_INPUT
    weights = np.where(common, few.features.weights, 0.0)
    features = dataclasses.replace(few.features, weights=weights)
    few = dataclasses.replace(few, features=features)
    without = solve_first_order(few, first.take(suspects), goal=ROUNDING)
    test = errors.test[suspects]
    change = np.abs(ridge_errors(without, size.take(suspects)).test - test)
    matter[suspects] = change > 0.01 * test + ROUNDING * errors.null[suspects]
    return matter


def solve_classes(asked: Asked, loss: str) -> Fit:
    """Return the fit of classes with a convex loss."""
    numbers = asked.points
    ones = np.ones(len(asked.owner))
    width = numbers["width_per_dim"]
    flip = numbers["flip"]
    equations = Equations(
        asked.labelled,
        numbers["samples_per_dim"] / width,
        width,
        a=numbers["readout.ridge"],
        b=ones,
        bulk=asked.bulk,
        pi=asked.pi,
    )
    # in the limit the means cost nothing: where they separate the classes nothing
    # stops the fit from growing
    apart = (flip == 0) & np.isinf(numbers["dim"])
    if apart.any():
        apart &= separated(asked.features)[asked.owner]
    classifier = classify(equations, loss, flip, asked.size, apart)
    return Fit(
        solution=classifier,
        V1=classifier.V1,
        V2=classifier.V2,
        kept=classifier.V1 / classifier.V2[:, None, :],
        null=0.5 * ones,
        status=_class_status(asked, classifier, apart),
        residual=classifier.residual,
        iterations=classifier.iterations,
        all_data=np.nan * ones,
        floor=np.nan * ones,
        rare=np.zeros(len(ones), dtype=bool),
        equations=equations,
    )


def _class_status(asked: Asked, classifier: Classifier, apart: Booleans) -> Strings:
    """Return why each fit of classes is not to be trusted; empty where it is."""
    status = _status(
        classifier,
        residual=classifier.residual,
        tolerance=max(asked.tolerance, GOOD_ENOUGH),
        iterations=classifier.iterations,
        steps="sweeps",
        identity="stationarity of the fit",
    )
    features = asked.labelled
    assert features.rho is not None and features.kappa is not None
    # where the mean features could nearly separate the classes, a finite dimension has
    # an answer
    in_limit = np.isinf(asked.points["dim"])
    growing = (status != "") & (asked.points["flip"] == 0) & in_limit
    growing &= features.kappa.shape[1] > 0
    growing &= np.all(features.rho == 0, axis=1)
    status[growing] = [f"{reason}; give dim" for reason in status[growing]]
    status[apart] = SEPARATED
    return status
