"""Small and growing steps: a spike of the weights on the bulk of random features.

w_i = w0_i + (eta/sqrt(p)) zeta_i (c1 beta + a remainder), beta = X0^T r/n0 with the residuals r of the gradient. The
closed forms of the limit, and the features at a finite dimension, depend on eta, E r^2 and |beta| only.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.one_step.second_layer import second_layer_law
from giantstep.families.one_step.steps.base import ClosedForm, Models, Moved, ReadOut, Start, take_points
from giantstep.families.one_step.steps.gradient import GradientStep, slope_variance, spike_directions
from giantstep.family import Answer
from giantstep.scenario import Integer, Number, field
from giantstep.types import DeviceArray, Floats, Integers, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.model import SpikedModel
    from giantstep.families.one_step.scenario import OneStep

SHORT_SPIKE = "with initial_output = 1 so small a step leaves a spike shorter than its aligned part; leave dim out"
_OF_ROWS = ("t", "psi", "Q1", "V1")


class WeakStep(GradientStep):
    """A step below the maximal size: SmallStep or GrowingStep."""

    shares_sample: ClassVar[bool] = True

    if TYPE_CHECKING:
        update: str
        initial_output: int

    def check_scenario(self, scenario: OneStep) -> None:
        """Refuse activations without a linear part, classes, and second layers that the initial output rules out."""
        c0, c1 = scenario.activation.hermite(1)
        if abs(c1) < 1e-10:
            raise InputError(
                f"Field `activation` must have E sigma'(z) different from 0 for a step of this size, but "
                f"{scenario.activation.name} has not; MaximalStep works."
            )
        if self.initial_output == 1:
            if abs(c0) > 1e-10:
                allowed = f"0 where the activation is not centred (E sigma(z) = {c0:.4g} here)"
                raise bad_field("step.initial_output", 1, allowed)
            zeta, pi = second_layer_law(scenario)
            power = np.sum(pi * zeta**2)
            if abs(power - 1) > 1e-9 and scenario.second_layer != "gaussian":
                raise bad_field("step.initial_output", 1, f"0 where E zeta^2 is not 1 (it is {power:.4g} here)")
        if scenario.loss != "square":
            raise bad_field("loss", scenario.loss, '"square" for a SmallStep or a GrowingStep')
        super().check_scenario(scenario)

    def check_question(self, scenario: OneStep, what: str) -> None:
        """Refuse all questions but the errors for a fit on the gradient's own sample."""
        if scenario.fit_sample == "same" and what != "errors":
            raise bad_field("fit_sample", "same", f'"fresh" for what="{what}"')

    def check_dimension(self, points: Points, what: str) -> None:
        """Refuse errors along a direction that is not there without a dimension."""
        if what == "along" and np.any(np.isinf(points["dim"])):
            raise bad_field("dim", None, 'given for what="along" of a small or growing step')

    def spike_degrees(self, points: Points) -> Integers:
        """Return how many degrees of spikes diverge with the dimension at each point."""
        raise NotImplementedError

    # -- the limit -------------------------------------------------------------------------------------------------

    def choose_theory(self, scenario: OneStep, points: Points, wanted: str | None) -> tuple[Models, list[str]]:
        """Choose the exact theory for the rank-one update, and for every update without a dimension."""
        finite = np.isfinite(points["dim"]) & np.isfinite(points["step.batch_per_dim"])
        if self.update == "rank-one" or wanted == "isotropic" or not finite.any():
            return super().choose_theory(scenario, points, wanted)
        if wanted == "exact":
            allowed = '"isotropic" at a finite dim where step.update="exact" ("rank-one" is exact)'
            raise bad_field("theory", wanted, allowed)
        warning = (
            'The whole gradient (step.update="exact") is described at a finite dim by an isotropic remainder, an '
            'approximation that overshoots; step.update="rank-one" is the experiment that the theory describes exactly.'
        )
        return super().choose_theory(scenario, points, "isotropic")[0], [warning]

    def approximations(self, points: Points, models: Models) -> dict[str, str]:
        """Name the isotropic remainder of the whole gradient."""
        if all(theory != "isotropic" for theory, _ in models) or not np.isfinite(points["dim"]).any():
            return {}
        return {"what the rank-one part of the gradient leaves out is described as isotropic": "it overshoots"}

    def warnings(self, scenario: OneStep, points: Points) -> list[str]:
        """Warn of a target whose direction the gradient does not see."""
        if abs(scenario.target.hermite(1)[1]) >= 1e-10:
            return []
        return [
            "The target has no linear part (E z g(z) = 0): a small or growing step does not see its direction, and "
            "nothing is learnt beyond random features."
        ]

    def model(self, scenario: OneStep, points: Points, theory: str) -> SpikedModel:
        """Return the features at a finite dimension: step_size_regimes section 9."""
        from giantstep.families.one_step.model import SpikedModel

        zeta, pi = second_layer_law(scenario)
        c1, g1 = scenario.activation.hermite(1)[1], scenario.target.hermite(1)[1]
        eta = self.size(points)
        per_root_width = zeta / np.sqrt(points["width_per_dim"] * points["dim"])[:, None]
        e = eta[:, None] * per_root_width
        ones = np.ones_like(e)
        # eta b, at least its aligned part: `errors` flags shorter spikes
        length = np.sqrt(np.maximum(spike_power(scenario, points, eta), (eta * g1) ** 2))
        gamma = np.where(length > 0, np.clip(eta * g1 / np.where(length > 0, length, 1.0), -1, 1), 1.0)
        s = ones
        if theory == "isotropic":  # what the rank-one part leaves out, as an isotropic remainder
            fluctuation = residual_power(scenario, points) / points["step.batch_per_dim"]
            s = np.sqrt(1 + e**2 * fluctuation[:, None] * slope_variance(scenario.activation))
        u = c1 * length[:, None] * per_root_width
        return SpikedModel(pi, u, s, gamma, points["noise"], ones, 0 * ones, stretched=True)

    def closed_form(self, scenario: OneStep, what: str) -> ClosedForm | None:
        """Return the formula of a fit on the gradient's own sample, or of the spikes of weights and features."""
        from giantstep.families.one_step.answers.same_sample import same_sample_errors
        from giantstep.families.one_step.answers.spikes import answer_spikes
        from giantstep.families.one_step.answers.weights import answer_weights

        if scenario.fit_sample == "same":
            return partial(same_sample_errors, self)
        return {"weights": partial(answer_weights, self), "spikes": partial(answer_spikes, self)}.get(what)

    def errors(self, scenario: OneStep, points: Points, models: Models, read_out: ReadOut) -> Answer:
        """Answer points without a dimension by their closed form, the others by the read-out of their features."""
        from giantstep.families.one_step.answers.gather import Gatherer
        from giantstep.families.one_step.answers.staircase import closed_form_errors

        bare = np.isinf(points["dim"])
        gatherer = Gatherer(len(bare))
        for index in (np.flatnonzero(bare), np.flatnonzero(~bare)):
            inside = take_points(points, index)
            if index.size and bare[index[0]]:
                gatherer.put_answer(index, closed_form_errors(self, scenario, inside))
            elif index.size:
                answer = read_out(inside, [(models[0][0], np.arange(len(index)))])
                self._withdraw(answer, scenario, inside)
                gatherer.put_answer(index, answer)
        return gatherer.answer()

    def _withdraw(self, answer: Answer, scenario: OneStep, points: Points) -> None:
        """Take back what the features do not say: spikes too short, and single rows where the spike depends on them.

        With initial_output = 1 the independent spike of the equations is equal to the real one in law only.
        """
        correlated = points["step.initial_output"] == 1
        for name in _OF_ROWS:
            values = answer.values[name]
            answer.values[name] = np.where(correlated.reshape((-1,) + (1,) * (values.ndim - 1)), np.nan, values)
        eta = self.size(points)
        aligned = (eta * scenario.target.hermite(1)[1]) ** 2
        short = spike_power(scenario, points, eta) < aligned * (1 - 1e-12)
        answer.status = np.where(short, SHORT_SPIKE, answer.status)

    # -- the experiment --------------------------------------------------------------------------------------------

    def move(self, scenario: OneStep, point: Points, start: Start) -> Moved:
        """Follow the gradient, or its rank-one part c1 zeta_i beta."""
        rows, xp = start.network.weights, start.draws.xp
        size = start.second_layer * (self.size(point)[0] / math.sqrt(len(rows)))
        gradient, beta = self._gradient(scenario, point, start)
        c1 = float(scenario.activation.hermite(1)[1])
        if self.update == "rank-one":
            gradient = xp.broadcast_to(c1 * beta, rows.shape)
        weights = rows + size[:, None] * gradient
        bulk = weights - (c1 * size)[:, None] * beta
        return Moved(weights, bulk, spike_directions(beta, xp))

    def _gradient(self, scenario: OneStep, point: Points, start: Start) -> tuple[DeviceArray, DeviceArray]:
        """Return the gradient (p, d) over zeta_i/sqrt(p), and beta."""
        from giantstep.lab.network import batch_gradient
        from giantstep.lab.population_gradient import population_gradient

        activation, target, rows = scenario.activation, scenario.target, start.network.weights
        p, d = rows.shape
        fed_back = float(point["step.initial_output"][0]) == 1
        output = start.second_layer * math.sqrt(p) if fed_back else 0 * start.second_layer  # the gradient divides by p
        zeta, pi = second_layer_law(scenario)
        offset = 0.0 if fed_back else float(activation.hermite(0)[0] * np.sum(pi * zeta))
        batch = float(point["step.batch_per_dim"][0])
        if math.isfinite(batch):
            return batch_gradient(start.network, output, max(1, round(batch * d)), start.draws, offset=offset)
        gradient = population_gradient(activation, target, rows, output, start.draws.xp)
        gradient -= offset * math.sqrt(2) * float(activation.hermite(2)[2]) * rows
        beta = -float(activation.hermite(1)[1]) * (output @ rows) / p
        beta[0] += float(target.hermite(1)[1])
        return gradient, beta


