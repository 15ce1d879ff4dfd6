"""Small and growing steps: a spike of the weights on the bulk of random features.

w_i = w0_i + (eta/sqrt(p)) zeta_i (c1 beta + a remainder), beta = X0^T r/n0 with the
residuals r of the gradient. The closed forms of the limit, and the features at a finite
dimension, depend on eta, E r^2 and |beta| only.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from giantstep.core.base.errors import Code, InputError
from giantstep.core.base.types import Booleans, Floats, Integers, Points
from giantstep.core.maths.gaussian.conditional import condition
from giantstep.core.readout.random_features import slope_variance
from giantstep.core.scenario.fields import Integer, Number, field
from giantstep.problems.network import fields
from giantstep.problems.network.steps.base import ClosedForm, GradientStep, Place

if TYPE_CHECKING:
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem
    from giantstep.problems.network.scenario import Network
    from giantstep.problems.network.trained import Trained

ROUNDING = 1e-12
"""Part by which the length of a spike is below its aligned part from rounding alone."""
ON_BOUNDARY = 1e-11
"""Distance from a whole number at which 1/(1 - 2 exponent) is one: a hundred times its
rounding.
"""
REMAINDER = (
    "what the rank-one part of the gradient leaves out is described as isotropic",
    "it overshoots",
)


class Spike(NamedTuple):
    """What the closed forms know of beta at every point: step_size_regimes (2a)."""

    c1: float
    g1: float
    eta: Floats
    residual: Floats  # E r^2, r the residuals of the gradient
    noise: Floats  # E r^2 d/n0
    fed_back: Floats  # f0, the initial output: 0 or 1

    def power(self, eta: Floats) -> Floats:
        """Return eta^2 b^2, b the length of beta as the equations see it: b^2 = g1^2 +
        E r^2 d/n0 + c1^2 - 2/eta.
        """
        # with initial_output = 1, beta is correlated with W0; in law it is an
        # independent one of a shifted length, which may be shorter than its aligned
        # part, and b^2 even negative
        return (
            eta**2 * (self.g1**2 + self.noise + self.fed_back * self.c1**2)
            - 2 * self.fed_back * eta
        )


class WeakStep(GradientStep):
    """A step below the maximal size: SmallStep or GrowingStep."""

    strong: ClassVar[bool] = False
    shares_sample: ClassVar[bool] = True

    if TYPE_CHECKING:
        kind: str
        update: str
        initial_output: int

    def spike_degrees(self, points: Points) -> Integers:
        """Return how many degrees of spikes diverge with the dimension at each point:
        none unless the step grows.
        """
        return np.zeros(len(points["dim"]), dtype=np.int64)

    def on_boundary(self, points: Points) -> Booleans:
        """Tell where the last of these degrees neither diverges nor vanishes: nowhere
        unless the step grows.
        """
        return np.zeros(len(points["dim"]), dtype=bool)

    def spike(self, network: Network, points: Points) -> Spike:
        """Return what is known of beta."""
        c0, c1 = network.activation.hermite(1)
        g0, g1 = network.label.hermite(1)
        power = network.label.second_moment(0.0, 1.0) + points["noise"]
        variance = network.activation.second_moment(0.0, 1.0)
        m = c0 * network.layer_moments()[0]
        fed_back = points["steps.0.initial_output"]
        # the output starts at the constant m, or as an independent field of this
        # variance
        from_constant = power - 2 * g0 * m + m**2
        # E r^2 of step_size_regimes (2a)
        residual = np.where(fed_back == 1, power + variance, from_constant)
        return Spike(
            c1=c1,
            g1=g1,
            eta=self.size(points),
            residual=residual,
            noise=residual / points["steps.0.batch_per_dim"],
            fed_back=fed_back,
        )

    def remainder(self, network: Network, points: Points) -> Floats:
        """Return epsilon^2: all but the rank-one part of the gradient adds epsilon^2
        zeta_i^2 to |w_i|^2.
        """
        # it is of order 1/p, and vanishes in the limit
        if self.update == "rank-one" or np.isinf(points["dim"]).all():
            return np.zeros(len(points["dim"]))
        spike = self.spike(network, points)
        neurons = points["width_per_dim"] * points["dim"]
        return np.asarray(
            spike.eta**2 * spike.noise * slope_variance(network.activation) / neurons
        )

    # -- the limit ---------------------------------------------------------------------

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Refuse networks in which no theory of a step of this size is known."""
        network = place.network
        same = place.network.fit_sample == "same"
        c0, c1 = network.activation.hermite(1)
        power = network.layer_moments()[1]
        fed_back = np.any(points[place.field("initial_output")] == 1)
        whole = (
            theory == "exact"
            and self.update == "exact"
            and not same
            and _finite(place, points)
        )
        kind = "a theory of a SmallStep or a GrowingStep"
        fed = "a theory of initial_output=1 where"
        lacking = {
            f"{kind} among other steps": not place.alone,
            f"{kind} where inputs have a covariance": network.inputs is not None,
            f"{kind} on several target directions": network.target.directions > 1,
            "a theory of a logistic or hinge fit after a SmallStep or a GrowingStep": (
                network.readout.classes
            ),
            f"a theory of a step of this size where E sigma'(z) = 0, as for {network.activation.name}": (  # noqa: E501
                abs(c1) < 1e-10
            ),
            f'{fed} fit_sample="same"': fed_back and same,
            f"{fed} the activation is not centred (E sigma(z) = {c0:.4g} here)": (
                fed_back and abs(c0) > 1e-10
            ),
            f"{fed} E zeta^2 is not 1 (it is {power:.4g} here)": (
                fed_back and abs(power - 1) > 1e-9
            ),
            'an exact theory of the whole gradient at a finite dim (update="rank-one" has one)': (  # noqa: E501
                whole
            ),
        }
        return next((words for words, holds in lacking.items() if holds), "")

    def remarks(self, place: Place, points: Points, theory: str | None) -> list[str]:
        """Warn of a target whose direction the gradient does not see, and of the
        isotropic remainder.
        """
        remarks = []
        update = place.field("update")
        whole = (
            self.update == "exact"
            and theory != "isotropic"
            and place.network.fit_sample == "fresh"
        )
        if whole and _finite(place, points):
            remarks.append(
                f'The whole gradient ({update}="exact") is described at a finite dim by'
                " an isotropic remainder, an approximation that overshoots;"
                f' {update}="rank-one" is the experiment that the theory describes'
                " exactly."
            )
        if abs(place.network.label.hermite(1)[1]) < 1e-10:
            remarks.append(
                "The target has no linear part (E z g(z) = 0): a small or growing step"
                " does not see its direction, and nothing is learnt beyond random"
                " features."
            )
        return remarks

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Return the layer at a finite dimension: step_size_regimes section 9."""
        from giantstep.problems.network.start import planted
        from giantstep.problems.network.weak.rows import WeakRows

        points = problem.numbers
        spike = self.spike(problem.network, problem.numbers)
        per_root_width = (
            problem.zeta / np.sqrt(points["width_per_dim"] * points["dim"])[:, None]
        )
        power = spike.power(spike.eta)
        along = spike.eta * spike.g1
        # eta b, at least its aligned part: shorter spikes are flagged. Any spike has
        # gamma <= 1
        length = np.sqrt(np.maximum(power, along**2))
        gamma = np.where(
            length > 0, np.clip(along / np.where(length > 0, length, 1.0), -1, 1), 1.0
        )
        s = np.ones((len(layer), len(problem.zeta)))
        isotropic = self.update == "exact" or theory == "isotropic"
        if isotropic:  # what the rank-one part leaves out, as an isotropic remainder
            e = spike.eta[:, None] * per_root_width
            s = np.sqrt(
                1 + e**2 * spike.noise[:, None] * slope_variance(problem.activation)
            )
        layer = planted(problem, gamma, spike.c1 * length[:, None] * per_root_width, s)
        rows = WeakRows.of(
            layer.rows,
            # a beta that is correlated with the rows has other sums over them
            single=spike.fed_back != 1,
            accuracy=(REMAINDER,) if isotropic else (),
            short=power < along**2 * (1 - ROUNDING),
        )
        return dataclasses.replace(layer, rows=rows)

    def closed_form(self, place: Place, what: str, points: Points) -> ClosedForm | None:
        """Return the formula of a fit on the gradient's own sample, of the spikes, or
        of the errors without a dim.
        """
        from giantstep.problems.network.weak import closed

        if place.network.fit_sample == "same":
            return partial(closed.same_sample_errors, self)
        if what == "errors":
            if np.isinf(points["dim"]).all():
                return partial(closed.limit_errors, self)
            return None
        known = {"weights": closed.answer_weights, "spikes": closed.answer_spikes}
        if np.any(np.isinf(points["dim"])) and (
            what == "along" or self.kind == "growing" and what in known
        ):
            said = (
                f'Field `dim` must be given for what="{what}" after such a step: its'
                " spikes depend on the dimension."
            )
            raise InputError(said, Code.NEEDS_DIMENSION)
        return partial(known[what], self) if what in known else None

    # -- the experiment ----------------------------------------------------------------

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Follow the gradient, or its rank-one part c1 zeta_i beta."""
        network = trained.network_of
        xp = trained.draws.xp
        rows = trained.network.weights
        p = trained.network.width
        c0, c1 = (float(c) for c in network.activation.hermite(1))
        output = 0 * trained.second_layer
        offset = c0 * network.layer_moments()[0]
        if (
            float(point[f"steps.{number}.initial_output"][0]) == 1
        ):  # the gradient divides by p
            output = trained.second_layer * math.sqrt(p)
            offset = 0.0
        batch = float(point[f"steps.{number}.batch_per_dim"][0]) * trained.dim
        gradient, beta = trained.gradient(
            True, batch, trained.stream(number), output=output, offset=offset
        )
        if beta is None:  # the population: E (y - f) x, here from E[z g(z)]
            r = network.target.directions
            # E sigma(<w, x>) x = c1 w for rows of length 1
            beta = -c1 * (output @ rows) / p
            linear = condition(network.target, np.zeros((r, 0)), np.eye(r), 1.0).h1
            trained.inputs.add_along(beta[None], xp.asarray(linear), xp)
        if self.update == "rank-one":
            gradient = xp.broadcast_to(c1 * beta, rows.shape)
        size = trained.second_layer * (self.size(point, number)[0] / math.sqrt(p))
        after = trained.with_weights(rows + size[:, None] * gradient)
        if trained.inputs.frame is not None:
            return after
        return after.with_spike(c1 * size, beta)


