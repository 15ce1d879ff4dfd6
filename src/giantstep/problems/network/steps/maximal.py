"""The maximal step: plain gradient descent of the largest size that keeps the features
bounded.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Points
from giantstep.core.readout import PACKED_BLOCKS
from giantstep.core.scenario.fields import Number, field
from giantstep.problems.inputs.parts import Whitening
from giantstep.problems.network import fields
from giantstep.problems.network.rows.protocol import Descent
from giantstep.problems.network.rows.words import (
    ISOTROPIC,
    ISOTROPIC_ERROR,
    PUBLISHED,
    PUBLISHED_ERROR,
)
from giantstep.problems.network.steps.base import GradientStep, Place

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian import Function
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem
    from giantstep.problems.network.rows.protocol import Descent
    from giantstep.problems.network.scenario import Network
    from giantstep.problems.network.trained import Trained

WELL_DESCRIBED = 100.0
"""Samples per dimension of a batch from which its isotropic description is good to
0.5%.
"""


class MaximalStep(GradientStep):
    """One gradient step of the largest size that keeps the features bounded: eta_raw =
    rate * p.

    w_i <- (1 - weight_decay) w_i + rate v_i, v_i <- momentum v_i + zeta_q (1/n0) sum_mu
    (y_mu - f(x_mu)) sigma'(<w_i, x_mu>) x_mu, on a batch of n0 = batch_per_dim * d
    samples of its own; ``batch_per_dim=inf`` is the population gradient.
    ``loss="correlation"`` has y in place of y - f, ``precondition=c`` Sigma^-c x in
    place of x.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="tanh",
    ...     target="sin(z)",
    ...     width_per_dim=1.0,
    ...     samples_per_dim=1.5,
    ...     ridge=0.1,
    ...     second_layer=gs.Vocabulary([1]),
    ...     step=MaximalStep(rate=3.0, batch_per_dim=0.5),
    ... )
    >>> gs.predict(s, step__batch_per_dim=[0.5, gs.inf]).test_error.values.round(4)
    array([0.2895, 0.0223])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            rate: float,
            batch_per_dim: float = ...,
            loss: str = ...,
            precondition: float | str = ...,
            weight_decay: float = ...,
            momentum: float = ...,
        ) -> None: ...

    on_batches: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    jumps_at: ClassVar[str] = "rate"

    kind: Literal["maximal"] = "maximal"
    rate: Number = field("eta", "step size divided by the width: eta_raw = rate * p")
    batch_per_dim: Number = fields.batch_per_dim()
    loss: fields.StepLoss = fields.step_loss()
    precondition: Whitening = fields.precondition()
    weight_decay: Number = field(
        "w", "part of the rows that the step takes away", default=0.0, ge=0, lt=1
    )
    momentum: Number = field(
        "mu", "part of the last step's velocity that is kept", default=0.0, ge=0, lt=1
    )

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta = rate sqrt(p)."""
        # a network has whole neurons
        width = np.maximum(1, np.rint(points["width_per_dim"] * points["dim"]))
        return points[f"steps.{number}.rate"] * np.sqrt(width)

    # -- the limit ---------------------------------------------------------------------

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Refuse what no theory of batch noise covers."""
        network = place.network
        name = place.field
        if theory == "published" and np.any(points[name("weight_decay")] != 0):
            return "the published map of a step with weight decay"
        earlier = [
            points.get(f"steps.{number}.batch_per_dim", np.full(1, np.inf))
            for number in range(place.number)
        ]
        if np.any(points[name("momentum")] != 0) and any(
            np.isfinite(batch).any() for batch in earlier
        ):
            return (
                "a theory of momentum that carries the noise of an earlier finite"
                " batch on"
            )
        finite = _finite(place, points)
        reason = outside_batches(network, points)
        if not finite.any() or not (reason or theory == "isotropic"):
            return ""
        if theory == "exact":
            return f"the exact theory of a finite batch, because {reason}"
        if network.rows == "gaussian":
            return (
                "a theory of finite batches on Gaussian rows, because"
                f" {reason or 'it is not isotropic'}"
            )
        if network.second_layer == "gaussian" and not place.alone:
            return (
                "a theory of finite batches with a Gaussian second layer after several"
                " steps"
            )
        several = not place.alone or network.target.directions > 1
        if not network.isotropic and (
            several or np.any(points[name("precondition")][finite] != 0)
        ):
            return (
                "a theory of the noise of finite batches where inputs have a covariance"
                " with several steps, a preconditioner or several directions"
            )
        return ""

    def remarks(self, place: Place, points: Points, theory: str | None) -> list[str]:
        """Say where a finite batch is described by an approximation."""
        reason = outside_batches(place.network, points)
        batch = place.field("batch_per_dim")
        if theory in ("published", "exact") or not (reason or theory == "isotropic"):
            return []
        if points[batch][_finite(place, points)].min(initial=np.inf) >= WELL_DESCRIBED:
            return []
        if theory == "isotropic":
            exact = "" if reason else ", where theory=None is exact"
            return [
                f'With theory="isotropic" {ISOTROPIC}, an approximation{exact}:'
                f" {ISOTROPIC_ERROR}."
            ]
        return [
            f"Because {reason}, {ISOTROPIC}, an approximation: {ISOTROPIC_ERROR}"
            f" ({batch}=inf is exact)."
        ]

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Return the layer after the step: structured_inputs (3.1)-(3.5), and what is
        known of the batch's noise.
        """
        if theory == "published":
            return _published(problem, number)
        descent = self.descent(problem, number)
        rows = layer.rows
        described = outside_batches(problem.network, problem.numbers)
        # steps on the population need no chain before the first finite batch
        if theory != "isotropic" and not described and descent.on_batch.any():
            if len(problem.network.steps) == 1 and _is_linear(problem.activation):
                # its bulk stays isotropic, and the published map is exact
                return _published(problem, number, exact=True)
            # the chains of finite batches begin at the start: they go through these,
            # too
            earlier = [
                step.descent(problem, before)
                for before, step in enumerate(problem.network.steps[:number])
            ]
            rows = rows.on_batches(problem, earlier)
        return rows.descend(problem, layer, descent)

    def descent(self, problem: Problem, number: int) -> Descent:
        """Return the step in numbers."""
        return Descent(
            rate=problem.of_step(number, "rate"),
            strength=problem.strengths(number),
            keep=1 - problem.of_step(number, "weight_decay"),
            momentum=problem.of_step(number, "momentum"),
            fed_back=problem.fed_back(number),
            whitening=problem.of_step(number, "precondition"),
            samples=problem.of_step(number, "batch_per_dim"),
        )

    # -- the experiment ----------------------------------------------------------------

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Follow the gradient on the population, or on a batch; its bulk rows are then
        without the spike.
        """
        name = f"steps.{number}."
        batch = float(point[name + "batch_per_dim"][0]) * trained.dim
        rate = float(point[name + "rate"][0])
        gradient, spike = trained.gradient(
            self.loss == "square", batch, trained.stream(number)
        )
        gradient *= trained.second_layer[:, None]
        if trained.inputs.root is not None:
            gradient *= trained.draws.xp.asarray(
                trained.inputs.pull(float(point[name + "precondition"][0]))
            )
        momentum = float(point[name + "momentum"][0])
        keep = 1 - float(point[name + "weight_decay"][0])
        # the first step has no velocity to keep
        if momentum and trained.velocity is not None:
            gradient += momentum * trained.velocity
        rows = trained.network.weights
        weights = (rows if keep == 1 else keep * rows) + rate * gradient
        on_batch = trained.on_batch or spike is not None
        after = dataclasses.replace(
            trained.with_weights(weights), velocity=gradient, on_batch=on_batch
        )
        if (
            spike is None
            or len(trained.network_of.steps) > 1
            or trained.inputs.frame is not None
        ):
            return after
        return after.with_spike(
            rate
            * float(trained.network.activation.hermite(1)[1])
            * trained.second_layer,
            spike,
        )