class SmallStep(WeakStep):
    """One gradient step of size eta_raw = rate * sqrt(p): a finite spike, nothing non-linear is learnt.

    w_i = w0_i + (rate/sqrt(p)) zeta_i (1/n0) sum_mu r_mu sigma'(<w0_i, x_mu>) x_mu. The residual r is y - m with
    ``initial_output=0`` (the output starts at the constant m) and y - sum_j zeta_j sigma(<w_j, x>)/sqrt(p) with 1.
    ``update="rank-one"`` keeps the part c1 zeta_i X0^T r/n0 of the gradient only.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu(z) - 1/sqrt(2*pi)", target="z", width_per_dim=2.0, samples_per_dim=4.0,
    ...                ridge=0.2, second_layer="gaussian", step=SmallStep(rate=1.0, batch_per_dim=4.0))
    >>> bool(gs.predict(s).test_error < gs.predict(s, step__rate=0.0).test_error)
    True
    """

    if TYPE_CHECKING:

        def __init__(
            self, rate: float, batch_per_dim: float = ..., update: str = ..., initial_output: int = ...
        ) -> None: ...

    kind: Literal["small"] = "small"
    rate: Number = field("eta", "step size over the root of the width: eta_raw = rate * sqrt(p)")
    batch_per_dim: Number = field(
        "n0/d", "samples of the gradient per dimension", default=math.inf, gt=0, infinite=True
    )
    update: Literal["exact", "rank-one"] = field("update", "the whole gradient, or its rank-one part", default="exact")
    initial_output: Integer = field(
        "f0", "0: the output starts at a constant; 1: at a.sigma(Wx)", default=0, ge=0, le=1
    )

    def size(self, points: Points) -> Floats:
        """Return eta = rate."""
        return points["step.rate"]

    def spike_degrees(self, points: Points) -> Integers:
        """Return 0: no spike of the features diverges."""
        return np.zeros(len(points["ridge"]), dtype=np.int64)