class SmallStep(WeakStep):
    """One gradient step of size eta_raw = rate * sqrt(p): a finite spike, nothing
    non-linear is learnt.

    w_i = w0_i + (rate/sqrt(p)) zeta_i (1/n0) sum_mu r_mu sigma'(<w0_i, x_mu>) x_mu. The
    residual r is y - m with ``initial_output=0`` (the output starts at the constant m)
    and y - sum_j zeta_j sigma(<w_j, x>)/sqrt(p) with 1. ``update="rank-one"`` keeps the
    part c1 zeta_i X0^T r/n0 of the gradient only.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu(z) - 1/sqrt(2*pi)",
    ...     target="z",
    ...     width_per_dim=2.0,
    ...     samples_per_dim=4.0,
    ...     ridge=0.2,
    ...     second_layer="gaussian",
    ...     step=SmallStep(rate=1.0, batch_per_dim=4.0),
    ... )
    >>> bool(gs.predict(s).test_error < gs.predict(s, step__rate=0.0).test_error)
    True
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            rate: float,
            batch_per_dim: float = ...,
            update: str = ...,
            initial_output: int = ...,
        ) -> None: ...

    kind: Literal["small"] = "small"
    rate: Number = field(
        "eta", "step size over the root of the width: eta_raw = rate * sqrt(p)"
    )
    batch_per_dim: Number = fields.batch_per_dim()
    update: fields.Update = fields.update()
    initial_output: Integer = fields.initial_output()

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta = rate."""
        return points[f"steps.{number}.rate"]