def _finite(place: Place, points: Points) -> Booleans:
    """Tell at which points the step moves rows on a finite batch."""
    return np.isfinite(points[place.field("batch_per_dim")]) & (
        points[place.field("rate")] != 0
    )


def outside_batches(network: Network, points: Points) -> str:
    """Say why the exact theory of finite batches does not cover this network; empty
    where it does.
    """
    if not network.isotropic:
        return "the exact theory of finite batches covers isotropic inputs"
    if network.second_layer == "gaussian":
        return (
            "the exact theory of finite batches is not verified for a Gaussian second"
            " layer"
        )
    if network.blocks > PACKED_BLOCKS:
        return (
            f"the exact theory of finite batches is built for at most {PACKED_BLOCKS}"
            " blocks"
        )
    other = [number for number, step in enumerate(network.steps) if not step.on_batches]
    if other:
        kind = network.steps[other[0]].kind
        return (
            "the exact theory of finite batches covers maximal steps, not"
            f" steps.{other[0]}.kind={kind!r}"
        )
    for number in range(1, len(network.steps)):
        if np.any(points[f"steps.{number}.momentum"] != 0):
            return (
                "the exact theory of finite batches has no momentum, as"
                f" steps.{number}.momentum"
            )
    return ""


def _is_linear(activation: Function) -> bool:
    polynomial = activation.polynomial
    return polynomial is not None and len(polynomial) <= 2