class GrowingStep(WeakStep):
    """One gradient step of size eta_raw = rate * n0^exponent * sqrt(p): polynomial spikes appear one after the other.

    As `SmallStep`, with rate * n0^exponent in place of rate. Degree k of the learnt direction is fitted once the
    exponent passes (k-1)/(2k).

    >>> import giantstep as gs
    >>> step = GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=4.0, update="rank-one")
    >>> s = gs.OneStep(activation="relu(z) - 1/sqrt(2*pi)", target="h1(z) + h2(z)/sqrt(2)", width_per_dim=2.0,
    ...                samples_per_dim=4.0, ridge=0.2, second_layer="gaussian", step=step)
    >>> gs.predict(s, step__exponent=[0.1, 0.3, 0.38]).test_error.values.round(3)  # the plateaus of the stairs
    array([1.34 , 0.976, 0.94 ])
    """

    if TYPE_CHECKING:

        def __init__(
            self, rate: float, exponent: float, batch_per_dim: float, update: str = ..., initial_output: int = ...
        ) -> None: ...

    kind: Literal["growing"] = "growing"
    rate: Number = field("eta/n0^alpha", "step size: eta_raw = rate * n0^exponent * sqrt(p)")
    exponent: Number = field("alpha", "growth of the step with the batch", ge=0, lt=0.5)
    batch_per_dim: Number = field("n0/d", "samples of the gradient per dimension", gt=0)
    update: Literal["exact", "rank-one"] = field("update", "the whole gradient, or its rank-one part", default="exact")
    initial_output: Integer = field(
        "f0", "0: the output starts at a constant; 1: at a.sigma(Wx)", default=0, ge=0, le=1
    )

    def check_dimension(self, points: Points, what: str) -> None:
        """Refuse questions about the spikes where no dimension is given."""
        super().check_dimension(points, what)
        if what in ("weights", "spikes") and np.any(np.isinf(points["dim"])):
            raise InputError(
                f'Field `dim` must be given for what="{what}" after a GrowingStep: its spikes grow with the dimension.'
            )

    def size(self, points: Points) -> Floats:
        """Return eta = rate n0^exponent."""
        return points["step.rate"] * (points["step.batch_per_dim"] * points["dim"]) ** points["step.exponent"]

    def spike_degrees(self, points: Points) -> Integers:
        """Return l with (l-1)/(2l) < exponent < l/(2l+2): step_size_regimes section 7."""
        exponent = points["step.exponent"]
        stairs = 1 / (1 - 2 * exponent)
        boundary = np.abs(stairs - np.round(stairs)) < 1e-9
        if boundary.any():
            allowed = "off the boundaries (l-1)/(2l) of the regimes (0 is a SmallStep), unless dim is given"
            raise bad_field("step.exponent", exponent[boundary][0], allowed)
        return np.floor(stairs).astype(np.int64)