class GrowingStep(WeakStep):
    """One gradient step of size eta_raw = rate * n0^exponent * sqrt(p): polynomial
    spikes appear one after the other.

    As `SmallStep`, with rate * n0^exponent in place of rate. Degree k of the learnt
    direction is fitted once the exponent passes (k-1)/(2k).

    >>> import giantstep as gs
    >>> step = GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=4.0, update="rank-one")
    >>> s = gs.OneStep(
    ...     activation="relu(z) - 1/sqrt(2*pi)",
    ...     target="h1(z) + h2(z)/sqrt(2)",
    ...     width_per_dim=2.0,
    ...     samples_per_dim=4.0,
    ...     ridge=0.2,
    ...     second_layer="gaussian",
    ...     step=step,
    ... )
    >>> # the plateaus of the stairs
    >>> gs.predict(s, step__exponent=[0.1, 0.3, 0.38]).test_error.values.round(3)
    array([1.34 , 0.976, 0.94 ])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            rate: float,
            exponent: float,
            batch_per_dim: float,
            update: str = ...,
            initial_output: int = ...,
        ) -> None: ...

    kind: Literal["growing"] = "growing"
    rate: Number = field(
        "eta/n0^alpha", "step size: eta_raw = rate * n0^exponent * sqrt(p)"
    )
    exponent: Number = field("alpha", "growth of the step with the batch", ge=0, lt=0.5)
    batch_per_dim: Number = fields.batch_per_dim(default=..., infinite=False)
    update: fields.Update = fields.update()
    initial_output: Integer = fields.initial_output()

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta = rate n0^exponent."""
        samples = points[f"steps.{number}.batch_per_dim"] * points["dim"]
        return (
            points[f"steps.{number}.rate"]
            * samples ** points[f"steps.{number}.exponent"]
        )

    def spike_degrees(self, points: Points) -> Integers:
        """Return l with (l-1)/(2l) <= exponent < l/(2l+2): step_size_regimes section 7;
        0 where the step is small.
        """
        exponent = points["steps.0.exponent"]
        degrees = np.floor(_stairs(exponent) + ON_BOUNDARY).astype(np.int64)
        return np.where(exponent == 0, 0, degrees)

    def on_boundary(self, points: Points) -> Booleans:
        """Tell where the exponent is (l-1)/(2l) to rounding, l > 1: there degree l has
        a finite strength.
        """
        stairs = _stairs(points["steps.0.exponent"])
        return (stairs > 1.5) & (np.abs(stairs - np.round(stairs)) <= ON_BOUNDARY)


def _stairs(exponent: Floats) -> Floats:
    """Return 1/(1 - 2 exponent), which is l where degree l begins."""
    return 1 / (1 - 2 * exponent)


def _finite(place: Place, points: Points) -> bool:
    """Tell whether a point has a finite dimension and a finite batch."""
    return bool(
        np.any(
            np.isfinite(points["dim"])
            & np.isfinite(points[place.field("batch_per_dim")])
        )
    )