def _published(problem: Problem, number: int, exact: bool = False) -> Layer:
    """Return the published map onto an isotropic bulk without channels of its own:
    spiked_features section 5.1.
    """
    from giantstep.core.readout.random_features import slope_variance
    from giantstep.problems.network.rows.isotropic import BulkRows, IsotropicRows
    from giantstep.problems.network.start import planted

    target = problem.network.label
    share = problem.fed_back(number)
    e = problem.strengths(number)
    # E He_j sigma, from coefficients that are those of He_j/sqrt(j!)
    c0, c1, c2 = problem.activation.hermite(2) * np.sqrt([1.0, 1.0, 2.0])
    g0, g1 = target.hermite(1)
    # of turned classes; their g_0 is zero
    g1 = g1 * problem.kept
    # the output before the step, one number for all inputs
    m = c0 * share.sum(axis=1)
    square = target.second_moment(np.zeros(1), np.ones(1))[0]
    # E (y - m)^2
    power = square + problem.numbers["noise"] - 2 * g0 * m + m**2
    fluctuation = power / problem.of_step(number, "batch_per_dim")  # E(y - m)^2 d/n0
    G = np.sqrt(g1**2 + fluctuation)
    # without a gradient any direction is that of the spike
    gamma = np.where(G > 0, g1 / np.where(G > 0, G, 1.0), 1.0)
    s = 1 + e * (g0 - m)[:, None] * c2
    blocks = np.eye(e.shape[1])
    # (2.2)
    means = s[..., None] * blocks - c1**2 * e[:, :, None] * share[:, None]
    spread = e**2 * fluctuation[:, None] * slope_variance(problem.activation)
    # without spread s keeps its sign: the published map at an infinite batch
    s = np.where(spread > 0, np.sqrt(s**2 + spread), s)
    layer = planted(problem, gamma, e * c1 * G[:, None], s)
    # finite_size_steps (2.7)
    noise = np.sqrt(spread)[:, None, :, None] * blocks
    feedback = np.concatenate([means[:, None], noise], axis=3)
    accuracy: tuple[tuple[str, str], ...] = ()
    # a step that moves nothing approximates nothing
    if not exact and np.any(problem.of_step(number, "rate") != 0):
        accuracy = ((PUBLISHED, PUBLISHED_ERROR),)
    # on the population the rows of the model are the initial ones
    law = BulkRows if np.any(fluctuation > 0) else IsotropicRows
    rows = law.of(layer.rows, feedback=feedback, accuracy=accuracy)
    return dataclasses.replace(layer, rows=rows)