def residual_power(scenario: OneStep, points: Points) -> Floats:
    """Return E r^2 of the residuals r of the gradient: step_size_regimes (2a)."""
    zeta, pi = second_layer_law(scenario)
    power = scenario.target.second_moment(np.zeros(1), np.ones(1))[0] + points["noise"]
    c0 = scenario.activation.hermite(0)[0]
    m = c0 * np.sum(pi * zeta)
    constant = power - 2 * scenario.target.hermite(0)[0] * m + m**2
    variance = scenario.activation.second_moment(np.zeros(1), np.ones(1))[0]
    return np.where(points["step.initial_output"] == 1, power + variance, constant)


def spike_power(scenario: OneStep, points: Points, eta: Floats) -> Floats:
    """Return eta^2 b^2, b the length of beta as the equations see it: step_size_regimes (2a).

    With initial_output = 1, beta is correlated with W0; in law it is an independent one of a shifted length, which may
    be shorter than its aligned part, or even negative: b^2 = g1^2 + E r^2 d/n0 + c1^2 - 2/eta.
    """
    c1, g1 = scenario.activation.hermite(1)[1], scenario.target.hermite(1)[1]
    f0 = points["step.initial_output"]
    plain = g1**2 + residual_power(scenario, points) / points["step.batch_per_dim"]
    return eta**2 * (plain + f0 * c1**2) - 2 * f0 * eta


def spike_length(scenario: OneStep, points: Points, eta: Floats) -> Floats:
    """Return b^2 itself, for eta different from 0."""
    return spike_power(scenario, points, eta) / eta**2
